//! Joining.

use std::net::IpAddr;

use weir_base::Id;
use weir_db::Tx;

use super::invites::{Invite, open_invite, use_invite};
use super::{KeptPassword, NewUser, Role, Standing, ask_confirmation, by_account, check_email};
use crate::accounts::{self, NewAccount};
use crate::error::{Invalid, Problem};
use crate::instance::Registrations;
use crate::moderation::{self, Access};
use crate::relationships::{self, FollowWish};
use crate::{Env, Error};

/// The longest reason for joining, in characters.
const REASON_CHARACTERS_MAX: usize = 2_000;

/// How people come in, as configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Door {
    /// Who may sign up, where staff has not set it.
    pub registrations: Registrations,
    /// Whether new people prove their mail address.
    pub confirm_email: bool,
}

impl Door {
    /// Who may sign up now.
    pub fn registrations(&self, env: &Env) -> Registrations {
        env.instance.settings().registrations.unwrap_or(self.registrations)
    }
}

/// What somebody joins with.
#[derive(Debug, Clone)]
pub struct SignUp {
    /// The name.
    pub username: String,
    /// The mail address.
    pub email: String,
    /// The password, as it is kept; or what is wrong with it.
    pub password: Result<KeptPassword, Problem>,
    /// Whether the rules are agreed to.
    pub agreement: bool,
    /// Why the person wants to join.
    pub reason: String,
    /// The code of an invitation; empty without.
    pub invite: String,
    /// The language of pages and mails.
    pub locale: String,
    /// From which network address.
    pub ip: Option<IpAddr>,
}

/// Somebody joins.
///
/// # Errors
/// [`Error::Forbidden`] when the door is closed to them; [`Error::Invalid`] with every field that
/// is not acceptable.
pub fn sign_up(tx: &mut Tx, env: &Env, door: &Door, new: &SignUp) -> Result<(Id, Standing), Error> {
    let access = match new.ip {
        Some(ip) => moderation::access_from(tx, env, ip)?,
        None => Access::Free,
    };
    if access == Access::NoSignUp {
        return Err(Error::Forbidden("New accounts are not accepted from your network"));
    }
    let invite = match new.invite.as_str() {
        "" => None,
        code => Some(open_invite(tx, env, code)?.ok_or(Error::Forbidden(
            "This invitation is not valid (any more): ask for a new one",
        ))?),
    };
    let mode = door.registrations(env);
    match mode {
        Registrations::Closed => return Err(Error::Forbidden("Nobody can join at present")),
        Registrations::Invite if invite.is_none() => {
            return Err(Error::Forbidden("One needs an invitation to join"));
        }
        _ => {}
    }
    let from_staff = invite.as_ref().is_some_and(|(_, staff)| *staff);
    let approved =
        from_staff || (mode != Registrations::Approval && access != Access::SignUpByApproval);
    let password = check(tx, env, new, !approved)?;
    let user = NewUser {
        email: new.email.trim().to_owned(),
        password,
        role: Role::User,
        confirmed: !door.confirm_email,
        approved,
        locale: new.locale.clone(),
        reason: new.reason.trim().to_owned(),
        ip: new.ip.map(|ip| ip.to_string()).unwrap_or_default(),
        invite_id: invite.as_ref().map(|(invite, _)| invite.id),
    };
    let account =
        NewAccount { username: new.username.trim().to_owned(), user, reserved_allowed: false };
    let id = accounts::create(tx, env, &account)?;
    if let Some((invite, _)) = &invite {
        follow_through(tx, env, id, invite)?;
    }
    if door.confirm_email {
        ask_confirmation(tx, env, id)?;
    } else if !approved {
        moderation::announce_sign_up(tx, env, id)?;
    }
    metrics::counter!("weir_community_sign_ups_total").increment(1);
    let account = accounts::by_id(tx, id)?;
    Ok((id, by_account(tx, id)?.standing(&account)))
}

fn follow_through(tx: &mut Tx, env: &Env, id: Id, invite: &Invite) -> Result<(), Error> {
    if !use_invite(tx, invite.id)? {
        return Err(Error::Forbidden("This invitation has been used by others meanwhile"));
    }
    if invite.autofollow {
        match relationships::follow(tx, env, id, invite.account_id, &FollowWish::default()) {
            Ok(_) | Err(Error::NotFound(_) | Error::Forbidden(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Every field that is not acceptable, at once.
fn check(tx: &mut Tx, env: &Env, new: &SignUp, asked: bool) -> Result<KeptPassword, Error> {
    let mut problems = Vec::new();
    let mut note = |error: Option<Error>| {
        if let Some(Error::Invalid(invalid)) = error {
            problems.extend(invalid.problems);
        }
    };
    let username = new.username.trim();
    note(accounts::username_problem(username, false));
    if accounts::by_address(tx, username, "")?.is_some()
        || username.eq_ignore_ascii_case(&accounts::instance_actor_name(env))
    {
        note(Some(Error::invalid("username", "ERR_TAKEN", "has already been taken")));
    }
    let email = new.email.trim();
    note(check_email(email).err());
    if moderation::email_is_blocked(tx, email)? {
        note(Some(Error::invalid("email", "ERR_BLOCKED", "uses a forbidden e-mail provider")));
    } else if super::email_is_taken(tx, email)? {
        note(Some(Error::invalid("email", "ERR_TAKEN", "has already been taken")));
    }
    if !new.agreement {
        note(Some(Error::invalid("agreement", "ERR_ACCEPTED", "must be accepted")));
    }
    let reason = new.reason.trim();
    if asked && reason.is_empty() {
        note(Some(Error::invalid("reason", "ERR_BLANK", "can't be blank")));
    }
    if reason.chars().count() > REASON_CHARACTERS_MAX {
        let message = format!("is too long (maximum is {REASON_CHARACTERS_MAX} characters)");
        note(Some(Error::invalid("reason", "ERR_TOO_LONG", message)));
    }
    match &new.password {
        Err(problem) => problems.push(problem.clone()),
        Ok(password) if problems.is_empty() => return Ok(password.clone()),
        Ok(_) => {}
    }
    Err(Error::Invalid(Invalid { problems }))
}
