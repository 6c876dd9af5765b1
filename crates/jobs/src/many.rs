//! Steering many jobs by hand: those that a search finds, a thousand in a transaction.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use weir_base::Id;
use weir_db::{Class, Dialect, Tx, ids, params, texts};

use crate::directory::QueueState;
use crate::mend::Gone;
use crate::search::LOOK;
use crate::{Entry, Error, Jobs, Search, Set};

/// Passes over the ready, in the database and in Redis, until one finds nothing more.
const PASSES_MAX: usize = 5;

/// What is done to jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// They are ready now; the dead begin anew. The ready are so already.
    Retry,
    /// They are removed.
    Delete,
    /// They go to the dead set, which keeps the newest 10,000.
    Kill,
}

/// How far an action on many jobs is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Swept {
    /// Jobs looked at.
    pub looked: u64,
    /// Of about so many.
    pub of: u64,
    /// Jobs changed.
    pub changed: u64,
}

impl Jobs {
    /// Does `action` to every job that `search` finds, and tells `told` after every thousand how
    /// far it is. Jobs that run as tasks are left alone; where nodes share a PostgreSQL, so are
    /// tasks in other nodes' lanes unless their queue is paused, since nobody here knows which run.
    /// What comes to the set meanwhile may be left out: no more are looked at than there were at
    /// the start.
    ///
    /// # Errors
    /// [`Error::Db`], [`Error::Redis`]; what was changed before stays changed.
    pub async fn sweep(
        &self,
        search: &Search,
        action: Action,
        mut told: impl FnMut(Swept) + Send,
    ) -> Result<Swept, Error> {
        let stats = self.stats().await?;
        let of = match search.set {
            Set::Ready => {
                let known: u64 = stats.queues.iter().map(|queue| queue.depth).sum();
                match self.inner.db.dialect() {
                    Dialect::Sqlite => known,
                    // Beyond a bound the depths are of this node's lanes alone.
                    Dialect::Postgres => known.max(self.ready_everywhere().await?),
                }
            }
            Set::Scheduled => stats.scheduled + self.uncounted(search.set).await?,
            Set::Retries => stats.retries + self.uncounted(search.set).await?,
            Set::Dead => stats.dead,
        };
        let mut swept = Swept { of, ..Swept::default() };
        let Some(redis) = self.inner.redis.get() else {
            self.sweep_here(search, action, &mut swept, &mut told).await?;
            return Ok(swept);
        };
        for _ in 0..PASSES_MAX {
            let before = swept.changed;
            self.sweep_here(search, action, &mut swept, &mut told).await?;
            // After the database: what the relay hands over meanwhile is found here.
            self.sweep_redis(redis, search, action, &mut swept, &mut told).await?;
            // What was in its hands is found at the next pass.
            let is_over = search.set != Set::Ready || action == Action::Retry;
            if is_over || swept.changed == before {
                break;
            }
        }
        Ok(swept)
    }

    /// Makes all jobs of `set` ready now, and tells how many, as [`sweep`](Self::sweep) does: what
    /// fails again meanwhile is not tried for ever.
    ///
    /// # Errors
    /// As [`sweep`](Self::sweep).
    pub async fn retry_all(&self, set: Set) -> Result<u64, Error> {
        let swept = self.sweep(&Search::all(set), Action::Retry, |_| ()).await?;
        Ok(swept.changed)
    }

    /// The part of [`sweep`](Self::sweep) in the database.
    async fn sweep_here(
        &self,
        search: &Search,
        action: Action,
        swept: &mut Swept,
        told: &mut (impl FnMut(Swept) + Send),
    ) -> Result<(), Error> {
        let (begun, mut after) = (swept.looked, None);
        while swept.looked - begun < swept.of {
            let left = usize::try_from(swept.of - (swept.looked - begun)).unwrap_or(LOOK);
            let look = self.look_here(search, after, left.min(LOOK)).await?;
            swept.looked += look.looked;
            swept.changed += self.change(action, look.found).await?;
            told(*swept);
            after = look.last;
            if after.is_none() {
                break;
            }
        }
        Ok(())
    }

    /// Moves a job that does not run as a task to the dead set; false when there is none, it is
    /// there already, or another node may run it (see [`sweep`](Self::sweep)).
    ///
    /// # Errors
    /// [`Error::Db`], [`Error::Redis`].
    pub async fn kill(&self, id: Id) -> Result<bool, Error> {
        if let Some(entry) = self.show_here(id).await?
            && self.change(Action::Kill, vec![entry]).await? > 0
        {
            return Ok(true);
        }
        let Some(redis) = self.inner.redis.get() else { return Ok(false) };
        let there = redis.find(id).await?.into_iter().collect();
        Ok(self.change_in_redis(redis, Action::Kill, there).await? > 0)
    }

