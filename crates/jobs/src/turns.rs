//! Whose turn it is: deficit round robin between the lanes of a queue. No I/O, no clock.
//!
//! ```text
//!                 added                    select                     claimed
//!   (no lane) ──────────────▶ fresh line ──────────▶ pending ────────────────────▶ in flight
//!                               old line ──▲  ▲                                        │
//!                                   └──────┘  └───── released (not run) ◀──────────────┤
//!                                                                    removed (acknowledged)
//! ```
//!
//! A lane that fills while it is empty stands in the *fresh* line, which goes before the *old*
//! one; after one quantum it is old. A lane that empties keeps its place in the old line until it
//! is visited there, so that a key which enqueues one job at a time is not fresh each time.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use crate::Order;

/// One round over all lanes should give about this much work, shared among them, in ns.
const ROUND_NS: i64 = 500_000_000;
/// The most work a lane may do in one turn, in ns.
const QUANTUM_NS_MAX: i64 = 1_000_000;
/// A lane never owes more turns than these, however long its jobs took.
const DEBT_TURNS_MAX: i64 = 200;
/// Jobs of one lane may be taken ahead for about this much work, in ns.
const LANE_AHEAD_NS: i64 = 1_000_000;
/// In a newest-first queue each so many-th job is taken from the old end.
const OLDEST_EACH: u64 = 10;

/// The lanes of one queue.
pub(crate) struct Turns {
    lanes: HashMap<Arc<str>, Lane>,
    fresh: VecDeque<Arc<str>>,
    old: VecDeque<Arc<str>>,
    order: Order,
    /// Units: one batch of a lane at a time.
    one_batch_a_lane: bool,
    /// The most jobs of one lane that wait for something at once. Of quick jobs more are taken.
    lane_running_max: usize,
    /// Measured work of a job of this queue, in ns, smoothed.
    job_ns: i64,
    depth: i64,
}

/// What is known of a lane's rows.
struct Lane {
    /// Rows, those in flight included.
    depth: i64,
    /// Taken rows that still stand in the table.
    flight: BTreeSet<i64>,
    /// Taken jobs whose run has not ended.
    running: usize,
    /// Those of them that wait for something: a peer, a timer, a lock.
    slow: usize,
    /// Selected, not yet read.
    pending: usize,
    /// No row that could be taken has a lower id.
    from: i64,
    /// The lowest id that came since the last selection.
    arrived: i64,
    /// The last read found fewer rows than expected: nothing there until something is added.
    exhausted: bool,
    /// Work it may still do in this turn, in ns; negative when it took more than its share.
    deficit_ns: i64,
    job_ns: i64,
    taken: u64,
    /// A lower bound of the ids that wait.
    oldest: i64,
    line: Line,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Line {
    None,
    Fresh,
    Old,
}

/// Rows to be read from one lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pick {
    pub(crate) lane: Arc<str>,
    /// So many from the old end, of ids from [`from`](Self::from) on.
    pub(crate) oldest: usize,
    /// So many from the new end.
    pub(crate) newest: usize,
    pub(crate) from: i64,
    /// Rows that are in flight: not to be taken again, even if they are gone after the read.
    pub(crate) without: Vec<i64>,
}

impl Pick {
    pub(crate) fn count(&self) -> usize {
        self.oldest + self.newest
    }
}

impl Turns {
    pub(crate) fn new() -> Self {
        Self {
            lanes: HashMap::new(),
            fresh: VecDeque::new(),
            old: VecDeque::new(),
            order: Order::OldestFirst,
            one_batch_a_lane: false,
            lane_running_max: usize::MAX,
            job_ns: 250_000,
            depth: 0,
        }
    }

    /// Sets what the queue's declaration says.
    pub(crate) fn configure(&mut self, order: Order, units: bool, lane_running_max: usize) {
        self.order = order;
        self.one_batch_a_lane = units;
        self.lane_running_max = lane_running_max.max(1);
    }

    /// Rows in all lanes, those in flight included.
    pub(crate) fn depth(&self) -> u64 {
        u64::try_from(self.depth).unwrap_or(0)
    }

    /// Lanes that hold rows.
    pub(crate) fn lanes(&self) -> usize {
        self.lanes.values().filter(|lane| lane.depth > 0).count()
    }

    /// A lower bound of the ids that wait to be taken; an upper bound of the oldest one's age.
    pub(crate) fn oldest(&self) -> Option<i64> {
        self.lanes.values().filter(|lane| lane.waiting() > 0).map(|lane| lane.oldest).min()
    }

