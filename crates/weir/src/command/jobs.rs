//! `weir jobs`

use clap::{Subcommand, ValueEnum};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use weir_base::Id;
use weir_jobs::{Entry, Error, QueueStats, Set};

use crate::parts::Parts;

/// Jobs read in one go when a set is listed.
const PAGE: usize = 1_000;

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
    /// List the jobs of a set.
    #[command(after_help = "Example:\n  weir jobs list dead --limit 20")]
    List {
        /// Which set.
        #[arg(value_enum)]
        set: JobSet,
        /// The most jobs to list.
        #[arg(long, default_value_t = 100)]
        limit: usize,
        /// List those after the job with this id.
        #[arg(long, value_name = "ID")]
        after: Option<String>,
    },
    /// Show one job.
    #[command(after_help = "Example:\n  weir jobs show 113482910221926400")]
    Show {
        /// Its id.
        id: String,
    },
    /// Make a job, or a whole set, ready now.
    #[command(after_help = "Example:\n  weir jobs retry --all dead")]
    Retry {
        /// Its id.
        #[arg(required_unless_present = "all", conflicts_with = "all")]
        id: Option<String>,
        /// All jobs of this set.
        #[arg(long, value_enum, value_name = "SET")]
        all: Option<JobSet>,
    },
    /// Remove a job that does not run.
    #[command(after_help = "Example:\n  weir jobs delete 113482910221926400")]
    Delete {
        /// Its id.
        id: String,
    },
    /// Take nothing from a queue until it is resumed, also over restarts.
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
    /// Set how many jobs of a queue run at once, also over restarts; without a number the engine
    /// finds it again.
    #[command(after_help = "Example:\n  weir jobs limit deliver 200")]
    Limit {
        /// Its name.
        queue: String,
        /// How many: jobs, or batches of a queue that works on the database.
        #[arg(value_parser = clap::value_parser!(u32).range(1..=100_000))]
        limit: Option<u32>,
    },
    /// Take nothing from any queue until the server is started again.
    #[command(after_help = "Example:\n  weir jobs quiet")]
    Quiet,
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

pub(super) async fn execute(parts: &Parts, command: JobsCommand) -> Result<Value, String> {
    let jobs = &parts.jobs;
    let failed = |error: Error| error.to_string();
    match command {
        JobsCommand::Stats => stats(parts).await.map_err(failed),
        JobsCommand::Queues => {
            let stats = jobs.stats().await.map_err(failed)?;
            Ok(stats.queues.iter().map(describe_queue).collect())
        }
        JobsCommand::List { set, limit, after } => {
            let after = match &after {
                None => None,
                Some(id) => {
                    let entry = jobs.show(parse(id)?).await.map_err(failed)?;
                    Some(entry.ok_or_else(|| missing(id))?)
                }
            };
            list(parts, set.into(), limit, after).await.map_err(failed)
        }
        JobsCommand::Show { id } => {
            let entry = jobs.show(parse(&id)?).await.map_err(failed)?;
            entry.as_ref().map(describe).ok_or_else(|| missing(&id))
        }
        JobsCommand::Retry { all: Some(set), .. } => {
            let count = jobs.retry_all(set.into()).await.map_err(failed)?;
            Ok(json!({ "made_ready": count }))
        }
        JobsCommand::Retry { id, all: None } => {
            let id = id.unwrap_or_default();
            let found = jobs.retry(parse(&id)?).await.map_err(failed)?;
            found.then_some(Value::Null).ok_or_else(|| missing(&id))
        }
        JobsCommand::Delete { id } => {
            let found = jobs.delete(parse(&id)?).await.map_err(failed)?;
            found.then_some(Value::Null).ok_or_else(|| missing(&id))
        }
        JobsCommand::Pause { queue } => {
            jobs.pause(&queue).await.map_err(failed)?;
            Ok(Value::Null)
        }
        JobsCommand::Resume { queue } => {
            jobs.resume(&queue).await.map_err(failed)?;
            Ok(Value::Null)
        }
        JobsCommand::Limit { queue, limit } => {
            let limit = limit.map(|limit| limit as usize);
            jobs.set_limit(&queue, limit).await.map_err(failed)?;
            Ok(Value::Null)
        }
        JobsCommand::Quiet => {
            jobs.quiet();
            Ok(Value::Null)
        }
    }
}

fn parse(id: &str) -> Result<Id, String> {
    id.parse().map_err(|_| format!("\"{id}\" is no id; `weir jobs list` shows them"))
}

fn missing(id: &str) -> String {
    format!("there is no job {id} that could be changed; `weir jobs list` shows them")
}

async fn stats(parts: &Parts) -> Result<Value, Error> {
    let stats = parts.jobs.stats().await?;
    let total = |of: fn(&QueueStats) -> u64| stats.queues.iter().map(of).sum::<u64>();
    let sum = |of: fn(&weir_jobs::KindStats) -> u64| stats.kinds.iter().map(of).sum::<u64>();
    Ok(json!({
        "ready": total(|queue| queue.depth),
        "running": total(|queue| queue.running),
        "scheduled": stats.scheduled,
        "retries": stats.retries,
        "dead": stats.dead,
        "done_since_start": sum(|kind| kind.done),
        "retried_since_start": sum(|kind| kind.retried),
        "queues": stats.queues.iter().map(describe_queue).collect::<Value>(),
    }))
}

fn describe_queue(queue: &QueueStats) -> Value {
    json!({
        "queue": queue.name,
        "ready": queue.depth,
        "lanes": queue.lanes,
        "running": queue.running,
        "oldest_age_ms": queue.oldest_age_ms,
        "paused": queue.paused,
        "limit": queue.limit,
        "limited_by": queue.limited_by.name(),
        "why": queue.limited_by.to_string(),
    })
}

async fn list(
    parts: &Parts,
    set: Set,
    limit: usize,
    mut after: Option<Entry>,
) -> Result<Value, Error> {
    let mut rows: Vec<Value> = Vec::new();
    while rows.len() < limit {
        let wanted = PAGE.min(limit - rows.len());
        let page = parts.jobs.list(set, after, wanted).await?;
        let is_last = page.len() < wanted;
        rows.extend(page.iter().map(describe));
        after = page.into_iter().last();
        if is_last {
            break;
        }
    }
    Ok(Value::Array(rows))
}

fn describe(entry: &Entry) -> Value {
    json!({
        "id": entry.id.to_string(),
        "queue": entry.queue,
        "kind": entry.kind,
        "lane": entry.lane,
        "failures": entry.failures,
        "enqueued_at": entry.enqueued_at.to_string(),
        "at": entry.at.map(|at| at.to_string()),
        "reason": entry.reason,
        "payload": entry.payload,
    })
}
