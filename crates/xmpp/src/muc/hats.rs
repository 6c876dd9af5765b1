//! Hats (XEP-0317): in rooms of the community its staff is known as such, whatever its nick.

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
