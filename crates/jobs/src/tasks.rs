//! Running tasks: in short runs of neighbours, each with its timeout, acknowledged in groups.
//!
//! A job that ends at its first poll costs no task of the runtime. One that has to wait for
//! something goes on in a task of its own, and keeps its place in the queue until it ends.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::mpsc::error::TrySendError;

use crate::Outcome;
use crate::acks::{Acks, Ended};
use crate::dispatch::{Worker, panic_text};
use crate::endings::Terms;
use crate::gates::{Breaker, End};
use crate::journal::{Journal, Slot};
use crate::line::{Line, Served};
use crate::registry::{Handler, RunTask};
use crate::rows::Claim;
use crate::running::Site;

/// The work of one run, in ns: so long no other job of the runtime's thread gets its turn.
const RUN_NS: i64 = 250_000;
/// A job whose first poll takes longer, in ns, holds others up: it belongs on a thread of its own.
const BLOCKED_NS: i64 = 50_000_000;
/// This is said so often for each kind, in s.
const BLOCKED_EACH_S: i64 = 60;
/// Jobs of one run.
const RUN_JOBS_MAX: usize = 256;

/// What the jobs of a run share.
struct Run {
    worker: Arc<Worker>,
    handler: RunTask,
    terms: Terms,
    site: Arc<Site>,
    timeout: Duration,
    seconds: metrics::Histogram,
    blocked_told_s: Arc<AtomicI64>,
}

/// A part of a run: neighbours that are worked off before anything else has the thread.
pub(crate) struct Piece {
    run: Arc<Run>,
    claims: Vec<Claim>,
    /// A place was taken for the first of them.
    has_place: bool,
}

/// How the first poll of a job went.
enum First {
    Ended(Outcome),
    Waits(BoxFuture<'static, Outcome>),
}

/// Starts `claims`, all of one kind.
pub(crate) fn start(worker: &Arc<Worker>, handler: &Handler, run: &RunTask, claims: Vec<Claim>) {
    let Some(kind) = claims.first().map(|claim| claim.kind.to_string()) else { return };
    let run = Arc::new(Run {
        worker: worker.clone(),
        handler: run.clone(),
        terms: handler.terms(),
        site: Arc::new(Site::new(worker.inner.clone(), worker.stop.clone())),
        timeout: handler.timeout,
        seconds: metrics::histogram!("weir_jobs_run_seconds", "kind" => kind),
        blocked_told_s: handler.blocked_told_s.clone(),
    });
    let fits = usize::try_from(RUN_NS / worker.state.turns.lock().job_ns()).unwrap_or(1);
    let mut claims = claims.into_iter();
    let next = || {
        let some: Vec<Claim> = claims.by_ref().take(fits.clamp(1, RUN_JOBS_MAX)).collect();
        (!some.is_empty()).then(|| Piece { run: run.clone(), claims: some, has_place: false })
    };
    worker.begin(std::iter::from_fn(next).collect());
}

impl Worker {
    /// Has `pieces` worked off when it is their queue's turn.
    fn begin(self: &Arc<Self>, pieces: Vec<Piece>) {
        let servers_max = Handle::current().metrics().num_workers();
        let servers = self.line.lock().push(self.number, pieces, servers_max);
        for _ in 0..servers {
            self.runs.spawn(serve(Server { line: self.line.clone(), serves: true }));
        }
    }
}

/// One of the few that work off the line.
struct Server {
    line: Arc<Mutex<Line<Piece>>>,
    serves: bool,
}

async fn serve(mut server: Server) {
    let mut done: Option<(Served, i64)> = None;
    // In an expression of its own the lock is given back before the work.
    let next = |done| server.line.lock().next(done);
    while let Some((served, piece)) = next(done.take()) {
        let since = Instant::now();
        let run = piece.run.clone();
        if catch_unwind(AssertUnwindSafe(|| run.all(piece))).is_err() {
            tracing::error!("a run of jobs ended with a panic of the engine: they run again later");
        }
        let took_ns = i64::try_from(since.elapsed().as_nanos()).unwrap_or(i64::MAX);
        done = Some((served, took_ns));
        // Whatever else became ready goes first.
        tokio::task::yield_now().await;
    }
    server.serves = false;
}

impl Drop for Server {
    fn drop(&mut self) {
        // Dropped by the runtime, which is gone, and with it whoever could go on.
        if self.serves {
            // Dropped when the lock is free again: a piece may be the last to hold the line.
            let pieces = self.line.lock().abandon();
            drop(pieces);
        }
    }
}

impl Run {
    /// Runs the jobs of `piece` to their first wait, one after the other, and waits for nothing.
    fn all(self: &Arc<Self>, piece: Piece) {
        let mut has_place = piece.has_place;
        let mut waiting = piece.claims.into_iter();
        let mut ended: Vec<Ended> = Vec::with_capacity(waiting.len());
        let mut full: Vec<Arc<str>> = Vec::new();
        let mut released: Vec<Claim> = Vec::new();
        let mut before = Instant::now();
        let mut work: Vec<(Arc<str>, usize, i64)> = Vec::new();
        let slot = self.slot();
        while let Some(claim) = waiting.next() {
            if full.contains(&claim.lane) || self.is_shut(&claim) {
                released.push(claim);
                continue;
            }
            if !std::mem::take(&mut has_place) && !self.worker.state.places.try_take() {
                let rest = std::iter::once(claim).chain(waiting.by_ref()).collect();
                self.worker.runs.spawn(self.clone().later(rest));
                break;
            }
            slot.iter().for_each(|slot| slot.set(claim.id));
            match self.first(&claim) {
                First::Ended(outcome) => {
                    self.site.ended_at_once(claim.id);
                    self.worker.state.places.give();
                    let ns = add(&mut work, &claim.lane, &mut before);
                    if ns > BLOCKED_NS {
                        self.blocked(&claim, ns);
                    }
                    ended.push(Ended { claim, outcome });
                }
                First::Waits(future) => {
                    if self.worker.state.turns.lock().slowed(&claim.lane) {
                        full.push(claim.lane.clone());
                    }
                    let now = Instant::now();
                    let ns = (now - before).as_nanos() as i64;
                    if ns > BLOCKED_NS {
                        self.blocked(&claim, ns);
                    }
                    let slot = self.slot();
                    slot.iter().for_each(|slot| slot.set(claim.id));
                    self.worker.runs.spawn(self.clone().rest(claim, future, before, slot));
                    before = now;
                }
            }
        }
        drop(slot);
        if has_place {
            self.worker.state.places.give();
        }
        self.settle(&mut ended, &mut work);
        if !released.is_empty() {
            self.worker.give_back_tasks(&released);
        }
    }

