//! Presence (RFC 6121 sections 3 and 4): who is there, told to those who may know.

pub(crate) mod arrive;

use std::sync::{Arc, OnceLock};

use crate::face::{Work, Xmpp};
use crate::limits;
use crate::pubsub::abroad::presence_arrived;
use crate::pubsub::interest::presence_changed;
use crate::roster;
use crate::route::Place;
use crate::router::{Contacts, Here, Out, Peer, Session};
use crate::wire::{Condition, Element, Jid, Stanza, StanzaError, ns, write};

/// What stands behind the addresses of a presence that says nothing but that somebody left.
fn gone() -> Arc<[u8]> {
    static GONE: OnceLock<Arc<[u8]>> = OnceLock::new();
    GONE.get_or_init(|| Arc::from(&b" type='unavailable'/>"[..])).clone()
}

/// A session sends presence.
pub(crate) fn sent(xmpp: &Xmpp, session: &Arc<Session>, presence: Stanza) -> Option<Work> {
    let kind = presence.type_().map(str::to_owned);
    if let Some(change) = kind.as_deref().and_then(roster::subscriptions::kind) {
        return roster::subscriptions::sent(xmpp, session, change, presence);
    }
    match (&presence.to, kind.as_deref()) {
        (None, None) => available(xmpp, session, presence),
        (None, Some("unavailable")) => {
            unavailable(xmpp, session, tail_of(&presence.element, true));
            None
        }
        (Some(_), None | Some("unavailable")) => directed(xmpp, session, presence),
        (Some(_), Some("probe" | "error")) => xmpp.route(presence),
        (_, _) => {
            let text = "presence has no such type, or this type needs an address";
            let error = StanzaError::new(Condition::BadRequest).text(text);
            session.send(&presence.error(&error));
            None
        }
    }
}

/// RFC 6121 sections 4.2 and 4.4.
fn available(xmpp: &Xmpp, session: &Arc<Session>, mut presence: Stanza) -> Option<Work> {
    let priority = presence.element.child("priority", ns::CLIENT);
    let priority = priority.map_or(Ok(0), |priority| priority.text().trim().parse::<i8>());
    let Ok(priority) = priority else {
        let text = "a priority is a number from -128 to 127";
        let error = StanzaError::new(Condition::BadRequest).text(text);
        session.send(&presence.error(&error));
        return None;
    };
    let before = session.priority();
    let is_loaded = session.peer.here().as_ref().is_some_and(|here| here.contacts.is_some());
    if before.is_none() || !is_loaded {
        return Some(Box::pin(arrive::arrive(xmpp.clone(), session.clone(), presence, priority)));
    }
    sign(session, &mut presence.element);
    let told = tail_of(&presence.element, true);
    show(xmpp, session, &presence.element, priority);
    presence_changed(xmpp, session, &presence.element, false);
    broadcast(xmpp, session, &told);
    if priority >= 0 && before < Some(0) {
        let handing = (xmpp.clone(), session.peer.clone(), session.account);
        let (xmpp, peer, account) = handing;
        return Some(Box::pin(crate::message::offline::hand_over(xmpp, peer, account)));
    }
    None
}

/// From now on the session is available, as its presence says.
pub(crate) fn show(xmpp: &Xmpp, session: &Arc<Session>, presence: &Element, priority: i8) {
    let tail = xmpp.router.interned_tail(&tail_of(presence, false));
    // Who asks for it meanwhile gets either the old or the new, and is told of the new after.
    let was_there = {
        let here = session.peer.here();
        let mut state = session.state();
        let was_there = state.presence.replace(tail).is_some();
        let has_others = here.as_ref().is_some_and(|here| here.sessions.len() > 1);
        if has_others && priority >= 0 && !(was_there && state.priority >= 0) {
            state.more().came_at = xmpp.new_id();
        }
        state.priority = priority;
        was_there
    };
    if !was_there {
        xmpp.env().streams.chat_presence_changed(session.account);
    }
}

/// Presence names the picture that the person has now, whatever the app says (XEP-0398 section 4).
pub(crate) fn sign(session: &Session, presence: &mut Element) {
    let avatar = session.peer.here().as_ref().and_then(|here| here.avatar.clone());
    if let Some(avatar) = avatar {
        name_picture(presence, &avatar);
    }
}

