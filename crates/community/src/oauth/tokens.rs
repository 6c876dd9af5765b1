//! Tokens, by which apps act.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use weir_base::{Id, Secret, Timestamp};
use weir_db::{Error as DbError, Row, Tx, Value, params};

use super::{Authorization, Held, Scopes, hash};
use crate::{Env, Error, users};

/// How old the time of last use may be before it is written again, in ms.
const LAST_USED_STEP_MS: i64 = 24 * 60 * 60 * 1_000;

/// Who is behind a token.
#[derive(Debug, Clone)]
pub struct Bearer {
    /// The token's own id.
    pub token_id: Id,
    /// The app; 0 for tokens made on the command line.
    pub app_id: Id,
    /// The person; none for an app's own token.
    pub account_id: Option<Id>,
    /// What it may do.
    pub scopes: Scopes,
    /// Whether the time of last use is to be written.
    pub stale: bool,
    /// [`LogIns::current`] before this was read: while that stands, it is true.
    pub generation: u64,
}

/// Counts how often tokens lost their power (revoked, account disabled …), so that whoever
/// remembers tokens knows when to ask again; and knows by which something is open. Clones are the
/// same.
#[derive(Debug, Clone, Default)]
pub struct LogIns {
    count: Arc<AtomicU64>,
    held: Held,
}

impl LogIns {
    /// The count now.
    pub fn current(&self) -> u64 {
        self.count.load(Ordering::SeqCst)
    }

    /// Tokens by which something is open.
    pub fn held(&self) -> &Held {
        &self.held
    }

    fn changed(&self, tx: &mut Tx) {
        let count = self.count.clone();
        tx.after_commit(move || {
            count.fetch_add(1, Ordering::SeqCst);
        });
    }

    /// Another node says that tokens lost their power.
    pub(crate) fn changed_elsewhere(&self) {
        self.count.fetch_add(1, Ordering::SeqCst);
    }
}

/// Log-ins of `account` lose their power by `tx`, or it may log in again: nobody goes by what they
/// remember, and what it has open ends.
pub fn access_changed(tx: &mut Tx, env: &Env, account: Id) {
    env.log_ins.changed(tx);
    env.streams.access_changed(tx, account);
}

/// `account` has another role by `tx`: nobody goes by what they remember of its tokens, and what it
/// has open comes back with the new one.
pub(crate) fn role_changed(tx: &mut Tx, env: &Env, account: Id) {
    env.log_ins.changed(tx);
    env.streams.role_changed(tx, account);
}

/// Makes a token.
///
/// # Errors
/// The database's.
pub fn issue(
    tx: &mut Tx,
    env: &Env,
    app: Id,
    account: Option<Id>,
    scopes: &Scopes,
) -> Result<Authorization, Error> {
    let token = env.random.token(32);
    let created_at = env.clock.now();
    tx.run(
        "INSERT INTO oauth_tokens (id, token_hash, app_id, account_id, scopes, created_at,
           last_used_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6)",
        params![env.ids.next(), hash(&token), app, account, scopes.to_string(), created_at],
    )?;
    Ok(Authorization { token: Secret::new(token), scopes: scopes.clone(), created_at })
}

