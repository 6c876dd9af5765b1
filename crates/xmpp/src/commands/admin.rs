//! What staff may (XEP-0133).

use std::sync::Arc;

use weir_base::Id;
use weir_community::accounts::{self, NewAccount};
use weir_community::chat::address::{self, Whom};
use weir_community::users::{self, NewUser, Role, UserChange};
use weir_community::{Env, Error, instance, moderation};
use weir_db::Tx;

use super::{Shown, Step};
use crate::face::fault;
use crate::router::{Closed, Out, SHARDS, Session};
use crate::stream::resume;
use crate::wire::form::{Field, Form};
use crate::wire::{Condition, Element, Jid, Kind, Stanza, StanzaError, StreamCondition, ns};

/// People shown at most.
pub(super) const SHOWN_MAX: usize = 500;
/// People that one command is about at most.
const NAMED_MAX: usize = 100;
/// Of an address that is none, so many characters are said again.
const NAMED_CHARACTERS_MAX: usize = 100;

pub(super) fn form(title: &str, what: &str) -> Form {
    Form::to_fill_in(ns::ADMIN).titled(title, what)
}

pub(super) fn result(field: Field) -> Shown {
    Shown::Done(String::new(), Some(Form::result(ns::ADMIN).with(field)))
}

pub(super) fn missing(what: &str) -> StanzaError {
    StanzaError::new(Condition::NotAcceptable).text(format!("fill in {what}"))
}

/// Goes through all sessions.
pub(super) fn each(step: &Step, mut each: impl FnMut(&Arc<Session>)) {
    for shard in 0..SHARDS {
        step.xmpp.router.each_of_shard(shard, &mut each);
    }
}

pub(super) async fn accounts(step: Step) -> Result<Shown, StanzaError> {
    let counts = step.xmpp.read(instance::counts).await?;
    let count = counts.users.to_string();
    Ok(result(Field::new("text-single", "registeredusersnum", "Accounts", count)))
}

pub(super) async fn people(step: Step) -> Result<Shown, StanzaError> {
    let mut here = std::collections::HashSet::new();
    each(&step, |session| {
        here.insert(session.account);
    });
    let count = here.len().to_string();
    Ok(result(Field::new("text-single", "onlineusersnum", "People who are here", count)))
}

pub(super) async fn who(step: Step) -> Result<Shown, StanzaError> {
    let mut here = std::collections::BTreeSet::new();
    each(&step, |session| {
        if here.len() < SHOWN_MAX {
            here.insert(session.bare().to_owned());
        }
    });
    let here: Vec<String> = here.into_iter().collect();
    Ok(result(Field::many("text-multi", "onlineuserjids", "People who are here", &here)))
}

pub(super) async fn announce(step: Step) -> Result<Shown, StanzaError> {
    let Some(filled) = &step.form else {
        let form = form("Tell all who are here", "Everybody who is connected gets this at once.")
            .with(Field::new("text-single", "subject", "Subject", ""))
            .with(Field::new("text-multi", "announcement", "What to tell", "").required());
        return Ok(Shown::Form(form));
    };
    let body = filled.lines("announcement").filter(|text| !text.trim().is_empty());
    let body = body.ok_or_else(|| missing("what to tell"))?;
    let mut message = Stanza::new(Kind::Message);
    message.from = Jid::parse(step.xmpp.domain()).ok();
    message.element.set_attr("type", "headline");
    let subject = filled.value("subject").filter(|text| !text.is_empty());
    let subject = subject.map(|text| Element::new("subject", ns::CLIENT).with_text(text));
    message.element = message
        .element
        .with_children(subject)
        .with_child(Element::new("body", ns::CLIENT).with_text(body));
    // Encoded once: without `to` it is for whoever gets it (RFC 6120 section 8.1.1.1).
    let bytes = message.bytes();
    let mut told = 0;
    each(&step, |session| {
        told += u32::from(session.is_available() && session.push(Out::Bytes(bytes.clone())));
    });
    tracing::info!(staff = %step.by, told, "moderation: announce by chat");
    Ok(Shown::Done(format!("{told} apps were told."), None))
}

