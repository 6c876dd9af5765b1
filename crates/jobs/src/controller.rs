//! How many jobs of each queue may run at once: found by trying. No I/O, and no clock but ticks.
//!
//! Each tick every queue is looked at. One that has all of its places in use while jobs wait gets
//! more of them, twice as many at first, a quarter more once it met a limit, and keeps them only
//! if more jobs end for it. When the processor, the database or the memory is at its end, nobody
//! gets more and the least urgent class gives up a quarter, down to its least share. The places
//! of all queues together stay within one budget.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use weir_db::Class;

use crate::limits::LimitedBy;

/// How often the controller is asked.
pub(crate) const TICK: Duration = Duration::from_millis(250);
/// Places of a queue before anything was learnt of it, and again when it was idle for long.
pub(crate) const START: usize = 64;
/// No queue has fewer places than this.
const FLOOR_MIN: usize = 4;
/// The queues of one class keep one part in this many of the places that are given: 5 %, shared
/// among those that want more than they have.
const SHARE_DIVISOR: usize = 20;
/// A verdict on a limit rests on at least so many ticks …
const WINDOW_TICKS_MIN: u64 = 2;
/// … and at most so many, however long the jobs take: 10 s.
const WINDOW_TICKS_MAX: u64 = 40;
/// … or so many while none ends at all …
const NONE_ENDED_TICKS: u64 = 4;
/// … and on so many ended jobs, or there is none.
const WINDOW_ENDED_MIN: u64 = 20;
/// A limit that more did not help is kept for so many ticks before another is tried: 10 s.
const HOLD_TICKS: u64 = 40;
/// The same when it did not help again and again: 80 s.
const HOLD_TICKS_MAX: u64 = 320;
/// A queue that needs few of its places for so many ticks goes back towards [`START`].
const IDLE_TICKS: u64 = 40;
/// While something is at its end a class gives places up once in so many ticks.
const LOWER_TICKS: u64 = 2;
/// Processor time of the process, of all it could have, from which it is at its end, in permille.
const PROCESS_FULL: u32 = 900;
/// The same of the machine, if a good part of it is ours.
const MACHINE_FULL: u32 = 950;
const PROCESS_PART: u32 = 300;
/// Units of work that wait for the database from which it is at its end.
const DATABASE_WAITING: usize = 256;
/// The time of the engine's own reads and writes from which it is, in ms.
const DATABASE_MS: u32 = 250;
/// Resident memory, of the budget, from which nobody gets more places, in permille …
const MEMORY_TIGHT: u32 = 850;
/// … places are given up, and nothing is taken ahead …
const MEMORY_FULL: u32 = 900;
/// … and the less urgent classes take nothing, until it is tight no more.
const MEMORY_SHED: u32 = 950;

/// What is known of the machine and the process.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Machine {
    /// Processor time that the process used, in permille of what it could have.
    pub(crate) process: u32,
    /// Processor time that was used by all, in permille.
    pub(crate) machine: u32,
    /// Units of work that wait for the database.
    pub(crate) database_waiting: usize,
    /// How long the engine's own reads and writes take, in ms.
    pub(crate) database_ms: u32,
    /// Resident memory in permille of its budget.
    pub(crate) memory: u32,
}

/// What sets a queue's limit without the controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fixed {
    /// Its declaration.
    Declared(usize),
    /// Somebody's command.
    ByHand(usize),
    /// It holds units, whose batches need no more.
    Batches(usize),
    /// Its jobs run on threads of their own.
    Threads(usize),
}

