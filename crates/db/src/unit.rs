//! A unit of work on its way to a database thread and back.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use tokio::sync::oneshot;
use tokio::task::coop;

use crate::{Error, Tx};

/// What a unit may do, and when it is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It writes, and is answered once that lies on the disk.
    Write,
    /// It writes, and is answered once that is committed. Its hooks wait for the disk.
    WriteEarly,
    /// It only reads, and is answered once all that it may have seen lies there.
    Read,
    /// It only reads, and is answered at once.
    ReadEarly,
}

impl Kind {
    /// Whether it goes to a connection that writes.
    pub(crate) fn writes(self) -> bool {
        matches!(self, Self::Write | Self::WriteEarly)
    }
}

/// What a database thread does with a unit, whatever its types.
pub(crate) trait Work: Send {
    /// What it may do, and when it is answered.
    fn kind(&self) -> Kind;
    /// Whether anybody still waits for what it reads.
    fn is_wanted(&self) -> bool;
    /// Runs it; may be called again after a rollback. True when its transaction is to be committed.
    fn run(&mut self, tx: &mut Tx) -> bool;
    /// Puts `error` in the place of the last run's result.
    fn spoil(&mut self, error: Error);
    /// Gives the last run's result to who waits for it.
    fn answer(self: Box<Self>);
    /// Gives `error` instead.
    fn fail(self: Box<Self>, error: Error);
}

pub(crate) struct Unit<F, T, E> {
    body: F,
    kind: Kind,
    result: Option<Result<T, E>>,
    reply: oneshot::Sender<Result<T, E>>,
}

impl<F, T, E> Unit<F, T, E>
where
    F: FnMut(&mut Tx) -> Result<T, E> + Send + 'static,
    T: Send + 'static,
    E: From<Error> + Send + 'static,
{
    pub(crate) fn boxed(body: F, kind: Kind) -> (Box<dyn Work>, oneshot::Receiver<Result<T, E>>) {
        let (reply, answer) = oneshot::channel();
        (Box::new(Self { body, kind, result: None, reply }), answer)
    }
}

impl<F, T, E> Work for Unit<F, T, E>
where
    F: FnMut(&mut Tx) -> Result<T, E> + Send,
    T: Send,
    E: From<Error> + Send,
{
    fn kind(&self) -> Kind {
        self.kind
    }

    fn is_wanted(&self) -> bool {
        !self.reply.is_closed()
    }

    fn run(&mut self, tx: &mut Tx) -> bool {
        let result = catch_unwind(AssertUnwindSafe(|| (self.body)(tx)))
            .unwrap_or_else(|panic| Err(E::from(Error::Panicked(panic_text(&*panic)))));
        // A statement failed and the unit went on as if it had not: nothing of it can be kept.
        let result = match result {
            Ok(_) if tx.failed => Err(E::from(Error::Aborted)),
            result => result,
        };
        let commit = result.is_ok();
        self.result = Some(result);
        commit
    }

    fn spoil(&mut self, error: Error) {
        self.result = Some(Err(E::from(error)));
    }

    fn answer(self: Box<Self>) {
        let result = self.result.unwrap_or_else(|| Err(E::from(Error::Closed)));
        // Nobody waits any more when the request was cancelled; the work is done all the same.
        let _ = self.reply.send(result);
    }

    fn fail(self: Box<Self>, error: Error) {
        let _ = self.reply.send(Err(E::from(error)));
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".into())
}

/// Waits for an answer by parking the thread. Unlike the channel's own blocking call it is allowed
/// on a thread that runs asynchronous code, as a program's start may be.
pub(crate) fn wait<T>(answer: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    // A task that has used up its budget would be told that nothing is there yet, and woken when
    // its thread is free: here that is never.
    let mut answer = pin!(coop::unconstrained(answer));
    loop {
        match answer.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(answer) => return answer,
            Poll::Pending => std::thread::park(),
        }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn who_may_block_is_answered_in_a_task_whose_budget_is_used_up() {
        let (tell, told) = std::sync::mpsc::channel();
        // A thread that is not answered stays behind.
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            runtime.block_on(async {
                while coop::has_budget_remaining() {
                    coop::consume_budget().await;
                }
                let (reply, answer) = oneshot::channel();
                reply.send(7).unwrap();
                tell.send(wait(answer)).unwrap();
            });
        });
        assert_eq!(told.recv_timeout(Duration::from_secs(60)), Ok(Ok(7)));
    }
}
