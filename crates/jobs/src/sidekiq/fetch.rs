//! Fetching: many jobs in one step, and waiting when there are none.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use redis::RedisResult;
use weir_base::Id;

use super::alone::Trials;
use super::names;
use super::units;
use super::wire::Job;
use super::worker::{Core, Known, Taken, Worker};
use super::{QueueOrder, sweep, tasks};
use crate::registry::Run;
use crate::rows::Claim;
use crate::{Outcome, Retry};

/// Jobs of one fetch: a Lua call takes a limited number of arguments.
const FETCH_MAX: usize = 1_000;
/// How long a waiter lets Redis hold its connection, in seconds.
const WAIT_S: f64 = 5.0;
/// When what came was taken by others, the next look is this much later.
const LOST_RACE: Duration = Duration::from_millis(20);
/// How often a queue is looked at that is paused or has no free place.
const CLOSED_LOOK: Duration = Duration::from_millis(250);

/// Fetches until it is told to stop.
pub(crate) struct Fetcher {
    worker: Arc<Worker>,
    /// The number of the next job.
    number: u64,
    /// Whether what an earlier process of this place held was put back.
    placed: bool,
    /// An answer was lost: jobs may be held that we do not know of.
    doubtful: bool,
    /// When all that Redis says we hold is compared with what we know.
    compare_at: Instant,
    /// When no more is tried alone, once something was.
    trials_due: Option<tokio::time::Instant>,
}

/// A job that has a handler here.
struct Read {
    known: Arc<Known>,
    claim: Claim,
    /// How many processes died that held it.
    deaths: u32,
}

impl Fetcher {
    pub(crate) fn new(worker: Arc<Worker>) -> Self {
        let compare_at = Instant::now();
        Self { worker, number: 1, placed: false, doubtful: false, compare_at, trials_due: None }
    }

    pub(crate) async fn run(mut self) {
        let core = self.worker.core.clone();
        let mut woken = false;
        while !core.stop.is_cancelled() {
            let order = self.order();
            let room: usize = order.iter().map(|at| core.sources[*at].room()).sum();
            let left = core.shared.options.held_max.saturating_sub(
                usize::try_from(core.running.load(Ordering::Relaxed)).unwrap_or(usize::MAX),
            );
            if room.min(left) == 0 || core.inner.quiet.load(Ordering::Relaxed) {
                tokio::select! {
                    () = core.freed.notified() => {}
                    // Nobody tells of a limit that was raised.
                    () = tokio::time::sleep(CLOSED_LOOK) => {}
                    () = core.stop.cancelled() => {}
                }
                continue;
            }
            match self.fetch(&order, left.min(FETCH_MAX)).await {
                Ok(0) => {
                    if woken {
                        tokio::time::sleep(LOST_RACE).await;
                    }
                    woken = self.wait(&order).await;
                }
                Ok(_) => woken = false,
                Err(error) => {
                    core.shared.outage.failed("no jobs can be fetched", &error);
                    self.doubtful = true;
                    // Should the cut off call run after all, its numbers are its own.
                    self.number += FETCH_MAX as u64;
                    core.pause().await;
                }
            }
        }
    }

    /// The sources in the order of this look.
    fn order(&self) -> Vec<usize> {
        let core = &self.worker.core;
        let mut rest: Vec<usize> = (0..core.sources.len()).collect();
        if core.shared.options.order == QueueOrder::Strict {
            return rest;
        }
        let mut order = Vec::with_capacity(rest.len());
        while !rest.is_empty() {
            let weight = |at: &usize| u64::from(core.sources[*at].weight);
            let mut drawn = core.inner.random.below(rest.iter().map(weight).sum::<u64>().max(1));
            let hit = rest.iter().position(|at| {
                let here = drawn < weight(at);
                drawn = drawn.saturating_sub(weight(at));
                here
            });
            order.push(rest.remove(hit.unwrap_or(0)));
        }
        order
    }

