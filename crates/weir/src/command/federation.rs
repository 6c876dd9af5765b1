//! `weir federation`

use clap::Subcommand;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::parts::Parts;

/// What to do about other servers.
#[derive(Debug, Clone, Subcommand, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FederationCommand {
    /// List the servers this one knows.
    #[command(after_help = "Example:\n  weir federation hosts --json")]
    Hosts,
    /// Show what is known of one server.
    #[command(after_help = "Example:\n  weir federation show other.example")]
    Show {
        /// Its domain.
        host: String,
    },
    /// Have nothing to do with a server and those on it.
    #[command(after_help = "Example:\n  weir federation block spam.example")]
    Block {
        /// Its domain.
        host: String,
    },
    /// Lift a block.
    #[command(after_help = "Example:\n  weir federation unblock spam.example")]
    Unblock {
        /// Its domain.
        host: String,
    },
}

pub(super) async fn execute(_parts: &Parts, _command: FederationCommand) -> Result<Value, String> {
    Err("this version does not speak with other servers yet".into())
}
