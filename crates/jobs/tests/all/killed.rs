//! Processes that are killed at random moments while they work on a database.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;
use weir_base::{Clock, Random};
use weir_db::{Class, Db, Dialect, Error, Migration, Options, Tx, params};
use weir_jobs::{Claimed, Failure, Job, Jobs, Outcome, Queue, Registry};
use weir_storm::fixture::{Fixture, postgres, sqlite};

use crate::house::is_long;

const TABLES: &[Migration] = &[Migration {
    number: 1,
    name: "effects",
    sql: "CREATE TABLE marks (number BIGINT NOT NULL);
          CREATE TABLE tells (id BIGINT NOT NULL, number BIGINT NOT NULL,
            process BIGINT NOT NULL, tick BIGINT NOT NULL);
          CREATE TABLE clock (tick BIGINT NOT NULL);
          INSERT INTO clock (tick) VALUES (0);",
}];

/// The clock of the processes that are killed lies in the database: it ticks when so long has
/// passed by a timer of the runtime, and then a transaction of the tasks' class is durable, one
/// tick after the other. So an end, which waits for a timer and a transaction too, may take long
/// only where the clock stands still with it: on a machine, a runtime or a disk that has no time.
const TICK: Duration = Duration::from_millis(10);
/// The end of a task is durable within 50 ms, which are five ticks and the one that had begun. Its
/// work counts as done with the transaction that wrote it: its commit takes at most one more.
const WINDOW_TICKS: i64 = 50 / 10 + 1 + 1;

/// Names the database to the process that is killed: its URL, its own number and its directory.
const CHILD: &str = "WEIR_JOBS_TEST_KILLED";

/// How long the process may take for one part of its work.
const PATIENCE: Duration = Duration::from_secs(300);

/// A unit that writes its number and enqueues the task that tells it.
#[derive(Serialize, Deserialize)]
struct Mark(i64);

impl Job for Mark {
    const KIND: &'static str = "mark";
    const QUEUE: Queue = Queue::new("marks", Class::Inbound);

    fn lane(&self) -> std::borrow::Cow<'_, str> {
        format!("lane {}", self.0 % 50).into()
    }
}

/// A task that writes its number in a transaction of its own: elsewhere, as far as the engine
/// knows.
#[derive(Serialize, Deserialize)]
struct Tell(i64);

impl Job for Tell {
    const KIND: &'static str = "tell";
    const QUEUE: Queue = Queue::new("tells", Class::Outbound);
}

/// Jobs, and how often their process is killed.
fn numbers() -> (i64, u64) {
    if is_long() { (1_000_000, 200) } else { (4_000, 5) }
}

fn open(url: &str, directory: &str) -> (Db, Jobs) {
    let db = Db::open(url, Path::new(directory), &Options::default()).unwrap();
    db.migrate("test", TABLES).unwrap();
    let jobs = Jobs::open(db.clone(), Clock::system(), Random::system()).unwrap();
    (db, jobs)
}

/// The process that the next test kills; alone it has nothing to do.
#[test]
fn a_process_that_is_killed() {
    let Ok(told) = std::env::var(CHILD) else { return };
    let mut told = told.splitn(3, ' ');
    let (url, process) = (told.next().unwrap(), told.next().unwrap().parse::<i64>().unwrap());
    let directory = told.next().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let (db, jobs) = open(url, directory);
        let mut registry = Registry::new();
        let causing = jobs.clone();
        registry.simple_unit::<Mark, _>(move |tx, marks| {
            for mark in marks {
                let number = mark.job.0;
                tx.execute("INSERT INTO marks (number) VALUES (?1)", params![number])?;
                if number % 10 == 0 {
                    causing.enqueue(tx, &Tell(number))?;
                }
            }
            // Before the commit: the end comes at any moment after.
            let line = format!("{}\n", marks.len());
            std::io::stdout().write_all(line.as_bytes()).unwrap();
            Ok(vec![Outcome::Done; marks.len()])
        });
        let ticking = db.clone();
        tokio::spawn(async move {
            let mut each = tokio::time::interval(TICK);
            each.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            loop {
                each.tick().await;
                let tick = |tx: &mut Tx| tx.execute("UPDATE clock SET tick = tick + 1", &[]);
                let ticked: Result<u64, Error> = ticking.write(Tell::QUEUE.class, tick).await;
                assert_eq!(ticked.unwrap(), 1);
            }
        });
        registry.task(move |claimed: Claimed<Tell>| {
            let db = db.clone();
            let tell = move |tx: &mut Tx| {
                tx.execute(
                    "INSERT INTO tells (id, number, process, tick)
                     SELECT CAST(?1 AS BIGINT), CAST(?2 AS BIGINT), CAST(?3 AS BIGINT), tick
                     FROM clock",
                    params![claimed.id, claimed.job.0, process],
                )
            };
            async move {
                let told = db.write(Tell::QUEUE.class, tell).await;
                told.map(|_| ()).map_err(Failure::retry)
            }
        });
        jobs.start(registry, CancellationToken::new()).unwrap();
        std::future::pending::<()>().await;
    });
}

fn process(fixture: &Fixture, number: u64, directory: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "killed::a_process_that_is_killed", "--nocapture"])
        .env(CHILD, format!("{} {number} {}", fixture.url, directory.display()))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Reads what `child` says it wrote, until that is `count` jobs or all.