/// Addresses that were filled in. Nothing is left out in silence: one that is none is named.
pub(super) fn addresses(values: &[String], most: usize) -> Result<Vec<Jid>, StanzaError> {
    let refused = |text: String| StanzaError::new(Condition::NotAcceptable).text(text);
    let values: Vec<&str> =
        values.iter().map(|value| value.trim()).filter(|value| !value.is_empty()).collect();
    if values.len() > most {
        return Err(refused(format!("no more than {most} addresses at a time")));
    }
    let parse = |value: &&str| {
        Jid::parse(value).map_err(|_| refused(format!("\"{}\" is no address", shortened(value))))
    };
    values.iter().map(parse).collect()
}

/// As much of what somebody filled in as an answer says again.
fn shortened(text: &str) -> String {
    text.chars().take(NAMED_CHARACTERS_MAX).collect()
}

/// Whom a command is about; the form where that was not said.
fn named(step: &Step, title: &str, what: &str) -> Result<Result<Vec<Jid>, Form>, StanzaError> {
    const VAR: &str = "accountjids";
    let Some(filled) = &step.form else {
        return Ok(Err(form(title, what)
            .with(Field::many("jid-multi", VAR, "Their addresses", &[]).required())));
    };
    let list = addresses(filled.values(VAR).unwrap_or_default(), NAMED_MAX)?;
    if list.is_empty() {
        return Err(missing("their addresses"));
    }
    Ok(Ok(list))
}

pub(super) async fn end_session(step: Step) -> Result<Shown, StanzaError> {
    let what = "Their apps are disconnected, and may come again.";
    let list = match named(&step, "End sessions", what)? {
        Err(form) => return Ok(Shown::Form(form)),
        Ok(list) => list,
    };
    let mut ended = 0;
    for jid in &list {
        let Some(peer) = step.xmpp.router.find(jid.bare_str()) else { continue };
        match jid.resource() {
            None => {
                let why = StreamCondition::PolicyViolation;
                ended += step.xmpp.close_all(jid.bare_str(), why);
            }
            Some(resource) => {
                if let Some(session) = peer.session(resource) {
                    session.close(Closed::With(StreamCondition::PolicyViolation));
                    resume::end_detached(&step.xmpp, &session);
                    ended += 1;
                }
            }
        }
    }
    tracing::info!(staff = %step.by, ended, "moderation: end sessions by chat");
    Ok(Shown::Done(format!("{ended} sessions were ended."), None))
}

