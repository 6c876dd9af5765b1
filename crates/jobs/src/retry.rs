//! When a failed job is tried again: a pure rule.

use weir_base::Random;

/// The longest wait between two tries, in milliseconds: 30 days.
const DELAY_MS_MAX: i64 = 30 * 24 * 3_600 * 1_000;

/// The longest wait of a job that is put off, in milliseconds, and the shortest.
const POSTPONED_MS_MAX: i64 = 600_000;
const POSTPONED_MS_MIN: i64 = 10;
/// So long after it was ready first a job may be put off, in milliseconds: a day.
const POSTPONABLE_MS: i64 = 24 * 3_600 * 1_000;

/// What follows a failure.
#[derive(Debug, Clone, Copy)]
pub struct Retry {
    /// How often a job runs at most, the first run included; at least 1.
    pub attempts_max: u32,
    /// How long to wait.
    pub delay: Delay,
    /// What becomes of a job whose last attempt failed.
    pub last: Last,
}

/// The wait before the next attempt.
#[derive(Debug, Clone, Copy)]
pub enum Delay {
    /// Sidekiq's formula: `n⁴ + 15 + jitter` seconds before retry `n` (from 0), the jitter being
    /// below `10 × (n + 1)` seconds. 25 retries stretch over about three weeks.
    Growing,
    /// Always this long, in milliseconds.
    FixedMs(i64),
    /// Milliseconds from the number of the failed attempt (from 1).
    Custom(fn(u32) -> i64),
}

/// The end of a job that failed too often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Last {
    /// Kept in the dead set, from where it can be retried.
    Dead,
    /// Dropped and counted.
    Discard,
}

impl Retry {
    /// One run and 25 retries by [`Delay::Growing`], then the dead set.
    pub const DEFAULT: Retry = Retry { attempts_max: 26, delay: Delay::Growing, last: Last::Dead };
    /// One run; a failure is dropped and counted.
    pub const NEVER: Retry = Retry { attempts_max: 1, delay: Delay::Growing, last: Last::Discard };

    /// The same policy with `attempts_max` runs.
    pub const fn attempts(self, attempts_max: u32) -> Self {
        Self { attempts_max, ..self }
    }

    /// The wait after attempt `attempt` (from 1) failed, in milliseconds; none when it was the
    /// last one.
    pub(crate) fn delay_ms(&self, attempt: u32, random: &Random) -> Option<i64> {
        if attempt >= self.attempts_max.max(1) {
            return None;
        }
        let delay_ms = match self.delay {
            Delay::Growing => growing_ms(i64::from(attempt.saturating_sub(1)), random),
            Delay::FixedMs(ms) => ms,
            Delay::Custom(delay) => delay(attempt),
        };
        Some(bounded_ms(delay_ms))
    }
}

/// `delay_ms` brought between now and 30 days.
pub(crate) fn bounded_ms(delay_ms: i64) -> i64 {
    delay_ms.clamp(0, DELAY_MS_MAX)
}

/// The wait of a job that was ready first `age_ms` ago and is put off for `after_ms`, both in
/// milliseconds; none when it was put off for too long already.
pub(crate) fn postponed_ms(after_ms: i64, age_ms: i64, random: &Random) -> Option<i64> {
    let least_ms = after_ms.clamp(POSTPONED_MS_MIN, POSTPONED_MS_MAX);
    let jitter_ms = random.below(least_ms.unsigned_abs() / 2 + 1);
    let wait_ms = least_ms.saturating_add(i64::try_from(jitter_ms).unwrap_or(0));
    (age_ms < POSTPONABLE_MS).then_some(wait_ms)
}

fn growing_ms(retry: i64, random: &Random) -> i64 {
    let grown_ms = retry.saturating_pow(4).saturating_add(15).saturating_mul(1_000);
    let jitter_ms = random.below(10_000_u64.saturating_mul(retry as u64 + 1));
    grown_ms.saturating_add(i64::try_from(jitter_ms).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_grows_with_the_fourth_power_and_ends_after_the_last_attempt() {
        let random = Random::seeded(3);
        for attempt in 1..26 {
            let retry = i64::from(attempt) - 1;
            let delay_ms = Retry::DEFAULT.delay_ms(attempt, &random).unwrap();
            let least_ms = ((retry.pow(4) + 15) * 1_000).min(DELAY_MS_MAX);
            assert!(delay_ms >= least_ms, "{attempt}: {delay_ms}");
            assert!(delay_ms < least_ms + 10_000 * (retry + 1), "{attempt}: {delay_ms}");
        }
        assert_eq!(Retry::DEFAULT.delay_ms(26, &random), None);
        assert_eq!(Retry::NEVER.delay_ms(1, &random), None);
    }

    #[test]
    fn what_is_put_off_comes_back_scattered_and_not_for_ever() {
        let random = Random::seeded(3);
        let mut waits: Vec<i64> =
            (0..100).filter_map(|_| postponed_ms(2_000, 0, &random)).collect();
        assert!(waits.iter().all(|ms| (2_000..=3_000).contains(ms)), "{waits:?}");
        waits.sort_unstable();
        waits.dedup();
        assert!(waits.len() > 50, "{waits:?}");
        let longest_ms = postponed_ms(i64::MAX, POSTPONABLE_MS - 1, &random).unwrap();
        assert!(longest_ms <= POSTPONED_MS_MAX / 2 * 3, "{longest_ms}");
        assert!(postponed_ms(-1, -1, &random).is_some_and(|ms| ms >= POSTPONED_MS_MIN));
        assert_eq!(postponed_ms(2_000, POSTPONABLE_MS, &random), None);
    }

    #[test]
    fn a_policy_that_asks_for_nonsense_is_kept_within_bounds() {
        let random = Random::seeded(3);
        let policy = Retry { delay: Delay::FixedMs(-5), ..Retry::DEFAULT };
        assert_eq!(policy.delay_ms(1, &random), Some(0));
        let policy = Retry { delay: Delay::Custom(|_| i64::MAX), ..Retry::DEFAULT };
        assert_eq!(policy.delay_ms(1, &random), Some(DELAY_MS_MAX));
        let policy = Retry::DEFAULT.attempts(u32::MAX);
        assert_eq!(policy.delay_ms(u32::MAX - 1, &random), Some(DELAY_MS_MAX));
    }
}
