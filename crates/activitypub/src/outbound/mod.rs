//! What people here do, told to other servers.
//!
//! ```text
//! Distribute (a unit) ──▶ one body, a row for each inbox, one or two Deliver for each host
//!                              │                               │ what was not taken
//!                              └──▶ hosts that do not answer ──┴──▶ one Redeliver a host
//! ```
//!
//! The activity is written once; its recipients' inboxes are found by visibility, each shared
//! inbox once. The first try goes with what came in; what failed waits for its host, in a queue of
//! its own, so that it never stands before what is new. What others wrote and is passed on has one
//! as well, and gives way. A host that does not answer is asked with
//! one delivery at a time, at ever longer distances; all else for it waits in its rows, without a
//! job.

mod compose;
mod deliver;
mod distribute;
mod forward;
mod patience;
mod payloads;
mod peers;
mod redeliver;
mod round;
mod send;
mod ship;
mod signer;
mod subject;
mod totals;

use weir_base::Timestamp;
use weir_community::federation::{Distribute, Forward};
use weir_community::{Community, Env, Error};
use weir_db::{Class, Tx};
use weir_jobs::{Claimed, Job, Registry};

use crate::ActivityPub;
use crate::gather::Gather;
pub use deliver::{Deliver, DeliverPassedOn, DeliverRest};
use patience::Patience;
pub(crate) use payloads::Payloads;
pub use payloads::PrunePayloads;
pub(crate) use peers::Peers;
pub use redeliver::{Redeliver, retry_host};
use signer::Signer;

/// What is said of deliveries to servers that staff blocked.
const BLOCKED: &str = "the server is blocked";
/// How often what was never settled is looked for, in ms.
const PRUNE_EVERY_MS: i64 = 60 * 60 * 1_000;

/// What deliveries share.
pub(crate) struct Outbound {
    pub payloads: Payloads,
    pub peers: Peers,
    pub signer: Signer,
    /// What was taken, on its way to the disk.
    taken: Gather<round::Taken>,
    /// First tries that wait long, the same but for the first inboxes of hosts, of what is passed
    /// on, and further tries.
    first: Patience,
    rest: Patience,
    passed_on: Patience,
    again: Patience,
    /// What was seen lately of how much waits for servers that are behind.
    crowds: forward::Crowds,
    /// What was enqueued before may have been tried already.
    pub started_at: Timestamp,
}

impl Outbound {
    pub(crate) fn new(community: &Community) -> Self {
        Self {
            payloads: Payloads::new(community.clone()),
            peers: Peers::new(community.clone()),
            signer: Signer::new(),
            taken: Gather::new(round::write_taken),
            first: Patience::new(deliver::WAITED_FOR_MAX),
            rest: Patience::new(deliver::WAITED_FOR_MAX),
            passed_on: Patience::new(deliver::WAITED_FOR_MAX),
            again: Patience::new(redeliver::WAITED_FOR_MAX),
            crowds: forward::Crowds::new(),
            started_at: community.env().clock.now(),
        }
    }
}

impl ActivityPub {
    /// A valid message came from `host`: if that did not answer before, it is asked again.
    pub(crate) fn heard_from(&self, host: &str) {
        if !self.outbound().peers.heard(host) {
            return;
        }
        let (face, host) = (self.clone(), host.to_owned());
        tokio::spawn(async move {
            if let Err(error) = face.ask_if_failing(host).await {
                tracing::warn!(%error, "a server that is back is not asked yet");
            }
        });
    }

    async fn ask_if_failing(&self, host: String) -> Result<(), Error> {
        if self.outbound().peers.look(&host).await?.failing_until().is_none() {
            return Ok(());
        }
        let unit = move |tx: &mut Tx, env: &Env| retry_host(tx, env, &host).map(|_| ());
        self.community().write(Class::Outbound, unit).await
    }
}

/// Registers the jobs that tell other servers.
pub(crate) fn register(registry: &mut Registry, face: &ActivityPub) {
    let (preparing, env) = (face.clone(), face.community().env().clone());
    registry.unit(
        move |jobs: Vec<Claimed<Distribute>>| distribute::prepare(preparing.clone(), jobs),
        move |tx: &mut Tx, plans: &[distribute::Plan]| distribute::write(tx, &env, plans),
    );
    let (preparing, env) = (face.clone(), face.community().env().clone());
    registry.unit(
        move |jobs: Vec<Claimed<Forward>>| forward::prepare(preparing.clone(), jobs),
        move |tx: &mut Tx, plans: &[forward::Plan]| forward::write(tx, &env, plans),
    );
    for queue in [Deliver::QUEUE, DeliverRest::QUEUE, DeliverPassedOn::QUEUE] {
        let feeds = face.community().env().feeds.clone();
        registry.favour(queue, move |host| feeds.is_followed_host(host));
    }
    let first = face.clone();
    registry.task(move |claim: Claimed<Deliver>| deliver::first(first.clone(), claim));
    let rest = face.clone();
    registry.task(move |claim: Claimed<DeliverRest>| deliver::rest(rest.clone(), claim));
    let passed_on = face.clone();
    registry
        .task(move |claim: Claimed<DeliverPassedOn>| deliver::passed_on(passed_on.clone(), claim));
    let again = face.clone();
    registry.task(move |claim: Claimed<Redeliver>| redeliver::again(again.clone(), claim));
    let (preparing, env) = (face.community().clone(), face.community().env().clone());
    registry.unit(
        move |jobs: Vec<Claimed<PrunePayloads>>| payloads::prepare(preparing.clone(), jobs),
        move |tx: &mut Tx, found: &[payloads::Idle]| payloads::prune(tx, &env, found),
    );
    registry.periodic("prune_payloads", PRUNE_EVERY_MS, PrunePayloads::default);
    face.tell_totals();
}
