//! Several nodes on one PostgreSQL.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use weir_base::{Id, Random};
use weir_db::{Class, Db, Tx, params};
use weir_jobs::sidekiq::Options;
use weir_jobs::{
    Action, Claimed, Failure, Jobs, NodeOptions, Outcome, Prepared, Registry, Search, Set, Workers,
};

use crate::house::{Call, House, NODES, Note, SlowCall, numbers, until, write_effect};
use crate::redis_server::RedisServer;

const LANES: i64 = 40;
/// A call that never ends.
const ENDLESS: i64 = -1;
/// Who waits for the end of another's lease waits for longer than the test.
const LONG: NodeOptions = NodeOptions { lease: Duration::from_secs(3_600), ..NODES };

/// A process of its own, which stands still whenever nobody drives it.
struct Node {
    runtime: Runtime,
    jobs: Jobs,
    workers: Option<Workers>,
    stop: CancellationToken,
    /// As many batches of units may be prepared.
    permits: Arc<Semaphore>,
    _db: Db,
}

impl Node {
    fn start(house: &House, seed: u64, permits: usize) -> Self {
        Self::start_as(house, seed, permits, NODES, "")
    }

    /// One that notices others' end by `options`, at `place` if that is not empty.
    fn start_as(
        house: &House,
        seed: u64,
        permits: usize,
        options: NodeOptions,
        place: &str,
    ) -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let db = house.fixture.open_again();
        let random = Random::seeded(seed);
        let jobs = Jobs::open_as(db.clone(), house.clock.clone(), random, options).unwrap();
        if !place.is_empty() {
            jobs.set_place(place);
        }
        let (permits, stop) = (Arc::new(Semaphore::new(permits)), CancellationToken::new());
        let registry = registry(permits.clone());
        let workers = Some(runtime.block_on(async { jobs.start(registry, stop.clone()) }).unwrap());
        Self { runtime, jobs, workers, stop, permits, _db: db }
    }

    /// It is killed: whatever runs is cut off, and nobody says goodbye.
    fn die(mut self) {
        self.runtime.shutdown_background();
        drop(self.workers.take());
    }

    fn leave(mut self) {
        self.stop.cancel();
        let workers = self.workers.take().unwrap();
        self.runtime.block_on(workers.finish(Duration::from_secs(60)));
    }

    /// Drives it until `condition`.
    fn until(&self, what: &str, condition: impl AsyncFn() -> bool) {
        self.runtime.block_on(until(what, async || condition().await));
    }
}

/// Drives both until `condition`.
fn both(one: &Node, other: &Node, what: &str, condition: impl AsyncFn() -> bool + Sync) {
    std::thread::scope(|scope| {
        scope.spawn(|| one.until(what, &condition));
        other.until(what, &condition);
    });
}

fn registry(permits: Arc<Semaphore>) -> Registry {
    let mut registry = Registry::new();
    let prepare = move |notes: Vec<Claimed<Note>>| {
        let permits = permits.clone();
        async move {
            permits.acquire().await.unwrap().forget();
            notes.into_iter().map(|note| Prepared::Run(note.job.number)).collect()
        }
    };
    registry.unit::<Note, i64, _, _, _>(prepare, |tx: &mut Tx, numbers: &[i64]| {
        numbers.iter().try_for_each(|number| write_effect(tx, *number))?;
        Ok(numbers.iter().map(|_| Outcome::Done).collect())
    });
    registry.task(|call: Claimed<Call>| async move {
        if call.job.number == ENDLESS {
            std::future::pending::<()>().await;
        }
        Ok::<(), Failure>(())
    });
    registry.task(|_: Claimed<SlowCall>| async { Ok(()) });
    registry
}

fn house() -> Option<House> {
    weir_storm::fixture::postgres().map(House::new)
}

