//! The transaction that a unit of work sees.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::hooks::Hook;
use crate::postgres::PgConnection;
use crate::{Dialect, Error, FromColumn, Record, Value, column, sqlite};

/// An open transaction.
pub struct Tx<'c> {
    pub(crate) connection: Connection<'c>,
    pub(crate) hooks: Vec<Hook>,
    pub(crate) started: Instant,
    /// How long the unit had been held by then.
    held_before: Duration,
    /// A statement failed: only a rollback helps.
    pub(crate) failed: bool,
    /// The failure was a meeting with others: the unit is worth repeating.
    pub(crate) conflict: bool,
    /// The failure was a row that is unique, which may stand there only since the snapshot.
    pub(crate) unique: bool,
    /// The connection broke.
    pub(crate) broken: bool,
    /// It changed more than rows.
    pub(crate) changed_schema: bool,
    statements: usize,
    /// Set by others when this unit holds up the log.
    cancelled: Option<&'c AtomicBool>,
}

pub(crate) enum Connection<'c> {
    Sqlite(&'c rusqlite::Connection),
    Postgres(&'c mut PgConnection),
}

/// What is done with a savepoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    /// It begins.
    Set,
    /// It ends, and what was done since stays.
    Keep,
    /// It ends, and what was done since is undone.
    Undo,
}

impl Mark {
    pub(crate) const fn sql(self) -> &'static [&'static str] {
        match self {
            Self::Set => &["SAVEPOINT inner_unit"],
            Self::Keep => &["RELEASE SAVEPOINT inner_unit"],
            Self::Undo => &["ROLLBACK TO SAVEPOINT inner_unit", "RELEASE SAVEPOINT inner_unit"],
        }
    }
}

/// A query, and what is done with each row that it finds.
pub struct Question<'q> {
    pub(crate) sql: Cow<'q, str>,
    pub(crate) params: Vec<Value<'q>>,
    pub(crate) each: Each<'q>,
}

type Each<'q> = Box<dyn FnMut(&Row<'_>) -> Result<(), Error> + 'q>;

impl<'q> Question<'q> {
    /// Asks `sql` with `params`.
    pub fn new(
        sql: impl Into<Cow<'q, str>>,
        params: impl Into<Vec<Value<'q>>>,
        each: impl FnMut(&Row<'_>) -> Result<(), Error> + 'q,
    ) -> Self {
        Self { sql: sql.into(), params: params.into(), each: Box::new(each) }
    }
}

/// A row of a result, valid while it is being mapped.
pub enum Row<'r> {
    #[doc(hidden)]
    Sqlite(&'r rusqlite::Row<'r>),
    #[doc(hidden)]
    Postgres(&'r tokio_postgres::Row),
}

impl<'c> Tx<'c> {
    pub(crate) fn new(connection: Connection<'c>) -> Self {
        let held_before = match &connection {
            Connection::Sqlite(_) => Duration::ZERO,
            Connection::Postgres(connection) => connection.held(),
        };
        Self {
            held_before,
            connection,
            hooks: Vec::new(),
            started: Instant::now(),
            failed: false,
            conflict: false,
            unique: false,
            broken: false,
            changed_schema: false,
            statements: 0,
            cancelled: None,
        }
    }

    /// A transaction whose next statement fails once `cancelled` is set.
    pub(crate) fn cancellable(connection: Connection<'c>, cancelled: &'c AtomicBool) -> Self {
        Self { cancelled: Some(cancelled), ..Self::new(connection) }
    }

    /// Which database this is, for the few places where the dialects cannot agree.
    pub fn dialect(&self) -> Dialect {
        match self.connection {
            Connection::Sqlite(_) => Dialect::Sqlite,
            Connection::Postgres(_) => Dialect::Postgres,
        }
    }

    /// How long this unit has run: background units stop at about 5 ms and go on in another. That
    /// it was held for the sake of people does not count.
    pub fn elapsed(&self) -> Duration {
        let held = match &self.connection {
            Connection::Sqlite(_) => Duration::ZERO,
            Connection::Postgres(connection) => connection.held().saturating_sub(self.held_before),
        };
        self.started.elapsed().saturating_sub(held)
    }

    /// How many statements this unit asked for so far; for all of a list counts as one. By it is
    /// seen whether a batch costs more statements the larger it is.
    pub fn statements(&self) -> usize {
        self.statements
    }

