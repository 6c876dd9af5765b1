//! The archive of messages (XEP-0313), of an account and, with the same words, of a room; and what
//! an account wants to have archived (XEP-0441).

use weir_base::{Id, Timestamp};
use weir_community::chat::messages::{self, PAGE_MAX, Query};
use weir_community::chat::settings::{self, Archive, Keep};

use super::{Answer, Asked};
use crate::face::Xmpp;
use crate::wire::form::{Field, Form};
use crate::wire::{Condition, Element, Jid, Kind, Scope, Stanza, StanzaError, ns, page, parse};

/// Messages on a page for who does not say.
const PAGE: usize = 50;
/// The most messages asked for by their ids.
const IDS_MAX: usize = 100;

/// What somebody wants to see of an archive.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    /// Which messages.
    pub(crate) query: Query,
    /// Just these messages.
    pub(crate) ids: Vec<Id>,
    /// By what who asks knows the answers.
    pub(crate) query_id: Option<String>,
    /// Whether the page comes the newest first.
    pub(crate) flip: bool,
}

/// A message of an archive on its way out.
pub(crate) struct Kept {
    pub(crate) id: Id,
    pub(crate) xml: String,
}

/// A page on its way out.
pub(crate) struct Found {
    pub(crate) messages: Vec<Kept>,
    pub(crate) complete: bool,
    pub(crate) count: Option<usize>,
}

/// `<query/>`
pub async fn query(asked: Asked) -> Answer {
    let account = asked.own_account()?;
    if !asked.set {
        return Ok(Some(form("with")));
    }
    let mut wanted = read(&asked.payload)?;
    let env = asked.xmpp.env();
    wanted.query.until = Some(env.chat_writing.horizon(&env.ids));
    let asking = wanted.clone();
    let found = asked
        .xmpp
        .read(move |tx, env| {
            if asking.ids.is_empty() {
                let page = messages::page(tx, env, account, &asking.query)?;
                return Ok((page.messages, page.complete, page.count));
            }
            let list = messages::by_ids(tx, account, &asking.ids)?;
            if list.len() < asking.ids.len() {
                return Err(weir_community::Error::NotFound("Message"));
            }
            let count = list.len();
            Ok((list, true, Some(count)))
        })
        .await?;
    let (list, complete, count) = found;
    let kept = |message: messages::Message| Kept { id: message.id, xml: message.xml };
    let found = Found { messages: list.into_iter().map(kept).collect(), complete, count };
    let from = asked.from.bare();
    Ok(Some(tell(&asked.xmpp, &from, &asked.from, &wanted, found)))
}

/// `<metadata/>`: the oldest and the newest message.
pub async fn metadata(asked: Asked) -> Answer {
    let account = asked.own_account()?;
    let ends = asked.xmpp.read(move |tx, _| messages::ends(tx, account)).await?;
    Ok(Some(ends_told(ends)))
}

pub(crate) fn ends_told(ends: Option<(Id, Id)>) -> Element {
    let end = |name: &'static str, id: Id| {
        Element::new(name, ns::MAM)
            .with_attr("id", id.to_string())
            .with_attr("timestamp", id.time().to_string())
    };
    let ends = ends.map(|(oldest, newest)| [end("start", oldest), end("end", newest)]);
    Element::new("metadata", ns::MAM).with_children(ends.into_iter().flatten())
}

/// Sends the messages of a page to who asked, and makes the answer that follows them.
pub(crate) fn tell(xmpp: &Xmpp, from: &Jid, to: &Jid, wanted: &Wanted, found: Found) -> Element {
    let ids: Vec<String> = found.messages.iter().map(|kept| kept.id.to_string()).collect();
    let mut out: Vec<Stanza> = found
        .messages
        .iter()
        .filter_map(|kept| result(from, to, wanted.query_id.as_deref(), kept))
        .collect();
    if wanted.flip {
        out.reverse();
    }
    for message in out {
        match to.resource().filter(|_| to.domain() == xmpp.domain()) {
            Some(resource) => {
                xmpp.router.deliver_bytes(to.bare_str(), resource, &message.bytes());
            }
            None => xmpp.send(message),
        }
    }
    let (first, last) = (ids.first().map(String::as_str), ids.last().map(String::as_str));
    let fin = Element::new("fin", ns::MAM);
    let fin = if found.complete { fin.with_attr("complete", "true") } else { fin };
    fin.with_child(page::told(first, last, None, found.count))
}

/// One message of the answer.
fn result(from: &Jid, to: &Jid, query_id: Option<&str>, kept: &Kept) -> Option<Stanza> {
    let message = parse::element_in(&kept.xml, &Scope::client()).ok()?;
    let mut result = Stanza::new(Kind::Message).from(from.clone()).to(to.clone());
    let delay = Element::new("delay", ns::DELAY).with_attr("stamp", kept.id.time().to_string());
    let forwarded = Element::new("forwarded", ns::FORWARD).with_child(delay).with_child(message);
    let inside = Element::new("result", ns::MAM)
        .with_attr_opt("queryid", query_id)
        .with_attr("id", kept.id.to_string())
        .with_child(forwarded);
    result.element = result.element.with_child(inside);
    Some(result)
}

