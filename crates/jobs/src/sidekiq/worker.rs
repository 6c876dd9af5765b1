//! What a process does with the jobs it holds.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use weir_base::{Id, Timestamp};

use super::acks::Ack;
use super::failures::{self, Judge, Next};
use super::limits::Source;
use super::members;
use super::shared::Shared;
use super::wire::seconds;
use crate::gates::End;
use crate::jobs::Inner;
use crate::registry::{Handler, Run};
use crate::{Breaker, Outcome, Retry, Unique, rows, unique};

/// The wait before Redis or the database is asked again after it failed.
pub(crate) const AGAIN_AFTER: Duration = Duration::from_millis(250);

/// A type of job that is handled here.
pub(crate) struct Known {
    pub(crate) kind: &'static str,
    /// How urgent its work on the database is.
    pub(crate) class: weir_db::Class,
    pub(crate) retry: Retry,
    pub(crate) unique: Unique,
    pub(crate) timeout: Duration,
    pub(crate) run: Run,
}

/// A job that this process holds.
pub(crate) struct Taken {
    pub(crate) number: u64,
    /// Its queue's place among the sources.
    pub(crate) source: usize,
    pub(crate) raw: Vec<u8>,
    pub(crate) at: Timestamp,
}

/// What all parts of the worker know.
pub(crate) struct Core {
    pub(crate) inner: Arc<Inner>,
    pub(crate) shared: Arc<Shared>,
    /// By their `class`.
    pub(crate) known: BTreeMap<&'static str, Arc<Known>>,
    pub(crate) sources: Vec<Source>,
    /// What is held and whose end Redis does not know yet, by number.
    pub(crate) held: Mutex<HashMap<u64, Arc<Taken>>>,
    /// By `jid`, how many processes died that held a job, as far as is known here.
    pub(crate) deaths: Mutex<HashMap<String, u32>>,
    /// The `jid` of what this process found to be poison. Another copy of it, handed over by a
    /// relay that died, is not run either; a program that was mended is another process.
    pub(crate) buried: Mutex<BTreeSet<String>>,
    /// Jobs that have not ended yet.
    pub(crate) running: AtomicU64,
    /// A place became free.
    pub(crate) freed: Notify,
    /// Something may have come into a queue.
    pub(crate) arrived: Notify,
    pub(crate) tally: super::beat::Tally,
    /// Take nothing new.
    pub(crate) stop: CancellationToken,
    /// End what runs.
    pub(crate) cut: CancellationToken,
}

/// What runs jobs.
pub(crate) struct Worker {
    pub(crate) core: Arc<Core>,
    pub(crate) acks: mpsc::Sender<Ack>,
    pub(crate) runs: TaskTracker,
}

impl Known {
    pub(crate) fn new(kind: &'static str, handler: &Handler) -> Self {
        let (class, retry, timeout) = (handler.queue.class, handler.retry, handler.timeout);
        let (unique, run) = (handler.unique, handler.run.clone());
        Self { kind, class, retry, unique, timeout, run }
    }
}

impl Core {
    /// The field of a job in the hash of what is held.
    pub(crate) fn field(&self, taken: &Taken) -> String {
        format!("{} {}", taken.number, self.sources[taken.source].name)
    }

    /// Waits a little while Redis or the database is away, unless it is time to stop.
    pub(crate) async fn pause(&self) {
        tokio::select! {
            () = tokio::time::sleep(AGAIN_AFTER) => {}
            () = self.stop.cancelled() => {}
        }
    }

    /// What follows when `taken` ended with `outcome`.
    pub(crate) fn next(&self, taken: &Taken, retry: Retry, outcome: &Outcome) -> Next {
        let judge = Judge {
            retry,
            now: self.inner.clock.now(),
            random: &self.inner.random,
            times: self.shared.options.times,
        };
        failures::next(&taken.raw, &self.sources[taken.source].name, outcome, &judge)
    }
}

impl Worker {
    /// Hands the end of a job over to be told to Redis; its place becomes free. `member` is its id
    /// if it is a member of a batch that was not told of its end.
    pub(crate) async fn end(
        &self,
        taken: Arc<Taken>,
        kind: &'static str,
        retry: Retry,
        outcome: Outcome,
        took: Duration,
        member: Option<Id>,
    ) {
        let next = self.core.next(&taken, retry, &outcome);
        let failed = outcome.is_failure() || matches!(next, Next::Retry { .. });
        if let Outcome::Retry { reason, .. }
        | Outcome::Down { reason, .. }
        | Outcome::Dead(reason) = &outcome
        {
            let queue = &self.core.sources[taken.source].name;
            tracing::warn!(queue, kind, number = taken.number, reason, "job failed");
        }
        self.core.tally.ended(kind, failed, took);
        let source = taken.source;
        // The receiver goes last of all, after everything that could send.
        let member = member.zip(members::End::of(&next));
        let _ = self.acks.send(Ack { taken, kind, next, failed, member }).await;
        self.free(source);
    }

