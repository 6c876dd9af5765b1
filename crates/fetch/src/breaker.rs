//! A breaker for one host.
//!
//! ```text
//!            failures_max in a row, or "come back later"
//!   Closed ------------------------------------------------> Open
//!     ^                                                       |  the time is over
//!     |  the probe was answered                               v
//!     +--------------------------------------------------- HalfOpen (one probe at a time)
//!                       the probe failed: Open again, for twice as long
//! ```

use weir_base::Timestamp;

/// What the breaker of a host lets through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BreakerState {
    /// The host answers: everything goes.
    Closed,
    /// The host does not answer: nothing goes before `until`.
    Open {
        /// When the next probe may go.
        until: Timestamp,
    },
    /// One probe is on its way; everything else waits for what it finds.
    HalfOpen,
}

/// Failures in a row that open the breaker.
const FAILURES_MAX: u32 = 5;
/// How long it is open at first, in milliseconds; doubled after each failed probe.
const OPEN_FIRST_MS: i64 = 30_000;
/// How long it is open at most, in milliseconds.
const OPEN_MAX_MS: i64 = 60 * 60_000;
/// How long a refused request should wait for a probe under way, in milliseconds.
const PROBE_WAIT_MS: i64 = 5_000;

/// What was let through, to be answered with [`Breaker::answered`], [`Breaker::failed`] or
/// [`Breaker::abandoned`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// One of many.
    Normal,
    /// The one by which is found out whether the host answers again.
    Probe,
    /// One that goes whatever the breaker says, and moves it only where it is closed.
    Insisting,
}

/// Closed, open or half open; see above.
#[derive(Debug)]
pub struct Breaker {
    state: BreakerState,
    /// Failures in a row while closed.
    failures: u32,
    /// How often in a row it opened: the exponent of the back-off.
    opened: u32,
    /// When it opened last.
    opened_at: Timestamp,
}

impl Breaker {
    /// A closed one.
    pub fn new() -> Self {
        let (state, opened_at) = (BreakerState::Closed, Timestamp::default());
        Self { state, failures: 0, opened: 0, opened_at }
    }

    /// What it lets through now.
    pub fn state(&self) -> BreakerState {
        self.state
    }

    /// Whether nothing would be lost by forgetting this breaker.
    pub fn is_idle(&self) -> bool {
        self.state == BreakerState::Closed && self.failures == 0
    }

    /// Whether [`enter`](Self::enter) would let a request through, without taking the probe.
    pub fn check(&self, now: Timestamp) -> Result<(), i64> {
        match self.state {
            // Where it opened later than now, the clock was set back: the pause is over.
            BreakerState::Open { until } if self.opened_at <= now && now < until => {
                Err(until.since_ms(now))
            }
            BreakerState::HalfOpen => Err(PROBE_WAIT_MS),
            BreakerState::Open { .. } | BreakerState::Closed => Ok(()),
        }
    }

    /// Lets a request through, or says in how many milliseconds to ask again.
    pub fn enter(&mut self, now: Timestamp) -> Result<Entry, i64> {
        self.check(now)?;
        if self.state == BreakerState::Closed {
            return Ok(Entry::Normal);
        }
        self.state = BreakerState::HalfOpen;
        Ok(Entry::Probe)
    }

    /// The host answered.
    pub fn answered(&mut self, entry: Entry) {
        // A late answer to something sent before the breaker opened says nothing of the host now.
        if self.state == BreakerState::Closed || entry == Entry::Probe {
            *self = Self::new();
        }
    }

    /// The host did not answer. Gives whether this opened the breaker.
    pub fn failed(&mut self, entry: Entry, now: Timestamp) -> bool {
        if entry == Entry::Probe {
            return self.open(now, 0);
        }
        if self.state != BreakerState::Closed {
            return false;
        }
        self.failures += 1;
        self.failures >= FAILURES_MAX && self.open(now, 0)
    }

    /// The host asked for a pause of `pause_ms` milliseconds. Gives whether this opened the
    /// breaker.
    pub fn paused(&mut self, entry: Entry, now: Timestamp, pause_ms: i64) -> bool {
        if entry == Entry::Insisting && self.state != BreakerState::Closed {
            return false;
        }
        self.open(now, pause_ms)
    }

    /// The request ended without a word on the host (it was cancelled).
    pub fn abandoned(&mut self, entry: Entry, now: Timestamp) {
        if entry == Entry::Probe && self.state == BreakerState::HalfOpen {
            self.state = BreakerState::Open { until: now };
        }
    }

