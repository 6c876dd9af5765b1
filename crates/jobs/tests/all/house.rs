//! A database with the engine on it, and what the tests' jobs write.

use std::borrow::Cow;
use std::future::Future;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;
use weir_base::{Clock, Random, Timestamp};
use weir_db::{Class, Db, Error, Migration, Tx, params};
use weir_jobs::{Job, Jobs, NodeOptions, Order, Queue, Registry, Workers};
use weir_storm::fixture::{Fixture, databases, sqlite};

use crate::redis_server::RedisServer;

const TABLES: &[Migration] = &[Migration {
    number: 1,
    name: "effects",
    sql: "CREATE TABLE effects (place BIGINT NOT NULL, number BIGINT NOT NULL);
          CREATE INDEX effects_by_place ON effects (place);",
}];

/// Whether tests run with their full numbers.
pub fn is_long() -> bool {
    std::env::var_os("WEIR_TEST_LONG").is_some()
}

/// How long a test waits for what should come at once: far beyond any slowness.
fn patience() -> Duration {
    Duration::from_secs(if is_long() { 600 } else { 60 })
}

/// How long what is away stays away.
pub fn outage() -> Duration {
    if is_long() { Duration::from_secs(60) } else { Duration::from_millis(300) }
}

pub struct House {
    pub jobs: Jobs,
    pub db: Db,
    pub clock: Clock,
    pub fixture: Fixture,
}

/// Nodes that notice each other's end soon.
pub const NODES: NodeOptions = NodeOptions {
    beat: Duration::from_millis(100),
    lease: Duration::from_millis(800),
    patience: Duration::from_secs(1),
};

fn open(db: &Db, clock: &Clock, seed: u64, nodes: NodeOptions) -> Jobs {
    Jobs::open_as(db.clone(), clock.clone(), Random::seeded(seed), nodes).unwrap()
}

/// One on each database.
pub fn houses() -> Vec<House> {
    databases().into_iter().map(House::new).collect()
}

impl House {
    pub fn new(fixture: Fixture) -> Self {
        let clock = Clock::manual(Timestamp::from_ms(1_700_000_000_000));
        let db = fixture.db.clone();
        db.migrate("test", TABLES).unwrap();
        let jobs = open(&db, &clock, 7, NODES);
        Self { jobs, db, clock, fixture }
    }

    /// The same database as the next process would open it.
    pub fn reopened(self) -> Self {
        let (fixture, clock) = self.closed();
        Self::opened(fixture, clock, NODES)
    }

    /// The database, which no process has open.
    pub fn closed(self) -> (Fixture, Clock) {
        let Self { clock, fixture, db, jobs } = self;
        drop((jobs, db));
        (fixture, clock)
    }

    /// The database as a process opens it.
    pub fn opened(fixture: Fixture, clock: Clock, nodes: NodeOptions) -> Self {
        let db = fixture.open_again();
        let jobs = open(&db, &clock, 8, nodes);
        Self { jobs, db, clock, fixture }
    }

    pub async fn write<T: Send + 'static>(
        &self,
        unit: impl FnMut(&mut Tx) -> Result<T, Error> + Send + 'static,
    ) -> T {
        self.db.write(Class::Interactive, unit).await.unwrap()
    }

    /// The numbers in the effects, in the order they were written.
    pub async fn effects(&self) -> Vec<i64> {
        let read =
            |tx: &mut Tx| tx.column("SELECT number FROM effects ORDER BY place, number", &[]);
        self.db.read::<_, Error, _>(Class::Interactive, read).await.unwrap()
    }

    pub async fn rows(&self, table: &'static str) -> i64 {
        let sql = format!("SELECT COUNT(*) FROM {table}");
        let read = move |tx: &mut Tx| tx.query_one(&sql, &[], |row| row.get(0));
        self.db.read::<_, Error, _>(Class::Interactive, read).await.unwrap()
    }

    pub fn start(&self, registry: Registry) -> Running {
        let stop = CancellationToken::new();
        let workers = self.jobs.start(registry, stop.clone()).unwrap();
        Running { stop, workers }
    }

    pub fn start_on(&self, redis: &RedisServer, registry: Registry) -> Running {
        let stop = CancellationToken::new();
        let workers = self.jobs.start_on_redis(registry, redis.options(), stop.clone()).unwrap();
        Running { stop, workers }
    }

    /// Moves the clock, and lets the engine see it.
    pub fn advance(&self, by_ms: i64) {
        self.clock.advance(by_ms);
        self.jobs.wake();
    }
}

/// A backend: a house, and the Redis where its jobs lie, if they do.
pub struct Place {
    pub house: House,
    pub redis: Option<RedisServer>,
}

/// One on each backend.
pub fn places() -> Vec<Place> {
    let on_redis = House::new(sqlite());
    let sql = houses().into_iter().map(|house| Place { house, redis: None });
    sql.chain([Place { house: on_redis, redis: Some(RedisServer::start()) }]).collect()
}

impl Place {
    pub fn name(&self) -> &'static str {
        if self.redis.is_some() { "redis" } else { self.house.fixture.name }
    }

    pub fn start(&self, registry: Registry) -> Running {
        match &self.redis {
            Some(redis) => self.house.start_on(redis, registry),
            None => self.house.start(registry),
        }
    }

    pub fn reopened(self) -> Self {
        Self { house: self.house.reopened(), redis: self.redis }
    }
}

pub struct Running {
    stop: CancellationToken,
    workers: Workers,
}

impl Running {
    pub async fn stop(self) {
        self.stop_within(patience()).await;
    }

    pub async fn stop_within(self, patience: Duration) {
        self.stop.cancel();
        self.workers.finish(patience).await;
    }
}

/// Asks again and again until `condition` holds.
pub async fn until<F: Future<Output = bool>>(what: &str, condition: impl Fn() -> F) {
    let asked = async {
        while !condition().await {
            tokio::task::yield_now().await;
        }
    };
    assert!(tokio::time::timeout(patience(), asked).await.is_ok(), "never came: {what}");
}

pub async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(patience(), future).await.expect("it never came")
}

/// A unit that writes its number.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Note {
    pub lane: String,
    pub number: i64,
}

impl Note {
    pub fn new(lane: impl ToString, number: i64) -> Self {
        Self { lane: lane.to_string(), number }
    }
}

impl Job for Note {
    const KIND: &'static str = "note";
    const QUEUE: Queue = Queue::new("notes", Class::Inbound);

    fn lane(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.lane)
    }
}

/// A unit in a queue that serves the newest first.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct News(pub i64);

impl Job for News {
    const KIND: &'static str = "news";
    const QUEUE: Queue =
        Queue { order: Order::NewestFirst, ..Queue::new("news", Class::Inbound).running_max(1) };
}

/// A task.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Call {
    pub number: i64,
}

impl Job for Call {
    const KIND: &'static str = "call";
    const QUEUE: Queue = Queue::new("calls", Class::Outbound);
}

/// A task in a queue that is not in a hurry, where calls may wait too.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SlowCall;

impl Job for SlowCall {
    const KIND: &'static str = "slow";
    const QUEUE: Queue = Queue::new("slow calls", Class::Housekeeping);
}

/// Writes `number` behind what is there.
pub fn write_effect(tx: &mut Tx, number: i64) -> Result<(), Error> {
    tx.execute(
        "INSERT INTO effects (place, number)
         SELECT coalesce(max(place), 0) + 1, CAST(?1 AS BIGINT) FROM effects",
        params![number],
    )?;
    Ok(())
}

/// The numbers from 0 up to, not including, `count`.
pub fn numbers(count: i64) -> Vec<i64> {
    (0..count).collect()
}