    /// Waits for a place and begins `claims` then; at a stop they are handed back.
    async fn later(self: Arc<Self>, claims: Vec<Claim>) {
        let worker = &self.worker;
        tokio::select! {
            () = worker.state.places.take() => {
                worker.begin(vec![Piece { run: self.clone(), claims, has_place: true }]);
            }
            () = worker.stop.cancelled() => worker.give_back_tasks(&claims),
        }
    }

    /// Whether the breaker of the job's lane has opened since it was taken.
    fn is_shut(&self, claim: &Claim) -> bool {
        self.worker.queue.breaker_failures > 0
            && self.worker.state.turns.lock().gate(&claim.lane).0 == Breaker::Open
    }

    /// The first poll of a job took `ns`, in which nobody else had its thread.
    #[cold]
    fn blocked(&self, claim: &Claim, ns: i64) {
        let kind = &*claim.kind;
        metrics::counter!("weir_jobs_blocked_total", "kind" => kind.to_owned()).increment(1);
        let now_s = self.worker.inner.clock.now().as_ms() / 1_000;
        let told_s = self.blocked_told_s.load(Ordering::Relaxed);
        if now_s.saturating_sub(told_s) >= BLOCKED_EACH_S {
            self.blocked_told_s.store(now_s, Ordering::Relaxed);
            let ms = ns / 1_000_000;
            tracing::warn!(kind, ms, "the job blocks a thread of the runtime: register it as such");
        }
    }

    fn first(&self, claim: &Claim) -> First {
        if self.worker.inner.running.is_doomed(claim.id) {
            return First::Ended(Outcome::Cancelled);
        }
        let polled = catch_unwind(AssertUnwindSafe(|| {
            let mut future = (self.handler)(claim, &self.site);
            // Whoever is waited for is told the true waker at the next poll, which comes at once.
            match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(outcome) => First::Ended(outcome),
                Poll::Pending => First::Waits(future),
            }
        }));
        match polled {
            Ok(First::Ended(outcome)) => First::Ended(self.told(claim, outcome)),
            Ok(waits) => waits,
            Err(panic) => First::Ended(self.worker.failed(claim, panic_text(&*panic))),
        }
    }

    /// Where it is written down what runs.
    fn slot(&self) -> Option<Slot> {
        self.worker.inner.journal.get().and_then(Journal::slot)
    }

