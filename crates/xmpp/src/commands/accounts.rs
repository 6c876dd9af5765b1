//! What staff asks about accounts, one by one and all together (XEP-0133 §4.7 to §4.22).

use std::collections::{BTreeMap, BTreeSet};

use weir_base::Id;
use weir_community::chat::{address, contacts};
use weir_community::{Env, Error, accounts, moderation, users};
use weir_db::Tx;

use super::admin::{SHOWN_MAX, each, form, missing, named_here, result};
use super::{Shown, Step};
use crate::roster;
use crate::wire::form::{Field, Form};
use crate::wire::{Element, StanzaError, ns};

/// How many people can be asked for at a time.
const SIZES: [&str; 6] = ["25", "50", "100", "200", "500", "none"];

/// The list that is asked for, of which size; the form where that was not said.
fn wanted(step: &Step, title: &str) -> Result<Result<usize, Form>, StanzaError> {
    let Some(filled) = &step.form else {
        let size = Field::new("list-single", "max_items", "How many at most", "25").of(SIZES);
        return Ok(Err(form(title, "In order of their names.").with(size)));
    };
    match filled.value("max_items") {
        None | Some("" | "none") => Ok(Ok(SHOWN_MAX)),
        Some(number) => {
            let number: usize = number.parse().map_err(|_| missing("max_items with a number"))?;
            Ok(Ok(number.min(SHOWN_MAX)))
        }
    }
}

async fn list(step: Step, title: &str, var: &str, disabled: bool) -> Result<Shown, StanzaError> {
    let max = match wanted(&step, title)? {
        Err(form) => return Ok(Shown::Form(form)),
        Ok(max) => max,
    };
    let names = step.xmpp.read(move |tx, _| users::names(tx, disabled, max)).await?;
    let jids: Vec<String> = names.iter().map(|name| address::of(step.xmpp.env(), name)).collect();
    Ok(result(Field::many("jid-multi", var, title, &jids)))
}

pub(super) async fn registered(step: Step) -> Result<Shown, StanzaError> {
    list(step, "Accounts", "registereduserjids", false).await
}

pub(super) async fn disabled(step: Step) -> Result<Shown, StanzaError> {
    list(step, "Who is shut out", "disableduserjids", true).await
}

pub(super) async fn count_disabled(step: Step) -> Result<Shown, StanzaError> {
    let count = step.xmpp.read(|tx, _| users::count_disabled(tx)).await?.to_string();
    Ok(result(Field::new("text-single", "disabledusersnum", "Accounts shut out", count)))
}

/// Those who are here, in order of their names: those of whom an app is looked at (XEP-0352), or
/// the others.
fn here(step: &Step, active: bool) -> Vec<String> {
    let mut looks = BTreeMap::<String, bool>::new();
    each(step, |session| {
        let is_looked_at = {
            let state = session.state();
            state.presence.is_some() && !state.is_inactive && !state.is_detached
        };
        *looks.entry(session.bare().to_owned()).or_default() |= is_looked_at;
    });
    looks.into_iter().filter(|(_, looks)| *looks == active).map(|(jid, _)| jid).collect()
}

pub(super) async fn count_active(step: Step) -> Result<Shown, StanzaError> {
    let count = here(&step, true).len().to_string();
    Ok(result(Field::new("text-single", "activeusersnum", "People who look at an app", count)))
}

pub(super) async fn count_idle(step: Step) -> Result<Shown, StanzaError> {
    let count = here(&step, false).len().to_string();
    Ok(result(Field::new("text-single", "idleusersnum", "People who look at no app", count)))
}

async fn list_here(step: Step, title: &str, var: &str, on: bool) -> Result<Shown, StanzaError> {
    Ok(match wanted(&step, title)? {
        Err(form) => Shown::Form(form),
        Ok(max) => {
            let jids: Vec<String> = here(&step, on).into_iter().take(max).collect();
            result(Field::many("jid-multi", var, title, &jids))
        }
    })
}

pub(super) async fn active(step: Step) -> Result<Shown, StanzaError> {
    list_here(step, "Who looks at an app", "activeuserjids", true).await
}

pub(super) async fn idle(step: Step) -> Result<Shown, StanzaError> {
    list_here(step, "Who is here and looks at no app", "idleuserjids", false).await
}

