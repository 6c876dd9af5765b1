//! The schedule in memory: when the next job is due.

use std::sync::atomic::{AtomicI64, Ordering};

use tokio::sync::Notify;
use weir_base::Timestamp;

/// What the keeper waits for.
pub(crate) struct Later {
    /// No row is due before this moment, in ms.
    next_ms: AtomicI64,
    /// Rows in the dead set.
    dead: AtomicI64,
    pub(crate) wake: Notify,
}

impl Later {
    pub(crate) fn new() -> Self {
        Self { next_ms: AtomicI64::new(i64::MAX), dead: AtomicI64::new(0), wake: Notify::new() }
    }

    /// A row that is due at `at` was committed.
    pub(crate) fn due(&self, at: Timestamp) {
        if at.as_ms() < self.next_ms.fetch_min(at.as_ms(), Ordering::AcqRel) {
            self.wake.notify_one();
        }
    }

    /// The next moment that something is due.
    pub(crate) fn next(&self) -> Timestamp {
        Timestamp::from_ms(self.next_ms.load(Ordering::Acquire))
    }

    /// Forgets the next moment before the rows are looked at: what is [`due`](Self::due) from here
    /// on counts, whether the look saw it or not.
    pub(crate) fn reset(&self) {
        self.next_ms.store(i64::MAX, Ordering::Release);
    }

    /// `count` rows came to the dead set.
    pub(crate) fn died(&self, count: i64) {
        self.dead.fetch_add(count, Ordering::Relaxed);
        self.wake.notify_one();
    }

    /// `count` rows left the dead set.
    pub(crate) fn buried(&self, count: u64) {
        self.dead.fetch_sub(i64::try_from(count).unwrap_or(0), Ordering::Relaxed);
    }

    pub(crate) fn dead(&self) -> i64 {
        self.dead.load(Ordering::Relaxed)
    }
}
