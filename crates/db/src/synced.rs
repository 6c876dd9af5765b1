//! What follows a commit on SQLite: the log reaches the disk, hooks run, and units are answered.
//! It happens beside the writer, which goes on with the next group meanwhile; however many groups
//! were committed while the disk was busy reach it at once. Where nothing else waits, the writer
//! does it itself: whoever comes meanwhile makes one larger group instead of many small ones.
//! Units that were written early were answered before, by the writer; their hooks run here.
//!
//! SQLite itself writes the log without waiting for the disk (`synchronous = NORMAL`). Who read is
//! answered when all that its snapshot holds lies there and was followed up, so nobody is told or
//! shown what may be gone after a power cut: the log ends with some commit then, and whatever was
//! answered or read stands before that. What was committed while it read is not waited for. The
//! reader goes on with others meanwhile. Once the disk failed, whoever may have seen what it did
//! not keep is told so instead, as those are who wrote it.

use std::collections::VecDeque;
use std::fs::File;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::Error;
use crate::hooks::{self, Hook};
use crate::unit::{Kind, Work};

/// Groups that may wait for the disk; the writer waits when there are more.
pub(crate) const GROUPS_MAX: usize = 8;

/// Reads that may wait for their answers; a reader waits when there are more.
const READS_MAX: usize = 1_000;

/// A group that was committed.
pub(crate) struct Committed {
    pub(crate) units: Vec<Box<dyn Work>>,
    pub(crate) hooks: Vec<Hook>,
}

/// What was read, and is to be answered.
pub(crate) struct Seen {
    pub(crate) work: Box<dyn Work>,
    pub(crate) hooks: Vec<Hook>,
    /// Groups that it may have seen.
    pub(crate) groups: u64,
}

impl Seen {
    fn answer(self) {
        hooks::run(self.hooks);
        self.work.answer();
    }

    fn fail(self) {
        self.work.fail(lost());
    }
}

/// How many groups are committed, and how many of them are followed up.
pub(crate) struct Progress {
    /// With the one that is being committed. It goes down under the lock only.
    committed: AtomicU64,
    followed: Mutex<Followed>,
    moved: Condvar,
    waiting: metrics::Gauge,
}

impl Default for Progress {
    fn default() -> Self {
        let waiting = metrics::gauge!("weir_db_answers_waiting_reads");
        let (committed, followed) = (AtomicU64::default(), Mutex::default());
        Self { committed, followed, moved: Condvar::new(), waiting }
    }
}

#[derive(Default)]
struct Followed {
    groups: u64,
    /// Whether the disk failed: no more groups will be followed up.
    failed: bool,
    /// What may have seen more, in the order of how many.
    reads: VecDeque<Seen>,
}

impl Progress {
    /// A group is about to be committed; [`end`](Self::end), [`take_back`](Self::take_back) or
    /// [`fail`](Self::fail) must follow.
    pub(crate) fn begin(&self) {
        self.committed.fetch_add(1, Ordering::AcqRel);
    }

    /// Groups that a snapshot which was taken before this is called may hold.
    pub(crate) fn committed(&self) -> u64 {
        self.committed.load(Ordering::Acquire)
    }

    /// Whether all but the newest of what is committed is followed up. Only the writer may ask, for
    /// nobody else commits.
    pub(crate) fn is_last(&self) -> bool {
        self.followed.lock().groups + 1 == self.committed.load(Ordering::Acquire)
    }

    /// Groups are followed up.
    pub(crate) fn end(&self, groups: usize) {
        let mut followed = self.followed.lock();
        followed.groups += groups as u64;
        self.answer_ready(followed);
    }

    /// The group that was about to be committed could not be: nobody has seen it. Only the writer
    /// may tell, before it begins another.
    pub(crate) fn take_back(&self) {
        let mut followed = self.followed.lock();
        let committed = self.committed.fetch_sub(1, Ordering::AcqRel) - 1;
        let late = followed.reads.iter_mut().rev().take_while(|seen| seen.groups > committed);
        late.for_each(|seen| seen.groups = committed);
        self.answer_ready(followed);
    }

    fn answer_ready(&self, mut followed: MutexGuard<'_, Followed>) {
        let groups = followed.groups;
        let ready = followed.reads.partition_point(|seen| seen.groups <= groups);
        let ready: Vec<Seen> = followed.reads.drain(..ready).collect();
        self.waiting.set(followed.reads.len() as f64);
        drop(followed);
        self.moved.notify_all();
        ready.into_iter().for_each(Seen::answer);
    }

    /// Groups could not be followed up, and none will be: whoever waits for one is told.
    pub(crate) fn fail(&self) {
        let mut followed = self.followed.lock();
        followed.failed = true;
        let lost = std::mem::take(&mut followed.reads);
        self.waiting.set(0.0);
        drop(followed);
        self.moved.notify_all();
        lost.into_iter().for_each(Seen::fail);
    }

