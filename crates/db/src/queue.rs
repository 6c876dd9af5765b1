//! Work that waits for a database thread, by class.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::Error;
use crate::meters::is_sample;

/// Whose work it is, the most urgent first. Overload slows the later ones; each keeps a share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Somebody waits for the answer.
    Interactive,
    /// Delivery to those who are connected now.
    Live,
    /// What other servers sent, and the first try of local people's posts.
    Inbound,
    /// Other deliveries.
    Outbound,
    /// Fetching, pruning and the rest.
    Housekeeping,
}

impl Class {
    /// All classes, the most urgent first.
    pub const ALL: [Class; 5] =
        [Self::Interactive, Self::Live, Self::Inbound, Self::Outbound, Self::Housekeeping];

    /// The name in metrics and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Interactive => "interactive",
            Self::Live => "live",
            Self::Inbound => "inbound",
            Self::Outbound => "outbound",
            Self::Housekeeping => "housekeeping",
        }
    }
}

/// The most units of one class that may wait.
const WAITING_MAX: usize = 20_000;
/// A class that waits is owed one part in this many of the time that other classes get: 5 %.
const SHARE_DIVISOR: i64 = 20;
/// A class is served out of turn once it is owed this much: after 5 ms of others' work.
const OWED_MIN_NS: i64 = 250_000;
/// No class can be owed more than one long unit (5 ms), however long it waits.
const OWED_MAX_NS: i64 = 5_000_000;
/// Nor owe more than this, however long a unit of it took: it waits at most 20 s for the next.
const OWING_MAX_NS: i64 = -1_000_000_000;

/// A bounded queue of work with one line a class, served by a fixed number of threads.
///
/// The most urgent line goes first. Whoever waits behind it is owed a twentieth of the *time* that
/// goes by (not of the turns: a background unit may be a hundred times as long as an interactive
/// one) and is served out of turn when that has added up.
pub(crate) struct ClassQueue<T> {
    state: Mutex<State<T>>,
    wake: Condvar,
    /// How many wait, for whoever looks again and again.
    len: AtomicUsize,
    waiting: [metrics::Gauge; 5],
    refused: [metrics::Counter; 5],
    wait_seconds: [metrics::Histogram; 5],
}

struct State<T> {
    lines: [VecDeque<(Instant, T)>; 5],
    owed_ns: [i64; 5],
    running: [usize; 5],
    threads: usize,
    /// Until then only what somebody waits for is taken.
    held_until: Option<Instant>,
    /// When that was said, until it is released.
    held_since: Option<Instant>,
    closed: bool,
}

/// Why and for which class work was taken; given back when it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Turn {
    pub(crate) class: Class,
    /// Taken out of turn, from the class's share.
    shared: bool,
}

/// A turn that is over, and how long its work took.
pub(crate) type Done = (Turn, Duration);

impl<T> ClassQueue<T> {
    /// A queue that `threads` threads serve; `name` is its label in metrics.
    pub(crate) fn new(threads: usize, name: &'static str) -> Self {
        let state = State {
            lines: Default::default(),
            owed_ns: [0; 5],
            running: [0; 5],
            threads,
            held_until: None,
            held_since: None,
            closed: false,
        };
        Self {
            state: Mutex::new(state),
            wake: Condvar::new(),
            len: AtomicUsize::new(0),
            waiting: Class::ALL.map(|class| {
                let class = class.name();
                metrics::gauge!("weir_db_line_units", "queue" => name, "class" => class)
            }),
            refused: Class::ALL.map(|class| {
                let class = class.name();
                metrics::counter!("weir_db_refused_total", "queue" => name, "class" => class)
            }),
            wait_seconds: Class::ALL.map(|class| {
                let class = class.name();
                metrics::histogram!("weir_db_wait_seconds", "queue" => name, "class" => class)
            }),
        }
    }

