//! How fast what waits behind the door is worked, so that who is told to come again knows when.

/// What was measured counts for about so long, in ms.
const SMOOTHED_MS: f64 = 10_000.0;
/// Whoever is put off comes again when one in so many of what waits will have been worked.
const PART: f64 = 8.0;
/// The earliest and the latest, in s.
const AGAIN_S: std::ops::RangeInclusive<f64> = 10.0..=3_600.0;
/// Below, in messages each second, nothing is known: a queue that was paused, or has just begun.
const KNOWN_PER_S: f64 = 1.0;

/// Messages worked each second, smoothed.
#[derive(Debug, Default)]
pub(super) struct Pace {
    per_s: f64,
}

impl Pace {
    /// In `elapsed_ms` so many were worked.
    pub(super) fn saw(&mut self, worked: u64, elapsed_ms: i64) {
        let elapsed_ms = elapsed_ms.max(1) as f64;
        let part = (elapsed_ms / SMOOTHED_MS).min(1.0);
        let now = worked as f64 * 1_000.0 / elapsed_ms;
        self.per_s += (now - self.per_s) * part;
    }

    /// When to come again, in s, where `waiting` messages wait, of which one in `lanes` is worked,
    /// as servers take turns; `otherwise` where nothing is known.
    pub(super) fn again_s(&self, waiting: u64, lanes: usize, otherwise: u32) -> u32 {
        if self.per_s < KNOWN_PER_S {
            return otherwise;
        }
        let seconds = waiting as f64 / PART * lanes.max(1) as f64 / self.per_s;
        // It fits: it is no more than the end of the range.
        seconds.clamp(*AGAIN_S.start(), *AGAIN_S.end()).ceil() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_put_off_comes_again_when_there_will_be_room() {
        let mut pace = Pace::default();
        assert_eq!(pace.again_s(500_000, 1, 300), 300, "nothing was worked yet");
        pace.saw(40_000, 10_000);
        assert_eq!(pace.again_s(500_000, 1, 300), 16, "an eighth, at 4,000 each second");
        assert_eq!(pace.again_s(500_000, 4, 300), 63, "three others take turns with it");
        assert_eq!(pace.again_s(5_000, 1, 300), 10);
        assert_eq!(pace.again_s(500_000, 500, 300), 3_600);
        pace.saw(0, 5_000);
        assert_eq!(pace.again_s(500_000, 1, 300), 32, "it became slower");
        pace.saw(0, 60_000);
        assert_eq!(pace.again_s(500_000, 1, 300), 300, "nothing is worked any more");
    }
}
