//! The frames of SQLite's log, written together.
//!
//! SQLite writes each page of a commit by two calls: the head of its frame, then the page. A commit
//! of a hundred pages is two hundred calls, each of which costs the system more than the bytes. So
//! what is written to the log by a [commit](committing) is kept until the head of the frame that
//! ends it comes, and goes with that in a few calls. Everything else SQLite does as ever: the other
//! files are its own, and whatever else is asked of the log has what was kept written first.
//!
//! What is kept was promised to nobody: frames count from the moment their commit's last one lies
//! in the log, and whether that could be written SQLite is told while it commits, as ever. A crash
//! finds fewer of the frames that never counted. Nothing is kept outside of a commit: frames that a
//! large transaction writes before its own would outlive it when it is undone, and their place in
//! the log may be another's then; and SQLite would go on where they could not be written later.

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use rusqlite::ffi;

/// By this name SQLite's files are opened so.
const NAME: &CStr = c"weir";
/// The head of a frame, in bytes; its second number is not zero where a commit ends. See "WAL File
/// Format" in SQLite's description of its file format.
const HEAD_BYTES: usize = 24;
/// Bytes that are kept at most, …
const KEPT_BYTES_MAX: usize = 1 << 20;
/// … and bytes that SQLite's own writing takes at once (it counts with 17 bits).
const CALL_BYTES_MAX: usize = 120 * 1024;

thread_local! {
    /// The number of the commit that this thread is in; 0 outside of any.
    static COMMIT: Cell<u64> = const { Cell::new(0) };
}

/// Runs `commit`, a statement that commits: the frames that it writes are written together.
pub(crate) fn committing<T>(commit: impl FnOnce() -> T) -> T {
    /// Ends it, however it ends.
    struct Ends;
    impl Drop for Ends {
        fn drop(&mut self) {
            COMMIT.set(0);
        }
    }
    static COMMITS: AtomicU64 = AtomicU64::new(0);
    COMMIT.set(COMMITS.fetch_add(1, Ordering::Relaxed) + 1);
    let _ends = Ends;
    commit()
}

/// What is kept of a log.
#[derive(Default)]
struct Kept {
    /// The commit whose they are.
    commit: u64,
    bytes: Vec<u8>,
    /// Where in the file they belong.
    at: i64,
    /// Whether they are frames that no commit ends.
    is_open: bool,
}

impl Kept {
    /// Takes `bytes`, which belong `at` a place of the file, and writes by `out` what is not to be
    /// kept; 0, or what the first call that failed says. `commit` is under way; 0: none.
    fn write(&mut self, bytes: &[u8], at: i64, commit: u64, out: &mut Out<'_>) -> c_int {
        self.forget_others(commit);
        if self.end() != at {
            let done = self.flush(commit, out);
            if done != ffi::SQLITE_OK {
                return done;
            }
            self.at = at;
        }
        if bytes.len() == HEAD_BYTES {
            self.is_open = bytes[4..8] == [0; 4];
        }
        self.bytes.extend_from_slice(bytes);
        // A commit ends with its page, but heads of frames are also written anew without theirs.
        if commit != 0 && self.is_open && self.bytes.len() < KEPT_BYTES_MAX {
            ffi::SQLITE_OK
        } else {
            self.flush(commit, out)
        }
    }

    /// What another commit left behind failed, and nobody waits for it.
    fn forget_others(&mut self, commit: u64) {
        if self.commit != commit {
            self.commit = commit;
            self.at = self.end();
            self.bytes.clear();
        }
    }

    fn end(&self) -> i64 {
        self.at.saturating_add_unsigned(self.bytes.len() as u64)
    }

    /// Writes all. What can't be written is forgotten: SQLite is told, and undoes its commit.
    fn flush(&mut self, commit: u64, out: &mut Out<'_>) -> c_int {
        self.forget_others(commit);
        let mut done = ffi::SQLITE_OK;
        let mut at = self.at;
        for some in self.bytes.chunks(CALL_BYTES_MAX) {
            done = out(some, at);
            if done != ffi::SQLITE_OK {
                break;
            }
            at = at.saturating_add_unsigned(some.len() as u64);
        }
        self.at = self.end();
        self.bytes.clear();
        done
    }
}

/// Writes bytes at a place.
type Out<'o> = dyn FnMut(&[u8], i64) -> c_int + 'o;

