//! Reading a person's contacts, and keeping of them what presence needs.

use std::sync::Arc;

use weir_base::Id;
use weir_community::chat::contacts::{self, Roster};
use weir_community::chat::messages::Message;
use weir_community::chat::{blocks, offline};

use weir_live::admission::Permit;

use crate::face::Xmpp;
use crate::router::{Contacts, Peer, Session};
use crate::wire::{Condition, StanzaError};

/// How often reading begins anew where contacts change meanwhile.
const TRIES: usize = 8;

/// Somebody who asks to see the person's presence, and waits for an answer.
pub(crate) struct Request {
    /// Who.
    pub jid: String,
    /// The presence with which it was asked, or empty.
    pub xml: String,
}

/// What a session that arrives has to know.
pub(crate) struct Arrival {
    /// Who asks to see the person's presence.
    pub requests: Vec<Request>,
    /// Messages that wait.
    pub waiting: Vec<Message>,
}

struct Read {
    roster: Roster,
    blocked: Vec<String>,
    waiting: Vec<Message>,
    avatar: Option<Box<str>>,
}

/// The contacts of the session's person.
///
/// # Errors
/// The database's.
pub(crate) async fn contacts(xmpp: &Xmpp, session: &Arc<Session>) -> Result<Roster, StanzaError> {
    Ok(read(xmpp, session, false).await?.roster)
}

/// All that counts when somebody comes.
///
/// # Errors
/// The database's.
pub(crate) async fn arrival(xmpp: &Xmpp, session: &Arc<Session>) -> Result<Arrival, StanzaError> {
    let read = read(xmpp, session, true).await?;
    let asking = read.roster.contacts.into_iter().filter(|contact| contact.state.asked);
    let requests = asking.map(|contact| Request { jid: contact.jid, xml: contact.request });
    Ok(Arrival { requests: requests.collect(), waiting: read.waiting })
}

async fn read(xmpp: &Xmpp, session: &Arc<Session>, arrives: bool) -> Result<Read, StanzaError> {
    let account = session.account;
    for _ in 0..TRIES {
        let revision = revision(session)?;
        let read = xmpp.read(move |tx, env| {
            let roster = contacts::list(tx, env, account)?;
            let blocked = blocks::list(tx, env, account)?;
            let waiting = if arrives { offline::waiting(tx, account)? } else { Vec::new() };
            let avatar = crate::pubsub::avatar::hash(tx, account)?;
            Ok(Read { roster, blocked, waiting, avatar })
        });
        let read = read.await?;
        if install(xmpp, session, revision, &read)? {
            return Ok(read);
        }
    }
    let text = "your contacts change too fast: ask again";
    Err(StanzaError::new(Condition::ResourceConstraint).text(text))
}

/// The person's blocks changed: what memory holds of them follows.
///
/// # Errors
/// The database's.
pub async fn blocks_changed(xmpp: &Xmpp, account: Id, peer: &Peer) -> Result<(), StanzaError> {
    let blocked = xmpp.read(move |tx, env| blocks::list(tx, env, account)).await?;
    if let Some(here) = peer.here().as_mut() {
        here.revision = here.revision.wrapping_add(1);
        here.blocked = blocked.iter().map(|jid| jid.as_str().into()).collect();
    }
    Ok(())
}

/// A place among those who arrive, so that those who are here notice nothing of a crowd.
///
/// # Errors
/// When even the line is full: come again later.
pub(crate) async fn arrive(xmpp: &Xmpp) -> Result<Permit, StanzaError> {
    xmpp.admission
        .enter()
        .await
        .map_err(|busy| StanzaError::new(Condition::ResourceConstraint).text(busy.to_string()))
}

fn gone() -> StanzaError {
    StanzaError::new(Condition::UnexpectedRequest).text("this session is over")
}

fn revision(session: &Session) -> Result<u32, StanzaError> {
    session.peer.here().as_ref().map(|here| here.revision).ok_or_else(gone)
}

/// Keeps what presence needs. False where contacts have changed since they were read.
fn install(
    xmpp: &Xmpp,
    session: &Session,
    revision: u32,
    read: &Read,
) -> Result<bool, StanzaError> {
    let seen = read.roster.contacts.iter().filter(|one| one.state.to || one.state.from);
    let list = seen.map(|one| (xmpp.router.peer(&one.jid), one.state.to, one.state.from));
    let contacts = Contacts::new(list);
    let mut here = session.peer.here();
    let there = here.as_mut().ok_or_else(gone)?;
    if there.revision != revision {
        return Ok(false);
    }
    if there.contacts.is_none() {
        there.contacts = Some(contacts);
        there.avatar.clone_from(&read.avatar);
        there.blocked = read.blocked.iter().map(|jid| jid.as_str().into()).collect();
    }
    Ok(true)
}
