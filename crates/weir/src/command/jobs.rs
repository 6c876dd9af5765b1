//! `weir jobs`

mod act;
mod describe;
mod unserved;

use clap::{Args, Subcommand, ValueEnum};
use serde::{Deserialize, Serialize};
use weir_jobs::{Search, Set};

pub(super) use act::execute;
pub use unserved::Unserved;

/// What to do with background jobs.
#[derive(Debug, Clone, Subcommand, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobsCommand {
    /// Count what waits, runs, is retried and is dead.
    #[command(after_help = "Example:\n  weir jobs stats --json")]
    Stats,
    /// List the queues.
    #[command(after_help = "Example:\n  weir jobs queues")]
    Queues,
    /// List the lanes (fairness keys) of a queue, the deepest first.
    #[command(after_help = "Example:\n  weir jobs lanes deliver --limit 20")]
    Lanes {
        /// Its name.
        queue: String,
        /// The most lanes to list.
        #[arg(long, default_value_t = 100)]
        limit: usize,
    },
    /// List the tasks that run now and wait for something, the longest first.
    #[command(after_help = "Example:\n  weir jobs running")]
    Running,
    /// List the jobs of a set.
    #[command(after_help = "Example:\n  weir jobs list dead --kind deliver --text timeout")]
    List(List),
    /// Show one job.
    #[command(after_help = "Example:\n  weir jobs show 113482910221926400")]
    Show {
        /// Its id.
        id: String,
    },
    /// What ended in each minute of the last day, by queue.
    #[command(after_help = "Example:\n  weir jobs history --minutes 30 --queue deliver")]
    History {
        /// How far back.
        #[arg(long, default_value_t = 60)]
        #[arg(value_parser = clap::value_parser!(u32).range(1..=1_440))]
        minutes: u32,
        /// Only this queue.
        #[arg(long)]
        queue: Option<String>,
    },
    /// Look on while a server works, until Ctrl-C.
    #[command(after_help = "Example:\n  weir jobs watch")]
    Watch {
        /// Seconds between two looks.
        #[arg(long, value_name = "SECONDS", default_value_t = 1)]
        #[arg(value_parser = clap::value_parser!(u64).range(1..=3_600))]
        every: u64,
        /// Stop after so many looks.
        #[arg(long, value_name = "N")]
        count: Option<u64>,
    },
    /// Make jobs ready now: one, or those of a set.
    #[command(after_help = "Example:\n  weir jobs retry --all dead --queue deliver")]
    Retry(Which),
    /// Remove jobs that do not run: one, or those of a set.
    #[command(after_help = "Example:\n  weir jobs delete --all ready --lane spam.example")]
    Delete(Which),
    /// Move jobs that do not run to the dead set: one, or those of a set.
    #[command(after_help = "Example:\n  weir jobs kill --all retries --kind fetch_card")]
    Kill(Which),
    /// Take back a job that waits, or cut off a task that runs.
    #[command(after_help = "Example:\n  weir jobs cancel 113482910221926400")]
    Cancel {
        /// Its id.
        id: String,
    },
    /// Take nothing from a queue until it is resumed, also over restarts.
    ///
    /// Without a running server it is stored for the next start.
    #[command(after_help = "Example:\n  weir jobs pause deliver")]
    Pause {
        /// Its name.
        queue: String,
    },
    /// Take from a queue again.
    #[command(after_help = "Example:\n  weir jobs resume deliver")]
    Resume {
        /// Its name.
        queue: String,
    },
    /// Set how many jobs of a queue run at once, or let the engine find it again.
    ///
    /// It holds in this server at once and over restarts; other nodes take it up when they start.
    #[command(after_help = "Example:\n  weir jobs limit deliver 200")]
    Limit {
        /// Its name.
        queue: String,
        /// How many: jobs, or batches of a queue that works on the database.
        #[arg(value_parser = clap::value_parser!(u32).range(1..=100_000))]
        limit: Option<u32>,
    },
    /// Look at jobs that come by themselves, and steer them.
    #[command(after_help = "Example:\n  weir jobs periodic list")]
    Periodic {
        /// What to do.
        #[command(subcommand)]
        command: Periodic,
    },
    /// Look at batches: jobs that belong together.
    #[command(after_help = "Example:\n  weir jobs batches list --limit 20")]
    Batches {
        /// What to do.
        #[command(subcommand)]
        command: Batches,
    },
    /// Have this server take nothing from any queue until it is started again.
    ///
    /// Other nodes go on: `weir jobs pause` stops a queue on all. It needs a running server.
    #[command(after_help = "Example:\n  weir jobs quiet")]
    Quiet,
    /// Wait until a queue holds nothing any more, while a server works on it.
    #[command(after_help = "Example:\n  weir jobs drain deliver --timeout 600")]
    Drain {
        /// Its name.
        queue: String,
        /// Give up after so many seconds.
        #[arg(long, value_name = "SECONDS", default_value_t = 3_600)]
        timeout: u64,
    },
    /// Remove all that waits in a queue.
    #[command(after_help = "Example:\n  weir jobs clear cards")]
    Clear {
        /// Its name.
        queue: String,
    },
    /// Move all that waits in a queue to another.
    ///
    /// Both have to work on the database, or both to reach outside, which only a running server
    /// knows. Where jobs run on Redis none can be moved.
    #[command(after_help = "Example:\n  weir jobs move deliver deliver_rest")]
    Move {
        /// Where they lie.
        from: String,
        /// Where they go.
        to: String,
    },
}

