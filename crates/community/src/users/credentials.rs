//! Confirming an address, and changing address and password.

use weir_base::Id;
use weir_db::{Tx, params};

use super::tokens::{self, Purpose};
use super::{KeptPassword, User, by_account, check_email, end_other_sessions, forget_chat_tokens};
use crate::mail::{self, Letter};
use crate::streams::Event;
use crate::{Env, Error, moderation, oauth};

/// Sends the link that confirms the address of `account` (again).
///
/// # Errors
/// The database's.
pub fn ask_confirmation(tx: &mut Tx, env: &Env, account: Id) -> Result<(), Error> {
    mail::send(tx, env, Letter::Confirm { account })
}

/// The address behind the link with `token` is confirmed.
///
/// # Errors
/// [`Error::NotFound`] when the link is wrong, used or old; [`Error::Invalid`] when somebody else
/// has the address meanwhile.
pub fn confirm(tx: &mut Tx, env: &Env, token: &str) -> Result<User, Error> {
    let proof = tokens::proof(tx, env, Purpose::Confirm, token)?.ok_or(Error::NotFound("Link"))?;
    let mut user = by_account(tx, proof.account_id)?;
    let now = env.clock.now();
    if user.unconfirmed_email.as_deref() == Some(proof.email.as_str()) {
        let before = user.email.clone();
        set_address(tx, user.account_id, &proof.email)?;
        let letter = Letter::EmailChanged { account: user.account_id, before };
        mail::send(tx, env, letter)?;
    } else if user.email != proof.email {
        return Err(Error::NotFound("Link"));
    }
    tx.run(
        "UPDATE users SET confirmed_at = coalesce(confirmed_at, ?2) WHERE account_id = ?1",
        params![user.account_id, now],
    )?;
    oauth::access_changed(tx, env, user.account_id);
    tokens::end_tokens(tx, user.account_id, Purpose::Confirm)?;
    if user.confirmed_at.is_none() && !user.approved {
        moderation::announce_sign_up(tx, env, user.account_id)?;
    }
    user = by_account(tx, user.account_id)?;
    Ok(user)
}

fn set_address(tx: &mut Tx, account: Id, email: &str) -> Result<(), Error> {
    let key = email.to_lowercase();
    let taken: Option<i64> = tx.value(
        "SELECT 1 FROM users WHERE email_key = ?1 AND account_id <> ?2",
        params![key, account],
    )?;
    if taken.is_some() {
        return Err(Error::invalid("email", "ERR_TAKEN", "has already been taken"));
    }
    tx.run(
        "UPDATE users SET email = ?2, email_key = ?3, unconfirmed_email = NULL
         WHERE account_id = ?1",
        params![account, email, key],
    )?;
    tokens::end_tokens(tx, account, Purpose::Reset)
}

/// What somebody may have begun who had no right to it ends: links to a new password and, once an
/// address is proven, another that waits to take its place.
pub(super) fn end_links(tx: &mut Tx, account: Id) -> Result<(), Error> {
    tokens::end_tokens(tx, account, Purpose::Reset)?;
    let proven = tx.execute(
        "UPDATE users SET unconfirmed_email = NULL
         WHERE account_id = ?1 AND confirmed_at IS NOT NULL",
        params![account],
    )?;
    if proven > 0 { tokens::end_tokens(tx, account, Purpose::Confirm) } else { Ok(()) }
}

/// `account` wants to use another address: at once, or where addresses are proven, when the link
/// that is sent there comes back.
///
/// # Errors
/// [`Error::Invalid`].
pub fn change_email(
    tx: &mut Tx,
    env: &Env,
    account: Id,
    email: &str,
    prove: bool,
) -> Result<(), Error> {
    let email = email.trim();
    check_email(email)?;
    if moderation::email_is_blocked(tx, email)? {
        return Err(Error::invalid("email", "ERR_BLOCKED", "uses a forbidden e-mail provider"));
    }
    let user = by_account(tx, account)?;
    if user.email == email && user.unconfirmed_email.is_none() {
        return Ok(());
    }
    if !prove {
        set_address(tx, account, email)?;
        return mail::send(tx, env, Letter::EmailChanged { account, before: user.email });
    }
    let taken: Option<i64> = tx.value(
        "SELECT 1 FROM users WHERE email_key = ?1 AND account_id <> ?2",
        params![email.to_lowercase(), account],
    )?;
    if taken.is_some() {
        return Err(Error::invalid("email", "ERR_TAKEN", "has already been taken"));
    }
    tx.run(
        "UPDATE users SET unconfirmed_email = ?2 WHERE account_id = ?1",
        params![account, email],
    )?;
    ask_confirmation(tx, env, account)
}

