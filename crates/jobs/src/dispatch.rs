//! One queue's dispatcher: whose turn it is, the read of their rows, and their start.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use weir_base::Id;
use weir_db::Dialect;

use crate::acks::{Acks, Ended};
use crate::controller::Fixed;
use crate::directory::QueueState;
use crate::endings::Terms;
use crate::jobs::Inner;
use crate::line::Line;
use crate::registry::{Handler, Run};
use crate::rows::{self, Claim};
use crate::tasks::Piece;
use crate::turns::Pick;
use crate::yielding::{Behind, Yielding};
use crate::{Outcome, Queue, blocking, controller, tasks, units};

/// Jobs of a queue of tasks that run at once at first, when its declaration does not say.
const TASKS_MAX: usize = controller::START;
/// Batches of a queue of units in preparation or in the database at once, likewise: one is
/// prepared while another is written. With more of them each is smaller, and what a batch costs
/// whatever its size is paid more often.
const BATCHES_MAX: usize = 2;
/// A batch should occupy the database for about this long, in ns: SQLite's one writer, or one of
/// PostgreSQL's connections, where nobody waits behind it and each statement costs a way.
const fn batch_ns(dialect: Dialect) -> i64 {
    match dialect {
        Dialect::Sqlite => 5_000_000,
        Dialect::Postgres => 80_000_000,
    }
}
/// The same of the first batches, by a guess.
const FIRST_BATCH_NS: i64 = 5_000_000;
/// On PostgreSQL a batch may take so long, in ns, until it has this many jobs: its statements'
/// ways are the same for few, so that a batch that is small because it took long would take no
/// less.
const SMALL_BATCH_NS: i64 = 1_000_000_000;
const SMALL_BATCH_JOBS: i64 = 100;
/// Jobs in one batch of units.
const BATCH_JOBS_MAX: usize = 2_000;
/// Tasks are taken ahead for about this much work, in ns, so that quick ones never wait for a read.
const AHEAD_NS: i64 = 10_000_000;
/// The most tasks that are taken ahead.
const AHEAD_MAX: usize = 8_192;
/// Rows of one look for jobs that are not held in memory.
const SCAN_MAX: usize = 100_000;
/// Tasks of one read. It holds a core for about a millisecond, and somebody who is more urgent may
/// wait for that.
const READ_MAX: usize = 1_024;
/// The longest rest of a queue that steps back: a batch that takes longer waits for something.
const REST_MAX: Duration = Duration::from_secs(1);
/// The wait before the database is asked again after it failed.
pub(crate) const AGAIN_AFTER: Duration = Duration::from_millis(500);

/// What the parts of one queue's work share.
pub(crate) struct Worker {
    pub(crate) inner: Arc<Inner>,
    pub(crate) queue: Queue,
    pub(crate) state: Arc<QueueState>,
    pub(crate) handlers: Arc<BTreeMap<&'static str, Handler>>,
    pub(crate) waited: metrics::Histogram,
    pub(crate) limit: metrics::Gauge,
    pub(crate) open_breakers: metrics::Gauge,
    pub(crate) acks: mpsc::Sender<Acks>,
    pub(crate) runs: TaskTracker,
    /// Tasks of all queues on their way to their first poll, and the queue's place there.
    pub(crate) line: Arc<Mutex<Line<Piece>>>,
    pub(crate) number: usize,
    /// What it gives way to, if to anything.
    pub(crate) yielding: Option<Yielding>,
    /// Whether it steps back, for a queue of units.
    pub(crate) pressed: Option<Behind>,
    /// All queues that are served.
    pub(crate) beside: Arc<[(Queue, Arc<QueueState>)]>,
    /// Take nothing new.
    pub(crate) stop: CancellationToken,
    /// End what runs.
    pub(crate) cut: CancellationToken,
}

impl Worker {
    /// Gives the directory what the queue's declaration says.
    pub(crate) fn configure(&self) {
        let units = self.is_unit();
        let limit = self.fixed().map_or(TASKS_MAX, Fixed::limit);
        self.state.turns.lock().configure(self.queue.order, units);
        let (rate, failures) = (self.queue.lane_rate, self.queue.breaker_failures);
        self.state.turns.lock().set_gates(rate, if units { 0 } else { failures });
        self.state.set_limit(limit);
        self.state.is_unit.store(units, Ordering::Relaxed);
    }

    /// Dispatches until it is told to stop.
    pub(crate) async fn run(self: Arc<Self>) {
        while !self.stop.is_cancelled() {
            self.refill().await;
            let picks = self.select();
            if picks.is_empty() {
                tokio::select! {
                    () = self.state.wake.notified() => {}
                    () = self.state.gate_opens(&self.inner.clock) => {}
                    () = self.look_again() => {}
                    () = self.stop.cancelled() => {}
                }
                continue;
            }
            match self.read(&picks).await {
                Ok(found) => {
                    let claims = self.take(&picks, found);
                    self.start(claims).await;
                }
                Err(error) => {
                    self.inner.outage.failed("jobs cannot be read", &error);
                    for pick in picks.iter() {
                        self.state.released(&pick.lane, &pick.ids);
                    }
                    self.pause_for_database().await;
                }
            }
        }
    }

