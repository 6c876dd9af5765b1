//! Reading a person's contacts, and keeping of them what presence needs.
//!
//! One read serves all who ask for the same at the same time, and roster and presence of one who
//! arrives. Rosters that were read lately are kept in few bytes, and asked of the database only by
//! their version: those who come back all at once cost little.

use std::sync::Arc;
use std::time::Duration;

use metrics::Gauge;
use moka::sync::Cache;
use weir_base::Id;
use weir_community::chat::contacts::{self, Roster};
use weir_community::chat::{blocks, offline};
use weir_live::SingleFlight;
use weir_live::admission::Permit;

use super::mutuals::Mutuals;
use super::packed::Packed;
use crate::face::Xmpp;
use crate::router::{Contacts, Session};
use crate::wire::{Condition, StanzaError};

/// How often reading begins anew where contacts change meanwhile.
const TRIES: usize = 8;
/// What the rosters that were read lately may take, in bytes.
const RECENT_BYTES_MAX: u64 = 8 * 1024 * 1024;
/// How long they are kept after they were last asked for.
const RECENT: Duration = Duration::from_secs(600);
/// Accounts whose contacts are read at once by one for all.
const FLIGHTS_MAX: usize = 10_000;
/// What keeping a roster takes besides itself (entry, lists of the cache), about, in bytes.
const ENTRY_BYTES: usize = 300;

/// Rosters that are being read, or were lately.
pub(crate) struct Rosters {
    flights: SingleFlight<(Id, u64), Result<Arc<Read>, StanzaError>>,
    recent: Cache<Id, Arc<Packed>>,
    bytes: Gauge,
}

impl Default for Rosters {
    fn default() -> Self {
        let size_bytes = |packed: &Packed| ENTRY_BYTES + packed.size_bytes();
        let recent = Cache::builder()
            .max_capacity(RECENT_BYTES_MAX)
            .weigher(move |_, packed: &Arc<Packed>| {
                u32::try_from(size_bytes(packed)).unwrap_or(u32::MAX)
            })
            .time_to_idle(RECENT)
            .build();
        let bytes = metrics::gauge!("weir_xmpp_rosters_bytes");
        Self { flights: SingleFlight::new(FLIGHTS_MAX), recent, bytes }
    }
}

impl Rosters {
    /// Lets go of those that nobody asked for, and tells what the others take.
    pub(crate) fn tidy(&self) {
        self.recent.run_pending_tasks();
        self.bytes.set(self.recent.weighted_size() as f64);
    }
}

/// What is read of one person.
struct Read {
    roster: Arc<Roster>,
    blocked: Vec<String>,
    avatar: Option<Box<str>>,
}

/// What waits for somebody who has arrived.
pub(crate) struct Waiting {
    /// Who asks to see the person's presence, and the presence with which they did, or nothing.
    pub requests: Vec<(String, String)>,
    /// Messages.
    pub messages: offline::Waiting,
}

/// The contacts of the session's person.
///
/// # Errors
/// The database's.
pub(crate) async fn contacts(
    xmpp: &Xmpp,
    session: &Arc<Session>,
) -> Result<Arc<Roster>, StanzaError> {
    Ok(read(xmpp, session).await?.roster.clone())
}

/// Has what presence needs of the contacts in memory.
///
/// # Errors
/// The database's.
pub(crate) async fn ensure(xmpp: &Xmpp, session: &Arc<Session>) -> Result<(), StanzaError> {
    let is_there = session.peer.here().as_ref().is_some_and(|here| here.contacts.is_some());
    if is_there { Ok(()) } else { read(xmpp, session).await.map(drop) }
}

/// What waits for `account`, to be asked for once it is available: what comes later finds it.
///
/// # Errors
/// The database's.
pub(crate) async fn waiting(xmpp: &Xmpp, account: Id) -> Result<Waiting, StanzaError> {
    xmpp.read(move |tx, _| {
        let requests = contacts::asking(tx, account)?;
        let messages = offline::waiting(tx, account, &[])?;
        Ok(Waiting { requests, messages })
    })
    .await
}

async fn read(xmpp: &Xmpp, session: &Arc<Session>) -> Result<Arc<Read>, StanzaError> {
    for _ in 0..TRIES {
        let revision = session.peer.here().as_ref().ok_or_else(gone)?.revision();
        let key = (session.account, revision);
        let read = xmpp.rosters.flights.run(&key, fresh(xmpp, session.account)).await?;
        if install(xmpp, session, revision, &read)? {
            return Ok(read);
        }
    }
    let text = "your contacts change too fast: ask again";
    Err(StanzaError::new(Condition::ResourceConstraint).text(text))
}

async fn fresh(xmpp: &Xmpp, account: Id) -> Result<Arc<Read>, StanzaError> {
    let recent = &xmpp.rosters.recent;
    let known = recent.get(&account);
    let version = known.as_ref().and_then(|known| known.version());
    let (newer, blocked, avatar) = xmpp
        .read(move |tx, env| {
            let newer = contacts::list_unless(tx, env, account, version.as_deref())?;
            let blocked = blocks::list(tx, env, account)?;
            Ok((newer, blocked, crate::pubsub::avatar::hash(tx, account)?))
        })
        .await?;
    let known = known.and_then(|known| known.roster(xmpp.domain()));
    let roster = match (newer, known) {
        (None, Some(known)) => {
            metrics::counter!("weir_xmpp_rosters_total", "read" => "version").increment(1);
            known
        }
        (newer, _) => {
            metrics::counter!("weir_xmpp_rosters_total", "read" => "whole").increment(1);
            let roster = newer.ok_or_else(gone)?;
            match Packed::of(&roster, xmpp.domain()) {
                Some(packed) => recent.insert(account, Arc::new(packed)),
                None => recent.invalidate(&account),
            }
            roster
        }
    };
    let roster = Arc::new(roster);
    Ok(Arc::new(Read { roster, blocked, avatar }))
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

/// Keeps what presence needs. False where contacts have changed since they were read.
fn install(
    xmpp: &Xmpp,
    session: &Session,
    revision: u64,
    read: &Read,
) -> Result<bool, StanzaError> {
    let seen = read.roster.contacts.iter().filter(|one| one.state.to || one.state.from);
    let list = seen.map(|one| (xmpp.router.peer(&one.jid), one.state.to, one.state.from));
    let contacts = Contacts::new(list);
    let mut here = session.peer.here();
    let there = here.as_mut().ok_or_else(gone)?;
    if there.revision() != revision {
        return Ok(false);
    }
    if there.contacts.is_none() {
        there.contacts = Some(contacts);
        there.mutuals = Mutuals::of(&read.roster);
        there.avatar.clone_from(&read.avatar);
        there.blocked = read.blocked.iter().map(|jid| jid.as_str().into()).collect();
    }
    Ok(true)
}