    /// Answers what was read, once all that it may have seen is followed up.
    pub(crate) fn answer(&self, mut seen: Seen) {
        if seen.work.kind() == Kind::ReadEarly {
            return seen.answer();
        }
        let mut followed = self.followed.lock();
        // What was taken back it has not seen.
        seen.groups = seen.groups.min(self.committed());
        let waits = followed.groups < seen.groups && !followed.failed;
        if waits && followed.reads.len() < READS_MAX {
            // Readers do not end in the order in which they began.
            let place = followed.reads.partition_point(|other| other.groups <= seen.groups);
            followed.reads.insert(place, seen);
            return self.waiting.set(followed.reads.len() as f64);
        }
        while followed.groups < seen.groups && !followed.failed {
            self.moved.wait(&mut followed);
            seen.groups = seen.groups.min(self.committed());
        }
        let is_kept = seen.groups <= followed.groups;
        drop(followed);
        if is_kept { seen.answer() } else { seen.fail() }
    }
}

/// Brings the log to the disk.
pub(crate) struct Disk {
    log: PathBuf,
    progress: Arc<Progress>,
    file: OnceLock<File>,
    is_wanted: bool,
    failed: Arc<AtomicBool>,
    seconds: metrics::Histogram,
    groups: metrics::Histogram,
}

impl Disk {
    /// Of the database at `path`. Without `is_wanted` nothing waits for the disk. Once it failed,
    /// `failed` is set: what then lies there nobody knows until the database is opened again.
    pub(crate) fn new(
        path: &std::path::Path,
        is_wanted: bool,
        failed: Arc<AtomicBool>,
        progress: Arc<Progress>,
    ) -> Self {
        let mut log = path.as_os_str().to_owned();
        log.push("-wal");
        Self {
            log: log.into(),
            progress,
            file: OnceLock::new(),
            is_wanted,
            failed,
            seconds: metrics::histogram!("weir_db_sync_seconds"),
            groups: metrics::histogram!("weir_db_sync_groups"),
        }
    }

    /// Follows up commits, in their order, until the writer ends.
    pub(crate) fn run(&self, committed: &Receiver<Committed>) {
        while let Ok(first) = committed.recv() {
            let mut groups = vec![first];
            groups.extend(committed.try_iter().take(GROUPS_MAX));
            self.follow(groups);
        }
    }

    /// Follows up `groups`, before which nothing that is committed waits for it.
    pub(crate) fn follow(&self, groups: Vec<Committed>) {
        let count = groups.len();
        self.groups.record(count as f64);
        match self.sync() {
            Ok(()) => {
                for group in groups {
                    hooks::run(group.hooks);
                    group.units.into_iter().for_each(|work| work.answer());
                }
                self.progress.end(count);
            }
            Err(error) => {
                self.failed.store(true, Ordering::Release);
                tracing::error!(%error, "the disk did not keep what was written");
                let units = groups.into_iter().flat_map(|group| group.units);
                units.for_each(|work| work.fail(lost()));
                self.progress.fail();
            }
        }
    }

    fn sync(&self) -> std::io::Result<()> {
        if !self.is_wanted {
            return Ok(());
        }
        if self.failed.load(Ordering::Acquire) {
            return Err(std::io::Error::other("an earlier failure left the log in doubt"));
        }
        let started = Instant::now();
        let file = match self.file.get() {
            Some(file) => file,
            // It is there from the first commit on, and no lock is held through it.
            None => {
                let opened = File::open(&self.log)?;
                self.file.get_or_init(|| opened)
            }
        };
        file.sync_data()?;
        self.seconds.record(started.elapsed().as_secs_f64());
        Ok(())
    }
}

