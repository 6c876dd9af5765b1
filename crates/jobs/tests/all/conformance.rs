//! What each backend must do, run on all of them: SQLite, PostgreSQL, Redis.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use weir_base::Id;
use weir_db::{Class, params};
use weir_jobs::{
    Claimed, Delay, Failure, Job, Outcome, Queue, Registry, Retry, Set, Stats, Unique,
};

use crate::house::{Place, Running, places, soon, until};

/// What a run of a job told.
type Runs = UnboundedReceiver<(i64, u32)>;

/// A task whose handler does as it says.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Deed {
    number: i64,
    does: Does,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
enum Does {
    Well,
    FailFirst,
    Fail,
    PutOffTwice,
    Discard,
    Die,
    Panic,
    Hang,
}

impl Job for Deed {
    const KIND: &'static str = "deed";
    const QUEUE: Queue = Queue::new("deeds", Class::Outbound);
    const RETRY: Retry = Retry { attempts_max: 2, delay: Delay::FixedMs(1_000), ..Retry::DEFAULT };
    const TIMEOUT_S: u64 = 1;
}

/// A unit that writes its number.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Entry {
    number: i64,
}

impl Job for Entry {
    const KIND: &'static str = "entry";
    const QUEUE: Queue = Queue::new("entries", Class::Inbound);
    const RETRY: Retry = Retry { delay: Delay::FixedMs(1_000), ..Retry::DEFAULT };
}

impl Place {
    /// With workers that tell what they ran.
    fn at_work(&self) -> (Running, Runs) {
        let (handlers, runs) = registry();
        (self.start(handlers), runs)
    }

    async fn add(&self, number: i64, does: Does) -> Id {
        let jobs = self.house.jobs.clone();
        self.house.write(move |tx| jobs.enqueue(tx, &Deed { number, does })).await
    }

    async fn stats(&self) -> Stats {
        self.house.jobs.stats().await.unwrap()
    }

    /// Waits until the sets hold so many: scheduled, retries, dead.
    async fn sets(&self, scheduled: u64, retries: u64, dead: u64) {
        let expected = (scheduled, retries, dead);
        let name = format!("{expected:?} in the sets of {}", self.name());
        until(&name, async || {
            let stats = self.stats().await;
            (stats.scheduled, stats.retries, stats.dead) == expected
        })
        .await;
    }

    /// Waits until nothing is ready or running.
    async fn empty(&self) {
        until(&format!("the end on {}", self.name()), async || {
            self.stats().await.queues.iter().all(|queue| queue.depth == 0)
        })
        .await;
    }
}

fn registry() -> (Registry, Runs) {
    let (told, runs) = mpsc::unbounded_channel();
    let mut registry = Registry::new();
    add_deeds(&mut registry, told);
    (registry, runs)
}

fn add_deeds(registry: &mut Registry, told: UnboundedSender<(i64, u32)>) {
    let runs = Arc::new(AtomicI64::new(0));
    registry.task(move |claimed: Claimed<Deed>| {
        let run = runs.fetch_add(1, Ordering::Relaxed);
        let _ = told.send((claimed.job.number, claimed.attempt));
        async move {
            match claimed.job.does {
                Does::PutOffTwice if run < 2 => Err(Failure::postpone("no place", 2_000)),
                Does::FailFirst if claimed.attempt > 1 => Ok(()),
                Does::Well => Ok(()),
                Does::Fail | Does::FailFirst | Does::PutOffTwice => {
                    Err(Failure::retry("it failed"))
                }
                Does::Discard => Err(Failure::Discard("not worth it".into())),
                Does::Die => Err(Failure::Dead("for good".into())),
                Does::Panic => panic!("it burnt"),
                Does::Hang => std::future::pending().await,
            }
        }
    });
}

#[tokio::test]
async fn what_ends_well_is_gone() {
    for place in places() {
        let (running, mut runs) = place.at_work();
        for number in 0..50 {
            place.add(number, Does::Well).await;
        }
        let mut seen = Vec::new();
        for _ in 0..50 {
            seen.extend(soon(runs.recv()).await);
        }
        seen.sort_unstable();
        assert_eq!(seen, (0..50).map(|number| (number, 1)).collect::<Vec<_>>(), "{}", place.name());
        place.empty().await;
        running.stop().await;
        place.sets(0, 0, 0).await;
        assert_eq!(place.stats().await.kinds[0].done, 50);
    }
}

