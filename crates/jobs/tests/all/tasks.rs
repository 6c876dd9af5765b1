//! Jobs that reach outside: at least once, with retries and an end.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::mpsc::{self, UnboundedReceiver};
use weir_base::Id;
use weir_jobs::{Claimed, Delay, Failure, Job, Last, Queue, Registry, Retry, Set};

use crate::house::{Call, House, houses, numbers, soon, until};

async fn call(house: &House, count: i64) -> Vec<Id> {
    let jobs = house.jobs.clone();
    house
        .write(move |tx| {
            let calls = numbers(count).into_iter().map(|number| Call { number });
            calls.map(|call| jobs.enqueue(tx, &call)).collect::<Result<Vec<_>, _>>()
        })
        .await
}

/// Tells each run and then does what `body` says.
fn telling<F>(body: F) -> (Registry, UnboundedReceiver<Claimed<Call>>)
where
    F: Fn(&Claimed<Call>) -> Result<(), Failure> + Send + Sync + 'static,
{
    let (told, runs) = mpsc::unbounded_channel();
    let body = Arc::new(body);
    let mut registry = Registry::new();
    registry.task(move |claimed: Claimed<Call>| {
        let (told, body) = (told.clone(), body.clone());
        async move {
            let _ = told.send(claimed.clone());
            body(&claimed)
        }
    });
    (registry, runs)
}

#[test]
fn every_task_runs_though_the_process_is_killed_and_what_was_acknowledged_runs_once() {
    const COUNT: i64 = 600;
    for house in houses() {
        let process =
            || tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = process().unwrap();
        runtime.block_on(call(&house, COUNT));
        drop(runtime);
        let runs: Arc<Mutex<Vec<i64>>> = Arc::default();
        let registry = || {
            let runs = runs.clone();
            let mut registry = Registry::new();
            registry.task(move |claimed: Claimed<Call>| {
                runs.lock().push(claimed.job.number);
                async { Ok(()) }
            });
            registry
        };
        let runtime = process().unwrap();
        let _running = {
            let _inside = runtime.enter();
            house.start(registry())
        };
        runtime.block_on(until("a part of the runs", async || runs.lock().len() >= 200));
        runtime.shutdown_timeout(Duration::from_secs(60));
        let ran_before = runs.lock().len();
        let house = house.reopened();
        let runtime = process().unwrap();
        runtime.block_on(async {
            let left = house.rows("jobs").await;
            let running = house.start(registry());
            until("the rest", async || house.rows("jobs").await == 0).await;
            running.stop().await;
            let runs = runs.lock();
            assert_eq!(runs.iter().copied().collect::<BTreeSet<_>>().len() as i64, COUNT);
            let again = runs.len() - ran_before;
            assert!(again as i64 <= left, "{}: {again} runs for {left}", house.fixture.name);
        });
    }
}

#[tokio::test]
async fn a_failed_task_is_tried_again_by_the_formula_and_dies_in_the_end() {
    for house in houses() {
        let ids = call(&house, 1).await;
        let (registry, mut runs) = telling(|_| Err(Failure::retry("no answer")));
        let running = house.start(registry);
        for attempt in 1..=26_u32 {
            let run = soon(runs.recv()).await.unwrap();
            assert_eq!((run.id, run.attempt), (ids[0], attempt), "{}", house.fixture.name);
            if attempt == 26 {
                break;
            }
            let waits = async || house.jobs.list(Set::Retries, None, 2).await.unwrap();
            until("the retry", async || waits().await.len() == 1).await;
            let entry = waits().await.remove(0);
            assert_eq!(entry.failures, attempt);
            assert_eq!(entry.reason.as_deref(), Some("no answer"));
            let (now, retry) = (house.clock.now(), i64::from(attempt) - 1);
            let wait_ms = entry.at.unwrap().since_ms(now);
            let least_ms = (retry.pow(4) + 15) * 1_000;
            assert!((least_ms..least_ms + 10_000 * (retry + 1)).contains(&wait_ms), "{wait_ms}");
            house.advance(wait_ms - 1);
            until("a look at the clock", async || waits().await.len() == 1).await;
            assert!(runs.try_recv().is_err(), "it ran before its time");
            house.advance(1);
        }
        until("its death", async || house.jobs.stats().await.unwrap().dead == 1).await;
        let stats = house.jobs.stats().await.unwrap();
        assert_eq!((stats.retries, stats.kinds[0].retried, stats.kinds[0].dead), (0, 25, 1));
        assert_eq!(house.jobs.show(ids[0]).await.unwrap().unwrap().set, Set::Dead);

        assert!(house.jobs.retry(ids[0]).await.unwrap());
        let run = soon(runs.recv()).await.unwrap();
        assert_eq!((run.id, run.attempt), (ids[0], 1), "out of the dead set it begins anew");
        running.stop().await;
        assert_eq!(house.rows("jobs_dead").await, 0);
    }
}

