//! How many jobs from Redis run at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;
use weir_db::Class;
use weir_jobs::{Claimed, Job, LimitedBy, Queue, Registry};

use crate::house::{Call, House, houses, numbers, until};
use crate::redis_server::RedisServer;

/// A task of which three may run at once.
#[derive(Clone, Serialize, Deserialize)]
struct Narrow;

impl Job for Narrow {
    const KIND: &'static str = "narrow";
    const QUEUE: Queue = Queue::new("narrow", Class::Outbound).running_max(3);
}

/// A task that goes before all others.
#[derive(Clone, Serialize, Deserialize)]
struct Urgent;

impl Job for Urgent {
    const KIND: &'static str = "urgent";
    const QUEUE: Queue = Queue::new("urgent", Class::Live);
}

/// What waits to be let go.
struct Held {
    gate: Semaphore,
    running: AtomicUsize,
    most: AtomicUsize,
}

impl Held {
    fn new() -> Arc<Self> {
        let count = || AtomicUsize::new(0);
        Arc::new(Self { gate: Semaphore::new(0), running: count(), most: count() })
    }

    fn register<J: Job>(self: &Arc<Self>, registry: &mut Registry) {
        let held = self.clone();
        registry.task(move |_: Claimed<J>| {
            let held = held.clone();
            async move {
                let running = held.running.fetch_add(1, Ordering::Relaxed) + 1;
                held.most.fetch_max(running, Ordering::Relaxed);
                held.gate.acquire().await.unwrap().forget();
                held.running.fetch_sub(1, Ordering::Relaxed);
                Ok(())
            }
        });
    }

    async fn until_running(&self, count: usize) {
        until("as many run as may", async || self.running.load(Ordering::Relaxed) == count).await;
    }

    fn most(&self) -> usize {
        self.most.load(Ordering::Relaxed)
    }
}

async fn enqueue<J: Job + Clone>(house: &House, list: Vec<J>) {
    let jobs = house.jobs.clone();
    house.write(move |tx| jobs.enqueue_many(tx, &list)).await;
}

async fn until_ended(redis: &RedisServer, count: u64) {
    let processed = || redis.ask::<Option<u64>>(&["GET", "stat:processed"]).unwrap_or(0);
    until("all ended", async || processed() == count).await;
}

#[tokio::test]
async fn on_redis_no_more_run_at_once_than_the_queue_declares() {
    let (house, redis, held) = (houses().remove(0), RedisServer::start(), Held::new());
    let mut registry = Registry::new();
    held.register::<Narrow>(&mut registry);
    let running = house.start_on(&redis, registry);
    enqueue(&house, vec![Narrow; 20]).await;
    held.until_running(3).await;
    held.gate.add_permits(20);
    until_ended(&redis, 20).await;
    assert_eq!(held.most(), 3);
    running.stop().await;
}

#[tokio::test]
async fn on_redis_a_limit_set_by_hand_holds_and_is_changed_while_all_places_are_taken() {
    let (house, redis, held) = (houses().remove(0), RedisServer::start(), Held::new());
    let mut registry = Registry::new();
    held.register::<Call>(&mut registry);
    house.jobs.set_limit("calls", Some(5)).await.unwrap_err();
    let running = house.start_on(&redis, registry);
    house.jobs.set_limit("calls", Some(5)).await.unwrap();
    enqueue(&house, numbers(20).into_iter().map(|number| Call { number }).collect()).await;
    held.until_running(5).await;
    until("the rest is there", async || redis.ask::<u64>(&["LLEN", "queue:calls"]) == 15).await;
    assert_eq!(held.most(), 5);
    house.jobs.set_limit("calls", Some(8)).await.unwrap();
    held.until_running(8).await;
    assert_eq!(held.most(), 8);
    house.jobs.set_limit("calls", None).await.unwrap();
    held.until_running(20).await;
    held.gate.add_permits(20);
    until_ended(&redis, 20).await;
    running.stop().await;
}

#[tokio::test]
async fn on_redis_jobs_that_wait_for_others_get_more_places_until_none_waits() {
    let (house, redis, held) = (houses().remove(0), RedisServer::start(), Held::new());
    let mut registry = Registry::new();
    held.register::<Call>(&mut registry);
    let running = house.start_on(&redis, registry);
    enqueue(&house, numbers(100).into_iter().map(|number| Call { number }).collect()).await;
    held.until_running(100).await;
    held.gate.add_permits(100);
    until_ended(&redis, 100).await;
    running.stop().await;
}

#[tokio::test]
async fn on_redis_without_memory_the_less_urgent_queue_waits_and_says_why() {
    let (house, redis, held) = (houses().remove(0), RedisServer::start(), Held::new());
    let mut registry = Registry::new();
    held.register::<Urgent>(&mut registry);
    held.register::<Narrow>(&mut registry);
    // Less than any process has.
    house.jobs.set_memory_budget(1);
    let running = house.start_on(&redis, registry);
    enqueue(&house, vec![Urgent]).await;
    held.until_running(1).await;
    let sheds = || {
        let queues = house.jobs.queues();
        queues.iter().any(|it| it.name == "narrow" && it.limited_by == LimitedBy::Memory)
    };
    until("it says why", async || sheds()).await;
    enqueue(&house, vec![Narrow]).await;
    enqueue(&house, vec![Urgent]).await;
    held.until_running(2).await;
    until("it is there", async || redis.ask::<u64>(&["LLEN", "queue:narrow"]) == 1).await;
    held.gate.add_permits(2);
    // Nothing more urgent is left.
    held.until_running(1).await;
    held.gate.add_permits(1);
    until_ended(&redis, 3).await;
    running.stop().await;
}
