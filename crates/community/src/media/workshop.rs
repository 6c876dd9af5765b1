//! Where pictures are worked on: on blocking threads, few at once, within a budget of memory.

use std::sync::Arc;

use tokio::sync::Semaphore;
use weir_base::MIB;

use super::picture::{self, PictureError};
use super::sniff::Form;
use crate::Error;

/// Pictures that may wait to be worked on; more are turned away for a moment.
const WAITING_MAX: usize = 64;
/// What is given to all pictures that are worked on, at most, in MiB. One of the largest that are
/// taken fits in.
const BUDGET_MIB: u32 = 768;
/// Pictures worked on at once, at most.
const AT_ONCE_MAX: u32 = 4;

/// The workshop; clones share it.
#[derive(Clone)]
pub(crate) struct Workshop {
    memory: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
    /// The least a picture counts, so that no more than so many run at once.
    least_mib: u32,
}

impl Workshop {
    pub(crate) fn new() -> Self {
        let cores = std::thread::available_parallelism().map_or(2, usize::from) as u32;
        Self {
            memory: Arc::new(Semaphore::new(BUDGET_MIB as usize)),
            waiting: Arc::new(Semaphore::new(WAITING_MAX)),
            least_mib: BUDGET_MIB / cores.clamp(1, AT_ONCE_MAX),
        }
    }

    /// Has `work` done on a picture, in its turn.
    ///
    /// # Errors
    /// [`Error::Invalid`] for `field` when the picture is not acceptable, [`Error::TooMany`] when
    /// too many wait.
    pub(crate) async fn work<T: Send + 'static>(
        &self,
        field: &'static str,
        bytes: Arc<[u8]>,
        form: Form,
        work: impl FnOnce(&[u8]) -> Result<T, PictureError> + Send + 'static,
    ) -> Result<T, Error> {
        let refused = |error: PictureError| {
            metrics::counter!("weir_community_pictures_refused_total").increment(1);
            Error::invalid(field, "ERR_INVALID", error.to_string())
        };
        let busy = |_| Error::TooMany { retry_after_s: 5 };
        let _waiting = self.waiting.clone().try_acquire_owned().map_err(busy)?;
        let cost_bytes = picture::cost_bytes(&bytes, form).map_err(refused)?;
        let mib = u32::try_from(cost_bytes / MIB as u64 + 1).unwrap_or(BUDGET_MIB);
        let share = mib.clamp(self.least_mib, BUDGET_MIB);
        let closed = |_| Error::Upstream("pictures are not taken any more".into());
        let room = self.memory.clone().acquire_many_owned(share).await.map_err(closed)?;
        let started = std::time::Instant::now();
        let done = tokio::task::spawn_blocking(move || {
            // Held until the work is over, even if nobody waits for it any more.
            let _room = room;
            work(&bytes)
        });
        // A panic of a decoder is the picture's fault, and its alone.
        let result = done.await.unwrap_or(Err(PictureError::Unreadable)).map_err(refused);
        metrics::histogram!("weir_community_picture_seconds")
            .record(started.elapsed().as_secs_f64());
        result
    }
}
