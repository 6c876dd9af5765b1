//! Chat for the other faces: messages that people write outside of it, and who is here.

use tokio::sync::oneshot;
use weir_community::Error;
use weir_community::chat::carrier::{Carrier, Outgoing};

use crate::face::Xmpp;
use crate::message::Fate;
use crate::message::lane::{Author, Parcel};
use crate::message::rules::Kept;
use crate::wire::{Element, Jid, Kind, Stanza, ns};

/// Lets the other faces of this process use chat, as long as it is there.
pub(crate) fn offer(xmpp: &Xmpp) {
    let (sender, looker) = (xmpp.downgrade(), xmpp.downgrade());
    let carrier = Carrier {
        send: Box::new(move |message| {
            let xmpp = Xmpp::upgrade(&sender);
            Box::pin(async move {
                let xmpp = xmpp.ok_or_else(|| Error::Upstream("chat has ended".into()))?;
                send(&xmpp, message).await
            })
        }),
        is_here: Box::new(move |account| {
            let peer = Xmpp::upgrade(&looker).and_then(|xmpp| xmpp.router.of_account(account));
            peer.is_some_and(|peer| {
                peer.here().as_ref().is_some_and(|here| here.available().next().is_some())
            })
        }),
    };
    // A second face on the same community is one of a test.
    let _ = xmpp.env().chat.set(carrier);
}

async fn send(xmpp: &Xmpp, wanted: Outgoing) -> Result<weir_base::Id, Error> {
    let address = |jid: &str| {
        let wrong = || Error::invalid("to", "ERR_INVALID", "is not an address");
        Jid::parse(jid).map_err(|_| wrong())
    };
    let mut message = Stanza::new(Kind::Message)
        .from(address(&wanted.from_jid)?.bare())
        .to(address(&wanted.to_jid)?);
    message.element.set_attr("type", "chat");
    message.element.set_attr("id", xmpp.token(8));
    let body = Element::new("body", ns::CLIENT).with_text(wanted.text);
    message.element = message.element.with_child(body);
    let (told, fate) = oneshot::channel();
    let author = Some(Author { account: wanted.from, told });
    xmpp.lanes.put(Parcel { author, ..Parcel::new(message, Kept::Archived) });
    match fate.await {
        Ok(Ok(Fate::Kept { id, .. })) => Ok(id),
        Ok(Ok(Fate::Nobody | Fate::Gone)) => Err(Error::NotFound("Account")),
        Ok(Ok(Fate::Full)) => {
            Err(Error::Conflict("too many messages wait for this account".into()))
        }
        Ok(Ok(Fate::Blocked)) => Err(Error::Forbidden("They do not want to hear from you")),
        Ok(Ok(Fate::Passed)) => Err(Error::Conflict("neither side keeps messages".into())),
        Ok(Err(_)) | Err(_) => Err(Error::Upstream("the message was not taken".into())),
    }
}