    /// Waits until something may have come; true when that is so.
    async fn wait(&self, order: &[usize]) -> bool {
        let core = &self.worker.core;
        let is_open = |at: &&usize| {
            let source = &core.sources[**at];
            source.room() > 0 && !source.paused.load(Ordering::Relaxed)
        };
        for at in order.iter().filter(is_open) {
            core.sources[*at].armed.notify_one();
        }
        let all_open = order.iter().all(|at| is_open(&at));
        let again = if all_open { core.shared.options.lease } else { CLOSED_LOOK };
        tokio::select! {
            () = core.arrived.notified() => true,
            () = tokio::time::sleep(again) => false,
            () = core.freed.notified() => false,
            () = core.stop.cancelled() => false,
        }
    }

    /// Takes up to `most` jobs, starts them, and tells how many there were.
    async fn fetch(&mut self, order: &[usize], most: usize) -> RedisResult<usize> {
        let core = self.worker.core.clone();
        if !self.placed {
            sweep::take_place(&core).await?;
            sweep::learn_deaths(&core).await?;
            self.placed = true;
        }
        if self.doubtful || self.compare_at <= Instant::now() {
            self.put_back_unknown().await?;
            self.doubtful = false;
            self.compare_at = Instant::now() + core.shared.options.lease;
        }
        let mut call = core.shared.scripts.fetch.key(names::HOLDERS);
        call.key(&core.shared.held_key).key(names::PAUSED);
        call.arg(&core.shared.identity).arg(self.number).arg(most);
        let rooms: Vec<usize> = order.iter().map(|at| core.sources[*at].room()).collect();
        for (at, room) in order.iter().zip(&rooms) {
            call.key(&core.sources[*at].key).arg(room);
        }
        let found: Vec<Option<Vec<Vec<u8>>>> = call.invoke_async(&mut core.shared.redis()).await?;
        let mut fetched = Vec::new();
        let mut left = most;
        for ((at, room), jobs) in order.iter().zip(rooms).zip(found) {
            let source = &core.sources[*at];
            source.paused.store(jobs.is_none(), Ordering::Relaxed);
            let jobs = jobs.unwrap_or_default();
            source.took(room.min(left), &jobs);
            left -= jobs.len().min(left);
            self.take(*at, jobs, &mut fetched);
        }
        let count = fetched.len();
        self.start(fetched).await;
        Ok(count)
    }

    /// Takes `jobs` of queue `source`, the oldest last.
    fn take(&mut self, source: usize, jobs: Vec<Vec<u8>>, fetched: &mut Vec<Arc<Taken>>) {
        let core = &self.worker.core;
        core.running.fetch_add(jobs.len() as u64, Ordering::Relaxed);
        let at = core.inner.clock.now();
        let first = self.number;
        let number =
            |(place, raw)| Arc::new(Taken { number: first + place as u64, source, raw, at });
        let taken = jobs.into_iter().rev().enumerate().map(number);
        let before = fetched.len();
        fetched.extend(taken);
        let taken = &fetched[before..];
        self.number += taken.len() as u64;
        core.held.lock().extend(taken.iter().map(|taken| (taken.number, taken.clone())));
    }

    /// Starts what was fetched; what may kill the process first, and alone.
    async fn start(&mut self, fetched: Vec<Arc<Taken>>) {
        let mut trials = Trials::begin(fetched.len(), self.trials_due);
        let most = self.worker.core.shared.options.deaths_max;
        let (mut units, mut tasks) = (Vec::new(), Vec::new());
        for taken in fetched {
            match self.read(&taken) {
                Ok(read) if most > 0 && read.deaths + 1 >= most => {
                    let suspect = taken.clone();
                    let begin = || self.begin(taken, read);
                    trials.attempt(&self.worker.core, &suspect, begin).await;
                    self.trials_due = Some(trials.due());
                }
                Ok(read) if read.known.run.is_unit() => units.push((taken, read)),
                Ok(read) => tasks.push((taken, read)),
                Err((outcome, member)) => {
                    let worker = self.worker.clone();
                    self.worker.runs.spawn(async move {
                        let (kind, retry) = ("unknown", Retry::DEFAULT);
                        worker.end(taken, kind, retry, outcome, Duration::ZERO, member).await;
                    });
                }
            }
        }
        tasks.into_iter().for_each(|(taken, read)| self.begin(taken, read));
        let mut groups: Vec<(Arc<Known>, Vec<(Arc<Taken>, Claim)>)> = Vec::new();
        for (taken, Read { known, claim, .. }) in units {
            match groups.iter_mut().find(|(other, _)| other.kind == known.kind) {
                Some((_, group)) => group.push((taken, claim)),
                None => groups.push((known, vec![(taken, claim)])),
            }
        }
        for (known, group) in groups {
            units::start(&self.worker, &known, group);
        }
    }