/// Enqueues the numbers of a range by a process that does not work, lane by lane in order.
fn enqueue(house: &House, node: &Node, range: std::ops::Range<i64>) {
    let jobs = house.jobs.clone();
    node.runtime.block_on(house.write(move |tx| {
        let notes: Vec<Note> =
            range.clone().map(|number| Note::new(number % LANES, number)).collect();
        jobs.enqueue_many(tx, &notes)
    }));
}

fn check(effects: &[i64], count: i64) {
    let mut sorted = effects.to_vec();
    sorted.sort_unstable();
    assert_eq!(sorted, numbers(count), "each effect is had once");
    for lane in 0..LANES {
        let of_lane = effects.iter().filter(|number| *number % LANES == lane);
        assert!(of_lane.is_sorted(), "the order of lane {lane}");
    }
}

#[test]
fn a_node_that_falls_silent_loses_its_lanes_and_nothing_is_lost_or_done_twice() {
    let Some(house) = house() else { return };
    let (first, second) = (Node::start(&house, 31, 0), Node::start(&house, 32, 100_000));
    // Both are there, and share the lanes, before there is work.
    both(&first, &second, "a share for each", async || {
        house.rows("jobs_leases").await == 65 && two_hold(&house).await
    });
    enqueue(&house, &second, 0..2_000);
    // The first takes what it may and hangs; from then on it says nothing.
    first.permits.add_permits(1);
    first.until("some work of the first", async || !house.effects().await.is_empty());
    second.until("the second to do the rest", async || house.effects().await.len() >= 2_000);
    check(&second.runtime.block_on(house.effects()), 2_000);
    // It wakes, goes on with what it had taken, and shares what comes.
    first.permits.add_permits(100_000);
    enqueue(&house, &second, 2_000..2_400);
    both(&first, &second, "the end", async || {
        house.effects().await.len() >= 2_400 && two_hold(&house).await
    });
    check(&second.runtime.block_on(house.effects()), 2_400);
    first.leave();
    second.leave();
}

/// Whether two nodes live and each has its half of the slots.
async fn two_hold(house: &House) -> bool {
    let count = |tx: &mut Tx| {
        tx.column::<i64>(
            "SELECT COUNT(*) FROM jobs_leases l JOIN jobs_nodes n ON n.node = l.node
             WHERE l.name <> 'leader' GROUP BY l.node",
            &[],
        )
    };
    let held: Result<Vec<i64>, weir_db::Error> = house.db.read(Class::Interactive, count).await;
    held.unwrap() == [32, 32]
}

#[test]
fn a_node_that_stops_hands_its_lanes_over_at_once_and_a_pause_holds_on_all() {
    let Some(house) = house() else { return };
    let (first, second) = (Node::start(&house, 41, 100_000), Node::start(&house, 42, 100_000));
    both(&first, &second, "a share for each", async || two_hold(&house).await);
    first.runtime.block_on(first.jobs.pause("notes")).unwrap();
    second.until("the pause on the other node", async || {
        second.jobs.queues().iter().any(|queue| queue.name == "notes" && queue.paused)
    });
    enqueue(&house, &second, 0..400);
    second.until("its part of the jobs", async || {
        second.jobs.queues().iter().any(|queue| queue.name == "notes" && queue.depth > 0)
    });
    assert!(second.runtime.block_on(house.effects()).is_empty());
    second.runtime.block_on(second.jobs.resume("notes")).unwrap();
    first.leave();
    second.until("all", async || house.effects().await.len() >= 400);
    check(&second.runtime.block_on(house.effects()), 400);
    second.leave();
    let left = Builder::new_current_thread().build().unwrap();
    assert_eq!(left.block_on(house.rows("jobs_leases")), 0);
}

