//! How jobs end without having been done: expired, kept away by another, cancelled.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use weir_base::Id;
use weir_db::{Class, Tx};
use weir_jobs::{Claimed, Delay, Failure, Job, Last, Outcome, Queue, Registry, Retry, Unique};

use crate::house::{Call, House, houses, soon, until};
use crate::redis_server::RedisServer;

/// Worth nothing after a minute.
#[derive(Debug, Serialize, Deserialize)]
struct Fresh(i64);

impl Job for Fresh {
    const KIND: &'static str = "fresh";
    const QUEUE: Queue = Queue::new("fresh", Class::Outbound);
    const RETRY: Retry = Retry { attempts_max: 5, delay: Delay::FixedMs(70_000), last: Last::Dead };
    const EXPIRES_AFTER_MS: Option<i64> = Some(60_000);
}

/// The same, as a unit.
#[derive(Debug, Serialize, Deserialize)]
struct FreshUnit(i64);

impl Job for FreshUnit {
    const KIND: &'static str = "fresh_unit";
    const QUEUE: Queue = Queue::new("fresh_units", Class::Inbound);
    const EXPIRES_AFTER_MS: Option<i64> = Some(60_000);
}

#[tokio::test]
async fn a_job_that_waited_too_long_is_dropped_and_counted() {
    for house in houses() {
        let at = house.clock.now().plus_ms(3_600_000);
        let jobs = house.jobs.clone();
        house
            .write(move |tx| {
                jobs.enqueue(tx, &Fresh(1))?;
                jobs.enqueue(tx, &FreshUnit(1))?;
                jobs.enqueue_at(tx, at, &Fresh(2))
            })
            .await;
        house.clock.advance(60_000);
        let jobs = house.jobs.clone();
        house
            .write(move |tx| {
                jobs.enqueue(tx, &Fresh(3))?;
                jobs.enqueue(tx, &FreshUnit(3))
            })
            .await;
        let (told, mut runs) = mpsc::unbounded_channel();
        let (told_unit, mut units) = mpsc::unbounded_channel();
        let mut registry = Registry::new();
        registry.task(move |claimed: Claimed<Fresh>| {
            let _ = told.send(claimed.job.0);
            let again = claimed.job.0 == 3;
            async move { if again { Err(Failure::retry("later")) } else { Ok(()) } }
        });
        registry.simple_unit::<FreshUnit, _>(move |_, jobs| {
            for job in jobs {
                let _ = told_unit.send(job.job.0);
            }
            Ok(vec![Outcome::Done; jobs.len()])
        });
        let running = house.start(registry);
        assert_eq!(soon(runs.recv()).await, Some(3), "{}", house.fixture.name);
        assert_eq!(soon(units.recv()).await, Some(3));
        until("the ends", async || house.rows("jobs").await == 0).await;
        // Its retry comes after its minute, the other's time only then begins.
        house.advance(3_540_000);
        assert_eq!(soon(runs.recv()).await, Some(2));
        until("all ends", async || {
            house.rows("jobs").await == 0 && house.rows("jobs_later").await == 0
        })
        .await;
        running.stop().await;
        assert!(runs.recv().await.is_none() && units.recv().await.is_none());
        let kinds = house.jobs.stats().await.unwrap().kinds;
        let counts: Vec<_> = kinds.iter().map(|kind| (kind.done, kind.expired)).collect();
        assert_eq!(counts, [(1, 2), (1, 1)], "{}", house.fixture.name);
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct UntilDone(i64);

impl Job for UntilDone {
    const KIND: &'static str = "until_done";
    const QUEUE: Queue = Queue::new("until_done", Class::Outbound);
    const RETRY: Retry = Retry { attempts_max: 2, delay: Delay::FixedMs(1_000), last: Last::Dead };
    const UNIQUE: Unique = Unique::UntilDone;

    fn unique_key(&self) -> Option<Cow<'_, str>> {
        (self.0 >= 0).then_some(Cow::Borrowed("the one"))
    }
}

async fn enqueue<J: Job>(house: &House, job: J) -> Id {
    let jobs = house.jobs.clone();
    house.write(move |tx| jobs.enqueue(tx, &job)).await
}

#[tokio::test]
async fn a_job_that_is_unique_until_done_keeps_others_away_while_it_runs_and_waits_for_its_retry() {
    for house in houses() {
        let (told, mut runs) = mpsc::unbounded_channel();
        let (go_on, gate) = tokio::sync::watch::channel(0);
        let mut registry = Registry::new();
        registry.task(move |claimed: Claimed<UntilDone>| {
            let (told, mut gate) = (told.clone(), gate.clone());
            async move {
                let _ = told.send((claimed.job.0, claimed.attempt));
                let _ = gate.wait_for(|opened| *opened >= claimed.attempt).await;
                if claimed.attempt == 1 { Err(Failure::retry("once")) } else { Ok(()) }
            }
        });
        let running = house.start(registry);
        let first = enqueue(&house, UntilDone(1)).await;
        assert_eq!(soon(runs.recv()).await, Some((1, 1)), "{}", house.fixture.name);
        assert_eq!(enqueue(&house, UntilDone(2)).await, first, "it runs");
        go_on.send_replace(1);
        until("its wait", async || house.rows("jobs_later").await == 1).await;
        assert_eq!(enqueue(&house, UntilDone(3)).await, first, "it waits for its retry");
        house.advance(1_000);
        assert_eq!(soon(runs.recv()).await, Some((1, 2)));
        go_on.send_replace(2);
        until("its end", async || house.rows("jobs").await == 0).await;
        assert_ne!(enqueue(&house, UntilDone(4)).await, first, "it is done");
        assert_eq!(soon(runs.recv()).await, Some((4, 1)));
        until("its wait", async || house.rows("jobs_later").await == 1).await;
        house.advance(1_000);
        assert_eq!(soon(runs.recv()).await, Some((4, 2)));
        until("its end", async || house.rows("jobs").await == 0).await;
        assert_eq!(house.rows("jobs_unique").await, 0);
        let without = enqueue(&house, UntilDone(-1)).await;
        assert_ne!(enqueue(&house, UntilDone(-1)).await, without, "without a key all are let in");
        running.stop().await;
    }
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Hourly(i64);

impl Job for Hourly {
    const KIND: &'static str = "hourly";
    const QUEUE: Queue = Queue::new("hourly", Class::Inbound);
    const UNIQUE: Unique = Unique::ForMs(3_600_000);

    fn unique_key(&self) -> Option<Cow<'_, str>> {
        Some(self.0.to_string().into())
    }
}

#[tokio::test]
async fn a_job_that_is_unique_for_a_time_keeps_others_away_even_when_it_is_done() {
    for house in houses() {
        let mut registry = Registry::new();
        registry.simple_unit::<Hourly, _>(|_, jobs| Ok(vec![Outcome::Done; jobs.len()]));
        let running = house.start(registry);
        let first = enqueue(&house, Hourly(1)).await;
        until("its end", async || house.rows("jobs").await == 0).await;
        house.clock.advance(3_599_999);
        assert_eq!(enqueue(&house, Hourly(1)).await, first, "{}", house.fixture.name);
        assert_ne!(enqueue(&house, Hourly(2)).await, first);
        house.clock.advance(1);
        assert_ne!(enqueue(&house, Hourly(1)).await, first);
        running.stop().await;
    }
}

#[tokio::test]
async fn keys_whose_time_is_over_are_forgotten_however_many_wherever_the_jobs_lie() {
    for house in houses() {
        forgets_keys(house, None).await;
    }
    for house in houses() {
        forgets_keys(house, Some(RedisServer::start())).await;
    }
}

async fn forgets_keys(house: House, redis: Option<RedisServer>) {
    let jobs = house.jobs.clone();
    let enqueue =
        move |tx: &mut Tx| (0..2_500).try_for_each(|at| jobs.enqueue(tx, &Hourly(at)).map(|_| ()));
    house.write(enqueue).await;
    house.clock.advance(3_600_001);
    let mut registry = Registry::new();
    registry.simple_unit::<Hourly, _>(|_, jobs| Ok(vec![Outcome::Done; jobs.len()]));
    let running = match &redis {
        Some(redis) => house.start_on(redis, registry),
        None => house.start(registry),
    };
    house.advance(3_600_000);
    until("none is left", async || house.rows("jobs_unique").await == 0).await;
    running.stop().await;
}

#[tokio::test]
async fn a_running_task_that_is_cancelled_is_cut_off_and_not_tried_again() {
    for house in houses() {
        let (told, mut runs) = mpsc::unbounded_channel();
        let ended = Arc::new(AtomicBool::new(false));
        let seen = Arc::new(AtomicBool::new(false));
        let mut registry = Registry::new();
        let (for_end, for_thread) = (ended.clone(), seen.clone());
        registry.task(move |claimed: Claimed<Call>| {
            let (told, ended, seen) = (told.clone(), for_end.clone(), for_thread.clone());
            async move {
                claimed.progress(3, 10, "looking");
                let token = claimed.cancel_token();
                tokio::spawn(async move {
                    token.cancelled().await;
                    seen.store(true, Ordering::SeqCst);
                });
                let _ = told.send(claimed.id);
                tokio::task::yield_now().await;
                std::future::pending::<()>().await;
                ended.store(true, Ordering::SeqCst);
                Ok(())
            }
        });
        let running = house.start(registry);
        let id = enqueue(&house, Call { number: 1 }).await;
        assert_eq!(soon(runs.recv()).await, Some(id), "{}", house.fixture.name);
        until("its look", async || house.jobs.running().len() == 1).await;
        let shown = house.jobs.running().remove(0);
        let progress = shown.progress.unwrap();
        assert_eq!((shown.id, &*shown.kind, shown.attempt), (id, "call", 1));
        assert_eq!((progress.done, progress.total, &*progress.text), (3, 10, "looking"));
        assert!(house.jobs.cancel_now(id).await.unwrap());
        until("its end", async || house.rows("jobs").await == 0).await;
        until("the thread's end", async || seen.load(Ordering::SeqCst)).await;
        assert!(!house.jobs.cancel_now(id).await.unwrap());
        running.stop().await;
        assert!(!ended.load(Ordering::SeqCst));
        assert!(house.jobs.running().is_empty());
        let stats = house.jobs.stats().await.unwrap();
        assert_eq!((stats.kinds[0].cancelled, stats.retries, stats.dead), (1, 0, 0));
    }
}

#[tokio::test]
async fn a_task_that_was_taken_and_has_not_started_is_cancelled_too() {
    for house in houses() {
        let (told, mut runs) = mpsc::unbounded_channel();
        let (go_on, gate) = tokio::sync::watch::channel(false);
        let mut registry = Registry::new();
        registry.task(move |claimed: Claimed<Call>| {
            let (told, mut gate) = (told.clone(), gate.clone());
            async move {
                let _ = told.send(claimed.job.number);
                let _ = gate.wait_for(|open| *open).await;
                Ok(())
            }
        });
        let jobs = house.jobs.clone();
        let calls: Vec<Call> = (0..500).map(|number| Call { number }).collect();
        house.write(move |tx| jobs.enqueue_many(tx, &calls)).await;
        let last = house.jobs.list(weir_jobs::Set::Ready, None, 500).await.unwrap()[499].id;
        let running = house.start(registry);
        // All places are taken, by jobs which wait.
        until("the first", async || house.jobs.running().len() >= 64).await;
        assert!(house.jobs.cancel_now(last).await.unwrap(), "{}", house.fixture.name);
        go_on.send_replace(true);
        until("all ends", async || house.rows("jobs").await == 0).await;
        running.stop().await;
        let mut ran = Vec::new();
        while let Some(number) = runs.recv().await {
            ran.push(number);
        }
        ran.sort_unstable();
        assert_eq!(ran, (0..499).collect::<Vec<_>>());
    }
}
