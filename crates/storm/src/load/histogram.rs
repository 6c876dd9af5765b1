//! How long requests took.

use std::time::Duration;

use hdrhistogram::Histogram;

/// The longest time that is told apart, in µs: ten minutes.
const LONGEST_US: u64 = 600_000_000;

/// Times of many requests, and how many failed.
#[derive(Debug, Clone)]
pub struct Latencies {
    times: Option<Histogram<u64>>,
    failed: u64,
    elapsed: Duration,
}

impl Default for Latencies {
    fn default() -> Self {
        let times = Histogram::new_with_bounds(1, LONGEST_US, 3).ok();
        Self { times, failed: 0, elapsed: Duration::ZERO }
    }
}

impl Latencies {
    /// Adds a request.
    pub fn record(&mut self, took: Duration, fine: bool) {
        let us = u64::try_from(took.as_micros()).unwrap_or(LONGEST_US).clamp(1, LONGEST_US);
        if let Some(times) = &mut self.times {
            times.saturating_record(us);
        }
        self.failed += u64::from(!fine);
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: Self) {
        if let (Some(times), Some(others)) = (&mut self.times, other.times) {
            let _ = times.add(others);
        }
        self.failed += other.failed;
    }

    /// How long the whole load took.
    pub fn set_elapsed(&mut self, elapsed: Duration) {
        self.elapsed = elapsed;
    }

    /// How many requests there were.
    pub fn count(&self) -> u64 {
        self.times.as_ref().map_or(0, Histogram::len)
    }

    /// How many failed.
    pub fn failed(&self) -> u64 {
        self.failed
    }

    /// The time that `percent` of the requests stayed below, in ms.
    pub fn percentile_ms(&self, percent: f64) -> f64 {
        let us = self.times.as_ref().map_or(0, |times| times.value_at_percentile(percent));
        us as f64 / 1_000.0
    }

    /// Requests a second over the whole load.
    pub fn per_s(&self) -> f64 {
        self.count() as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }

    /// How long the whole load took, in ms.
    pub fn elapsed_ms(&self) -> f64 {
        self.elapsed.as_secs_f64() * 1_000.0
    }
}
