//! Looking at queues and sets.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use weir_base::{Id, Timestamp};
use weir_db::{Class, Dialect, Row, Tx, Value, params};

use crate::rows::{State, enqueued_at};
use crate::{Breaker, Error, Job, Jobs, LimitedBy, views};

/// The most entries of one list.
const LIST_MAX: usize = 1_000;
/// Rows that are counted: of the scheduled, of the retries, and on PostgreSQL for the depths of
/// queues.
const COUNTED_MAX: u64 = 100_000;

/// A payload as people read it; none where that is as it is kept.
pub type Readable = fn(&str) -> Option<String>;

/// A set of jobs that can be listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Set {
    /// Ready or running.
    Ready,
    /// Scheduled for a time.
    Scheduled,
    /// Waiting for their next attempt.
    Retries,
    /// Failed for good.
    Dead,
}

/// A job as it is shown to people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its id.
    pub id: Id,
    /// The set it is in.
    pub set: Set,
    /// Its queue.
    pub queue: String,
    /// Its fairness key.
    pub lane: String,
    /// Its type's name.
    pub kind: String,
    /// Attempts that failed so far.
    pub failures: u32,
    /// When it was enqueued first.
    pub enqueued_at: Timestamp,
    /// When it becomes ready (scheduled, retries), or died (dead).
    pub at: Option<Timestamp>,
    /// Why the last attempt failed.
    pub reason: Option<String>,
    /// The job as JSON, as it is kept: [`Jobs::readable`] is for people.
    pub payload: String,
}

/// Everything at a glance.
#[derive(Debug, Clone, Default)]
pub struct Stats {
    /// Every queue that is declared or held jobs, by name.
    pub queues: Vec<QueueStats>,
    /// Jobs scheduled for a time; of more than 100,000, so many.
    pub scheduled: u64,
    /// Jobs that wait for their next attempt; of more than 100,000, so many.
    pub retries: u64,
    /// Jobs that failed for good.
    pub dead: u64,
    /// What ran since the process started, by kind.
    pub kinds: Vec<KindStats>,
}

/// One queue.
#[derive(Debug, Clone, Default)]
pub struct QueueStats {
    /// Its name.
    pub name: String,
    /// Jobs ready or running.
    pub depth: u64,
    /// Fairness keys that hold them.
    pub lanes: u64,
    /// Jobs (tasks) or batches (units) that run now.
    pub running: u64,
    /// How long the oldest waiting job has been ready, in ms. Never too low; it may be too high
    /// until its lane's next job is taken, or has none for a moment.
    pub oldest_age_ms: i64,
    /// Whether it was paused by hand.
    pub paused: bool,
    /// Jobs (tasks) or batches (units) that may run at once; 0 where it is not served.
    pub limit: u64,
    /// Why no more run now.
    pub limited_by: LimitedBy,
}

/// One fairness key of a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneStats {
    /// The key.
    pub lane: String,
    /// Jobs ready or running.
    pub depth: u64,
    /// Jobs that run now.
    pub running: u64,
    /// What stands before it ([`Queue::breaker`](crate::Queue::breaker)).
    pub breaker: Breaker,
    /// When its next job may start, if it has to wait for its time.
    pub waits_until: Option<Timestamp>,
}

/// One kind of job, since the process started.
#[derive(Debug, Clone, Default)]
pub struct KindStats {
    /// Its name.
    pub kind: String,
    /// Jobs done.
    pub done: u64,
    /// Attempts that failed and are tried again.
    pub retried: u64,
    /// Attempts that were put off, which is no failure.
    pub postponed: u64,
    /// Jobs given up and dropped.
    pub discarded: u64,
    /// Jobs that waited too long, and were dropped without a run.
    pub expired: u64,
    /// Tasks cut off by hand.
    pub cancelled: u64,
    /// Jobs moved to the dead set.
    pub dead: u64,
}

impl Jobs {
    /// The queues in numbers, from memory; of those in Redis what was seen half a second ago.
    pub fn queues(&self) -> Vec<QueueStats> {
        match self.inner.redis.get() {
            Some(redis) => joined(self.queues_here(), redis.seen.lock().clone()),
            None => self.queues_here(),
        }
    }