#[tokio::test]
async fn a_task_ends_as_it_says() {
    for house in houses() {
        let ids = call(&house, 4).await;
        let (registry, _runs) = telling(|claimed| match claimed.job.number {
            0 => Ok(()),
            1 => Err(Failure::Discard("gone".into())),
            2 => Err(Failure::Dead("never".into())),
            _ => Err(Failure::Retry { reason: "slow down".into(), after_ms: Some(7_000) }),
        });
        let running = house.start(registry);
        until("all ends", async || house.rows("jobs").await == 0).await;
        running.stop().await;
        let sets = async |at: usize| house.jobs.show(ids[at]).await.unwrap().map(|it| it.set);
        assert_eq!(sets(0).await, None);
        assert_eq!(sets(1).await, None);
        assert_eq!(sets(2).await, Some(Set::Dead));
        assert_eq!(sets(3).await, Some(Set::Retries));
        let retry = house.jobs.show(ids[3]).await.unwrap().unwrap();
        assert_eq!(retry.at, Some(house.clock.now().plus_ms(7_000)), "{}", house.fixture.name);
    }
}

#[tokio::test]
async fn a_panic_and_a_hang_count_as_failures() {
    for house in houses() {
        let jobs = house.jobs.clone();
        house.write(move |tx| jobs.enqueue_many(tx, &[Odd::Panics, Odd::Hangs])).await;
        let mut registry = Registry::new();
        registry.task(async |claimed: Claimed<Odd>| match claimed.job {
            Odd::Panics => panic!("out of cheese"),
            Odd::Hangs => std::future::pending().await,
        });
        let running = house.start(registry);
        until("both ends", async || house.rows("jobs_dead").await == 2).await;
        running.stop().await;
        let dead = house.jobs.list(Set::Dead, None, 5).await.unwrap();
        let mut reasons: Vec<_> = dead.into_iter().filter_map(|entry| entry.reason).collect();
        reasons.sort_unstable();
        assert_eq!(reasons, ["its handler panicked: out of cheese", "not done within 1 s"]);
        assert_eq!(house.rows("jobs").await, 0);
    }
}

#[derive(serde::Serialize, serde::Deserialize)]
enum Odd {
    Panics,
    Hangs,
}

impl Job for Odd {
    const KIND: &'static str = "odd";
    const QUEUE: Queue = Queue::new("odd", weir_db::Class::Outbound);
    const RETRY: Retry = Retry { attempts_max: 1, delay: Delay::Growing, last: Last::Dead };
    const TIMEOUT_S: u64 = 1;
}

#[tokio::test]
async fn a_stop_waits_for_what_runs_and_loses_nothing_of_what_cannot_end() {
    for house in houses() {
        let ids = call(&house, 2).await;
        let (told, mut runs) = mpsc::unbounded_channel();
        let (let_go, gone) = tokio::sync::watch::channel(false);
        let mut registry = Registry::new();
        registry.task(move |claimed: Claimed<Call>| {
            let (told, mut gone) = (told.clone(), gone.clone());
            async move {
                let _ = told.send(claimed.id);
                if claimed.job.number == 0 {
                    let _ = gone.wait_for(|gone| *gone).await;
                } else {
                    std::future::pending::<()>().await;
                }
                Ok(())
            }
        });
        let running = house.start(registry);
        soon(runs.recv()).await;
        soon(runs.recv()).await;
        let _ = let_go.send(true);
        // The first has been let go and ends in the time that is left; the second never does.
        running.stop_within(Duration::from_millis(500)).await;
        assert_eq!(house.jobs.show(ids[0]).await.unwrap(), None, "{}", house.fixture.name);
        assert_eq!(house.jobs.show(ids[1]).await.unwrap().unwrap().failures, 0);

        let house = house.reopened();
        let (registry, mut runs) = telling(|_| Ok(()));
        let running = house.start(registry);
        let run = soon(runs.recv()).await.unwrap();
        assert_eq!((run.id, run.attempt), (ids[1], 1));
        running.stop().await;
        assert_eq!(house.rows("jobs").await, 0);
    }
}

