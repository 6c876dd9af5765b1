//! A face of chat for a test: bob is here, or not, and there is one room.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use weir_base::Id;
use weir_community::chat::carrier::{Carrier, ContactDeed, Outgoing, RoomView, Said};
use weir_community::chat::messages::{self, New, Side};
use weir_community::chat::subscription::Kind;
use weir_community::chat::{address, contacts};
use weir_community::streams::Event;
use weir_community::{Community, Error};
use weir_db::Class;

use crate::place::Place;

/// The room.
pub const TEA: &str = "tea@conference.weir.test";

/// What the test decides.
pub struct Stage {
    /// Whether bob is here.
    pub here: Arc<AtomicBool>,
    /// What everybody sees of the room; nothing where nobody may.
    pub room: Arc<Mutex<Option<RoomView>>>,
}

/// Chat is served from now on.
pub fn serve(place: &Place, bob: Id) -> Stage {
    let stage = Stage {
        here: Arc::new(AtomicBool::new(true)),
        room: Arc::new(Mutex::new(Some(RoomView::default()))),
    };
    let (sender, keeper) = (place.community.clone(), place.community.clone());
    let (env, here) = (place.community.env().clone(), stage.here.clone());
    let (shown, kept) = (stage.room.clone(), stage.room.clone());
    let closed = || Error::Forbidden("Only members may enter this room");
    let carrier = Carrier {
        send: Box::new(move |said| {
            let community = sender.clone();
            Box::pin(async move { Ok(keep(&community, said, Some(bob)).await) })
        }),
        is_here: Box::new(move |account| account == bob && here.load(Ordering::SeqCst)),
        say: Box::new(move |saying| {
            let id = env.ids.next();
            let (nick, text) = ("al".to_owned(), Some(saying.text));
            let said = Said { id, nick, is_own: true, text };
            let done = kept.lock().as_mut().map(|room| room.messages.push(said));
            env.streams.room_moved(&saying.room);
            Box::pin(async move { done.map(|()| id).ok_or_else(closed) })
        }),
        room: Box::new(move |wanted| {
            let room = shown.lock().clone().ok_or_else(closed);
            let room = if wanted.room == TEA { room } else { Err(Error::NotFound("Room")) };
            Box::pin(async move { room })
        }),
        contact: Box::new(move |account, jid, deed| {
            let community = keeper.clone();
            Box::pin(async move { act(&community, account, jid, deed).await })
        }),
    };
    assert!(place.community.env().chat.set(carrier).is_ok());
    stage
}

/// Keeps a message as the face of chat does.
async fn keep(community: &Community, said: Outgoing, to: Option<Id>) -> Id {
    let id = community.env().ids.next();
    let xml =
        format!("<message xmlns='jabber:client' type='chat'><body>{}</body></message>", said.text);
    let new = New {
        id,
        from: Side { account: Some(said.from), jid: said.from_jid },
        to: Side { account: to, jid: said.to_jid },
        xml,
        archive: true,
        waits: false,
    };
    let kept = community.write(Class::Interactive, move |tx, env| {
        messages::store(tx, std::slice::from_ref(&new))?;
        for account in [new.from.account, new.to.account].into_iter().flatten() {
            env.streams.tell_if_here(tx, account, Event::ChatChanged);
        }
        Ok(())
    });
    kept.await.unwrap();
    id
}

/// Changes contacts as the face of chat does.
async fn act(
    community: &Community,
    account: Id,
    jid: String,
    deed: ContactDeed,
) -> Result<(), Error> {
    let unit = community.write(Class::Interactive, move |tx, env| {
        let own = address::of_account(tx, env, account)?.unwrap_or_default();
        if own == jid {
            return Err(Error::invalid("jid", "ERR_INVALID", "is your own address"));
        }
        let kind = match &deed {
            ContactDeed::Add { name, groups } => {
                let (name, groups) = (name.clone(), groups.clone());
                let (name, groups) = (name.unwrap_or_default(), groups.unwrap_or_default());
                contacts::set(tx, env, account, &jid, &name, &groups)?;
                Kind::Subscribe
            }
            ContactDeed::Remove => {
                return contacts::remove(tx, env, account, &jid).map(|_| ());
            }
            ContactDeed::Approve => Kind::Subscribed,
            ContactDeed::Refuse => Kind::Unsubscribed,
        };
        contacts::exchange(tx, env, account, kind, &jid, "").map(|_| ())
    });
    unit.await
}
