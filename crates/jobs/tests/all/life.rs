//! The life of a job around its run: schedules, keys, periodic jobs, pauses.

use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio::sync::watch;
use weir_base::Timestamp;
use weir_db::{Tx, params};
use weir_jobs::{Claimed, Failure, KindStats, Outcome, Prepared, Registry, Set};

use crate::house::{Call, House, News, houses, soon, until, write_effect};

/// Tells the number of each run.
fn telling() -> (Registry, UnboundedReceiver<i64>) {
    let (told, runs) = mpsc::unbounded_channel();
    let mut registry = Registry::new();
    registry.task(move |claimed: Claimed<Call>| {
        let _ = told.send(claimed.job.number);
        async { Ok(()) }
    });
    (registry, runs)
}

async fn call_at(house: &House, in_ms: i64, number: i64) -> weir_base::Id {
    let (jobs, at) = (house.jobs.clone(), house.clock.now().plus_ms(in_ms));
    house.write(move |tx| jobs.enqueue_at(tx, at, &Call { number })).await
}

async fn call_unique(house: &House, key: &'static str, in_ms: i64, number: i64) -> bool {
    let (jobs, at) = (house.jobs.clone(), house.clock.now().plus_ms(in_ms));
    let made = house.write(move |tx| jobs.enqueue_unique(tx, key, at, &Call { number })).await;
    made.is_some()
}

#[tokio::test]
async fn what_waits_for_its_time_is_taken_back_by_its_key_and_what_is_ready_is_not() {
    for house in houses() {
        for (key, in_ms, number) in [("soon", 0, 1), ("later", 5_000, 2), ("other", 5_000, 3)] {
            assert!(call_unique(&house, key, in_ms, number).await);
        }
        let (jobs, keys) = (house.jobs.clone(), ["soon", "later", "none"].map(String::from));
        let taken = house.write(move |tx| jobs.take_back(tx, &keys)).await;
        assert_eq!(taken, 1, "{}", house.fixture.name);
        assert!(!call_unique(&house, "soon", 0, 4).await, "it is there");
        assert!(call_unique(&house, "later", 5_000, 5).await, "its key is free");
        let (registry, mut runs) = telling();
        let running = house.start(registry);
        assert_eq!(soon(runs.recv()).await, Some(1));
        house.advance(5_000);
        assert_eq!(soon(runs.recv()).await, Some(3));
        assert_eq!(soon(runs.recv()).await, Some(5));
        running.stop().await;
    }
}

#[tokio::test]
async fn of_several_each_is_enqueued_whose_key_is_free_and_once() {
    for house in houses() {
        assert!(call_unique(&house, "taken", 5_000, 1).await);
        let jobs = house.jobs.clone();
        let enqueued = house
            .write(move |tx| {
                let calls = [("a", 2), ("taken", 3), ("b", 4), ("a", 5)];
                let calls = calls.map(|(key, number)| (key.to_owned(), Call { number }));
                jobs.enqueue_unique_each(tx, &calls)
            })
            .await;
        assert_eq!(enqueued, 2, "{}", house.fixture.name);
        assert!(!call_unique(&house, "b", 0, 6).await, "it is there");
        let (registry, mut runs) = telling();
        let running = house.start(registry);
        let mut ran = [soon(runs.recv()).await, soon(runs.recv()).await];
        ran.sort_unstable();
        assert!(matches!(ran, [Some(2 | 4), Some(4 | 5)]), "{ran:?}");
        assert!(runs.try_recv().is_err());
        running.stop().await;
        assert_eq!(house.rows("jobs").await, 0);
    }
}

#[tokio::test]
async fn scheduled_jobs_run_in_order_of_their_time_and_not_before() {
    for house in houses() {
        let (registry, mut runs) = telling();
        let running = house.start(registry);
        for (in_ms, number) in [(3_000, 3), (1_000, 1), (2_000, 2), (4_000, 4)] {
            call_at(&house, in_ms, number).await;
        }
        call_at(&house, 0, 0).await;
        for number in 0..4 {
            assert_eq!(soon(runs.recv()).await, Some(number), "{}", house.fixture.name);
            assert!(runs.try_recv().is_err());
            house.advance(1_000);
        }
        assert_eq!(soon(runs.recv()).await, Some(4));
        running.stop().await;
        assert_eq!(house.rows("jobs_later").await, 0);
    }
}

