//! Batches: jobs that belong together, counted as they end, and jobs that are called back.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_base::{Id, Timestamp};
use weir_db::{Class, Error, Row, Tx, ids, params};

use crate::jobs::Inner;
use crate::keeper::PRUNED_MAX;
use crate::{Job, Jobs, rows};

/// The longest label, in bytes.
const LABEL_BYTES_MAX: usize = 200;
/// A batch that succeeded is remembered for this long: a week, in ms.
const SUCCESS_KEPT_MS: i64 = 7 * 24 * 3_600 * 1_000;
/// A batch that failed is remembered for this long: 30 days, in ms.
const FAILED_KEPT_MS: i64 = 30 * 24 * 3_600 * 1_000;
/// The most batches of one list.
const LIST_MAX: usize = 1_000;

/// A batch in numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchStats {
    /// Its id.
    pub id: Id,
    /// The batch it is part of.
    pub parent: Option<Id>,
    /// What it is, for people.
    pub label: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// Its members: jobs, batches within it, and what those call back.
    pub total: u64,
    /// Members that are done.
    pub done: u64,
    /// Members that ended otherwise: dead, given up, expired, cancelled.
    pub failed: u64,
    /// When the last member had ended.
    pub complete_at: Option<Timestamp>,
    /// When all members were done.
    pub success_at: Option<Timestamp>,
    /// When the first member failed for good.
    pub death_at: Option<Timestamp>,
}

impl BatchStats {
    /// Members that have not ended: they wait, run, or wait for a retry.
    pub fn pending(&self) -> u64 {
        self.total.saturating_sub(self.done).saturating_sub(self.failed)
    }
}

/// What happens to the counters of a batch.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Change {
    pub(crate) more: i64,
    pub(crate) done: i64,
    pub(crate) failed: i64,
}

/// By batch.
pub(crate) type Changes = BTreeMap<Id, Change>;

/// A batch that is being filled ([`Jobs::batch`]).
pub struct Batch<'t, 'c> {
    jobs: &'t Jobs,
    tx: &'t mut Tx<'c>,
    id: Id,
    parent: Option<Id>,
    total: i64,
    on_complete: Option<Id>,
    on_success: Option<Id>,
    on_death: Option<Id>,
}

impl Batch<'_, '_> {
    /// Its id.
    pub fn id(&self) -> Id {
        self.id
    }

    /// Enqueues `job` as a member. One that another keeps away ([`Job::UNIQUE`]) is no member.
    ///
    /// # Errors
    /// As [`Jobs::enqueue`].
    pub fn add<J: Job>(&mut self, job: &J) -> Result<(), Error> {
        self.add_many(std::slice::from_ref(job))
    }

    /// Enqueues `jobs` as members.
    ///
    /// # Errors
    /// As [`Jobs::enqueue`].
    pub fn add_many<J: Job>(&mut self, jobs: &[J]) -> Result<(), Error> {
        let added = self.jobs.put_many(self.tx, jobs, None, Some(self.id))?;
        self.total += i64::try_from(added).unwrap_or(i64::MAX);
        Ok(())
    }

    /// Makes a batch within this one: a member, which ends when it is complete.
    ///
    /// # Errors
    /// As [`Jobs::enqueue`].
    pub fn nested<F>(&mut self, label: &str, fill: F) -> Result<Id, Error>
    where
        F: FnOnce(&mut Batch<'_, '_>) -> Result<(), Error>,
    {
        self.total += 1;
        make(self.jobs, self.tx, Some(self.id), label, fill)
    }

    /// `job` is enqueued once, when all members have ended, however.
    ///
    /// # Errors
    /// As [`Jobs::enqueue`].
    pub fn on_complete<J: Job>(&mut self, job: &J) -> Result<(), Error> {
        self.on_complete = Some(self.callback(job)?);
        Ok(())
    }

    /// `job` is enqueued once, when all members are done: later than
    /// [`on_complete`](Self::on_complete) if some died and were brought to an end by hand.
    ///
    /// # Errors
    /// As [`Jobs::enqueue`].
    pub fn on_success<J: Job>(&mut self, job: &J) -> Result<(), Error> {
        self.on_success = Some(self.callback(job)?);
        Ok(())
    }

