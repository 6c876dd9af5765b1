//! The one thread that writes to SQLite: groups of units in one commit.
//!
//! A savepoint costs two statements and a copy of every page that is changed in it, which is more
//! than a small unit itself. So units run without, until one fails after it has changed something:
//! then the group is rolled back and runs again, each unit in a savepoint of its own, and so do the
//! next groups, since what fails once often fails again.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;

use crate::hooks::Hook;
use crate::log::Log;
use crate::meters::Meters;
use crate::queue::{Done, Turn};
use crate::sqlite::{Queue, begin};
use crate::synced::{Committed, Disk, Progress, lost};
use crate::tx::Connection;
use crate::unit::{Kind, Work};
use crate::{Error, Tx, frames};

/// Units in one group, so that memory held for answers stays bounded.
const GROUP_UNITS_MAX: usize = 1_000;
/// Groups that have savepoints after one that lacked them: at most so much work in a hundred is
/// done twice.
const CAREFUL_GROUPS: u32 = 64;
/// Those who are answered together often come back together: after a group of so many …
const CROWD_MIN: usize = 8;
/// … the next is held open for them, for at most so long: less than it takes to commit the rest of
/// them apart. They come within some dozens of microseconds, or not soon.
const CROWD_WAIT: Duration = Duration::from_micros(100);

pub(crate) struct Writer {
    connection: rusqlite::Connection,
    queue: Queue,
    log: Arc<Log>,
    group_time_max: Duration,
    /// Where groups go when they are committed.
    committed: SyncSender<Committed>,
    progress: Arc<Progress>,
    disk: Arc<Disk>,
    disk_failed: Arc<AtomicBool>,
    meters: Meters,
    group_units: metrics::Histogram,
    commit_seconds: metrics::Histogram,
    retried: metrics::Counter,
    /// So many of the next groups have savepoints.
    careful: Cell<u32>,
    /// Units of the last group, if they were answered just now and nothing else was under way.
    answered: Cell<usize>,
}

impl Writer {
    pub(crate) fn new(
        connection: rusqlite::Connection,
        queue: Queue,
        log: Arc<Log>,
        group_time_max: Duration,
        committed: SyncSender<Committed>,
        progress: Arc<Progress>,
        disk: Arc<Disk>,
        disk_failed: Arc<AtomicBool>,
    ) -> Self {
        Self {
            connection,
            queue,
            log,
            group_time_max,
            committed,
            progress,
            disk,
            disk_failed,
            meters: Meters::new("write"),
            group_units: metrics::histogram!("weir_db_group_units"),
            commit_seconds: metrics::histogram!("weir_db_commit_seconds"),
            retried: metrics::counter!("weir_db_groups_repeated_total"),
            careful: Cell::new(0),
            answered: Cell::new(0),
        }
    }

    pub(crate) fn run(&mut self) {
        let mut done = None;
        while let Some((turn, work)) = self.queue.pop(done.take()) {
            self.log.before_group(&mut self.connection);
            done = self.group(turn, work);
            self.log.after_group(&mut self.connection, &self.queue);
            if self.answered.get() >= CROWD_MIN {
                self.queue.comes_until(Instant::now() + CROWD_WAIT);
            }
        }
        // The last connection would copy the log and remove it, though the disk may have lost what
        // was copied before.
        let keeps_log = DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
        if self.disk_failed.load(Ordering::Acquire)
            && let Err(error) = self.connection.set_db_config(keeps_log, true)
        {
            tracing::error!(%error, "the log of a failed disk may be removed");
        }
    }

    /// Hands a group on that was committed, or follows it up where nothing else is to be done. Who
    /// does not wait for the disk is answered, and may come back soon.
    fn hand_on(&self, units: Vec<Box<dyn Work>>, hooks: Vec<Hook>) {
        let (early, units): (Vec<_>, Vec<_>) =
            units.into_iter().partition(|work| work.kind() == Kind::WriteEarly);
        let comes_back = !early.is_empty();
        early.into_iter().for_each(|work| work.answer());
        let group = Committed { units, hooks };
        if !comes_back && self.queue.len() == 0 && self.progress.is_last() {
            self.answered.set(group.units.len());
            return self.disk.follow(vec![group]);
        }
        if let Err(rest) = self.committed.send(group) {
            rest.0.units.into_iter().for_each(|work| work.fail(lost()));
            self.progress.fail();
        }
    }