/// What is said of whatever is written, or read of that, after the disk failed.
pub(crate) fn lost() -> Error {
    let reason = "the disk failed while it was written to: check it, then start Weir again";
    Error::Unavailable(reason.into())
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use tokio::sync::oneshot::Receiver;

    use super::*;
    use crate::Tx;
    use crate::unit::{Unit, wait};

    /// Hands one group on whose unit is done and sets a flag in its hook: what it is told, whether
    /// the hook ran, and whether the disk failed.
    fn follow(folder: &std::path::Path) -> (Result<(), Error>, bool, bool) {
        let (failed, ran) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (mut unit, answer) = Unit::boxed(|_: &mut Tx| Ok::<_, Error>(()), Kind::Write);
        let connection = rusqlite::Connection::open_in_memory().unwrap();
        unit.run(&mut Tx::new(crate::tx::Connection::Sqlite(&connection)));
        let (committed, list) = sync_channel(1);
        let seen = ran.clone();
        let hook: Hook = Box::new(move || seen.store(true, Ordering::Release));
        committed.send(Committed { units: vec![unit], hooks: vec![hook] }).unwrap();
        drop(committed);
        let progress = Arc::new(Progress::default());
        progress.begin();
        Disk::new(&folder.join("weir.db"), true, failed.clone(), progress.clone()).run(&list);
        let told = wait(answer).unwrap();
        (told, ran.load(Ordering::Acquire), failed.load(Ordering::Acquire))
    }

    #[test]
    fn who_wrote_is_answered_once_the_log_lies_on_the_disk() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("weir.db-wal"), "log").unwrap();
        let (told, ran, failed) = follow(folder.path());
        told.unwrap();
        assert!(ran && !failed);
    }

    #[test]
    fn what_the_disk_does_not_keep_was_never_done() {
        let folder = tempfile::tempdir().unwrap();
        let (told, ran, failed) = follow(folder.path());
        assert!(matches!(told, Err(Error::Unavailable(_))), "{told:?}");
        assert!(!ran && failed);
    }

    /// A unit of `kind` that has run and may have seen `groups`, and who waits for it.
    fn seen(kind: Kind, groups: u64) -> (Seen, Receiver<Result<(), Error>>) {
        let (mut work, answer) = Unit::boxed(|_: &mut Tx| Ok::<_, Error>(()), kind);
        let connection = rusqlite::Connection::open_in_memory().unwrap();
        work.run(&mut Tx::new(crate::tx::Connection::Sqlite(&connection)));
        (Seen { work, hooks: Vec::new(), groups }, answer)
    }

    /// What a read of `kind` is told that may have seen a group which is not followed up: before
    /// that, and after it.
    fn read(kind: Kind) -> (bool, bool) {
        let progress = Progress::default();
        progress.begin();
        let (seen, mut answer) = seen(kind, progress.committed());
        progress.answer(seen);
        let early = answer.try_recv().is_ok();
        progress.end(1);
        (early, early || answer.try_recv().is_ok())
    }

    #[test]
    fn who_read_is_answered_once_all_it_may_have_seen_lies_on_the_disk() {
        assert_eq!(read(Kind::Read), (false, true));
        assert_eq!(read(Kind::ReadEarly), (true, true));
    }

    /// Whether each of these was told something, and whether that is what it read.
    fn told<const N: usize>(answers: [&mut Receiver<Result<(), Error>>; N]) -> [Option<bool>; N] {
        answers.map(|answer| answer.try_recv().ok().map(|result| result.is_ok()))
    }

    #[test]
    fn a_group_that_could_not_be_committed_moves_no_read_on_and_is_waited_for_by_none() {
        let progress = Progress::default();
        progress.begin();
        let (first, mut of_first) = seen(Kind::Read, 1);
        progress.answer(first);
        progress.begin();
        let [(failed, mut of_failed), (late, mut of_late)] = [2, 2].map(|at| seen(Kind::Read, at));
        progress.answer(failed);
        progress.take_back();
        progress.answer(late);
        assert_eq!(told([&mut of_first, &mut of_failed, &mut of_late]), [None; 3]);
        progress.end(1);
        assert_eq!(told([&mut of_first, &mut of_failed, &mut of_late]), [Some(true); 3]);
        assert_eq!(progress.committed(), 1);
    }

    #[test]
    fn who_may_have_seen_what_the_disk_did_not_keep_is_told_so() {
        let folder = tempfile::tempdir().unwrap();
        let progress = Arc::new(Progress::default());
        progress.begin();
        progress.end(1);
        progress.begin();
        let [(kept, mut of_kept), (lost, mut of_lost), (late, mut of_late)] =
            [1, 2, 2].map(|groups| seen(Kind::Read, groups));
        progress.answer(lost);
        let disk =
            Disk::new(&folder.path().join("weir.db"), true, Arc::default(), progress.clone());
        disk.follow(vec![Committed { units: Vec::new(), hooks: Vec::new() }]);
        progress.answer(kept);
        progress.answer(late);
        let told = told([&mut of_kept, &mut of_lost, &mut of_late]);
        assert_eq!(told, [Some(true), Some(false), Some(false)]);
    }

    #[test]
    fn who_read_waits_for_nothing_that_was_committed_meanwhile() {
        let progress = Progress::default();
        (0..3).for_each(|_| progress.begin());
        let [mut third, mut first, mut second] = [3, 1, 2].map(|groups| {
            let (seen, answer) = seen(Kind::Read, groups);
            progress.answer(seen);
            answer
        });
        let mut told = || {
            [&mut first, &mut second, &mut third].map(|answer| match answer.try_recv() {
                Ok(result) => result.is_ok(),
                Err(_) => false,
            })
        };
        assert_eq!(told(), [false; 3]);
        progress.end(1);
        assert_eq!(told(), [true, false, false]);
        progress.end(2);
        assert_eq!(told(), [false, true, true], "the first is not answered twice");
    }
}
