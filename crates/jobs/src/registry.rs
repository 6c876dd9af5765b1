//! Who handles which job type.

use std::collections::BTreeMap;
use std::future::Future;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::time::Duration;

use futures_util::future::BoxFuture;
use weir_base::Timestamp;
use weir_db::Tx;

use crate::blocking::Pool;
use crate::cron::Cron;
use crate::endings::Terms;
use crate::hooks::{AroundTask, AroundUnit};
use crate::plan::Plan;
use crate::rows::Claim;
use crate::running::Site;
use crate::sidekiq::args;
use crate::turns::Favours;
use crate::yielding::Behind;
use crate::{
    Claimed, Failure, Job, Jobs, Missed, Outcome, Prepared, Queue, Retry, StartError, Unique,
};

/// The longest wait for a thread of the pool, in which jobs of other types may be slow.
const WAIT_MAX: Duration = Duration::from_secs(24 * 3_600);

/// The handlers of a program, collected before [`Jobs::start`].
#[derive(Default)]
pub struct Registry {
    pub(crate) handlers: BTreeMap<&'static str, Handler>,
    /// Kinds that another process runs.
    pub(crate) elsewhere: BTreeMap<&'static str, Elsewhere>,
    pub(crate) periodic: Vec<Periodic>,
    /// Which lanes of which queues have more than others.
    pub(crate) favours: BTreeMap<&'static str, Favours>,
    /// Which queues give way, and to what.
    pub(crate) yields: BTreeMap<&'static str, (usize, Behind)>,
    /// Which queues step back, and when.
    pub(crate) steps: BTreeMap<&'static str, Behind>,
    pub(crate) faults: Vec<StartError>,
    /// Started with the first handler that needs it.
    pool: Option<Arc<Pool>>,
    pub(crate) around_tasks: Vec<AroundTask>,
    pub(crate) around_units: Vec<AroundUnit>,
}

/// A kind that is enqueued here and run by another process that shares the Redis.
#[derive(Clone, Copy)]
pub(crate) struct Elsewhere {
    pub(crate) class: &'static str,
    pub(crate) unique: Unique,
    pub(crate) queue: Queue,
    pub(crate) retry: Retry,
}

pub(crate) struct Handler {
    /// Its name in Sidekiq's format.
    pub(crate) class: &'static str,
    pub(crate) queue: Queue,
    pub(crate) retry: Retry,
    pub(crate) unique: Unique,
    pub(crate) timeout: Duration,
    pub(crate) run: Run,
    /// It runs on threads of its own, and sees to its timeout itself.
    pub(crate) is_blocking: bool,
    /// When its blocking of the runtime was last said, in s of the clock.
    pub(crate) blocked_told_s: Arc<AtomicI64>,
}

#[derive(Clone)]
pub(crate) enum Run {
    Unit(Prepare),
    Task(RunTask),
}

pub(crate) type Prepare =
    Arc<dyn Fn(Arc<Vec<Claim>>, Timestamp) -> BoxFuture<'static, PreparedBatch> + Send + Sync>;
pub(crate) type RunTask =
    Arc<dyn Fn(&Claim, &Arc<Site>) -> BoxFuture<'static, Outcome> + Send + Sync>;
pub(crate) type RunItems =
    Arc<dyn Fn(&mut Tx, Range<usize>) -> Result<Vec<Outcome>, weir_db::Error> + Send + Sync>;

/// A batch whose preparation is over, without its types.
pub(crate) struct PreparedBatch {
    /// One for each job, in the same order.
    pub(crate) slots: Vec<Slot>,
    /// Runs the items of a range.
    pub(crate) run: RunItems,
}

/// What became of one job of a batch in its preparation.
pub(crate) enum Slot {
    /// It is the next item.
    Item,
    /// It ended.
    Ended(Outcome),
}

pub(crate) struct Periodic {
    pub(crate) name: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) plan: Plan,
    pub(crate) missed: Missed,
    pub(crate) enqueue: EnqueuePlanned,
}

/// Enqueues a run under a key, at a moment, for the planned moment; false when it waits already.
pub(crate) type EnqueuePlanned = Arc<
    dyn Fn(&Jobs, &mut Tx, &str, Timestamp, Timestamp) -> Result<bool, weir_db::Error>
        + Send
        + Sync,
>;

impl Periodic {
    /// The unique key of the run of `planned`.
    pub(crate) fn key(&self, planned: Timestamp) -> String {
        match self.missed {
            Missed::One | Missed::Skip => format!("periodic:{}", self.name),
            Missed::All(_) => format!("periodic:{}:{}", self.name, planned.as_ms()),
        }
    }
}

