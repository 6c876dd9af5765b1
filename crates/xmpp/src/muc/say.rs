//! What is said to all (XEP-0045 §7.4). What waits in a room at one moment is kept together, and
//! told in that order once it is durable; each message is encoded once for everybody. What nobody
//! would miss is told and kept nowhere.

use std::collections::HashSet;
use std::sync::Arc;

use tokio::sync::oneshot;
use weir_base::Id;
use weir_community::chat::rooms::{self as noun, RoomMessage, Subject};

use super::history::Said;
use super::parcel::Parcel;
use super::room::{Role, Room, State};
use super::{enter, outside};
use crate::face::Xmpp;
use crate::message::rules::{self, Kept};
use crate::wire::{Condition, Element, Jid, Stanza, StanzaError, ns, write};

/// Messages that wait in one room at once.
const WAITING_MAX: usize = 1_000;
/// Messages that are kept in one unit.
const BATCH_MAX: usize = 256;

/// Something said that is yet to be kept and told.
pub(super) struct Waiting {
    pub(super) id: Id,
    /// The real address of who said it.
    pub(super) by: String,
    /// As all get it, without `to`.
    pub(super) stanza: Stanza,
    /// Where it is kept.
    pub(super) kept: Kept,
    /// It is the new subject.
    pub(super) subject: Option<Subject>,
    /// A message it takes the place of, and what stands there then.
    pub(super) replaces: Option<(Id, String)>,
    /// Is told its id once it is durable and told.
    pub(super) done: oneshot::Sender<Result<Id, StanzaError>>,
}

/// `<message type='groupchat'/>`
pub(super) async fn say(
    xmpp: &Xmpp,
    room: &Arc<Room>,
    stanza: &Stanza,
    from: &Jid,
) -> Result<(), StanzaError> {
    let answer = {
        let mut state = room.state();
        let occupant = state.occupant(from).ok_or_else(outside)?;
        check_voice(occupant.role)?;
        let stanza = signed(room, &state, &occupant.nick, from.bare_str(), stanza);
        put(xmpp, room, &mut state, from.bare_str(), stanza, None, None)?
    };
    waited(answer).await.map(drop)
}

/// Whether who has this role may speak.
pub(super) fn check_voice(role: Role) -> Result<(), StanzaError> {
    if role < Role::Participant {
        let text = "you have no voice in this room: ask a moderator";
        return Err(StanzaError::new(Condition::Forbidden).text(text));
    }
    Ok(())
}

/// Waits until what was put is durable and told; its id.
pub(super) async fn waited(
    answer: oneshot::Receiver<Result<Id, StanzaError>>,
) -> Result<Id, StanzaError> {
    let lost = || StanzaError::new(Condition::InternalServerError).text("the room is gone");
    answer.await.unwrap_or_else(|_| Err(lost()))
}

/// A message as it is from an occupant, without what only the room may say.
pub(super) fn signed(
    room: &Room,
    state: &State,
    nick: &str,
    bare: &str,
    stanza: &Stanza,
) -> Stanza {
    let mut signed = stanza.clone();
    signed.from = Some(room.address(nick));
    signed.to = None;
    let own = room.jid.as_str();
    signed.element.remove_children(|child| {
        child.is("occupant-id", ns::OCCUPANT_ID)
            || child.is("stanza-id", ns::STANZA_ID) && child.attr("by") == Some(own)
            || child.is("delay", ns::DELAY) && child.attr("from") == Some(own)
            || child.is("x", ns::MUC_USER)
    });
    let id = Element::new("occupant-id", ns::OCCUPANT_ID);
    signed.element = signed.element.with_child(id.with_attr("id", state.occupant_id(bare)));
    signed
}

