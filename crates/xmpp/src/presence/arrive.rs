//! Somebody comes: contacts are read, those who may know are told, and what waited is handed over.

use std::sync::Arc;

use super::{broadcast, probe, show, sign, tail_of};
use crate::face::Xmpp;
use crate::message::offline;
use crate::pubsub::interest::presence_changed;
use crate::roster;
use crate::router::{Out, Session};
use crate::wire::{Stanza, ns, parse, write};

/// The first presence of a session (RFC 6121 section 4.2).
pub(crate) async fn arrive(xmpp: Xmpp, session: Arc<Session>, mut presence: Stanza, priority: i8) {
    let permit = roster::load::arrive(&xmpp).await;
    let loaded = match &permit {
        Ok(_) => roster::load::ensure(&xmpp, &session).await,
        Err(busy) => Err(busy.clone()),
    };
    if let Err(error) = loaded {
        session.send(&presence.error(&error));
        return;
    }
    sign(&session, &mut presence.element);
    let told = tail_of(&presence.element, true);
    let is_new = !session.is_available();
    show(&xmpp, &session, &presence.element, priority);
    presence_changed(&xmpp, &session, &presence.element, is_new);
    broadcast(&xmpp, &session, &told);
    probe(&xmpp, &session);
    // Only now: what is stored for the person from here on finds somebody who is there.
    let waiting = match roster::load::waiting(&xmpp, session.account).await {
        Ok(waiting) => waiting,
        Err(error) => {
            tracing::warn!(?error, "what waits for somebody who came could not be read");
            return;
        }
    };
    drop(permit);
    for (jid, request) in waiting.requests {
        if let Some(bytes) = request_bytes(&session, &jid, &request) {
            session.push(Out::Bytes(bytes));
        }
    }
    if priority >= 0 {
        offline::give(&xmpp, &session.peer, waiting.messages);
    }
}

/// A request that waits for an answer, as it came or as little as it says.
fn request_bytes(session: &Session, jid: &str, request: &str) -> Option<Arc<[u8]>> {
    let kept = parse::element(request).ok();
    if let Some(kept) = kept.filter(|kept| kept.is("presence", ns::CLIENT)) {
        let mut text = String::new();
        write::write(&kept, ns::CLIENT, &mut text);
        return Some(Arc::from(text.into_bytes()));
    }
    let from = crate::wire::Jid::parse(jid).ok()?;
    let asks = Stanza::presence(Some("subscribe")).from(from).to(session.jid().bare());
    Some(asks.bytes())
}
