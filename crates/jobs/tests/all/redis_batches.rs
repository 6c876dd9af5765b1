//! Batches whose members are worked on Redis, and what is changed there by hand.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio_util::sync::CancellationToken;
use weir_base::{Id, Random};
use weir_db::{Class, Tx};
use weir_jobs::sidekiq::Options;
use weir_jobs::{
    Action, BatchStats, Claimed, Failure, Job, Jobs, Outcome, Queue, Registry, Retry, Search, Set,
};

use crate::house::{Call, House, Note, houses, numbers, soon, until, write_effect};
use crate::redis_server::RedisServer;

/// What batches call back.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Told(String);

impl Job for Told {
    const KIND: &'static str = "told";
    const QUEUE: Queue = Queue::new("told", Class::Outbound);
    const RETRY: Retry = Retry::NEVER;
}

/// Run by somebody else.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Away(i64);

impl Job for Away {
    const KIND: &'static str = "away";
    const QUEUE: Queue = Queue::new("away", Class::Outbound);
}

fn told(text: &str) -> Told {
    Told(text.to_owned())
}

/// Calls of odd numbers die at their first attempt, those above 100,000 never end; what is called
/// back is told.
fn registry() -> (Registry, UnboundedReceiver<String>) {
    let (tell, calls) = mpsc::unbounded_channel();
    let mut registry = Registry::new();
    registry.task(async |call: Claimed<Call>| match call.job.number {
        100_001.. => std::future::pending().await,
        odd if odd % 2 == 1 => Err(Failure::Dead("odd".into())),
        _ => Ok(()),
    });
    registry.simple_unit::<Note, _>(|tx, notes| {
        let mut outcomes = Vec::new();
        for note in notes {
            outcomes.push(match note.job.lane.as_str() {
                "dead" => Outcome::Dead("no".into()),
                _ => Outcome::Done,
            });
            write_effect(tx, note.job.number)?;
        }
        Ok(outcomes)
    });
    registry.task(move |claimed: Claimed<Told>| {
        let _ = tell.send(claimed.job.0);
        async { Ok(()) }
    });
    registry.elsewhere::<Away>();
    (registry, calls)
}

async fn batch_of(house: &House, calls: Vec<i64>, notes: Vec<Note>) -> Id {
    let jobs = house.jobs.clone();
    house
        .write(move |tx| {
            jobs.batch(tx, "batch", |batch| {
                batch.on_complete(&told("complete"))?;
                batch.on_success(&told("success"))?;
                batch.on_death(&told("death"))?;
                let calls: Vec<Call> =
                    calls.iter().map(|number| Call { number: *number }).collect();
                batch.add_many(&calls)?;
                batch.add_many(&notes)
            })
        })
        .await
}

async fn stats(house: &House, id: Id) -> BatchStats {
    house.jobs.batch_stats(id).await.unwrap().unwrap()
}

async fn some(calls: &mut UnboundedReceiver<String>, count: usize) -> Vec<String> {
    let mut told = Vec::new();
    for _ in 0..count {
        told.extend(soon(calls.recv()).await);
    }
    told.sort_unstable();
    told
}

#[tokio::test]
async fn a_batch_on_redis_calls_back_once_when_all_are_done() {
    for house in houses() {
        let redis = RedisServer::start();
        let notes = numbers(300).into_iter().map(|number| Note::new("", number)).collect();
        let evens = numbers(300).into_iter().map(|number| 2 * number).collect();
        let id = batch_of(&house, evens, notes).await;
        let (registry, mut calls) = registry();
        let running = house.start_on(&redis, registry);
        assert_eq!(some(&mut calls, 2).await, ["complete", "success"], "{}", house.fixture.name);
        let after = stats(&house, id).await;
        assert_eq!((after.done, after.failed, after.pending()), (600, 0, 0));
        until("nothing is left of it", async || house.rows("jobs_members").await == 0).await;
        running.stop().await;
        assert!(calls.recv().await.is_none());
    }
}

