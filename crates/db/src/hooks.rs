//! What follows a commit, in commit order.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

use crate::unit::Work;

/// Work for after the commit.
pub(crate) type Hook = Box<dyn FnOnce() + Send>;

/// Commits whose hooks may wait for an earlier commit; those who commit more wait too.
const FINISHED_MAX: usize = 1_000;

/// Who is told of commits of which nobody knows whether they stand.
#[derive(Default)]
pub(crate) struct Doubts(Mutex<Vec<Box<dyn Fn() + Send + Sync>>>);

impl Doubts {
    pub(crate) fn heard_by(&self, hear: impl Fn() + Send + Sync + 'static) {
        self.0.lock().push(Box::new(hear));
    }

    fn tell(&self) {
        metrics::counter!("weir_db_commits_in_doubt_total").increment(1);
        for hear in &*self.0.lock() {
            if catch_unwind(AssertUnwindSafe(hear)).is_err() {
                metrics::counter!("weir_db_hook_panics_total").increment(1);
                tracing::error!("who should hear of a commit in doubt panicked");
            }
        }
    }
}

/// Runs `hooks`; one that panics harms neither the others nor the thread.
pub(crate) fn run(hooks: Vec<Hook>) {
    for hook in hooks {
        if catch_unwind(AssertUnwindSafe(hook)).is_err() {
            metrics::counter!("weir_db_hook_panics_total").increment(1);
            tracing::error!("what should follow a commit panicked; the commit stands");
        }
    }
}

/// Puts the hooks of many connections in commit order.
///
/// A unit takes its ticket *before* it asks for its commit, and a unit that depends on another
/// (sees its rows, waited for its lock, or was started after its answer) can only come to its own
/// commit after the other's. So the order of tickets is a commit order. Nobody waits for a ticket's
/// turn: whoever finishes the oldest one runs what has piled up behind it.
pub(crate) struct CommitOrder {
    state: Mutex<State>,
    room: Condvar,
    doubts: Arc<Doubts>,
}

struct State {
    /// The next ticket to give.
    next: u64,
    /// The oldest ticket whose commit is not over or whose hooks have not begun.
    due: u64,
    finished: BTreeMap<u64, Option<(Vec<Hook>, Box<dyn Work>)>>,
    running: bool,
}

impl CommitOrder {
    pub(crate) fn new(doubts: Arc<Doubts>) -> Self {
        let state = State { next: 0, due: 0, finished: BTreeMap::new(), running: false };
        Self { state: Mutex::new(state), room: Condvar::new(), doubts }
    }

    /// A place in the order, taken before the commit; it must be given back by `finish`.
    pub(crate) fn ticket(&self) -> u64 {
        let mut state = self.state.lock();
        state.next += 1;
        state.next - 1
    }

    /// Nobody knows whether the commit stands: its hooks never run.
    pub(crate) fn doubt(&self, ticket: u64) {
        self.finish(ticket, None);
        self.doubts.tell();
    }

    /// The commit is over: its hooks run and its unit is answered once all earlier ones are.
    /// None for a commit that failed.
    pub(crate) fn finish(&self, ticket: u64, follows: Option<(Vec<Hook>, Box<dyn Work>)>) {
        let mut state = self.state.lock();
        while state.finished.len() >= FINISHED_MAX && ticket != state.due {
            self.room.wait(&mut state);
        }
        state.finished.insert(ticket, follows);
        if state.running {
            return;
        }
        state.running = true;
        loop {
            let due = state.due;
            let Some(follows) = state.finished.remove(&due) else { break };
            state.due += 1;
            drop(state);
            if let Some((hooks, work)) = follows {
                run(hooks);
                work.answer();
            }
            self.room.notify_all();
            state = self.state.lock();
        }
        state.running = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unit::{Kind, Unit};
    use crate::{Error, Tx};

    #[test]
    fn hooks_run_in_the_order_of_tickets_and_a_failed_commit_holds_nobody_up() {
        let order = CommitOrder::new(Arc::default());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let tickets: Vec<u64> = (0..4).map(|_| order.ticket()).collect();
        let finish = |at: usize| {
            let seen = seen.clone();
            let hook: Hook = Box::new(move || {
                seen.lock().push(at);
                assert_ne!(at, 2, "a hook that panics");
            });
            let (work, _) = Unit::boxed(|_: &mut Tx| Ok::<_, Error>(()), Kind::Write);
            order.finish(tickets[at], Some((vec![hook], work)));
        };
        finish(3);
        finish(1);
        assert!(seen.lock().is_empty());
        order.finish(tickets[0], None);
        assert_eq!(*seen.lock(), [1]);
        finish(2);
        assert_eq!(*seen.lock(), [1, 2, 3]);
    }
}
