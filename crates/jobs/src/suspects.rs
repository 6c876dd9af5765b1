//! Jobs that were running when the process died: counted, tried alone, and buried at the fifth.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;
use weir_base::Id;
use weir_db::{Class, Dialect, Tx, ids, params};

use crate::acks::{Acks, Ended};
use crate::dispatch::Worker;
use crate::endings::Terms;
use crate::journal::{Journal, Suspect};
use crate::turns::Pick;
use crate::{Error, Jobs, Outcome};

/// A job that ran at so many deaths of its process, at the last three alone, is poison. A death
/// alone may be another's fault: where a process is killed again and again, by whatever it is, that
/// meets some job.
const DEATHS_MAX: i64 = 5;
/// One that ran at so many is tried alone.
const DEATHS_ALONE: i64 = 2;
/// All of them together are tried for so long before the other jobs start.
const ALONE_MAX: Duration = Duration::from_secs(10);

/// How often is looked whether this node knows its lanes.
const SETTLED_LOOK: Duration = Duration::from_millis(10);

/// A job that is tried before the others.
#[derive(Debug, Clone)]
pub(crate) struct Trial {
    id: Id,
    queue: String,
    lane: String,
    deaths: i64,
    /// At the last death no other ran beside it.
    was_alone: bool,
}

impl Jobs {
    /// Writes down in the file at `path` which jobs run, at the cost of a store to memory each, so
    /// that one that kills its process is found: what ran when the process before died is counted,
    /// what ran at two deaths is tried alone before the others start, and what then kills the
    /// process three times more goes to the dead set. On PostgreSQL that needs
    /// [`set_place`](Self::set_place), so that the next process has the jobs of the one before;
    /// with the jobs on Redis this file is not needed. Blocks the calling thread; to be called
    /// before the workers start. The file belongs to this process alone.
    ///
    /// # Errors
    /// [`Error::Journal`], [`Error::Db`].
    pub fn keep_journal(&self, path: &Path) -> Result<(), Error> {
        let failed = |source| Error::Journal { path: path.display().to_string(), source };
        let (journal, suspects) = Journal::open(path).map_err(failed)?;
        let count = move |tx: &mut Tx| judge(tx, &suspects);
        let trials = self.inner.db.write_blocking(Class::Housekeeping, count)?;
        journal.clear();
        // Called twice, the first journal stays.
        let _ = self.inner.journal.set(Arc::new(journal));
        *self.inner.trials.lock() = trials;
        Ok(())
    }
}

/// Counts what is suspected, forgets what is over, and tells what is to be tried: what ran at the
/// fewest deaths first, so that it is cleared before what may be poison ends the process again.
fn judge(tx: &mut Tx, suspects: &[Suspect]) -> Result<Vec<Trial>, weir_db::Error> {
    tx.run(
        "DELETE FROM jobs_suspects WHERE NOT EXISTS
           (SELECT 1 FROM jobs WHERE jobs.id = jobs_suspects.id)
         AND NOT EXISTS (SELECT 1 FROM jobs_later WHERE jobs_later.id = jobs_suspects.id)",
        &[],
    )?;
    let all: Vec<Id> = suspects.iter().map(|suspect| suspect.id).collect();
    tx.run(
        "INSERT INTO jobs_suspects (id, deaths)
         SELECT id, 1 FROM jobs WHERE id IN ids(?1)
         ON CONFLICT (id) DO UPDATE SET deaths = jobs_suspects.deaths + 1",
        params![ids(&all)],
    )?;
    let found: Vec<(Id, i64, String, String)> = tx.query(
        "SELECT jobs.id, jobs_suspects.deaths, jobs.queue, jobs.lane
         FROM jobs_suspects JOIN jobs ON jobs.id = jobs_suspects.id
         WHERE jobs_suspects.deaths >= ?1 ORDER BY jobs_suspects.deaths, jobs.id",
        params![DEATHS_ALONE],
        |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)),
    )?;
    let trial = |(id, deaths, queue, lane)| {
        let was_alone = suspects.iter().any(|suspect| suspect.id == id && suspect.alone);
        Trial { id, queue, lane, deaths, was_alone }
    };
    Ok(found.into_iter().map(trial).collect())
}

/// Buries poison, and tries each suspect alone: to be awaited before the dispatchers start.
pub(crate) async fn run(workers: &[Arc<Worker>], trials: Vec<Trial>) {
    let due = Instant::now() + ALONE_MAX;
    if !trials.is_empty()
        && let Some(worker) = workers.first()
    {
        worker.until_settled(due).await;
    }
    for trial in trials {
        let Some(worker) = workers.iter().find(|worker| *worker.state.name == *trial.queue) else {
            continue;
        };
        if Instant::now() >= due || worker.stop.is_cancelled() {
            return;
        }
        worker.attempt(&trial, due).await;
    }
}

impl Worker {
    /// On PostgreSQL: waits until the rows of the lanes of this node are known.
    async fn until_settled(&self, due: Instant) {
        while self.inner.db.dialect() == Dialect::Postgres
            && !self.inner.nodes.is_settled()
            && Instant::now() < due
            && !self.stop.is_cancelled()
        {
            tokio::time::sleep(SETTLED_LOOK).await;
        }
    }

    async fn attempt(self: &Arc<Self>, trial: &Trial, due: Instant) {
        let Some(lane) = self.state.turns.lock().take_one(&trial.lane, trial.id.0) else { return };
        let picks = [Pick { lane: lane.clone(), ids: vec![trial.id.0] }];
        let found = match self.read(&picks).await {
            Ok(found) => found,
            Err(error) => {
                tracing::warn!(%error, "a job that may have killed the process cannot be read");
                return self.state.released(&lane, &[trial.id.0]);
            }
        };
        let claims = self.take(&picks, found);
        let (queue, id) = (&self.state.name, trial.id);
        let deaths = trial.deaths;
        if trial.was_alone && deaths >= DEATHS_MAX {
            tracing::error!(%queue, %id, deaths, "the job killed its process again: it is dead");
            metrics::counter!("weir_jobs_poison_total", "queue" => queue.to_string()).increment(1);
            return self.bury(claims, deaths).await;
        }
        tracing::warn!(%queue, %id, "the job ran at two deaths of its process: it is tried alone");
        let journal = self.inner.journal.get();
        let alone = |is: bool| journal.iter().for_each(|it| it.alone.store(is, Ordering::Relaxed));
        alone(true);
        self.start(claims).await;
        while self.state.taken.load(Ordering::Relaxed) > 0 || self.state.places.held() > 0 {
            tokio::select! {
                () = self.state.wake.notified() => {}
                () = tokio::time::sleep_until(due) => break,
                () = self.stop.cancelled() => break,
            }
        }
        alone(false);
    }

    async fn bury(&self, claims: Vec<crate::rows::Claim>, deaths: i64) {
        let count = claims.len();
        // They are of one kind: there is one of them.
        let handler = claims.first().and_then(|claim| self.handlers.get(&*claim.kind));
        let terms = handler.map_or(Terms::UNKNOWN, |handler| handler.terms());
        let reason = format!("its process died {deaths} times while it ran");
        let work: Vec<_> = claims.iter().map(|claim| (claim.lane.clone(), 1, 1)).collect();
        self.state.finished(&work);
        let dead = |claim| Ended { claim, outcome: Outcome::Dead(reason.clone()) };
        let ended = claims.into_iter().map(dead).collect();
        self.acknowledge(Acks::new(self, terms, ended, Duration::ZERO)).await;
        if !self.is_unit() {
            self.state.untaken(count);
        }
    }
}