    /// The queues of the database.
    pub(crate) fn queues_here(&self) -> Vec<QueueStats> {
        let now = self.inner.clock.now();
        let one = |state: Arc<crate::directory::QueueState>| {
            let oldest_age_ms = state.oldest_age_ms(now);
            let turns = state.turns.lock();
            QueueStats {
                name: state.name.to_string(),
                depth: turns.depth(),
                lanes: turns.lanes() as u64,
                running: state.places.held() as u64,
                oldest_age_ms,
                paused: state.paused.load(Ordering::Relaxed),
                limit: state.places.most() as u64,
                limited_by: *state.limited_by.lock(),
            }
        };
        self.inner.directory.all().into_iter().map(one).collect()
    }

    /// Jobs of `queue` that wait in the database, as far as this process knows, from memory.
    pub fn depth(&self, queue: &str) -> u64 {
        self.inner.directory.find(queue).map_or(0, |state| state.turns.lock().depth())
    }

    /// The same of one of its lanes.
    pub fn depth_in(&self, queue: &str, lane: &str) -> u64 {
        self.inner.directory.find(queue).map_or(0, |state| state.turns.lock().depth_of(lane))
    }

    /// Whether [`depth`](Self::depth) and its like tell of all that waits. Not beside other nodes
    /// on PostgreSQL, nor yet where this one has just begun; with the jobs on Redis never.
    pub fn knows_all_that_waits(&self) -> bool {
        let inner = &self.inner;
        let is_sqlite = inner.db.dialect() == Dialect::Sqlite;
        inner.redis.get().is_none() && (is_sqlite || inner.nodes.knows_all())
    }

    /// Jobs of the kind `kind` that this process has done since it began.
    pub fn done(&self, kind: &str) -> u64 {
        self.inner.totals.done(kind)
    }

    /// Those of them that nobody works on: a unit that asks is not among them.
    pub fn untaken_in(&self, queue: &str, lane: &str) -> u64 {
        self.inner.directory.find(queue).map_or(0, |state| state.turns.lock().untaken_of(lane))
    }

    /// The deepest lanes of `queue`, at most `limit`, from memory.
    pub fn lanes(&self, queue: &str, limit: usize) -> Vec<LaneStats> {
        let Some(state) = self.inner.directory.find(queue) else { return Vec::new() };
        let turns = state.turns.lock();
        let deepest = turns.deepest(limit);
        let one = |(lane, depth, running): (Arc<str>, u64, usize)| {
            let (breaker, opens_ms) = turns.gate(&lane);
            LaneStats {
                lane: lane.to_string(),
                depth,
                running: running as u64,
                breaker,
                waits_until: opens_ms.map(Timestamp::from_ms),
            }
        };
        deepest.into_iter().map(one).collect()
    }

    /// Queues, sets and kinds in numbers. Where nodes share a PostgreSQL, `depth` counts the jobs
    /// of all while there are at most 100,000, and lanes, running, limit and age are those of all
    /// nodes, as each told it with its last beat. Kinds, and why no more run, are of this node.
    ///
    /// # Errors
    /// [`Error::Db`].
    pub async fn stats(&self) -> Result<Stats, Error> {
        let mut here = self.queues_here();
        let me = self.inner.nodes.me();
        let count = move |tx: &mut Tx| {
            let scheduled = count_later(tx, State::Scheduled, COUNTED_MAX)?;
            let retries = count_later(tx, State::Retry, COUNTED_MAX)?;
            let dead: Option<u64> = tx.value("SELECT COUNT(*) FROM jobs_dead", &[])?;
            let others = views::others(tx, me)?;
            let sets = (scheduled, retries, dead.unwrap_or(0));
            Ok::<_, weir_db::Error>((sets, on_all_nodes(tx)?, others))
        };
        let ((scheduled, retries, dead), everywhere, others) =
            self.inner.db.read(Class::Interactive, count).await?;
        others.into_iter().for_each(|(_, view)| view.add_to(&mut here));
        here.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        if let Some(depths) = everywhere {
            for queue in &mut here {
                let depth = depths.iter().find(|(name, _)| *name == queue.name);
                queue.depth = depth.map_or(0, |(_, count)| *count);
            }
        }
        if let Some(redis) = self.inner.redis.get() {
            let sizes = redis.sizes().await?;
            return Ok(Stats {
                queues: joined(here, redis.queue_stats(self.inner.clock.now()).await?),
                scheduled: sizes.scheduled + scheduled,
                retries: sizes.retries + retries,
                dead: sizes.dead + dead,
                kinds: self.inner.totals.all(),
            });
        }
        Ok(Stats { queues: here, scheduled, retries, dead, kinds: self.inner.totals.all() })
    }

