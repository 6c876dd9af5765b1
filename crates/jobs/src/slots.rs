//! Which lanes this node works on, when several share a PostgreSQL.
//!
//! Lanes fall into [`SLOTS`] slots by a hash that the database computes. Each slot is leased to one
//! node:
//!
//! ```text
//!                                                            a task runs for long
//!                                                       ┌────────────────────────┐
//!                                                       ▼                        │
//!   away ── leased ──▶ gained ── its rows were read ──▶ held ── too many ──▶ leaving
//!     ▲                  │                               │                     │
//!     └──────────────────┴── this node was silent ───────┘    nothing runs ────┘
//! ```
//!
//! On SQLite all lanes are slot 0, which nobody asks for.

use std::sync::atomic::Ordering;

use weir_base::Timestamp;

use crate::RunningJob;
use crate::directory::Directory;
use crate::running::Running;

/// Slots of all lanes together: enough to share among a few dozen nodes evenly.
pub(crate) const SLOTS: usize = 64;
/// A task that runs for so long, in ms, keeps its slot where it is: the others of the slot would
/// stand still until it ends. So long they do at most.
const LONG_MS: i64 = 60_000;

/// What this node has to do with a slot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Slot {
    /// Another node's, or nobody's.
    #[default]
    Away,
    /// Leased, and its rows are not known yet.
    Gained,
    /// Its lanes are worked on.
    Held,
    /// Nothing of it is taken, and what waits is still known; it goes when nothing of it runs.
    Leaving,
}

/// All slots, as this node sees them.
pub(crate) struct Slots([Slot; SLOTS]);

impl Default for Slots {
    fn default() -> Self {
        Self([Slot::Away; SLOTS])
    }
}

impl Slots {
    /// Those that are in `state`, as the bits of a number.
    pub(crate) fn mask(&self, state: Slot) -> u64 {
        let all = self.0.iter().enumerate().filter(|(_, it)| **it == state);
        all.map(|(at, _)| 1 << at).sum()
    }

    /// Puts the slots of `mask` into `state`.
    pub(crate) fn set(&mut self, mask: u64, state: Slot) {
        for at in each(mask) {
            self.0[at] = state;
        }
    }

    /// Gives up what is held beyond `share`, the highest first. Slots of which something runs for
    /// `long` are kept, for all that waits in them would wait for its end.
    pub(crate) fn shed(&mut self, share: usize, long: u64) {
        self.set(self.mask(Slot::Leaving) & long, Slot::Held);
        let held = self.mask(Slot::Held);
        let beyond = (held.count_ones() as usize).saturating_sub(share);
        let may_go: Vec<usize> = each(held & !long).collect();
        let go: u64 = may_go.iter().rev().take(beyond).map(|at| 1 << at).sum();
        self.set(go, Slot::Leaving);
    }

    /// Those whose waiting jobs are known here.
    pub(crate) fn known(&self) -> u64 {
        self.mask(Slot::Held) | self.mask(Slot::Leaving)
    }

    /// How many are leased by this node.
    pub(crate) fn leased(&self) -> usize {
        self.0.iter().filter(|slot| **slot != Slot::Away).count()
    }
}

/// The numbers of the bits that are set.
pub(crate) fn each(mask: u64) -> impl Iterator<Item = usize> {
    (0..SLOTS).filter(move |at| mask >> at & 1 == 1)
}

/// The name of the lease of slot `at`.
pub(crate) fn lease(at: usize) -> String {
    format!("slot {at:02}")
}

/// As a list for `IN (…)`.
pub(crate) fn list(mask: u64) -> String {
    let numbers: Vec<String> = each(mask).map(|at| at.to_string()).collect();
    if numbers.is_empty() { "-1".into() } else { numbers.join(", ") }
}

impl Directory {
    /// Takes nothing more of the lanes in `mask`, and forgets which of their jobs wait.
    pub(crate) fn abandon(&self, mask: u64) {
        for queue in self.all() {
            queue.turns.lock().abandon(mask);
        }
    }

    /// Takes nothing of the lanes in `mask`, and again of all others.
    pub(crate) fn hold_back(&self, mask: u64) {
        // Queues that come from now on know it.
        if self.held_back.swap(mask, Ordering::Relaxed) == mask {
            return;
        }
        for queue in self.all() {
            queue.turns.lock().hold_back(mask);
            queue.wake.notify_one();
        }
    }

    /// The slots of lanes of which a task runs since [`LONG_MS`] at `now`.
    pub(crate) fn long(&self, running: &Running, now: Timestamp) -> u64 {
        let is_long = |job: &RunningJob| !(0..LONG_MS).contains(&now.since_ms(job.started_at));
        let long = running.all().into_iter().filter(is_long);
        let slots = long.filter_map(|job| self.find(&job.queue)?.turns.lock().slot_of(&job.lane));
        slots.fold(0, |mask, slot| mask | 1 << slot)
    }

    /// Of `mask` those of which nothing is taken.
    pub(crate) fn quiet(&self, mask: u64) -> u64 {
        mask & !self.all().iter().fold(0, |busy, queue| busy | queue.turns.lock().busy())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_sheds_what_is_beyond_its_share_and_counts_it_until_it_is_gone() {
        let mut slots = Slots::default();
        slots.set(u64::MAX, Slot::Held);
        for _ in 0..2 {
            slots.shed(40, 0);
            assert_eq!(slots.mask(Slot::Leaving), u64::MAX << 40);
            assert_eq!((slots.mask(Slot::Held).count_ones(), slots.leased()), (40, 64));
        }
        slots.set(slots.mask(Slot::Leaving), Slot::Away);
        assert_eq!(slots.leased(), 40);
        assert_eq!(list(0b101), "0, 2");
        assert_eq!(list(0), "-1");
    }

    #[test]
    fn a_slot_in_which_something_runs_for_long_stays_and_others_go_instead() {
        let mut slots = Slots::default();
        slots.set(u64::MAX, Slot::Held);
        slots.shed(62, 1 << 63);
        assert_eq!(slots.mask(Slot::Leaving), 0b11 << 61);
        // What ran in one of them goes on: it comes back, and the next one goes.
        slots.shed(62, 0b11 << 62);
        assert_eq!(slots.mask(Slot::Leaving), 0b11 << 60);
        slots.shed(0, u64::MAX);
        assert_eq!(slots.mask(Slot::Held), u64::MAX, "nothing that could go");
    }
}
