//! How often something may be tried: a bucket of tries for each key that fills again with time.

use metrics::Gauge;
use moka::sync::Cache;
use weir_base::Clock;

/// Keys that are remembered; beyond it those untouched for longest are forgotten.
const KEYS_MAX: u64 = 100_000;

/// A bucket for each key.
pub struct Throttle {
    name: &'static str,
    clock: Clock,
    on: bool,
    burst: i64,
    every_ms: i64,
    /// For each key the moment, in ms, at which its bucket is full again.
    full_at_ms: Cache<String, i64>,
    held: Gauge,
}

impl Throttle {
    /// `burst` tries at once, then one every `every_ms`. Off, it allows everything. `name` is for
    /// its metrics.
    pub fn new(name: &'static str, clock: Clock, on: bool, burst: i64, every_ms: i64) -> Self {
        let full_at_ms = Cache::builder().max_capacity(KEYS_MAX).build();
        let held = metrics::gauge!("weir_http_throttles_held", "what" => name);
        Self { name, clock, on, burst, every_ms, full_at_ms, held }
    }

    /// Takes a try of `key`.
    ///
    /// # Errors
    /// The seconds after which there is one again.
    pub fn take(&self, key: &str) -> Result<(), u64> {
        if !self.on {
            return Ok(());
        }
        let now_ms = self.clock.now().as_ms();
        let mut wait_ms = 0;
        self.full_at_ms.entry_by_ref(key).and_upsert_with(|known| {
            let full_at_ms = self.full_at_ms(known.map(|entry| entry.into_value()), now_ms);
            let next_ms = full_at_ms + self.every_ms;
            wait_ms = next_ms - now_ms - self.burst * self.every_ms;
            if wait_ms > 0 { full_at_ms } else { next_ms }
        });
        self.held.set(self.full_at_ms.entry_count() as f64);
        if wait_ms > 0 {
            self.count();
            return Err((wait_ms as u64).div_ceil(1_000));
        }
        Ok(())
    }

    /// Whether `key` has a try left, without taking it: for tries that count only when they turn
    /// out to be wrong.
    ///
    /// # Errors
    /// The seconds after which there is one again.
    pub fn check(&self, key: &str) -> Result<(), u64> {
        let now_ms = self.clock.now().as_ms();
        let full_at_ms = self.full_at_ms(self.full_at_ms.get(key), now_ms);
        let wait_ms = full_at_ms + self.every_ms - now_ms - self.burst * self.every_ms;
        if self.on && wait_ms > 0 {
            self.count();
            return Err((wait_ms as u64).div_ceil(1_000));
        }
        Ok(())
    }

    /// When a bucket is full of which `known` is remembered. Later than any can be, that is of a
    /// clock which was set back since: the bucket is full.
    fn full_at_ms(&self, known: Option<i64>, now_ms: i64) -> i64 {
        let empty_ms = self.burst * self.every_ms;
        known.filter(|at_ms| (0..=empty_ms).contains(&(at_ms - now_ms))).unwrap_or(now_ms)
    }

    fn count(&self) {
        metrics::counter!("weir_http_throttled_total", "what" => self.name).increment(1);
    }

    /// Fills the bucket of `key`: its last try was a good one.
    pub fn forgive(&self, key: &str) {
        self.full_at_ms.invalidate(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_base::Timestamp;

    #[test]
    fn a_burst_is_allowed_and_then_one_try_at_a_time() {
        let clock = Clock::manual(Timestamp::from_ms(1_000_000));
        let throttle = Throttle::new("test", clock.clone(), true, 3, 10_000);
        assert_eq!([(); 4].map(|()| throttle.take("a")), [Ok(()), Ok(()), Ok(()), Err(10)]);
        assert_eq!(throttle.take("b"), Ok(()));
        clock.advance(10_000);
        assert_eq!(throttle.take("a"), Ok(()));
        assert_eq!(throttle.take("a"), Err(10));
        assert_eq!((throttle.check("a"), throttle.check("c")), (Err(10), Ok(())));
        throttle.forgive("a");
        assert_eq!(throttle.take("a"), Ok(()));
        assert_eq!([(); 3].map(|()| throttle.take("a")), [Ok(()), Ok(()), Err(10)]);
        clock.set(Timestamp::from_ms(1_000));
        assert_eq!(throttle.check("a"), Ok(()), "nobody waits until a clock has caught up");
    }
}
