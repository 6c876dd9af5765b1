//! The rows of jobs: how they are written, read, moved and removed.

use std::borrow::Cow;
use std::sync::Arc;

use weir_base::{Id, Timestamp};
use weir_db::{Dialect, Error, Row, ToValue, Tx, Value, ids, params};

use crate::hand::InHand;
use crate::turns::Pick;

/// A job as it is written.
#[derive(Clone)]
pub(crate) struct NewRow {
    pub(crate) queue: &'static str,
    pub(crate) lane: Arc<str>,
    pub(crate) id: Id,
    pub(crate) kind: &'static str,
    pub(crate) enqueued_at: Timestamp,
    pub(crate) unique_key: Option<String>,
    pub(crate) payload: String,
    pub(crate) batch_id: Option<Id>,
    pub(crate) expires_at: Option<Timestamp>,
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
    /// Since when it waited in its queue: later, if it was scheduled or is tried again.
    pub(crate) ready_at: Timestamp,
    pub(crate) unique_key: Option<String>,
    pub(crate) payload: String,
    pub(crate) batch_id: Option<Id>,
    /// Not to be run any more from this moment on.
    pub(crate) expires_at: Option<Timestamp>,
    /// When it was ready first, if it was put off since.
    pub(crate) postponed_since: Option<Timestamp>,
    /// Its name in Redis, if it came from there; then `payload` is its array of arguments.
    pub(crate) jid: Option<Arc<str>>,
    /// What the payload says, if it was in hand.
    pub(crate) in_hand: Option<Arc<dyn InHand>>,
}

/// Gives a kind that has a handler without a copy of its name.
pub(crate) type Kinds<'k> = &'k dyn Fn(&str) -> Option<&'static str>;

/// The columns of a row in `jobs` that every job has, in the order of [`NewRow`].
const COLUMNS: usize = 8;
/// All columns of a row in `jobs`: few jobs have the last ones.
const COLUMNS_ALL: usize = 10;

/// Writes `rows` into the ready set.
pub(crate) fn insert_ready(tx: &mut Tx, rows: &[NewRow]) -> Result<(), Error> {
    if rows.iter().all(|row| row.batch_id.is_none() && row.expires_at.is_none()) {
        tx.run_all(INSERT, rows.iter().map(NewRow::values))
    } else {
        tx.run_all(INSERT_ALL, rows.iter().map(NewRow::values_all))
    }
}

/// Writes `rows` into the schedule, with the `reason` if they are put off.
pub(crate) fn insert_later(
    tx: &mut Tx,
    due_at: Timestamp,
    state: State,
    reason: Option<&str>,
    rows: &[NewRow],
) -> Result<(), Error> {
    let (due_at, state) = (due_at.as_ms(), state as i64);
    let values = |row| {
        let [queue, lane, id, kind, failures, enqueued_at, key, payload, batch, expires] =
            NewRow::values_all(row);
        let (due_at, state, reason) = (Value::Int(due_at), Value::Int(state), reason.to_value());
        [
            queue,
            lane,
            id,
            kind,
            failures,
            enqueued_at,
            key,
            payload,
            batch,
            expires,
            due_at,
            state,
            reason,
        ]
    };
    tx.run_all(INSERT_LATER, rows.iter().map(values))
}

const INSERT: &str = "INSERT INTO jobs
  (queue, lane, id, kind, failures, enqueued_at, unique_key, payload)
  VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
const INSERT_ALL: &str = "INSERT INTO jobs
  (queue, lane, id, kind, failures, enqueued_at, unique_key, payload, batch_id, expires_at)
  VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
const INSERT_LATER: &str = "INSERT INTO jobs_later
  (queue, lane, id, kind, failures, enqueued_at, unique_key, payload, batch_id, expires_at,
   due_at, state, reason)
  VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)";

impl NewRow {
    /// The job as it will be taken, but for what is known only when it is enqueued.
    pub(crate) fn claim(&self, job: Arc<dyn InHand>) -> Claim {
        Claim {
            lane: self.lane.clone(),
            id: self.id,
            kind: Cow::Borrowed(self.kind),
            attempt: 1,
            enqueued_at: enqueued_at(self.id, self.enqueued_at),
            ready_at: self.enqueued_at,
            unique_key: self.unique_key.clone(),
            payload: self.payload.clone(),
            batch_id: self.batch_id,
            expires_at: self.expires_at,
            postponed_since: None,
            jid: None,
            in_hand: Some(job),
        }
    }

