//! SQLite: one writer thread that commits groups, reading threads, and checkpoints beside them.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{ErrorCode, OpenFlags};

use crate::queue::ClassQueue;
use crate::tx::{Connection, Failure, Hook};
use crate::unit::Work;
use crate::{Class, Error, Options, Row, Tx, Value};

/// A group of units is committed after about this much work.
const GROUP_TIME_MAX: Duration = Duration::from_millis(2);
/// Units in one group, so that memory held for answers stays bounded.
const GROUP_UNITS_MAX: usize = 1_000;
/// Prepared statements kept a connection.
const STATEMENTS_MAX: usize = 400;
/// Pages of the log after which a checkpoint runs beside the writer (4 KiB each).
const CHECKPOINT_PAGES: i64 = 2_000;
/// The log is cut by the writer itself when readers have let it grow to this.
const LOG_BYTES_MAX: u64 = 256 * 1024 * 1024;

type Queue = Arc<ClassQueue<Box<dyn Work>>>;

pub(crate) struct Opened {
    pub(crate) reads: Queue,
    pub(crate) writes: Queue,
    pub(crate) threads: Vec<JoinHandle<()>>,
}

pub(crate) fn open(path: &Path, options: &Options) -> Result<Opened, Error> {
    let fail = |error: rusqlite::Error| Error::Open {
        path: path.display().to_string(),
        reason: error.to_string(),
    };
    let reads: Queue = Arc::new(ClassQueue::new());
    let writes: Queue = Arc::new(ClassQueue::new());
    let checkpoints = Arc::new(ClassQueue::<()>::new());
    let checkpoint_waits = Arc::new(AtomicBool::new(false));

    let mut writer = connect(path, options, true).map_err(fail)?;
    let log_pages = Arc::new(AtomicI64::new(0));
    let told = log_pages.clone();
    let hook = move |_: &mut rusqlite::hooks::Wal, pages: std::ffi::c_int| {
        told.store(i64::from(pages), Ordering::Relaxed);
        Ok(())
    };
    writer.wal_hook(Some(hook)).map_err(fail)?;
    let mut threads = Vec::new();
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    let mut writer = Writer {
        connection: writer,
        queue: writes.clone(),
        log: log.into(),
        log_pages,
        checkpoints: checkpoints.clone(),
        checkpoint_waits: checkpoint_waits.clone(),
    };
    threads.push(spawn("db-writer", move || writer.run())?);
    for number in 0..options.connections_max {
        let connection = connect(path, options, false).map_err(fail)?;
        let queue = reads.clone();
        threads.push(spawn(&format!("db-read-{number}"), move || read(&connection, &queue))?);
    }
    let connection = connect(path, options, true).map_err(fail)?;
    threads.push(spawn("db-checkpoint", move || {
        while checkpoints.pop().is_some() {
            checkpoint_waits.store(false, Ordering::Release);
            let done = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
            if let Err(error) = done {
                tracing::warn!(%error, "a checkpoint failed; the log grows until the next one");
            }
        }
    })?);
    Ok(Opened { reads, writes, threads })
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, Error> {
    std::thread::Builder::new()
        .name(name.into())
        .spawn(body)
        .map_err(|error| Error::Open { path: name.into(), reason: error.to_string() })
}

fn connect(path: &Path, options: &Options, writes: bool) -> rusqlite::Result<rusqlite::Connection> {
    let flags = OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_READ_WRITE;
    let connection = rusqlite::Connection::open_with_flags(path, flags)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    connection.busy_timeout(Duration::from_secs(10))?;
    let sync = if options.sync { "FULL" } else { "OFF" };
    let cache_kib = if writes { 16_384 } else { 4_096 };
    connection.execute_batch(&format!(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = {sync}; PRAGMA wal_autocheckpoint = 0;
         PRAGMA cache_size = -{cache_kib}; PRAGMA temp_store = MEMORY; PRAGMA foreign_keys = OFF;
         PRAGMA journal_size_limit = 67108864; PRAGMA query_only = {};",
        u8::from(!writes)
    ))?;
    Ok(connection)
}

struct Writer {
    connection: rusqlite::Connection,
    queue: Queue,
    log: PathBuf,
    /// Pages in the log after the last commit.
    log_pages: Arc<AtomicI64>,
    checkpoints: Arc<ClassQueue<()>>,
    checkpoint_waits: Arc<AtomicBool>,
}

impl Writer {
    fn run(&mut self) {
        while let Some(first) = self.queue.pop() {
            self.group(first);
            self.after_group();
        }
        self.checkpoints.close();
        let _ = self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
    }

    /// Runs units in one transaction, each in its savepoint, until the group is due; commits; then
    /// runs what follows and answers.
    fn group(&mut self, first: (Class, Box<dyn Work>)) {
        if let Err(error) = batch(&self.connection, "BEGIN IMMEDIATE") {
            first.1.fail(error.error);
            return;
        }
        let started = Instant::now();
        let mut done: Vec<(Box<dyn Work>, bool)> = Vec::new();
        let mut hooks: Vec<Hook> = Vec::new();
        let mut next = Some(first);
        while let Some((class, mut work)) = next {
            let committed = self.unit(class, &mut *work, &mut hooks);
            done.push((work, committed));
            let due = started.elapsed() >= GROUP_TIME_MAX || done.len() >= GROUP_UNITS_MAX;
            next = if due { None } else { self.queue.pop_unless_more_urgent_than(class) };
        }
        metrics::histogram!("weir_db_group_units").record(done.len() as f64);
        match batch(&self.connection, "COMMIT") {
            Ok(()) => {
                hooks.into_iter().for_each(|hook| hook());
                done.into_iter().for_each(|(work, _)| work.answer());
            }
            Err(failure) => {
                drop(hooks);
                let _ = self.connection.execute_batch("ROLLBACK");
                let error = &failure.error;
                tracing::warn!(%error, "a group commit failed; its units run alone");
                done.into_iter().for_each(|(work, _)| self.alone(work));
            }
        }
    }

    /// Runs one unit in a savepoint of the open group; true when it stays in the commit.
    fn unit(&self, class: Class, work: &mut dyn Work, hooks: &mut Vec<Hook>) -> bool {
        let started = Instant::now();
        if self.connection.execute_batch("SAVEPOINT unit").is_err() {
            return false;
        }
        let mut tx = Tx::new(Connection::Sqlite(&self.connection));
        let committed = work.run(&mut tx) && !tx.failed;
        let mut own = std::mem::take(&mut tx.hooks);
        let end = if committed { "RELEASE unit" } else { "ROLLBACK TO unit; RELEASE unit" };
        if let Err(error) = self.connection.execute_batch(end) {
            tracing::error!(%error, "a savepoint could not be ended");
        }
        if committed {
            hooks.append(&mut own);
        }
        measure(class, "write", started);
        committed
    }

    /// A unit of a group whose commit failed, in a transaction of its own.
    fn alone(&self, mut work: Box<dyn Work>) {
        if let Err(failure) = batch(&self.connection, "BEGIN IMMEDIATE") {
            return work.fail(failure.error);
        }
        let mut hooks = Vec::new();
        self.unit(Class::Interactive, &mut *work, &mut hooks);
        match batch(&self.connection, "COMMIT") {
            Ok(()) => {
                hooks.into_iter().for_each(|hook| hook());
                work.answer();
            }
            Err(failure) => {
                let _ = self.connection.execute_batch("ROLLBACK");
                work.fail(failure.error);
            }
        }
    }

    fn after_group(&self) {
        if self.log_pages.load(Ordering::Relaxed) < CHECKPOINT_PAGES {
            return;
        }
        if std::fs::metadata(&self.log).is_ok_and(|log| log.len() > LOG_BYTES_MAX) {
            let _ = self.connection.query_row("PRAGMA wal_checkpoint(RESTART)", [], |_| Ok(()));
            metrics::counter!("weir_db_log_cut_total").increment(1);
        } else if !self.checkpoint_waits.swap(true, Ordering::AcqRel) {
            let _ = self.checkpoints.push(Class::Housekeeping, ());
        }
    }
}

fn read(connection: &rusqlite::Connection, queue: &Queue) {
    while let Some((class, mut work)) = queue.pop() {
        let started = Instant::now();
        if let Err(failure) = batch(connection, "BEGIN") {
            work.fail(failure.error);
            continue;
        }
        let mut tx = Tx::new(Connection::Sqlite(connection));
        let committed = work.run(&mut tx);
        let hooks = std::mem::take(&mut tx.hooks);
        drop(tx);
        let _ = connection.execute_batch("COMMIT");
        if committed {
            hooks.into_iter().for_each(|hook| hook());
        }
        measure(class, "read", started);
        work.answer();
    }
}

fn measure(class: Class, kind: &'static str, started: Instant) {
    metrics::histogram!("weir_db_unit_seconds", "class" => class.name(), "kind" => kind)
        .record(started.elapsed().as_secs_f64());
}

pub(crate) fn batch(connection: &rusqlite::Connection, sql: &str) -> Result<(), Failure> {
    connection.execute_batch(sql).map_err(|error| failure(error, sql))
}

pub(crate) fn execute(
    connection: &rusqlite::Connection,
    sql: &str,
    params: &[Value<'_>],
) -> Result<u64, Failure> {
    let run = || -> rusqlite::Result<usize> {
        let mut statement = connection.prepare_cached(sql)?;
        // A statement that gives rows (RETURNING) may be executed for its effect too.
        if statement.column_count() > 0 {
            let mut rows = statement.query(rusqlite::params_from_iter(params))?;
            let mut count = 0;
            while rows.next()?.is_some() {
                count += 1;
            }
            return Ok(count);
        }
        statement.execute(rusqlite::params_from_iter(params))
    };
    run().map(|changed| changed as u64).map_err(|error| failure(error, sql))
}

pub(crate) fn query<T>(
    connection: &rusqlite::Connection,
    sql: &str,
    params: &[Value<'_>],
    map: &mut dyn FnMut(&Row<'_>) -> Result<T, Error>,
) -> Result<Vec<T>, Failure> {
    let fail = |error| failure(error, sql);
    let mut statement = connection.prepare_cached(sql).map_err(fail)?;
    let mut rows = statement.query(rusqlite::params_from_iter(params)).map_err(fail)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next().map_err(fail)? {
        found.push(map(&Row::Sqlite(row))?);
    }
    Ok(found)
}

fn failure(error: rusqlite::Error, sql: &str) -> Failure {
    let reason = error.to_string();
    let Some(code) = error.sqlite_error().copied() else {
        return Error::Statement { reason, sql: shortened(sql) }.into();
    };
    match code.code {
        ErrorCode::ConstraintViolation => Error::Unique(reason).into(),
        ErrorCode::DiskFull => Error::Full.into(),
        ErrorCode::SystemIoFailure | ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => {
            Error::Unavailable(reason).into()
        }
        _ => Error::Statement { reason, sql: shortened(sql) }.into(),
    }
}

/// The start of a statement, for an error message.
pub(crate) fn shortened(sql: &str) -> String {
    sql.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(300).collect()
}

impl rusqlite::ToSql for Value<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Int(int) => ValueRef::Integer(*int),
            Self::Real(real) => ValueRef::Real(*real),
            Self::Text(Cow::Borrowed(text)) => ValueRef::Text(text.as_bytes()),
            Self::Text(Cow::Owned(text)) => ValueRef::Text(text.as_bytes()),
            Self::Blob(blob) => ValueRef::Blob(blob),
        }))
    }
}
