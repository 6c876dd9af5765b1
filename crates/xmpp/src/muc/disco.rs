//! What there is of rooms (XEP-0030, XEP-0045 §6).

use std::collections::BTreeMap;

use weir_community::chat::rooms::{self as noun, Affiliation, ROOMS_MAX, Whois};

use super::missing;
use super::room::Room;
use crate::face::Xmpp;
use crate::wire::form::{Field, Form};
use crate::wire::{Condition, Element, Jid, StanzaError, ns, page};

/// Rooms on a page of the list.
const PAGE_MAX: usize = 100;

fn identity(name: &str) -> Element {
    Element::new("identity", ns::DISCO_INFO)
        .with_attr("category", "conference")
        .with_attr("type", "text")
        .with_attr("name", name)
}

fn feature(var: &str) -> Element {
    Element::new("feature", ns::DISCO_INFO).with_attr("var", var)
}

/// `disco#info` of the service.
pub(super) fn of_service(payload: &Element) -> Result<Element, StanzaError> {
    if payload.attr("node").is_some() {
        return Err(StanzaError::new(Condition::ItemNotFound));
    }
    let features = [ns::DISCO_INFO, ns::DISCO_ITEMS, ns::MUC, ns::PING, ns::OCCUPANT_ID];
    Ok(Element::new("query", ns::DISCO_INFO)
        .with_child(identity("Rooms"))
        .with_children(features.map(feature)))
}

/// `disco#items` of the service: the public rooms, those of the community first.
pub(super) async fn rooms(xmpp: &Xmpp, payload: &Element) -> Result<Element, StanzaError> {
    let wish = page::Wish::inside(payload)?;
    let kept = xmpp.read(|tx, _| noun::public(tx, "", ROOMS_MAX)).await?;
    let kept = kept.into_iter().map(|room| (room.name, room.config.title, room.of_community));
    let all: BTreeMap<(bool, String), String> = kept
        .chain(xmpp.rooms.public())
        .map(|(name, title, is_ours)| ((!is_ours, name), title))
        .collect();
    let all: Vec<(String, (String, String))> =
        all.into_iter().map(|((_, name), title)| (name.clone(), (name, title))).collect();
    let (some, set) = page::of(&all, &wish, PAGE_MAX)?;
    let is_whole = some.len() == all.len();
    let items = some.into_iter().map(|(name, title)| {
        let title = if title.is_empty() { name.clone() } else { title };
        Element::new("item", ns::DISCO_ITEMS)
            .with_attr("jid", format!("{name}@{}.{}", super::LABEL, xmpp.domain()))
            .with_attr("name", title)
    });
    let query = Element::new("query", ns::DISCO_ITEMS).with_children(items);
    Ok(if is_whole { query } else { query.with_child(set) })
}

/// `disco#info` of a room.
pub(super) fn of_room(room: &Room, payload: &Element, from: &Jid) -> Result<Element, StanzaError> {
    let state = room.state();
    let config = &state.config;
    let query = Element::new("query", ns::DISCO_INFO);
    match payload.attr("node") {
        None => {}
        Some("x-roomuser-item") => {
            let nick = state.lists.get(from.bare_str()).map(|one| one.nick.clone());
            let nick = nick.filter(|nick| !nick.is_empty());
            let query = query.with_attr("node", "x-roomuser-item");
            return Ok(match nick {
                Some(nick) => query.with_child(identity(&nick)),
                None => query,
            });
        }
        Some(_) => return Err(StanzaError::new(Condition::ItemNotFound)),
    }
    if state.locked && state.affiliation(from.bare_str()) != Affiliation::Owner {
        return Err(missing());
    }
    let is = |on: bool, yes: &'static str, no: &'static str| if on { yes } else { no };
    let mut features = vec![
        ns::DISCO_INFO,
        ns::DISCO_ITEMS,
        ns::MUC,
        "http://jabber.org/protocol/muc#stable_id",
        ns::SELF_PING,
        ns::OCCUPANT_ID,
        ns::MODERATE,
        ns::RETRACT,
        ns::STANZA_ID,
        ns::PING,
        ns::VCARD,
        "jabber:iq:register",
        is(config.public, "muc_public", "muc_hidden"),
        is(config.persistent, "muc_persistent", "muc_temporary"),
        is(config.members_only, "muc_membersonly", "muc_open"),
        is(config.moderated, "muc_moderated", "muc_unmoderated"),
        is(config.whois == Whois::Anyone, "muc_nonanonymous", "muc_semianonymous"),
        is(config.password.is_empty(), "muc_unsecured", "muc_passwordprotected"),
    ];
    if state.of_community {
        features.push(ns::HATS);
    }
    if state.id.is_some() && config.archive {
        features.extend([ns::MAM, "urn:xmpp:mam:2#extended"]);
    }
    let title = if config.title.is_empty() { room.name() } else { &config.title };
    let text = |var: &str, value: &str| Field::new("text-single", var, "", value);
    let data = Form::result(ns::MUC_INFO)
        .with(text("muc#roomconfig_roomname", title))
        .with(text("muc#roominfo_description", &config.description))
        .with(text("muc#roominfo_subject", &state.subject.text))
        .with(text("muc#roominfo_occupants", &state.occupants.len().to_string()))
        .with(text("muc#roominfo_lang", &config.language))
        .with(text("muc#roominfo_avatarhash", &config.picture))
        .with(Field::flag("muc#roomconfig_changesubject", "", config.change_subject))
        .with(Field::flag("muc#roomconfig_allowinvites", "", config.invites));
    Ok(query
        .with_child(identity(title))
        .with_children(features.into_iter().map(feature))
        .with_child(data.element()))
}

/// `disco#items` of a room: who is in it, for those who are in it too.
pub(super) fn occupants(room: &Room, from: &Jid) -> Result<Element, StanzaError> {
    let state = room.state();
    let is_in = state.nicks.contains_key(from);
    let nicks = state.occupants.keys().filter(|_| is_in);
    let items = nicks.map(|nick| {
        Element::new("item", ns::DISCO_ITEMS)
            .with_attr("jid", room.address(nick).as_str())
            .with_attr("name", nick.as_str())
    });
    Ok(Element::new("query", ns::DISCO_ITEMS).with_children(items))
}
