//! What other transactions committed, on PostgreSQL: new jobs, what is due, what is paused.
//!
//! Every row of `jobs` carries the number of its transaction. A look remembers its snapshot, and
//! the next one asks for what that could not see: rows of transactions that began after it, or
//! were still open. So each row is told exactly once, whatever the order of commits, and none by
//! the clock.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use weir_base::{Id, Timestamp};
use weir_db::{Class, Error, Tx, Value, ids, params};

use crate::dispatch::AGAIN_AFTER;
use crate::jobs::Inner;
use crate::{rows, slots};

/// How long a job of another node, or one that is due soon, may stay unknown.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Two looks that this process's own jobs bring on are so far apart: one look for many commits.
const LOOK_GAP: Duration = Duration::from_millis(4);
/// The same while some queue holds so many jobs that it lacks none soon: each look takes from the
/// database what the jobs need of it.
const LOOK_GAP_DEEP: Duration = Duration::from_millis(25);
/// Jobs of such a queue: what the fastest gets through in a tenth of a second.
const DEEP: u64 = 2_000;

/// Rows of newly gained slots that one look should read at most, and one statement does: read all
/// at once, millions would take memory by the gigabyte, and longer than a statement may.
const GAINED_ROWS_MAX: usize = 50_000;

/// The condition of rows that a snapshot could not see. The first comparison alone says where in
/// the index to begin.
const UNSEEN: &str = "AND xid >= ?1 AND (xid >= ?2 OR xid IN ids(?3))";

/// What wakes the look, and what makes one stale.
#[derive(Default)]
pub(crate) struct News {
    pub(crate) wake: Notify,
    /// Counts pauses and resumptions by this process.
    pub(crate) pauses: AtomicU64,
}

/// What transactions a look could not see: those from `next` on, and those that were `open`.
#[derive(Debug, Default, PartialEq, Eq)]
struct Snapshot {
    next: u64,
    open: Vec<u64>,
}

/// Where the last look ended, and how much the next one takes on.
struct Looks {
    last: Snapshot,
    /// How many of the slots that were gained are read whole at once.
    gained_max: usize,
}

/// By slot, queue and lane: ids, and since when the first is ready, in ms.
type Lanes = BTreeMap<(u8, String, String), Added>;

struct Added {
    ids: Vec<i64>,
    ready_ms: i64,
}

/// What a look found.
struct Look {
    snapshot: Snapshot,
    lanes: Lanes,
    others: Option<Others>,
}

/// What else other nodes did.
struct Others {
    next_due: Option<Timestamp>,
    paused: BTreeSet<String>,
    /// Tasks that are to be cut off wherever they run.
    cancelled: Vec<Id>,
}

/// Looks again and again, until `stop`.
pub(crate) async fn run(inner: Arc<Inner>, stop: CancellationToken) {
    let mut looks = Looks { last: Snapshot::default(), gained_max: 1 };
    let mut whole_at = Instant::now();
    while !stop.is_cancelled() {
        let began = Instant::now();
        // What this process did itself it knows, but for which node its jobs belong to.
        let whole = whole_at <= began;
        let gap = match look(&inner, &mut looks, whole).await {
            Ok(()) if inner.directory.all().iter().any(|queue| queue.is_deeper_than(DEEP)) => {
                LOOK_GAP_DEEP
            }
            Ok(()) => LOOK_GAP,
            Err(error) => {
                looks.gained_max = 1;
                inner.outage.failed("new jobs cannot be looked for", &error);
                AGAIN_AFTER
            }
        };
        if whole {
            whole_at = began + LOOK_EVERY;
        }
        let next = async {
            tokio::time::sleep_until((began + gap).into()).await;
            tokio::select! {
                () = tokio::time::sleep_until(whole_at.into()) => {}
                () = inner.news.wake.notified() => {}
            }
        };
        tokio::select! {
            () = next => {}
            () = stop.cancelled() => {}
        }
    }
}