    /// Runs units in one transaction until the group is due, commits, and hands it on. Gives back
    /// the last turn if the queue was not told yet.
    fn group(&self, mut turn: Turn, mut work: Box<dyn Work>) -> Option<Done> {
        let started = Instant::now();
        if self.disk_failed.load(Ordering::Acquire) {
            work.fail(lost());
            return Some((turn, started.elapsed()));
        }
        if let Err(failure) = begin(&self.connection, "BEGIN IMMEDIATE") {
            work.fail(failure.error);
            return Some((turn, started.elapsed()));
        }
        let mut units: Vec<Box<dyn Work>> = Vec::new();
        let mut hooks: Vec<Hook> = Vec::new();
        let mut most_urgent = turn.class;
        let mut before = started;
        let crowd = Some(self.answered.take()).filter(|units| *units >= CROWD_MIN);
        let mut crowd_comes_until = None;
        let mut is_careful = self.careful.get() > 0;
        self.careful.set(self.careful.get().saturating_sub(1));
        let untold = loop {
            if units.is_empty() {
                self.first(&mut *work, &mut hooks);
                units.push(work);
            } else if is_careful {
                self.unit(&mut *work, &mut hooks);
                units.push(work);
            } else {
                let is_whole = self.bare(&mut *work, &mut hooks);
                units.push(work);
                if !is_whole {
                    is_careful = true;
                    self.again(&mut units, &mut hooks);
                }
            }
            let now = Instant::now();
            let done = (turn, now - before);
            self.meters.unit(turn.class, done.1, units.len());
            before = now;
            let full = now - started >= self.group_time_max || units.len() >= GROUP_UNITS_MAX;
            // A full disk or a failing one makes SQLite roll back the whole transaction by itself.
            if full || self.connection.is_autocommit() {
                break Some(done);
            }
            most_urgent = most_urgent.min(turn.class);
            let mut next = self.queue.pop_into_group(Some(done), most_urgent);
            if next.is_none() && crowd.is_some_and(|crowd| units.len() < crowd) {
                let until = *crowd_comes_until.get_or_insert(now + CROWD_WAIT);
                if self.queue.comes_until(until) {
                    next = self.queue.pop_into_group(None, most_urgent);
                }
            }
            let Some(next) = next else { break None };
            (turn, work) = next;
        };
        self.group_units.record(units.len() as f64);
        match self.commit() {
            Ok(()) => self.hand_on(units, hooks),
            Err(error) => {
                self.retried.increment(1);
                tracing::warn!(%error, units = units.len(), "a commit failed; its units run alone");
                drop(hooks);
                units.into_iter().for_each(|work| self.alone(work));
            }
        }
        untold
    }

    /// Runs the first unit of the open transaction, which needs no savepoint: there is nothing else
    /// to be kept. A savepoint copies every page that is changed in it, and a large unit closes its
    /// group anyway.
    fn first(&self, work: &mut dyn Work, hooks: &mut Vec<Hook>) {
        let mut tx = Tx::new(Connection::Sqlite(&self.connection));
        if work.run(&mut tx) {
            hooks.append(&mut tx.hooks);
            return;
        }
        drop(tx);
        let again = if self.connection.is_autocommit() {
            Ok(())
        } else {
            begin(&self.connection, "ROLLBACK")
        };
        if let Err(failure) = again.and_then(|()| begin(&self.connection, "BEGIN IMMEDIATE")) {
            tracing::error!(error = %failure.error, "a transaction could not be begun again");
            work.spoil(failure.error);
        }
    }

    /// Runs one unit in the open transaction. False when it failed and left changes behind, which
    /// cannot be told from those of the units before it.
    fn bare(&self, work: &mut dyn Work, hooks: &mut Vec<Hook>) -> bool {
        let before = self.connection.total_changes();
        let mut tx = Tx::new(Connection::Sqlite(&self.connection));
        if work.run(&mut tx) {
            hooks.append(&mut tx.hooks);
            return true;
        }
        // What SQLite rolled back by itself is seen by the caller.
        self.connection.is_autocommit()
            || self.connection.total_changes() == before && !tx.changed_schema
    }

    /// Undoes the open transaction and runs `units` once more in a new one, each in a savepoint.
    fn again(&self, units: &mut [Box<dyn Work>], hooks: &mut Vec<Hook>) {
        self.careful.set(CAREFUL_GROUPS);
        hooks.clear();
        let begun = begin(&self.connection, "ROLLBACK")
            .and_then(|()| begin(&self.connection, "BEGIN IMMEDIATE"));
        if let Err(failure) = begun {
            // Without one the commit fails, and each unit runs alone.
            let error = failure.error;
            return tracing::error!(%error, "a transaction could not be begun again");
        }
        for work in units {
            if self.connection.is_autocommit() {
                return;
            }
            self.unit(&mut **work, hooks);
        }
    }

