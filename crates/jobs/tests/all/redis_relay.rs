//! Handing over to Redis: little at a time, in turns, and what Ruby finds there.

use std::borrow::Cow;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use weir_base::{Clock, Random};
use weir_db::{Class, Error, Tx};
use weir_jobs::sidekiq::{Options, Times};
use weir_jobs::{Claimed, Failure, Job, Jobs, Queue, Registry, Set};
use weir_storm::fixture::sqlite;

use crate::house::{soon, until};
use crate::redis_server::RedisServer;

/// A task with a fairness key.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Call {
    host: String,
    number: i64,
}

impl Job for Call {
    const KIND: &'static str = "call";
    const QUEUE: Queue = Queue::new("calls", Class::Outbound);

    fn lane(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.host)
    }
}

fn call(host: &str, number: i64) -> Call {
    Call { host: host.into(), number }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backlog_waits_in_the_database_where_lanes_take_turns() {
    let (redis, fixture) = (RedisServer::start(), sqlite());
    let jobs = Jobs::open(fixture.db.clone(), Clock::system(), Random::seeded(5)).unwrap();
    let (told, mut calls) = mpsc::unbounded_channel();
    let mut registry = Registry::new();
    registry.task(move |claimed: Claimed<Call>| {
        let _ = told.send(claimed.job.host);
        async { Ok(()) }
    });
    let _: u64 = redis.ask(&["SADD", "paused", "calls"]);
    let stop = CancellationToken::new();
    let options = Options { window: 10, held_max: 1, ..redis.options() };
    let workers = jobs.start_on_redis(registry, options, stop.clone()).unwrap();
    let shared = jobs.clone();
    let enqueue = move |tx: &mut Tx| {
        let many: Vec<Call> = (0..500).map(|number| call("big", number)).collect();
        shared.enqueue_many(tx, &many)
    };
    fixture.db.write::<_, Error, _>(Class::Interactive, enqueue).await.unwrap();
    let length = || redis.ask::<u64>(&["LLEN", "queue:calls"]);
    until("the window is full", async || length() == 10).await;
    let shared = jobs.clone();
    let enqueue = move |tx: &mut Tx| shared.enqueue(tx, &call("small", 0));
    fixture.db.write::<_, Error, _>(Class::Interactive, enqueue).await.unwrap();
    until("all are counted", async || {
        let queue = jobs.stats().await.unwrap().queues.remove(0);
        (queue.depth, queue.paused, length()) == (501, true, 10)
    })
    .await;
    until("it is known without asking", async || jobs.queues()[0].depth == 501).await;
    let (mut listed, mut last) = (Vec::new(), None);
    loop {
        let page = jobs.list(Set::Ready, last, 100).await.unwrap();
        let Some(end) = page.last() else { break };
        last = Some(end.clone());
        listed.extend(page.into_iter().map(|entry| entry.id));
    }
    listed.sort_unstable();
    listed.dedup();
    assert_eq!(listed.len(), 501, "each is listed once, wherever it lies");

    jobs.resume("calls").await.unwrap();
    let mut order = Vec::new();
    for _ in 0..501 {
        order.extend(soon(calls.recv()).await);
    }
    let place = order.iter().position(|host| host == "small").unwrap();
    assert!(place < 100, "one job of its own waited for {place} of another key");
    stop.cancel();
    workers.finish(Duration::from_secs(60)).await;
}

#[tokio::test]
async fn moments_are_written_as_told() {
    for (times, is_whole) in [(Times::Seconds, false), (Times::Millis, true)] {
        let (redis, fixture) = (RedisServer::start(), sqlite());
        let jobs = Jobs::open(fixture.db.clone(), Clock::system(), Random::seeded(5)).unwrap();
        let mut registry = Registry::new();
        registry.task(async |_: Claimed<Call>| Err(Failure::retry("no")));
        let stop = CancellationToken::new();
        let options = Options { times, ..redis.options() };
        let workers = jobs.start_on_redis(registry, options, stop.clone()).unwrap();
        let shared = jobs.clone();
        let enqueue = move |tx: &mut Tx| shared.enqueue(tx, &call("here", 1));
        let id = fixture.db.write::<_, Error, _>(Class::Interactive, enqueue).await.unwrap();
        until("its retry", async || redis.ask::<u64>(&["ZCARD", "retry"]) == 1).await;
        let raw: Vec<String> = redis.ask(&["ZRANGE", "retry", "0", "0"]);
        let job: serde_json::Value = serde_json::from_str(&raw[0]).unwrap();
        for moment in ["created_at", "enqueued_at", "failed_at"] {
            assert_eq!(job[moment].is_i64(), is_whole, "{moment}: {job}");
        }
        let entry = jobs.show(id).await.unwrap().unwrap();
        assert!(Clock::system().now().since_ms(entry.enqueued_at) < 60_000, "{entry:?}");
        stop.cancel();
        workers.finish(Duration::from_secs(60)).await;
    }
}