    /// Puts a job that may not start yet into the schedule, and its place is free.
    pub(crate) async fn postpone(&self, taken: Arc<Taken>, kind: &'static str, at: Timestamp) {
        let next = Next::Later { score: seconds(at), job: taken.raw.clone() };
        let source = taken.source;
        let _ = self.acks.send(Ack { taken, kind, next, failed: false, member: None }).await;
        self.free(source);
    }

    /// Whether a job of `lane` may start now; else not before the moment that is given.
    pub(crate) fn may_start(&self, source: usize, lane: &Arc<str>) -> Result<(), Timestamp> {
        let (inner, queue) = (&self.core.inner, &self.core.sources[source].state);
        let mut turns = queue.turns.lock();
        // Without a key nothing is known of whom it is for.
        if !turns.has_gates() || lane.is_empty() {
            return Ok(());
        }
        turns.at(inner.clock.now().as_ms());
        let is_probing = turns.gate(lane).0 == Breaker::Probing;
        let is_running = is_probing && inner.running.has_lane(&queue.name, lane);
        turns.start_now(lane, is_running).map_err(Timestamp::from_ms)
    }

    /// Tells the breaker of a lane how a job of it ended.
    pub(crate) fn tell_breaker(&self, source: usize, lane: &Arc<str>, outcome: &Outcome) {
        let queue = &self.core.sources[source].state;
        let mut turns = queue.turns.lock();
        if !turns.has_gates() || lane.is_empty() {
            return;
        }
        turns.at(self.core.inner.clock.now().as_ms());
        let opened = turns.ended(lane, End::of(outcome));
        drop(turns);
        queue.wake.notify_one();
        if opened {
            let queue = &queue.name;
            metrics::counter!("weir_jobs_breakers_opened_total", "queue" => queue.to_string())
                .increment(1);
            tracing::info!(%queue, %lane, "jobs of the lane fail: it waits, and one is tried");
        }
    }

    /// The place of a job of queue `source` is free.
    pub(crate) fn free(&self, source: usize) {
        self.core.sources[source].held.fetch_sub(1, Ordering::Relaxed);
        self.core.running.fetch_sub(1, Ordering::Relaxed);
        self.core.freed.notify_one();
    }

    /// Frees the unique key of a task that starts; waits while the database is away.
    pub(crate) async fn free_key(&self, key: &str, id: weir_base::Id, class: weir_db::Class) {
        loop {
            let key = key.to_owned();
            let free = move |tx: &mut weir_db::Tx| rows::free_keys(tx, [(key.as_str(), id)]);
            match self.core.inner.db.write::<_, weir_db::Error, _>(class, free).await {
                Err(error) if error.is_passing() => {
                    tracing::warn!(%error, "a unique job waits for the database");
                    tokio::time::sleep(AGAIN_AFTER).await;
                }
                _ => return,
            }
        }
    }

    /// Whether a job that keeps others of its key away until it is done may run. Mostly it has the
    /// key; what came back from the dead set without us takes it, unless another did meanwhile.
    pub(crate) async fn keeps_key(
        &self,
        key: &str,
        id: weir_base::Id,
        class: weir_db::Class,
    ) -> bool {
        let (inner, now) = (&self.core.inner, self.core.inner.clock.now());
        loop {
            let (to_read, to_keep) = (key.to_owned(), key.to_owned());
            let read = move |tx: &mut weir_db::Tx| unique::holder(tx, &to_read);
            let keep = move |tx: &mut weir_db::Tx| unique::keep(tx, &to_keep, id, now);
            let kept = match inner.db.read::<_, weir_db::Error, _>(class, read).await {
                Ok(by) if by == Some(id) => return true,
                Ok(_) => inner.db.write(class, keep).await,
                Err(error) => Err(error),
            };
            match kept {
                Ok(kept) => return kept,
                Err(error) if error.is_passing() => {
                    tracing::warn!(%error, "a unique job waits for the database");
                    tokio::time::sleep(AGAIN_AFTER).await;
                }
                Err(_) => return true,
            }
        }
    }

    /// Whether a failed job may wait for its retry under its key, which a newer one may have.
    pub(crate) async fn take_key(
        &self,
        key: &str,
        id: weir_base::Id,
        class: weir_db::Class,
    ) -> bool {
        loop {
            let key = key.to_owned();
            let take = move |tx: &mut weir_db::Tx| rows::take_key(tx, &key, id);
            match self.core.inner.db.write::<_, weir_db::Error, _>(class, take).await {
                Ok(taken) => return taken,
                Err(error) if error.is_passing() => {
                    tracing::warn!(%error, "a unique job waits for the database");
                    tokio::time::sleep(AGAIN_AFTER).await;
                }
                Err(_) => return true,
            }
        }
    }
}
