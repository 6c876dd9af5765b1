//! How much is fetched: from each server so much a minute, each thing by one at a time, and what
//! failed for good not again for a while.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use moka::sync::Cache;
use parking_lot::Mutex;
use weir_base::Clock;

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
    counts: Cache<String, Arc<Mutex<(i64, u32)>>>,
    failures: Cache<String, Arc<str>>,
    flights: Mutex<HashMap<String, Weak<tokio::sync::Mutex<()>>>>,
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
        let now = self.clock.now().as_ms();
        let mut count = count.lock();
        if now - count.0 >= MINUTE_MS {
            *count = (now, 0);
        }
        if count.1 >= PER_MINUTE_MAX {
            metrics::counter!("weir_activitypub_fetches_refused_total").increment(1);
            return Err(RemoteError::Budget(host.into(), count.0 + MINUTE_MS - now));
        }
        count.1 += 1;
        Ok(())
    }

    /// Whether fewer than one in `part` of this minute's requests to `host` were made.
    pub(super) fn has_left(&self, host: &str, part: usize) -> bool {
        let now = self.clock.now().as_ms();
        let Some(count) = self.counts.get(host).map(|count| *count.lock()) else { return true };
        now - count.0 >= MINUTE_MS || (count.1 as usize) < PER_MINUTE_MAX as usize / part
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
