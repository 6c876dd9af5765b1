//! The hand-overs between who enqueues, takes, runs, settles and steers, in the order that a seed
//! decides: with the real directory, places, turns and line, made of shuttle's parts.
//!
//! Shuttle runs one thread at a time and chooses the next at each lock, atomic and wait. Where all
//! wait for each other it fails, so a wake-up that is lost is seen as well as a job that is.

#![allow(
    dead_code,
    clippy::duplicate_mod,
    reason = "the parts are compiled again, of other parts, and not all of them are used"
)]

#[path = "../directory.rs"]
mod directory;
#[path = "../places.rs"]
mod places;
mod sync;

use std::collections::BTreeMap;
use std::sync::Arc;

use shuttle::future::{self, JoinHandle};
use weir_db::Class;

use crate::Order;
use crate::line::Line;
use directory::QueueState;
use sync::{AtomicBool, AtomicUsize, Mutex, Notify, Ordering};

const LANES: [&str; 2] = ["a", "b"];
/// Jobs that are taken ahead of their places, at most.
const TAKEN_MAX: usize = 5;
const SERVERS: usize = 2;

fn schedules() -> usize {
    if std::env::var_os("WEIR_TEST_LONG").is_some() { 100_000 } else { 500 }
}

struct Piece {
    jobs: Vec<(Arc<str>, i64)>,
    has_place: bool,
}

/// A queue of tasks with its dispatcher, servers and writer of ends, as the engine has them, but
/// without the database between.
struct Engine {
    state: Arc<QueueState>,
    line: Mutex<Line<Piece>>,
    /// Ends that are on their way to the database.
    acks: Mutex<Vec<(Arc<str>, i64)>>,
    acked: Notify,
    ran: Mutex<BTreeMap<i64, usize>>,
    removed: Mutex<BTreeMap<i64, usize>>,
    limit_max: AtomicUsize,
    stop: AtomicBool,
    total: usize,
}

impl Engine {
    fn new(total: usize) -> Arc<Self> {
        let state = directory::Directory::default().queue("queue");
        state.turns.lock().configure(Order::OldestFirst, false);
        state.set_limit(2);
        Arc::new(Self {
            state,
            line: Mutex::new(Line::new([(Class::Inbound, 1)])),
            acks: Mutex::new(Vec::new()),
            acked: Notify::new(),
            ran: Mutex::new(BTreeMap::new()),
            removed: Mutex::new(BTreeMap::new()),
            limit_max: AtomicUsize::new(2),
            stop: AtomicBool::new(false),
            total,
        })
    }

    /// As `Worker::run`.
    async fn dispatch(self: Arc<Self>) {
        while !self.stop.load(Ordering::Relaxed) {
            let picks = if self.state.paused.load(Ordering::Relaxed) {
                Vec::new()
            } else {
                let room = TAKEN_MAX.saturating_sub(self.state.taken.load(Ordering::Relaxed));
                self.state.turns.lock().select(room)
            };
            if picks.is_empty() {
                self.state.wake.notified().await;
                continue;
            }
            future::yield_now().await;
            let jobs: Vec<_> = (picks.into_iter())
                .flat_map(|pick| pick.ids.into_iter().map(move |id| (pick.lane.clone(), id)))
                .collect();
            self.state.taken.fetch_add(jobs.len(), Ordering::Relaxed);
            let pieces = jobs.chunks(2).map(|jobs| Piece { jobs: jobs.to_vec(), has_place: false });
            self.begin(pieces.collect());
        }
    }

    /// As `Worker::begin`.
    fn begin(self: &Arc<Self>, pieces: Vec<Piece>) {
        let servers = self.line.lock().push(0, pieces, SERVERS);
        for _ in 0..servers {
            let engine = self.clone();
            future::spawn(async move {
                let mut done = None;
                let next = |done| engine.line.lock().next(done);
                while let Some((served, piece)) = next(done.take()) {
                    engine.run(piece);
                    done = Some((served, 1_000));
                    future::yield_now().await;
                }
            });
        }
    }

    /// As `Run::all`: a job with an even number waits for something.
    fn run(self: &Arc<Self>, mut piece: Piece) {
        let mut ended = Vec::new();
        while let Some((lane, id)) = (!piece.jobs.is_empty()).then(|| piece.jobs.remove(0)) {
            if !std::mem::take(&mut piece.has_place) && !self.state.places.try_take() {
                piece.jobs.insert(0, (lane, id));
                let (engine, jobs) = (self.clone(), std::mem::take(&mut piece.jobs));
                future::spawn(async move {
                    engine.state.places.take().await;
                    engine.begin(vec![Piece { jobs, has_place: true }]);
                });
                break;
            }
            let held = self.state.places.held();
            assert!(held <= self.limit_max.load(Ordering::Relaxed), "{held} run at once");
            *self.ran.lock().entry(id).or_default() += 1;
            if id % 2 == 1 {
                self.state.places.give();
                ended.push((lane, id));
                continue;
            }
            self.state.turns.lock().slowed(&lane);
            let engine = self.clone();
            future::spawn(async move {
                future::yield_now().await;
                engine.state.turns.lock().unslowed(&lane);
                engine.state.places.give();
                engine.settle(vec![(lane, id)]);
            });
        }
        if piece.has_place {
            self.state.places.give();
        }
        self.settle(ended);
    }

