//! Log-ins in a browser. The token lies in a cookie there and hashed in a row here.

use std::collections::HashMap;

use weir_base::{Id, Secret, Timestamp};
use weir_db::{Tx, params};

use super::{PasswordMark, User};
use crate::accounts::Account;
use crate::oauth::hash;
use crate::{Env, Error};

/// How long a session lives without being used, in ms: 90 days.
pub(crate) const IDLE_MS_MAX: i64 = 90 * 24 * 60 * 60 * 1_000;
/// How old the time of last use may be before it is written again, in ms.
const LAST_USED_STEP_MS: i64 = 60 * 60 * 1_000;
/// Sessions a person may have; the longest unused ones end first.
const SESSIONS_MAX: i64 = 50;
/// The longest user agent that is kept, in characters.
const AGENT_CHARACTERS_MAX: usize = 200;

weir_db::record! {
    /// A log-in in a browser.
    #[derive(Debug, Clone)]
    pub struct Session {
        /// Its id.
        pub id: Id,
        /// Whose.
        pub account_id: Id,
        /// When the person logged in.
        pub created_at: Timestamp,
        /// When it was last used, to the hour.
        pub last_used_at: Timestamp,
        /// From which network address.
        pub ip: String,
        /// With what.
        pub user_agent: String,
    }
}

/// Where a session begins.
#[derive(Debug, Clone, Default)]
pub struct NewSession {
    /// From which network address.
    pub ip: String,
    /// With what.
    pub user_agent: String,
}

/// Whether a person may be logged in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Yes.
    Fine,
    /// The mail address waits for its confirmation.
    Unconfirmed,
    /// Staff has not let the person in yet.
    Pending,
    /// Staff shut the person out.
    Disabled,
}

impl User {
    /// Whether the person of `account` may be logged in.
    pub fn standing(&self, account: &Account) -> Standing {
        if self.disabled || !account.is_available() {
            Standing::Disabled
        } else if self.confirmed_at.is_none() {
            Standing::Unconfirmed
        } else if !self.approved {
            Standing::Pending
        } else {
            Standing::Fine
        }
    }
}

/// Those of `accounts` who may be logged in, with the mark of the password each has now.
///
/// # Errors
/// The database's.
pub fn who_may_be_here(tx: &mut Tx, accounts: &[Id]) -> Result<HashMap<Id, PasswordMark>, Error> {
    let found = tx.query(
        "SELECT a.id, u.password_hash FROM accounts a JOIN users u ON u.account_id = a.id
         WHERE a.id IN ids(?1) AND a.suspended_at IS NULL AND a.deleted_at IS NULL
           AND u.disabled = 0 AND u.confirmed_at IS NOT NULL AND u.approved = 1",
        &[weir_db::ids(accounts)],
        |row| Ok((row.get(0)?, PasswordMark::of(&row.get::<String>(1)?))),
    )?;
    Ok(found.into_iter().collect())
}

/// Logs `account` in; the token is for the cookie.
///
/// # Errors
/// The database's.
pub fn start_session(
    tx: &mut Tx,
    env: &Env,
    account: Id,
    new: &NewSession,
) -> Result<Secret<String>, Error> {
    let token = env.random.token(32);
    let now = env.clock.now();
    let agent: String = new.user_agent.chars().take(AGENT_CHARACTERS_MAX).collect();
    tx.run(
        "DELETE FROM web_sessions WHERE account_id = ?1 AND (last_used_at < ?2 OR id IN (
           SELECT id FROM web_sessions WHERE account_id = ?1
           ORDER BY last_used_at DESC, id DESC LIMIT 1000 OFFSET ?3))",
        params![account, now.plus_ms(-IDLE_MS_MAX), SESSIONS_MAX - 1],
    )?;
    tx.run(
        "INSERT INTO web_sessions (id, token_hash, account_id, created_at, last_used_at, ip,
           user_agent) VALUES (?1, ?2, ?3, ?4, ?4, ?5, ?6)",
        params![env.ids.next(), hash(&token), account, now, new.ip, agent],
    )?;
    tx.run("UPDATE users SET last_sign_in_at = ?2 WHERE account_id = ?1", params![account, now])?;
    Ok(Secret::new(token))
}

/// The session of `token`, if it is one and not too long unused, and whether
/// [`touch_session`] is due.
///
/// # Errors
/// The database's.
pub fn session(tx: &mut Tx, env: &Env, token: &str) -> Result<Option<(Session, bool)>, Error> {
    let now = env.clock.now();
    let found: Option<Session> = tx.record(
        "SELECT {} FROM web_sessions WHERE token_hash = ?1 AND last_used_at >= ?2",
        params![hash(token), now.plus_ms(-IDLE_MS_MAX)],
    )?;
    Ok(found.map(|session| {
        let due = now.since_ms(session.last_used_at) > LAST_USED_STEP_MS;
        (session, due)
    }))
}

/// Writes that a session is used now.
///
/// # Errors
/// The database's.
pub fn touch_session(tx: &mut Tx, env: &Env, id: Id) -> Result<(), Error> {
    let sql = "UPDATE web_sessions SET last_used_at = ?2 WHERE id = ?1 AND last_used_at < ?2";
    tx.run(sql, params![id, env.clock.now()])?;
    Ok(())
}

/// The sessions of a person, the last used first.
///
/// # Errors
/// The database's.
pub fn sessions_of(tx: &mut Tx, account: Id) -> Result<Vec<Session>, Error> {
    Ok(tx.records(
        "SELECT {} FROM web_sessions WHERE account_id = ?1
         ORDER BY last_used_at DESC, id DESC LIMIT 100",
        params![account],
    )?)
}

/// Ends one of a person's sessions, and what is open by it.
///
/// # Errors
/// [`Error::NotFound`] when it is not theirs.
pub fn end_session(tx: &mut Tx, env: &Env, account: Id, id: Id) -> Result<(), Error> {
    let sql = "DELETE FROM web_sessions WHERE id = ?1 AND account_id = ?2";
    match tx.execute(sql, params![id, account])? {
        0 => Err(Error::NotFound("Session")),
        _ => {
            env.streams.log_ins_changed(tx, account);
            Ok(())
        }
    }
}

/// Ends all sessions of a person but `kept`, and what is open by them.
///
/// # Errors
/// The database's.
pub fn end_other_sessions(
    tx: &mut Tx,
    env: &Env,
    account: Id,
    kept: Option<Id>,
) -> Result<(), Error> {
    env.streams.log_ins_changed(tx, account);
    let sql = "DELETE FROM web_sessions WHERE account_id = ?1 AND id <> ?2";
    tx.run(sql, params![account, kept.unwrap_or(Id::ZERO)])?;
    Ok(())
}
