//! Long tasks that go on where they were, and code around all jobs.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use weir_db::{Class, params};
use weir_jobs::{Claimed, Delay, Error, Failure, Job, Last, Outcome, Queue, Registry, Retry};

use crate::house::{Call, Note, houses, soon, until, write_effect};

/// Counts to ten.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
struct Long;

impl Job for Long {
    const KIND: &'static str = "long";
    const QUEUE: Queue = Queue::new("long", Class::Outbound);
    const RETRY: Retry = Retry { attempts_max: 9, delay: Delay::FixedMs(1_000), last: Last::Dead };
}

/// Saves where it is after each step; fails after the fourth, and waits to be cut off after the
/// seventh, once each.
fn counting(steps: Arc<Mutex<Vec<i64>>>, told: mpsc::UnboundedSender<i64>) -> Registry {
    let mut registry = Registry::new();
    registry.task(move |claimed: Claimed<Long>| {
        let (steps, told) = (steps.clone(), told.clone());
        async move {
            let begin: i64 = claimed.cursor().await?.unwrap_or(0);
            for step in begin..10 {
                steps.lock().push(step);
                claimed.save_cursor(&(step + 1)).await?;
                let _ = told.send(step);
                match step {
                    4 => return Err(Failure::retry("tired")),
                    7 => std::future::pending().await,
                    _ => {}
                }
            }
            Ok(())
        }
    });
    registry
}

#[tokio::test]
async fn a_long_task_goes_on_where_it_was_after_a_failure_and_a_stop() {
    for house in houses() {
        let steps: Arc<Mutex<Vec<i64>>> = Arc::default();
        let (told, mut at) = mpsc::unbounded_channel();
        let running = house.start(counting(steps.clone(), told.clone()));
        let jobs = house.jobs.clone();
        house.write(move |tx| jobs.enqueue(tx, &Long)).await;
        while soon(at.recv()).await != Some(4) {}
        until("its wait", async || house.rows("jobs_later").await == 1).await;
        house.advance(1_000);
        while soon(at.recv()).await != Some(7) {}
        running.stop_within(Duration::from_millis(1)).await;
        assert_eq!(house.rows("jobs_cursors").await, 1, "{}", house.fixture.name);

        let house = house.reopened();
        let running = house.start(counting(steps.clone(), told));
        while soon(at.recv()).await != Some(9) {}
        until("its end", async || house.rows("jobs").await == 0).await;
        running.stop().await;
        assert_eq!(*steps.lock(), (0..10).collect::<Vec<_>>());
        assert_eq!(house.rows("jobs_cursors").await, 0, "it goes with its job");
    }
}

#[tokio::test]
async fn a_cursor_that_is_too_large_or_does_not_parse_is_an_error() {
    for house in houses() {
        let (told, mut errors) = mpsc::unbounded_channel();
        let mut registry = Registry::new();
        registry.task(move |claimed: Claimed<Call>| {
            let told = told.clone();
            async move {
                let _ = told.send(claimed.save_cursor(&"x".repeat(70_000)).await);
                let _ = told.send(claimed.save_cursor(&"text").await);
                let _ = told.send(claimed.cursor::<i64>().await.map(|_| ()));
                Ok(())
            }
        });
        let running = house.start(registry);
        let jobs = house.jobs.clone();
        house.write(move |tx| jobs.enqueue(tx, &Call { number: 1 })).await;
        assert!(matches!(soon(errors.recv()).await, Some(Err(Error::Cursor(_)))));
        assert!(matches!(soon(errors.recv()).await, Some(Ok(()))));
        assert!(matches!(soon(errors.recv()).await, Some(Err(Error::Cursor(_)))));
        running.stop().await;
    }
}

