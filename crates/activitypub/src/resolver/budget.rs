//! How much is fetched: from each server so much a minute, each thing by one at a time, and what
//! failed for good not again for a while.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use moka::sync::Cache;
use parking_lot::Mutex;
use weir_base::{Clock, Timestamp};

use super::RemoteError;

/// Requests to one server in one minute.
const PER_MINUTE_MAX: u32 = 300;
const MINUTE_MS: i64 = 60_000;
/// Servers whose requests are counted.
const HOSTS_MAX: u64 = 10_000;
/// Failures remembered, and how long.
const FAILURES_MAX: u64 = 20_000;
const FAILURE_LIFE: Duration = Duration::from_secs(600);

/// See the module.
pub(crate) struct Budgets {
    clock: Clock,
    counts: Cache<String, Arc<Mutex<Count>>>,
    failures: Cache<String, Arc<str>>,
    flights: Mutex<HashMap<String, Weak<tokio::sync::Mutex<()>>>>,
}

/// Requests to a server since the minute began.
#[derive(Clone, Copy, Default)]
struct Count {
    began: Timestamp,
    made: u32,
}

impl Count {
    /// The same in the minute of `now`, also where the clock was set back.
    fn at(self, now: Timestamp) -> Self {
        let same = (0..MINUTE_MS).contains(&now.since_ms(self.began));
        if same { self } else { Self { began: now, made: 0 } }
    }

    fn allows(&self, host: &str, most: u32, now: Timestamp) -> Result<(), RemoteError> {
        if self.made < most {
            return Ok(());
        }
        metrics::counter!("weir_activitypub_fetches_refused_total").increment(1);
        let left_ms = MINUTE_MS - now.since_ms(self.began);
        Err(RemoteError::Budget(host.into(), left_ms))
    }
}

impl Budgets {
    pub(crate) fn new(clock: Clock) -> Self {
        Self {
            clock,
            counts: Cache::new(HOSTS_MAX),
            failures: Cache::builder()
                .max_capacity(FAILURES_MAX)
                .time_to_live(FAILURE_LIFE)
                .build(),
            flights: Mutex::default(),
        }
    }

    /// Takes one request to `host` from its budget.
    pub(super) fn take(&self, host: &str) -> Result<(), RemoteError> {
        let count = self.counts.get_with_by_ref(host, Arc::default);
        let mut count = count.lock();
        *count = count.at(self.clock.now());
        count.allows(host, PER_MINUTE_MAX, self.clock.now())?;
        count.made += 1;
        Ok(())
    }

    /// That fewer than `most` of this minute's requests to `host` were made.
    pub(super) fn check(&self, host: &str, most: u32) -> Result<(), RemoteError> {
        let now = self.clock.now();
        let count = self.counts.get(host).map(|count| count.lock().at(now)).unwrap_or_default();
        count.allows(host, most, now)
    }

    /// Whether fewer than one in `part` of this minute's requests to `host` were made.
    pub(super) fn has_left(&self, host: &str, part: usize) -> bool {
        let now = self.clock.now();
        let count = self.counts.get(host).map(|count| count.lock().at(now)).unwrap_or_default();
        (count.made as usize) < PER_MINUTE_MAX as usize / part
    }

    /// Has one at a time fetch what `key` names; the others wait and then find it known.
    pub(super) async fn alone(&self, key: &str) -> tokio::sync::OwnedMutexGuard<()> {
        let flight = {
            let mut flights = self.flights.lock();
            match flights.get(key).and_then(Weak::upgrade) {
                Some(flight) => flight,
                None => {
                    if flights.len() >= 1_000 {
                        flights.retain(|_, flight| flight.strong_count() > 0);
                    }
                    let flight = Arc::new(tokio::sync::Mutex::new(()));
                    flights.insert(key.to_owned(), Arc::downgrade(&flight));
                    flight
                }
            }
        };
        flight.lock_owned().await
    }

    /// Why what `key` names failed lately for good, if it did.
    pub(crate) fn failed(&self, key: &str) -> Option<Arc<str>> {
        self.failures.get(key)
    }

    /// What `key` names failed for good.
    pub(crate) fn note_failure(&self, key: &str, why: &str) {
        self.failures.insert(key.to_owned(), why.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_asked_so_often_in_a_minute_and_a_part_of_that_is_for_keys() {
        let clock = Clock::manual(Timestamp::from_ms(10_000_000));
        let budgets = Budgets::new(clock.clone());
        for _ in 0..200 {
            assert!(budgets.check("a.example", 200).is_ok());
            budgets.take("a.example").unwrap();
        }
        let left_ms = |result| match result {
            Err(RemoteError::Budget(_, ms)) => Some(ms),
            _ => None,
        };
        assert_eq!(left_ms(budgets.check("a.example", 200)), Some(MINUTE_MS));
        for _ in 200..PER_MINUTE_MAX {
            budgets.take("a.example").unwrap();
        }
        assert_eq!(left_ms(budgets.take("a.example")), Some(MINUTE_MS));
        assert!(budgets.take("other.example").is_ok());
        clock.set(Timestamp::from_ms(10_000_000 - 3_600_000));
        assert!(budgets.take("a.example").is_ok(), "a clock that is set back begins a new minute");
    }
}
