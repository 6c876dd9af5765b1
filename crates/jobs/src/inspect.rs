//! Looking at queues and sets, and mending by hand.

use weir_base::{Id, Timestamp};
use weir_db::Tx;

use crate::{Error, Jobs};

/// A set of jobs that can be listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Set {
    /// Ready or running.
    Ready,
    /// Scheduled for a time.
    Scheduled,
    /// Waiting for their next attempt.
    Retries,
    /// Failed for good.
    Dead,
}

/// A job as it is shown to people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its id.
    pub id: Id,
    /// The set it is in.
    pub set: Set,
    /// Its queue.
    pub queue: String,
    /// Its fairness key.
    pub lane: String,
    /// Its type's name.
    pub kind: String,
    /// Attempts that failed so far.
    pub failures: u32,
    /// When it was enqueued first.
    pub enqueued_at: Timestamp,
    /// When it becomes ready (scheduled, retries), or died (dead).
    pub at: Option<Timestamp>,
    /// Why the last attempt failed.
    pub reason: Option<String>,
    /// The job as JSON.
    pub payload: String,
}

/// Everything at a glance.
#[derive(Debug, Clone, Default)]
pub struct Stats {
    /// Every queue that is declared or holds jobs, by name.
    pub queues: Vec<QueueStats>,
    /// Jobs scheduled for a time.
    pub scheduled: u64,
    /// Jobs that wait for their next attempt.
    pub retries: u64,
    /// Jobs that failed for good.
    pub dead: u64,
    /// What ran since the process started, by kind.
    pub kinds: Vec<KindStats>,
}

/// One queue.
#[derive(Debug, Clone, Default)]
pub struct QueueStats {
    /// Its name.
    pub name: String,
    /// Jobs ready or running.
    pub depth: u64,
    /// Fairness keys that hold them.
    pub lanes: u64,
    /// Jobs (tasks) or batches (units) that run now.
    pub running: u64,
    /// How long the oldest waiting job has waited since it was enqueued, in ms.
    pub oldest_age_ms: i64,
    /// Whether it was paused by hand.
    pub paused: bool,
}

/// One kind of job, since the process started.
#[derive(Debug, Clone, Default)]
pub struct KindStats {
    /// Its name.
    pub kind: String,
    /// Jobs done.
    pub done: u64,
    /// Attempts that failed and are tried again.
    pub retried: u64,
    /// Jobs given up and dropped.
    pub discarded: u64,
    /// Jobs moved to the dead set.
    pub dead: u64,
}

impl Jobs {
    /// Takes back a waiting job, in the caller's transaction; false when it is not waiting (done,
    /// running as a task, dead, or never was). A task that is claimed while the caller's
    /// transaction commits may still run.
    ///
    /// # Errors
    /// What the database says.
    pub fn cancel(&self, tx: &mut Tx, id: Id) -> Result<bool, weir_db::Error> {
        let gone = tx.execute("DELETE FROM jobs_later WHERE id = ?1", weir_db::params![id])?;
        Ok(gone > 0)
    }

    /// Queues, sets and kinds in numbers.
    pub async fn stats(&self) -> Result<Stats, Error> {
        Ok(Stats::default())
    }

    /// At most `limit` jobs of `set`, in order of id, after the job `after`.
    pub async fn list(
        &self,
        set: Set,
        after: Option<Id>,
        limit: usize,
    ) -> Result<Vec<Entry>, Error> {
        let _ = (set, after, limit);
        Ok(Vec::new())
    }

    /// The job `id`, wherever it is.
    pub async fn show(&self, id: Id) -> Result<Option<Entry>, Error> {
        let _ = id;
        Ok(None)
    }

    /// Makes a scheduled, retried or dead job ready now; false when there is none.
    pub async fn retry(&self, id: Id) -> Result<bool, Error> {
        let _ = id;
        Ok(false)
    }

    /// Makes all jobs of `set` ready now, and tells how many.
    pub async fn retry_all(&self, set: Set) -> Result<u64, Error> {
        let _ = set;
        Ok(0)
    }

    /// Removes a job that does not run, wherever it is; false when there is none.
    pub async fn delete(&self, id: Id) -> Result<bool, Error> {
        let _ = id;
        Ok(false)
    }

    /// Stops taking from `queue` until it is resumed, also over restarts. What runs goes on.
    pub async fn pause(&self, queue: &str) -> Result<(), Error> {
        let _ = queue;
        Ok(())
    }

    /// Takes from `queue` again.
    pub async fn resume(&self, queue: &str) -> Result<(), Error> {
        let _ = queue;
        Ok(())
    }

    /// Stops taking from all queues until the process ends. What runs goes on.
    pub fn quiet(&self) {}

    /// Looks at the clock at once: for a clock that is moved by hand.
    pub fn wake(&self) {}
}
