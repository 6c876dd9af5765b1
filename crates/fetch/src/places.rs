//! Places to do something at other servers, of which no domain gets more than a part.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The part that names below one domain get, a quarter: whoever has a domain can have any number of
/// names below it behind which nobody answers.
pub(crate) const DOMAIN_PART: usize = 4;
/// Domains with places of their own from which on those are forgotten that nobody has.
const DOMAINS_MIN: usize = 1_000;

/// So many may do it at once, and a quarter as many at one domain.
pub struct Places {
    all: Arc<Semaphore>,
    of_domains: Mutex<HashMap<String, Weak<Semaphore>>>,
    /// How many of those are held.
    domains_held: metrics::Gauge,
    per_domain: usize,
}

/// A place, until it is dropped.
pub struct Place {
    _of_domain: Option<OwnedSemaphorePermit>,
    _of_all: Option<OwnedSemaphorePermit>,
}

impl Places {
    /// `places` of them; `what` they are for, in the metrics.
    pub fn new(what: &'static str, places: usize) -> Self {
        Self {
            all: Arc::new(Semaphore::new(places)),
            of_domains: Mutex::default(),
            domains_held: metrics::gauge!("weir_fetch_domains_held", "for" => what),
            per_domain: places / DOMAIN_PART,
        }
    }

    /// A place for `host`, waited for: one of its domain first, so that who waits for that holds no
    /// other's. Who waits has a patience of their own.
    pub async fn enter(&self, host: &str) -> Place {
        // Neither is ever closed, so that there is a permit each time.
        let of_domain = self.of_domain(domain(host)).acquire_owned().await.ok();
        Place { _of_domain: of_domain, _of_all: self.all.clone().acquire_owned().await.ok() }
    }

    fn of_domain(&self, domain: &str) -> Arc<Semaphore> {
        let mut of_domains = self.of_domains.lock();
        if let Some(places) = of_domains.get(domain).and_then(Weak::upgrade) {
            return places;
        }
        // No more are held than there are who have a place or wait for one.
        if of_domains.len() >= DOMAINS_MIN {
            of_domains.retain(|_, places| places.strong_count() > 0);
        }
        let places = Arc::new(Semaphore::new(self.per_domain));
        of_domains.insert(domain.to_owned(), Arc::downgrade(&places));
        self.domains_held.set(of_domains.len() as f64);
        places
    }
}

/// The last two labels of a name: what somebody had to pay for, but for suffixes such as `co.uk`,
/// below which all share their places. An address stands for itself.
fn domain(host: &str) -> &str {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    if bare.parse::<IpAddr>().is_ok() {
        return host;
    }
    let second = host.rmatch_indices('.').nth(1);
    second.map_or(host, |(at, _)| &host[at + 1..])
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn names_below_one_domain_leave_places_for_others() {
        let places = Places::new("tests", 8);
        let mut held = Vec::new();
        for number in 0..8 / DOMAIN_PART {
            held.push(places.enter(&format!("{number}.hangs.example")).await);
        }
        let soon = async |host: &str| timeout(Duration::from_secs(1), places.enter(host)).await;
        assert!(soon("one-more.hangs.example").await.is_err());
        assert!(soon("other.example").await.is_ok());
        drop(held);
        assert!(soon("one-more.hangs.example").await.is_ok());
        for number in 0..4 * DOMAINS_MIN {
            drop(places.of_domain(&format!("{number}.example")));
        }
        assert!(places.of_domains.lock().len() <= DOMAINS_MIN);
    }

    #[test]
    fn a_domain_is_the_last_two_labels_of_a_name() {
        for (host, expected) in [
            ("a.b.example", "b.example"),
            ("b.example", "b.example"),
            ("localhost", "localhost"),
            ("192.0.2.1", "192.0.2.1"),
            ("[2001:db8::1]", "[2001:db8::1]"),
        ] {
            assert_eq!(domain(host), expected);
        }
    }
}