    /// Measured work of one job, in ns, at least 1.
    pub(crate) fn job_ns(&self) -> i64 {
        self.job_ns
    }

    /// The lanes that may hold row `id`, for a look-up by id alone.
    pub(crate) fn candidates(&self, id: i64) -> Vec<Arc<str>> {
        let may = |lane: &Lane| lane.oldest <= id || lane.flight.contains(&id);
        self.lanes.iter().filter(|(_, lane)| may(lane)).map(|(name, _)| name.clone()).collect()
    }

    /// Whether row `id` of `lane` is a task that was started, or whose end is being written.
    pub(crate) fn is_started_task(&self, lane: &str, id: i64) -> bool {
        let in_flight = self.lanes.get(lane).is_some_and(|lane| lane.flight.contains(&id));
        in_flight && !self.one_batch_a_lane
    }

    /// The lanes with the most rows: name, rows, jobs that run.
    pub(crate) fn deepest(&self, limit: usize) -> Vec<(Arc<str>, u64, usize)> {
        let rows = |lane: &Lane| u64::try_from(lane.depth).unwrap_or(0);
        let all = self.lanes.iter().filter(|(_, lane)| lane.depth > 0);
        let mut all: Vec<_> =
            all.map(|(name, lane)| (name.clone(), rows(lane), lane.running)).collect();
        all.sort_unstable_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
        all.truncate(limit);
        all
    }

    /// `count` rows, the lowest of id `id`, stand in `lane`.
    pub(crate) fn added(&mut self, lane: &str, id: i64, count: i64) {
        self.depth += count;
        let name = match self.lanes.get_key_value(lane) {
            Some((name, _)) => name.clone(),
            None => {
                let name: Arc<str> = lane.into();
                self.lanes.insert(name.clone(), Lane::new(id, self.job_ns));
                name
            }
        };
        let quantum_ns = self.quantum_ns();
        let Some(lane) = self.lanes.get_mut(&name) else { return };
        let was_empty = lane.depth <= 0;
        lane.oldest = if lane.waiting() <= 0 { id } else { lane.oldest.min(id) };
        lane.depth += count;
        lane.exhausted = false;
        lane.from = lane.from.min(id);
        lane.arrived = lane.arrived.min(id);
        if was_empty && lane.line == Line::None && lane.waiting() > 0 {
            lane.deficit_ns = quantum_ns;
            lane.line = Line::Fresh;
            self.fresh.push_back(name);
        } else {
            self.line_up(&name);
        }
    }

    /// As [`added`](Self::added), for what is found at the start: nobody goes before others.
    pub(crate) fn found(&mut self, lane: &str, id: i64, count: i64) {
        self.added(lane, id, count);
        while let Some(name) = self.fresh.pop_front() {
            self.push_old(&name);
        }
    }

    /// Picks up to `budget` jobs whose turn it is.
    pub(crate) fn select(&mut self, budget: usize) -> Vec<Pick> {
        let mut takes: Vec<(Arc<str>, usize)> = Vec::new();
        let mut place: HashMap<Arc<str>, usize> = HashMap::new();
        let mut left = budget;
        let mut misses = 0;
        while left > 0 {
            if misses > self.fresh.len() + self.old.len() {
                self.advance_rounds();
                misses = 0;
            }
            let (name, was_fresh) = match (self.fresh.pop_front(), &mut self.old) {
                (Some(name), _) => (name, true),
                (None, old) => match old.pop_front() {
                    Some(name) => (name, false),
                    None => break,
                },
            };
            match self.turn(&name, was_fresh, left) {
                0 => misses += 1,
                count => {
                    misses = 0;
                    left -= count;
                    let at = *place.entry(name.clone()).or_insert_with(|| {
                        takes.push((name, 0));
                        takes.len() - 1
                    });
                    takes[at].1 += count;
                }
            }
        }
        takes.into_iter().map(|(name, count)| self.pick(name, count)).collect()
    }