/// What is known of a queue, for the time since the last tick.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) name: Arc<str>,
    pub(crate) class: Class,
    /// Its part of what its class has, beside other queues.
    pub(crate) weight: u32,
    pub(crate) fixed: Option<Fixed>,
    /// Taken from by nobody, by command.
    pub(crate) paused: bool,
    /// Jobs wait.
    pub(crate) waits: bool,
    /// Jobs wait, and all places are in use.
    pub(crate) wants: bool,
    /// It gives way to others, which are behind, or steps back for them.
    pub(crate) yields: bool,
    /// Jobs wait, and their lanes may start no more.
    pub(crate) in_lanes: bool,
    pub(crate) running: usize,
    /// Jobs that ended, and how long they ran in all, in ns.
    pub(crate) ended: u64,
    pub(crate) work_ns: u64,
}

/// What a queue may do until the next tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) limit: usize,
    pub(crate) limited_by: LimitedBy,
    /// It takes nothing at all.
    pub(crate) shed: bool,
    /// It takes no more than can run at once.
    pub(crate) lean: bool,
}

/// The limits of all queues of the process.
pub(crate) struct Controller {
    /// Places of all queues together.
    budget: usize,
    /// Runtime threads: fewer places than twice as many would leave some idle.
    cores: usize,
    controls: BTreeMap<Arc<str>, Control>,
    tick: u64,
    lowered_at: u64,
    shedding: bool,
    lean: bool,
}

/// What was learnt of one queue.
#[derive(Debug, Clone)]
struct Control {
    limit: usize,
    /// Nothing stood in its way yet.
    slow_start: bool,
    window: Window,
    /// The limit before the one that is tried.
    trial: Option<Trial>,
    /// No other limit is tried before this tick.
    hold_until: u64,
    hold_ticks: u64,
    /// The next trial is of fewer places.
    down_next: bool,
    idle_ticks: u64,
    held_by: LimitedBy,
}

/// What was seen since the limit was set.
#[derive(Debug, Clone, Copy, Default)]
struct Window {
    ticks: u64,
    ended: u64,
    work_ns: u64,
}

/// A limit that was left for another.
#[derive(Debug, Clone, Copy)]
struct Trial {
    limit: usize,
    window: Window,
}

/// How many jobs may run at once in a process with so much memory, in bytes, and so many
/// descriptors: a quarter of each is for them, 256 KiB and one descriptor a job.
pub(crate) fn budget(memory_bytes: u64, descriptors: u64) -> usize {
    let fits = (memory_bytes / 4 / (256 << 10)).min(descriptors / 4);
    usize::try_from(fits).unwrap_or(usize::MAX).clamp(START, 4_096)
}

impl Controller {
    pub(crate) fn new(budget: usize, cores: usize) -> Self {
        let (budget, cores) = (budget.max(1), cores.max(1));
        let controls = BTreeMap::new();
        Self { budget, cores, controls, tick: 0, lowered_at: 0, shedding: false, lean: false }
    }

    /// Looks at all queues; the decisions are in the order of `seen`.
    pub(crate) fn tick(&mut self, machine: &Machine, seen: &[Seen]) -> Vec<Decision> {
        self.tick += 1;
        let full = full(machine);
        self.shedding =
            machine.memory >= MEMORY_SHED || (self.shedding && machine.memory >= MEMORY_TIGHT);
        self.lean = machine.memory >= MEMORY_FULL || (self.lean && machine.memory >= MEMORY_TIGHT);
        for queue in seen {
            self.learn(queue);
        }
        match full {
            Some(reason) if reason != LimitedBy::Memory || machine.memory >= MEMORY_FULL => {
                self.lower(seen, reason);
            }
            _ => {}
        }
        let mut order: Vec<&Seen> = seen.iter().filter(|queue| queue.fixed.is_none()).collect();
        order.sort_by_key(|queue| queue.class);
        for queue in order {
            if queue.wants {
                self.seek(queue, seen, full);
            }
        }
        self.keep_shares(seen);
        seen.iter().map(|queue| self.decide(queue, full, seen)).collect()
    }

