//! Jobs that work on the database: exactly once, in order, each for itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use tokio::sync::mpsc;
use weir_db::{Error, params};
use weir_jobs::{Claimed, Job, Outcome, Prepared, Registry, Set};

use crate::house::{Call, House, Note, houses, numbers, soon, until, write_effect};

fn noting() -> Registry {
    let mut registry = Registry::new();
    registry.simple_unit::<Note, _>(|tx, jobs| {
        jobs.iter().try_for_each(|job| write_effect(tx, job.job.number))?;
        Ok(vec![Outcome::Done; jobs.len()])
    });
    registry
}

async fn enqueue(house: &House, notes: Vec<Note>) {
    let jobs = house.jobs.clone();
    house.write(move |tx| jobs.enqueue_many(tx, &notes)).await;
}

#[tokio::test]
async fn a_lane_that_is_deeper_than_what_is_read_at_once_is_worked_whole() {
    for house in houses() {
        // Two transactions: the first 50,000 rows end amid the second.
        for part in 0..2 {
            let notes = (0..30_000).map(|number| Note::new(0, part * 30_000 + number));
            enqueue(&house, notes.collect()).await;
        }
        let house = house.reopened();
        let mut registry = Registry::new();
        registry.simple_unit::<Note, _>(|_, jobs| Ok(vec![Outcome::Done; jobs.len()]));
        let running = house.start(registry);
        until("the last of them", async || house.rows("jobs").await == 0).await;
        running.stop().await;
    }
}

#[test]
fn a_unit_takes_effect_exactly_once_however_often_the_process_is_killed() {
    const COUNT: i64 = 1_500;
    for house in houses() {
        let process =
            || tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = process().unwrap();
        let notes = numbers(COUNT).into_iter().map(|number| Note::new(number % 7, number));
        runtime.block_on(enqueue(&house, notes.collect()));
        drop(runtime);
        let mut house = house;
        for kill in 1..4 {
            let runtime = process().unwrap();
            let running = {
                let _inside = runtime.enter();
                house.start(noting())
            };
            runtime.block_on(until("a part of the effects", async || {
                house.rows("effects").await >= kill * COUNT / 5
            }));
            // Whatever runs at this moment is cut off; nobody says goodbye.
            runtime.shutdown_background();
            drop(running);
            house = house.reopened();
        }
        let runtime = process().unwrap();
        runtime.block_on(async {
            let running = house.start(noting());
            until("the rest", async || house.rows("jobs").await == 0).await;
            running.stop().await;
            let mut effects = house.effects().await;
            effects.sort_unstable();
            assert_eq!(effects, numbers(COUNT), "{}", house.fixture.name);
        });
    }
}

#[tokio::test]
async fn a_transaction_that_rolls_back_leaves_no_job() {
    for house in houses() {
        let jobs = house.jobs.clone();
        let failed: Result<(), Error> = house
            .db
            .write(weir_db::Class::Interactive, move |tx| {
                jobs.enqueue(tx, &Note::new("lane", 1))?;
                jobs.enqueue_at(tx, weir_base::Timestamp::from_ms(i64::MAX), &Note::new("", 2))?;
                Err(Error::Busy)
            })
            .await;
        assert!(failed.is_err());
        assert_eq!(house.rows("jobs").await + house.rows("jobs_later").await, 0);
        enqueue(&house, vec![Note::new("lane", 3)]).await;
        let running = house.start(noting());
        until("the other job", async || house.rows("effects").await == 1).await;
        running.stop().await;
        assert_eq!(house.effects().await, [3]);
        assert_eq!(house.jobs.queues()[0].depth, 0);
    }
}

#[tokio::test]
async fn jobs_of_one_lane_run_in_order_of_id() {
    for house in houses() {
        let notes = numbers(600).into_iter().map(|number| Note::new(number % 5, number));
        enqueue(&house, notes.collect()).await;
        let running = house.start(noting());
        until("all effects", async || house.rows("jobs").await == 0).await;
        running.stop().await;
        let effects = house.effects().await;
        for lane in 0..5 {
            let of_lane: Vec<i64> =
                effects.iter().copied().filter(|number| number % 5 == lane).collect();
            assert_eq!(of_lane.len(), 120);
            assert!(of_lane.is_sorted(), "{}: {of_lane:?}", house.fixture.name);
        }
    }
}

