//! PostgreSQL: a thread a connection; their number is the budget.

use std::collections::HashMap;
use std::error::Error as _;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ::postgres::error::SqlState;
use ::postgres::types::{IsNull, ToSql, Type, private::BytesMut, to_sql_checked};
use ::postgres::{Client, NoTls, Statement};

use crate::queue::ClassQueue;
use crate::tx::{Connection, Failure};
use crate::unit::Work;
use crate::{Error, Options, Row, Tx, Value, sqlite};

/// How often a unit is repeated that met others.
const REPEATS_MAX: u32 = 40;
/// How often a unit is repeated whose connection broke before its commit.
const RECONNECTS_MAX: u32 = 3;
/// Prepared statements kept a connection; all are forgotten when there are more.
const STATEMENTS_MAX: usize = 500;

type Queue = Arc<ClassQueue<Box<dyn Work>>>;

pub(crate) fn open(url: &str, options: &Options) -> Result<(Queue, Vec<JoinHandle<()>>), Error> {
    let queue: Queue = Arc::new(ClassQueue::new());
    let config: ::postgres::Config = url.parse().map_err(|error: ::postgres::Error| {
        Error::Open { path: "database.url".into(), reason: error.to_string() }
    })?;
    let place = format!("{:?} {}", config.get_hosts(), config.get_dbname().unwrap_or_default());
    let mut threads = Vec::new();
    // Each thread makes its own connection: the driver may not block the caller's thread, which
    // may run asynchronous code.
    let (tell, told) = std::sync::mpsc::channel();
    for number in 0..options.connections_max {
        let mut server = Server {
            config: config.clone(),
            sync: options.sync,
            connection: None,
            queue: queue.clone(),
        };
        let tell = tell.clone();
        let body = move || {
            let first = server.connect();
            let refused = first.is_err();
            let _ = tell.send(first);
            drop(tell);
            if !refused {
                server.run();
            }
        };
        let thread = std::thread::Builder::new()
            .name(format!("db-{number}"))
            .spawn(body)
            .map_err(|error| Error::Open { path: place.clone(), reason: error.to_string() });
        match thread {
            Ok(thread) => threads.push(thread),
            Err(error) => {
                queue.close();
                return Err(error);
            }
        }
    }
    drop(tell);
    for first in told {
        if let Err(reason) = first {
            queue.close();
            return Err(Error::Open { path: place, reason });
        }
    }
    Ok((queue, threads))
}

pub(crate) struct PgConnection {
    client: Client,
    statements: HashMap<String, Statement>,
}

struct Server {
    config: ::postgres::Config,
    sync: bool,
    connection: Option<PgConnection>,
    queue: Queue,
}

/// How one run of a unit ended.
enum End {
    Answer,
    Repeat,
    Reconnect,
    Fail(Error),
}

impl Server {
    fn connect(&mut self) -> Result<(), String> {
        self.connection = Some(PgConnection::connect(&self.config, self.sync)?);
        Ok(())
    }

    fn run(&mut self) {
        while let Some((class, work)) = self.queue.pop() {
            let kind = if work.reads_only() { "read" } else { "write" };
            let started = Instant::now();
            self.unit(work);
            metrics::histogram!("weir_db_unit_seconds", "class" => class.name(), "kind" => kind)
                .record(started.elapsed().as_secs_f64());
        }
    }

    fn unit(&mut self, mut work: Box<dyn Work>) {
        let (mut repeats, mut reconnects) = (0, 0);
        loop {
            if self.connection.is_none() {
                match self.connect() {
                    Ok(()) => {}
                    Err(reason) if reconnects >= RECONNECTS_MAX => {
                        return work.fail(Error::Unavailable(reason));
                    }
                    Err(_) => {
                        reconnects += 1;
                        std::thread::sleep(Duration::from_millis(100 << reconnects));
                        continue;
                    }
                }
            }
            let Some(connection) = self.connection.as_mut() else { continue };
            match attempt(connection, &mut *work) {
                End::Answer => return work.answer(),
                End::Fail(error) => {
                    if matches!(error, Error::Unavailable(_)) {
                        self.connection = None;
                    }
                    return work.fail(error);
                }
                End::Repeat if repeats < REPEATS_MAX => {
                    repeats += 1;
                    metrics::counter!("weir_db_repeats_total").increment(1);
                    back_off(repeats);
                }
                End::Repeat => return work.fail(Error::Contended),
                End::Reconnect => {
                    self.connection = None;
                    reconnects += 1;
                    if reconnects > RECONNECTS_MAX {
                        return work.fail(Error::Unavailable("the connection broke".into()));
                    }
                }
            }
        }
    }
}

