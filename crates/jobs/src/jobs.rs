//! The handle: opening and enqueueing.

use std::sync::Arc;

use weir_base::{Clock, Id, IdGenerator, Random, Timestamp};
use weir_db::{Db, Tx};

use crate::rows::NewRow;
use crate::{Error, Job, rows, schema};

/// The longest fairness key, in bytes.
const LANE_BYTES_MAX: usize = 255;

/// The engine's handle; clones share it.
#[derive(Clone)]
pub struct Jobs {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) db: Db,
    pub(crate) clock: Clock,
    pub(crate) random: Random,
    pub(crate) ids: IdGenerator,
}

impl Jobs {
    /// Brings the engine's tables up to date and reads which lanes hold jobs, by one query over
    /// the index. Blocks the calling thread meanwhile.
    ///
    /// # Errors
    /// [`Error::Db`].
    pub fn open(db: Db, clock: Clock, random: Random) -> Result<Jobs, Error> {
        let ids = IdGenerator::new(clock.clone(), random.clone());
        let inner = Arc::new(Inner { db, clock, random, ids });
        // On a thread of its own, since a thread that drives futures may not block.
        let reader = inner.clone();
        std::thread::scope(|scope| {
            scope
                .spawn(move || reader.load())
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })?;
        Ok(Self { inner })
    }

    /// Enqueues `job` in the caller's transaction: it runs if, and only after, that commits.
    ///
    /// # Errors
    /// What the database says; a kind without a handler is refused once the workers run.
    pub fn enqueue<J: Job>(&self, tx: &mut Tx, job: &J) -> Result<Id, weir_db::Error> {
        let row = self.row(job, None)?;
        let id = row.id;
        rows::insert_ready(tx, &[row])?;
        Ok(id)
    }

    /// Enqueues `jobs`, in their order, many rows a statement.
    ///
    /// # Errors
    /// As [`enqueue`](Self::enqueue).
    pub fn enqueue_many<J: Job>(&self, tx: &mut Tx, jobs: &[J]) -> Result<(), weir_db::Error> {
        let rows = jobs.iter().map(|job| self.row(job, None)).collect::<Result<Vec<_>, _>>()?;
        rows::insert_ready(tx, &rows)
    }

    /// Enqueues `job` to become ready at `at` (now, when that has passed).
    ///
    /// # Errors
    /// As [`enqueue`](Self::enqueue).
    pub fn enqueue_at<J: Job>(
        &self,
        tx: &mut Tx,
        at: Timestamp,
        job: &J,
    ) -> Result<Id, weir_db::Error> {
        if at <= self.inner.clock.now() {
            return self.enqueue(tx, job);
        }
        let row = self.row(job, None)?;
        rows::insert_later(tx, at, &row)?;
        Ok(row.id)
    }

    /// Enqueues `job` to become ready at `at`, unless a job with the same `key` waits already
    /// (ready, scheduled or for a retry): then nothing is done and there is no id. A task gives
    /// the key free when it starts, a unit when it commits, so what happens after that enqueues
    /// anew. Jobs of one key must be interchangeable.
    ///
    /// # Errors
    /// As [`enqueue`](Self::enqueue).
    pub fn enqueue_unique<J: Job>(
        &self,
        tx: &mut Tx,
        key: &str,
        at: Timestamp,
        job: &J,
    ) -> Result<Option<Id>, weir_db::Error> {
        let row = self.row(job, Some(key))?;
        if !rows::take_key(tx, key, row.id)? {
            return Ok(None);
        }
        let id = row.id;
        if at <= self.inner.clock.now() {
            rows::insert_ready(tx, &[row])?;
        } else {
            rows::insert_later(tx, at, &row)?;
        }
        Ok(Some(id))
    }

    fn row<J: Job>(&self, job: &J, key: Option<&str>) -> Result<NewRow, weir_db::Error> {
        let payload = serde_json::to_string(job).map_err(|error| weir_db::Error::Statement {
            reason: format!("a job of kind {} cannot be written: {error}", J::KIND),
            sql: "enqueue".into(),
        })?;
        Ok(NewRow {
            queue: J::QUEUE.name,
            lane: lane_name(&job.lane()),
            id: self.inner.ids.next(),
            kind: J::KIND,
            enqueued_at: self.inner.clock.now(),
            unique_key: key.map(Into::into),
            payload,
        })
    }
}

impl Inner {
    fn load(&self) -> Result<(), Error> {
        self.db.migrate(schema::PART, schema::MIGRATIONS)?;
        Ok(())
    }
}

/// A fairness key without what PostgreSQL cannot store, cut to its limit.
fn lane_name(key: &str) -> String {
    let mut end = key.len().min(LANE_BYTES_MAX);
    while !key.is_char_boundary(end) {
        end -= 1;
    }
    key[..end].replace('\0', "\u{FFFD}")
}
