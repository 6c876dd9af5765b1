//! Turns between lanes, asserted in batches and positions.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use weir_jobs::{Outcome, Registry};

use crate::house::{News, Note, houses, numbers, until, write_effect};

#[tokio::test]
async fn ten_thousand_jobs_of_one_key_do_not_delay_the_first_of_another_by_more_than_a_turn() {
    const MANY: i64 = 10_000;
    const AFTER: i64 = 3_000;
    for house in houses() {
        let jobs = house.jobs.clone();
        let notes: Vec<Note> =
            numbers(MANY).into_iter().map(|number| Note::new("busy", number)).collect();
        house.write(move |tx| jobs.enqueue_many(tx, &notes)).await;
        // The job that is enqueued by a busy one, the batches that had begun when it was heard of
        // (which is after the disk has it; batches go on meanwhile), and the one it came in.
        let (jobs, batches) = (house.jobs.clone(), Arc::new(AtomicI64::new(0)));
        let (asked, answered) = (Arc::new(AtomicI64::new(0)), Arc::new(AtomicI64::new(0)));
        let (asked_in, answered_in) = (asked.clone(), answered.clone());
        let mut registry = Registry::new();
        registry.simple_unit::<Note, _>(move |tx, notes| {
            let batch = batches.fetch_add(1, Ordering::Relaxed);
            for note in notes {
                if note.job.lane == "quiet" {
                    answered_in.store(batch, Ordering::Relaxed);
                    write_effect(tx, note.job.number)?;
                } else if note.job.number == AFTER {
                    jobs.enqueue(tx, &Note::new("quiet", 1))?;
                    let (asked_in, begun) = (asked_in.clone(), batches.clone());
                    tx.after_commit(move || {
                        asked_in.store(begun.load(Ordering::Relaxed), Ordering::Relaxed);
                    });
                }
            }
            Ok(vec![Outcome::Done; notes.len()])
        });
        let running = house.start(registry);
        until("the quiet lane's job", async || house.rows("effects").await == 1).await;
        running.stop().await;
        let (asked, answered) = (asked.load(Ordering::Relaxed), answered.load(Ordering::Relaxed));
        // Two batches may have been on their way then that had not begun. On PostgreSQL a job is
        // heard of by a look at the table, and short batches go on until that is back.
        let most = if house.fixture.name == "postgres" { 10 } else { 2 };
        assert!(answered - asked <= most, "{}: {asked}, {answered}", house.fixture.name);
    }
}

#[tokio::test]
async fn under_backlog_the_newest_go_first_and_a_tenth_are_old() {
    for house in houses() {
        let jobs = house.jobs.clone();
        let news: Vec<News> = numbers(2_000).into_iter().map(News).collect();
        house.write(move |tx| jobs.enqueue_many(tx, &news)).await;
        let jobs = house.jobs.clone();
        let mut registry = Registry::new();
        registry.simple_unit::<News, _>(move |tx, news| {
            news.iter().try_for_each(|news| write_effect(tx, news.job.0))?;
            // No more than the first two hundred or so.
            jobs.quiet();
            Ok(vec![Outcome::Done; news.len()])
        });
        let running = house.start(registry);
        until("the first batch", async || house.rows("effects").await > 0).await;
        running.stop().await;
        let effects = house.effects().await;
        assert!(effects.len() >= 10, "{}", effects.len());
        let old = effects.iter().filter(|number| **number < 1_000).count();
        assert_eq!(old, effects.len() / 10, "{}: {effects:?}", house.fixture.name);
        assert!(effects.contains(&1_999));
    }
}

#[tokio::test]
async fn many_lanes_come_each_to_their_turn_beside_a_deep_one() {
    // A turn is some work, not some jobs: only a lane with more than that is left before its end.
    const DEEP: i64 = 1_800;
    for house in houses() {
        let jobs = house.jobs.clone();
        let lane = |number: i64| if number < DEEP { 0 } else { number };
        let notes: Vec<Note> =
            numbers(2_000).into_iter().map(|number| Note::new(lane(number), number)).collect();
        house.write(move |tx| jobs.enqueue_many(tx, &notes)).await;
        let mut registry = Registry::new();
        registry.simple_unit::<Note, _>(|tx, notes| {
            notes.iter().try_for_each(|note| write_effect(tx, note.job.number))?;
            Ok(vec![Outcome::Done; notes.len()])
        });
        let running = house.start(registry);
        until("all effects", async || house.rows("jobs").await == 0).await;
        running.stop().await;
        let effects = house.effects().await;
        let mut all = effects.clone();
        all.sort_unstable();
        assert_eq!(all, numbers(2_000), "{}", house.fixture.name);
        // By when the last of the others had its turn: after all of the deep one's, it is 1,999.
        let last = effects.iter().rposition(|number| *number >= DEEP);
        assert!(last.unwrap() < DEEP as usize, "{}: {last:?}", house.fixture.name);
    }
}
