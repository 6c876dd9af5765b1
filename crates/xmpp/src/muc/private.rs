//! What is between two in a room, or for the room and not for all: private messages (XEP-0045
//! §7.5), queries between occupants, self-pings (XEP-0410), invitations (§7.8) and requests for
//! voice (§7.13).

use std::sync::Arc;

use weir_community::chat::rooms::{self as noun, Affiliation, Listed, Private};

use super::room::{Role, Room, Told};
use super::{Answered, bad, missing, outside};
use crate::face::Xmpp;
use crate::message;
use crate::wire::form::{Field, Form};
use crate::wire::{Condition, Element, Jid, Kind, Stanza, StanzaError, ns};

/// The most people invited by one message.
const INVITATIONS_MAX: usize = 20;

/// A message to one occupant.
pub(super) fn write(
    xmpp: &Xmpp,
    room: &Arc<Room>,
    stanza: &Stanza,
    from: &Jid,
    to: &Jid,
) -> Result<(), StanzaError> {
    let (out, jids) = {
        let mut state = room.state();
        let own = state.occupant(from).ok_or_else(outside)?;
        let may = match state.config.private_messages {
            Private::Anyone => true,
            Private::Participants => own.role >= Role::Participant,
            Private::Moderators => own.role == Role::Moderator,
            Private::None => false,
        };
        if !may {
            let text = "private messages are not for everybody in this room";
            return Err(StanzaError::new(Condition::Forbidden).text(text));
        }
        let other = state.occupants.get(to.resource().unwrap_or_default());
        let gone =
            || StanzaError::new(Condition::ItemNotFound).text("there is nobody of this nick here");
        let other = other.ok_or_else(gone)?;
        let mut out = super::say::signed(room, &state, &own.nick, from.bare_str(), stanza);
        out.element = out.element.with_child(Element::new("x", ns::MUC_USER));
        // By its id it is known again when it comes back.
        if out.id().is_none() {
            out.element.set_attr("id", xmpp.token(8));
        }
        let (jids, nick) = (other.jids.clone(), other.nick.clone());
        state.private.remember(out.id().unwrap_or_default(), &nick, from);
        (out, jids)
    };
    if jids.iter().any(|jid| jid.domain() != xmpp.domain()) {
        jids.into_iter().for_each(|jid| xmpp.send(out.clone().to(jid)));
        return Ok(());
    }
    // One message, however many apps of the person are in the room; of these one may be gone.
    let is_there = |jid: &Jid| {
        let session = xmpp.router.find(jid.bare_str()).zip(jid.resource());
        session.is_some_and(|(peer, resource)| peer.session(resource).is_some())
    };
    let (mut there, gone): (Vec<Jid>, Vec<Jid>) = jids.into_iter().partition(is_there);
    there.extend(gone);
    let mut jids = there.into_iter();
    if let Some(first) = jids.next() {
        let work = message::arrived_at(xmpp, out.to(first), jids.collect());
        xmpp.spawn(work);
    }
    Ok(())
}

/// A query to one occupant, or its answer.
pub(super) fn query(
    xmpp: &Xmpp,
    room: &Arc<Room>,
    stanza: &Stanza,
    from: &Jid,
    to: &Jid,
) -> Answered {
    let nick = to.resource().unwrap_or_default();
    let mut state = room.state();
    if stanza.is_answer() {
        let id = stanza.id().unwrap_or_default();
        let at = state.relays.iter().position(|(ours, ..)| ours == id);
        let Some((_, asker, id, nick)) = at.and_then(|at| state.relays.remove(at)) else {
            return Ok(None);
        };
        let mut answer = stanza.clone().from(room.address(&nick)).to(asker);
        answer.element.set_attr("id", id);
        drop(state);
        xmpp.send(answer);
        return Ok(None);
    }
    let own = state.nicks.get(from).cloned().ok_or_else(outside)?;
    let is_ping = stanza.element.has("ping", ns::PING);
    if is_ping && own == nick {
        drop(state);
        xmpp.send(stanza.result(None));
        return Ok(None);
    }
    let Some(other) = state.occupants.get(nick) else {
        let text = "there is nobody of this nick here";
        return Err(StanzaError::new(Condition::ItemNotFound).text(text));
    };
    // A card is that of the person, whichever app is in the room.
    let is_card = stanza.element.has("vCard", ns::VCARD);
    let Some(last) = other.jids.last() else { return Err(missing()) };
    let target = if is_card { last.bare() } else { last.clone() };
    let id = xmpp.token(12);
    let asked_as = stanza.id().unwrap_or_default().to_owned();
    state.relay(id.clone(), from.clone(), asked_as, nick.to_owned());
    let mut relayed = stanza.clone().from(room.address(&own)).to(target);
    relayed.element.set_attr("id", id);
    drop(state);
    xmpp.send(relayed);
    Ok(None)
}

/// A message to the room that is not for all.
pub(super) async fn to_room(
    xmpp: &Xmpp,
    room: &Arc<Room>,
    stanza: &Stanza,
    from: &Jid,
) -> Result<(), StanzaError> {
    if let Some(x) = stanza.element.child("x", ns::MUC_USER) {
        if x.has("invite", ns::MUC_USER) {
            return invite(xmpp, room, x, from).await;
        }
        if let Some(decline) = x.child("decline", ns::MUC_USER) {
            return self::decline(xmpp, room, decline, from);
        }
    }
    match Form::inside(&stanza.element) {
        Some(form) if form.form_type() == Some(ns::MUC_REQUEST) => voice(xmpp, room, &form, from),
        _ => Err(bad("write to all in the room with type='groupchat'")),
    }
}

