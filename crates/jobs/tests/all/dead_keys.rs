//! Keys of unique jobs that died, on each backend.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::{self, UnboundedReceiver};
use weir_base::Id;
use weir_db::{Class, Tx};
use weir_jobs::{Claimed, Failure, Job, Outcome, Queue, Registry, Set, Unique};

use crate::house::{House, Place, Running, houses, places, soon, until, write_effect};
use crate::redis_server::RedisServer;

/// A task of which there is one until it is done. Below 10 it dies at its first run.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Mortal {
    number: i64,
}

impl Job for Mortal {
    const KIND: &'static str = "mortal";
    const QUEUE: Queue = Queue::new("mortals", Class::Outbound);
    const UNIQUE: Unique = Unique::UntilDone;

    fn unique_key(&self) -> Option<Cow<'_, str>> {
        Some("the one".into())
    }
}

/// The same as a unit.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct MortalUnit {
    number: i64,
}

impl Job for MortalUnit {
    const KIND: &'static str = "mortal unit";
    const QUEUE: Queue = Queue::new("mortal units", Class::Inbound);
    const UNIQUE: Unique = Unique::UntilDone;

    fn unique_key(&self) -> Option<Cow<'_, str>> {
        Some("the one".into())
    }
}

/// With workers that tell which job they ran.
fn at_work(place: &Place) -> (Running, UnboundedReceiver<i64>) {
    let (told, runs) = mpsc::unbounded_channel();
    let mut registry = Registry::new();
    registry.task(move |claimed: Claimed<Mortal>| {
        let number = claimed.job.number;
        let _ = told.send(number);
        async move { if number < 10 { Err(Failure::Dead("no".into())) } else { Ok(()) } }
    });
    (place.start(registry), runs)
}

async fn enqueue(place: &Place, number: i64) -> Id {
    let jobs = place.house.jobs.clone();
    place.house.write(move |tx: &mut Tx| jobs.enqueue(tx, &Mortal { number })).await
}

async fn until_dead(place: &Place, count: usize) {
    let dead = async || place.house.jobs.list(Set::Dead, None, 10).await.unwrap().len() == count;
    until("they are dead", dead).await;
}

/// Job 1 runs and dies, and nothing is taken from its queue any more.
async fn one_dies(place: &Place, runs: &mut UnboundedReceiver<i64>) -> Id {
    let first = enqueue(place, 1).await;
    assert_eq!(soon(runs.recv()).await, Some(1), "{}", place.name());
    until_dead(place, 1).await;
    place.house.jobs.pause("mortals").await.unwrap();
    first
}

#[tokio::test]
async fn a_dead_job_lets_others_of_its_key_in_and_takes_the_key_again_when_it_is_retried() {
    for place in places() {
        let (running, mut runs) = at_work(&place);
        let jobs = &place.house.jobs;
        let first = one_dies(&place, &mut runs).await;
        assert_eq!(place.house.rows("jobs_unique").await, 0, "{}", place.name());
        let other = enqueue(&place, 11).await;
        assert_ne!(other, first, "{}: it is let in", place.name());
        assert!(!jobs.retry(first).await.unwrap(), "{}: another waits", place.name());
        assert_eq!(jobs.retry_all(Set::Dead).await.unwrap(), 0, "{}", place.name());
        until_dead(&place, 1).await;
        jobs.resume("mortals").await.unwrap();
        assert_eq!(soon(runs.recv()).await, Some(11), "{}", place.name());
        until("the key is free", async || place.house.rows("jobs_unique").await == 0).await;
        jobs.pause("mortals").await.unwrap();
        assert!(jobs.retry(first).await.unwrap(), "{}", place.name());
        until_dead(&place, 0).await;
        assert_eq!(enqueue(&place, 12).await, first, "{}: it has its key again", place.name());
        jobs.resume("mortals").await.unwrap();
        assert_eq!(soon(runs.recv()).await, Some(1), "{}", place.name());
        until_dead(&place, 1).await;
        until("the key is free", async || place.house.rows("jobs_unique").await == 0).await;
        running.stop().await;
        assert!(runs.recv().await.is_none(), "{}", place.name());
    }
}

