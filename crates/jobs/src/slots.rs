//! Which lanes this node works on, when several share a PostgreSQL.
//!
//! Lanes fall into [`SLOTS`] slots by a hash that the database computes. Each slot is leased to one
//! node:
//!
//! ```text
//!                                                           it does not come to rest
//!                                                       ┌────────────────────────┐
//!                                                       ▼                        │
//!   away ── leased ──▶ gained ── its rows were read ──▶ held ── too many ──▶ leaving
//!     ▲                  │                               │                     │
//!     └──────────────────┴── this node was silent ───────┘    nothing runs ────┘
//! ```
//!
//! On SQLite all lanes are slot 0, which nobody asks for.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::directory::Directory;

/// Slots of all lanes together: enough to share among a few dozen nodes evenly.
pub(crate) const SLOTS: usize = 64;
/// A slot that was to go and did not come to rest is kept for so long, before that is tried again.
const KEPT_FOR: Duration = Duration::from_secs(600);
/// So many are kept at most. Where nothing comes to rest soon another node would get nothing.
const KEPT_MAX: usize = 8;

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
pub(crate) struct Slots {
    states: [Slot; SLOTS],
    /// When those that are held or leave were to go last.
    to_go_at: [Option<Instant>; SLOTS],
}

impl Default for Slots {
    fn default() -> Self {
        Self { states: [Slot::Away; SLOTS], to_go_at: [None; SLOTS] }
    }
}

impl Slots {
    /// Those that are in `state`, as the bits of a number.
    pub(crate) fn mask(&self, state: Slot) -> u64 {
        let all = self.states.iter().enumerate().filter(|(_, it)| **it == state);
        all.map(|(at, _)| 1 << at).sum()
    }

    /// Puts the slots of `mask` into `state`.
    pub(crate) fn set(&mut self, mask: u64, state: Slot) {
        for at in each(mask) {
            self.states[at] = state;
            if state == Slot::Away {
                self.to_go_at[at] = None;
            }
        }
    }

    /// Gives up what is held beyond `share`, the highest first; takes back what is not beyond it
    /// any more. Of those that did not come to rest within `patience` some are kept and others go
    /// instead: all that waits in them would wait for the end of what runs for long.
    pub(crate) fn shed(&mut self, share: usize, patience: Duration, now: Instant) {
        let room = share.saturating_sub(self.mask(Slot::Held).count_ones() as usize);
        for at in each(self.mask(Slot::Leaving)).take(room) {
            (self.states[at], self.to_go_at[at]) = (Slot::Held, None);
        }
        let waited = |slots: &Self, at: usize| slots.to_go_at[at].map(|to_go| now - to_go);
        let is_kept = |slots: &Self, at: usize| waited(slots, at).is_some_and(|it| it < KEPT_FOR);
        let kept = each(self.mask(Slot::Held)).filter(|at| is_kept(self, *at)).count();
        let is_late = |at: &usize| waited(self, *at).is_some_and(|it| it >= patience);
        let mut late: Vec<usize> = each(self.mask(Slot::Leaving)).filter(is_late).collect();
        // None of them waits for ever while others have their turn again and again.
        late.sort_by_key(|at| self.to_go_at[*at]);
        late.iter().take(KEPT_MAX - kept.min(KEPT_MAX)).for_each(|at| {
            (self.states[*at], self.to_go_at[*at]) = (Slot::Held, Some(now));
        });
        let held = self.mask(Slot::Held);
        let beyond = (held.count_ones() as usize).saturating_sub(share);
        let may_go: Vec<usize> = each(held).filter(|at| !is_kept(self, *at)).collect();
        for at in may_go.into_iter().rev().take(beyond) {
            (self.states[at], self.to_go_at[at]) = (Slot::Leaving, Some(now));
        }
    }

    /// Those whose waiting jobs are known here.
    pub(crate) fn known(&self) -> u64 {
        self.mask(Slot::Held) | self.mask(Slot::Leaving)
    }

