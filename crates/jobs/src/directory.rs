//! Which queues and lanes hold jobs: in memory, kept up to date by what commits.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use weir_base::{Clock, Timestamp};

use super::places::Places;
use super::sync::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Mutex, Notify, Ordering, RwLock};
use crate::limits::LimitedBy;
use crate::turns::Turns;

/// Payloads of one read take about this much memory at most.
const CLAIM_BYTES_MAX: i64 = 8 * 1024 * 1024;

/// The longest wait for a lane's time before the clock is looked at again, in ms.
const GATE_WAIT_MS_MAX: i64 = 5_000;

/// What ended since it was last read.
#[derive(Default)]
pub(crate) struct Meter {
    ended: AtomicU64,
    work_ns: AtomicU64,
}

impl Meter {
    pub(crate) fn ended(&self, count: usize, ns: i64) {
        self.ended.fetch_add(count as u64, Ordering::Relaxed);
        self.work_ns.fetch_add(ns.max(0).unsigned_abs(), Ordering::Relaxed);
    }

    /// How many, and how long they ran in all, in ns.
    pub(crate) fn read(&self) -> (u64, u64) {
        (self.ended.swap(0, Ordering::Relaxed), self.work_ns.swap(0, Ordering::Relaxed))
    }
}

/// All queues that hold, or held, jobs or are served.
#[derive(Default)]
pub(crate) struct Directory {
    queues: RwLock<BTreeMap<Arc<str>, Arc<QueueState>>>,
    /// Slots of lanes of which nothing is taken.
    pub(crate) held_back: AtomicU64,
}

/// One queue.
pub(crate) struct QueueState {
    pub(crate) name: Arc<str>,
    pub(crate) turns: Mutex<Turns>,
    /// Tells its dispatcher to look again.
    pub(crate) wake: Notify,
    pub(crate) paused: AtomicBool,
    /// Whether it is served, and holds units.
    pub(crate) is_unit: AtomicBool,
    /// How many jobs (tasks) or batches (units) run now, and may.
    pub(crate) places: Places,
    /// Tasks that were taken and have not ended.
    pub(crate) taken: AtomicUsize,
    /// A limit that was set by hand; 0 when none was.
    pub(crate) limit_by_hand: AtomicUsize,
    /// Takes nothing, for the sake of memory.
    pub(crate) shed: AtomicBool,
    /// Takes nothing ahead, likewise.
    pub(crate) lean: AtomicBool,
    pub(crate) limited_by: Mutex<LimitedBy>,
    pub(crate) meter: Meter,
    /// Smoothed size of a payload.
    payload_bytes: AtomicI64,
}

impl Directory {
    /// The queue `name`, if anything was heard of it.
    pub(crate) fn find(&self, name: &str) -> Option<Arc<QueueState>> {
        self.queues.read().get(name).cloned()
    }

    /// The queue `name`, made when it is new.
    pub(crate) fn queue(&self, name: &str) -> Arc<QueueState> {
        if let Some(state) = self.find(name) {
            return state;
        }
        let mut queues = self.queues.write();
        let made = || {
            let state = QueueState::new(name);
            state.turns.lock().hold_back(self.held_back.load(Ordering::Relaxed));
            Arc::new(state)
        };
        queues.entry(name.into()).or_insert_with(made).clone()
    }

    pub(crate) fn all(&self) -> Vec<Arc<QueueState>> {
        self.queues.read().values().cloned().collect()
    }
}

impl QueueState {
    fn new(name: &str) -> Self {
        Self {
            name: name.into(),
            turns: Mutex::new(Turns::new()),
            wake: Notify::new(),
            paused: AtomicBool::new(false),
            is_unit: AtomicBool::new(false),
            places: Places::new(),
            taken: AtomicUsize::new(0),
            limit_by_hand: AtomicUsize::new(0),
            shed: AtomicBool::new(false),
            lean: AtomicBool::new(false),
            limited_by: Mutex::default(),
            meter: Meter::default(),
            payload_bytes: AtomicI64::new(256),
        }
    }

