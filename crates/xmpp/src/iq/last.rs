//! For how long (XEP-0012): how long the server has been up, and who is here just now. When
//! somebody left is not kept.

use super::{Answer, Asked};
use crate::wire::{Condition, Element, StanzaError, ns};

/// `<query xmlns='jabber:iq:last'/>`
pub async fn last(asked: Asked) -> Answer {
    let seconds = match asked.to.as_ref().filter(|to| to.local().is_some()) {
        None if asked.to.is_some() => {
            let up_ms = asked.xmpp.env().clock.now().as_ms() - asked.xmpp.started_at().as_ms();
            up_ms.max(0) / 1_000
        }
        _ => {
            let owner = asked.owner();
            let may =
                asked.is_own() || asked.xmpp.shows_presence(owner.as_str(), asked.from.bare_str());
            let peer = asked.xmpp.router.find(owner.as_str()).filter(|_| may);
            let is_here = peer.is_some_and(|peer| {
                peer.here().as_ref().is_some_and(|here| here.available().next().is_some())
            });
            if !is_here {
                let text = "whether they are here is not told";
                return Err(StanzaError::new(Condition::Forbidden).text(text));
            }
            0
        }
    };
    Ok(Some(Element::new("query", ns::LAST).with_attr("seconds", seconds.to_string())))
}
