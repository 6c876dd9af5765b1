//! `weir-bench`: what a community on one machine feels like, on SQLite and on PostgreSQL.
//! Called by `bench/community`; prints a table and writes JSON and a page with plots.
//!
//! `bench/flood` uses `weir-bench fill URL POSTS`, which fills the database of a server that was
//! started once and does not run, and `weir-bench followers …`: see there.

// What it measures is its output.
#![allow(clippy::print_stdout)]

mod followers;
mod place;
mod report;
mod scenarios;
mod server;

use std::path::PathBuf;

use anyhow::{Context as _, Result};

/// Posts in the database before anything is measured.
const STATUSES: usize = 1_000_000;
/// Authors the reader follows.
const AUTHORS: usize = 1_000;
/// People who return at once.
const RETURNING: usize = 1_000;

/// How the benchmark is called.
pub(crate) struct Options {
    /// The program to measure.
    pub(crate) weir: PathBuf,
    /// A PostgreSQL server that may be given databases; none to measure SQLite alone.
    pub(crate) postgres: Option<String>,
    /// SQLite is left out.
    pub(crate) only_postgres: bool,
    /// Where the report goes.
    pub(crate) report: PathBuf,
    /// Posts in the database.
    pub(crate) statuses: usize,
    /// Activities sent to the inbox.
    pub(crate) activities: u64,
    /// How long each timed load lasts.
    pub(crate) seconds: u32,
}

fn options() -> Options {
    let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let number = |name: &str, default| set(name).and_then(|n| n.parse().ok()).unwrap_or(default);
    Options {
        weir: set("WEIR_BIN").unwrap_or_else(|| "target/release/weir".into()).into(),
        postgres: set("WEIR_TEST_POSTGRES"),
        only_postgres: set("WEIR_BENCH_ONLY").is_some_and(|only| only == "postgres"),
        report: set("WEIR_BENCH_REPORT").unwrap_or_else(|| "bench/report".into()).into(),
        statuses: number("WEIR_BENCH_STATUSES", STATUSES as u64) as usize,
        activities: number("WEIR_BENCH_ACTIVITIES", 20_000),
        seconds: number("WEIR_BENCH_SECONDS", 15) as u32,
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => community().await,
        ["fill", url, posts] => scenarios::fill_alone(url, posts.parse()?).await,
        ["followers", "fill", url, count] => followers::fill(url, count.parse()?).await,
        ["followers", "measure", target] => followers::measure(target).await,
        _ => {
            anyhow::bail!("unknown words; see the head of crates/storm/src/bin/weir-bench/main.rs")
        }
    }
}

async fn community() -> Result<()> {
    let options = options();
    let mut all = Vec::new();
    for on_postgres in [false, true] {
        if !on_postgres && options.only_postgres {
            continue;
        }
        if on_postgres && options.postgres.is_none() {
            println!("PostgreSQL: not measured, WEIR_TEST_POSTGRES names no server");
            continue;
        }
        let name = if on_postgres { "PostgreSQL" } else { "SQLite" };
        println!("\n{name}: {} posts, {AUTHORS} authors", options.statuses);
        let mut column = report::Column::new(name);
        let measured = scenarios::run(&options, on_postgres, &mut column).await;
        measured.with_context(|| format!("measuring {name}"))?;
        all.push(column);
    }
    report::write(&options.report, &all).context("writing the report")
}
