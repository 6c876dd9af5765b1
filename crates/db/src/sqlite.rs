//! SQLite: its threads, connections, statements and errors.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{ErrorCode, OpenFlags, ffi};
use weir_base::Turns;

use crate::log::{Log, Snapshot};
use crate::meters::Meters;
use crate::queue::ClassQueue;
use crate::synced::{Disk, GROUPS_MAX, Progress, Seen};
use crate::tx::{Connection, Failure};
use crate::unit::Work;
use crate::writer::Writer;
use crate::{Error, Options, Row, Tx, Value, dialect, frames, hooks};

/// Prepared statements kept a connection.
const STATEMENTS_MAX: usize = 400;
/// How long a statement waits for another process, such as a command line.
pub(crate) const BUSY_WAIT: Duration = Duration::from_secs(10);

pub(crate) type Queue = Arc<ClassQueue<Box<dyn Work>>>;

pub(crate) struct Opened {
    pub(crate) reads: Queue,
    pub(crate) writes: Queue,
    pub(crate) log: Arc<Log>,
    /// The writer and its follower are the last.
    pub(crate) threads: Vec<JoinHandle<()>>,
}

/// What a thread runs.
type Body = Box<dyn FnOnce() + Send>;

pub(crate) fn open(path: &Path, options: &Options) -> Result<Opened, Error> {
    let fail = |reason: String| Error::Open { path: path.display().to_string(), reason };
    let refused = |error: rusqlite::Error| fail(error.to_string());
    private_file(path).map_err(|error| fail(error.to_string()))?;
    let reads: Queue = Arc::new(ClassQueue::new(options.connections_max, "read"));
    let writes: Queue = Arc::new(ClassQueue::new(1, "write"));

    let mut writer = connect(path, options, true).map_err(refused)?;
    let checkpoints = connect(path, options, true).map_err(refused)?;
    let mut readers = Vec::new();
    for _ in 0..options.connections_max {
        readers.push(connect(path, options, false).map_err(refused)?);
    }
    let snapshots: Vec<Arc<Snapshot>> =
        readers.iter().map(|reader| Arc::new(Snapshot::new(reader))).collect();
    let (failed, progress) = (Arc::new(AtomicBool::new(false)), Arc::new(Progress::default()));
    let (sync, bytes_max) = (options.sync, options.log_bytes_max);
    let log = Log::new(path, sync, failed.clone(), snapshots.clone(), bytes_max);
    let log = Arc::new(log.map_err(|error| fail(error.to_string()))?);
    log.follow(&mut writer).map_err(refused)?;

    let disk = Disk::new(path, options.sync, failed.clone(), progress.clone());
    let disk = Arc::new(disk);
    let group_time_max = options.group_time_max;
    let (committed, follow) = sync_channel(GROUPS_MAX);
    let mut writer = Writer::new(
        writer,
        writes.clone(),
        log.clone(),
        group_time_max,
        committed,
        progress.clone(),
        disk.clone(),
        failed,
    );
    let (beside, held) = (log.clone(), writes.clone());
    let mut bodies: Vec<(String, Turns, Body)> = vec![(
        "db-checkpoint".into(),
        Turns::Usual,
        Box::new(move || beside.run_checkpoints(&checkpoints, &held)),
    )];
    for (number, (connection, snapshot)) in readers.into_iter().zip(snapshots).enumerate() {
        let (queue, log, progress) = (reads.clone(), log.clone(), progress.clone());
        let body = move || read_units(&connection, &queue, &log, &snapshot, &progress);
        bodies.push((format!("db-read-{number}"), Turns::Short, Box::new(body)));
    }
    bodies.push(("db-writer".into(), Turns::Short, Box::new(move || writer.run())));
    bodies.push(("db-sync".into(), Turns::Short, Box::new(move || disk.run(&follow))));
    let mut threads = Vec::new();
    for (name, turns, body) in bodies {
        let thread = std::thread::Builder::new().name(name);
        let started = thread.spawn(move || {
            turns.take();
            body();
        });
        match started {
            Ok(thread) => threads.push(thread),
            Err(error) => {
                reads.close();
                writes.close();
                log.close();
                return Err(fail(error.to_string()));
            }
        }
    }
    Ok(Opened { reads, writes, log, threads })
}

/// Makes a new database readable by its owner only; the files beside it inherit that.
fn private_file(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    std::fs::OpenOptions::new().create(true).append(true).mode(0o600).open(path).map(|_| ())
}