/// What to do with periodic jobs.
#[derive(Debug, Clone, Subcommand, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Periodic {
    /// List them, with their plans and when they run next.
    #[command(after_help = "Example:\n  weir jobs periodic list --json")]
    List,
    /// Enqueue one now, beside its plan.
    #[command(after_help = "Example:\n  weir jobs periodic run prune_media")]
    Run {
        /// Its name.
        name: String,
    },
    /// Leave out its runs until it is resumed, also over restarts.
    #[command(after_help = "Example:\n  weir jobs periodic pause prune_media")]
    Pause {
        /// Its name.
        name: String,
    },
    /// Run it again from its next moment on.
    #[command(after_help = "Example:\n  weir jobs periodic resume prune_media")]
    Resume {
        /// Its name.
        name: String,
    },
}

/// What to do with batches.
#[derive(Debug, Clone, Subcommand, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Batches {
    /// List the newest.
    #[command(after_help = "Example:\n  weir jobs batches list --json")]
    List {
        /// The most batches to list, up to 1,000.
        #[arg(long, default_value_t = 100)]
        limit: usize,
    },
    /// Show one.
    #[command(after_help = "Example:\n  weir jobs batches show 113482910221926400")]
    Show {
        /// Its id.
        id: String,
    },
}

/// Which jobs to list.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
pub struct List {
    /// Which set.
    #[arg(value_enum)]
    set: JobSet,
    /// The most jobs to list.
    #[arg(long, default_value_t = 100)]
    limit: usize,
    /// List those after the job with this id.
    #[arg(long, value_name = "ID")]
    after: Option<String>,
    /// Only those of this queue.
    #[arg(long)]
    queue: Option<String>,
    /// Only those of this type.
    #[arg(long)]
    kind: Option<String>,
    /// Only those of this fairness key.
    #[arg(long)]
    lane: Option<String>,
    /// Only those with this text in their payload, or in the reason of their failure.
    #[arg(long)]
    text: Option<String>,
}

/// Which jobs to change.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
pub struct Which {
    /// The id of one job.
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    id: Option<String>,
    /// All jobs of this set.
    #[arg(long, value_enum, value_name = "SET")]
    all: Option<JobSet>,
    /// Only those of this queue.
    #[arg(long, requires = "all")]
    queue: Option<String>,
    /// Only those of this type.
    #[arg(long, requires = "all")]
    kind: Option<String>,
    /// Only those of this fairness key.
    #[arg(long, requires = "all")]
    lane: Option<String>,
    /// Only those with this text in their payload, or in the reason of their failure.
    #[arg(long, requires = "all")]
    text: Option<String>,
}

impl List {
    fn search(&self) -> Search {
        let Self { queue, kind, lane, text, .. } = self.clone();
        Search { set: self.set.into(), queue, kind, lane, text }
    }
}

impl Which {
    fn search(&self, set: JobSet) -> Search {
        let Self { queue, kind, lane, text, .. } = self.clone();
        Search { set: set.into(), queue, kind, lane, text }
    }
}

/// A set of jobs.
#[derive(Debug, Clone, Copy, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobSet {
    /// Ready or running.
    Ready,
    /// Scheduled for a time.
    Scheduled,
    /// Waiting for their next attempt.
    Retries,
    /// Failed for good.
    Dead,
}

impl From<JobSet> for Set {
    fn from(set: JobSet) -> Self {
        match set {
            JobSet::Ready => Self::Ready,
            JobSet::Scheduled => Self::Scheduled,
            JobSet::Retries => Self::Retries,
            JobSet::Dead => Self::Dead,
        }
    }
}
