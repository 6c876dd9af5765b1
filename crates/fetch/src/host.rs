//! The bounded table of hosts: how many requests run and wait, and what the breaker says.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use weir_base::{Clock, Timestamp};

use crate::breaker::{Breaker, BreakerState, Entry};
use crate::{Error, Options};

/// What is known of one host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostReport {
    /// Host and port.
    pub host: String,
    /// What its breaker lets through.
    pub breaker: BreakerState,
    /// Requests that run.
    pub running: usize,
    /// Requests that wait for their turn.
    pub waiting: usize,
    /// When it was last asked for.
    pub last_used: Timestamp,
}

struct Host {
    breaker: Mutex<Breaker>,
    places: Arc<Semaphore>,
    waiting: AtomicUsize,
    last_used_ms: AtomicI64,
}

/// All hosts that were asked lately.
pub(crate) struct Hosts {
    table: Mutex<HashMap<String, Arc<Host>>>,
    all: Arc<Semaphore>,
    per_host: usize,
    waiting_max: usize,
    hosts_max: usize,
    clock: Clock,
}

/// A place to run one request in, and the duty to say how it went.
pub(crate) struct Place {
    host: Arc<Host>,
    clock: Clock,
    entry: Entry,
    told: bool,
    _of_host: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
}

/// Counts a waiting request for as long as it waits, cancelled or not.
struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Hosts {
    pub(crate) fn new(options: &Options) -> Self {
        Self {
            table: Mutex::new(HashMap::new()),
            all: Arc::new(Semaphore::new(options.in_flight_max.max(1))),
            per_host: options.connections_per_host.max(1),
            waiting_max: options.waiting_per_host_max,
            hosts_max: options.hosts_max.max(1),
            clock: options.clock.clone(),
        }
    }

    /// Waits for a place: first one of the host, then one of all, so that whoever waits for a
    /// slow host keeps nobody else from going. The breaker is asked again after the wait: what
    /// queued up before a host fell silent does not go to it one by one. Who `insists` goes anyway.
    pub(crate) async fn enter(&self, name: &str, insists: bool) -> Result<Place, Error> {
        let host = self.host(name)?;
        let busy = || Error::Busy { host: name.to_owned() };
        let open = |retry_after_ms| Error::Open { host: name.to_owned(), retry_after_ms };
        if !insists {
            host.breaker.lock().check(self.clock.now()).map_err(open)?;
        }
        let waiting = host.waiting.fetch_add(1, Ordering::Relaxed);
        let waits = Waiting(&host.waiting);
        if waiting >= self.waiting_max && host.places.available_permits() == 0 {
            return Err(busy());
        }
        // Neither semaphore is ever closed.
        let of_host = host.places.clone().acquire_owned().await.map_err(|_| busy())?;
        let of_all = self.all.clone().acquire_owned().await.map_err(|_| busy())?;
        drop(waits);
        let entry = match insists {
            true => Entry::Insisting,
            false => host.breaker.lock().enter(self.clock.now()).map_err(open)?,
        };
        metrics::gauge!("weir_fetch_in_flight_requests").increment(1);
        let (clock, told) = (self.clock.clone(), false);
        Ok(Place { host, clock, entry, told, _of_host: of_host, _of_all: of_all })
    }

    /// Closes the breaker of a host, so that it is asked at once. Gives whether it is known.
    pub(crate) fn close(&self, name: &str) -> bool {
        let host = self.table.lock().get(name).cloned();
        host.map(|host| *host.breaker.lock() = Breaker::new()).is_some()
    }

    /// What is known of all hosts, by name.
    pub(crate) fn report(&self) -> Vec<HostReport> {
        let table = self.table.lock();
        let mut list: Vec<HostReport> = table
            .iter()
            .map(|(name, host)| HostReport {
                host: name.clone(),
                breaker: host.breaker.lock().state(),
                running: self.per_host.saturating_sub(host.places.available_permits()),
                waiting: host.waiting.load(Ordering::Relaxed),
                last_used: Timestamp::from_ms(host.last_used_ms.load(Ordering::Relaxed)),
            })
            .collect();
        list.sort_by(|a, b| a.host.cmp(&b.host));
        list
    }

    fn host(&self, name: &str) -> Result<Arc<Host>, Error> {
        let now_ms = self.clock.now().as_ms();
        let mut table = self.table.lock();
        if let Some(host) = table.get(name) {
            host.last_used_ms.store(now_ms, Ordering::Relaxed);
            return Ok(host.clone());
        }
        if table.len() >= self.hosts_max {
            forget_some(&mut table);
        }
        if table.len() >= self.hosts_max {
            return Err(Error::Busy { host: name.to_owned() });
        }
        let host = Arc::new(Host {
            breaker: Mutex::new(Breaker::new()),
            places: Arc::new(Semaphore::new(self.per_host)),
            waiting: AtomicUsize::new(0),
            last_used_ms: AtomicI64::new(now_ms),
        });
        table.insert(name.to_owned(), host.clone());
        metrics::gauge!("weir_fetch_hosts_count").set(table.len() as f64);
        Ok(host)
    }
}

/// Forgets a quarter of the hosts (so that the work of a full table is shared by many): of those
/// that nobody uses, first the ones that answer, then the longest unused.
fn forget_some(table: &mut HashMap<String, Arc<Host>>) {
    let mut unused: Vec<(bool, i64, String)> = table
        .iter()
        .filter(|(_, host)| Arc::strong_count(host) == 1)
        .map(|(name, host)| {
            let used_ms = host.last_used_ms.load(Ordering::Relaxed);
            (!host.breaker.lock().is_idle(), used_ms, name.clone())
        })
        .collect();
    unused.sort_unstable();
    unused.truncate(table.len().div_ceil(4));
    metrics::counter!("weir_fetch_hosts_forgotten_total").increment(unused.len() as u64);
    for (_, _, name) in unused {
        table.remove(&name);
    }
}

impl Place {
    /// The host answered.
    pub(crate) fn answered(&mut self) {
        self.told = true;
        self.host.breaker.lock().answered(self.entry);
    }

    /// The host did not answer properly.
    pub(crate) fn failed(&mut self) {
        self.told = true;
        if self.host.breaker.lock().failed(self.entry, self.clock.now()) {
            metrics::counter!("weir_fetch_breakers_opened_total").increment(1);
        }
    }

    /// The host asked for a pause, in milliseconds.
    pub(crate) fn paused(&mut self, pause_ms: i64) {
        self.told = true;
        if self.host.breaker.lock().paused(self.entry, self.clock.now(), pause_ms) {
            metrics::counter!("weir_fetch_breakers_opened_total").increment(1);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        metrics::gauge!("weir_fetch_in_flight_requests").decrement(1);
        if !self.told {
            self.host.breaker.lock().abandoned(self.entry, self.clock.now());
        }
    }
}
