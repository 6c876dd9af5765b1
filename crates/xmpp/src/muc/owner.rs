//! What owners do: configuring a room, keeping it, ending it (XEP-0045 §10).

use std::sync::Arc;

use weir_community::chat::rooms::{self as noun, Affiliation, Config, Listed};

use super::room::{Occupant, Role, Room, State, Told, status};
use super::{admin, appoint, bad, config, enter};
use crate::face::Xmpp;
use crate::wire::form::Form;
use crate::wire::{Condition, Element, Jid, Kind, Stanza, StanzaError, ns};

fn check(state: &State, from: &Jid) -> Result<(), StanzaError> {
    match state.affiliation(from.bare_str()) {
        Affiliation::Owner => Ok(()),
        _ => Err(StanzaError::new(Condition::Forbidden).text("only owners may do this")),
    }
}

/// The form.
pub(super) fn form(room: &Room, from: &Jid) -> Result<Element, StanzaError> {
    let state = room.state();
    check(&state, from)?;
    let form = appoint::fields(&state)
        .into_iter()
        .fold(config::form(&state.config, room.name()), Form::with);
    Ok(Element::new("query", ns::MUC_OWNER).with_child(form.element()))
}

/// The form filled in, or the end of the room.
pub(super) async fn change(
    xmpp: &Xmpp,
    room: &Arc<Room>,
    payload: &Element,
    from: &Jid,
) -> Result<(), StanzaError> {
    check(&room.state(), from)?;
    if let Some(end) = payload.child("destroy", ns::MUC_OWNER) {
        return destroy(xmpp, room, end).await;
    }
    let form = Form::inside(payload).ok_or_else(|| bad("fill the form in"))?;
    if !form.is_submitted() {
        let was_new = room.state().locked;
        if was_new {
            destroy(xmpp, room, &Element::new("destroy", ns::MUC_OWNER)).await?;
        }
        return Ok(());
    }
    configure(xmpp, room, &form, from).await
}

async fn configure(
    xmpp: &Xmpp,
    room: &Arc<Room>,
    form: &Form,
    from: &Jid,
) -> Result<(), StanzaError> {
    let (before, new, id, lists, appointed) = {
        let state = room.state();
        let new = config::changed(&state.config, form)?;
        let lists: Vec<Listed> = state.lists.values().cloned().collect();
        let appointed = appoint::changes(&state, form, &new)?;
        (state.config.clone(), new, state.id, lists, appointed)
    };
    let rows = admin::rows(&appointed);
    let (name, owner, kept) = (room.name().to_owned(), from.bare_str().to_owned(), new.clone());
    let id = xmpp
        .write(move |tx, env| match (id, kept.persistent) {
            (Some(id), true) => {
                noun::configure(tx, env, id, &kept)?;
                rows.iter().try_for_each(|row| noun::affiliate(tx, id, row))?;
                Ok(Some(id))
            }
            (Some(id), false) => noun::destroy(tx, env, id).map(|()| None),
            (None, true) => {
                let id = noun::create(tx, env, &name, &kept, &owner)?.id;
                for listed in lists.iter().chain(&rows) {
                    noun::affiliate(tx, id, listed)?;
                }
                Ok(Some(id))
            }
            (None, false) => Ok(None),
        })
        .await?;
    let mut state = room.state();
    state.id = id;
    state.config = new;
    let was_locked = std::mem::replace(&mut state.locked, false);
    let codes = config::codes(&before, &state.config);
    if !was_locked && !codes.is_empty() {
        let x = Element::new("x", ns::MUC_USER).with_children(codes.into_iter().map(status));
        let mut message = Stanza::new(Kind::Message).from(room.jid.clone());
        message.element.set_attr("type", "groupchat");
        message.element = message.element.with_child(x);
        room.announce(xmpp, &state, message);
    }
    let actor = state.occupant(from).map(|own| own.nick.clone()).unwrap_or_default();
    for change in appointed {
        admin::apply(xmpp, room, &mut state, change, &actor);
    }
    obey(xmpp, room, &mut state, &before);
    room.moved(xmpp);
    Ok(())
}

/// Those who may not be in it any more leave; voice follows the new rule.
fn obey(xmpp: &Xmpp, room: &Room, state: &mut State, before: &Config) {
    if state.config.members_only && !before.members_only && !state.of_community {
        let strangers: Vec<String> = state
            .occupants
            .values()
            .filter(|one| state.affiliation(one.bare()) < Affiliation::Member)
            .map(|one| one.nick.clone())
            .collect();
        let told = Told { codes: vec![322], ..Told::default() };
        for nick in strangers {
            enter::expel(xmpp, room, state, &nick, &told);
        }
    }
    if state.config.moderated != before.moderated {
        voice(xmpp, room, state);
    }
}

/// Who is nothing special gets the voice that newcomers have from now on, or loses it (XEP-0045
/// §5.1.3).
fn voice(xmpp: &Xmpp, room: &Room, state: &mut State) {
    let differs = |one: &&Occupant| {
        let role = one.jids.first().map(|jid| state.role_at(jid, xmpp.domain()));
        let role = role.filter(|role| one.role < Role::Moderator && *role != one.role)?;
        Some((one.nick.clone(), role))
    };
    let changed: Vec<(String, Role)> =
        state.occupants.values().filter_map(|one| differs(&one)).collect();
    for (nick, role) in &changed {
        if let Some(occupant) = state.occupants.get_mut(nick) {
            occupant.role = *role;
            occupant.changed();
        }
    }
    for occupant in changed.iter().filter_map(|(nick, _)| state.occupants.get(nick)) {
        room.tell(xmpp, state, occupant, &Told::default(), false);
    }
}

/// The room is no more.
async fn destroy(xmpp: &Xmpp, room: &Arc<Room>, end: &Element) -> Result<(), StanzaError> {
    let id = room.state().id;
    if let Some(id) = id {
        xmpp.write(move |tx, env| noun::destroy(tx, env, id)).await?;
    }
    let mut told = Element::new("destroy", ns::MUC_USER).with_attr_opt("jid", end.attr("jid"));
    for name in ["reason", "password"] {
        if let Some(child) = end.child(name, ns::MUC_OWNER) {
            told = told.with_child(Element::new(name, ns::MUC_USER).with_text(child.text()));
        }
    }
    let told = Told { destroyed: Some(told), ..Told::default() };
    {
        let mut state = room.state();
        state.closed = true;
        state.id = None;
        let occupants = std::mem::take(&mut state.occupants);
        state.nicks.clear();
        // Nobody needs to know who else is leaving.
        for occupant in occupants.values() {
            room.tell_self(xmpp, &state, occupant, &occupant.jids, &told, true);
        }
    }
    xmpp.rooms.forget(room);
    room.moved(xmpp);
    Ok(())
}
