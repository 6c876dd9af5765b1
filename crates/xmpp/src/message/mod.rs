//! Messages (RFC 6121 sections 5 and 8.5).

pub mod carbons;
pub(crate) mod lane;
pub(crate) mod offline;
pub mod rules;

use std::sync::Arc;

use weir_base::Id;

use crate::face::{Work, Xmpp};
use crate::muc;
use crate::route::Place;
use crate::router::{self, Here, Out, Session};
use crate::wire::{Condition, Element, Jid, Kind, Node, Stanza, StanzaError, ns};
use carbons::Way;
use lane::Parcel;
use rules::{Action, Kept, Target, Type};

/// What became of a message before it is passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is durable.
    Kept {
        /// Its id.
        id: Id,
        /// It stands in the sender's archive.
        from: bool,
        /// It stands in the receiver's archive.
        to: bool,
        /// It waits for its receiver.
        waits: bool,
    },
    /// It is kept nowhere.
    Passed,
    /// Too many wait for its receiver.
    Full,
    /// It is for a resource that is not there, and for no other.
    Gone,
    /// There is no such account.
    Nobody,
    /// The receiver does not want to hear from the sender.
    Blocked,
}

/// Whether a stanza of `session` can follow others of it to the disk while those are on their way:
/// a message that takes its place in their lane.
pub(crate) fn goes_by_lane(xmpp: &Xmpp, session: &Session, stanza: &Stanza) -> bool {
    let to_people = |to: &Jid| {
        matches!(xmpp.place(to), Place::Account | Place::Elsewhere)
            && !session.peer.blocks(to.as_str())
    };
    stanza.kind == Kind::Message && stanza.to.as_ref().is_none_or(to_people)
}

/// Answers a session behind its messages that are on their way to the disk.
pub(crate) fn answer_in_order(xmpp: &Xmpp, session: &Arc<Session>, answer: Stanza) {
    if session.in_flight() == 0 {
        session.send(&answer);
        return;
    }
    let session = Some(session.clone());
    xmpp.lanes.put(Parcel { session, ..Parcel::new(answer, Kept::Not) });
}

/// A session sends a message.
pub(crate) fn sent(xmpp: &Xmpp, session: &Arc<Session>, mut message: Stanza) -> Option<Work> {
    metrics::counter!("weir_xmpp_messages_total").increment(1);
    // Without an address it is for oneself (RFC 6120 section 10.3.1).
    let to = message.to.get_or_insert_with(|| session.jid().bare()).clone();
    strip_foreign_ids(xmpp, &mut message);
    if session.peer.blocks(to.as_str()) {
        let blocked = Element::new("blocked", "urn:xmpp:blocking:errors");
        let text = "you have blocked this contact: unblock it first";
        let error = StanzaError::new(Condition::NotAcceptable).text(text).specific(blocked);
        // Not by its way: nothing from there is heard.
        if !message.is_answer() {
            session.send(&message.error(&error));
        }
        return None;
    }
    let kept = match xmpp.place(&to) {
        Place::Service(service) if service.label == muc::LABEL && to.resource().is_some() => {
            return Some(Box::pin(to_occupant(xmpp.clone(), session.clone(), message)));
        }
        Place::Host | Place::Service(_) => return xmpp.route(message),
        Place::Account | Place::Elsewhere => rules::kept(&message),
    };
    if kept == Kept::Not && session.in_flight() == 0 {
        return complete(xmpp, Some(session), &message, &[], (kept, Fate::Passed));
    }
    let session = Some(session.clone());
    xmpp.lanes.put(Parcel { session, ..Parcel::new(message, kept) });
    None
}

/// A session writes to somebody in a room of here (XEP-0045 section 7.5): the room passes it on,
/// and what becomes of it there is another message. The session waits for it.
async fn to_occupant(xmpp: Xmpp, session: Arc<Session>, message: Stanza) {
    let kept = rules::kept(&message);
    let fate = match kept {
        Kept::Archived => {
            let parcel = Parcel { session: Some(session.clone()), ..Parcel::new(message, kept) };
            let fate = lane::keep_one(&xmpp, &parcel).await;
            (fate, parcel.message)
        }
        Kept::Waiting | Kept::Not => (Ok(Fate::Passed), message),
    };
    let work = match fate {
        (Ok(fate), message) => {
            copy_sent(&session, &message, fate);
            xmpp.route(message)
        }
        (Err(error), message) => xmpp.bounce(&message, &error),
    };
    if let Some(work) = work {
        work.await;
    }
}

/// A message for an account of here has come, from another server, a service or the server itself.
pub(crate) fn arrived(xmpp: &Xmpp, message: Stanza) -> Option<Work> {
    arrived_at(xmpp, message, Vec::new())
}

