//! What the log says while the database or Redis does not answer: the first time, then at most once
//! a minute, and when it is back. Many parts ask many times a second, and all would say the same.

use std::fmt::Display;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// How often it is said while it lasts.
const TOLD_EACH: Duration = Duration::from_secs(60);
/// It is back when nothing has failed for so long: it may answer one thing and refuse another.
const QUIET: Duration = Duration::from_secs(1);

/// Whether something answers, as all parts of the process found.
pub(crate) struct Outage {
    /// What does not answer.
    name: &'static str,
    failures: metrics::Counter,
    lasting: Mutex<Option<Lasting>>,
}

/// An outage that has not ended.
struct Lasting {
    began: Instant,
    last: Instant,
    told: Instant,
    /// What failed since it was last told, the last time included.
    failures: u64,
    all: u64,
}

impl Outage {
    /// None so far, of Redis.
    pub(crate) fn of_redis() -> Self {
        Self::of("Redis", metrics::counter!("weir_jobs_redis_failures_total"))
    }

    /// None so far, of the database.
    pub(crate) fn of_database() -> Self {
        Self::of("the database", metrics::counter!("weir_jobs_database_failures_total"))
    }

    fn of(name: &'static str, failures: metrics::Counter) -> Self {
        Self { name, failures, lasting: Mutex::default() }
    }

    /// Something that was asked of it failed: `waits` is what waits for it.
    pub(crate) fn failed(&self, waits: &str, error: &impl Display) {
        self.failures.increment(1);
        if let Some(failures) = self.count(Instant::now()) {
            tracing::warn!(%error, failures, "{} does not answer: {waits}", self.name);
        }
    }

    /// Something that was asked of it was answered.
    pub(crate) fn answered(&self) {
        if let Some((lasted, failures)) = self.end(Instant::now()) {
            tracing::info!(failures, lasted_s = lasted.as_secs(), "{} answers again", self.name);
        }
    }

    /// Counts a failure; how many there were since it was last told, where it is to be told now.
    fn count(&self, now: Instant) -> Option<u64> {
        let mut lasting = self.lasting.lock();
        let begins = lasting.is_none();
        let it = lasting.get_or_insert(Lasting {
            began: now,
            last: now,
            told: now,
            failures: 0,
            all: 0,
        });
        it.last = now;
        it.failures += 1;
        it.all += 1;
        if !begins && now.duration_since(it.told) < TOLD_EACH {
            return None;
        }
        it.told = now;
        Some(std::mem::take(&mut it.failures))
    }

    /// How long an outage lasted that is over now, and how much failed.
    fn end(&self, now: Instant) -> Option<(Duration, u64)> {
        let mut lasting = self.lasting.lock();
        lasting
            .take_if(|it| now.duration_since(it.last) >= QUIET)
            .map(|it| (it.last.duration_since(it.began), it.all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn an_outage_is_told_at_once_then_each_minute_with_a_count_and_when_it_is_over() {
        let (outage, begin) = (Outage::of_redis(), Instant::now());
        assert_eq!(outage.end(begin), None);
        let told: Vec<(u32, u64)> = (0..1_500_u32)
            .filter_map(|at| Some((at, outage.count(begin + 100 * at * MS)?)))
            .collect();
        assert_eq!(told, [(0, 1), (600, 600), (1_200, 600)]);
        let last = begin + 100 * 1_499 * MS;
        // What is answered in between ends nothing.
        assert_eq!(outage.end(last + 999 * MS), None);
        assert_eq!(outage.end(last + 1_000 * MS), Some((last - begin, 1_500)));
        assert_eq!(outage.end(last + 1_001 * MS), None);
        assert_eq!(outage.count(last + 1_002 * MS), Some(1), "the next one is told at once");
    }
}
