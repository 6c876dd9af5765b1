//! Keys of requests (`Idempotency-Key`), so that one sent twice makes one post.

use weir_base::Id;
use weir_db::{Tx, params};

use super::Draft;
use crate::{Env, Error};

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
    tx.run(
        "INSERT INTO idempotency_keys (account_id, idempotency_key, status_id, created_at)
         VALUES (?1, ?2, ?3, ?4)",
        params![by, key, made, env.clock.now()],
    )?;
    Ok(())
}

/// How long the key of a request is remembered, in ms.
pub(crate) const KEY_LIFE_MS: i64 = 60 * 60 * 1_000;