/// The same, for other full addresses of the account as well.
pub(crate) fn arrived_at(xmpp: &Xmpp, mut message: Stanza, also: Vec<Jid>) -> Option<Work> {
    strip_foreign_ids(xmpp, &mut message);
    let kept = rules::kept(&message);
    if kept == Kept::Not {
        return complete(xmpp, None, &message, &also, (kept, Fate::Passed));
    }
    xmpp.lanes.put(Parcel { also, ..Parcel::new(message, kept) });
    None
}

/// A message for the domain itself: nobody reads those.
pub(crate) fn to_host(xmpp: &Xmpp, message: Stanza) -> Option<Work> {
    let text = "nobody reads messages here: write to a person";
    xmpp.bounce(&message, &StanzaError::new(Condition::ServiceUnavailable).text(text))
}

/// Ids that only this server gives out are not believed from others (XEP-0359 section 5).
fn strip_foreign_ids(xmpp: &Xmpp, message: &mut Stanza) {
    let to = message.to.as_ref().map(|to| to.bare_str().to_owned()).unwrap_or_default();
    let own = |child: &Element| {
        let by = child.attr("by").unwrap_or_default();
        let by = by.split_once('/').map_or(by, |(bare, _)| bare);
        let domain = by.rsplit_once('@').map_or(by, |(_, domain)| domain);
        domain == xmpp.domain() || by == to
    };
    message.element.remove_children(|child| child.is("stanza-id", ns::STANZA_ID) && own(child));
}

/// What is at the address `to` of somebody, with what of them is here.
pub(crate) fn target(here: Option<&Here>, to: &Jid) -> Target {
    let sessions = || here.iter().flat_map(|here| &here.sessions);
    let anybody = || sessions().any(|session| session.priority() >= Some(0));
    match to.resource() {
        None => Target::Bare { anybody: anybody() },
        Some(resource) => match sessions().any(|session| session.resource() == resource) {
            true => Target::Full,
            false => Target::FullGone { anybody: anybody() },
        },
    }
}

/// Passes a message on, once it is as durable as it has to be; to the other full addresses `also`
/// of the same account too.
pub(crate) fn complete(
    xmpp: &Xmpp,
    session: Option<&Arc<Session>>,
    message: &Stanza,
    also: &[Jid],
    (kept, fate): (Kept, Fate),
) -> Option<Work> {
    let unavailable = StanzaError::new(Condition::ServiceUnavailable);
    match fate {
        // As where it does not wait for the disk behind others.
        Fate::Nobody if Type::of(message) == Type::Headline => return None,
        Fate::Nobody => {
            let text = "there is no such account here";
            return xmpp.bounce(message, &unavailable.text(text));
        }
        Fate::Gone => return xmpp.bounce(message, &unavailable.text("nobody is there")),
        Fate::Blocked => return xmpp.bounce(message, &unavailable),
        Fate::Full => {
            let text = "too many messages wait for this account";
            let full = StanzaError::new(Condition::ResourceConstraint).text(text);
            return xmpp.bounce(message, &full);
        }
        Fate::Kept { .. } | Fate::Passed => {}
    }
    if let Some(session) = session {
        copy_sent(session, message, fate);
    }
    let to = message.to.as_ref()?;
    match xmpp.place(to) {
        Place::Account => deliver(xmpp, message, (to, also), (kept, fate)),
        _ => xmpp.route(message.clone()),
    }
}

/// The sender's other resources learn what it said.
fn copy_sent(session: &Arc<Session>, message: &Stanza, fate: Fate) {
    let here = session.peer.here();
    let Some(there) = here.as_ref().filter(|there| there.sessions.len() > 1) else { return };
    // Who writes to oneself gets the message itself.
    if message.to.as_ref().is_some_and(|to| to.bare_str() == session.bare()) {
        return;
    }
    let mut text = message.to_element();
    if let Fate::Kept { id, from: true, .. } = fate {
        text.nodes.push(Node::Element(stanza_id(session.bare(), id)));
    }
    carbons::copy(there, message, &text, Way::Sent, |one| Arc::ptr_eq(one, session));
}

/// The sessions of somebody who wrote outside of chat learn what was written.
pub(crate) fn copy_written(xmpp: &Xmpp, message: &Stanza, fate: Fate) {
    let Fate::Kept { id, from: archived, .. } = fate else { return };
    let Some(from) = &message.from else { return };
    let Some(peer) = xmpp.router.find(from.bare_str()) else { return };
    let here = peer.here();
    let Some(there) = here.as_ref() else { return };
    let mut text = message.to_element();
    if archived {
        text.nodes.push(Node::Element(stanza_id(from.bare_str(), id)));
    }
    carbons::copy(there, message, &text, Way::Sent, |_| false);
}

fn stanza_id(by: &str, id: Id) -> Element {
    Element::new("stanza-id", ns::STANZA_ID).with_attr("by", by).with_attr("id", id.to_string())
}

