//! What an occupant could not be told comes back as an error. Who is gone is in the room no more;
//! that a private message did not arrive is told its sender; everything else changes nothing.

use std::collections::VecDeque;
use std::sync::Arc;

use super::room::Room;
use super::{enter, say};
use crate::face::Xmpp;
use crate::wire::{Condition, Jid, Stanza, ns};

/// The most private messages of one room of which is known who sent them.
const PRIVATE_MAX: usize = 1_000;
/// The longest id of a message that is remembered, in bytes.
const ID_BYTES_MAX: usize = 256;

/// Conditions that say that nobody is there any more: who is not told is not in the room (333).
const GONE: &[Condition] = &[
    Condition::Gone,
    Condition::ItemNotFound,
    Condition::RecipientUnavailable,
    Condition::Redirect,
    Condition::RemoteServerNotFound,
    Condition::RemoteServerTimeout,
];

/// Private messages that may come back, the newest at the end.
#[derive(Default)]
pub(super) struct Private(VecDeque<Sent>);

struct Sent {
    id: String,
    /// The nick to which it went.
    to: String,
    /// The app that sent it.
    sender: Jid,
}

impl Private {
    /// Remembers that `sender` wrote to the occupant called `to`.
    pub(super) fn remember(&mut self, id: &str, to: &str, sender: &Jid) {
        if id.is_empty() || id.len() > ID_BYTES_MAX {
            return;
        }
        if self.0.len() >= PRIVATE_MAX {
            self.0.pop_front();
        }
        self.0.push_back(Sent { id: id.to_owned(), to: to.to_owned(), sender: sender.clone() });
    }

    fn sender(&self, id: &str, to: &str) -> Option<&Jid> {
        self.0.iter().rev().find(|sent| sent.id == id && sent.to == to).map(|sent| &sent.sender)
    }
}

/// A message of the room came back from the address `from` in it.
pub(super) fn returned(xmpp: &Xmpp, room: &Arc<Room>, error: &Stanza, from: &Jid) {
    let condition = error.element.child("error", ns::CLIENT).and_then(|error| {
        error.children().find_map(|child| {
            Some(child).filter(|child| child.ns == ns::STANZA_ERRORS)?;
            Condition::parse(&child.name)
        })
    });
    let told = {
        let state = room.state();
        let Some(own) = state.occupant(from) else { return };
        let sender = state.private.sender(error.id().unwrap_or_default(), &own.nick);
        sender.map(|sender| {
            let told = say::signed(room, &state, &own.nick, from.bare_str(), error);
            told.to(sender.clone())
        })
    };
    // Another server says so of what is for nobody (RFC 6121 section 8.5.3.2.3), and also for who
    // does not want to hear from one person.
    let is_for_nobody = condition == Some(Condition::ServiceUnavailable)
        && told.is_none()
        && from.domain() != xmpp.domain();
    if let Some(told) = told {
        xmpp.send(told);
    }
    if is_for_nobody || condition.is_some_and(|condition| GONE.contains(&condition)) {
        enter::leave(xmpp, room, from, None);
    }
}