#[tokio::test]
async fn many_are_scheduled_at_once_and_what_is_past_is_ready_at_once() {
    for house in houses() {
        let (registry, mut runs) = telling();
        let running = house.start(registry);
        let (jobs, now) = (house.jobs.clone(), house.clock.now());
        let calls = |from: i64| (from..from + 250).map(|number| Call { number }).collect();
        let (later, at_once): (Vec<Call>, Vec<Call>) = (calls(1_000), calls(0));
        let write = move |tx: &mut Tx| {
            jobs.enqueue_many_at(tx, now.plus_ms(5_000), &later)?;
            jobs.enqueue_many_at(tx, now.plus_ms(-1), &at_once)
        };
        house.write(write).await;
        let mut ran: Vec<i64> = Vec::new();
        for _ in 0..250 {
            ran.push(soon(runs.recv()).await.unwrap());
        }
        ran.sort_unstable();
        assert_eq!(ran, (0..250).collect::<Vec<_>>(), "{}", house.fixture.name);
        assert_eq!(house.rows("jobs_later").await, 250);
        house.advance(4_999);
        assert!(runs.try_recv().is_err());
        house.advance(1);
        let mut ran: Vec<i64> = Vec::new();
        for _ in 0..250 {
            ran.push(soon(runs.recv()).await.unwrap());
        }
        ran.sort_unstable();
        assert_eq!(ran, (1_000..1_250).collect::<Vec<_>>());
        running.stop().await;
    }
}

#[tokio::test]
async fn what_was_scheduled_is_as_old_as_it_has_been_ready() {
    const DAY_MS: i64 = 24 * 3_600_000;
    for house in houses() {
        let (told, mut runs) = mpsc::unbounded_channel();
        let start = |house: &House| {
            let (told, mut registry) = (told.clone(), Registry::new());
            registry.task(move |claimed: Claimed<Call>| {
                let _ = told.send(claimed.enqueued_at);
                async { Ok(()) }
            });
            house.start(registry)
        };
        let age_ms = |house: &House| house.jobs.queues()[0].oldest_age_ms;
        let is_ready = async |house: &House| {
            until("it is ready", async || house.jobs.depth("calls") == 1).await;
        };
        let began = house.clock.now();
        let running = start(&house);
        house.jobs.pause("calls").await.unwrap();
        let id = call_at(&house, DAY_MS, 1).await;
        house.advance(DAY_MS);
        is_ready(&house).await;
        house.advance(5_000);
        assert_eq!(age_ms(&house), 5_000, "{}", house.fixture.name);
        running.stop().await;
        let house = house.reopened();
        let running = start(&house);
        is_ready(&house).await;
        house.advance(1_000);
        assert_eq!(age_ms(&house), 6_000, "{}", house.fixture.name);
        let shown = house.jobs.show(id).await.unwrap().unwrap();
        assert_eq!(shown.enqueued_at, began, "it was enqueued when it was");
        house.jobs.resume("calls").await.unwrap();
        assert_eq!(soon(runs.recv()).await, Some(began), "{}", house.fixture.name);
        running.stop().await;
    }
}

#[tokio::test]
async fn what_came_due_while_the_process_was_down_runs_at_the_start() {
    for house in houses() {
        call_at(&house, 3_600_000, 1).await;
        call_at(&house, 7_200_000, 2).await;
        let house = house.reopened();
        house.clock.advance(3_600_000);
        let (registry, mut runs) = telling();
        let running = house.start(registry);
        assert_eq!(soon(runs.recv()).await, Some(1), "{}", house.fixture.name);
        running.stop().await;
        assert_eq!(house.jobs.stats().await.unwrap().scheduled, 1);
    }
}

#[tokio::test]
async fn one_job_of_a_key_waits_at_a_time() {
    for house in houses() {
        assert!(call_unique(&house, "actor 5", 1_000, 1).await);
        assert!(!call_unique(&house, "actor 5", 0, 2).await);
        assert!(call_unique(&house, "actor 6", 0, 3).await);
        let (registry, mut runs) = telling();
        let running = house.start(registry);
        assert_eq!(soon(runs.recv()).await, Some(3), "{}", house.fixture.name);
        assert!(call_unique(&house, "actor 6", 0, 4).await, "it is free once the job started");
        assert_eq!(soon(runs.recv()).await, Some(4));
        assert!(!call_unique(&house, "actor 5", 0, 5).await, "the scheduled one still waits");
        house.advance(1_000);
        assert_eq!(soon(runs.recv()).await, Some(1));
        running.stop().await;
        assert_eq!(house.rows("jobs_unique").await, 0);
    }
}

