//! Periodic jobs and their leader.

use tokio::runtime::{Builder, Runtime};
use tokio_util::sync::CancellationToken;
use weir_base::{Random, Timestamp};
use weir_db::{Db, Tx};
use weir_jobs::{Claimed, Jobs, Missed, Outcome, Registry, StartError};

use crate::house::{House, NODES, Note, houses, until, write_effect};

const HOUR_MS: i64 = 3_600_000;

/// A unit each hour, told at which hour it was planned.
fn hourly(missed: Missed) -> Registry {
    let mut registry = Registry::new();
    registry.simple_unit(|tx: &mut Tx, notes: &[Claimed<Note>]| {
        for note in notes {
            write_effect(tx, note.job.number)?;
        }
        Ok(notes.iter().map(|_| Outcome::Done).collect())
    });
    registry.cron("hourly", "0 * * * *", "UTC", missed, |planned: Timestamp| {
        Note::new("", planned.as_ms() / HOUR_MS)
    });
    registry
}

fn hour(house: &House) -> i64 {
    house.clock.now().as_ms() / HOUR_MS
}

async fn planned(jobs: &Jobs) -> bool {
    jobs.periodic().await.unwrap().iter().all(|one| one.next_at.is_some())
}

#[tokio::test]
async fn a_cron_job_runs_at_its_hours_is_listed_paused_and_run_by_hand() {
    for house in houses() {
        let first = hour(&house) + 1;
        let running = house.start(hourly(Missed::One));
        until("its plan", async || planned(&house.jobs).await).await;
        assert!(house.effects().await.is_empty(), "not before its time");
        house.advance(HOUR_MS);
        until("its first run", async || house.effects().await == [first]).await;
        let listed = house.jobs.periodic().await.unwrap();
        assert_eq!((&*listed[0].name, &*listed[0].kind), ("hourly", "note"));
        assert_eq!(listed[0].plan, "0 * * * * UTC");
        assert_eq!(listed[0].next_at, Some(Timestamp::from_ms((first + 1) * HOUR_MS)));
        assert_eq!(listed[0].last_at, Some(house.clock.now()));

        house.jobs.pause_periodic("hourly").await.unwrap();
        house.advance(HOUR_MS);
        let next = Some(Timestamp::from_ms((first + 2) * HOUR_MS));
        until("the hour that is left out", async || {
            house.jobs.periodic().await.unwrap()[0].next_at == next
        })
        .await;
        assert!(house.jobs.periodic().await.unwrap()[0].paused);
        assert!(house.jobs.run_periodic("hourly").await.unwrap());
        let by_hand = hour(&house);
        until("the run by hand", async || house.effects().await == [first, by_hand]).await;
        house.jobs.resume_periodic("hourly").await.unwrap();
        house.advance(HOUR_MS);
        until("the next", async || house.effects().await == [first, by_hand, first + 2]).await;
        assert!(house.jobs.run_periodic("weekly").await.is_err());
        running.stop().await;
    }
}

#[tokio::test]
async fn a_clock_that_jumps_by_hours_runs_what_the_policy_says_and_goes_on() {
    for house in houses() {
        let first = hour(&house) + 1;
        let running = house.start(hourly(Missed::All(3)));
        until("its plan", async || planned(&house.jobs).await).await;
        house.advance(5 * HOUR_MS);
        let mut expected = vec![first, first + 1, first + 2];
        until("the missed runs", async || house.effects().await == expected).await;
        house.advance(-4 * HOUR_MS);
        let next = Some(Timestamp::from_ms((first + 1) * HOUR_MS));
        until("the plan after the clock went back", async || {
            house.jobs.wake();
            house.jobs.periodic().await.unwrap()[0].next_at == next
        })
        .await;
        house.advance(HOUR_MS);
        expected.push(first + 1);
        until("the next run", async || house.effects().await == expected).await;
        running.stop().await;
    }
}

#[tokio::test]
async fn a_cron_expression_that_makes_no_sense_stops_the_start() {
    let house = House::new(weir_storm::fixture::sqlite());
    let mut registry = hourly(Missed::One);
    registry.cron("never", "0 0 30 2 *", "UTC", Missed::One, |_| Note::new("", 1));
    let refused = house.jobs.start(registry, CancellationToken::new()).unwrap_err();
    assert!(matches!(refused, StartError::Plan { name, .. } if name == "never"));
}

/// A process of its own, which stands still whenever nobody drives it.
struct Node {
    runtime: Runtime,
    jobs: Jobs,
    _db: Db,
}

impl Node {
    fn start(house: &House, seed: u64) -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let db = house.fixture.open_again();
        let clock = house.clock.clone();
        let jobs = Jobs::open_as(db.clone(), clock, Random::seeded(seed), NODES).unwrap();
        let start = async { jobs.start(hourly(Missed::All(9)), CancellationToken::new()) };
        drop(runtime.block_on(start).unwrap());
        Self { runtime, jobs, _db: db }
    }
}

#[test]
fn of_two_leaders_after_a_pause_each_run_is_had_once() {
    for house in houses() {
        let first = hour(&house) + 1;
        let (one, other) = (Node::start(&house, 21), Node::start(&house, 22));
        one.runtime.block_on(until("the first plan", async || {
            one.jobs.wake();
            planned(&one.jobs).await
        }));
        // Nothing of the first moves from here on.
        house.clock.advance(HOUR_MS);
        let effects = |count: i64| (first..first + count).collect::<Vec<_>>();
        other.runtime.block_on(until("the other to take over", async || {
            other.jobs.wake();
            house.effects().await == effects(1)
        }));
        for round in 2..6 {
            house.clock.advance(HOUR_MS);
            // The former leader wakes and believes that it leads still.
            one.runtime.block_on(async {
                for _ in 0..20 {
                    one.jobs.wake();
                    assert!(planned(&one.jobs).await);
                }
            });
            other.runtime.block_on(until("the hour's run", async || {
                one.jobs.wake();
                other.jobs.wake();
                house.effects().await.len() as i64 >= round
            }));
            one.runtime.block_on(until("the plan", async || {
                house.jobs.wake();
                house.effects().await == effects(round)
            }));
        }
        let had = one.runtime.block_on(house.effects());
        assert_eq!(had, effects(5), "{}", house.fixture.name);
    }
}