async fn look(inner: &Arc<Inner>, looks: &mut Looks, whole: bool) -> Result<(), Error> {
    let (known, all_gained) = inner.nodes.to_look_at(&inner.directory);
    let gained = first_of(all_gained, looks.gained_max);
    let pauses = inner.news.pauses.load(Ordering::Acquire);
    let unseen = looks.last.unseen();
    let look =
        inner.db.read(Class::Inbound, move |tx| read(tx, known, gained, &unseen, whole)).await?;
    looks.last = look.snapshot;
    if gained != 0 {
        inner.hand.forget_all();
        let of_gained = look.lanes.iter().filter(|((slot, ..), _)| gained >> slot & 1 == 1);
        let rows: usize = of_gained.map(|(_, added)| added.ids.len()).sum();
        let fits = looks.gained_max * GAINED_ROWS_MAX / rows.max(1);
        looks.gained_max = fits.clamp(1, (looks.gained_max * 2).min(slots::SLOTS));
    }
    if gained != all_gained {
        inner.news.wake.notify_one();
    }
    metrics::counter!("weir_jobs_looks_total").increment(1);
    inner.nodes.loaded(known, gained, |ours| {
        for ((slot, queue, lane), Added { ids, ready_ms }) in &look.lanes {
            if ours >> slot & 1 == 1 {
                let state = inner.directory.queue(queue);
                state.turns.lock().added_in(*slot, lane, ids, *ready_ms);
                state.wake.notify_one();
            }
        }
    });
    let Some(others) = look.others else { return Ok(()) };
    if let Some(at) = others.next_due {
        inner.later.due(at);
    }
    for id in others.cancelled {
        inner.running.cancel(id);
    }
    for queue in inner.directory.all() {
        let paused = others.paused.contains(&*queue.name);
        // What was read before a pause of our own is old.
        if inner.news.pauses.load(Ordering::Acquire) == pauses
            && queue.paused.swap(paused, Ordering::Relaxed) != paused
        {
            queue.wake.notify_one();
        }
    }
    Ok(())
}

/// The lowest `count` of the slots in `mask`.
fn first_of(mask: u64, count: usize) -> u64 {
    let mut rest = mask;
    for _ in 0..count {
        // Without its lowest slot; of none, none.
        rest &= rest.wrapping_sub(1);
    }
    mask & !rest
}

