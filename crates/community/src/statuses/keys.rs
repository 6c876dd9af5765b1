//! Keys of requests (`Idempotency-Key`), so that one sent twice makes one post.

use serde::{Deserialize, Serialize};
use weir_base::Id;
use weir_db::{Class, Tx, params};
use weir_jobs::{Claimed, Job, Outcome, Queue, Registry};

use super::Draft;
use crate::{Community, Env, Error};

/// What was made under the draft's key before.
pub(super) fn known(tx: &mut Tx, by: Id, draft: &Draft) -> Result<Option<Id>, Error> {
    let Some(key) = &draft.idempotency_key else { return Ok(None) };
    Ok(tx.value(
        "SELECT status_id FROM idempotency_keys WHERE account_id = ?1 AND idempotency_key = ?2",
        params![by, key],
    )?)
}

pub(super) fn remember(
    tx: &mut Tx,
    env: &Env,
    by: Id,
    draft: &Draft,
    made: Id,
) -> Result<(), Error> {
    let Some(key) = &draft.idempotency_key else { return Ok(()) };
    tx.execute(
        "INSERT INTO idempotency_keys (account_id, idempotency_key, status_id, created_at)
         VALUES (?1, ?2, ?3, ?4)",
        params![by, key, made, env.clock.now()],
    )?;
    Ok(())
}

/// How long the key of a request is remembered, in ms.
const KEY_LIFE_MS: i64 = 60 * 60 * 1_000;

/// The periodic job that forgets old keys of requests.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PruneKeys;

impl Job for PruneKeys {
    const KIND: &'static str = "prune_idempotency_keys";
    const QUEUE: Queue = Queue::new("upkeep", Class::Housekeeping);
}

/// Handles [`PruneKeys`].
pub(super) fn register(registry: &mut Registry, community: &Community) {
    let env = community.env().clone();
    registry.simple_unit(move |tx: &mut Tx, jobs: &[Claimed<PruneKeys>]| {
        let before = env.clock.now().plus_ms(-KEY_LIFE_MS);
        tx.execute("DELETE FROM idempotency_keys WHERE created_at < ?1", params![before])?;
        Ok(jobs.iter().map(|_| Outcome::Done).collect())
    });
    registry.periodic("prune_idempotency_keys", KEY_LIFE_MS, || PruneKeys);
}