    /// Raises the queues that want and have less than their class's share, which grows with what
    /// the others get. What the budget does not have is taken from whoever has most.
    fn keep_shares(&mut self, seen: &[Seen]) {
        let free_of_rule = |it: &&Seen| it.fixed.is_none() && it.wants;
        for queue in seen.iter().filter(free_of_rule) {
            let floor = self.floor(queue, seen);
            if self.limit(queue) >= floor {
                continue;
            }
            if let Some(control) = self.controls.get_mut(&queue.name) {
                control.trial = None;
                control.limit = floor;
            }
            let excess = self.used(seen).saturating_sub(self.budget);
            let most = seen.iter().filter(free_of_rule).max_by_key(|it| self.limit(it));
            let Some(most) = most.filter(|_| excess > 0) else { continue };
            let least = self.floor(most, seen);
            if let Some(control) = self.controls.get_mut(&most.name) {
                let fewer = control.limit.saturating_sub(excess).max(least);
                control.set(fewer.min(control.limit), LimitedBy::Budget);
            }
        }
    }

    /// Takes note of what was seen of a queue.
    fn learn(&mut self, queue: &Seen) {
        let (tick, start) = (self.tick, START.min(self.budget));
        let control =
            self.controls.entry(queue.name.clone()).or_insert_with(|| Control::new(start));
        if !queue.wants {
            // What a queue does that has all it wants says nothing of its limit.
            control.window = Window::default();
            control.trial = None;
            let idle = control.limit < start || 2 * queue.running <= control.limit;
            control.idle_ticks = if idle { control.idle_ticks + 1 } else { 0 };
            if control.idle_ticks >= IDLE_TICKS {
                let quarter = (control.limit.abs_diff(start) / 4).max(1);
                if control.limit > start {
                    control.limit -= quarter;
                } else if control.limit < start {
                    control.limit += quarter;
                }
                control.slow_start = true;
                control.hold_until = tick;
                control.hold_ticks = HOLD_TICKS;
            }
            return;
        }
        control.idle_ticks = 0;
        control.window.ticks += 1;
        control.window.ended += queue.ended;
        control.window.work_ns = control.window.work_ns.saturating_add(queue.work_ns);
    }

    /// The least urgent class that can gives up a quarter of its places.
    fn lower(&mut self, seen: &[Seen], reason: LimitedBy) {
        if self.tick < self.lowered_at + LOWER_TICKS {
            return;
        }
        for class in Class::ALL.into_iter().rev() {
            let mut lowered = false;
            for queue in seen.iter().filter(|it| it.class == class && it.fixed.is_none()) {
                let floor = self.floor(queue, seen);
                let active = queue.running > 0 || queue.waits;
                let Some(control) = self.controls.get_mut(&queue.name) else { continue };
                if active && control.limit > floor {
                    // Places that nobody holds are no relief: it goes on from what is in use.
                    let used = control.limit.min((2 * queue.running).max(control.limit / 2));
                    control.set((used - used / 4).max(floor), reason);
                    lowered = true;
                }
            }
            if lowered {
                self.lowered_at = self.tick;
                return;
            }
        }
    }

    /// Tries another limit for a queue that has all its places in use.
    fn seek(&mut self, queue: &Seen, seen: &[Seen], full: Option<LimitedBy>) {
        let (tick, cores) = (self.tick, self.cores);
        let free = self.budget.saturating_sub(self.used(seen));
        let Some(control) = self.controls.get_mut(&queue.name) else { return };
        if let Some(reason) = full {
            // Growth that something else cut short is no trial of the limit.
            control.slow_start = false;
            control.trial = None;
            control.held_by = reason;
            return;
        }
        if !control.window.is_long_enough() {
            return;
        }
        if let Some(trial) = control.trial.take()
            && !control.passed(trial, tick)
        {
            return;
        }
        if tick < control.hold_until {
            control.window = Window::default();
            return;
        }
        if control.down_next {
            let fewer = (control.limit - control.limit / 5).max(2 * cores).max(FLOOR_MIN);
            control.down_next = false;
            if fewer < control.limit {
                return control.attempt(fewer);
            }
        }
        let step = if control.slow_start { control.limit } else { control.limit / 4 };
        let step = step.max(1).min(free);
        if step > 0 {
            control.attempt(control.limit + step);
            control.held_by = LimitedBy::Growing;
        } else {
            control.held_by = LimitedBy::Budget;
            self.take_from_another(queue, seen);
        }
    }

