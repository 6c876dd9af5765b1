//! Registering a nick in a room (XEP-0045 §7.10): who does becomes a member of an open room. Where
//! members have voice that others have not, it is the nick alone; where one must know a password,
//! one has to have entered.

use std::sync::Arc;

use weir_community::chat::rooms::{self as noun, Affiliation, Listed};

use super::bad;
use super::room::{Room, State};
use crate::face::Xmpp;
use crate::wire::form::{Field, Form};
use crate::wire::{Condition, Element, Jid, StanzaError, ns};

/// The longest nick, in bytes.
const NICK_BYTES_MAX: usize = 200;

fn check(state: &State, from: &Jid) -> Result<Affiliation, StanzaError> {
    let affiliation = state.affiliation(from.bare_str());
    let closed = state.config.members_only && affiliation == Affiliation::None;
    if closed || affiliation == Affiliation::Outcast || state.locked {
        let text = "only those who may enter the room may register a nick there";
        return Err(StanzaError::new(Condition::NotAllowed).text(text));
    }
    let is_guarded = !state.config.password.is_empty() && affiliation == Affiliation::None;
    if is_guarded && !state.nicks.contains_key(from) {
        let text = "this room has a password: enter it first";
        return Err(StanzaError::new(Condition::NotAllowed).text(text));
    }
    Ok(affiliation)
}

/// The form.
pub(super) fn form(room: &Room, from: &Jid) -> Result<Element, StanzaError> {
    let state = room.state();
    check(&state, from)?;
    let query = Element::new("query", ns::REGISTER);
    let nick = state.lists.get(from.bare_str()).map(|one| one.nick.clone());
    if let Some(nick) = nick.filter(|nick| !nick.is_empty()) {
        return Ok(query
            .with_child(Element::new("registered", ns::REGISTER))
            .with_child(Element::new("username", ns::REGISTER).with_text(nick)));
    }
    let form = Form::to_fill_in(ns::MUC_REGISTER)
        .titled("A nick of your own", "Say what you want to be called in this room.")
        .with(Field::new("text-single", "muc#register_roomnick", "Nick", "").required());
    Ok(query.with_child(form.element()))
}

/// The form filled in, or `<remove/>`.
pub(super) async fn change(
    xmpp: &Xmpp,
    room: &Arc<Room>,
    payload: &Element,
    from: &Jid,
) -> Result<(), StanzaError> {
    let nick = match payload.has("remove", ns::REGISTER) {
        true => String::new(),
        false => {
            let form = Form::inside(payload).ok_or_else(|| bad("fill the form in"))?;
            let nick = form.value("muc#register_roomnick").unwrap_or_default().trim().to_owned();
            if nick.is_empty() || nick.len() > NICK_BYTES_MAX {
                let text = format!("a nick has 1 to {NICK_BYTES_MAX} bytes");
                return Err(StanzaError::new(Condition::NotAcceptable).text(text));
            }
            nick
        }
    };
    let (listed, id) = {
        let state = room.state();
        let affiliation = check(&state, from)?;
        let jid = from.bare_str();
        let taken = state.lists.values().any(|one| one.nick == nick && one.jid != jid)
            || state.occupants.get(&nick).is_some_and(|one| one.bare() != jid);
        if !nick.is_empty() && taken {
            let text = "somebody else is called so: take another nick";
            return Err(StanzaError::new(Condition::Conflict).text(text));
        }
        let affiliation = match nick.is_empty() || state.config.moderated {
            true => affiliation,
            false => affiliation.max(Affiliation::Member),
        };
        let (jid, reason) = (jid.to_owned(), String::new());
        let listed = Listed { jid, affiliation, nick, reason };
        state.check_lists(std::slice::from_ref(&listed))?;
        (listed, state.id)
    };
    if let Some(id) = id {
        let row = listed.clone();
        xmpp.write(move |tx, _| noun::affiliate(tx, id, &row)).await?;
    }
    let is_new = {
        let mut state = room.state();
        let is_new = state.affiliation(&listed.jid) != listed.affiliation;
        state.set_listed(listed);
        is_new
    };
    room.moved(xmpp);
    // Those who are there see what everybody is, and so do those who come.
    if is_new {
        room.renew(xmpp, from.bare_str(), |_| true);
    }
    Ok(())
}
