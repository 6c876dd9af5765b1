//! A connection to PostgreSQL that is used by one thread, and never waited for without a limit.

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use futures_util::TryFutureExt as _;
use futures_util::future::try_join_all;
use tokio::runtime::Runtime;
use tokio::time::timeout;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, NoTls, Statement};

use super::ahead::{Ahead, after};
use super::courtesy::{Courtesy, Hold};
use super::tls::Tls;
use super::{Place, many, reason};
use crate::sqlite::shortened;
use crate::tx::{Failure, Mark, Question};
use crate::{Dialect, Error, Row, Value, column, dialect};

/// Prepared statements kept a connection; all are forgotten when there are more.
const STATEMENTS_MAX: usize = 500;
/// Statements that are sent before the first answer is waited for.
const SENT_AHEAD_MAX: usize = 256;
/// A list of at least so many becomes one statement.
const MANY_MIN: usize = 2;
/// Sets of parameters in one statement.
const MANY_MAX: usize = 1_000;
const NONE_AHEAD: Ahead = Ahead::new();
/// What the database has to be in, or in one that takes every byte as it comes.
const ENCODING: &str = "UTF8";
const NO_ENCODING: &str = "SQL_ASCII";
/// How long closing may take.
const CLOSE_TIME_MAX: Duration = Duration::from_secs(1);
/// After this much silence within a transaction the server ends it, so that a process that stands
/// still holds no locks for ever.
const IDLE_TIME_MAX: Duration = Duration::from_secs(60);

pub(crate) struct PgConnection {
    // Before the driver: that ends when the last of its clients is gone.
    client: Client,
    /// What goes with the next statement whose answer is waited for.
    ahead: Ahead,
    statements: HashMap<String, Statement>,
    /// Statements for a whole list, by the one that they stand for; none where there can't be one.
    many: HashMap<String, Option<Statement>>,
    driver: Driver,
    /// How long the server may take over a statement before it gives up by itself, and a half more.
    silence_time_max: Duration,
    /// Whether the unit may take as long as it needs.
    pub(super) is_patient: bool,
    /// Whether the server gave no answer in time: nothing is known of the connection.
    pub(super) is_silent: bool,
    /// Whether the server refused to write, to a unit that writes: it has become another's standby,
    /// and a new connection may find that other.
    pub(super) only_reads: bool,
    /// Whether the transaction may write.
    writes: bool,
}

/// What the server says against a statement: its place among those sent ahead, none of the last.
pub(super) type Said = (Option<usize>, tokio_postgres::Error);

/// Why there is no connection.
pub(super) struct Refusal {
    pub(super) reason: String,
    /// Whether the server was found and the reason names the remedy.
    pub(super) is_unfit: bool,
}

impl From<String> for Refusal {
    fn from(reason: String) -> Self {
        Self { reason, is_unfit: false }
    }
}

impl From<tokio_postgres::Error> for Refusal {
    fn from(error: tokio_postgres::Error) -> Self {
        let reason = reason(&error);
        match error.code() {
            Some(&SqlState::TOO_MANY_CONNECTIONS) => Self {
                reason: format!(
                    "{reason}; set `max_connections` under [database] to as many as PostgreSQL \
                     has left, or let it have more"
                ),
                is_unfit: true,
            },
            _ => reason.into(),
        }
    }
}

type Talk = Pin<Box<dyn Future<Output = Result<(), tokio_postgres::Error>> + Send>>;

/// What moves the bytes while somebody waits.
struct Driver {
    runtime: Runtime,
    talk: Option<Talk>,
    courtesy: Arc<Courtesy>,
    hold: Hold,
}

/// Why there is no answer.
enum Stop {
    /// The server or the connection says so, of the statement at this place among those sent
    /// ahead (none: of the last).
    Said(Option<usize>, tokio_postgres::Error),
    /// There was none in time.
    Silent,
}