impl Registry {
    /// An empty registry.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lanes of `queue` for which `is_favoured` says so have twice the part of others: what people
    /// wait for, say. It is asked whenever a lane fills that was empty, under a lock, and has to
    /// answer at once.
    pub fn favour<F>(&mut self, queue: Queue, is_favoured: F)
    where
        F: Fn(&str) -> bool + Send + Sync + 'static,
    {
        self.favours.insert(queue.name, Arc::new(is_favoured));
    }

    /// While `is_behind` says so, `few` jobs of `queue` are taken every half second, and nothing
    /// else: what costs much and few wait for gives way to what many do. It is asked
    /// before each read, and has to answer at once. Of queues on Redis it is not asked.
    pub fn give_way<F>(&mut self, queue: Queue, few: usize, is_behind: F)
    where
        F: Fn() -> bool + Send + Sync + 'static,
    {
        self.yields.insert(queue.name, (few, Arc::new(is_behind)));
    }

    /// While `is_pressed` says so, `queue`, which holds units, has half of the time: one batch is
    /// on its way, and not two, and after it the queue rests for as long as that took. What
    /// somebody waits for at this moment has more of the processor and of the database, and the
    /// queue goes on all the same. It is asked before each read and after each batch, and has to
    /// answer at once. Of queues on Redis it is not asked.
    pub fn step_back<F>(&mut self, queue: Queue, is_pressed: F)
    where
        F: Fn() -> bool + Send + Sync + 'static,
    {
        self.steps.insert(queue.name, Arc::new(is_pressed));
    }

    /// The registered kinds, so that the program can check that none is missing.
    pub fn kinds(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.handlers.keys().copied()
    }

    /// The queues of the registered kinds, some more than once.
    pub fn queues(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.handlers.values().map(|handler| handler.queue.name)
    }