#[tokio::test]
async fn what_fails_is_tried_again_at_its_time() {
    for place in places() {
        let (running, mut runs) = place.at_work();
        let id = place.add(1, Does::FailFirst).await;
        assert_eq!(soon(runs.recv()).await, Some((1, 1)), "{}", place.name());
        place.sets(0, 1, 0).await;
        let retry = place.house.jobs.show(id).await.unwrap().unwrap();
        assert_eq!((retry.id, retry.set, retry.failures), (id, Set::Retries, 1));
        assert_eq!(retry.at, Some(place.house.clock.now().plus_ms(1_000)));
        assert_eq!((retry.kind.as_str(), retry.queue.as_str()), ("deed", "deeds"));
        assert_eq!(retry.reason.as_deref(), Some("it failed"));
        assert!(runs.try_recv().is_err());
        place.house.advance(1_000);
        assert_eq!(soon(runs.recv()).await, Some((1, 2)));
        place.sets(0, 0, 0).await;
        place.empty().await;
        running.stop().await;
    }
}

#[tokio::test]
async fn what_is_put_off_comes_back_with_all_its_attempts_and_is_not_counted_as_failed() {
    for place in places() {
        let (running, mut runs) = place.at_work();
        let id = place.add(1, Does::PutOffTwice).await;
        for _ in 0..2 {
            assert_eq!(soon(runs.recv()).await, Some((1, 1)), "{}", place.name());
            place.sets(1, 0, 0).await;
            let waits = place.house.jobs.show(id).await.unwrap().unwrap();
            assert_eq!((waits.set, waits.failures), (Set::Scheduled, 0), "{}", place.name());
            let due_ms = waits.at.unwrap().since_ms(place.house.clock.now());
            assert!((2_000..=3_000).contains(&due_ms), "{}: {due_ms}", place.name());
            assert!(runs.try_recv().is_err());
            place.house.advance(3_000);
        }
        assert_eq!(soon(runs.recv()).await, Some((1, 1)), "{}", place.name());
        // It fails at last, for the first time.
        place.sets(0, 1, 0).await;
        let kind = place.stats().await.kinds[0].clone();
        assert_eq!((kind.postponed, kind.retried, kind.dead), (2, 1, 0), "{}", place.name());
        running.stop().await;
    }
}

#[tokio::test]
async fn what_was_put_off_for_a_day_fails() {
    for place in places() {
        let (running, mut runs) = place.at_work();
        place.add(1, Does::PutOffTwice).await;
        soon(runs.recv()).await;
        place.sets(1, 0, 0).await;
        place.house.advance(24 * 3_600 * 1_000);
        assert_eq!(soon(runs.recv()).await, Some((1, 1)), "{}", place.name());
        place.sets(0, 1, 0).await;
        running.stop().await;
    }
}

#[tokio::test]
async fn what_was_put_off_comes_at_once_when_it_is_called() {
    for place in places() {
        let (running, mut runs) = place.at_work();
        place.add(1, Does::PutOffTwice).await;
        soon(runs.recv()).await;
        place.sets(1, 0, 0).await;
        let later = place.house.clock.now().plus_ms(60_000);
        let jobs = place.house.jobs.clone();
        let hastened = place
            .house
            .write(move |tx| {
                jobs.enqueue_at(tx, later, &Deed { number: 2, does: Does::Well })?;
                jobs.hasten(tx, Deed::QUEUE, "")
            })
            .await;
        if place.redis.is_some() {
            assert_eq!(hastened, 0, "there it waits for its time");
            place.house.advance(3_000);
        } else {
            assert_eq!(hastened, 1, "{}: what is planned is not", place.name());
        }
        assert_eq!(soon(runs.recv()).await, Some((1, 1)), "{}", place.name());
        running.stop().await;
    }
}

