//! Somebody with an address, as sessions and rosters know them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::{Mutex, MutexGuard};
use weir_base::Id;

use super::session::Session;
use crate::limits;
use crate::roster::mutuals::Mutuals;

/// An address without a resource that is in use: somebody is here by it, or it stands in the
/// roster of somebody who is. Exists once, and is shared by all who name it.
pub struct Peer {
    jid: Box<str>,
    here: Mutex<Option<Box<Here>>>,
}

/// Somebody of this server who is connected.
pub struct Here {
    /// The account.
    pub account: Id,
    /// The connected resources, those that wait to be resumed among them.
    pub sessions: Vec<Arc<Session>>,
    /// Who sees whom; none before it was read.
    pub contacts: Option<Contacts>,
    /// Whom the person does not want to hear from.
    pub blocked: Box<[Box<str>]>,
    /// Another after each change of contacts and blocks, and never one of before: what was read
    /// before a change is not taken for new.
    revision: u64,
    /// Messages that waited and were handed over, until they are let go.
    pub handed: Vec<Id>,
    /// More wait than were handed over.
    pub has_more: bool,
    /// What is known of those with whom the person follows each other, where it wants them in its
    /// roster.
    pub mutuals: Option<Box<Mutuals>>,
    /// The hash of the person's picture, for their presence (XEP-0153).
    pub avatar: Option<Box<str>>,
}

/// Between whom presence goes: first those whose presence we see, then those who see ours.
pub struct Contacts {
    all: Arc<[Arc<Peer>]>,
    /// Ours is seen from here on.
    from_at: u32,
    /// Theirs is seen up to here.
    to_end: u32,
}

impl Peer {
    pub(super) fn new(jid: &str) -> Self {
        Self { jid: jid.into(), here: Mutex::new(None) }
    }

    /// The address.
    pub fn jid(&self) -> &str {
        &self.jid
    }

    /// Who is here by it. Short: others wait; nothing else but sessions' own locks, and the
    /// router's list of who is here, is taken meanwhile.
    pub fn here(&self) -> MutexGuard<'_, Option<Box<Here>>> {
        self.here.lock()
    }

    /// The account, while somebody is here by it.
    pub fn account(&self) -> Option<Id> {
        self.here().as_ref().map(|here| here.account)
    }

    /// The session with this resource.
    pub fn session(&self, resource: &str) -> Option<Arc<Session>> {
        let here = self.here();
        here.as_ref()?.sessions.iter().find(|session| session.resource() == resource).cloned()
    }

    /// Whether the person does not want to hear from `jid`.
    pub fn blocks(&self, jid: &str) -> bool {
        self.here().as_ref().is_some_and(|here| here.blocks(jid))
    }
}

fn next_revision() -> u64 {
    static REVISIONS: AtomicU64 = AtomicU64::new(0);
    REVISIONS.fetch_add(1, Relaxed)
}

impl Here {
    pub(super) fn new(account: Id) -> Self {
        Self {
            account,
            sessions: Vec::new(),
            contacts: None,
            blocked: Box::default(),
            revision: next_revision(),
            handed: Vec::new(),
            has_more: false,
            mutuals: None,
            avatar: None,
        }
    }

    /// Which contacts and blocks are the newest.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Contacts or blocks change now.
    pub fn revise(&mut self) {
        self.revision = next_revision();
    }

    /// Whether `jid` is blocked: itself, without its resource, or its server.
    pub fn blocks(&self, jid: &str) -> bool {
        if self.blocked.is_empty() {
            return false;
        }
        let bare = jid.split_once('/').map_or(jid, |(bare, _)| bare);
        let domain = bare.split_once('@').map_or(bare, |(_, domain)| domain);
        let is = |form: &str| self.blocked.iter().any(|blocked| **blocked == *form);
        is(jid) || is(bare) || is(domain)
    }

    /// Whether there is room for one more resource.
    pub fn has_room(&self) -> bool {
        self.sessions.len() < limits::RESOURCES_MAX
    }

    /// Whether all that is here waits to be taken up, and takes messages then: what comes meanwhile
    /// waits as if nobody were here.
    pub fn is_detached(&self) -> bool {
        let waits = |session: &Arc<Session>| {
            let state = session.state();
            state.is_detached && state.presence.is_some() && state.priority >= 0
        };
        !self.sessions.is_empty() && self.sessions.iter().all(waits)
    }

    /// How many messages the session without a connection has for which most came, but those that
    /// wait elsewhere too.
    pub fn unread_count(&self) -> usize {
        let counts = self.sessions.iter().map(|session| {
            let state = session.state();
            if state.is_detached { state.unread().0.len() } else { 0 }
        });
        counts.max().unwrap_or_default()
    }

    /// The sessions that are available.
    pub fn available(&self) -> impl Iterator<Item = &Arc<Session>> {
        self.sessions.iter().filter(|session| session.is_available())
    }
}

impl Contacts {
    /// Of those with whom there is a subscription: (who, we see theirs, they see ours).
    pub fn new(list: impl IntoIterator<Item = (Arc<Peer>, bool, bool)>) -> Self {
        let mut list: Vec<_> = list.into_iter().filter(|(_, to, from)| *to || *from).collect();
        // Only `to`, then both, then only `from`.
        list.sort_by_key(|(_, to, from)| u8::from(*from) + u8::from(*from && !*to));
        let count = |is: &dyn Fn(bool, bool) -> bool| {
            let count = list.iter().filter(|(_, to, from)| is(*to, *from)).count();
            u32::try_from(count).unwrap_or(u32::MAX)
        };
        let (from_at, to_end) = (count(&|_, from| !from), count(&|to, _| to));
        Self { all: list.into_iter().map(|(peer, ..)| peer).collect(), from_at, to_end }
    }

    /// Those whose presence we see.
    pub fn to(&self) -> &[Arc<Peer>] {
        &self.all[..self.to_end as usize]
    }

    /// Those who see ours.
    pub fn from(&self) -> &[Arc<Peer>] {
        &self.all[self.from_at as usize..]
    }

    /// Those whose presence we see, and those who see ours, to be kept for a while.
    pub fn snapshot(&self) -> Contacts {
        Contacts { all: self.all.clone(), ..*self }
    }

    /// All, with what goes between us.
    pub fn each(&self) -> impl Iterator<Item = (&Arc<Peer>, bool, bool)> {
        self.all
            .iter()
            .enumerate()
            .map(|(at, peer)| (peer, at < self.to_end as usize, at >= self.from_at as usize))
    }

    /// The same with `peer` changed, and who was replaced (to be released).
    pub fn with(&self, peer: &Arc<Peer>, to: bool, from: bool) -> Self {
        let others = self.each().filter(|(other, ..)| !Arc::ptr_eq(other, peer));
        let others = others.map(|(other, to, from)| (other.clone(), to, from));
        Self::new(others.chain([(peer.clone(), to, from)]))
    }
}
