//! A bounded number of arrivals at once, first come first served.
//!
//! Somebody who arrives (logs in, loads the first data, resumes) costs far more than somebody who
//! is here. [`Admission`] lets a few arrivals work at a time and keeps the others in a line, so
//! that a crowd at the door slows only the crowd. Beyond a full line people are told when to come
//! again, spread over time.
//!
//! Those who are let in take turns for what is heavy ([`Permit::slice`]): deficit round robin, by
//! bytes and by time, so that somebody with much to load holds up nobody with little.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use metrics::{Counter, Gauge};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use weir_base::{Clock, Random, Timestamp};

/// The longest wait that [`Busy`] proposes before spreading, in seconds.
const RETRY_MAX_S: u64 = 30;

/// What one turn is good for, in bytes.
pub const SLICE_BYTES: i64 = 64 * 1024;
/// What one turn is good for, in time.
pub const SLICE_TIME: Duration = Duration::from_millis(1);

/// A door that lets a bounded number in at once. Clones are the same door.
#[derive(Clone)]
pub struct Admission(Arc<Door>);

struct Door {
    permits: Arc<Semaphore>,
    at_once: usize,
    /// Whose turn it is; the semaphore serves in the order of asking, which is a round.
    turns: Arc<Semaphore>,
    waiting: AtomicUsize,
    waiting_max: usize,
    // What an arrival took lately, smoothed, in microseconds.
    usual_us: AtomicU64,
    clock: Clock,
    random: Random,
    meters: Meters,
}

struct Meters {
    working: Gauge,
    waiting: Gauge,
    refused: Counter,
}

/// The line is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too many are arriving at once: come again in {retry_after_s} s")]
pub struct Busy {
    /// When to come again, in seconds: about when the line will have passed, spread at random.
    pub retry_after_s: u64,
}

/// The right to work on one arrival; dropping it lets the next one in.
pub struct Permit {
    door: Arc<Door>,
    since: Timestamp,
    // What is left of the turns so far, in bytes; below zero after more than a turn's work.
    deficit_bytes: i64,
    _held: OwnedSemaphorePermit,
}

/// A turn: the right to work for [`SLICE_BYTES`] or [`SLICE_TIME`], whichever is over first.
/// [Ending](Self::end) it gives the permit back; dropping it gives up both. Nothing should be
/// waited for within one but the processor.
pub struct Slice {
    permit: Permit,
    since: Instant,
    spent_bytes: i64,
    _turn: Option<OwnedSemaphorePermit>,
}

impl Admission {
    /// A door that lets `at_once` (at least 1) in, with `waiting_max` in line behind them.
    pub fn new(at_once: usize, waiting_max: usize, clock: Clock, random: Random) -> Self {
        let at_once = at_once.clamp(1, Semaphore::MAX_PERMITS);
        let meters = Meters {
            working: metrics::gauge!("weir_live_arrivals"),
            waiting: metrics::gauge!("weir_live_arrivals_waiting"),
            refused: metrics::counter!("weir_live_arrivals_refused_total"),
        };
        Self(Arc::new(Door {
            permits: Arc::new(Semaphore::new(at_once)),
            at_once,
            turns: Arc::new(Semaphore::new(turns_at_once())),
            waiting: AtomicUsize::new(0),
            waiting_max,
            usual_us: AtomicU64::new(0),
            clock,
            random,
            meters,
        }))
    }

    /// Waits in line, first come first served. Fails at once where the line is full; dropping the
    /// future leaves the line.
    pub async fn enter(&self) -> Result<Permit, Busy> {
        let door = &self.0;
        // The semaphore gives a free permit to whoever stands in line before anybody new.
        if let Ok(held) = door.permits.clone().try_acquire_owned() {
            return Ok(self.let_in(held));
        }
        let room = |waiting| (waiting < door.waiting_max).then_some(waiting + 1);
        if door.waiting.fetch_update(Relaxed, Relaxed, room).is_err() {
            door.meters.refused.increment(1);
            return Err(door.busy());
        }
        let place = Place(door);
        door.meters.waiting.increment(1.0);
        let held = door.permits.clone().acquire_owned().await;
        drop(place);
        // Nobody closes the semaphore; a closed one would be a full line.
        held.map(|held| self.let_in(held)).map_err(|_| door.busy())
    }

