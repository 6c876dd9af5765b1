//! What a command on jobs comes to where no server uses the data directory.

use super::JobsCommand;
use crate::config::{Config, JobsBackend};

/// What becomes of a command without a server.
#[derive(Debug, PartialEq, Eq)]
pub enum Unserved {
    /// It does all that it says.
    Done,
    /// It is done, and this is to be known of it.
    Told(&'static str),
    /// It would do nothing; the remedy.
    Refused(&'static str),
}

impl JobsCommand {
    /// What becomes of it where nobody serves `config`'s data directory.
    pub fn unserved(&self, config: &Config) -> Unserved {
        let is_shared = config.jobs.backend == JobsBackend::Redis
            || !config.database.url.expose().starts_with("sqlite:");
        match self {
            Self::Quiet => Unserved::Refused(
                "there is none to quiet; start `weir serve`, or name the directory of the one \
                 that runs with --data (`weir jobs pause` stops a queue over restarts)",
            ),
            Self::Drain { .. } if !is_shared => Unserved::Refused(
                "nobody works on what waits; start `weir serve`, or name the directory of the \
                 one that runs with --data",
            ),
            // Jobs in a queue of another sort would go to the dead set at the next start.
            Self::Move { .. } => Unserved::Refused(
                "only one that works the queues knows which are of one sort; start `weir serve`, \
                 or name the directory of the one that runs with --data",
            ),
            Self::Pause { .. } | Self::Resume { .. } if is_shared => {
                Unserved::Told("it is stored, and other servers that share the jobs heed it now")
            }
            Self::Pause { .. } | Self::Resume { .. } => {
                Unserved::Told("it is stored, and holds from the next start of `weir serve` on")
            }
            Self::Limit { .. } => {
                Unserved::Told("it is stored, and holds for each server from its next start on")
            }
            _ => Unserved::Done,
        }
    }
}
