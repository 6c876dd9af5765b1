//! What networks did lately: one that forges, or names keys that are nowhere, loses its budget, and
//! with it nobody but itself.

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
/// Signatures that do not fit which a network may send at once, and in what time, in ms, one more:
/// keys are renewed, and clocks and proxies go wrong.
const FORGERIES: Allowance = Allowance { most: 100, regained_ms: 10_000 };
/// Keys that are nowhere which it may name: people go, and servers hide from this one.
const NAMELESS: Allowance = Allowance { most: 300, regained_ms: 3_000 };

/// See the module.
#[derive(Default)]
pub(crate) struct Sources {
    forgeries: Ledger,
    nameless: Ledger,
}

/// What each network has left of an allowance.
struct Ledger(Cache<IpAddr, Arc<Mutex<Record>>>);

struct Allowance {
    most: i64,
    regained_ms: i64,
}

#[derive(Clone, Copy)]
struct Record {
    left: i64,
    at: Timestamp,
}

impl Default for Ledger {
    fn default() -> Self {
        Self(Cache::builder().max_capacity(SOURCES_MAX).time_to_idle(SOURCES_LIFE).build())
    }
}

impl Sources {
    /// Networks in memory that forged, and that named keys which are nowhere.
    pub(super) fn held(&self) -> [u64; 2] {
        [&self.forgeries, &self.nameless].map(|Ledger(known)| {
            known.run_pending_tasks();
            known.entry_count()
        })
    }

    /// A signature from `source` did not fit what it claims.
    pub(crate) fn forged(&self, source: IpAddr, now: Timestamp) {
        self.forgeries.charge(source, now, &FORGERIES);
    }

    /// The key that `source` named is nowhere.
    pub(crate) fn named_no_key(&self, source: IpAddr, now: Timestamp) {
        self.nameless.charge(source, now, &NAMELESS);
    }

    /// Whether `source` did so much of either that nothing is looked up for it now.
    pub(crate) fn is_spent(&self, source: IpAddr, now: Timestamp) -> bool {
        self.forgeries.left(source, now, &FORGERIES) == 0
            || self.nameless.left(source, now, &NAMELESS) == 0
    }

    /// Whether `source` did any of it that is not made good yet.
    pub(super) fn is_suspect(&self, source: IpAddr, now: Timestamp) -> bool {
        self.forgeries.left(source, now, &FORGERIES) < FORGERIES.most
            || self.nameless.left(source, now, &NAMELESS) < NAMELESS.most
    }
}

impl Ledger {
    fn charge(&self, source: IpAddr, now: Timestamp, allowance: &Allowance) {
        let fresh = || Arc::new(Mutex::new(Record { left: allowance.most, at: now }));
        let record = self.0.get_with(source, fresh);
        let mut record = record.lock();
        *record = record.regained(now, allowance);
        record.left = (record.left - 1).max(0);
        if record.left == 0 {
            metrics::counter!("weir_activitypub_inbox_spent_total").increment(1);
        }
    }

    fn left(&self, source: IpAddr, now: Timestamp, allowance: &Allowance) -> i64 {
        let Some(record) = self.0.get(&source) else { return allowance.most };
        let mut record = record.lock();
        *record = record.regained(now, allowance);
        record.left
    }
}

impl Record {
    fn regained(self, now: Timestamp, allowance: &Allowance) -> Self {
        // What lies ahead was written before the clock was set back: time counts from now on.
        let since = self.at.min(now);
        let regained = now.since_ms(since) / allowance.regained_ms;
        let at = since.plus_ms(regained * allowance.regained_ms);
        Self { left: (self.left + regained).min(allowance.most), at }
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
        for _ in 0..FORGERIES.most {
            assert!(!sources.is_spent(bad, now));
            sources.forged(bad, now);
        }
        assert!(sources.is_spent(bad, now));
        assert!(!sources.is_spent(good, now));
        let later = now.plus_ms(FORGERIES.regained_ms);
        assert!(!sources.is_spent(bad, later));
        sources.forged(bad, later);
        assert!(sources.is_spent(bad, later));
    }

    #[test]
    fn who_names_keys_that_are_nowhere_is_suspect_at_once_and_spent_later() {
        let sources = Sources::default();
        let source: IpAddr = [192, 0, 2, 1].into();
        let now = Timestamp::from_ms(1_000_000);
        assert!(!sources.is_suspect(source, now));
        for _ in 0..NAMELESS.most {
            assert!(!sources.is_spent(source, now));
            sources.named_no_key(source, now);
            assert!(sources.is_suspect(source, now));
        }
        assert!(sources.is_spent(source, now));
        let later = now.plus_ms(NAMELESS.most * NAMELESS.regained_ms);
        assert!(!sources.is_suspect(source, later));
    }

    #[test]
    fn after_a_clock_that_was_set_back_a_budget_is_regained_from_then_on() {
        let sources = Sources::default();
        let source: IpAddr = [192, 0, 2, 1].into();
        let now = Timestamp::from_ms(1_000_000);
        for _ in 0..FORGERIES.most {
            sources.forged(source, now.plus_ms(3_600_000));
        }
        assert!(sources.is_spent(source, now));
        assert!(!sources.is_spent(source, now.plus_ms(FORGERIES.regained_ms)));
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