/// The form that tells what can be asked; `with` is `with` where that is understood.
pub(crate) fn form(with: &str) -> Element {
    let text = |kind, var: &str| Field { values: Vec::new(), ..Field::new(kind, var, "", "") };
    let form = Form::to_fill_in(ns::MAM)
        .with(text("jid-single", with))
        .with(text("text-single", "start"))
        .with(text("text-single", "end"))
        .with(text("text-single", "before-id"))
        .with(text("text-single", "after-id"))
        .with(text("list-multi", "ids"));
    Element::new("query", ns::MAM).with_child(form.element())
}

/// Reads what is wanted.
pub(crate) fn read(payload: &Element) -> Result<Wanted, StanzaError> {
    let bad = |text: &str| StanzaError::new(Condition::BadRequest).text(text);
    let mut query = Query::default();
    let mut ids = Vec::new();
    if let Some(form) = Form::inside(payload) {
        if form.form_type().is_some_and(|kind| kind != ns::MAM) {
            return Err(bad("the FORM_TYPE of the form must be urn:xmpp:mam:2"));
        }
        for field in &form.fields {
            let value = field.values.first().map(String::as_str).unwrap_or_default();
            let time = || {
                value.parse::<Timestamp>().map_err(|_| bad("write times as 2024-05-01T10:00:00Z"))
            };
            match field.var.as_str() {
                "FORM_TYPE" | "include-groupchat" => {}
                "with" => {
                    let jid = Jid::parse(value).map_err(|_| {
                        StanzaError::new(Condition::JidMalformed).text("`with` is no address")
                    })?;
                    query.with = Some(jid.as_str().to_owned());
                }
                "start" => query.start = Some(time()?),
                "end" => query.end = Some(time()?),
                "after-id" => query.after = Some(id(value)?),
                "before-id" => query.before = Some(id(value)?),
                "ids" if field.values.len() > IDS_MAX => {
                    return Err(StanzaError::new(Condition::PolicyViolation)
                        .text(format!("at most {IDS_MAX} ids in one query")));
                }
                "ids" => {
                    ids = field.values.iter().map(|value| id(value)).collect::<Result<_, _>>()?;
                    ids.sort_unstable();
                    ids.dedup();
                }
                other => {
                    return Err(StanzaError::new(Condition::FeatureNotImplemented)
                        .text(format!("the archive cannot be asked for {other}")));
                }
            }
        }
    }
    let wish = page::Wish::inside(payload)?;
    query.backwards = wish.backwards();
    query.limit = wish.max.unwrap_or(PAGE).min(PAGE_MAX);
    if let Some(after) = wish.after.filter(|after| !after.is_empty()) {
        query.after = query.after.max(Some(id(&after)?));
    }
    if let Some(before) = wish.before.filter(|before| !before.is_empty()) {
        let before = id(&before)?;
        query.before = Some(query.before.map_or(before, |old| old.min(before)));
    }
    Ok(Wanted {
        query,
        ids,
        query_id: payload.attr("queryid").map(str::to_owned),
        flip: payload.has("flip-page", ns::MAM),
    })
}

fn id(text: &str) -> Result<Id, StanzaError> {
    let unknown = || {
        StanzaError::new(Condition::ItemNotFound)
            .text("there is no message of this id; begin with another page")
    };
    text.parse().map_err(|_| unknown())
}

/// `<prefs/>`
pub async fn preferences(asked: Asked) -> Answer {
    let account = asked.own_account()?;
    if !asked.set {
        let archive = asked.xmpp.read(move |tx, _| settings::archive(tx, account)).await?;
        return Ok(Some(told(&archive)));
    }
    let default = match asked.payload.attr("default") {
        Some("always") => Keep::Always,
        Some("never") => Keep::Never,
        Some("roster") => Keep::Roster,
        _ => {
            return Err(StanzaError::new(Condition::BadRequest)
                .text("the default is one of always, never and roster"));
        }
    };
    let list = |name: &str| -> Result<Vec<String>, StanzaError> {
        let Some(list) = asked.payload.child(name, ns::MAM) else { return Ok(Vec::new()) };
        let jids = list.children().filter(|child| child.is("jid", ns::MAM));
        let read = |jid: &Element| {
            let jid = Jid::parse(jid.text().trim());
            jid.map(|jid| jid.as_str().to_owned()).map_err(|_| Condition::JidMalformed.into())
        };
        jids.map(read).collect()
    };
    let archive = Archive { default, always: list("always")?, never: list("never")? };
    let answer = told(&archive);
    asked.xmpp.write(move |tx, _| settings::set_archive(tx, account, &archive)).await?;
    Ok(Some(answer))
}

fn told(archive: &Archive) -> Element {
    let default = match archive.default {
        Keep::Always => "always",
        Keep::Never => "never",
        Keep::Roster => "roster",
    };
    let list = |name: &'static str, jids: &[String]| {
        let jid = |jid: &String| Element::new("jid", ns::MAM).with_text(jid.as_str());
        Element::new(name, ns::MAM).with_children(jids.iter().map(jid))
    };
    Element::new("prefs", ns::MAM)
        .with_attr("default", default)
        .with_child(list("always", &archive.always))
        .with_child(list("never", &archive.never))
}
