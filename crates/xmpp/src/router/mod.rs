//! Who is where: every address in use once, and the sessions behind it.

mod out;
mod peer;
mod session;

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use hashbrown::{DefaultHashBuilder, HashTable};
use metrics::Gauge;
use parking_lot::Mutex;
use weir_base::Id;

pub use out::{Kept, Out, Spliced};
pub use peer::{Contacts, Here, Peer};
pub use session::{Closed, Found, More, Session, State};

use crate::wire::StreamCondition;

/// Parts of the table, each with a lock of its own, and each the turn of one beat: so many that of
/// two million people a part is gone through in a millisecond.
pub(crate) const SHARDS: usize = 512;

/// All addresses in use.
pub struct Router {
    shards: Box<[Mutex<HashTable<Arc<Peer>>>]>,
    hasher: DefaultHashBuilder,
    sessions: AtomicUsize,
    sessions_max: usize,
    /// Those who are here.
    here: Mutex<HashMap<Id, Arc<Peer>>>,
    /// What stands behind the addresses of presence, each once.
    tails: Mutex<Tails>,
    meters: Meters,
}

struct Meters {
    peers: Gauge,
    sessions: Gauge,
}

#[derive(Default)]
struct Tails {
    all: HashTable<Arc<[u8]>>,
    purge_at: usize,
}

/// Tails kept at once; of more, each session has its own.
const TAILS_MAX: usize = 20_000;
/// A longer tail is of one session alone, in bytes.
const TAIL_BYTES_MAX: usize = 1_024;

/// Why somebody cannot be here by a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoRoom {
    /// The account has all resources it may have.
    #[error("all resources of this account are taken: close another app first")]
    Account,
    /// The server has all the sessions it may have.
    #[error("the server is full: come again later")]
    Server,
}