    /// `job` is enqueued once, when the first member failed for good, while others may still run.
    ///
    /// # Errors
    /// As [`Jobs::enqueue`].
    pub fn on_death<J: Job>(&mut self, job: &J) -> Result<(), Error> {
        self.on_death = Some(self.callback(job)?);
        Ok(())
    }

    fn callback<J: Job>(&mut self, job: &J) -> Result<Id, Error> {
        let row = self.jobs.row(job, Some(rows::NEVER), self.parent)?;
        // Whatever its type says: a callback is neither kept away nor worthless after a time.
        let row = rows::NewRow { expires_at: None, unique_key: None, ..row };
        rows::insert_later(
            self.tx,
            rows::NEVER,
            rows::State::CalledBack,
            None,
            std::slice::from_ref(&row),
        )?;
        Ok(row.id)
    }
}

impl Jobs {
    /// Makes a batch in the caller's transaction and fills it: the jobs that `fill` adds are its
    /// members, and those it names are called back. `label` says what it is, for people (at most
    /// 200 bytes).
    ///
    /// - A member *ends* in the transaction that removes its job, which counts it, **exactly
    ///   once**: done, or failed (dead, given up, expired, cancelled). One that waits for a retry
    ///   has not ended.
    /// - What is called back is a job like any other, enqueued in that same transaction: at the
    ///   first failure ([`Batch::on_death`]), when all members have ended
    ///   ([`Batch::on_complete`]), and when all are done ([`Batch::on_success`]).
    /// - A batch within another ([`Batch::nested`]) is a member of it, and so are the jobs it calls
    ///   back: a parent is complete after its children and what they called back.
    /// - A dead member that is retried by hand and then done no longer counts as failed, so a
    ///   batch may succeed after it was complete.
    /// - A batch without members is complete, and succeeds, at once.
    ///
    /// Members may add more ([`add_to_batch`](Self::add_to_batch)). Counters are written once for
    /// each group of ends. A batch that is complete is remembered for a week, or for 30 days if it
    /// failed. With the jobs on Redis batches stay in the database: see
    /// [`sidekiq`](crate::sidekiq) for what is counted.
    ///
    /// # Errors
    /// As [`enqueue`](Self::enqueue).
    pub fn batch<F>(&self, tx: &mut Tx, label: &str, fill: F) -> Result<Id, Error>
    where
        F: FnOnce(&mut Batch<'_, '_>) -> Result<(), Error>,
    {
        make(self, tx, None, label, fill)
    }

    /// Makes a batch within `parent`, such as that of the job which runs
    /// ([`Claimed::batch`](crate::Claimed::batch)); none when `parent` is complete, or unknown.
    ///
    /// # Errors
    /// As [`batch`](Self::batch).
    pub fn batch_within<F>(
        &self,
        tx: &mut Tx,
        parent: Id,
        label: &str,
        fill: F,
    ) -> Result<Option<Id>, Error>
    where
        F: FnOnce(&mut Batch<'_, '_>) -> Result<(), Error>,
    {
        if !widen(tx, parent, 1)? {
            return Ok(None);
        }
        make(self, tx, Some(parent), label, fill).map(Some)
    }

    /// Adds `jobs` to `batch`, from a job of it ([`Claimed::batch`](crate::Claimed::batch)) or
    /// from outside; false, and nothing is enqueued, when it is complete or unknown. From a job of
    /// it that has not ended it is always possible.
    ///
    /// A task that adds and then runs again, adds again: give what it adds a key
    /// ([`Job::UNIQUE`]), or add from a unit.
    ///
    /// # Errors
    /// As [`enqueue`](Self::enqueue).
    pub fn add_to_batch<J: Job>(&self, tx: &mut Tx, batch: Id, jobs: &[J]) -> Result<bool, Error> {
        // Held open before it is known how many will be let in.
        if !widen(tx, batch, 1)? {
            return Ok(false);
        }
        let added = self.put_many(tx, jobs, None, Some(batch))?;
        let more = i64::try_from(added).unwrap_or(i64::MAX) - 1;
        self.inner.change_batches(tx, [(batch, Change { more, ..Change::default() })].into())?;
        Ok(true)
    }

    /// A batch in numbers; none when it is unknown or forgotten.
    ///
    /// # Errors
    /// [`Error::Db`](crate::Error::Db).
    pub async fn batch_stats(&self, id: Id) -> Result<Option<BatchStats>, crate::Error> {
        let read =
            move |tx: &mut Tx| tx.query_opt(&format!("{SELECT} WHERE id = ?1"), params![id], stats);
        Ok(self.inner.db.read::<_, Error, _>(Class::Interactive, read).await?)
    }