    /// Waits a little while the database is away, unless it is time to stop.
    pub(crate) async fn pause_for_database(&self) {
        tokio::select! {
            () = tokio::time::sleep(AGAIN_AFTER) => {}
            () = self.stop.cancelled() => {}
        }
    }

    pub(crate) fn is_unit(&self) -> bool {
        let mut here = self.handlers.values().filter(|it| it.queue.name == self.queue.name);
        here.any(|handler| handler.run.is_unit())
    }

    /// What the queue's declaration says of its limit.
    pub(crate) fn declared(&self) -> Option<Fixed> {
        match (self.queue.running_max, self.is_unit()) {
            (0, true) => Some(Fixed::Batches(BATCHES_MAX)),
            (0, false) => {
                let mut here = self.handlers.values().filter(|it| it.queue.name == self.queue.name);
                here.any(|handler| handler.is_blocking).then(|| Fixed::Threads(blocking::threads()))
            }
            (most, _) => Some(Fixed::Declared(most)),
        }
    }

    /// Tasks that are taken ahead when each takes `job_ns`.
    fn ahead(job_ns: i64) -> usize {
        usize::try_from(AHEAD_NS / job_ns).unwrap_or(1).min(AHEAD_MAX)
    }

    /// Whether only as many tasks are taken as there are places.
    pub(crate) fn takes_none_ahead(&self, job_ns: i64, places: usize) -> bool {
        self.fixed().is_some()
            || Self::ahead(job_ns) <= places
            || self.state.lean.load(Ordering::Relaxed)
    }

    /// Waits until it is time to look again at what the queue gives way to.
    async fn look_again(&self) {
        match &self.yielding {
            Some(yielding) => yielding.look_again().await,
            None => std::future::pending().await,
        }
    }

    fn select(&self) -> Vec<Pick> {
        let now = self.inner.clock.now();
        if self.yielding.as_ref().is_some_and(|it| it.waits(now)) {
            return Vec::new();
        }
        let behind = self.yielding.as_ref().filter(|it| it.is_waiting());
        let picks = self.select_now(behind.map_or(usize::MAX, |it| it.few));
        if let Some(yielding) = self.yielding.as_ref().filter(|_| !picks.is_empty()) {
            yielding.took(now);
        }
        picks
    }

    fn select_now(&self, most: usize) -> Vec<Pick> {
        let closed = self.state.paused.load(Ordering::Relaxed)
            || self.inner.quiet.load(Ordering::Relaxed)
            || self.state.shed.load(Ordering::Relaxed);
        if closed {
            return Vec::new();
        }
        let heaviest = if self.is_unit() { self.heaviest() } else { 0 };
        let mut turns = self.state.turns.lock();
        if turns.has_gates() {
            turns.at(self.inner.clock.now().as_ms());
        }
        let budget = if self.is_unit() {
            // The first batches are small: nothing is known of their jobs.
            let all_ns = match turns.is_measured() {
                true => batch_ns(self.inner.db.dialect()),
                false => FIRST_BATCH_NS,
            };
            let job_ns = turns.job_ns().max(1);
            let least = match self.inner.db.dialect() {
                Dialect::Postgres if turns.is_measured() => {
                    (SMALL_BATCH_NS / job_ns).min(SMALL_BATCH_JOBS)
                }
                _ => 1,
            };
            let most = batch_jobs((all_ns / job_ns).max(least), self.queue.weight, heaviest);
            if self.has_place() { most } else { 0 }
        } else {
            self.room(turns.job_ns())
        };
        turns.select(budget.min(self.state.claim_max()).min(most))
    }

    /// Whether one more batch may be on its way. The end of one that is, and of the rest after it,
    /// wakes the dispatcher.
    fn has_place(&self) -> bool {
        let places = &self.state.places;
        places.free() > 0 && (places.held() == 0 || !self.is_pressed())
    }

    /// Whether the queue steps back, so that others have more.
    pub(crate) fn is_pressed(&self) -> bool {
        self.pressed.as_ref().is_some_and(|is_pressed| is_pressed())
    }

    /// Waits for as long as a batch `took`, where the queue is to have half of the time.
    pub(crate) async fn rest_after(&self, took: Duration) {
        if self.is_pressed() {
            tokio::select! {
                () = tokio::time::sleep(took.min(REST_MAX)) => {}
                () = self.stop.cancelled() => {}
            }
        }
    }