fn connect(path: &Path, options: &Options, writes: bool) -> rusqlite::Result<rusqlite::Connection> {
    let flags = OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_READ_WRITE;
    let connection = match frames::name() {
        Some(name) => rusqlite::Connection::open_with_flags_and_vfs(path, flags, name)?,
        None => rusqlite::Connection::open_with_flags(path, flags)?,
    };
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    // Else a statement whose plan could profit from a parameter's value is planned again whenever
    // that value changes: at each use. Conditions of partial indexes are written out in the SQL.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.busy_timeout(BUSY_WAIT)?;
    // Commits wait for the disk beside the writer; see `synced`.
    let sync = if options.sync { "NORMAL" } else { "OFF" };
    let cache_kib = if writes { 16_384 } else { 4_096 };
    // A log that begins again is made shorter by its first commit, which takes dozens of ms: only
    // where it grew beyond what is usual, mostly because of readers.
    let kept_bytes = options.log_bytes_max.saturating_mul(2);
    connection.execute_batch(&format!(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = {sync}; PRAGMA wal_autocheckpoint = 0;
         PRAGMA cache_size = -{cache_kib}; PRAGMA temp_store = MEMORY; PRAGMA foreign_keys = ON;
         PRAGMA journal_size_limit = {kept_bytes}; PRAGMA query_only = {};",
        u8::from(!writes)
    ))?;
    Ok(connection)
}

/// Runs units that only read, one after the other, each on a snapshot of its own.
fn read_units(
    connection: &rusqlite::Connection,
    queue: &Queue,
    log: &Log,
    snapshot: &Snapshot,
    progress: &Progress,
) {
    let meters = Meters::new("read");
    let mut done = None;
    while let Some((turn, mut work)) = queue.pop(done.take()) {
        let started = Instant::now();
        if work.is_wanted() {
            let (hooks, groups) = read_unit(connection, &mut *work, log, snapshot, progress);
            meters.unit(turn.class, started.elapsed(), queue.len());
            progress.answer(Seen { work, hooks, groups });
        }
        done = Some((turn, started.elapsed()));
    }
}

/// Runs one; what is to be done after it, and how many groups it may have seen.
fn read_unit(
    connection: &rusqlite::Connection,
    work: &mut dyn Work,
    log: &Log,
    snapshot: &Snapshot,
    progress: &Progress,
) -> (Vec<hooks::Hook>, u64) {
    log.begin(snapshot);
    let begun = begin_to_read(connection);
    let groups = progress.committed();
    if let Err(failure) = begun {
        snapshot.end();
        work.spoil(failure.error);
        return (Vec::new(), groups);
    }
    let mut tx = Tx::cancellable(Connection::Sqlite(connection), snapshot.cancelled());
    let mut hooks = if work.run(&mut tx) { std::mem::take(&mut tx.hooks) } else { Vec::new() };
    drop(tx);
    snapshot.end();
    if begin(connection, "COMMIT").is_err() && begin(connection, "ROLLBACK").is_err() {
        tracing::error!("a read transaction could not be ended");
        hooks.clear();
    }
    (hooks, groups)
}

/// Begins a transaction that reads, and takes its snapshot: SQLite does that when it first reads.
fn begin_to_read(connection: &rusqlite::Connection) -> Result<(), Failure> {
    const READ: &str = "SELECT 1 FROM sqlite_schema LIMIT 1";
    begin(connection, "BEGIN")?;
    let read = connection.prepare_cached(READ).and_then(|mut statement| statement.exists([]));
    read.map(|_| ()).map_err(|error| {
        // The unit is told of this error. Where the transaction does not end, the next one is told.
        let _ = begin(connection, "ROLLBACK");
        failure(error, READ)
    })
}

/// Runs a statement that begins or ends something, prepared once.
pub(crate) fn begin(connection: &rusqlite::Connection, sql: &'static str) -> Result<(), Failure> {
    let run = || connection.prepare_cached(sql)?.execute([]);
    run().map(|_| ()).map_err(|error| failure(error, sql))
}

pub(crate) fn batch(connection: &rusqlite::Connection, sql: &str) -> Result<(), Failure> {
    connection.execute_batch(sql).map_err(|error| failure(error, sql))
}