    /// `claim`, which was made of this row, now that it is enqueued.
    pub(crate) fn enqueued(&self, claim: Claim) -> Claim {
        Claim {
            id: self.id,
            enqueued_at: enqueued_at(self.id, self.enqueued_at),
            ready_at: self.enqueued_at,
            expires_at: self.expires_at,
            ..claim
        }
    }

    fn values(&self) -> [Value<'_>; COLUMNS] {
        [
            Value::Text(self.queue.into()),
            Value::Text((*self.lane).into()),
            Value::Int(self.id.0),
            Value::Text(self.kind.into()),
            Value::Int(0),
            Value::Int(self.enqueued_at.as_ms()),
            self.unique_key.as_deref().map_or(Value::Null, |key| Value::Text(key.into())),
            Value::Text(self.payload.as_str().into()),
        ]
    }

    fn values_all(&self) -> [Value<'_>; COLUMNS_ALL] {
        let [queue, lane, id, kind, failures, enqueued_at, key, payload] = self.values();
        let batch_id = self.batch_id.map_or(Value::Null, |id| Value::Int(id.0));
        let expires_at = self.expires_at.map_or(Value::Null, |at| Value::Int(at.as_ms()));
        [queue, lane, id, kind, failures, enqueued_at, key, payload, batch_id, expires_at]
    }
}

/// When something is due that never comes by itself.
pub(crate) const NEVER: Timestamp = Timestamp::from_ms(i64::MAX);

/// What a new row of `jobs_later` waits for.
#[derive(Clone, Copy)]
pub(crate) enum State {
    /// Its time. A job that was put off has a reason.
    Scheduled = 0,
    /// Its next attempt.
    Retry = 1,
    /// Its batch.
    CalledBack = 2,
}

/// A job that is tried again.
pub(crate) struct Again<'c> {
    pub(crate) due_at: Timestamp,
    pub(crate) claim: &'c Claim,
    /// Whether its attempt failed.
    pub(crate) failed: bool,
    pub(crate) reason: &'c str,
}

/// Writes jobs of `queue` that are tried again: into the retry set where the attempt failed, else
/// into the schedule with their failures as they were.
pub(crate) fn insert_again(tx: &mut Tx, queue: &str, list: &[Again<'_>]) -> Result<(), Error> {
    let values = list.iter().map(|Again { due_at, claim, failed, reason }| {
        let (state, postponed_since) = match failed {
            true => (State::Retry, None),
            false => (State::Scheduled, Some(claim.ready_first())),
        };
        let number = |at: Timestamp| Value::Int(at.as_ms());
        [
            number(*due_at),
            Value::Int(claim.id.0),
            Value::Int(state as i64),
            Value::Text(queue.into()),
            Value::Text((*claim.lane).into()),
            Value::Text((*claim.kind).into()),
            Value::Int(i64::from(claim.attempt - u32::from(!failed))),
            number(claim.enqueued_at),
            claim.unique_key.as_deref().map_or(Value::Null, |key| Value::Text(key.into())),
            Value::Text(claim.payload.as_str().into()),
            Value::Text((*reason).into()),
            claim.batch_id.map_or(Value::Null, |id| Value::Int(id.0)),
            claim.expires_at.map_or(Value::Null, number),
            postponed_since.map_or(Value::Null, number),
        ]
    });
    tx.run_all(
        "INSERT INTO jobs_later (due_at, id, state, queue, lane, kind, failures, enqueued_at,
           unique_key, payload, reason, batch_id, expires_at, postponed_since)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
        values,
    )
}