    /// The most weight of a queue of units in this one's class that has work.
    fn heaviest(&self) -> u32 {
        let own = self.queue.weight;
        let heavier = self.beside.iter().filter(|(queue, state)| {
            queue.class == self.queue.class
                && queue.weight > own
                && state.is_unit.load(Ordering::Relaxed)
                && state.turns.lock().waiting()
        });
        heavier.map(|(queue, _)| queue.weight).max().unwrap_or(own)
    }

    /// How many tasks to take: as many as places are free, and of quick ones some ahead.
    fn room(&self, job_ns: i64) -> usize {
        let places = self.state.places.most();
        let none_ahead = self.takes_none_ahead(job_ns, places);
        let most = if none_ahead { places } else { Self::ahead(job_ns) };
        let room = most.saturating_sub(self.state.taken.load(Ordering::Relaxed));
        // Not in driblets: a read costs as much as many quick jobs.
        if most > places && room < most / 4 { 0 } else { room.min(READ_MAX) }
    }

    /// Looks for jobs that are counted but not held in memory, when they are needed.
    async fn refill(&self) {
        while let Some(refill) = self.refill_wanted() {
            let name = self.state.name.clone();
            let scan = move |tx: &mut weir_db::Tx| rows::scan(tx, &name, refill, SCAN_MAX);
            match self.inner.db.read(self.queue.class, scan).await {
                Ok(scanned) => {
                    self.state.turns.lock().refilled(refill, &scanned.rows, scanned.last);
                }
                Err(error) => {
                    let error: weir_db::Error = error;
                    self.inner.outage.failed("jobs cannot be looked for", &error);
                    return self.pause_for_database().await;
                }
            }
        }
    }

    fn refill_wanted(&self) -> Option<i64> {
        self.state.turns.lock().refill()
    }

    pub(crate) async fn read(&self, picks: &[Pick]) -> Result<Vec<Vec<Claim>>, weir_db::Error> {
        // Of tasks the row is looked at before they begin, of units when they end.
        let (mut found, picks) = match self.is_unit() {
            true => self.inner.hand.take(picks),
            false => (vec![Vec::new(); picks.len()], picks.to_vec()),
        };
        if picks.iter().all(|pick| pick.ids.is_empty()) {
            return Ok(found);
        }
        let (handlers, me) = (self.handlers.clone(), self.inner.nodes.me());
        let queue = self.queue.name;
        let read = move |tx: &mut weir_db::Tx| {
            let known = |kind: &str| handlers.get_key_value(kind).map(|(kind, _)| *kind);
            rows::read(tx, queue, &picks, &known, me)
        };
        let since = Instant::now();
        // What waits lies on the disk already; what ends beside it need not be waited for.
        let read = self.inner.db.read_early(self.queue.class, read).await;
        self.inner.database_times.took(since.elapsed());
        for (claims, mut more) in found.iter_mut().zip(read?) {
            if claims.is_empty() {
                *claims = more;
            } else {
                claims.append(&mut more);
                claims.sort_unstable_by_key(|claim| claim.id);
            }
        }
        Ok(found)
    }

    /// Marks what was read as taken. Of a lane of units only the jobs up to the first of another
    /// kind are kept, since a batch is of one kind and the lane's order holds over kinds.
    pub(crate) fn take(&self, picks: &[Pick], found: Vec<Vec<Claim>>) -> Vec<Claim> {
        let is_unit = self.is_unit();
        let now = self.inner.clock.now();
        let mut taken = Vec::new();
        let mut turns = self.state.turns.lock();
        for (pick, mut claims) in picks.iter().zip(found) {
            turns.gone(&pick.lane, pick.ids.len() - claims.len());
            if is_unit && let Some(first) = claims.first() {
                let same = claims.iter().take_while(|claim| claim.kind == first.kind).count();
                let others: Vec<i64> = claims[same..].iter().map(|claim| claim.id.0).collect();
                turns.released(&pick.lane, &others);
                claims.truncate(same);
            }
            taken.append(&mut claims);
        }
        drop(turns);
        // A recorder keeps each value until it is read: of many claims one in so many.
        for claim in taken.iter().step_by(1 + taken.len() / 64) {
            self.waited.record(now.since_ms(claim.ready_at).max(0) as f64 / 1_000.0);
        }
        if !is_unit {
            self.state.taken.fetch_add(taken.len(), Ordering::Relaxed);
        }
        let bytes = taken.iter().map(|claim| claim.payload.len()).sum();
        self.state.saw_payloads(taken.len(), bytes);
        taken
    }

