//! A job that kills its process.

use std::borrow::Cow;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;
use weir_base::{Clock, Random};
use weir_db::{Class, Db, Options, Tx};
use weir_jobs::{Claimed, Failure, Job, Jobs, NodeOptions, Outcome, Queue, Registry, Set};
use weir_jobs::{Unique, sidekiq};
use weir_storm::fixture::{Fixture, databases, sqlite};

use crate::house::{Call, NODES, News, numbers, until};
use crate::redis_server::RedisServer;

/// Names the database, its directory, that of the journal and the Redis (or `-`) to the process.
const CHILD: &str = "WEIR_JOBS_POISON";
const POISON: i64 = 13;
/// Who waits for the end of a lease waits for longer than the test.
const NODE: NodeOptions = NodeOptions { lease: Duration::from_secs(3_600), ..NODES };

/// A task of which there is one of a number until it is done.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Lone {
    number: i64,
}

impl Job for Lone {
    const KIND: &'static str = "lone";
    const QUEUE: Queue = Queue::new("loners", Class::Outbound);
    const UNIQUE: Unique = Unique::UntilDone;

    fn unique_key(&self) -> Option<Cow<'_, str>> {
        Some(format!("lone {}", self.number).into())
    }
}

fn open(url: &str, directory: &Path) -> (Db, Jobs) {
    let db = Db::open(url, directory, &Options::default()).unwrap();
    let jobs = Jobs::open_as(db.clone(), Clock::system(), Random::system(), NODE).unwrap();
    (db, jobs)
}

/// Works off forty jobs made by `job`, one of which is poison, and tells how often the process
/// died.
async fn deaths<J: Job>(
    fixture: &Fixture,
    redis: Option<&RedisServer>,
    job: impl Fn(i64) -> J,
) -> usize {
    let journal = tempfile::tempdir().unwrap();
    let (db, jobs) = open(&fixture.url, fixture.directory());
    let forty: Vec<J> = numbers(40).into_iter().map(job).collect();
    let unit = move |tx: &mut Tx| jobs.enqueue_many(tx, &forty);
    db.write::<_, weir_db::Error, _>(Class::Interactive, unit).await.unwrap();
    drop(db);
    let (directory, journal) = (fixture.directory().display(), journal.path().display());
    let redis = redis.map_or_else(|| "-".to_owned(), RedisServer::url);
    let mut deaths = 0;
    loop {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "poison::a_process_that_works"])
            .env(CHILD, format!("{} {directory} {journal} {redis}", fixture.url))
            .output()
            .unwrap();
        if child.status.success() {
            return deaths;
        }
        deaths += 1;
        assert!(deaths < 10, "{}", String::from_utf8_lossy(&child.stdout));
    }
}