/// Writes a failed job into the dead set, with the `key` that it takes again if it is retried.
pub(crate) fn insert_dead(
    tx: &mut Tx,
    died_at: Timestamp,
    queue: &str,
    claim: &Claim,
    key: Option<&str>,
    reason: &str,
) -> Result<(), Error> {
    tx.run(
        "INSERT INTO jobs_dead (id, died_at, queue, lane, kind, failures, enqueued_at, payload,
           reason, batch_id, unique_key) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
        params![
            claim.id,
            died_at,
            queue,
            *claim.lane,
            *claim.kind,
            claim.attempt,
            claim.enqueued_at,
            claim.payload,
            reason,
            claim.batch_id,
            key
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
pub(crate) fn free_keys<'k>(
    tx: &mut Tx,
    keys: impl IntoIterator<Item = (&'k str, Id)>,
) -> Result<(), Error> {
    let each = keys.into_iter().map(|(key, id)| [Value::Text(key.into()), Value::Int(id.0)]);
    tx.run_all("DELETE FROM jobs_unique WHERE unique_key = ?1 AND id = ?2", each)
}

/// Node `?2` was not taken for dead: what it was silent for too long to keep is another's.
const LIVES: &str = "EXISTS (SELECT 1 FROM jobs_nodes WHERE node = ?2)";

/// Reads the rows of `queue` that `picks` tell, one list for each pick, in order of id. What is
/// gone is left out.
pub(crate) fn read(
    tx: &mut Tx,
    queue: &str,
    picks: &[Pick],
    kinds: Kinds<'_>,
    me: Option<Id>,
) -> Result<Vec<Vec<Claim>>, Error> {
    let mut wanted: Vec<(i64, usize)> = (picks.iter().enumerate())
        .flat_map(|(at, pick)| pick.ids.iter().map(move |id| (*id, at)))
        .collect();
    wanted.sort_unstable();
    let mut found: Vec<Vec<Claim>> =
        picks.iter().map(|pick| Vec::with_capacity(pick.ids.len())).collect();
    let columns = "SELECT id, kind, failures, enqueued_at, unique_key, payload, batch_id,
         expires_at, postponed_since
       FROM jobs";
    let mut one = |row: &Row<'_>| {
        let id: i64 = row.get(0)?;
        // Sorted, and every row is one of those.
        if let Ok(at) = wanted.binary_search_by_key(&id, |(id, _)| *id) {
            let at = wanted[at].1;
            found[at].push(claim(row, &picks[at].lane, kinds)?);
        }
        Ok(())
    };
    match tx.dialect() {
        Dialect::Sqlite => {
            // Whoever moves jobs to another queue is in this process, and takes them out of turn.
            let params = wanted.iter().map(|(id, _)| [Value::Int(*id)]);
            tx.query_each(&format!("{columns} WHERE id = ?1"), params, &mut one)?;
        }
        Dialect::Postgres => {
            let list: Vec<Id> = wanted.iter().map(|(id, _)| Id(*id)).collect();
            let sql = format!("{columns} WHERE id IN ids(?1) AND queue = ?3 AND {LIVES}");
            tx.query(&sql, params![ids(&list), me, queue], &mut one)?;
            for claims in &mut found {
                claims.sort_unstable_by_key(|claim| claim.id);
            }
        }
    }
    Ok(found)
}

/// When something is due next.
pub(crate) fn next_due(tx: &mut Tx) -> Result<Option<Timestamp>, Error> {
    let soonest: Option<Option<Timestamp>> = tx.value(NEXT_DUE, &[])?;
    Ok(soonest.flatten())
}

/// The first of each state.
const NEXT_DUE: &str = "SELECT min(first_at) FROM (
  SELECT min(due_at) AS first_at FROM jobs_later WHERE state = 0
  UNION ALL SELECT min(due_at) FROM jobs_later WHERE state = 1) firsts";

/// A part of the table, in order of id.
pub(crate) struct Scanned {
    /// Lane and id of those of one queue.
    pub(crate) rows: Vec<(String, i64)>,
    /// Where it ended; none at the end of the table.
    pub(crate) last: Option<i64>,
}

/// Looks at `limit` rows after `edge` for those of `queue`: however many of other queues lie
/// between them, no look takes longer.
pub(crate) fn scan(tx: &mut Tx, queue: &str, edge: i64, limit: usize) -> Result<Scanned, Error> {
    let (mut looked, mut last, mut rows) = (0, edge, Vec::new());
    tx.query(
        "SELECT id, queue, lane FROM jobs WHERE id > ?1 ORDER BY id LIMIT ?2",
        params![edge, limit],
        |row| {
            (looked, last) = (looked + 1, row.get(0)?);
            if row.str(1)? == queue {
                rows.push((row.get(2)?, last));
            }
            Ok(())
        },
    )?;
    Ok(Scanned { rows, last: (looked == limit).then_some(last) })
}

