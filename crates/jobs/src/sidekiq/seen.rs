//! Which jobs from Redis had their effect: rows that commit with it.
//!
//! A unit's job may be handed out twice (its worker died after the commit, or the relay between a
//! push and its own commit). Its name is written in the transaction of its effect, so the second
//! time nothing is done.

use std::collections::HashSet;
use std::sync::Arc;

use weir_base::Timestamp;
use weir_db::{Error, Migration, Tx, Value, params, texts};

/// The part's name in the table of migrations.
pub(crate) const PART: &str = "jobs-redis";

pub(crate) const MIGRATIONS: &[Migration] = &[Migration {
    number: 1,
    name: "jobs from Redis that are done, members of batches in Redis",
    sql: "
CREATE TABLE jobs_seen (
  jid TEXT NOT NULL PRIMARY KEY,
  seen_at BIGINT NOT NULL
) WITHOUT ROWID;
CREATE INDEX jobs_seen_by_time ON jobs_seen (seen_at);

CREATE TABLE jobs_members (
  id BIGINT NOT NULL PRIMARY KEY,
  batch_id BIGINT NOT NULL,
  has_failed BIGINT NOT NULL
);
CREATE INDEX jobs_members_by_batch ON jobs_members (batch_id);
",
}];

/// How long a name is kept, in ms: a day.
pub(crate) const KEPT_MS: i64 = 24 * 3_600 * 1_000;
/// Rows of one statement.
const CHUNK: usize = 100;
/// Rows that one transaction forgets.
const FORGOTTEN_MAX: i64 = 2_000;

/// Writes down `jids`, and tells which were not there.
pub(crate) fn mark(
    tx: &mut Tx,
    jids: &[Arc<str>],
    now: Timestamp,
) -> Result<HashSet<String>, Error> {
    let mut fresh = HashSet::with_capacity(jids.len());
    for chunk in jids.chunks(CHUNK) {
        let places: Vec<String> = (0..chunk.len()).map(|at| format!("(?{}, ?1)", at + 2)).collect();
        let sql = format!(
            "INSERT INTO jobs_seen (jid, seen_at) VALUES {} ON CONFLICT DO NOTHING RETURNING jid",
            places.join(", ")
        );
        let mut values = vec![Value::Int(now.as_ms())];
        values.extend(chunk.iter().map(|jid| Value::Text((&**jid).into())));
        let new: Vec<String> = tx.column(&sql, &values)?;
        fresh.extend(new);
    }
    Ok(fresh)
}

/// Forgets `jids`: they had no effect, and come again.
pub(crate) fn unmark(tx: &mut Tx, jids: &[&str]) -> Result<(), Error> {
    if !jids.is_empty() {
        tx.run("DELETE FROM jobs_seen WHERE jid IN texts(?1)", params![texts(jids)])?;
    }
    Ok(())
}

/// Forgets some of what is older than a day; tells how many.
pub(crate) fn forget(tx: &mut Tx, now: Timestamp) -> Result<u64, Error> {
    tx.execute(
        "DELETE FROM jobs_seen WHERE jid IN (SELECT jid FROM jobs_seen
         WHERE seen_at < ?1 ORDER BY seen_at LIMIT ?2)",
        params![now.plus_ms(-KEPT_MS), FORGOTTEN_MAX],
    )
}
