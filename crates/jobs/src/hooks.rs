//! Code around what all jobs have in common: their enqueueing, and their runs.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::BoxFuture;
use parking_lot::RwLock;
use weir_base::{Id, Timestamp};
use weir_db::{Error, Tx};

use crate::registry::{Prepare, PreparedBatch, Run, RunTask};
use crate::rows::Claim;
use crate::running::Site;
use crate::{Jobs, Outcome, Registry};

/// A job that is about to be enqueued, as hooks see it.
#[derive(Debug)]
pub struct Enqueuing<'a> {
    /// Its type's name.
    pub kind: &'static str,
    /// Its queue.
    pub queue: &'static str,
    /// Its fairness key, which may be changed.
    pub lane: &'a mut String,
    /// The job as JSON, which may be changed.
    pub payload: &'a mut String,
}

/// A task that is about to run, as hooks see it.
#[derive(Debug, Clone, Copy)]
pub struct TaskRun<'a> {
    /// The job's id.
    pub id: Id,
    /// Its type's name.
    pub kind: &'a str,
    /// Its fairness key.
    pub lane: &'a str,
    /// Which attempt this is, from 1.
    pub attempt: u32,
}

/// Units of one type that are about to run together, as hooks see them.
#[derive(Debug, Clone, Copy)]
pub struct UnitRun {
    /// The type's name.
    pub kind: &'static str,
    /// How many there are.
    pub jobs: usize,
}

type OnEnqueue = Arc<dyn Fn(&mut Enqueuing<'_>) -> Result<(), String> + Send + Sync>;
pub(crate) type AroundTask = Arc<
    dyn Fn(TaskRun<'_>, BoxFuture<'static, Outcome>) -> BoxFuture<'static, Outcome> + Send + Sync,
>;
/// What a unit's hook goes on with.
type Inside<'a> = dyn FnMut(&mut Tx) -> Result<Vec<Outcome>, Error> + 'a;
pub(crate) type AroundUnit =
    Arc<dyn Fn(&mut Tx, UnitRun, &mut Inside<'_>) -> Result<Vec<Outcome>, Error> + Send + Sync>;

/// The hooks of the enqueueing side.
#[derive(Default)]
pub(crate) struct Hooks {
    any: AtomicBool,
    on_enqueue: RwLock<Vec<OnEnqueue>>,
}

impl Hooks {
    /// Whether there is one.
    pub(crate) fn any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// Shows a job to all hooks; the reason if one refuses it.
    pub(crate) fn enqueuing(&self, mut job: Enqueuing<'_>) -> Result<(), String> {
        self.on_enqueue.read().iter().try_for_each(|hook| hook(&mut job))
    }
}

impl Jobs {
    /// Shows every job to `hook` before it is written, after the hooks that were given before. It
    /// may change the job's fairness key and its payload (the size is checked after it), or
    /// refuse it with a reason: then the enqueueing fails as [`weir_db::Error::Statement`], with
    /// nothing written, and the caller's transaction may go on. It must be quick, and runs again
    /// when the transaction does. A key of [`Job::UNIQUE`](crate::Job::UNIQUE) is that of the job
    /// as it was.
    pub fn on_enqueue(
        &self,
        hook: impl Fn(&mut Enqueuing<'_>) -> Result<(), String> + Send + Sync + 'static,
    ) {
        let hooks = &self.inner.hooks;
        hooks.on_enqueue.write().push(Arc::new(hook));
        hooks.any.store(true, Ordering::Release);
    }
}

impl Registry {
    /// Runs `hook` around every attempt of every task; the one given first is outermost. It gets
    /// the job's run as a future that it awaits (or not: then the job does not run, and ends as
    /// the hook says), and may change the outcome. It counts into the job's timeout, and is cut
    /// off with it. A job that has expired, and a payload that does not parse, show as a run that
    /// ends at once.
    pub fn around_tasks(
        &mut self,
        hook: impl Fn(TaskRun<'_>, BoxFuture<'static, Outcome>) -> BoxFuture<'static, Outcome>
        + Send
        + Sync
        + 'static,
    ) {
        self.around_tasks.push(Arc::new(hook));
    }

    /// Runs `hook` around the transaction's part of every batch of units; the one given first is
    /// outermost. It goes on by calling its last argument once, which gives one outcome for each
    /// job, and gives as many itself. What it writes commits with the batch. As the batch, it may
    /// run again.
    pub fn around_units(
        &mut self,
        hook: impl Fn(&mut Tx, UnitRun, &mut Inside<'_>) -> Result<Vec<Outcome>, Error>
        + Send
        + Sync
        + 'static,
    ) {
        self.around_units.push(Arc::new(hook));
    }

    /// The same registry, with its hooks around its handlers.
    pub(crate) fn hooked(mut self) -> Self {
        for (kind, handler) in &mut self.handlers {
            match &mut handler.run {
                Run::Task(run) => {
                    for hook in self.around_tasks.iter().rev() {
                        *run = around_task(hook.clone(), run.clone());
                    }
                }
                Run::Unit(prepare) => {
                    for hook in self.around_units.iter().rev() {
                        *prepare = around_unit(hook.clone(), kind, prepare.clone());
                    }
                }
            }
        }
        self
    }
}

fn around_task(hook: AroundTask, run: RunTask) -> RunTask {
    Arc::new(move |claim: &Claim, site: &Arc<Site>| {
        let (id, attempt) = (claim.id, claim.attempt);
        let shown = TaskRun { id, kind: &claim.kind, lane: &claim.lane, attempt };
        // Nothing of the handler runs before the hook awaits it.
        let (run, claim, site) = (run.clone(), claim.clone(), site.clone());
        hook(shown, Box::pin(async move { run(&claim, &site).await }))
    })
}

fn around_unit(hook: AroundUnit, kind: &'static str, prepare: Prepare) -> Prepare {
    Arc::new(move |claims: Arc<Vec<Claim>>, now: Timestamp| {
        let (hook, preparing) = (hook.clone(), prepare(claims, now));
        Box::pin(async move {
            let PreparedBatch { slots, run } = preparing.await;
            let run = Arc::new(move |tx: &mut Tx, range: Range<usize>| {
                let shown = UnitRun { kind, jobs: range.len() };
                hook(tx, shown, &mut |tx| run(tx, range.clone()))
            });
            PreparedBatch { slots, run }
        })
    })
}