fn read(
    tx: &mut Tx,
    known: u64,
    gained: u64,
    unseen: &[Value<'_>],
    whole: bool,
) -> Result<Look, Error> {
    let text: String =
        tx.query_one("SELECT CAST(pg_current_snapshot() AS TEXT)", &[], |row| row.get(0))?;
    let snapshot = Snapshot::parse(&text).ok_or_else(|| Error::Statement {
        reason: format!("{text:?} is no snapshot"),
        sql: "pg_current_snapshot".into(),
    })?;
    let mut lanes = Lanes::new();
    if known != 0 {
        let slots = slots::list(known);
        let sql = format!(
            "SELECT slot, queue, lane, id, enqueued_at FROM jobs WHERE slot IN ({slots}) {UNSEEN}"
        );
        tx.query(&sql, unseen, |row| {
            let slot = u8::try_from(row.get::<i64>(0)?).unwrap_or(0);
            let added = lanes.entry((slot, row.get(1)?, row.get(2)?)).or_insert(Added::NONE);
            added.add(row.get(3)?, row.get(4)?);
            Ok(())
        })?;
    }
    for slot in slots::each(gained) {
        read_whole(tx, slot, &mut lanes)?;
    }
    lanes.values_mut().for_each(|added| added.ids.sort_unstable());
    Ok(Look { snapshot, lanes, others: if whole { Some(read_others(tx)?) } else { None } })
}

/// Reads all of a slot, a part at a time: of a million rows only the ids stay in memory.
fn read_whole(tx: &mut Tx, slot: usize, lanes: &mut Lanes) -> Result<(), Error> {
    let number = u8::try_from(slot).unwrap_or(0);
    let mut after: (i64, i64) = (-1, 0);
    loop {
        let ((xid, id), mut count) = (after, 0);
        tx.query(
            "SELECT queue, lane, id, xid, enqueued_at FROM jobs
             WHERE slot = ?1 AND xid >= ?2 AND (xid, id) > (?2, ?3) ORDER BY xid, id LIMIT ?4",
            params![slot, xid, id, GAINED_ROWS_MAX],
            |row| {
                let id: i64 = row.get(2)?;
                let added = lanes.entry((number, row.get(0)?, row.get(1)?)).or_insert(Added::NONE);
                added.add(id, row.get(4)?);
                after = (row.get(3)?, id);
                count += 1;
                Ok(())
            },
        )?;
        if count < GAINED_ROWS_MAX {
            return Ok(());
        }
    }
}

fn read_others(tx: &mut Tx) -> Result<Others, Error> {
    let paused: Vec<String> = tx.column("SELECT queue FROM jobs_queues WHERE paused = 1", &[])?;
    Ok(Others {
        next_due: rows::next_due(tx)?,
        paused: paused.into_iter().collect(),
        cancelled: tx.column("SELECT id FROM jobs_cancels ORDER BY id LIMIT 10000", &[])?,
    })
}

impl Added {
    const NONE: Added = Added { ids: Vec::new(), ready_ms: i64::MAX };

    fn add(&mut self, id: i64, ready_ms: i64) {
        self.ids.push(id);
        self.ready_ms = self.ready_ms.min(ready_ms);
    }
}

impl Snapshot {
    /// Reads PostgreSQL's form: the oldest open, the next to begin, and those that are open.
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(':').skip(1);
        let next = parts.next()?.parse().ok()?;
        let open = parts.next()?.split(',').filter(|number| !number.is_empty());
        Some(Self { next, open: open.map(str::parse).collect::<Result<_, _>>().ok()? })
    }

    /// The parameters of [`UNSEEN`].
    fn unseen(&self) -> [Value<'static>; 3] {
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let open: Vec<Id> = self.open.iter().map(|one| Id(number(*one))).collect();
        let oldest = self.open.iter().min().map_or(self.next, |oldest| self.next.min(*oldest));
        [Value::Int(number(oldest)), Value::Int(number(self.next)), ids(&open)]
    }
}

/// Numbers of transactions in a database that was restored are of another server: they are old.
pub(crate) fn forget_foreign_numbers(tx: &mut Tx) -> Result<(), Error> {
    let sql = format!(
        "UPDATE jobs SET xid = 0 WHERE slot IN ({})
         AND xid > CAST(CAST(pg_current_xact_id() AS TEXT) AS BIGINT)",
        slots::list(u64::MAX)
    );
    tx.execute(&sql, &[]).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gained_slots_are_read_some_at_a_time() {
        assert_eq!(first_of(0b1011_0100, 2), 0b0001_0100);
        assert_eq!(first_of(0b1011_0100, 64), 0b1011_0100);
        assert_eq!(first_of(u64::MAX, 63), u64::MAX >> 1);
        assert_eq!(first_of(0, 3), 0);
    }

    #[test]
    fn a_snapshot_tells_which_rows_it_could_not_see() {
        let quiet = Snapshot::parse("745:745:").unwrap();
        assert_eq!(quiet.unseen(), [Value::Int(745), Value::Int(745), ids(&[])]);
        let busy = Snapshot::parse("740:745:740,742").unwrap();
        assert_eq!(busy, Snapshot { next: 745, open: vec![740, 742] });
        let open = ids(&[Id(740), Id(742)]);
        assert_eq!(busy.unseen(), [Value::Int(740), Value::Int(745), open]);
        assert_eq!(Snapshot::parse("nonsense"), None);
    }
}
