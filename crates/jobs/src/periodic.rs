//! Periodic jobs: started by the one node that leads, listed, paused and run by hand.

use std::sync::Arc;

use weir_base::Timestamp;
use weir_db::{Class, Tx, params};

use crate::jobs::Inner;
use crate::registry::Periodic;
use crate::{Error, Jobs};

/// A periodic job as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeriodicStats {
    /// Its name.
    pub name: String,
    /// The kind of the jobs it makes.
    pub kind: String,
    /// `every 60000 ms`, or the cron expression and its time zone.
    pub plan: String,
    /// When it runs next; none before the workers looked at it for the first time.
    pub next_at: Option<Timestamp>,
    /// When it was enqueued last.
    pub last_at: Option<Timestamp>,
    /// Its runs are left out until it is resumed.
    pub paused: bool,
}

/// What is kept of a periodic job.
struct Kept {
    plan: String,
    next_at: Timestamp,
    last_at: Option<Timestamp>,
    paused: bool,
}

impl Jobs {
    /// The periodic jobs of the registry, in its order.
    ///
    /// # Errors
    /// [`Error::NotWorking`] before [`start`](Self::start), [`Error::Db`].
    pub async fn periodic(&self) -> Result<Vec<PeriodicStats>, Error> {
        let all: Vec<Arc<Periodic>> =
            self.inner.periodic.get().cloned().ok_or(Error::NotWorking)?;
        let list = move |tx: &mut Tx| {
            let one = |periodic: &Arc<Periodic>| {
                let kept = kept(tx, periodic.name)?;
                Ok::<_, weir_db::Error>(PeriodicStats {
                    name: periodic.name.into(),
                    kind: periodic.kind.into(),
                    plan: periodic.plan.to_string(),
                    next_at: kept.as_ref().map(|kept| kept.next_at),
                    last_at: kept.as_ref().and_then(|kept| kept.last_at),
                    paused: kept.is_some_and(|kept| kept.paused),
                })
            };
            all.iter().map(one).collect::<Result<Vec<_>, _>>()
        };
        Ok(self.inner.db.read(Class::Interactive, list).await?)
    }

    /// Enqueues periodic job `name` at once, beside its plan; false when its last run still waits.
    ///
    /// # Errors
    /// [`Error::NoPeriodic`], [`Error::Db`].
    pub async fn run_periodic(&self, name: &str) -> Result<bool, Error> {
        let (jobs, periodic) = (self.clone(), self.find_periodic(name)?);
        let run = move |tx: &mut Tx| {
            let now = jobs.inner.clock.now();
            let key = format!("periodic:{}", periodic.name);
            let made = (periodic.enqueue)(&jobs, tx, &key, now, now)?;
            tx.run(
                "UPDATE jobs_periodic SET last_at = ?1 WHERE name = ?2",
                params![now, periodic.name],
            )?;
            Ok::<_, weir_db::Error>(made)
        };
        Ok(self.inner.db.write(Class::Interactive, run).await?)
    }

    /// Leaves out the runs of periodic job `name` until it is resumed, also over restarts.
    ///
    /// # Errors
    /// [`Error::NoPeriodic`], [`Error::Db`].
    pub async fn pause_periodic(&self, name: &str) -> Result<(), Error> {
        self.set_periodic_paused(name, true).await
    }

    /// Runs periodic job `name` again from its next moment on; what was left out stays so.
    ///
    /// # Errors
    /// [`Error::NoPeriodic`], [`Error::Db`].
    pub async fn resume_periodic(&self, name: &str) -> Result<(), Error> {
        self.set_periodic_paused(name, false).await
    }

    async fn set_periodic_paused(&self, name: &str, paused: bool) -> Result<(), Error> {
        let (inner, periodic) = (self.inner.clone(), self.find_periodic(name)?);
        let set = move |tx: &mut Tx| {
            let now = inner.clock.now();
            // Not yet looked at: it begins as it would have.
            let due = periodic.plan.due(None, periodic.missed, now);
            tx.run(
                "INSERT INTO jobs_periodic (name, plan, next_at, paused) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT (name) DO UPDATE SET paused = excluded.paused",
                params![periodic.name, periodic.plan.to_string(), due.next, paused],
            )?;
            Ok::<_, weir_db::Error>(())
        };
        Ok(self.inner.db.write(Class::Interactive, set).await?)
    }

    fn find_periodic(&self, name: &str) -> Result<Arc<Periodic>, Error> {
        let mut all = self.inner.periodic.get().ok_or(Error::NotWorking)?.iter();
        let found = all.find(|periodic| periodic.name == name).cloned();
        found.ok_or_else(|| Error::NoPeriodic(name.into()))
    }
}

fn kept(tx: &mut Tx, name: &str) -> Result<Option<Kept>, weir_db::Error> {
    tx.query_opt(
        "SELECT plan, next_at, last_at, paused FROM jobs_periodic WHERE name = ?1",
        params![name],
        |row| {
            Ok(Kept {
                plan: row.get(0)?,
                next_at: row.get(1)?,
                last_at: row.get(2)?,
                paused: row.get(3)?,
            })
        },
    )
}

/// Enqueues a periodic job if its time has come, and tells when it comes next; none when another
/// node leads, found out in the transaction that enqueues.
pub(crate) async fn run(
    inner: &Arc<Inner>,
    periodic: Arc<Periodic>,
) -> Result<Option<Timestamp>, weir_db::Error> {
    let jobs = Jobs { inner: inner.clone() };
    let run = move |tx: &mut Tx| {
        let inner = &jobs.inner;
        if !inner.nodes.is_leader(tx)? {
            return Ok(None);
        }
        let (now, name) = (inner.clock.now(), periodic.name);
        let plan = periodic.plan.to_string();
        let found = kept(tx, name)?;
        let kept = found.as_ref();
        // An interval that was changed goes on from its last run; an expression begins anew.
        let counts = |kept: &&Kept| kept.plan == plan || periodic.plan.is_interval();
        let next = kept.filter(counts).map(|kept| kept.next_at);
        let due = periodic.plan.due(next, periodic.missed, now);
        if next == Some(due.next) {
            return Ok(next);
        }
        let runs = if kept.is_some_and(|kept| kept.paused) { &[][..] } else { &due.runs };
        for planned in runs {
            let key = periodic.key(*planned);
            (periodic.enqueue)(&jobs, tx, &key, now, *planned)?;
        }
        let last = if runs.is_empty() { kept.and_then(|kept| kept.last_at) } else { Some(now) };
        tx.run(
            "INSERT INTO jobs_periodic (name, plan, next_at, last_at, paused)
             VALUES (?1, ?2, ?3, ?4, 0) ON CONFLICT (name) DO UPDATE
             SET plan = excluded.plan, next_at = excluded.next_at, last_at = excluded.last_at",
            params![name, plan, due.next, last],
        )?;
        Ok::<_, weir_db::Error>(Some(due.next))
    };
    inner.db.write(Class::Housekeeping, run).await
}