    /// The rest of a job that has to wait.
    async fn rest(
        self: Arc<Self>,
        claim: Claim,
        job: BoxFuture<'static, Outcome>,
        since: Instant,
        slot: Option<Slot>,
    ) {
        let running = &self.worker.inner.running;
        let now = self.worker.inner.clock.now();
        let cancelled = running.begin(&claim, &self.worker.state.name, now);
        let left = self.timeout.saturating_sub(since.elapsed());
        let caught = AssertUnwindSafe(job).catch_unwind();
        let outcome = tokio::select! {
            outcome = tokio::time::timeout(left, caught) => Some(outcome),
            () = cancelled.cancelled() => None,
            // It stays in its row, and in flight: nobody takes it before the next start.
            () = self.worker.cut.cancelled() => return running.end(claim.id),
        };
        running.end(claim.id);
        drop(slot);
        let outcome = match outcome {
            None => Outcome::Cancelled,
            Some(Ok(Ok(outcome))) => self.told(&claim, outcome),
            Some(Ok(Err(panic))) => self.worker.failed(&claim, panic_text(&*panic)),
            Some(Err(_)) => {
                let seconds = self.timeout.as_secs();
                self.worker.failed(&claim, format!("not done within {seconds} s"))
            }
        };
        let state = &self.worker.state;
        state.turns.lock().unslowed(&claim.lane);
        state.places.give();
        let mut work = Vec::new();
        add(&mut work, &claim.lane, &mut { since });
        self.settle(&mut vec![Ended { claim, outcome }], &mut work);
    }

    /// Tells the lanes' breakers how jobs ended.
    fn tell_breakers(&self, ended: &[Ended]) {
        let mut opened = Vec::new();
        let mut turns = self.worker.state.turns.lock();
        turns.at(self.worker.inner.clock.now().as_ms());
        for Ended { claim, outcome } in ended {
            if turns.ended(&claim.lane, End::of(outcome)) {
                opened.push(&claim.lane);
            }
        }
        drop(turns);
        let queue = &self.worker.state.name;
        for lane in opened {
            metrics::counter!("weir_jobs_breakers_opened_total", "queue" => queue.to_string())
                .increment(1);
            tracing::info!(%queue, %lane, "jobs of the lane fail: it waits, and one is tried");
        }
    }

    /// Says of a failure in the log, and gives the outcome on.
    fn told(&self, claim: &Claim, outcome: Outcome) -> Outcome {
        if let Outcome::Retry { reason, .. } | Outcome::Down { reason, .. } = &outcome {
            self.worker.log_failure(claim, reason);
        }
        outcome
    }

    /// Hands what ended over to be written, and tells the directory of the work it was.
    fn settle(&self, ended: &mut Vec<Ended>, work: &mut Vec<(Arc<str>, usize, i64)>) {
        if ended.is_empty() {
            return;
        }
        let ns: i64 = work.iter().map(|(_, _, ns)| ns).sum();
        let count = ended.len();
        // One value for many quick jobs: a recorder keeps each until it is read.
        self.seconds.record(ns as f64 / 1e9 / count as f64);
        if self.worker.queue.breaker_failures > 0 {
            self.tell_breakers(ended);
        }
        self.worker.state.finished(work);
        self.worker.state.meter.ended(count, ns);
        work.clear();
        let ended = std::mem::take(ended);
        let took = Duration::from_nanos(ns.unsigned_abs());
        let worker = &self.worker;
        match worker.acks.try_send(Acks::new(worker, self.terms, ended, took)) {
            Ok(()) => worker.state.untaken(count),
            // Nobody else is held up meanwhile; how many may wait so is limited by what is taken.
            Err(TrySendError::Full(acks)) => {
                let worker = worker.clone();
                self.worker.runs.spawn(async move {
                    worker.acknowledge(acks).await;
                    worker.state.untaken(count);
                });
            }
            // The writers go last of all.
            Err(TrySendError::Closed(_)) => worker.state.untaken(count),
        }
    }
}

/// Adds the time since `before`, which it gives in ns, to the work of `lane`, as that of one job.
fn add(work: &mut Vec<(Arc<str>, usize, i64)>, lane: &Arc<str>, before: &mut Instant) -> i64 {
    let now = Instant::now();
    let ns = i64::try_from((now - *before).as_nanos()).unwrap_or(i64::MAX);
    *before = now;
    match work.last_mut() {
        Some((last, count, all_ns)) if Arc::ptr_eq(last, lane) => {
            *count += 1;
            *all_ns = all_ns.saturating_add(ns);
        }
        _ => work.push((lane.clone(), 1, ns)),
    }
    ns
}
