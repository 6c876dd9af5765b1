//! What came lately, in memory: for what is told to the door again and again.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest::{Context, SHA256};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use metrics::Gauge;
use moka::sync::Cache;
use parking_lot::Mutex;
use weir_base::Timestamp;
use weir_community::{Community, Error};
use weir_db::Error as DbError;

use crate::resolver::signer;
use crate::{ActivityPub, Signer};

/// Messages remembered: at least half as many of the last ones, whoever sent them. What comes again
/// later has no effect either, but costs more.
const MESSAGES_MAX: usize = 100_000;
/// Keys of remote accounts kept in memory: at least half as many of those read last.
const KEYS_MAX: usize = 20_000;
/// How long a key is believed without looking at its row again, in ms. While others come it is kept
/// for no more than twice as long: a key of RSA takes 2.5 KiB.
const KEYS_LIFE_MS: i64 = 60_000;
/// Keys that are to be fetched again in the background, and for how long that is remembered.
const WANTED_MAX: u64 = 20_000;
const WANTED_LIFE: Duration = Duration::from_secs(60);

/// See the module.
pub(crate) struct Seen {
    messages: Mutex<Lately<[u8; 32], ()>>,
    keys: Mutex<Keys>,
    /// Keys that are to be fetched again in the background.
    wanted: Cache<String, ()>,
}

impl Default for Seen {
    fn default() -> Self {
        Self {
            messages: Mutex::new(Lately::new(MESSAGES_MAX)),
            keys: Mutex::new(Keys::new()),
            wanted: Cache::builder().max_capacity(WANTED_MAX).time_to_live(WANTED_LIFE).build(),
        }
    }
}

/// What came last. When as much is young as half of all that is remembered, it is the old one, and
/// what came before that is forgotten: no order is kept.
struct Lately<K, V> {
    young: HashMap<K, V>,
    old: HashMap<K, V>,
    most: usize,
}

impl<K: Eq + Hash, V> Lately<K, V> {
    fn new(most: usize) -> Self {
        Self { young: HashMap::new(), old: HashMap::new(), most }
    }

    fn get<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.young.get(key).or_else(|| self.old.get(key))
    }

    /// Gives what is forgotten for it.
    fn add(&mut self, key: K, value: V) -> Option<HashMap<K, V>> {
        self.young.insert(key, value);
        (self.young.len() >= self.most / 2).then(|| self.turn())
    }

    fn remove<Q: Eq + Hash + ?Sized>(&mut self, key: &Q)
    where
        K: Borrow<Q>,
    {
        self.young.remove(key);
        self.old.remove(key);
    }

    fn turn(&mut self) -> HashMap<K, V> {
        std::mem::replace(&mut self.old, std::mem::take(&mut self.young))
    }

    fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }
}

/// A key's owner, and when that was read.
type Known = (Timestamp, Arc<Signer>);

type Forgotten = Option<HashMap<String, Known>>;

/// Whose keys these are.
struct Keys {
    lately: Lately<String, Known>,
    turned_at: Timestamp,
    held: Gauge,
}

impl Keys {
    fn new() -> Self {
        let held = metrics::gauge!("weir_activitypub_keys_held");
        Self { lately: Lately::new(KEYS_MAX), turned_at: Timestamp::from_ms(0), held }
    }

    fn get(&self, key_id: &str, now: Timestamp) -> Option<Arc<Signer>> {
        let (read_at, known) = self.lately.get(key_id)?;
        let is_believed = (0..KEYS_LIFE_MS).contains(&now.since_ms(*read_at));
        is_believed.then(|| known.clone())
    }

    /// Gives those that are forgotten for it: to free thousands takes longer than to look one up.
    #[must_use]
    fn put(&mut self, key_id: &str, known: Option<&Arc<Signer>>, now: Timestamp) -> Forgotten {
        self.lately.remove(key_id);
        let add = |known: &Arc<Signer>| self.lately.add(key_id.to_owned(), (now, known.clone()));
        let mut forgotten = known.and_then(add);
        let is_time = !(0..KEYS_LIFE_MS).contains(&now.since_ms(self.turned_at));
        if is_time && forgotten.is_none() {
            forgotten = Some(self.lately.turn());
        }
        if forgotten.is_some() {
            self.turned_at = now;
        }
        self.held.set(self.lately.len() as f64);
        forgotten
    }
}

/// What is the same when the same message comes again, unsigned anew. (Signed anew it may be said
/// again on purpose: some servers follow, unfollow and follow by the same words.) To be noted where
/// the signature fits: else who forges what another one will say would keep theirs away.
pub(super) fn mark(key_id: &str, signed_at: Timestamp, body: &[u8]) -> [u8; 32] {
    digest(&[key_id.as_bytes(), &signed_at.as_ms().to_be_bytes(), body])
}

/// The same with its signature, which may not fit.
pub(super) fn mark_unverified(mark: &[u8; 32], signature: &[u8]) -> [u8; 32] {
    digest(&[mark, signature])
}

fn digest(parts: &[&[u8]]) -> [u8; 32] {
    let mut context = Context::new(&SHA256);
    for part in parts {
        context.update(part);
    }
    let mut mark = [0; 32];
    mark.copy_from_slice(context.finish().as_ref());
    mark
}

