//! A deep backlog: what a statement takes must not depend on how many jobs wait, and what is done
//! with must leave nothing behind. In the long form ten million wait.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use postgres::{Client, NoTls};
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;
use weir_base::{Clock, Id};
use weir_db::{Class, Error, Tx, Value};
use weir_jobs::{Claimed, Entry, Job, NodeOptions, Outcome, Queue, Registry, Set};
use weir_storm::fixture::{Fixture, PostgresServer, sqlite};

use crate::house::{Call, House, Note, is_long, until};
use crate::statements;

const HOUR_MS: i64 = 3_600_000;
/// Of the backlog so many are worked …
const WORKED: i64 = 500;
/// … beside so many that are enqueued meanwhile, and of each so many that come due.
const ENQUEUED: i64 = 500;
const DUE: i64 = 200;
/// Jobs that lie between those which are due one after the other, in ms.
const DUE_EACH_MS: i64 = 10;
/// Rows that are counted, of however many.
const COUNTED_MAX: i64 = 100_000;
/// So often something is enqueued and drained beside the backlog.
const ROUNDS: i64 = 6;

/// Jobs on a page of a list.
const PAGE: usize = 500;

/// Rows and entries of indexes that may be read to work all of the above, or to look into it, of
/// the jobs that are ready and of those that are not: some for each job, a page for each list, and
/// what just came or went once more for each look while a transaction from before it is open. That
/// is more where the machine is slow, so the bounds are five times what is usual. Already the
/// short form has more rows in each set.
const READ_MAX: [i64; 2] = [24_000, 12_000];
/// Steps that one statement may take on SQLite: forty for each of those that come due at once. To
/// look at all of a set takes at least five a row.
const STEPS_MAX: i64 = 20_000;
/// Steps to count a row, and to begin and end that.
const COUNT_STEPS: i64 = 8;
const COUNT_ONCE_STEPS: i64 = 100;
/// Pages that one statement may ask for on SQLite: of ten million rows the smallest index has more.
const PAGES_MAX: i64 = 8_000;

/// How many wait, in a thousand lanes.
fn depth() -> i64 {
    if is_long() { 10_000_000 } else { 60_000 }
}

/// How many are enqueued and drained each round, …
fn round_size() -> i64 {
    if is_long() { 50_000 } else { 1_000 }
}

/// … beside so many that are scheduled.
const ROUND_SCHEDULED: i64 = 100;

/// What may stay behind of four rounds, where `size` is that of all that waits: the place of two.
fn kept_max(size: i64) -> i64 {
    size * 2 * (round_size() + ROUND_SCHEDULED) / (depth() + 2 * later())
}

/// How many are scheduled, and as many are tried again.
fn later() -> i64 {
    (depth() / 4).min(1_250_000)
}

/// A task of the backlog.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Deep {
    number: i64,
}

impl Job for Deep {
    const KIND: &'static str = "deep";
    const QUEUE: Queue = Queue::new("deep", Class::Outbound).running_max(64);
}

/// `?3` is the lowest id, `?4` the time.
const FILL_READY: &str = "INSERT INTO jobs (id, queue, lane, kind, failures, enqueued_at, payload)
  SELECT i + CAST(?3 AS BIGINT), 'deep', 'lane ' || (i % 1000), 'deep', 0, CAST(?4 AS BIGINT),
    '{\"number\":' || i || '}' FROM numbers";
/// `?5` is the state.
const FILL_LATER: &str = "INSERT INTO jobs_later (state, due_at, id, queue, lane, kind, failures,
    enqueued_at, payload)
  SELECT CAST(?5 AS BIGINT), CAST(?4 AS BIGINT) + 1000 + 10 * i, i + CAST(?3 AS BIGINT), 'calls',
    '', 'call', CAST(?5 AS BIGINT), CAST(?4 AS BIGINT), '{\"number\":' || i || '}' FROM numbers";
const FILL_DEAD: &str = "INSERT INTO jobs_dead (id, died_at, queue, lane, kind, failures,
    enqueued_at, payload, reason)
  SELECT i + CAST(?3 AS BIGINT), CAST(?4 AS BIGINT) - i, 'calls', '', 'call', 26,
    CAST(?4 AS BIGINT), '{\"number\":' || i || '}', 'it failed' FROM numbers";