fn until_written(child: &mut Child, count: i64) {
    let mut written = 0;
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    for line in lines.map_while(Result::ok) {
        written += line.parse::<i64>().unwrap_or(0);
        if written >= count {
            return;
        }
    }
}

fn until_nothing_waits(db: &Db) {
    let begun = Instant::now();
    let waits = |tx: &mut Tx| tx.value::<i64>("SELECT 1 FROM jobs LIMIT 1", &[]);
    while db.read_blocking::<_, Error, _>(Class::Interactive, waits).unwrap().is_some() {
        assert!(begun.elapsed() < PATIENCE, "some jobs never ended");
        std::thread::yield_now();
    }
}

fn in_order(db: &Db, table: &str) -> Vec<i64> {
    let sql = format!("SELECT number FROM {table} ORDER BY number");
    let read = move |tx: &mut Tx| tx.column(&sql, &[]);
    db.read_blocking::<_, Error, _>(Class::Interactive, read).unwrap()
}

/// Connections to the database's server: on PostgreSQL what a process sent before it was killed may
/// still be done while it has some.
fn connections(db: &Db) -> i64 {
    let count = |tx: &mut Tx| match tx.dialect() {
        Dialect::Sqlite => Ok(0),
        Dialect::Postgres => tx.query_one(
            "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database()",
            &[],
            |row| row.get(0),
        ),
    };
    db.read_blocking::<_, Error, _>(Class::Interactive, count).unwrap()
}

/// What a process that was killed leaves to be run again.
struct Unacknowledged {
    /// Tasks that did their work, and whose end is not durable.
    tasks: i64,
    /// How long before its death the first of those that this process ran did, in ticks.
    ticks: i64,
}

fn unacknowledged(db: &Db, process: u64) -> Unacknowledged {
    let read = move |tx: &mut Tx| {
        let sql = "SELECT COUNT(DISTINCT tells.id) FROM tells JOIN jobs ON jobs.id = tells.id";
        let tasks = tx.query_one(sql, &[], |row| row.get(0))?;
        let last: i64 = tx.query_one("SELECT tick FROM clock", &[], |row| row.get(0))?;
        let sql = "SELECT COALESCE(MIN(tells.tick), ?2) FROM tells JOIN jobs ON jobs.id = tells.id
                   WHERE process = ?1";
        let first: i64 = tx.query_one(sql, params![process as i64, last], |row| row.get(0))?;
        Ok(Unacknowledged { tasks, ticks: last - first })
    };
    db.read_blocking::<_, Error, _>(Class::Interactive, read).unwrap()
}

fn kill_and_go_on(fixture: &Fixture) {
    let (count, kills) = numbers();
    let directory = fixture.directory();
    {
        let (db, jobs) = open(&fixture.url, &directory.display().to_string());
        let marks: Vec<Mark> = (0..count).map(Mark).collect();
        for some in marks.chunks(10_000) {
            let some: Vec<Mark> = some.iter().map(|mark| Mark(mark.0)).collect();
            let jobs = jobs.clone();
            let enqueue = move |tx: &mut Tx| jobs.enqueue_many(tx, &some);
            db.write_blocking::<_, Error, _>(Class::Inbound, enqueue).unwrap();
        }
    }
    let random = Random::system();
    let (own_connections, mut may_run_again) = (connections(&fixture.db), 0);
    let mut ticks_max = 0;
    for number in 0..kills {
        let mut child = process(fixture, number, directory);
        until_written(&mut child, 1 + random.below(count as u64 / kills / 2) as i64);
        child.kill().unwrap();
        child.wait().unwrap();
        let killed_at = Instant::now();
        while connections(&fixture.db) > own_connections {
            assert!(killed_at.elapsed() < PATIENCE, "its connections stay");
            std::thread::yield_now();
        }
        let left = unacknowledged(&fixture.db, number);
        may_run_again += left.tasks;
        ticks_max = left.ticks.max(ticks_max);
    }
    let mut last = process(fixture, kills, directory);
    until_nothing_waits(&fixture.db);
    last.kill().unwrap();
    last.wait().unwrap();
    assert_eq!(in_order(&fixture.db, "marks"), (0..count).collect::<Vec<_>>());
    let mut told = in_order(&fixture.db, "tells");
    let runs = told.len();
    told.dedup();
    assert_eq!(told, (0..count).step_by(10).collect::<Vec<_>>());
    let again = runs - told.len();
    eprintln!(
        "{}: {again} of {} tasks ran again, {may_run_again} at most; at {kills} kills the first of \
         them had ended {ticks_max} ticks before at most",
        fixture.name,
        told.len()
    );
    assert!(again as i64 <= may_run_again, "a task ran again whose end was durable");
    assert!(ticks_max <= WINDOW_TICKS, "an end was not durable {ticks_max} ticks later");
}

#[test]
fn killed_at_random_moments_sqlite_loses_nothing_and_no_unit_is_had_twice() {
    kill_and_go_on(&sqlite());
}

#[test]
fn killed_at_random_moments_postgres_loses_nothing_and_no_unit_is_had_twice() {
    if let Some(fixture) = postgres() {
        kill_and_go_on(&fixture);
    }
}