    /// How many are leased by this node.
    pub(crate) fn leased(&self) -> usize {
        self.states.iter().filter(|slot| **slot != Slot::Away).count()
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
        if mask != 0 {
            self.all().iter().for_each(|queue| queue.turns.lock().abandon(mask));
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

    /// Of `mask` those of which nothing is taken.
    pub(crate) fn quiet(&self, mask: u64) -> u64 {
        mask & !self.all().iter().fold(0, |busy, queue| busy | queue.turns.lock().busy())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(30);

    fn all_held() -> Slots {
        let mut slots = Slots::default();
        slots.set(u64::MAX, Slot::Held);
        slots
    }

    #[test]
    fn a_node_sheds_what_is_beyond_its_share_and_counts_it_until_it_is_gone() {
        let (mut slots, now) = (all_held(), Instant::now());
        for _ in 0..2 {
            slots.shed(40, PATIENCE, now);
            assert_eq!(slots.mask(Slot::Leaving), u64::MAX << 40);
            assert_eq!((slots.mask(Slot::Held).count_ones(), slots.leased()), (40, 64));
        }
        slots.set(slots.mask(Slot::Leaving), Slot::Away);
        assert_eq!(slots.leased(), 40);
        assert_eq!(list(0b101), "0, 2");
        assert_eq!(list(0), "-1");
    }

    #[test]
    fn what_is_not_beyond_the_share_any_more_is_taken_back() {
        let (mut slots, now) = (all_held(), Instant::now());
        slots.shed(32, PATIENCE, now);
        slots.shed(40, PATIENCE, now);
        assert_eq!(slots.mask(Slot::Leaving), u64::MAX << 40);
        slots.shed(64, PATIENCE, now);
        assert_eq!(slots.mask(Slot::Held), u64::MAX);
        slots.shed(62, PATIENCE, now);
        assert_eq!(slots.mask(Slot::Leaving), 0b11 << 62, "as if they had never been to go");
    }

    #[test]
    fn a_slot_that_does_not_come_to_rest_stays_and_another_goes_instead() {
        let (mut slots, begin) = (all_held(), Instant::now());
        let shed = |slots: &mut Slots, at: Instant| {
            slots.shed(62, PATIENCE, at);
            slots.mask(Slot::Leaving)
        };
        assert_eq!(shed(&mut slots, begin), 0b11 << 62);
        slots.set(1 << 62, Slot::Away);
        let late = begin + PATIENCE;
        assert_eq!(shed(&mut slots, late), 1 << 61, "one is away, and one is kept");
        slots.set(1 << 61, Slot::Away);
        assert_eq!(shed(&mut slots, late + 2 * PATIENCE), 0, "it has its share");
        slots.set(1 << 61, Slot::Held);
        assert_eq!(shed(&mut slots, late + 2 * PATIENCE), 1 << 61, "not the one that is kept");
        slots.set(0b11 << 61, Slot::Held);
        assert_eq!(shed(&mut slots, late + KEPT_FOR), 0b11 << 62, "it is tried again");
    }

    #[test]
    fn where_nothing_comes_to_rest_few_slots_are_kept() {
        let (mut slots, now) = (all_held(), Instant::now());
        slots.shed(32, PATIENCE, now);
        for beat in 1..20 {
            slots.shed(32, PATIENCE, now + beat * PATIENCE);
        }
        assert_eq!(slots.mask(Slot::Leaving).count_ones(), 32);
        assert_eq!(slots.mask(Slot::Leaving) >> 40, u64::MAX >> 40, "others went for those kept");
        let mut had_a_turn = slots.mask(Slot::Held);
        for round in 1..8 {
            slots.shed(32, PATIENCE, now + 20 * PATIENCE + round * KEPT_FOR);
            had_a_turn |= slots.mask(Slot::Held);
        }
        assert_eq!(had_a_turn, u64::MAX, "nobody's jobs stand still until all others have ended");
    }
}
