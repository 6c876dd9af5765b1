//! The one task of a process that sets its queues' limits, by what the controller says.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio_util::sync::CancellationToken;
use weir_db::{Class, Tx, params};

use crate::controller::{Controller, Decision, Fixed, Machine, Seen, TICK, budget};
use crate::directory::QueueState;
use crate::dispatch::Worker;
use crate::jobs::Inner;
use crate::limits::LimitedBy;
use crate::load::{Load, descriptors_max, memory_budget};
use crate::yielding::Yielding;
use crate::{Error, Jobs};

impl Jobs {
    /// Sets the memory that the process should stay within, in bytes; 0 is three quarters of what
    /// its control group or the machine has. To be called before the workers start.
    ///
    /// Near it no more jobs run at once than now, at nine tenths fewer do, and before it is
    /// reached the less urgent classes take no jobs until memory is free again.
    pub fn set_memory_budget(&self, bytes: u64) {
        self.inner.memory_budget.store(bytes, Ordering::Relaxed);
    }

    /// Sets how many jobs (tasks) or batches (units) of `queue` run at once, over restarts and
    /// whatever its declaration says; `None` leaves it to the declaration or the engine again.
    ///
    /// # Errors
    /// [`Error::NoQueue`], [`Error::Db`].
    pub async fn set_limit(&self, queue: &str, limit: Option<usize>) -> Result<(), Error> {
        let state = self.inner.directory.find(queue);
        let state = state.ok_or_else(|| Error::NoQueue(queue.into()))?;
        let limit = limit.map(|limit| limit.max(1));
        let set = move |tx: &mut Tx| {
            tx.run(
                "INSERT INTO jobs_queues (queue, paused, running_max) VALUES (?1, 0, ?2)
                 ON CONFLICT (queue) DO UPDATE SET running_max = excluded.running_max",
                params![*state.name, limit],
            )?;
            let state = state.clone();
            tx.after_commit(move || {
                state.limit_by_hand.store(limit.unwrap_or(0), Ordering::Relaxed);
                if let Some(limit) = limit {
                    state.set_limit(limit);
                }
            });
            Ok::<_, weir_db::Error>(())
        };
        Ok(self.inner.db.write(Class::Interactive, set).await?)
    }
}

/// What the controller knows of the world.
pub(crate) struct Senses {
    /// Jobs that may run at once in the process.
    pub(crate) budget: usize,
    /// Threads that can run at once.
    pub(crate) cores: usize,
    /// Looks at the machine, with each tick.
    pub(crate) machine: Box<dyn FnMut() -> Machine + Send>,
}

impl Senses {
    /// Those of the system.
    pub(crate) fn new(inner: Arc<Inner>) -> Self {
        let memory_bytes = match inner.memory_budget.load(Ordering::Relaxed) {
            0 => memory_budget(),
            bytes => bytes,
        };
        metrics::gauge!("weir_jobs_memory_budget_bytes").set(memory_bytes as f64);
        let mut load = Load::new();
        Self {
            budget: budget(memory_bytes, descriptors_max()),
            cores: load.cores(),
            machine: Box::new(move || load.read(&inner.db, &inner.database_times, memory_bytes)),
        }
    }
}

/// A queue whose limit the controller sets: of the database, or of Redis.
pub(crate) trait Steered: Send + Sync {
    /// What the controller is told of the queue.
    fn seen(&self) -> Seen;
    /// Does what the controller says.
    fn steer(&self, decision: &Decision);
}

