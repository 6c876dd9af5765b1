//! What letters say.

use weir_base::Id;
use weir_db::Tx;

use super::{Letter, Mail};
use crate::accounts::{self, Account};
use crate::users::{self, Purpose, User};
use crate::{Env, Error};

/// The mail of `letter`, with fresh links; none when there is nothing left to say.
///
/// # Errors
/// The database's.
pub fn write(tx: &mut Tx, env: &Env, letter: &Letter) -> Result<Option<Mail>, Error> {
    let mail = match letter {
        Letter::Confirm { account } => return confirm(tx, env, *account),
        Letter::Reset { account } => {
            let Some((account, user)) = person(tx, *account)? else { return Ok(None) };
            let token = users::new_token(tx, env, &user, Purpose::Reset, &user.email)?;
            let link = link(env, "/auth/password/edit", token.expose());
            let text = format!(
                "somebody, probably you, asked for a new password for {}. Choose one here:\n\n\
                 {link}\n\nThe link works once, for a day. If it was not you, do nothing: your \
                 password stays as it is.",
                address(env, &account)
            );
            letter_to(env, &user.email, &account, "Choose a new password", &text)
        }
        Letter::Approved { account } => {
            let Some((account, user)) = person(tx, *account)? else { return Ok(None) };
            let text = format!(
                "your account {} is ready. Log in here, or in any app for Mastodon:\n\n{}",
                address(env, &account),
                link(env, "/auth/sign_in", "")
            );
            letter_to(env, &user.email, &account, "Your account is ready", &text)
        }
        Letter::Rejected { email, username } => {
            let text = format!(
                "the people who run {} looked at your request for the account {username}, and \
                 did not accept it. What you sent with it has been deleted.",
                env.site.domain
            );
            letter_to_name(env, email, username, "Your request was not accepted", &text)
        }
        Letter::PasswordChanged { account } => {
            let Some((account, user)) = person(tx, *account)? else { return Ok(None) };
            let text = format!(
                "the password of {} was changed. If it was not you, choose a new one at \
                 once:\n\n{}",
                address(env, &account),
                link(env, "/auth/password/new", "")
            );
            letter_to(env, &user.email, &account, "Your password was changed", &text)
        }
        Letter::EmailChanged { account, before } => {
            let Some((account, user)) = person(tx, *account)? else { return Ok(None) };
            let text = format!(
                "the mail address of {} is now {}. If it was not you, write to the people who run \
                 {} at once.",
                address(env, &account),
                user.email,
                env.site.domain
            );
            letter_to(env, before, &account, "Your mail address was changed", &text)
        }
        Letter::SignUpWaits { staff, account } => {
            let Some((member, user)) = person(tx, *staff)? else { return Ok(None) };
            let Some((waiting, asked)) = person(tx, *account)? else { return Ok(None) };
            let text = format!(
                "{} would like to join, and says:\n\n{}\n\nLet them in, or not:\n\n{}",
                waiting.username,
                asked.reason,
                link(env, "/admin/pending", "")
            );
            letter_to(env, &user.email, &member, "Somebody wants to join", &text)
        }
        Letter::Moderated { account, what } => {
            let Some((account, user)) = person(tx, *account)? else { return Ok(None) };
            let text = format!("this is about your account {}. {what}", address(env, &account));
            letter_to(env, &user.email, &account, "About your account", &text)
        }
    };
    Ok(Some(mail))
}

fn confirm(tx: &mut Tx, env: &Env, account: Id) -> Result<Option<Mail>, Error> {
    let Some((account, user)) = person(tx, account)? else { return Ok(None) };
    let email = match &user.unconfirmed_email {
        Some(new) => new.clone(),
        None if user.confirmed_at.is_none() => user.email.clone(),
        None => return Ok(None),
    };
    let token = users::new_token(tx, env, &user, Purpose::Confirm, &email)?;
    let text = format!(
        "confirm that this is the mail address of {}:\n\n{}\n\nThe link works for three days. If \
         you know nothing of this account, do nothing: nobody can use your address without it.",
        address(env, &account),
        link(env, "/auth/confirmation", token.expose())
    );
    Ok(Some(letter_to(env, &email, &account, "Confirm your mail address", &text)))
}

fn person(tx: &mut Tx, id: Id) -> Result<Option<(Account, User)>, Error> {
    let account = accounts::by_id(tx, id)?;
    match users::by_account(tx, id) {
        Ok(user) if account.deleted_at.is_none() => Ok(Some((account, user))),
        Ok(_) | Err(Error::NotFound(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

fn address(env: &Env, account: &Account) -> String {
    format!("@{}", env.site.address(&account.username, ""))
}

fn link(env: &Env, path: &str, token: &str) -> String {
    let query = if token.is_empty() { "" } else { "?token=" };
    format!("{}{path}{query}{token}", env.site.base)
}

fn letter_to(env: &Env, email: &str, account: &Account, subject: &str, text: &str) -> Mail {
    letter_to_name(env, email, &account.username, subject, text)
}

fn letter_to_name(env: &Env, email: &str, name: &str, subject: &str, text: &str) -> Mail {
    let settings = env.instance.settings();
    Mail {
        to: email.to_owned(),
        subject: format!("{subject} ({})", env.site.domain),
        text: format!("Hello {name},\n\n{text}\n\n--\n{}, {}\n", settings.title, env.site.base),
    }
}