#[tokio::test]
async fn of_what_was_put_off_in_a_lane_only_that_comes_which_is_called() {
    for place in places() {
        let (running, mut runs) = place.at_work();
        let called = place.add(1, Does::PutOffTwice).await;
        assert_eq!(soon(runs.recv()).await, Some((1, 1)), "{}", place.name());
        place.add(2, Does::PutOffTwice).await;
        assert_eq!(soon(runs.recv()).await, Some((2, 1)), "{}", place.name());
        place.sets(2, 0, 0).await;
        let jobs = place.house.jobs.clone();
        assert_eq!(jobs.can_hasten(), place.redis.is_none());
        // Others are gone since.
        let list: Vec<Id> = (1..20).map(Id).chain([called]).collect();
        let moved = place.house.write(move |tx| jobs.hasten_each(tx, Deed::QUEUE, &list)).await;
        if place.redis.is_some() {
            assert_eq!(moved, 0, "there it waits for its time");
        } else {
            assert_eq!(moved, 1, "{}", place.name());
            assert_eq!(soon(runs.recv()).await, Some((1, 1)), "{}", place.name());
            place.sets(1, 1, 0).await;
        }
        running.stop().await;
    }
}

#[tokio::test]
async fn what_failed_comes_at_once_when_it_is_called_by_its_number() {
    for place in places() {
        let (running, mut runs) = place.at_work();
        let called = place.add(1, Does::FailFirst).await;
        assert_eq!(soon(runs.recv()).await, Some((1, 1)), "{}", place.name());
        place.sets(0, 1, 0).await;
        let jobs = place.house.jobs.clone();
        let moved = place.house.write(move |tx| jobs.hasten_each(tx, Deed::QUEUE, &[called])).await;
        if place.redis.is_some() {
            assert_eq!(moved, 0, "there it waits for its time");
            place.house.advance(1_000);
        } else {
            assert_eq!(moved, 1, "{}", place.name());
        }
        assert_eq!(soon(runs.recv()).await, Some((1, 2)), "{}", place.name());
        running.stop().await;
    }
}

#[tokio::test]
async fn what_fails_too_often_or_for_good_is_dead_and_what_is_not_worth_it_is_gone() {
    for place in places() {
        let (running, mut runs) = place.at_work();
        place.add(1, Does::Fail).await;
        soon(runs.recv()).await;
        place.sets(0, 1, 0).await;
        place.house.advance(1_000);
        assert_eq!(soon(runs.recv()).await, Some((1, 2)), "{}", place.name());
        place.sets(0, 0, 1).await;
        place.add(2, Does::Die).await;
        place.add(3, Does::Discard).await;
        soon(runs.recv()).await;
        soon(runs.recv()).await;
        place.sets(0, 0, 2).await;
        place.empty().await;
        let dead = place.house.jobs.list(Set::Dead, None, 10).await.unwrap();
        let mut reasons: Vec<_> = dead.into_iter().filter_map(|entry| entry.reason).collect();
        reasons.sort_unstable();
        assert_eq!(reasons, ["for good", "it failed"], "{}", place.name());
        running.stop().await;
    }
}

#[tokio::test]
async fn a_panic_and_a_hang_are_failures() {
    for place in places() {
        let (running, mut runs) = place.at_work();
        place.add(1, Does::Panic).await;
        place.add(2, Does::Hang).await;
        soon(runs.recv()).await;
        soon(runs.recv()).await;
        place.sets(0, 2, 0).await;
        let waiting = place.house.jobs.list(Set::Retries, None, 10).await.unwrap();
        let reasons: Vec<_> = waiting.into_iter().filter_map(|entry| entry.reason).collect();
        assert!(reasons.iter().any(|it| it.contains("it burnt")), "{reasons:?}");
        assert!(reasons.iter().any(|it| it.contains("within 1 s")), "{reasons:?}");
        running.stop().await;
    }
}

#[tokio::test]
async fn what_is_scheduled_runs_at_its_time_and_not_before() {
    for place in places() {
        let (running, mut runs) = place.at_work();
        for number in [3, 1, 2] {
            let (jobs, at) = (place.house.jobs.clone(), place.house.clock.now());
            let deed = Deed { number, does: Does::Well };
            let at = at.plus_ms(number * 1_000);
            place.house.write(move |tx| jobs.enqueue_at(tx, at, &deed)).await;
        }
        place.sets(3, 0, 0).await;
        for number in 1..=3 {
            assert!(runs.try_recv().is_err(), "{}", place.name());
            place.house.advance(1_000);
            assert_eq!(soon(runs.recv()).await, Some((number, 1)), "{}", place.name());
        }
        place.sets(0, 0, 0).await;
        running.stop().await;
    }
}

