//! Moderators take back what others said (XEP-0425): all are told, and the archive keeps a
//! tombstone.

use std::sync::Arc;

use weir_base::Id;
use weir_community::Error;
use weir_community::chat::rooms as noun;

use super::room::{Role, Room};
use super::{bad, outside, say};
use crate::face::Xmpp;
use crate::wire::{Condition, Element, Jid, Kind, Scope, Stanza, StanzaError, ns, parse, write};

/// `<moderate/>`
pub(super) async fn moderate(
    xmpp: &Xmpp,
    room: &Arc<Room>,
    payload: &Element,
    from: &Jid,
) -> Result<(), StanzaError> {
    let id: Id = payload.attr("id").and_then(|id| id.parse().ok()).ok_or_else(|| {
        StanzaError::new(Condition::ItemNotFound).text("there is no such message")
    })?;
    if !payload.has("retract", ns::RETRACT) {
        return Err(bad("only <retract/> is offered"));
    }
    let reason = payload.child("reason", ns::MODERATE).map(Element::text).unwrap_or_default();
    let (room_id, moderated) = {
        let state = room.state();
        let own = state.occupant(from).ok_or_else(outside)?;
        if own.role != Role::Moderator {
            let text = "only moderators may take back what others said";
            return Err(StanzaError::new(Condition::Forbidden).text(text));
        }
        let none =
            || StanzaError::new(Condition::FeatureNotImplemented).text("nothing is kept here");
        let room_id = state.id.filter(|_| state.config.archive).ok_or_else(none)?;
        let who = Element::new("occupant-id", ns::OCCUPANT_ID)
            .with_attr("id", state.occupant_id(from.bare_str()));
        let moderated = Element::new("moderated", ns::MODERATE)
            .with_attr("by", room.address(&own.nick).as_str())
            .with_child(who);
        (room_id, moderated)
    };
    let old = xmpp
        .read(move |tx, _| {
            let found = noun::by_ids(tx, room_id, &[id])?.into_iter().next();
            found.ok_or(Error::NotFound("Message"))
        })
        .await?;
    let stone = tombstone(xmpp, &old.xml, &moderated, &reason)?;
    let mut message = Stanza::new(Kind::Message).from(room.jid.clone());
    message.element.set_attr("type", "groupchat");
    message.element.set_attr("id", xmpp.token(8));
    let mut retract =
        Element::new("retract", ns::RETRACT).with_attr("id", id.to_string()).with_child(moderated);
    if !reason.is_empty() {
        retract = retract.with_child(Element::new("reason", ns::RETRACT).with_text(reason));
    }
    message.element = message.element.with_child(retract);
    let answer = {
        let mut state = room.state();
        let replaces = Some((id, stone));
        say::put(xmpp, room, &mut state, from.bare_str(), message, None, replaces)?
    };
    say::waited(answer).await.map(drop)
}

/// What stands in the archive in the place of the message: who said it, and that it is gone.
fn tombstone(
    xmpp: &Xmpp,
    old: &str,
    moderated: &Element,
    reason: &str,
) -> Result<String, StanzaError> {
    let broken = |_| StanzaError::new(Condition::InternalServerError);
    let mut stone = parse::element_in(old, &Scope::client()).map_err(broken)?;
    stone.remove_children(|child| {
        !child.is("occupant-id", ns::OCCUPANT_ID) && !child.is("stanza-id", ns::STANZA_ID)
    });
    let mut retracted = Element::new("retracted", ns::RETRACT)
        .with_attr("stamp", xmpp.env().clock.now().to_string())
        .with_child(moderated.clone());
    if !reason.is_empty() {
        retracted = retracted.with_child(Element::new("reason", ns::RETRACT).with_text(reason));
    }
    Ok(write::to_string(&stone.with_child(retracted)))
}