    /// The budget is given away, and `queue` wants: a less urgent queue, or one of its own class
    /// with far more, gives up a quarter of its places.
    fn take_from_another(&mut self, queue: &Seen, seen: &[Seen]) {
        let own = self.limit(queue);
        let may = |other: &&Seen| {
            let limit = self.limit(other);
            // Twice as much, for its weight.
            let (had, has) = (own * weight(other), limit * weight(queue));
            let has_more = other.class == queue.class && has > had.saturating_mul(2);
            other.fixed.is_none()
                && other.wants
                && (other.class > queue.class || has_more)
                && limit > self.floor(other, seen)
        };
        let victim = seen.iter().filter(may).max_by_key(|other| (other.class, self.limit(other)));
        let Some(victim) = victim else { return };
        let floor = self.floor(victim, seen);
        if let Some(control) = self.controls.get_mut(&victim.name) {
            control.set((control.limit - control.limit.div_ceil(4)).max(floor), LimitedBy::Budget);
        }
    }

    fn limit(&self, queue: &Seen) -> usize {
        match queue.fixed {
            Some(fixed) => fixed.limit(),
            None => self.controls.get(&queue.name).map_or(START, |control| control.limit),
        }
    }

    /// Places that are in use or may be at once.
    fn used(&self, seen: &[Seen]) -> usize {
        let of = |queue: &Seen| match queue.fixed {
            None if queue.wants => self.limit(queue).max(queue.running),
            _ => queue.running,
        };
        seen.iter().map(of).sum()
    }

    /// The places that a queue keeps whatever happens: those of its class, shared among its queues.
    fn floor(&self, queue: &Seen, seen: &[Seen]) -> usize {
        let of_class = |it: &&Seen| it.class == queue.class && it.fixed.is_none() && it.wants;
        let all: usize = seen.iter().filter(of_class).map(weight).sum();
        let share = self.used(seen).div_ceil(SHARE_DIVISOR);
        let share = (share * weight(queue)).div_ceil(all.max(weight(queue)));
        share.max(2 * self.cores).max(FLOOR_MIN).min(self.budget)
    }

    fn decide(&self, queue: &Seen, full: Option<LimitedBy>, seen: &[Seen]) -> Decision {
        let shed = self.shedding && self.may_be_shed(queue, seen);
        let control = self.controls.get(&queue.name);
        let limited_by = match queue.fixed {
            _ if queue.paused => LimitedBy::Paused,
            _ if shed => LimitedBy::Memory,
            _ if !queue.waits => LimitedBy::Nothing,
            _ if queue.yields => LimitedBy::Urgent,
            Some(Fixed::Declared(_)) if queue.wants => LimitedBy::Declared,
            Some(Fixed::ByHand(_)) if queue.wants => LimitedBy::ByHand,
            Some(Fixed::Threads(_)) if queue.wants => LimitedBy::Threads,
            Some(Fixed::Batches(_)) if queue.wants => full.unwrap_or(LimitedBy::Batches),
            None if queue.wants => {
                full.unwrap_or(control.map_or(LimitedBy::Growing, |control| control.held_by))
            }
            _ if queue.in_lanes => LimitedBy::Lanes,
            // Places are free, and the rows of those who wait are on their way.
            _ => full.unwrap_or(LimitedBy::Database),
        };
        Decision { limit: self.limit(queue), limited_by, shed, lean: self.lean }
    }

    /// Whether a queue may be stopped for the sake of memory: all but those of the most urgent
    /// class that has work, and never what somebody waits for.
    fn may_be_shed(&self, queue: &Seen, seen: &[Seen]) -> bool {
        let active = seen.iter().filter(|it| it.waits || it.running > 0);
        let first = active.map(|it| it.class).min();
        queue.class > Class::Live && first.is_some_and(|first| queue.class > first)
    }
}

