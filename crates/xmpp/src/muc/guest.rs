//! Rooms for people of here who look at them from outside of chat, whether an app of theirs is
//! there or not. What they may read and say is what they might with an app.

use std::sync::Arc;

use weir_community::Error;
use weir_community::chat::carrier::{RoomPerson, RoomQuery, RoomView, Said as Shown};
use weir_community::chat::messages::Query;
use weir_community::chat::rooms::{self as noun, Affiliation, Whois};
use weir_db::Class;

use super::history::Said;
use super::room::{Occupant, Role, Room, State};
use super::{LABEL, admin, archive, enter, missing, say};
use crate::face::Xmpp;
use crate::wire::{Condition, Element, Jid, Kind, Stanza, StanzaError, ns};

/// The most people of a room that are shown.
const PEOPLE_MAX: usize = 1_000;
/// How often a room is looked for anew that was forgotten meanwhile.
const TRIES: usize = 8;

/// What `reader` (without a resource) sees of a room that is kept.
pub(crate) async fn view(xmpp: &Xmpp, reader: &Jid, wanted: &RoomQuery) -> Result<RoomView, Error> {
    let room = find(xmpp, &wanted.room).await.map_err(refused)?;
    // By this name they are told what changes.
    if room.jid.as_str() != wanted.room {
        return Err(refused(StanzaError::new(Condition::JidMalformed)));
    }
    let (id, keeps, people) = {
        let state = room.state();
        let own = of(&state, reader);
        archive::check(&state, reader, own.is_some(), xmpp.domain()).map_err(refused)?;
        let id = state.id.ok_or(Error::NotFound("Room"))?;
        let role = own.map_or_else(|| state.role_at(reader, xmpp.domain()), |own| own.role);
        (id, state.config.archive, people(&state, reader, own.is_some(), role))
    };
    if !keeps {
        return Ok(RoomView { messages: Vec::new(), people });
    }
    let (before, limit) = (wanted.before, wanted.limit);
    let query = Query { before, limit, backwards: true, ..Query::default() };
    let read = xmpp.community.read(Class::Interactive, move |tx, _| noun::page(tx, id, &query));
    let kept = read.await?.messages;
    Ok(RoomView { messages: kept.iter().filter_map(|one| shown(one, reader)).collect(), people })
}

/// Has `who` (without a resource) say `text` in a room; its id once it is durable.
pub(crate) async fn say(
    xmpp: &Xmpp,
    who: &Jid,
    room: &str,
    text: String,
) -> Result<weir_base::Id, Error> {
    let mut message = Stanza::new(Kind::Message);
    message.element.set_attr("type", "groupchat");
    message.element.set_attr("id", xmpp.token(8));
    let body = Element::new("body", ns::CLIENT).with_text(text);
    message.element = message.element.with_child(body);
    for _ in 0..TRIES {
        let room = find(xmpp, room).await.map_err(refused)?;
        let answer = {
            let mut state = room.state();
            if state.closed {
                continue;
            }
            let nick = speaker(&state, who, xmpp.domain()).map_err(refused)?;
            let signed = say::signed(&room, &state, &nick, who.as_str(), &message);
            say::put(xmpp, &room, &mut state, who.as_str(), signed, None, None).map_err(refused)?
        };
        return say::waited(answer).await.map_err(refused);
    }
    Err(Error::Upstream("the room comes and goes".into()))
}

async fn find(xmpp: &Xmpp, address: &str) -> Result<Arc<Room>, StanzaError> {
    let malformed = || StanzaError::new(Condition::JidMalformed);
    let jid = Jid::parse(address).map_err(|_| malformed())?.bare();
    let service = jid.domain().strip_suffix(xmpp.domain());
    let is_room = service.and_then(|label| label.strip_suffix('.')) == Some(LABEL);
    if !is_room || jid.local().is_none() {
        return Err(malformed());
    }
    xmpp.rooms.find(xmpp, &jid).await?.ok_or_else(missing)
}

