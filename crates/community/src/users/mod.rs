//! What only people who log in here have: address, password, role, preferences.

mod change;
mod chat_log_in;
mod chat_tokens;
mod credentials;
mod invites;
mod password;
pub mod scram;
mod sessions;
mod sign_up;
mod tokens;
mod vault;

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};
use weir_base::{Id, Timestamp};
use weir_db::{Json, Question, Tx, ids, params};

use crate::{Env, Error};

pub use change::{UserChange, change, list};
pub use chat_log_in::{ChatUser, chat_user};
pub use chat_tokens::{
    CHAT_TOKEN_LIFE_MS, ChatToken, ClientId, chat_tokens, forget_chat_token, forget_chat_tokens,
    forget_chat_tokens_of_app, keep_chat_token, used_chat_token,
};
pub use credentials::{
    ask_confirmation, ask_reset, change_email, change_password, confirm, reset_is_open,
    reset_password, set_preferences,
};
pub use invites::{
    Invite, NewInvite, create_invite, invites_of, open_invite, revoke_invite, use_invite_of,
};
pub use password::{
    KeptPassword, PASSWORD_BYTES_MAX, PASSWORD_CHARACTERS_MIN, PasswordMark, check_password,
    hash_password, learn_scram_keys, scram_keys, verify_by_scram, verify_digest, verify_password,
};
pub(crate) use sessions::IDLE_MS_MAX as SESSION_IDLE_MS_MAX;
pub use sessions::{
    NewSession, Session, Standing, end_other_sessions, end_session, session, sessions_of,
    start_session, touch_session, who_may_be_here,
};
pub use sign_up::{Door, SignUp, sign_up};
pub use tokens::{Purpose, new_token};
pub use vault::Vault;

/// What a person may do beyond their own account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Nothing.
    User,
    /// Act on reports and accounts.
    Moderator,
    /// Everything.
    Admin,
}

impl Role {
    /// The name in rows and commands.
    pub fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Moderator => "moderator",
            Self::Admin => "admin",
        }
    }

    /// The role of that name.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::User, Self::Moderator, Self::Admin].into_iter().find(|role| role.name() == name)
    }
}

/// Asks for the roles of those of `list` who are staff.
pub fn ask_roles<'q>(found: &'q mut HashMap<Id, Role>, list: &HashSet<Id>) -> Question<'q> {
    let sql = "SELECT account_id, role FROM users WHERE account_id IN ids(?1) AND role <> 'user'";
    Question::new(sql, [ids(list)], |row| {
        if let Some(role) = Role::parse(row.str(1)?) {
            found.insert(row.get(0)?, role);
        }
        Ok(())
    })
}

/// What a person prefers; stored as JSON, every part with a default.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Preferences {
    /// The visibility of new posts: `public`, `unlisted` or `private`.
    pub default_visibility: String,
    /// Whether new posts' media is marked sensitive.
    pub default_sensitive: bool,
    /// The language of new posts.
    pub default_language: Option<String>,
    /// `default`, `show_all` or `hide_all`.
    pub expand_media: String,
    /// Whether content warnings are opened.
    pub expand_spoilers: bool,
    /// Whether animations play by themselves.
    pub autoplay_gifs: bool,
    /// Languages to see in public timelines; all when empty.
    pub chosen_languages: Vec<String>,
}

impl Default for Preferences {
    fn default() -> Self {
        Self {
            default_visibility: "public".into(),
            default_sensitive: false,
            default_language: None,
            expand_media: "default".into(),
            expand_spoilers: false,
            autoplay_gifs: true,
            chosen_languages: Vec::new(),
        }
    }
}

weir_db::record! {
    /// The part of a local account that logs in.
    #[derive(Debug, Clone)]
    pub struct User {
        /// Whose.
        pub account_id: Id,
        /// The mail address.
        pub email: String,
        /// An address that waits for its confirmation.
        pub unconfirmed_email: Option<String>,
        /// Argon2id over the hex SHA-256 of the password, in PHC form.
        pub password_hash: String,
        /// `user`, `moderator` or `admin`.
        pub role: String,
        /// When the address was confirmed.
        pub confirmed_at: Option<Timestamp>,
        /// Whether staff let the person in.
        pub approved: bool,
        /// Whether staff shut the person out.
        pub disabled: bool,
        /// The language of pages and mails.
        pub locale: String,
        /// What the person prefers.
        pub settings: Json<Preferences>,
        /// Why the person wants to join.
        pub reason: String,
        /// When the person joined.
        pub created_at: Timestamp,
        /// When the person last logged in.
        pub last_sign_in_at: Option<Timestamp>,
    }
}

/// What a user is made from.
#[derive(Debug, Clone)]
pub struct NewUser {
    /// The mail address.
    pub email: String,
    /// What [`hash_password`] gave.
    pub password: KeptPassword,
    /// The role.
    pub role: Role,
    /// Whether the address counts as confirmed.
    pub confirmed: bool,
    /// Whether staff need not look.
    pub approved: bool,
    /// The language of pages and mails.
    pub locale: String,
    /// Why the person wants to join.
    pub reason: String,
    /// From which network address.
    pub ip: String,
    /// By which invitation.
    pub invite_id: Option<Id>,
}

