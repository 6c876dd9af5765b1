//! Promotion: scheduled jobs and retries that are due move into their queues.

use std::sync::Arc;

use weir_base::{Id, Timestamp};
use weir_db::{Class, Dialect, Error, Tx, params};

use crate::jobs::Inner;
use crate::rows::{State, next_due};

/// A group should occupy the writer for about so long, in ns: others wait meanwhile.
const GROUP_NS: i64 = 5_000_000;
/// Jobs of one group at first, at least and at most.
const GROUP_FIRST: i64 = 500;
const GROUP_MIN: i64 = 50;
const GROUP_MAX: i64 = 5_000;

/// Moves what is due, in groups by measured time.
pub(crate) struct Promoter {
    group: i64,
}

/// What a group was.
struct Moved {
    count: i64,
    took_ns: i64,
}

impl Promoter {
    pub(crate) fn new() -> Self {
        Self { group: GROUP_FIRST }
    }

    /// Moves one group, or two on SQLite, whose writer begins the second while the first is
    /// synced; false when another node leads, found out in the same transaction.
    pub(crate) async fn step(&mut self, inner: &Arc<Inner>) -> Result<bool, Error> {
        let one = move_group(inner, self.group);
        let moved = if inner.db.dialect() == Dialect::Sqlite {
            let (one, other) = tokio::join!(one, move_group(inner, self.group));
            other?;
            one?
        } else {
            one.await?
        };
        let Some(Moved { count, took_ns }) = moved else { return Ok(false) };
        if count >= self.group {
            let fits = count.saturating_mul(GROUP_NS) / took_ns.max(1);
            self.group = fits.clamp(self.group / 2, self.group * 2).clamp(GROUP_MIN, GROUP_MAX);
        }
        Ok(true)
    }
}

async fn move_group(inner: &Arc<Inner>, group: i64) -> Result<Option<Moved>, Error> {
    inner.later.reset();
    let (now, shared) = (inner.clock.now(), inner.clone());
    let promote = move |tx: &mut Tx| {
        if !shared.nodes.is_leader(tx)? {
            return Ok(None);
        }
        let (mut rows, first_due) = promote(tx, now, group)?;
        let next = next_due(tx)?;
        let took_ns = i64::try_from(tx.elapsed().as_nanos()).unwrap_or(i64::MAX);
        let moved = Moved { count: i64::try_from(rows.len()).unwrap_or(i64::MAX), took_ns };
        let shared = shared.clone();
        tx.after_commit(move || {
            // Lane by lane; here, since the thread that writes has more to do.
            rows.sort_unstable();
            shared.added(&rows, Some(first_due));
            if let Some(next) = next {
                shared.later.due(next);
            }
        });
        Ok(Some(moved))
    };
    let promoted = inner.db.write(Class::Inbound, promote).await;
    if promoted.is_err() {
        inner.later.due(now);
    }
    promoted
}

/// What was moved: queue, lane and id, and when the first of them was due.
type Promoted = (Vec<(String, String, Id)>, Timestamp);

/// Moves up to `group` of each: of what is scheduled and of what is tried again. In their queues
/// they count as enqueued when they were due, as they waited for nobody before.
fn promote(tx: &mut Tx, now: Timestamp, group: i64) -> Result<Promoted, Error> {
    let (mut moved, mut first_due) = (Vec::new(), now);
    for state in [State::Scheduled, State::Retry] {
        let state = state as i64;
        let last: Option<(Timestamp, Id)> = tx.query_opt(
            "SELECT due_at, id FROM jobs_later WHERE state = ?1 AND due_at <= ?2
             ORDER BY due_at, id LIMIT 1 OFFSET ?3",
            params![state, now, group - 1],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )?;
        let (due_at, id) = last.unwrap_or((now, Id::MAX));
        let rows: Vec<(String, String, Id)> = tx.query(
            "INSERT INTO jobs (id, queue, lane, kind, failures, enqueued_at, unique_key, payload,
               batch_id, expires_at, postponed_since)
             SELECT id, queue, lane, kind, failures, due_at, unique_key, payload, batch_id,
               expires_at, postponed_since
             FROM jobs_later WHERE state = ?1 AND (due_at, id) <= (?2, ?3)
             RETURNING queue, lane, id, enqueued_at",
            params![state, due_at, id],
            |row| {
                first_due = first_due.min(row.get(3)?);
                Ok((row.get(0)?, row.get(1)?, row.get(2)?))
            },
        )?;
        if !rows.is_empty() {
            let sql = "DELETE FROM jobs_later WHERE state = ?1 AND (due_at, id) <= (?2, ?3)";
            tx.run(sql, params![state, due_at, id])?;
        }
        moved.extend(rows);
    }
    Ok((moved, first_due))
}
