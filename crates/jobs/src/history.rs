//! What ended in each minute, kept for a day.
//!
//! The counts of this process are looked at every few seconds, and what they grew by is added to
//! the row of the minute: nothing is done for a single job.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;
use weir_base::Timestamp;
use weir_db::{Class, Migration, Tx, params};

use crate::jobs::Inner;
use crate::{Error, Jobs, KindStats};

/// The part's name in the table of migrations.
pub(crate) const PART: &str = "jobs_history";

pub(crate) const MIGRATIONS: &[Migration] = &[Migration {
    number: 1,
    name: "what ended in each minute",
    sql: "
CREATE TABLE jobs_history (
  minute BIGINT NOT NULL,
  kind TEXT NOT NULL,
  queue TEXT NOT NULL,
  done BIGINT NOT NULL,
  failed BIGINT NOT NULL,
  PRIMARY KEY (minute, kind)
) WITHOUT ROWID;
",
}];

/// Minutes that are kept.
pub const HISTORY_MINUTES: i64 = 24 * 60;
const MINUTE_MS: i64 = 60_000;
/// How often the counts are looked at.
const EACH: Duration = Duration::from_secs(5);

/// One minute of one queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Minute {
    /// When it began.
    pub at: Timestamp,
    /// The queue.
    pub queue: String,
    /// Jobs done.
    pub done: u64,
    /// Attempts that failed: tried again, given up or dead.
    pub failed: u64,
}

/// What the history remembers between two looks.
#[derive(Default)]
pub(crate) struct History {
    /// Where each kind lies, once the workers run.
    pub(crate) queues: OnceLock<BTreeMap<&'static str, &'static str>>,
    written: Mutex<Written>,
}

/// What of the counts is in the table.
#[derive(Default)]
struct Written {
    /// Done and failed, by kind.
    counts: BTreeMap<String, (u64, u64)>,
    /// The last minute that was written to.
    minute: i64,
}

struct Grown {
    kind: String,
    queue: &'static str,
    done: u64,
    failed: u64,
}

/// Keeps the history until `stop`.
pub(crate) async fn run(inner: Arc<Inner>, stop: CancellationToken) {
    let mut each = tokio::time::interval(EACH);
    loop {
        let stopped = tokio::select! {
            _ = each.tick() => false,
            () = stop.cancelled() => true,
        };
        if let Err(error) = write(&inner).await {
            tracing::debug!(%error, "the history of jobs waits for the database");
        }
        if stopped {
            return;
        }
    }
}

/// Adds what ended since the last time to this minute.
async fn write(inner: &Arc<Inner>) -> Result<(), weir_db::Error> {
    let mut written = inner.history.written.lock().await;
    let minute = inner.clock.now().as_ms().div_euclid(MINUTE_MS);
    let (mut grown, mut counts) = (Vec::new(), BTreeMap::new());
    for KindStats { kind, done, retried, discarded, dead, .. } in inner.totals.all() {
        let failed = retried + discarded + dead;
        let before = written.counts.get(&kind).copied().unwrap_or_default();
        if (done, failed) != before {
            let queue = inner.history.queues.get().and_then(|queues| queues.get(&*kind).copied());
            grown.push(Grown {
                kind: kind.clone(),
                queue: queue.unwrap_or_default(),
                done: done.saturating_sub(before.0),
                failed: failed.saturating_sub(before.1),
            });
        }
        counts.insert(kind, (done, failed));
    }
    let is_new = minute != written.minute;
    if grown.is_empty() && !is_new {
        return Ok(());
    }
    let add = move |tx: &mut Tx| {
        for Grown { kind, queue, done, failed } in &grown {
            tx.run(
                "INSERT INTO jobs_history (minute, kind, queue, done, failed)
                 VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (minute, kind) DO UPDATE
                 SET done = jobs_history.done + excluded.done,
                   failed = jobs_history.failed + excluded.failed",
                params![minute, kind, *queue, *done, *failed],
            )?;
        }
        if is_new {
            let first = minute - HISTORY_MINUTES;
            tx.run("DELETE FROM jobs_history WHERE minute <= ?1", params![first])?;
        }
        Ok::<_, weir_db::Error>(())
    };
    inner.db.write(Class::Housekeeping, add).await?;
    *written = Written { counts, minute };
    Ok(())
}

impl Jobs {
    /// What ended in the last `minutes` minutes (at most [`HISTORY_MINUTES`]), this one included,
    /// by queue, from the oldest; minutes in which nothing ended are left out. An end counts where
    /// it was seen, up to five seconds late.
    ///
    /// # Errors
    /// [`Error::Db`].
    pub async fn history(&self, minutes: u32) -> Result<Vec<Minute>, Error> {
        write(&self.inner).await?;
        let now = self.inner.clock.now().as_ms().div_euclid(MINUTE_MS);
        let first = now - i64::from(minutes).min(HISTORY_MINUTES) + 1;
        let read = move |tx: &mut Tx| {
            tx.query(
                "SELECT minute, queue, CAST(SUM(done) AS BIGINT), CAST(SUM(failed) AS BIGINT)
                 FROM jobs_history WHERE minute >= ?1 GROUP BY minute, queue
                 ORDER BY minute, queue",
                params![first],
                |row| {
                    let minute: i64 = row.get(0)?;
                    Ok(Minute {
                        at: Timestamp::from_ms(minute.saturating_mul(MINUTE_MS)),
                        queue: row.get(1)?,
                        done: row.get(2)?,
                        failed: row.get(3)?,
                    })
                },
            )
        };
        Ok(self.inner.db.read::<_, weir_db::Error, _>(Class::Interactive, read).await?)
    }
}