    /// How many jobs are scheduled, or are tried again, beyond those that [`stats`](Self::stats)
    /// counts: for who looks at them all, which takes longer than to count them.
    pub(crate) async fn uncounted(&self, set: Set) -> Result<u64, Error> {
        let count = move |tx: &mut Tx| count_later(tx, state_of(set), i64::MAX.unsigned_abs());
        let all: u64 = self.inner.db.read(Class::Interactive, count).await?;
        Ok(all.saturating_sub(COUNTED_MAX))
    }

    /// How many jobs are ready, on all nodes: likewise for who looks at them all.
    pub(crate) async fn ready_everywhere(&self) -> Result<u64, Error> {
        let count = |tx: &mut Tx| tx.value("SELECT COUNT(*) FROM jobs", &[]);
        let all: Option<u64> =
            self.inner.db.read::<_, weir_db::Error, _>(Class::Interactive, count).await?;
        Ok(all.unwrap_or(0))
    }

    /// At most `limit` (and 1,000) jobs of `set`, after the entry `after`: the ready by
    /// id, the scheduled and the retries by time, the dead from the newest.
    ///
    /// # Errors
    /// [`Error::Db`].
    pub async fn list(
        &self,
        set: Set,
        after: Option<Entry>,
        limit: usize,
    ) -> Result<Vec<Entry>, Error> {
        let limit = limit.min(LIST_MAX);
        let Some(redis) = self.inner.redis.get() else {
            return self.list_here(set, after, limit).await;
        };
        let (mut there, passed) = redis.list(set, after.as_ref(), limit).await?;
        let (after, left) = (after.filter(|_| !passed), limit - there.len());
        if set == Set::Ready && left > 0 {
            // What was not handed over yet comes after them.
            there.extend(self.list_here(set, after, left).await?);
        }
        Ok(there)
    }

    /// As [`list`](Self::list), of what lies in the database.
    pub(crate) async fn list_here(
        &self,
        set: Set,
        after: Option<Entry>,
        limit: usize,
    ) -> Result<Vec<Entry>, Error> {
        let list = move |tx: &mut Tx| list(tx, set, after.as_ref(), limit);
        Ok(self.inner.db.read(Class::Interactive, list).await?)
    }

    /// The job `id`, wherever it is; none once it is done.
    ///
    /// # Errors
    /// [`Error::Db`].
    pub async fn show(&self, id: Id) -> Result<Option<Entry>, Error> {
        match (self.show_here(id).await?, self.inner.redis.get()) {
            (None, Some(redis)) => Ok(redis.find(id).await?.map(|found| found.entry)),
            (row, _) => Ok(row),
        }
    }

    /// Has people read payloads of type `J`, and search in them, by `readable`, whether its workers
    /// run here or not: none where a payload reads as it is kept.
    pub fn make_readable<J: Job>(&self, readable: Readable) {
        self.inner.readable.lock().extend([(J::KIND, readable), (J::SIDEKIQ_CLASS, readable)]);
    }

    /// The payload of `entry` as people read it ([`make_readable`](Self::make_readable)).
    pub fn readable<'a>(&self, entry: &'a Entry) -> Cow<'a, str> {
        let readable = self.inner.readable.lock().get(&*entry.kind).copied();
        let text = readable.and_then(|readable| readable(&entry.payload));
        text.map_or(Cow::Borrowed(&entry.payload), Cow::Owned)
    }

    /// As [`show`](Self::show), of what lies in the database.
    pub(crate) async fn show_here(&self, id: Id) -> Result<Option<Entry>, Error> {
        let show = move |tx: &mut Tx| {
            let found = find_ready(tx, id)?;
            if found.is_some() { Ok(found) } else { find(tx, id) }
        };
        Ok(self.inner.db.read::<_, weir_db::Error, _>(Class::Interactive, show).await?)
    }
}

