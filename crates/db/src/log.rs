//! The write-ahead log of SQLite: copied into the database beside the writer, and kept short.
//!
//! A passive checkpoint copies what it can without holding anybody up, but while the writer goes
//! on it never reaches the end, so the log grows. Beyond its limit copies follow each other, and as
//! soon as little is left only what people wait for is written while that is copied too; then the
//! writer copies the few pages that came meanwhile, and the log starts again from its beginning. At
//! twice the limit it does so however much is left. Everybody who writes waits for the writer's
//! copy, so it waits for no other that is under way, but at twice the limit. A reader that holds an
//! old snapshot forbids the start; when it is so old that half the log was written since, it is
//! cancelled.
//!
//! Before the log may start again the database must lie on the disk. SQLite sees to that only when
//! a checkpoint reaches the end of the log, which is then: the writer would wait for all that was
//! copied since the last start. So each copy is brought to the disk when it is made, beside the
//! writer, and what is left for the cut is the rest. A disk that does not take a copy may say so
//! only once, and the log holds the only copy of those pages then: nothing more is written, and the
//! log stays as it is until the database is opened again, which begins with it.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rusqlite::ffi;

use crate::sqlite::{BUSY_WAIT, Queue};

/// The shortest limit of the log (8 MiB), and what is written at least between two tries to cut it.
const PAGES_MIN: i64 = 2_000;
const PAGE_BYTES: u64 = 4_096;
/// What the writer copies itself when it cuts the log as soon as it may: half a MiB. Each page
/// costs about 20 us, most of it until the disk has it, and those who write wait for that.
const REST_PAGES_MAX: i64 = 128;
/// A log that is longer by so many pages may have one more left before its last copy: where the
/// writer leaves copies no end, batches wait longer in the end rather than everybody for half the
/// log at twice the limit.
const REST_GROWS_EACH_PAGES: i64 = 8;
/// How long batches are held back at most for the last copy: on a slow disk they go on.
const HOLD_MAX: Duration = Duration::from_millis(500);
/// How long the writer waits for short readers to leave the log before it goes on, …
const CUT_WAIT: Duration = Duration::from_millis(50);
/// … and how often it looks.
const CUT_LOOKS_EACH: Duration = Duration::from_micros(100);

pub(crate) struct Log {
    /// The database, where commits wait for the disk. Whoever closes a file gives up all locks its
    /// process holds on it, so it stays open until every connection is closed.
    database: Option<File>,
    /// Whether the disk failed, and nothing is written any more.
    failed: Arc<AtomicBool>,
    /// Pages in the log after the last commit.
    pages: Arc<AtomicI64>,
    pages_max: i64,
    /// Pages of it that are in the database too.
    copied: AtomicI64,
    /// Pages when a checkpoint was last asked for.
    asked_at: AtomicI64,
    /// Pages when the writer last tried to start the log again.
    cut_at: AtomicI64,
    snapshots: Vec<Arc<Snapshot>>,
    /// Held by whoever copies: a second checkpoint at the same time would be refused.
    copying: Mutex<()>,
    bell: Mutex<Bell>,
    rung: Condvar,
    bytes: metrics::Gauge,
    copy_seconds: metrics::Histogram,
    cuts: metrics::Counter,
    cut_seconds: metrics::Histogram,
    held_seconds: metrics::Histogram,
    cancels: metrics::Counter,
}

#[derive(Default)]
struct Bell {
    rings: bool,
    closed: bool,
    last: Last,
}

/// The last copy before a cut, for which batches are held back.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Last {
    #[default]
    None,
    Asked,
    Made,
}

/// What one reader holds.
pub(crate) struct Snapshot {
    /// Pages in the log when its unit began; none between units.
    begun_at: Mutex<Option<i64>>,
    cancelled: AtomicBool,
    interrupt: rusqlite::InterruptHandle,
}

impl Snapshot {
    pub(crate) fn new(reader: &rusqlite::Connection) -> Self {
        Self {
            begun_at: Mutex::new(None),
            cancelled: AtomicBool::new(false),
            interrupt: reader.get_interrupt_handle(),
        }
    }

    pub(crate) fn cancelled(&self) -> &AtomicBool {
        &self.cancelled
    }

    pub(crate) fn end(&self) {
        *self.begun_at.lock() = None;
    }

