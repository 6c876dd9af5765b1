//! How often somebody may ask: fixed windows of time, counted in bounded memory.

use std::hash::Hash;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use metrics::Gauge;
use moka::sync::Cache;
use weir_base::{Clock, Id, Timestamp};

/// Windows counted at once.
const WINDOWS_MAX: u64 = 200_000;

/// What is limited, how often and in which time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rule {
    /// A name of its own.
    pub name: &'static str,
    /// How often.
    pub most: u64,
    /// In which time, in s.
    pub window_s: u64,
}

/// Who is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Asker {
    /// A person.
    Account(Id),
    /// A network that counts as one source.
    Source(IpAddr),
}

/// Where somebody stands with a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowance {
    /// How often in all.
    pub most: u64,
    /// How often still; none left when the request was refused or is the last one.
    pub remaining: u64,
    /// When the count begins anew.
    pub reset_at: Timestamp,
    /// Whether this request may pass.
    pub granted: bool,
}

/// Counts requests. Clones share the counts.
#[derive(Clone)]
pub struct Limiter {
    clock: Clock,
    counts: Cache<(Rule, Asker, i64), Arc<AtomicU64>>,
    held: Gauge,
}

impl Limiter {
    /// A limiter of what comes to `face`, in the metrics, that counts by `clock`.
    pub fn new(face: &'static str, clock: Clock) -> Self {
        let counts = Cache::builder()
            .max_capacity(WINDOWS_MAX)
            .time_to_live(Duration::from_secs(3_600))
            .build();
        let held = metrics::gauge!("weir_http_windows_held", "face" => face);
        Self { clock, counts, held }
    }

    /// Counts one request of `asker` under `rule`.
    pub fn count(&self, rule: Rule, asker: Asker) -> Allowance {
        let window_ms = (rule.window_s * 1_000) as i64;
        let window = self.clock.now().as_ms() / window_ms.max(1);
        let mut is_new = false;
        let count = self.counts.get_with((rule, asker, window), || {
            is_new = true;
            Arc::default()
        });
        if is_new {
            self.held.set(self.counts.entry_count() as f64);
        }
        let used = count.fetch_add(1, Ordering::Relaxed) + 1;
        if used > rule.most {
            metrics::counter!("weir_http_requests_limited_total", "rule" => rule.name).increment(1);
        }
        Allowance {
            most: rule.most,
            remaining: rule.most.saturating_sub(used),
            reset_at: Timestamp::from_ms((window + 1) * window_ms),
            granted: used <= rule.most,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_asker_has_its_own_count_which_begins_anew() {
        let clock = Clock::manual(Timestamp::from_ms(1_000_000));
        let limiter = Limiter::new("test", clock.clone());
        let rule = Rule { name: "test", most: 2, window_s: 10 };
        let (one, other) = (Asker::Account(Id(1)), Asker::Account(Id(2)));
        let granted: Vec<bool> = (0..3).map(|_| limiter.count(rule, one).granted).collect();
        assert_eq!(granted, [true, true, false]);
        assert_eq!(limiter.count(rule, other).remaining, 1);
        assert_eq!(limiter.count(rule, one).reset_at, Timestamp::from_ms(1_010_000));
        clock.set(Timestamp::from_ms(1_010_000));
        assert!(limiter.count(rule, one).granted);
    }
}
