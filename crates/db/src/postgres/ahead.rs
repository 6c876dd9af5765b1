//! Statements that are sent ahead: their answers are not waited for one by one, since each wait
//! costs a way to another process and back.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

use futures_util::TryFutureExt as _;
use futures_util::future::{BoxFuture, try_join};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error, Statement};

use super::connection::Said;
use crate::Value;
use crate::tx::Mark;

/// Statements that wait to be sent, at most.
const STATEMENTS_MAX: usize = 64;
/// Bytes of their parameters, after which they are sent.
const BYTES_MAX: usize = 1 << 20;

/// Statements in their order, none of which was sent yet.
pub(super) struct Ahead {
    list: Vec<One>,
    statements: usize,
    bytes: usize,
}

enum One {
    /// What begins a transaction.
    Begin(&'static str),
    Mark(Mark, &'static str),
    Statement {
        statement: Statement,
        sql: String,
        params: Vec<Value<'static>>,
    },
    /// For many at once: each parameter is a column.
    Columns {
        statement: Statement,
        sql: String,
        columns: Vec<Vec<Value<'static>>>,
    },
}

impl Ahead {
    pub(super) const fn new() -> Self {
        Self { list: Vec::new(), statements: 0, bytes: 0 }
    }

    pub(super) fn take(&mut self) -> Self {
        std::mem::replace(self, Self::new())
    }

    pub(super) fn begin(&mut self, sql: &'static str) {
        self.list.push(One::Begin(sql));
    }

    /// Whether the transaction itself was not begun yet.
    pub(super) fn begins(&self) -> bool {
        matches!(self.list.first(), Some(One::Begin(_)))
    }

    pub(super) fn mark(&mut self, mark: Mark, sql: &'static str) {
        self.list.push(One::Mark(mark, sql));
    }

    /// Drops what waits since the innermost open savepoint was set; true when that was not sent
    /// either, so that nothing is left to undo.
    pub(super) fn drop_savepoint(&mut self) -> bool {
        // Ends of savepoints that were set within it, and of those only the ends wait.
        let mut ends = Vec::new();
        let mut found = false;
        while let Some(one) = self.list.pop() {
            match one {
                One::Mark(Mark::Set, _) if ends.pop().is_some() => {}
                One::Mark(Mark::Set, _) => {
                    found = true;
                    break;
                }
                One::Mark(..) => ends.push(one),
                One::Begin(_) | One::Statement { .. } | One::Columns { .. } => {}
            }
        }
        self.list.append(&mut ends);
        self.recount();
        found
    }

    fn recount(&mut self) {
        let is_statement = |one: &&One| !matches!(one, One::Begin(_) | One::Mark(..));
        self.statements = self.list.iter().filter(is_statement).count();
    }

    pub(super) fn statement(&mut self, statement: Statement, sql: &str, params: &[Value<'_>]) {
        let params = params.iter().map(|value| self.kept(value)).collect();
        self.statements += 1;
        self.list.push(One::Statement { statement, sql: sql.to_owned(), params });
    }

    pub(super) fn columns<const N: usize>(
        &mut self,
        statement: Statement,
        sql: &str,
        list: &[[Value<'_>; N]],
    ) {
        let column = |at| list.iter().map(|params| self.kept(&params[at])).collect();
        let columns = (0..N).map(column).collect();
        self.statements += 1;
        self.list.push(One::Columns { statement, sql: sql.to_owned(), columns });
    }

    fn kept(&mut self, value: &Value<'_>) -> Value<'static> {
        self.bytes += value.len_bytes();
        value.clone().into_owned()
    }

    /// Whether more waits than what marks a place in the transaction.
    pub(super) fn has_statements(&self) -> bool {
        self.statements > 0
    }

    pub(super) fn is_full(&self) -> bool {
        self.statements >= STATEMENTS_MAX || self.bytes >= BYTES_MAX
    }

    /// The text of the statement at place `at`.
    pub(super) fn sql(&self, at: usize) -> &str {
        match self.list.get(at) {
            Some(One::Begin(sql) | One::Mark(_, sql)) => sql,
            Some(One::Statement { sql, .. } | One::Columns { sql, .. }) => sql,
            None => "",
        }
    }
}

impl One {
    async fn send(&self, client: &Client) -> Result<(), Error> {
        match self {
            Self::Begin(sql) | Self::Mark(_, sql) => client.batch_execute(sql).await,
            Self::Statement { statement, params, .. } => {
                let params: Vec<&(dyn ToSql + Sync)> =
                    params.iter().map(|value| value as &(dyn ToSql + Sync)).collect();
                client.execute(statement, &params).await.map(|_| ())
            }
            Self::Columns { statement, columns, .. } => {
                let params: Vec<&(dyn ToSql + Sync)> =
                    columns.iter().map(|column| column as &(dyn ToSql + Sync)).collect();
                client.execute(statement, &params).await.map(|_| ())
            }
        }
    }
}

/// Sends `ahead`, then what `last` sends when it is first polled; gives the answer to that, once
/// all before it were done.
pub(super) async fn after<T>(
    client: &Client,
    ahead: &Ahead,
    last: impl Future<Output = Result<T, Error>>,
) -> Result<T, Said> {
    let ahead = ahead.list.iter().map(|one| -> Going<'_> { Box::pin(one.send(client)) });
    let last = last.map_err(|error| (None, error));
    let ((), answer) = try_join(all(ahead.collect()), last).await?;
    Ok(answer)
}

type Going<'g> = BoxFuture<'g, Result<(), Error>>;

/// Waits for all. Each sends its statement when it is first polled, and they are polled in their
/// order, as the server answers in it.
async fn all(mut going: Vec<Going<'_>>) -> Result<(), Said> {
    let mut answers: Vec<Option<Result<(), Error>>> = Vec::new();
    poll_fn(|cx| {
        if answers.is_empty() {
            let first = |one: &mut Going<'_>| match Pin::new(one).poll(cx) {
                Poll::Ready(answer) => Some(answer),
                Poll::Pending => None,
            };
            answers = going.iter_mut().map(first).collect();
        }
        for (at, (one, answer)) in going.iter_mut().zip(&mut answers).enumerate() {
            if answer.is_none() {
                match one.as_mut().poll(cx) {
                    Poll::Ready(came) => *answer = Some(came),
                    Poll::Pending => return Poll::Pending,
                }
            }
            if let Some(Err(_)) = answer
                && let Some(Err(error)) = answer.take()
            {
                return Poll::Ready(Err((Some(at), error)));
            }
        }
        Poll::Ready(Ok(()))
    })
    .await
}
