//! Hats (XEP-0317): in rooms of the community its staff is known as such, whatever its nick.

use std::collections::BTreeSet;
use std::sync::Arc;

use weir_community::users::{self, Role};

use super::room::Room;
use crate::face::Xmpp;
use crate::wire::{Element, Jid, ns};

/// What somebody of the staff wears; nobody else wears anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hat {
    Moderator,
    Admin,
}

impl Hat {
    /// The hat of `who` in `room`, as the account has it now.
    pub(super) async fn of(xmpp: &Xmpp, room: &Room, who: &Jid) -> Option<Self> {
        if who.domain() != xmpp.domain() || !room.state().of_community {
            return None;
        }
        let account = xmpp.router.find(who.bare_str())?.account()?;
        let role = xmpp.read(move |tx, _| Ok(users::by_account(tx, account)?.role)).await;
        // Who cannot be found out goes without.
        match Role::parse(&role.ok()?)? {
            Role::User => None,
            Role::Moderator => Some(Self::Moderator),
            Role::Admin => Some(Self::Admin),
        }
    }

    /// `<hats/>`
    pub(super) fn element(self) -> Element {
        let (title, uri) = match self {
            Self::Moderator => ("Moderator", "urn:weir:hats:moderator"),
            Self::Admin => ("Admin", "urn:weir:hats:admin"),
        };
        let hat = Element::new("hat", ns::HATS).with_attr("title", title).with_attr("uri", uri);
        Element::new("hats", ns::HATS).with_child(hat)
    }
}

/// Who is at `bare` may be of the staff, or be it no longer: the rooms where they are see it.
pub(crate) async fn renew(xmpp: &Xmpp, bare: &Jid) {
    for room in xmpp.rooms.of(xmpp, bare.as_str()) {
        put_on(xmpp, &room, bare).await;
    }
}

/// The room at the address `jid` belongs to the community from now on, or does no longer.
pub(crate) async fn set_of_community(xmpp: &Xmpp, jid: &str, on: bool) {
    let Some(room) = Jid::parse(jid).ok().and_then(|jid| xmpp.rooms.live(&jid)) else {
        // Nobody is in it, but somebody may look at it.
        return xmpp.env().streams.room_moved(jid);
    };
    let people: BTreeSet<Jid> = {
        let mut state = room.state();
        state.of_community = on;
        let all = state.occupants.values().filter_map(|one| one.jids.first());
        all.filter(|jid| jid.domain() == xmpp.domain()).map(Jid::bare).collect()
    };
    room.moved(xmpp);
    for bare in people {
        put_on(xmpp, &room, &bare).await;
    }
}

/// Has who is at `bare` wear what they are now in `room`, and tells all there.
async fn put_on(xmpp: &Xmpp, room: &Arc<Room>, bare: &Jid) {
    let hat = Hat::of(xmpp, room, bare).await;
    room.renew(xmpp, bare.as_str(), |occupant| std::mem::replace(&mut occupant.hat, hat) != hat);
}
