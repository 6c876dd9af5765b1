//! A PostgreSQL that goes away in the middle of everything, and comes back.

use std::sync::Arc;

use tokio::sync::{Semaphore, mpsc};
use tokio::time::timeout;
use weir_db::{Class, Error, Tx};
use weir_jobs::{Claimed, Failure, Outcome, Registry};
use weir_storm::fixture::PostgresServer;

use crate::house::{Call, House, Note, outage, soon, until, write_effect};

const NOTES: i64 = 2_000;
const CALLS: i64 = 500;
/// A call that waits until it may end.
const SLOW: i64 = -1;

#[tokio::test(flavor = "multi_thread")]
async fn while_postgres_is_away_jobs_wait_and_then_each_is_had_and_no_unit_twice() {
    let Some(server) = PostgresServer::start() else { return };
    let house = House::new(server.fixture());
    let (told, mut calls) = mpsc::unbounded_channel();
    let may_end = Arc::new(Semaphore::new(0));
    let waiting = may_end.clone();
    let mut registry = Registry::new();
    registry.simple_unit::<Note, _>(|tx, notes| {
        notes.iter().try_for_each(|note| write_effect(tx, note.job.number))?;
        Ok(vec![Outcome::Done; notes.len()])
    });
    registry.task(move |claimed: Claimed<Call>| {
        let _ = told.send(claimed.job.number);
        let waiting = waiting.clone();
        async move {
            if claimed.job.number == SLOW {
                waiting.acquire().await.unwrap().forget();
            }
            Ok::<(), Failure>(())
        }
    });
    let running = house.start(registry);
    let enqueue = async |numbers: std::ops::Range<i64>| {
        let jobs = house.jobs.clone();
        let write = move |tx: &mut Tx| {
            let calls: Vec<Call> = numbers.clone().map(|number| Call { number }).collect();
            jobs.enqueue_many(tx, &calls)
        };
        house.db.write::<_, Error, _>(Class::Interactive, write).await
    };
    enqueue(SLOW..0).await.unwrap();
    assert_eq!(soon(calls.recv()).await, Some(SLOW));
    let jobs = house.jobs.clone();
    house
        .write(move |tx| {
            let notes: Vec<Note> =
                (0..NOTES).map(|number| Note::new(number % 20, number)).collect();
            jobs.enqueue_many(tx, &notes)
        })
        .await;
    enqueue(0..CALLS).await.unwrap();
    server.crash();
    let refused = enqueue(0..1).await;
    assert!(matches!(refused, Err(Error::Unavailable(_))), "{refused:?}");
    // Its end has to wait for the database.
    may_end.add_permits(1);
    let mut ran = vec![SLOW];
    let meanwhile = async {
        while let Some(number) = calls.recv().await {
            ran.push(number);
        }
    };
    assert!(timeout(outage(), meanwhile).await.is_err(), "the engine goes on");
    server.begin();
    until("all ended", async || {
        let count = |tx: &mut Tx| tx.query_one("SELECT COUNT(*) FROM jobs", &[], |row| row.get(0));
        matches!(house.db.read::<i64, Error, _>(Class::Interactive, count).await, Ok(0))
    })
    .await;
    let stats = house.jobs.stats().await.unwrap();
    assert_eq!((stats.retries, stats.dead), (0, 0), "no failure was counted");
    running.stop().await;
    let mut effects = house.effects().await;
    effects.sort_unstable();
    assert_eq!(effects, (0..NOTES).collect::<Vec<_>>());
    while let Ok(number) = calls.try_recv() {
        ran.push(number);
    }
    ran.sort_unstable();
    assert_eq!(ran, (SLOW..CALLS).collect::<Vec<_>>(), "ends wait, so that none runs again");
}