/// Writes `count` rows by `sql`, from the id of an hour ago on, `offset` behind it.
fn fill(house: &House, sql: &str, count: i64, offset: i64, state: Option<i64>) {
    const PART: i64 = 250_000;
    let now = house.clock.now();
    let first = (now.plus_ms(-HOUR_MS).as_ms() << 16) + offset;
    let numbers = "WITH RECURSIVE numbers (i) AS (SELECT CAST(?1 AS BIGINT) UNION ALL
      SELECT i + 1 FROM numbers WHERE i + 1 < ?2)";
    let sql = match sql.split_once("\n  SELECT") {
        Some((head, select)) => format!("{head} {numbers} SELECT{select}"),
        None => panic!("{sql}"),
    };
    for begin in (0..count).step_by(PART as usize) {
        let (sql, end) = (sql.clone(), count.min(begin + PART));
        let write = move |tx: &mut Tx| {
            let all = [begin, end, first, now.as_ms()].into_iter().chain(state);
            tx.execute(&sql, &all.map(Value::Int).collect::<Vec<_>>())
        };
        house.db.write_blocking::<_, Error, _>(Class::Housekeeping, write).unwrap();
    }
}

/// The database of `fixture` with all its rows, which nobody has open.
fn filled(fixture: Fixture) -> (Fixture, Clock) {
    let house = House::new(fixture);
    fill(&house, FILL_READY, depth(), 0, None);
    fill(&house, FILL_LATER, later(), 1 << 30, Some(0));
    fill(&house, FILL_LATER, later(), 2 << 30, Some(1));
    fill(&house, FILL_DEAD, 2_000, 3 << 30, None);
    house.closed()
}

/// What the handlers do: the tasks of the backlog end as long as they are let.
struct Handlers {
    let_end: Arc<Semaphore>,
    ended: Arc<AtomicI64>,
    called: Arc<AtomicI64>,
    noted: Arc<AtomicI64>,
}

impl Handlers {
    fn new() -> Self {
        let (ended, called, noted) = Default::default();
        Self { let_end: Arc::new(Semaphore::new(0)), ended, called, noted }
    }

