//! What people here do, told to other servers.
//!
//! ```text
//! Distribute (a unit) --> one payload, one Deliver for each inbox --> Redeliver, for a week
//! ```
//!
//! The activity is written once; its recipients' inboxes are found by visibility, each shared
//! inbox once. The first try goes with what came in; what failed waits in a queue of its own, so
//! that it never stands before what is new.

mod compose;
mod deliver;
mod distribute;
mod forward;
mod payloads;
mod peers;
mod send;

use std::sync::Arc;

use weir_community::Community;
use weir_community::federation::{Distribute, Forward};
use weir_db::Tx;
use weir_jobs::{Claimed, Outcome, Registry};

use crate::ActivityPub;
pub use deliver::{Deliver, Redeliver};
pub(crate) use payloads::Payloads;
pub use payloads::PrunePayloads;
pub(crate) use peers::Peers;

/// How often what was never settled is looked for, in ms.
const PRUNE_EVERY_MS: i64 = 60 * 60 * 1_000;

/// What deliveries share.
pub(crate) struct Outbound {
    pub payloads: Arc<Payloads>,
    pub peers: Peers,
}

impl Outbound {
    pub(crate) fn new(community: &Community) -> Self {
        Self {
            payloads: Arc::new(Payloads::new(community.clone())),
            peers: Peers::new(community.clone()),
        }
    }
}

/// Registers the jobs that tell other servers.
pub(crate) fn register(registry: &mut Registry, face: &ActivityPub) {
    let (preparing, env) = (face.clone(), face.community().env().clone());
    registry.unit(
        move |jobs: Vec<Claimed<Distribute>>| distribute::prepare(preparing.clone(), jobs),
        move |tx: &mut Tx, plans: &[distribute::Plan]| {
            plans.iter().map(|plan| distribute::write(tx, &env, plan)).collect()
        },
    );
    let (preparing, env) = (face.clone(), face.community().env().clone());
    registry.unit(
        move |jobs: Vec<Claimed<Forward>>| forward::prepare(preparing.clone(), jobs),
        move |tx: &mut Tx, plans: &[forward::Plan]| {
            plans.iter().map(|plan| forward::write(tx, &env, plan)).collect()
        },
    );
    let first = face.clone();
    registry.task(move |claim: Claimed<Deliver>| deliver::first(first.clone(), claim));
    let again = face.clone();
    registry.task(move |claim: Claimed<Redeliver>| deliver::again(again.clone(), claim));
    let env = face.community().env().clone();
    registry.simple_unit(move |tx: &mut Tx, jobs: &[Claimed<PrunePayloads>]| {
        payloads::prune(tx, env.clock.now())?;
        Ok(vec![Outcome::Done; jobs.len()])
    });
    registry.periodic("prune_payloads", PRUNE_EVERY_MS, || PrunePayloads);
}