    /// Handles `J` by work on the database, **exactly once**: what `run` writes, the removal of
    /// the jobs and the jobs that `run` enqueues commit together or not at all.
    ///
    /// `prepare` runs outside the transaction (parse, verify, fetch), must have no effect that
    /// matters when it is repeated, and gives one [`Prepared`] for each job, in the same order.
    /// `run` gets what was prepared to run, in order (within a lane: in order of id), and gives
    /// one [`Outcome`] for each. As every unit of work it may run again after a rollback.
    ///
    /// A batch that panics or fails as a whole is run again job by job, so that one bad job harms
    /// only itself. While a job of a lane is in a batch, no other of that lane is. A failed job
    /// waits for its retry elsewhere: those behind it do not wait for it.
    pub fn unit<J, P, F, Fut, R>(&mut self, prepare: F, run: R)
    where
        J: Job,
        P: Send + Sync + 'static,
        F: Fn(Vec<Claimed<J>>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Vec<Prepared<P>>> + Send + 'static,
        R: Fn(&mut Tx, &[P]) -> Result<Vec<Outcome>, weir_db::Error> + Send + Sync + 'static,
    {
        let (prepare, run) = (Arc::new(prepare), Arc::new(run));
        let erased: Prepare = Arc::new(move |claims, now| {
            let (prepare, run) = (prepare.clone(), run.clone());
            Box::pin(async move {
                let (jobs, broken) = parse::<J>(&claims, now);
                let count = jobs.len();
                let prepared = if count == 0 { Vec::new() } else { prepare(jobs).await };
                batch(prepared, count, broken, run)
            })
        });
        self.add::<J>(Run::Unit(erased));
    }

    /// As [`unit`](Self::unit), without a preparation.
    pub fn simple_unit<J, R>(&mut self, run: R)
    where
        J: Job,
        R: Fn(&mut Tx, &[Claimed<J>]) -> Result<Vec<Outcome>, weir_db::Error>
            + Send
            + Sync
            + 'static,
    {
        self.unit(async |jobs: Vec<Claimed<J>>| jobs.into_iter().map(Prepared::Run).collect(), run);
    }

    /// Handles `J` by work that reaches outside, **at least once**: a finished job is removed
    /// durably within 50 ms, and a crash before that, or a stop while it runs, runs it again. The
    /// effect is had once by giving [`Claimed::id`] to the other side to recognise a repeat.
    ///
    /// Jobs of one lane may run at the same time and end in any order.
    pub fn task<J, F, Fut>(&mut self, run: F)
    where
        J: Job,
        F: Fn(Claimed<J>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        let erased: RunTask =
            Arc::new(move |claim, site| match parse_one::<J>(claim, || site.inner.clock.now()) {
                Ok(mut job) => {
                    job.site = Some(site.clone());
                    let work = run(job);
                    Box::pin(
                        async move { work.await.map_or_else(Outcome::from, |()| Outcome::Done) },
                    )
                }
                Err(broken) => Box::pin(std::future::ready(broken)),
            });
        self.add::<J>(Run::Task(erased));
    }

    /// As [`task`](Self::task), for work that blocks or computes for long: it runs on a pool of as
    /// many threads as the machine has cores, which the jobs of all such types share. At most that
    /// many of a queue run at once, so give them a queue without other tasks.
    ///
    /// [`Job::TIMEOUT_S`] counts from when a thread begins. A thread cannot be stopped: a job that
    /// takes longer counts as failed and may be tried again, while it goes on until it ends. A
    /// stop waits for it as for others, and the end of the process cuts it off.
    pub fn blocking<J, F>(&mut self, run: F)
    where
        J: Job,
        F: Fn(Claimed<J>) -> Result<(), Failure> + Send + Sync + 'static,
    {
        let pool = self.pool.get_or_insert_with(|| Arc::new(Pool::new())).clone();
        let run = Arc::new(run);
        let timeout = Duration::from_secs(J::TIMEOUT_S.max(1));
        let erased: RunTask =
            Arc::new(move |claim, site| match parse_one::<J>(claim, || site.inner.clock.now()) {
                Ok(mut job) => {
                    job.site = Some(site.clone());
                    let (pool, run) = (pool.clone(), run.clone());
                    Box::pin(async move { pool.run(move || run(job), timeout).await })
                }
                Err(broken) => Box::pin(std::future::ready(broken)),
            });
        self.add::<J>(Run::Task(erased));
        if let Some(handler) = self.handlers.get_mut(J::KIND) {
            handler.is_blocking = true;
            handler.timeout = WAIT_MAX;
        }
    }

    /// Enqueues what `make` gives, every `every_ms` milliseconds, at first at once; missed runs
    /// collapse into one ([`Missed::One`]). See [`every`](Self::every).
    pub fn periodic<J, F>(&mut self, name: &'static str, every_ms: i64, make: F)
    where
        J: Job,
        F: Fn() -> J + Send + Sync + 'static,
    {
        self.every(name, every_ms, Missed::One, move |_| make());
    }

    /// Enqueues what `make` gives for the planned moment, every `every_ms` milliseconds, at first
    /// at once. The next run is kept in a row under `name`, so a restart neither skips nor repeats
    /// one. One node of all that work on the database starts periodic jobs. While the job of the
    /// last run still waits none is added, but with [`Missed::All`] each planned moment has its
    /// own.
    pub fn every<J, F>(&mut self, name: &'static str, every_ms: i64, missed: Missed, make: F)
    where
        J: Job,
        F: Fn(Timestamp) -> J + Send + Sync + 'static,
    {
        self.planned(name, Plan::Every(every_ms.max(1)), missed, make);
    }

    /// As [`every`](Self::every), at the moments of a cron `expression` in the IANA time `zone`
    /// (`0 3 * * mon` and `Europe/Berlin`): minute, hour, day of the month, month, day of the
    /// week, or `@daily` and its like.
    ///
    /// Where clocks are changed, an expression whose hour is `*` follows the time that passes;
    /// others run once a local time: at the first of two equal ones, and for one that the day
    /// leaves out at the moment of the change. An expression that makes no sense stops the start.
    pub fn cron<J, F>(
        &mut self,
        name: &'static str,
        expression: &str,
        zone: &str,
        missed: Missed,
        make: F,
    ) where
        J: Job,
        F: Fn(Timestamp) -> J + Send + Sync + 'static,
    {
        match Cron::parse(expression, zone) {
            Ok(cron) => self.planned(name, Plan::Cron(cron), missed, make),
            Err(reason) => self.faults.push(StartError::Plan { name: name.into(), reason }),
        }
    }

    fn planned<J, F>(&mut self, name: &'static str, plan: Plan, missed: Missed, make: F)
    where
        J: Job,
        F: Fn(Timestamp) -> J + Send + Sync + 'static,
    {
        let enqueue: EnqueuePlanned = Arc::new(move |jobs, tx, key, now, planned| {
            Ok(jobs.enqueue_unique(tx, key, now, &make(planned))?.is_some())
        });
        if self.periodic.iter().any(|other| other.name == name) {
            self.faults.push(StartError::PeriodicTwice(name.into()));
        }
        self.periodic.push(Periodic { name, kind: J::KIND, plan, missed, enqueue });
    }

    /// Lets `J` be enqueued here though another process runs it, such as a Sidekiq that shares the
    /// Redis ([`Jobs::start_on_redis`]). A unique key of such a job is free again once the job was
    /// handed over.
    pub fn elsewhere<J: Job>(&mut self) {
        let elsewhere = Elsewhere {
            class: J::SIDEKIQ_CLASS,
            unique: J::UNIQUE,
            queue: J::QUEUE,
            retry: J::RETRY,
        };
        if self.elsewhere.insert(J::KIND, elsewhere).is_some() {
            self.faults.push(StartError::Twice(J::KIND.into()));
        }
    }

    fn add<J: Job>(&mut self, run: Run) {
        let handler = Handler {
            class: J::SIDEKIQ_CLASS,
            queue: J::QUEUE,
            retry: J::RETRY,
            unique: J::UNIQUE,
            timeout: Duration::from_secs(J::TIMEOUT_S.max(1)),
            run,
            is_blocking: false,
            blocked_told_s: Arc::new(AtomicI64::new(i64::MIN)),
        };
        let unlike = |other: &&Handler| {
            other.queue.name == handler.queue.name
                && (other.queue != handler.queue || other.run.is_unit() != handler.run.is_unit())
        };
        if self.handlers.values().find(unlike).is_some() {
            self.faults.push(StartError::QueueDiffers(J::QUEUE.name.into()));
        }
        if self.handlers.insert(J::KIND, handler).is_some() {
            self.faults.push(StartError::Twice(J::KIND.into()));
        }
    }
}

impl Handler {
    pub(crate) fn terms(&self) -> Terms {
        Terms { retry: self.retry, unique: Some(self.unique) }
    }
}

impl Run {
    pub(crate) fn is_unit(&self) -> bool {
        matches!(self, Self::Unit(_))
    }
}

/// The jobs that parse, in order, and for each claim what it ended with if it does not.
fn parse<J: Job>(claims: &[Claim], now: Timestamp) -> (Vec<Claimed<J>>, Vec<Option<Outcome>>) {
    let mut jobs = Vec::with_capacity(claims.len());
    let mut broken = Vec::with_capacity(claims.len());
    for claim in claims {
        match parse_one(claim, || now) {
            Ok(job) => {
                jobs.push(job);
                broken.push(None);
            }
            Err(outcome) => broken.push(Some(outcome)),
        }
    }
    (jobs, broken)
}

fn parse_one<J: Job>(
    claim: &Claim,
    now: impl FnOnce() -> Timestamp,
) -> Result<Claimed<J>, Outcome> {
    if claim.expires_at.is_some() && claim.is_expired(now()) {
        return Err(Outcome::Expired);
    }
    let (id, attempt, enqueued_at) = (claim.id, claim.attempt, claim.enqueued_at);
    let (batch, jid) = (claim.batch_id, claim.jid.clone());
    if let Some(job) = claim.in_hand.as_ref().and_then(|held| held.copy().downcast::<J>().ok()) {
        return Ok(Claimed { id, attempt, enqueued_at, batch, job: *job, jid, site: None });
    }
    let parsed = match claim.jid {
        None => serde_json::from_str(&claim.payload),
        Some(_) => args::read(&claim.payload),
    };
    match parsed {
        Ok(job) => Ok(Claimed { id, attempt, enqueued_at, batch, job, jid, site: None }),
        Err(error) => Err(Outcome::Dead(format!("the payload does not parse: {error}"))),
    }
}

fn batch<P, R>(
    prepared: Vec<Prepared<P>>,
    count: usize,
    broken: Vec<Option<Outcome>>,
    run: Arc<R>,
) -> PreparedBatch
where
    P: Send + Sync + 'static,
    R: Fn(&mut Tx, &[P]) -> Result<Vec<Outcome>, weir_db::Error> + Send + Sync + 'static,
{
    let given = prepared.len();
    let mismatch = format!("its handler prepared {given} of {count} jobs: a fault of the program");
    let mut items = Vec::with_capacity(count);
    let mut prepared = prepared.into_iter();
    let mut slots = Vec::with_capacity(broken.len());
    for outcome in broken {
        slots.push(match outcome {
            Some(outcome) => Slot::Ended(outcome),
            None if given != count => Slot::Ended(Outcome::retry(&mismatch)),
            None => match prepared.next() {
                Some(Prepared::Run(item)) => {
                    items.push(item);
                    Slot::Item
                }
                Some(Prepared::Not(outcome)) => Slot::Ended(outcome),
                None => Slot::Ended(Outcome::retry(&mismatch)),
            },
        });
    }
    let run = Arc::new(move |tx: &mut Tx, range: Range<usize>| {
        let part = items.get(range).unwrap_or_default();
        if part.is_empty() { Ok(Vec::new()) } else { run(tx, part) }
    });
    PreparedBatch { slots, run }
}