    /// Puts `work` at the end of its class's line.
    pub(crate) fn push(&self, class: Class, work: T) -> Result<(), Error> {
        let mut state = self.state.lock();
        if state.closed {
            return Err(Error::Closed);
        }
        let line = &mut state.lines[class as usize];
        if line.len() >= WAITING_MAX {
            self.refused[class as usize].increment(1);
            return Err(Error::Busy);
        }
        line.push_back((Instant::now(), work));
        self.waiting[class as usize].set(line.len() as f64);
        self.len.fetch_add(1, Ordering::Release);
        drop(state);
        self.wake.notify_one();
        Ok(())
    }

    /// The next work, waiting for it; none when the queue is closed and empty. `done` is what the
    /// same thread took before.
    pub(crate) fn pop(&self, done: Option<Done>) -> Option<(Turn, T)> {
        let mut state = self.state.lock();
        state.settle(done);
        state.look_at_clock();
        loop {
            if let Some(turn) = state.choose() {
                return Some(self.take(&mut state, turn));
            }
            if state.closed {
                return None;
            }
            match state.held_until {
                Some(until) => drop(self.wake.wait_until(&mut state, until)),
                None => self.wake.wait(&mut state),
            }
            state.look_at_clock();
        }
    }

    /// The next work for a group in which `most_urgent` is the most urgent class so far; none
    /// when the group should be committed, because nothing waits or only less urgent work does.
    /// So urgent work joins a background group at once, and its commit waits for no more of it.
    ///
    /// `done` is what the same thread took before, if it was not told yet.
    pub(crate) fn pop_into_group(
        &self,
        done: Option<Done>,
        most_urgent: Class,
    ) -> Option<(Turn, T)> {
        let mut state = self.state.lock();
        state.settle(done);
        let turn = state.choose().filter(|turn| turn.shared || turn.class <= most_urgent)?;
        Some(self.take(&mut state, turn))
    }

    /// Whether something waits, or comes until `until`. Gives way to other threads meanwhile: to
    /// sleep and be woken would take longer.
    pub(crate) fn comes_until(&self, until: Instant) -> bool {
        while self.len.load(Ordering::Acquire) == 0 {
            if Instant::now() >= until {
                return false;
            }
            std::thread::yield_now();
        }
        true
    }

    fn take(&self, state: &mut State<T>, turn: Turn) -> (Turn, T) {
        let at = turn.class as usize;
        let line = &mut state.lines[at];
        // `choose` names only lines in which something waits, under the same lock.
        let (since, work) = line.pop_front().expect("a line that is not empty");
        self.len.fetch_sub(1, Ordering::Release);
        self.waiting[at].set(line.len() as f64);
        if is_sample(line.len()) {
            self.wait_seconds[at].record(since.elapsed().as_secs_f64());
        }
        state.running[at] += 1;
        (turn, work)
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.state.lock().lines.iter().map(VecDeque::len).sum()
    }

    /// From now on only what somebody waits for is taken ([`Class::Interactive`] and
    /// [`Class::Live`]), until [`release`](Self::release) or for `most`.
    pub(crate) fn hold_back(&self, most: Duration) {
        let mut state = self.state.lock();
        if !state.closed {
            let now = Instant::now();
            state.held_until = Some(now + most);
            state.held_since.get_or_insert(now);
        }
    }

    /// Everything is taken again. Gives how long ago it began that not everything was, if so.
    pub(crate) fn release(&self) -> Option<Duration> {
        let mut state = self.state.lock();
        state.held_until = None;
        let since = state.held_since.take();
        drop(state);
        self.wake.notify_all();
        since.map(|since| since.elapsed())
    }

    /// Lets waiting threads go once the queue is empty; refuses new work.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        (state.held_until, state.held_since) = (None, None);
        drop(state);
        self.wake.notify_all();
    }
}