#[tokio::test]
async fn one_bad_job_of_a_batch_harms_only_itself() {
    for house in houses() {
        let notes = numbers(40).into_iter().map(|number| Note::new(number % 4, number));
        enqueue(&house, notes.collect()).await;
        let mut registry = Registry::new();
        registry.simple_unit::<Note, _>(|tx, jobs| {
            for job in jobs {
                write_effect(tx, job.job.number)?;
                match job.job.number {
                    7 => panic!("seven is too much"),
                    8 => drop(tx.execute("INSERT INTO nowhere VALUES (?1)", params![8])?),
                    _ => {}
                }
            }
            Ok(vec![Outcome::Done; jobs.len()])
        });
        let running = house.start(registry);
        until("the queue is empty", async || house.rows("jobs").await == 0).await;
        running.stop().await;
        let mut effects = house.effects().await;
        effects.sort_unstable();
        let good: Vec<i64> =
            numbers(40).into_iter().filter(|number| ![7, 8].contains(number)).collect();
        assert_eq!(effects, good, "{}", house.fixture.name);
        let retries = house.jobs.list(Set::Retries, None, 10).await.unwrap();
        let mut reasons: Vec<_> =
            retries.into_iter().map(|entry| (entry.payload, entry.reason.unwrap())).collect();
        reasons.sort_unstable();
        assert_eq!(reasons.len(), 2);
        assert!(reasons[0].0.contains(":8") && reasons[0].1.contains("nowhere"), "{reasons:?}");
        assert!(reasons[1].0.contains(":7") && reasons[1].1.contains("seven is too much"));
    }
}

#[tokio::test]
async fn a_job_whose_statement_always_takes_too_long_has_failed_and_holds_up_nobody() {
    for house in houses() {
        let notes = numbers(10).into_iter().map(|number| Note::new(number % 2, number));
        enqueue(&house, notes.collect()).await;
        let mut registry = Registry::new();
        registry.simple_unit::<Note, _>(|tx, jobs| {
            for job in jobs {
                write_effect(tx, job.job.number)?;
                if job.job.number == 7 {
                    return Err(Error::Slow("UPDATE seven".into()));
                }
            }
            Ok(vec![Outcome::Done; jobs.len()])
        });
        let running = house.start(registry);
        until("the queue is empty", async || house.rows("jobs").await == 0).await;
        running.stop().await;
        let mut effects = house.effects().await;
        effects.sort_unstable();
        let good: Vec<i64> = numbers(10).into_iter().filter(|number| *number != 7).collect();
        assert_eq!(effects, good, "{}", house.fixture.name);
        let retries = house.jobs.list(Set::Retries, None, 10).await.unwrap();
        let reasons: Vec<_> = retries.into_iter().map(|entry| entry.reason.unwrap()).collect();
        assert!(matches!(&*reasons, [one] if one.contains("UPDATE seven")), "{reasons:?}");
    }
}

