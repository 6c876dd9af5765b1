//! Blocking and muting.

use weir_base::{Id, Timestamp};
use weir_db::{Tx, params};

use super::follow;
use crate::accounts;
use crate::federation::{self, Message};
use crate::{Env, Error};

/// `by` blocks `target`: follows end both ways and each other's notifications go.
///
/// # Errors
/// [`Error::NotFound`].
pub fn block(tx: &mut Tx, env: &Env, by: Id, target: Id, uri: &str) -> Result<(), Error> {
    let (one, other) = (accounts::by_id(tx, by)?, accounts::by_id(tx, target)?);
    if by == target {
        return Err(Error::Forbidden("This action is not allowed"));
    }
    accounts::hold(tx, target)?;
    follow::unfollow(tx, env, by, target)?;
    follow::remove_follower(tx, env, by, target)?;
    tx.run(
        "DELETE FROM follow_requests WHERE (account_id = ?1 AND target_id = ?2)
           OR (account_id = ?2 AND target_id = ?1)",
        params![by, target],
    )?;
    tx.run(
        "DELETE FROM notifications WHERE account_id = ?1 AND from_account_id = ?2",
        params![by, target],
    )?;
    let id = env.ids.next();
    let inserted = tx.execute(
        "INSERT INTO blocks (account_id, target_id, id, uri) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT DO NOTHING",
        params![by, target, id, uri],
    )?;
    env.streams.bonds_changed(tx, by);
    env.streams.bonds_changed(tx, target);
    if inserted > 0 && one.is_local() && !other.is_local() {
        federation::send(tx, env, by, Message::Block { id, target })?;
    }
    Ok(())
}

/// `by` no longer blocks `target`.
///
/// # Errors
/// The database's.
pub fn unblock(tx: &mut Tx, env: &Env, by: Id, target: Id) -> Result<(), Error> {
    let ended: Option<Id> = tx.value(
        "DELETE FROM blocks WHERE account_id = ?1 AND target_id = ?2 RETURNING id",
        params![by, target],
    )?;
    let Some(id) = ended else { return Ok(()) };
    env.streams.bonds_changed(tx, by);
    env.streams.bonds_changed(tx, target);
    if accounts::by_id(tx, by)?.is_local() && !accounts::by_id(tx, target)?.is_local() {
        federation::send(tx, env, by, Message::Unblock { id, target })?;
    }
    Ok(())
}

/// Whether the block `id` of `target` by `by` still holds.
///
/// # Errors
/// The database's.
pub fn is_blocked(tx: &mut Tx, by: Id, target: Id, id: Id) -> Result<bool, Error> {
    let found: Option<i64> = tx.value(
        "SELECT 1 FROM blocks WHERE account_id = ?1 AND target_id = ?2 AND id = ?3",
        params![by, target, id],
    )?;
    Ok(found.is_some())
}

/// `by` mutes `target`, and its notifications if wished, until `expires_at` (none: for good).
///
/// # Errors
/// [`Error::NotFound`].
pub fn mute(
    tx: &mut Tx,
    env: &Env,
    by: Id,
    target: Id,
    notifications: bool,
    expires_at: Option<Timestamp>,
) -> Result<(), Error> {
    accounts::by_id(tx, target)?;
    if by == target {
        return Err(Error::Forbidden("This action is not allowed"));
    }
    accounts::hold(tx, target)?;
    tx.run(
        "INSERT INTO mutes (account_id, target_id, id, notifications, expires_at)
         VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (account_id, target_id) DO UPDATE
         SET notifications = excluded.notifications, expires_at = excluded.expires_at",
        params![by, target, env.ids.next(), notifications, expires_at],
    )?;
    env.streams.bonds_changed(tx, by);
    Ok(())
}

/// `by` no longer mutes `target`.
///
/// # Errors
/// The database's.
pub fn unmute(tx: &mut Tx, env: &Env, by: Id, target: Id) -> Result<(), Error> {
    tx.run("DELETE FROM mutes WHERE account_id = ?1 AND target_id = ?2", params![by, target])?;
    env.streams.bonds_changed(tx, by);
    Ok(())
}
