//! What the engine does a second:
//! `cargo run --release -p weir-jobs --example rates [JOBS] [URL]`
//!
//! No-op jobs with payloads of 200 bytes and 1,000 fairness keys, with the engine's defaults and a
//! recorder for its metrics: enqueued in bulk, enqueued one by one from 64 tasks, and drained.
#![allow(clippy::print_stdout)]

use std::borrow::Cow;
use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use metrics_exporter_prometheus::PrometheusBuilder;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;
use weir_base::{Clock, Random, Timestamp};
use weir_db::{Class, Db, Options, Tx};
use weir_jobs::{Claimed, Failure, Job, Jobs, Outcome, Queue, Registry};

const KEYS: u64 = 1_000;
const BATCH: u64 = 10_000;

#[derive(Serialize, Deserialize)]
struct Payload {
    number: u64,
    key: String,
    text: String,
}

impl Payload {
    fn new(number: u64) -> Self {
        let key = format!("host-{:03}.example", number % KEYS);
        Self { number, key, text: "x".repeat(146) }
    }
}

#[derive(Serialize, Deserialize)]
struct Task(Payload);

impl Job for Task {
    const KIND: &'static str = "measure_task";
    const QUEUE: Queue = Queue::new("tasks", Class::Inbound);
    fn lane(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.0.key)
    }
}

#[derive(Serialize, Deserialize)]
struct Unit(Payload);

impl Job for Unit {
    const KIND: &'static str = "measure_unit";
    const QUEUE: Queue = Queue::new("units", Class::Inbound);
    fn lane(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.0.key)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let jobs: u64 = std::env::args().nth(1).map_or(Ok(1_000_000), |text| text.parse())?;
    let url = std::env::args().nth(2).unwrap_or_else(|| "sqlite:rates.db".into());
    PrometheusBuilder::new().install_recorder()?;
    let directory = tempfile::tempdir_in(std::env::var("MEASURE_DIR").unwrap_or("/tmp".into()))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    for what in ["tasks", "units", "later"] {
        if std::env::var("ONLY").is_ok_and(|only| only != what) {
            continue;
        }
        let path = directory.path().join(what);
        std::fs::create_dir(&path)?;
        runtime.block_on(run(&url, &path, what, jobs))?;
    }
    Ok(())
}

async fn run(url: &str, path: &Path, what: &str, jobs: u64) -> Result<(), Box<dyn Error>> {
    let db = Db::open(url, path, &Options::default())?;
    let (clock, random) = (Clock::system(), Random::system());
    let engine = Jobs::open(db.clone(), clock, random)?;
    println!("== {what}");
    let started = Start::now();
    for from in (0..jobs).step_by(BATCH as usize) {
        let (engine, what) = (engine.clone(), what.to_owned());
        let many = BATCH.min(jobs - from);
        db.write(Class::Inbound, move |tx: &mut Tx| bulk(&engine, tx, &what, from, many)).await?;
    }
    rate("enqueued in bulk", jobs, &started);
    if what == "tasks" {
        singles(&db, &engine).await?;
    }
    let done = Arc::new(AtomicU64::new(0));
    let mut registry = Registry::new();
    let count = done.clone();
    registry.task(move |claimed: Claimed<Task>| {
        count.fetch_add(1, Ordering::Relaxed);
        std::hint::black_box(claimed.job.0.number);
        async { Ok::<(), Failure>(()) }
    });
    let count = done.clone();
    registry.simple_unit(move |_: &mut Tx, units: &[Claimed<Unit>]| {
        count.fetch_add(units.len() as u64, Ordering::Relaxed);
        Ok(units.iter().map(|_| Outcome::Done).collect())
    });
    let total: u64 = engine
        .stats()
        .await
        .map(|stats| stats.queues.iter().map(|queue| queue.depth).sum::<u64>() + stats.scheduled)?;
    let (shutdown, started) = (CancellationToken::new(), Start::now());
    let workers = engine.start(registry, shutdown.clone())?;
    let mut tenths = Vec::new();
    while engine.queues().iter().map(|queue| queue.depth).sum::<u64>() > 0
        || done.load(Ordering::Relaxed) < total
    {
        tokio::time::sleep(Duration::from_millis(20)).await;
        if started.0.elapsed().as_millis() / 500 > tenths.len() as u128 {
            tenths.push(done.load(Ordering::Relaxed));
        }
    }
    rate("drained", total, &started);
    let steps: Vec<u64> = tenths.windows(2).map(|pair| (pair[1] - pair[0]) * 2).collect();
    println!("  each half second, per s: {steps:?}");
    shutdown.cancel();
    workers.finish(Duration::from_secs(5)).await;
    Ok(())
}

fn bulk(jobs: &Jobs, tx: &mut Tx, what: &str, from: u64, many: u64) -> Result<(), weir_db::Error> {
    let numbers = from..from + many;
    let payloads = numbers.clone().map(Payload::new);
    match what {
        "tasks" => jobs.enqueue_many(tx, &payloads.map(Task).collect::<Vec<_>>()),
        "units" => jobs.enqueue_many(tx, &payloads.map(Unit).collect::<Vec<_>>()),
        _ => {
            let at = Timestamp::from_ms(Clock::system().now().as_ms() + 5_000);
            for n in numbers {
                jobs.enqueue_at(tx, at, &Task(Payload::new(n)))?;
            }
            Ok(())
        }
    }
}

async fn singles(db: &Db, jobs: &Jobs) -> Result<(), Box<dyn Error>> {
    let next = Arc::new(AtomicU64::new(0));
    let started = Start::now();
    let since = started.0;
    let running: Vec<_> = (0..64)
        .map(|_| {
            let (db, jobs, next) = (db.clone(), jobs.clone(), next.clone());
            tokio::spawn(async move {
                while since.elapsed() < Duration::from_secs(2) {
                    let job = Task(Payload::new(next.fetch_add(1, Ordering::Relaxed)));
                    let jobs = jobs.clone();
                    let one = move |tx: &mut Tx| jobs.enqueue(tx, &job).map(|_| ());
                    db.write::<(), weir_db::Error, _>(Class::Interactive, one).await?;
                }
                Ok::<(), weir_db::Error>(())
            })
        })
        .collect();
    for task in running {
        task.await??;
    }
    rate("enqueued one by one from 64 tasks", next.load(Ordering::Relaxed), &started);
    Ok(())
}

/// A moment, by the clock and by the processor time of this process so far.
struct Start(Instant, f64);

impl Start {
    fn now() -> Self {
        Self(Instant::now(), processor_s())
    }
}

fn rate(what: &str, count: u64, start: &Start) {
    let seconds = start.0.elapsed().as_secs_f64();
    let each_us = (processor_s() - start.1) * 1e6 / count as f64;
    let rate = count as f64 / seconds;
    println!("  {what}: {rate:.0} a second, each {each_us:.2} us of processor");
}

/// Processor time of this process, in seconds; 0 where the system does not tell.
fn processor_s() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit(") ").next().unwrap_or_default();
    let ticks = |at| after_name.split(' ').nth(at).and_then(|text: &str| text.parse::<f64>().ok());
    (ticks(11).unwrap_or(0.0) + ticks(12).unwrap_or(0.0)) / 100.0
}
