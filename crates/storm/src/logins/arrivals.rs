//! The threads on which those who arrive do their part.

use anyhow::Result;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;
use weir_base::Turns;

/// A runtime of their own, so that its threads can give way.
pub(super) struct Arrivals(Option<Runtime>);

impl Arrivals {
    /// As many threads as there are processors, with this niceness.
    pub(super) fn new(nice: i32) -> Result<Self> {
        let give_way = move || {
            // Nobody measures how long these wait; what starts them has short ones.
            Turns::Usual.take();
            if nice > 0 {
                // Of the calling thread; what is refused leaves it as it is.
                let _ = rustix::process::setpriority_process(None, nice);
            }
        };
        let runtime = Builder::new_multi_thread().enable_all().on_thread_start(give_way).build()?;
        Ok(Self(Some(runtime)))
    }

    pub(super) fn spawn<T: Send + 'static>(
        &self,
        arriving: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        match &self.0 {
            Some(runtime) => runtime.spawn(arriving),
            None => tokio::spawn(arriving),
        }
    }
}

impl Drop for Arrivals {
    fn drop(&mut self) {
        // Where others run, nobody may wait for its threads.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
