//! How many messages are at the door: each of their senders waits for the answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use metrics::Gauge;

/// With so many at the door at once it is pressed: as many senders each wait for all of the others.
const PRESSED: usize = 16;

/// See the module.
pub(super) struct Callers {
    count: AtomicUsize,
    gauge: Gauge,
}

impl Default for Callers {
    fn default() -> Self {
        let gauge = metrics::gauge!("weir_activitypub_inbox_callers");
        Self { count: AtomicUsize::new(0), gauge }
    }
}

/// One message at the door, until it is dropped.
pub(super) struct Caller(Arc<Callers>);

impl Drop for Caller {
    fn drop(&mut self) {
        self.0.count.fetch_sub(1, Ordering::Relaxed);
        self.0.gauge.decrement(1);
    }
}

impl Callers {
    /// One more came.
    pub(super) fn come(callers: &Arc<Self>) -> Caller {
        callers.count.fetch_add(1, Ordering::Relaxed);
        callers.gauge.increment(1);
        Caller(callers.clone())
    }

    /// Whether so many are there that what came before them is worked more slowly.
    pub(super) fn press(&self) -> bool {
        self.count.load(Ordering::Relaxed) >= PRESSED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_door_is_pressed_while_many_are_at_it() {
        let callers = Arc::new(Callers::default());
        let mut there: Vec<Caller> = (1..PRESSED).map(|_| Callers::come(&callers)).collect();
        assert!(!callers.press());
        there.push(Callers::come(&callers));
        assert!(callers.press());
        there.pop();
        assert!(!callers.press());
    }
}