impl Router {
    pub(crate) fn new(sessions_max: usize) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        let meters = Meters {
            peers: metrics::gauge!("weir_xmpp_addresses"),
            sessions: metrics::gauge!("weir_xmpp_sessions"),
        };
        Self {
            shards,
            hasher: DefaultHashBuilder::default(),
            sessions: AtomicUsize::new(0),
            sessions_max,
            here: Mutex::default(),
            tails: Mutex::default(),
            meters,
        }
    }

    fn place(&self, jid: &str) -> (u64, &Mutex<HashTable<Arc<Peer>>>) {
        let hash = self.hasher.hash_one(jid);
        // The table itself uses the highest and the lowest bits.
        let shard = (hash >> 32) as usize % SHARDS;
        (hash, &self.shards[shard])
    }

    /// The address, if it is in use.
    pub fn find(&self, bare: &str) -> Option<Arc<Peer>> {
        let (hash, shard) = self.place(bare);
        shard.lock().find(hash, |peer| peer.jid() == bare).cloned()
    }

    /// The address, in use for as long as somebody holds it.
    pub fn peer(&self, bare: &str) -> Arc<Peer> {
        let (hash, shard) = self.place(bare);
        let mut shard = shard.lock();
        if let Some(peer) = shard.find(hash, |peer| peer.jid() == bare) {
            return peer.clone();
        }
        let peer = Arc::new(Peer::new(bare));
        shard.insert_unique(hash, peer.clone(), |peer| self.hasher.hash_one(peer.jid()));
        drop(shard);
        self.meters.peers.increment(1.0);
        peer
    }

    /// A new session of `account`, which is here by `bare` and `resource` from now on. One that
    /// was here by the same before ends, and is answered with it.
    ///
    /// # Errors
    /// [`NoRoom`].
    pub fn bind(
        &self,
        bare: &str,
        account: Id,
        resource: &str,
    ) -> Result<(Arc<Session>, Option<Arc<Session>>), NoRoom> {
        if self.sessions.load(Relaxed) >= self.sessions_max {
            return Err(NoRoom::Server);
        }
        let peer = self.peer(bare);
        let session = Session::new(peer.clone(), account, resource);
        let mut here = peer.here();
        let there = here.get_or_insert_with(|| {
            self.here.lock().insert(account, peer.clone());
            Box::new(Here::new(account))
        });
        let same = |old: &Arc<Session>| old.resource() == resource;
        let replaced = there.sessions.iter().position(same).map(|at| there.sessions.remove(at));
        if !there.has_room() {
            return Err(NoRoom::Account);
        }
        there.sessions.reserve_exact(1);
        there.sessions.push(session.clone());
        drop(here);
        self.sessions.fetch_add(1, Relaxed);
        self.meters.sessions.increment(1.0);
        if let Some(old) = &replaced {
            self.count_out();
            old.close(Closed::With(StreamCondition::Conflict));
        }
        Ok((session, replaced))
    }

    /// A session is over. Whether it was still among those that are here.
    pub fn unbind(&self, session: &Arc<Session>) -> bool {
        let peer = &session.peer;
        let mut here = peer.here();
        let Some(there) = here.as_mut() else { return false };
        let Some(at) = there.sessions.iter().position(|one| Arc::ptr_eq(one, session)) else {
            return false;
        };
        there.sessions.remove(at);
        let gone = match there.sessions.is_empty() {
            true => {
                self.here.lock().remove(&session.account);
                here.take()
            }
            false => None,
        };
        drop(here);
        drop(gone);
        self.count_out();
        true
    }

    fn count_out(&self) {
        self.sessions.fetch_sub(1, Relaxed);
        self.meters.sessions.decrement(1.0);
    }

    /// The address of the account, if somebody is here by it.
    pub fn of_account(&self, account: Id) -> Option<Arc<Peer>> {
        self.here.lock().get(&account).cloned()
    }

    /// Sessions now.
    pub fn sessions(&self) -> usize {
        self.sessions.load(Relaxed)
    }

    /// Hands bytes of a whole stanza to the session at this full address. Whether it is there.
    pub fn deliver_bytes(&self, bare: &str, resource: &str, bytes: &Arc<[u8]>) -> bool {
        let session = self.find(bare).and_then(|peer| peer.session(resource));
        session.is_some_and(|session| session.push(Out::Bytes(bytes.clone())))
    }

    /// Hands a stanza that many get to the session at this full address. Whether it is there.
    pub fn deliver_spliced(&self, bare: &str, resource: &str, stanza: &Arc<Spliced>) -> bool {
        let session = self.find(bare).and_then(|peer| peer.session(resource));
        session.is_some_and(|session| session.push(Out::Spliced(stanza.clone())))
    }

    /// Every session of one part of the table; addresses there that nobody uses are forgotten.
    /// How many sessions those were.
    pub(crate) fn each_of_shard(&self, shard: usize, mut each: impl FnMut(&Arc<Session>)) -> usize {
        let mut count = 0;
        let peers: Vec<Arc<Peer>> = {
            let mut shard = self.shards[shard % SHARDS].lock();
            let before = shard.len();
            // Nobody else can get at these but through the table, which is locked.
            shard.retain(|peer| Arc::strong_count(peer) > 1 || peer.here().is_some());
            self.meters.peers.decrement((before - shard.len()) as f64);
            shard.iter().filter(|peer| peer.here().is_some()).cloned().collect()
        };
        for peer in &peers {
            let here = peer.here();
            for session in here.iter().flat_map(|here| &here.sessions) {
                each(session);
                count += 1;
            }
        }
        count
    }

    /// The accounts that are here in one part of the table.
    pub(crate) fn accounts_of_shard(&self, shard: usize) -> Vec<Id> {
        let shard = self.shards[shard % SHARDS].lock();
        shard.iter().filter_map(|peer| peer.account()).collect()
    }

    /// Tells the connections of those sessions of an account's address which `is_meant` says to end
    /// them, by this condition. Which those are.
    pub(crate) fn close_those(
        &self,
        bare: &str,
        why: StreamCondition,
        is_meant: impl Fn(&Session) -> bool,
    ) -> Vec<Arc<Session>> {
        let Some(peer) = self.find(bare) else { return Vec::new() };
        let here = peer.here();
        let sessions = here.iter().flat_map(|here| &here.sessions);
        let meant: Vec<_> = sessions.filter(|session| is_meant(session)).cloned().collect();
        meant.iter().for_each(|session| session.close(Closed::With(why)));
        meant
    }

    /// The same bytes as others have, where somebody has them.
    pub(crate) fn interned_tail(&self, tail: &[u8]) -> Arc<[u8]> {
        if tail.len() > TAIL_BYTES_MAX {
            return tail.into();
        }
        let hash = self.hasher.hash_one(tail);
        let mut tails = self.tails.lock();
        if let Some(known) = tails.all.find(hash, |known| **known == *tail) {
            return known.clone();
        }
        if tails.all.len() >= tails.purge_at.max(64) {
            tails.all.retain(|known| Arc::strong_count(known) > 1);
            tails.purge_at = tails.all.len() * 2;
        }
        let fresh: Arc<[u8]> = tail.into();
        if tails.all.len() < TAILS_MAX {
            let hasher = |known: &Arc<[u8]>| self.hasher.hash_one(&**known);
            tails.all.insert_unique(hash, fresh.clone(), hasher);
        }
        fresh
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use super::*;

    #[test]
    fn what_is_said_by_many_is_kept_once_and_what_nobody_says_any_more_not_at_all() {
        let router = Router::new(1);
        let held = router.interned_tail(b" held");
        assert!(Arc::ptr_eq(&held, &router.interned_tail(b" held")));
        for number in 0..100_000 {
            router.interned_tail(format!(" {number}").as_bytes());
        }
        assert!(router.tails.lock().all.len() <= 128);
        assert!(Arc::ptr_eq(&held, &router.interned_tail(b" held")));
    }

    #[test]
    fn the_answer_to_a_change_that_ends_the_session_goes_out_before_the_end() {
        let router = Router::new(1);
        let (session, _) = router.bind("alice@weir.test", Id(1), "home").unwrap();
        let context = &Context::from_waker(Waker::noop());
        let owed = session.owe_answer();
        session.close(Closed::With(StreamCondition::Reset));
        assert!(session.poll_found(context).is_pending());
        assert!(session.push(Out::Bytes(Arc::from(&b"<iq/>"[..]))));
        drop(owed);
        assert!(matches!(session.poll_found(context), Poll::Ready(Found::Out(_))));
        assert!(matches!(session.poll_found(context), Poll::Ready(Found::Closed(_))));
        assert!(!session.push(Out::Bytes(Arc::from(&b"<iq/>"[..]))));
    }
}
