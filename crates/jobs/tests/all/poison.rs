//! A job that kills its process.

use std::path::Path;
use std::process::Command;

use tokio_util::sync::CancellationToken;
use weir_base::{Clock, Random};
use weir_db::{Class, Db, Options, Tx};
use weir_jobs::{Claimed, Jobs, Registry, Set};

use crate::house::{Call, numbers, until};

/// Where the child finds the database.
const DIRECTORY: &str = "WEIR_JOBS_POISON";
const POISON: i64 = 13;

fn open(directory: &Path) -> (Db, Jobs) {
    let db = Db::open("sqlite:weir.db", directory, &Options::default()).unwrap();
    let jobs = Jobs::open(db.clone(), Clock::system(), Random::system()).unwrap();
    (db, jobs)
}

#[tokio::test]
async fn a_job_that_kills_its_process_three_times_is_dead_and_those_beside_it_are_not() {
    let directory = tempfile::tempdir().unwrap();
    let (db, jobs) = open(directory.path());
    let calls: Vec<Call> = numbers(40).into_iter().map(|number| Call { number }).collect();
    let unit = move |tx: &mut Tx| jobs.enqueue_many(tx, &calls);
    db.write::<_, weir_db::Error, _>(Class::Interactive, unit).await.unwrap();
    drop(db);
    let mut deaths = 0;
    loop {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "poison::a_process_that_works"])
            .env(DIRECTORY, directory.path())
            .output()
            .unwrap();
        if child.status.success() {
            break;
        }
        deaths += 1;
        assert!(deaths < 10, "{}", String::from_utf8_lossy(&child.stdout));
    }
    assert_eq!(deaths, 3);
    let (_, jobs) = open(directory.path());
    let dead = jobs.list(Set::Dead, None, 100).await.unwrap();
    let payloads: Vec<&str> = dead.iter().map(|entry| entry.payload.as_str()).collect();
    assert_eq!(payloads, [r#"{"number":13}"#]);
    assert_eq!(dead[0].reason.as_deref(), Some("its process died 3 times while it ran"));
    assert_eq!(jobs.stats().await.unwrap().retries, 0);
}

/// A part of the test above, which runs it in processes of their own; by itself it does nothing.
#[tokio::test]
async fn a_process_that_works() {
    let Some(directory) = std::env::var_os(DIRECTORY) else { return };
    let directory = Path::new(&directory);
    let (_, jobs) = open(directory);
    jobs.keep_journal(&directory.join("running")).unwrap();
    let mut registry = Registry::new();
    registry.task(move |claimed: Claimed<Call>| {
        async move {
            if claimed.job.number == POISON {
                // Others have begun meanwhile, if there are any.
                tokio::task::yield_now().await;
                std::process::abort();
            }
            for _ in 0..200 {
                tokio::task::yield_now().await;
            }
            Ok(())
        }
    });
    let stop = CancellationToken::new();
    let workers = jobs.start(registry, stop.clone()).unwrap();
    until("all are done", async || jobs.queues().iter().all(|queue| queue.depth == 0)).await;
    stop.cancel();
    workers.finish(std::time::Duration::from_secs(60)).await;
}