/// `account` has a new password (what `hash_password` gave); other log-ins in browsers end, chat
/// apps' tokens, and another address that waits for its proof.
///
/// # Errors
/// The database's.
pub fn change_password(
    tx: &mut Tx,
    env: &Env,
    account: Id,
    password: &KeptPassword,
    kept_session: Option<Id>,
) -> Result<(), Error> {
    tx.run(
        "UPDATE users SET password_hash = ?2, scram = ?3 WHERE account_id = ?1",
        params![account, password.hash.expose(), password.sealed(env)],
    )?;
    oauth::access_changed(tx, env, account);
    forget_chat_tokens(tx, account)?;
    end_other_sessions(tx, env, account, kept_session)?;
    end_links(tx, account)?;
    mail::send(tx, env, Letter::PasswordChanged { account })
}

/// Somebody forgot the password of the account with this address: a link is sent there. Nobody
/// learns whether there is one.
///
/// # Errors
/// The database's.
pub fn ask_reset(tx: &mut Tx, env: &Env, email: &str) -> Result<(), Error> {
    let account: Option<Id> = tx.value(
        "SELECT u.account_id FROM users u JOIN accounts a ON a.id = u.account_id
         WHERE u.email_key = ?1 AND a.deleted_at IS NULL",
        params![email.trim().to_lowercase()],
    )?;
    match account {
        Some(account) => mail::send(tx, env, Letter::Reset { account }),
        None => Ok(()),
    }
}

/// Whether the link to a new password is good.
///
/// # Errors
/// The database's.
pub fn reset_is_open(tx: &mut Tx, env: &Env, token: &str) -> Result<bool, Error> {
    Ok(tokens::proof(tx, env, Purpose::Reset, token)?.is_some())
}

/// A new password by the link with `token`: all log-ins and all apps' tokens end, for whoever
/// knew the old password may have made them. The link also proves the address.
///
/// # Errors
/// [`Error::NotFound`] when the link is wrong, used or old.
pub fn reset_password(
    tx: &mut Tx,
    env: &Env,
    token: &str,
    password: &KeptPassword,
) -> Result<Id, Error> {
    let proof = tokens::proof(tx, env, Purpose::Reset, token)?.ok_or(Error::NotFound("Link"))?;
    let user = by_account(tx, proof.account_id)?;
    if user.email == proof.email && user.confirmed_at.is_none() {
        tx.run(
            "UPDATE users SET confirmed_at = ?2 WHERE account_id = ?1",
            params![user.account_id, env.clock.now()],
        )?;
        if !user.approved {
            moderation::announce_sign_up(tx, env, user.account_id)?;
        }
    }
    change_password(tx, env, user.account_id, password, None)?;
    oauth::revoke_all(tx, env, user.account_id)?;
    Ok(user.account_id)
}

/// Puts a person's preferences in the place of the present ones.
///
/// # Errors
/// The database's.
pub fn set_preferences(
    tx: &mut Tx,
    env: &Env,
    account: Id,
    preferences: &super::Preferences,
    locale: &str,
) -> Result<(), Error> {
    tx.run(
        "UPDATE users SET settings = ?2, locale = ?3 WHERE account_id = ?1",
        params![account, weir_db::Json(preferences), locale],
    )?;
    // Streams leave out languages that are not read.
    env.streams.bonds_changed(tx, account);
    env.streams.tell_if_here(tx, account, Event::UserChanged);
    Ok(())
}