impl Driver {
    fn wait<T>(
        &mut self,
        time_max: Option<Duration>,
        answer: impl Future<Output = Result<T, Said>>,
    ) -> Result<T, Stop> {
        self.courtesy.wait(&mut self.hold);
        let talk = &mut self.talk;
        self.runtime.block_on(async {
            let mut answer = pin!(answer);
            let answered = poll_fn(|cx| {
                if let Some(going) = talk.as_mut()
                    && let std::task::Poll::Ready(ended) = going.as_mut().poll(cx)
                {
                    *talk = None;
                    ended.map_err(|error| (None, error))?;
                }
                answer.as_mut().poll(cx)
            });
            match time_max {
                Some(time_max) => timeout(time_max, answered).await.map_err(|_| Stop::Silent)?,
                None => answered.await,
            }
            .map_err(|(at, error)| Stop::Said(at, error))
        })
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if let Some(talk) = self.talk.take() {
            let _ = self.runtime.block_on(async { timeout(CLOSE_TIME_MAX, talk).await });
        }
    }
}

impl PgConnection {
    pub(super) fn connect(place: &Place) -> Result<Self, Refusal> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| error.to_string())?;
        let connecting = connect(&place.config, place.tls.clone());
        let connected =
            runtime.block_on(async { timeout(place.connect_time_max, connecting).await });
        let (client, talk, encoding) = connected.map_err(|_| "it does not answer".to_owned())??;
        let mut connection = Self {
            client,
            ahead: Ahead::new(),
            statements: HashMap::new(),
            many: HashMap::new(),
            driver: Driver {
                runtime,
                talk: Some(talk),
                courtesy: place.courtesy.clone(),
                hold: Hold::new(false),
            },
            silence_time_max: place.statement_time_max * 3 / 2,
            is_patient: false,
            is_silent: false,
            only_reads: false,
            writes: false,
        };
        // Others hold only some of what people write, and refuse the rest as it comes.
        let unfit = encoding.filter(|encoding| encoding != ENCODING && encoding != NO_ENCODING);
        if let Some(encoding) = unfit {
            let reason = format!(
                "its encoding is {encoding}, not {ENCODING}; make one with `createdb --owner weir \
                 --encoding UTF8 --template template0 weir`"
            );
            return Err(Refusal { reason, is_unfit: true });
        }
        // A plan made while a table was empty, and kept with its statement, would read all of
        // the table while the connection lives. Where no index serves, it is read all the same.
        // Nor does a statement get more processes than this connection's: a plan for whatever
        // parameters expects many rows, and starting them takes longer than finding the few.
        connection
            .batch(&format!(
                "SET synchronous_commit = {}; SET client_min_messages = warning; SET jit = off; \
                 SET enable_seqscan = off; SET max_parallel_workers_per_gather = 0; \
                 SET statement_timeout = {}; SET idle_in_transaction_session_timeout = {}",
                if place.sync { "on" } else { "off" },
                place.statement_time_max.as_millis(),
                IDLE_TIME_MAX.as_millis(),
            ))
            .map_err(|failure| failure.error.to_string())?;
        Ok(connection)
    }

    /// A unit begins, which is held or not while units of people's run; until its transaction ends
    /// for the first time.
    pub(super) fn hold(&mut self, may_be_held: bool) {
        self.driver.hold = Hold::new(may_be_held);
    }

    /// What comes now is not held.
    pub(super) fn hold_no_more(&mut self) {
        self.driver.hold.end();
    }

    /// How long this unit was held so far: time that is nobody's work.
    pub(crate) fn held(&self) -> Duration {
        self.driver.hold.was()
    }

    fn time_max(&self) -> Option<Duration> {
        (!self.is_patient).then_some(self.silence_time_max)
    }

    /// Lifts the limit of time for this transaction.
    pub(crate) fn be_patient(&mut self) -> Result<(), Failure> {
        self.batch("SET LOCAL statement_timeout = 0")?;
        self.is_patient = true;
        Ok(())
    }

    pub(crate) fn batch(&mut self, sql: &str) -> Result<(), Failure> {
        let ahead = self.ahead.take();
        let answer = after(&self.client, &ahead, self.client.batch_execute(sql));
        let done = self.driver.wait(self.time_max(), answer);
        done.map_err(|stop| self.failure(stop, sql, &ahead))
    }

    /// Begins a transaction by `sql`, which goes with its first statement.
    pub(super) fn begin(&mut self, sql: &'static str, writes: bool) {
        self.writes = writes;
        self.ahead = Ahead::new();
        self.ahead.begin(sql);
    }

    /// Ends the transaction and undoes it. What waits to be sent never is.
    pub(super) fn roll_back(&mut self) -> Result<(), Failure> {
        match self.ahead.take().begins() {
            true => Ok(()),
            false => self.batch("ROLLBACK"),
        }
    }

    /// Begins or ends a savepoint. Its end is waited for where statements within it were not
    /// answered yet, for their failure is the savepoint's.
    pub(crate) fn mark(&mut self, mark: Mark) -> Result<(), Failure> {
        if mark == Mark::Undo && self.ahead.drop_savepoint() {
            return Ok(());
        }
        match mark.sql() {
            [sql] if !self.ahead.has_statements() => {
                self.ahead.mark(mark, sql);
                Ok(())
            }
            all => all.iter().try_for_each(|sql| self.batch(sql)),
        }
    }

    /// Runs a statement whose answer is not asked for: it is sent together with the next one whose
    /// answer is, and that tells of its failure.
    pub(crate) fn run(&mut self, sql: &str, params: &[Value<'_>]) -> Result<(), Failure> {
        let statement = self.prepared(sql)?;
        check(&statement, sql, params)?;
        self.ahead.statement(statement, sql, params);
        self.settle_full()
    }

    /// As [`run`](Self::run), for each of `list`; in one statement where that can be.
    pub(crate) fn run_all<'v, const N: usize>(
        &mut self,
        sql: &str,
        list: impl IntoIterator<Item = [Value<'v>; N]>,
    ) -> Result<(), Failure> {
        let list: Vec<[Value<'v>; N]> = list.into_iter().collect();
        match self.prepared_many(sql, list.len())? {
            Some(statement) => {
                for some in list.chunks(MANY_MAX) {
                    self.ahead.columns(statement.clone(), sql, some);
                    self.settle_full()?;
                }
            }
            None => {
                for params in &list {
                    self.run(sql, params)?;
                }
            }
        }
        Ok(())
    }

    /// Has what waits to be sent answered, when it is much.
    fn settle_full(&mut self) -> Result<(), Failure> {
        if self.ahead.is_full() { self.settle() } else { Ok(()) }
    }

    /// The same where nothing of the transaction was sent yet: a connection that is found broken
    /// now has done nothing, while one that breaks at a commit may have.
    pub(super) fn settle_first(&mut self) -> Result<(), Failure> {
        if self.ahead.begins() { self.settle() } else { Ok(()) }
    }

    fn settle(&mut self) -> Result<(), Failure> {
        let ahead = self.ahead.take();
        let answer = after(&self.client, &ahead, async { Ok(()) });
        let done = self.driver.wait(self.time_max(), answer);
        done.map_err(|stop| self.failure(stop, "", &ahead))
    }

    fn prepared(&mut self, sql: &str) -> Result<Statement, Failure> {
        if let Some(statement) = self.statements.get(sql) {
            return Ok(statement.clone());
        }
        let text = dialect::translate(Dialect::Postgres, sql);
        let answer = self.client.prepare(&text).map_err(|error| (None, error));
        let prepared = self.driver.wait(self.time_max(), answer);
        let statement = prepared.map_err(|stop| self.failure(stop, sql, &NONE_AHEAD))?;
        if self.statements.len() >= STATEMENTS_MAX {
            self.statements.clear();
        }
        self.statements.insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }

    pub(crate) fn execute(&mut self, sql: &str, params: &[Value<'_>]) -> Result<u64, Failure> {
        let statement = self.prepared(sql)?;
        let params = refs(params);
        let ahead = self.ahead.take();
        let answer = after(&self.client, &ahead, self.client.execute(&statement, &params));
        let done = self.driver.wait(self.time_max(), answer);
        done.map_err(|stop| self.failure(stop, sql, &ahead))
    }

    pub(crate) fn query<T>(
        &mut self,
        sql: &str,
        params: &[Value<'_>],
        map: &mut dyn FnMut(&Row<'_>) -> Result<T, Error>,
    ) -> Result<Vec<T>, Failure> {
        let statement = self.prepared(sql)?;
        let params = refs(params);
        let ahead = self.ahead.take();
        let answer = after(&self.client, &ahead, self.client.query(&statement, &params));
        let done = self.driver.wait(self.time_max(), answer);
        let rows = done.map_err(|stop| self.failure(stop, sql, &ahead))?;
        rows.iter().map(|row| map(&Row::Postgres(row)).map_err(Failure::from)).collect()
    }

    /// Sends all `questions` and then waits for their answers.
    pub(crate) fn query_together(&mut self, questions: &mut [Question<'_>]) -> Result<(), Failure> {
        let mut statements = Vec::with_capacity(questions.len());
        for question in questions.iter() {
            statements.push(self.prepared(&question.sql)?);
        }
        let params: Vec<_> = questions.iter().map(|question| refs(&question.params)).collect();
        let ahead = self.ahead.take();
        let answers =
            statements.iter().zip(&params).map(|(one, params)| self.client.query(one, params));
        let answer = after(&self.client, &ahead, try_join_all(answers));
        let done = self.driver.wait(self.time_max(), answer);
        let all = done.map_err(|stop| {
            let sql: Vec<&str> = questions.iter().map(|question| &*question.sql).collect();
            self.failure(stop, &sql.join("; "), &ahead)
        })?;
        for (rows, question) in all.iter().zip(questions) {
            for row in rows {
                (question.each)(&Row::Postgres(row))?;
            }
        }
        Ok(())
    }

    /// One statement for each of `list`, sent one after the other without waiting for answers
    /// between them: a process is woken twice for many, not twice for each.
    pub(crate) fn execute_each<'v, const N: usize>(
        &mut self,
        sql: &str,
        list: impl IntoIterator<Item = [Value<'v>; N]>,
    ) -> Result<Vec<bool>, Failure> {
        let list: Vec<[Value<'v>; N]> = list.into_iter().collect();
        if list.is_empty() {
            return Ok(Vec::new());
        }
        let statement = self.prepared(sql)?;
        let mut changed = Vec::with_capacity(list.len());
        for some in list.chunks(SENT_AHEAD_MAX) {
            let params: Vec<_> = some.iter().map(|params| refs(params)).collect();
            let ahead = self.ahead.take();
            let answers = params.iter().map(|params| self.client.execute(&statement, params));
            let answer = after(&self.client, &ahead, try_join_all(answers));
            let done = self.driver.wait(self.time_max(), answer);
            let counts = done.map_err(|stop| self.failure(stop, sql, &ahead))?;
            changed.extend(counts.into_iter().map(|count| count > 0));
        }
        Ok(changed)
    }

    /// As [`execute_each`](Self::execute_each), in one statement where that can be; tells how many
    /// rows it changed in all.
    pub(crate) fn execute_all<'v, const N: usize>(
        &mut self,
        sql: &str,
        list: impl IntoIterator<Item = [Value<'v>; N]>,
    ) -> Result<u64, Failure> {
        let list: Vec<[Value<'v>; N]> = list.into_iter().collect();
        let Some(statement) = self.prepared_many(sql, list.len())? else {
            let changed = self.execute_each(sql, list)?;
            return Ok(changed.into_iter().filter(|changed| *changed).count() as u64);
        };
        let mut count = 0;
        for some in list.chunks(MANY_MAX) {
            let columns = columns(some);
            let params = columns_refs(&columns);
            let ahead = self.ahead.take();
            let answer = after(&self.client, &ahead, self.client.execute(&statement, &params));
            let done = self.driver.wait(self.time_max(), answer);
            count += done.map_err(|stop| self.failure(stop, sql, &ahead))?;
        }
        Ok(count)
    }

    /// The statement that does what `sql` does for a list of `count`.
    fn prepared_many(&mut self, sql: &str, count: usize) -> Result<Option<Statement>, Failure> {
        if count < MANY_MIN {
            return Ok(None);
        }
        if let Some(statement) = self.many.get(sql) {
            return Ok(statement.clone());
        }
        let one = self.prepared(sql)?;
        let text = many::for_all(&dialect::translate(Dialect::Postgres, sql), one.params());
        let statement = match text {
            Some(text) => {
                let answer = self.client.prepare(&text).map_err(|error| (None, error));
                let prepared = self.driver.wait(self.time_max(), answer);
                Some(prepared.map_err(|stop| self.failure(stop, sql, &NONE_AHEAD))?)
            }
            None => None,
        };
        if self.many.len() >= STATEMENTS_MAX {
            self.many.clear();
        }
        self.many.insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }

    /// As [`execute_all`](Self::execute_all), of queries: every row in the order of `list`.
    pub(crate) fn query_each<'v, const N: usize>(
        &mut self,
        sql: &str,
        list: impl IntoIterator<Item = [Value<'v>; N]>,
        each: &mut dyn FnMut(&Row<'_>) -> Result<(), Error>,
    ) -> Result<(), Failure> {
        let list: Vec<[Value<'v>; N]> = list.into_iter().collect();
        if list.is_empty() {
            return Ok(());
        }
        if let Some(statement) = self.prepared_many(sql, list.len())? {
            for some in list.chunks(MANY_MAX) {
                let columns = columns(some);
                let params = columns_refs(&columns);
                let ahead = self.ahead.take();
                let answer = after(&self.client, &ahead, self.client.query(&statement, &params));
                let done = self.driver.wait(self.time_max(), answer);
                for row in done.map_err(|stop| self.failure(stop, sql, &ahead))? {
                    each(&Row::Postgres(&row))?;
                }
            }
            return Ok(());
        }
        let statement = self.prepared(sql)?;
        for some in list.chunks(SENT_AHEAD_MAX) {
            let params: Vec<_> = some.iter().map(|params| refs(params)).collect();
            let ahead = self.ahead.take();
            let answers = params.iter().map(|params| self.client.query(&statement, params));
            let answer = after(&self.client, &ahead, try_join_all(answers));
            let done = self.driver.wait(self.time_max(), answer);
            let answers = done.map_err(|stop| self.failure(stop, sql, &ahead))?;
            for row in answers.iter().flatten() {
                each(&Row::Postgres(row))?;
            }
        }
        Ok(())
    }

    fn failure(&mut self, stop: Stop, sql: &str, ahead: &Ahead) -> Failure {
        match stop {
            Stop::Said(_, error)
                if self.writes && error.code() == Some(&SqlState::READ_ONLY_SQL_TRANSACTION) =>
            {
                self.only_reads = true;
                let reason = reason(&error);
                let remedy = "database.url has to name the server that writes";
                Error::Unavailable(format!("it only reads; {remedy}: {reason}")).into()
            }
            Stop::Said(at, error) => failure(error, at.map_or(sql, |at| ahead.sql(at))),
            Stop::Silent => {
                self.is_silent = true;
                metrics::counter!("weir_db_silences_total").increment(1);
                let most_s = self.silence_time_max.as_secs();
                Error::Unavailable(format!("it said nothing for {most_s} s")).into()
            }
        }
    }
}

/// A connection, and the encoding of its database, where the server tells.
async fn connect(
    config: &tokio_postgres::Config,
    tls: Option<Tls>,
) -> Result<(Client, Talk, Option<String>), tokio_postgres::Error> {
    const NAME: &str = "server_encoding";
    Ok(match tls {
        Some(tls) => {
            let (client, connection) = config.connect(tls).await?;
            let encoding = connection.parameter(NAME).map(str::to_owned);
            (client, Box::pin(connection), encoding)
        }
        None => {
            let (client, connection) = config.connect(NoTls).await?;
            let encoding = connection.parameter(NAME).map(str::to_owned);
            (client, Box::pin(connection), encoding)
        }
    })
}

/// What could not be sent is refused before it waits for others: these would go without it, and be
/// committed.
fn check(statement: &Statement, sql: &str, params: &[Value<'_>]) -> Result<(), Failure> {
    let kinds = statement.params();
    let misfits = kinds.iter().zip(params).find(|(kind, value)| !value.fits(kind));
    let reason = match misfits {
        Some((kind, _)) => column::misfit(kind),
        None if kinds.len() == params.len() => return Ok(()),
        None => format!("it has {} parameters, not {}", kinds.len(), params.len()),
    };
    Err(Error::Statement { reason, sql: shortened(sql) }.into())
}

/// The parameters of many, as arrays.
fn columns<'l, 'v, const N: usize>(list: &'l [[Value<'v>; N]]) -> [Vec<&'l Value<'v>>; N] {
    std::array::from_fn(|at| list.iter().map(|params| &params[at]).collect())
}

fn columns_refs<'c, 'l, 'v, const N: usize>(
    columns: &'c [Vec<&'l Value<'v>>; N],
) -> Vec<&'c (dyn ToSql + Sync)> {
    columns.iter().map(|column| column as &(dyn ToSql + Sync)).collect()
}

fn refs<'v>(params: &'v [Value<'v>]) -> Vec<&'v (dyn ToSql + Sync)> {
    params.iter().map(|value| value as &(dyn ToSql + Sync)).collect()
}

fn failure(error: tokio_postgres::Error, sql: &str) -> Failure {
    let text = reason(&error);
    let Some(code) = error.code() else {
        if error.is_closed()
            || std::error::Error::source(&error).is_some_and(|source| source.is::<std::io::Error>())
        {
            return Failure { error: Error::Unavailable(text), conflict: false, broken: true };
        }
        return Error::Statement { reason: text, sql: shortened(sql) }.into();
    };
    match *code {
        SqlState::T_R_SERIALIZATION_FAILURE | SqlState::T_R_DEADLOCK_DETECTED => {
            Failure { error: Error::Contended, conflict: true, broken: false }
        }
        SqlState::UNIQUE_VIOLATION => Error::Unique(text).into(),
        SqlState::CHECK_VIOLATION
        | SqlState::NOT_NULL_VIOLATION
        | SqlState::FOREIGN_KEY_VIOLATION
        | SqlState::EXCLUSION_VIOLATION => Error::Constraint(text).into(),
        SqlState::DISK_FULL => Error::Full.into(),
        SqlState::INSUFFICIENT_PRIVILEGE => Error::Forbidden(text).into(),
        SqlState::QUERY_CANCELED => {
            metrics::counter!("weir_db_statements_stopped_total").increment(1);
            Error::Slow(shortened(sql)).into()
        }
        SqlState::ADMIN_SHUTDOWN
        | SqlState::CRASH_SHUTDOWN
        | SqlState::CANNOT_CONNECT_NOW
        | SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT => {
            Failure { error: Error::Unavailable(text), conflict: false, broken: true }
        }
        // A table was changed since the statement was prepared; a new connection knows nothing old.
        SqlState::FEATURE_NOT_SUPPORTED if text.contains("cached plan") => {
            Failure { error: Error::Unavailable(text), conflict: false, broken: true }
        }
        _ => Error::Statement { reason: text, sql: shortened(sql) }.into(),
    }
}
