//! How fast jobs in Sidekiq's format are drained from a Redis: no-ops with three arguments, pushed
//! before the clock starts, as Sidekiq's own load test does it.
//!
//! `cargo run --release -p weir-jobs --example redis_drain -- [--url URL] [--jobs N] [--runs N]
//! [--units] [--scheduled]`
//!
//! With `--scheduled` the jobs lie in the schedule, all of them due. It empties queue `weir-drain`
//! and what it scheduled, and nothing else. One line of JSON a run: jobs, seconds, jobs/s.
#![allow(clippy::print_stdout)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;
use weir_base::{Clock, Random};
use weir_db::{Class, Db, Options};
use weir_jobs::{Claimed, Job, Jobs, Outcome, Queue, Registry, sidekiq};

const QUEUE: &str = "weir-drain";
/// Jobs of one push.
const PUSHED: u64 = 1_000;

#[derive(Serialize, Deserialize)]
struct Noop(String, u64, BTreeMap<String, String>);

impl Job for Noop {
    const KIND: &'static str = "LoadWorker";
    const QUEUE: Queue = Queue::new(QUEUE, Class::Outbound);
}

struct Arguments {
    url: String,
    jobs: u64,
    runs: u64,
    units: bool,
    scheduled: bool,
}

fn arguments() -> Result<Arguments, String> {
    let (url, mut arguments) = ("redis://127.0.0.1:6379".to_owned(), std::env::args().skip(1));
    let mut given = Arguments { url, jobs: 100_000, runs: 1, units: false, scheduled: false };
    while let Some(name) = arguments.next() {
        if name == "--units" {
            given.units = true;
            continue;
        }
        if name == "--scheduled" {
            given.scheduled = true;
            continue;
        }
        let value = arguments.next().ok_or_else(|| format!("{name} needs a value"))?;
        let number = || value.parse().map_err(|_| format!("{name}: {value} is no number"));
        match name.as_str() {
            "--url" => given.url = value,
            "--jobs" => given.jobs = number()?,
            "--runs" => given.runs = number()?,
            _ => {
                return Err(format!(
                    "{name} is unknown: --url, --jobs, --runs, --units, --scheduled"
                ));
            }
        }
    }
    Ok(given)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments = arguments()?;
    let mut redis =
        redis::Client::open(arguments.url.as_str())?.get_multiplexed_async_connection().await?;
    for _ in 0..arguments.runs {
        push(&mut redis, &arguments).await?;
        let took = drain(&arguments).await?;
        let rate = arguments.jobs as f64 / took.as_secs_f64();
        let line = serde_json::json!({
            "engine": "weir",
            "kind": if arguments.units { "unit" } else { "task" },
            "scheduled": arguments.scheduled,
            "jobs": arguments.jobs,
            "seconds": (took.as_secs_f64() * 1_000.0).round() / 1_000.0,
            "jobs_per_second": rate.round(),
        });
        println!("{line}");
    }
    Ok(())
}

async fn push(
    redis: &mut redis::aio::MultiplexedConnection,
    arguments: &Arguments,
) -> Result<(), redis::RedisError> {
    let jobs = arguments.jobs;
    let key = format!("queue:{QUEUE}");
    redis::cmd("DEL").arg(&key).exec_async(redis).await?;
    redis::cmd("SADD").arg("queues").arg(QUEUE).exec_async(redis).await?;
    for first in (0..jobs).step_by(PUSHED as usize) {
        let job = |number| {
            let now_s = 1_790_000_000.0 + number as f64 / 1_000.0;
            serde_json::json!({
                "class": Noop::KIND,
                "args": ["string", number, { "mike": "bob" }],
                "jid": format!("{number:024x}"),
                "queue": QUEUE,
                "retry": true,
                "created_at": now_s,
                "enqueued_at": now_s,
            })
            .to_string()
        };
        let some: Vec<String> = (first..(first + PUSHED).min(jobs)).map(job).collect();
        if arguments.scheduled {
            let due: Vec<(u64, String)> = some.into_iter().map(|job| (1, job)).collect();
            redis::cmd("ZADD").arg("schedule").arg(due).exec_async(redis).await?;
        } else {
            redis::cmd("LPUSH").arg(&key).arg(some).exec_async(redis).await?;
        }
    }
    Ok(())
}

/// From the first job that runs until Redis holds none any more.
async fn drain(arguments: &Arguments) -> Result<Duration, Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    let db = Db::open("sqlite:drain.db", directory.path(), &Options::default())?;
    let jobs = Jobs::open(db, Clock::system(), Random::system())?;
    let (done, begun) = (Arc::new(AtomicU64::new(0)), Arc::new(std::sync::OnceLock::new()));
    let (counted, first) = (done.clone(), begun.clone());
    let mut registry = Registry::new();
    if arguments.units {
        registry.simple_unit::<Noop, _>(move |tx, jobs| {
            first.get_or_init(Instant::now);
            let (counted, count) = (counted.clone(), jobs.len() as u64);
            tx.after_commit(move || {
                counted.fetch_add(count, Ordering::Relaxed);
            });
            Ok(vec![Outcome::Done; jobs.len()])
        });
    } else {
        registry.task(move |_: Claimed<Noop>| {
            first.get_or_init(Instant::now);
            counted.fetch_add(1, Ordering::Relaxed);
            async { Ok(()) }
        });
    }
    let stop = CancellationToken::new();
    let options = sidekiq::Options::new(&arguments.url);
    let workers = jobs.start_on_redis(registry, options, stop.clone())?;
    while done.load(Ordering::Relaxed) < arguments.jobs {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // All ends are told to Redis when this returns.
    stop.cancel();
    workers.finish(Duration::from_secs(10)).await;
    Ok(begun.get().map_or(Duration::ZERO, Instant::elapsed))
}