    /// How many stand in line now.
    pub fn waiting(&self) -> usize {
        self.0.waiting.load(Relaxed)
    }

    /// How many are being served now.
    pub fn working(&self) -> usize {
        self.0.at_once - self.0.permits.available_permits()
    }

    fn let_in(&self, held: OwnedSemaphorePermit) -> Permit {
        self.0.meters.working.increment(1.0);
        let since = self.0.clock.now();
        Permit { door: self.0.clone(), since, deficit_bytes: 0, _held: held }
    }
}

/// Half of the processors work for those who arrive, at least one.
fn turns_at_once() -> usize {
    std::thread::available_parallelism().map_or(1, |all| (all.get() / 2).max(1))
}

impl Permit {
    /// Waits for a turn. Whoever did more in a turn than it was good for waits for as many more as
    /// make up for it. Dropping the future gives the permit up.
    pub async fn slice(mut self) -> Slice {
        loop {
            // Nobody closes the semaphore; a closed one would let everybody in.
            let turn = self.door.turns.clone().acquire_owned().await.ok();
            self.deficit_bytes = (self.deficit_bytes + SLICE_BYTES).min(SLICE_BYTES);
            if self.deficit_bytes > 0 || turn.is_none() {
                let since = Instant::now();
                return Slice { permit: self, since, spent_bytes: 0, _turn: turn };
            }
            drop(turn);
            // Alone in the round, others get the processor meanwhile.
            tokio::task::yield_now().await;
        }
    }
}

impl Slice {
    /// Counts `bytes` that were read or made.
    pub fn spend(&mut self, bytes: usize) {
        self.spent_bytes =
            self.spent_bytes.saturating_add(i64::try_from(bytes).unwrap_or(i64::MAX));
    }

    /// Whether the turn is used up.
    pub fn is_over(&self) -> bool {
        self.used_bytes() >= self.permit.deficit_bytes
    }

    /// Ends the turn; the permit is good for the next one.
    pub fn end(mut self) -> Permit {
        // Bounded, so that one long stall is not paid for during minutes.
        self.permit.deficit_bytes -= self.used_bytes().min(SLICE_BYTES * 64);
        self.permit
    }

    /// What was used, time counted as the bytes of as long a turn.
    fn used_bytes(&self) -> i64 {
        let elapsed_us = i64::try_from(self.since.elapsed().as_micros()).unwrap_or(i64::MAX);
        let slice_us = SLICE_TIME.as_micros() as i64;
        self.spent_bytes.max(elapsed_us.saturating_mul(SLICE_BYTES) / slice_us)
    }
}

impl Door {
    fn busy(&self) -> Busy {
        let line = self.waiting.load(Relaxed) as u64 / self.at_once as u64;
        let line_s = line.saturating_mul(self.usual_us.load(Relaxed)) / 1_000_000;
        let retry_s = line_s.clamp(1, RETRY_MAX_S);
        Busy { retry_after_s: retry_s + self.random.below(retry_s + 1) }
    }
}

/// A place in line, given up when dropped.
struct Place<'a>(&'a Door);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Relaxed);
        self.0.meters.waiting.decrement(1.0);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let took_ms = self.door.clock.now().as_ms().saturating_sub(self.since.as_ms());
        let took_us = u64::try_from(took_ms).unwrap_or(0).saturating_mul(1000);
        // A lost update between two threads only makes the estimate a little older.
        let usual_us = self.door.usual_us.load(Relaxed);
        self.door.usual_us.store(usual_us - usual_us / 8 + took_us / 8, Relaxed);
        self.door.meters.working.decrement(1.0);
    }
}