/// What is in the database, and what lies in Redis.
fn joined(here: Vec<QueueStats>, there: Vec<QueueStats>) -> Vec<QueueStats> {
    let mut queues = here;
    for there in there {
        match queues.iter_mut().find(|here| here.name == there.name) {
            Some(here) => {
                here.depth += there.depth;
                here.running = there.running;
                here.lanes = here.lanes.max(there.lanes);
                here.oldest_age_ms = here.oldest_age_ms.max(there.oldest_age_ms);
                here.paused = there.paused;
            }
            None => queues.push(there),
        }
    }
    queues.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    queues
}

/// On PostgreSQL the depth of each queue, unless that takes long to count.
fn on_all_nodes(tx: &mut Tx) -> Result<Option<Vec<(String, u64)>>, weir_db::Error> {
    if tx.dialect() == Dialect::Sqlite {
        return Ok(None);
    }
    let depths: Vec<(String, u64)> = tx.query(
        "SELECT queue, COUNT(*) FROM (SELECT queue FROM jobs ORDER BY id LIMIT ?1) held
         GROUP BY queue",
        params![COUNTED_MAX + 1],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    let all: u64 = depths.iter().map(|(_, count)| count).sum();
    Ok((all <= COUNTED_MAX).then_some(depths))
}

fn list(
    tx: &mut Tx,
    set: Set,
    after: Option<&Entry>,
    limit: usize,
) -> Result<Vec<Entry>, weir_db::Error> {
    match set {
        Set::Ready => entries(
            tx,
            set,
            "SELECT id, queue, lane, kind, failures, enqueued_at, NULL, NULL, payload
                 FROM jobs WHERE id > ?1 ORDER BY id LIMIT ?2",
            params![after.map_or(Id::ZERO, |after| after.id), limit],
        ),
        Set::Scheduled | Set::Retries => {
            let at = after.and_then(|after| after.at).unwrap_or(Timestamp::from_ms(i64::MIN));
            let id = after.map_or(Id::ZERO, |after| after.id);
            entries(tx, set, LATER, params![at, id, limit, state_of(set) as i64])
        }
        Set::Dead => {
            let at = after.and_then(|after| after.at).unwrap_or(Timestamp::from_ms(i64::MAX));
            let id = after.map_or(Id::MAX, |after| after.id);
            entries(
                tx,
                set,
                "SELECT id, queue, lane, kind, failures, enqueued_at, died_at, reason, payload
                 FROM jobs_dead WHERE (died_at, id) < (?1, ?2)
                 ORDER BY died_at DESC, id DESC LIMIT ?3",
                params![at, id, limit],
            )
        }
    }
}

/// In the order of their key, so that no row of another state is read.
const LATER: &str = "SELECT id, queue, lane, kind, failures, enqueued_at, due_at, reason, payload
     FROM jobs_later WHERE state = ?4 AND (due_at, id) > (?1, ?2) ORDER BY due_at, id LIMIT ?3";

fn state_of(set: Set) -> State {
    if set == Set::Retries { State::Retry } else { State::Scheduled }
}

/// How many jobs wait in `state`; of more than `most`, so many.
fn count_later(tx: &mut Tx, state: State, most: u64) -> Result<u64, weir_db::Error> {
    let sql = "SELECT COUNT(*) FROM (SELECT 1 FROM jobs_later WHERE state = ?1 LIMIT ?2) counted";
    tx.value(sql, params![state as i64, most]).map(Option::unwrap_or_default)
}

/// The job `id` if it is scheduled, waits for a retry or is dead.
fn find(tx: &mut Tx, id: Id) -> Result<Option<Entry>, weir_db::Error> {
    let state: Option<i64> = tx.value("SELECT state FROM jobs_later WHERE id = ?1", params![id])?;
    let (set, sql) = match state {
        Some(state) => (
            if state == 1 { Set::Retries } else { Set::Scheduled },
            "SELECT id, queue, lane, kind, failures, enqueued_at, due_at, reason, payload
             FROM jobs_later WHERE id = ?1",
        ),
        None => (
            Set::Dead,
            "SELECT id, queue, lane, kind, failures, enqueued_at, died_at, reason, payload
             FROM jobs_dead WHERE id = ?1",
        ),
    };
    Ok(entries(tx, set, sql, params![id])?.pop())
}

/// The row of a ready job.
pub(crate) fn find_ready(tx: &mut Tx, id: Id) -> Result<Option<Entry>, weir_db::Error> {
    let sql = "SELECT id, queue, lane, kind, failures, enqueued_at, NULL, NULL, payload
               FROM jobs WHERE id = ?1";
    Ok(entries(tx, Set::Ready, sql, params![id])?.pop())
}

fn entries(
    tx: &mut Tx,
    set: Set,
    sql: &str,
    params: &[Value<'_>],
) -> Result<Vec<Entry>, weir_db::Error> {
    let entry = |row: &Row<'_>| {
        let in_jobs = set == Set::Ready;
        let (id, at): (Id, Timestamp) = (row.get(0)?, row.get(5)?);
        Ok(Entry {
            id,
            set,
            queue: row.get(1)?,
            lane: row.get(2)?,
            kind: row.get(3)?,
            failures: row.get(4)?,
            enqueued_at: if in_jobs { enqueued_at(id, at) } else { at },
            at: if in_jobs { None } else { Some(row.get(6)?) },
            reason: if in_jobs { None } else { row.get(7)? },
            payload: row.get(8)?,
        })
    };
    tx.query(sql, params, entry)
}

#[cfg(test)]
mod tests {
    use weir_storm::fixture::databases;

    use super::*;
    use crate::schema;

    #[test]
    fn what_is_scheduled_and_what_is_tried_again_are_listed_without_a_look_at_the_other() {
        for fixture in databases() {
            let db = &fixture.db;
            db.migrate(schema::PART, schema::MIGRATIONS).unwrap();
            let fill = |tx: &mut Tx| {
                // Between 1,000 retries that are due before and after lie five that are scheduled.
                let one = |id: i64| {
                    let is_retry = !(1_001..=1_005).contains(&id);
                    [Value::Int(1_000 + id), Value::Int(id), Value::Int(i64::from(is_retry))]
                };
                let sql = "INSERT INTO jobs_later (due_at, id, state, queue, lane, kind, failures,
                   enqueued_at, payload) VALUES (?1, ?2, ?3, 'q', '', 'k', 0, 0, '{}')";
                tx.run_all(sql, (1..=2_005).map(one))?;
                tx.execute("ANALYZE jobs_later", &[]).map(|_| ())
            };
            db.write_blocking::<_, weir_db::Error, _>(Class::Interactive, fill).unwrap();
            let look = |tx: &mut Tx| {
                let found = list(tx, Set::Scheduled, None, 3)?;
                let rest = list(tx, Set::Scheduled, found.last(), 3)?;
                let tried_again = list(tx, Set::Retries, None, 2_000)?.len();
                let explain = match tx.dialect() {
                    Dialect::Sqlite => format!("EXPLAIN QUERY PLAN {LATER}"),
                    Dialect::Postgres => format!("EXPLAIN {LATER}"),
                };
                let column = if tx.dialect() == Dialect::Sqlite { 3 } else { 0 };
                let plan: Vec<String> =
                    tx.query(&explain, params![0, 0, 10, 1], |row| row.get(column))?;
                Ok::<_, weir_db::Error>((found, rest, tried_again, plan.join("\n")))
            };
            let (found, rest, tried_again, plan) =
                db.read_blocking(Class::Interactive, look).unwrap();
            let ids = |list: &[Entry]| list.iter().map(|entry| entry.id.0).collect::<Vec<_>>();
            assert_eq!((ids(&found), ids(&rest)), (vec![1_001, 1_002, 1_003], vec![1_004, 1_005]));
            assert_eq!(tried_again, 2_000);
            let by_key = ["USING PRIMARY KEY (state=? AND (due_at,id)>(?,?))", "jobs_later_pkey"];
            assert!(by_key.iter().any(|key| plan.contains(key)), "{}: {plan}", fixture.name);
            // Neither all of them are read for some, nor are they sorted.
            assert!(!plan.to_lowercase().contains("sort"), "{}: {plan}", fixture.name);
            assert!(!plan.contains("TEMP B-TREE"), "{}: {plan}", fixture.name);
        }
    }
}
