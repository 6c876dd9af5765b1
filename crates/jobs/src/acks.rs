//! The ends of tasks, written in groups.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use weir_db::{Class, Error};

use crate::directory::QueueState;
use crate::dispatch::AGAIN_AFTER;
use crate::endings::{Ending, record};
use crate::jobs::Inner;
use crate::rows::{self, Claim};
use crate::{Outcome, Retry};

/// Ends that may wait to be written; tasks that end beyond them wait.
pub(crate) const WAITING_MAX: usize = 20_000;
/// Ends of one transaction.
const GROUP_MAX: usize = 500;
/// How long the first of a group waits for others. With the commit this stays below the 50 ms
/// after which an end is durable.
const LINGER: Duration = Duration::from_millis(10);

/// The end of a task.
pub(crate) struct Ack {
    pub(crate) state: Arc<QueueState>,
    pub(crate) class: Class,
    pub(crate) claim: Arc<Claim>,
    pub(crate) retry: Retry,
    pub(crate) outcome: Outcome,
}

/// Writes what comes, until all senders are gone. While the database is away it asks again, until
/// `cut`.
pub(crate) async fn run(inner: Arc<Inner>, mut acks: mpsc::Receiver<Ack>, cut: CancellationToken) {
    let mut group = Vec::new();
    while acks.recv_many(&mut group, GROUP_MAX).await > 0 {
        if group.len() < GROUP_MAX && !acks.is_closed() {
            tokio::time::sleep(LINGER).await;
            while group.len() < GROUP_MAX
                && let Ok(ack) = acks.try_recv()
            {
                group.push(ack);
            }
        }
        let mut queues: BTreeMap<Arc<str>, Vec<Ack>> = BTreeMap::new();
        for ack in group.drain(..) {
            queues.entry(ack.state.name.clone()).or_default().push(ack);
        }
        for (_, acks) in queues {
            write(&inner, Arc::new(acks), &cut).await;
        }
    }
}

async fn write(inner: &Arc<Inner>, acks: Arc<Vec<Ack>>, cut: &CancellationToken) {
    loop {
        let error = match commit(inner, acks.clone()).await {
            Ok(()) => return,
            Err(error) => error,
        };
        if error.is_passing() && !cut.is_cancelled() {
            tracing::warn!(%error, count = acks.len(), "ends of jobs cannot be written yet");
            tokio::time::sleep(AGAIN_AFTER).await;
            continue;
        }
        // Nothing that a repeat would mend: the jobs run again at the next start.
        metrics::counter!("weir_jobs_unacknowledged_total").increment(acks.len() as u64);
        tracing::error!(%error, count = acks.len(), "ends of jobs were not written");
        return;
    }
}

/// All of `acks`, which are of one queue, in one transaction.
async fn commit(inner: &Arc<Inner>, acks: Arc<Vec<Ack>>) -> Result<(), Error> {
    let Some((class, state)) = acks.first().map(|ack| (ack.class, ack.state.clone())) else {
        return Ok(());
    };
    let shared = inner.clone();
    inner
        .db
        .write(class, move |tx| {
            let claims = acks.iter().map(|ack| &*ack.claim);
            let removed = rows::remove(tx, &state.name, claims)?;
            let endings = (acks.iter())
                .filter(|ack| removed.has(ack.claim.id))
                .map(|ack| Ending {
                    claim: &ack.claim,
                    retry: ack.retry,
                    outcome: ack.outcome.clone(),
                })
                .collect();
            record(tx, &shared, &state, removed, endings)
        })
        .await
}