    /// Cancels the unit if it began before the log had `pages`. The lock is held so that it cannot
    /// be the next unit that is hit.
    fn cancel_if_before(&self, pages: i64) -> bool {
        let begun_at = self.begun_at.lock();
        let old = begun_at.is_some_and(|begun_at| begun_at < pages)
            && !self.cancelled.swap(true, Ordering::AcqRel);
        if old {
            self.interrupt.interrupt();
        }
        old
    }
}

impl Bell {
    /// A copy ended.
    fn made(&mut self) {
        if self.last == Last::Asked {
            self.last = Last::Made;
        }
    }

    /// Whether the last copy was made since it was last asked.
    fn take_made(&mut self) -> bool {
        let made = self.last == Last::Made;
        if made {
            self.last = Last::None;
        }
        made
    }
}

impl Log {
    /// Of the database at `path`, which is there. Without `sync` nothing waits for the disk. Once
    /// it failed, `failed` is set.
    pub(crate) fn new(
        path: &Path,
        sync: bool,
        failed: Arc<AtomicBool>,
        snapshots: Vec<Arc<Snapshot>>,
        bytes_max: u64,
    ) -> std::io::Result<Self> {
        let pages_max = i64::try_from(bytes_max / PAGE_BYTES).unwrap_or(i64::MAX);
        Ok(Self {
            database: sync.then(|| File::open(path)).transpose()?,
            failed,
            pages: Arc::new(AtomicI64::new(0)),
            pages_max: pages_max.max(PAGES_MIN),
            copied: AtomicI64::new(0),
            asked_at: AtomicI64::new(0),
            cut_at: AtomicI64::new(0),
            snapshots,
            copying: Mutex::new(()),
            bell: Mutex::new(Bell::default()),
            rung: Condvar::new(),
            bytes: metrics::gauge!("weir_db_log_bytes"),
            copy_seconds: metrics::histogram!("weir_db_log_copy_seconds"),
            cuts: metrics::counter!("weir_db_log_cuts_total"),
            cut_seconds: metrics::histogram!("weir_db_log_cut_seconds"),
            held_seconds: metrics::histogram!("weir_db_log_held_seconds"),
            cancels: metrics::counter!("weir_db_reads_cancelled_total"),
        })
    }

    /// Has `writer` tell after each commit how long the log is.
    pub(crate) fn follow(&self, writer: &mut rusqlite::Connection) -> rusqlite::Result<()> {
        let pages = self.pages.clone();
        let hook = move |_: &mut rusqlite::hooks::Wal, now: std::ffi::c_int| {
            pages.store(i64::from(now), Ordering::Relaxed);
            Ok(())
        };
        writer.wal_hook(Some(hook))
    }

    /// A reader is about to take a snapshot.
    pub(crate) fn begin(&self, snapshot: &Snapshot) {
        let mut begun_at = snapshot.begun_at.lock();
        snapshot.cancelled.store(false, Ordering::Release);
        *begun_at = Some(self.pages.load(Ordering::Relaxed));
    }

    /// Called by the writer before a transaction.
    pub(crate) fn before_group(&self, writer: &mut rusqlite::Connection) {
        if self.bell.lock().take_made() {
            let pages = self.pages.load(Ordering::Relaxed);
            if pages >= self.pages_max && self.rest(pages) <= self.rest_max(pages) {
                self.cut_at.store(pages, Ordering::Relaxed);
                self.start_again(writer, pages);
            }
        }
    }

    /// Called by the writer after a transaction; from `queue` it takes the next.
    pub(crate) fn after_group(&self, writer: &mut rusqlite::Connection, queue: &Queue) {
        let pages = self.pages.load(Ordering::Relaxed);
        if pages < self.asked_at.load(Ordering::Relaxed) {
            // The log began again.
            self.asked_at.store(0, Ordering::Relaxed);
            self.cut_at.store(0, Ordering::Relaxed);
            self.copied.store(0, Ordering::Relaxed);
        }
        if pages >= self.pages_max && self.may_cut(pages) {
            let is_last = self.bell.lock().take_made();
            if !is_last && self.rest(pages) > REST_PAGES_MAX && pages < 2 * self.pages_max {
                queue.hold_back(HOLD_MAX);
                self.bell.lock().last = Last::Asked;
                return self.ring();
            }
            self.cut_at.store(pages, Ordering::Relaxed);
            if self.start_again(writer, pages) {
                return;
            }
        }
        self.bytes.set(pages as f64 * PAGE_BYTES as f64);
        // Half the log at once, for most of its pages are written again and again, and copied once
        // then. Beyond the limit the copies follow each other, until little is left for the cut.
        let asks = pages - self.asked_at.load(Ordering::Relaxed) >= self.pages_max / 2
            || (pages >= self.pages_max && self.rest(pages) > self.rest_max(pages));
        if asks {
            self.asked_at.store(pages, Ordering::Relaxed);
            self.ring();
        }
    }