    /// What a job says; or what it ends with, and its id if it is a member of a batch.
    fn read(&self, taken: &Taken) -> Result<Read, (Outcome, Option<Id>)> {
        let core = &self.worker.core;
        let job = Job::parse(&taken.raw)
            .map_err(|error| (Outcome::Dead(format!("it is no job: {error}")), None))?;
        let Some(known) = core.known.get(&*job.class).cloned() else {
            let reason = format!("no handler here knows the class {}", job.class);
            return Err((Outcome::retry(reason), job.member()));
        };
        let claim = job.claim(known.kind);
        let deaths = core.deaths.lock().get(&*job.jid).copied().unwrap_or(0);
        if deaths > 0 && core.buried.lock().contains(&*job.jid) {
            return Err((Outcome::Dead(sweep::reason(core)), job.member()));
        }
        let wait_ms = taken.at.since_ms(claim.ready_at).max(0);
        core.sources[taken.source].waited.record(wait_ms as f64 / 1_000.0);
        Ok(Read { known, claim, deaths })
    }

    /// Starts one job.
    fn begin(&self, taken: Arc<Taken>, Read { known, claim, .. }: Read) {
        match &known.run {
            Run::Task(run) => tasks::start(&self.worker, &known, run, taken, claim),
            Run::Unit(_) => units::start(&self.worker, &known, vec![(taken, claim)]),
        }
    }

    /// Jobs that Redis gave us while the answer was lost go back to their queues.
    async fn put_back_unknown(&self) -> RedisResult<()> {
        let core = &self.worker.core;
        let mut redis = core.shared.redis();
        let fields: Vec<String> =
            redis::cmd("HKEYS").arg(&core.shared.held_key).query_async(&mut redis).await?;
        let number = |field: &String| field.split(' ').next().and_then(|it| it.parse().ok());
        let mut unknown: Vec<(u64, String)> = {
            let held = core.held.lock();
            let numbered = fields.into_iter().filter_map(|field| Some((number(&field)?, field)));
            numbered.filter(|(number, _)| !held.contains_key(number)).collect()
        };
        unknown.sort_unstable();
        if unknown.is_empty() {
            return Ok(());
        }
        let mut call = core.shared.scripts.back.key(&core.shared.held_key);
        call.key(names::QUEUES);
        for (_, field) in &unknown {
            call.arg(field);
        }
        let count: i64 = call.invoke_async(&mut redis).await?;
        tracing::info!(count, "jobs whose fetch was cut off were put back");
        Ok(())
    }
}

/// Tells when something is in queue `source`, each time the fetcher found nothing there.
pub(crate) async fn watch(core: Arc<Core>, source: usize) {
    let mut connection = None;
    loop {
        let queue = &core.sources[source];
        tokio::select! {
            () = queue.armed.notified() => {}
            () = core.stop.cancelled() => return,
        }
        let waited = tokio::select! {
            waited = wait_for(&core, &queue.key, &mut connection) => waited,
            () = core.stop.cancelled() => return,
        };
        if let Err(error) = waited {
            // Away, or without the command: then this is a slow poll.
            tracing::debug!(%error, queue = queue.name, "cannot wait for jobs");
            connection = None;
            core.pause().await;
        }
        core.arrived.notify_one();
    }
}

/// Returns when the list `key` holds something. To move its last element to where it is changes
/// nothing, and waits for there to be one.
async fn wait_for(
    core: &Core,
    key: &str,
    connection: &mut Option<redis::aio::MultiplexedConnection>,
) -> RedisResult<()> {
    loop {
        let redis = match connection {
            Some(redis) => redis,
            None => connection.insert(core.shared.link.waiting().await?),
        };
        let found: Option<Vec<u8>> = redis::cmd("BLMOVE")
            .arg(key)
            .arg(key)
            .arg("RIGHT")
            .arg("RIGHT")
            .arg(WAIT_S)
            .query_async(redis)
            .await?;
        if found.is_some() {
            return Ok(());
        }
    }
}
