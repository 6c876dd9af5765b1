//! Names to public addresses.

use std::collections::HashMap;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use moka::sync::Cache;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tokio::time::{Instant, timeout};

use crate::Options;
use crate::address::is_public;
use crate::places::Places;

/// Look-ups that run at once for what is asked for, for what is asked for urgently, and for what is
/// sent: strangers choose names of the first most easily, of the last hardly. Each holds a thread
/// until the system's resolver gives up, whatever deadline its request had.
const TO_ASK_MAX: usize = 64;
const URGENT_MAX: usize = 160;
const TO_SEND_MAX: usize = 64;

/// Names whose addresses are remembered.
const REMEMBERED_MAX: u64 = 20_000;
/// For how long they are taken as they are: most servers are asked again soon, and few move.
const REMEMBERED: Duration = Duration::from_secs(60);
/// For how long they do where there is no place to look them up again, …
const KEPT: Duration = Duration::from_secs(60 * 60);
/// … and how long such a place is waited for then.
const KNOWN_PATIENCE: Duration = Duration::from_millis(100);

/// Resolves names by the operator's table or the system, and lets only public addresses through.
pub(crate) struct Resolver {
    given: HashMap<String, SocketAddr>,
    allow_private: bool,
    lookups: Arc<Places>,
    /// How long a look-up waits for its place: less than a connection may take, so that this is
    /// not taken for the host's silence.
    patience: Duration,
    /// Addresses that were let through.
    remembered: Cache<String, Found>,
}

/// The addresses of a name.
#[derive(Clone)]
struct Found {
    addresses: Vec<SocketAddr>,
    at: Instant,
}

impl Found {
    fn addresses(self) -> Addrs {
        Box::new(self.addresses.into_iter())
    }
}

/// Why a name gave no address. Found again in the error's chain after the HTTP client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refused {
    #[error("the name has no address")]
    NotFound,
    #[error("the name has no public address")]
    Private,
    #[error("too many names are looked up")]
    Busy,
}

impl Resolver {
    /// For what is asked for.
    pub(crate) fn to_ask(options: &Options) -> Self {
        Self {
            given: options.resolve.clone(),
            allow_private: options.allow_private,
            lookups: Arc::new(Places::new("ask", TO_ASK_MAX)),
            patience: Duration::from_millis(options.connect_timeout_ms / 2),
            remembered: Cache::builder().max_capacity(REMEMBERED_MAX).time_to_live(KEPT).build(),
        }
    }

    /// The same for what is urgent; what either knows the other does.
    pub(crate) fn urgent(&self) -> Self {
        self.with("urgent", URGENT_MAX)
    }

    /// The same for what is sent.
    pub(crate) fn to_send(&self) -> Self {
        self.with("send", TO_SEND_MAX)
    }

    fn with(&self, what: &'static str, places: usize) -> Self {
        let lookups = Arc::new(Places::new(what, places));
        Self { given: self.given.clone(), lookups, remembered: self.remembered.clone(), ..*self }
    }
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let host = name.as_str().trim_end_matches('.').to_ascii_lowercase();
        if let Some(address) = self.given.get(&host) {
            let addresses: Addrs = Box::new(std::iter::once(*address));
            return Box::pin(std::future::ready(Ok(addresses)));
        }
        let known = self.remembered.get(&host);
        if let Some(known) = known.clone().filter(|known| known.at.elapsed() < REMEMBERED) {
            return Box::pin(std::future::ready(Ok(known.addresses())));
        }
        let patience = if known.is_some() { KNOWN_PATIENCE } else { self.patience };
        let allow_private = self.allow_private;
        let lookups = self.lookups.clone();
        let (name, remembered) = (host.clone(), self.remembered.clone());
        Box::pin(async move {
            let place = match (timeout(patience, lookups.enter(&host)).await, known) {
                (Ok(place), _) => place,
                (Err(_), Some(known)) => return Ok(known.addresses()),
                (Err(_), None) => return Err(Refused::Busy.into()),
            };
            let found = tokio::task::spawn_blocking(move || {
                // The place is given back by the thread, not by whoever waits for it.
                let _place = place;
                (host.as_str(), 0).to_socket_addrs().map(Vec::from_iter)
            });
            let found = found.await?.map_err(|_| Refused::NotFound)?;
            let found = Found { addresses: admitted(found, allow_private)?, at: Instant::now() };
            remembered.insert(name, found.clone());
            metrics::gauge!("weir_fetch_names_held").set(remembered.entry_count() as f64);
            Ok(found.addresses())
        })
    }
}

/// The addresses that may be connected to.
fn admitted(
    mut addresses: Vec<SocketAddr>,
    allow_private: bool,
) -> Result<Vec<SocketAddr>, Refused> {
    if addresses.is_empty() {
        return Err(Refused::NotFound);
    }
    addresses.retain(|address| allow_private || is_public(address.ip()));
    if addresses.is_empty() { Err(Refused::Private) } else { Ok(addresses) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::places::DOMAIN_PART;

    fn is_busy(found: Result<Addrs, Box<dyn std::error::Error + Send + Sync>>) -> bool {
        matches!(found.err().and_then(|it| it.downcast_ref().copied()), Some(Refused::Busy))
    }

    fn name(text: &str) -> Name {
        text.parse().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn who_finds_no_place_to_look_up_hears_so_before_a_host_is_taken_to_be_silent() {
        let options = Options { allow_private: true, ..Options::default() };
        let to_ask = Resolver::to_ask(&options);
        let to_send = to_ask.to_send();
        let localhost = || name("localhost");
        let mut held = Vec::new();
        for number in 0..TO_ASK_MAX {
            held.push(to_ask.lookups.enter(&format!("a.{}.example", number % DOMAIN_PART)).await);
        }
        assert!(is_busy(to_ask.resolve(localhost()).await));
        assert!(to_send.resolve(localhost()).await.is_ok(), "what is sent has places of its own");
        assert!(to_ask.resolve(localhost()).await.is_ok(), "and what it found is known to both");
        tokio::time::advance(2 * REMEMBERED).await;
        assert!(to_ask.resolve(localhost()).await.is_ok(), "old addresses are better than none");
        assert!(is_busy(to_ask.resolve(name("never-seen.localhost")).await));
        drop(held);
        let mut held = Vec::new();
        for number in 0..TO_SEND_MAX / DOMAIN_PART {
            held.push(to_send.lookups.enter(&format!("{number}.hangs.localhost")).await);
        }
        assert!(is_busy(to_send.resolve(name("one-more.hangs.localhost")).await));
    }

    #[test]
    fn only_public_addresses_of_a_name_are_used() {
        let list = |texts: &[&str]| -> Vec<SocketAddr> {
            texts.iter().map(|text| text.parse().unwrap()).collect()
        };
        let mixed = list(&["127.0.0.1:0", "1.1.1.1:0", "[fd00::1]:0"]);
        assert_eq!(admitted(mixed.clone(), false), Ok(list(&["1.1.1.1:0"])));
        assert_eq!(admitted(mixed.clone(), true), Ok(mixed));
        assert_eq!(admitted(list(&["10.0.0.1:0", "[::1]:0"]), false), Err(Refused::Private));
        assert_eq!(admitted(Vec::new(), true), Err(Refused::NotFound));
    }
}