    /// Sets how many jobs or batches may run at once.
    pub(crate) fn set_limit(&self, limit: usize) {
        // One slow or dead neighbour never has all the places.
        self.turns.lock().set_lane_running_max(limit.div_ceil(4));
        self.places.set_most(limit);
        self.wake.notify_one();
    }

    /// Rows `ids` were committed to `lane`; none was ready before `ready_at`, or if that is not
    /// said, before it was enqueued.
    pub(crate) fn added(&self, lane: &str, ids: &[i64], ready_at: Option<Timestamp>) {
        match ready_at {
            Some(at) => self.turns.lock().added_since(lane, ids, at.as_ms()),
            None => self.turns.lock().added(lane, ids),
        }
        self.wake.notify_one();
    }

    /// Taken rows are settled: lane, how many.
    pub(crate) fn settled(&self, lanes: &[(Arc<str>, usize)]) {
        let mut turns = self.turns.lock();
        for (lane, count) in lanes {
            turns.settled(lane, *count);
        }
        drop(turns);
        self.wake.notify_one();
    }

    /// Row `id` of `lane` was removed by hand; false when it did not wait here.
    pub(crate) fn removed(&self, lane: &str, id: i64) -> bool {
        let waited = self.turns.lock().removed(lane, id);
        self.wake.notify_one();
        waited
    }

    /// Jobs ended: lane, how many, ns of work in all.
    pub(crate) fn finished(&self, lanes: &[(Arc<str>, usize, i64)]) {
        let mut turns = self.turns.lock();
        for (lane, count, ns) in lanes {
            turns.finished(lane, *count, *ns);
        }
        drop(turns);
        self.wake.notify_one();
    }

    /// Jobs that were taken go back to waiting.
    pub(crate) fn released(&self, lane: &Arc<str>, ids: &[i64]) {
        self.turns.lock().released(lane, ids);
        self.wake.notify_one();
    }

    /// Waits until a lane may go on that waits for its time.
    pub(crate) async fn gate_opens(&self, clock: &Clock) {
        let opens_ms = self.turns.lock().next_opens_ms();
        match opens_ms {
            None => std::future::pending().await,
            Some(opens_ms) => {
                let wait_ms = opens_ms.saturating_sub(clock.now().as_ms());
                // Now and then the clock is looked at: it may have jumped.
                let wait_ms = wait_ms.clamp(1, GATE_WAIT_MS_MAX).unsigned_abs();
                tokio::time::sleep(Duration::from_millis(wait_ms)).await;
            }
        }
    }

    /// `count` tasks that were taken ended, or wait again.
    pub(crate) fn untaken(&self, count: usize) {
        self.taken.fetch_sub(count, Ordering::Relaxed);
        self.wake.notify_one();
    }

    /// How many payloads may be read at once, by what they measured lately.
    pub(crate) fn claim_max(&self) -> usize {
        let most = CLAIM_BYTES_MAX / self.payload_bytes.load(Ordering::Relaxed).max(1);
        usize::try_from(most).unwrap_or(1).max(1)
    }

    /// Learns from the payloads of a read; a large one counts at once.
    pub(crate) fn saw_payloads(&self, count: usize, bytes: usize) {
        let Some(mean) = bytes.checked_div(count) else { return };
        let mean = i64::try_from(mean).unwrap_or(i64::MAX);
        let before = self.payload_bytes.load(Ordering::Relaxed);
        self.payload_bytes.store(mean.max(before - before / 8).max(1), Ordering::Relaxed);
    }

    /// Whether it is worked and more jobs than so many wait in it.
    pub(crate) fn is_deeper_than(&self, jobs: u64) -> bool {
        !self.paused.load(Ordering::Relaxed) && self.turns.lock().depth() > jobs
    }

    /// How long the oldest job that waits has been ready, in ms; 0 when none waits. Never too low.
    pub(crate) fn oldest_age_ms(&self, now: Timestamp) -> i64 {
        let oldest_ms = self.turns.lock().oldest_ms();
        oldest_ms.map_or(0, |ms| now.since_ms(Timestamp::from_ms(ms)).max(0))
    }
}
