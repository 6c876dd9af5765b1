//! Turns at the processor for those who arrive, so that a crowd at the door leaves room for those
//! who are here.
//!
//! An executor serves whatever is ready in its order. When thousands arrive at once their tasks
//! all stand before the one task of somebody who is here and asks for something. [`Pace`] lets
//! only a few of them do something at a time; the others wait in a line of their own, first come
//! first served, and cost next to nothing meanwhile. A turn lasts for one poll, so that somebody
//! who hangs holds up nobody.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::PollSemaphore;

/// Lets so many do something at a time. Clones are the same.
#[derive(Clone)]
pub struct Pace(Arc<Semaphore>);

/// The place of one task in the line.
pub struct Turns(PollSemaphore);

/// The right to do something, up to the next time one has to wait.
pub struct Turn {
    _held: Option<OwnedSemaphorePermit>,
}

/// A future that waits for its turn before each of its polls.
pub struct Paced<F> {
    turns: Turns,
    future: Pin<Box<F>>,
}

impl Pace {
    /// As many at a time as half of the processors, at least one.
    pub fn half() -> Self {
        Self::new(std::thread::available_parallelism().map_or(1, |all| all.get() / 2))
    }

    /// So many at a time, at least one.
    pub fn new(at_once: usize) -> Self {
        Self(Arc::new(Semaphore::new(at_once.clamp(1, Semaphore::MAX_PERMITS))))
    }

    /// A place in the line.
    pub fn turns(&self) -> Turns {
        Turns(PollSemaphore::new(self.0.clone()))
    }

    /// Runs `future` by turns.
    pub fn run<F: Future>(&self, future: F) -> Paced<F> {
        Paced { turns: self.turns(), future: Box::pin(future) }
    }
}

impl Turns {
    /// Waits for the next turn, which lasts until it is dropped.
    pub fn poll_turn(&mut self, context: &mut Context<'_>) -> Poll<Turn> {
        // Nobody closes the semaphore; a closed one would let everybody in.
        let held = ready!(self.0.poll_acquire(context));
        Poll::Ready(Turn { _held: held })
    }
}

impl<F: Future> Future for Paced<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let _turn = ready!(self.turns.poll_turn(context));
        self.future.as_mut().poll(context)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::poll_fn;

    use futures_util::FutureExt as _;

    use super::*;

    fn turn_of(turns: &mut Turns) -> Option<Turn> {
        poll_fn(|context| turns.poll_turn(context)).now_or_never()
    }

    #[test]
    fn one_who_arrives_waits_for_the_turn_of_another_to_end() {
        let pace = Pace::new(1);
        let mut other = pace.turns();
        let held = turn_of(&mut other);
        let polls = Cell::new(0);
        let mut arriving = pace.run(async { polls.set(polls.get() + 1) });
        assert!((&mut arriving).now_or_never().is_none());
        assert_eq!(polls.get(), 0);
        drop(held);
        assert!(arriving.now_or_never().is_some());
        assert_eq!(polls.get(), 1);
    }

    #[test]
    fn a_turn_ends_when_there_is_nothing_to_do_for_the_moment() {
        let pace = Pace::new(1);
        let mut hangs = pace.run(std::future::pending::<()>());
        assert!((&mut hangs).now_or_never().is_none());
        assert!(pace.run(async {}).now_or_never().is_some());
    }

    #[test]
    fn who_leaves_the_line_does_not_take_a_turn_along() {
        let pace = Pace::new(1);
        let (mut first, mut second) = (pace.turns(), pace.turns());
        let held = turn_of(&mut first);
        assert!(turn_of(&mut second).is_none());
        drop(second);
        drop(held);
        assert!(turn_of(&mut first).is_some());
    }
}