/// An open log. SQLite gives the memory for it and, behind it, for a file of its own.
#[repr(C)]
struct LogFile {
    methods: *const ffi::sqlite3_io_methods,
    kept: *mut Kept,
}

/// The name under which files are opened so; none where SQLite does not take it.
pub(crate) fn name() -> Option<&'static CStr> {
    static TAKEN: OnceLock<bool> = OnceLock::new();
    let taken = TAKEN.get_or_init(|| {
        let taken = register();
        if !taken {
            tracing::warn!(
                "SQLite writes commits page by page: that is slower, and nothing is lost by it"
            );
        }
        taken
    });
    taken.then_some(NAME)
}

/// How SQLite itself opens files; set before anything is opened by [`NAME`].
static OWN: AtomicPtr<ffi::sqlite3_vfs> = AtomicPtr::new(ptr::null_mut());

fn register() -> bool {
    // SAFETY: null asks for the one that is used by default.
    let own = unsafe { ffi::sqlite3_vfs_find(ptr::null()) };
    if own.is_null() {
        return false;
    }
    OWN.store(own, Ordering::Release);
    // SAFETY: what SQLite gives out lives as long as the process, and is not changed while it is
    // read but for `pNext`, which registering sets anew.
    let mut with_log = unsafe { ptr::read(own) };
    let bytes = size_of::<LogFile>() as c_int;
    with_log.szOsFile = with_log.szOsFile.saturating_add(bytes);
    with_log.zName = NAME.as_ptr();
    with_log.pNext = ptr::null_mut();
    with_log.xOpen = Some(open);
    let with_log = Box::leak(Box::new(with_log));
    // SAFETY: it is never freed, and not touched from here on.
    unsafe { ffi::sqlite3_vfs_register(with_log, 0) == ffi::SQLITE_OK }
}

/// What a log can be asked. It is of the first version, for memory is shared by the database's
/// file.
static METHODS: ffi::sqlite3_io_methods = ffi::sqlite3_io_methods {
    iVersion: 1,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: None,
    xShmLock: None,
    xShmBarrier: None,
    xShmUnmap: None,
    xFetch: None,
    xUnfetch: None,
};

unsafe extern "C" fn open(
    _: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    let own = OWN.load(Ordering::Acquire);
    // SAFETY: SQLite's own, which has a way to open.
    let Some(open) = (unsafe { (*own).xOpen }) else { return ffi::SQLITE_CANTOPEN };
    if flags & ffi::SQLITE_OPEN_WAL == 0 {
        // SAFETY: as SQLite called it; the memory is enough for its own file alone.
        return unsafe { open(own, name, file, flags, out_flags) };
    }
    let log = file.cast::<LogFile>();
    // SAFETY: SQLite gives `szOsFile` bytes: room for a `LogFile` and a file of its own behind it.
    unsafe {
        ptr::write_bytes(file.cast::<u8>(), 0, (*own).szOsFile as usize + size_of::<LogFile>());
        let done = open(own, name, inner(file), flags, out_flags);
        if done != ffi::SQLITE_OK {
            if let Some(close) = methods(file).and_then(|methods| methods.xClose) {
                close(inner(file));
            }
            return done;
        }
        (*log).kept = Box::into_raw(Box::default());
        (*log).methods = &raw const METHODS;
    }
    ffi::SQLITE_OK
}

/// SQLite's own file in the memory of the log `file`.
///
/// # Safety
/// `file` has the memory that [`open`] is given for a log.
unsafe fn inner(file: *mut ffi::sqlite3_file) -> *mut ffi::sqlite3_file {
    // SAFETY: it lies behind the `LogFile`, whose size is a multiple of a pointer's.
    unsafe { file.cast::<LogFile>().add(1).cast() }
}

/// What SQLite's own file can be asked.
///
/// # Safety
/// As of [`inner`].
unsafe fn methods<'m>(file: *mut ffi::sqlite3_file) -> Option<&'m ffi::sqlite3_io_methods> {
    // SAFETY: it is null, or lives as long as the process.
    unsafe { (*inner(file)).pMethods.as_ref() }
}

