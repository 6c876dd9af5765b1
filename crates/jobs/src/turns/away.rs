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

    /// Takes nothing of the lanes whose slot is in `mask`, and again of all others.
    pub(crate) fn hold_back(&mut self, mask: u64) {
        self.held_back = mask;
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
    use crate::turns::Pick;

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

    #[test]
    fn of_lanes_that_are_held_back_all_is_known_and_nothing_taken() {
        let mut turns = Turns::new();
        turns.added_in(3, "here", &[1, 2], 0);
        turns.added_in(9, "there", &[3], 0);
        let picks = turns.select(1);
        turns.hold_back(1 << 3);
        // What was taken and did not run, and what comes, waits with the others.
        turns.released(&picks[0].lane, &picks[0].ids);
        turns.added_in(3, "here", &[4], 0);
        turns.added_in(3, "beside", &[5], 0);
        assert_eq!((turns.depth(), turns.busy()), (5, 0));
        assert_eq!(turns.take_one("here", 1), None);
        let lanes = |picks: Vec<Pick>| picks.into_iter().map(|pick| (pick.lane, pick.ids.len()));
        assert!(lanes(turns.select(9)).eq([("there".into(), 1)]));
        turns.hold_back(0);
        let mut all: Vec<_> = lanes(turns.select(9)).collect();
        all.sort_unstable();
        assert_eq!(all, [("beside".into(), 1), ("here".into(), 3)]);
    }
}