/// Sets limits until it is time to stop.
pub(crate) async fn run(
    mut senses: Senses,
    queues: Vec<Arc<dyn Steered>>,
    stop: CancellationToken,
) {
    let mut controller = Controller::new(senses.budget, senses.cores);
    metrics::gauge!("weir_jobs_budget_jobs").set(senses.budget as f64);
    let mut shedding = false;
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = stop.cancelled() => return,
        }
        let machine = (senses.machine)();
        let seen: Vec<Seen> = queues.iter().map(|queue| queue.seen()).collect();
        let decisions = controller.tick(&machine, &seen);
        for (queue, decision) in queues.iter().zip(&decisions) {
            queue.steer(decision);
        }
        let sheds = decisions.iter().any(|decision| decision.shed);
        if sheds != shedding {
            shedding = sheds;
            tell_of_memory(sheds, machine.memory);
        }
    }
}

fn tell_of_memory(sheds: bool, permille: u32) {
    metrics::gauge!("weir_jobs_shedding_processes").set(f64::from(u8::from(sheds)));
    let percent = permille / 10;
    if sheds {
        tracing::warn!(percent, "memory is nearly used up: the less urgent queues of jobs wait");
    } else {
        tracing::info!(percent, "memory is free again: all queues of jobs go on");
    }
}

/// Shows whether the queue is limited `by` that.
fn tell_of_limit(state: &QueueState, by: LimitedBy, holds: f64) {
    if by != LimitedBy::Nothing {
        let queue = state.name.to_string();
        metrics::gauge!("weir_jobs_limited", "queue" => queue, "by" => by.name()).set(holds);
    }
}

/// Gives `decision` to the queue, whose limit `gauge` shows.
pub(crate) fn apply(state: &QueueState, decision: &Decision, gauge: &metrics::Gauge) {
    if state.places.most() != decision.limit {
        state.set_limit(decision.limit);
    }
    if state.shed.swap(decision.shed, Ordering::Relaxed) != decision.shed {
        state.wake.notify_one();
    }
    state.lean.store(decision.lean, Ordering::Relaxed);
    let before = std::mem::replace(&mut *state.limited_by.lock(), decision.limited_by);
    if before != decision.limited_by {
        tell_of_limit(state, before, 0.0);
        tell_of_limit(state, decision.limited_by, 1.0);
    }
    if before != decision.limited_by && decision.limited_by == LimitedBy::Memory {
        tracing::info!(queue = %state.name, "the queue gives way to what needs memory");
    }
    gauge.set(decision.limit as f64);
}

impl Steered for Worker {
    fn seen(&self) -> Seen {
        let state = &self.state;
        let meter = state.meter.read();
        let most = state.places.most();
        let (waiting, in_line, job_ns) = {
            let turns = state.turns.lock();
            (turns.waiting(), turns.in_line(), turns.job_ns())
        };
        let running = state.places.held();
        let slow = self.takes_none_ahead(job_ns, most);
        let used = if slow { running.max(state.taken.load(Ordering::Relaxed)) } else { running };
        // Of quick tasks those that were taken ahead wait too, and say so when no place is free.
        let refused = state.places.refused();
        Seen {
            name: state.name.clone(),
            class: self.queue.class,
            weight: self.queue.weight,
            fixed: self.fixed(),
            paused: self.inner.quiet.load(Ordering::Relaxed)
                || state.paused.load(Ordering::Relaxed),
            waits: waiting || refused,
            wants: refused || (waiting && used >= most),
            yields: self.yielding.as_ref().is_some_and(Yielding::is_waiting) || self.is_pressed(),
            in_lanes: waiting && !in_line,
            running,
            ended: meter.0,
            work_ns: meter.1,
        }
    }

    fn steer(&self, decision: &Decision) {
        apply(&self.state, decision, &self.limit);
        if self.queue.breaker_failures > 0 {
            self.open_breakers.set(self.state.turns.lock().open_breakers() as f64);
        }
    }
}

impl Worker {
    /// What sets the limit but the controller.
    pub(crate) fn fixed(&self) -> Option<Fixed> {
        match self.state.limit_by_hand.load(Ordering::Relaxed) {
            0 => self.declared(),
            limit => Some(Fixed::ByHand(limit)),
        }
    }
}

#[cfg(test)]
mod tests;