fn weight(queue: &Seen) -> usize {
    queue.weight.max(1) as usize
}

impl Fixed {
    pub(crate) fn limit(self) -> usize {
        match self {
            Self::Declared(limit)
            | Self::ByHand(limit)
            | Self::Batches(limit)
            | Self::Threads(limit) => limit.max(1),
        }
    }
}

/// What is at its end, if anything is.
fn full(machine: &Machine) -> Option<LimitedBy> {
    let processor = machine.process >= PROCESS_FULL
        || (machine.machine >= MACHINE_FULL && machine.process >= PROCESS_PART);
    if machine.memory >= MEMORY_TIGHT {
        Some(LimitedBy::Memory)
    } else if processor {
        Some(LimitedBy::Processor)
    } else if machine.database_waiting >= DATABASE_WAITING || machine.database_ms >= DATABASE_MS {
        Some(LimitedBy::Database)
    } else {
        None
    }
}

impl Control {
    fn new(limit: usize) -> Self {
        Self {
            limit,
            slow_start: true,
            window: Window::default(),
            trial: None,
            hold_until: 0,
            hold_ticks: HOLD_TICKS,
            down_next: false,
            idle_ticks: 0,
            held_by: LimitedBy::Growing,
        }
    }

    /// Gives places up.
    fn set(&mut self, limit: usize, reason: LimitedBy) {
        self.limit = limit;
        self.slow_start = false;
        self.trial = None;
        self.window = Window::default();
        self.held_by = reason;
    }

    /// Tries `limit`.
    fn attempt(&mut self, limit: usize) {
        self.trial = Some(Trial { limit: self.limit, window: self.window });
        self.limit = limit;
        self.window = Window::default();
    }

    /// Whether the limit that was tried is better than the one before, which is set again if not.
    /// Where too few jobs ended to tell, more is better.
    fn passed(&mut self, trial: Trial, tick: u64) -> bool {
        let few = trial.window.ended.min(self.window.ended) < WINDOW_ENDED_MIN;
        let (before, now) = (trial.window.rate(), self.window.rate());
        if self.limit > trial.limit {
            // A fifth of what it would be if each place did as much as before.
            let rise = self.limit as f64 / trial.limit as f64 - 1.0;
            if few || now >= before * (1.0 + rise / 5.0) {
                self.hold_ticks = HOLD_TICKS;
                return true;
            }
        } else if !few && now >= before * 0.97 {
            // Fewer did as much.
            self.hold(tick, self.limit, true);
            return false;
        } else {
            self.hold(tick, trial.limit, false);
            return false;
        }
        self.hold(tick, trial.limit, true);
        false
    }

    fn hold(&mut self, tick: u64, limit: usize, down_next: bool) {
        self.set(limit, LimitedBy::Slower);
        self.hold_until = tick + self.hold_ticks;
        self.hold_ticks = (self.hold_ticks * 2).min(HOLD_TICKS_MAX);
        self.down_next = down_next;
    }
}

impl Window {
    /// Whether the jobs that were started under the limit had the time to end.
    fn is_long_enough(&self) -> bool {
        let Some(run_ns) = self.work_ns.checked_div(self.ended) else {
            return self.ticks >= NONE_ENDED_TICKS;
        };
        let runs = (2 * u128::from(run_ns)).div_ceil(TICK.as_nanos());
        let wanted = u64::try_from(runs).unwrap_or(u64::MAX);
        self.ticks >= wanted.clamp(WINDOW_TICKS_MIN, WINDOW_TICKS_MAX)
    }

    /// Jobs that ended in a tick.
    fn rate(&self) -> f64 {
        self.ended as f64 / self.ticks.max(1) as f64
    }
}

#[cfg(test)]
mod tests;