    /// Moves the waiting jobs of `from` to queue `to`, in whose turns they wait from then on, and
    /// tells how many. Both queues must be served, and hold tasks both or units both.
    ///
    /// Where nodes share a PostgreSQL, tasks in other nodes' lanes move only while `from` is
    /// paused, since nobody here knows which of them run: one that still does runs again in `to`.
    ///
    /// # Errors
    /// [`Error::NoQueue`], [`Error::QueuesDiffer`], [`Error::Db`].
    pub async fn move_queue(
        &self,
        from: &str,
        to: &str,
        mut told: impl FnMut(Swept) + Send,
    ) -> Result<Swept, Error> {
        let queue = |name: &str| {
            let found = self.inner.directory.find(name);
            found.ok_or_else(|| Error::NoQueue(name.to_owned()))
        };
        let (old, new) = (queue(from)?, queue(to)?);
        let is_unit = |state: &QueueState| state.is_unit.load(Ordering::Relaxed);
        if self.inner.redis.get().is_some() || is_unit(&old) != is_unit(&new) || from == to {
            return Err(Error::QueuesDiffer { from: from.to_owned(), to: to.to_owned() });
        }
        let of = old.turns.lock().depth();
        let search = Search { queue: Some(from.to_owned()), ..Search::all(Set::Ready) };
        let (mut swept, mut after) = (Swept { of, ..Swept::default() }, None);
        loop {
            let look = self.look_here(&search, after, LOOK).await?;
            swept.looked += look.looked;
            let (jobs, old, name) = (self.clone(), old.clone(), to.to_owned());
            let write = move |tx: &mut Tx| jobs.move_some(tx, &look.found, &old, &name);
            swept.changed += self.inner.db.write(Class::Housekeeping, write).await?;
            told(swept);
            after = look.last;
            if after.is_none() {
                return Ok(swept);
            }
        }
    }

    async fn change(&self, action: Action, found: Vec<Entry>) -> Result<u64, Error> {
        if found.is_empty() || (action == Action::Kill && found[0].set == Set::Dead) {
            return Ok(0);
        }
        let jobs = self.clone();
        let write = move |tx: &mut Tx| jobs.change_rows(tx, action, &found);
        Ok(self.inner.db.write::<_, weir_db::Error, _>(Class::Housekeeping, write).await?)
    }

    fn change_rows(
        &self,
        tx: &mut Tx,
        action: Action,
        found: &[Entry],
    ) -> Result<u64, weir_db::Error> {
        let Some(set) = found.first().map(|entry| entry.set) else { return Ok(0) };
        let list: Vec<Id> = found.iter().map(|entry| entry.id).collect();
        match (action, set) {
            (Action::Retry, Set::Ready) => Ok(0),
            (Action::Retry, Set::Dead) => {
                let raised = self.raise(tx, &list)?;
                self.due_now(tx);
                Ok(raised)
            }
            (Action::Retry, _) => {
                let now = self.inner.clock.now();
                let sql = "UPDATE jobs_later SET due_at = ?1 WHERE id IN ids(?2) AND due_at > ?1";
                let moved = tx.execute(sql, params![now, ids(&list)])?;
                self.due_now(tx);
                Ok(moved)
            }
            (Action::Delete, Set::Dead) => {
                let sql = "DELETE FROM jobs_dead WHERE id IN ids(?1)";
                let gone = tx.execute(sql, params![ids(&list)])?;
                let inner = self.inner.clone();
                tx.after_commit(move || inner.later.buried(gone));
                Ok(gone)
            }
            (Action::Kill, Set::Dead) => Ok(0),
            (Action::Delete | Action::Kill, _) => {
                let gone = self.take_away(tx, set, found)?;
                if action == Action::Kill {
                    self.bury(tx, found, &gone)?;
                }
                Ok(gone.len() as u64)
            }
        }
    }

    /// Those of `found` that wait, as far as is known here: a task that runs is left alone, and one
    /// that another node may run, unless it takes none of that queue.
    fn waiting(&self, found: &[Entry]) -> Vec<Id> {
        let waits = |entry: &&Entry| {
            let state = self.inner.directory.queue(&entry.queue);
            let is_taken = |state: &QueueState| {
                !state.paused.load(Ordering::Relaxed)
                    && self.inner.may_run_elsewhere(state, &entry.lane)
            };
            state.is_unit.load(Ordering::Relaxed)
                || (self.inner.waits(&state, &entry.lane, entry.id) && !is_taken(&state))
        };
        found.iter().filter(waits).map(|entry| entry.id).collect()
    }