#[tokio::test]
async fn what_is_prepared_runs_and_what_is_not_ends_as_it_says() {
    for house in houses() {
        enqueue(&house, numbers(30).into_iter().map(|it| Note::new("", it)).collect()).await;
        let mut registry = Registry::new();
        registry.unit(
            async |jobs: Vec<weir_jobs::Claimed<Note>>| {
                let one = |job: weir_jobs::Claimed<Note>| match job.job.number {
                    3 => Prepared::Not(Outcome::Discard("not wanted".into())),
                    4 => Prepared::Not(Outcome::Dead("hopeless".into())),
                    5 => panic!("cannot prepare five"),
                    number => Prepared::Run(number * 10),
                };
                jobs.into_iter().map(one).collect()
            },
            |tx, items: &[i64]| {
                items.iter().try_for_each(|item| write_effect(tx, *item))?;
                let outcome = |item: &i64| match item {
                    60 => Outcome::Retry { reason: "later".into(), after_ms: Some(5_000) },
                    _ => Outcome::Done,
                };
                Ok(items.iter().map(outcome).collect())
            },
        );
        let running = house.start(registry);
        until("the queue is empty", async || house.rows("jobs").await == 0).await;
        running.stop().await;
        let expected: Vec<i64> =
            (0..30).filter(|it| ![3, 4, 5].contains(it)).map(|it| it * 10).collect();
        assert_eq!(house.effects().await, expected, "{}", house.fixture.name);
        let dead = house.jobs.list(Set::Dead, None, 10).await.unwrap();
        assert_eq!(dead.len(), 1);
        assert_eq!(dead[0].reason.as_deref(), Some("hopeless"));
        let retries = house.jobs.list(Set::Retries, None, 10).await.unwrap();
        assert_eq!(retries.len(), 2);
        assert_eq!(retries[0].at, Some(house.clock.now().plus_ms(5_000)));
        assert!(retries[1].reason.as_deref().unwrap().contains("cannot prepare five"));
    }
}

#[tokio::test]
async fn the_jobs_a_unit_causes_commit_with_it() {
    for house in houses() {
        enqueue(&house, vec![Note::new("", 1)]).await;
        let (jobs, tries) = (house.jobs.clone(), Arc::new(AtomicI64::new(0)));
        let counted = tries.clone();
        let mut registry = Registry::new();
        registry.simple_unit::<Note, _>(move |tx, notes| {
            let number = notes[0].job.number;
            if number < 5 {
                jobs.enqueue(tx, &Note::new("", number + 1))?;
            }
            write_effect(tx, number)?;
            // Every other run fails after it did its work.
            if counted.fetch_add(1, Ordering::Relaxed) % 2 == 0 {
                return Err(Error::Rows(0));
            }
            Ok(vec![Outcome::Done; notes.len()])
        });
        let running = house.start(registry);
        until("five effects", async || {
            house.advance(60_000);
            house.rows("effects").await == 5
        })
        .await;
        running.stop().await;
        assert_eq!(house.effects().await, [1, 2, 3, 4, 5], "{}", house.fixture.name);
        assert_eq!(house.rows("jobs").await + house.rows("jobs_later").await, 0);
    }
}

#[tokio::test]
async fn a_job_that_is_cancelled_while_it_is_prepared_does_not_run() {
    for house in houses() {
        let jobs = house.jobs.clone();
        let ids = house
            .write(move |tx| {
                let note = |number| Note::new("lane", number);
                (0..3).map(|number| jobs.enqueue(tx, &note(number))).collect::<Result<Vec<_>, _>>()
            })
            .await;
        let (started, mut is_preparing) = mpsc::channel(1);
        let gate = Arc::new(tokio::sync::Semaphore::new(0));
        let mut registry = Registry::new();
        let behind = gate.clone();
        registry.unit(
            move |jobs: Vec<weir_jobs::Claimed<Note>>| {
                let (started, gate) = (started.clone(), behind.clone());
                async move {
                    let _ = started.send(()).await;
                    let _open = gate.acquire().await;
                    jobs.into_iter().map(|job| Prepared::Run(job.job.number)).collect()
                }
            },
            |tx, items: &[i64]| {
                items.iter().try_for_each(|item| write_effect(tx, *item))?;
                Ok(vec![Outcome::Done; items.len()])
            },
        );
        let running = house.start(registry);
        soon(is_preparing.recv()).await;
        let (jobs, id) = (house.jobs.clone(), ids[1]);
        assert!(house.write(move |tx| jobs.cancel(tx, id)).await);
        gate.add_permits(1_000);
        until("the queue is empty", async || house.rows("jobs").await == 0).await;
        drop(is_preparing);
        running.stop().await;
        assert_eq!(house.effects().await, [0, 2], "{}", house.fixture.name);
        assert_eq!(house.jobs.queues()[0].depth, 0);
    }
}