    /// Asks for a copy.
    fn ring(&self) {
        self.bell.lock().rings = true;
        self.rung.notify_one();
    }

    /// Pages of the log that are not copied.
    fn rest(&self, pages: i64) -> i64 {
        pages - self.copied.load(Ordering::Relaxed)
    }

    /// The most pages that the writer copies itself.
    fn rest_max(&self, pages: i64) -> i64 {
        REST_PAGES_MAX + (pages - self.pages_max).max(0) / REST_GROWS_EACH_PAGES
    }

    /// Whether a cut takes little time now, or has to be.
    fn may_cut(&self, pages: i64) -> bool {
        if self.bell.lock().last == Last::Asked && pages < 2 * self.pages_max {
            return false;
        }
        let tried_at = self.cut_at.load(Ordering::Relaxed);
        if tried_at > 0 && pages - tried_at < PAGES_MIN {
            return false;
        }
        let is_quick = self.rest(pages) <= self.rest_max(pages) && !self.copying.is_locked();
        is_quick || pages >= 2 * self.pages_max
    }

    /// Whether the next transaction does.
    fn start_again(&self, writer: &mut rusqlite::Connection, pages: i64) -> bool {
        let _copying = self.copying.lock();
        // The copy that it waited for may be the one that failed.
        if self.failed.load(Ordering::Acquire) {
            return false;
        }
        let cut = self.cut(writer);
        match &cut {
            Ok(true) => self.cuts.increment(1),
            Ok(false) => {
                let old = pages - self.pages_max / 2;
                let hit = self.snapshots.iter().filter(|reader| reader.cancel_if_before(old));
                let hit = hit.count();
                self.cancels.increment(hit as u64);
                tracing::warn!(pages, hit, "readers hold the log; the oldest were cancelled");
            }
            Err(error) => self.refused(error, "the log could not be cut; it grows"),
        }
        cut.unwrap_or(false)
    }

    /// Copies the rest of the log and lets the next transaction start it again; false when readers
    /// forbid it.
    fn cut(&self, writer: &mut rusqlite::Connection) -> rusqlite::Result<bool> {
        let started = Instant::now();
        let until = started + CUT_WAIT;
        writer.busy_handler(Some(move |_| {
            std::thread::sleep(CUT_LOOKS_EACH);
            Instant::now() < until
        }))?;
        let busy = writer.query_row("PRAGMA wal_checkpoint(RESTART)", [], |row| row.get(0));
        writer.busy_timeout(BUSY_WAIT)?;
        self.copied.store(0, Ordering::Relaxed);
        self.cut_seconds.record(started.elapsed().as_secs_f64());
        busy.map(|busy: i64| busy == 0)
    }

    /// Copies the log into the database whenever it has grown, until it is closed. The writer takes
    /// from `queue`.
    pub(crate) fn run_checkpoints(&self, connection: &rusqlite::Connection, queue: &Queue) {
        loop {
            let mut bell = self.bell.lock();
            while !bell.rings && !bell.closed {
                self.rung.wait(&mut bell);
            }
            if bell.closed {
                return;
            }
            bell.rings = false;
            drop(bell);
            let copying = self.copying.lock();
            if !self.failed.load(Ordering::Acquire) {
                self.copy(connection);
            }
            self.bell.lock().made();
            if let Some(held) = queue.release() {
                self.held_seconds.record(held.min(HOLD_MAX).as_secs_f64());
            }
            // From now on it may be asked for the last copy again.
            drop(copying);
        }
    }

