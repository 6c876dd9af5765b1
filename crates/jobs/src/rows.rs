//! The rows of jobs: how they are written, taken, moved and removed.

use std::sync::Arc;

use weir_base::{Id, Timestamp};
use weir_db::{Error, Tx, Value, params};

/// A job as it is written.
pub(crate) struct NewRow {
    pub(crate) queue: &'static str,
    pub(crate) lane: String,
    pub(crate) id: Id,
    pub(crate) kind: &'static str,
    pub(crate) enqueued_at: Timestamp,
    pub(crate) unique_key: Option<String>,
    pub(crate) payload: String,
}

/// A job as it was taken.
#[derive(Debug)]
pub(crate) struct Claim {
    pub(crate) lane: Arc<str>,
    pub(crate) id: Id,
    pub(crate) kind: String,
    /// This attempt, from 1.
    pub(crate) attempt: u32,
    pub(crate) enqueued_at: Timestamp,
    pub(crate) unique_key: Option<String>,
    pub(crate) payload: String,
}

/// The columns of a row in `jobs`, in the order of [`NewRow`].
const COLUMNS: usize = 8;
/// Rows of one statement: so many are written at once while there are so many left.
const CHUNKS: [usize; 3] = [100, 10, 1];

/// Writes `rows` into the ready set.
pub(crate) fn insert_ready(tx: &mut Tx, rows: &[NewRow]) -> Result<(), Error> {
    let mut rest = rows;
    for chunk in CHUNKS {
        let sql = insert_sql(chunk);
        while rest.len() >= chunk {
            let (now, later) = rest.split_at(chunk);
            let values: Vec<Value<'_>> = now.iter().flat_map(NewRow::values).collect();
            tx.execute(&sql, &values)?;
            rest = later;
        }
    }
    Ok(())
}

fn insert_sql(rows: usize) -> String {
    let mut sql = String::from(
        "INSERT INTO jobs
         (queue, lane, id, kind, failures, enqueued_at, unique_key, payload) VALUES ",
    );
    for row in 0..rows {
        let list: Vec<String> =
            (1..=COLUMNS).map(|column| format!("?{}", row * COLUMNS + column)).collect();
        sql.push_str(if row == 0 { "(" } else { ", (" });
        sql.push_str(&list.join(", "));
        sql.push(')');
    }
    sql
}

impl NewRow {
    fn values(&self) -> [Value<'_>; COLUMNS] {
        [
            Value::Text(self.queue.into()),
            Value::Text(self.lane.as_str().into()),
            Value::Int(self.id.0),
            Value::Text(self.kind.into()),
            Value::Int(0),
            Value::Int(self.enqueued_at.as_ms()),
            self.unique_key.as_deref().map_or(Value::Null, |key| Value::Text(key.into())),
            Value::Text(self.payload.as_str().into()),
        ]
    }
}

/// Writes `row` into the schedule.
pub(crate) fn insert_later(tx: &mut Tx, due_at: Timestamp, row: &NewRow) -> Result<(), Error> {
    tx.execute(
        "INSERT INTO jobs_later (due_at, id, state, queue, lane, kind, failures, enqueued_at,
           unique_key, payload) VALUES (?1, ?2, 0, ?3, ?4, ?5, 0, ?6, ?7, ?8)",
        params![
            due_at,
            row.id,
            row.queue,
            row.lane,
            row.kind,
            row.enqueued_at,
            row.unique_key,
            row.payload
        ],
    )?;
    Ok(())
}

/// Takes `key` for job `id`; false when a waiting job has it.
pub(crate) fn take_key(tx: &mut Tx, key: &str, id: Id) -> Result<bool, Error> {
    let taken = tx.execute(
        "INSERT INTO jobs_unique (unique_key, id) VALUES (?1, ?2) ON CONFLICT DO NOTHING",
        params![key, id],
    )?;
    Ok(taken == 1)
}