    /// Runs one unit in a savepoint of the open transaction.
    fn unit(&self, work: &mut dyn Work, hooks: &mut Vec<Hook>) {
        if let Err(failure) = begin(&self.connection, "SAVEPOINT unit") {
            return work.spoil(failure.error);
        }
        let mut tx = Tx::new(Connection::Sqlite(&self.connection));
        let kept = work.run(&mut tx);
        let mut own = std::mem::take(&mut tx.hooks);
        drop(tx);
        if self.connection.is_autocommit() {
            return;
        }
        let ended = if kept {
            begin(&self.connection, "RELEASE unit")
        } else {
            begin(&self.connection, "ROLLBACK TO unit")
                .and_then(|()| begin(&self.connection, "RELEASE unit"))
        };
        match ended {
            Ok(()) if kept => hooks.append(&mut own),
            Ok(()) => {}
            Err(failure) => {
                // Whatever stays open is thrown away with the whole transaction.
                tracing::error!(error = %failure.error, "a savepoint could not be ended");
                work.spoil(failure.error);
                let _ = begin(&self.connection, "ROLLBACK");
            }
        }
    }

    /// A unit of a group whose commit failed, in a transaction of its own.
    fn alone(&self, mut work: Box<dyn Work>) {
        if let Err(failure) = begin(&self.connection, "BEGIN IMMEDIATE") {
            return work.fail(failure.error);
        }
        let mut hooks = Vec::new();
        self.unit(&mut *work, &mut hooks);
        if self.connection.is_autocommit() {
            // Its own statement made SQLite roll back, and its result tells of that.
            return work.answer();
        }
        match self.commit() {
            Ok(()) => self.hand_on(vec![work], hooks),
            Err(error) => work.fail(error),
        }
    }

    fn commit(&self) -> Result<(), Error> {
        if self.connection.is_autocommit() {
            return Err(Error::Unavailable("the transaction was rolled back".into()));
        }
        let started = Instant::now();
        self.progress.begin();
        let ended = frames::committing(|| begin(&self.connection, "COMMIT"));
        self.commit_seconds.record(started.elapsed().as_secs_f64());
        ended.map_err(|failure| {
            if !self.connection.is_autocommit() && begin(&self.connection, "ROLLBACK").is_err() {
                tracing::error!("a transaction could not be rolled back");
            }
            self.progress.take_back();
            failure.error
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use tokio::sync::oneshot::error::TryRecvError;

    use super::*;
    use crate::unit::Unit;
    use crate::{Class, Options};

    /// A writer of a new database whose commits nobody brings to the disk.
    fn writer(folder: &std::path::Path) -> (Writer, std::sync::mpsc::Receiver<Committed>) {
        let path = folder.join("weir.db");
        let connection = rusqlite::Connection::open(&path).unwrap();
        let (failed, progress) = (Arc::new(AtomicBool::new(false)), Arc::new(Progress::default()));
        let log = Log::new(&path, false, failed.clone(), Vec::new(), 1).unwrap();
        let disk = Disk::new(&path, false, failed.clone(), progress.clone());
        let (committed, follow) = sync_channel(1);
        let writer = Writer::new(
            connection,
            Arc::new(crate::queue::ClassQueue::new(1, "write")),
            Arc::new(log),
            Options::default().group_time_max,
            committed,
            progress,
            Arc::new(disk),
            failed,
        );
        (writer, follow)
    }

    #[test]
    fn who_does_not_wait_for_the_disk_is_answered_before_it_and_hooks_run_after_it() {
        let folder = tempfile::tempdir().unwrap();
        let (writer, follow) = writer(folder.path());
        let unit = |kind| {
            let body = |tx: &mut Tx| {
                tx.after_commit(|| {});
                tx.run("CREATE TABLE IF NOT EXISTS marks (id BIGINT)", &[])
            };
            Unit::boxed(body, kind)
        };
        let ((early, mut at_once), (usual, mut later)) =
            (unit(Kind::WriteEarly), unit(Kind::Write));
        writer.queue.push(Class::Inbound, early).unwrap();
        writer.queue.push(Class::Inbound, usual).unwrap();
        let (turn, work) = writer.queue.pop(None).unwrap();
        writer.group(turn, work);
        at_once.try_recv().unwrap().unwrap();
        assert!(matches!(later.try_recv(), Err(TryRecvError::Empty)));
        let group = follow.try_recv().unwrap();
        assert_eq!((group.units.len(), group.hooks.len()), (1, 2));
        writer.disk.follow(vec![group]);
        later.try_recv().unwrap().unwrap();
    }
}
