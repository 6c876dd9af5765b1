//! Names to public addresses.

use std::collections::HashMap;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use moka::sync::Cache;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tokio::sync::Semaphore;

use crate::Options;
use crate::address::is_public;

/// Look-ups that run at once. Each holds a thread until the system's resolver gives up, whatever
/// deadline its request had.
const LOOKUPS_MAX: usize = 64;

/// Names whose addresses are remembered.
const REMEMBERED_MAX: u64 = 20_000;
/// For how long: most servers are asked again soon, and few move.
const REMEMBERED: Duration = Duration::from_secs(60);

/// Resolves names by the operator's table or the system, and lets only public addresses through.
pub(crate) struct Resolver {
    given: HashMap<String, SocketAddr>,
    allow_private: bool,
    lookups: Arc<Semaphore>,
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
}

impl Resolver {
    pub(crate) fn new(options: &Options) -> Self {
        Self {
            given: options.resolve.clone(),
            allow_private: options.allow_private,
            lookups: Arc::new(Semaphore::new(LOOKUPS_MAX)),
            remembered: Cache::builder()
                .max_capacity(REMEMBERED_MAX)
                .time_to_live(REMEMBERED)
                .build(),
        }
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
        let (lookups, allow_private) = (self.lookups.clone(), self.allow_private);
        let (name, remembered) = (host.clone(), self.remembered.clone());
        Box::pin(async move {
            let place = lookups.acquire_owned().await?;
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
