//! The inbox: the door that decides at once, and the work behind it.
//!
//! - To a person who is not here: 404, or 410 where they were.
//! - Too large, no JSON, bad digest or date, speaks for others, blocked: 400, 401, 403 or 413 at
//!   once.
//! - Known key and good signature: a durable job in the lane of its server, 202.
//! - Known key and bad signature: as if it were unknown, for the key may have been renewed over
//!   there; 401 where it was fetched lately, or where this source forged too often.
//! - Unknown key: a durable job in a bounded queue, with a lane for each server and source, 202;
//!   the signature is verified before it has any effect. A farewell of somebody who is known here:
//!   their server is asked; of anybody else: nothing, 202.
//! - Handed on by another server than its author's: the origin is asked in the background, and its
//!   answer alone has an effect; 202, or 401 where who hands it on is not known here or its
//!   signature does not fit.
//! - Too much waits: 429 or 503 with `Retry-After`.

mod again;
mod backlog;
mod bodies;
mod callers;
mod compact;
mod crowd;
mod door;
mod full;
mod hearsay;
mod look_up;
mod meet;
mod pace;
mod people;
mod seen;
mod sources;
mod unknown;
mod work;

pub use full::{FreeDisk, InboxLimits};
pub use look_up::LookUp;
pub use unknown::{RefetchKey, Unverified};
pub use work::{Inbound, Late};

use std::sync::Arc;

use axum::Router;
use axum::routing::post;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use weir_community::{Community, Env, Error};
use weir_db::{Class, Tx};
use weir_jobs::{Jobs, Registry};

use crate::gather::Gather;
use crate::{ActivityPub, Signer};
use backlog::Backlog;
use bodies::Bodies;
use callers::Callers;
use full::Full;
use meet::Meetings;
use people::People;
use seen::Seen;
use sources::Sources;

/// Has people read what a message says, where it waits.
pub(crate) fn make_readable(jobs: &Jobs) {
    jobs.make_readable::<Inbound>(compact::readable);
    jobs.make_readable::<Late>(compact::readable);
    jobs.make_readable::<Unverified>(compact::readable);
    jobs.make_readable::<LookUp>(compact::readable);
}

/// What the door remembers.
pub(crate) struct Inbox {
    seen: Seen,
    people: People,
    full: Mutex<Full>,
    pub(crate) sources: Sources,
    meetings: Arc<Meetings>,
    admitted: Gather<Admitted>,
    keys: Gather<String, Option<Arc<Signer>>>,
    /// Whether messages of known senders are behind, and ready ones of unknown senders.
    backlog: Backlog,
    strangers: Backlog,
    bodies: Arc<Bodies>,
    callers: Arc<Callers>,
    /// Where messages are judged.
    door: Handle,
}

impl Inbox {
    pub(crate) fn new(limits: InboxLimits, free_disk: FreeDisk, door: Handle) -> Self {
        Self {
            seen: Seen::default(),
            people: People::default(),
            full: Mutex::new(Full::new(limits, free_disk)),
            sources: Sources::default(),
            meetings: Arc::default(),
            admitted: Gather::new(enqueue),
            keys: Gather::new(seen::owners),
            backlog: Backlog::default(),
            strangers: Backlog::default(),
            bodies: Arc::new(Bodies::new(limits.bodies_bytes_max)),
            callers: Arc::default(),
            door,
        }
    }

    /// What is held in memory, by the names of the metrics.
    pub(crate) fn held(&self) -> [(&'static str, u64); 8] {
        let [messages, renewals] = self.seen.held();
        let [forgers, nameless] = self.sources.held();
        let [ends, places, again_bytes] = self.meetings.held();
        [
            ("weir_activitypub_messages_held", messages),
            ("weir_activitypub_renewals_held", renewals),
            ("weir_activitypub_residents_held", self.people.held()),
            ("weir_activitypub_forgers_held", forgers),
            ("weir_activitypub_nameless_held", nameless),
            ("weir_activitypub_ends_held", ends),
            ("weir_activitypub_places_held", places),
            ("weir_activitypub_again_held_bytes", again_bytes),
        ]
    }

    /// Where messages are judged, and what goes on as long as the face is there.
    pub(crate) fn door(&self) -> &Handle {
        &self.door
    }
}

/// A message that the door let in, by where it waits.
enum Admitted {
    Known(Inbound),
    Late(Late),
    /// It is seldom worked at once, so it is not kept in hand.
    Unknown(Unverified),
}

/// Makes messages durable, in one transaction whatever they wait for. They are packed here, so that
/// the thread which writes does nothing else.
fn enqueue(
    community: &Community,
    admitted: Vec<Admitted>,
) -> BoxFuture<'_, Result<Vec<()>, Error>> {
    async move {
        let count = admitted.len();
        metrics::histogram!("weir_activitypub_inbox_group").record(count as f64);
        let (mut known, mut late, mut unknown) = (Vec::new(), Vec::new(), Vec::new());
        for one in admitted {
            match one {
                Admitted::Known(one) => known.push(one),
                Admitted::Late(one) => late.push(one),
                Admitted::Unknown(one) => unknown.push(one),
            }
        }
        let jobs = &community.env().jobs;
        let mut known = jobs.pack_in_hand(known)?;
        let mut late = jobs.pack_in_hand(late)?;
        let mut unknown = jobs.pack(&unknown)?;
        let write = move |tx: &mut Tx, env: &Env| {
            env.jobs.enqueue_packed(tx, &mut known)?;
            env.jobs.enqueue_packed(tx, &mut late)?;
            env.jobs.enqueue_packed(tx, &mut unknown)?;
            Ok(vec![(); count])
        };
        community.write(Class::Inbound, write).await
    }
    .boxed()
}

/// The inboxes.
pub(crate) fn router() -> Router<ActivityPub> {
    Router::new()
        .route("/inbox", post(door::receive))
        .route("/actor/inbox", post(door::receive))
        .route("/ap/users/{account}/inbox", post(door::receive_for))
        .route("/users/{account}/inbox", post(door::receive_for))
}

/// Registers the jobs behind the door.
pub(crate) fn register(registry: &mut Registry, face: &ActivityPub) {
    work::register(registry, face);
    backlog::register(registry, face);
    unknown::register(registry, face);
    hearsay::register(registry, face);
    look_up::register(registry, face);
    face.look_after_patient();
    face.look_after_strangers();
}
