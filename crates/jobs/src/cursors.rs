//! Where a long task is: kept over its runs.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use weir_base::{Id, Timestamp};
use weir_db::{Class, Tx, ids, params};

use crate::jobs::Inner;
use crate::keeper::PRUNED_MAX;
use crate::{Claimed, Error};

/// The largest cursor, as JSON in bytes.
const CURSOR_BYTES_MAX: usize = 64 * 1024;
/// One whose job left no other trace is kept for this long: 31 days, in ms, which is longer than
/// any wait for a retry.
const KEPT_MS: i64 = 31 * 24 * 3_600 * 1_000;

/// The jobs that looked at or saved a cursor in this process, and have not ended.
#[derive(Default)]
pub(crate) struct Cursors {
    jobs: Mutex<HashSet<Id>>,
    count: AtomicUsize,
}

impl Cursors {
    fn note(&self, id: Id) {
        let mut jobs = self.jobs.lock();
        jobs.insert(id);
        self.count.store(jobs.len(), Ordering::Relaxed);
    }

    /// Whether there is any at all.
    pub(crate) fn any(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    /// Those of `list` that may have one.
    pub(crate) fn of(&self, list: impl Iterator<Item = Id>) -> Vec<Id> {
        let jobs = self.jobs.lock();
        list.filter(|id| jobs.contains(id)).collect()
    }

    /// The cursors of `list` are gone.
    pub(crate) fn forget(&self, list: &[Id]) {
        let mut jobs = self.jobs.lock();
        for id in list {
            jobs.remove(id);
        }
        self.count.store(jobs.len(), Ordering::Relaxed);
    }
}

impl<J> Claimed<J> {
    /// What an earlier run of this job saved last; none at its first run.
    ///
    /// # Errors
    /// [`Error::Db`]; [`Error::Cursor`] when it does not parse as a `T`.
    pub async fn cursor<T: DeserializeOwned>(&self) -> Result<Option<T>, Error> {
        let Some(site) = &self.site else { return Ok(None) };
        let id = self.id;
        let read = move |tx: &mut Tx| {
            tx.value::<String>("SELECT cursor FROM jobs_cursors WHERE id = ?1", params![id])
        };
        let saved = site.inner.db.read::<_, weir_db::Error, _>(Class::Outbound, read).await?;
        let Some(saved) = saved else { return Ok(None) };
        site.inner.cursors.note(id);
        serde_json::from_str(&saved).map(Some).map_err(|error| Error::Cursor(error.to_string()))
    }

    /// Saves `cursor` (at most 64 KiB as JSON) for the next run of this task, whyever that comes:
    /// a retry, a stop, a crash. It is durable when this returns, replaces what was saved before,
    /// and goes with the job's end; a dead job keeps it.
    ///
    /// It is no transaction with what the task does outside: save after a step is done, and let
    /// the step be harmless when it is repeated. Each save is one write to the database, so save
    /// once for some work (a second of it, say) and not for each item.
    ///
    /// # Errors
    /// [`Error::Db`]; [`Error::Cursor`] when it is too large, and from a unit, which ends with its
    /// transaction and needs none.
    pub async fn save_cursor<T: Serialize + Sync>(&self, cursor: &T) -> Result<(), Error> {
        let Some(site) = &self.site else {
            return Err(Error::Cursor("only tasks have one".into()));
        };
        let text = serde_json::to_string(cursor);
        let text = text.map_err(|error| Error::Cursor(error.to_string()))?;
        if text.len() > CURSOR_BYTES_MAX {
            return Err(Error::Cursor(format!("it is larger than {CURSOR_BYTES_MAX} bytes")));
        }
        let (id, now) = (self.id, site.inner.clock.now());
        site.inner.cursors.note(id);
        let write = move |tx: &mut Tx| {
            tx.execute(
                "INSERT INTO jobs_cursors (id, cursor, saved_at) VALUES (?1, ?2, ?3)
                 ON CONFLICT (id) DO UPDATE SET cursor = excluded.cursor,
                   saved_at = excluded.saved_at",
                params![id, text, now],
            )
        };
        site.inner.db.write::<_, weir_db::Error, _>(Class::Outbound, write).await?;
        Ok(())
    }
}

/// Removes the cursors of jobs that ended.
pub(crate) fn remove(tx: &mut Tx, list: &[Id]) -> Result<(), weir_db::Error> {
    tx.run("DELETE FROM jobs_cursors WHERE id IN ids(?1)", params![ids(list)])?;
    Ok(())
}

/// Removes the cursor of a job that is kept elsewhere and ended. What fails here is pruned later.
pub(crate) async fn remove_one(inner: &Inner, id: Id) {
    if !inner.cursors.any() || inner.cursors.of([id].into_iter()).is_empty() {
        return;
    }
    let gone = inner.db.write(Class::Outbound, move |tx: &mut Tx| remove(tx, &[id])).await;
    if let Err(error) = gone {
        tracing::warn!(%error, "a job's cursor stays for now");
    }
    inner.cursors.forget(&[id]);
}

/// Forgets cursors whose job is gone, some at once.
pub(crate) fn prune(tx: &mut Tx, now: Timestamp) -> Result<u64, weir_db::Error> {
    tx.execute(
        "DELETE FROM jobs_cursors WHERE id IN (SELECT id FROM jobs_cursors
         WHERE saved_at <= ?1
           AND NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.id = jobs_cursors.id)
           AND NOT EXISTS (SELECT 1 FROM jobs_later WHERE jobs_later.id = jobs_cursors.id)
           AND NOT EXISTS (SELECT 1 FROM jobs_dead WHERE jobs_dead.id = jobs_cursors.id)
         ORDER BY saved_at LIMIT ?2)",
        params![now.plus_ms(-KEPT_MS), PRUNED_MAX],
    )
}
