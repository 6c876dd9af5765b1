//! Threads that sign deliveries, beneath everybody else: a signature is most of what a delivery
//! costs this server, and whoever else wants the processor goes first.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, mpsc};

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// How much the threads step back: while all processors are wanted each has about a twentieth of
/// what another thread has.
const STEP_BACK: i32 = 13;

type Work = Box<dyn FnOnce() + Send>;

/// As many threads as there are processors; they end with it. What waits for them is as much as
/// there are deliveries on their way.
pub(crate) struct Signer {
    work: mpsc::Sender<Work>,
}

impl Signer {
    /// Starts the threads.
    pub(crate) fn new() -> Self {
        let (work, waiting) = mpsc::channel::<Work>();
        let waiting = Arc::new(Mutex::new(waiting));
        for number in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            let waiting = waiting.clone();
            let thread = std::thread::Builder::new().name(format!("sign-{number}"));
            let started = thread.spawn(move || {
                // On Linux this is of the thread alone.
                if let Err(error) = rustix::process::nice(STEP_BACK) {
                    tracing::warn!(%error, "deliveries are signed before more urgent work");
                }
                // The lock is held only while it waits.
                let next = || waiting.lock().recv();
                while let Ok(work) = next() {
                    if catch_unwind(AssertUnwindSafe(work)).is_err() {
                        tracing::error!("a panic while a delivery was signed");
                    }
                }
            });
            if let Err(error) = started {
                tracing::error!(%error, "a thread that signs deliveries cannot be started");
            }
        }
        Self { work }
    }

    /// Runs `sign` on one of the threads; none when there is none, or when it panicked.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        sign: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let (done, answer) = oneshot::channel();
        let work = move || {
            // Whoever asked may be gone.
            let _ = done.send(sign());
        };
        self.work.send(Box::new(work)).ok()?;
        answer.await.ok()
    }
}
