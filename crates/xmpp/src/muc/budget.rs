//! What rooms hold in memory: each within its own bound, and all together within a budget.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use metrics::Gauge;

/// What all rooms remember of what was said, in bytes.
const HISTORIES_BYTES_MAX: usize = 128 * 1_024 * 1_024;
/// What the lists of all rooms take, in bytes.
const LISTS_BYTES_MAX: usize = 256 * 1_024 * 1_024;

/// What all rooms may hold.
pub(super) struct Budgets {
    histories: Arc<Budget>,
    lists: Arc<Budget>,
}

struct Budget {
    held: AtomicUsize,
    bytes_max: usize,
    meter: Gauge,
}

/// What one room holds of a budget, until it is dropped.
pub(super) struct Share {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Default for Budgets {
    fn default() -> Self {
        let budget = |bytes_max, of: &'static str| {
            let meter = metrics::gauge!("weir_xmpp_rooms_bytes", "of" => of);
            Arc::new(Budget { held: AtomicUsize::new(0), bytes_max, meter })
        };
        Self {
            histories: budget(HISTORIES_BYTES_MAX, "histories"),
            lists: budget(LISTS_BYTES_MAX, "lists"),
        }
    }
}

impl Budgets {
    /// For what a room remembers of what was said.
    pub(super) fn history(&self) -> Share {
        Share { budget: self.histories.clone(), bytes: 0 }
    }

    /// For the lists of a room.
    pub(super) fn lists(&self) -> Share {
        Share { budget: self.lists.clone(), bytes: 0 }
    }
}

impl Share {
    /// What the room holds, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// It holds so many bytes now.
    pub(super) fn set(&mut self, bytes: usize) {
        let budget = &self.budget;
        let held = match bytes.checked_sub(self.bytes) {
            Some(more) => budget.held.fetch_add(more, Relaxed) + more,
            None => {
                let less = self.bytes - bytes;
                budget.held.fetch_sub(less, Relaxed) - less
            }
        };
        budget.meter.set(held as f64);
        self.bytes = bytes;
    }

    /// Whether all rooms together may hold so many bytes more.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        self.budget.held.load(Relaxed).saturating_add(bytes) <= self.budget.bytes_max
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
impl Budgets {
    /// Such as these hold no more than so many bytes of each.
    pub(super) fn of_at_most(bytes_max: usize) -> Self {
        let budget = || {
            let meter = Gauge::noop();
            Arc::new(Budget { held: AtomicUsize::new(0), bytes_max, meter })
        };
        Self { histories: budget(), lists: budget() }
    }
}
