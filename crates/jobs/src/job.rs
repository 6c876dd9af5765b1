//! What a job is, to the program that defines it.

use std::borrow::Cow;
use std::fmt::Display;

use serde::Serialize;
use serde::de::DeserializeOwned;
use weir_db::Class;

use crate::{Retry, Unique};

/// A piece of work as data: what is stored when it is enqueued and read when it runs.
///
/// Old rows outlive a release: give new fields `#[serde(default)]`. A payload that no longer
/// parses goes to the dead set, where it can be looked at.
pub trait Job: Serialize + DeserializeOwned + Send + Sync + 'static {
    /// The stable name in rows, such as `deliver`. Never changed once rows may hold it.
    const KIND: &'static str;
    /// Where jobs of this type wait. A queue holds either units or tasks, never both.
    const QUEUE: Queue;
    /// What follows a failure.
    const RETRY: Retry = Retry::DEFAULT;
    /// How long a task, or the preparation of a batch of units, may take, in seconds.
    const TIMEOUT_S: u64 = 60;
    /// How long a job is worth being run, in ms from when it became ready first: one that waited
    /// longer, be it for its turn or for a retry, is dropped and counted as expired. What began in
    /// time is not cut off. None: it never expires.
    const EXPIRES_AFTER_MS: Option<i64> = None;
    /// Until when a job keeps others with its [`unique_key`](Self::unique_key) away.
    const UNIQUE: Unique = Unique::No;
    /// The `class` under which the type is known where Sidekiq's format is used.
    const SIDEKIQ_CLASS: &'static str = Self::KIND;

    /// The fairness key, such as the host a job has to do with: lanes of one queue take turns.
    /// Cut to 255 bytes.
    fn lane(&self) -> Cow<'_, str> {
        Cow::Borrowed("")
    }

    /// What [`UNIQUE`](Self::UNIQUE) is judged by, within the type. None: this one is not unique.
    fn unique_key(&self) -> Option<Cow<'_, str>> {
        None
    }
}

/// In which order a queue works off what waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// In order of id: first come, first served.
    OldestFirst,
    /// The newest first, and one job in ten from the old end, so that a backlog drains behind.
    NewestFirst,
}

/// A queue, declared on the job types that lie in it (all of them with the same values).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Queue {
    /// The stable name in rows, commands and metrics.
    pub name: &'static str,
    /// How urgent it is: queues of a more urgent class go first, and each class keeps a twentieth.
    pub class: Class,
    /// Which waiting job of a lane is next.
    pub order: Order,
    /// Its part of what its class has, beside the other queues of that class: 1 to 100.
    pub weight: u32,
    /// The most jobs (of tasks) or batches (of units) that run at once; 0: the engine's default.
    pub running_max: usize,
    /// The most jobs of one lane that start in a second; 0: any number.
    pub lane_rate: u32,
    /// Failures in a row of one lane's tasks that open its breaker; 0: none do.
    pub breaker_failures: u32,
}

impl Queue {
    /// A queue that serves the oldest first, with the engine's default concurrency.
    pub const fn new(name: &'static str, class: Class) -> Self {
        let order = Order::OldestFirst;
        Self { name, class, order, weight: 1, running_max: 0, lane_rate: 0, breaker_failures: 0 }
    }

    /// The same queue, newest first.
    pub const fn newest_first(self) -> Self {
        Self { order: Order::NewestFirst, ..self }
    }

    /// The same queue with `weight` (1 to 100) times the part of a queue of the same class that
    /// declares none: of the processor's time, if they are queues of tasks, of the writer's, if
    /// they are of units, and of the places that are given away when these are short. A queue that
    /// is empty leaves its part to the others. Between classes the order is strict, but for the
    /// twentieth that each keeps.
    pub const fn weight(self, weight: u32) -> Self {
        Self { weight, ..self }
    }

    /// The same queue with at most `running_max` jobs or batches at once.
    pub const fn running_max(self, running_max: usize) -> Self {
        Self { running_max, ..self }
    }

    /// The same queue, of whose lanes at most `lane_rate` jobs each start in a second, a tenth of
    /// them at once. A lane that has had its share waits for its time, and holds up no other.
    pub const fn lane_rate(self, lane_rate: u32) -> Self {
        Self { lane_rate, ..self }
    }

    /// The same queue of tasks with a breaker for each lane: after `failures` failures in a row,
    /// or two of [`Failure::Down`], no job of the lane starts for 5 s. Then one is tried; until
    /// one ends well the pause is twice as long each time, up to ten minutes.
    pub const fn breaker(self, failures: u32) -> Self {
        Self { breaker_failures: failures, ..self }
    }
}

/// What the preparation of a unit made of one job.
#[derive(Debug)]
pub enum Prepared<P> {
    /// Goes into the transaction.
    Run(P),
    /// Ends here; recorded in the same transaction as the rest of its batch.
    Not(Outcome),
}