    /// The newest batches, at most `limit` (and 1,000).
    ///
    /// # Errors
    /// [`Error::Db`](crate::Error::Db).
    pub async fn batches(&self, limit: usize) -> Result<Vec<BatchStats>, crate::Error> {
        let limit = limit.min(LIST_MAX);
        let read = move |tx: &mut Tx| {
            tx.query(&format!("{SELECT} ORDER BY id DESC LIMIT ?1"), params![limit], stats)
        };
        Ok(self.inner.db.read::<_, Error, _>(Class::Interactive, read).await?)
    }
}

const SELECT: &str = "SELECT id, parent_id, label, created_at, total, done, failed, complete_at,
  success_at, death_at FROM jobs_batches";

fn stats(row: &Row<'_>) -> Result<BatchStats, Error> {
    Ok(BatchStats {
        id: row.get(0)?,
        parent: row.get(1)?,
        label: row.get(2)?,
        created_at: row.get(3)?,
        total: row.get(4)?,
        done: row.get(5)?,
        failed: row.get(6)?,
        complete_at: row.get(7)?,
        success_at: row.get(8)?,
        death_at: row.get(9)?,
    })
}

/// `more` members are about to come; false when the batch is complete or unknown.
fn widen(tx: &mut Tx, batch: Id, more: i64) -> Result<bool, Error> {
    let widened = tx.execute(
        "UPDATE jobs_batches SET total = total + ?2 WHERE id = ?1 AND complete_at IS NULL",
        params![batch, more],
    )?;
    Ok(widened == 1)
}

fn make<F>(jobs: &Jobs, tx: &mut Tx, parent: Option<Id>, label: &str, fill: F) -> Result<Id, Error>
where
    F: FnOnce(&mut Batch<'_, '_>) -> Result<(), Error>,
{
    let id = jobs.inner.ids.next();
    let mut end = label.len().min(LABEL_BYTES_MAX);
    while !label.is_char_boundary(end) {
        end -= 1;
    }
    // Held open by one member until it is filled.
    tx.run(
        "INSERT INTO jobs_batches (id, parent_id, label, created_at, total, done, failed)
         VALUES (?1, ?2, ?3, ?4, 1, 0, 0)",
        params![id, parent, label[..end].replace('\0', "\u{FFFD}"), jobs.inner.clock.now()],
    )?;
    let mut batch = Batch {
        jobs,
        tx: &mut *tx,
        id,
        parent,
        total: 0,
        on_complete: None,
        on_success: None,
        on_death: None,
    };
    fill(&mut batch)?;
    let Batch { total, on_complete, on_success, on_death, .. } = batch;
    tx.run(
        "UPDATE jobs_batches SET on_complete = ?2, on_success = ?3, on_death = ?4 WHERE id = ?1",
        params![id, on_complete, on_success, on_death],
    )?;
    let more = total - 1;
    jobs.inner.change_batches(tx, [(id, Change { more, ..Change::default() })].into())?;
    Ok(id)
}

impl Inner {
    /// As [`change`], for a transaction that tells of itself.
    pub(crate) fn change_batches(
        self: &Arc<Self>,
        tx: &mut Tx,
        changes: Changes,
    ) -> Result<(), Error> {
        let now = self.clock.now();
        if change(tx, now, changes)? {
            let inner = self.clone();
            tx.after_commit(move || inner.later.due(now));
        }
        Ok(())
    }
}

/// A batch after a change.
struct Counted {
    parent: Option<Id>,
    total: i64,
    done: i64,
    failed: i64,
    was_complete: bool,
    was_success: bool,
    was_death: bool,
    on_complete: Option<Id>,
    on_success: Option<Id>,
    on_death: Option<Id>,
}

