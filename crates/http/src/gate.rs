//! How many connections there may be, in all and from one source.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use metrics::{counter, gauge};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::Network;

/// Counts connections; clones share the count.
#[derive(Clone)]
pub(crate) struct Gate {
    free: Arc<Semaphore>,
    max: u32,
    sources: Arc<Mutex<HashMap<IpAddr, usize>>>,
    per_source_max: usize,
    exempt: Arc<[Network]>,
}

/// A place among the connections, free again when dropped.
pub(crate) struct Place {
    source: Option<(IpAddr, Arc<Mutex<HashMap<IpAddr, usize>>>)>,
    _permit: OwnedSemaphorePermit,
}

impl Gate {
    /// A gate for `max` connections, `per_source_max` of them from one source; the `exempt` and
    /// loopback, behind which many people may be, count as no source.
    pub(crate) fn new(max: usize, per_source_max: usize, exempt: Arc<[Network]>) -> Self {
        let max = u32::try_from(max.min(Semaphore::MAX_PERMITS)).unwrap_or(u32::MAX);
        let free = Arc::new(Semaphore::new(max as usize));
        Self { free, max, sources: Arc::default(), per_source_max, exempt }
    }

    /// Waits until there is room for one more connection. While there is none, new ones wait in
    /// the system's own queue.
    pub(crate) async fn room(&self) -> Option<OwnedSemaphorePermit> {
        self.free.clone().acquire_owned().await.ok()
    }

    /// Connections that are open, upgraded ones too.
    pub(crate) fn open(&self) -> usize {
        self.max as usize - self.free.available_permits()
    }

    /// Waits until no connection is open.
    pub(crate) async fn emptied(&self) {
        let _ = self.free.acquire_many(self.max).await;
    }

    /// Gives the room to a connection from `peer`, unless its source has too many.
    pub(crate) fn admit(&self, peer: IpAddr, permit: OwnedSemaphorePermit) -> Option<Place> {
        let peer = peer.to_canonical();
        let exempt = peer.is_loopback() || self.exempt.iter().any(|network| network.contains(peer));
        let source = if exempt {
            None
        } else {
            let source = Network::source_of(peer);
            let mut sources = self.sources.lock();
            let count = sources.entry(source).or_insert(0);
            if *count >= self.per_source_max {
                counter!("weir_http_connections_refused_total").increment(1);
                return None;
            }
            *count += 1;
            Some((source, self.sources.clone()))
        };
        gauge!("weir_http_connections").increment(1.0);
        Some(Place { source, _permit: permit })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        gauge!("weir_http_connections").decrement(1.0);
        let Some((source, sources)) = &self.source else { return };
        let mut sources = sources.lock();
        if let Some(count) = sources.get_mut(source) {
            *count -= 1;
            if *count == 0 {
                sources.remove(source);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admit(gate: &Gate, peer: &str) -> Option<Place> {
        let permit = gate.free.clone().try_acquire_owned().unwrap();
        gate.admit(peer.parse().unwrap(), permit)
    }

    #[test]
    fn one_source_gets_its_share_and_no_more() {
        let gate = Gate::new(100, 2, Arc::from([]));
        let first = admit(&gate, "192.0.2.1");
        let second = admit(&gate, "192.0.2.1");
        assert!(first.is_some() && second.is_some());
        assert!(admit(&gate, "192.0.2.1").is_none());
        assert!(admit(&gate, "192.0.2.2").is_some());
        drop(first);
        assert!(admit(&gate, "192.0.2.1").is_some());
    }

    #[test]
    fn places_and_their_counts_are_given_back() {
        let gate = Gate::new(2, 2, Arc::from([]));
        let places = [admit(&gate, "192.0.2.1"), admit(&gate, "2001:db8::1")];
        assert_eq!(gate.free.available_permits(), 0);
        drop(places);
        assert_eq!(gate.free.available_permits(), 2);
        assert!(gate.sources.lock().is_empty());
    }

    #[test]
    fn proxies_and_loopback_are_no_source() {
        let gate = Gate::new(100, 1, Arc::from(["10.0.0.0/8".parse().unwrap()]));
        let places: Vec<_> = ["10.0.0.1", "10.0.0.1", "127.0.0.1", "127.0.0.1", "::1", "::1"]
            .map(|peer| admit(&gate, peer))
            .into();
        assert!(places.iter().all(Option::is_some));
    }
}