/// Whom of here these addresses mean.
fn accounts_of(tx: &mut Tx, env: &Env, list: &[Jid]) -> Result<Vec<Id>, Error> {
    let mut found = Vec::with_capacity(list.len());
    for jid in list {
        let (name, _) = address::parts(jid.as_str());
        let account = match address::whom(tx, env, jid.as_str())? {
            Whom::Here(account) => Some(account),
            // Who is suspended or shut out is somebody for staff.
            Whom::Nobody => accounts::by_address(tx, name, "")?.map(|account| account.id),
            Whom::Elsewhere => None,
        };
        let nobody = || {
            let message = format!("name {}, which is no account of here", jid.bare_str());
            Error::invalid("accountjids", "ERR_NOT_FOUND", message)
        };
        found.push(account.ok_or_else(nobody)?);
    }
    // In order of their ids, as every unit does that changes several accounts.
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

async fn set_disabled(step: Step, on: bool) -> Result<Shown, StanzaError> {
    let (title, what) = match on {
        true => ("Shut out", "They cannot log in any more; what they wrote stays."),
        false => ("Let in again", "They can log in again."),
    };
    let list = match named(&step, title, what)? {
        Err(form) => return Ok(Shown::Form(form)),
        Ok(list) => list,
    };
    let by = step.by;
    let jids = list.clone();
    step.xmpp
        .write(move |tx, env| {
            for account in accounts_of(tx, env, &jids)? {
                moderation::set_disabled(tx, env, by, account, on)?;
            }
            Ok(())
        })
        .await?;
    if on {
        for jid in &list {
            step.xmpp.close_all(jid.bare_str(), StreamCondition::NotAuthorized);
        }
    }
    Ok(Shown::Done("Done.".into(), None))
}

pub(super) async fn disable(step: Step) -> Result<Shown, StanzaError> {
    set_disabled(step, true).await
}

pub(super) async fn enable(step: Step) -> Result<Shown, StanzaError> {
    set_disabled(step, false).await
}

/// The name in `accountjid`, which is one of here.
pub(super) fn named_here(step: &Step, filled: &Form) -> Result<String, StanzaError> {
    let jid = filled.value("accountjid").and_then(|jid| Jid::parse(jid.trim()).ok());
    let jid = jid.filter(|jid| jid.domain() == step.xmpp.domain());
    let name = jid.as_ref().and_then(|jid| jid.local());
    name.map(str::to_owned).ok_or_else(|| missing("an address of this server"))
}

async fn password(filled: &Form, var: &str) -> Result<users::KeptPassword, StanzaError> {
    let password = filled.value(var).unwrap_or_default();
    if filled.value("password-verify").is_some_and(|again| again != password) {
        return Err(StanzaError::new(Condition::NotAcceptable).text("the passwords differ"));
    }
    users::check_password(password).map_err(fault)?;
    users::hash_password(password).await.map_err(fault)
}

pub(super) async fn add(step: Step) -> Result<Shown, StanzaError> {
    let Some(filled) = &step.form else {
        let form = form("Add an account", "It is confirmed and let in at once.")
            .with(Field::new("jid-single", "accountjid", "Address", "").required())
            .with(Field::new("text-private", "password", "Password", "").required())
            .with(Field::new("text-private", "password-verify", "Again", "").required())
            .with(Field::new("text-single", "email", "Mail address", "").required());
        return Ok(Shown::Form(form));
    };
    let username = named_here(&step, filled)?;
    let password = password(filled, "password").await?;
    let user = NewUser {
        email: filled.value("email").unwrap_or_default().trim().to_owned(),
        password,
        role: Role::User,
        confirmed: true,
        approved: true,
        locale: "en".into(),
        reason: String::new(),
        ip: String::new(),
        invite_id: None,
    };
    let new = NewAccount { username, user, reserved_allowed: true };
    let by = step.by;
    step.xmpp
        .write(move |tx, env| {
            users::check_email(&new.user.email)?;
            let account = accounts::create(tx, env, &new)?;
            tracing::info!(staff = %by, %account, "moderation: add an account by chat");
            Ok(())
        })
        .await?;
    Ok(Shown::Done("Added.".into(), None))
}

pub(super) async fn set_password(step: Step) -> Result<Shown, StanzaError> {
    let Some(filled) = &step.form else {
        let form = form("Set somebody's password", "All their log-ins end.")
            .with(Field::new("jid-single", "accountjid", "Address", "").required())
            .with(Field::new("text-private", "password", "Password", "").required());
        return Ok(Shown::Form(form));
    };
    let username = named_here(&step, filled)?;
    let password = password(filled, "password").await?;
    let (by, named) = (step.by, username.clone());
    step.xmpp
        .write(move |tx, env| {
            let account = accounts::by_address(tx, &named, "")?;
            let account = account.ok_or(Error::NotFound("Account"))?.id;
            moderation::check_rank(tx, by, account)?;
            let password = Some(password.clone());
            users::change(tx, env, account, &UserChange { password, ..UserChange::default() })
        })
        .await?;
    let bare = address::of(step.xmpp.env(), &username);
    step.xmpp.close_all(&bare, StreamCondition::NotAuthorized);
    Ok(Shown::Done("Set.".into(), None))
}

pub(super) async fn delete(step: Step) -> Result<Shown, StanzaError> {
    let what = "The accounts and all that is theirs go for good, their posts too.";
    let list = match named(&step, "Delete accounts", what)? {
        Err(form) => return Ok(Shown::Form(form)),
        Ok(list) => list,
    };
    let (by, jids) = (step.by, list.clone());
    step.xmpp
        .write(move |tx, env| {
            for account in accounts_of(tx, env, &jids)? {
                moderation::check_rank(tx, by, account)?;
                accounts::delete(tx, env, account)?;
            }
            Ok(())
        })
        .await?;
    for jid in &list {
        step.xmpp.close_all(jid.bare_str(), StreamCondition::NotAuthorized);
    }
    tracing::info!(staff = %by, from = %step.from, "moderation: delete accounts by chat");
    Ok(Shown::Done("Deleted.".into(), None))
}
