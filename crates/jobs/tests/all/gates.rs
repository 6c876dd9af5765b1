//! Lanes that wait for their time: rates and breakers.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use weir_db::Class;
use weir_jobs::{Breaker, Claimed, Failure, Job, LaneStats, LimitedBy, Queue, Registry, Retry};

use crate::house::{House, houses, numbers, soon, until};
use crate::redis_server::RedisServer;

/// A call on a host.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Visit {
    host: String,
    number: i64,
}

impl Job for Visit {
    const KIND: &'static str = "visit";
    const QUEUE: Queue = Queue::new("visits", Class::Outbound).breaker(4);
    const RETRY: Retry = Retry::NEVER;

    fn lane(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.host)
    }
}

/// A call that a host takes ten of in a second.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Ping {
    host: String,
}

impl Job for Ping {
    const KIND: &'static str = "ping";
    const QUEUE: Queue = Queue::new("pings", Class::Outbound).lane_rate(10);

    fn lane(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.host)
    }
}

async fn enqueue<J: Job + Clone>(house: &House, list: Vec<J>) {
    let jobs = house.jobs.clone();
    house.write(move |tx| jobs.enqueue_many(tx, &list)).await;
}

fn lane(house: &House, queue: &str, name: &str) -> Option<LaneStats> {
    house.jobs.lanes(queue, 100).into_iter().find(|lane| lane.lane == name)
}

#[tokio::test]
async fn a_dead_host_costs_one_probe_at_a_time_and_others_go_on() {
    for house in houses() {
        let alive = Arc::new(AtomicBool::new(false));
        let (told, mut runs) = mpsc::unbounded_channel();
        let back = alive.clone();
        let mut registry = Registry::new();
        registry.task(move |claimed: Claimed<Visit>| {
            let (told, back) = (told.clone(), back.clone());
            async move {
                // It has to wait, as who calls others does.
                tokio::task::yield_now().await;
                let is_dead = claimed.job.host == "dead.test" && !back.load(Ordering::Relaxed);
                let _ = told.send(claimed.job);
                if is_dead { Err(Failure::down("no answer")) } else { Ok(()) }
            }
        });
        let visit = |host: &str, number| Visit { host: host.into(), number };
        enqueue(&house, numbers(100).into_iter().map(|at| visit("dead.test", at)).collect()).await;
        let running = house.start(registry);
        let breaker = || lane(&house, "visits", "dead.test").map(|lane| lane.breaker);
        let rests = || {
            let lane = lane(&house, "visits", "dead.test");
            lane.is_some_and(|lane| lane.running == 0 && lane.breaker == Breaker::Open)
        };
        until("the breaker opens", async || rests()).await;
        let mut tried = 0;
        while runs.try_recv().is_ok() {
            tried += 1;
        }
        assert!(tried <= 32, "{}: {tried} of one host's jobs ran", house.fixture.name);
        let limited_by = || house.jobs.queues()[0].limited_by;
        until("the reason", async || limited_by() == LimitedBy::Lanes).await;

        enqueue(&house, vec![visit("alive.test", 1)]).await;
        assert_eq!(soon(runs.recv()).await.unwrap().host, "alive.test");

        let depth = || lane(&house, "visits", "dead.test").unwrap().depth;
        until("what ended is gone", async || depth() == 100 - tried).await;
        house.advance(5_000);
        assert_eq!(soon(runs.recv()).await.unwrap().host, "dead.test");
        until("the probe is over", async || rests() && depth() == 99 - tried).await;
        house.advance(9_999);
        assert_eq!(breaker(), Some(Breaker::Open));
        assert!(runs.try_recv().is_err(), "the second pause is twice as long");
        alive.store(true, Ordering::Relaxed);
        house.advance(1);
        until("all are done", async || house.rows("jobs").await == 0).await;
        running.stop().await;
    }
}

#[tokio::test]
async fn a_lane_starts_no_more_in_a_second_than_its_rate_and_holds_up_no_other() {
    for house in houses() {
        let (told, mut runs) = mpsc::unbounded_channel();
        let mut registry = Registry::new();
        registry.task(move |claimed: Claimed<Ping>| {
            let _ = told.send(claimed.job.host);
            async { Ok(()) }
        });
        let ping = |host: &str| Ping { host: host.into() };
        enqueue(&house, vec![ping("busy.test"); 12]).await;
        let running = house.start(registry);
        let mut ran = 0;
        for _ in 0..12 {
            assert_eq!(soon(runs.recv()).await.unwrap(), "busy.test");
            ran += 1;
            if ran == 5 {
                enqueue(&house, vec![ping("other.test")]).await;
                assert_eq!(soon(runs.recv()).await.unwrap(), "other.test");
            }
            let waits = || lane(&house, "pings", "busy.test").map(|lane| lane.waits_until);
            until("it waits for its time", async || ran == 12 || waits().flatten().is_some()).await;
            assert!(runs.try_recv().is_err(), "the clock stands");
            if ran < 12 {
                let until_ms = waits().flatten().unwrap().since_ms(house.clock.now());
                assert!((1..=101).contains(&until_ms), "{until_ms}");
                house.advance(until_ms);
            }
        }
        running.stop().await;
    }
}

