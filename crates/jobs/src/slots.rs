//! Which lanes this node works on, when several share a PostgreSQL.
//!
//! Lanes fall into [`SLOTS`] slots by a hash that the database computes. Each slot is leased to one
//! node:
//!
//! ```text
//!   away ── leased ──▶ gained ── its rows were read ──▶ held ── too many ──▶ leaving
//!     ▲                  │                               │                     │
//!     └──────────────────┴── this node was silent ───────┘    nothing runs ────┘
//! ```
//!
//! On SQLite all lanes are slot 0, which nobody asks for.

use crate::directory::Directory;

/// Slots of all lanes together: enough to share among a few dozen nodes evenly.
pub(crate) const SLOTS: usize = 64;

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
    /// Nothing new is taken; it goes when nothing of it runs.
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

    /// Gives up what is held beyond `share`, the highest first; tells which slots.
    pub(crate) fn shed(&mut self, share: usize) -> u64 {
        let held = self.mask(Slot::Held);
        let kept: u64 = each(held).take(share).map(|at| 1 << at).sum();
        self.set(held & !kept, Slot::Leaving);
        held & !kept
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
        assert_eq!(slots.shed(40).count_ones(), 24);
        assert_eq!((slots.mask(Slot::Held).count_ones(), slots.leased()), (40, 64));
        assert_eq!(slots.shed(40), 0);
        slots.set(slots.mask(Slot::Leaving), Slot::Away);
        assert_eq!(slots.leased(), 40);
        assert_eq!(list(0b101), "0, 2");
        assert_eq!(list(0), "-1");
    }
}
