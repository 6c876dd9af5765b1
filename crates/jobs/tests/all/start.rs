//! What is refused at the start.

use weir_db::params;
use weir_jobs::{Claimed, Job, Queue, Registry, StartError};

use crate::house::{Call, Note, houses};

fn calling() -> Registry {
    let mut registry = Registry::new();
    registry.task(async |_: Claimed<Call>| Ok(()));
    registry
}

#[tokio::test]
async fn rows_that_nobody_handles_stop_the_start() {
    for house in houses() {
        let jobs = house.jobs.clone();
        house
            .write(move |tx| {
                jobs.enqueue(tx, &Note::new("", 1))?;
                jobs.enqueue_at(tx, weir_base::Timestamp::from_ms(i64::MAX), &Call { number: 1 })
            })
            .await;
        let house = house.reopened();
        let refused = house.jobs.start(calling(), Default::default()).unwrap_err();
        let (kind, queue) = ("note".to_owned(), "notes".to_owned());
        assert_eq!(refused, StartError::UnknownKind { kind, queue, count: 1 });

        house.write(|tx| tx.execute("DELETE FROM jobs", &[])).await;
        house.write(|tx| tx.execute("UPDATE jobs_later SET queue = ?1", params!["cals"])).await;
        let house = house.reopened();
        let refused = house.jobs.start(calling(), Default::default()).unwrap_err();
        assert_eq!(refused, StartError::UnservedQueue { queue: "cals".into(), count: 1 });
    }
}

#[tokio::test]
async fn a_kind_without_a_handler_cannot_be_enqueued_while_the_workers_run() {
    let house = houses().remove(0);
    let running = house.start(calling());
    let jobs = house.jobs.clone();
    let unit = move |tx: &mut weir_db::Tx| jobs.enqueue(tx, &Note::new("", 1));
    let refused = house.db.write(weir_db::Class::Interactive, unit).await.unwrap_err();
    assert!(refused.to_string().contains("note"), "{refused}");
    let again = house.jobs.start(calling(), Default::default()).unwrap_err();
    assert_eq!(again, StartError::Started);
    running.stop().await;
}

#[derive(serde::Serialize, serde::Deserialize)]
struct Urgent;

impl Job for Urgent {
    const KIND: &'static str = "urgent";
    const QUEUE: Queue = Queue { class: weir_db::Class::Interactive, ..Call::QUEUE };
}

#[tokio::test]
async fn a_queue_that_is_declared_in_two_ways_stops_the_start() {
    let house = houses().remove(0);
    let mut registry = calling();
    registry.task(async |_: Claimed<Urgent>| Ok(()));
    let refused = house.jobs.start(registry, Default::default()).unwrap_err();
    assert_eq!(refused, StartError::QueueDiffers("calls".into()));
}

#[tokio::test]
async fn a_periodic_job_that_nobody_handles_stops_the_start() {
    let house = houses().remove(0);
    let mut registry = calling();
    registry.periodic("often", 1_000, || Note::new("", 1));
    let refused = house.jobs.start(registry, Default::default()).unwrap_err();
    let (name, kind) = ("often".to_owned(), "note".to_owned());
    assert_eq!(refused, StartError::PeriodicUnhandled { name, kind });
}

#[test]
fn the_workers_need_a_runtime() {
    let house = houses().remove(0);
    let refused = house.jobs.start(calling(), Default::default()).unwrap_err();
    assert_eq!(refused, StartError::NoRuntime);
}

#[tokio::test]
async fn reopened_tables_are_as_they_were() {
    for house in houses() {
        let before = house.db.schema().unwrap();
        let house = house.reopened();
        assert_eq!(house.db.schema().unwrap(), before);
        assert!(before.contains("jobs_later_by_id"), "{before}");
    }
}