    /// One visit of a lane that stood first in its line: how many of its jobs are taken.
    fn turn(&mut self, name: &Arc<str>, was_fresh: bool, left: usize) -> usize {
        let available = self.available(name);
        let quantum_ns = self.quantum_ns();
        let Some(lane) = self.lanes.get_mut(name) else { return 0 };
        lane.line = Line::None;
        if available == 0 {
            // Visited while empty: it loses its place. What is locked comes back when it is free.
            if lane.is_gone() {
                self.lanes.remove(name);
            }
            return 0;
        }
        if lane.deficit_ns <= 0 {
            lane.deficit_ns += quantum_ns;
            self.push_old(name);
            return 0;
        }
        let job_ns = lane.job_ns.max(1);
        let fits = (lane.deficit_ns + job_ns - 1) / job_ns;
        let count = available.min(left).min(usize::try_from(fits).unwrap_or(1)).max(1);
        lane.pending += count;
        lane.deficit_ns -= lane.job_ns.saturating_mul(count as i64);
        if lane.deficit_ns > 0 && count < available {
            // The budget ended inside its turn, which it goes on with.
            lane.line = if was_fresh { Line::Fresh } else { Line::Old };
            let line = if was_fresh { &mut self.fresh } else { &mut self.old };
            line.push_front(name.clone());
        } else {
            self.push_old(name);
        }
        count
    }

    fn pick(&mut self, name: Arc<str>, count: usize) -> Pick {
        let newest_first = self.order == Order::NewestFirst;
        let Some(lane) = self.lanes.get_mut(&name) else {
            return Pick { lane: name, oldest: 0, newest: 0, from: 0, without: Vec::new() };
        };
        lane.arrived = i64::MAX;
        let before = lane.taken / OLDEST_EACH;
        lane.taken += count as u64;
        let backlog = lane.waiting() > 0;
        let oldest = if newest_first && backlog {
            usize::try_from(lane.taken / OLDEST_EACH - before).unwrap_or(count).min(count)
        } else {
            count
        };
        let without = lane.flight.range(lane.from..).copied().collect();
        Pick { lane: name, oldest, newest: count - oldest, from: lane.from, without }
    }

    /// The rows that a read for `pick` found: they are in flight from now on.
    pub(crate) fn claimed(&mut self, pick: &Pick, ids: &[i64]) {
        let Some(lane) = self.lanes.get_mut(&pick.lane) else { return };
        lane.pending -= pick.count().min(lane.pending);
        lane.flight.extend(ids);
        lane.running += ids.len();
        if ids.len() < pick.count() && lane.arrived == i64::MAX {
            lane.exhausted = true;
        }
        if pick.newest == 0
            && let Some(last) = ids.iter().max()
        {
            lane.from = lane.arrived.min(last + 1);
            lane.oldest = lane.from;
        }
        self.line_up(&pick.lane.clone());
    }

    /// A read failed: its picks are as if they had not been made.
    pub(crate) fn unpicked(&mut self, picks: &[Pick]) {
        for pick in picks {
            if let Some(lane) = self.lanes.get_mut(&pick.lane) {
                lane.pending -= pick.count().min(lane.pending);
                lane.from = lane.from.min(pick.from);
                self.line_up(&pick.lane);
            }
        }
    }

    /// `count` jobs of `lane` ran, for `ns` ns of work in all.
    pub(crate) fn finished(&mut self, lane: &Arc<str>, count: usize, ns: i64) {
        let each_ns = (ns / (count.max(1) as i64)).max(1);
        self.job_ns = smoothed(self.job_ns, each_ns);
        let debt_ns_max = self.quantum_ns() * DEBT_TURNS_MAX;
        if let Some(found) = self.lanes.get_mut(lane) {
            let expected_ns = found.job_ns.saturating_mul(count as i64);
            found.deficit_ns = (found.deficit_ns + expected_ns - ns).max(-debt_ns_max);
            found.job_ns = smoothed(found.job_ns, each_ns);
            found.running -= count.min(found.running);
            self.line_up(lane);
        }
    }

    /// A job of `lane` waits for something; true when no more of that lane may start beside it.
    pub(crate) fn slowed(&mut self, lane: &str) -> bool {
        let most = self.lane_running_max;
        self.lanes.get_mut(lane).is_some_and(|found| {
            found.slow += 1;
            !self.one_batch_a_lane && !lane.is_empty() && found.slow >= most
        })
    }

    /// A job of `lane` that waited for something ended.
    pub(crate) fn unslowed(&mut self, lane: &str) {
        if let Some(found) = self.lanes.get_mut(lane) {
            found.slow -= 1.min(found.slow);
        }
    }