/// `presence` names the picture of this hash and no other (XEP-0153). Whether it did not before.
pub(crate) fn name_picture(presence: &mut Element, hash: &str) -> bool {
    let before = presence.child("x", ns::VCARD_UPDATE);
    let before = before.and_then(|update| update.child("photo", ns::VCARD_UPDATE));
    if before.is_some_and(|photo| photo.text() == hash) {
        return false;
    }
    presence.remove_children(|child| child.is("x", ns::VCARD_UPDATE));
    let photo = Element::new("photo", ns::VCARD_UPDATE).with_text(hash);
    let update = Element::new("x", ns::VCARD_UPDATE).with_child(photo);
    presence.nodes.push(crate::wire::Node::Element(update));
    true
}

/// The person at `bare` has another picture: all who see them are told by their presence, and the
/// rooms of here where they are.
pub(crate) fn avatar_changed(xmpp: &Xmpp, bare: &str, avatar: &str) {
    let Some(peer) = xmpp.router.find(bare) else { return };
    let sessions: Vec<Arc<Session>> = {
        let mut here = peer.here();
        let Some(there) = here.as_mut() else { return };
        there.avatar = Some(avatar.into());
        there.available().cloned().collect()
    };
    for session in sessions {
        let (tail, priority) = {
            let state = session.state();
            (state.presence.clone(), state.priority)
        };
        let Some(stanza) = tail.and_then(|tail| stanza_of(&session, &tail, bare)) else { continue };
        let mut presence = stanza.element;
        sign(&session, &mut presence);
        show(xmpp, &session, &presence, priority);
        broadcast(xmpp, &session, &tail_of(&presence, false));
    }
    for room in xmpp.rooms.of(xmpp, bare) {
        room.renew(xmpp, bare, |occupant| name_picture(&mut occupant.presence, avatar));
    }
}

/// What stands behind the addresses: shared by all who get it. Kept presence goes without the id
/// of the stanza that brought it, so that many people's is the same.
fn tail_of(presence: &Element, with_id: bool) -> Arc<[u8]> {
    let mut text = String::new();
    for (name, value) in &presence.attrs {
        if with_id || name != "id" {
            write::attribute(name, value, &mut text);
        }
    }
    if presence.nodes.is_empty() {
        text.push_str("/>");
    } else {
        text.push('>');
        write::inner(presence, ns::CLIENT, &mut text);
        text.push_str("</presence>");
    }
    Arc::from(text.into_bytes())
}

/// The presence of `session` as a stanza, for those of other servers.
fn stanza_of(session: &Session, tail: &[u8], to: &str) -> Option<Stanza> {
    let tail = std::str::from_utf8(tail).ok()?;
    let text = format!("<presence xmlns='{}'{tail}", ns::CLIENT);
    let element = crate::wire::parse::element(&text).ok()?;
    let presence = Stanza::of(element).ok()?;
    Some(presence.from(session.jid()).to(Jid::parse(to).ok()?))
}

fn contacts(here: Option<&Here>) -> Option<Contacts> {
    here?.contacts.as_ref().map(Contacts::snapshot)
}

/// Tells everybody who sees the session's presence, and the person's own resources.
pub(crate) fn broadcast(xmpp: &Xmpp, session: &Arc<Session>, tail: &Arc<[u8]>) {
    let (contacts, blocked) = {
        let here = session.peer.here();
        for own in here.iter().flat_map(|here| here.available()) {
            own.push(Out::Presence(session.clone(), tail.clone()));
        }
        let blocked = here.as_ref().map(|here| here.blocked.clone()).unwrap_or_default();
        (contacts(here.as_deref()), blocked)
    };
    let Some(contacts) = contacts else { return };
    for contact in contacts.from() {
        let is_blocked = !blocked.is_empty() && session.peer.blocks(contact.jid());
        if !is_blocked {
            tell(xmpp, session, tail, contact);
        }
    }
}

/// Tells one contact of a session's presence.
pub(crate) fn tell(xmpp: &Xmpp, session: &Arc<Session>, tail: &Arc<[u8]>, contact: &Arc<Peer>) {
    if !xmpp.is_of_here(contact.jid()) {
        if let Some(presence) = stanza_of(session, tail, contact.jid()) {
            xmpp.send(presence);
        }
        return;
    }
    let here = contact.here();
    let Some(there) = here.as_ref() else { return };
    if !there.blocks(session.bare()) {
        for receiver in there.available() {
            receiver.push(Out::Presence(session.clone(), tail.clone()));
        }
    }
}

