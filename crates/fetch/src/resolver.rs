//! Names to public addresses.

use std::collections::HashMap;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use moka::sync::Cache;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::Options;
use crate::address::is_public;

/// Look-ups that run at once for what is asked for, for what is asked for urgently, and for what is
/// sent: strangers choose names of the first most easily, of the last hardly. Each holds a thread
/// until the system's resolver gives up, whatever deadline its request had.
const TO_ASK_MAX: usize = 64;
const URGENT_MAX: usize = 160;
const TO_SEND_MAX: usize = 64;

/// Names whose addresses are remembered.
const REMEMBERED_MAX: u64 = 20_000;
/// For how long: most servers are asked again soon, and few move.
const REMEMBERED: Duration = Duration::from_secs(60);

/// Resolves names by the operator's table or the system, and lets only public addresses through.
pub(crate) struct Resolver {
    given: HashMap<String, SocketAddr>,
    allow_private: bool,
    lookups: Arc<Semaphore>,
    /// How long a look-up waits for its place: less than a connection may take, so that this is
    /// not taken for the host's silence.
    patience: Duration,
    /// Addresses that were let through.
    remembered: Cache<String, Vec<SocketAddr>>,
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
            lookups: Arc::new(Semaphore::new(TO_ASK_MAX)),
            patience: Duration::from_millis(options.connect_timeout_ms / 2),
            remembered: Cache::builder()
                .max_capacity(REMEMBERED_MAX)
                .time_to_live(REMEMBERED)
                .build(),
        }
    }

    /// The same for what is urgent; what either knows the other does.
    pub(crate) fn urgent(&self) -> Self {
        self.with(URGENT_MAX)
    }

    /// The same for what is sent.
    pub(crate) fn to_send(&self) -> Self {
        self.with(TO_SEND_MAX)
    }

    fn with(&self, places: usize) -> Self {
        let lookups = Arc::new(Semaphore::new(places));
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
        if let Some(known) = self.remembered.get(&host) {
            let addresses: Addrs = Box::new(known.into_iter());
            return Box::pin(std::future::ready(Ok(addresses)));
        }
        let Self { allow_private, patience, .. } = *self;
        let lookups = self.lookups.clone();
        let (name, remembered) = (host.clone(), self.remembered.clone());
        Box::pin(async move {
            let place = timeout(patience, lookups.acquire_owned()).await;
            let place = place.map_err(|_| Refused::Busy)??;
            let found = tokio::task::spawn_blocking(move || {
                // The place is given back by the thread, not by whoever waits for it.
                let _place = place;
                (host.as_str(), 0).to_socket_addrs().map(Vec::from_iter)
            });
            let found = found.await?.map_err(|_| Refused::NotFound)?;
            let found = admitted(found, allow_private)?;
            remembered.insert(name, found.clone());
            let addresses: Addrs = Box::new(found.into_iter());
            Ok(addresses)
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

    #[tokio::test(start_paused = true)]
    async fn who_finds_no_place_to_look_up_hears_so_before_a_host_is_taken_to_be_silent() {
        let options = Options { allow_private: true, ..Options::default() };
        let to_ask = Resolver::to_ask(&options);
        let to_send = to_ask.to_send();
        let busy = |found: Result<Addrs, Box<dyn std::error::Error + Send + Sync>>| {
            matches!(found.err().and_then(|it| it.downcast_ref().copied()), Some(Refused::Busy))
        };
        let held = to_ask.lookups.acquire_many(TO_ASK_MAX as u32).await;
        let name = || "localhost".parse::<Name>().unwrap();
        assert!(busy(to_ask.resolve(name()).await));
        assert!(to_send.resolve(name()).await.is_ok(), "what is sent has places of its own");
        assert!(to_ask.resolve(name()).await.is_ok(), "and what it found is known to both");
        drop(held);
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