impl<T> State<T> {
    fn settle(&mut self, done: Option<Done>) {
        let Some((turn, took)) = done else { return };
        self.running[turn.class as usize] -= 1;
        let took_ns = i64::try_from(took.as_nanos()).unwrap_or(i64::MAX);
        for class in Class::ALL {
            let owed = &mut self.owed_ns[class as usize];
            if class == turn.class && turn.shared {
                *owed = owed.saturating_sub(took_ns).max(OWING_MAX_NS);
            } else if class != turn.class && !self.lines[class as usize].is_empty() {
                *owed = owed.saturating_add(took_ns / SHARE_DIVISOR).min(OWED_MAX_NS);
            }
        }
    }

    /// Nothing is held back for longer than was said.
    fn look_at_clock(&mut self) {
        if self.held_until.is_some_and(|until| Instant::now() >= until) {
            self.held_until = None;
        }
    }

    fn choose(&self) -> Option<Turn> {
        let mut waiting = Class::ALL.into_iter().filter(|&class| self.may_run(class));
        let first = waiting.next()?;
        let owed = |class: &Class| self.owed_ns[*class as usize];
        let due = waiting.filter(|class| owed(class) >= OWED_MIN_NS).max_by_key(owed);
        Some(match due {
            Some(class) => Turn { class, shared: true },
            None => Turn { class: first, shared: false },
        })
    }

