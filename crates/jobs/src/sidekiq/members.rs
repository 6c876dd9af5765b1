//! Members of batches, while their jobs are in Redis: a row each, in the database of the batch.
//!
//! ```text
//!            handed over            ended, the first time
//!   (none) ─────────────▶ waits ─────────────────────────▶ (none)
//!                           │  ▲                              ▲
//!                      dies ▼  │ raised                       │ done after all
//!                         failed ─────────────────────────────┘
//! ```
//!
//! The row comes before the push and goes with the first end that is heard of, so an end that is
//! told twice is counted once. What ends takes the job's own row along, should the relay have died
//! before it did: so nothing is handed over again after it was counted.

use std::sync::Arc;

use weir_base::Id;
use weir_db::{Class, Error, Tx, ids, params};

use super::failures::Next;
use super::worker::{AGAIN_AFTER, Core};
use crate::batches::{Change, Changes};
use crate::jobs::Inner;

/// How a member ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// It is done.
    Done,
    /// It is over otherwise.
    Failed,
    /// It is in the dead set, from where it may come back.
    Dead,
}

impl End {
    /// What a job's next place is to its batch; none while it is tried again.
    pub(crate) fn of(next: &Next) -> Option<Self> {
        match next {
            Next::Gone("done") => Some(Self::Done),
            Next::Gone(_) => Some(Self::Failed),
            Next::Dead { .. } => Some(Self::Dead),
            Next::Retry { .. } | Next::Later { .. } => None,
        }
    }
}

/// Writes down which of `jobs`, rows of the table that is named, go to Redis now, and tells which
/// those are: what is not there any more ended meanwhile.
pub(crate) fn hand_over(tx: &mut Tx, table: &str, jobs: &[Id]) -> Result<Vec<Id>, Error> {
    // An end and this exclude each other.
    let held = format!(
        "UPDATE {table} SET batch_id = batch_id WHERE id IN ids(?1) AND batch_id IS NOT NULL
         RETURNING id"
    );
    let mut there: Vec<Id> = tx.column(&held, params![ids(jobs)])?;
    tx.run(
        &format!(
            "INSERT INTO jobs_members (id, batch_id, has_failed)
             SELECT id, batch_id, 0 FROM {table} WHERE id IN ids(?1) ON CONFLICT (id) DO NOTHING"
        ),
        params![ids(&there)],
    )?;
    there.sort_unstable();
    Ok(there)
}

/// Counts the `ends` of members, and calls back what follows.
pub(crate) fn ended(tx: &mut Tx, inner: &Arc<Inner>, ends: &[(Id, End)]) -> Result<(), Error> {
    if ends.is_empty() {
        return Ok(());
    }
    let of = |end: End| -> Vec<Id> {
        ends.iter().filter(|(_, it)| *it == end).map(|(id, _)| *id).collect()
    };
    let all: Vec<Id> = ends.iter().map(|(id, _)| *id).collect();
    let mut changes = Changes::new();
    for (end, list) in [(End::Done, of(End::Done)), (End::Failed, of(End::Failed))] {
        for (batch, had_failed) in remove(tx, &list)? {
            let change = changes.entry(batch).or_default();
            change.done += i64::from(end == End::Done);
            change.failed += i64::from(end == End::Failed) - i64::from(had_failed);
        }
    }
    let dead: Vec<Id> = tx.column(
        "UPDATE jobs_members SET has_failed = 1 WHERE id IN ids(?1) AND has_failed = 0
         RETURNING batch_id",
        params![ids(&of(End::Dead))],
    )?;
    for batch in dead {
        changes.entry(batch).or_default().failed += 1;
    }
    tx.run("DELETE FROM jobs WHERE id IN ids(?1)", params![ids(&all)])?;
    tx.run("DELETE FROM jobs_later WHERE id IN ids(?1) AND state < 2", params![ids(&all)])?;
    inner.change_batches(tx, changes)
}

fn remove(tx: &mut Tx, list: &[Id]) -> Result<Vec<(Id, bool)>, Error> {
    tx.query(
        "DELETE FROM jobs_members WHERE id IN ids(?1) RETURNING batch_id, has_failed",
        params![ids(list)],
        |row| Ok((row.get(0)?, row.get::<i64>(1)? != 0)),
    )
}

/// Dead members `list` are tried again: they count as failed no longer.
pub(crate) fn raised(tx: &mut Tx, inner: &Arc<Inner>, list: &[Id]) -> Result<(), Error> {
    let raised: Vec<Id> = tx.column(
        "UPDATE jobs_members SET has_failed = 0 WHERE id IN ids(?1) AND has_failed = 1
         RETURNING batch_id",
        params![ids(list)],
    )?;
    let mut changes = Changes::new();
    for batch in raised {
        changes.entry(batch).or_default().failed -= 1;
    }
    inner.change_batches(tx, changes)
}

/// Members `list` go where nobody tells how they end: that counts as done.
pub(crate) fn let_go(
    tx: &mut Tx,
    inner: &Arc<Inner>,
    batches: impl Iterator<Item = Id>,
) -> Result<(), Error> {
    let mut changes = Changes::new();
    for batch in batches {
        let change: &mut Change = changes.entry(batch).or_default();
        change.done += 1;
    }
    inner.change_batches(tx, changes)
}

/// Counts `ends` before Redis is told of them; waits while the database is away, unless it is time
/// to end: then they run again.
pub(crate) async fn count(core: &Core, ends: Vec<(Id, End)>) -> bool {
    let ends = Arc::new(ends);
    while !ends.is_empty() {
        let (inner, list) = (core.inner.clone(), ends.clone());
        let count = move |tx: &mut Tx| ended(tx, &inner, &list);
        match core.inner.db.write::<_, Error, _>(Class::Inbound, count).await {
            Ok(()) => break,
            Err(error) => {
                tracing::warn!(%error, count = ends.len(), "ends in batches are not counted yet");
                if core.cut.is_cancelled() {
                    return false;
                }
                tokio::time::sleep(AGAIN_AFTER).await;
            }
        }
    }
    true
}