/// Tells `session` who of those it sees is there (RFC 6121 section 4.3).
pub(crate) fn probe(xmpp: &Xmpp, session: &Arc<Session>) {
    let contacts = contacts(session.peer.here().as_deref());
    let blocks = |jid: &str| session.peer.blocks(jid);
    for contact in contacts.iter().flat_map(Contacts::to) {
        if blocks(contact.jid()) {
            continue;
        }
        if xmpp.is_of_here(contact.jid()) {
            show_to(contact, session);
        } else if let Ok(to) = Jid::parse(contact.jid()) {
            let from = session.jid().bare();
            xmpp.send(Stanza::presence(Some("probe")).from(from).to(to));
        }
    }
    let here = session.peer.here();
    for other in here.iter().flat_map(|here| here.available()) {
        let presence = other.state().presence.clone();
        if let Some(tail) = presence.filter(|_| !Arc::ptr_eq(other, session)) {
            session.push(Out::Presence(other.clone(), tail));
        }
    }
}

/// Shows `receiver` what `contact` shows now. While its presence cannot change, so that what
/// follows comes after.
fn show_to(contact: &Peer, receiver: &Arc<Session>) {
    let here = contact.here();
    let Some(there) = here.as_ref().filter(|there| !there.blocks(receiver.bare())) else { return };
    for session in &there.sessions {
        let presence = session.state().presence.clone();
        if let Some(tail) = presence {
            receiver.push(Out::Presence(session.clone(), tail));
        }
    }
}

/// The contact at `whom` begins (or ends) to see the presence of the person at `whose`.
pub(crate) fn show_all(xmpp: &Xmpp, whose: &Arc<Peer>, whom: &str, shows: bool) {
    let sessions: Vec<(Arc<Session>, Arc<[u8]>)> = {
        let here = whose.here();
        let present = |session: &Arc<Session>| {
            let tail = session.state().presence.clone()?;
            Some((session.clone(), if shows { tail } else { gone() }))
        };
        here.iter().flat_map(|here| &here.sessions).filter_map(present).collect()
    };
    if sessions.is_empty() {
        return;
    }
    let contact = xmpp.router.peer(whom);
    for (session, tail) in &sessions {
        tell(xmpp, session, tail, &contact);
        // It may have left in between; then that is what counts.
        if shows && !session.is_available() {
            tell(xmpp, session, &gone(), &contact);
        }
    }
}

/// RFC 6121 section 4.5: tells everybody who has seen the session.
fn unavailable(xmpp: &Xmpp, session: &Arc<Session>, tail: Arc<[u8]>) {
    let (was_there, directed) = {
        let _here = session.peer.here();
        let mut state = session.state();
        state.priority = 0;
        let was_there = state.presence.take().is_some();
        let directed = state.more.as_mut().map(|more| std::mem::take(&mut more.directed));
        let directed = directed.unwrap_or_default();
        if !was_there && directed.is_empty() {
            return;
        }
        (was_there, directed)
    };
    if was_there {
        xmpp.env().streams.chat_presence_changed(session.account);
    }
    broadcast(xmpp, session, &tail);
    let contacts = contacts(session.peer.here().as_deref());
    for to in directed {
        let sees = |contact: &Arc<Peer>| contact.jid() == to.bare_str();
        if contacts.as_ref().is_some_and(|contacts| contacts.from().iter().any(sees)) {
            continue;
        }
        if let Some(presence) = stanza_of(session, &tail, to.as_str()) {
            xmpp.send(presence);
        }
    }
}

/// A session is over: those who saw it learn that it left.
pub(crate) fn left(xmpp: &Xmpp, session: &Arc<Session>) -> Option<Work> {
    unavailable(xmpp, session, gone());
    None
}

/// RFC 6121 section 4.6: presence to one address.
fn directed(xmpp: &Xmpp, session: &Arc<Session>, mut presence: Stanza) -> Option<Work> {
    let to = presence.to.clone()?;
    if presence.type_().is_none() {
        sign(session, &mut presence.element);
    }
    {
        let mut state = session.state();
        let directed = &mut state.more().directed;
        directed.retain(|other| *other != to);
        if presence.type_().is_none() {
            if directed.len() >= limits::DIRECTED_MAX {
                drop(state);
                let text = "leave some of the places where you are first";
                let full = StanzaError::new(Condition::ResourceConstraint).text(text);
                session.send(&presence.error(&full));
                return None;
            }
            directed.push(to);
        }
    }
    xmpp.route(presence)
}

/// Whether `session` showed itself to `whom` directly, or to the room where they are both.
pub(crate) fn is_directed(session: &Session, whom: &Jid) -> bool {
    let state = session.state();
    let directed = state.more.iter().flat_map(|more| &more.directed);
    directed.into_iter().any(|to| to.bare_str() == whom.bare_str())
}