/// Waits a little longer after each repeat, by chance, so that those who met do not meet again.
fn back_off(repeats: u32) {
    let most_us = 200_u64 << repeats.min(8);
    std::thread::sleep(Duration::from_micros(weir_base::Random::system().below(most_us)));
}

fn attempt(connection: &mut PgConnection, work: &mut dyn Work) -> End {
    let begin = if work.reads_only() {
        "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
    } else {
        "BEGIN ISOLATION LEVEL REPEATABLE READ"
    };
    if let Err(failure) = connection.batch(begin) {
        return if failure.broken { End::Reconnect } else { End::Fail(failure.error) };
    }
    let mut tx = Tx::new(Connection::Postgres(connection));
    let committed = work.run(&mut tx) && !tx.failed;
    let (conflict, broken) = (tx.conflict, tx.broken);
    let hooks = std::mem::take(&mut tx.hooks);
    drop(tx);
    if broken {
        return End::Reconnect;
    }
    if !committed || conflict {
        let undone = connection.batch("ROLLBACK");
        return match undone {
            Err(failure) if failure.broken => End::Reconnect,
            _ if conflict => End::Repeat,
            _ => End::Answer,
        };
    }
    match connection.batch("COMMIT") {
        Ok(()) => {
            hooks.into_iter().for_each(|hook| hook());
            End::Answer
        }
        Err(failure) if failure.conflict => End::Repeat,
        // Whether the commit reached the disk is unknown: only who asked can look.
        Err(failure) => End::Fail(failure.error),
    }
}

impl PgConnection {
    fn connect(config: &::postgres::Config, sync: bool) -> Result<Self, String> {
        let mut client = config.connect(NoTls).map_err(|error| reason(&error))?;
        let sync = if sync { "on" } else { "off" };
        client
            .batch_execute(&format!(
                "SET synchronous_commit = {sync}; SET client_min_messages = warning"
            ))
            .map_err(|error| reason(&error))?;
        Ok(Self { client, statements: HashMap::new() })
    }

    pub(crate) fn batch(&mut self, sql: &str) -> Result<(), Failure> {
        self.client.batch_execute(sql).map_err(|error| failure(error, sql))
    }

    fn prepared(&mut self, sql: &str) -> Result<Statement, Failure> {
        if let Some(statement) = self.statements.get(sql) {
            return Ok(statement.clone());
        }
        let statement = self.client.prepare(sql).map_err(|error| failure(error, sql))?;
        if self.statements.len() >= STATEMENTS_MAX {
            self.statements.clear();
        }
        self.statements.insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }

