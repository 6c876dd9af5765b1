//! The archive of a room (XEP-0313 §5.2): for those who may enter it; of one with a password for
//! those who are in it, and its admins.

use std::sync::Arc;

use weir_community::Error;
use weir_community::chat::rooms::{self as noun, Affiliation};

use super::room::{Room, State};
use crate::face::Xmpp;
use crate::iq::mam::{self, Found, Kept};
use crate::wire::{Condition, Element, Jid, StanzaError};

/// The room's id, if `from` may read its archive.
fn readable(xmpp: &Xmpp, room: &Room, from: &Jid) -> Result<weir_base::Id, StanzaError> {
    let state = room.state();
    check(&state, from, state.nicks.contains_key(from), xmpp.domain())?;
    let none = || StanzaError::new(Condition::FeatureNotImplemented).text("nothing is kept here");
    state.id.filter(|_| state.config.archive).ok_or_else(none)
}

/// Whether `from`, who is in the room or not, may read what is said there.
pub(super) fn check(
    state: &State,
    from: &Jid,
    is_in: bool,
    domain: &str,
) -> Result<(), StanzaError> {
    let affiliation = state.affiliation(from.bare_str());
    let is_member =
        affiliation >= Affiliation::Member || state.of_community && from.domain() == domain;
    let may = match affiliation {
        Affiliation::Outcast => false,
        // To be a member is not to know the password.
        _ if !state.config.password.is_empty() => is_in || affiliation >= Affiliation::Admin,
        _ => !state.config.members_only || is_member || is_in,
    };
    if !may {
        let text = "only those who may enter the room may read what was said there";
        return Err(StanzaError::new(Condition::Forbidden).text(text));
    }
    Ok(())
}

/// `<query/>`
pub(super) async fn query(
    xmpp: &Xmpp,
    room: &Arc<Room>,
    payload: &Element,
    from: &Jid,
) -> Result<Element, StanzaError> {
    let id = readable(xmpp, room, from)?;
    let wanted = mam::read(payload)?;
    if wanted.query.with.is_some() {
        let text = "the archive of a room cannot be asked for one occupant";
        return Err(StanzaError::new(Condition::FeatureNotImplemented).text(text));
    }
    let asking = wanted.clone();
    let page = xmpp
        .read(move |tx, _| {
            if asking.ids.is_empty() {
                return noun::page(tx, id, &asking.query);
            }
            let messages = noun::by_ids(tx, id, &asking.ids)?;
            if messages.len() < asking.ids.len() {
                return Err(Error::NotFound("Message"));
            }
            let count = Some(messages.len());
            Ok(noun::RoomPage { messages, complete: true, count })
        })
        .await?;
    let kept = |message: noun::RoomMessage| Kept { id: message.id, xml: message.xml };
    let messages = page.messages.into_iter().map(kept).collect();
    let found = Found { messages, complete: page.complete, count: page.count };
    Ok(mam::tell(xmpp, &room.jid, from, &wanted, found))
}

/// `<metadata/>`
pub(super) async fn metadata(
    xmpp: &Xmpp,
    room: &Arc<Room>,
    from: &Jid,
) -> Result<Element, StanzaError> {
    let id = readable(xmpp, room, from)?;
    let ends = xmpp.read(move |tx, _| noun::ends(tx, id)).await?;
    Ok(mam::ends_told(ends))
}
