//! A long import that saves where it is: it is cut off by a stop, goes on where it was at the next
//! start, shows its progress meanwhile, and a second one is cancelled while it runs.
//!
//! `cargo run -p weir-jobs --example cursor`
#![allow(clippy::print_stdout)]

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;
use weir_base::{Clock, Id, Random};
use weir_db::{Class, Db, Error, Options, Tx};
use weir_jobs::{Claimed, Failure, Job, Jobs, Queue, Registry, Unique};

/// Lines of an archive to be read in; one import of an owner at a time.
#[derive(Serialize, Deserialize)]
struct Import {
    owner: String,
    lines: u64,
}

impl Job for Import {
    const KIND: &'static str = "import";
    const QUEUE: Queue = Queue::new("imports", Class::Outbound);
    const TIMEOUT_S: u64 = 3_600;
    const UNIQUE: Unique = Unique::UntilDone;

    fn unique_key(&self) -> Option<std::borrow::Cow<'_, str>> {
        Some(self.owner.as_str().into())
    }
}

async fn import(claimed: Claimed<Import>) -> Result<(), Failure> {
    let Import { owner, lines } = &claimed.job;
    let begin: u64 = claimed.cursor().await?.unwrap_or(0);
    println!("{owner}: from line {begin}");
    for line in begin..*lines {
        // The line is read in here. Were it done twice, nothing would be lost.
        tokio::time::sleep(Duration::from_millis(5)).await;
        claimed.progress(line + 1, *lines, "reading");
        if (line + 1) % 10 == 0 {
            claimed.save_cursor(&(line + 1)).await?;
        }
    }
    println!("{owner}: done");
    Ok(())
}

fn registry() -> Registry {
    let mut registry = Registry::new();
    registry.task(import);
    registry
}

/// Waits until import `id` has read `lines` lines.
async fn until(jobs: &Jobs, id: Id, lines: u64) {
    let is_there = || {
        let found = jobs.running().into_iter().find(|job| job.id == id);
        found.and_then(|job| job.progress).is_some_and(|progress| progress.done >= lines)
    };
    while !is_there() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    let open = || Db::open("sqlite:imports.db", directory.path(), &Options::default());
    let alice = {
        let db = open()?;
        let jobs = Jobs::open(db.clone(), Clock::system(), Random::system())?;
        let shutdown = CancellationToken::new();
        let workers = jobs.start(registry(), shutdown.clone())?;
        let enqueue = jobs.clone();
        let both = move |tx: &mut Tx| {
            let import = |owner: &str, lines| Import { owner: owner.into(), lines };
            let alice = enqueue.enqueue(tx, &import("alice", 100))?;
            // Her second one is the first.
            assert_eq!(enqueue.enqueue(tx, &import("alice", 100))?, alice);
            Ok::<_, Error>((alice, enqueue.enqueue(tx, &import("bob", 1_000_000))?))
        };
        let (alice, bob) = db.write(Class::Interactive, both).await?;
        until(&jobs, bob, 5).await;
        println!("bob cancelled: {}", jobs.cancel_now(bob).await?);
        until(&jobs, alice, 50).await;
        // What has not ended by then is cut off.
        shutdown.cancel();
        workers.finish(Duration::from_millis(1)).await;
        alice
    };
    let jobs = Jobs::open(open()?, Clock::system(), Random::system())?;
    let shutdown = CancellationToken::new();
    let workers = jobs.start(registry(), shutdown.clone())?;
    until(&jobs, alice, 90).await;
    while jobs.queues().iter().any(|queue| queue.depth > 0) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    shutdown.cancel();
    workers.finish(Duration::from_secs(10)).await;
    Ok(())
}
