//! What staff does about people who log in here: listing and changing them.

use weir_base::Id;
use weir_db::{Tx, params};

use super::credentials::end_links;
use super::{KeptPassword, Role, User, by_account, check_email, forget_chat_tokens, keep_an_admin};
use crate::streams::Event;
use crate::{Env, Error, oauth};

/// The people who can log in here, by the order of their joining, after `after`, at most `limit`.
///
/// # Errors
/// The database's.
pub fn list(tx: &mut Tx, after: Id, limit: usize) -> Result<Vec<User>, Error> {
    Ok(tx.records(
        "SELECT {} FROM users WHERE account_id > ?1 ORDER BY account_id LIMIT ?2",
        params![after, limit as i64],
    )?)
}

/// What staff changes about how a person logs in; what is `None` stays.
#[derive(Debug, Clone, Default)]
pub struct UserChange {
    /// The mail address; it counts as confirmed.
    pub email: Option<String>,
    /// What [`hash_password`] gave.
    pub password: Option<KeptPassword>,
    /// The role.
    pub role: Option<Role>,
    /// Whether staff lets the person in.
    pub approved: Option<bool>,
    /// Whether staff shuts the person out.
    pub disabled: Option<bool>,
}

impl UserChange {
    /// Whether it leaves `user`, who could act as an admin, unable to.
    fn ends_admin(&self, user: &User) -> bool {
        let admin = Role::Admin.name();
        let can_log_in = user.approved && !user.disabled && user.confirmed_at.is_some();
        let was = user.role == admin && can_log_in;
        let lost = self.role.is_some_and(|role| role.name() != admin)
            || self.approved == Some(false)
            || self.disabled == Some(true);
        was && lost
    }
}

/// Changes the user of the local account `account`.
///
/// # Errors
/// [`Error::Invalid`] when the address is not acceptable or taken; [`Error::Conflict`] when no
/// admin would be left; [`Error::NotFound`].
pub fn change(tx: &mut Tx, env: &Env, account: Id, change: &UserChange) -> Result<(), Error> {
    let user = by_account(tx, account)?;
    if change.ends_admin(&user) {
        keep_an_admin(tx, account)?;
    }
    match change {
        UserChange {
            email: None,
            password: None,
            role: Some(_),
            approved: None,
            disabled: None,
        } => {
            oauth::role_changed(tx, env, account);
        }
        _ => oauth::access_changed(tx, env, account),
    }
    if change.role.is_some() {
        env.streams.looks_changed(tx, account);
    }
    env.streams.tell_if_here(tx, account, Event::UserChanged);
    if let Some(email) = change.email.as_deref().map(str::trim) {
        check_email(email)?;
        let taken: Option<Id> = tx.value(
            "SELECT account_id FROM users WHERE email_key = ?1 AND account_id <> ?2",
            params![email.to_lowercase(), account],
        )?;
        if taken.is_some() {
            return Err(Error::invalid("email", "ERR_TAKEN", "has already been taken"));
        }
        tx.run(
            "UPDATE users SET email = ?2, email_key = ?3, confirmed_at = ?4 WHERE account_id = ?1",
            params![account, email, email.to_lowercase(), env.clock.now()],
        )?;
    }
    if change.password.is_some() || change.disabled == Some(true) {
        super::end_other_sessions(tx, env, account, None)?;
        forget_chat_tokens(tx, account)?;
    }
    if let Some(password) = &change.password {
        tx.run(
            "UPDATE users SET password_hash = ?2, scram = ?3 WHERE account_id = ?1",
            params![account, password.hash.expose(), password.sealed(env)],
        )?;
    }
    if change.email.is_some() || change.password.is_some() {
        end_links(tx, account)?;
    }
    let role = match change.role {
        Some(role) => role.name(),
        None => &user.role,
    };
    tx.run(
        "UPDATE users SET role = ?2, approved = ?3, disabled = ?4 WHERE account_id = ?1",
        params![
            account,
            role,
            change.approved.unwrap_or(user.approved),
            change.disabled.unwrap_or(user.disabled)
        ],
    )?;
    Ok(())
}
