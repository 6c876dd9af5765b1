//! The rows of jobs: how they are written, read, moved and removed.

use std::borrow::Cow;
use std::sync::Arc;

use weir_base::{Id, Timestamp};
use weir_db::{Dialect, Error, Row, Tx, Value, params};

use crate::turns::Pick;

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
#[derive(Debug, Clone)]
pub(crate) struct Claim {
    pub(crate) lane: Arc<str>,
    pub(crate) id: Id,
    pub(crate) kind: Cow<'static, str>,
    /// This attempt, from 1.
    pub(crate) attempt: u32,
    pub(crate) enqueued_at: Timestamp,
    pub(crate) unique_key: Option<String>,
    pub(crate) payload: String,
    /// Its name in Redis, if it came from there; then `payload` is its array of arguments.
    pub(crate) jid: Option<Arc<str>>,
}

/// Gives a kind that has a handler without a copy of its name.
pub(crate) type Kinds<'k> = &'k dyn Fn(&str) -> Option<&'static str>;

/// The columns of a row in `jobs`, in the order of [`NewRow`].
const COLUMNS: usize = 8;
/// Rows of one statement: so many are written at once while there are so many left.
const CHUNKS: [usize; 3] = [100, 10, 1];

/// Writes `rows` into the ready set.
pub(crate) fn insert_ready(tx: &mut Tx, rows: &[NewRow]) -> Result<(), Error> {
    if tx.dialect() == Dialect::Sqlite {
        // Neighbours in the table one after the other: many lanes share few pages then.
        let mut sorted: Vec<&NewRow> = rows.iter().collect();
        sorted.sort_by(|one, other| (&one.lane, one.id).cmp(&(&other.lane, other.id)));
        return tx.execute_each(INSERT, sorted.iter().map(|row| row.values())).map(|_| ());
    }
    let mut rest = rows;
    for chunk in CHUNKS {
        if rest.len() < chunk {
            continue;
        }
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

const INSERT: &str = "INSERT INTO jobs
  (queue, lane, id, kind, failures, enqueued_at, unique_key, payload)
  VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";

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

/// Writes a failed job into the retry set.
pub(crate) fn insert_retry(
    tx: &mut Tx,
    due_at: Timestamp,
    queue: &str,
    claim: &Claim,
    reason: &str,
) -> Result<(), Error> {
    tx.execute(
        "INSERT INTO jobs_later (due_at, id, state, queue, lane, kind, failures, enqueued_at,
           unique_key, payload, reason) VALUES (?1, ?2, 1, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        params![
            due_at,
            claim.id,
            queue,
            *claim.lane,
            *claim.kind,
            claim.attempt,
            claim.enqueued_at,
            claim.unique_key,
            claim.payload,
            reason
        ],
    )?;
    Ok(())
}

/// Writes a failed job into the dead set.
pub(crate) fn insert_dead(
    tx: &mut Tx,
    died_at: Timestamp,
    queue: &str,
    claim: &Claim,
    reason: &str,
) -> Result<(), Error> {
    tx.execute(
        "INSERT INTO jobs_dead (id, died_at, queue, lane, kind, failures, enqueued_at, payload,
           reason) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        params![
            claim.id,
            died_at,
            queue,
            *claim.lane,
            *claim.kind,
            claim.attempt,
            claim.enqueued_at,
            claim.payload,
            reason
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

/// Gives `key` free, if it is the one of job `id`.
pub(crate) fn free_key(tx: &mut Tx, key: &str, id: Id) -> Result<(), Error> {
    tx.execute("DELETE FROM jobs_unique WHERE unique_key = ?1 AND id = ?2", params![key, id])?;
    Ok(())
}

/// Reads the rows that `picks` tell, one list for each pick, in order of id.
pub(crate) fn read(
    tx: &mut Tx,
    queue: &str,
    picks: &[Pick],
    kinds: Kinds<'_>,
) -> Result<Vec<Vec<Claim>>, Error> {
    let mut found: Vec<Vec<Claim>> = match tx.dialect() {
        Dialect::Sqlite => read_one_by_one(tx, queue, picks, kinds)?,
        Dialect::Postgres => read_together(tx, queue, picks, kinds)?,
    };
    for (pick, claims) in picks.iter().zip(&mut found) {
        claims.retain(|claim| !pick.without.contains(&claim.id.0));
        claims.truncate(pick.oldest);
        if pick.newest > 0 {
            let newest = read_newest(tx, queue, pick, kinds)?;
            let known: Vec<Id> = claims.iter().map(|claim| claim.id).collect();
            let fresh = newest
                .into_iter()
                .filter(|claim| !pick.without.contains(&claim.id.0) && !known.contains(&claim.id));
            claims.extend(fresh.take(pick.newest));
            claims.sort_by_key(|claim| claim.id);
        }
    }
    Ok(found)
}

fn read_one_by_one(
    tx: &mut Tx,
    queue: &str,
    picks: &[Pick],
    kinds: Kinds<'_>,
) -> Result<Vec<Vec<Claim>>, Error> {
    let read = |pick: &Pick| {
        if pick.oldest == 0 {
            return Ok(Vec::new());
        }
        tx.query(
            "SELECT id, kind, failures, enqueued_at, unique_key, payload FROM jobs
             WHERE queue = ?1 AND lane = ?2 AND id >= ?3 ORDER BY id LIMIT ?4",
            params![queue, *pick.lane, pick.from, pick.oldest + pick.without.len()],
            |row| claim(row, 0, &pick.lane, kinds),
        )
    };
    picks.iter().map(read).collect()
}

/// One round trip for all lanes: PostgreSQL is on the other side of a socket. SQLite has no
/// lateral join, and no socket either.
fn read_together(
    tx: &mut Tx,
    queue: &str,
    picks: &[Pick],
    kinds: Kinds<'_>,
) -> Result<Vec<Vec<Claim>>, Error> {
    let list: Vec<serde_json::Value> = (picks.iter().enumerate())
        .map(|(place, pick)| {
            let most = if pick.oldest == 0 { 0 } else { pick.oldest + pick.without.len() };
            serde_json::json!({
                "place": place, "in_lane": &*pick.lane, "lowest": pick.from, "most": most,
            })
        })
        .collect();
    let mut found: Vec<Vec<Claim>> = picks.iter().map(|_| Vec::new()).collect();
    tx.query(
        "SELECT pick.place, job.id, job.kind, job.failures, job.enqueued_at, job.unique_key,
           job.payload
         FROM json_to_recordset(?1::text::json)
           AS pick(place BIGINT, in_lane TEXT, lowest BIGINT, most BIGINT)
         CROSS JOIN LATERAL (
           SELECT * FROM jobs WHERE queue = ?2 AND lane = pick.in_lane AND id >= pick.lowest
           ORDER BY id LIMIT pick.most
         ) AS job ORDER BY pick.place, job.id",
        params![serde_json::Value::from(list).to_string(), queue],
        |row| {
            let place: usize = row.get(0)?;
            if let (Some(pick), Some(claims)) = (picks.get(place), found.get_mut(place)) {
                claims.push(claim(row, 1, &pick.lane, kinds)?);
            }
            Ok(())
        },
    )?;
    Ok(found)
}

fn read_newest(
    tx: &mut Tx,
    queue: &str,
    pick: &Pick,
    kinds: Kinds<'_>,
) -> Result<Vec<Claim>, Error> {
    tx.query(
        "SELECT id, kind, failures, enqueued_at, unique_key, payload FROM jobs
         WHERE queue = ?1 AND lane = ?2 AND id >= ?3 ORDER BY id DESC LIMIT ?4",
        params![queue, *pick.lane, pick.from, pick.count() + pick.without.len()],
        |row| claim(row, 0, &pick.lane, kinds),
    )
}

fn claim(
    row: &Row<'_>,
    first: usize,
    lane: &Arc<str>,
    kinds: Kinds<'_>,
) -> Result<Claim, Error> {
    let failures: u32 = row.get(first + 2)?;
    let kind = row.str(first + 1)?;
    Ok(Claim {
        lane: lane.clone(),
        id: row.get(first)?,
        kind: kinds(kind).map_or_else(|| Cow::Owned(kind.to_owned()), Cow::Borrowed),
        attempt: failures.saturating_add(1),
        enqueued_at: row.get(first + 3)?,
        unique_key: row.get(first + 4)?,
        payload: row.get(first + 5)?,
        jid: None,
    })
}

/// Removes the rows of `claims` and tells which of them were still there.
pub(crate) fn remove<'c>(
    tx: &mut Tx,
    queue: &str,
    claims: impl IntoIterator<Item = &'c Claim>,
) -> Result<Removed, Error> {
    let mut claims: Vec<(&Arc<str>, Id)> =
        claims.into_iter().map(|claim| (&claim.lane, claim.id)).collect();
    // Mostly in order already, which this sort is quick with.
    claims.sort();
    let present = match tx.dialect() {
        Dialect::Sqlite => remove_each(tx, queue, &claims)?,
        Dialect::Postgres => remove_together(tx, queue, &claims)?,
    };
    let mut removed = Removed::default();
    for run in claims.chunk_by(|one, next| one.0 == next.0) {
        let claimed: Vec<i64> = run.iter().map(|(_, id)| id.0).collect();
        let gone: Vec<Id> =
            run.iter().map(|(_, id)| *id).filter(|id| present.binary_search(id).is_ok()).collect();
        removed.lanes.push((run[0].0.clone(), claimed, gone.len()));
        removed.present.extend(gone);
    }
    removed.present.sort_unstable();
    Ok(removed)
}

/// Row by row in the order of the table: the ids of those that were there, sorted.
fn remove_each(tx: &mut Tx, queue: &str, claims: &[(&Arc<str>, Id)]) -> Result<Vec<Id>, Error> {
    let params = claims.iter().map(|(lane, id)| {
        [Value::Text(queue.into()), Value::Text((&***lane).into()), Value::Int(id.0)]
    });
    let sql = "DELETE FROM jobs WHERE queue = ?1 AND lane = ?2 AND id = ?3";
    let gone = tx.execute_each(sql, params)?;
    let mut present: Vec<Id> =
        claims.iter().zip(gone).filter(|(_, gone)| *gone).map(|((_, id), _)| *id).collect();
    present.sort_unstable();
    Ok(present)
}

/// All lanes in one round trip: the ids of the rows that were there, sorted.
fn remove_together(tx: &mut Tx, queue: &str, claims: &[(&Arc<str>, Id)]) -> Result<Vec<Id>, Error> {
    let list: Vec<serde_json::Value> = (claims.iter())
        .map(|(lane, id)| serde_json::json!({ "in_lane": &***lane, "with_id": id.0 }))
        .collect();
    let mut present: Vec<Id> = tx.column(
        "DELETE FROM jobs USING json_to_recordset(?2::text::json)
           AS claim(in_lane TEXT, with_id BIGINT)
         WHERE queue = ?1 AND lane = claim.in_lane AND id = claim.with_id RETURNING id",
        params![queue, serde_json::Value::from(list).to_string()],
    )?;
    present.sort_unstable();
    Ok(present)
}

/// Rows that were removed.
#[derive(Default)]
pub(crate) struct Removed {
    /// Their ids, sorted.
    present: Vec<Id>,
    /// By lane what was to be removed, and how many of them were there.
    pub(crate) lanes: Vec<(Arc<str>, Vec<i64>, usize)>,
}

impl Removed {
    /// Whether job `id` was there.
    pub(crate) fn has(&self, id: Id) -> bool {
        self.present.binary_search(&id).is_ok()
    }
}
