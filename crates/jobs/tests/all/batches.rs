//! Batches: counted exactly once, called back once, nested.

use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::{self, UnboundedReceiver};
use weir_base::Id;
use weir_db::{Class, Tx};
use weir_jobs::{BatchStats, Claimed, Failure, Job, Outcome, Queue, Registry, Retry, Set};

use crate::house::{Call, House, Note, houses, numbers, soon, until, write_effect};

/// What batches call back.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Told(String);

impl Job for Told {
    const KIND: &'static str = "told";
    const QUEUE: Queue = Queue::new("told", Class::Outbound);
    const RETRY: Retry = Retry::NEVER;
}

fn told(text: &str) -> Told {
    Told(text.to_owned())
}

/// Calls of odd numbers die at their first attempt; what is called back is told.
fn registry() -> (Registry, UnboundedReceiver<String>) {
    let (tell, calls) = mpsc::unbounded_channel();
    let mut registry = Registry::new();
    registry.task(async |call: Claimed<Call>| match (call.job.number % 2, call.enqueued_at) {
        (1, _) => Err(Failure::Dead("odd".into())),
        _ => Ok(()),
    });
    registry.simple_unit::<Note, _>(|tx, notes| {
        notes.iter().try_for_each(|note| write_effect(tx, note.job.number))?;
        Ok(vec![Outcome::Done; notes.len()])
    });
    registry.task(move |claimed: Claimed<Told>| {
        let _ = tell.send(claimed.job.0);
        async { Ok(()) }
    });
    (registry, calls)
}

async fn batch_of(house: &House, label: &'static str, list: Vec<i64>) -> Id {
    let jobs = house.jobs.clone();
    house
        .write(move |tx| {
            jobs.batch(tx, label, |batch| {
                batch.on_complete(&told("complete"))?;
                batch.on_success(&told("success"))?;
                batch.on_death(&told("death"))?;
                let calls: Vec<Call> = list.iter().map(|number| Call { number: *number }).collect();
                batch.add_many(&calls)
            })
        })
        .await
}

async fn stats(house: &House, id: Id) -> BatchStats {
    house.jobs.batch_stats(id).await.unwrap().unwrap()
}

#[tokio::test]
async fn a_batch_calls_back_once_when_all_are_done() {
    for house in houses() {
        let evens = || numbers(600).into_iter().map(|number| number * 2).collect();
        let id = batch_of(&house, "evens", evens()).await;
        let before = stats(&house, id).await;
        assert_eq!((before.total, before.pending(), &*before.label), (600, 600, "evens"));
        assert_eq!(house.jobs.stats().await.unwrap().scheduled, 0, "callbacks are not scheduled");
        let (registry, mut calls) = registry();
        let running = house.start(registry);
        let mut both = [soon(calls.recv()).await, soon(calls.recv()).await];
        both.sort_unstable();
        assert_eq!(both, [Some("complete".into()), Some("success".into())]);
        until("their ends", async || house.rows("jobs").await == 0).await;
        running.stop().await;
        let after = stats(&house, id).await;
        assert_eq!((after.done, after.failed, after.pending()), (600, 0, 0));
        assert!(after.complete_at.is_some() && after.success_at.is_some());
        assert_eq!(after.death_at, None);
        assert!(calls.recv().await.is_none(), "{}", house.fixture.name);
        assert_eq!(house.rows("jobs_later").await, 0, "what is never called back is gone");
    }
}

#[tokio::test]
async fn what_a_batch_calls_back_cannot_be_made_ready_by_hand() {
    for house in houses() {
        let id = batch_of(&house, "one", vec![2]).await;
        let read = |tx: &mut Tx| tx.column("SELECT id FROM jobs_later WHERE state = 2", &[]);
        let callbacks: Vec<Id> =
            house.db.read::<_, weir_db::Error, _>(Class::Interactive, read).await.unwrap();
        assert_eq!(callbacks.len(), 3);
        for callback in callbacks {
            assert!(!house.jobs.retry(callback).await.unwrap(), "{}", house.fixture.name);
        }
        let (registry, mut calls) = registry();
        let running = house.start(registry);
        soon(calls.recv()).await;
        assert_eq!(stats(&house, id).await.pending(), 0, "it is called back when it is complete");
        running.stop().await;
    }
}

#[tokio::test]
async fn a_batch_that_failed_succeeds_when_its_dead_are_done_after_all() {
    for house in houses() {
        let id = batch_of(&house, "some", vec![0, 1, 2, 3]).await;
        let (with_deaths, mut calls) = registry();
        let running = house.start(with_deaths);
        let mut both = [soon(calls.recv()).await, soon(calls.recv()).await];
        both.sort_unstable();
        assert_eq!(both, [Some("complete".into()), Some("death".into())]);
        until("their ends", async || house.rows("jobs").await == 0).await;
        running.stop().await;
        let failed = stats(&house, id).await;
        assert_eq!((failed.done, failed.failed, failed.pending()), (2, 2, 0));
        assert_eq!(failed.success_at, None);

        let house = house.reopened();
        let (tell, mut calls) = mpsc::unbounded_channel();
        let mut registry = Registry::new();
        registry.task(async |_: Claimed<Call>| Ok(()));
        registry.task(move |claimed: Claimed<Told>| {
            let _ = tell.send(claimed.job.0);
            async { Ok(()) }
        });
        let running = house.start(registry);
        assert_eq!(house.jobs.retry_all(Set::Dead).await.unwrap(), 2);
        assert_eq!(soon(calls.recv()).await, Some("success".into()), "{}", house.fixture.name);
        running.stop().await;
        let after = stats(&house, id).await;
        assert_eq!((after.done, after.failed, after.pending()), (4, 0, 0));
        assert!(calls.recv().await.is_none());
    }
}