/// When job `id`, ready since `ready_at`, was enqueued: that it carries in its id, which runs ahead
/// of the clock where many are made at once or the clock was set back.
pub(crate) fn enqueued_at(id: Id, ready_at: Timestamp) -> Timestamp {
    id.time().min(ready_at)
}

fn claim(row: &Row<'_>, lane: &Arc<str>, kinds: Kinds<'_>) -> Result<Claim, Error> {
    let failures: u32 = row.get(2)?;
    let kind = row.str(1)?;
    let (id, ready_at): (Id, Timestamp) = (row.get(0)?, row.get(3)?);
    Ok(Claim {
        lane: lane.clone(),
        id,
        kind: kinds(kind).map_or_else(|| Cow::Owned(kind.to_owned()), Cow::Borrowed),
        attempt: failures.saturating_add(1),
        enqueued_at: enqueued_at(id, ready_at),
        ready_at,
        unique_key: row.get(4)?,
        payload: row.get(5)?,
        batch_id: row.get(6)?,
        expires_at: row.get(7)?,
        postponed_since: row.get(8)?,
        jid: None,
        in_hand: None,
    })
}

/// Removes the rows of `claims` and tells which of them were still there.
pub(crate) fn remove<'c>(
    tx: &mut Tx,
    claims: impl IntoIterator<Item = &'c Claim>,
    me: Option<Id>,
) -> Result<Removed, Error> {
    let mut all = Vec::new();
    let mut lanes: Vec<(Arc<str>, usize)> = Vec::new();
    for claim in claims {
        all.push(claim.id);
        match lanes.last_mut() {
            Some((last, count)) if Arc::ptr_eq(last, &claim.lane) => *count += 1,
            _ => lanes.push((claim.lane.clone(), 1)),
        }
    }
    all.sort_unstable();
    let present = match tx.dialect() {
        Dialect::Sqlite => {
            let params = all.iter().map(|id| [Value::Int(id.0)]);
            let gone = tx.execute_each("DELETE FROM jobs WHERE id = ?1", params)?;
            if gone.iter().all(|gone| *gone) {
                all
            } else {
                all.into_iter().zip(gone).filter(|(_, gone)| *gone).map(|(id, _)| id).collect()
            }
        }
        Dialect::Postgres => {
            let sql = format!("DELETE FROM jobs WHERE id IN ids(?1) AND {LIVES} RETURNING id");
            let mut present: Vec<Id> = tx.column(&sql, params![ids(&all), me])?;
            present.sort_unstable();
            present
        }
    };
    Ok(Removed { present, lanes })
}

/// Rows that were removed.
pub(crate) struct Removed {
    /// Their ids, sorted.
    present: Vec<Id>,
    /// How many were to be removed, by lane.
    pub(crate) lanes: Vec<(Arc<str>, usize)>,
}

impl Claim {
    /// Whether it waited too long to be run.
    pub(crate) fn is_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|at| at <= now)
    }

    /// Since when it could run: what was put off since then counts from there.
    pub(crate) fn ready_first(&self) -> Timestamp {
        self.postponed_since.unwrap_or(self.ready_at)
    }
}

impl Removed {
    /// Whether job `id` was there.
    pub(crate) fn has(&self, id: Id) -> bool {
        self.present.binary_search(&id).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use weir_db::Class;
    use weir_storm::fixture::databases;

    use super::*;
    use crate::schema;

    #[test]
    fn a_scan_tells_where_it_ended_however_few_it_finds() {
        for fixture in databases() {
            fixture.db.migrate(schema::PART, schema::MIGRATIONS).unwrap();
            let found = |tx: &mut Tx| {
                let sql = "INSERT INTO jobs (id, queue, lane, kind, failures, enqueued_at, payload)
                   VALUES (?1, ?2, 'lane', 'k', 0, 0, '{}')";
                let queue = |id| Value::Text(if id == 11 { "seldom" } else { "often" }.into());
                tx.run_all(sql, (1..=11).map(|id| [Value::Int(id), queue(id)]))?;
                let mut look = |edge| scan(tx, "seldom", edge, 4);
                Ok::<_, Error>([look(0)?, look(4)?, look(8)?].map(|it| (it.rows, it.last)))
            };
            let found = fixture.db.write_blocking(Class::Interactive, found).unwrap();
            let last = (vec![("lane".to_owned(), 11)], None);
            assert_eq!(found, [(vec![], Some(4)), (vec![], Some(8)), last], "{}", fixture.name);
        }
    }
}
