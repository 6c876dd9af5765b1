//! Whose turn it is: deficit round robin between the lanes of a queue. No I/O, no clock.
//!
//! ```text
//!                 added                    select                    finished
//!   (no lane) ──────────────▶ fresh line ──────────▶ taken (running) ─────────▶ taken
//!                               old line ──▲  ▲                                   │ settled
//!                                   └──────┘  └───── released (not run) ◀─────────┘   ▼
//! ```
//!
//! A lane that fills while it is empty stands in the *fresh* line, which goes before the *old*
//! one; after one quantum it is old. A lane that empties keeps its place in the old line until it
//! is visited there, so that a key which enqueues one job at a time is not fresh each time.
//!
//! The ids of waiting jobs are held, 8 bytes each, so that a job is taken without a search. Of a
//! backlog beyond [`HELD_MAX`] a lane holds those that come first, and counts the others, which
//! one scan of the table finds for all lanes when they are needed ([`Turns::refill`]). Only a
//! newest-first queue holds all: whoever fills it limits its depth.

mod lane;
mod parked;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use weir_base::Id;

use crate::Order;
use crate::gates::{End, Gates};
use lane::Lane;

/// One round over all lanes should give about this much work, shared among them, in ns.
const ROUND_NS: i64 = 500_000_000;
/// The most work a lane may do in one turn of a queue of tasks, in ns.
const QUANTUM_NS_MAX: i64 = 1_000_000;
/// Nor is a turn there longer than so many jobs of the queue's mean: neighbours in the table belong
/// to many lanes, and are quickest taken together.
const QUANTUM_JOBS: i64 = 4;
/// In one turn of a queue of units, in ns, however many jobs that are: those of one lane that run
/// in one transaction share what they look up and the pages they write.
const UNITS_QUANTUM_NS_MAX: i64 = 2_500_000;
/// A lane never owes more work than this, in ns, however long its jobs took.
const DEBT_NS_MAX: i64 = 200_000_000;
/// A job took at least this much work, in ns: about what the engine itself spends on it.
const JOB_NS_MIN: i64 = 5_000;
/// A job counts for at least this much work, in ns. So lanes of quick jobs go on side by side,
/// whose rows are neighbours, whatever noise there is.
const CHARGE_NS_MIN: i64 = 50_000;
/// A lane's mean follows a job by at most so many times that mean.
const SURPRISE: i64 = 4;
/// Work beyond what a lane was charged for, in ns, is charged when it comes to so much before it is
/// forgotten: a thread that is put aside now and then makes any job look slow.
const NOISE_NS: i64 = 10_000_000;
/// Jobs of one lane may be taken ahead for about this much work, in ns.
const LANE_AHEAD_NS: i64 = 1_000_000;
/// Ids of waiting jobs that are held for one queue: 16 MiB.
const HELD_MAX: usize = 2_000_000;
/// So many a lane holds at least.
const LANE_HELD_MIN: usize = 100;

/// A favoured lane has so many times the part of another.
const FAVOUR: i64 = 2;

/// Tells whether a lane is favoured. It is called under a lock, and waits for nothing.
pub(crate) type Favours = Arc<dyn Fn(&str) -> bool + Send + Sync>;

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
    /// Measured work of a job of this queue, in ns, smoothed; a guess before the first one ended.
    job_ns: i64,
    measured: bool,
    /// The same as it counts for turns.
    counted_ns: i64,
    depth: i64,
    held: usize,
    held_max: usize,
    /// Waiting rows whose ids are not held.
    more: u64,
    /// The highest id that was heard of.
    told: i64,
    /// Counts selections.
    selection: u64,
    /// Rates and breakers, where the queue declares such.
    gates: Option<Box<Gates>>,
    /// Lanes that could go on but for their gates, by when these open, in ms.
    parked: BTreeSet<(i64, Arc<str>)>,
    /// Which lanes have more than others, if any.
    favours: Option<Favours>,
    /// The time that was told last.
    now_ms: i64,
    /// Slots of lanes that another node works on.
    away: u64,
    /// Slots of lanes of which nothing is taken.
    held_back: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Line {
    None,
    Fresh,
    Old,
}

