//! Steering by hand: cancelling, retrying, deleting, pausing.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use weir_base::Id;
use weir_db::{Class, Tx, Value, params, texts};

use crate::batches::{self, Change};
use crate::inspect::find_ready;
use crate::jobs::lane_name;
use crate::{Action, Error, Jobs, Queue, Unique, rows, unique};

/// How long the other nodes are asked to cut off a task, in ms: they look every 50 ms.
const CANCELS_KEPT_MS: i64 = 60_000;

/// What a job that was removed leaves to be done.
pub(crate) struct Gone {
    pub(crate) key: Option<String>,
    pub(crate) batch: Option<Id>,
}

impl Jobs {
    /// Takes back a waiting job, in the caller's transaction; false when it is not waiting (done,
    /// started as a task, dead, enqueued in this same transaction, or never was). A unit is not
    /// run when this commits first. A task that is taken while the caller's transaction commits
    /// may still run.
    ///
    /// # Errors
    /// What the database says.
    pub fn cancel(&self, tx: &mut Tx, id: Id) -> Result<bool, weir_db::Error> {
        let later: Option<Gone> = tx.query_opt(
            "DELETE FROM jobs_later WHERE id = ?1
             RETURNING unique_key, CASE WHEN state = 2 THEN NULL ELSE batch_id END",
            params![id],
            |row| Ok(Gone { key: row.get(0)?, batch: row.get(1)? }),
        )?;
        if let Some(gone) = later {
            self.taken_back(tx, gone, id)?;
            return Ok(true);
        }
        let Some(entry) = find_ready(tx, id)? else { return Ok(false) };
        let state = self.inner.directory.queue(&entry.queue);
        let is_unit = state.is_unit.load(Ordering::Relaxed);
        if !is_unit && !self.inner.waits(&state, &entry.lane, id) {
            return Ok(false);
        }
        let ready: Option<Gone> = tx.query_opt(
            "DELETE FROM jobs WHERE id = ?1 RETURNING unique_key, batch_id",
            params![id],
            |row| Ok(Gone { key: row.get(0)?, batch: row.get(1)? }),
        )?;
        let Some(gone) = ready else { return Ok(false) };
        self.taken_back(tx, gone, id)?;
        if !is_unit && self.inner.is_elsewhere(&state, &entry.lane) {
            self.ask_to_cancel(tx, id)?;
        }
        tx.after_commit(move || {
            state.removed(&entry.lane, id.0);
        });
        Ok(true)
    }

    /// Has task `id` cut off on whatever node runs it, when that looks for news.
    fn ask_to_cancel(&self, tx: &mut Tx, id: Id) -> Result<(), weir_db::Error> {
        let now = self.inner.clock.now();
        let sql = "DELETE FROM jobs_cancels WHERE asked_at < ?1";
        tx.run(sql, params![now.plus_ms(-CANCELS_KEPT_MS)])?;
        let sql = "INSERT INTO jobs_cancels (id, asked_at) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
        tx.run(sql, params![id, now])?;
        Ok(())
    }

    /// What follows the removal of a job that waited.
    pub(crate) fn taken_back(&self, tx: &mut Tx, gone: Gone, id: Id) -> Result<(), weir_db::Error> {
        if let Some(key) = gone.key {
            rows::free_keys(tx, [(key.as_str(), id)])?;
        }
        match gone.batch {
            Some(batch) => {
                let failed = Change { failed: 1, ..Change::default() };
                self.inner.change_batches(tx, [(batch, failed)].into())
            }
            None => Ok(()),
        }
    }

    /// Makes a scheduled, retried or dead job ready now; false when there is none. A dead job
    /// begins anew, with all its attempts, and with its key, if it is unique: while another job
    /// has that, it stays dead, and the answer is false.
    ///
    /// # Errors
    /// [`Error::Db`].
    pub async fn retry(&self, id: Id) -> Result<bool, Error> {
        let jobs = self.clone();
        let retry = move |tx: &mut Tx| {
            let now = jobs.inner.clock.now();
            let moved = tx.execute(
                // Not what a batch calls back: its time is when the batch ends.
                "UPDATE jobs_later SET due_at = ?1 WHERE id = ?2 AND due_at > ?1 AND state < 2",
                params![now, id],
            )?;
            let raised = jobs.raise(tx, &[id])?;
            jobs.due_now(tx);
            Ok::<_, weir_db::Error>(moved + raised > 0)
        };
        let found = self.inner.db.write::<_, weir_db::Error, _>(Class::Interactive, retry).await?;
        match self.inner.redis.get() {
            Some(redis) if !found => {
                let there = redis.find(id).await?.into_iter().collect();
                Ok(self.change_in_redis(redis, Action::Retry, there).await? > 0)
            }
            _ => Ok(found),
        }
    }

