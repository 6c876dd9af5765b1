//! The keeper: brings what is due into the queues, enqueues periodic jobs, prunes the dead set.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use weir_base::Timestamp;
use weir_db::{Class, Error, params};

use crate::dispatch::AGAIN_AFTER;
use crate::jobs::Inner;
use crate::periodic;
use crate::promote::Promoter;
use crate::registry::Periodic;
use crate::{batches, cursors, unique};

/// The dead set keeps the newest of so many.
const DEAD_MAX: i64 = 10_000;
/// The dead set keeps jobs for this long: 180 days, in ms.
const DEAD_AGE_MS_MAX: i64 = 180 * 24 * 3_600 * 1_000;
/// How often is looked for what is to be forgotten, in ms …
pub(crate) const PRUNE_EVERY_MS: i64 = 3_600 * 1_000;
/// … and how much of each kind is forgotten at once; then at once again.
pub(crate) const PRUNED_MAX: i64 = 1_000;
/// The longest sleep: gauges are renewed and a clock that jumped is noticed.
const SLEEP_MAX: Duration = Duration::from_secs(5);

pub(crate) struct Keeper {
    inner: Arc<Inner>,
    /// With the next run of each, once it was read.
    periodic: Vec<(Arc<Periodic>, Timestamp)>,
    promoter: Promoter,
    prune_at: Timestamp,
    /// Whether this node led at the last step, and when that was.
    led: bool,
    stepped_at: Timestamp,
}

impl Keeper {
    pub(crate) fn new(inner: Arc<Inner>, periodic: Vec<Arc<Periodic>>) -> Self {
        let begin = Timestamp::from_ms(i64::MIN);
        let periodic = periodic.into_iter().map(|one| (one, begin)).collect();
        Self {
            inner,
            periodic,
            promoter: Promoter::new(),
            prune_at: begin,
            led: false,
            stepped_at: begin,
        }
    }

    pub(crate) async fn run(mut self, stop: CancellationToken) {
        while !stop.is_cancelled() {
            let sleep = match self.step().await {
                Ok(next) => {
                    self.inner.outage.answered();
                    let wait_ms = next.since_ms(self.inner.clock.now()).max(0);
                    Duration::from_millis(wait_ms.unsigned_abs()).min(SLEEP_MAX)
                }
                Err(error) => {
                    self.inner.outage.failed("the jobs' schedule waits", &error);
                    AGAIN_AFTER
                }
            };
            tokio::select! {
                () = tokio::time::sleep(sleep) => {}
                () = self.inner.later.wake.notified() => {}
                () = stop.cancelled() => {}
            }
        }
    }

    /// Does what is due, and tells when something is next.
    async fn step(&mut self) -> Result<Timestamp, Error> {
        self.measure(self.inner.clock.now());
        if !self.leads() {
            return Ok(Timestamp::from_ms(i64::MAX));
        }
        while self.inner.later.next() <= self.inner.clock.now() {
            if !self.promoter.step(&self.inner).await? {
                return Ok(self.deposed());
            }
        }
        for at in 0..self.periodic.len() {
            let (planned, next) = &self.periodic[at];
            if *next <= self.inner.clock.now() {
                match periodic::run(&self.inner, planned.clone()).await? {
                    Some(next) => self.periodic[at].1 = next,
                    None => return Ok(self.deposed()),
                }
            }
        }
        let now = self.inner.clock.now();
        if self.prune_at <= now || self.inner.later.dead() > DEAD_MAX {
            let more = prune(&self.inner, now).await?;
            self.prune_at = if more { now } else { now.plus_ms(PRUNE_EVERY_MS) };
        }
        let periodic = self.periodic.iter().map(|(_, next)| *next).min();
        let soonest = self.inner.later.next().min(self.prune_at);
        Ok(periodic.map_or(soonest, |next| next.min(soonest)))
    }

    /// Whether this node leads. When it begins to, what another did meanwhile is read again; when
    /// the clock was set back, so is what was planned by it.
    fn leads(&mut self) -> bool {
        let leads = self.inner.nodes.leads();
        let now = self.inner.clock.now();
        if leads && (!self.led || now < self.stepped_at) {
            for (_, next) in &mut self.periodic {
                *next = Timestamp::from_ms(i64::MIN);
            }
            self.inner.later.due(now);
            self.prune_at = self.prune_at.min(now.plus_ms(PRUNE_EVERY_MS));
        }
        (self.led, self.stepped_at) = (leads, now);
        leads
    }

    /// Another node leads; nothing is due here.
    fn deposed(&mut self) -> Timestamp {
        self.inner.nodes.deposed(self.inner.db.dialect());
        self.led = false;
        Timestamp::from_ms(i64::MAX)
    }

    fn measure(&self, now: Timestamp) {
        for state in self.inner.directory.all() {
            let queue = state.name.to_string();
            let (depth, lanes) = {
                let turns = state.turns.lock();
                (turns.depth(), turns.lanes())
            };
            let running = state.places.held();
            let age_s = state.oldest_age_ms(now) as f64 / 1_000.0;
            metrics::gauge!("weir_jobs_depth_jobs", "queue" => queue.clone()).set(depth as f64);
            metrics::gauge!("weir_jobs_waiting_lanes", "queue" => queue.clone()).set(lanes as f64);
            metrics::gauge!("weir_jobs_running_jobs", "queue" => queue.clone()).set(running as f64);
            metrics::gauge!("weir_jobs_oldest_seconds", "queue" => queue).set(age_s);
        }
        metrics::gauge!("weir_jobs_dead_jobs").set(self.inner.later.dead() as f64);
    }
}

/// Forgets the oldest dead jobs beyond the limits, and keys, batches and cursors whose time is
/// over, some of each; tells whether there may be more.
pub(crate) async fn prune(inner: &Arc<Inner>, now: Timestamp) -> Result<bool, Error> {
    let (gone, most): (u64, u64) = inner
        .db
        .write(Class::Housekeeping, move |tx| {
            let old = tx.execute(
                "DELETE FROM jobs_dead WHERE id IN (SELECT id FROM jobs_dead
                 WHERE died_at < ?1 ORDER BY died_at, id LIMIT ?2)",
                params![now.plus_ms(-DEAD_AGE_MS_MAX), PRUNED_MAX],
            )?;
            let many = tx.execute(
                "DELETE FROM jobs_dead WHERE id IN (SELECT id FROM jobs_dead
                 ORDER BY died_at DESC, id DESC LIMIT ?2 OFFSET ?1)",
                params![DEAD_MAX, PRUNED_MAX],
            )?;
            let others =
                [unique::prune(tx, now)?, batches::prune(tx, now)?, cursors::prune(tx, now)?];
            let most = others.into_iter().fold(old.max(many), u64::max);
            Ok::<_, Error>((old + many, most))
        })
        .await?;
    inner.later.buried(gone);
    Ok(most >= PRUNED_MAX.unsigned_abs())
}
