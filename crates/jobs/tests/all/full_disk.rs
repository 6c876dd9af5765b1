//! A disk that fills while jobs are enqueued and run.

use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;
use weir_base::{Clock, Random};
use weir_db::{Class, Db, Error, Options, Tx, params};
use weir_jobs::{Claimed, Job, Jobs, Outcome, Queue, Registry};
use weir_storm::fixture::on_small_disk;

use crate::house::until;

/// The path of the test below.
const TEST: &str = "full_disk::on_a_full_disk_jobs_are_refused_or_wait_and_then_each_is_had_once";

/// A unit that writes its text.
#[derive(Serialize, Deserialize)]
struct Keep {
    number: i64,
    text: String,
}

impl Job for Keep {
    const KIND: &'static str = "keep";
    const QUEUE: Queue = Queue::new("keeps", Class::Inbound);
}

/// A task.
#[derive(Serialize, Deserialize)]
struct Tell {
    number: i64,
    text: String,
}

impl Job for Tell {
    const KIND: &'static str = "tell";
    const QUEUE: Queue = Queue::new("tells", Class::Outbound);
}

#[test]
fn on_a_full_disk_jobs_are_refused_or_wait_and_then_each_is_had_once() {
    on_small_disk(TEST, |disk| tokio::runtime::Runtime::new().unwrap().block_on(fill(disk)));
}

async fn fill(disk: &Path) {
    let room = disk.join("room");
    std::fs::write(&room, vec![0; 4 << 20]).unwrap();
    let options = Options { connections_max: 1, ..Options::default() };
    let db = Db::open("sqlite:weir.db", disk, &options).unwrap();
    let table = "CREATE TABLE kept (number BIGINT NOT NULL, text TEXT NOT NULL)";
    let make = move |tx: &mut Tx| tx.execute(table, &[]);
    db.write::<_, Error, _>(Class::Interactive, make).await.unwrap();
    let jobs = Jobs::open(db.clone(), Clock::system(), Random::system()).unwrap();
    let mut enqueued = 0;
    loop {
        let (jobs, number) = (jobs.clone(), enqueued);
        let both = move |tx: &mut Tx| {
            let text = || "x".repeat(1_000);
            jobs.enqueue(tx, &Keep { number, text: text() })?;
            jobs.enqueue(tx, &Tell { number, text: text() })
        };
        match db.write::<_, Error, _>(Class::Interactive, both).await {
            Ok(_) => enqueued += 1,
            Err(refused) => {
                assert!(matches!(refused, Error::Full), "{refused:?}");
                break;
            }
        }
        assert!(enqueued < 10_000, "the disk never filled");
    }
    assert!(enqueued > 100, "the disk was full from the start");
    let (told, mut tells) = tokio::sync::mpsc::unbounded_channel();
    let mut registry = Registry::new();
    registry.simple_unit::<Keep, _>(|tx, keeps| {
        for Claimed { job, .. } in keeps {
            // More than its row was.
            let text = job.text.repeat(2);
            let sql = "INSERT INTO kept (number, text) VALUES (?1, ?2)";
            tx.execute(sql, params![job.number, text])?;
        }
        Ok(vec![Outcome::Done; keeps.len()])
    });
    registry.task(move |claimed: Claimed<Tell>| {
        let _ = told.send(claimed.job.number);
        async { Ok(()) }
    });
    let stop = CancellationToken::new();
    let workers = jobs.start(registry, stop.clone()).unwrap();
    let first = tells.recv().await.unwrap();
    assert!(first < enqueued, "what is there runs, though nothing can be written");
    std::fs::remove_file(&room).unwrap();
    let depth = || jobs.queues().iter().map(|queue| queue.depth).sum::<u64>();
    until("all ended", async || depth() == 0).await;
    let stats = jobs.stats().await.unwrap();
    assert_eq!((stats.retries, stats.dead), (0, 0), "no failure was counted");
    stop.cancel();
    workers.finish(Duration::from_secs(60)).await;
    let read = |tx: &mut Tx| tx.column("SELECT number FROM kept ORDER BY number", &[]);
    let kept: Vec<i64> = db.read::<_, Error, _>(Class::Interactive, read).await.unwrap();
    assert_eq!(kept, (0..enqueued).collect::<Vec<_>>());
    let mut ran = vec![first];
    while let Ok(number) = tells.try_recv() {
        ran.push(number);
    }
    ran.sort_unstable();
    ran.dedup();
    assert_eq!(ran, kept);
}