/// Of whom something is asked; the form where that was not said.
fn whom(step: &Step, title: &str, what: &str) -> Result<Result<String, Form>, StanzaError> {
    match &step.form {
        Some(filled) => Ok(Ok(named_here(step, filled)?)),
        None => {
            let field = Field::new("jid-single", "accountjid", "Address", "").required();
            Ok(Err(form(title, what).with(field)))
        }
    }
}

fn account(tx: &mut Tx, name: &str) -> Result<Id, Error> {
    Ok(accounts::by_address(tx, name, "")?.ok_or(Error::NotFound("Account"))?.id)
}

pub(super) async fn roster(step: Step) -> Result<Shown, StanzaError> {
    let name = match whom(&step, "Somebody's contacts", "At most 500 are shown.")? {
        Err(form) => return Ok(Shown::Form(form)),
        Ok(name) => name,
    };
    let (by, asked) = (step.by, name.clone());
    let unit = move |tx: &mut Tx, env: &Env| {
        let account = account(tx, &asked)?;
        moderation::check_rank(tx, by, account)?;
        contacts::list(tx, env, account)
    };
    let contacts = step.xmpp.read(unit).await?.contacts;
    tracing::info!(staff = %step.by, name, "moderation: read contacts by chat");
    let shown = contacts.iter().filter(|contact| contact.state.listed).take(SHOWN_MAX);
    let items = shown.clone().map(roster::item);
    // Apps that show forms alone find the addresses there.
    let jids: Vec<String> = shown.clone().map(|contact| contact.jid.clone()).collect();
    let jid = address::of(step.xmpp.env(), &name);
    let form = Form::result(ns::ADMIN)
        .with(Field::new("jid-single", "accountjid", "Address", jid))
        .with(Field::many("jid-multi", "contacts", "Contacts", &jids));
    let query = Element::new("query", ns::ROSTER).with_children(items);
    Ok(Shown::Told(form.element().with_child(query)))
}

pub(super) async fn last_log_in(step: Step) -> Result<Shown, StanzaError> {
    let what = "On the web: when people came by chat is not kept.";
    let name = match whom(&step, "Somebody's last log-in", what)? {
        Err(form) => return Ok(Shown::Form(form)),
        Ok(name) => name,
    };
    let asked = name.clone();
    let unit = move |tx: &mut Tx, _: &Env| {
        let account = account(tx, &asked)?;
        users::by_account(tx, account)
    };
    let last = step.xmpp.read(unit).await?.last_sign_in_at;
    let jid = address::of(step.xmpp.env(), &name);
    let last = last.map(|at| at.to_string()).unwrap_or_default();
    let form = Form::result(ns::ADMIN)
        .with(Field::new("jid-single", "accountjid", "Address", jid))
        .with(Field::new("text-single", "lastlogin", "Last log-in on the web", last));
    Ok(Shown::Done(String::new(), Some(form)))
}

pub(super) async fn statistics(step: Step) -> Result<Shown, StanzaError> {
    let name = match whom(&step, "Somebody's figures", "Contacts, and apps that are here.")? {
        Err(form) => return Ok(Shown::Form(form)),
        Ok(name) => name,
    };
    let asked = name.clone();
    let unit = move |tx: &mut Tx, env: &Env| {
        let account = account(tx, &asked)?;
        contacts::list(tx, env, account)
    };
    let contacts = step.xmpp.read(unit).await?.contacts;
    let size = contacts.iter().filter(|contact| contact.state.listed).count().to_string();
    let jid = address::of(step.xmpp.env(), &name);
    let peer = step.xmpp.router.find(&jid);
    let resources: BTreeSet<String> = peer
        .iter()
        .flat_map(|peer| {
            let here = peer.here();
            let all = here.iter().flat_map(|here| &here.sessions);
            all.map(|session| session.resource().to_owned()).collect::<Vec<_>>()
        })
        .collect();
    let resources: Vec<String> = resources.into_iter().collect();
    let form = Form::result(ns::ADMIN)
        .with(Field::new("jid-single", "accountjid", "Address", jid))
        .with(Field::new("text-single", "rostersize", "Contacts", size))
        .with(Field::many("text-multi", "onlineresources", "Apps that are here", &resources));
    Ok(Shown::Done(String::new(), Some(form)))
}
