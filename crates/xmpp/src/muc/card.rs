//! The card of a room, with its picture (XEP-0486): owners set it, everybody may see it.

use std::sync::Arc;

use weir_community::chat::rooms::{self as noun, Affiliation};

use super::parcel::Parcel;
use super::room::{Room, State, status};
use super::{bad, missing};
use crate::face::Xmpp;
use crate::pubsub::avatar::Picture;
use crate::wire::{Condition, Element, Jid, Kind, Scope, Stanza, StanzaError, ns, parse, write};

/// The card as it was set.
pub(super) async fn shown(xmpp: &Xmpp, room: &Room, from: &Jid) -> Result<Element, StanzaError> {
    let id = {
        let state = room.state();
        if state.locked && state.affiliation(from.bare_str()) != Affiliation::Owner {
            return Err(missing());
        }
        state.id
    };
    let none = || StanzaError::new(Condition::ItemNotFound).text("this room has no card");
    let id = id.ok_or_else(none)?;
    let xml = xmpp.read(move |tx, _| noun::card(tx, id)).await?;
    parse::element_in(&xml, &Scope::empty()).map_err(|_| none())
}

/// An owner sets it; an empty one takes it away.
pub(super) async fn change(
    xmpp: &Xmpp,
    room: &Arc<Room>,
    card: &Element,
    from: &Jid,
) -> Result<(), StanzaError> {
    let (id, mut config) = {
        let state = room.state();
        if state.affiliation(from.bare_str()) != Affiliation::Owner {
            return Err(StanzaError::new(Condition::Forbidden).text("only owners may do this"));
        }
        (state.id, state.config.clone())
    };
    let id = id.ok_or_else(|| bad("only a room that stays has a card: configure it so"))?;
    config.picture = match card.child("PHOTO", ns::VCARD) {
        None => String::new(),
        Some(photo) => {
            let text = |name: &str| photo.child(name, ns::VCARD).map(Element::text);
            let data = text("BINVAL").filter(|data| !data.trim().is_empty());
            let content_type = text("TYPE").unwrap_or_else(|| "image/png".into());
            let picture = data.map(|data| Picture::read(&data, &content_type)).transpose()?;
            picture.map(|picture| picture.name()).unwrap_or_default()
        }
    };
    let (name, xml) = (config.picture.clone(), write::to_string(card));
    xmpp.write(move |tx, env| noun::set_card(tx, env, id, &config, &xml)).await?;
    let mut state = room.state();
    state.config.picture = name;
    let x = Element::new("x", ns::MUC_USER).with_child(status(104));
    let mut message = Stanza::new(Kind::Message).from(room.jid.clone());
    message.element.set_attr("type", "groupchat");
    message.element = message.element.with_child(x);
    room.announce(xmpp, &state, message);
    room.announce(xmpp, &state, presence(room, &state));
    Ok(())
}

/// Tells somebody who came of the picture, where there is one.
pub(super) fn tell(xmpp: &Xmpp, room: &Room, state: &State, to: &Jid) {
    if !state.config.picture.is_empty() {
        Parcel::new(presence(room, state)).deliver(xmpp, to);
    }
}

/// The presence of the room itself, which names its picture.
fn presence(room: &Room, state: &State) -> Stanza {
    let photo = Element::new("photo", ns::VCARD_UPDATE).with_text(&*state.config.picture);
    let update = Element::new("x", ns::VCARD_UPDATE).with_child(photo);
    let mut presence = Stanza::presence(None).from(room.jid.clone());
    presence.element = presence.element.with_child(update);
    presence
}