    /// Makes ready at once what was put off ([`Outcome::postpone`](crate::Outcome::postpone)) in
    /// `lane` of `queue`, when the transaction commits, and tells how many those are: what they
    /// waited for is there. With the jobs on Redis they wait for their time.
    ///
    /// # Errors
    /// The database's.
    pub fn hasten(&self, tx: &mut Tx, queue: Queue, lane: &str) -> Result<u64, weir_db::Error> {
        let now = self.inner.clock.now();
        let moved = tx.execute(
            "UPDATE jobs_later SET due_at = ?1
             WHERE state = 0 AND reason IS NOT NULL AND queue = ?2 AND lane = ?3 AND due_at > ?1",
            params![now, queue.name, lane_name(lane)],
        )?;
        if moved > 0 {
            self.due_now(tx);
        }
        Ok(moved)
    }

    /// The same of these jobs of `queue` alone, whatever else was put off in their lanes; and of
    /// those among them that failed and wait for their next try.
    ///
    /// # Errors
    /// The database's.
    pub fn hasten_each(
        &self,
        tx: &mut Tx,
        queue: Queue,
        list: &[Id],
    ) -> Result<u64, weir_db::Error> {
        if !self.can_hasten() {
            return Ok(0);
        }
        let now = self.inner.clock.now().as_ms();
        let each =
            |id: &Id| [Value::Int(now), Value::Int(id.0), Value::Text(Cow::Borrowed(queue.name))];
        // By the ids, and not through all that is scheduled, as the rows' key begins: so the `+`.
        let moved = tx.execute_all(
            "UPDATE jobs_later SET due_at = ?1
             WHERE id = ?2 AND queue = ?3 AND +state < 2 AND reason IS NOT NULL AND due_at > ?1",
            list.iter().map(each),
        )?;
        if moved > 0 {
            self.due_now(tx);
        }
        Ok(moved)
    }

    /// Whether what was put off can be called back at all. With the jobs on Redis it waits for its
    /// time, so it is to be put off for no longer than it may wait.
    pub fn can_hasten(&self) -> bool {
        self.inner.redis.get().is_none()
    }

    /// Takes back those jobs of `keys` ([`enqueue_unique`](Self::enqueue_unique)) that wait in the
    /// schedule, put off or planned, in the caller's transaction, and tells how many those are.
    /// What is ready or runs already stays. With the jobs on Redis none is known.
    ///
    /// # Errors
    /// The database's.
    pub fn take_back(&self, tx: &mut Tx, keys: &[String]) -> Result<usize, weir_db::Error> {
        // By the ids, and not through all that is scheduled, as the rows' key begins: so the `+`.
        let gone: Vec<(Id, Gone)> = tx.query(
            "DELETE FROM jobs_later
             WHERE +state = 0 AND id IN (SELECT id FROM jobs_unique WHERE unique_key IN texts(?1))
             RETURNING id, unique_key, batch_id",
            &[texts(keys)],
            |row| Ok((row.get(0)?, Gone { key: row.get(1)?, batch: row.get(2)? })),
        )?;
        let count = gone.len();
        let keys = gone.iter().filter_map(|(id, gone)| Some((gone.key.as_deref()?, *id)));
        rows::free_keys(tx, keys)?;
        for (id, gone) in gone.into_iter().filter(|(_, gone)| gone.batch.is_some()) {
            self.taken_back(tx, Gone { key: None, ..gone }, id)?;
        }
        Ok(count)
    }

    /// How many jobs of `queue` were worked and wait to be so again, put off or after a failure, by
    /// lane. With the jobs on Redis none is known.
    ///
    /// # Errors
    /// The database's.
    pub fn waiting_again(
        &self,
        tx: &mut Tx,
        queue: Queue,
    ) -> Result<Vec<(String, u64)>, weir_db::Error> {
        tx.query(
            "SELECT lane, COUNT(*) FROM jobs_later
             WHERE queue = ?1 AND state IN (0, 1) AND reason IS NOT NULL GROUP BY state, lane",
            params![queue.name],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
    }

    /// Moves dead jobs to where they are due at once, but for those whose keys others have, and
    /// tells how many.
    pub(crate) fn raise(&self, tx: &mut Tx, list: &[Id]) -> Result<u64, weir_db::Error> {
        let kept_away = self.kept_away(tx, list)?;
        let list: Vec<Id> = list.iter().filter(|id| !kept_away.contains(id)).copied().collect();
        let list = &list;
        let batches = batches::raised(tx, list)?;
        self.inner.change_batches(tx, batches)?;
        let raised = tx.execute(
            "INSERT INTO jobs_later (due_at, id, state, queue, lane, kind, failures, enqueued_at,
               payload, reason, batch_id, unique_key)
             SELECT CAST(?1 AS BIGINT), id, 1, queue, lane, kind, 0, enqueued_at, payload, reason,
               batch_id, unique_key
             FROM jobs_dead WHERE id IN ids(?2)",
            params![self.inner.clock.now(), weir_db::ids(list)],
        )?;
        if raised > 0 {
            tx.run("DELETE FROM jobs_dead WHERE id IN ids(?1)", params![weir_db::ids(list)])?;
            let inner = self.inner.clone();
            tx.after_commit(move || inner.later.buried(raised));
        }
        Ok(raised)
    }

