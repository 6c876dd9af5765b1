//! Unique jobs that Redis lost, or that others deleted there.

use std::borrow::Cow;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;
use weir_base::Id;
use weir_db::{Class, Error, Tx};
use weir_jobs::sidekiq::Options;
use weir_jobs::{Claimed, Job, Queue, Registry, Unique};
use weir_storm::fixture::sqlite;

use crate::house::{House, until};
use crate::redis_server::RedisServer;

/// A task of which there is one of a number until it is done.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Single {
    number: i64,
}

impl Job for Single {
    const KIND: &'static str = "single";
    const QUEUE: Queue = Queue::new("singles", Class::Outbound);
    const UNIQUE: Unique = Unique::UntilDone;

    fn unique_key(&self) -> Option<Cow<'_, str>> {
        Some(self.number.to_string().into())
    }
}

async fn add(house: &House, number: i64, after_ms: i64) -> Id {
    let (jobs, at) = (house.jobs.clone(), house.clock.now().plus_ms(after_ms));
    house.write(move |tx: &mut Tx| jobs.enqueue_at(tx, at, &Single { number })).await
}

async fn keys(house: &House) -> Vec<String> {
    let read = |tx: &mut Tx| tx.column("SELECT unique_key FROM jobs_unique ORDER BY 1", &[]);
    house.db.read::<_, Error, _>(Class::Interactive, read).await.unwrap()
}

#[tokio::test]
async fn a_unique_job_that_is_nowhere_any_more_lets_others_of_its_key_in() {
    const TEN_MINUTES_MS: i64 = 600_000;
    const FAR_MS: i64 = 100 * 365 * 24 * 3_600_000;
    let (house, redis) = (House::new(sqlite()), RedisServer::start());
    let mut registry = Registry::new();
    registry.task(|_: Claimed<Single>| async { Ok(()) });
    let stop = CancellationToken::new();
    let options = Options { lease: Duration::from_millis(100), ..redis.options() };
    let workers = house.jobs.start_on_redis(registry, options, stop.clone()).unwrap();
    house.jobs.pause("singles").await.unwrap();
    let (queued, other) = (add(&house, 1, 0).await, add(&house, 2, 0).await);
    let (scheduled, later) = (add(&house, 3, FAR_MS).await, add(&house, 4, FAR_MS).await);
    until("all lie in Redis", async || {
        house.rows("jobs").await + house.rows("jobs_later").await == 0
    })
    .await;

    // As the buttons of Sidekiq Web do it.
    let with = |jobs: Vec<String>, number: i64| {
        let text = format!("\"number\":{number}}}");
        jobs.into_iter().find(|job| job.contains(&text)).unwrap()
    };
    let waits = with(redis.ask(&["LRANGE", "queue:singles", "0", "-1"]), 1);
    assert_eq!(redis.ask::<u64>(&["LREM", "queue:singles", "1", &waits]), 1);
    let is_due = with(redis.ask(&["ZRANGE", "schedule", "0", "-1"]), 3);
    assert_eq!(redis.ask::<u64>(&["ZREM", "schedule", &is_due]), 1);
    assert_eq!(keys(&house).await, ["single:1", "single:2", "single:3", "single:4"], "nobody told");

    until("their keys are free", async || {
        house.advance(TEN_MINUTES_MS);
        let _: String = redis.ask(&["PING"]);
        keys(&house).await == ["single:2", "single:4"]
    })
    .await;
    assert_eq!(add(&house, 2, 0).await, other, "it is still there");
    assert_eq!(add(&house, 4, 0).await, later, "it is still there");
    assert_ne!(add(&house, 1, 0).await, queued);
    assert_ne!(add(&house, 3, 0).await, scheduled);
    stop.cancel();
    workers.finish(Duration::ZERO).await;
}