#[tokio::test]
async fn hooks_change_refuse_and_stand_around_jobs() {
    for house in houses() {
        house.jobs.on_enqueue(|job| {
            if job.payload.contains("666") {
                return Err("not that one".into());
            }
            if job.kind == "call" {
                *job.payload = job.payload.replace("1", "2");
            }
            Ok(())
        });
        let order: Arc<Mutex<Vec<String>>> = Arc::default();
        let mut registry = Registry::new();
        for name in ["outer", "inner"] {
            let order = order.clone();
            registry.around_tasks(move |run, inside| {
                order.lock().push(format!("{name} {} {}", run.kind, run.attempt));
                let order = order.clone();
                async move {
                    let outcome = inside.await;
                    order.lock().push(format!("{name} after"));
                    outcome
                }
                .boxed()
            });
        }
        let for_task = order.clone();
        registry.task(move |claimed: Claimed<Call>| {
            for_task.lock().push(claimed.job.number.to_string());
            async { Ok(()) }
        });
        let batches = Arc::new(AtomicI64::new(0));
        let for_hook = batches.clone();
        registry.around_units(move |tx, run, inside| {
            for_hook.fetch_add(1, Ordering::SeqCst);
            write_effect(tx, -(run.jobs as i64))?;
            inside(tx)
        });
        registry.simple_unit::<Note, _>(|tx, notes| {
            notes.iter().try_for_each(|note| write_effect(tx, note.job.number))?;
            Ok(vec![Outcome::Done; notes.len()])
        });
        let running = house.start(registry);
        let jobs = house.jobs.clone();
        house
            .write(move |tx| {
                let refused = jobs.enqueue(tx, &Call { number: 666 }).unwrap_err();
                assert!(refused.to_string().contains("not that one"));
                jobs.enqueue(tx, &Call { number: 1 })?;
                jobs.enqueue(tx, &Note::new("", 5))
            })
            .await;
        until("the ends", async || house.rows("jobs").await == 0).await;
        running.stop().await;
        assert_eq!(
            *order.lock(),
            ["outer call 1", "inner call 1", "2", "inner after", "outer after"],
            "{}",
            house.fixture.name
        );
        assert_eq!(house.effects().await, [-1, 5]);
        assert_eq!(batches.load(Ordering::SeqCst), 1);
    }
}

#[tokio::test]
async fn a_clock_that_jumps_hours_loses_no_job_and_stops_none() {
    const HOUR_MS: i64 = 3_600_000;
    for house in houses() {
        let (told, mut runs) = mpsc::unbounded_channel();
        let mut registry = Registry::new();
        registry.periodic("hourly", HOUR_MS, || Note::new("", 60));
        registry.simple_unit::<Note, _>(|tx, notes| {
            notes.iter().try_for_each(|note| write_effect(tx, note.job.number))?;
            Ok(vec![Outcome::Done; notes.len()])
        });
        registry.task(move |claimed: Claimed<Call>| {
            let _ = told.send(claimed.job.number);
            async { Ok(()) }
        });
        let running = house.start(registry);
        let call = async |in_ms: i64, number: i64| {
            let (jobs, at) = (house.jobs.clone(), house.clock.now().plus_ms(in_ms));
            house.write(move |tx| jobs.enqueue_at(tx, at, &Call { number })).await
        };
        until("the first round", async || house.rows("effects").await == 1).await;
        call(HOUR_MS, 1).await;
        // Forwards: what is due by the new time runs, missed rounds are one.
        house.advance(10 * HOUR_MS);
        assert_eq!(soon(runs.recv()).await, Some(1), "{}", house.fixture.name);
        until("one round", async || house.rows("effects").await == 2).await;
        // Backwards: what is enqueued now runs now, though its id may be lower.
        house.advance(-9 * HOUR_MS);
        call(0, 2).await;
        assert_eq!(soon(runs.recv()).await, Some(2));
        call(HOUR_MS, 3).await;
        house.advance(HOUR_MS);
        assert_eq!(soon(runs.recv()).await, Some(3));
        until("the rhythm by the new time", async || house.rows("effects").await >= 3).await;
        until("no row is left", async || {
            house.rows("jobs").await + house.rows("jobs_later").await == 0
        })
        .await;
        running.stop().await;
    }
}

#[tokio::test]
async fn a_task_that_stops_with_the_process_is_told_so() {
    for house in houses() {
        let (told, mut seen) = mpsc::unbounded_channel();
        let mut registry = Registry::new();
        registry.task(move |claimed: Claimed<Call>| {
            let told = told.clone();
            async move {
                let _ = told.send(claimed.is_stopping());
                while !claimed.is_stopping() {
                    tokio::task::yield_now().await;
                }
                let _ = told.send(true);
                Ok(())
            }
        });
        let jobs = house.jobs.clone();
        house.write(move |tx| jobs.enqueue(tx, &Call { number: 1 })).await;
        let running = house.start(registry);
        assert_eq!(soon(seen.recv()).await, Some(false), "{}", house.fixture.name);
        running.stop().await;
        assert_eq!(seen.recv().await, Some(true));
        let sql = "SELECT COUNT(*) FROM jobs WHERE id > ?1";
        let left: i64 =
            house.write(move |tx| tx.query_one(sql, params![0], |row| row.get(0))).await;
        assert_eq!(left, 0);
    }
}