/// Writes `changes` and what follows from them; tells whether something is called back, which is
/// due `now`.
pub(crate) fn change(tx: &mut Tx, now: Timestamp, mut changes: Changes) -> Result<bool, Error> {
    let mut called: Vec<Id> = Vec::new();
    // A child is younger than its parent: who writes children first never waits in a circle.
    while let Some((id, change)) = changes.pop_last() {
        let Some(counted) = count(tx, id, change)? else { continue };
        let complete = !counted.was_complete && counted.done + counted.failed >= counted.total;
        let success = !counted.was_success && counted.done >= counted.total;
        let death = !counted.was_death && counted.failed > 0;
        if !(complete || success || death) {
            continue;
        }
        tx.run(
            "UPDATE jobs_batches SET
               complete_at = coalesce(complete_at, CAST(?2 AS BIGINT)),
               success_at = coalesce(success_at, CAST(?3 AS BIGINT)),
               death_at = coalesce(death_at, CAST(?4 AS BIGINT))
             WHERE id = ?1",
            params![id, complete.then_some(now), success.then_some(now), death.then_some(now)],
        )?;
        let before = called.len();
        called.extend(counted.on_death.filter(|_| death));
        called.extend(counted.on_complete.filter(|_| complete));
        called.extend(counted.on_success.filter(|_| success));
        if success && let Some(never) = counted.on_death.filter(|_| !counted.was_death) {
            tx.run("DELETE FROM jobs_later WHERE id = ?1 AND state = 2", params![never])?;
        }
        if let Some(parent) = counted.parent {
            let change = changes.entry(parent).or_default();
            change.more += i64::try_from(called.len() - before).unwrap_or(0);
            change.done += i64::from(success);
            change.failed += i64::from(complete && !success) - i64::from(!complete && success);
        }
    }
    if called.is_empty() {
        return Ok(false);
    }
    tx.run(
        "UPDATE jobs_later SET due_at = ?1, state = 0 WHERE id IN ids(?2) AND +state = 2",
        params![now, ids(&called)],
    )?;
    Ok(true)
}

fn count(tx: &mut Tx, id: Id, change: Change) -> Result<Option<Counted>, Error> {
    tx.query_opt(
        "UPDATE jobs_batches SET total = total + ?2, done = done + ?3, failed = failed + ?4
         WHERE id = ?1
         RETURNING parent_id, total, done, failed, complete_at, success_at, death_at,
           on_complete, on_success, on_death",
        params![id, change.more, change.done, change.failed],
        |row| {
            Ok(Counted {
                parent: row.get(0)?,
                total: row.get(1)?,
                done: row.get(2)?,
                failed: row.get(3)?,
                was_complete: row.get::<Option<i64>>(4)?.is_some(),
                was_success: row.get::<Option<i64>>(5)?.is_some(),
                was_death: row.get::<Option<i64>>(6)?.is_some(),
                on_complete: row.get(7)?,
                on_success: row.get(8)?,
                on_death: row.get(9)?,
            })
        },
    )
}

/// Dead jobs `list` are about to be tried again: they count as failed no longer.
pub(crate) fn raised(tx: &mut Tx, list: &[Id]) -> Result<Changes, Error> {
    let counts: Vec<(Id, i64)> = tx.query(
        "SELECT batch_id, COUNT(*) FROM jobs_dead WHERE id IN ids(?1) AND batch_id IS NOT NULL
         GROUP BY batch_id",
        params![ids(list)],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    let one = |(id, count): (Id, i64)| (id, Change { failed: -count, ..Change::default() });
    Ok(counts.into_iter().map(one).collect())
}

/// Forgets batches that were complete long ago, some at once.
pub(crate) fn prune(tx: &mut Tx, now: Timestamp) -> Result<u64, Error> {
    let old: Vec<(Id, Option<Id>, Option<Id>)> = tx.query(
        "SELECT id, on_success, on_death FROM jobs_batches
         WHERE complete_at <= ?1 OR (complete_at <= ?2 AND success_at IS NOT NULL)
         ORDER BY complete_at, id LIMIT ?3",
        params![now.plus_ms(-FAILED_KEPT_MS), now.plus_ms(-SUCCESS_KEPT_MS), PRUNED_MAX],
        |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
    )?;
    if old.is_empty() {
        return Ok(0);
    }
    let never: Vec<Id> = old.iter().flat_map(|(_, one, other)| [*one, *other]).flatten().collect();
    let list: Vec<Id> = old.iter().map(|(id, _, _)| *id).collect();
    tx.run("DELETE FROM jobs_later WHERE id IN ids(?1) AND +state = 2", params![ids(&never)])?;
    tx.run("DELETE FROM jobs_members WHERE batch_id IN ids(?1)", params![ids(&list)])?;
    tx.execute("DELETE FROM jobs_batches WHERE id IN ids(?1)", params![ids(&list)])
}
