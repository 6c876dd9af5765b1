//! Rooms (XEP-0045) at `conference.` below the domain, with their archives (XEP-0313), stable ids
//! (XEP-0359), self-pings (XEP-0410), occupant ids (XEP-0421) and moderation (XEP-0425).
//!
//! Who is in a room is known in memory; what outlives that is in the database. A message is kept
//! first, together with all that wait in its room at that moment, and encoded once for everybody.

mod admin;
mod appoint;
mod archive;
mod budget;
mod card;
mod config;
mod disco;
mod enter;
pub(crate) mod guest;
pub(crate) mod hats;
mod history;
mod moderate;
mod owner;
mod parcel;
mod private;
mod register;
mod returned;
mod room;
mod rooms;
mod say;
mod subject;

use crate::face::{Work, Xmpp};
use crate::wire::{Condition, Element, Jid, Kind, Stanza, StanzaError, ns};

pub(crate) use rooms::Rooms;

/// What stands before the domain in the address of the service.
pub const LABEL: &str = "conference";

/// Takes a stanza for the service.
pub fn receive(xmpp: Xmpp, stanza: Stanza) -> Work {
    Box::pin(async move {
        let (Some(from), Some(to)) = (stanza.from.clone(), stanza.to.clone()) else { return };
        let done = match (stanza.kind, to.local()) {
            (Kind::Iq, None) => service_query(&xmpp, &stanza).await,
            (_, None) => Err(StanzaError::new(Condition::ServiceUnavailable)
                .text("write to a room: name@conference.domain")),
            (Kind::Presence, _) => enter::presence(&xmpp, &stanza, &from, &to).await.map(|()| None),
            (Kind::Message, _) => message(&xmpp, &stanza, &from, &to).await.map(|()| None),
            (Kind::Iq, _) => query(&xmpp, &stanza, &from, &to).await,
        };
        let is_request = stanza.kind == Kind::Iq && !stanza.is_answer();
        match done {
            Ok(Some(payload)) if is_request => xmpp.send(stanza.result(Some(payload))),
            Ok(_) => {}
            Err(error) if stanza.is_answer() => drop(error),
            // A refused presence is told too: it is how one learns why one is not in the room.
            Err(error) => xmpp.send(stanza.error(&error)),
        }
    })
}

/// What a query is answered with; the empty element stands for an empty result.
type Answered = Result<Option<Element>, StanzaError>;

/// An empty result.
fn done(xmpp: &Xmpp, stanza: &Stanza) -> Answered {
    xmpp.send(stanza.result(None));
    Ok(None)
}

fn bad(text: &str) -> StanzaError {
    StanzaError::new(Condition::BadRequest).text(text)
}

fn missing() -> StanzaError {
    StanzaError::new(Condition::ItemNotFound).text("there is no such room")
}

fn outside() -> StanzaError {
    StanzaError::new(Condition::NotAcceptable).text("enter the room first")
}

async fn service_query(xmpp: &Xmpp, stanza: &Stanza) -> Answered {
    if stanza.is_answer() {
        return Ok(None);
    }
    let payload = stanza.element.children().next().ok_or_else(|| bad("a query is empty"))?;
    match &*payload.ns {
        ns::DISCO_INFO => disco::of_service(payload).map(Some),
        ns::DISCO_ITEMS => disco::rooms(xmpp, payload).await.map(Some),
        ns::PING => done(xmpp, stanza),
        _ => Err(StanzaError::new(Condition::ServiceUnavailable)),
    }
}

async fn query(xmpp: &Xmpp, stanza: &Stanza, from: &Jid, to: &Jid) -> Answered {
    let found = xmpp.rooms.find(xmpp, to).await?;
    if to.resource().is_some() {
        let room = found.ok_or_else(missing)?;
        return private::query(xmpp, &room, stanza, from, to);
    }
    if stanza.is_answer() {
        return Ok(None);
    }
    let set = stanza.type_() == Some("set");
    let payload = stanza.element.children().next().ok_or_else(|| bad("a query is empty"))?;
    let room = found.ok_or_else(missing)?;
    match (&*payload.ns, &*payload.name) {
        (ns::DISCO_INFO, _) => disco::of_room(&room, payload, from).map(Some),
        (ns::DISCO_ITEMS, _) => disco::occupants(&room, from).map(Some),
        (ns::PING, _) => done(xmpp, stanza),
        (ns::MUC_ADMIN, "query") if set => {
            admin::change(xmpp, &room, payload, from).await?;
            done(xmpp, stanza)
        }
        (ns::MUC_ADMIN, "query") => admin::list(&room, payload, from).map(Some),
        (ns::MUC_OWNER, "query") if set => {
            owner::change(xmpp, &room, payload, from).await?;
            done(xmpp, stanza)
        }
        (ns::MUC_OWNER, "query") => owner::form(&room, from).map(Some),
        (ns::MAM, "query") if !set => Ok(Some(crate::iq::mam::form("with"))),
        (ns::MAM, "query") => archive::query(xmpp, &room, payload, from).await.map(Some),
        (ns::MAM, "metadata") => archive::metadata(xmpp, &room, from).await.map(Some),
        (ns::MODERATE, "moderate") if set => {
            moderate::moderate(xmpp, &room, payload, from).await?;
            done(xmpp, stanza)
        }
        (ns::REGISTER, "query") if set => {
            register::change(xmpp, &room, payload, from).await?;
            done(xmpp, stanza)
        }
        (ns::REGISTER, "query") => register::form(&room, from).map(Some),
        (ns::VCARD, "vCard") if set => {
            card::change(xmpp, &room, payload, from).await?;
            done(xmpp, stanza)
        }
        (ns::VCARD, "vCard") => card::shown(xmpp, &room, from).await.map(Some),
        _ => Err(StanzaError::new(Condition::ServiceUnavailable)),
    }
}

async fn message(xmpp: &Xmpp, stanza: &Stanza, from: &Jid, to: &Jid) -> Result<(), StanzaError> {
    let room = match xmpp.rooms.find(xmpp, to).await? {
        Some(room) => room,
        None if stanza.type_() == Some("error") => return Ok(()),
        None => return Err(missing()),
    };
    match stanza.type_() {
        Some("error") => {
            returned::returned(xmpp, &room, stanza, from);
            Ok(())
        }
        Some("groupchat") if to.resource().is_some() => {
            Err(bad("write to the room for all, or with another type to one"))
        }
        Some("groupchat") => match subject::is_subject(&stanza.element) {
            true => subject::change(xmpp, &room, stanza, from).await,
            false => say::say(xmpp, &room, stanza, from).await,
        },
        _ => {
            // What comes of it waits for the disk as the room's.
            xmpp.room_to_keep(to.bare_str()).await;
            match to.resource() {
                Some(_) => private::write(xmpp, &room, stanza, from, to),
                None => private::to_room(xmpp, &room, stanza, from).await,
            }
        }
    }
}
