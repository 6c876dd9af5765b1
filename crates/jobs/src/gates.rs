//! Which lanes may start jobs now: rates and circuit breakers. No I/O, no clock.
//!
//! ```text
//!              failures in a row                its time has come, one job starts
//!   closed ───────────────────────▶ open(until) ─────────────────────────────────▶ probing
//!     ▲                              ▲  longer each time                              │
//!     │                              └─────────────────── it failed ──────────────────┤
//!     └──────────────────────────────────── a job ended well ─────────────────────────┘
//! ```

use std::collections::HashMap;
use std::sync::Arc;

use crate::Outcome;

/// The first pause of a lane whose breaker opened, in ms; each next one is twice as long.
const PAUSE_MS: i64 = 5_000;
/// The longest: ten minutes.
const PAUSE_MS_MAX: i64 = 600_000;
/// A probe whose end nobody told, such as that of another process, is replaced after so long, in
/// ms: ten minutes.
const PROBE_MS_MAX: i64 = 600_000;
/// Of the starts of a second so many parts may come at once.
const BURST_DIVISOR: i64 = 10;
/// Lanes that are remembered; of more than these only those that have something to remember.
const REMEMBERED: usize = 1_000;
/// More than these are not.
const REMEMBERED_MAX: usize = 100_000;

/// How a job of a lane ended, to its breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// The peer answered.
    Well,
    /// It is to be tried again.
    Failed,
    /// The same, because the peer is down.
    Down,
    /// It says nothing of the peer.
    Unknown,
}

/// What stands before a lane.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Breaker {
    /// Nothing: its jobs start.
    #[default]
    Closed,
    /// Its jobs failed again and again: none starts for a while.
    Open,
    /// One job is tried; the others wait for how it ends.
    Probing,
}

/// The gates of a queue's lanes.
pub(crate) struct Gates {
    /// Starts of a lane in a second; 0: any number.
    rate: i64,
    /// Failures in a row that open a breaker; 0: none does.
    failures_max: u32,
    lanes: HashMap<Arc<str>, Gate>,
    prune_at: usize,
}

#[derive(Debug, Clone, Copy)]
struct Gate {
    /// When the starts so far would be over at an even pace, in µs.
    even_us: i64,
    failures: u32,
    breaker: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Closed,
    Open { until_ms: i64, pauses: u32 },
    Probing { since_ms: i64, pauses: u32 },
}

impl End {
    /// What an outcome tells of the peer.
    pub(crate) fn of(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Done | Outcome::Discard(_) | Outcome::Dead(_) => Self::Well,
            Outcome::Retry { .. } => Self::Failed,
            Outcome::Down { .. } => Self::Down,
            Outcome::Postponed { .. } | Outcome::Expired | Outcome::Cancelled => Self::Unknown,
        }
    }
}

impl Gate {
    const OPEN: Gate = Gate { even_us: i64::MIN, failures: 0, breaker: State::Closed };
}

impl Gates {
    pub(crate) fn new(rate: u32, failures_max: u32) -> Self {
        Self { rate: i64::from(rate), failures_max, lanes: HashMap::new(), prune_at: REMEMBERED }
    }

    /// How many jobs of `lane` may start now.
    pub(crate) fn open_for(&self, lane: &str, now_ms: i64) -> usize {
        let Some(gate) = self.lanes.get(lane) else { return self.burst() };
        let by_breaker = match gate.breaker {
            State::Closed => usize::MAX,
            State::Open { until_ms, .. } => {
                // After a clock that went back nobody waits for longer than the longest pause.
                usize::from(now_ms >= until_ms || until_ms > now_ms.saturating_add(PAUSE_MS_MAX))
            }
            State::Probing { since_ms, .. } => {
                usize::from(now_ms >= since_ms.saturating_add(PROBE_MS_MAX))
            }
        };
        by_breaker.min(self.by_rate(gate, now_ms))
    }

    /// When a job of `lane` may start, if that is a matter of time.
    pub(crate) fn opens_ms(&self, lane: &str, now_ms: i64) -> Option<i64> {
        let gate = self.lanes.get(lane)?;
        let by_breaker = match gate.breaker {
            State::Closed => now_ms,
            State::Open { until_ms, .. } => until_ms,
            State::Probing { since_ms, .. } => since_ms.saturating_add(PROBE_MS_MAX),
        };
        if self.by_rate(gate, now_ms) > 0 {
            return Some(by_breaker);
        }
        let ahead_us = (self.burst() as i64 - 1).saturating_mul(self.interval_us());
        let by_rate = gate.even_us.saturating_sub(ahead_us).div_euclid(1_000).saturating_add(1);
        Some(by_breaker.max(by_rate))
    }