/// Puts something said behind all that waits.
pub(super) fn put(
    xmpp: &Xmpp,
    room: &Arc<Room>,
    state: &mut State,
    by: &str,
    mut stanza: Stanza,
    subject: Option<Subject>,
    replaces: Option<(Id, String)>,
) -> Result<oneshot::Receiver<Result<Id, StanzaError>>, StanzaError> {
    if state.waiting.len() >= WAITING_MAX {
        let text = "too much is being said in this room: try again in a moment";
        return Err(StanzaError::new(Condition::ResourceConstraint).text(text));
    }
    metrics::counter!("weir_xmpp_room_messages_total").increment(1);
    let id = xmpp.new_id();
    let kept = rules::kept_by_room(&stanza);
    if state.id.is_some() && state.config.archive && kept == Kept::Archived {
        let own = Element::new("stanza-id", ns::STANZA_ID)
            .with_attr("by", room.jid.as_str())
            .with_attr("id", id.to_string());
        stanza.element = stanza.element.with_child(own);
    }
    let (done, answer) = oneshot::channel();
    let by = by.to_owned();
    state.waiting.push(Waiting { id, by, stanza, kept, subject, replaces, done });
    if !state.is_flushing {
        state.is_flushing = true;
        xmpp.spawn(Some(Box::pin(flush(xmpp.clone(), room.clone()))));
    }
    Ok(answer)
}

/// Sees to what waits, where nobody does.
pub(super) fn wake(xmpp: &Xmpp, room: &Arc<Room>) {
    let mut state = room.state();
    if !state.waiting.is_empty() && !state.is_flushing {
        state.is_flushing = true;
        xmpp.spawn(Some(Box::pin(flush(xmpp.clone(), room.clone()))));
    }
}

async fn flush(xmpp: Xmpp, room: Arc<Room>) {
    loop {
        let (batch, id, keeps) = {
            let mut state = room.state();
            let count = state.waiting.len().min(BATCH_MAX);
            if count == 0 {
                state.is_flushing = false;
                break;
            }
            let batch: Vec<Waiting> = state.waiting.drain(..count).collect();
            (batch, state.id, state.config.archive)
        };
        let kept = match id {
            Some(id) => keep(&xmpp, id, keeps, &batch).await,
            None => Ok(()),
        };
        let lost = match &kept {
            Ok(()) => tell(&xmpp, &room, &batch),
            Err(_) => HashSet::new(),
        };
        room.moved(&xmpp);
        for said in batch {
            // Who said it may have left meanwhile.
            let _ = said.done.send(kept.clone().map(|()| said.id));
        }
        if !lost.is_empty() {
            enter::lost(&xmpp, &room, lost);
        }
    }
    xmpp.rooms.forget_if_empty(&room);
}

/// Makes it durable.
async fn keep(xmpp: &Xmpp, room: Id, keeps: bool, batch: &[Waiting]) -> Result<(), StanzaError> {
    let row = |said: &Waiting| {
        let xml = write::to_string(&said.stanza.to_element());
        (room, RoomMessage { id: said.id, from_jid: said.by.clone(), xml })
    };
    let rows: Vec<_> =
        batch.iter().filter(|said| keeps && said.kept == Kept::Archived).map(row).collect();
    let subject = batch.iter().rev().find_map(|said| said.subject.clone());
    let replaced: Vec<_> = batch.iter().filter_map(|said| said.replaces.clone()).collect();
    if rows.is_empty() && subject.is_none() && replaced.is_empty() {
        return Ok(());
    }
    xmpp.write(move |tx, env| {
        noun::store(tx, &rows)?;
        for (id, xml) in &replaced {
            noun::replace(tx, room, *id, xml)?;
        }
        match &subject {
            Some(subject) => noun::set_subject(tx, env, room, subject),
            None => Ok(()),
        }
    })
    .await
}

/// Tells everybody; answers who does not get it any more.
fn tell(xmpp: &Xmpp, room: &Room, batch: &[Waiting]) -> HashSet<Jid> {
    let mut lost = HashSet::new();
    let mut state = room.state();
    for said in batch {
        let parcel = Parcel::new(said.stanza.clone());
        // Who gets no chat state, since too much waits, is there all the same.
        let is_passing = rules::is_passing(&said.stanza);
        for jid in state.occupants.values().flat_map(|occupant| &occupant.jids) {
            let gets = !state.arriving.contains(jid);
            if gets && !parcel.deliver(xmpp, jid) && !is_passing {
                lost.insert(jid.clone());
            }
        }
        if let Some((id, _)) = &said.replaces {
            state.history.forget(*id);
        }
        match &said.subject {
            Some(subject) => state.subject = subject.clone(),
            None if said.kept == Kept::Not => {}
            None => state.remember(Said { id: said.id, stanza: said.stanza.clone() }),
        }
    }
    lost
}
