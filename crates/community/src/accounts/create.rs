//! Making a local account.

use weir_base::Id;
use weir_db::{Tx, params};

use super::USERNAME_CHARACTERS_MAX;
use crate::users::{self, NewUser};
use crate::{Env, Error, search};

/// Names that could be taken for the server's own.
const RESERVED: &[&str] = &[
    "abuse",
    "admin",
    "administrator",
    "autoconfig",
    "hostmaster",
    "info",
    "mod",
    "moderator",
    "postmaster",
    "root",
    "security",
    "support",
    "webmaster",
    "weir",
    "www",
];

/// What an account is made from. The password is hashed and the key made before the unit, for
/// both take milliseconds.
#[derive(Debug, Clone)]
pub struct NewAccount {
    /// The name; letters, digits and underscores of ASCII.
    pub username: String,
    /// What belongs to logging in.
    pub user: NewUser,
    /// Whether a reserved name may be used: for the command line.
    pub reserved_allowed: bool,
}

/// Makes a local account and its user.
///
/// # Errors
/// [`Error::Invalid`] when the name or address is taken or not acceptable.
pub fn create(tx: &mut Tx, env: &Env, new: &NewAccount) -> Result<Id, Error> {
    if let Some(problem) = username_problem(&new.username, new.reserved_allowed) {
        return Err(problem);
    }
    let taken: Option<i64> = tx.value(
        "SELECT 1 FROM accounts WHERE username_key = ?1 AND domain = ''",
        params![new.username.to_lowercase()],
    )?;
    if taken.is_some() {
        return Err(Error::invalid("username", "ERR_TAKEN", "has already been taken"));
    }
    let id = insert(tx, env, &new.username, "person")?;
    users::insert(tx, env, id, &new.user)?;
    search::account_changed(tx, env, id, true)?;
    Ok(id)
}

/// Why `username` cannot be used, if so.
pub fn username_problem(username: &str, reserved_allowed: bool) -> Option<Error> {
    if username.is_empty() {
        return Some(Error::invalid("username", "ERR_BLANK", "can't be blank"));
    }
    if username.len() > USERNAME_CHARACTERS_MAX {
        let message = format!("is too long (maximum is {USERNAME_CHARACTERS_MAX} characters)");
        return Some(Error::invalid("username", "ERR_TOO_LONG", message));
    }
    if !username.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        let message = "must contain only letters, numbers and underscores";
        return Some(Error::invalid("username", "ERR_INVALID", message));
    }
    if !reserved_allowed && RESERVED.contains(&username.to_ascii_lowercase().as_str()) {
        return Some(Error::invalid("username", "ERR_RESERVED", "is reserved"));
    }
    None
}

/// The row of a local account.
pub(super) fn insert(tx: &mut Tx, env: &Env, username: &str, kind: &str) -> Result<Id, Error> {
    let id = env.ids.next();
    let actor = env.site.actor_uri(id);
    tx.run(
        "INSERT INTO accounts (id, username, username_key, domain, uri, url, kind, inbox,
           shared_inbox, outbox, followers_uri, following_uri, featured_uri, created_at)
         VALUES (?1, ?2, ?3, '', ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
        params![
            id,
            username,
            username.to_lowercase(),
            actor,
            env.site.profile_url(username),
            kind,
            format!("{actor}/inbox"),
            format!("{}/inbox", env.site.base),
            format!("{actor}/outbox"),
            format!("{actor}/followers"),
            format!("{actor}/following"),
            format!("{actor}/collections/featured"),
            env.clock.now()
        ],
    )?;
    Ok(id)
}
