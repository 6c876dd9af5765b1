//! What came in and is not worked yet, for what gives way to it.

use super::work::{LATE_QUEUE, QUEUE};
use crate::ActivityPub;

/// Messages that wait from which on what comes in is behind: some tenths of a second of work.
const BEHIND: u64 = 500;

impl ActivityPub {
    /// Whether messages of `host` wait, as far as this process knows.
    pub(crate) fn has_unworked_of(&self, host: &str) -> bool {
        let jobs = &self.community().env().jobs;
        [QUEUE, LATE_QUEUE].iter().any(|queue| jobs.depth_in(queue.name, host) > 0)
    }

    /// Whether more waits than a moment's work, as far as this process knows.
    pub(crate) fn is_behind(&self) -> bool {
        let jobs = &self.community().env().jobs;
        [QUEUE, LATE_QUEUE].iter().map(|queue| jobs.depth(queue.name)).sum::<u64>() >= BEHIND
    }
}
