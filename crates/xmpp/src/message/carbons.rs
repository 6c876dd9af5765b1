//! Copies of what one's other resources say and hear (XEP-0280).

use std::sync::Arc;

use super::rules;
use crate::iq::{Answer, Asked};
use crate::router::{Here, Out, Session};
use crate::wire::{Condition, Element, Kind, Stanza, StanzaError, ns};

/// `<enable/>`
pub async fn enable(asked: Asked) -> Answer {
    set(&asked, true)
}

/// `<disable/>`
pub async fn disable(asked: Asked) -> Answer {
    set(&asked, false)
}

fn set(asked: &Asked, on: bool) -> Answer {
    let session = asked.session.as_ref().filter(|_| asked.set);
    let session = session.ok_or_else(|| StanzaError::new(Condition::BadRequest))?;
    session.state().has_carbons = on;
    Ok(None)
}

/// Which way the copied message went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Another resource sent it.
    Sent,
    /// It came for another resource.
    Received,
}

/// Copies `message` to the resources of `here` that want it and for which `is_left_out` does not
/// hold. `text` is the message as its receivers get it.
pub(super) fn copy(
    here: &Here,
    message: &Stanza,
    text: &Element,
    way: Way,
    is_left_out: impl Fn(&Arc<Session>) -> bool,
) {
    let mut copy: Option<Stanza> = None;
    for session in &here.sessions {
        if !session.state().has_carbons || is_left_out(session) {
            continue;
        }
        if copy.is_none() && !rules::is_copied(message, way) {
            return;
        }
        let copy = copy.get_or_insert_with(|| wrapped(message, text, way));
        copy.to = Some(session.jid());
        copy.from = Some(session.jid().bare());
        let bytes = copy.bytes();
        let passing = rules::is_passing(message);
        session.push(if passing { Out::Passing(bytes) } else { Out::Bytes(bytes) });
    }
}

fn wrapped(message: &Stanza, text: &Element, way: Way) -> Stanza {
    let name = if way == Way::Sent { "sent" } else { "received" };
    let forwarded = Element::new("forwarded", ns::FORWARD).with_child(text.clone());
    let mut copy = Stanza::new(Kind::Message);
    if let Some(kind) = message.type_() {
        copy.element.set_attr("type", kind);
    }
    let around = Element::new(name, ns::CARBONS).with_child(forwarded);
    copy.element = copy.element.with_child(around);
    copy
}