#[tokio::test]
async fn one_job_of_a_key_waits_at_a_time_and_a_period_makes_one() {
    for place in places() {
        let (mut handlers, mut runs) = registry();
        handlers.periodic("hourly", 3_600_000, || Deed { number: 60, does: Does::Well });
        let running = place.start(handlers);
        assert_eq!(soon(runs.recv()).await, Some((60, 1)), "{}", place.name());
        let at = place.house.clock.now().plus_ms(5_000);
        for (number, expected) in [(1, true), (2, false)] {
            let (jobs, deed) = (place.house.jobs.clone(), Deed { number, does: Does::Well });
            let made = place.house.write(move |tx| jobs.enqueue_unique(tx, "key", at, &deed)).await;
            assert_eq!(made.is_some(), expected, "{}", place.name());
        }
        place.house.advance(5_000);
        assert_eq!(soon(runs.recv()).await, Some((1, 1)));
        until("the key is free", async || place.house.rows("jobs_unique").await == 0).await;
        place.empty().await;
        place.house.advance(3_595_000);
        assert_eq!(soon(runs.recv()).await, Some((60, 1)), "{}", place.name());
        place.empty().await;
        running.stop().await;
    }
}

#[tokio::test]
async fn what_nobody_knows_or_cannot_be_read_is_kept_and_says_why() {
    for place in places() {
        let unknown = place.add(1, Does::Well).await;
        let broken = place.add(2, Does::Well).await;
        place.add(3, Does::Well).await;
        place
            .house
            .write(move |tx| {
                tx.execute("UPDATE jobs SET kind = 'other' WHERE id = ?1", params![unknown])?;
                let sql = "UPDATE jobs SET payload = '{\"number\":2}' WHERE id = ?1";
                tx.execute(sql, params![broken])
            })
            .await;
        let (running, mut runs) = place.at_work();
        assert_eq!(soon(runs.recv()).await, Some((3, 1)), "{}", place.name());
        until("both are in a set", async || {
            let stats = place.stats().await;
            stats.retries + stats.dead == 2
        })
        .await;
        running.stop().await;
        let unknown = place.house.jobs.show(unknown).await.unwrap().unwrap();
        assert!(unknown.reason.unwrap().contains("no handler"), "{}", place.name());
        let broken = place.house.jobs.show(broken).await.unwrap().unwrap();
        assert_eq!(broken.set, Set::Dead);
        assert!(broken.reason.unwrap().contains("does not parse"));
        assert!(runs.try_recv().is_err());
    }
}

#[tokio::test]
async fn a_paused_queue_waits_and_goes_on() {
    for place in places() {
        let (mut handlers, mut runs) = registry();
        let (told, mut others) = mpsc::unbounded_channel();
        handlers.simple_unit::<Entry, _>(move |tx, entries| {
            let told = told.clone();
            tx.after_commit(move || {
                let _ = told.send(());
            });
            Ok(vec![Outcome::Done; entries.len()])
        });
        let running = place.start(handlers);
        place.house.jobs.pause("deeds").await.unwrap();
        assert!(place.house.jobs.pause("deads").await.is_err());
        place.add(1, Does::Well).await;
        let jobs = place.house.jobs.clone();
        place.house.write(move |tx| jobs.enqueue(tx, &Entry { number: 1 })).await;
        soon(others.recv()).await;
        let paused = |stats: Stats| {
            let queue = stats.queues.into_iter().find(|queue| queue.name == "deeds").unwrap();
            (queue.depth, queue.paused)
        };
        until("it waits", async || paused(place.stats().await) == (1, true)).await;
        assert!(runs.try_recv().is_err(), "{}", place.name());
        place.house.jobs.resume("deeds").await.unwrap();
        assert_eq!(soon(runs.recv()).await, Some((1, 1)), "{}", place.name());
        running.stop().await;
    }
}

