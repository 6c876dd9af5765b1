//! People who wait to be let in.

use weir_base::Id;
use weir_db::{Tx, params};

use crate::accounts::{self, Account};
use crate::mail::{self, Letter};
use crate::notifications::{self, Kind};
use crate::users::{self, Role, User};
use crate::{Env, Error, oauth, relationships};

/// Staff members who are told of a sign-up.
const STAFF_MAX: i64 = 50;
/// People shown on one page.
const PENDING_MAX: i64 = 100;

/// Tells staff that `account` waits.
///
/// # Errors
/// The database's.
pub fn announce_sign_up(tx: &mut Tx, env: &Env, account: Id) -> Result<(), Error> {
    let staff: Vec<Id> = tx.column(
        "SELECT account_id FROM users WHERE role <> 'user' AND disabled = 0
         ORDER BY account_id LIMIT ?1",
        params![STAFF_MAX],
    )?;
    for staff in staff {
        notifications::notify(tx, env, staff, Kind::AdminSignUp, account, None)?;
        mail::send(tx, env, Letter::SignUpWaits { staff, account })?;
    }
    Ok(())
}

/// People who wait, the first to come first, and whose address is confirmed (or need not be).
///
/// # Errors
/// The database's.
pub fn pending(tx: &mut Tx) -> Result<Vec<(Account, User)>, Error> {
    let users: Vec<User> = tx.records(
        "SELECT {} FROM users WHERE approved = 0 AND confirmed_at IS NOT NULL
         ORDER BY account_id LIMIT ?1",
        params![PENDING_MAX],
    )?;
    users.into_iter().map(|user| Ok((accounts::by_id(tx, user.account_id)?, user))).collect()
}

fn waiting(tx: &mut Tx, by: Id, account: Id) -> Result<(Account, User), Error> {
    let staff = users::by_account(tx, by)?;
    if Role::parse(&staff.role).unwrap_or(Role::User) < Role::Moderator {
        return Err(Error::Forbidden("Only staff lets people in"));
    }
    let user = users::by_account(tx, account)?;
    if user.approved {
        return Err(Error::Conflict("Somebody else has let this person in already".into()));
    }
    Ok((accounts::by_id(tx, account)?, user))
}

/// `by`, of staff, lets `account` in.
///
/// # Errors
/// [`Error::Forbidden`], or [`Error::Conflict`] when another was faster.
pub fn approve(tx: &mut Tx, env: &Env, by: Id, account: Id) -> Result<(), Error> {
    let (person, _) = waiting(tx, by, account)?;
    oauth::access_changed(tx, env, account);
    tx.run("UPDATE users SET approved = 1 WHERE account_id = ?1", params![account])?;
    tracing::info!(staff = %by, %account, name = person.username, "moderation: approve");
    mail::send(tx, env, Letter::Approved { account })
}

/// `by`, of staff, does not let `account` in: everything of it is deleted, and its name is free.
///
/// # Errors
/// As [`approve`].
pub fn reject(tx: &mut Tx, env: &Env, by: Id, account: Id) -> Result<(), Error> {
    let (person, user) = waiting(tx, by, account)?;
    forget_sign_up(tx, env, account)?;
    tracing::info!(staff = %by, %account, name = person.username, "moderation: reject");
    mail::send(tx, env, Letter::Rejected { email: user.email, username: person.username })
}

/// Removes everything of somebody who never was here; the name is free again.
pub(crate) fn forget_sign_up(tx: &mut Tx, env: &Env, account: Id) -> Result<(), Error> {
    oauth::revoke_all(tx, env, account)?;
    // An invitation may have had them follow who invited.
    let followed: Vec<Id> = tx.column(
        "SELECT target_id FROM follows WHERE account_id = ?1
         UNION SELECT target_id FROM follow_requests WHERE account_id = ?1",
        params![account],
    )?;
    for target in followed {
        relationships::end_quietly(tx, env, account, target)?;
    }
    for sql in [
        "DELETE FROM users WHERE account_id = ?1",
        "DELETE FROM web_sessions WHERE account_id = ?1",
        "DELETE FROM mail_tokens WHERE account_id = ?1",
        "DELETE FROM chat_tokens WHERE account_id = ?1",
        "DELETE FROM notifications WHERE from_account_id = ?1",
        "DELETE FROM account_keys WHERE account_id = ?1",
        "DELETE FROM accounts WHERE id = ?1",
    ] {
        tx.run(sql, params![account])?;
    }
    Ok(())
}
