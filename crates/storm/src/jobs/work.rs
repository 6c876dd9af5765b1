//! The jobs, and what is seen of them.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use weir_db::Class;
use weir_jobs::{Claimed, Delay, Failure, Job, Queue, Registry, Retry};

use super::Shape;
use crate::load::Latencies;

/// The queue that is drained, in Redis too.
pub(super) const QUEUE: &str = "weir-storm";
/// Fairness keys.
const KEYS: u64 = 1_000;
/// What fills a payload up to 200 bytes, where its number has six digits.
const FILL: usize = 148;
/// What a job of the shape `alloc` allocates, in bytes.
const ALLOC_BYTES: usize = 200_000;
/// The results that stay while others come.
const KEPT: usize = 64;

/// What a job carries.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Payload {
    number: u64,
    key: String,
    text: String,
}

impl Payload {
    pub(super) fn new(number: u64) -> Self {
        let key = format!("host-{:03}.example", number % KEYS);
        Self { number, key, text: "x".repeat(FILL) }
    }
}

/// A job of the backlog.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Storm(pub(super) Payload);

impl Job for Storm {
    const KIND: &'static str = "storm";
    const QUEUE: Queue = Queue::new(QUEUE, Class::Inbound);
    const RETRY: Retry = Retry { attempts_max: 10, delay: Delay::FixedMs(100), ..Retry::DEFAULT };
    fn lane(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.0.key)
    }
}

/// A job that somebody waits for: it tells how long after its moment it started.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Timed {
    /// Its moment, in µs since 1970.
    moment_us: u64,
    payload: Payload,
}

impl Timed {
    pub(super) fn new(number: u64, moment_us: u64) -> Self {
        Self { moment_us, payload: Payload::new(number) }
    }
}

impl Job for Timed {
    const KIND: &'static str = "storm_timed";
    const QUEUE: Queue = Queue::new("weir-storm-timed", Class::Inbound);
    fn lane(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.payload.key)
    }
}

/// The same in a queue of a higher priority.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Urgent(pub(super) Timed);

impl Job for Urgent {
    const KIND: &'static str = "storm_urgent";
    const QUEUE: Queue = Queue::new("weir-storm-urgent", Class::Interactive);
}

/// µs since 1970.
pub(super) fn now_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

/// Which jobs were done, by number.
pub(super) struct Tally {
    bits: Vec<AtomicU64>,
    /// How many were done, each once.
    pub(super) done: Arc<AtomicU64>,
    repeated: AtomicU64,
}

impl Tally {
    /// For the numbers below `most`.
    pub(super) fn new(most: u64) -> Self {
        let words = usize::try_from(most / 64 + 1).unwrap_or(usize::MAX);
        Self {
            bits: std::iter::repeat_with(|| AtomicU64::new(0)).take(words).collect(),
            done: Arc::default(),
            repeated: AtomicU64::new(0),
        }
    }

    fn saw(&self, number: u64) {
        let bit = 1 << (number % 64);
        let word = usize::try_from(number / 64).ok().and_then(|at| self.bits.get(at));
        let before = word.map_or(bit, |word| word.fetch_or(bit, Ordering::Relaxed));
        let count = if before & bit == 0 { &*self.done } else { &self.repeated };
        count.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    pub(super) fn repeated(&self) -> u64 {
        self.repeated.load(Ordering::Relaxed)
    }
}

/// How late jobs started, and how many did.
#[derive(Clone, Default)]
pub(super) struct Late {
    times: Arc<Mutex<Latencies>>,
    pub(super) count: Arc<AtomicU64>,
}

impl Late {
    fn started(&self, moment_us: u64) {
        let late = Duration::from_micros(now_us().saturating_sub(moment_us));
        if let Ok(mut times) = self.times.lock() {
            times.record(late, true);
        }
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// What was seen since the last time, and forgets it.
    pub(super) fn take(&self) -> Latencies {
        self.count.store(0, Ordering::Relaxed);
        self.times.lock().map(|mut times| std::mem::take(&mut *times)).unwrap_or_default()
    }

    pub(super) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }
}

/// Handlers for everything that the storm enqueues.
pub(super) fn registry(shape: Shape, tally: &Arc<Tally>, timed: &Late, urgent: &Late) -> Registry {
    let mut registry = Registry::new();
    let (tally, kept) = (tally.clone(), Arc::new(Mutex::new(VecDeque::new())));
    registry.task(move |claimed: Claimed<Storm>| {
        let (tally, kept) = (tally.clone(), kept.clone());
        async move {
            match shape {
                Shape::Noop => {}
                Shape::Sleep => tokio::time::sleep(Duration::from_millis(10)).await,
                Shape::Cpu => compute(claimed.job.0.number),
                Shape::Alloc => allocate(claimed.job.0.number, &kept),
                Shape::Fail if claimed.attempt == 1 => return Err(Failure::retry("as asked")),
                Shape::Fail => {}
            }
            tally.saw(claimed.job.0.number);
            Ok(())
        }
    });
    let late = timed.clone();
    registry.task(move |claimed: Claimed<Timed>| {
        late.started(claimed.job.moment_us);
        async { Ok(()) }
    });
    let late = urgent.clone();
    registry.task(move |claimed: Claimed<Urgent>| {
        late.started(claimed.job.0.moment_us);
        async { Ok(()) }
    });
    registry
}

/// About a millisecond of work.
fn compute(seed: u64) {
    let mut state = seed;
    for _ in 0..400_000 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        state ^= state >> 29;
    }
    std::hint::black_box(state);
}

/// Pieces of 16 bytes to 4 KiB, as parsing a document makes them; a fiftieth is kept a while.
fn allocate(seed: u64, kept: &Mutex<VecDeque<Vec<Vec<u8>>>>) {
    let (mut state, mut all) = (seed | 1, 0);
    let mut pieces: Vec<Vec<u8>> = Vec::new();
    while all < ALLOC_BYTES {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let bytes = 16 << ((state >> 40) % 9);
        pieces.push(vec![seed as u8; bytes]);
        all += bytes;
    }
    pieces.retain(|piece| piece.len() < 64 || piece.len() > 2_048);
    if let Ok(mut kept) = kept.lock() {
        kept.push_back(pieces);
        if kept.len() > KEPT {
            kept.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_done_twice_is_told_from_one_done_once() {
        let tally = Tally::new(100);
        for number in [0, 64, 99, 64] {
            tally.saw(number);
        }
        assert_eq!((tally.done(), tally.repeated()), (3, 1));
    }

    #[test]
    fn a_payload_has_two_hundred_bytes() {
        let text = serde_json::to_string(&Storm(Payload::new(123_456))).unwrap();
        assert_eq!(text.len(), 200);
    }
}