/// The person behind `token` and what it may do, though they may not log in yet: only for what
/// helps them to. Nobody is behind the tokens of those who were shut out.
///
/// # Errors
/// The database's.
pub fn person_behind(tx: &mut Tx, token: &str) -> Result<Option<(Id, Scopes)>, Error> {
    let found: Option<(Id, String)> = tx.query_opt(
        "SELECT t.account_id, t.scopes FROM oauth_tokens t
         JOIN users u ON u.account_id = t.account_id JOIN accounts a ON a.id = t.account_id
         WHERE t.token_hash = ?1 AND u.disabled = 0 AND a.suspended_at IS NULL
           AND a.deleted_at IS NULL",
        params![hash(token)],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    Ok(found.map(|(person, scopes)| (person, scopes.parse().unwrap_or_default())))
}

/// What says of a token who is behind it, and whether they may log in.
const BEARERS: &str = "SELECT t.id, t.app_id, t.account_id, t.scopes, t.last_used_at,
   u.confirmed_at, u.approved, u.disabled, a.suspended_at, a.deleted_at
 FROM oauth_tokens t LEFT JOIN users u ON u.account_id = t.account_id
 LEFT JOIN accounts a ON a.id = t.account_id";

/// Who is behind a token of [`BEARERS`], or in Mastodon's words why they may not log in (any more,
/// or yet).
fn judged(row: &Row<'_>, now: Timestamp, generation: u64) -> Result<Judged, DbError> {
    let account_id: Option<Id> = row.get(2)?;
    let scopes: String = row.get(3)?;
    let last_used_at: Timestamp = row.get(4)?;
    let problem = match account_id {
        None => None,
        Some(_) if row.get::<Option<Timestamp>>(9)?.is_some() => Some("This account was deleted"),
        Some(_) if row.get::<Option<Timestamp>>(5)?.is_none() => {
            Some("Your login is missing a confirmed e-mail address")
        }
        Some(_) if !row.get::<Option<bool>>(6)?.unwrap_or(false) => {
            Some("Your login is currently pending approval")
        }
        Some(_)
            if row.get::<Option<bool>>(7)?.unwrap_or(true)
                || row.get::<Option<Timestamp>>(8)?.is_some() =>
        {
            Some("Your login is currently disabled")
        }
        Some(_) => None,
    };
    let bearer = Bearer {
        token_id: row.get(0)?,
        app_id: row.get(1)?,
        account_id,
        scopes: scopes.parse().unwrap_or_default(),
        stale: now.since_ms(last_used_at) > LAST_USED_STEP_MS,
        generation,
    };
    Ok(match problem {
        None => Ok(bearer),
        Some(problem) => Err(problem),
    })
}

type Judged = Result<Bearer, &'static str>;

/// Who is behind `token`.
///
/// # Errors
/// [`Error::Unauthorized`] when it is unknown or revoked; [`Error::Forbidden`] with Mastodon's
/// words when the person may not log in (any more, or yet).
pub fn bearer(tx: &mut Tx, env: &Env, token: &str) -> Result<Bearer, Error> {
    found(tx, env, "t.token_hash = ?1", params![hash(token)])
}

/// Who is behind the token of this id.
///
/// # Errors
/// As for [`bearer`].
pub fn bearer_by_id(tx: &mut Tx, env: &Env, token: Id) -> Result<Bearer, Error> {
    found(tx, env, "t.id = ?1", params![token])
}

fn found(tx: &mut Tx, env: &Env, which: &str, params: &[Value<'_>]) -> Result<Bearer, Error> {
    // Before the snapshot is taken, by the first statement.
    let (generation, now) = (env.log_ins.current(), env.clock.now());
    let sql = format!("{BEARERS} WHERE {which}");
    match tx.query_opt(&sql, params, |row| judged(row, now, generation))? {
        None => Err(Error::Unauthorized("The access token is invalid")),
        Some(Err(problem)) => Err(Error::Forbidden(problem)),
        Some(Ok(bearer)) => Ok(bearer),
    }
}

/// Which of the tokens `ids` are good for nothing (any more).
///
/// # Errors
/// The database's.
pub fn powerless(tx: &mut Tx, env: &Env, ids: &[Id]) -> Result<Vec<Id>, Error> {
    let (generation, now) = (env.log_ins.current(), env.clock.now());
    let sql = format!("{BEARERS} WHERE t.id IN ids(?1)");
    let found = tx.query(&sql, &[weir_db::ids(ids)], |row| judged(row, now, generation))?;
    let good: HashSet<Id> = found.into_iter().flatten().map(|bearer| bearer.token_id).collect();
    Ok(ids.iter().filter(|id| !good.contains(id)).copied().collect())
}

/// Revokes `token` if it is `app`'s; unknown ones are no error (RFC 7009, 2.2).
///
/// # Errors
/// [`Error::Forbidden`] when it belongs to another app.
pub fn revoke(tx: &mut Tx, env: &Env, app: Id, token: &str) -> Result<(), Error> {
    let found: Option<(Id, Id)> = tx.query_opt(
        "SELECT id, app_id FROM oauth_tokens WHERE token_hash = ?1",
        params![hash(token)],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    match found {
        None => Ok(()),
        Some((id, owner)) if owner == app => remove(tx, env, id),
        Some(_) => Err(Error::Forbidden("You are not authorized to revoke this token")),
    }
}

/// Revokes `token` if it is `account`'s; unknown ones are no error.
///
/// # Errors
/// The database's.
pub fn revoke_own(tx: &mut Tx, env: &Env, account: Id, token: &str) -> Result<(), Error> {
    let sql = "SELECT id FROM oauth_tokens WHERE token_hash = ?1 AND account_id = ?2";
    match tx.value(sql, params![hash(token), account])? {
        Some(id) => remove(tx, env, id),
        None => Ok(()),
    }
}

/// Revokes one of a person's tokens.
///
/// # Errors
/// [`Error::NotFound`] when it is not theirs.
pub fn revoke_by_id(tx: &mut Tx, env: &Env, account: Id, token_id: Id) -> Result<(), Error> {
    let found: Option<Id> = tx.value(
        "SELECT id FROM oauth_tokens WHERE id = ?1 AND account_id = ?2",
        params![token_id, account],
    )?;
    remove(tx, env, found.ok_or(Error::NotFound("Token"))?)
}

/// Revokes all of a person's tokens, and codes that are not exchanged yet.
///
/// # Errors
/// The database's.
pub fn revoke_all(tx: &mut Tx, env: &Env, account: Id) -> Result<(), Error> {
    access_changed(tx, env, account);
    for sql in [
        "DELETE FROM push_subscriptions WHERE account_id = ?1",
        "DELETE FROM chat_tokens WHERE account_id = ?1 AND oauth_token_id IS NOT NULL",
        "DELETE FROM oauth_tokens WHERE account_id = ?1",
        "DELETE FROM oauth_grants WHERE account_id = ?1",
    ] {
        tx.run(sql, params![account])?;
    }
    Ok(())
}

fn remove(tx: &mut Tx, env: &Env, id: Id) -> Result<(), Error> {
    let sql = "SELECT account_id FROM oauth_tokens WHERE id = ?1";
    match tx.value::<Option<Id>>(sql, params![id])?.flatten() {
        Some(account) => {
            access_changed(tx, env, account);
            users::forget_chat_tokens_of_app(tx, account, id)?;
        }
        None => env.log_ins.changed(tx),
    }
    tx.run("DELETE FROM push_subscriptions WHERE token_id = ?1", params![id])?;
    tx.run("DELETE FROM oauth_tokens WHERE id = ?1", params![id])?;
    Ok(())
}

/// A person's tokens, the newest first: id, the app's name, scopes, made, last used.
///
/// # Errors
/// The database's.
pub fn tokens_of(
    tx: &mut Tx,
    account: Id,
) -> Result<Vec<(Id, String, String, Timestamp, Timestamp)>, Error> {
    Ok(tx.query(
        "SELECT t.id, coalesce(p.name, 'Command line'), t.scopes, t.created_at, t.last_used_at
         FROM oauth_tokens t LEFT JOIN oauth_apps p ON p.id = t.app_id
         WHERE t.account_id = ?1 ORDER BY t.id DESC LIMIT 200",
        params![account],
        |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?)),
    )?)
}

/// Notes that the token is in use.
///
/// # Errors
/// The database's.
pub fn touch(tx: &mut Tx, env: &Env, token_id: Id) -> Result<(), Error> {
    tx.run(
        "UPDATE oauth_tokens SET last_used_at = ?2 WHERE id = ?1",
        params![token_id, env.clock.now()],
    )?;
    Ok(())
}