#[tokio::test]
async fn jobs_are_retried_and_deleted_by_hand() {
    for place in places() {
        let (running, mut runs) = place.at_work();
        let failing = place.add(1, Does::FailFirst).await;
        let dying = place.add(2, Does::Die).await;
        soon(runs.recv()).await;
        soon(runs.recv()).await;
        place.sets(0, 1, 1).await;
        let jobs = &place.house.jobs;
        assert!(jobs.retry(failing).await.unwrap());
        assert_eq!(soon(runs.recv()).await, Some((1, 2)), "{}", place.name());
        assert!(jobs.retry(dying).await.unwrap());
        assert_eq!(soon(runs.recv()).await, Some((2, 1)), "it begins anew");
        place.sets(0, 0, 1).await;
        assert!(jobs.delete(dying).await.unwrap());
        assert!(!jobs.delete(dying).await.unwrap());
        assert!(!jobs.retry(dying).await.unwrap());
        place.sets(0, 0, 0).await;
        for number in 3..6 {
            place.add(number, Does::Die).await;
            soon(runs.recv()).await;
        }
        place.sets(0, 0, 3).await;
        assert_eq!(jobs.retry_all(Set::Dead).await.unwrap(), 3);
        for _ in 3..6 {
            soon(runs.recv()).await;
        }
        place.sets(0, 0, 3).await;
        running.stop().await;
    }
}

#[tokio::test]
async fn lists_go_on_after_an_entry() {
    for place in places() {
        let (handlers, _runs) = registry();
        let running = place.start(handlers);
        place.house.jobs.pause("deeds").await.unwrap();
        for number in 0..5 {
            place.add(number, Does::Well).await;
            let (jobs, at) = (place.house.jobs.clone(), place.house.clock.now().plus_ms(60_000));
            let deed = Deed { number, does: Does::Well };
            place.house.write(move |tx| jobs.enqueue_at(tx, at, &deed)).await;
        }
        for set in [Set::Ready, Set::Scheduled] {
            let listed = async || place.house.jobs.list(set, None, 10).await.unwrap();
            until("all are there", async || listed().await.len() == 5).await;
            let all = listed().await;
            let rest = place.house.jobs.list(set, Some(all[1].clone()), 2).await.unwrap();
            assert_eq!(rest, all[2..4], "{} {set:?}", place.name());
            assert!(all.iter().all(|entry| entry.payload.contains("Well")));
        }
        running.stop().await;
    }
}

#[tokio::test]
async fn a_quiet_process_takes_nothing() {
    for place in places() {
        let (running, mut runs) = place.at_work();
        place.add(1, Does::Well).await;
        soon(runs.recv()).await;
        place.empty().await;
        place.house.jobs.quiet();
        place.add(2, Does::Well).await;
        running.stop().await;
        assert!(runs.try_recv().is_err(), "{}", place.name());
        let place = place.reopened();
        let (running, mut runs) = place.at_work();
        assert_eq!(soon(runs.recv()).await, Some((2, 1)), "{}", place.name());
        running.stop().await;
    }
}

#[tokio::test]
async fn a_stop_hands_back_what_does_not_end() {
    for place in places() {
        let (handlers, mut runs) = slow_registry();
        let running = place.start(handlers);
        place.add(1, Does::Well).await;
        assert_eq!(soon(runs.recv()).await, Some((1, 1)), "{}", place.name());
        running.stop_within(Duration::ZERO).await;
        let place = place.reopened();
        let (running, mut runs) = place.at_work();
        assert_eq!(soon(runs.recv()).await, Some((1, 1)), "{}: no failure counts", place.name());
        place.empty().await;
        running.stop().await;
    }
}

/// Its tasks never end.
fn slow_registry() -> (Registry, Runs) {
    let (told, runs) = mpsc::unbounded_channel();
    let mut registry = Registry::new();
    registry.task(move |claimed: Claimed<Deed>| {
        let _ = told.send((claimed.job.number, claimed.attempt));
        std::future::pending()
    });
    (registry, runs)
}

#[test]
fn what_ran_when_the_process_died_runs_again() {
    for place in places() {
        let process = || tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let first = process();
        first.block_on(async {
            let (handlers, mut runs) = slow_registry();
            let _running = place.start(handlers);
            for number in 0..3 {
                place.add(number, Does::Well).await;
            }
            for _ in 0..3 {
                soon(runs.recv()).await;
            }
        });
        // Nothing is told to anybody: all of its threads just end.
        first.shutdown_background();
        process().block_on(async {
            let place = place.reopened();
            let (handlers, mut runs) = registry();
            let running = place.start(handlers);
            let mut seen = Vec::new();
            for _ in 0..3 {
                seen.extend(soon(runs.recv()).await);
            }
            seen.sort_unstable();
            assert_eq!(seen, [(0, 1), (1, 1), (2, 1)], "{}", place.name());
            place.empty().await;
            running.stop().await;
        });
    }
}

