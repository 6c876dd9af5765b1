//! Keys of unique jobs that died, on each backend.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use weir_base::Id;
use weir_db::{Class, Tx};
use weir_jobs::{Claimed, Failure, Job, Outcome, Queue, Registry, Set, Unique};

use crate::house::{House, Running, houses, soon, until, write_effect};
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

/// A house, and the Redis where its jobs lie, if they do.
struct Place {
    house: House,
    redis: Option<RedisServer>,
}

fn places() -> Vec<Place> {
    let on_redis = House::new(weir_storm::fixture::sqlite());
    let sql = houses().into_iter().map(|house| Place { house, redis: None });
    sql.chain([Place { house: on_redis, redis: Some(RedisServer::start()) }]).collect()
}

impl Place {
    fn name(&self) -> &'static str {
        if self.redis.is_some() { "redis" } else { self.house.fixture.name }
    }

    fn start(&self) -> (Running, mpsc::UnboundedReceiver<i64>) {
        let (told, runs) = mpsc::unbounded_channel();
        let mut registry = Registry::new();
        registry.task(move |claimed: Claimed<Mortal>| {
            let number = claimed.job.number;
            let _ = told.send(number);
            async move { if number < 10 { Err(Failure::Dead("no".into())) } else { Ok(()) } }
        });
        let running = match &self.redis {
            Some(redis) => self.house.start_on(redis, registry),
            None => self.house.start(registry),
        };
        (running, runs)
    }

    async fn add(&self, number: i64) -> Id {
        let jobs = self.house.jobs.clone();
        self.house.write(move |tx: &mut Tx| jobs.enqueue(tx, &Mortal { number })).await
    }

    async fn until_dead(&self, count: usize) {
        let dead = async || self.house.jobs.list(Set::Dead, None, 10).await.unwrap().len() == count;
        until("they are dead", dead).await;
    }
}

#[tokio::test]
async fn a_dead_job_lets_others_of_its_key_in_and_takes_the_key_again_when_it_is_retried() {
    for place in places() {
        let (running, mut runs) = place.start();
        let jobs = &place.house.jobs;
        let first = place.add(1).await;
        assert_eq!(soon(runs.recv()).await, Some(1), "{}", place.name());
        place.until_dead(1).await;
        assert_eq!(place.house.rows("jobs_unique").await, 0, "{}", place.name());
        jobs.pause("mortals").await.unwrap();
        let other = place.add(11).await;
        assert_ne!(other, first, "{}: it is let in", place.name());
        assert!(!jobs.retry(first).await.unwrap(), "{}: another waits", place.name());
        assert_eq!(jobs.retry_all(Set::Dead).await.unwrap(), 0, "{}", place.name());
        place.until_dead(1).await;
        jobs.resume("mortals").await.unwrap();
        assert_eq!(soon(runs.recv()).await, Some(11), "{}", place.name());
        until("the key is free", async || place.house.rows("jobs_unique").await == 0).await;
        jobs.pause("mortals").await.unwrap();
        assert!(jobs.retry(first).await.unwrap(), "{}", place.name());
        place.until_dead(0).await;
        assert_eq!(place.add(12).await, first, "{}: it has its key again", place.name());
        jobs.resume("mortals").await.unwrap();
        assert_eq!(soon(runs.recv()).await, Some(1), "{}", place.name());
        place.until_dead(1).await;
        until("the key is free", async || place.house.rows("jobs_unique").await == 0).await;
        running.stop().await;
        assert!(runs.recv().await.is_none(), "{}", place.name());
    }
}

#[tokio::test]
async fn of_two_dead_of_one_key_one_is_retried_and_one_that_was_killed_by_hand_has_its_key_too() {
    for place in places() {
        let (running, mut runs) = place.start();
        let jobs = &place.house.jobs;
        let first = place.add(1).await;
        assert_eq!(soon(runs.recv()).await, Some(1), "{}", place.name());
        place.until_dead(1).await;
        jobs.pause("mortals").await.unwrap();
        let second = place.add(2).await;
        let lies = i64::from(place.redis.is_none());
        until("it lies in its queue", async || place.house.rows("jobs").await == lies).await;
        assert!(jobs.kill(second).await.unwrap(), "{}", place.name());
        place.until_dead(2).await;
        assert_eq!(jobs.retry_all(Set::Dead).await.unwrap(), 1, "{}", place.name());
        place.until_dead(1).await;
        let left = jobs.list(Set::Dead, None, 10).await.unwrap()[0].id;
        let raised = if left == first { second } else { first };
        assert_eq!(place.add(13).await, raised, "{}: it has its key", place.name());
        assert!(jobs.delete(left).await.unwrap());
        assert_eq!(place.add(14).await, raised, "{}: that took no key along", place.name());
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
    place.until_dead(1).await;
    house.jobs.pause("mortal units").await.unwrap();
    assert_ne!(add(11).await, first, "it is let in");
    until("it lies in its queue", async || house.rows("jobs").await == 0).await;
    raise();
    house.jobs.resume("mortal units").await.unwrap();
    place.until_dead(1).await;
    assert_eq!(reason().await.as_deref(), Some("another job of its unique key waits or runs"));
    until("the other is done", async || house.effects().await == [1, 11]).await;
    until("the key is free", async || house.rows("jobs_unique").await == 0).await;

    raise();
    until("it runs again", async || house.effects().await == [1, 11, 1]).await;
    place.until_dead(1).await;
    assert_eq!(reason().await.as_deref(), Some("no"));
    assert_eq!(house.rows("jobs_unique").await, 0);
    running.stop().await;
}

#[tokio::test]
async fn a_job_whose_kind_nobody_knows_dies_and_frees_its_key() {
    for house in houses() {
        let place = Place { house, redis: None };
        let (running, _runs) = place.start();
        let jobs = &place.house.jobs;
        jobs.pause("mortals").await.unwrap();
        place.add(1).await;
        let rename = |tx: &mut Tx| tx.execute("UPDATE jobs SET kind = 'of before'", &[]);
        place.house.write(rename).await;
        jobs.resume("mortals").await.unwrap();
        place.until_dead(1).await;
        assert_eq!(place.house.rows("jobs_unique").await, 0, "{}", place.name());
        running.stop().await;
    }
}
