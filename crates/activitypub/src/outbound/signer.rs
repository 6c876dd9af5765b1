//! Threads that sign deliveries, beneath everybody else: a signature is most of what a delivery
//! costs this server, and whoever else wants the processor goes first.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use tokio::sync::oneshot;
use weir_base::Turns;

/// How much the threads step back: while all processors are wanted each has about a twentieth of
/// what another thread has.
const STEP_BACK: i32 = 13;
/// Of so many signatures one is not of those that go before others, where any other waits.
const LATER_ONE_IN: u32 = 8;
/// A thread rests after a signature if it did not for so long, …
const WITHOUT_REST_MAX: Duration = Duration::from_millis(4);
/// … and how long that is. Under Linux 6.18 the processes of PostgreSQL, each a session, were seen
/// without a core for most of a second while threads that step back never left theirs.
const REST: Duration = Duration::from_micros(100);

type Work = Box<dyn FnOnce() + Send>;

/// Which signatures go before others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Haste {
    /// The first of a message for a host.
    First,
    /// Others.
    Later,
}

/// As many threads as there are processors; they end with it. What waits for them is as much as
/// there are deliveries on their way.
pub(crate) struct Signer {
    line: Arc<Line>,
}

#[derive(Default)]
struct Line {
    waiting: Mutex<Waiting>,
    news: Condvar,
}

#[derive(Default)]
struct Waiting {
    first: VecDeque<Work>,
    later: VecDeque<Work>,
    /// Signatures made while others waited, since one of these others had its turn.
    passed: u32,
    closed: bool,
}

impl Waiting {
    fn next(&mut self) -> Option<Work> {
        if !self.later.is_empty() {
            self.passed = (self.passed + 1) % LATER_ONE_IN;
            if self.passed == 0 {
                return self.later.pop_front();
            }
        }
        self.first.pop_front().or_else(|| self.later.pop_front())
    }
}

impl Line {
    fn add(&self, haste: Haste, work: Work) {
        let mut waiting = self.waiting.lock();
        match haste {
            Haste::First => waiting.first.push_back(work),
            Haste::Later => waiting.later.push_back(work),
        }
        drop(waiting);
        self.news.notify_one();
    }

    fn next(&self) -> Option<Work> {
        let mut waiting = self.waiting.lock();
        loop {
            if waiting.closed {
                return None;
            }
            if let Some(work) = waiting.next() {
                return Some(work);
            }
            self.news.wait(&mut waiting);
        }
    }
}

impl Signer {
    /// Starts the threads.
    pub(crate) fn new() -> Self {
        let line = Arc::new(Line::default());
        for number in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            let line = line.clone();
            let thread = std::thread::Builder::new().name(format!("sign-{number}"));
            let started = thread.spawn(move || {
                Turns::Usual.take();
                // On Linux this is of the thread alone.
                if let Err(error) = rustix::process::nice(STEP_BACK) {
                    tracing::warn!(%error, "deliveries are signed before more urgent work");
                }
                let mut rested_at = Instant::now();
                while let Some(work) = line.next() {
                    if catch_unwind(AssertUnwindSafe(work)).is_err() {
                        tracing::error!("a panic while a delivery was signed");
                    }
                    if rested_at.elapsed() >= WITHOUT_REST_MAX {
                        std::thread::sleep(REST);
                        rested_at = Instant::now();
                    }
                }
            });
            if let Err(error) = started {
                tracing::error!(%error, "a thread that signs deliveries cannot be started");
            }
        }
        Self { line }
    }

    /// Runs `sign` on one of the threads; none when it panicked.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        haste: Haste,
        sign: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let (done, answer) = oneshot::channel();
        let work: Work = Box::new(move || {
            // Whoever asked may be gone, before it is made or meanwhile.
            if !done.is_closed() {
                let _ = done.send(sign());
            }
        });
        self.line.add(haste, work);
        answer.await.ok()
    }
}

impl Drop for Signer {
    fn drop(&mut self) {
        let mut waiting = self.line.waiting.lock();
        waiting.closed = true;
        // Nobody waits for these any more.
        waiting.first.clear();
        waiting.later.clear();
        drop(waiting);
        self.line.news.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_a_message_for_a_host_goes_before_others() {
        let line = Line::default();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let note = |what: &'static str| -> Work {
            let seen = seen.clone();
            Box::new(move || seen.lock().push(what))
        };
        line.add(Haste::Later, note("later"));
        line.add(Haste::First, note("first"));
        for _ in 0..2 {
            line.next().unwrap()();
        }
        assert_eq!(*seen.lock(), ["first", "later"]);
    }

    #[test]
    fn others_are_signed_too_however_many_go_before_them() {
        let (line, seen) = (Line::default(), Arc::new(Mutex::new(Vec::new())));
        let add = |haste| {
            let seen = seen.clone();
            line.add(haste, Box::new(move || seen.lock().push(haste)));
        };
        (0..20).for_each(|_| add(Haste::First));
        (0..20).for_each(|_| add(Haste::Later));
        for _ in 0..16 {
            line.next().unwrap()();
        }
        let later = seen.lock().iter().filter(|haste| **haste == Haste::Later).count();
        assert_eq!(later, 2);
    }

    #[tokio::test]
    async fn a_panic_is_no_signature_and_ends_no_thread() {
        let signer = Signer::new();
        for _ in 0..20 {
            assert_eq!(signer.run(Haste::Later, || -> u8 { panic!("no") }).await, None);
        }
        assert_eq!(signer.run(Haste::First, || 7).await, Some(7));
    }
}
