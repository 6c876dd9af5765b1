//! Durable background jobs with fair lanes, in the database of the program that causes them.
//!
//! A [`Job`] is a type with a queue, a retry policy and a fairness key. It is enqueued in the
//! caller's own transaction ([`Jobs::enqueue`]), so a change and the jobs it causes commit
//! together. There are two ways to handle it ([`Registry`]):
//!
//! - a **unit** works on the database: effect, removal and caused jobs commit together, exactly
//!   once ([`Registry::unit`]);
//! - a **task** reaches outside: at least once, with an id by which the other side recognises a
//!   repeat ([`Registry::task`]).
//!
//! # Guarantees
//!
//! - *Enqueued means kept.* Once the transaction that enqueued it committed, a job is there until
//!   it ends: a crash at any moment loses none. What rolled back leaves none.
//! - *A unit's effect is had once.* Its row goes in the transaction of its effect. Its preparation
//!   may run more often.
//! - *A task runs at least once.* Its row goes within 50 ms of its end (as long as the database
//!   answers). It runs again when the process dies before that, when a stop cuts it off, and when
//!   it fails, panics or takes longer than [`Job::TIMEOUT_S`]. [`Claimed::id`] stays the same.
//! - *Lanes take turns* by measured work; the first job of a lane that was empty goes before the
//!   next of those that were not. A lane of tasks has at most a quarter of its queue's places,
//!   jobs without a fairness key all of them.
//! - *Order*: the units of a lane run one after the other in order of id, if their queue is
//!   oldest-first and but for retries; tasks run beside each other.
//! - *Every end is counted once.* A member of a batch ([`Jobs::batch`]) is counted in the
//!   transaction that removes its row, which also enqueues what the batch then calls back.
//! - *A job that expired, or was cancelled while it waited, never runs*
//!   ([`Job::EXPIRES_AFTER_MS`], [`Jobs::cancel_now`]). A task that is cancelled while it runs is
//!   cut off at its next `await` and not tried again, unless the process dies within 50 ms.
//! - *A saved cursor is found again* by the next run of the task, after a failure, a stop or a
//!   crash ([`Claimed::save_cursor`]): what was done after the last save is done again.
//! - *Failures of the database are not failures of the job*: it waits, and no attempt is counted.
//!
//! On SQLite one process has the jobs of a database, and a second is refused as long as the first
//! lives ([`weir_db::Error::Owned`]). On PostgreSQL several share
//! it: each lane is worked on by one of them, and what one that died had taken goes on elsewhere
//! after 8 to 12 s ([`NodeOptions`]), or at once in the process that takes its place
//! ([`Jobs::set_place`]). Periodic jobs are started by one of them
//! ([`Registry::cron`]). Memory: 8 bytes for each waiting job (of up to two million a queue, unless
//! it is newest-first), a few hundred for each lane that holds jobs, and the payloads of what runs.
//!
//! With [`Jobs::start_on_redis`] jobs are handed over to Redis in Sidekiq's format instead of being
//! worked from the database: see [`sidekiq`] for what is then guaranteed.
//!
//! This crate knows nothing of what the jobs are about.

mod acks;
mod batches;
mod blocking;
mod claimed;
mod controller;
mod cron;
mod cursors;
mod directory;
mod dispatch;
mod endings;
mod error;
mod gates;
mod hand;
mod history;
mod hooks;
mod inspect;
mod items;
mod job;
mod jobs;
mod journal;
mod keeper;
mod keyed;
mod later;
mod limits;
mod line;
mod load;
mod many;
mod mend;
mod news;
mod nodes;
mod outage;
mod periodic;
mod places;
mod plan;
mod promote;
mod registry;
mod retry;
mod rows;
mod running;
mod schema;
mod search;
pub mod sidekiq;
mod slots;
mod steering;
mod suspects;
mod sync;
mod tasks;
#[cfg(test)]
mod tests;
mod turns;
mod unique;
mod units;
mod views;
mod workers;
mod yielding;

pub use batches::{Batch, BatchStats};
pub use claimed::Claimed;
pub use error::{Error, StartError};
pub use gates::Breaker;
pub use history::{HISTORY_MINUTES, Minute};
pub use hooks::{Enqueuing, TaskRun, UnitRun};
pub use inspect::{Entry, KindStats, LaneStats, QueueStats, Readable, Set, Stats};
pub use job::{Failure, Job, Order, Outcome, Prepared, Queue};
pub use jobs::{Jobs, Packed, migrate};
pub use limits::LimitedBy;
pub use many::{Action, Swept};
pub use nodes::NodeOptions;
pub use periodic::PeriodicStats;
pub use plan::Missed;
pub use registry::Registry;
pub use retry::{Delay, Last, Retry};
pub use running::{Progress, RunningJob};
pub use search::{Look, Search};
pub use unique::Unique;
pub use workers::Workers;
