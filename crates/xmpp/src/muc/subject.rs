//! The subject of a room (XEP-0045 §8.1).

use std::sync::Arc;

use weir_community::chat::rooms::{Subject, TEXT_BYTES_MAX};

use super::room::{Role, Room};
use super::{outside, say};
use crate::face::Xmpp;
use crate::wire::{Condition, Element, Jid, Stanza, StanzaError, ns};

/// Whether a message changes the subject and says nothing else.
pub(super) fn is_subject(message: &Element) -> bool {
    message.has("subject", ns::CLIENT)
        && !message.has("body", ns::CLIENT)
        && !message.has("thread", ns::CLIENT)
}

/// A new subject, or none.
pub(super) async fn change(
    xmpp: &Xmpp,
    room: &Arc<Room>,
    stanza: &Stanza,
    from: &Jid,
) -> Result<(), StanzaError> {
    let text = stanza.element.child("subject", ns::CLIENT).map(Element::text).unwrap_or_default();
    if text.len() > TEXT_BYTES_MAX {
        let text = format!("a subject has at most {TEXT_BYTES_MAX} bytes");
        return Err(StanzaError::new(Condition::NotAcceptable).text(text));
    }
    let answer = {
        let mut state = room.state();
        let occupant = state.occupant(from).ok_or_else(outside)?;
        let may = occupant.role == Role::Moderator
            || state.config.change_subject && occupant.role == Role::Participant;
        if !may {
            let text = "only moderators may change the subject of this room";
            return Err(StanzaError::new(Condition::Forbidden).text(text));
        }
        let by = occupant.nick.clone();
        let signed = say::signed(room, &state, &by, from.bare_str(), stanza);
        let subject = Subject { text, by, at: xmpp.env().clock.now() };
        say::put(xmpp, room, &mut state, from.bare_str(), signed, Some(subject), None)?
    };
    say::waited(answer).await.map(drop)
}