#[tokio::test]
async fn of_two_dead_of_one_key_one_is_retried_and_one_that_was_killed_by_hand_has_its_key_too() {
    for place in places() {
        let (running, mut runs) = at_work(&place);
        let jobs = &place.house.jobs;
        let first = one_dies(&place, &mut runs).await;
        let second = enqueue(&place, 2).await;
        let lies = i64::from(place.redis.is_none());
        until("it lies in its queue", async || place.house.rows("jobs").await == lies).await;
        assert!(jobs.kill(second).await.unwrap(), "{}", place.name());
        until_dead(&place, 2).await;
        assert_eq!(jobs.retry_all(Set::Dead).await.unwrap(), 1, "{}", place.name());
        until_dead(&place, 1).await;
        let left = jobs.list(Set::Dead, None, 10).await.unwrap()[0].id;
        let raised = if left == first { second } else { first };
        assert_eq!(enqueue(&place, 13).await, raised, "{}: it has its key", place.name());
        assert!(jobs.delete(left).await.unwrap());
        assert_eq!(enqueue(&place, 14).await, raised, "{}: that took no key along", place.name());
        running.stop().await;
    }
}

#[tokio::test]
async fn a_unit_that_others_took_from_the_dead_set_takes_its_key_or_is_dead_again() {
    let redis = RedisServer::start();
    let place = Place { house: House::new(weir_storm::fixture::sqlite()), redis: Some(redis) };
    let (house, redis) = (&place.house, place.redis.as_ref().unwrap());
    let mut registry = Registry::new();
    registry.simple_unit(|tx: &mut Tx, batch: &[Claimed<MortalUnit>]| {
        let mut outcomes = Vec::new();
        for Claimed { job: MortalUnit { number }, .. } in batch {
            write_effect(tx, *number)?;
            let dies = *number < 10;
            outcomes.push(if dies { Outcome::Dead("no".into()) } else { Outcome::Done });
        }
        Ok(outcomes)
    });
    let running = house.start_on(redis, registry);
    let add = async |number: i64| {
        let jobs = house.jobs.clone();
        house.write(move |tx: &mut Tx| jobs.enqueue(tx, &MortalUnit { number })).await
    };
    // As Sidekiq Web does it, but that it is taken first.
    let raise = || {
        let dead: Vec<String> = redis.ask(&["ZPOPMIN", "dead"]);
        let _: u64 = redis.ask(&["RPUSH", "queue:mortal units", &dead[0]]);
    };
    let reason = async || house.jobs.list(Set::Dead, None, 10).await.unwrap()[0].reason.clone();

    let first = add(1).await;
    until_dead(&place, 1).await;
    house.jobs.pause("mortal units").await.unwrap();
    assert_ne!(add(11).await, first, "it is let in");
    until("it lies in its queue", async || house.rows("jobs").await == 0).await;
    raise();
    house.jobs.resume("mortal units").await.unwrap();
    until_dead(&place, 1).await;
    assert_eq!(reason().await.as_deref(), Some("another job of its unique key waits or runs"));
    until("the other is done", async || house.effects().await == [1, 11]).await;
    until("the key is free", async || house.rows("jobs_unique").await == 0).await;

    raise();
    until("it runs again", async || house.effects().await == [1, 11, 1]).await;
    until_dead(&place, 1).await;
    assert_eq!(reason().await.as_deref(), Some("no"));
    assert_eq!(house.rows("jobs_unique").await, 0);
    running.stop().await;
}

#[tokio::test]
async fn a_job_whose_kind_nobody_knows_dies_and_frees_its_key() {
    for house in houses() {
        let place = Place { house, redis: None };
        let (running, _runs) = at_work(&place);
        let jobs = &place.house.jobs;
        jobs.pause("mortals").await.unwrap();
        enqueue(&place, 1).await;
        let rename = |tx: &mut Tx| tx.execute("UPDATE jobs SET kind = 'of before'", &[]);
        place.house.write(rename).await;
        jobs.resume("mortals").await.unwrap();
        until_dead(&place, 1).await;
        assert_eq!(place.house.rows("jobs_unique").await, 0, "{}", place.name());
        running.stop().await;
    }
}