    /// Takes the keys of dead jobs, and tells for which of them others have it.
    fn kept_away(&self, tx: &mut Tx, list: &[Id]) -> Result<BTreeSet<Id>, weir_db::Error> {
        // In one order, so that no two units wait for each other.
        let keyed: Vec<(String, Id)> = tx.query(
            "SELECT unique_key, id FROM jobs_dead
             WHERE id IN ids(?1) AND unique_key IS NOT NULL ORDER BY unique_key, id",
            params![weir_db::ids(list)],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )?;
        if keyed.is_empty() {
            return Ok(BTreeSet::new());
        }
        let keys = keyed.iter().map(|(key, id)| (key.as_str(), *id));
        let taken = unique::take_each(tx, Unique::UntilDone, keys, self.inner.clock.now())?;
        Ok(keyed.into_iter().map(|(_, id)| id).filter(|id| !taken.contains(id)).collect())
    }

    pub(crate) fn due_now(&self, tx: &mut Tx) {
        let (inner, now) = (self.inner.clone(), self.inner.clock.now());
        tx.after_commit(move || inner.later.due(now));
    }

    /// Removes a job that does not run as a task, wherever it is; false when there is none.
    ///
    /// # Errors
    /// [`Error::Db`].
    pub async fn delete(&self, id: Id) -> Result<bool, Error> {
        let jobs = self.clone();
        let delete = move |tx: &mut Tx| {
            if jobs.cancel(tx, id)? {
                return Ok(true);
            }
            let gone = tx.execute("DELETE FROM jobs_dead WHERE id = ?1", params![id])?;
            let inner = jobs.inner.clone();
            tx.after_commit(move || inner.later.buried(gone));
            Ok::<_, weir_db::Error>(gone > 0)
        };
        let gone = self.inner.db.write::<_, weir_db::Error, _>(Class::Interactive, delete).await?;
        match self.inner.redis.get() {
            Some(redis) if !gone => {
                let there = redis.find(id).await?.into_iter().collect();
                Ok(self.change_in_redis(redis, Action::Delete, there).await? > 0)
            }
            _ => Ok(gone),
        }
    }

    /// Makes queues known that hold nothing, where no workers declare them: they can be paused,
    /// limited and looked at before their workers start.
    pub fn know_queues(&self, names: &[&str]) {
        for name in names {
            self.inner.directory.queue(name);
        }
    }

    /// Stops taking from `queue` until it is resumed, also over restarts. What runs goes on.
    ///
    /// # Errors
    /// [`Error::NoQueue`], [`Error::Db`].
    pub async fn pause(&self, queue: &str) -> Result<(), Error> {
        self.set_paused(queue, true).await
    }

    /// Takes from `queue` again.
    ///
    /// # Errors
    /// [`Error::NoQueue`], [`Error::Db`].
    pub async fn resume(&self, queue: &str) -> Result<(), Error> {
        self.set_paused(queue, false).await
    }

    async fn set_paused(&self, queue: &str, paused: bool) -> Result<(), Error> {
        if let Some(redis) = self.inner.redis.get() {
            let declared = self.inner.directory.find(queue).is_some();
            if !declared && !redis.has_queue(queue).await? {
                return Err(Error::NoQueue(queue.into()));
            }
            return Ok(redis.set_paused(queue, paused).await?);
        }
        let state = self.inner.directory.find(queue);
        let state = state.ok_or_else(|| Error::NoQueue(queue.into()))?;
        let inner = self.inner.clone();
        let set = move |tx: &mut Tx| {
            tx.run(
                "INSERT INTO jobs_queues (queue, paused) VALUES (?1, ?2)
                 ON CONFLICT (queue) DO UPDATE SET paused = excluded.paused",
                params![*state.name, paused],
            )?;
            let (state, inner) = (state.clone(), inner.clone());
            tx.after_commit(move || {
                inner.news.pauses.fetch_add(1, Ordering::AcqRel);
                state.paused.store(paused, Ordering::Relaxed);
                state.wake.notify_one();
            });
            Ok::<_, weir_db::Error>(())
        };
        Ok(self.inner.db.write(Class::Interactive, set).await?)
    }

    /// Stops taking from all queues until the process ends. What runs goes on, and so do other
    /// processes: to stop a queue everywhere, [`pause`](Self::pause) it.
    pub fn quiet(&self) {
        tracing::info!("quiet: no more jobs are taken until the next start");
        self.inner.quiet.store(true, Ordering::Relaxed);
    }

    /// Looks at the clock at once: for a clock that is moved by hand, which no timer follows.
    pub fn wake(&self) {
        self.inner.later.wake.notify_one();
        self.inner.directory.all().iter().for_each(|queue| queue.wake.notify_one());
    }
}
