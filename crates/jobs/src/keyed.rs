//! Enqueueing jobs by keys of their own, of which each waits once.

use std::collections::BTreeMap;

use weir_base::{Id, Timestamp};
use weir_db::Tx;

use crate::rows::{self, NewRow};
use crate::{Job, Jobs, unique};

impl Jobs {
    /// Enqueues `job` to become ready at `at`, unless a job with the same `key` waits already
    /// (ready, scheduled or for a retry): then nothing is done and there is no id. The key is
    /// free again when a task starts, or inside the transaction of a unit before it runs, so what
    /// happens from then on enqueues anew (or later, if the type's [`Job::UNIQUE`] says so). Jobs
    /// of one key must be interchangeable: one that fails while a newer one waits is dropped in
    /// its favour.
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
        let mut row = self.row(job, Some(at), None)?;
        let key = key.replace('\0', "\u{FFFD}");
        if unique::take(tx, J::UNIQUE, &key, row.id, self.inner.clock.now())?.is_some() {
            return Ok(None);
        }
        let id = row.id;
        row.unique_key = Some(key);
        self.insert_at(tx, at, vec![row])?;
        Ok(Some(id))
    }

    /// The same of several jobs, ready now, each with its key; tells how many were enqueued.
    ///
    /// # Errors
    /// As [`enqueue`](Self::enqueue).
    pub fn enqueue_unique_each<J: Job>(
        &self,
        tx: &mut Tx,
        jobs: &[(String, J)],
    ) -> Result<usize, weir_db::Error> {
        let rows = self.keyed(tx, jobs)?;
        let count = rows.len();
        if count > 0 {
            self.insert(tx, rows)?;
        }
        Ok(count)
    }

    /// The same of jobs that are put off from the beginning, as a job is that runs too early:
    /// they become ready after `after_ms`, or when they are called back
    /// ([`hasten`](Self::hasten)). `reason` is shown meanwhile.
    ///
    /// # Errors
    /// As [`enqueue`](Self::enqueue).
    pub fn put_off_unique_each<J: Job>(
        &self,
        tx: &mut Tx,
        after_ms: i64,
        reason: &str,
        jobs: &[(String, J)],
    ) -> Result<usize, weir_db::Error> {
        let due_at = self.inner.clock.now().plus_ms(after_ms.max(0));
        self.keyed_later(tx, due_at, Some(reason), jobs)
    }

    /// The same of jobs that are planned for `at`: nothing makes them ready before.
    ///
    /// # Errors
    /// As [`enqueue`](Self::enqueue).
    pub fn plan_unique_each<J: Job>(
        &self,
        tx: &mut Tx,
        at: Timestamp,
        jobs: &[(String, J)],
    ) -> Result<usize, weir_db::Error> {
        self.keyed_later(tx, at, None, jobs)
    }

    fn keyed_later<J: Job>(
        &self,
        tx: &mut Tx,
        due_at: Timestamp,
        reason: Option<&str>,
        jobs: &[(String, J)],
    ) -> Result<usize, weir_db::Error> {
        let rows = self.keyed(tx, jobs)?;
        if !rows.is_empty() {
            rows::insert_later(tx, due_at, rows::State::Scheduled, reason, &rows)?;
            let inner = self.inner.clone();
            tx.after_commit(move || inner.later.due(due_at));
        }
        Ok(rows.len())
    }

    /// Rows for those of `jobs` whose keys are free; they are taken.
    fn keyed<J: Job>(
        &self,
        tx: &mut Tx,
        jobs: &[(String, J)],
    ) -> Result<Vec<NewRow>, weir_db::Error> {
        let keyed = jobs.iter().map(|(key, job)| (key.replace('\0', "\u{FFFD}"), job));
        // In one order, so that no two units wait for each other.
        let keyed: BTreeMap<String, &J> = keyed.collect();
        let mut rows = Vec::with_capacity(keyed.len());
        for (key, job) in keyed {
            let mut row = self.row(job, None, None)?;
            row.unique_key = Some(key);
            rows.push(row);
        }
        let keys = rows.iter().filter_map(|row| Some((row.unique_key.as_deref()?, row.id)));
        let taken = unique::take_each(tx, J::UNIQUE, keys, self.inner.clock.now())?;
        rows.retain(|row| taken.contains(&row.id));
        Ok(rows)
    }
}
