//! What may go wrong on Redis: processes that die, Redis that goes away, jobs that come twice.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use weir_base::{Clock, Random};
use weir_db::{Class, Db, Error, Migration, Tx, params};
use weir_jobs::sidekiq::{Options, QueueOrder};
use weir_jobs::{Claimed, Failure, Job, Jobs, Outcome, Queue, Registry, Workers};
use weir_storm::fixture::sqlite;

use crate::house::{outage, soon, until};
use crate::redis_server::RedisServer;

const TABLES: &[Migration] = &[Migration {
    number: 1,
    name: "effects",
    sql: "CREATE TABLE marks (number BIGINT NOT NULL);",
}];

/// A unit that writes its number.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Mark {
    number: i64,
}

impl Job for Mark {
    const KIND: &'static str = "mark";
    const QUEUE: Queue = Queue::new("marks", Class::Inbound);
}

/// A task that tells its number.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Tell {
    number: i64,
}

impl Job for Tell {
    const KIND: &'static str = "tell";
    const QUEUE: Queue = Queue::new("tells", Class::Outbound);
}

fn marking(registry: &mut Registry) {
    registry.simple_unit::<Mark, _>(|tx, marks| {
        for mark in marks {
            tx.execute("INSERT INTO marks (number) VALUES (?1)", params![mark.job.number])?;
        }
        Ok(vec![Outcome::Done; marks.len()])
    });
}

fn telling(registry: &mut Registry) -> UnboundedReceiver<i64> {
    let (told, tells) = mpsc::unbounded_channel();
    registry.task(move |claimed: Claimed<Tell>| {
        let _ = told.send(claimed.job.number);
        async move {
            match claimed.job.number {
                ..0 => Err(Failure::Dead("it is negative".into())),
                _ => Ok(()),
            }
        }
    });
    tells
}

fn open(db: &Db) -> Jobs {
    db.migrate("test", TABLES).unwrap();
    Jobs::open(db.clone(), Clock::system(), Random::system()).unwrap()
}

async fn write<T: Send + 'static>(
    db: &Db,
    unit: impl FnMut(&mut Tx) -> Result<T, Error> + Send + 'static,
) -> T {
    db.write(Class::Interactive, unit).await.unwrap()
}

async fn marks(db: &Db) -> Vec<i64> {
    let read = |tx: &mut Tx| tx.column("SELECT number FROM marks ORDER BY number", &[]);
    db.read::<_, Error, _>(Class::Interactive, read).await.unwrap()
}

async fn stop(stop: CancellationToken, workers: Workers) {
    stop.cancel();
    workers.finish(Duration::from_secs(60)).await;
}

/// A job as another program would push it.
fn foreign(class: &str, queue: &str, number: i64) -> String {
    serde_json::json!({
        "class": class, "queue": queue, "args": [number], "jid": format!("{number:024x}"),
        "retry": true, "created_at": 1_700_000_000.5, "enqueued_at": 1_700_000_000.5,
    })
    .to_string()
}

/// Names the database and the Redis to the process that is killed.
const CHILD: &str = "WEIR_JOBS_TEST_CHILD";

/// Jobs of each kind in the kill test, and how often its worker is killed.
fn kill_numbers() -> (i64, u64) {
    if std::env::var_os("WEIR_TEST_LONG").is_some() { (500_000, 200) } else { (3_000, 6) }
}

/// The process that the next test kills; alone it has nothing to do.
#[test]
fn a_worker_that_is_killed() {
    let Ok(told) = std::env::var(CHILD) else { return };
    let (url, directory) = told.split_once(' ').unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let db = Db::open("sqlite:weir.db", Path::new(directory), &Default::default()).unwrap();
        let jobs = open(&db);
        let mut registry = Registry::new();
        marking(&mut registry);
        let client = redis::Client::open(url).unwrap();
        let redis = client.get_multiplexed_async_connection().await.unwrap();
        registry.task(move |claimed: Claimed<Tell>| {
            let mut redis = redis.clone();
            async move {
                let mut told = redis::cmd("RPUSH");
                told.arg("told").arg(claimed.job.number);
                told.exec_async(&mut redis).await.map_err(Failure::retry)
            }
        });
        // It is killed from outside, by no job's fault.
        let options = Options { place: "here".into(), deaths_max: 0, ..Options::new(url) };
        jobs.start_on_redis(registry, options, CancellationToken::new()).unwrap();
        std::future::pending::<()>().await;
    });
}

fn worker_process(redis: &RedisServer, directory: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "redis_faults::a_worker_that_is_killed"])
        .env(CHILD, format!("{} {}", redis.url(), directory.display()))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Waits until Redis has counted `count` ends.
fn until_processed(redis: &RedisServer, count: u64) {
    let begun = Instant::now();
    while redis.ask::<Option<u64>>(&["GET", "stat:processed"]).unwrap_or(0) < count {
        assert!(begun.elapsed() < Duration::from_secs(120), "{count} jobs never ended");
        std::thread::yield_now();
    }
}

