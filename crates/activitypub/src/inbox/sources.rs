//! What networks did lately: one that forges loses its budget, and with it nobody but itself.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use moka::sync::Cache;
use parking_lot::Mutex;
use weir_base::Timestamp;

/// Networks remembered.
const SOURCES_MAX: u64 = 20_000;
/// How long a network that is silent is remembered.
const SOURCES_LIFE: Duration = Duration::from_secs(3_600);
/// Signatures that do not fit which a network may send at once: keys are renewed, and clocks and
/// proxies go wrong.
const FORGERIES_MAX: i64 = 100;
/// In this time, in ms, it may send one more.
const REGAINED_MS: i64 = 10_000;

/// See the module.
pub(crate) struct Sources(Cache<IpAddr, Arc<Mutex<Record>>>);

#[derive(Clone, Copy)]
struct Record {
    left: i64,
    at: Timestamp,
}

impl Default for Sources {
    fn default() -> Self {
        Self(Cache::builder().max_capacity(SOURCES_MAX).time_to_idle(SOURCES_LIFE).build())
    }
}

impl Sources {
    /// A signature from `source` did not fit what it claims.
    pub(super) fn forged(&self, source: IpAddr, now: Timestamp) {
        let fresh = || Arc::new(Mutex::new(Record { left: FORGERIES_MAX, at: now }));
        let record = self.0.get_with(source, fresh);
        let mut record = record.lock();
        *record = record.regained(now);
        record.left = (record.left - 1).max(0);
        if record.left == 0 {
            metrics::counter!("weir_activitypub_inbox_spent_total").increment(1);
        }
    }

    /// Whether `source` forged so much that nothing is looked up for it now.
    pub(super) fn is_spent(&self, source: IpAddr, now: Timestamp) -> bool {
        self.0.get(&source).is_some_and(|record| record.lock().regained(now).left == 0)
    }
}

impl Record {
    fn regained(self, now: Timestamp) -> Self {
        let regained = now.since_ms(self.at).max(0) / REGAINED_MS;
        let at = if regained > 0 { self.at.plus_ms(regained * REGAINED_MS) } else { self.at };
        Self { left: (self.left + regained).min(FORGERIES_MAX), at }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_that_forges_loses_its_budget_and_regains_it_slowly() {
        let sources = Sources::default();
        let (bad, good): (IpAddr, IpAddr) = ([192, 0, 2, 1].into(), [192, 0, 2, 2].into());
        let now = Timestamp::from_ms(1_000_000);
        for _ in 0..FORGERIES_MAX {
            assert!(!sources.is_spent(bad, now));
            sources.forged(bad, now);
        }
        assert!(sources.is_spent(bad, now));
        assert!(!sources.is_spent(good, now));
        let later = now.plus_ms(REGAINED_MS);
        assert!(!sources.is_spent(bad, later));
        sources.forged(bad, later);
        assert!(sources.is_spent(bad, later));
    }

    #[test]
    fn who_forges_without_pause_stays_without_budget() {
        let sources = Sources::default();
        let source: IpAddr = [192, 0, 2, 1].into();
        let mut now = Timestamp::from_ms(1_000_000);
        for _ in 0..100_000 {
            sources.forged(source, now);
            now = now.plus_ms(100);
        }
        let mut free = 0;
        for _ in 0..1_000 {
            if !sources.is_spent(source, now) {
                free += 1;
                sources.forged(source, now);
            }
            now = now.plus_ms(100);
        }
        assert!(free <= 11, "{free}");
    }
}
