//! `weir account`

use clap::{Subcommand, ValueEnum};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::parts::Parts;

/// What to do with accounts.
#[derive(Debug, Clone, Subcommand, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AccountCommand {
    /// Make an account, confirmed and approved.
    #[command(after_help = "Example:\n  weir account create alice --email alice@example.social")]
    Create {
        /// What stands before the @.
        name: String,
        /// The e-mail address to log in with.
        #[arg(long)]
        email: String,
        /// The password; where it is left out, one is made up and printed.
        #[arg(long)]
        password: Option<String>,
        /// What the account may do.
        #[arg(long, value_enum, default_value_t = Role::User)]
        role: Role,
    },
    /// List the accounts here.
    #[command(after_help = "Example:\n  weir account list --json")]
    List,
    /// Show one account.
    #[command(after_help = "Example:\n  weir account show alice")]
    Show {
        /// What stands before the @.
        name: String,
    },
    /// Change an account.
    #[command(after_help = "Example:\n  weir account set alice --role admin")]
    Set {
        /// What stands before the @.
        name: String,
        /// A new e-mail address.
        #[arg(long)]
        email: Option<String>,
        /// A new password.
        #[arg(long)]
        password: Option<String>,
        /// What the account may do.
        #[arg(long, value_enum)]
        role: Option<Role>,
    },
    /// Delete an account and everything of it.
    #[command(after_help = "Example:\n  weir account delete alice")]
    Delete {
        /// What stands before the @.
        name: String,
    },
    /// Make a bearer token and print it.
    #[command(after_help = "Example:\n  weir account token alice --scopes \"read write\"")]
    Token {
        /// What stands before the @.
        name: String,
        /// What the token may do.
        #[arg(long, default_value = "read write follow push")]
        scopes: String,
    },
}

/// What an account may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// What everybody may.
    User,
    /// Act on reports.
    Moderator,
    /// Everything.
    Admin,
}

pub(super) async fn execute(_parts: &Parts, _command: AccountCommand) -> Result<Value, String> {
    Err("there are no accounts in this version yet".into())
}