/// Has `ask` done by SQLite's own file once nothing is kept any more; what the first says that
/// fails.
///
/// # Safety
/// `file` is an open log, which SQLite never uses in two threads at once.
unsafe fn after_kept(
    file: *mut ffi::sqlite3_file,
    ask: impl FnOnce(&ffi::sqlite3_io_methods, *mut ffi::sqlite3_file) -> Option<c_int>,
) -> c_int {
    // SAFETY: `open` set both, and nobody else uses them meanwhile.
    let (kept, methods) = unsafe { (&mut *(*file.cast::<LogFile>()).kept, methods(file)) };
    let Some(methods) = methods else { return ffi::SQLITE_IOERR };
    // SAFETY: as above.
    let inner = unsafe { inner(file) };
    let written = kept.flush(COMMIT.get(), &mut |bytes, at| written(methods, inner, bytes, at));
    match written {
        ffi::SQLITE_OK => ask(methods, inner).unwrap_or(ffi::SQLITE_IOERR),
        failure => failure,
    }
}

fn written(
    methods: &ffi::sqlite3_io_methods,
    inner: *mut ffi::sqlite3_file,
    bytes: &[u8],
    at: i64,
) -> c_int {
    let Some(write) = methods.xWrite else { return ffi::SQLITE_IOERR };
    // No longer than a call may be.
    let count = bytes.len() as c_int;
    // SAFETY: an open file of SQLite's own; it only reads the bytes.
    unsafe { write(inner, bytes.as_ptr().cast(), count, at) }
}

unsafe extern "C" fn write(
    file: *mut ffi::sqlite3_file,
    bytes: *const c_void,
    count: c_int,
    at: i64,
) -> c_int {
    // SAFETY: `open` set both; SQLite uses a file in one thread at once, and gives `count` bytes.
    let (kept, methods, inner, bytes) = unsafe {
        let kept = &mut *(*file.cast::<LogFile>()).kept;
        let bytes = std::slice::from_raw_parts(bytes.cast::<u8>(), count.unsigned_abs() as usize);
        (kept, methods(file), inner(file), bytes)
    };
    let Some(methods) = methods else { return ffi::SQLITE_IOERR };
    kept.write(bytes, at, COMMIT.get(), &mut |bytes, at| written(methods, inner, bytes, at))
}

unsafe extern "C" fn close(file: *mut ffi::sqlite3_file) -> c_int {
    // SAFETY: an open log, which is never used again: SQLite forgets its methods. What is still
    // kept is of a commit that failed.
    unsafe {
        drop(Box::from_raw((*file.cast::<LogFile>()).kept));
        let close = methods(file).and_then(|methods| methods.xClose);
        close.map_or(ffi::SQLITE_IOERR, |close| close(inner(file)))
    }
}

unsafe extern "C" fn read(
    file: *mut ffi::sqlite3_file,
    bytes: *mut c_void,
    count: c_int,
    at: i64,
) -> c_int {
    // SAFETY: an open log, and memory for `count` bytes.
    unsafe { after_kept(file, |own, inner| own.xRead.map(|read| read(inner, bytes, count, at))) }
}

unsafe extern "C" fn truncate(file: *mut ffi::sqlite3_file, size: i64) -> c_int {
    // SAFETY: an open log.
    unsafe { after_kept(file, |own, inner| own.xTruncate.map(|cut| cut(inner, size))) }
}

unsafe extern "C" fn sync(file: *mut ffi::sqlite3_file, flags: c_int) -> c_int {
    // SAFETY: an open log.
    unsafe { after_kept(file, |own, inner| own.xSync.map(|sync| sync(inner, flags))) }
}

unsafe extern "C" fn file_size(file: *mut ffi::sqlite3_file, size: *mut i64) -> c_int {
    // SAFETY: an open log, and memory for the number.
    unsafe { after_kept(file, |own, inner| own.xFileSize.map(|ask| ask(inner, size))) }
}

unsafe extern "C" fn lock(file: *mut ffi::sqlite3_file, level: c_int) -> c_int {
    // SAFETY: an open log.
    unsafe { after_kept(file, |own, inner| own.xLock.map(|lock| lock(inner, level))) }
}

unsafe extern "C" fn unlock(file: *mut ffi::sqlite3_file, level: c_int) -> c_int {
    // SAFETY: an open log.
    unsafe { after_kept(file, |own, inner| own.xUnlock.map(|unlock| unlock(inner, level))) }
}

unsafe extern "C" fn check_reserved_lock(file: *mut ffi::sqlite3_file, out: *mut c_int) -> c_int {
    // SAFETY: an open log, and memory for the number.
    unsafe { after_kept(file, |own, inner| own.xCheckReservedLock.map(|ask| ask(inner, out))) }
}

