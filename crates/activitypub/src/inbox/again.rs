//! Messages whose keys could not be had and which wait for their next try, an hour and more towards
//! the end: once somebody else's message has brought the key they are called back.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use moka::sync::Cache;
use weir_base::{Id, MIB};

use super::meet::Name;

/// What they take in memory, about, in bytes. Others wait for their time.
const BYTES_MAX: u64 = 8 * MIB as u64;
/// What a key takes besides its texts, and a message, about, in bytes.
const KEY_BYTES: usize = 256;
const MESSAGE_BYTES: usize = 24;
/// Those that are called back for one key.
const OF_KEY_MAX: usize = 500;
/// Longer than any of them waits: none is asked for after some three hours.
const LIFE: Duration = Duration::from_secs(3 * 3_600);

/// See the module. Each is called once for each time that its key could not be had, and not before
/// the key is there, so that a message costs no more looks than it has tries.
pub(super) struct Again(Cache<Name, Arc<BTreeSet<Id>>>);

impl Default for Again {
    fn default() -> Self {
        let bytes = |(key_id, actor): &Name, messages: &Arc<BTreeSet<Id>>| {
            let texts = key_id.len() + actor.len();
            let bytes = KEY_BYTES + texts + MESSAGE_BYTES * messages.len();
            u32::try_from(bytes).unwrap_or(u32::MAX)
        };
        Self(Cache::builder().weigher(bytes).max_capacity(BYTES_MAX).time_to_live(LIFE).build())
    }
}

impl Again {
    /// What they take now, about, in bytes.
    pub(super) fn held_bytes(&self) -> u64 {
        self.0.run_pending_tasks();
        self.0.weighted_size()
    }

    /// `message` waits for its next try, as its key could not be had.
    pub(super) fn add(&self, name: &Name, message: Id) {
        self.0.entry_by_ref(name).and_upsert_with(|known| {
            let mut messages = known.map(moka::Entry::into_value).unwrap_or_default();
            if messages.len() < OF_KEY_MAX {
                Arc::make_mut(&mut messages).insert(message);
            }
            messages
        });
    }

    /// The key is here: those that wait for it, which are forgotten.
    pub(super) fn take(&self, name: &Name) -> Arc<BTreeSet<Id>> {
        self.0.remove(name).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(number: usize) -> Name {
        let actor = format!("https://a.example/users/{number}");
        (format!("{actor}#main-key"), actor)
    }

    #[test]
    fn those_of_a_key_are_called_once_and_no_more_than_so_many() {
        let again = Again::default();
        let many = OF_KEY_MAX as i64 + 10;
        (0..many).chain(0..many).for_each(|message| again.add(&name(1), Id(message)));
        again.add(&name(2), Id(7));
        assert_eq!(again.take(&name(1)).len(), OF_KEY_MAX);
        assert!(again.take(&name(1)).is_empty(), "they are on their way");
        assert_eq!(again.take(&name(2)).iter().collect::<Vec<_>>(), [&Id(7)]);
    }

    #[test]
    fn however_many_keys_are_named_those_that_wait_take_no_more_memory() {
        let again = Again::default();
        for number in 0..50_000 {
            again.add(&name(number), Id(1));
        }
        again.0.run_pending_tasks();
        assert!(again.0.weighted_size() <= BYTES_MAX);
        assert!((1..50_000).contains(&again.0.entry_count()));
    }
}