#[tokio::test]
async fn a_member_that_died_on_redis_and_is_done_after_all_lets_its_batch_succeed() {
    for house in houses() {
        let redis = RedisServer::start();
        let id = batch_of(&house, vec![0, 1, 2, 3], vec![Note::new("dead", 4)]).await;
        let (with_deaths, mut calls) = registry();
        let running = house.start_on(&redis, with_deaths);
        assert_eq!(some(&mut calls, 2).await, ["complete", "death"], "{}", house.fixture.name);
        let failed = stats(&house, id).await;
        assert_eq!((failed.done, failed.failed, failed.pending()), (2, 3, 0));
        until("the dead", async || house.jobs.stats().await.unwrap().dead == 3).await;
        running.stop().await;
        let house = house.reopened();
        let (tell, mut calls) = mpsc::unbounded_channel();
        let mut registry = Registry::new();
        registry.task(async |_: Claimed<Call>| Ok(()));
        registry.simple_unit::<Note, _>(|_, notes| Ok(vec![Outcome::Done; notes.len()]));
        registry.task(move |claimed: Claimed<Told>| {
            let _ = tell.send(claimed.job.0);
            async { Ok(()) }
        });
        let running = house.start_on(&redis, registry);
        assert_eq!(house.jobs.retry_all(Set::Dead).await.unwrap(), 3);
        assert_eq!(soon(calls.recv()).await, Some("success".into()), "{}", house.fixture.name);
        running.stop().await;
        let after = stats(&house, id).await;
        assert_eq!((after.done, after.failed, after.pending()), (5, 0, 0));
    }
}

#[tokio::test]
async fn a_parent_on_redis_is_complete_after_its_children_and_what_they_call_back() {
    for house in houses() {
        let redis = RedisServer::start();
        let jobs = house.jobs.clone();
        let parent = house
            .write(move |tx| {
                jobs.batch(tx, "parent", |parent| {
                    parent.on_success(&told("parent"))?;
                    parent.nested("child", |child| {
                        child.on_success(&told("child"))?;
                        child.nested("grandchild", |grandchild| {
                            grandchild.on_complete(&told("grandchild"))?;
                            grandchild.add(&Call { number: 2 })
                        })?;
                        // Nobody here hears of its end: it counts as done when it was handed over.
                        child.add(&Away(7))?;
                        child.add(&Note::new("", 1))
                    })?;
                    Ok(())
                })
            })
            .await;
        let (registry, mut calls) = registry();
        let running = house.start_on(&redis, registry);
        let mut order = Vec::new();
        for _ in 0..3 {
            order.push(soon(calls.recv()).await.unwrap());
        }
        assert_eq!(order, ["grandchild", "child", "parent"], "{}", house.fixture.name);
        running.stop().await;
        let after = stats(&house, parent).await;
        assert_eq!((after.done, after.pending()), (2, 0));
        assert_eq!(redis.ask::<u64>(&["LLEN", "queue:away"]), 1);
    }
}

#[test]
fn members_on_redis_are_counted_once_however_often_the_process_is_killed() {
    const COUNT: i64 = 900;
    for house in houses() {
        let redis = RedisServer::start();
        let process =
            || tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = process().unwrap();
        let evens = numbers(COUNT).into_iter().map(|number| 2 * number).collect();
        let notes = numbers(COUNT).into_iter().map(|number| Note::new(number % 5, number));
        let id = runtime.block_on(batch_of(&house, evens, notes.collect()));
        drop(runtime);
        let mut house = house;
        for kill in 1..4 {
            let runtime = process().unwrap();
            let (registry, _calls) = registry();
            let running = {
                let _inside = runtime.enter();
                house.start_on(&redis, registry)
            };
            runtime.block_on(until("a part of the ends", async || {
                stats(&house, id).await.done as i64 >= kill * COUNT / 3
            }));
            // Whatever runs at this moment is cut off; nobody says goodbye.
            runtime.shutdown_background();
            drop(running);
            house = house.reopened();
        }
        let runtime = process().unwrap();
        runtime.block_on(async {
            let (registry, _calls) = registry();
            let running = house.start_on(&redis, registry);
            until("the rest", async || stats(&house, id).await.complete_at.is_some()).await;
            running.stop().await;
            let after = stats(&house, id).await;
            assert_eq!(after.done as i64, 2 * COUNT, "{}", house.fixture.name);
            assert_eq!((after.failed, after.pending()), (0, 0));
        });
    }
}

