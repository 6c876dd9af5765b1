//! Links that are sent by mail. A token works once and is hashed at rest.

use weir_base::{Id, Secret, Timestamp};
use weir_db::{Tx, params};

use super::User;
use crate::oauth::hash;
use crate::{Env, Error};

/// An hour, in ms.
const HOUR_MS: i64 = 60 * 60 * 1_000;
/// Tokens of one purpose that a person may have; older ones stop working.
const TOKENS_MAX: i64 = 5;

/// What a link is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Confirm a mail address.
    Confirm,
    /// Choose a new password.
    Reset,
}

impl Purpose {
    fn name(self) -> &'static str {
        match self {
            Self::Confirm => "confirm",
            Self::Reset => "reset",
        }
    }

    fn life_ms(self) -> i64 {
        match self {
            Self::Confirm => 72 * HOUR_MS,
            Self::Reset => 24 * HOUR_MS,
        }
    }
}

/// What a token stands for.
#[derive(Debug, Clone)]
pub(super) struct Proof {
    /// Who.
    pub account_id: Id,
    /// The address to which it was sent.
    pub email: String,
}

/// Makes a token for a link to `email`.
///
/// # Errors
/// The database's.
pub fn new_token(
    tx: &mut Tx,
    env: &Env,
    user: &User,
    purpose: Purpose,
    email: &str,
) -> Result<Secret<String>, Error> {
    let token = env.random.token(32);
    let now = env.clock.now();
    tx.run(
        "DELETE FROM mail_tokens WHERE expires_at < ?3 OR token_hash IN (
           SELECT token_hash FROM mail_tokens WHERE account_id = ?1 AND purpose = ?2
           ORDER BY expires_at DESC LIMIT 1000 OFFSET ?4)",
        params![user.account_id, purpose.name(), now, TOKENS_MAX - 1],
    )?;
    tx.run(
        "INSERT INTO mail_tokens (token_hash, account_id, purpose, email, expires_at)
         VALUES (?1, ?2, ?3, ?4, ?5)",
        params![
            hash(&token),
            user.account_id,
            purpose.name(),
            email,
            now.plus_ms(purpose.life_ms())
        ],
    )?;
    Ok(Secret::new(token))
}

/// What `token` stands for, if it is good.
pub(super) fn proof(
    tx: &mut Tx,
    env: &Env,
    purpose: Purpose,
    token: &str,
) -> Result<Option<Proof>, Error> {
    let found = tx.query_opt(
        "SELECT account_id, email, expires_at FROM mail_tokens
         WHERE token_hash = ?1 AND purpose = ?2",
        params![hash(token), purpose.name()],
        |row| {
            let proof = Proof { account_id: row.get(0)?, email: row.get(1)? };
            Ok((proof, row.get::<Timestamp>(2)?))
        },
    )?;
    Ok(found.filter(|(_, expires_at)| *expires_at >= env.clock.now()).map(|(proof, _)| proof))
}

/// Ends all links of one purpose that a person has.
pub(super) fn end_tokens(tx: &mut Tx, account: Id, purpose: Purpose) -> Result<(), Error> {
    let sql = "DELETE FROM mail_tokens WHERE account_id = ?1 AND purpose = ?2";
    tx.run(sql, params![account, purpose.name()])?;
    Ok(())
}
