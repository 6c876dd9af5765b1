//! Threads for jobs that block or compute for long, so that they hold up nobody else.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Semaphore, oneshot};
use weir_base::Turns;

use crate::dispatch::panic_text;
use crate::{Failure, Outcome};

type Work = Box<dyn FnOnce() + Send>;

/// As many threads as the machine runs at once; they end with the last handle.
pub(crate) struct Pool {
    /// One for each thread, held until its work ends, however late: what waits for a thread waits
    /// here, in its queue's place.
    threads: Arc<Semaphore>,
    work: mpsc::Sender<Work>,
}

impl Pool {
    /// Starts the threads.
    pub(crate) fn new() -> Self {
        let count = threads();
        let (work, waiting) = mpsc::channel::<Work>();
        let waiting = Arc::new(Mutex::new(waiting));
        for number in 0..count {
            let waiting = waiting.clone();
            let thread = std::thread::Builder::new().name(format!("job-{number}"));
            let started = thread.spawn(move || {
                Turns::Usual.take();
                // The lock is held only while it waits.
                let next = || waiting.lock().recv();
                while let Ok(work) = next() {
                    work();
                }
            });
            if let Err(error) = started {
                tracing::error!(%error, "a thread for jobs that block cannot be started");
            }
        }
        Self { threads: Arc::new(Semaphore::new(count)), work }
    }

    /// Runs `job` on a thread of its own, once one is free, and waits at most `timeout` for its
    /// end. A job that takes longer keeps its thread until it ends by itself.
    pub(crate) async fn run(
        &self,
        job: impl FnOnce() -> Result<(), Failure> + Send + 'static,
        timeout: Duration,
    ) -> Outcome {
        let Ok(thread) = self.threads.clone().acquire_owned().await else {
            return Outcome::retry("no thread to run it");
        };
        let (ended, end) = oneshot::channel();
        let work = Box::new(move || {
            let done = match catch_unwind(AssertUnwindSafe(job)) {
                Ok(done) => done,
                Err(panic) => Err(Failure::retry(panic_text(&*panic))),
            };
            drop(thread);
            if ended.send(done).is_err() {
                metrics::counter!("weir_jobs_overdue_ended_total").increment(1);
            }
        });
        if self.work.send(work).is_err() {
            return Outcome::retry("no thread to run it");
        }
        match tokio::time::timeout(timeout, end).await {
            Ok(Ok(done)) => done.map_or_else(Outcome::from, |()| Outcome::Done),
            Ok(Err(_)) => Outcome::retry("its thread ended"),
            Err(_) => {
                let seconds = timeout.as_secs();
                Outcome::retry(format!("not done within {seconds} s; its thread still runs it"))
            }
        }
    }
}

/// How many of them there are.
pub(crate) fn threads() -> usize {
    std::thread::available_parallelism().map_or(2, usize::from)
}