#[tokio::test]
async fn all_of_a_set_are_retried_at_once() {
    for house in houses() {
        call(&house, 700).await;
        let (registry, _runs) = telling(|claimed| match claimed.attempt {
            1 if claimed.job.number % 2 == 0 => Err(Failure::Dead("at first".into())),
            1 => Err(Failure::retry("at first")),
            _ => Ok(()),
        });
        let running = house.start(registry);
        until("all failures", async || house.rows("jobs").await == 0).await;
        assert_eq!(house.jobs.retry_all(Set::Retries).await.unwrap(), 350);
        until("the retries", async || house.rows("jobs_later").await == 0).await;
        until("their runs", async || house.rows("jobs").await == 0).await;
        assert_eq!(house.rows("jobs_dead").await, 350);
        house.jobs.quiet();
        assert_eq!(house.jobs.retry_all(Set::Dead).await.unwrap(), 350);
        until("the dead", async || house.rows("jobs").await == 350).await;
        running.stop().await;
        assert_eq!(house.rows("jobs_dead").await, 0, "{}", house.fixture.name);
    }
}

#[tokio::test]
async fn what_dies_again_while_the_dead_are_retried_is_tried_once() {
    for house in houses() {
        let ids = call(&house, 1_500).await;
        let (registry, mut runs) = telling(|_| Err(Failure::Dead("as ever".into())));
        let running = house.start(registry);
        until("all deaths", async || house.rows("jobs_dead").await == 1_500).await;
        assert_eq!(house.jobs.retry_all(Set::Dead).await.unwrap(), 1_500, "{}", house.fixture.name);
        until("their deaths", async || house.rows("jobs_dead").await == 1_500).await;
        running.stop().await;
        let mut count = 0;
        while runs.try_recv().is_ok() {
            count += 1;
        }
        assert_eq!(count, 2 * ids.len(), "{}", house.fixture.name);
    }
}

/// Blocks until it is told to go on.
#[derive(serde::Serialize, serde::Deserialize)]
struct Sum(i64);

impl Job for Sum {
    const KIND: &'static str = "sum";
    const QUEUE: Queue = Queue::new("sums", weir_db::Class::Housekeeping);
    const TIMEOUT_S: u64 = 1;
    const RETRY: Retry = Retry::NEVER;
}

#[tokio::test]
async fn jobs_that_block_have_threads_of_their_own_and_their_failures_count() {
    for house in houses() {
        let (jobs, cores) = (house.jobs.clone(), std::thread::available_parallelism().unwrap());
        let sums: Vec<Sum> = numbers(40).into_iter().map(Sum).collect();
        house.write(move |tx| jobs.enqueue_many(tx, &sums)).await;
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let (wait, seen) = (Mutex::new(wait), Arc::new(Mutex::new(BTreeSet::new())));
        let threads = seen.clone();
        let mut registry = Registry::new();
        registry.blocking(move |claimed: Claimed<Sum>| {
            threads.lock().insert(std::thread::current().name().unwrap_or_default().to_owned());
            // The test's own thread goes on meanwhile: it is the only one of the runtime.
            wait.lock().recv().map_err(Failure::retry)?;
            match claimed.job.0 {
                0 => panic!("on purpose"),
                1 => Err(Failure::Dead("hopeless".into())),
                _ => Ok(()),
            }
        });
        let running = house.start(registry);
        for _ in 0..40 {
            go.send(()).unwrap();
        }
        let kinds = async || house.jobs.stats().await.unwrap().kinds;
        until("all end", async || house.jobs.stats().await.unwrap().queues[0].depth == 0).await;
        let sums = kinds().await.remove(0);
        assert_eq!((sums.done, sums.dead, sums.discarded), (38, 1, 1), "{}", house.fixture.name);
        assert!(seen.lock().iter().all(|name| name.starts_with("job-")));
        let queue = house.jobs.queues().remove(0);
        assert_eq!(queue.limit, cores.get() as u64);

        // One that hangs is reported, and the stop waits for nobody.
        let jobs = house.jobs.clone();
        house.write(move |tx| jobs.enqueue(tx, &Sum(2))).await;
        until("its failure", async || kinds().await[0].discarded == 2).await;
        go.send(()).unwrap();
        running.stop().await;
    }
}

#[tokio::test]
async fn a_task_that_blocks_the_runtime_is_counted_and_a_quick_one_is_not() {
    let recorder = metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder();
    let counted = recorder.handle();
    // This test's runtime has no other thread.
    let _recording = metrics::set_default_local_recorder(&recorder);
    for house in houses() {
        call(&house, 2).await;
        let (registry, mut runs) = telling(|claimed| {
            let begun = Instant::now();
            // As a computation that takes longer than others should wait.
            while claimed.job.number == 1 && begun.elapsed() < Duration::from_millis(60) {
                std::hint::spin_loop();
            }
            Ok(())
        });
        let running = house.start(registry);
        for _ in 0..2 {
            soon(runs.recv()).await.unwrap();
        }
        running.stop().await;
    }
    let most = houses().len();
    let blocked = format!("weir_jobs_blocked_total{{kind=\"call\"}} {most}");
    assert!(counted.render().contains(&blocked), "{}", counted.render());
}