    fn registry(&self) -> Registry {
        let mut registry = Registry::new();
        let (let_end, ended) = (self.let_end.clone(), self.ended.clone());
        let (called, noted) = (self.called.clone(), self.noted.clone());
        registry.task(move |_: Claimed<Deep>| {
            let (let_end, ended) = (let_end.clone(), ended.clone());
            async move {
                // Closed, it lets everyone.
                if let Ok(permit) = let_end.acquire().await {
                    permit.forget();
                }
                ended.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
        });
        registry.task(move |_: Claimed<Call>| {
            called.fetch_add(1, Ordering::Relaxed);
            async { Ok(()) }
        });
        registry.simple_unit::<Note, _>(move |tx, notes| {
            let (noted, count) = (noted.clone(), notes.len());
            tx.after_commit(move || {
                noted.fetch_add(count as i64, Ordering::Relaxed);
            });
            Ok(vec![Outcome::Done; count])
        });
        registry
    }

    /// All that run end, and so does what is taken from now on.
    fn let_all_end(&self) {
        self.let_end.close();
    }
}

/// The engine starts, knows that `deep` wait, and stops; `work` is done between.
async fn with_engine(
    house: &House,
    handlers: &Handlers,
    deep: i64,
    work: impl AsyncFnOnce(&House),
) {
    let journal = tempfile::tempdir().unwrap();
    house.jobs.keep_journal(&journal.path().join("journal")).unwrap();
    house.jobs.pause("deep").await.unwrap();
    let running = house.start(handlers.registry());
    until("all that waits", async || house.jobs.depth("deep") as i64 == deep).await;
    work(house).await;
    handlers.let_all_end();
    running.stop().await;
}

async fn enqueue_notes(house: &House, count: i64, in_ms: i64) {
    let (jobs, at) = (house.jobs.clone(), house.clock.now().plus_ms(in_ms));
    let notes: Vec<Note> = (0..count).map(|number| Note::new(number % 50, number)).collect();
    house.write(move |tx| jobs.enqueue_many_at(tx, at, &notes)).await;
}

/// Works some of the backlog, what is enqueued beside it, and what comes due.
async fn work(house: &House, handlers: &Handlers) {
    handlers.let_end.add_permits(WORKED as usize);
    house.jobs.resume("deep").await.unwrap();
    enqueue_notes(house, ENQUEUED, 0).await;
    house.advance(1_000 + DUE_EACH_MS * (DUE - 1));
    until("what is due", async || {
        let called = handlers.called.load(Ordering::Relaxed);
        assert!(called <= 2 * DUE, "{called} were called");
        called == 2 * DUE
    })
    .await;
    until("some of the backlog", async || handlers.ended.load(Ordering::Relaxed) == WORKED).await;
    until("what came", async || handlers.noted.load(Ordering::Relaxed) == ENQUEUED).await;
    house.jobs.pause("deep").await.unwrap();
}

/// Asks for what people ask for, and changes some jobs: three of the backlog go.
async fn look(house: &House) {
    let jobs = &house.jobs;
    let mut some: BTreeMap<&str, Vec<Id>> = BTreeMap::new();
    let sets = [
        ("ready", Set::Ready),
        ("scheduled", Set::Scheduled),
        ("retries", Set::Retries),
        ("dead", Set::Dead),
    ];
    for (name, set) in sets {
        let first = jobs.list(set, None, PAGE).await.unwrap();
        let second = jobs.list(set, first.last().cloned(), PAGE).await.unwrap();
        assert!(first.iter().chain(&second).all(|entry| entry.set == set), "{name}");
        assert_eq!((first.len(), second.len()), (PAGE, PAGE), "{name}");
        // Those that run are of lanes before these.
        let is_last = |entry: &&Entry| set != Set::Ready || entry.lane.starts_with("lane 9");
        some.insert(name, second.iter().filter(is_last).map(|entry| entry.id).collect());
    }
    let stats = jobs.stats().await.unwrap();
    let counted = (later() - DUE).min(COUNTED_MAX) as u64;
    assert_eq!((stats.scheduled, stats.retries), (counted, counted));
    assert_eq!(jobs.lanes_everywhere("deep", 20).await.unwrap().len(), 20);
    jobs.running_everywhere().await.unwrap();
    jobs.history(60).await.unwrap();
    for set in ["ready", "scheduled", "retries", "dead"] {
        assert!(jobs.show(some[set][0]).await.unwrap().is_some(), "{set}");
        assert!(jobs.delete(some[set][0]).await.unwrap(), "{set}");
    }
    assert!(jobs.kill(some["ready"][1]).await.unwrap());
    assert!(jobs.kill(some["scheduled"][1]).await.unwrap());
    assert!(jobs.retry(some["dead"][1]).await.unwrap());
    let (changing, one, other) = (jobs.clone(), some["retries"][1], some["ready"][2]);
    let change = move |tx: &mut Tx| {
        changing.hasten(tx, Call::QUEUE, "")?;
        changing.hasten_each(tx, Call::QUEUE, &[one])?;
        changing.take_back(tx, &["a key".to_owned()])?;
        Ok((changing.cancel(tx, one)?, changing.cancel(tx, other)?))
    };
    assert_eq!(house.write(change).await, (true, true));
}

/// Enqueues, schedules and drains.
async fn round(house: &House, handlers: &Handlers) {
    let (count, scheduled) = (round_size(), ROUND_SCHEDULED);
    let before = handlers.noted.load(Ordering::Relaxed);
    enqueue_notes(house, count, 0).await;
    enqueue_notes(house, scheduled, 1_000).await;
    house.advance(1_000);
    let all = before + count + scheduled;
    until("the end", async || handlers.noted.load(Ordering::Relaxed) == all).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_deep_backlog_sqlite_reads_what_it_needs_and_keeps_nothing_of_what_ended() {
    let (fixture, clock) = filled(sqlite());
    let costs = statements::watch(&fixture.directory().join("weir.db"));
    let house = House::opened(fixture, clock, NodeOptions::default());
    let handlers = Handlers::new();
    let mut sizes: Vec<(i64, i64)> = Vec::new();
    with_engine(&house, &handlers, depth(), async |house| {
        work(house, &handlers).await;
        look(house).await;
        for _ in 0..ROUNDS {
            round(house, &handlers).await;
            let pages = |tx: &mut Tx| {
                let all: i64 = tx.query_one("PRAGMA page_count", &[], |row| row.get(0))?;
                let free: i64 = tx.query_one("PRAGMA freelist_count", &[], |row| row.get(0))?;
                Ok::<_, Error>((all, all - free))
            };
            sizes.push(house.db.read(Class::Interactive, pages).await.unwrap());
        }
    })
    .await;
    let costs = costs.lock().unwrap();
    // Once, when the engine is opened, it reads what waits, and what kinds are scheduled.
    let at_start = ["SELECT queue, kind, lane, id, enqueued_at FROM", "SELECT queue, kind FROM"];
    let is_at_start = |sql: &str| at_start.iter().any(|start| sql.starts_with(start));
    let (whole, others): (Vec<_>, Vec<_>) = costs.iter().partition(|(sql, _)| is_at_start(sql));
    assert_eq!(whole.iter().map(|(_, cost)| cost.runs).collect::<Vec<_>>(), [1, 1]);
    let counting = COUNT_STEPS * later().min(COUNTED_MAX) + COUNT_ONCE_STEPS;
    for (sql, cost) in others {
        let steps_max = if sql.contains(") counted") { counting } else { STEPS_MAX };
        assert!(cost.steps_max < steps_max && cost.pages_max < PAGES_MAX, "{sql}: {cost:?}");
    }
    let parts =
        ["DELETE FROM jobs WHERE", "INSERT INTO jobs ", "FROM jobs_later WHERE", "jobs_suspects"];
    let ran = |part: &str| costs.keys().any(|sql| sql.contains(part));
    assert!(parts.into_iter().all(ran), "not all was seen");
    // After the first rounds there is room that can be used again.
    let (first, last) = (sizes[1], sizes[sizes.len() - 1]);
    let kept = [last.0 - first.0, last.1 - first.1];
    assert!(kept[0] <= kept_max(first.0) && kept[1] <= kept_max(first.1), "{sizes:?}");
}

/// Rows and entries of indexes that were read of the jobs that are ready, and of those that are
/// not. Tells what connections counted that are closed.
fn read_so_far(client: &mut Client) -> [i64; 2] {
    ["jobs", "jobs_later"].map(|table| {
        let sql = "SELECT CAST(seq_tup_read + (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes i
             WHERE i.relid = t.relid) AS BIGINT) FROM pg_stat_user_tables t WHERE relname = $1";
        client.query_one(sql, &[&table]).unwrap().get(0)
    })
}

