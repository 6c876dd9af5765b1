//! Which jobs may not be there twice.

use std::collections::HashSet;

use weir_base::{Id, Timestamp};
use weir_db::{Error, Tx, Value, params};

use crate::keeper::PRUNED_MAX;

/// Until when a job keeps another of the same [`unique_key`](crate::Job::unique_key) away. Jobs
/// of one key must be interchangeable. A job that is cancelled or deleted frees its key.
///
/// One that dies frees its key too (but for that of [`ForMs`](Self::ForMs)), so that others of it
/// are let in. Whoever retries it from the dead set has it take the key again: while another has
/// it, the job stays dead. (On Redis a retry by other hands is noticed when the job starts: see
/// [`sidekiq`](crate::sidekiq).)
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unique {
    /// Not at all. A key given by hand ([`enqueue_unique`](crate::Jobs::enqueue_unique)) counts
    /// until the start.
    No,
    /// Until it starts: what happens from then on enqueues anew. One that fails while a newer one
    /// waits is dropped in its favour.
    UntilStart,
    /// Until it ends: done, given up, expired, cancelled or dead. While it waits for a retry it
    /// keeps others away. The key is freed in the transaction that removes the job, so there is
    /// no moment at which two of a key run.
    UntilDone,
    /// For so many milliseconds after it was enqueued, whatever becomes of it meanwhile.
    ForMs(i64),
}

impl Unique {
    pub(crate) fn ends_at_start(self) -> bool {
        matches!(self, Self::No | Self::UntilStart)
    }

    /// Whether the key is free once the job is over, and not at a time that was set before.
    pub(crate) fn ends_with_job(self) -> bool {
        !matches!(self, Self::ForMs(_))
    }

    fn until(self, now: Timestamp) -> Option<Timestamp> {
        match self {
            Self::ForMs(ms) => Some(now.plus_ms(ms.max(0))),
            _ => None,
        }
    }
}

/// Takes `key` for job `id`, unless another keeps it, whose id is given then.
pub(crate) fn take(
    tx: &mut Tx,
    unique: Unique,
    key: &str,
    id: Id,
    now: Timestamp,
) -> Result<Option<Id>, Error> {
    let taken = tx.execute(TAKE, params![key, id, unique.until(now), now])?;
    if taken == 1 {
        return Ok(None);
    }
    holder(tx, key)
}

/// The job that has `key`.
pub(crate) fn holder(tx: &mut Tx, key: &str) -> Result<Option<Id>, Error> {
    tx.value("SELECT id FROM jobs_unique WHERE unique_key = ?1", params![key])
}

/// Why a job that is unique until it is done does not run.
pub(crate) const KEY_IS_TAKEN: &str = "another job of its unique key waits or runs";

/// Has job `id` keep others of `key` away until it is done; false when another has the key.
pub(crate) fn keep(tx: &mut Tx, key: &str, id: Id, now: Timestamp) -> Result<bool, Error> {
    let by = take(tx, Unique::UntilDone, key, id, now)?;
    Ok(by.is_none_or(|by| by == id))
}

const TAKE: &str = "INSERT INTO jobs_unique (unique_key, id, until_at) VALUES (?1, ?2, ?3)
  ON CONFLICT (unique_key) DO UPDATE SET id = excluded.id, until_at = excluded.until_at
  WHERE jobs_unique.until_at <= ?4";

/// Takes each of `keys` for the job beside it, of equal ones the first; tells which jobs have
/// theirs.
pub(crate) fn take_each<'k>(
    tx: &mut Tx,
    unique: Unique,
    keys: impl IntoIterator<Item = (&'k str, Id)>,
    now: Timestamp,
) -> Result<HashSet<Id>, Error> {
    let until = unique.until(now).map_or(Value::Null, |until| Value::Int(until.as_ms()));
    let mut seen = HashSet::new();
    let first = keys.into_iter().filter(|(key, _)| seen.insert(*key));
    let each: Vec<[Value<'_>; 3]> =
        first.map(|(key, id)| [Value::Text(key.into()), Value::Int(id.0), until.clone()]).collect();
    // What `TAKE` overwrites is gone before, so that one statement does for all of them.
    let keys = each.iter().map(|[key, ..]| [key.clone(), Value::Int(now.as_ms())]);
    tx.run_all("DELETE FROM jobs_unique WHERE unique_key = ?1 AND until_at <= ?2", keys)?;
    let mut taken = HashSet::new();
    tx.query_each(TAKE_EACH, each, |row| {
        taken.insert(row.get(0)?);
        Ok(())
    })?;
    Ok(taken)
}

/// As [`TAKE`], of keys whose time is over or that no other job has. Where another has it, `DO
/// NOTHING` would leave PostgreSQL's row unlocked: that job could free its key and start without
/// what the caller is about to commit, and the caller's job would be kept away for nothing.
const TAKE_EACH: &str = "INSERT INTO jobs_unique (unique_key, id, until_at) VALUES (?1, ?2, ?3)
  ON CONFLICT (unique_key) DO UPDATE SET until_at = excluded.until_at
  WHERE jobs_unique.id = excluded.id RETURNING id";

/// Forgets keys whose time is over, some at once.
pub(crate) fn prune(tx: &mut Tx, now: Timestamp) -> Result<u64, Error> {
    tx.execute(
        "DELETE FROM jobs_unique WHERE unique_key IN
           (SELECT unique_key FROM jobs_unique WHERE until_at <= ?1 LIMIT ?2)",
        params![now, PRUNED_MAX],
    )
}

#[cfg(test)]
mod tests {
    use weir_db::{Class, Dialect};
    use weir_storm::fixture::databases;

    use super::*;
    use crate::schema;

    #[test]
    fn a_key_that_another_job_has_stays_its_own_and_is_not_freed_meanwhile() {
        for fixture in databases() {
            fixture.db.migrate(schema::PART, schema::MIGRATIONS).unwrap();
            let now = Timestamp::from_ms(1_000);
            let of = move |tx: &mut Tx, keys: &[(&'static str, i64)]| {
                let keys = keys.iter().map(|(key, id)| (*key, Id(*id)));
                let mut taken: Vec<i64> =
                    take_each(tx, Unique::UntilStart, keys, now)?.iter().map(|id| id.0).collect();
                taken.sort_unstable();
                Ok::<_, Error>(taken)
            };
            let first = move |tx: &mut Tx| of(tx, &[("a", 1), ("b", 2), ("a", 3)]);
            let taken = fixture.db.write_blocking(Class::Interactive, first).unwrap();
            assert_eq!(taken, [1, 2], "{}: of equal ones the first", fixture.name);
            let second = move |tx: &mut Tx| {
                let taken = of(tx, &[("a", 4), ("c", 5)])?;
                let is_locked = match tx.dialect() {
                    // Its one writer lets nobody in between.
                    Dialect::Sqlite => true,
                    Dialect::Postgres => {
                        let sql =
                            "SELECT CAST(xmax AS TEXT) FROM jobs_unique WHERE unique_key = 'a'";
                        tx.value::<String>(sql, &[])?.is_some_and(|by| by != "0")
                    }
                };
                Ok::<_, Error>((taken, is_locked, holder(tx, "a")?))
            };
            let found = fixture.db.write_blocking(Class::Interactive, second).unwrap();
            assert_eq!(found, (vec![5], true, Some(Id(1))), "{}", fixture.name);
        }
    }
}
