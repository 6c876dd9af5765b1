//! `weir storm jobs`: what the job engine does a second, and what somebody who waits feels of it.
//!
//! It embeds the engine as any program would: payloads of 200 bytes, 1,000 fairness keys, a typed
//! handler that is called once for each job, the engine's defaults. Jobs are numbered, so that none
//! is lost or done twice without being seen.

mod place;
mod proxy;
mod redis;
mod report;
mod sql;
mod watch;
mod work;

use std::path::PathBuf;

use anyhow::{Result, ensure};
use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::command::Shows;
use crate::findings::Files;

/// What to do.
#[derive(Debug, Clone, Args, Serialize)]
pub struct Options {
    /// How many jobs to enqueue in bulk and drain; half as many become due.
    #[arg(long, default_value_t = 100_000)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub jobs: u64,
    /// What each job does.
    #[arg(long, value_enum, default_value = "noop")]
    pub shape: Shape,
    /// Tasks that enqueue jobs one by one at the same time.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub clients: u64,
    /// For how long they do, in seconds; 0 leaves it out.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(0..=600))]
    pub seconds: u64,
    /// Jobs to enqueue a second while the workers run; 0: all at once, drained afterwards.
    #[arg(long, default_value_t = 0)]
    pub rate: u64,
    /// Only enqueue in bulk and drain.
    #[arg(long, conflicts_with = "rate")]
    pub drain_only: bool,
    /// Jobs that become due a second, in the part that measures how late they start.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub due_rate: u64,
    /// What chance begins with.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Where the jobs lie: postgres://… (a database is made there, and dropped) or redis://… (where
    /// they are only pushed in bulk and drained); the engine's own SQLite in a temporary directory
    /// if nothing is named.
    #[arg(long, value_name = "URL")]
    pub target: Option<String>,
    /// Hold every answer of the target back for this long, in ms.
    #[arg(long, default_value_t = 0, requires = "target")]
    pub latency_ms: u64,
    /// Where the temporary directory is made: the disk that is measured.
    #[arg(long, value_name = "DIR")]
    pub scratch: Option<PathBuf>,
    /// Where what was measured is written.
    #[command(flatten)]
    #[serde(flatten)]
    pub files: Files,
}

/// What a job does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    /// Nothing.
    Noop,
    /// Waits for 10 ms, as for a peer.
    Sleep,
    /// Computes for about 1 ms.
    Cpu,
    /// Allocates and fills 200 KB in pieces of many sizes, and keeps them while 64 others come.
    Alloc,
    /// Fails at its first attempt, and is tried again after 100 ms.
    Fail,
}

/// Runs the scenario, says on standard error how it goes, and prints and writes what it measured,
/// some of it from the engine's own `metrics`. `shows` lets others look at the jobs meanwhile.
///
/// # Errors
/// When the target cannot be used, or a file cannot be written.
pub async fn run(
    options: Options,
    shows: Option<Shows>,
    metrics: &(dyn Fn() -> String + Sync),
) -> Result<()> {
    let mut measured = match options.target.as_deref() {
        Some(url) if url.starts_with("redis://") || url.starts_with("valkey://") => {
            ensure!(options.rate == 0, "--rate does not go with a target on Redis: leave it out");
            redis::run(&options, shows, url).await?
        }
        _ => sql::run(&options, shows).await?,
    };
    let metrics = metrics();
    for (name, quantile) in [("ack_p99_ms", "0.99"), ("ack_max_ms", "1")] {
        if let Some(seconds) = quantile_of("weir_jobs_ack_seconds", quantile, &metrics) {
            measured.number(name, seconds * 1e3);
        }
    }
    report::give(&options, &measured)
}

/// A quantile of a summary in the text of Prometheus.
fn quantile_of(name: &str, quantile: &str, metrics: &str) -> Option<f64> {
    let begin = format!("{name}{{quantile=\"{quantile}\"}} ");
    metrics.lines().find_map(|line| line.strip_prefix(&begin)?.parse().ok())
}