    fn open(&mut self, now: Timestamp, pause_ms: i64) -> bool {
        let back_off_ms = OPEN_FIRST_MS.saturating_mul(1 << self.opened.min(20));
        let open_ms = if pause_ms > 0 { pause_ms } else { back_off_ms }.min(OPEN_MAX_MS);
        self.opened = self.opened.saturating_add(1);
        self.failures = 0;
        self.opened_at = now;
        self.state = BreakerState::Open { until: now.plus_ms(open_ms) };
        true
    }
}

impl Default for Breaker {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_ms(ms)
    }

    fn opened_at(now: Timestamp) -> Breaker {
        let mut breaker = Breaker::new();
        for _ in 0..FAILURES_MAX {
            breaker.failed(Entry::Normal, now);
        }
        breaker
    }

    #[test]
    fn only_failures_in_a_row_open_it() {
        let mut breaker = Breaker::new();
        for _ in 0..3 {
            for _ in 1..FAILURES_MAX {
                assert!(!breaker.failed(Entry::Normal, at(0)));
            }
            breaker.answered(Entry::Normal);
        }
        assert_eq!(breaker.state(), BreakerState::Closed);
        assert_eq!(opened_at(at(7)).state(), BreakerState::Open { until: at(7 + OPEN_FIRST_MS) });
    }

    #[test]
    fn an_open_breaker_lets_one_probe_through_when_its_time_is_over() {
        let mut breaker = opened_at(at(0));
        assert_eq!(breaker.enter(at(1)), Err(OPEN_FIRST_MS - 1));
        assert_eq!(breaker.enter(at(OPEN_FIRST_MS)), Ok(Entry::Probe));
        assert_eq!(breaker.enter(at(OPEN_FIRST_MS)), Err(PROBE_WAIT_MS));
        breaker.answered(Entry::Probe);
        assert!(breaker.is_idle());
    }

    #[test]
    fn failed_probes_double_the_pause_up_to_its_limit() {
        let mut breaker = opened_at(at(0));
        let (mut now, mut pause_ms) = (at(OPEN_FIRST_MS), OPEN_FIRST_MS);
        for _ in 0..40 {
            assert_eq!(breaker.enter(now), Ok(Entry::Probe));
            assert!(breaker.failed(Entry::Probe, now));
            pause_ms = (pause_ms * 2).min(OPEN_MAX_MS);
            assert_eq!(breaker.state(), BreakerState::Open { until: now.plus_ms(pause_ms) });
            now = now.plus_ms(pause_ms);
        }
    }

    #[test]
    fn a_cancelled_probe_makes_room_for_the_next() {
        let mut breaker = opened_at(at(0));
        assert_eq!(breaker.enter(at(OPEN_FIRST_MS)), Ok(Entry::Probe));
        breaker.abandoned(Entry::Probe, at(OPEN_FIRST_MS));
        assert_eq!(breaker.enter(at(OPEN_FIRST_MS)), Ok(Entry::Probe));
    }

    #[test]
    fn a_clock_that_is_set_back_ends_the_pause() {
        let mut breaker = opened_at(at(3_600_000));
        assert_eq!(breaker.enter(at(3_600_000)), Err(OPEN_FIRST_MS));
        assert_eq!(breaker.enter(at(0)), Ok(Entry::Probe));
        assert!(breaker.failed(Entry::Probe, at(0)));
        assert_eq!(breaker.enter(at(0)), Err(2 * OPEN_FIRST_MS));
    }

    #[test]
    fn late_answers_of_older_requests_do_not_move_an_open_breaker() {
        let mut breaker = opened_at(at(0));
        let before = breaker.state();
        breaker.answered(Entry::Normal);
        assert!(!breaker.failed(Entry::Normal, at(5)));
        breaker.abandoned(Entry::Normal, at(5));
        assert_eq!(breaker.state(), before);
    }

    #[test]
    fn a_host_may_ask_for_a_pause_within_the_limit() {
        let mut breaker = Breaker::new();
        breaker.paused(Entry::Normal, at(0), 2_000);
        assert_eq!(breaker.state(), BreakerState::Open { until: at(2_000) });
        breaker.paused(Entry::Normal, at(0), i64::MAX);
        assert_eq!(breaker.state(), BreakerState::Open { until: at(OPEN_MAX_MS) });
    }
}
