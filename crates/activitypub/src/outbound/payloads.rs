//! Bodies of deliveries, stored once for all inboxes, and which inboxes still wait for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use weir_base::{Id, MIB, Timestamp};
use weir_community::{Community, Error};
use weir_db::{Class, ToValue, Tx, ids, params};
use weir_jobs::{Job, Queue};

/// Bodies held ready, in bytes.
const READY_BYTES_MAX: u64 = 16 * MIB as u64;
/// Deliveries settled in one unit.
const SETTLED_MAX: usize = 500;
/// Rows written by one statement.
const ROWS_PER_STATEMENT: usize = 50;
/// How long a body is kept for an inbox that never took it, in ms: longer than it is tried.
const KEPT_MS: i64 = 20 * 24 * 60 * 60 * 1_000;

/// A body, and whose it is.
#[derive(Debug)]
pub struct Payload {
    /// Who signs it.
    pub by: Id,
    /// The activity.
    pub body: bytes::Bytes,
}

/// Bodies in memory, and what is to be settled.
pub struct Payloads {
    community: Community,
    ready: moka::sync::Cache<Id, Arc<Payload>>,
    ended: Mutex<Vec<(Id, String)>>,
    settling: AtomicBool,
}

impl Payloads {
    pub(super) fn new(community: Community) -> Self {
        let ready = moka::sync::Cache::builder()
            .max_capacity(READY_BYTES_MAX)
            .weigher(|_, payload: &Arc<Payload>| {
                u32::try_from(payload.body.len()).unwrap_or(u32::MAX)
            })
            .build();
        let (ended, settling) = (Mutex::default(), AtomicBool::new(false));
        Self { community, ready, ended, settling }
    }

    /// A body; none when every inbox has it, or it is too old.
    ///
    /// # Errors
    /// The database's.
    pub async fn get(&self, id: Id) -> Result<Option<Arc<Payload>>, Error> {
        if let Some(ready) = self.ready.get(&id) {
            return Ok(Some(ready));
        }
        let read = self.community.read(Class::Outbound, move |tx: &mut Tx, _| {
            let sql = "SELECT account_id, body FROM payloads WHERE id = ?1";
            Ok(tx.query_opt(sql, params![id], |row| Ok((row.get(0)?, row.get::<String>(1)?)))?)
        });
        let Some((by, body)) = read.await? else { return Ok(None) };
        let payload = Arc::new(Payload { by, body: body.into() });
        self.ready.insert(id, payload.clone());
        Ok(Some(payload))
    }

    /// The delivery of a body to an inbox ended: written down soon, many at once.
    pub fn ended(self: &Arc<Self>, payload: Id, inbox: String) {
        self.ended.lock().push((payload, inbox));
        if !self.settling.swap(true, Ordering::AcqRel) {
            let this = self.clone();
            tokio::spawn(async move { this.settle().await });
        }
    }

    async fn settle(&self) {
        loop {
            let batch: Vec<(Id, String)> = {
                let mut ended = self.ended.lock();
                let rest = ended.len().saturating_sub(SETTLED_MAX);
                ended.drain(rest..).collect()
            };
            if batch.is_empty() {
                self.settling.store(false, Ordering::Release);
                let more = !self.ended.lock().is_empty();
                if !more || self.settling.swap(true, Ordering::AcqRel) {
                    return;
                }
                continue;
            }
            let write =
                self.community.write(Class::Outbound, move |tx: &mut Tx, _| forget(tx, &batch));
            if let Err(error) = write.await {
                // Pruning finds them.
                tracing::warn!(%error, "deliveries that ended stay in their table");
            }
        }
    }
}

fn forget(tx: &mut Tx, batch: &[(Id, String)]) -> Result<(), Error> {
    for (payload, inbox) in batch {
        tx.execute(
            "DELETE FROM deliveries WHERE payload_id = ?1 AND inbox = ?2",
            params![*payload, inbox],
        )?;
    }
    let touched: Vec<Id> = batch.iter().map(|(payload, _)| *payload).collect();
    tx.execute(
        "DELETE FROM payloads WHERE id IN ids(?1) AND NOT EXISTS
           (SELECT 1 FROM deliveries d WHERE d.payload_id = payloads.id)",
        &[ids(&touched)],
    )?;
    Ok(())
}

/// Writes a body of `by` for these inboxes.
///
/// # Errors
/// The database's.
pub fn insert(
    tx: &mut Tx,
    id: Id,
    by: Id,
    body: &str,
    inboxes: &[String],
) -> Result<(), weir_db::Error> {
    tx.execute(
        "INSERT INTO payloads (id, account_id, body) VALUES (?1, ?2, ?3)",
        params![id, by, body],
    )?;
    for chunk in inboxes.chunks(ROWS_PER_STATEMENT) {
        let rows: Vec<String> = (0..chunk.len()).map(|at| format!("(?1, ?{})", at + 2)).collect();
        let sql = format!("INSERT INTO deliveries (payload_id, inbox) VALUES {}", rows.join(", "));
        let mut values = vec![id.to_value()];
        values.extend(chunk.iter().map(ToValue::to_value));
        tx.execute(&sql, &values)?;
    }
    Ok(())
}

/// The job that removes bodies which nothing asks for any more.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PrunePayloads;

impl Job for PrunePayloads {
    const KIND: &'static str = "prune_payloads";
    const QUEUE: Queue = Queue::new("prune_payloads", Class::Housekeeping);
}

/// Removes what is older than anything is tried.
///
/// # Errors
/// The database's.
pub fn prune(tx: &mut Tx, now: Timestamp) -> Result<(), weir_db::Error> {
    let old = Id::first_at(now.plus_ms(-KEPT_MS));
    tx.execute("DELETE FROM deliveries WHERE payload_id < ?1", params![old])?;
    tx.execute("DELETE FROM payloads WHERE id < ?1", params![old])?;
    Ok(())
}