fn number(client: &mut Client, sql: &str) -> i64 {
    client.query_one(sql, &[]).unwrap().get(0)
}

const CONNECTIONS: &str =
    "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database()";
const BYTES: &str = "SELECT CAST(pg_total_relation_size('jobs') +
     pg_total_relation_size('jobs_later') AS BIGINT)";

/// Waits until those who had it open are gone.
fn until_alone(client: &mut Client, connections: i64) {
    let begun = Instant::now();
    while number(client, CONNECTIONS) > connections {
        assert!(begun.elapsed() < Duration::from_secs(60), "some keep it open");
        std::thread::yield_now();
    }
}

#[test]
fn of_a_deep_backlog_postgres_reads_what_it_needs_and_keeps_nothing_of_what_ended() {
    // Of its own, since on a shared one the transactions of others keep rows from being forgotten.
    let Some(server) = PostgresServer::prepare() else { return };
    server.begin_with("-c listen_addresses= -c fsync=off -c autovacuum=off");
    let (mut fixture, mut clock) = filled(server.fixture());
    let client = &mut Client::connect(&fixture.url, NoTls).unwrap();
    // What the server's own housekeeping does by and by.
    client.batch_execute("VACUUM (ANALYZE) jobs, jobs_later, jobs_dead").unwrap();
    if !is_long() {
        // Of few rows it reads all sooner than it looks for some: not here.
        let name: String = client.query_one("SELECT current_database()", &[]).unwrap().get(0);
        client.batch_execute(&format!("ALTER DATABASE {name} SET enable_seqscan = off")).unwrap();
    }
    let connections = number(client, CONNECTIONS);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (mut deep, mut sizes, mut reads) = (depth(), Vec::new(), Vec::new());
    for part in ["start", "work", "look", "rounds"] {
        let before = read_so_far(client);
        // With leases that outlast a slow machine: what one loses it reads again.
        let house = House::opened(fixture, clock, NodeOptions::default());
        let handlers = Handlers::new();
        runtime.block_on(with_engine(&house, &handlers, deep, async |house| match part {
            "start" => {}
            "work" => work(house, &handlers).await,
            "look" => look(house).await,
            _ => {
                for _ in 0..ROUNDS {
                    round(house, &handlers).await;
                    let sizes = &mut sizes;
                    let client = &mut *client;
                    tokio::task::block_in_place(|| {
                        client.batch_execute("VACUUM jobs, jobs_later").unwrap();
                        sizes.push(number(client, BYTES));
                    });
                }
            }
        }));
        deep -= handlers.ended.load(Ordering::Relaxed) + if part == "look" { 3 } else { 0 };
        (fixture, clock) = house.closed();
        until_alone(client, connections);
        let after = read_so_far(client);
        reads.push([after[0] - before[0], after[1] - before[1]]);
    }
    let [start, work, look] = [reads[0], reads[1], reads[2]];
    // At the start each row is read once for its kind, and what is ready once for its lane, with
    // some neighbours twice.
    let once = [depth() * 5 / 2, 2 * later()];
    let counted = [2 * depth().min(COUNTED_MAX + 1), 2 * later().min(COUNTED_MAX)];
    for of in [0, 1] {
        assert!(start[of] <= once[of] + READ_MAX[of], "{reads:?}");
        assert!(work[of] - start[of] <= READ_MAX[of], "{reads:?}");
        // Counted are the jobs for the queues and for the lanes, and what waits in each other set.
        assert!(look[of] - start[of] - counted[of] <= READ_MAX[of], "{reads:?}");
    }
    let (first, last) = (sizes[1], sizes[sizes.len() - 1]);
    assert!(last - first <= kept_max(first), "{sizes:?}");
    let deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
    assert_eq!(number(client, deadlocks), 0);
}