    fn copy(&self, connection: &rusqlite::Connection) {
        let copied = |row: &rusqlite::Row<'_>| row.get::<_, i64>(2);
        let started = Instant::now();
        match connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], copied) {
            Ok(copied) => self.copied_until(copied),
            Err(error) => {
                self.refused(&error, "a checkpoint failed; the log grows until the next one");
            }
        }
        self.copy_seconds.record(started.elapsed().as_secs_f64());
    }

    /// SQLite could not copy: for now, or for good where the disk did not keep it.
    fn refused(&self, error: &rusqlite::Error, meaning: &str) {
        match error.sqlite_error() {
            Some(code) if code.extended_code == ffi::SQLITE_IOERR_FSYNC => self.lost(error),
            _ => tracing::warn!(%error, "{meaning}"),
        }
    }

    fn lost(&self, error: &dyn std::fmt::Display) {
        self.failed.store(true, Ordering::Release);
        tracing::error!(%error, "the disk failed: check it, then start Weir again");
    }

    /// So many pages of the log are in the database; brings them to the disk.
    fn copied_until(&self, copied: i64) {
        if copied <= self.copied.load(Ordering::Relaxed) {
            return;
        }
        if let Some(Err(error)) = self.database.as_ref().map(File::sync_data) {
            return self.lost(&error);
        }
        self.copied.store(copied, Ordering::Relaxed);
        let pages = self.pages.load(Ordering::Relaxed);
        if pages >= self.pages_max && self.rest(pages) <= self.rest_max(pages) {
            // What rang meanwhile would begin the next copy, just when the log can be cut.
            self.bell.lock().rings = false;
        }
    }

    /// Lets the checkpoint thread go.
    pub(crate) fn close(&self) {
        self.bell.lock().closed = true;
        self.rung.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tx;
    use crate::queue::{Class, ClassQueue};
    use crate::unit::{Kind, Unit};

    fn work() -> Box<dyn crate::unit::Work> {
        Unit::boxed(|_: &mut Tx| Ok::<_, crate::Error>(()), Kind::Write).0
    }

    #[test]
    fn batches_are_held_back_for_the_last_copy_and_then_the_log_begins_again() {
        cut_after_last_copy(|log, writer, _| log.before_group(writer));
    }

    #[test]
    fn a_last_copy_that_ends_in_a_transaction_is_not_followed_by_another() {
        cut_after_last_copy(|log, writer, queue| {
            // It came meanwhile.
            log.copied.fetch_sub(REST_PAGES_MAX + 4, Ordering::Relaxed);
            log.after_group(writer, queue);
        });
    }

    /// `cut` is what the writer does first after the last copy.
    fn cut_after_last_copy(cut: impl FnOnce(&Log, &mut rusqlite::Connection, &Queue)) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("weir.db");
        let mut writer = rusqlite::Connection::open(&path).unwrap();
        writer.execute_batch("PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0").unwrap();
        let beside = rusqlite::Connection::open(&path).unwrap();
        let log = Log::new(&path, true, Arc::default(), Vec::new(), 1).unwrap();
        log.follow(&mut writer).unwrap();
        let queue: Queue = Arc::new(ClassQueue::new(1, "write"));
        let fill = |writer: &rusqlite::Connection, pages: i64| {
            let bytes = pages * PAGE_BYTES as i64;
            writer.execute("INSERT INTO blocks (bytes) VALUES (zeroblob(?1))", [bytes]).unwrap();
            log.pages.load(Ordering::Relaxed)
        };
        writer.execute_batch("CREATE TABLE blocks (bytes BLOB)").unwrap();
        let pages = fill(&writer, PAGES_MIN + 10 * REST_GROWS_EACH_PAGES);
        // More than the writer copies itself, and little enough for the end.
        log.copied.store(pages - REST_PAGES_MAX - 5, Ordering::Relaxed);
        log.after_group(&mut writer, &queue);
        assert_eq!(log.bell.lock().last, Last::Asked);
        queue.push(Class::Inbound, work()).unwrap();
        queue.push(Class::Interactive, work()).unwrap();
        let (turn, _) = queue.pop(None).unwrap();
        assert_eq!(turn.class, Class::Interactive, "people go on");
        log.before_group(&mut writer);
        fill(&writer, 1);
        log.after_group(&mut writer, &queue);
        assert!(queue.pop_into_group(None, Class::Inbound).is_none(), "it is held back");
        std::thread::scope(|scope| {
            let (log, queue) = (&log, &queue);
            scope.spawn(move || log.run_checkpoints(&beside, queue));
            let (turn, _) = queue.pop(None).unwrap();
            assert_eq!(turn.class, Class::Inbound);
            while log.bell.lock().last != Last::Made {
                std::thread::yield_now();
            }
            log.close();
        });
        cut(&log, &mut writer, &queue);
        assert_eq!(log.bell.lock().last, Last::None);
        assert!(fill(&writer, 1) < PAGES_MIN, "it began again");
    }
}
