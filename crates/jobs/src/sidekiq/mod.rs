//! The backend on Redis or Valkey, in Sidekiq's format: real Sidekiq processes and Sidekiq Web
//! share the queues in both directions.
//!
//! ```text
//!  caller's transaction ─▶ rows ──relay──▶ queue:NAME ──fetch──▶ held by this process ──▶ done
//!                           │                 ▲    ▲                │ fails        │ dies
//!                           └─▶ schedule ─────┘    └──── retry ◀────┘              │
//!                                     promoted              │ too often            │
//!                                                           ▼          put back    │
//!                                                         dead      queue:NAME ◀───┘
//! ```
//!
//! # Guarantees
//!
//! - *A program's own jobs* lie in its database until they were pushed: they are enqueued in a
//!   transaction, as without Redis. A crash between the push and the removal pushes again under
//!   the same name (`jid`, made from the job's id).
//! - *Fetching is reliable*: a job that is taken moves, in one step, into a hash of the process
//!   that holds it. When that process gives no sign of life for [`Options::lease`], any other
//!   puts its jobs back; a process that starts under the same [`Options::place`] does so at once.
//! - *A unit's effect is had once*, also when its job is handed out twice: its name is written in
//!   the transaction of its effect, and kept for a day. What an attempt that ended with
//!   [`Outcome::Retry`](crate::Outcome::Retry) or `Dead` wrote may be written again.
//! - *A task runs at least once.*
//! - *A member of a batch is counted once*: its first end, in the transaction of its effect if it
//!   is a unit, else before Redis is told. One that dies and is then tried again from the dead set,
//!   here or on Sidekiq Web, counts by how it ends after all. A kind that runs
//!   [`elsewhere`](crate::Registry::elsewhere) counts as done when it was handed over, since
//!   nobody tells how it ends. Not counted, so that the batch stays open, is a member that somebody
//!   deletes on Sidekiq Web, and one that a Ruby process takes from a queue of ours.
//! - *A unique job that is to be alone until it is done is*: what comes back from the dead set by
//!   other hands, such as Sidekiq Web's, takes its key when it starts, or is dead again while
//!   another has it. One that is unique until it starts may then wait beside another of its key.
//!   The keys of jobs that others deleted, or Redis lost, are free after ten to twenty minutes.
//! - *A job that kills its process is found*: what a process held when it died is counted. What
//!   was held at two deaths is tried alone, before the others and for at most ten seconds; what
//!   then kills its process a third time goes to the dead set.
//! - *What Redis loses is lost.* What it keeps over a crash of its own is its configuration's
//!   matter; the start says in one line what that does not keep.
//! - *Order*: jobs of a queue start first come, first served. Fairness between keys holds until
//!   they were pushed, so little is pushed at a time ([`Options::window`]); units of one key may
//!   be written in another order than they were pushed.

mod acks;
mod alone;
pub(crate) mod args;
mod beat;
mod failures;
mod fetch;
mod inspect;
pub(crate) mod jid;
mod limits;
mod link;
mod lost;
pub(crate) mod members;
mod names;
mod options;
mod persistence;
mod poller;
mod relay;
mod scripts;
pub(crate) mod seen;
mod shared;
mod start;
mod steer;
mod sweep;
mod tasks;
mod units;
mod wire;
mod worker;

pub use options::{Options, QueueOrder};
pub(crate) use shared::Shared;
pub use wire::Times;