    pub(crate) fn execute(&mut self, sql: &str, params: &[Value<'_>]) -> Result<u64, Failure> {
        if params.is_empty() && sql.contains("SAVEPOINT") {
            return self.batch(sql).map(|()| 0);
        }
        let statement = self.prepared(sql)?;
        let params = refs(params);
        self.client.execute(&statement, &params).map_err(|error| failure(error, sql))
    }

    pub(crate) fn query<T>(
        &mut self,
        sql: &str,
        params: &[Value<'_>],
        map: &mut dyn FnMut(&Row<'_>) -> Result<T, Error>,
    ) -> Result<Vec<T>, Failure> {
        let statement = self.prepared(sql)?;
        let params = refs(params);
        let rows = self.client.query(&statement, &params).map_err(|error| failure(error, sql))?;
        rows.iter().map(|row| map(&Row::Postgres(row)).map_err(Failure::from)).collect()
    }
}

fn refs<'v>(params: &'v [Value<'v>]) -> Vec<&'v (dyn ToSql + Sync)> {
    params.iter().map(|value| value as &(dyn ToSql + Sync)).collect()
}

fn reason(error: &::postgres::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

fn failure(error: ::postgres::Error, sql: &str) -> Failure {
    let text = reason(&error);
    let Some(code) = error.code() else {
        if error.is_closed() || error.source().is_some_and(|source| source.is::<std::io::Error>()) {
            return Failure { error: Error::Unavailable(text), conflict: false, broken: true };
        }
        return Error::Statement { reason: text, sql: sqlite::shortened(sql) }.into();
    };
    match *code {
        SqlState::T_R_SERIALIZATION_FAILURE | SqlState::T_R_DEADLOCK_DETECTED => {
            Failure { error: Error::Contended, conflict: true, broken: false }
        }
        // A row that a transaction after this one's snapshot inserted: seen by the index only.
        // Repeated, the unit sees the row; it is the caller's own doing if it still stands there.
        SqlState::UNIQUE_VIOLATION => Error::Unique(text).into(),
        SqlState::DISK_FULL => Error::Full.into(),
        SqlState::ADMIN_SHUTDOWN | SqlState::CRASH_SHUTDOWN | SqlState::CANNOT_CONNECT_NOW => {
            Failure { error: Error::Unavailable(text), conflict: false, broken: true }
        }
        _ => Error::Statement { reason: text, sql: sqlite::shortened(sql) }.into(),
    }
}

impl ToSql for Value<'_> {
    fn to_sql(
        &self,
        kind: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match self {
            Self::Null => Ok(IsNull::Yes),
            Self::Int(int) => match *kind {
                Type::INT4 => i32::try_from(*int)?.to_sql(kind, out),
                Type::INT2 => i16::try_from(*int)?.to_sql(kind, out),
                Type::FLOAT8 => (*int as f64).to_sql(kind, out),
                Type::BOOL => (*int != 0).to_sql(kind, out),
                Type::TEXT | Type::VARCHAR => int.to_string().to_sql(kind, out),
                _ => int.to_sql(kind, out),
            },
            Self::Real(real) => real.to_sql(kind, out),
            Self::Text(text) => text.to_sql(kind, out),
            Self::Blob(blob) => blob.as_ref().to_sql(kind, out),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

pub(crate) fn int(row: &::postgres::Row, at: usize) -> Result<Option<i64>, Error> {
    let wrong = |_| Error::Column { column: at, expected: "BIGINT" };
    match row.columns().get(at).map(::postgres::Column::type_) {
        Some(&Type::INT4) => row.try_get::<_, Option<i32>>(at).map(|int| int.map(i64::from)),
        Some(&Type::INT2) => row.try_get::<_, Option<i16>>(at).map(|int| int.map(i64::from)),
        Some(&Type::BOOL) => row.try_get::<_, Option<bool>>(at).map(|flag| flag.map(i64::from)),
        _ => row.try_get(at),
    }
    .map_err(wrong)
}

pub(crate) fn real(row: &::postgres::Row, at: usize) -> Result<Option<f64>, Error> {
    let wrong = |_| Error::Column { column: at, expected: "DOUBLE PRECISION" };
    match row.columns().get(at).map(::postgres::Column::type_) {
        Some(&Type::FLOAT4) => row.try_get::<_, Option<f32>>(at).map(|real| real.map(f64::from)),
        _ => row.try_get(at),
    }
    .map_err(wrong)
}

pub(crate) fn is_null(row: &::postgres::Row, at: usize) -> Result<bool, Error> {
    struct Null;
    impl ::postgres::types::FromSql<'_> for Null {
        fn from_sql(_: &Type, _: &[u8]) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
            Ok(Self)
        }
        fn accepts(_: &Type) -> bool {
            true
        }
    }
    row.try_get::<_, Option<Null>>(at)
        .map(|value| value.is_none())
        .map_err(|_| Error::Column { column: at, expected: "a column" })
}