/// Presence for an account of here has come.
pub(crate) fn arrived(xmpp: &Xmpp, presence: Stanza) -> Option<Work> {
    let to = presence.to.clone()?;
    let kind = presence.type_().map(str::to_owned);
    if let Some(change) = kind.as_deref().and_then(roster::subscriptions::kind) {
        return roster::subscriptions::received(xmpp, change, presence);
    }
    match kind.as_deref() {
        None | Some("unavailable" | "error") => {
            let from = presence.from.as_ref()?;
            let peer = xmpp.router.find(to.bare_str())?;
            let here = peer.here();
            let there = here.as_ref().filter(|there| !there.blocks(from.as_str()))?;
            let bytes = presence.bytes();
            let gets = |session: &&Arc<Session>| match to.resource() {
                Some(resource) => session.resource() == resource,
                None => session.is_available(),
            };
            for session in there.sessions.iter().filter(gets) {
                session.push(Out::Bytes(bytes.clone()));
            }
            // Who sees the person may want to hear of more.
            let mut shown_to = there.contacts.iter().flat_map(|contacts| contacts.from());
            let is_seen = shown_to.any(|contact| contact.jid() == from.bare_str());
            let is_abroad = is_seen && !xmpp.is_of_here(from.bare_str());
            drop(here);
            if !is_abroad {
                return None;
            }
            let heard = presence_arrived(xmpp, to.bare(), &presence);
            xmpp.spawn(heard);
            None
        }
        Some("probe") => probed(xmpp, presence, &to),
        Some(_) => None,
    }
}

/// RFC 6121 section 4.3.2: somebody asks whether an account of here is there.
fn probed(xmpp: &Xmpp, probe: Stanza, to: &Jid) -> Option<Work> {
    let from = probe.from.clone()?;
    let peer = xmpp.router.find(to.bare_str());
    let known = peer.as_ref().and_then(|peer| {
        let here = peer.here();
        let contacts = here.as_ref()?.contacts.as_ref()?;
        let is_own = from.bare_str() == to.bare_str();
        Some(is_own || contacts.from().iter().any(|one| one.jid() == from.bare_str()))
    });
    match (known, peer) {
        (Some(true), Some(peer)) => {
            answer_probe(xmpp, &peer, &from, to);
            None
        }
        (Some(false), _) => {
            refuse_probe(xmpp, &from, to);
            None
        }
        (_, _) => {
            let (xmpp, to) = (xmpp.clone(), to.clone());
            Some(Box::pin(async move {
                let (owner, whom) = (to.bare_str().to_owned(), from.bare_str().to_owned());
                match roster::subscriptions::shows(&xmpp, owner, whom).await {
                    true => {
                        let gone = Stanza::presence(Some("unavailable"));
                        xmpp.send(gone.from(to.bare()).to(from));
                    }
                    false => refuse_probe(&xmpp, &from, &to),
                }
            }))
        }
    }
}

fn refuse_probe(xmpp: &Xmpp, from: &Jid, to: &Jid) {
    let refusal = Stanza::presence(Some("unsubscribed")).from(to.bare()).to(from.bare());
    match xmpp.is_of_here(from.bare_str()) {
        // It changes nothing for the asker, who asked for what it was not given.
        true => {
            let resource = from.resource().unwrap_or_default();
            xmpp.router.deliver_bytes(from.bare_str(), resource, &refusal.bytes());
        }
        false => xmpp.send(refusal),
    }
}

fn answer_probe(xmpp: &Xmpp, peer: &Arc<Peer>, from: &Jid, to: &Jid) {
    let sessions: Vec<(Arc<Session>, Arc<[u8]>)> = {
        let here = peer.here();
        if here.as_ref().is_some_and(|here| here.blocks(from.as_str())) {
            return;
        }
        let present =
            |session: &Arc<Session>| Some((session.clone(), session.state().presence.clone()?));
        here.iter().flat_map(|here| &here.sessions).filter_map(present).collect()
    };
    if sessions.is_empty() {
        xmpp.send(Stanza::presence(Some("unavailable")).from(to.bare()).to(from.clone()));
    }
    for (session, tail) in sessions {
        if let Some(presence) = stanza_of(&session, &tail, from.as_str()) {
            xmpp.send(presence);
        }
    }
}

/// Presence for the domain itself: there is nothing to see.
pub(crate) fn to_host(xmpp: &Xmpp, presence: Stanza) -> Option<Work> {
    let (from, to) = (presence.from.clone()?, presence.to.clone()?);
    if presence.type_() == Some("subscribe") && matches!(xmpp.place(&from), Place::Elsewhere) {
        xmpp.send(Stanza::presence(Some("unsubscribed")).from(to.bare()).to(from.bare()));
    }
    None
}
