//! Tokens by which a chat app comes back without the password (XEP-0484). An app has one in use
//! and at most one that is to take its place, which it does once it is used. One that an app got by
//! its token of the Mastodon API is good for as long as that one is.

use weir_base::{Id, Secret, Timestamp};
use weir_db::{Tx, params};

use crate::oauth::{self, Bearer};
use crate::{Env, Error};

/// How long a token is good for, in ms: 30 days.
pub const CHAT_TOKEN_LIFE_MS: i64 = 30 * 24 * 60 * 60 * 1_000;
/// Tokens that an account may have; the oldest ones go first.
const TOKENS_MAX: i64 = 64;

/// Which app of an account: the digest of the id that the app made up for itself.
pub type ClientId = Vec<u8>;

/// A token of an app.
#[derive(Debug, Clone)]
pub struct ChatToken {
    /// What both sides know.
    pub secret: Secret<String>,
    /// Whether it is still to take the place of another one.
    pub is_new: bool,
    /// The only mechanism it is good for.
    pub mechanism: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// Until when it is good.
    pub expires_at: Timestamp,
    /// What is behind the token of the Mastodon API that it came from; none where the password was
    /// given.
    pub bearer: Option<Bearer>,
}

/// The tokens of `account`'s app that are good now, one that is new before the other.
///
/// # Errors
/// The database's.
pub fn chat_tokens(
    tx: &mut Tx,
    env: &Env,
    account: Id,
    client: &ClientId,
) -> Result<Vec<ChatToken>, Error> {
    let found = tx.query(
        "SELECT is_new, mechanism, sealed, created_at, expires_at, oauth_token_id FROM chat_tokens
         WHERE account_id = ?1 AND client = ?2 AND expires_at > ?3 ORDER BY is_new DESC",
        params![account, client, env.clock.now()],
        |row| {
            let sealed: Vec<u8> = row.get(2)?;
            let plain = env.vault.open(&sealed).and_then(|plain| String::from_utf8(plain).ok());
            let (is_new, mechanism) = (row.get(0)?, row.get(1)?);
            let (created_at, expires_at) = (row.get(3)?, row.get(4)?);
            let oauth_token: Option<Id> = row.get(5)?;
            let token = plain.map(|plain| ChatToken {
                secret: Secret::new(plain),
                is_new,
                mechanism,
                created_at,
                expires_at,
                bearer: None,
            });
            Ok(token.map(|token| (token, oauth_token)))
        },
    )?;
    let mut good = Vec::with_capacity(found.len());
    for (mut token, oauth_token) in found.into_iter().flatten() {
        if let Some(oauth_token) = oauth_token {
            token.bearer = match oauth::bearer_by_id(tx, env, oauth_token) {
                Ok(bearer) => Some(bearer),
                Err(Error::Unauthorized(_) | Error::Forbidden(_)) => continue,
                Err(error) => return Err(error),
            };
        }
        good.push(token);
    }
    Ok(good)
}

/// Makes a token for `account`'s app, to take the place of the one it has; good no longer than
/// `oauth_token` is, where the app logged in by that.
///
/// # Errors
/// The database's.
pub fn keep_chat_token(
    tx: &mut Tx,
    env: &Env,
    account: Id,
    client: &ClientId,
    mechanism: &str,
    oauth_token: Option<Id>,
) -> Result<ChatToken, Error> {
    let bearer = oauth_token.map(|id| oauth::bearer_by_id(tx, env, id)).transpose()?;
    let (secret, now) = (env.random.token(32), env.clock.now());
    let expires_at = now.plus_ms(CHAT_TOKEN_LIFE_MS);
    let sealed = env.vault.seal(secret.as_bytes());
    tx.run(
        "DELETE FROM chat_tokens WHERE account_id = ?1 AND (account_id, client, is_new) IN (
           SELECT account_id, client, is_new FROM chat_tokens WHERE account_id = ?1
           ORDER BY created_at DESC LIMIT 1000 OFFSET ?2)",
        params![account, TOKENS_MAX - 1],
    )?;
    tx.run(
        "INSERT INTO chat_tokens (account_id, client, is_new, mechanism, sealed, created_at,
           expires_at, oauth_token_id) VALUES (?1, ?2, 1, ?3, ?4, ?5, ?6, ?7)
         ON CONFLICT (account_id, client, is_new) DO UPDATE SET mechanism = excluded.mechanism,
           sealed = excluded.sealed, created_at = excluded.created_at,
           expires_at = excluded.expires_at, oauth_token_id = excluded.oauth_token_id",
        params![account, client, mechanism, sealed, now, expires_at, oauth_token],
    )?;
    let (secret, mechanism) = (Secret::new(secret), mechanism.to_owned());
    Ok(ChatToken { secret, is_new: true, mechanism, created_at: now, expires_at, bearer })
}

/// The new token of `account`'s app was used: it takes the place of the one before.
///
/// # Errors
/// The database's.
pub fn used_chat_token(tx: &mut Tx, account: Id, client: &ClientId) -> Result<(), Error> {
    let sql = "SELECT 1 FROM chat_tokens WHERE account_id = ?1 AND client = ?2 AND is_new = 1";
    if tx.value::<i64>(sql, params![account, client])?.is_none() {
        return Ok(());
    }
    tx.run(
        "DELETE FROM chat_tokens WHERE account_id = ?1 AND client = ?2 AND is_new = 0",
        params![account, client],
    )?;
    tx.run(
        "UPDATE chat_tokens SET is_new = 0 WHERE account_id = ?1 AND client = ?2",
        params![account, client],
    )?;
    Ok(())
}

/// `account`'s app gives its tokens up.
///
/// # Errors
/// The database's.
pub fn forget_chat_token(tx: &mut Tx, account: Id, client: &ClientId) -> Result<(), Error> {
    tx.run(
        "DELETE FROM chat_tokens WHERE account_id = ?1 AND client = ?2",
        params![account, client],
    )?;
    Ok(())
}

/// `account`'s apps that came by `oauth_token`, which is revoked, have to log in anew.
///
/// # Errors
/// The database's.
pub fn forget_chat_tokens_of_app(tx: &mut Tx, account: Id, oauth_token: Id) -> Result<(), Error> {
    tx.run(
        "DELETE FROM chat_tokens WHERE account_id = ?1 AND oauth_token_id = ?2",
        params![account, oauth_token],
    )?;
    Ok(())
}

/// All apps of `account` have to ask for the password again.
///
/// # Errors
/// The database's.
pub fn forget_chat_tokens(tx: &mut Tx, account: Id) -> Result<(), Error> {
    tx.run("DELETE FROM chat_tokens WHERE account_id = ?1", params![account])?;
    Ok(())
}
