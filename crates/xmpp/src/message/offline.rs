//! Messages that wait until somebody is there (XEP-0160), and on until a client has them: it says
//! so (XEP-0198), or they are written to one that says nothing.

use std::sync::Arc;

use weir_base::Id;
use weir_community::chat::messages::Message;
use weir_community::chat::offline::{self, Waiting};

use crate::face::{Work, Xmpp};
use crate::router::{Kept, Out, Peer, Session};
use crate::wire::{Element, Node, ns, parse, write};

/// Messages that were handed over to the resources of one account and are not let go yet.
const HANDED_MAX: usize = offline::READ_MAX;

/// Hands what waits for the account of `peer` to its resources, if somebody is there.
pub(crate) async fn hand_over(xmpp: Xmpp, peer: Arc<Peer>, account: Id) {
    let handed = match peer.here().as_ref() {
        Some(here) => here.handed.clone(),
        None => return,
    };
    let waiting = xmpp.read(move |tx, _| offline::waiting(tx, account, &handed)).await;
    if let Ok(waiting) = waiting {
        give(&xmpp, &peer, waiting);
    }
}

/// Hands these over, each once. They wait on until they are let go.
pub(crate) fn give(xmpp: &Xmpp, peer: &Arc<Peer>, waiting: Waiting) {
    let mut here = peer.here();
    let Some(there) = here.as_mut() else { return };
    let takers: Vec<Arc<Session>> =
        there.sessions.iter().filter(|one| one.priority() >= Some(0)).cloned().collect();
    if takers.is_empty() || waiting.messages.is_empty() {
        return;
    }
    there.has_more = waiting.has_more;
    for message in waiting.messages {
        if there.handed.contains(&message.id) {
            continue;
        }
        let Some(bytes) = delayed(xmpp, peer.jid(), &message) else {
            tracing::warn!(id = %message.id, "a message that waits cannot be read");
            continue;
        };
        if there.handed.len() >= HANDED_MAX {
            there.has_more = true;
            break;
        }
        // The rest comes when there is room again; what waits is nothing to end a session for.
        if !takers.iter().any(|taker| taker.state().has_room(bytes.len())) {
            there.has_more = true;
            break;
        }
        let give = |taker: &Arc<Session>| taker.push(Out::Waited(bytes.clone(), message.id));
        if takers.iter().filter(|taker| give(taker)).count() == 0 {
            break;
        }
        there.handed.push(message.id);
    }
}

/// What waited among `done` is there: the client has said so.
pub(crate) fn let_go(xmpp: &Xmpp, session: &Arc<Session>, done: &[Out]) {
    let_go_of(xmpp, session, done.iter().filter_map(Out::waited).collect());
}

/// The messages `ids` wait no longer; those behind them are handed over. Done beside the session,
/// which waits for it when it ends in good order: who comes back then does not get them again.
pub(crate) fn let_go_of(xmpp: &Xmpp, session: &Arc<Session>, ids: Vec<Id>) {
    if ids.is_empty() {
        return;
    }
    let mut state = session.state();
    let before = state.more().letting_go.take();
    let work = no_longer(xmpp.clone(), session.peer.clone(), session.account, ids);
    state.more().letting_go = xmpp.spawn(Some(Box::pin(async move {
        if let Some(before) = before {
            let _ = before.await;
        }
        work.await;
    })));
}

/// Ends when what `session` let go waits no longer.
pub(crate) async fn is_let_go(session: Arc<Session>) {
    let letting_go = session.state().more().letting_go.take();
    if let Some(letting_go) = letting_go {
        let _ = letting_go.await;
    }
}

async fn no_longer(xmpp: Xmpp, peer: Arc<Peer>, account: Id, ids: Vec<Id>) {
    let list = ids.clone();
    let done = xmpp.write(move |tx, _| offline::received(tx, account, &list)).await;
    if let Err(error) = done {
        // They come once more when somebody comes anew.
        tracing::warn!(?error, "messages that were handed over still wait");
        return;
    }
    let goes_on = match peer.here().as_mut() {
        Some(there) => {
            there.handed.retain(|id| !ids.contains(id));
            there.handed.is_empty() && std::mem::take(&mut there.has_more)
        }
        None => false,
    };
    if goes_on {
        hand_over(xmpp, peer, account).await;
    }
}

/// Hands over what found no room before, where nothing that is on its way is about to do so.
pub(crate) fn go_on(xmpp: &Xmpp, session: &Session) {
    let is_due = session
        .peer
        .here()
        .as_mut()
        .is_some_and(|there| there.handed.is_empty() && std::mem::take(&mut there.has_more));
    if is_due {
        let handing = hand_over(xmpp.clone(), session.peer.clone(), session.account);
        xmpp.spawn(Some(Box::pin(handing)));
    }
}

/// A session that is over did not get these, which wait on: another that is there gets them, unless
/// it has them already.
pub(crate) fn give_up(xmpp: &Xmpp, session: &Arc<Session>, ids: &[Id]) -> Option<Work> {
    if ids.is_empty() {
        return None;
    }
    let peer = session.peer.clone();
    {
        let mut here = peer.here();
        let there = here.as_mut()?;
        let others: Vec<Id> =
            there.sessions.iter().flat_map(|other| other.state().unread().1).collect();
        there.handed.retain(|id| !ids.contains(id) || others.contains(id));
    }
    Some(Box::pin(hand_over(xmpp.clone(), peer, session.account)))
}

/// The stored message as it is shown later: with when it was sent, and its id in the archive.
fn delayed(xmpp: &Xmpp, owner: &str, message: &Message) -> Option<Arc<[u8]>> {
    let mut element = parse::element(&message.xml).ok()?;
    let id = Element::new("stanza-id", ns::STANZA_ID)
        .with_attr("by", owner)
        .with_attr("id", message.id.to_string());
    let delay = Element::new("delay", ns::DELAY)
        .with_attr("from", xmpp.domain())
        .with_attr("stamp", message.id.time().to_string());
    element.nodes.extend([id, delay].map(Node::Element));
    let mut text = String::new();
    write::write(&element, ns::CLIENT, &mut text);
    Some(Arc::from(text.into_bytes()))
}

/// What a session that is over did not get waits for its account again, unless another of its
/// resources was given it too. Who came only later gets it now.
pub(crate) fn return_unread(
    xmpp: &Xmpp,
    session: &Arc<Session>,
    unread: Vec<Kept>,
) -> Option<Work> {
    let lost: Vec<Id> = {
        let here = session.peer.here();
        let others = || {
            let sessions = here.iter().flat_map(|here| &here.sessions);
            sessions.filter(|other| !Arc::ptr_eq(other, session))
        };
        let has = |message: &Kept| others().any(|other| other.state().was_given(*message));
        unread.iter().filter(|message| !has(message)).map(|message| message.id).collect()
    };
    if lost.is_empty() {
        return None;
    }
    let (xmpp, peer, account) = (xmpp.clone(), session.peer.clone(), session.account);
    Some(Box::pin(async move {
        let kept = xmpp.write(move |tx, _| offline::keep(tx, account, &lost).map(|_| ())).await;
        match kept {
            Ok(()) => {
                xmpp.pushes.wake_account(peer.jid());
                hand_over(xmpp, peer, account).await;
            }
            Err(error) => {
                tracing::warn!(?error, "messages that were not read are in the archive only");
            }
        }
    }))
}