    /// Whether work of `class` waits, is not held back and leaves enough threads: one is always
    /// kept for people who wait, and half of them for what is more urgent than deliveries and
    /// housekeeping.
    fn may_run(&self, class: Class) -> bool {
        let running = |from: Class| self.running[from as usize..].iter().sum::<usize>();
        let others_max = (self.threads - 1).max(1);
        let background_max = (self.threads / 2).max(1);
        !self.lines[class as usize].is_empty()
            && (class <= Class::Live || self.held_until.is_none())
            && (class < Class::Live || running(Class::Live) < others_max)
            && (class < Class::Outbound || running(Class::Outbound) < background_max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(threads: usize) -> ClassQueue<u32> {
        ClassQueue::new(threads, "test")
    }

    #[test]
    fn urgent_work_goes_first_and_every_waiting_class_gets_a_twentieth_of_the_time() {
        let queue = queue(1);
        let cost_us = [50, 100, 500, 1_000, 5_000];
        let mut spent_us = [0_u64; 5];
        let mut done = None;
        for _ in 0..30_000 {
            for class in Class::ALL {
                queue.push(class, 0).unwrap();
                if queue.state.lock().lines[class as usize].len() > 10 {
                    queue.state.lock().lines[class as usize].pop_back();
                }
            }
            let (turn, _) = queue.pop(done).unwrap();
            let cost = cost_us[turn.class as usize];
            spent_us[turn.class as usize] += cost;
            done = Some((turn, Duration::from_micros(cost)));
        }
        let all: u64 = spent_us.iter().sum();
        let percent = spent_us.map(|spent| spent * 100 / all);
        assert!((75..=85).contains(&percent[0]), "{percent:?}");
        assert!(percent[1..].iter().all(|share| (3..=6).contains(share)), "{percent:?}");
    }

    #[test]
    fn a_class_that_ran_while_nobody_else_waited_owes_nothing() {
        let queue = queue(1);
        queue.push(Class::Housekeeping, 0).unwrap();
        let (turn, _) = queue.pop(None).unwrap();
        queue.push(Class::Housekeeping, 1).unwrap();
        let (turn, _) = queue.pop(Some((turn, Duration::from_secs(60)))).unwrap();
        queue.push(Class::Housekeeping, 2).unwrap();
        queue.push(Class::Interactive, 3).unwrap();
        let (turn, work) = queue.pop(Some((turn, Duration::from_secs(60)))).unwrap();
        assert_eq!((turn.class, work), (Class::Interactive, 3));
        queue.push(Class::Interactive, 4).unwrap();
        let (_, work) = queue.pop(Some((turn, Duration::from_millis(6)))).unwrap();
        assert_eq!(work, 2, "6 ms of others' work must earn housekeeping its turn");
    }

    #[test]
    fn urgent_work_joins_a_group_and_the_group_takes_no_more_of_what_is_less_urgent() {
        let queue = queue(1);
        queue.push(Class::Housekeeping, 0).unwrap();
        let (turn, _) = queue.pop(None).unwrap();
        queue.push(Class::Housekeeping, 1).unwrap();
        queue.push(Class::Interactive, 2).unwrap();
        let done = (turn, Duration::from_micros(10));
        let (turn, work) = queue.pop_into_group(Some(done), Class::Housekeeping).unwrap();
        assert_eq!(work, 2);
        let done = (turn, Duration::from_micros(10));
        assert_eq!(queue.pop_into_group(Some(done), Class::Interactive), None);
        let (_, work) = queue.pop(None).unwrap();
        assert_eq!(work, 1);
    }

    #[test]
    fn background_work_never_takes_the_last_thread() {
        let queue = queue(4);
        for class in [Class::Housekeeping, Class::Inbound] {
            for at in 0..10 {
                queue.push(class, at).unwrap();
            }
        }
        let inbound = queue.pop(None).unwrap().0;
        assert_eq!(inbound.class, Class::Inbound);
        let state = || queue.state.lock();
        state().lines[Class::Inbound as usize].clear();
        assert_eq!(queue.pop(None).unwrap().0.class, Class::Housekeeping);
        assert_eq!(queue.pop(None).unwrap().0.class, Class::Housekeeping);
        assert_eq!(state().choose(), None, "the fourth thread is kept for people");
        queue.push(Class::Interactive, 7).unwrap();
        assert_eq!(queue.pop(None).unwrap().1, 7);
    }

    #[test]
    fn what_waits_is_seen_at_once_and_nothing_is_waited_for_beyond_its_time() {
        let queue = queue(1);
        let (past, far) = (Instant::now(), Instant::now() + Duration::from_secs(3_600));
        assert!(!queue.comes_until(past));
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| queue.comes_until(far));
            queue.push(Class::Inbound, 7).unwrap();
            assert!(waits.join().unwrap());
        });
        assert!(queue.comes_until(past));
        queue.pop(None).unwrap();
        assert!(!queue.comes_until(past));
    }

    #[test]
    fn what_is_held_back_waits_for_its_release_and_people_do_not() {
        let queue = queue(1);
        let long = Duration::from_secs(3_600);
        queue.hold_back(long);
        for class in Class::ALL {
            queue.push(class, class as u32).unwrap();
        }
        let mut done = None;
        let mut take = || {
            let (turn, work) = queue.pop(done.take()).unwrap();
            done = Some((turn, Duration::from_micros(10)));
            work
        };
        assert_eq!([take(), take()], [Class::Interactive as u32, Class::Live as u32]);
        assert_eq!(queue.pop_into_group(None, Class::Housekeeping), None);
        std::thread::scope(|scope| {
            let waits = scope.spawn(&mut take);
            assert!(queue.release().is_some());
            assert_eq!(waits.join().unwrap(), Class::Inbound as u32);
        });
        assert_eq!(queue.release(), None, "it was not held any more");
        queue.hold_back(Duration::ZERO);
        assert_eq!(take(), Class::Outbound as u32, "the time was over");
        queue.hold_back(long);
        queue.close();
        assert_eq!(take(), Class::Housekeeping as u32, "the end lets it go");
        queue.hold_back(long);
        assert!(queue.pop(None).is_none());
    }

    #[test]
    fn a_full_line_refuses_and_a_closed_queue_drains() {
        let queue = queue(1);
        for at in 0..WAITING_MAX {
            queue.push(Class::Inbound, at as u32).unwrap();
        }
        assert!(matches!(queue.push(Class::Inbound, 0), Err(Error::Busy)));
        queue.push(Class::Interactive, 7).unwrap();
        queue.close();
        assert_eq!(queue.pop(None).map(|(_, work)| work), Some(7));
        assert_eq!(queue.len(), WAITING_MAX);
        assert!(matches!(queue.push(Class::Inbound, 0), Err(Error::Closed)));
    }
}