#[test]
fn nothing_is_lost_and_no_unit_is_had_twice_when_workers_are_killed_at_random() {
    let (killed_jobs, kills) = kill_numbers();
    let (redis, directory) = (RedisServer::start(), tempfile::tempdir().unwrap());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let reopen = || Db::open("sqlite:weir.db", directory.path(), &Default::default()).unwrap();
    runtime.block_on(async {
        let db = reopen();
        let jobs = open(&db);
        write(&db, move |tx| {
            let marks: Vec<Mark> = (0..killed_jobs).map(|number| Mark { number }).collect();
            let tells: Vec<Tell> = (0..killed_jobs).map(|number| Tell { number }).collect();
            jobs.enqueue_many(tx, &marks)?;
            jobs.enqueue_many(tx, &tells)
        })
        .await;
    });
    let (all, random) = (2 * killed_jobs as u64, Random::system());
    let mut processed = 0;
    for _ in 0..kills {
        let mut child = worker_process(&redis, directory.path());
        processed = (processed + random.below(all / kills)).min(all - 1);
        until_processed(&redis, processed);
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let mut last = worker_process(&redis, directory.path());
    until_processed(&redis, all);
    let begun = Instant::now();
    // At one moment: what is taken in between would be in neither.
    let left = "return #redis.call('KEYS', 'weir:held:*') + redis.call('LLEN', 'queue:tells')";
    while redis.ask::<usize>(&["EVAL", left, "0"]) > 0 {
        assert!(begun.elapsed() < Duration::from_secs(60), "something is still held");
    }
    last.kill().unwrap();
    last.wait().unwrap();
    let marked = runtime.block_on(async { marks(&reopen()).await });
    assert_eq!(marked, (0..killed_jobs).collect::<Vec<_>>());
    let mut told: Vec<i64> = redis.ask(&["LRANGE", "told", "0", "-1"]);
    told.sort_unstable();
    let runs = told.len();
    told.dedup();
    assert_eq!(told, (0..killed_jobs).collect::<Vec<_>>(), "{runs} runs");
}

#[test]
fn others_take_over_what_a_dead_process_held() {
    let redis = RedisServer::start();
    let options = || Options { lease: Duration::from_millis(500), ..Options::new(redis.url()) };
    let process = || tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let (first, dead) = (process(), sqlite());
    first.block_on(async {
        let jobs = open(&dead.db);
        let (told, mut tells) = mpsc::unbounded_channel();
        let mut registry = Registry::new();
        registry.task(move |claimed: Claimed<Tell>| {
            let _ = told.send(claimed.job.number);
            std::future::pending()
        });
        jobs.start_on_redis(registry, options(), CancellationToken::new()).unwrap();
        write(&dead.db, move |tx| jobs.enqueue(tx, &Tell { number: 1 })).await;
        assert_eq!(soon(tells.recv()).await, Some(1));
    });
    first.shutdown_background();
    process().block_on(async {
        let other = sqlite();
        let mut registry = Registry::new();
        let mut tells = telling(&mut registry);
        let done = CancellationToken::new();
        let workers = open(&other.db).start_on_redis(registry, options(), done.clone()).unwrap();
        assert_eq!(soon(tells.recv()).await, Some(1));
        stop(done, workers).await;
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_wait_for_a_redis_that_is_away_and_go_on() {
    let (mut redis, fixture) = (RedisServer::start(), sqlite());
    let jobs = open(&fixture.db);
    let mut registry = Registry::new();
    let mut tells = telling(&mut registry);
    let done = CancellationToken::new();
    let workers = jobs.start_on_redis(registry, redis.options(), done.clone()).unwrap();
    let enqueue = async |number| {
        let jobs = jobs.clone();
        write(&fixture.db, move |tx| jobs.enqueue(tx, &Tell { number })).await;
    };
    enqueue(1).await;
    assert_eq!(soon(tells.recv()).await, Some(1));
    redis.stop();
    for number in 2..50 {
        enqueue(number).await;
    }
    assert!(timeout(outage(), tells.recv()).await.is_err(), "nothing is handed over meanwhile");
    let late = {
        let (jobs, at) = (jobs.clone(), Clock::system().now().plus_ms(200));
        write(&fixture.db, move |tx| jobs.enqueue_at(tx, at, &Tell { number: 50 })).await
    };
    redis.resume();
    let mut seen = Vec::new();
    while !seen.contains(&50) || seen.len() < 49 {
        seen.extend(soon(tells.recv()).await);
    }
    seen.sort_unstable();
    assert_eq!(seen, (2..=50).collect::<Vec<_>>());
    until("all ends are told", async || jobs.show(late).await.unwrap().is_none()).await;
    stop(done, workers).await;
    assert_eq!(redis.ask::<Vec<String>>(&["KEYS", "weir:held:*"]), Vec::<String>::new());
}

#[tokio::test]
async fn a_unit_that_comes_twice_has_its_effect_once() {
    let (redis, fixture) = (RedisServer::start(), sqlite());
    let (one, two) = (foreign("mark", "marks", 1), foreign("mark", "marks", 2));
    let _: u64 = redis.ask(&["LPUSH", "queue:marks", &one, &two, &one]);
    let mut registry = Registry::new();
    marking(&mut registry);
    let done = CancellationToken::new();
    let jobs = open(&fixture.db);
    let workers = jobs.start_on_redis(registry, redis.options(), done.clone()).unwrap();
    let processed = async |count| redis.ask::<Option<u64>>(&["GET", "stat:processed"]) == count;
    until("all three ended", async || processed(Some(3)).await).await;
    let _: u64 = redis.ask(&["LPUSH", "queue:marks", &two]);
    until("the fourth ended", async || processed(Some(4)).await).await;
    stop(done, workers).await;
    assert_eq!(marks(&fixture.db).await, [1, 2]);
}

#[tokio::test]
async fn what_is_no_job_is_kept_as_it_is_and_the_dead_are_limited() {
    let (redis, fixture) = (RedisServer::start(), sqlite());
    let mut connection = redis.client().get_connection().unwrap();
    let mut many = redis::pipe();
    for number in 0..9_999 {
        many.cmd("ZADD").arg("dead").arg(4_000_000_000_i64 - number).arg(number).ignore();
    }
    many.exec(&mut connection).unwrap();
    let old = foreign("tell", "tells", 3);
    let _: u64 = redis.ask(&["ZADD", "dead", "1600000000", &old]);
    let _: u64 = redis.ask(&["SADD", "queues", "tells"]);
    let _: u64 = redis.ask(&["LPUSH", "queue:tells", "{no job", &foreign("tell", "tells", 5)]);
    let mut registry = Registry::new();
    let mut tells = telling(&mut registry);
    let done = CancellationToken::new();
    let jobs = open(&fixture.db);
    let workers = jobs.start_on_redis(registry, redis.options(), done.clone()).unwrap();
    assert_eq!(soon(tells.recv()).await, Some(5));
    let is_dead = || redis.ask::<Option<f64>>(&["ZSCORE", "dead", "{no job"]).is_some();
    // Its score is the lowest of all, so the limit takes it: seen by what it pushed out.
    until("the dead are limited", async || redis.ask::<u64>(&["ZCARD", "dead"]) == 9_999).await;
    assert!(redis.ask::<Option<f64>>(&["ZSCORE", "dead", &old]).is_none(), "180 days are over");
    assert!(!is_dead());
    let _: u64 = redis.ask(&["DEL", "dead"]);
    let _: u64 = redis.ask(&["LPUSH", "queue:tells", "{no job"]);
    until("it is dead", async || is_dead()).await;
    stop(done, workers).await;
}

#[tokio::test]
async fn strict_order_empties_one_queue_before_the_next() {
    let (redis, fixture) = (RedisServer::start(), sqlite());
    for number in 0..5 {
        let _: u64 = redis.ask(&["LPUSH", "queue:second", &foreign("tell", "second", number)]);
        let number = number + 10;
        let _: u64 = redis.ask(&["LPUSH", "queue:first", &foreign("tell", "first", number)]);
    }
    let mut registry = Registry::new();
    let mut tells = telling(&mut registry);
    let done = CancellationToken::new();
    // Something else lies under the name of a queue: the others go on.
    let _: String = redis.ask(&["SET", "queue:zeroth", "no list"]);
    let queues = ["zeroth", "first", "second"].map(|name| (name.to_owned(), 1)).into();
    let options = Options { queues, order: QueueOrder::Strict, held_max: 1, ..redis.options() };
    let jobs = open(&fixture.db);
    let workers = jobs.start_on_redis(registry, options, done.clone()).unwrap();
    let mut seen = Vec::new();
    for _ in 0..10 {
        seen.extend(soon(tells.recv()).await);
    }
    assert_eq!(seen, [10, 11, 12, 13, 14, 0, 1, 2, 3, 4]);
    stop(done, workers).await;
}

#[tokio::test]
async fn jobs_whose_answer_was_lost_are_put_back() {
    let (redis, fixture) = (RedisServer::start(), sqlite());
    let mut registry = Registry::new();
    let mut tells = telling(&mut registry);
    let done = CancellationToken::new();
    let jobs = open(&fixture.db);
    let options = Options { lease: Duration::from_millis(500), ..redis.options() };
    let workers = jobs.start_on_redis(registry, options, done.clone()).unwrap();
    let processes = || redis.ask::<Vec<String>>(&["SMEMBERS", "processes"]);
    until("the process is listed", async || processes().len() == 1).await;
    // As a fetch leaves it that Redis ran while the connection broke.
    let held = format!("weir:held:{}", processes()[0]);
    let _: u64 = redis.ask(&["HSET", &held, "900000 tells", &foreign("tell", "tells", 2)]);
    let _: u64 = redis.ask(&["HSET", &held, "900001 tells", &foreign("tell", "tells", 3)]);
    assert_eq!((soon(tells.recv()).await, soon(tells.recv()).await), (Some(2), Some(3)));
    stop(done, workers).await;
    assert_eq!(redis.ask::<u64>(&["EXISTS", &held]), 0);
}