#[tokio::test]
async fn a_job_that_kills_its_process_three_times_alone_is_dead_and_those_beside_it_are_not() {
    for fixture in databases() {
        assert_eq!(deaths(&fixture, None, call).await, 5, "{}", fixture.name);
        is_dead(&fixture, r#"{"number":13}"#, 5).await;
    }
}

#[tokio::test]
async fn a_unit_that_kills_its_process_three_times_alone_is_dead_and_its_batch_is_not() {
    for fixture in databases() {
        assert_eq!(deaths(&fixture, None, News).await, 5, "{}", fixture.name);
        is_dead(&fixture, "13", 5).await;
    }
}

#[tokio::test]
async fn a_unique_job_that_kills_its_process_leaves_its_key_free() {
    for fixture in databases() {
        assert_eq!(deaths(&fixture, None, lone).await, 5, "{}", fixture.name);
        is_dead(&fixture, r#"{"number":13}"#, 5).await;
        keys_are_free(&fixture).await;
    }
}

#[tokio::test]
async fn a_unique_job_on_redis_that_kills_its_process_leaves_its_key_free_too() {
    let (fixture, redis) = (sqlite(), RedisServer::start());
    assert_eq!(deaths(&fixture, Some(&redis), lone).await, 3);
    is_buried(&redis);
    keys_are_free(&fixture).await;
}

fn call(number: i64) -> Call {
    Call { number }
}

fn lone(number: i64) -> Lone {
    Lone { number }
}

/// That others of the keys of all that ran are let in, the dead one among them.
async fn keys_are_free(fixture: &Fixture) {
    let (db, jobs) = open(&fixture.url, fixture.directory());
    let unit = move |tx: &mut Tx| {
        let keys: Vec<String> = tx.column("SELECT unique_key FROM jobs_unique", &[])?;
        let id = jobs.enqueue(tx, &lone(POISON))?;
        let waits: Option<i64> =
            tx.value("SELECT COUNT(*) FROM jobs WHERE id = ?1", weir_db::params![id])?;
        Ok((keys, waits))
    };
    let found = db.write::<_, weir_db::Error, _>(Class::Interactive, unit).await.unwrap();
    assert_eq!(found, (vec![], Some(1)), "{}", fixture.name);
}

/// That the job of this payload is dead after so many deaths, and no other.
async fn is_dead(fixture: &Fixture, payload: &str, deaths: usize) {
    let (_, jobs) = open(&fixture.url, fixture.directory());
    let dead = jobs.list(Set::Dead, None, 100).await.unwrap();
    let payloads: Vec<&str> = dead.iter().map(|entry| entry.payload.as_str()).collect();
    assert_eq!(payloads, [payload], "{}", fixture.name);
    let reason = format!("its process died {deaths} times while it ran");
    assert_eq!(dead[0].reason.as_deref(), Some(&*reason));
    assert_eq!(jobs.stats().await.unwrap().retries, 0);
}

#[tokio::test]
async fn a_job_on_redis_that_kills_its_process_three_times_is_dead_too() {
    let (fixture, redis) = (sqlite(), RedisServer::start());
    assert_eq!(deaths(&fixture, Some(&redis), call).await, 3);
    is_buried(&redis);
}

/// That the poison is in the dead set, and nothing else.
fn is_buried(redis: &RedisServer) {
    let dead: Vec<String> = redis.ask(&["ZRANGE", "dead", "0", "-1"]);
    assert!(!dead.is_empty());
    // What its process had no time to note as handed over lies there twice.
    for dead in dead {
        let dead: serde_json::Value = serde_json::from_str(&dead).unwrap();
        assert_eq!(dead["args"], serde_json::json!([{ "number": 13 }]));
        assert_eq!(dead["error_message"], "its process died 3 times while it ran");
    }
    assert_eq!(redis.ask::<u64>(&["ZCARD", "retry"]), 0);
}

/// A part of the tests above, which run it in processes of their own; by itself it does nothing.
#[tokio::test]
async fn a_process_that_works() {
    let Ok(told) = std::env::var(CHILD) else { return };
    let words: Vec<&str> = told.split(' ').collect();
    let [url, directory, journal, redis] = words[..] else { panic!("{told}") };
    let (_, jobs) = open(url, Path::new(directory));
    let mut registry = Registry::new();
    registry.task(|claimed: Claimed<Call>| work(claimed.job.number));
    registry.task(|claimed: Claimed<Lone>| work(claimed.job.number));
    registry.simple_unit(|_: &mut Tx, batch: &[Claimed<News>]| {
        if batch.iter().any(|claimed| claimed.job.0 == POISON) {
            std::process::abort();
        }
        Ok(vec![Outcome::Done; batch.len()])
    });
    let stop = CancellationToken::new();
    let workers = if redis == "-" {
        jobs.set_place(journal);
        jobs.keep_journal(&Path::new(journal).join("running")).unwrap();
        jobs.start(registry, stop.clone()).unwrap()
    } else {
        let place = journal.to_owned();
        let options = sidekiq::Options { place, ..sidekiq::Options::new(redis) };
        jobs.start_on_redis(registry, options, stop.clone()).unwrap()
    };
    until("all are done", async || {
        let stats = jobs.stats().await.unwrap();
        // What a process that died holds on Redis is in no queue until it was put back.
        let is_known = redis == "-" || stats.dead > 0;
        is_known && stats.queues.iter().all(|queue| queue.depth == 0)
    })
    .await;
    stop.cancel();
    workers.finish(Duration::from_secs(60)).await;
}

async fn work(number: i64) -> Result<(), Failure> {
    if number == POISON {
        // Others have begun meanwhile, if there are any.
        tokio::task::yield_now().await;
        std::process::abort();
    }
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
    Ok(())
}
