use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use weir_base::{Clock, Random};
use weir_db::{Db, Options};

use super::*;
use crate::{Claimed, Job, Queue, Registry, Workers};

#[derive(Serialize, Deserialize)]
struct Call(u32);

impl Job for Call {
    const KIND: &'static str = "call";
    const QUEUE: Queue = Queue::new("calls", Class::Outbound);
}

#[derive(Serialize, Deserialize)]
struct Chore(u32);

impl Job for Chore {
    const KIND: &'static str = "chore";
    const QUEUE: Queue = Queue::new("chores", Class::Housekeeping);
}

fn open() -> (tempfile::TempDir, Jobs) {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open("sqlite:weir.db", directory.path(), &Options::default()).unwrap();
    let jobs = Jobs::open(db, Clock::system(), Random::seeded(1)).unwrap();
    (directory, jobs)
}

/// Workers whose jobs tell when they run, and end never; the memory is what `memory` says.
fn start(
    jobs: &Jobs,
    memory: Arc<std::sync::atomic::AtomicU32>,
    stop: &CancellationToken,
) -> (Workers, mpsc::UnboundedReceiver<&'static str>) {
    let (told, runs) = mpsc::unbounded_channel();
    let mut registry = Registry::new();
    let of_calls = told.clone();
    registry.task(move |_: Claimed<Call>| {
        let _ = of_calls.send("call");
        std::future::pending()
    });
    registry.task(move |_: Claimed<Chore>| {
        let _ = told.send("chore");
        std::future::pending()
    });
    let machine = move || Machine { memory: memory.load(Ordering::Relaxed), ..Machine::default() };
    let senses = Senses { budget: 1_000, cores: 2, machine: Box::new(machine) };
    (jobs.start_with(registry, stop.clone(), senses).unwrap(), runs)
}

async fn enqueue<J: Job>(jobs: &Jobs, list: Vec<J>) {
    let shared = jobs.clone();
    let unit = move |tx: &mut Tx| shared.enqueue_many(tx, &list);
    jobs.inner.db.write::<_, weir_db::Error, _>(Class::Interactive, unit).await.unwrap();
}

async fn next(runs: &mut mpsc::UnboundedReceiver<&'static str>) -> &'static str {
    let next = tokio::time::timeout(std::time::Duration::from_secs(60), runs.recv()).await;
    next.expect("a job runs in a minute").unwrap()
}

#[tokio::test]
async fn jobs_that_wait_for_others_get_more_places_until_none_waits() {
    let (_directory, jobs) = open();
    enqueue(&jobs, (0..300).map(Call).collect()).await;
    let stop = CancellationToken::new();
    let (workers, mut runs) = start(&jobs, Arc::default(), &stop);
    for _ in 0..300 {
        next(&mut runs).await;
    }
    let calls = jobs.queues().remove(0);
    assert!(calls.limit >= 300 && calls.running == 300, "{calls:?}");
    stop.cancel();
    workers.finish(std::time::Duration::ZERO).await;
}

#[tokio::test]
async fn without_memory_only_the_more_urgent_queue_is_taken_from_and_says_why() {
    let (_directory, jobs) = open();
    let memory = Arc::new(std::sync::atomic::AtomicU32::new(990));
    let stop = CancellationToken::new();
    let (workers, mut runs) = start(&jobs, memory.clone(), &stop);
    enqueue(&jobs, vec![Call(0)]).await;
    assert_eq!(next(&mut runs).await, "call");
    let sheds = || jobs.queues().iter().any(|queue| queue.limited_by == LimitedBy::Memory);
    while !sheds() {
        tokio::task::yield_now().await;
    }
    enqueue(&jobs, vec![Chore(0)]).await;
    enqueue(&jobs, vec![Call(1)]).await;
    assert_eq!(next(&mut runs).await, "call");
    memory.store(100, Ordering::Relaxed);
    assert_eq!(next(&mut runs).await, "chore");
    stop.cancel();
    workers.finish(std::time::Duration::ZERO).await;
}
