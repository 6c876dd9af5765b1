//! `weir jobs`

use clap::Subcommand;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::parts::Parts;

/// What to do with background jobs.
#[derive(Debug, Clone, Subcommand, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobsCommand {
    /// Count what waits, runs, is retried and is dead.
    #[command(after_help = "Example:\n  weir jobs stats --json")]
    Stats,
}

pub(super) async fn execute(_parts: &Parts, _command: JobsCommand) -> Result<Value, String> {
    Err("there are no jobs in this version yet".into())
}