#[tokio::test]
async fn members_that_are_taken_away_by_hand_end_their_batch_and_free_their_keys() {
    for house in houses() {
        let redis = RedisServer::start();
        let _: u64 = redis.ask(&["SADD", "paused", "calls"]);
        let (registry, mut calls) = registry();
        let running = house.start_on(&redis, registry);
        let id = batch_of(&house, vec![2, 4, 6], vec![]).await;
        let jobs = house.jobs.clone();
        let now = house.clock.now();
        let unique = move |tx: &mut Tx| jobs.enqueue_unique(tx, "one", now, &Call { number: 8 });
        let first = house.write(unique.clone()).await.unwrap();
        until("they lie in Redis", async || redis.ask::<u64>(&["LLEN", "queue:calls"]) == 4).await;
        let list = house.jobs.list(Set::Ready, None, 10).await.unwrap();
        let members: Vec<Id> =
            list.iter().map(|entry| entry.id).filter(|member| *member != first).collect();
        assert!(house.jobs.cancel_now(members[0]).await.unwrap());
        assert!(house.jobs.delete(members[1]).await.unwrap());
        assert!(house.jobs.kill(members[2]).await.unwrap());
        assert!(!house.jobs.kill(members[2]).await.unwrap(), "it is dead already");
        assert_eq!(some(&mut calls, 2).await, ["complete", "death"], "{}", house.fixture.name);
        let after = stats(&house, id).await;
        assert_eq!((after.failed, after.pending()), (3, 0));
        assert_eq!(house.write(unique.clone()).await, None, "its key is taken");
        assert!(house.jobs.cancel_now(first).await.unwrap());
        assert!(house.write(unique).await.is_some(), "its key is free");
        assert_eq!(house.jobs.stats().await.unwrap().dead, 1);
        running.stop().await;
    }
}

#[tokio::test]
async fn thousands_in_redis_are_killed_retried_and_deleted_by_a_search() {
    let (house, redis) = (houses().remove(0), RedisServer::start());
    let _: u64 = redis.ask(&["SADD", "paused", "notes"]);
    let (registry, _calls) = registry();
    let running = house.start_on(&redis, registry);
    let notes: Vec<Note> =
        numbers(4_500).into_iter().map(|number| Note::new(number % 3, number)).collect();
    let jobs = house.jobs.clone();
    house.write(move |tx| jobs.enqueue_many(tx, &notes)).await;
    // The window of the relay; the others wait in the database.
    until("they lie in Redis", async || redis.ask::<u64>(&["LLEN", "queue:notes"]) == 2_000).await;
    let of_lane = |set, lane: &str| Search { lane: Some(lane.into()), ..Search::all(set) };
    let sweep = async |search: Search, action| {
        house.jobs.sweep(&search, action, |_| ()).await.unwrap().changed
    };
    assert_eq!(sweep(of_lane(Set::Ready, "0"), Action::Kill).await, 1_500);
    until("the dead", async || house.jobs.stats().await.unwrap().dead == 1_500).await;
    // Room that came was filled meanwhile, so what is where is not known.
    assert_eq!(sweep(of_lane(Set::Ready, "1"), Action::Delete).await, 1_500);
    let depth = async || house.jobs.stats().await.unwrap().queues.iter().map(|it| it.depth).sum();
    let left: u64 = depth().await;
    assert_eq!(left, 1_500);
    let raised = sweep(of_lane(Set::Dead, "0"), Action::Retry).await;
    assert_eq!(raised, 1_500);
    assert_eq!(house.jobs.stats().await.unwrap().dead, 0);
    house.jobs.resume("notes").await.unwrap();
    until("all that is left runs", async || house.effects().await.len() == 3_000).await;
    running.stop().await;
}

#[tokio::test]
async fn what_runs_on_redis_is_listed_and_cut_off_from_any_process() {
    let (house, redis) = (houses().remove(0), RedisServer::start());
    let (registry, _calls) = registry();
    let running = house.start_on(&redis, registry);
    let (here, there) = (100_001, 100_002);
    let jobs = house.jobs.clone();
    let enqueue = move |tx: &mut Tx| {
        let first = jobs.enqueue(tx, &Call { number: here })?;
        Ok((first, jobs.enqueue(tx, &Call { number: there })?))
    };
    let (here, there) = house.write(enqueue).await;
    until("both run", async || house.jobs.running().len() == 2).await;
    assert!(house.jobs.cancel_now(here).await.unwrap());
    until("one runs", async || house.jobs.running().len() == 1).await;

    // Another process on the same Redis, which serves none of its queues.
    let other = houses().remove(0);
    let jobs = Jobs::open(other.db.clone(), other.clock.clone(), Random::system()).unwrap();
    let stop = CancellationToken::new();
    let mut nothing = Registry::new();
    nothing.task(async |_: Claimed<Told>| Ok(()));
    let workers = jobs.start_on_redis(nothing, Options::new(redis.url()), stop.clone()).unwrap();
    until("it is seen there", async || {
        let all = jobs.running_everywhere().await.unwrap();
        all.iter().map(|job| (job.id, job.process.is_some())).eq([(there, true)])
    })
    .await;
    assert!(jobs.cancel_now(there).await.unwrap());
    until("none runs", async || house.jobs.running().is_empty()).await;
    stop.cancel();
    workers.finish(Duration::from_secs(60)).await;
    running.stop().await;
    assert_eq!(house.jobs.stats().await.unwrap().retries, 0);
}