#[tokio::test]
async fn units_have_their_effect_once_and_the_bad_one_fails_alone() {
    for place in places() {
        let mut handlers = Registry::new();
        handlers.simple_unit::<Entry, _>(|tx, entries| {
            for entry in entries {
                // However often that attempt is made, among others and alone.
                if entry.job.number == 7 && entry.attempt == 1 {
                    let sql = "INSERT INTO nowhere (number) VALUES (7)";
                    tx.execute(sql, &[])?;
                }
                crate::house::write_effect(tx, entry.job.number)?;
            }
            Ok(vec![Outcome::Done; entries.len()])
        });
        let jobs = place.house.jobs.clone();
        place
            .house
            .write(move |tx| {
                let all: Vec<Entry> = (0..20).map(|number| Entry { number }).collect();
                jobs.enqueue_many(tx, &all)
            })
            .await;
        let running = place.start(handlers);
        place.sets(0, 1, 0).await;
        until("the others", async || place.house.effects().await.len() == 19).await;
        place.house.advance(1_000);
        until("the bad one", async || place.house.effects().await.len() == 20).await;
        place.empty().await;
        running.stop().await;
        let mut effects = place.house.effects().await;
        effects.sort_unstable();
        assert_eq!(effects, (0..20).collect::<Vec<_>>(), "{}", place.name());
    }
}

/// A task of which there is one until it is done, and none after a minute.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Only {
    number: i64,
}

impl Job for Only {
    const KIND: &'static str = "only";
    const QUEUE: Queue = Queue::new("only", Class::Outbound);
    const RETRY: Retry = Retry { delay: Delay::FixedMs(1_000), ..Retry::DEFAULT };
    const UNIQUE: Unique = Unique::UntilDone;
    const EXPIRES_AFTER_MS: Option<i64> = Some(60_000);

    fn unique_key(&self) -> Option<std::borrow::Cow<'_, str>> {
        Some("only".into())
    }
}

#[tokio::test]
async fn what_is_packed_beforehand_waits_as_what_is_enqueued_at_once() {
    for place in places() {
        let jobs = place.house.jobs.clone();
        let mut packed = jobs.pack(&[Only { number: 1 }, Only { number: 2 }]).unwrap();
        place.house.advance(59_000);
        place.house.write(move |tx| jobs.enqueue_packed(tx, &mut packed)).await;
        // Its minute runs from then on, and the second of its key is kept away.
        place.house.advance(59_000);
        let (told, mut runs) = mpsc::unbounded_channel();
        let mut handlers = Registry::new();
        handlers.task(move |claimed: Claimed<Only>| {
            let _ = told.send(claimed.job.number);
            async { Ok(()) }
        });
        let running = place.start(handlers);
        assert_eq!(soon(runs.recv()).await, Some(1), "{}", place.name());
        place.empty().await;
        running.stop().await;
        assert!(runs.try_recv().is_err(), "{}", place.name());
    }
}

#[tokio::test]
async fn a_key_is_kept_until_the_end_and_what_expired_does_not_run() {
    for place in places() {
        let (told, mut runs) = mpsc::unbounded_channel();
        let mut handlers = Registry::new();
        handlers.task(move |claimed: Claimed<Only>| {
            let _ = told.send((claimed.job.number, claimed.attempt));
            async move { if claimed.attempt > 1 { Ok(()) } else { Err(Failure::retry("no")) } }
        });
        let running = place.start(handlers);
        let add = async |number| {
            let jobs = place.house.jobs.clone();
            place.house.write(move |tx| jobs.enqueue(tx, &Only { number }).map(|_| ())).await;
        };
        add(1).await;
        assert_eq!(soon(runs.recv()).await, Some((1, 1)), "{}", place.name());
        place.sets(0, 1, 0).await;
        add(2).await;
        place.house.advance(1_000);
        assert_eq!(soon(runs.recv()).await, Some((1, 2)), "{}", place.name());
        until("the key is free", async || place.house.rows("jobs_unique").await == 0).await;
        add(3).await;
        assert_eq!(soon(runs.recv()).await, Some((3, 1)), "{}", place.name());
        place.sets(0, 1, 0).await;
        place.house.advance(61_000);
        place.sets(0, 0, 0).await;
        until("the key is free", async || place.house.rows("jobs_unique").await == 0).await;
        place.empty().await;
        running.stop().await;
        assert!(runs.try_recv().is_err(), "{}", place.name());
    }
}
