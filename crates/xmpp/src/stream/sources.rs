//! How many connections come from one network address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use metrics::Gauge;
use parking_lot::Mutex;

/// How many connections come from where.
pub(super) struct Sources {
    counts: Mutex<HashMap<IpAddr, u32>>,
    /// From each at once.
    max: u32,
    held: Gauge,
}

/// A place among the connections from one address.
pub(super) struct Place {
    sources: Arc<Sources>,
    address: IpAddr,
}

impl Sources {
    /// So many from each.
    pub(super) fn new(max: u32) -> Self {
        // Of all ways to come in together.
        let held = metrics::gauge!("weir_xmpp_sources_held");
        Self { counts: Mutex::default(), max, held }
    }

    /// A place for one more from `address`, unless it has all it may have.
    pub(super) fn enter(self: &Arc<Self>, address: IpAddr) -> Option<Place> {
        let mut sources = self.counts.lock();
        let count = sources.entry(address).or_default();
        if *count >= self.max {
            metrics::counter!("weir_xmpp_connections_refused_total").increment(1);
            return None;
        }
        *count += 1;
        if *count == 1 {
            self.held.increment(1.0);
        }
        Some(Place { sources: self.clone(), address })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut sources = self.sources.counts.lock();
        if let Some(count) = sources.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                sources.remove(&self.address);
                self.sources.held.decrement(1.0);
            }
        }
    }
}
