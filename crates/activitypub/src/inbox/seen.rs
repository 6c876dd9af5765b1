//! What came lately, in memory: for what is told to the door again and again.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest::{Context, SHA256};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
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
/// Keys of remote accounts kept in memory.
const KEYS_MAX: usize = 20_000;
/// How long a key is believed without looking at its row again, in ms.
const KEYS_LIFE_MS: i64 = 60_000;
/// Keys that are to be fetched again in the background, and for how long that is remembered.
const WANTED_MAX: u64 = 20_000;
const WANTED_LIFE: Duration = Duration::from_secs(60);

/// See the module.
pub(crate) struct Seen {
    messages: Mutex<Marks>,
    /// Each with when it was read.
    keys: quick_cache::sync::Cache<String, (Timestamp, Arc<Signer>)>,
    /// Keys that are to be fetched again in the background.
    wanted: Cache<String, ()>,
}

impl Default for Seen {
    fn default() -> Self {
        Self {
            messages: Mutex::default(),
            keys: quick_cache::sync::Cache::new(KEYS_MAX),
            wanted: Cache::builder().max_capacity(WANTED_MAX).time_to_live(WANTED_LIFE).build(),
        }
    }
}

/// The last messages. When as many are young as half of all that are remembered, they are the old
/// ones, and those before them are forgotten: no order is kept, and no clock.
#[derive(Default)]
struct Marks {
    young: HashSet<[u8; 32]>,
    old: HashSet<[u8; 32]>,
}

impl Marks {
    fn has(&self, mark: &[u8; 32]) -> bool {
        self.young.contains(mark) || self.old.contains(mark)
    }

    fn add(&mut self, mark: [u8; 32]) {
        self.young.insert(mark);
        if self.young.len() >= MESSAGES_MAX / 2 {
            std::mem::swap(&mut self.young, &mut self.old);
            self.young.clear();
        }
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
    pub(super) fn message(&self, mark: &[u8; 32]) -> bool {
        self.messages.lock().has(mark)
    }

    /// Whether nobody wanted the key to be fetched again within a minute; now somebody does.
    pub(super) fn wants_again(&self, key_id: &str) -> bool {
        self.wanted.entry_by_ref(key_id).or_insert(()).is_fresh()
    }

    pub(super) fn note_message(&self, mark: [u8; 32]) {
        self.messages.lock().add(mark);
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
        if let Some((read_at, known)) = self.inbox().seen.keys.get(key_id)
            && (0..KEYS_LIFE_MS).contains(&self.now().since_ms(read_at))
        {
            return Ok(Some(known));
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
        let keys = &self.inbox().seen.keys;
        match known {
            Some(known) => keys.insert(key_id.to_owned(), (self.now(), known.clone())),
            None => {
                keys.remove(key_id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(number: usize) -> [u8; 32] {
        let mut mark = [0; 32];
        mark[..8].copy_from_slice(&number.to_be_bytes());
        mark
    }

    #[test]
    fn the_last_messages_are_remembered_and_no_more_than_there_is_room_for() {
        let mut marks = Marks::default();
        for number in 0..3 * MESSAGES_MAX {
            assert!(!marks.has(&mark(number)));
            marks.add(mark(number));
            assert!(marks.has(&mark(number)));
            assert!(marks.has(&mark((number + 1).saturating_sub(MESSAGES_MAX / 2))));
            assert!(marks.young.len() + marks.old.len() <= MESSAGES_MAX);
        }
        assert!(!marks.has(&mark(0)));
    }
}