/// The person's occupant: of several the one that may most.
fn of<'s>(state: &'s State, who: &Jid) -> Option<&'s Occupant> {
    let own = state.occupants.values().filter(|one| one.bare() == who.as_str());
    own.max_by_key(|one| (one.role, &one.nick))
}

/// The nick by which `who` may speak: that of who is there, else the one they have registered, or
/// what their account is called.
fn speaker(state: &State, who: &Jid, domain: &str) -> Result<String, StanzaError> {
    if let Some(own) = of(state, who) {
        say::check_voice(own.role)?;
        return Ok(own.nick.clone());
    }
    enter::check_entry(state, who, domain, "")?;
    say::check_voice(state.role_at(who, domain))?;
    let registered = state.lists.get(who.as_str()).map(|one| &*one.nick);
    let registered = registered.filter(|nick| !nick.is_empty());
    let nick = registered.or(who.local()).unwrap_or_default();
    enter::check_nick(state, nick, who.as_str())?;
    Ok(nick.to_owned())
}

/// Who is there, by nick, and behind them who has registered a nick and is not there, for those
/// who see the lists.
fn people(state: &State, reader: &Jid, is_in: bool, role: Role) -> Vec<RoomPerson> {
    let sees_all = role == Role::Moderator;
    let sees_jids = sees_all || state.config.whois == Whois::Anyone;
    let jid = |bare: &str| (sees_jids || bare == reader.as_str()).then(|| bare.to_owned());
    let is_shown = |one: &&Occupant| sees_all || state.shows(one) || one.bare() == reader.as_str();
    let mut there: Vec<&Occupant> = state.occupants.values().filter(is_shown).collect();
    there.sort_by(|one, other| one.nick.cmp(&other.nick));
    let there = there.into_iter().map(|one| RoomPerson {
        nick: one.nick.clone(),
        affiliation: state.affiliation(one.bare()).name(),
        role: Some(one.role.name()),
        jid: jid(one.bare()),
    });
    let own = state.affiliation(reader.as_str());
    let mut away: Vec<_> = (state.lists.values())
        .filter(|one| !one.nick.is_empty() && one.affiliation >= Affiliation::Member)
        .filter(|one| admin::shows_list(state, own, is_in.then_some(role), one.affiliation))
        .filter(|one| !state.occupants.contains_key(&one.nick))
        .collect();
    away.sort_by(|one, other| one.nick.cmp(&other.nick));
    let away = away.into_iter().map(|one| RoomPerson {
        nick: one.nick.clone(),
        affiliation: one.affiliation.name(),
        role: None,
        jid: jid(&one.jid),
    });
    there.chain(away).take(PEOPLE_MAX).collect()
}

fn shown(kept: &noun::RoomMessage, reader: &Jid) -> Option<Shown> {
    let said = Said::read(kept)?;
    let nick = said.stanza.from.as_ref().and_then(Jid::resource).unwrap_or_default().to_owned();
    let text = said.stanza.element.child("body", ns::CLIENT).map(Element::text);
    let is_own = !nick.is_empty() && kept.from_jid == reader.as_str();
    Some(Shown { id: kept.id, nick, is_own, text })
}

/// A refusal of the room as that of a use case.
fn refused(error: StanzaError) -> Error {
    let text = error.text.unwrap_or_else(|| error.condition.name().to_owned());
    match error.condition {
        Condition::ItemNotFound => Error::NotFound("Room"),
        Condition::JidMalformed => {
            Error::invalid("room", "ERR_INVALID", "is not the address of a room of this server")
        }
        Condition::NotAuthorized => {
            Error::Forbidden("This room has a password: enter it with an app")
        }
        Condition::RegistrationRequired => Error::Forbidden("Only members may enter this room"),
        Condition::Forbidden => {
            Error::Forbidden("You may not: the room is not open to you, or gives you no voice")
        }
        Condition::ResourceConstraint | Condition::InternalServerError => Error::Upstream(text),
        _ => Error::Conflict(text),
    }
}
