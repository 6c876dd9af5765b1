//! A queue that gives way: while what it gives way to is behind, it waits where it is, before
//! anything of it is taken, and a few jobs go on now and then all the same.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use weir_base::Timestamp;

/// Tells whether what a queue gives way to is behind. It waits for nothing.
pub(crate) type Behind = Arc<dyn Fn() -> bool + Send + Sync>;

/// So long the queue waits before its next jobs go on though the others are still behind, in ms.
/// A whole batch every few seconds would come to as many, and take the processor from everybody at
/// once.
const WAITS_MS: i64 = 500;
/// How often is looked whether they still are.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// See the module.
pub(crate) struct Yielding {
    behind: Behind,
    /// Jobs that go on all the same, each time.
    pub(crate) few: usize,
    /// Since when nothing was taken because the others were behind.
    since: Mutex<Option<Timestamp>>,
}

impl Yielding {
    pub(crate) fn new(few: usize, behind: Behind) -> Self {
        Self { behind, few, since: Mutex::default() }
    }

    /// Whether nothing is to be taken at `now`.
    pub(crate) fn waits(&self, now: Timestamp) -> bool {
        let mut since = self.since.lock();
        if !(self.behind)() {
            *since = None;
            return false;
        }
        let waited_ms = now.since_ms(*since.get_or_insert(now));
        // A clock that was set back would hold it up.
        (0..WAITS_MS).contains(&waited_ms)
    }

    /// Whether it waited when it was last to take something.
    pub(crate) fn is_waiting(&self) -> bool {
        self.since.lock().is_some()
    }

    /// A batch was taken at `now`.
    pub(crate) fn took(&self, now: Timestamp) {
        if let Some(since) = &mut *self.since.lock() {
            *since = now;
        }
    }

    /// Waits until it is time to look again.
    pub(crate) async fn look_again(&self) {
        match self.is_waiting() {
            true => tokio::time::sleep(LOOK_EVERY).await,
            false => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_ms(1_000_000 + ms)
    }

    #[test]
    fn while_the_others_are_behind_a_few_go_on_now_and_then() {
        let behind = Arc::new(AtomicBool::new(false));
        let theirs = behind.clone();
        let queue = Yielding::new(1, Arc::new(move || theirs.load(Ordering::Relaxed)));
        assert!(!queue.waits(at(0)));
        queue.took(at(0));
        behind.store(true, Ordering::Relaxed);
        assert!(queue.waits(at(1)));
        assert!(queue.waits(at(WAITS_MS)));
        assert!(!queue.waits(at(WAITS_MS + 1)), "a flood without an end keeps nobody out");
        assert!(!queue.waits(at(WAITS_MS + 2)), "nothing was there to be taken");
        queue.took(at(WAITS_MS + 2));
        assert!(queue.waits(at(WAITS_MS + 3)), "one batch was");
        behind.store(false, Ordering::Relaxed);
        assert!(!queue.waits(at(WAITS_MS + 4)));
        behind.store(true, Ordering::Relaxed);
        assert!(queue.waits(at(2 * WAITS_MS)), "it was not behind in between");
        assert!(!queue.waits(at(0)), "the clock was set back");
    }
}
