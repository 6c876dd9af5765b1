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
//! This crate knows nothing of what the jobs are about.

mod acks;
mod directory;
mod dispatch;
mod endings;
mod error;
mod inspect;
mod job;
mod jobs;
mod keeper;
mod later;
mod mend;
mod registry;
mod retry;
mod rows;
mod schema;
mod tasks;
mod turns;
mod units;
mod workers;

pub use error::{Error, StartError};
pub use inspect::{Entry, KindStats, LaneStats, QueueStats, Set, Stats};
pub use job::{Claimed, Failure, Job, Order, Outcome, Prepared, Queue};
pub use jobs::Jobs;
pub use registry::Registry;
pub use retry::{Delay, Last, Retry};
pub use workers::Workers;
