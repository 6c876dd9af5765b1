//! Files that are being fetched or made, each once for all who ask.

use std::collections::HashMap;
use std::sync::Arc;

use metrics::Gauge;
use parking_lot::Mutex;
use tokio::sync::OnceCell;

/// Different files that may be fetched or waited for, …
const FLIGHTS_MAX: usize = 512;
/// … and of one host.
const FLIGHTS_PER_HOST_MAX: usize = FLIGHTS_MAX / 4;

/// What is under way, by the name of the file, with how each will end.
pub(super) struct Flights<E> {
    known: Mutex<HashMap<String, Known<E>>>,
    held: Gauge,
}

struct Known<E> {
    host: String,
    end: Arc<OnceCell<E>>,
}

/// Somebody who waits for a file. It is forgotten when it is done, or when the last of them leaves.
pub(super) struct Flight<'f, E> {
    flights: &'f Flights<E>,
    name: &'f str,
    end: Arc<OnceCell<E>>,
}

impl<E> Default for Flights<E> {
    fn default() -> Self {
        let held = metrics::gauge!("weir_community_media_flights_held");
        Self { known: Mutex::default(), held }
    }
}

impl<E> Flights<E> {
    /// Where those meet who want the file `name`, which comes from `host`; none where too many
    /// are under way.
    pub(super) fn join<'f>(&'f self, name: &'f str, host: &str) -> Option<Flight<'f, E>> {
        let mut flights = self.known.lock();
        let known = flights.get(name).map(|known| known.end.clone());
        let end = match known {
            Some(end) => end,
            None => {
                let of_host = || flights.values().filter(|known| known.host == host).count();
                if flights.len() >= FLIGHTS_MAX || of_host() >= FLIGHTS_PER_HOST_MAX {
                    return None;
                }
                let end = Arc::new(OnceCell::new());
                let known = Known { host: host.to_owned(), end: end.clone() };
                flights.insert(name.to_owned(), known);
                self.held.set(flights.len() as f64);
                end
            }
        };
        Some(Flight { flights: self, name, end })
    }
}

impl<E: Clone> Flight<'_, E> {
    /// How it ends. Whoever comes first does it by `make`; if they leave, the next one does.
    pub(super) async fn end<F: Future<Output = E>>(&self, make: impl FnOnce() -> F) -> E {
        self.end.get_or_init(make).await.clone()
    }
}

impl<E> Drop for Flight<'_, E> {
    fn drop(&mut self) {
        let mut flights = self.flights.known.lock();
        let is_known = flights.get(self.name).is_some_and(|it| Arc::ptr_eq(&it.end, &self.end));
        // That of the table, and that of who leaves: others join under the same lock.
        let is_last = Arc::strong_count(&self.end) <= 2;
        if is_known && (is_last || self.end.initialized()) {
            flights.remove(self.name);
            self.flights.held.set(flights.len() as f64);
        }
    }
}

#[cfg(test)]
mod tests {
    use metrics_exporter_prometheus::PrometheusBuilder;

    use super::*;

    #[tokio::test]
    async fn all_who_want_a_file_share_its_end() {
        let flights = Flights::default();
        let (first, second) = (flights.join("a", "h").unwrap(), flights.join("a", "h").unwrap());
        assert_eq!(first.end(async || 1).await, 1);
        assert_eq!(second.end(async || 2).await, 1);
        drop(first);
        let anew = flights.join("a", "h").unwrap();
        assert_eq!(anew.end(async || 3).await, 3, "what is done is forgotten");
        drop(second);
        assert!(flights.known.lock().contains_key("a"), "but not what came after it");
    }

    #[test]
    fn one_host_has_a_part_and_what_everybody_left_is_forgotten() {
        let flights = Flights::<()>::default();
        let names: Vec<String> = (0..FLIGHTS_MAX).map(|number| number.to_string()).collect();
        let of_host: Vec<_> = names
            .iter()
            .take(FLIGHTS_PER_HOST_MAX)
            .map(|name| flights.join(name, "hangs.example").unwrap())
            .collect();
        assert!(flights.join("more", "hangs.example").is_none());
        assert!(flights.join("more", "other.example").is_some());
        let again = flights.join(&names[0], "hangs.example").unwrap();
        drop(of_host);
        assert_eq!(flights.known.lock().len(), 1, "somebody waits still");
        drop(again);
        let all: Vec<_> = names.iter().map(|name| flights.join(name, name).unwrap()).collect();
        assert!(flights.join("more", "other.example").is_none());
        drop(all);
        assert!(flights.known.lock().is_empty());
    }

    #[test]
    fn it_is_told_how_many_are_under_way() {
        let recorder = PrometheusBuilder::new().build_recorder();
        let told = recorder.handle();
        metrics::with_local_recorder(&recorder, || {
            let flights = Flights::<()>::default();
            let both = ["a", "b"].map(|name| flights.join(name, "other.example").unwrap());
            let again = flights.join("a", "other.example").unwrap();
            assert!(told.render().contains("weir_community_media_flights_held 2\n"));
            drop(both);
            assert!(told.render().contains("weir_community_media_flights_held 1\n"));
            drop(again);
            assert!(told.render().contains("weir_community_media_flights_held 0\n"));
        });
    }
}