    /// As `Run::settle`.
    fn settle(&self, ended: Vec<(Arc<str>, i64)>) {
        if ended.is_empty() {
            return;
        }
        let work: Vec<_> = ended.iter().map(|(lane, _)| (lane.clone(), 1, 1_000)).collect();
        self.state.finished(&work);
        let count = ended.len();
        self.acks.lock().extend(ended);
        self.acked.notify_one();
        self.state.untaken(count);
    }

    /// As `acks::run`, until all are removed.
    async fn write(self: Arc<Self>) {
        let mut written = 0;
        while written < self.total {
            let ended = std::mem::take(&mut *self.acks.lock());
            if ended.is_empty() {
                self.acked.notified().await;
                continue;
            }
            future::yield_now().await;
            written += ended.len();
            for (_, id) in &ended {
                *self.removed.lock().entry(*id).or_default() += 1;
            }
            let lanes: Vec<_> = ended.into_iter().map(|(lane, _)| (lane, 1)).collect();
            self.state.settled(&lanes);
        }
        self.stop.store(true, Ordering::Relaxed);
        self.state.wake.notify_one();
    }

    fn assert_each_ran_once(&self) {
        let once: BTreeMap<i64, usize> = (1..=self.total as i64).map(|id| (id, 1)).collect();
        assert_eq!(*self.ran.lock(), once, "each runs once");
        assert_eq!(*self.removed.lock(), once, "each ends once");
        assert_eq!(self.state.turns.lock().depth(), 0);
        assert_eq!(self.state.taken.load(Ordering::Relaxed), 0);
        assert_eq!(self.state.places.held(), 0);
    }
}

/// Enqueues `ids`, one commit after the other.
fn enqueue(engine: &Arc<Engine>, ids: Vec<i64>) -> JoinHandle<()> {
    let engine = engine.clone();
    future::spawn(async move {
        for ids in ids.chunks(2) {
            engine.state.added(LANES[ids[0] as usize % 2], ids, None);
            future::yield_now().await;
        }
    })
}

fn all_run(steer: impl Fn(&Engine) + Send + 'static) {
    let engine = Engine::new(8);
    let steered = engine.clone();
    future::block_on(async move {
        let dispatcher = future::spawn(engine.clone().dispatch());
        let writer = future::spawn(engine.clone().write());
        let enqueuing = [enqueue(&engine, vec![1, 2, 3, 4]), enqueue(&engine, vec![5, 6, 7, 8])];
        let steering = future::spawn(async move { steer(&steered) });
        for task in enqueuing {
            task.await.unwrap();
        }
        steering.await.unwrap();
        writer.await.unwrap();
        dispatcher.await.unwrap();
        // The last job may be written before the task that ran it has said that it is free again.
        while engine.state.taken.load(Ordering::Relaxed) > 0 || engine.state.places.held() > 0 {
            future::yield_now().await;
        }
        engine.assert_each_ran_once();
    });
}

#[test]
fn each_job_runs_and_ends_once_and_no_wake_up_is_lost() {
    shuttle::check_random(|| all_run(|_| {}), schedules());
    shuttle::check_pct(|| all_run(|_| {}), schedules(), 3);
}

#[test]
fn limits_that_change_and_pauses_lose_nothing_and_are_kept() {
    let steer = |engine: &Engine| {
        for limit in [1, 3, 1] {
            engine.limit_max.fetch_max(limit, Ordering::Relaxed);
            engine.state.set_limit(limit);
        }
        for paused in [true, false] {
            engine.state.paused.store(paused, Ordering::Relaxed);
            engine.state.wake.notify_one();
        }
    };
    shuttle::check_random(move || all_run(steer), schedules());
}

#[test]
fn a_job_that_is_taken_back_by_hand_runs_or_is_gone_and_never_both() {
    let tried = || {
        let state = directory::Directory::default().queue("queue");
        state.added("a", &[1, 2], None);
        let (taken, left) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicUsize::new(2)));
        let (taking, leaving) = (state.clone(), left.clone());
        let by_hand = shuttle::thread::spawn(move || {
            // As the unit that removes a row: only who waits is taken back.
            let mut turns = taking.turns.lock();
            if turns.waits("a", 1) {
                turns.removed("a", 1);
                leaving.fetch_sub(1, Ordering::Relaxed);
            }
        });
        let (selecting, selected) = (state.clone(), taken.clone());
        let dispatcher = shuttle::thread::spawn(move || {
            for _ in 0..2 {
                let picks = selecting.turns.lock().select(1);
                selected.lock().extend(picks.into_iter().flat_map(|pick| pick.ids));
            }
        });
        by_hand.join().unwrap();
        dispatcher.join().unwrap();
        let mut turns = state.turns.lock();
        let rest = turns.select(9).into_iter().map(|pick| pick.ids.len()).sum::<usize>();
        assert_eq!(taken.lock().len() + rest, left.load(Ordering::Relaxed));
    };
    shuttle::check_random(tried, schedules());
}