    /// What stands before `lane`.
    pub(crate) fn breaker(&self, lane: &str) -> Breaker {
        match self.lanes.get(lane).map(|gate| gate.breaker) {
            Some(State::Open { .. }) => Breaker::Open,
            Some(State::Probing { .. }) => Breaker::Probing,
            Some(State::Closed) | None => Breaker::Closed,
        }
    }

    /// Lanes whose breaker is not closed.
    pub(crate) fn open_breakers(&self) -> usize {
        self.lanes.values().filter(|gate| gate.breaker != State::Closed).count()
    }

    /// `count` jobs of `lane` start.
    pub(crate) fn started(&mut self, lane: &Arc<str>, count: usize, now_ms: i64) {
        let (rate, interval_us) = (self.rate, self.interval_us());
        let Some(gate) = self.gate(lane, now_ms) else { return };
        if let State::Open { pauses, .. } | State::Probing { pauses, .. } = gate.breaker {
            gate.breaker = State::Probing { since_ms: now_ms, pauses };
        }
        if rate > 0 {
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            let begin_us = gate.even_us.max(now_ms.saturating_mul(1_000));
            gate.even_us = begin_us.saturating_add(interval_us.saturating_mul(count));
        }
    }

    /// `count` jobs of `lane` that started did not run.
    pub(crate) fn unstarted(&mut self, lane: &str, count: usize, now_ms: i64) {
        let interval_us = self.interval_us();
        let Some(gate) = self.lanes.get_mut(lane) else { return };
        if let State::Probing { pauses, .. } = gate.breaker {
            gate.breaker = State::Open { until_ms: now_ms, pauses };
        }
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        gate.even_us = gate.even_us.saturating_sub(interval_us.saturating_mul(count));
    }

    /// A job of `lane` ended; true when that opened its breaker.
    pub(crate) fn ended(&mut self, lane: &Arc<str>, end: End, now_ms: i64) -> bool {
        let most = self.failures_max;
        if most == 0 || (end == End::Well && !self.lanes.contains_key(lane)) {
            return false;
        }
        let Some(gate) = self.gate(lane, now_ms) else { return false };
        let weight = match end {
            End::Well => {
                gate.failures = 0;
                gate.breaker = State::Closed;
                return false;
            }
            End::Unknown => {
                if let State::Probing { pauses, .. } = gate.breaker {
                    gate.breaker = State::Open { until_ms: now_ms, pauses };
                }
                return false;
            }
            End::Failed => 1,
            // Two in a row are enough.
            End::Down => most.div_ceil(2),
        };
        gate.failures = gate.failures.saturating_add(weight);
        let pauses = match gate.breaker {
            State::Probing { pauses, .. } => pauses.saturating_add(1),
            State::Closed if gate.failures >= most => 0,
            // What had started before it opened.
            State::Closed | State::Open { .. } => return false,
        };
        let pause_ms = PAUSE_MS.saturating_mul(1 << pauses.min(20)).min(PAUSE_MS_MAX);
        gate.breaker = State::Open { until_ms: now_ms.saturating_add(pause_ms), pauses };
        true
    }

    fn gate(&mut self, lane: &Arc<str>, now_ms: i64) -> Option<&mut Gate> {
        if self.lanes.len() >= self.prune_at && !self.lanes.contains_key(lane) {
            let now_us = now_ms.saturating_mul(1_000);
            self.lanes.retain(|_, gate| {
                gate.failures > 0 || gate.breaker != State::Closed || gate.even_us > now_us
            });
            if self.lanes.len() >= REMEMBERED_MAX {
                return None;
            }
            self.prune_at = (2 * self.lanes.len()).clamp(REMEMBERED, REMEMBERED_MAX);
        }
        Some(self.lanes.entry(lane.clone()).or_insert(Gate::OPEN))
    }

    fn by_rate(&self, gate: &Gate, now_ms: i64) -> usize {
        if self.rate == 0 {
            return usize::MAX;
        }
        let (now_us, interval_us) = (now_ms.saturating_mul(1_000), self.interval_us());
        let ahead_us = gate.even_us.saturating_sub(now_us).max(0);
        let burst = self.burst() as i64;
        if ahead_us > burst.saturating_mul(interval_us) {
            // Only a clock that went back leaves so many.
            return usize::from(ahead_us > 60_000_000);
        }
        let used = (ahead_us + interval_us - 1) / interval_us;
        usize::try_from(burst - used).unwrap_or(0)
    }

    fn burst(&self) -> usize {
        if self.rate == 0 {
            return usize::MAX;
        }
        usize::try_from((self.rate / BURST_DIVISOR).max(1)).unwrap_or(1)
    }