pub(crate) fn execute(
    connection: &rusqlite::Connection,
    sql: &str,
    params: &[Value<'_>],
) -> Result<u64, Failure> {
    let sql = &*dialect::translate(crate::Dialect::Sqlite, sql);
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

/// Runs a statement once for each of `list`, and tells `each` how many rows it changed. What is
/// the same as the time before is not bound again.
pub(crate) fn execute_each<'v, const N: usize>(
    connection: &rusqlite::Connection,
    sql: &str,
    list: impl IntoIterator<Item = [Value<'v>; N]>,
    mut each: impl FnMut(usize),
) -> Result<(), Failure> {
    let sql = &*dialect::translate(crate::Dialect::Sqlite, sql);
    let fail = |error| failure(error, sql);
    let mut statement = connection.prepare_cached(sql).map_err(fail)?;
    let mut bound: Option<[Value<'v>; N]> = None;
    for params in list {
        match &bound {
            // The first time it is seen that the statement has as many.
            None => bind_all(&mut statement, &params).map_err(fail)?,
            Some(bound) => {
                for (at, (value, before)) in params.iter().zip(bound).enumerate() {
                    if value != before {
                        statement.raw_bind_parameter(at + 1, value).map_err(fail)?;
                    }
                }
            }
        }
        each(statement.raw_execute().map_err(fail)?);
        bound = Some(params);
    }
    Ok(())
}

fn bind_all(statement: &mut rusqlite::Statement<'_>, params: &[Value<'_>]) -> rusqlite::Result<()> {
    let expected = statement.parameter_count();
    if params.len() != expected {
        return Err(rusqlite::Error::InvalidParameterCount(params.len(), expected));
    }
    let mut all = params.iter().enumerate();
    all.try_for_each(|(at, value)| statement.raw_bind_parameter(at + 1, value))
}

pub(crate) fn query_each<'v, const N: usize>(
    connection: &rusqlite::Connection,
    sql: &str,
    list: impl IntoIterator<Item = [Value<'v>; N]>,
    each: &mut dyn FnMut(&Row<'_>) -> Result<(), Error>,
) -> Result<(), Failure> {
    let sql = &*dialect::translate(crate::Dialect::Sqlite, sql);
    let fail = |error| failure(error, sql);
    let mut statement = connection.prepare_cached(sql).map_err(fail)?;
    for params in list {
        let mut rows = statement.query(rusqlite::params_from_iter(params)).map_err(fail)?;
        while let Some(row) = rows.next().map_err(fail)? {
            each(&Row::Sqlite(row))?;
        }
    }
    Ok(())
}

pub(crate) fn query<T>(
    connection: &rusqlite::Connection,
    sql: &str,
    params: &[Value<'_>],
    map: &mut dyn FnMut(&Row<'_>) -> Result<T, Error>,
) -> Result<Vec<T>, Failure> {
    let sql = &*dialect::translate(crate::Dialect::Sqlite, sql);
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
    match (code.code, code.extended_code) {
        (
            ErrorCode::ConstraintViolation,
            ffi::SQLITE_CONSTRAINT_UNIQUE
            | ffi::SQLITE_CONSTRAINT_PRIMARYKEY
            | ffi::SQLITE_CONSTRAINT_ROWID,
        ) => Error::Unique(reason),
        (ErrorCode::ConstraintViolation, _) => Error::Constraint(reason),
        // The index of the log lies in a file too, which is grown before it is used.
        (ErrorCode::DiskFull, _) | (_, ffi::SQLITE_IOERR_SHMSIZE) => Error::Full,
        (ErrorCode::OperationInterrupted, _) => Error::TooLong,
        (ErrorCode::SystemIoFailure | ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked, _) => {
            Error::Unavailable(reason)
        }
        _ => Error::Statement { reason, sql: shortened(sql) },
    }
    .into()
}

/// The start of a statement, for an error message.
pub(crate) fn shortened(sql: &str) -> String {
    sql.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(300).collect()
}

/// A list as `json_each` reads it.
fn json<T: serde::Serialize>(list: &[T]) -> ToSqlOutput<'static> {
    // Lists of numbers and of texts can be said in JSON.
    ToSqlOutput::from(serde_json::to_string(list).unwrap_or_default())
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
            Self::Ids(list) => return Ok(json(list)),
            Self::Texts(list) => return Ok(json(list)),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unit::{Kind, Unit};

    #[test]
    fn a_unit_reads_what_was_there_when_it_began_and_may_have_seen_no_other_group() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("weir.db");
        let writer = connect(&path, &Options::default(), true).unwrap();
        writer.execute_batch("CREATE TABLE marks (id INTEGER PRIMARY KEY)").unwrap();
        let reader = connect(&path, &Options::default(), false).unwrap();
        let log = Log::new(&path, false, Arc::default(), Vec::new(), 1).unwrap();
        let snapshot = Snapshot::new(&reader);
        let progress = Arc::new(Progress::default());
        progress.begin();
        let meanwhile = progress.clone();
        let body = move |tx: &mut Tx| {
            meanwhile.begin();
            writer.execute_batch("INSERT INTO marks DEFAULT VALUES").unwrap();
            tx.query_one("SELECT count(*) FROM marks", &[], |row| row.get::<i64>(0))
        };
        let (mut work, mut answer) = Unit::boxed(body, Kind::Read);
        let (_, groups) = read_unit(&reader, &mut *work, &log, &snapshot, &progress);
        assert_eq!((groups, progress.committed()), (1, 2));
        work.answer();
        assert_eq!(answer.try_recv().unwrap().unwrap(), 0);
    }
}
