//! Threads beneath the others, for what nobody waits for: jobs, and what other servers send. In a
//! flood of those whoever is here goes first, at the processor too.

use std::io;

use tokio::runtime::{Builder, Runtime};

/// How much they step back: while all processors are wanted each has about a third of what another
/// thread has, which is enough to go on by.
const STEP_BACK: i32 = 5;

/// Starts them.
///
/// # Errors
/// What the system says.
pub fn start() -> io::Result<Runtime> {
    Builder::new_multi_thread()
        .thread_name("beneath")
        .on_thread_start(|| {
            // On Linux this is of the thread alone.
            if let Err(error) = rustix::process::nice(STEP_BACK) {
                tracing::warn!(%error, "background work does not give way to people");
            }
        })
        .enable_all()
        .build()
}
