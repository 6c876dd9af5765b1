//! Telling a person's sessions, and those who see its presence, that a contact changed.

use std::sync::Arc;

use weir_community::chat::contacts::Change;

use super::item;
use crate::face::Xmpp;
use crate::presence;
use crate::router::{Out, Peer};
use crate::wire::{Element, Stanza, ns};

/// A contact of the person at `owner` changed: sessions are told, and presence begins or ends.
pub(crate) fn apply(xmpp: &Xmpp, owner: &Arc<Peer>, change: &Change) {
    keep(xmpp, owner, change);
    if change.is_seen() {
        push(xmpp, owner, change);
    }
    if change.shows() {
        presence::show_all(xmpp, owner, &change.contact.jid, true);
    }
    if change.hides() {
        presence::show_all(xmpp, owner, &change.contact.jid, false);
    }
}

/// What memory holds of the contact follows.
pub(crate) fn keep(xmpp: &Xmpp, owner: &Arc<Peer>, change: &Change) {
    let contact = xmpp.router.peer(&change.contact.jid);
    let mut here = owner.here();
    let Some(there) = here.as_mut() else { return };
    there.revise();
    let state = change.contact.state;
    if let Some(contacts) = &there.contacts {
        there.contacts = Some(contacts.with(&contact, state.to, state.from));
    }
}

/// RFC 6121 section 2.1.6.
fn push(xmpp: &Xmpp, owner: &Arc<Peer>, change: &Change) {
    let mut item = item(&change.contact);
    if change.removed {
        item = Element::new("item", ns::ROSTER)
            .with_attr("jid", change.contact.jid.clone())
            .with_attr("subscription", "remove");
    }
    let query =
        Element::new("query", ns::ROSTER).with_attr("ver", change.version.clone()).with_child(item);
    let mut push = Stanza::iq("set", xmpp.token(6), Some(query));
    let here = owner.here();
    for session in here.iter().flat_map(|here| &here.sessions) {
        if session.state().is_interested {
            push.to = Some(session.jid());
            session.push(Out::Bytes(push.bytes()));
        }
    }
}