#[tokio::test]
async fn a_parent_is_complete_after_its_children_and_what_they_call_back() {
    for house in houses() {
        let jobs = house.jobs.clone();
        let parent = house
            .write(move |tx| {
                jobs.batch(tx, "parent", |parent| {
                    parent.on_success(&told("parent"))?;
                    parent.nested("empty", |empty| empty.on_success(&told("empty")))?;
                    parent.nested("child", |child| {
                        child.on_success(&told("child"))?;
                        child.nested("grandchild", |grandchild| {
                            grandchild.on_complete(&told("grandchild"))?;
                            grandchild.add(&Call { number: 2 })
                        })?;
                        child.add(&Note::new("", 1))
                    })?;
                    Ok(())
                })
            })
            .await;
        let (registry, mut calls) = registry();
        let running = house.start(registry);
        let mut order = Vec::new();
        for _ in 0..4 {
            order.push(soon(calls.recv()).await.unwrap());
        }
        running.stop().await;
        order.retain(|text| text != "empty");
        assert_eq!(order, ["grandchild", "child", "parent"], "{}", house.fixture.name);
        let after = stats(&house, parent).await;
        // Two batches and what they called back.
        assert_eq!((after.total, after.done, after.pending()), (4, 4, 0));
        assert_eq!(house.jobs.batches(10).await.unwrap().len(), 4);
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Grows(i64);

impl Job for Grows {
    const KIND: &'static str = "grows";
    const QUEUE: Queue = Queue::new("grows", Class::Inbound);
}

#[tokio::test]
async fn a_member_adds_members_and_a_complete_batch_takes_none() {
    for house in houses() {
        let jobs = house.jobs.clone();
        let id = house
            .write(move |tx| {
                jobs.batch(tx, "grows", |batch| {
                    batch.on_success(&told("grown"))?;
                    batch.add(&Grows(1))
                })
            })
            .await;
        let (mut registry, mut calls) = registry();
        let jobs = house.jobs.clone();
        registry.simple_unit::<Grows, _>(move |tx, members| {
            for member in members {
                write_effect(tx, member.job.0)?;
                let next = member.job.0 * 2;
                if next < 60 {
                    let batch = member.batch.unwrap();
                    assert!(jobs.add_to_batch(tx, batch, &[Grows(next), Grows(next + 1)])?);
                }
            }
            Ok(vec![Outcome::Done; members.len()])
        });
        let running = house.start(registry);
        assert_eq!(soon(calls.recv()).await, Some("grown".into()), "{}", house.fixture.name);
        running.stop().await;
        assert_eq!(house.rows("effects").await, 59);
        assert_eq!(stats(&house, id).await.done, 59);
        let jobs = house.jobs.clone();
        let late = house.write(move |tx| jobs.add_to_batch(tx, id, &[Grows(1)])).await;
        assert!(!late);
        let jobs = house.jobs.clone();
        let late = house.write(move |tx| jobs.batch_within(tx, id, "late", |_| Ok(()))).await;
        assert_eq!(late, None);
        assert_eq!(house.rows("jobs").await, 0);
    }
}

#[tokio::test]
async fn a_cancelled_member_ends_its_batch() {
    for house in houses() {
        let id = batch_of(&house, "one", vec![2]).await;
        let member = house.jobs.list(Set::Ready, None, 1).await.unwrap()[0].id;
        assert!(house.jobs.cancel_now(member).await.unwrap());
        let after = stats(&house, id).await;
        assert_eq!((after.failed, after.pending()), (1, 0), "{}", house.fixture.name);
        let (registry, mut calls) = registry();
        let running = house.start(registry);
        let mut both = [soon(calls.recv()).await, soon(calls.recv()).await];
        both.sort_unstable();
        assert_eq!(both, [Some("complete".into()), Some("death".into())]);
        running.stop().await;
    }
}

#[test]
fn members_are_counted_exactly_once_however_often_the_process_is_killed() {
    const COUNT: i64 = 900;
    for house in houses() {
        let process =
            || tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = process().unwrap();
        let jobs = house.jobs.clone();
        let fill = house.write(move |tx| {
            jobs.batch(tx, "killed", |batch| {
                batch.on_complete(&told("complete"))?;
                let calls = numbers(COUNT).into_iter().map(|number| Call { number: number * 2 });
                batch.add_many(&calls.collect::<Vec<_>>())?;
                let notes = numbers(COUNT).into_iter().map(|number| Note::new(number % 5, number));
                batch.add_many(&notes.collect::<Vec<_>>())
            })
        });
        let id = runtime.block_on(fill);
        drop(runtime);
        let mut house = house;
        for kill in 1..4 {
            let runtime = process().unwrap();
            let (registry, _calls) = registry();
            let running = {
                let _inside = runtime.enter();
                house.start(registry)
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
            let running = house.start(registry);
            until("the rest", async || stats(&house, id).await.complete_at.is_some()).await;
            running.stop().await;
            let after = stats(&house, id).await;
            assert_eq!(after.done as i64, 2 * COUNT, "{}", house.fixture.name);
            assert_eq!((after.failed, after.pending()), (0, 0));
        });
    }
}