#[tokio::test]
async fn what_happens_while_a_unit_is_prepared_enqueues_anew_under_its_key() {
    for house in houses() {
        let (told, mut prepared) = mpsc::unbounded_channel();
        let (go, gone) = watch::channel(false);
        let mut registry = Registry::new();
        let prepare = move |batch: Vec<Claimed<News>>| {
            let (told, mut gone) = (told.clone(), gone.clone());
            async move {
                batch.iter().for_each(|claimed| told.send(claimed.job.0).unwrap());
                let _ = gone.wait_for(|gone| *gone).await;
                batch.into_iter().map(|claimed| Prepared::Run(claimed.job.0)).collect()
            }
        };
        registry.unit(prepare, |tx: &mut Tx, batch: &[i64]| {
            batch.iter().try_for_each(|number| write_effect(tx, *number))?;
            Ok(vec![Outcome::Done; batch.len()])
        });
        let running = house.start(registry);
        let (jobs, now) = (house.jobs.clone(), house.clock.now());
        let news = |number| {
            let jobs = jobs.clone();
            move |tx: &mut Tx| jobs.enqueue_unique(tx, "poll", now, &News(number))
        };
        assert!(house.write(news(1)).await.is_some());
        assert_eq!(soon(prepared.recv()).await, Some(1), "{}", house.fixture.name);
        assert!(house.write(news(2)).await.is_some(), "what it reads is older");
        assert!(house.write(news(3)).await.is_none(), "the second waits");
        go.send(true).unwrap();
        until("both ran", async || house.effects().await == [1, 2]).await;
        running.stop().await;
        assert_eq!(house.rows("jobs_unique").await, 0);
    }
}

#[tokio::test]
async fn a_failed_job_gives_way_to_a_newer_one_of_its_key() {
    for house in houses() {
        assert!(call_unique(&house, "key", 0, 1).await);
        let (jobs, db) = (house.jobs.clone(), house.db.clone());
        let (told, mut runs) = mpsc::unbounded_channel();
        let mut registry = Registry::new();
        registry.task(move |claimed: Claimed<Call>| {
            let (jobs, db, told) = (jobs.clone(), db.clone(), told.clone());
            async move {
                let _ = told.send(claimed.job.number);
                if claimed.job.number == 1 {
                    let newer = move |tx: &mut weir_db::Tx| {
                        let at = Timestamp::from_ms(i64::MAX);
                        jobs.enqueue_unique(tx, "key", at, &Call { number: 2 })
                    };
                    let newer: Result<_, weir_db::Error> =
                        db.write(weir_db::Class::Interactive, newer).await;
                    assert!(newer?.is_some());
                }
                Err(Failure::retry("it failed"))
            }
        });
        let running = house.start(registry);
        assert_eq!(soon(runs.recv()).await, Some(1));
        until("the end of the first", async || house.rows("jobs").await == 0).await;
        running.stop().await;
        let stats = house.jobs.stats().await.unwrap();
        assert_eq!((stats.retries, stats.scheduled), (0, 1), "{}", house.fixture.name);
    }
}

#[tokio::test]
async fn a_cancelled_or_deleted_job_frees_its_key_and_never_runs() {
    for house in houses() {
        let scheduled = call_at(&house, 1_000, 1).await;
        let ready = call_at(&house, 0, 2).await;
        assert!(call_unique(&house, "key", 1_000, 3).await);
        let unique = house.jobs.list(Set::Scheduled, None, 10).await.unwrap()[1].id;
        let jobs = house.jobs.clone();
        assert!(house.write(move |tx| jobs.cancel(tx, scheduled)).await);
        assert!(house.jobs.delete(ready).await.unwrap());
        assert!(!house.jobs.delete(ready).await.unwrap());
        assert!(house.jobs.delete(unique).await.unwrap());
        assert!(call_unique(&house, "key", 0, 4).await);
        let (registry, mut runs) = telling();
        let running = house.start(registry);
        house.advance(1_000);
        assert_eq!(soon(runs.recv()).await, Some(4), "{}", house.fixture.name);
        running.stop().await;
        assert_eq!(runs.try_recv(), Err(mpsc::error::TryRecvError::Disconnected));
    }
}

#[tokio::test]
async fn periodic_jobs_run_once_an_interval_and_missed_ones_collapse() {
    const HOUR_MS: i64 = 3_600_000;
    for house in houses() {
        let with_period = || {
            let (mut registry, runs) = telling();
            registry.periodic("hourly", HOUR_MS, || Call { number: 60 });
            (registry, runs)
        };
        let (registry, mut runs) = with_period();
        let running = house.start(registry);
        assert_eq!(soon(runs.recv()).await, Some(60), "the first comes at once");
        for _ in 0..2 {
            until("the end of the last", async || house.rows("jobs").await == 0).await;
            house.advance(HOUR_MS);
            assert_eq!(soon(runs.recv()).await, Some(60), "{}", house.fixture.name);
        }
        running.stop().await;
        let house = house.reopened();
        house.clock.advance(HOUR_MS * 10 + HOUR_MS / 2);
        let (registry, mut runs) = with_period();
        let running = house.start(registry);
        assert_eq!(soon(runs.recv()).await, Some(60));
        until("the end of the last", async || house.rows("jobs").await == 0).await;
        house.advance(HOUR_MS / 2 - 1);
        call_at(&house, 0, 1).await;
        assert_eq!(soon(runs.recv()).await, Some(1), "ten missed runs were one");
        house.advance(1);
        assert_eq!(soon(runs.recv()).await, Some(60), "the old rhythm goes on");
        running.stop().await;
    }
}