/// How one job of a unit ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Done: the job is gone.
    Done,
    /// Tried again after the type's [`Retry`] delay, or `after_ms` when given.
    Retry {
        /// What went wrong, for people.
        reason: String,
        /// The wait, in milliseconds, such as a peer's `Retry-After`; at most 30 days.
        after_ms: Option<i64>,
    },
    /// The same, because the peer that the lane stands for is down ([`Queue::breaker`]).
    Down {
        /// What went wrong, for people.
        reason: String,
        /// As in `Retry`.
        after_ms: Option<i64>,
    },
    /// Not its time yet, through no fault of its own or its peer's, such as that all places for
    /// what it needs are taken: it waits in the schedule, its attempt is not counted, and no
    /// breaker hears of it. See [`Outcome::postpone`].
    Postponed {
        /// What it waits for, for people.
        reason: String,
        /// The wait, in milliseconds: at most ten minutes, and up to half as long again by chance,
        /// so that what was put off together does not come back together.
        after_ms: i64,
    },
    /// Given up without a trace but a count.
    Discard(String),
    /// Moved to the dead set at once.
    Dead(String),
    /// It waited too long ([`Job::EXPIRES_AFTER_MS`]): dropped, counted, never run.
    Expired,
    /// Cut off by hand: dropped and counted.
    Cancelled,
}

impl Outcome {
    /// A failure worth another try by the type's policy.
    pub fn retry(reason: impl Display) -> Self {
        Self::Retry { reason: reason.to_string(), after_ms: None }
    }

    /// Puts the job off for about `after_ms` milliseconds. As often as it takes, but only in the
    /// first day after it became ready first: from then on it counts as a failure, so that nothing
    /// is put off for ever. What waits so can be called back early, a lane ([`Jobs::hasten`]) or
    /// some jobs ([`Jobs::hasten_each`]).
    ///
    /// [`Jobs::hasten`]: crate::Jobs::hasten
    /// [`Jobs::hasten_each`]: crate::Jobs::hasten_each
    pub fn postpone(reason: impl Display, after_ms: i64) -> Self {
        Self::Postponed { reason: reason.to_string(), after_ms }
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Retry { .. } | Self::Down { .. } => "retry",
            Self::Postponed { .. } => "postponed",
            Self::Discard(_) => "discard",
            Self::Dead(_) => "dead",
            Self::Expired => "expired",
            Self::Cancelled => "cancelled",
        }
    }

    /// Whether the attempt failed, so that the job is tried again or kept.
    pub(crate) fn is_failure(&self) -> bool {
        matches!(self, Self::Retry { .. } | Self::Down { .. } | Self::Dead(_))
    }

    /// Whether the job is gone for good, neither tried again nor kept.
    pub(crate) fn is_gone(&self) -> bool {
        !self.is_failure() && !matches!(self, Self::Postponed { .. })
    }
}

/// How a task failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// Tried again after the type's [`Retry`] delay, or `after_ms` when given.
    Retry {
        /// What went wrong, for people.
        reason: String,
        /// The wait, in milliseconds, such as a peer's `Retry-After`; at most 30 days.
        after_ms: Option<i64>,
    },
    /// The same, because the peer that the lane stands for is down ([`Queue::breaker`]).
    Down {
        /// What went wrong, for people.
        reason: String,
        /// As in `Retry`.
        after_ms: Option<i64>,
    },
    /// Not its time yet, which is no failure ([`Outcome::Postponed`]).
    Postponed {
        /// What it waits for, for people.
        reason: String,
        /// The wait, in milliseconds.
        after_ms: i64,
    },
    /// Given up without a trace but a count.
    Discard(String),
    /// Moved to the dead set at once.
    Dead(String),
}

impl Failure {
    /// A failure worth another try by the type's policy.
    pub fn retry(reason: impl Display) -> Self {
        Self::Retry { reason: reason.to_string(), after_ms: None }
    }

    /// The same, because the lane's peer is down.
    pub fn down(reason: impl Display) -> Self {
        Self::Down { reason: reason.to_string(), after_ms: None }
    }

    /// Not its time yet: see [`Outcome::postpone`].
    pub fn postpone(reason: impl Display, after_ms: i64) -> Self {
        Self::Postponed { reason: reason.to_string(), after_ms }
    }
}

impl From<Failure> for Outcome {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Retry { reason, after_ms } => Self::Retry { reason, after_ms },
            Failure::Down { reason, after_ms } => Self::Down { reason, after_ms },
            Failure::Postponed { reason, after_ms } => Self::Postponed { reason, after_ms },
            Failure::Discard(reason) => Self::Discard(reason),
            Failure::Dead(reason) => Self::Dead(reason),
        }
    }
}

impl From<crate::Error> for Failure {
    fn from(error: crate::Error) -> Self {
        Self::retry(error)
    }
}

impl From<weir_db::Error> for Failure {
    fn from(error: weir_db::Error) -> Self {
        Self::retry(error)
    }
}
