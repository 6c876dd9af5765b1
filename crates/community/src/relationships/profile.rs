//! What one says about others: private notes, and people featured on one's profile.

use weir_base::Id;
use weir_db::{Tx, params};

use crate::accounts;
use crate::{Env, Error};

/// The longest note, in characters.
const NOTE_CHARACTERS_MAX: usize = 2_000;

/// `by` keeps a private note about `target`; an empty one removes it.
///
/// # Errors
/// [`Error::NotFound`]; [`Error::Invalid`] when the note is too long.
pub fn set_note(tx: &mut Tx, env: &Env, by: Id, target: Id, comment: &str) -> Result<(), Error> {
    accounts::by_id(tx, target)?;
    if comment.chars().count() > NOTE_CHARACTERS_MAX {
        let message = format!("is too long (maximum is {NOTE_CHARACTERS_MAX} characters)");
        return Err(Error::invalid("comment", "ERR_TOO_LONG", message));
    }
    env.streams.bonds_changed(tx, by);
    if comment.is_empty() {
        tx.run(
            "DELETE FROM account_notes WHERE account_id = ?1 AND target_id = ?2",
            params![by, target],
        )?;
        return Ok(());
    }
    accounts::hold(tx, target)?;
    tx.run(
        "INSERT INTO account_notes (account_id, target_id, comment) VALUES (?1, ?2, ?3)
         ON CONFLICT (account_id, target_id) DO UPDATE SET comment = excluded.comment",
        params![by, target, comment],
    )?;
    Ok(())
}

/// `by` features `target`, whom they follow, on their profile.
///
/// # Errors
/// [`Error::NotFound`]; [`Error::Invalid`] when they do not follow.
pub fn endorse(tx: &mut Tx, env: &Env, by: Id, target: Id) -> Result<(), Error> {
    accounts::by_id(tx, target)?;
    let follows: Option<i64> = tx.value(
        "SELECT 1 FROM follows WHERE account_id = ?1 AND target_id = ?2",
        params![by, target],
    )?;
    if follows.is_none() {
        let message = "must be followed by you to be featured";
        return Err(Error::invalid("account", "ERR_INVALID", message));
    }
    tx.run(
        "INSERT INTO endorsements (account_id, target_id, id) VALUES (?1, ?2, ?3)
         ON CONFLICT DO NOTHING",
        params![by, target, env.ids.next()],
    )?;
    env.streams.bonds_changed(tx, by);
    Ok(())
}

/// `by` no longer features `target`.
///
/// # Errors
/// The database's.
pub fn unendorse(tx: &mut Tx, env: &Env, by: Id, target: Id) -> Result<(), Error> {
    tx.run(
        "DELETE FROM endorsements WHERE account_id = ?1 AND target_id = ?2",
        params![by, target],
    )?;
    env.streams.bonds_changed(tx, by);
    Ok(())
}