    /// Runs `hook` after the commit, in commit order, on a thread of the database. It must be
    /// short, and is dropped when the unit fails or runs again.
    pub fn after_commit(&mut self, hook: impl FnOnce() + Send + 'static) {
        self.hooks.push(Box::new(hook));
    }

    /// Lifts the limit of time from the statements of this unit: a migration takes what it needs.
    pub(crate) fn be_patient(&mut self) -> Result<(), Error> {
        self.statement("", |connection, _| match connection {
            Connection::Sqlite(_) => Ok(()),
            Connection::Postgres(connection) => connection.be_patient(),
        })
    }

    /// Runs a statement and tells how many rows it changed.
    pub fn execute(&mut self, sql: &str, params: &[Value<'_>]) -> Result<u64, Error> {
        self.statement(sql, |connection, sql| match connection {
            Connection::Sqlite(connection) => sqlite::execute(connection, sql, params),
            Connection::Postgres(connection) => connection.execute(sql, params),
        })
    }

    /// Runs a statement of which nobody asks how many rows it changed: the cheapest way to write.
    /// On PostgreSQL it waits to be sent until an answer is needed (64 statements or 1 MiB wait at
    /// most), so its failure may be told by a later statement, by the end of the savepoint, or by
    /// the unit's end: where a unique row is looked for by its failure,
    /// [`execute`](Self::execute) is right.
    pub fn run(&mut self, sql: &str, params: &[Value<'_>]) -> Result<(), Error> {
        self.statement(sql, |connection, sql| match connection {
            Connection::Sqlite(connection) => sqlite::execute(connection, sql, params).map(|_| ()),
            Connection::Postgres(connection) => connection.run(sql, params),
        })
    }

    /// As [`run`](Self::run), for each of `list`, of which no two may be about the same row; in one
    /// statement where [`execute_all`](Self::execute_all) would have one.
    pub fn run_all<'v, const N: usize>(
        &mut self,
        sql: &str,
        list: impl IntoIterator<Item = [Value<'v>; N]>,
    ) -> Result<(), Error> {
        self.statement(sql, |connection, sql| match connection {
            Connection::Sqlite(connection) => sqlite::execute_each(connection, sql, list, |_| ()),
            Connection::Postgres(connection) => connection.run_all(sql, list),
        })
    }

    /// Runs a statement that changes at most one row once for each of `list`, and tells for which
    /// of them it changed one. On PostgreSQL the statements are sent ahead of their answers, and
    /// each still costs the server a statement: [`execute_all`](Self::execute_all) is cheaper.
    pub fn execute_each<'v, const N: usize>(
        &mut self,
        sql: &str,
        list: impl IntoIterator<Item = [Value<'v>; N]>,
    ) -> Result<Vec<bool>, Error> {
        self.statement(sql, |connection, sql| match connection {
            Connection::Sqlite(connection) => {
                let mut changed = Vec::new();
                let each = |count| changed.push(count > 0);
                sqlite::execute_each(connection, sql, list, each).map(|()| changed)
            }
            Connection::Postgres(connection) => connection.execute_each(sql, list),
        })
    }

    /// Runs a statement that changes at most one row for each of `list`, of which no two may be
    /// about the same row, and tells how many it changed: the cheapest way to write many rows. On
    /// SQLite the statement is looked up once, and one that changes a single row needs no journal
    /// of its own; on PostgreSQL the whole list is one statement, where it is an `INSERT` of one
    /// row, an `UPDATE` or a `DELETE` of a table by its own name, without a sub-select or a list.
    pub fn execute_all<'v, const N: usize>(
        &mut self,
        sql: &str,
        list: impl IntoIterator<Item = [Value<'v>; N]>,
    ) -> Result<u64, Error> {
        self.statement(sql, |connection, sql| match connection {
            Connection::Sqlite(connection) => {
                let mut changed = 0;
                let each = |count| changed += u64::from(count > 0);
                sqlite::execute_each(connection, sql, list, each).map(|()| changed)
            }
            Connection::Postgres(connection) => connection.execute_all(sql, list),
        })
    }

    /// Runs a query and maps each row.
    pub fn query<T>(
        &mut self,
        sql: &str,
        params: &[Value<'_>],
        mut map: impl FnMut(&Row<'_>) -> Result<T, Error>,
    ) -> Result<Vec<T>, Error> {
        self.statement(sql, |connection, sql| match connection {
            Connection::Sqlite(connection) => sqlite::query(connection, sql, params, &mut map),
            Connection::Postgres(connection) => connection.query(sql, params, &mut map),
        })
    }

    /// Runs queries of which none depends on another's answer. On PostgreSQL they are sent
    /// together: each that is waited for costs a way to another process and back.
    pub fn query_together(&mut self, mut questions: Vec<Question<'_>>) -> Result<(), Error> {
        if questions.is_empty() {
            return Ok(());
        }
        self.statement("", |connection, _| match connection {
            Connection::Sqlite(connection) => questions.iter_mut().try_for_each(|question| {
                let Question { sql, params, each } = question;
                sqlite::query(connection, sql, params, each).map(|_| ())
            }),
            Connection::Postgres(connection) => connection.query_together(&mut questions),
        })
    }

    /// Runs a query once for each of `list` and hands every row to `each`, in the order of `list`:
    /// the cheapest way to look for many things, as [`execute_all`](Self::execute_all). What writes
    /// tells so by `RETURNING` which rows it wrote, in any order.
    pub fn query_each<'v, const N: usize>(
        &mut self,
        sql: &str,
        list: impl IntoIterator<Item = [Value<'v>; N]>,
        mut each: impl FnMut(&Row<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.statement(sql, |connection, sql| match connection {
            Connection::Sqlite(connection) => sqlite::query_each(connection, sql, list, &mut each),
            Connection::Postgres(connection) => connection.query_each(sql, list, &mut each),
        })
    }

    /// Runs a query that finds one row or none (of several the first counts).
    pub fn query_opt<T>(
        &mut self,
        sql: &str,
        params: &[Value<'_>],
        map: impl FnMut(&Row<'_>) -> Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        Ok(self.query(sql, params, map)?.into_iter().next())
    }

    /// Runs a query that finds just one row.
    ///
    /// # Errors
    /// [`Error::Rows`] when it does not.
    pub fn query_one<T>(
        &mut self,
        sql: &str,
        params: &[Value<'_>],
        map: impl FnMut(&Row<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut rows = self.query(sql, params, map)?;
        match (rows.len(), rows.pop()) {
            (1, Some(row)) => Ok(row),
            (count, _) => Err(Error::Rows(count)),
        }
    }

    /// The first column of every row.
    pub fn column<T: FromColumn>(
        &mut self,
        sql: &str,
        params: &[Value<'_>],
    ) -> Result<Vec<T>, Error> {
        self.query(sql, params, |row| row.get(0))
    }

    /// The first column of the first row, if there is one.
    pub fn value<T: FromColumn>(
        &mut self,
        sql: &str,
        params: &[Value<'_>],
    ) -> Result<Option<T>, Error> {
        self.query_opt(sql, params, |row| row.get(0))
    }

    /// Records of `R`; `{}` in `sql` stands for its columns.
    pub fn records<R: Record>(&mut self, sql: &str, params: &[Value<'_>]) -> Result<Vec<R>, Error> {
        let sql = sql.replacen("{}", R::COLUMNS, 1);
        self.query(&sql, params, |row| R::read(row, 0))
    }

    /// The first record of `R`, if there is one; `{}` in `sql` stands for its columns.
    pub fn record<R: Record>(
        &mut self,
        sql: &str,
        params: &[Value<'_>],
    ) -> Result<Option<R>, Error> {
        Ok(self.records(sql, params)?.into_iter().next())
    }

    /// Runs `body` so that its failure undoes only itself.
    ///
    /// # Errors
    /// What `body` returns; its changes and its [`after_commit`](Self::after_commit) are undone
    /// then. A conflict with other transactions still fails the whole unit, which is repeated.
    pub fn savepoint<T, E: From<Error>>(
        &mut self,
        body: impl FnOnce(&mut Tx) -> Result<T, E>,
    ) -> Result<T, E> {
        self.mark(Mark::Set)?;
        let hooks = self.hooks.len();
        let done = match body(self) {
            // It went on after a failed statement: as if it had told.
            Ok(_) if self.failed => Err(E::from(Error::Aborted)),
            Ok(done) => self.mark(Mark::Keep).map(|()| done).map_err(E::from),
            failed => failed,
        };
        if done.is_err() {
            self.hooks.truncate(hooks);
            if self.conflict || self.broken || self.is_cancelled() {
                return done;
            }
            self.failed = false;
            self.mark(Mark::Undo)?;
        }
        done
    }

    fn mark(&mut self, mark: Mark) -> Result<(), Error> {
        self.statement("", |connection, _| match connection {
            Connection::Sqlite(connection) => mark
                .sql()
                .iter()
                .try_for_each(|sql| sqlite::execute(connection, sql, &[]).map(|_| ())),
            Connection::Postgres(connection) => connection.mark(mark),
        })
    }

    fn is_cancelled(&self) -> bool {
        self.cancelled.is_some_and(|cancelled| cancelled.load(Ordering::Acquire))
    }

    /// Runs several statements without parameters: migrations.
    pub(crate) fn batch(&mut self, sql: &str) -> Result<(), Error> {
        self.changed_schema = true;
        self.statement(sql, |connection, sql| match connection {
            Connection::Sqlite(connection) => sqlite::batch(connection, sql),
            Connection::Postgres(connection) => connection.batch(sql),
        })
    }

    fn statement<T>(
        &mut self,
        sql: &str,
        run: impl FnOnce(&mut Connection<'c>, &str) -> Result<T, Failure>,
    ) -> Result<T, Error> {
        if self.failed {
            return Err(Error::Aborted);
        }
        if self.is_cancelled() {
            self.failed = true;
            return Err(Error::TooLong);
        }
        self.statements += 1;
        run(&mut self.connection, sql).map_err(|failure| {
            self.failed = true;
            self.conflict |= failure.conflict;
            self.unique |= matches!(failure.error, Error::Unique(_));
            self.broken |= failure.broken;
            failure.error
        })
    }
}

/// A failed statement, and what it means for the unit.
pub(crate) struct Failure {
    pub(crate) error: Error,
    pub(crate) conflict: bool,
    pub(crate) broken: bool,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self { error, conflict: false, broken: false }
    }
}

impl Row<'_> {
    /// Column `at`, from 0.
    ///
    /// # Errors
    /// [`Error::Column`] when the column is missing, NULL or of another type.
    pub fn get<T: FromColumn>(&self, at: usize) -> Result<T, Error> {
        T::from_column(self, at)
    }

    /// The text in column `at` (from 0), where a copy of it is not needed.
    ///
    /// # Errors
    /// [`Error::Column`] when the column is missing, NULL or of another type.
    pub fn str(&self, at: usize) -> Result<&str, Error> {
        self.text(at)?.ok_or(Error::Column { column: at, expected: "TEXT" })
    }

    pub(crate) fn int(&self, at: usize) -> Result<Option<i64>, Error> {
        let wrong = |_| Error::Column { column: at, expected: "BIGINT" };
        match self {
            Self::Sqlite(row) => row.get(at).map_err(wrong),
            Self::Postgres(row) => column::int(row, at),
        }
    }

    pub(crate) fn real(&self, at: usize) -> Result<Option<f64>, Error> {
        let wrong = |_| Error::Column { column: at, expected: "DOUBLE PRECISION" };
        match self {
            Self::Sqlite(row) => row.get(at).map_err(wrong),
            Self::Postgres(row) => column::real(row, at),
        }
    }

    pub(crate) fn text(&self, at: usize) -> Result<Option<&str>, Error> {
        let wrong = Error::Column { column: at, expected: "TEXT" };
        match self {
            Self::Sqlite(row) => match row.get_ref(at) {
                Ok(value) => value.as_str_or_null().map_err(|_| wrong),
                Err(_) => Err(wrong),
            },
            Self::Postgres(row) => row.try_get(at).map_err(|_| wrong),
        }
    }

    pub(crate) fn blob(&self, at: usize) -> Result<Option<&[u8]>, Error> {
        let wrong = Error::Column { column: at, expected: "BLOB" };
        match self {
            Self::Sqlite(row) => match row.get_ref(at) {
                Ok(value) => value.as_blob_or_null().map_err(|_| wrong),
                Err(_) => Err(wrong),
            },
            Self::Postgres(row) => row.try_get(at).map_err(|_| wrong),
        }
    }

    pub(crate) fn is_null(&self, at: usize) -> Result<bool, Error> {
        let wrong = Error::Column { column: at, expected: "a column" };
        match self {
            Self::Sqlite(row) => match row.get_ref(at) {
                Ok(value) => Ok(value == rusqlite::types::ValueRef::Null),
                Err(_) => Err(wrong),
            },
            Self::Postgres(row) => column::is_null(row, at),
        }
    }
}