/// To an account of here, by the rules of RFC 6121 section 8.5.
fn deliver(
    xmpp: &Xmpp,
    message: &Stanza,
    (to, also): (&Jid, &[Jid]),
    (kept, fate): (Kept, Fate),
) -> Option<Work> {
    let kind = Type::of(message);
    let refused = || StanzaError::new(Condition::ServiceUnavailable).text("nobody is there");
    let peer = xmpp.router.find(to.bare_str());
    let here = peer.as_ref().map(|peer| peer.here());
    let there = here.as_ref().and_then(|here| here.as_deref());
    let action = rules::action(kind, target(there, to));
    if let (Action::Wait, Fate::Kept { id, waits, .. }) = (action, fate) {
        // Whoever was there while it was stored may have left since.
        let account = there.map(|there| there.account);
        drop(here);
        return if waits { None } else { wait_again(xmpp, to, account, id) };
    }
    let Some(there) = there else {
        drop(here);
        return match action {
            Action::Wait | Action::Refuse if kept == Kept::Not && kind != Type::Groupchat => None,
            Action::Wait | Action::Refuse => xmpp.bounce(message, &refused()),
            _ => None,
        };
    };
    if let Some(from) = &message.from
        && there.blocks(from.as_str())
    {
        drop(here);
        return xmpp.bounce(message, &refused());
    }
    if let Fate::Kept { waits: true, .. } = fate {
        // Somebody came while it was stored, or will take a session up: it is taken from where it
        // waits, so that it comes once, whoever takes it.
        let account = there.account;
        drop(here);
        let peer = peer?;
        return Some(Box::pin(offline::hand_over(xmpp.clone(), peer, account)));
    }
    match action {
        Action::Drop => return None,
        Action::Wait => return None,
        Action::Refuse => {
            drop(here);
            return xmpp.bounce(message, &refused());
        }
        Action::All | Action::One => {}
    }
    let gets = |session: &Arc<Session>| match action {
        Action::One => Some(session.resource()) == to.resource(),
        _ => session.priority() >= Some(0),
    };
    let out = outgoing(message, to, fate, action == Action::One);
    let (mut taken, mut is_asleep) = (false, false);
    for session in there.sessions.iter().filter(|session| gets(session)) {
        taken |= session.push(out.clone());
        is_asleep |= matches!(out, Out::Message(..)) && session.state().is_detached;
    }
    for jid in also.iter().filter(|_| action == Action::One) {
        let is = |session: &&Arc<Session>| Some(session.resource()) == jid.resource();
        if let Some(session) = there.sessions.iter().find(is) {
            taken |= session.push(outgoing(&message.clone().to(jid.clone()), jid, fate, true));
        }
    }
    if is_asleep {
        xmpp.pushes.wake(message);
    }
    if there.sessions.len() > 1 {
        let mut text = message.to_element();
        if let Fate::Kept { id, to: true, .. } = fate {
            text.nodes.push(Node::Element(stanza_id(to.bare_str(), id)));
        }
        carbons::copy(there, message, &text, Way::Received, gets);
    }
    match fate {
        // Those who read too slowly get it when they come back.
        Fate::Kept { id, .. } if !taken => {
            let account = there.account;
            drop(here);
            wait_again(xmpp, to, Some(account), id)
        }
        _ => None,
    }
}

/// The message as its receivers get it: encoded once.
fn outgoing(message: &Stanza, to: &Jid, fate: Fate, is_for_one: bool) -> Out {
    let mut text = message.text();
    let Fate::Kept { id, to: archived, .. } = fate else {
        let bytes = Arc::from(text.into_bytes());
        return match rules::is_passing(message) {
            true => Out::Passing(bytes),
            false => Out::Bytes(bytes),
        };
    };
    const END: &str = "</message>";
    if archived && text.ends_with(END) {
        text.truncate(text.len() - END.len());
        crate::wire::write::write(&stanza_id(to.bare_str(), id), ns::CLIENT, &mut text);
        text.push_str(END);
    }
    let is_copied = rules::is_copied(message, Way::Received);
    let kept = router::Kept { id, is_for_one, is_copied };
    Out::Message(Arc::from(text.into_bytes()), kept)
}

/// It was stored for somebody who was there, and nobody is now: it waits.
fn wait_again(xmpp: &Xmpp, to: &Jid, account: Option<Id>, id: Id) -> Option<Work> {
    use weir_community::chat::address::{self, Whom};
    let (xmpp, to) = (xmpp.clone(), to.clone());
    Some(Box::pin(async move {
        let bare = to.bare_str().to_owned();
        let kept = xmpp.write(move |tx, env| {
            let account = match account {
                Some(account) => account,
                None => match address::whom(tx, env, &bare)? {
                    Whom::Here(account) => account,
                    _ => return Ok(None),
                },
            };
            weir_community::chat::offline::keep(tx, account, &[id])?;
            Ok(Some(account))
        });
        let Ok(Some(account)) = kept.await else { return };
        xmpp.pushes.wake_account(to.bare_str());
        if let Some(peer) = xmpp.router.find(to.bare_str()) {
            offline::hand_over(xmpp, peer, account).await;
        }
    }))
}
