//! The schedule and the retries: what is due goes into its queue, many in one step. Also what
//! comes each so often.

use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::RedisResult;
use weir_base::Timestamp;
use weir_db::{Class, Tx};

use super::names;
use super::wire::{self, Fields};
use super::worker::Core;
use super::{seen, sweep};
use crate::keeper::{self, PRUNE_EVERY_MS};
use crate::periodic;
use crate::registry::Periodic;

/// Jobs of one step: Redis serves nobody else meanwhile.
const PROMOTED_MAX: usize = 500;
/// The longest sleep: others may have put in what is due earlier.
const SLEEP_MAX: Duration = Duration::from_millis(50);
/// How often rows that are not needed any more are looked for, and processes that died.
const TIDY_EACH: Duration = Duration::from_secs(5);
/// How often the sizes of everything are looked at.
const LOOK_EACH: Duration = Duration::from_millis(500);

pub(crate) struct Poller {
    core: Arc<Core>,
    /// With the next run of each.
    periodic: Vec<(Arc<Periodic>, Timestamp)>,
    tidy_at: Instant,
    prune_at: Timestamp,
    look_at: Instant,
    /// Since when Redis has answered. Its return begins anew: signs of life ran out meanwhile.
    answers_since: Instant,
}

impl Poller {
    pub(crate) fn new(core: Arc<Core>, periodic: Vec<Arc<Periodic>>) -> Self {
        let begin = Timestamp::from_ms(i64::MIN);
        let periodic = periodic.into_iter().map(|one| (one, begin)).collect();
        Self {
            core,
            periodic,
            tidy_at: Instant::now(),
            prune_at: begin,
            look_at: Instant::now(),
            answers_since: Instant::now(),
        }
    }

    pub(crate) async fn run(mut self) {
        let core = self.core.clone();
        while !core.stop.is_cancelled() {
            self.run_periodic().await;
            self.tidy().await;
            self.look().await;
            let sleep = match self.promote().await {
                Ok(next) => {
                    core.shared.outage.answered();
                    let wait_ms = next.since_ms(core.inner.clock.now()).max(1);
                    Duration::from_millis(wait_ms.unsigned_abs()).min(SLEEP_MAX)
                }
                Err(error) => {
                    core.shared.outage.failed("the schedule waits", &error);
                    self.answers_since = Instant::now();
                    core.pause().await;
                    continue;
                }
            };
            tokio::select! {
                () = tokio::time::sleep(sleep) => {}
                () = core.stop.cancelled() => {}
            }
        }
    }

    /// Moves what is due, and tells when something is next.
    async fn promote(&self) -> RedisResult<Timestamp> {
        loop {
            let (now, mut pipe) = (self.core.inner.clock.now(), redis::pipe());
            for set in [names::SCHEDULE, names::RETRY] {
                pipe.cmd("ZRANGE").arg(set).arg(0).arg(0).arg("WITHSCORES");
            }
            let first: Vec<Vec<(Vec<u8>, f64)>> =
                pipe.query_async(&mut self.core.shared.redis()).await?;
            let due = |at: usize| {
                let entry = first.get(at).and_then(|entries| entries.first());
                entry.map_or(Timestamp::from_ms(i64::MAX), |(_, score)| wire::from_seconds(*score))
            };
            if due(0) > now && due(1) > now {
                return Ok(due(0).min(due(1)));
            }
            for (at, set) in [names::SCHEDULE, names::RETRY].into_iter().enumerate() {
                if due(at) <= now {
                    promote_some(&self.core, set, now).await?;
                }
            }
        }
    }

    async fn run_periodic(&mut self) {
        if !self.core.inner.nodes.leads() {
            return;
        }
        for (planned, next) in &mut self.periodic {
            if *next > self.core.inner.clock.now() {
                continue;
            }
            match periodic::run(&self.core.inner, planned.clone()).await {
                Ok(Some(then)) => *next = then,
                Ok(None) => return self.core.inner.nodes.deposed(self.core.inner.db.dialect()),
                Err(error) => tracing::warn!(%error, "a periodic job waits for the database"),
            }
        }
    }

    /// Looks at the sizes of everything, now and then.
    async fn look(&mut self) {
        if self.look_at <= Instant::now() {
            self.look_at = Instant::now() + LOOK_EACH;
            if let Err(error) = self.core.shared.look(self.core.inner.clock.now()).await {
                tracing::debug!(%error, "the queues of Redis cannot be looked at");
            }
        }
    }

    /// Forgets what is not needed, and takes back what the dead held.
    async fn tidy(&mut self) {
        let now = self.core.inner.clock.now();
        if self.tidy_at > Instant::now() {
            return;
        }
        self.tidy_at = Instant::now() + self.core.shared.options.lease.min(TIDY_EACH);
        let forget = move |tx: &mut Tx| seen::forget(tx, now);
        if let Err(error) = self.core.inner.db.write(Class::Housekeeping, forget).await {
            tracing::debug!(%error, "old names of jobs are not forgotten yet");
        }
        if self.prune_at <= now {
            match keeper::prune(&self.core.inner, now).await {
                Ok(true) => self.tidy_at = Instant::now(),
                Ok(false) => self.prune_at = now.plus_ms(PRUNE_EVERY_MS),
                Err(error) => tracing::debug!(%error, "what is over is not forgotten yet"),
            }
        }
        if self.answers_since.elapsed() < self.core.shared.options.lease {
            return;
        }
        if let Err(error) = sweep::learn_deaths(&self.core).await {
            tracing::debug!(%error, "it is not known which jobs may kill their process");
        }
        if let Err(error) = sweep::dead(&self.core).await {
            tracing::debug!(%error, "processes that died cannot be looked for");
        }
    }
}

/// Moves a group of due jobs. What others moved meanwhile is left alone.
async fn promote_some(core: &Core, set: &str, now: Timestamp) -> RedisResult<()> {
    let mut redis = core.shared.redis();
    let due: Vec<Vec<u8>> = redis::cmd("ZRANGEBYSCORE")
        .arg(set)
        .arg("-inf")
        .arg(wire::seconds(now))
        .arg("LIMIT")
        .arg(0)
        .arg(PROMOTED_MAX)
        .query_async(&mut redis)
        .await?;
    push(&core.shared, set, &due, |job| {
        job.set_time("enqueued_at", now, core.shared.options.times);
    })
    .await?;
    metrics::counter!("weir_jobs_promoted_total", "set" => set.to_owned())
        .increment(due.len() as u64);
    Ok(())
}

/// Moves `members` of `set` into their queues, with whatever `change` does to each, and tells how
/// many were still there.
pub(crate) async fn push(
    shared: &super::Shared,
    set: &str,
    members: &[Vec<u8>],
    change: impl Fn(&mut Fields),
) -> RedisResult<u64> {
    if members.is_empty() {
        return Ok(0);
    }
    let mut call = shared.scripts.promote.key(set);
    call.key(names::QUEUES);
    for member in members {
        let (queue, job) = match Fields::parse(member) {
            Some(mut job) => {
                change(&mut job);
                (job.get("queue").unwrap_or_else(|| "default".to_owned()), job.write())
            }
            // No job: its worker puts it into the dead set.
            None => ("default".to_owned(), member.clone()),
        };
        call.arg(member.as_slice()).arg(queue).arg(job);
    }
    call.invoke_async(&mut shared.redis()).await
}
