//! One answer for all who ask the same at the same time.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use metrics::{Counter, Gauge};
use parking_lot::Mutex;
use tokio::sync::OnceCell;

/// Runs identical work once: who asks for a key while somebody's answer to it is being made waits
/// for that answer. Nothing is kept once everybody has it: this is no cache.
///
/// The answer is of the time when the first one asked, so a key has to name whatever must not be
/// older (a revision, say).
pub struct SingleFlight<K, V> {
    flights: Mutex<HashMap<K, Arc<OnceCell<V>>>>,
    keys_max: usize,
    shared: Counter,
    under_way: Gauge,
}

impl<K: Eq + Hash + Clone, V: Clone> SingleFlight<K, V> {
    /// At most `keys_max` different keys are under way together; beyond that everybody works for
    /// themselves.
    pub fn new(keys_max: usize) -> Self {
        let shared = metrics::counter!("weir_live_flights_shared_total");
        let under_way = metrics::gauge!("weir_live_flights");
        Self { flights: Mutex::default(), keys_max, shared, under_way }
    }

    /// The answer to `key`: made by `make` unless somebody else makes it now. Where whoever makes
    /// it goes away, the next in line does.
    pub async fn run(&self, key: &K, make: impl Future<Output = V>) -> V {
        let Some(flight) = self.board(key) else { return make.await };
        // Gives the key up on every way out, but only while it is this flight's.
        let _landing = Landing { flights: self, key, flight: &flight };
        flight.get_or_init(|| make).await.clone()
    }

    /// How many different keys are under way.
    pub fn under_way(&self) -> usize {
        self.flights.lock().len()
    }

    fn board(&self, key: &K) -> Option<Arc<OnceCell<V>>> {
        let mut flights = self.flights.lock();
        if let Some(flight) = flights.get(key) {
            self.shared.increment(1);
            return Some(flight.clone());
        }
        if flights.len() >= self.keys_max {
            return None;
        }
        let flight = Arc::new(OnceCell::new());
        flights.insert(key.clone(), flight.clone());
        self.under_way.increment(1.0);
        Some(flight)
    }
}

struct Landing<'f, K: Eq + Hash + Clone, V: Clone> {
    flights: &'f SingleFlight<K, V>,
    key: &'f K,
    flight: &'f Arc<OnceCell<V>>,
}

impl<K: Eq + Hash + Clone, V: Clone> Drop for Landing<'_, K, V> {
    fn drop(&mut self) {
        let mut flights = self.flights.flights.lock();
        let is_ours = flights.get(self.key).is_some_and(|one| Arc::ptr_eq(one, self.flight));
        // An answer that is there ends the flight; without one, the last who waits does.
        let is_over = self.flight.initialized() || Arc::strong_count(self.flight) <= 2;
        if is_ours && is_over {
            flights.remove(self.key);
            self.flights.under_way.decrement(1.0);
        }
    }
}