#[tokio::test]
async fn a_paused_queue_stands_still_even_over_a_restart() {
    for house in houses() {
        call_at(&house, 0, 1).await;
        house.jobs.pause("calls").await.unwrap();
        assert!(house.jobs.pause("cals").await.is_err());
        let house = house.reopened();
        assert!(house.jobs.queues()[0].paused);
        let (mut registry, mut runs) = telling();
        let (told, mut others) = mpsc::unbounded_channel();
        registry.simple_unit::<crate::house::Note, _>(move |tx, notes| {
            let told = told.clone();
            tx.after_commit(move || {
                let _ = told.send(());
            });
            Ok(vec![weir_jobs::Outcome::Done; notes.len()])
        });
        let running = house.start(registry);
        let jobs = house.jobs.clone();
        house.write(move |tx| jobs.enqueue(tx, &crate::house::Note::new("", 1))).await;
        soon(others.recv()).await;
        assert!(runs.try_recv().is_err(), "another queue works, this one does not");
        house.jobs.resume("calls").await.unwrap();
        assert_eq!(soon(runs.recv()).await, Some(1), "{}", house.fixture.name);
        running.stop().await;
    }
}

#[tokio::test]
async fn a_payload_that_no_longer_parses_goes_to_the_dead_set() {
    for house in houses() {
        let id = call_at(&house, 0, 1).await;
        house
            .write(move |tx| {
                tx.execute("UPDATE jobs SET payload = ?1 WHERE id = ?2", params!["{\"no\":", id])
            })
            .await;
        call_at(&house, 0, 2).await;
        let (registry, mut runs) = telling();
        let running = house.start(registry);
        assert_eq!(soon(runs.recv()).await, Some(2), "{}", house.fixture.name);
        until("the end of the first", async || house.rows("jobs").await == 0).await;
        running.stop().await;
        let dead = house.jobs.show(id).await.unwrap().unwrap();
        assert_eq!(dead.set, Set::Dead);
        assert!(dead.reason.unwrap().contains("does not parse"));
    }
}

#[tokio::test]
async fn lists_go_on_after_an_entry() {
    for house in houses() {
        for number in 0..5 {
            call_at(&house, 1_000 - number, number).await;
            call_at(&house, 0, number).await;
        }
        for set in [Set::Ready, Set::Scheduled] {
            let all = house.jobs.list(set, None, 10).await.unwrap();
            assert_eq!(all.len(), 5);
            let rest = house.jobs.list(set, Some(all[1].clone()), 10).await.unwrap();
            assert_eq!(rest, all[2..], "{}", house.fixture.name);
        }
        assert_eq!(house.jobs.stats().await.unwrap().queues[0].depth, 5);
        // On PostgreSQL lanes are known where they are worked on.
        if house.fixture.name == "sqlite" {
            let lanes = house.jobs.lanes("calls", 3);
            assert_eq!((lanes.len(), lanes[0].depth, lanes[0].running), (1, 5, 0));
        }
    }
}

#[tokio::test]
async fn the_day_of_postponing_begins_when_a_job_is_ready() {
    const DAY_MS: i64 = 24 * 3_600 * 1_000;
    for house in houses() {
        call_at(&house, 7 * DAY_MS, 1).await;
        let mut registry = Registry::new();
        registry.task(async |_: Claimed<Call>| Err(Failure::postpone("no place", 60_000)));
        let running = house.start(registry);
        // It is put off twice within the day, and fails after it. Its retry has a day of its own.
        let steps = [(7 * DAY_MS, 1, 0), (DAY_MS - 1, 2, 0), (DAY_MS, 2, 1), (DAY_MS / 2, 3, 1)];
        for (by_ms, postponed, retried) in steps {
            house.advance(by_ms);
            until("its end", async || {
                let kinds = house.jobs.stats().await.unwrap().kinds;
                let of = |kind: &KindStats| (kind.postponed, kind.retried);
                kinds.first().map(of) == Some((postponed, retried))
            })
            .await;
        }
        running.stop().await;
    }
}