    fn interval_us(&self) -> i64 {
        if self.rate == 0 { 0 } else { (1_000_000 / self.rate).max(1) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_lane_that_fails_is_tried_by_one_job_at_a_time_with_growing_pauses() {
        let mut gates = Gates::new(0, 4);
        let lane: Arc<str> = "dead.test".into();
        let mut now_ms = 1_000;
        gates.started(&lane, 10, now_ms);
        let opened: Vec<bool> = (0..10).map(|_| gates.ended(&lane, End::Failed, now_ms)).collect();
        assert_eq!(opened.iter().position(|opened| *opened), Some(3));
        assert_eq!(opened.iter().filter(|opened| **opened).count(), 1);
        let mut before_ms = 0;
        for _ in 0..12 {
            assert_eq!(gates.open_for(&lane, now_ms), 0);
            let opens_ms = gates.opens_ms(&lane, now_ms).unwrap();
            let pause_ms = opens_ms - now_ms;
            assert!(pause_ms >= (2 * before_ms).min(PAUSE_MS_MAX) && pause_ms <= PAUSE_MS_MAX);
            assert_eq!(gates.open_for(&lane, opens_ms - 1), 0);
            assert_eq!(gates.open_for(&lane, opens_ms), 1);
            (before_ms, now_ms) = (pause_ms, opens_ms);
            gates.started(&lane, 1, now_ms);
            assert_eq!(gates.open_for(&lane, now_ms), 0);
            assert_eq!(gates.opens_ms(&lane, now_ms), Some(now_ms + PROBE_MS_MAX));
            assert_eq!(gates.breaker(&lane), Breaker::Probing);
            assert!(gates.ended(&lane, End::Down, now_ms));
        }
        let opens_ms = gates.opens_ms(&lane, now_ms).unwrap();
        gates.started(&lane, 1, opens_ms);
        gates.ended(&lane, End::Well, opens_ms);
        assert_eq!(gates.open_for(&lane, opens_ms), usize::MAX);
        assert_eq!(gates.open_breakers(), 0);
    }

    #[test]
    fn a_probe_that_did_not_run_leaves_its_turn_to_another() {
        let mut gates = Gates::new(0, 1);
        let lane: Arc<str> = "dead.test".into();
        assert!(gates.ended(&lane, End::Down, 0));
        gates.started(&lane, 1, PAUSE_MS);
        gates.unstarted(&lane, 1, PAUSE_MS);
        assert_eq!(gates.open_for(&lane, PAUSE_MS), 1);
        gates.started(&lane, 1, PAUSE_MS);
        gates.ended(&lane, End::Unknown, PAUSE_MS);
        assert_eq!(gates.open_for(&lane, PAUSE_MS), 1);
    }

    #[test]
    fn lanes_without_trouble_are_forgotten() {
        let mut gates = Gates::new(5, 3);
        for number in 0..50_000 {
            gates.started(&number.to_string().into(), 1, number * 10);
        }
        assert!(gates.lanes.len() <= 2 * REMEMBERED, "{}", gates.lanes.len());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]

        #[test]
        fn no_second_has_more_starts_than_its_rate_and_none_is_wasted(
            rate in 1..500_u32,
            steps_ms in proptest::collection::vec(1..400_i64, 1..200),
        ) {
            let mut gates = Gates::new(rate, 0);
            let lane: Arc<str> = "peer.test".into();
            let mut starts: Vec<(i64, usize)> = Vec::new();
            let mut now_ms = 1_700_000_000_000;
            let begin_ms = now_ms;
            for step_ms in steps_ms {
                let count = gates.open_for(&lane, now_ms);
                if count > 0 {
                    gates.started(&lane, count, now_ms);
                    starts.push((now_ms, count));
                }
                prop_assert_eq!(gates.open_for(&lane, now_ms), 0);
                let opens_ms = gates.opens_ms(&lane, now_ms).unwrap();
                prop_assert!(opens_ms > now_ms && gates.open_for(&lane, opens_ms) > 0);
                prop_assert!(opens_ms - now_ms <= 1_000 / i64::from(rate) + 2);
                now_ms += step_ms;
            }
            let burst = gates.burst();
            for (at, (from_ms, _)) in starts.iter().enumerate() {
                let within = starts[at..].iter().take_while(|(ms, _)| *ms < from_ms + 1_000);
                let count: usize = within.map(|(_, count)| count).sum();
                prop_assert!(count <= rate as usize + burst + 1, "{count} of {rate}");
            }
            let all: usize = starts.iter().map(|(_, count)| count).sum();
            let span_ms = (now_ms - begin_ms) as usize;
            let most = rate as usize * span_ms / 1_000;
            // Asked rarely, it gives a burst each time.
            prop_assert!(all >= starts.len().min(most), "{all} of {most}");
        }
    }
}
