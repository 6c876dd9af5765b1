//! Bodies of deliveries, stored once for all inboxes.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_base::{Id, MIB};
use weir_community::federation::outgoing::{self, Body};
use weir_community::{Community, Env, Error, done_or_retry};
use weir_db::{Class, Tx};
use weir_jobs::{Claimed, Job, Outcome, Prepared, Queue};

/// Bodies held ready, in bytes.
const READY_BYTES_MAX: u64 = 16 * MIB as u64;
/// What a body that is held takes besides its text, about, in bytes.
const READY_BYTES_MORE: usize = 448;
/// How long a body is held that nobody asks for, while others are: first tries are over by then,
/// but for those of servers that let all wait.
const READY_IDLE: Duration = Duration::from_secs(60);

/// A body, and whose it is.
#[derive(Debug)]
pub struct Payload {
    /// Who signs it.
    pub by: Id,
    /// The activity.
    pub body: bytes::Bytes,
    /// Whether it is another server's message that is only passed on: who does not believe that
    /// is not asked again.
    pub passed_on: bool,
}

/// Bodies in memory.
pub struct Payloads {
    community: Community,
    ready: moka::future::Cache<Id, Option<Arc<Payload>>>,
}

impl Payloads {
    pub(super) fn new(community: Community) -> Self {
        let weight = |payload: &Option<Arc<Payload>>| {
            READY_BYTES_MORE + payload.as_ref().map_or(0, |it| it.body.len())
        };
        let ready = moka::future::Cache::builder()
            .max_capacity(READY_BYTES_MAX)
            .weigher(move |_, payload| u32::try_from(weight(payload)).unwrap_or(u32::MAX))
            .time_to_idle(READY_IDLE)
            .build();
        Self { community, ready }
    }

    /// What the bodies in memory take, about, in bytes.
    pub fn held_bytes(&self) -> u64 {
        self.ready.weighted_size()
    }

    /// A body; none when nothing waits for it any more. Read once, however many ask.
    ///
    /// # Errors
    /// The database's.
    pub async fn get(&self, id: Id) -> Result<Option<Arc<Payload>>, Arc<Error>> {
        let read = async {
            let unit = move |tx: &mut Tx, _: &_| outgoing::body(tx, id);
            let body = self.community.read(Class::Outbound, unit).await?;
            Ok(body.map(|Body { by, text, passed_on }| {
                Arc::new(Payload { by, body: text.into(), passed_on })
            }))
        };
        self.ready.try_get_with(id, read).await
    }
}

/// The job that gives up what was tried for a week, and removes bodies that nothing waits for.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct PrunePayloads {
    /// Bodies up to this one were looked at.
    #[serde(default)]
    after: Id,
}

impl Job for PrunePayloads {
    const KIND: &'static str = "prune_payloads";
    const QUEUE: Queue = Queue::new("prune_payloads", Class::Housekeeping);
}

/// Bodies that nothing waits for, and the last that was looked at if there may be more.
pub struct Idle {
    bodies: Vec<Id>,
    last: Option<Id>,
}

/// Finds bodies that nothing waits for.
pub async fn prepare(
    community: Community,
    jobs: Vec<Claimed<PrunePayloads>>,
) -> Vec<Prepared<Idle>> {
    let mut prepared = Vec::with_capacity(jobs.len());
    for Claimed { job: PrunePayloads { after }, .. } in jobs {
        let unit = move |tx: &mut Tx, _: &_| outgoing::idle_bodies(tx, after);
        prepared.push(match community.read(Class::Housekeeping, unit).await {
            Ok((bodies, last)) => Prepared::Run(Idle { bodies, last }),
            Err(error) => Prepared::Not(Outcome::retry(error)),
        });
    }
    prepared
}

/// Removes them, for as long as a unit may take, and goes on with the rest in another.
///
/// # Errors
/// The database's.
pub fn prune(tx: &mut Tx, env: &Env, found: &[Idle]) -> Result<Vec<Outcome>, weir_db::Error> {
    let mut outcomes = Vec::with_capacity(found.len());
    for Idle { bodies, last } in found {
        let step = (|| {
            let rest = outgoing::forget_bodies(tx, bodies)?;
            let more = outgoing::prune(tx, env)?;
            let after = rest.or(*last).or(more.then_some(Id::MAX));
            if let Some(after) = after {
                env.jobs.enqueue(tx, &PrunePayloads { after })?;
            }
            Ok(())
        })();
        outcomes.push(done_or_retry(step)?);
    }
    Ok(outcomes)
}