#[test]
fn a_process_that_was_killed_has_its_lanes_again_as_soon_as_it_starts() {
    let Some(house) = house() else { return };
    let first = Node::start_as(&house, 51, 0, LONG, "here");
    first.until("all lanes are its own", async || house.rows("jobs_leases").await == 65);
    enqueue(&house, &first, 0..2_000);
    first.permits.add_permits(1);
    first.until("some work", async || !house.effects().await.is_empty());
    first.die();
    // Nobody will take it for dead within an hour.
    let second = Node::start_as(&house, 52, 100_000, LONG, "here");
    second.until("the rest", async || house.effects().await.len() >= 2_000);
    check(&second.runtime.block_on(house.effects()), 2_000);
    assert_eq!(second.runtime.block_on(house.rows("jobs_nodes")), 1);
    second.leave();
}

#[test]
fn what_runs_on_another_node_is_counted_listed_and_cut_off() {
    let Some(house) = house() else { return };
    let (first, second) = (Node::start(&house, 61, 100_000), Node::start(&house, 62, 100_000));
    both(&first, &second, "a share for each", async || two_hold(&house).await);
    // Its lane is one's, and the other has to hear of it.
    let jobs = house.jobs.clone();
    let id =
        first.runtime.block_on(house.write(move |tx| jobs.enqueue(tx, &Call { number: ENDLESS })));
    both(&first, &second, "it runs", async || {
        first.jobs.running().len() + second.jobs.running().len() == 1
    });
    let other = if first.jobs.running().is_empty() { &first } else { &second };
    both(&first, &second, "both tell of it", async || {
        let listed = other.jobs.running_everywhere().await.unwrap();
        let stats = other.jobs.stats().await.unwrap();
        let running: u64 = stats.queues.iter().map(|queue| queue.running).sum();
        let lanes = other.jobs.lanes_everywhere("calls", 10).await.unwrap();
        running == 1
            && listed.iter().map(|job| (job.id, job.process.is_some())).eq([(id, true)])
            && lanes.len() == 1
    });
    assert!(other.runtime.block_on(other.jobs.cancel_now(id)).unwrap());
    both(&first, &second, "it is cut off", async || {
        first.jobs.running().is_empty() && second.jobs.running().is_empty()
    });
    assert_eq!(first.runtime.block_on(house.rows("jobs")), 0);
    first.leave();
    second.leave();
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_share_a_redis_too_hand_each_job_over_once() {
    let Some(house) = house() else { return };
    let redis = RedisServer::start();
    let mut running = Vec::new();
    for place in ["one", "other"] {
        let db = house.fixture.open_again();
        let jobs = Jobs::open_as(db, house.clock.clone(), Random::system(), NODES).unwrap();
        jobs.set_place(place);
        let stop = CancellationToken::new();
        let options = Options { place: place.into(), ..Options::new(redis.url()) };
        let registry = registry(Arc::new(Semaphore::new(100_000)));
        running.push((jobs.start_on_redis(registry, options, stop.clone()).unwrap(), stop));
    }
    until("a share for each", async || two_hold(&house).await).await;
    let (jobs, at) = (house.jobs.clone(), house.clock.now().plus_ms(1_000));
    house
        .write(move |tx| {
            let notes: Vec<Note> =
                numbers(900).into_iter().map(|number| Note::new(number % LANES, number)).collect();
            jobs.enqueue_many(tx, &notes)?;
            (900..1_000).try_for_each(|number| {
                jobs.enqueue_at(tx, at, &Note::new(number % LANES, number)).map(|_| ())
            })
        })
        .await;
    house.clock.advance(2_000);
    until("all", async || house.effects().await.len() >= 1_000).await;
    let ended = || redis.ask::<Option<u64>>(&["GET", "stat:processed"]).unwrap_or(0);
    until("all ends are told", async || ended() >= 1_000).await;
    for (workers, stop) in running {
        stop.cancel();
        workers.finish(Duration::from_secs(60)).await;
    }
    let mut effects = house.effects().await;
    effects.sort_unstable();
    assert_eq!(effects, numbers(1_000), "each effect is had once");
    assert!(ended() <= 1_100, "what is scheduled may be handed over by both: {}", ended());
    assert_eq!(house.rows("jobs").await + house.rows("jobs_later").await, 0);
}

/// Ends all connections of the house's database and lets none in, or lets them in again.
fn set_away(house: &House, is_away: bool) {
    let server = std::env::var("WEIR_TEST_POSTGRES").unwrap();
    let name = house.fixture.url.rsplit('/').next().unwrap().to_owned();
    let run = move || {
        let mut client = postgres::Client::connect(&server, postgres::NoTls).unwrap();
        let allowed = !is_away;
        client
            .batch_execute(&format!("ALTER DATABASE {name} ALLOW_CONNECTIONS {allowed}"))
            .unwrap();
        if is_away {
            let ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1";
            client.execute(ended, &[&name]).unwrap();
        }
    };
    // The driver may not block a thread that runs asynchronous code.
    std::thread::spawn(run).join().unwrap();
}

#[tokio::test]
async fn while_the_database_is_away_jobs_wait_and_then_each_is_had_once() {
    let Some(house) = house() else { return };
    let running = house.start(registry(Arc::new(Semaphore::new(100_000))));
    let jobs = house.jobs.clone();
    let notes = |range: std::ops::Range<i64>| -> Vec<Note> {
        range.map(|number| Note::new(number % LANES, number)).collect()
    };
    let (first, second) = (notes(0..400), notes(400..500));
    let later = house.clock.now().plus_ms(3_600_000);
    house
        .write(move |tx| {
            jobs.enqueue_at(tx, later, &Note::new(0, 500))?;
            jobs.enqueue_many(tx, &first)
        })
        .await;
    set_away(&house, true);
    let refused = house.db.write(Class::Interactive, |tx: &mut Tx| write_effect(tx, -1)).await;
    assert!(refused.is_err(), "nothing is accepted meanwhile");
    // What comes due meanwhile waits too, though nobody looks again by the clock.
    house.advance(2 * 3_600_000);
    set_away(&house, false);
    let jobs = house.jobs.clone();
    until("the database again", async || {
        let (jobs, second) = (jobs.clone(), second.clone());
        let more = move |tx: &mut Tx| jobs.enqueue_many(tx, &second);
        house.db.write::<_, weir_db::Error, _>(Class::Interactive, more).await.is_ok()
    })
    .await;
    until("all", async || house.effects().await.len() >= 501).await;
    let mut effects = house.effects().await;
    effects.sort_unstable();
    assert_eq!(effects, numbers(501), "each effect is had once, and no failure was counted");
    assert_eq!(house.jobs.stats().await.unwrap().retries, 0);
    running.stop().await;
}

fn enqueue_one(house: &House, by: &Node, number: i64) -> Id {
    let jobs = house.jobs.clone();
    by.runtime.block_on(house.write(move |tx: &mut Tx| jobs.enqueue(tx, &Call { number })))
}

/// The one of both that does not run the only call, once it runs.
fn which_waits<'n>(first: &'n Node, second: &'n Node) -> &'n Node {
    both(first, second, "it runs", async || {
        first.jobs.running().len() + second.jobs.running().len() == 1
    });
    if first.jobs.running().is_empty() { first } else { second }
}

#[test]
fn tasks_in_another_nodes_lanes_move_to_another_queue_only_while_theirs_is_paused() {
    let Some(house) = house() else { return };
    let (first, second) = (Node::start(&house, 71, 100_000), Node::start(&house, 72, 100_000));
    both(&first, &second, "a share for each", async || two_hold(&house).await);
    let enqueue = |number: i64| enqueue_one(&house, &first, number);
    let endless = enqueue(ENDLESS);
    let other = which_waits(&first, &second);
    let moved = || other.runtime.block_on(other.jobs.move_queue("calls", "slow calls", |_| ()));
    assert_eq!(moved().unwrap().changed, 0, "whether it runs is not known here");
    assert!(other.runtime.block_on(other.jobs.cancel_now(endless)).unwrap());
    other.runtime.block_on(other.jobs.pause("calls")).unwrap();
    both(&first, &second, "it is cut off, and both know of the pause", async || {
        let paused = |node: &Node| {
            node.jobs.queues().iter().any(|queue| queue.name == "calls" && queue.paused)
        };
        paused(&first) && paused(&second) && house.rows("jobs").await == 0
    });
    enqueue(1);
    assert_eq!(moved().unwrap().changed, 1);
    both(&first, &second, "it runs in the other queue", async || house.rows("jobs").await == 0);
    first.leave();
    second.leave();
}

#[test]
fn one_node_removes_what_waits_on_all_of_them_however_much_that_is() {
    let Some(house) = house() else { return };
    let (first, second) = (Node::start(&house, 73, 0), Node::start(&house, 74, 0));
    both(&first, &second, "a share for each", async || two_hold(&house).await);
    // More than the nodes count of each other.
    let count = 101_000;
    for part in 0..10 {
        enqueue(&house, &second, part * count / 10..(part + 1) * count / 10);
    }
    let search = Search::all(Set::Ready);
    let sweep = first.jobs.sweep(&search, Action::Delete, |_| ());
    let swept = first.runtime.block_on(sweep).unwrap();
    assert_eq!(swept.changed, u64::try_from(count).unwrap());
    assert_eq!(first.runtime.block_on(house.rows("jobs")), 0);
    first.die();
    second.die();
}

#[test]
fn a_task_that_runs_on_another_node_is_not_removed_with_what_waits() {
    let Some(house) = house() else { return };
    let (first, second) = (Node::start(&house, 75, 100_000), Node::start(&house, 76, 100_000));
    both(&first, &second, "a share for each", async || two_hold(&house).await);
    let enqueue = |number: i64| enqueue_one(&house, &first, number);
    let endless = enqueue(ENDLESS);
    let other = which_waits(&first, &second);
    let search = Search::all(Set::Ready);
    let removed = |action| {
        let sweep = other.jobs.sweep(&search, action, |_| ());
        other.runtime.block_on(sweep).unwrap().changed
    };
    assert_eq!((removed(Action::Delete), removed(Action::Kill)), (0, 0));
    assert!(!other.runtime.block_on(other.jobs.kill(endless)).unwrap());
    assert_eq!(other.runtime.block_on(house.rows("jobs")), 1);
    assert!(other.runtime.block_on(other.jobs.cancel_now(endless)).unwrap());
    other.runtime.block_on(other.jobs.pause("calls")).unwrap();
    both(&first, &second, "it is cut off, and both know of the pause", async || {
        let paused = |node: &Node| {
            node.jobs.queues().iter().any(|queue| queue.name == "calls" && queue.paused)
        };
        paused(&first) && paused(&second) && house.rows("jobs").await == 0
    });
    enqueue(1);
    assert_eq!(removed(Action::Delete), 1, "what waits there is removed");
    first.leave();
    second.leave();
}

#[test]
fn what_waits_beside_a_task_that_runs_for_hours_goes_on_though_other_nodes_came() {
    let Some(house) = house() else { return };
    let node = Node::start_as(&house, 77, 0, LONG, "");
    let leases = async || house.rows("jobs_leases").await;
    node.until("all lanes are its own", async || leases().await == 65);
    let enqueue = |number: i64| enqueue_one(&house, &node, number);
    enqueue(ENDLESS);
    node.until("it runs", async || node.jobs.running().len() == 1);
    // So many that the calls' slot is not among those that are kept.
    let come = |tx: &mut Tx| {
        (1..8).try_for_each(|other| {
            let sql = "INSERT INTO jobs_nodes (node, beat, place, view) VALUES (?1, 0, '', '')";
            tx.run(sql, params![other])
        })
    };
    node.runtime.block_on(house.write(come));
    node.until("all but its share and that slot", async || leases().await == 8 + 1 + 1);
    enqueue(1);
    node.until("it goes on, for it would wait for long", async || house.rows("jobs").await == 1);
    assert_eq!(node.jobs.running().len(), 1);
    node.die();
}
