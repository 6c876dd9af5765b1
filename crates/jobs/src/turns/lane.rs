//! What is known of one lane.

use std::collections::VecDeque;

use weir_base::Id;

use super::{CHARGE_NS_MIN, Line};
use crate::Order;

/// In a newest-first queue each so many-th job is taken from the old end.
const OLDEST_EACH: u64 = 10;

/// What is known of a lane's rows.
pub(super) struct Lane {
    pub(super) slot: u8,
    /// How many times the part of others it has.
    pub(super) weight: i64,
    /// Waiting rows, in order of id.
    pub(super) ids: VecDeque<i64>,
    /// Waiting rows that are not held: those after `edge`.
    pub(super) more: u64,
    pub(super) edge: i64,
    /// None of the waiting rows was ready before, in ms.
    pub(super) ready_ms: i64,
    /// The highest id that is or was held.
    pub(super) highest: i64,
    /// Taken rows that still stand in the table.
    pub(super) taken: usize,
    /// Those of them whose run has not ended.
    pub(super) running: usize,
    /// Those of them that wait for something: a peer, a timer, a lock.
    pub(super) slow: usize,
    /// Work it may still do in this turn, in ns; negative when it took more than its share.
    pub(super) deficit_ns: i64,
    pub(super) job_ns: i64,
    /// Work that its jobs did beyond what they were charged for, lately, in ns.
    pub(super) owed_ns: i64,
    pub(super) measured: bool,
    pub(super) turns_taken: u64,
    /// The last selection that took of it.
    pub(super) taken_in: u64,
    pub(super) line: Line,
    /// Where it stands among the parked.
    pub(super) parked_ms: Option<i64>,
}

impl Lane {
    pub(super) fn new(job_ns: i64, weight: i64) -> Self {
        Self {
            slot: 0,
            weight,
            ids: VecDeque::new(),
            more: 0,
            edge: i64::MIN,
            ready_ms: i64::MIN,
            highest: i64::MIN,
            taken: 0,
            running: 0,
            slow: 0,
            deficit_ns: 0,
            job_ns,
            owed_ns: 0,
            measured: false,
            turns_taken: 0,
            taken_in: 0,
            line: Line::None,
            parked_ms: None,
        }
    }

    /// Rows in the table.
    pub(super) fn depth(&self) -> u64 {
        self.untaken() + self.taken as u64
    }

    /// Those of them that nobody works on.
    pub(super) fn untaken(&self) -> u64 {
        self.ids.len() as u64 + self.more
    }

    /// Rows will wait of which none was ready before `ready_ms`.
    pub(super) fn will_wait(&mut self, ready_ms: i64) {
        let waits = !self.ids.is_empty() || self.more > 0;
        self.ready_ms = if waits { self.ready_ms.min(ready_ms) } else { ready_ms };
    }

    /// Since when the first of what waits is ready, in ms, or longer: what was scheduled has an id
    /// of long before.
    pub(super) fn oldest_ms(&self) -> Option<i64> {
        let first = self.ids.front()?;
        Some(Id(*first).time().as_ms().max(self.ready_ms))
    }

    /// What a job of it counts for when it is taken, in ns.
    pub(super) fn charge_ns(&self) -> i64 {
        self.job_ns.max(CHARGE_NS_MIN)
    }

    /// Whether row `id` is, or would be, one of those that are not held.
    pub(super) fn is_beyond(&self, id: i64) -> bool {
        id > self.edge
    }

    /// A row came; tells whether it is held.
    pub(super) fn add(&mut self, id: i64, full: bool) -> bool {
        if self.more > 0 {
            if self.is_beyond(id) {
                self.more += 1;
                return false;
            }
        } else if full && id > self.highest {
            self.edge = self.highest;
            self.more += 1;
            return false;
        }
        self.hold(id);
        true
    }

    pub(super) fn hold(&mut self, id: i64) {
        self.highest = self.highest.max(id);
        if self.ids.back().is_none_or(|last| *last < id) {
            self.ids.push_back(id);
        } else if let Err(at) = self.ids.binary_search(&id) {
            self.ids.insert(at, id);
        }
    }

    /// Takes `count` of those that are held.
    pub(super) fn take(&mut self, count: usize, order: Order) -> Vec<i64> {
        self.taken += count;
        self.running += count;
        let mut ids = Vec::with_capacity(count);
        for _ in 0..count {
            self.turns_taken += 1;
            let backlog = self.ids.len() > 1 || self.more > 0;
            let from_old_end = order == Order::OldestFirst
                || (backlog && self.turns_taken.is_multiple_of(OLDEST_EACH));
            ids.extend(if from_old_end { self.ids.pop_front() } else { self.ids.pop_back() });
        }
        if self.ids.is_empty() {
            // A lane that was deep does not keep its room.
            self.ids = VecDeque::new();
        }
        ids
    }
}