    pub(crate) async fn start(self: &Arc<Self>, claims: Vec<Claim>) {
        let mut kinds: BTreeMap<Cow<'static, str>, Vec<Claim>> = BTreeMap::new();
        for claim in claims {
            kinds.entry(claim.kind.clone()).or_default().push(claim);
        }
        for (kind, claims) in kinds {
            let handler = self.handlers.get(&*kind);
            match handler.filter(|handler| handler.run.is_unit() == self.is_unit()) {
                None => self.unhandled(&kind, claims).await,
                Some(handler)
                    if handler.unique.ends_at_start() && !self.free_keys(&claims).await =>
                {
                    match &handler.run {
                        Run::Unit(_) => self.give_back(&claims),
                        Run::Task(_) => self.give_back_tasks(&claims),
                    }
                }
                Some(handler) => match &handler.run {
                    Run::Unit(prepare) => units::start(self, handler, prepare, claims),
                    Run::Task(run) => tasks::start(self, handler, run, claims),
                },
            }
        }
    }

    /// Frees the unique keys of jobs that start, before they read anything; false when the database
    /// failed.
    async fn free_keys(&self, claims: &[Claim]) -> bool {
        let keys: Vec<(String, Id)> = (claims.iter())
            .filter_map(|claim| Some((claim.unique_key.clone()?, claim.id)))
            .collect();
        if keys.is_empty() {
            return true;
        }
        let free = move |tx: &mut weir_db::Tx| {
            rows::free_keys(tx, keys.iter().map(|(key, id)| (key.as_str(), *id)))
        };
        let freed: Result<(), weir_db::Error> = self.inner.db.write(self.queue.class, free).await;
        if let Err(error) = &freed {
            self.inner.outage.failed("unique jobs cannot start", &error);
            self.pause_for_database().await;
        }
        freed.is_ok()
    }

    /// Jobs that were taken wait again, without a failure being counted.
    pub(crate) fn give_back(&self, claims: &[Claim]) {
        for claim in claims {
            self.state.released(&claim.lane, &[claim.id.0]);
        }
    }

    /// The same for tasks.
    pub(crate) fn give_back_tasks(&self, claims: &[Claim]) {
        self.give_back(claims);
        self.state.untaken(claims.len());
    }

    /// Rows that came after the start, from an older or newer version of the program.
    async fn unhandled(&self, kind: &str, claims: Vec<Claim>) {
        tracing::error!(queue = %self.state.name, kind, "no handler here: moved to the dead set");
        let count = claims.len();
        let work: Vec<_> = claims.iter().map(|claim| (claim.lane.clone(), 1, 1)).collect();
        self.state.finished(&work);
        let reason = format!("no handler of queue {} knows it", self.state.name);
        let dead = |claim| Ended { claim, outcome: Outcome::Dead(reason.clone()) };
        let ended = claims.into_iter().map(dead).collect();
        self.acknowledge(Acks::new(self, Terms::UNKNOWN, ended, Duration::ZERO)).await;
        if !self.is_unit() {
            self.state.untaken(count);
        }
    }

    /// Hands ends over to be written, waiting when too many are.
    pub(crate) async fn acknowledge(&self, acks: Acks) {
        // The receiver goes last of all, after everything that could send.
        let _ = self.acks.send(acks).await;
    }

    /// Says of a failed attempt in the log.
    pub(crate) fn log_failure(&self, claim: &Claim, reason: &str) {
        let (queue, kind) = (&self.state.name, &*claim.kind);
        tracing::warn!(%queue, kind, id = %claim.id, attempt = claim.attempt, reason, "job failed");
    }

    /// The reason of a failed attempt, in the log and as an outcome.
    pub(crate) fn failed(&self, claim: &Claim, reason: String) -> Outcome {
        self.log_failure(claim, &reason);
        Outcome::Retry { reason, after_ms: None }
    }
}

/// Jobs of a batch, of at most `jobs`, of a queue with `weight` beside one with `heaviest`. Each
/// has as many batches on their way as the other, so their sizes decide which part of the
/// database's time is whose.
fn batch_jobs(jobs: i64, weight: u32, heaviest: u32) -> usize {
    let most = usize::try_from(jobs).unwrap_or(1).clamp(1, BATCH_JOBS_MAX);
    let (weight, heaviest) = (weight.max(1) as usize, heaviest.max(weight).max(1) as usize);
    (most * weight / heaviest).max(1)
}

/// What a panic said.
pub(crate) fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    format!("its handler panicked: {}", text.as_deref().unwrap_or("no message"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_of_units_are_as_large_as_their_queues_are_heavy() {
        assert_eq!(batch_jobs(1_000, 1, 1), 1_000);
        assert_eq!(batch_jobs(1_000, 2, 5), 400);
        assert_eq!(batch_jobs(1_000, 5, 2), 1_000, "a lighter one takes nothing away");
        assert_eq!(batch_jobs(5_000_000, 1, 10), BATCH_JOBS_MAX / 10);
        assert_eq!(batch_jobs(0, 1, 100), 1, "there is always one");
    }
}
