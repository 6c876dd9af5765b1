//! What an administrator can do from the command line. The same words go over the control socket
//! of a running server, and have the same effect without one.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use weir_jobs::Jobs;

use crate::parts::Parts;

/// A command for the community, as it travels over the control socket.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// About accounts.
    Account(AccountCommand),
    /// About background jobs.
    Jobs(JobsCommand),
    /// About other servers.
    Federation(FederationCommand),
    /// About what is removed in time.
    Housekeeping(HousekeepingCommand),
}

/// Where a command that takes long says how far it is.
pub type Told = Arc<tokio::sync::watch::Sender<Value>>;

/// Does what `command` says and answers what there is to print.
///
/// # Errors
/// One line that says what to do.
pub async fn execute(parts: &Parts, command: Command, told: Told) -> Result<Value, String> {
    match command {
        Command::Account(command) => account::execute(parts, command).await,
        Command::Jobs(command) => jobs::execute(&parts.jobs, command, told).await,
        Command::Federation(command) => federation::execute(parts, command).await,
        Command::Housekeeping(command) => housekeeping::execute(parts, command, told).await,
    }
}

/// The same where there are jobs, and no community.
///
/// # Errors
/// One line that says what to do.
pub async fn execute_jobs(jobs: &Jobs, command: JobsCommand, told: Told) -> Result<Value, String> {
    jobs::execute(jobs, command, told).await
}

mod account;
mod federation;
mod housekeeping;
mod jobs;

pub use account::AccountCommand;
pub use federation::FederationCommand;
pub use housekeeping::HousekeepingCommand;
pub use jobs::{JobsCommand, Unserved};
