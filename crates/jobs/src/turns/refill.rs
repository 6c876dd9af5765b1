//! Jobs of a long backlog that are counted, and found in the table when they are needed.

use std::collections::HashSet;
use std::sync::Arc;

use super::{LANE_HELD_MIN, Lane, Turns};

impl Turns {
    /// After which id to scan the table, when too few of the waiting rows are held.
    pub(crate) fn refill(&self) -> Option<i64> {
        if self.more == 0 {
            return None;
        }
        let enough = self.held > self.held_max / 2;
        let wanting = |lane: &&Lane| lane.more > 0 && (!enough || lane.ids.is_empty());
        self.lanes.values().filter(wanting).map(|lane| lane.edge).min()
    }

    /// What a scan after `refill` up to `last` found, in order of id: lane and id. Without `last`
    /// it came to the end of the table.
    pub(crate) fn refilled(&mut self, refill: i64, rows: &[(String, i64)], last: Option<i64>) {
        let held_max = self.held_max;
        let mut skipped: HashSet<&str> = HashSet::new();
        for (name, id) in rows {
            let Some(lane) = self.lanes.get_mut(name.as_str()) else { continue };
            if lane.more == 0 || *id > self.told || !lane.is_beyond(*id) {
                continue;
            }
            let full =
                self.held >= held_max && lane.ids.len() >= LANE_HELD_MIN.min(held_max).max(1);
            if full || lane.is_beyond(refill) || skipped.contains(name.as_str()) {
                // What a lane holds comes before all that it does not.
                skipped.insert(name);
                continue;
            }
            lane.hold(*id);
            lane.edge = *id;
            lane.more -= 1;
            self.held += 1;
            self.more -= 1;
        }
        let names: Vec<Arc<str>> = self.lanes.keys().cloned().collect();
        for name in names {
            if let Some(lane) = self.lanes.get_mut(&name)
                && lane.more > 0
                && !skipped.contains(&*name)
                && !lane.is_beyond(refill)
            {
                if let Some(last) = last {
                    lane.edge = lane.edge.max(last);
                } else {
                    // Counted and not there: what two told of at once.
                    self.depth -= i64::try_from(lane.more).unwrap_or(i64::MAX);
                    self.more -= lane.more;
                    lane.more = 0;
                }
            }
            self.line_up(&name);
        }
    }
}
