//! Work that waits for a database thread, by class.

use std::collections::VecDeque;

use parking_lot::{Condvar, Mutex};

use crate::Error;

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
/// One turn in this many goes to the classes in rotation, so that each keeps at least 5 %
/// of the turns however much more urgent work there is.
const SHARED_TURN: u64 = 4;

/// A bounded queue of work with one line a class.
pub(crate) struct ClassQueue<T> {
    state: Mutex<State<T>>,
    wake: Condvar,
}

struct State<T> {
    lines: [VecDeque<T>; 5],
    turn: u64,
    rotation: usize,
    closed: bool,
}

impl<T> ClassQueue<T> {
    pub(crate) fn new() -> Self {
        let state = State { lines: Default::default(), turn: 0, rotation: 0, closed: false };
        Self { state: Mutex::new(state), wake: Condvar::new() }
    }

    /// Puts `work` at the end of its class's line.
    pub(crate) fn push(&self, class: Class, work: T) -> Result<(), Error> {
        let mut state = self.state.lock();
        if state.closed {
            return Err(Error::Closed);
        }
        let line = &mut state.lines[class as usize];
        if line.len() >= WAITING_MAX {
            metrics::counter!("weir_db_refused_total", "class" => class.name()).increment(1);
            return Err(Error::Busy);
        }
        line.push_back(work);
        drop(state);
        self.wake.notify_one();
        Ok(())
    }

    /// The next work, waiting for it; none when the queue is closed and empty.
    pub(crate) fn pop(&self) -> Option<(Class, T)> {
        let mut state = self.state.lock();
        loop {
            if let Some(next) = state.take() {
                return Some(next);
            }
            if state.closed {
                return None;
            }
            self.wake.wait(&mut state);
        }
    }

    /// The next work if there is one and none more urgent than `class` waits.
    pub(crate) fn pop_unless_more_urgent_than(&self, class: Class) -> Option<(Class, T)> {
        let mut state = self.state.lock();
        if state.lines[..class as usize].iter().any(|line| !line.is_empty()) {
            return None;
        }
        state.take()
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.state.lock().lines.iter().map(VecDeque::len).sum()
    }

    /// Lets waiting threads go once the queue is empty; refuses new work.
    pub(crate) fn close(&self) {
        self.state.lock().closed = true;
        self.wake.notify_all();
    }
}

impl<T> State<T> {
    fn take(&mut self) -> Option<(Class, T)> {
        self.turn += 1;
        if self.turn.is_multiple_of(SHARED_TURN) {
            for step in 0..Class::ALL.len() {
                let at = (self.rotation + step) % Class::ALL.len();
                if let Some(work) = self.lines[at].pop_front() {
                    self.rotation = at + 1;
                    return Some((Class::ALL[at], work));
                }
            }
            return None;
        }
        Class::ALL.into_iter().find_map(|class| {
            let work = self.lines[class as usize].pop_front()?;
            Some((class, work))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urgent_work_goes_first_and_every_class_keeps_a_twentieth() {
        let queue = ClassQueue::new();
        for class in Class::ALL {
            for _ in 0..1_000 {
                queue.push(class, class).unwrap();
            }
        }
        let mut taken = [0; 5];
        for _ in 0..1_000 {
            let (class, _) = queue.pop().unwrap();
            taken[class as usize] += 1;
        }
        assert!(taken[0] >= 750, "{taken:?}");
        assert!(taken.iter().all(|&turns| turns >= 50), "{taken:?}");
    }

    #[test]
    fn a_full_line_refuses_and_a_closed_queue_drains() {
        let queue = ClassQueue::new();
        for at in 0..WAITING_MAX {
            queue.push(Class::Inbound, at).unwrap();
        }
        assert!(matches!(queue.push(Class::Inbound, 0), Err(Error::Busy)));
        queue.push(Class::Interactive, 7).unwrap();
        queue.close();
        assert_eq!(queue.pop(), Some((Class::Interactive, 7)));
        assert_eq!(queue.len(), WAITING_MAX);
        assert!(matches!(queue.push(Class::Inbound, 0), Err(Error::Closed)));
    }
}