impl Seen {
    /// Messages in memory, and keys that are wanted again.
    pub(super) fn held(&self) -> [u64; 2] {
        self.wanted.run_pending_tasks();
        [self.messages.lock().len() as u64, self.wanted.entry_count()]
    }

    pub(super) fn message(&self, mark: &[u8; 32]) -> bool {
        self.messages.lock().get(mark).is_some()
    }

    /// Whether nobody wanted the key to be fetched again within a minute; now somebody does.
    pub(super) fn wants_again(&self, key_id: &str) -> bool {
        self.wanted.entry_by_ref(key_id).or_insert(()).is_fresh()
    }

    pub(super) fn note_message(&self, mark: [u8; 32]) {
        self.messages.lock().add(mark, ());
    }
}

/// Whose keys these are, as far as it is known here: what several messages ask is read together.
pub(super) fn owners(
    community: &Community,
    keys: Vec<String>,
) -> BoxFuture<'_, Result<Vec<Option<Arc<Signer>>>, Error>> {
    async move {
        let known = signer::known(community, keys.clone()).await?;
        let known: HashMap<String, Arc<Signer>> =
            known.into_iter().map(|(key_id, signer)| (key_id, Arc::new(signer))).collect();
        Ok(keys.iter().map(|key_id| known.get(key_id).cloned()).collect())
    }
    .boxed()
}

impl ActivityPub {
    /// Whose key this is, as far as it is known here, or was a moment ago.
    pub(super) async fn remembered_owner(
        &self,
        key_id: &str,
    ) -> Result<Option<Arc<Signer>>, Error> {
        let known = self.inbox().seen.keys.lock().get(key_id, self.now());
        if known.is_some() {
            return Ok(known);
        }
        let found = self.inbox().keys.ask(self.community(), key_id.to_owned()).await;
        let unread = || DbError::Unavailable("keys could not be read".into());
        let known = found.ok_or_else(unread)?;
        self.remember(key_id, known.as_ref());
        Ok(known)
    }

    /// Whose key this is by its row.
    pub(super) async fn key_owner(&self, key_id: &str) -> Result<Option<Arc<Signer>>, Error> {
        let known = self.known_signer(key_id).await?.map(Arc::new);
        self.remember(key_id, known.as_ref());
        Ok(known)
    }

    fn remember(&self, key_id: &str, known: Option<&Arc<Signer>>) {
        let forgotten = self.inbox().seen.keys.lock().put(key_id, known, self.now());
        // Not before the lock is free.
        drop(forgotten);
    }
}

#[cfg(test)]
mod tests {
    use weir_base::Id;

    use super::*;
    use crate::signature::key::PrivateKey;

    fn mark(number: usize) -> [u8; 32] {
        let mut mark = [0; 32];
        mark[..8].copy_from_slice(&number.to_be_bytes());
        mark
    }

    #[test]
    fn the_last_messages_are_remembered_and_no_more_than_there_is_room_for() {
        let mut marks = Lately::new(MESSAGES_MAX);
        for number in 0..3 * MESSAGES_MAX {
            assert!(marks.get(&mark(number)).is_none());
            marks.add(mark(number), ());
            assert!(marks.get(&mark(number)).is_some());
            let before = (number + 1).saturating_sub(MESSAGES_MAX / 2);
            assert!(marks.get(&mark(before)).is_some());
            assert!(marks.len() <= MESSAGES_MAX);
        }
        assert!(marks.get(&mark(0)).is_none());
    }

    fn signer() -> Arc<Signer> {
        let key = PrivateKey::generate_ed25519().unwrap().public().unwrap();
        let (uri, domain) = ("https://other.test/users/bob".into(), "other.test".into());
        Arc::new(Signer { account: Id(1), uri, domain, suspended: false, key })
    }

    #[test]
    fn keys_are_believed_for_a_minute_and_those_that_nobody_asks_for_are_not_kept() {
        let begin = Timestamp::from_ms(1_700_000_000_000);
        let (mut keys, bob) = (Keys::new(), signer());
        let put = |keys: &mut Keys, id: &str, now| drop(keys.put(id, Some(&bob), now));
        put(&mut keys, "bob", begin);
        assert!(keys.get("bob", begin.plus_ms(KEYS_LIFE_MS - 1)).is_some());
        assert!(keys.get("bob", begin.plus_ms(KEYS_LIFE_MS)).is_none());
        assert!(keys.get("bob", begin.plus_ms(-1)).is_none(), "the clock was set back");
        // As many as come again and again, and as many new ones in each minute.
        for minute in 1..10 {
            for number in 0..100 {
                let now = begin.plus_ms(minute * KEYS_LIFE_MS + number);
                put(&mut keys, &format!("known {number}"), now);
                put(&mut keys, &format!("new {minute} {number}"), now);
            }
            assert!(keys.lately.len() <= 300, "{}", keys.lately.len());
        }
        let now = begin.plus_ms(10 * KEYS_LIFE_MS);
        (0..2 * KEYS_MAX).for_each(|number| put(&mut keys, &number.to_string(), now));
        assert!(keys.lately.len() <= KEYS_MAX);
        assert!(keys.get("0", now).is_none() && keys.get("39999", now).is_some());
        drop(keys.put("39999", None, now));
        assert!(keys.get("39999", now).is_none(), "its row is gone");
    }
}
