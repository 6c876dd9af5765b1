//! The ends of tasks, written in groups.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio::sync::{Mutex, mpsc};
use tokio_util::sync::CancellationToken;
use weir_db::{Class, Error};

use crate::Outcome;
use crate::directory::QueueState;
use crate::dispatch::{AGAIN_AFTER, Worker};
use crate::endings::{Ending, Terms, record};
use crate::jobs::Inner;
use crate::rows::{self, Claim};

/// Handed-over lists that may wait to be written; tasks that end beyond them wait.
pub(crate) const WAITING_MAX: usize = 64;
/// Writers: while one group is written the next is gathered.
pub(crate) const WRITERS: usize = 2;
/// A group of so many is written at once.
const GROUP_MIN: usize = 1_000;
/// Ends of one group, about.
const GROUP_MAX: usize = 4_000;
/// Ends of one unit of work: about a quarter of a millisecond of the writer, for which somebody who
/// is more urgent has to wait.
const UNIT_ENDS: usize = 384;
/// How long the first of a group waits for others. With the commit this stays below the 50 ms
/// after which an end is durable.
const LINGER: Duration = Duration::from_millis(10);

/// How a task ended.
pub(crate) struct Ended {
    pub(crate) claim: Claim,
    pub(crate) outcome: Outcome,
}

/// Ends of tasks of one kind.
pub(crate) struct Acks {
    state: Arc<QueueState>,
    class: Class,
    terms: Terms,
    ended: Vec<Ended>,
    /// Not later than the first of them ended.
    since: Instant,
}

impl Acks {
    /// `ended` within `took` of now.
    pub(crate) fn new(worker: &Worker, terms: Terms, ended: Vec<Ended>, took: Duration) -> Self {
        let (state, class) = (worker.state.clone(), worker.queue.class);
        let now = Instant::now();
        Self { state, class, terms, ended, since: now.checked_sub(took).unwrap_or(now) }
    }
}

/// What the writers share.
pub(crate) type Waiting = Arc<Mutex<mpsc::Receiver<Acks>>>;

/// Writes what comes, until all senders are gone. While the database is away it asks again, until
/// `cut`.
pub(crate) async fn run(inner: Arc<Inner>, waiting: Waiting, cut: CancellationToken) {
    // Seen as nothing, rather than not at all.
    metrics::counter!("weir_jobs_unacknowledged_total").increment(0);
    loop {
        let group = gather(&waiting).await;
        if group.is_empty() {
            return;
        }
        let mut queues: BTreeMap<Arc<str>, Vec<Acks>> = BTreeMap::new();
        for acks in group {
            queues.entry(acks.state.name.clone()).or_default().push(acks);
        }
        let units = queues.into_values().flat_map(units);
        join_all(units.map(|acks| write(&inner, acks, &cut))).await;
    }
}

/// The next group; empty when nothing will come any more.
async fn gather(waiting: &Waiting) -> Vec<Acks> {
    let mut waiting = waiting.lock().await;
    let mut group = Vec::new();
    let mut count = 0;
    let Some(first) = waiting.recv().await else { return group };
    let mut add = |acks: Acks| {
        count += acks.ended.len();
        group.push(acks);
        count
    };
    let mut so_far = add(first);
    let due = tokio::time::Instant::now() + LINGER;
    while so_far < GROUP_MIN
        && let Ok(Some(acks)) = tokio::time::timeout_at(due, waiting.recv()).await
    {
        so_far = add(acks);
    }
    while so_far < GROUP_MAX
        && let Ok(acks) = waiting.try_recv()
    {
        so_far = add(acks);
    }
    group
}

/// Parts of a group that are written at once, in one commit if nobody more urgent comes between.
fn units(acks: Vec<Acks>) -> Vec<Arc<Vec<Acks>>> {
    let mut units = Vec::new();
    let (mut unit, mut count) = (Vec::new(), 0);
    for acks in acks {
        count += acks.ended.len();
        unit.push(acks);
        if count >= UNIT_ENDS {
            units.push(Arc::new(std::mem::take(&mut unit)));
            count = 0;
        }
    }
    if !unit.is_empty() {
        units.push(Arc::new(unit));
    }
    units
}

async fn write(inner: &Arc<Inner>, acks: Arc<Vec<Acks>>, cut: &CancellationToken) {
    let count: usize = acks.iter().map(|acks| acks.ended.len()).sum();
    loop {
        let error = match commit(inner, acks.clone()).await {
            Ok(()) => return,
            Err(error) => error,
        };
        if error.is_passing() && !cut.is_cancelled() {
            inner.outage.failed("ends of jobs cannot be written yet", &error);
            tokio::time::sleep(AGAIN_AFTER).await;
            continue;
        }
        // Nothing that a repeat would mend: the jobs run again at the next start.
        metrics::counter!("weir_jobs_unacknowledged_total").increment(count as u64);
        tracing::error!(%error, count, "ends of jobs were not written");
        return;
    }
}

/// All of `acks`, which are of one queue, in one transaction.
async fn commit(inner: &Arc<Inner>, acks: Arc<Vec<Acks>>) -> Result<(), Error> {
    let Some(first) = acks.first() else { return Ok(()) };
    let (class, queue, shared) = (first.class, first.state.clone(), inner.clone());
    let began: Vec<Instant> = acks.iter().map(|acks| acks.since).collect();
    let write = move |tx: &mut weir_db::Tx| -> Result<(), Error> {
        let claims = acks.iter().flat_map(|acks| &acks.ended).map(|ended| &ended.claim);
        let removed = rows::remove(tx, claims, shared.nodes.me())?;
        let mut endings = Vec::new();
        for Acks { terms, ended, .. } in acks.iter() {
            for Ended { claim, outcome } in ended {
                if removed.has(claim.id) {
                    endings.push(Ending { claim, terms: *terms, outcome: outcome.clone() });
                }
            }
        }
        record(tx, &shared, &queue, removed, endings)
    };
    let since = Instant::now();
    inner.db.write(class, write).await?;
    inner.database_times.took(since.elapsed());
    began.iter().for_each(|began| inner.ack_seconds.record(began.elapsed().as_secs_f64()));
    Ok(())
}