/// Jobs taken from one lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pick {
    pub(crate) lane: Arc<str>,
    pub(crate) ids: Vec<i64>,
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
            measured: false,
            counted_ns: CHARGE_NS_MIN,
            depth: 0,
            held: 0,
            held_max: HELD_MAX,
            more: 0,
            told: i64::MIN,
            selection: 0,
            gates: None,
            parked: BTreeSet::new(),
            favours: None,
            now_ms: 0,
            away: 0,
            held_back: 0,
        }
    }

    /// Sets what the queue's declaration says.
    pub(crate) fn configure(&mut self, order: Order, units: bool) {
        self.order = order;
        self.one_batch_a_lane = units;
        if order == Order::NewestFirst {
            self.held_max = usize::MAX;
        }
    }

    /// Sets which lanes have [`FAVOUR`] times the part of others. It is asked when a lane fills
    /// that was empty.
    pub(crate) fn set_favours(&mut self, favours: Favours) {
        for (name, lane) in &mut self.lanes {
            lane.weight = weight(&favours, name);
        }
        self.favours = Some(favours);
    }

    /// Sets how many jobs of one lane may wait for something at once.
    pub(crate) fn set_lane_running_max(&mut self, most: usize) {
        let before = std::mem::replace(&mut self.lane_running_max, most.max(1));
        if before < self.lane_running_max {
            // Those that had as many as they might stand in no line.
            let full = |lane: &&Arc<str>| self.lanes[*lane].line == Line::None;
            let names: Vec<Arc<str>> = self.lanes.keys().filter(full).cloned().collect();
            names.iter().for_each(|name| self.line_up(name));
        }
    }

    /// Whether rows wait to be taken.
    pub(crate) fn waiting(&self) -> bool {
        self.held > 0 || self.more > 0
    }

    /// Whether a lane stands in a line.
    pub(crate) fn in_line(&self) -> bool {
        !self.fresh.is_empty() || !self.old.is_empty()
    }

    /// Rows in all lanes, those in flight included.
    pub(crate) fn depth(&self) -> u64 {
        u64::try_from(self.depth).unwrap_or(0)
    }

    /// Lanes that hold rows.
    pub(crate) fn lanes(&self) -> usize {
        self.lanes.values().filter(|lane| lane.depth() > 0).count()
    }

    /// Since when the first of what waits is ready, as far as ids are held, in ms; never too late.
    pub(crate) fn oldest_ms(&self) -> Option<i64> {
        self.lanes.values().filter_map(Lane::oldest_ms).min()
    }

    /// Measured work of one job, in ns, at least 1.
    pub(crate) fn job_ns(&self) -> i64 {
        self.job_ns
    }

    /// Whether a job of this queue was measured since the start.
    pub(crate) fn is_measured(&self) -> bool {
        self.measured
    }

    /// Whether row `id` of `lane` waits, as far as is known here.
    pub(crate) fn waits(&self, lane: &str, id: i64) -> bool {
        self.lanes.get(lane).is_some_and(|lane| {
            lane.ids.binary_search(&id).is_ok() || (lane.more > 0 && lane.is_beyond(id))
        })
    }

    /// Rows of `lane` that wait.
    pub(crate) fn depth_of(&self, lane: &str) -> u64 {
        self.lanes.get(lane).map_or(0, Lane::depth)
    }

    /// Those of them that nobody works on.
    pub(crate) fn untaken_of(&self, lane: &str) -> u64 {
        self.lanes.get(lane).map_or(0, Lane::untaken)
    }

    /// Whether rows of `lane` were taken here that still stand in the table.
    pub(crate) fn has_taken(&self, lane: &str) -> bool {
        self.lanes.get(lane).is_some_and(|lane| lane.taken > 0)
    }

    /// The lanes with the most rows: name, rows, jobs that run.
    pub(crate) fn deepest(&self, limit: usize) -> Vec<(Arc<str>, u64, usize)> {
        let all = self.lanes.iter().filter(|(_, lane)| lane.depth() > 0);
        let mut all: Vec<_> =
            all.map(|(name, lane)| (name.clone(), lane.depth(), lane.running)).collect();
        all.sort_unstable_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
        all.truncate(limit);
        all
    }

    /// Rows `ids` stand in `lane`, ready since they were enqueued.
    pub(crate) fn added(&mut self, lane: &str, ids: &[i64]) {
        let first = ids.iter().min().copied().unwrap_or(0);
        self.added_since(lane, ids, Id(first).time().as_ms());
    }

    /// As [`added`](Self::added), of which none was ready before `ready_ms`.
    pub(crate) fn added_since(&mut self, lane: &str, ids: &[i64], ready_ms: i64) {
        let Some(highest) = ids.iter().max() else { return };
        self.told = self.told.max(*highest);
        self.depth += i64::try_from(ids.len()).unwrap_or(i64::MAX);
        let name = match self.lanes.get_key_value(lane) {
            Some((name, _)) => name.clone(),
            None => {
                let name: Arc<str> = lane.into();
                let weight = self.favours.as_ref().map_or(1, |favours| weight(favours, lane));
                self.lanes.insert(name.clone(), Lane::new(self.counted_ns, weight));
                name
            }
        };
        let quantum_ns = self.quantum_ns();
        let Some(lane) = self.lanes.get_mut(&name) else { return };
        let was_empty = lane.depth() == 0;
        lane.will_wait(ready_ms);
        for id in ids {
            let full =
                self.held >= self.held_max && lane.ids.len() >= LANE_HELD_MIN.min(self.held_max);
            let held = lane.add(*id, full);
            self.held += usize::from(held);
            self.more += u64::from(!held);
        }
        if was_empty && lane.line == Line::None {
            lane.deficit_ns = quantum_ns * lane.weight;
            lane.line = Line::Fresh;
            self.fresh.push_back(name);
        } else {
            self.line_up(&name);
        }
    }

    /// As [`added`](Self::added), for what is found at the start: nobody goes before others.
    pub(crate) fn found(&mut self, lane: &str, ids: &[i64], ready_ms: i64) {
        self.added_since(lane, ids, ready_ms);
        while let Some(name) = self.fresh.pop_front() {
            self.push_old(&name);
        }
    }

    /// Takes up to `budget` jobs whose turn it is.
    pub(crate) fn select(&mut self, budget: usize) -> Vec<Pick> {
        let mut picks: Vec<Pick> = Vec::new();
        let mut place: HashMap<Arc<str>, usize> = HashMap::new();
        let mut left = budget;
        let mut misses = 0;
        self.selection += 1;
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
            let ids = self.turn(&name, was_fresh, left);
            if ids.is_empty() {
                misses += 1;
                continue;
            }
            misses = 0;
            left -= ids.len();
            match place.get(&name) {
                Some(at) => picks[*at].ids.extend(ids),
                None => {
                    place.insert(name.clone(), picks.len());
                    picks.push(Pick { lane: name, ids });
                }
            }
        }
        self.selection += 1;
        picks
    }

    /// One visit of a lane that stood first in its line: the jobs that are taken.
    fn turn(&mut self, name: &Arc<str>, was_fresh: bool, left: usize) -> Vec<i64> {
        let available = self.available(name);
        let quantum_ns = self.quantum_ns();
        let Some(lane) = self.lanes.get_mut(name) else { return Vec::new() };
        lane.line = Line::None;
        if available == 0 {
            // Visited while empty: it loses its place. What is locked comes back when it is free.
            if lane.depth() == 0 {
                self.lanes.remove(name);
            } else {
                self.park(name);
            }
            return Vec::new();
        }
        if lane.deficit_ns <= 0 {
            lane.deficit_ns += quantum_ns * lane.weight;
            self.push_old(name);
            return Vec::new();
        }
        let charge_ns = lane.charge_ns();
        let fits = (lane.deficit_ns + charge_ns - 1) / charge_ns;
        let count = available.min(left).min(usize::try_from(fits).unwrap_or(1)).max(1);
        let ids = lane.take(count, self.order);
        lane.taken_in = self.selection;
        self.held -= ids.len();
        if let Some(gates) = &mut self.gates {
            gates.started(name, ids.len(), self.now_ms);
        }
        lane.deficit_ns -= charge_ns.saturating_mul(count as i64);
        if lane.deficit_ns > 0 && count < available {
            // The budget ended inside its turn, which it goes on with.
            lane.line = if was_fresh { Line::Fresh } else { Line::Old };
            let line = if was_fresh { &mut self.fresh } else { &mut self.old };
            line.push_front(name.clone());
        } else {
            self.push_old(name);
        }
        ids
    }

    /// `count` jobs of `lane` ran, for `ns` ns of work in all.
    pub(crate) fn finished(&mut self, lane: &Arc<str>, count: usize, ns: i64) {
        let each_ns = (ns / (count.max(1) as i64)).max(1);
        self.job_ns = smoothed(self.job_ns, each_ns);
        self.measured = true;
        self.counted_ns = smoothed(self.counted_ns, each_ns.max(CHARGE_NS_MIN));
        if let Some(found) = self.lanes.get_mut(lane) {
            let more_ns = each_ns.max(CHARGE_NS_MIN).saturating_sub(found.charge_ns());
            let owed_ns = found.owed_ns - found.owed_ns / 8;
            found.owed_ns = owed_ns.saturating_add(more_ns.saturating_mul(count as i64));
            if found.owed_ns.abs() >= NOISE_NS {
                let owed_ns = std::mem::take(&mut found.owed_ns);
                found.deficit_ns = found.deficit_ns.saturating_sub(owed_ns).max(-DEBT_NS_MAX);
            }
            let most_ns = found.job_ns.saturating_mul(SURPRISE);
            found.job_ns = smoothed(found.job_ns, each_ns.min(most_ns).max(JOB_NS_MIN));
            found.measured = true;
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

    /// `count` rows of `lane` that were taken are settled: removed now, or gone before.
    pub(crate) fn settled(&mut self, lane: &Arc<str>, count: usize) {
        if let Some(found) = self.lanes.get_mut(lane) {
            let count = count.min(found.taken);
            found.taken -= count;
            self.depth -= i64::try_from(count).unwrap_or(i64::MAX);
        }
        self.line_up(lane);
    }

    /// `count` rows of `lane` that were taken are gone: removed by hand before they were read.
    pub(crate) fn gone(&mut self, lane: &Arc<str>, count: usize) {
        if count > 0 {
            for _ in 0..count {
                self.ended(lane, End::Unknown);
            }
            self.finished(lane, count, count as i64);
            self.settled(lane, count);
        }
    }

    /// Row `id` of `lane` was removed by hand; false when it did not wait here.
    pub(crate) fn removed(&mut self, lane: &str, id: i64) -> bool {
        let Some((name, _)) = self.lanes.get_key_value(lane) else { return false };
        let name = name.clone();
        let Some(found) = self.lanes.get_mut(&name) else { return false };
        let waited = if let Ok(at) = found.ids.binary_search(&id) {
            found.ids.remove(at);
            self.held -= 1;
            self.depth -= 1;
            true
        } else if found.more > 0 && found.is_beyond(id) {
            found.more -= 1;
            self.more -= 1;
            self.depth -= 1;
            true
        } else {
            // It is taken, and settled by whoever took it.
            false
        };
        self.line_up(&name);
        waited
    }

    /// Takes row `id` of `lane` out of turn; none when it does not wait, or is not held.
    pub(crate) fn take_one(&mut self, lane: &str, id: i64) -> Option<Arc<str>> {
        let (name, _) = self.lanes.get_key_value(lane)?;
        let name = name.clone();
        let found = self.lanes.get_mut(&name)?;
        if self.held_back >> found.slot & 1 == 1 {
            return None;
        }
        let at = found.ids.binary_search(&id).ok()?;
        found.ids.remove(at);
        found.taken += 1;
        found.running += 1;
        self.held -= 1;
        Some(name)
    }

    /// Rows `ids` of `lane`, taken before, did not run: they wait again.
    pub(crate) fn released(&mut self, lane: &Arc<str>, ids: &[i64]) {
        if let Some(gates) = &mut self.gates {
            gates.unstarted(lane, ids.len(), self.now_ms);
        }
        if let Some(found) = self.lanes.get_mut(lane) {
            found.running -= ids.len().min(found.running);
            found.taken -= ids.len().min(found.taken);
            if self.away >> found.slot & 1 == 1 {
                self.depth -= i64::try_from(ids.len()).unwrap_or(i64::MAX);
                return self.line_up(lane);
            }
            found.will_wait(i64::MIN);
            for id in ids {
                found.hold(*id);
                self.held += 1;
            }
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
        } else if lane.depth() == 0 {
            self.lanes.remove(name);
        } else {
            self.park(name);
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
        if self.held_back >> lane.slot & 1 == 1 {
            return 0;
        }
        if self.one_batch_a_lane && lane.running > 0 && lane.taken_in != self.selection {
            return 0;
        }
        // Jobs without a fairness key may have all the places.
        let room = if self.one_batch_a_lane || name.is_empty() {
            usize::MAX
        } else if lane.slow >= self.lane_running_max {
            0
        } else {
            // Nothing is known of a lane before a job of it ended.
            let ahead_ns = if lane.measured { LANE_AHEAD_NS } else { 0 };
            let ahead = usize::try_from(ahead_ns / lane.job_ns.max(1)).unwrap_or(1);
            self.lane_running_max.max(ahead).saturating_sub(lane.running)
        };
        let open = match &self.gates {
            Some(gates) => gates.open_for(name, self.now_ms),
            None => usize::MAX,
        };
        lane.ids.len().min(room).min(open)
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
                lane.deficit_ns += rounds * quantum_ns * lane.weight;
            }
        }
    }

    /// The work of one turn: smaller the more lanes share a round.
    fn quantum_ns(&self) -> i64 {
        let share_ns = ROUND_NS / (self.lanes.len().max(1) as i64);
        let turn_ns = match self.one_batch_a_lane {
            true => UNITS_QUANTUM_NS_MAX,
            false => self.counted_ns.saturating_mul(QUANTUM_JOBS).min(QUANTUM_NS_MAX),
        };
        share_ns.min(turn_ns).max(1)
    }
}

fn weight(favours: &Favours, lane: &str) -> i64 {
    if favours(lane) { FAVOUR } else { 1 }
}

/// An exponentially weighted mean that follows in about eight steps.
fn smoothed(before: i64, now: i64) -> i64 {
    (before + (now - before) / 8).max(1)
}

mod away;
mod refill;
#[cfg(test)]
mod tests;