    /// Removes those of `found` that wait, and tells which were there, in order of id, each with
    /// its batch, and with its key if that lasted until the job's end.
    fn take_away(
        &self,
        tx: &mut Tx,
        set: Set,
        found: &[Entry],
    ) -> Result<Vec<(Id, Gone)>, weir_db::Error> {
        let (sql, list) = if set == Set::Ready {
            let sql = "DELETE FROM jobs WHERE id IN ids(?1) RETURNING id, unique_key, batch_id";
            (sql, self.waiting(found))
        } else {
            let sql = "DELETE FROM jobs_later WHERE id IN ids(?1)
               RETURNING id, unique_key, CASE WHEN state = 2 THEN NULL ELSE batch_id END";
            (sql, found.iter().map(|entry| entry.id).collect())
        };
        let removed: Vec<(Id, Gone)> = tx.query(sql, params![ids(&list)], |row| {
            Ok((row.get(0)?, Gone { key: row.get(1)?, batch: row.get(2)? }))
        })?;
        let keys: Vec<&str> = removed.iter().filter_map(|(_, gone)| gone.key.as_deref()).collect();
        let mut lasting: Vec<String> = Vec::new();
        if !keys.is_empty() {
            let sql = "SELECT unique_key FROM jobs_unique
               WHERE unique_key IN texts(?1) AND until_at IS NULL ORDER BY unique_key";
            lasting = tx.column(sql, &[texts(keys)])?;
        }
        let mut gone = Vec::with_capacity(removed.len());
        for (id, left) in removed {
            let key = left.key.clone().filter(|key| lasting.binary_search(key).is_ok());
            gone.push((id, Gone { key, ..left }));
            self.taken_back(tx, left, id)?;
        }
        gone.sort_unstable_by_key(|(id, _)| *id);
        if set == Set::Ready {
            self.forget(tx, found, gone.iter().map(|(id, _)| *id).collect());
        }
        Ok(gone)
    }

    /// Once this commits, those of `found` that are `gone` do not wait any more.
    fn forget(&self, tx: &mut Tx, found: &[Entry], gone: Vec<Id>) {
        let inner = self.inner.clone();
        let all: Vec<(String, String, Id)> = found
            .iter()
            .filter(|entry| gone.binary_search(&entry.id).is_ok())
            .map(|entry| (entry.queue.clone(), entry.lane.clone(), entry.id))
            .collect();
        tx.after_commit(move || {
            for (queue, lane, id) in &all {
                inner.directory.queue(queue).removed(lane, id.0);
            }
        });
    }

    /// Writes those of `found` that are `gone` into the dead set.
    fn bury(
        &self,
        tx: &mut Tx,
        found: &[Entry],
        gone: &[(Id, Gone)],
    ) -> Result<(), weir_db::Error> {
        let now = self.inner.clock.now();
        for entry in found {
            let Ok(at) = gone.binary_search_by_key(&entry.id, |(id, _)| *id) else { continue };
            tx.run(
                "INSERT INTO jobs_dead (id, died_at, queue, lane, kind, failures, enqueued_at,
                   payload, reason, batch_id, unique_key)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
                params![
                    entry.id,
                    now,
                    entry.queue,
                    entry.lane,
                    entry.kind,
                    entry.failures,
                    entry.enqueued_at,
                    entry.payload,
                    entry.reason.as_deref().unwrap_or("killed by hand"),
                    gone[at].1.batch,
                    gone[at].1.key
                ],
            )?;
        }
        let (inner, died) = (self.inner.clone(), i64::try_from(gone.len()).unwrap_or(0));
        tx.after_commit(move || inner.later.died(died));
        Ok(())
    }

    fn move_some(
        &self,
        tx: &mut Tx,
        found: &[Entry],
        from: &Arc<QueueState>,
        to: &str,
    ) -> Result<u64, weir_db::Error> {
        let is_unit = from.is_unit.load(Ordering::Relaxed);
        let paused = from.paused.load(Ordering::Relaxed);
        let may = |entry: &&Entry| is_unit || paused || !self.inner.is_elsewhere(from, &entry.lane);
        let found: Vec<Entry> = found.iter().filter(may).cloned().collect();
        let list = self.waiting(&found);
        let sql = match tx.dialect() {
            Dialect::Sqlite => "UPDATE jobs SET queue = ?1 WHERE id IN ids(?2) RETURNING id",
            // As a new row it is news to the node that it belongs to now.
            Dialect::Postgres => {
                "UPDATE jobs SET queue = ?1, xid = DEFAULT WHERE id IN ids(?2) RETURNING id"
            }
        };
        let mut moved: Vec<Id> = tx.column(sql, params![to, ids(&list)])?;
        moved.sort_unstable();
        let (inner, from, to) = (self.inner.clone(), from.clone(), to.to_owned());
        let mut rows: Vec<(String, String, Id)> = found
            .into_iter()
            .filter(|entry| moved.binary_search(&entry.id).is_ok())
            .map(|entry| (to.clone(), entry.lane, entry.id))
            .collect();
        rows.sort_unstable();
        tx.after_commit(move || {
            // What was taken meanwhile ends where it was taken.
            rows.retain(|(_, lane, id)| from.removed(lane, id.0));
            inner.added(&rows, None);
        });
        Ok(moved.len() as u64)
    }
}
