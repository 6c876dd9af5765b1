//! Messages that wait until somebody is there (XEP-0160).

use std::sync::Arc;

use weir_base::Id;
use weir_community::chat::messages::Message;
use weir_community::chat::offline;

use crate::face::{Work, Xmpp};
use crate::router::{Out, Peer, Session};
use crate::wire::{Element, Node, ns, parse, write};

/// Hands what waits for the account of `peer` to its resources, if somebody is there.
pub(crate) async fn hand_over(xmpp: Xmpp, peer: Arc<Peer>, account: Id) {
    let waiting = xmpp.read(move |tx, _| offline::waiting(tx, account)).await;
    let Ok(waiting) = waiting else { return };
    if waiting.is_empty() {
        return;
    }
    give(&xmpp, &peer, waiting).await;
}

/// Hands these over, each once, and then lets them go.
pub(crate) async fn give(xmpp: &Xmpp, peer: &Arc<Peer>, waiting: Vec<Message>) {
    let (account, given) = {
        let mut here = peer.here();
        let Some(there) = here.as_mut() else { return };
        let takers: Vec<Arc<Session>> =
            there.sessions.iter().filter(|one| one.priority() >= Some(0)).cloned().collect();
        if takers.is_empty() {
            return;
        }
        let mut given = Vec::new();
        for message in waiting {
            if there.handed.contains(&message.id) {
                continue;
            }
            if let Some(bytes) = delayed(xmpp, peer.jid(), &message) {
                let give =
                    |taker: &Arc<Session>| taker.push(Out::Message(bytes.clone(), message.id));
                // Who has no room now gets the rest when it comes again.
                if takers.iter().filter(|taker| give(taker)).count() == 0 {
                    break;
                }
            }
            there.handed.push(message.id);
            given.push(message.id);
        }
        (there.account, given)
    };
    let ids = given.clone();
    let done = xmpp.write(move |tx, _| offline::received(tx, account, &ids)).await;
    if done.is_ok()
        && let Some(there) = peer.here().as_mut()
    {
        there.handed.retain(|id| !given.contains(id));
    }
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
/// resources got it.
pub(crate) fn return_unread(xmpp: &Xmpp, session: &Arc<Session>, ids: Vec<Id>) -> Option<Work> {
    let somebody = {
        let here = session.peer.here();
        here.as_ref().is_some_and(|here| here.sessions.iter().any(|one| one.priority() >= Some(0)))
    };
    if ids.is_empty() || somebody {
        return None;
    }
    let (xmpp, account) = (xmpp.clone(), session.account);
    let bare = session.bare().to_owned();
    Some(Box::pin(async move {
        let kept = xmpp.write(move |tx, _| offline::keep(tx, account, &ids).map(|_| ())).await;
        match kept {
            Ok(()) => xmpp.pushes.wake_account(&bare),
            Err(error) => {
                tracing::warn!(?error, "messages that were not read are in the archive only");
            }
        }
    }))
}