unsafe extern "C" fn file_control(
    file: *mut ffi::sqlite3_file,
    what: c_int,
    about: *mut c_void,
) -> c_int {
    // SAFETY: an open log; what it is about is as SQLite gave it.
    unsafe { after_kept(file, |own, inner| own.xFileControl.map(|ask| ask(inner, what, about))) }
}

unsafe extern "C" fn sector_size(file: *mut ffi::sqlite3_file) -> c_int {
    // SAFETY: an open log; what is kept does not matter to it.
    unsafe {
        let ask = methods(file).and_then(|methods| methods.xSectorSize);
        ask.map_or(0, |ask| ask(inner(file)))
    }
}

unsafe extern "C" fn device_characteristics(file: *mut ffi::sqlite3_file) -> c_int {
    // SAFETY: as above.
    unsafe {
        let ask = methods(file).and_then(|methods| methods.xDeviceCharacteristics);
        ask.map_or(0, |ask| ask(inner(file)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PAGE: usize = 512;

    /// A file, and how often it was written to.
    #[derive(Default)]
    struct Disk {
        bytes: Vec<u8>,
        calls: usize,
        is_full: bool,
    }

    impl Disk {
        fn write(&mut self, bytes: &[u8], at: i64) -> c_int {
            assert!(bytes.len() <= CALL_BYTES_MAX);
            if self.is_full {
                return ffi::SQLITE_FULL;
            }
            let (from, to) = (at as usize, at as usize + bytes.len());
            self.bytes.resize(self.bytes.len().max(to), 0);
            self.bytes[from..to].copy_from_slice(bytes);
            self.calls += 1;
            ffi::SQLITE_OK
        }
    }

    fn head(ends: bool) -> [u8; HEAD_BYTES] {
        let mut head = [7; HEAD_BYTES];
        head[4..8].copy_from_slice(&u32::from(ends).to_be_bytes());
        head
    }

    /// Writes a commit of so many frames at `at`; where the next one begins.
    fn commit(kept: &mut Kept, disk: &mut Disk, frames: usize, at: i64) -> Result<i64, c_int> {
        let (mut at, number) = (at, kept.commit + 1);
        for frame in 1..=frames {
            for bytes in [&head(frame == frames)[..], &[3; PAGE]] {
                match kept.write(bytes, at, number, &mut |bytes, at| disk.write(bytes, at)) {
                    ffi::SQLITE_OK => at += bytes.len() as i64,
                    failure => return Err(failure),
                }
            }
        }
        Ok(at)
    }

    #[test]
    fn a_commit_is_there_when_its_last_page_is_written_and_takes_few_calls() {
        let (mut kept, mut disk) = (Kept::default(), Disk::default());
        let end = commit(&mut kept, &mut disk, 100, 32).unwrap();
        assert_eq!((disk.bytes.len() as i64, disk.calls), (end, 2));
        let end = commit(&mut kept, &mut disk, 1, end).unwrap();
        assert_eq!(disk.bytes.len() as i64, end);
        let end = commit(&mut kept, &mut disk, 10_000, end).unwrap();
        assert_eq!(disk.bytes.len() as i64, end);
        assert!(kept.bytes.capacity() <= 2 * KEPT_BYTES_MAX, "{}", kept.bytes.capacity());
    }

    #[test]
    fn who_commits_is_told_of_a_full_disk_and_the_next_commit_begins_anew() {
        let (mut kept, mut disk) = (Kept::default(), Disk::default());
        let end = commit(&mut kept, &mut disk, 3, 0).unwrap();
        disk.is_full = true;
        assert_eq!(commit(&mut kept, &mut disk, 3, end), Err(ffi::SQLITE_FULL));
        disk.is_full = false;
        let end = commit(&mut kept, &mut disk, 2, end).unwrap();
        assert_eq!(disk.bytes.len() as i64, end);
    }

    #[test]
    fn outside_of_a_commit_nothing_is_kept_and_what_a_failed_one_left_is_never_written() {
        let (mut kept, mut disk) = (Kept::default(), Disk::default());
        assert_eq!(kept.write(&head(false), 0, 0, &mut |bytes, at| disk.write(bytes, at)), 0);
        assert_eq!(disk.bytes.len(), HEAD_BYTES);
        disk.is_full = true;
        let failed = kept.write(&[3; PAGE], 24, 0, &mut |bytes, at| disk.write(bytes, at));
        assert_eq!(failed, ffi::SQLITE_FULL, "who writes is told at once");
        disk.is_full = false;
        assert_eq!(kept.write(&head(false), 24, 1, &mut |bytes, at| disk.write(bytes, at)), 0);
        assert_eq!(kept.flush(0, &mut |bytes, at| disk.write(bytes, at)), 0);
        assert_eq!(disk.bytes.len(), HEAD_BYTES);
    }

    proptest! {
        #[test]
        fn a_file_becomes_what_it_would_without(
            writes in prop::collection::vec((0usize..4, 0usize..40, any::<u8>()), 1..60),
        ) {
            let (mut disk, mut plain) = (Disk::default(), Disk::default());
            let mut kept = Kept::default();
            let mut at = 0;
            for (kind, place, byte) in writes {
                let bytes = match kind {
                    0 => head(false).to_vec(),
                    1 => head(true).to_vec(),
                    _ => vec![byte; PAGE],
                };
                // Most often behind what was written before.
                if place < 10 {
                    at = (place * (HEAD_BYTES + PAGE)) as i64;
                }
                plain.write(&bytes, at);
                let done = kept.write(&bytes, at, 1, &mut |bytes, at| disk.write(bytes, at));
                prop_assert_eq!(done, ffi::SQLITE_OK);
                if kind == 1 {
                    prop_assert_eq!(&disk.bytes, &plain.bytes, "what ends a commit is there");
                }
                at += bytes.len() as i64;
            }
            kept.flush(1, &mut |bytes, at| disk.write(bytes, at));
            prop_assert_eq!(&disk.bytes, &plain.bytes);
            prop_assert!(disk.calls <= plain.calls);
        }
    }

    fn rows(connection: &rusqlite::Connection) -> i64 {
        connection.query_row("SELECT count(*) FROM marks", [], |row| row.get(0)).unwrap()
    }

    #[test]
    fn whoever_opens_the_database_otherwise_finds_what_was_committed_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("weir.db");
        let flags = rusqlite::OpenFlags::default();
        let name = name().unwrap();
        let writer = rusqlite::Connection::open_with_flags_and_vfs(&path, flags, name).unwrap();
        // With a cache of so few pages most of a transaction is written before it commits, read
        // again, and written anew.
        writer
            .execute_batch(
                "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA cache_size = 10;
                 PRAGMA wal_autocheckpoint = 0;
                 CREATE TABLE marks (id INTEGER PRIMARY KEY, label TEXT, rest TEXT);
                 CREATE INDEX marks_by_label ON marks (label);",
            )
            .unwrap();
        let reader = rusqlite::Connection::open(&path).unwrap();
        let many = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)
          INSERT INTO marks (label, rest) SELECT hex(randomblob(8)), hex(randomblob(200)) FROM n;";
        let mut committed = 0;
        for round in 0..4 {
            writer.execute_batch("BEGIN IMMEDIATE").unwrap();
            writer.execute_batch(many).unwrap();
            writer.execute_batch("SAVEPOINT unit; UPDATE marks SET label = rest").unwrap();
            writer.execute_batch("ROLLBACK TO unit; RELEASE unit").unwrap();
            writer.execute_batch("UPDATE marks SET label = label || 'x' WHERE id % 7 = 0").unwrap();
            assert_eq!(rows(&reader), committed);
            if round % 2 == 0 {
                writer.execute_batch("ROLLBACK").unwrap();
                // Another takes the place in the log.
                reader.execute_batch("INSERT INTO marks (label) VALUES ('other')").unwrap();
                committed += 1;
            } else {
                committing(|| writer.execute_batch("COMMIT")).unwrap();
                committed += 3_000;
            }
            assert_eq!(rows(&reader), committed);
            if round == 1 {
                writer.query_row("PRAGMA wal_checkpoint(RESTART)", [], |_| Ok(())).unwrap();
            }
        }
        // A copy is what a crash leaves.
        let copy = folder.path().join("copy.db");
        for end in ["", "-wal"] {
            let of = |path: &std::path::Path| format!("{}{end}", path.display());
            std::fs::copy(of(&path), of(&copy)).unwrap();
        }
        let found = rusqlite::Connection::open(&copy).unwrap();
        assert_eq!(rows(&found), committed);
        let whole: String =
            found.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(whole, "ok");
    }
}
