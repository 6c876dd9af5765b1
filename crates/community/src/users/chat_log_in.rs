//! What a chat log-in has to know of a person, in one query.

use weir_base::{Id, Timestamp};
use weir_db::{Tx, params};

use super::scram::ScramKeys;
use super::{PasswordMark, Standing};
use crate::{Env, Error};

/// Somebody who can log in to chat.
#[derive(Debug, Clone)]
pub struct ChatUser {
    /// The account.
    pub account_id: Id,
    /// Its name, as it is written.
    pub username: String,
    /// Whether the person may be logged in.
    pub standing: Standing,
    /// Argon2id, of those who have no keys yet; empty for the others.
    pub password_hash: String,
    /// Whether keys are to be kept once the password is known: there are none yet.
    pub lacks_keys: bool,
    /// SCRAM's keys.
    pub scram: Option<ScramKeys>,
    /// Which password this is about.
    pub mark: PasswordMark,
    /// [`LogIns::current`](crate::oauth::LogIns::current) before this was read: while that stands,
    /// it is true.
    pub generation: u64,
}

/// Who has the `name` here.
///
/// # Errors
/// The database's.
pub fn chat_user(tx: &mut Tx, env: &Env, name: &str) -> Result<Option<ChatUser>, Error> {
    let generation = env.log_ins.current();
    Ok(tx.query_opt(
        "SELECT a.id, a.username, u.password_hash, u.scram, u.confirmed_at, u.approved,
           u.disabled, a.suspended_at
         FROM accounts a JOIN users u ON u.account_id = a.id
         WHERE a.username_key = ?1 AND a.domain = '' AND a.deleted_at IS NULL",
        params![name.to_lowercase()],
        |row| {
            let sealed: Option<Vec<u8>> = row.get(3)?;
            let is_suspended = row.get::<Option<Timestamp>>(7)?.is_some();
            let standing = if row.get::<bool>(6)? || is_suspended {
                Standing::Disabled
            } else if row.get::<Option<Timestamp>>(4)?.is_none() {
                Standing::Unconfirmed
            } else if !row.get::<bool>(5)? {
                Standing::Pending
            } else {
                Standing::Fine
            };
            let lacks_keys = sealed.is_none();
            let scram = sealed.and_then(|sealed| ScramKeys::open(&env.vault, &sealed));
            let kept: String = row.get(2)?;
            let mark = PasswordMark::of(&kept);
            let password_hash = if scram.is_some() { String::new() } else { kept };
            Ok(ChatUser {
                account_id: row.get(0)?,
                username: row.get(1)?,
                standing,
                password_hash,
                lacks_keys,
                scram,
                mark,
                generation,
            })
        },
    )?)
}
