//! How much of a queue may run at once.

use super::sync::{AtomicBool, AtomicUsize, Notify, Ordering};

/// Places of one queue: a job (of tasks) or a batch (of units) that runs holds one.
pub(crate) struct Places {
    most: AtomicUsize,
    held: AtomicUsize,
    /// A place was asked for in vain.
    refused: AtomicBool,
    freed: Notify,
}

impl Places {
    pub(crate) fn new() -> Self {
        Self {
            most: AtomicUsize::new(1),
            held: AtomicUsize::new(0),
            refused: AtomicBool::new(false),
            freed: Notify::new(),
        }
    }

    /// How many may be held; at least one.
    pub(crate) fn most(&self) -> usize {
        self.most.load(Ordering::Relaxed)
    }

    /// Sets how many may be held. What is held beyond stays so until it is given back.
    pub(crate) fn set_most(&self, most: usize) {
        self.most.store(most.max(1), Ordering::Relaxed);
        self.freed.notify_waiters();
        self.freed.notify_one();
    }

    /// How many are held.
    pub(crate) fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// How many are free.
    pub(crate) fn free(&self) -> usize {
        self.most().saturating_sub(self.held())
    }

    /// Takes a place if one is free.
    pub(crate) fn try_take(&self) -> bool {
        let one_more = |held| (held < self.most()).then_some(held + 1);
        let took = self.held.fetch_update(Ordering::AcqRel, Ordering::Relaxed, one_more).is_ok();
        if !took {
            self.refused.store(true, Ordering::Relaxed);
        }
        took
    }

    /// Whether a place was asked for in vain since this was asked last.
    pub(crate) fn refused(&self) -> bool {
        self.refused.swap(false, Ordering::Relaxed)
    }

    /// Waits for a place and takes it.
    pub(crate) async fn take(&self) {
        while !self.try_take() {
            let freed = self.freed.notified();
            if self.try_take() {
                return;
            }
            freed.await;
        }
    }

    /// Takes a place even where none is free: for what was let in already.
    pub(crate) fn take_anyway(&self) {
        self.held.fetch_add(1, Ordering::AcqRel);
    }

    /// Gives a place back.
    pub(crate) fn give(&self) {
        self.held.fetch_sub(1, Ordering::AcqRel);
        self.freed.notify_one();
    }
}
