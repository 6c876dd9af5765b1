//! Threads beneath those that serve people: for what other servers send, and under them for jobs.
//! In a flood whoever is here goes first, at the processor too; then what comes in is made durable,
//! and then it is worked.

use std::io;

use tokio::runtime::{Builder, Runtime};

/// The runtimes of what nobody here waits for.
pub struct Beneath {
    /// Judges what other servers send, while they wait for the answer.
    pub door: Runtime,
    /// Runs the jobs.
    pub jobs: Runtime,
}

/// How much the threads of the door step back: while all processors are wanted each has about half
/// of what another thread has.
const DOOR_STEPS_BACK: i32 = 3;
/// The same of those of the jobs: a sixth, which is enough to go on by.
const JOBS_STEP_BACK: i32 = 8;

impl Beneath {
    /// Starts them.
    ///
    /// # Errors
    /// What the system says.
    pub fn start() -> io::Result<Self> {
        Ok(Self { door: start("door", DOOR_STEPS_BACK)?, jobs: start("jobs", JOBS_STEP_BACK)? })
    }
}

fn start(name: &str, step_back: i32) -> io::Result<Runtime> {
    Builder::new_multi_thread()
        .thread_name(name)
        .on_thread_start(move || {
            // On Linux this is of the thread alone.
            if let Err(error) = rustix::process::nice(step_back) {
                tracing::warn!(%error, "background work does not give way to people");
            }
        })
        .enable_all()
        .build()
}
