//! Messages on their way to the archive.
//!
//! Ids are given before messages are stored, and several are stored at once: one may come to stand
//! before another that was there already. A reader who went on behind that would never see it. So
//! pages end before the first message that is on its way.

use std::collections::BTreeSet;

use parking_lot::Mutex;
use weir_base::{Id, IdGenerator};

/// What is on its way, in this process.
#[derive(Default)]
pub struct Writing {
    /// Below the ids of each batch that is being stored; as many as there are lanes, and few more.
    floors: Mutex<BTreeSet<Id>>,
}

/// Messages whose ids are given while this is held, and which are stored before it is dropped.
pub struct Batch<'w> {
    writing: &'w Writing,
    floor: Id,
}

impl Writing {
    /// From here on ids are given to messages that are to be stored.
    pub fn begin(&self, ids: &IdGenerator) -> Batch<'_> {
        // Under the lock, so that no page is begun between the id and its place in the list.
        let mut floors = self.floors.lock();
        let floor = ids.next();
        floors.insert(floor);
        Batch { writing: self, floor }
    }

    /// Whatever is stored below this id stands there now. To be asked before the page is read.
    pub fn horizon(&self, ids: &IdGenerator) -> Id {
        let floors = self.floors.lock();
        floors.first().copied().unwrap_or_else(|| ids.next())
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        self.writing.floors.lock().remove(&self.floor);
    }
}

#[cfg(test)]
mod tests {
    use weir_base::{Clock, Random, Timestamp};

    use super::*;

    #[test]
    fn pages_end_before_the_first_message_that_is_on_its_way() {
        let clock = Clock::manual(Timestamp::from_ms(1_700_000_000_000));
        let ids = IdGenerator::new(clock, Random::seeded(1));
        let writing = Writing::default();
        let first = writing.begin(&ids);
        let early = ids.next();
        let second = writing.begin(&ids);
        let late = ids.next();
        drop(second);
        assert!(writing.horizon(&ids) < early, "the first is still on its way");
        drop(first);
        let horizon = writing.horizon(&ids);
        assert!(horizon > late, "both are there");
        let third = writing.begin(&ids);
        assert!(ids.next() > horizon, "what comes later lies beyond");
        drop(third);
    }
}