#[tokio::test]
async fn on_redis_a_dead_host_gets_no_more_and_what_lies_there_already_waits_for_its_time() {
    let (house, redis) = (houses().remove(0), RedisServer::start());
    let alive = Arc::new(AtomicBool::new(false));
    let (told, mut runs) = mpsc::unbounded_channel();
    let back = alive.clone();
    let mut registry = Registry::new();
    registry.task(move |claimed: Claimed<Visit>| {
        let (told, back) = (told.clone(), back.clone());
        async move {
            let is_dead = claimed.job.host == "dead.test" && !back.load(Ordering::Relaxed);
            let _ = told.send(claimed.job);
            if is_dead { Err(Failure::retry("no answer")) } else { Ok(()) }
        }
    });
    let visit = |host: &str, number| Visit { host: host.into(), number };
    let running = house.start_on(&redis, registry);
    enqueue(&house, numbers(4).into_iter().map(|at| visit("dead.test", at)).collect()).await;
    let breaker = || {
        let lanes = house.jobs.lanes("visits", 100);
        lanes.into_iter().find(|lane| lane.lane == "dead.test").map(|lane| lane.breaker)
    };
    for _ in 0..4 {
        assert_eq!(soon(runs.recv()).await.unwrap().host, "dead.test");
    }
    let processed = || redis.ask::<Option<u64>>(&["GET", "stat:processed"]);
    until("their ends", async || processed() == Some(4)).await;
    enqueue(&house, numbers(40).into_iter().map(|at| visit("dead.test", at)).collect()).await;
    until("the breaker is open", async || breaker() == Some(Breaker::Open)).await;
    // As one that was handed over before.
    let job = serde_json::json!({
        "class": "visit", "queue": "visits", "args": [{ "host": "dead.test", "number": 99 }],
        "jid": "b4a577edbccf1d805744efa9", "created_at": 1_700_000_000.0,
        "weir": { "lane": "dead.test" },
    });
    let _: u64 = redis.ask(&["LPUSH", "queue:visits", &job.to_string()]);
    until("it waits for its time", async || redis.ask::<u64>(&["ZCARD", "schedule"]) == 1).await;
    enqueue(&house, vec![visit("alive.test", 1)]).await;
    assert_eq!(soon(runs.recv()).await.unwrap().host, "alive.test");
    until("five ended", async || processed() == Some(5)).await;
    assert!(runs.try_recv().is_err(), "nothing of the dead host ran");

    alive.store(true, Ordering::Relaxed);
    house.advance(5_000);
    let mut ran = 0;
    while ran < 41 {
        // What was put off until the probe is over comes when its time has come.
        if let Ok(visit) = runs.try_recv() {
            assert_eq!(visit.host, "dead.test");
            ran += 1;
        } else {
            house.advance(10);
            tokio::task::yield_now().await;
        }
    }
    until("all ended", async || processed() == Some(46)).await;
    running.stop().await;
}

#[tokio::test]
async fn on_redis_a_lane_is_handed_over_no_faster_than_its_rate_and_holds_up_no_other() {
    let (house, redis) = (houses().remove(0), RedisServer::start());
    let (told, mut runs) = mpsc::unbounded_channel();
    let mut registry = Registry::new();
    registry.task(move |claimed: Claimed<Ping>| {
        let _ = told.send(claimed.job.host);
        async { Ok(()) }
    });
    let running = house.start_on(&redis, registry);
    let ping = |host: &str| Ping { host: host.into() };
    enqueue(&house, vec![ping("busy.test"); 5]).await;
    for ran in 1..=5 {
        assert_eq!(soon(runs.recv()).await.unwrap(), "busy.test");
        if ran == 5 {
            break;
        }
        let waits = || lane(&house, "pings", "busy.test").and_then(|lane| lane.waits_until);
        until("it waits for its time", async || waits().is_some()).await;
        if ran == 2 {
            enqueue(&house, vec![ping("other.test")]).await;
            assert_eq!(soon(runs.recv()).await.unwrap(), "other.test");
        }
        assert_eq!(redis.ask::<u64>(&["LLEN", "queue:pings"]), 0, "the rest is in the database");
        assert!(runs.try_recv().is_err(), "the clock stands");
        let until_ms = waits().unwrap().since_ms(house.clock.now());
        assert!((1..=101).contains(&until_ms), "{until_ms}");
        house.advance(until_ms);
    }
    running.stop().await;
}