#[tokio::test]
async fn jobs_of_two_kinds_in_one_lane_keep_their_order() {
    for house in houses() {
        let jobs = house.jobs.clone();
        house
            .write(move |tx| {
                for number in 0..60 {
                    if number % 3 == 0 {
                        jobs.enqueue(tx, &Other(number))?;
                    } else {
                        jobs.enqueue(tx, &Note::new("lane", number))?;
                    }
                }
                Ok(())
            })
            .await;
        let mut registry = noting();
        registry.simple_unit::<Other, _>(|tx, jobs| {
            jobs.iter().try_for_each(|job| write_effect(tx, job.job.0))?;
            Ok(vec![Outcome::Done; jobs.len()])
        });
        let running = house.start(registry);
        until("the queue is empty", async || house.rows("jobs").await == 0).await;
        running.stop().await;
        assert_eq!(house.effects().await, numbers(60), "{}", house.fixture.name);
    }
}

/// Another kind of the notes' queue.
#[derive(serde::Serialize, serde::Deserialize)]
struct Other(i64);

impl weir_jobs::Job for Other {
    const KIND: &'static str = "other";
    const QUEUE: weir_jobs::Queue = <Note as weir_jobs::Job>::QUEUE;

    fn lane(&self) -> std::borrow::Cow<'_, str> {
        "lane".into()
    }
}

#[tokio::test]
async fn a_queue_holds_either_units_or_tasks() {
    let mut registry = noting();
    registry.task(async |_: weir_jobs::Claimed<InNotes>| Ok(()));
    let house = houses().remove(0);
    let refused = house.jobs.start(registry, Default::default()).unwrap_err();
    assert_eq!(refused, weir_jobs::StartError::QueueDiffers("notes".into()));
    let mut registry = Registry::new();
    registry.task(async |_: weir_jobs::Claimed<Call>| Ok(()));
    registry.task(async |_: weir_jobs::Claimed<Call>| Ok(()));
    let refused = house.jobs.start(registry, Default::default()).unwrap_err();
    assert_eq!(refused, weir_jobs::StartError::Twice("call".into()));
}

#[derive(serde::Serialize, serde::Deserialize)]
struct InNotes;

impl weir_jobs::Job for InNotes {
    const KIND: &'static str = "in_notes";
    const QUEUE: weir_jobs::Queue = <Note as weir_jobs::Job>::QUEUE;
}

#[tokio::test]
async fn a_queue_that_steps_back_has_one_batch_on_its_way_and_goes_on() {
    for house in houses() {
        // Each in a lane of its own: of one lane nothing is read while something of it is prepared.
        let notes = |from: i64| (from..from + 500).map(|number| Note::new(number, number));
        enqueue(&house, notes(0).collect()).await;
        let (pressed, most) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicI64::new(0)));
        let (asked, seen, now) = (pressed.clone(), most.clone(), Arc::new(AtomicI64::new(0)));
        let waits = pressed.clone();
        let mut registry = Registry::new();
        registry.step_back(Note::QUEUE, move || asked.load(Ordering::Relaxed));
        registry.unit(
            move |jobs: Vec<Claimed<Note>>| {
                let (waits, seen, now) = (waits.clone(), seen.clone(), now.clone());
                async move {
                    seen.fetch_max(now.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
                    for _ in 0..100 {
                        tokio::task::yield_now().await;
                    }
                    // Then until there is another beside it.
                    while !waits.load(Ordering::Relaxed) && seen.load(Ordering::Relaxed) < 2 {
                        tokio::task::yield_now().await;
                    }
                    now.fetch_sub(1, Ordering::Relaxed);
                    jobs.into_iter().map(|_| Prepared::Run(())).collect()
                }
            },
            |_, items: &[()]| Ok(vec![Outcome::Done; items.len()]),
        );
        let running = house.start(registry);
        until("the end of all", async || house.rows("jobs").await == 0).await;
        assert_eq!(most.load(Ordering::Relaxed), 1, "{}", house.fixture.name);
        pressed.store(false, Ordering::Relaxed);
        let more = AtomicI64::new(500);
        until("two at once", async || {
            enqueue(&house, notes(more.fetch_add(500, Ordering::Relaxed)).collect()).await;
            most.load(Ordering::Relaxed) == 2
        })
        .await;
        running.stop().await;
    }
}