pub(crate) fn insert(tx: &mut Tx, env: &Env, account: Id, new: &NewUser) -> Result<(), Error> {
    let email = new.email.trim();
    check_email(email)?;
    let inserted = tx.execute(
        "INSERT INTO users (account_id, email, email_key, password_hash, role, confirmed_at,
           approved, locale, reason, sign_up_ip, invite_id, created_at, scram)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)
         ON CONFLICT DO NOTHING",
        params![
            account,
            email,
            email.to_lowercase(),
            new.password.hash.expose(),
            new.role.name(),
            new.confirmed.then(|| env.clock.now()),
            new.approved,
            new.locale,
            new.reason,
            new.ip,
            new.invite_id,
            env.clock.now(),
            new.password.sealed(env)
        ],
    )?;
    if inserted == 0 {
        return Err(Error::invalid("email", "ERR_TAKEN", "has already been taken"));
    }
    Ok(())
}

/// Whether `email` could be a mail address.
///
/// # Errors
/// [`Error::Invalid`].
pub fn check_email(email: &str) -> Result<(), Error> {
    if email.is_empty() {
        return Err(Error::invalid("email", "ERR_BLANK", "can't be blank"));
    }
    let parts = email.rsplit_once('@');
    let fits = parts.is_some_and(|(name, domain)| {
        !name.is_empty()
            && !domain.is_empty()
            && email.len() <= 254
            && !email.contains(|c: char| c.is_whitespace() || c.is_control() || c == ',')
    });
    if fits { Ok(()) } else { Err(Error::invalid("email", "ERR_INVALID", "is not a mail address")) }
}

/// Whether somebody has this address.
pub(crate) fn email_is_taken(tx: &mut Tx, email: &str) -> Result<bool, Error> {
    let sql = "SELECT 1 FROM users WHERE email_key = ?1";
    Ok(tx.value::<i64>(sql, params![email.to_lowercase()])?.is_some())
}

/// The names of those who have an account here, or of those alone that are shut out, in order and
/// so many at most.
///
/// # Errors
/// The database's.
pub fn names(tx: &mut Tx, disabled: bool, limit: usize) -> Result<Vec<String>, Error> {
    Ok(tx.column(
        "SELECT a.username FROM users u JOIN accounts a ON a.id = u.account_id
         WHERE u.disabled >= ?1 ORDER BY a.username LIMIT ?2",
        params![disabled, limit],
    )?)
}

/// How many accounts are shut out.
///
/// # Errors
/// The database's.
pub fn count_disabled(tx: &mut Tx) -> Result<i64, Error> {
    let sql = "SELECT count(*) FROM users WHERE disabled = 1";
    Ok(tx.query_one(sql, &[], |row| row.get(0))?)
}

/// The user of a local account.
///
/// # Errors
/// [`Error::NotFound`].
pub fn by_account(tx: &mut Tx, account: Id) -> Result<User, Error> {
    tx.record("SELECT {} FROM users WHERE account_id = ?1", params![account])?
        .ok_or(Error::NotFound("User"))
}

/// The admin who has been here for longest: the contact where none is named.
///
/// # Errors
/// The database's.
pub fn first_admin(tx: &mut Tx) -> Result<Option<Id>, Error> {
    let sql = "SELECT account_id FROM users WHERE role = 'admin' AND disabled = 0
               ORDER BY account_id LIMIT 1";
    Ok(tx.value(sql, &[])?)
}

/// Refuses to go on where `account`, which is about to go or to lose the role, is the last admin's.
pub(crate) fn keep_an_admin(tx: &mut Tx, account: Id) -> Result<(), Error> {
    let sql = "SELECT role FROM users WHERE account_id = ?1";
    if tx.value::<String>(sql, params![account])?.as_deref() != Some(Role::Admin.name()) {
        return Ok(());
    }
    // Of two who go in the same moment one finds the row changed that it counts on. Who cannot log
    // in does not count.
    let sql = "SELECT account_id FROM users WHERE role = 'admin' AND approved = 1 AND disabled = 0
                 AND confirmed_at IS NOT NULL AND account_id <> ?1
                 AND NOT EXISTS (SELECT 1 FROM accounts a
                   WHERE a.id = users.account_id AND a.suspended_at IS NOT NULL)
               ORDER BY account_id LIMIT 1 FOR UPDATE";
    match tx.value::<Id>(sql, params![account])? {
        Some(_) => Ok(()),
        None => Err(Error::Conflict(
            "this is the last admin; make another one an admin first: \
             `weir account set NAME --role admin`"
                .into(),
        )),
    }
}

/// The user who logs in as `name`: a mail address or a username.
///
/// # Errors
/// The database's.
pub fn by_login(tx: &mut Tx, name: &str) -> Result<Option<User>, Error> {
    let key = name.trim().trim_start_matches('@').to_lowercase();
    Ok(tx.record(
        "SELECT {} FROM users WHERE email_key = ?1 OR account_id =
           (SELECT id FROM accounts WHERE username_key = ?1 AND domain = '')",
        params![key],
    )?)
}