    /// Rows `ids` of `lane` are not in flight any more; `gone` of them were removed just now.
    pub(crate) fn removed(&mut self, lane: &str, ids: &[i64], gone: usize) {
        let gone = i64::try_from(gone).unwrap_or(i64::MAX);
        self.depth -= gone;
        let name = match self.lanes.get_key_value(lane) {
            Some((name, _)) => name.clone(),
            None => return,
        };
        if let Some(lane) = self.lanes.get_mut(&name) {
            for id in ids {
                lane.flight.remove(id);
            }
            lane.depth -= gone;
        }
        self.line_up(&name);
    }

    /// Rows `ids` of `lane`, taken before, did not run: they wait again.
    pub(crate) fn released(&mut self, lane: &Arc<str>, ids: &[i64]) {
        if let Some(found) = self.lanes.get_mut(lane) {
            found.running -= ids.len().min(found.running);
            for id in ids {
                if found.flight.remove(id) {
                    found.from = found.from.min(*id);
                    found.oldest = found.oldest.min(*id);
                    found.arrived = found.arrived.min(*id);
                }
            }
            found.exhausted = false;
            self.line_up(lane);
        }
    }

    /// Brings a lane that can go on back into a line, or forgets it when nothing is left of it.
    fn line_up(&mut self, name: &Arc<str>) {
        let available = self.available(name);
        let Some(lane) = self.lanes.get_mut(name) else { return };
        if lane.line != Line::None {
            return;
        }
        if available > 0 {
            self.push_old(name);
        } else if lane.is_gone() {
            self.lanes.remove(name);
        }
    }

    fn push_old(&mut self, name: &Arc<str>) {
        if let Some(lane) = self.lanes.get_mut(name) {
            lane.line = Line::Old;
            self.old.push_back(name.clone());
        }
    }

    /// How many jobs of the lane could be taken now.
    fn available(&self, name: &Arc<str>) -> usize {
        let Some(lane) = self.lanes.get(name) else { return 0 };
        let busy = lane.running + lane.pending;
        if lane.exhausted || (self.one_batch_a_lane && lane.running > 0) {
            return 0;
        }
        // Jobs without a fairness key may have all the places.
        let room = if self.one_batch_a_lane || name.is_empty() {
            usize::MAX
        } else if lane.slow >= self.lane_running_max {
            0
        } else {
            let ahead = usize::try_from(LANE_AHEAD_NS / lane.job_ns.max(1)).unwrap_or(1);
            self.lane_running_max.max(ahead).saturating_sub(busy)
        };
        usize::try_from(lane.waiting()).unwrap_or(0).min(room)
    }

    /// All lanes in line owe turns: as many rounds pass at once as the least indebted needs.
    fn advance_rounds(&mut self) {
        let quantum_ns = self.quantum_ns();
        let in_line = || self.fresh.iter().chain(&self.old);
        let least_ns =
            in_line().filter_map(|name| self.lanes.get(name)).map(|lane| lane.deficit_ns).max();
        let rounds = (-least_ns.unwrap_or(0)).max(0) / quantum_ns + 1;
        let names: Vec<Arc<str>> = in_line().cloned().collect();
        for name in names {
            if let Some(lane) = self.lanes.get_mut(&name) {
                lane.deficit_ns += rounds * quantum_ns;
            }
        }
    }

    /// The work of one turn: smaller the more lanes share a round.
    fn quantum_ns(&self) -> i64 {
        (ROUND_NS / (self.lanes.len().max(1) as i64)).clamp(1, QUANTUM_NS_MAX)
    }
}

impl Lane {
    fn new(id: i64, job_ns: i64) -> Self {
        Self {
            depth: 0,
            flight: BTreeSet::new(),
            running: 0,
            slow: 0,
            pending: 0,
            from: id,
            arrived: i64::MAX,
            exhausted: false,
            deficit_ns: 0,
            job_ns,
            taken: 0,
            oldest: id,
            line: Line::None,
        }
    }

    /// Rows that nobody has taken or picked.
    fn waiting(&self) -> i64 {
        self.depth - self.flight.len() as i64 - self.pending as i64
    }

    /// Nothing is left of it. A depth below zero tells that the row's removal was heard of before
    /// its arrival, which is still to come.
    fn is_gone(&self) -> bool {
        self.depth == 0 && self.flight.is_empty() && self.pending == 0 && self.running == 0
    }
}

/// An exponentially weighted mean that follows in about eight steps.
fn smoothed(before: i64, now: i64) -> i64 {
    (before + (now - before) / 8).max(1)
}

#[cfg(test)]
mod tests;
