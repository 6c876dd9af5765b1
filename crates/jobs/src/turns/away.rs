//! Lanes that come from another node, and go to one.

use std::collections::VecDeque;
use std::sync::Arc;

use super::Turns;

impl Turns {
    /// As [`added_since`](Self::added_since), of a lane in `slot`, which is worked on here from now
    /// on.
    pub(crate) fn added_in(&mut self, slot: u8, lane: &str, ids: &[i64], ready_ms: i64) {
        self.away &= !(1 << slot);
        self.added_since(lane, ids, ready_ms);
        if let Some(lane) = self.lanes.get_mut(lane) {
            lane.slot = slot;
        }
    }

    /// Takes nothing more of the lanes whose slot is in `mask`, and forgets which jobs wait there.
    pub(crate) fn abandon(&mut self, mask: u64) {
        self.away |= mask;
        for lane in self.lanes.values_mut().filter(|lane| mask >> lane.slot & 1 == 1) {
            self.depth -= i64::try_from(lane.ids.len() as u64 + lane.more).unwrap_or(0);
            self.held -= lane.ids.len();
            self.more -= lane.more;
            (lane.ids, lane.more) = (VecDeque::new(), 0);
        }
        let names: Vec<Arc<str>> = self.lanes.keys().cloned().collect();
        names.iter().for_each(|name| self.line_up(name));
    }

    /// The slots of lanes of which jobs are taken.
    pub(crate) fn busy(&self) -> u64 {
        let taken = self.lanes.values().filter(|lane| lane.taken > 0);
        taken.fold(0, |busy, lane| busy | 1 << lane.slot)
    }

    /// Whether anything is known of `lane`.
    pub(crate) fn knows(&self, lane: &str) -> bool {
        self.lanes.contains_key(lane)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn abandoned_lanes_are_taken_from_no_more_and_what_runs_is_seen_to_its_end() {
        let mut turns = Turns::new();
        turns.added_in(3, "here", &[1, 2, 3], 0);
        turns.added_in(9, "there", &[4, 5], 0);
        let picks = turns.select(2);
        assert_eq!(turns.busy(), 1 << 3);
        turns.abandon(1 << 3);
        assert_eq!(turns.depth(), 4, "two run, two wait elsewhere in memory");
        let rest = turns.select(9);
        assert!(rest.iter().all(|pick| &*pick.lane == "there"), "{rest:?}");
        // One ended, the other was handed back: it is not this node's to run again.
        turns.finished(&picks[0].lane, 1, 1_000);
        turns.settled(&picks[0].lane, 1);
        turns.released(&picks[0].lane, &[2]);
        assert_eq!(turns.busy(), 1 << 9);
        assert!(!turns.knows("here"));
        turns.added_in(3, "here", &[2, 3], 0);
        assert_eq!(turns.select(9).len(), 1);
    }
}
