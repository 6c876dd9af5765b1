//! How fast what waits behind the door is worked, so that who is told to come again knows when.

use std::ops::RangeInclusive;

use weir_base::Timestamp;

/// For about so long it is counted how many were worked, in ms …
const WINDOW_MS: i64 = 10_000;
/// … and where nobody looked for so long, nothing is known.
const WINDOW_MS_MAX: i64 = 60_000;
/// The earliest and the latest time to come again, in s.
const AGAIN_S: RangeInclusive<f64> = 10.0..=3_600.0;

/// Messages that were worked.
#[derive(Debug, Default)]
pub(super) struct Pace {
    since: Timestamp,
    done_before: u64,
    per_s: f64,
}

impl Pace {
    /// By `now` so many of each kind were worked since the process began.
    pub(super) fn saw(&mut self, now: Timestamp, done: [u64; 3]) {
        let (done, elapsed_ms) = (done.iter().sum::<u64>(), now.since_ms(self.since));
        if (0..WINDOW_MS).contains(&elapsed_ms) {
            return;
        }
        // Of a clock that was set back, or of the first look, nothing can be told.
        let counts = (WINDOW_MS..WINDOW_MS_MAX).contains(&elapsed_ms);
        let worked = done.saturating_sub(self.done_before) as f64;
        self.per_s = if counts { worked * 1_000.0 / elapsed_ms as f64 } else { 0.0 };
        (self.since, self.done_before) = (now, done);
    }

    /// When to come again, in s, where so many messages are worked before; `otherwise` where none
    /// are, or it is not known how fast.
    pub(super) fn again_s(&self, ahead: u64, otherwise: u32) -> u32 {
        if self.per_s <= 0.0 {
            return otherwise;
        }
        // It fits: it is no more than the end of the range.
        (ahead as f64 / self.per_s).clamp(*AGAIN_S.start(), *AGAIN_S.end()).ceil() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_put_off_comes_again_when_there_will_be_room() {
        let at = |s: i64| Timestamp::from_ms(1_700_000_000_000 + s * 1_000);
        let mut pace = Pace::default();
        pace.saw(at(0), [5_000, 0, 0]);
        assert_eq!(pace.again_s(62_500, 300), 300, "nothing is known yet");
        pace.saw(at(9), [41_000, 0, 0]);
        assert_eq!(pace.again_s(62_500, 300), 300);
        pace.saw(at(10), [30_000, 14_000, 1_000]);
        assert_eq!(pace.again_s(62_500, 300), 16, "at 4,000 each second");
        assert_eq!(pace.again_s(250_000, 300), 63);
        assert_eq!(pace.again_s(500, 300), 10);
        assert_eq!(pace.again_s(u64::MAX, 300), 3_600);
        pace.saw(at(20), [30_000, 14_000, 1_000]);
        assert_eq!(pace.again_s(62_500, 300), 300, "nothing was worked");
        pace.saw(at(90), [30_000, 54_000, 1_000]);
        assert_eq!(pace.again_s(62_500, 300), 300, "nobody knows in which of these seconds");
        pace.saw(at(80), [30_000, 94_000, 1_000]);
        assert_eq!(pace.again_s(62_500, 300), 300, "the clock was set back");
        pace.saw(at(90), [30_000, 134_000, 1_000]);
        assert_eq!(pace.again_s(62_500, 300), 16);
    }
}