async fn invite(xmpp: &Xmpp, room: &Arc<Room>, x: &Element, from: &Jid) -> Result<(), StanzaError> {
    let invites = x.children().filter(|child| child.is("invite", ns::MUC_USER));
    let mut invited = Vec::new();
    for invite in invites.take(INVITATIONS_MAX) {
        let to = invite.attr("to").and_then(|to| Jid::parse(to).ok());
        let to = to.ok_or_else(|| StanzaError::new(Condition::JidMalformed))?;
        invited.push((to, invite.clone()));
    }
    let (id, password, members) = {
        let state = room.state();
        let own = state.occupant(from).ok_or_else(outside)?;
        let affiliation = state.affiliation(own.bare());
        let closed = state.config.members_only;
        let may = match closed {
            true => {
                affiliation >= Affiliation::Admin
                    || state.config.invites && affiliation >= Affiliation::Member
            }
            false => state.config.invites || affiliation >= Affiliation::Admin,
        };
        if !may {
            let text = "you may not invite others to this room";
            return Err(StanzaError::new(Condition::Forbidden).text(text));
        }
        let new = invited
            .iter()
            .filter(|(to, _)| closed && state.affiliation(to.bare_str()) == Affiliation::None);
        let listed = |jid: &Jid| Listed {
            jid: jid.bare_str().to_owned(),
            affiliation: Affiliation::Member,
            nick: String::new(),
            reason: String::new(),
        };
        let members: Vec<Listed> = new.map(|(to, _)| listed(to)).collect();
        state.check_lists(&members)?;
        (state.id, state.config.password.clone(), members)
    };
    if let Some(id) = id.filter(|_| !members.is_empty()) {
        let rows = members.clone();
        xmpp.write(move |tx, _| rows.iter().try_for_each(|row| noun::affiliate(tx, id, row)))
            .await?;
    }
    members.into_iter().for_each(|listed| room.state().set_listed(listed));
    room.moved(xmpp);
    for (to, invite) in invited {
        xmpp.send(invitation(room, &to, &invite, from, &password));
    }
    Ok(())
}

fn invitation(room: &Room, to: &Jid, invite: &Element, from: &Jid, password: &str) -> Stanza {
    let mut inside = invite.clone();
    inside.take_attr("to");
    inside.set_attr("from", from.bare_str());
    let reason = invite.child("reason", ns::MUC_USER).map(Element::text);
    let mut x = Element::new("x", ns::MUC_USER).with_child(inside);
    let mut direct = Element::new("x", ns::INVITATION).with_attr("jid", room.jid.as_str());
    if !password.is_empty() {
        x = x.with_child(Element::new("password", ns::MUC_USER).with_text(password));
        direct.set_attr("password", password);
    }
    let direct = direct.with_attr_opt("reason", reason);
    let mut message = Stanza::new(Kind::Message).from(room.jid.clone()).to(to.clone());
    message.element = message.element.with_child(x).with_child(direct);
    message
}

fn decline(xmpp: &Xmpp, room: &Room, decline: &Element, from: &Jid) -> Result<(), StanzaError> {
    let to = decline.attr("to").and_then(|to| Jid::parse(to).ok());
    let to = to.ok_or_else(|| StanzaError::new(Condition::JidMalformed))?;
    // Only those who are or were let in hear of it: the room is no way to write to anybody.
    let knows = {
        let state = room.state();
        state.affiliation(to.bare_str()) > Affiliation::None
            || state.occupants.values().any(|occupant| occupant.bare() == to.bare_str())
    };
    if !knows {
        return Err(StanzaError::new(Condition::ItemNotFound).text("nobody of here invited you"));
    }
    let mut inside = decline.clone();
    inside.take_attr("to");
    inside.set_attr("from", from.bare_str());
    let x = Element::new("x", ns::MUC_USER).with_child(inside);
    let mut message = Stanza::new(Kind::Message).from(room.jid.clone()).to(to);
    message.element = message.element.with_child(x);
    xmpp.send(message);
    Ok(())
}

/// A visitor asks for voice, or a moderator answers that.
fn voice(xmpp: &Xmpp, room: &Arc<Room>, form: &Form, from: &Jid) -> Result<(), StanzaError> {
    let mut state = room.state();
    let own = state.occupant(from).ok_or_else(outside)?;
    if own.role == Role::Moderator {
        let nick = form.value("muc#roomnick").unwrap_or_default().to_owned();
        if form.flag("muc#request_allow") != Some(true) {
            return Ok(());
        }
        let Some(other) = state.occupants.get_mut(&nick) else { return Err(missing()) };
        if other.role == Role::Visitor {
            other.role = Role::Participant;
            other.changed();
        }
        if let Some(other) = state.occupants.get(&nick) {
            room.tell(xmpp, &state, other, &Told::default(), false);
        }
        return Ok(());
    }
    if !state.config.voice_requests || own.role > Role::Visitor {
        let text = "voice cannot be asked for here";
        return Err(StanzaError::new(Condition::Forbidden).text(text));
    }
    let form = Form::to_fill_in(ns::MUC_REQUEST)
        .titled("Voice request", "To let this person speak, choose so and submit the form.")
        .with(Field::new("text-single", "muc#role", "Role", "participant"))
        .with(Field::new("jid-single", "muc#jid", "Address", own.bare()))
        .with(Field::new("text-single", "muc#roomnick", "Nick", &*own.nick))
        .with(Field::flag("muc#request_allow", "Let this person speak?", false));
    let mut message = Stanza::new(Kind::Message).from(room.jid.clone());
    message.element = message.element.with_child(form.element());
    let moderators = state.occupants.values().filter(|one| one.role == Role::Moderator);
    let jids: Vec<Jid> = moderators.flat_map(|one| one.jids.iter().cloned()).collect();
    drop(state);
    jids.into_iter().for_each(|jid| xmpp.send(message.clone().to(jid)));
    Ok(())
}
