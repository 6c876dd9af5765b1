//! How many jobs of a queue in Redis this process holds, and how many of them run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use weir_db::Class;

use super::worker::Core;
use crate::controller::{Decision, Fixed, Seen};
use crate::directory::QueueState;
use crate::steering::{self, Steered};
use crate::{Queue, blocking, controller};

/// The payloads of one fetch take about this much memory at most.
const FETCH_BYTES_MAX: i64 = 8 * 1024 * 1024;
/// Quick tasks are held ahead for about this much work, in ns, …
const AHEAD_NS: i64 = 10_000_000;
/// … and so many at most.
const AHEAD_MAX: usize = 500;
/// What a task is taken to need before one ended, in ns.
const JOB_NS: i64 = 250_000;
/// Batches of a queue of units that are held at once, when its declaration does not say.
const BATCHES_MAX: usize = 2;

/// A queue that is worked.
pub(crate) struct Source {
    pub(crate) name: String,
    /// What is known of it here: its lanes' gates, its places, and a limit that was set by hand.
    pub(crate) state: Arc<QueueState>,
    pub(crate) key: String,
    /// How often it is looked at first, beside the others.
    pub(crate) weight: u32,
    class: Class,
    /// Its part of what its class has.
    part: u32,
    declared: Option<Fixed>,
    /// Jobs of one that is counted by a limit: many in a batch of units.
    batch_max: usize,
    /// Jobs that this process holds.
    pub(crate) held: Arc<AtomicUsize>,
    /// Smoothed size of a job.
    job_bytes: AtomicI64,
    /// Smoothed time of a task.
    job_ns: AtomicI64,
    /// Redis had as many as there was room for.
    waits: AtomicBool,
    /// Taken from by nobody, by command.
    pub(crate) paused: AtomicBool,
    pub(crate) waited: metrics::Histogram,
    limit: metrics::Gauge,
    /// Tells its waiter to look.
    pub(crate) armed: Notify,
}

impl Source {
    /// A queue that is looked at with `weight`; `declared` as its types have it, if any are
    /// handled here; of units so many (`batch_max`) are one batch, else 1.
    pub(crate) fn new(
        state: Arc<QueueState>,
        weight: u32,
        declared: Option<Queue>,
        is_blocking: bool,
        batch_max: usize,
    ) -> Self {
        let name = state.name.to_string();
        let fixed = match declared.map_or(0, |queue| queue.running_max) {
            0 if batch_max > 1 => Some(Fixed::Batches(BATCHES_MAX)),
            0 => is_blocking.then(|| Fixed::Threads(blocking::threads())),
            most => Some(Fixed::Declared(most)),
        };
        state.places.set_most(fixed.map_or(controller::START, Fixed::limit));
        Self {
            key: super::names::queue(&name),
            waited: metrics::histogram!("weir_jobs_wait_seconds", "queue" => name.clone()),
            limit: metrics::gauge!("weir_jobs_limit_jobs", "queue" => name.clone()),
            state,
            weight: weight.max(1),
            class: declared.map_or(Class::Outbound, |queue| queue.class),
            part: declared.map_or(1, |queue| queue.weight),
            declared: fixed,
            batch_max,
            name,
            held: Arc::new(AtomicUsize::new(0)),
            job_bytes: AtomicI64::new(512),
            job_ns: AtomicI64::new(JOB_NS),
            waits: AtomicBool::new(false),
            paused: AtomicBool::new(false),
            armed: Notify::new(),
        }
    }

    /// What sets the limit but the controller.
    fn fixed(&self) -> Option<Fixed> {
        match self.state.limit_by_hand.load(Ordering::Relaxed) {
            0 => self.declared,
            limit => Some(Fixed::ByHand(limit)),
        }
    }

    /// How many jobs its places are for.
    fn places(&self) -> usize {
        let places = self.fixed().map_or_else(|| self.state.places.most(), Fixed::limit);
        places.saturating_mul(self.batch_max)
    }

    /// How many jobs may be held at once: as many as may run, and of quick ones some ahead.
    fn held_max(&self) -> usize {
        let places = self.places();
        if self.fixed().is_some() || self.state.lean.load(Ordering::Relaxed) {
            return places;
        }
        let ahead = AHEAD_NS / self.job_ns.load(Ordering::Relaxed).max(1);
        places.max(usize::try_from(ahead).unwrap_or(0).min(AHEAD_MAX))
    }

    /// How many jobs may be fetched now.
    pub(crate) fn room(&self) -> usize {
        if self.state.shed.load(Ordering::Relaxed) {
            return 0;
        }
        let by_memory = FETCH_BYTES_MAX / self.job_bytes.load(Ordering::Relaxed).max(1);
        let free = self.held_max().saturating_sub(self.held.load(Ordering::Relaxed));
        free.min(usize::try_from(by_memory).unwrap_or(1).max(1))
    }

    /// Of `room` places these jobs came.
    pub(crate) fn took(&self, room: usize, jobs: &[Vec<u8>]) {
        self.waits.store(room > 0 && jobs.len() >= room, Ordering::Relaxed);
        if jobs.is_empty() {
            return;
        }
        self.held.fetch_add(jobs.len(), Ordering::Relaxed);
        let bytes: usize = jobs.iter().map(Vec::len).sum();
        let mean = i64::try_from(bytes / jobs.len()).unwrap_or(i64::MAX);
        let before = self.job_bytes.load(Ordering::Relaxed);
        self.job_bytes.store(mean.max(before - before / 8).max(1), Ordering::Relaxed);
    }

    /// A task ran for so long.
    pub(crate) fn ran(&self, took: Duration) {
        let ns = i64::try_from(took.as_nanos()).unwrap_or(i64::MAX);
        self.state.meter.ended(1, ns);
        let before = self.job_ns.load(Ordering::Relaxed);
        self.job_ns.store((before - before / 8 + ns / 8).max(1), Ordering::Relaxed);
    }
}

/// A queue in Redis, as the controller has it.
pub(crate) struct Limited {
    pub(crate) core: Arc<Core>,
    /// The place of the queue among the sources.
    pub(crate) at: usize,
}

impl Steered for Limited {
    fn seen(&self) -> Seen {
        let source = &self.core.sources[self.at];
        let state = &source.state;
        let (ended, work_ns) = state.meter.read();
        let held = source.held.load(Ordering::Relaxed);
        let refused = state.places.refused();
        let is_full = held >= source.held_max();
        let is_unit = source.batch_max > 1;
        // What is held ahead waits for a place here, and says so.
        let none_ahead = is_unit || source.held_max() <= source.places();
        let running = if is_unit { held.div_ceil(source.batch_max) } else { state.places.held() };
        let waits = refused || source.waits.load(Ordering::Relaxed);
        Seen {
            name: state.name.clone(),
            class: source.class,
            weight: source.part,
            fixed: source.fixed(),
            paused: self.core.inner.quiet.load(Ordering::Relaxed)
                || source.paused.load(Ordering::Relaxed),
            waits,
            wants: refused || (waits && none_ahead && is_full),
            yields: false,
            in_lanes: false,
            running,
            ended,
            work_ns,
        }
    }

    fn steer(&self, decision: &Decision) {
        let source = &self.core.sources[self.at];
        steering::apply(&source.state, decision, &source.limit);
        // There may be room now, or none.
        self.core.freed.notify_one();
    }
}
