//! Chat for the other faces: what people write and do outside of it, what rooms are like, and who
//! is here.

use tokio::sync::oneshot;
use weir_base::Id;
use weir_community::Error;
use weir_community::chat::carrier::{Carrier, ContactDeed, Outgoing};
use weir_community::chat::{address, blocks};
use weir_db::Class;

use crate::face::Xmpp;
use crate::message::Fate;
use crate::message::lane::{Author, Parcel};
use crate::message::rules::Kept;
use crate::muc::guest;
use crate::roster::outside;
use crate::wire::{Element, Jid, Kind, Stanza, ns};

/// Lets the other faces of this process use chat, as long as it is there.
pub(crate) fn offer(xmpp: &Xmpp) {
    let (sender, looker) = (xmpp.downgrade(), xmpp.downgrade());
    let (speaker, viewer, keeper) = (xmpp.downgrade(), xmpp.downgrade(), xmpp.downgrade());
    let carrier = Carrier {
        send: Box::new(move |message| {
            let xmpp = Xmpp::upgrade(&sender);
            Box::pin(async move { send(&there(xmpp)?, message).await })
        }),
        is_here: Box::new(move |account| {
            let peer = Xmpp::upgrade(&looker).and_then(|xmpp| xmpp.router.of_account(account));
            peer.is_some_and(|peer| {
                peer.here().as_ref().is_some_and(|here| here.available().next().is_some())
            })
        }),
        say: Box::new(move |said| {
            let xmpp = Xmpp::upgrade(&speaker);
            Box::pin(async move {
                let xmpp = there(xmpp)?;
                let own = unblocked(&xmpp, said.by, &said.room).await?;
                guest::say(&xmpp, &own, &said.room, said.text).await
            })
        }),
        room: Box::new(move |wanted| {
            let xmpp = Xmpp::upgrade(&viewer);
            Box::pin(async move {
                let xmpp = there(xmpp)?;
                guest::view(&xmpp, &own(&xmpp, wanted.reader).await?, &wanted).await
            })
        }),
        contact: Box::new(move |account, jid, deed| {
            let xmpp = Xmpp::upgrade(&keeper);
            Box::pin(async move {
                let xmpp = there(xmpp)?;
                let own = match deed {
                    // Who is blocked is taken off like anybody.
                    ContactDeed::Remove => own(&xmpp, account).await?,
                    _ => unblocked(&xmpp, account, &jid).await?,
                };
                outside::act(&xmpp, (account, &own), &jid, deed).await
            })
        }),
    };
    // A second face on the same community is one of a test.
    let _ = xmpp.env().chat.set(carrier);
}

fn there(xmpp: Option<Xmpp>) -> Result<Xmpp, Error> {
    xmpp.ok_or_else(|| Error::Upstream("chat has ended".into()))
}

/// The address of `account`.
async fn own(xmpp: &Xmpp, account: Id) -> Result<Jid, Error> {
    let read = xmpp.community.read(Class::Interactive, move |tx, env| {
        address::of_account(tx, env, account)?.ok_or(Error::NotFound("Account"))
    });
    Jid::parse(&read.await?).map_err(|_| Error::NotFound("Account"))
}

/// The address of `account`, unless it has blocked who is at `whom`.
async fn unblocked(xmpp: &Xmpp, account: Id, whom: &str) -> Result<Jid, Error> {
    if let Ok(whom) = Jid::parse(whom) {
        let whom = whom.bare().to_string();
        let read = xmpp
            .community
            .read(Class::Interactive, move |tx, env| blocks::blocks(tx, env, account, &whom));
        if read.await? {
            return Err(Error::Forbidden("You have blocked them: unblock them first"));
        }
    }
    own(xmpp, account).await
}

async fn send(xmpp: &Xmpp, wanted: Outgoing) -> Result<Id, Error> {
    let parsed = |jid: &str| {
        let wrong = || Error::invalid("to", "ERR_INVALID", "is not an address");
        Jid::parse(jid).map_err(|_| wrong())
    };
    let mut message = Stanza::new(Kind::Message)
        .from(parsed(&wanted.from_jid)?.bare())
        .to(parsed(&wanted.to_jid)?);
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
