//! How much is fetched: from each server so much a minute, each thing by one at a time, and what
//! failed for good not again for a while.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use moka::sync::Cache;
use parking_lot::Mutex;
use weir_base::{Clock, Timestamp};

use super::{RemoteError, host_of};

/// Requests to one server in one minute.
const PER_MINUTE_MAX: u32 = 300;
/// Those of them that are not for keys, without which nothing comes in of who signs with them.
const NOT_FOR_KEYS_MAX: u32 = 200;
const MINUTE_MS: i64 = 60_000;
/// Servers whose requests are counted.
const HOSTS_MAX: u64 = 10_000;
/// Failures remembered, and how long, in ms.
const FAILURES_MAX: u64 = 20_000;
pub(crate) const FAILURE_LIFE_MS: i64 = 600_000;

/// What is looked for at an address: that no post is there says nothing of an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Sought {
    /// Somebody.
    Account,
    /// Something that somebody wrote.
    Post,
}

/// See the module.
pub(crate) struct Budgets {
    clock: Clock,
    counts: Cache<String, Arc<Mutex<Count>>>,
    failures: Cache<(Sought, String), Failure>,
    flights: Mutex<HashMap<String, Weak<tokio::sync::Mutex<()>>>>,
}

/// What failed for good.
#[derive(Clone)]
struct Failure {
    at: Timestamp,
    /// What says so.
    error: fn(String) -> RemoteError,
    why: Arc<str>,
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
}

tokio::task_local! {
    static FOR_KEY_OF: String;
}

/// Does `fetch`, whose requests to the server at `authority` are for a key. Where that leads to
/// others, it is nothing of theirs.
pub(crate) async fn for_key<T>(authority: &str, fetch: impl Future<Output = T>) -> T {
    FOR_KEY_OF.scope(host_of(authority).to_owned(), fetch).await
}

/// Whether a request to `host` is for a key.
pub(super) fn is_for_key(host: &str) -> bool {
    FOR_KEY_OF.try_with(|of| of == host).unwrap_or(false)
}

impl Budgets {
    pub(crate) fn new(clock: Clock) -> Self {
        Self {
            clock,
            counts: Cache::new(HOSTS_MAX),
            failures: Cache::builder()
                .max_capacity(FAILURES_MAX)
                .time_to_live(Duration::from_millis(FAILURE_LIFE_MS.unsigned_abs()))
                .build(),
            flights: Mutex::default(),
        }
    }

    /// What is held, by the names of the metrics.
    pub(super) fn held(&self) -> [(&'static str, u64); 3] {
        self.failures.run_pending_tasks();
        [
            ("weir_activitypub_budgets_held", self.counts.entry_count()),
            ("weir_activitypub_failures_held", self.failures.entry_count()),
            ("weir_activitypub_flights_held", self.flights.lock().len() as u64),
        ]
    }

    /// Takes one request to `host` from its budget.
    pub(super) fn take(&self, host: &str) -> Result<(), RemoteError> {
        let count = self.counts.get_with_by_ref(host, Arc::default);
        let mut count = count.lock();
        *count = count.at(self.clock.now());
        if count.made >= if is_for_key(host) { PER_MINUTE_MAX } else { NOT_FOR_KEYS_MAX } {
            metrics::counter!("weir_activitypub_fetches_refused_total").increment(1);
            let left_ms = MINUTE_MS - self.clock.now().since_ms(count.began);
            return Err(RemoteError::Budget(host.into(), left_ms));
        }
        count.made += 1;
        Ok(())
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

    /// Why what was `sought` at `uri` is not asked for: it failed lately for good.
    pub(crate) fn failed(&self, sought: Sought, uri: &str) -> Option<RemoteError> {
        let Failure { at, error, why } = self.failures.get(&(sought, uri.to_owned()))?;
        let since_ms = self.clock.now().since_ms(at);
        (0..FAILURE_LIFE_MS).contains(&since_ms).then(|| error(format!("{uri} ({why})")))
    }

    /// What was `sought` at `uri` failed for good.
    pub(crate) fn note_failure(&self, sought: Sought, uri: &str, why: &RemoteError) {
        let error = match why {
            RemoteError::Gone(_) => RemoteError::Gone,
            RemoteError::Refused(_) => RemoteError::Refused,
            _ => RemoteError::Missing,
        };
        let failure = Failure { at: self.clock.now(), error, why: why.to_string().into() };
        self.failures.insert((sought, uri.to_owned()), failure);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_server_is_asked_so_often_in_a_minute_and_the_last_of_it_is_for_keys() {
        let clock = Clock::manual(Timestamp::from_ms(10_000_000));
        let budgets = Budgets::new(clock.clone());
        let left_ms = |result| match result {
            Err(RemoteError::Budget(_, ms)) => Some(ms),
            _ => None,
        };
        for _ in 0..NOT_FOR_KEYS_MAX {
            budgets.take("a.example").unwrap();
        }
        assert_eq!(left_ms(budgets.take("a.example")), Some(MINUTE_MS));
        for _ in NOT_FOR_KEYS_MAX..PER_MINUTE_MAX {
            for_key("a.example:443", async { budgets.take("a.example") }).await.unwrap();
        }
        let spent = for_key("a.example:443", async { budgets.take("a.example") }).await;
        assert_eq!(left_ms(spent), Some(MINUTE_MS));
        for _ in 0..NOT_FOR_KEYS_MAX {
            for_key("a.example", async { budgets.take("b.example") }).await.unwrap();
        }
        let led_to = for_key("a.example", async { budgets.take("b.example") }).await;
        assert_eq!(left_ms(led_to), Some(MINUTE_MS), "it is no key of the other");
        clock.set(Timestamp::from_ms(10_000_000 - 3_600_000));
        assert!(budgets.take("a.example").is_ok(), "a clock that is set back begins a new minute");
    }
}
