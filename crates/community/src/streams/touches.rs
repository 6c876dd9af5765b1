//! Which posts and accounts have changed, for whoever keeps what they show up to date.
//!
//! A name costs a moment's lock when it changes, whether somebody watches it or not, and nothing is
//! queued: what is watched and has changed is a set of names, read anew by whoever watches.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;
use weir_base::Id;
use weir_db::Tx;

/// Changes remembered, for those who began to watch while they were reading.
const RECENT_MAX: usize = 16_384;

/// Something that is shown to many in the same form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Noun {
    /// A post or boost: its text, its counters, its poll, whether it is there.
    Post(Id),
    /// An account: its profile, its counters, whether it is there.
    Account(Id),
}

/// What has changed. Clones are the same.
#[derive(Clone, Default)]
pub struct Touches(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    /// Changes so far; the last of them are in `recent`.
    count: u64,
    recent: VecDeque<Noun>,
    watched: HashMap<Noun, usize>,
    changed: HashSet<Noun>,
}

impl Touches {
    pub(super) fn after(&self, tx: &mut Tx, what: Noun) {
        let touches = self.clone();
        tx.after_commit(move || touches.touch(what));
    }

    fn touch(&self, what: Noun) {
        let mut state = self.0.state.lock();
        state.count += 1;
        if state.recent.len() == RECENT_MAX {
            state.recent.pop_front();
        }
        state.recent.push_back(what);
        if state.watched.contains_key(&what) && state.changed.insert(what) {
            self.0.changed.notify_one();
        }
    }

    /// A moment: to be taken before reading what is going to be watched.
    pub fn now(&self) -> u64 {
        self.0.state.lock().count
    }

    /// Watches `nouns` from now on; each once more than before. Those that have changed since
    /// `moment` count as changed now.
    pub fn watch(&self, nouns: impl IntoIterator<Item = Noun>, moment: u64) {
        let mut state = self.0.state.lock();
        let nouns: HashSet<Noun> = nouns.into_iter().collect();
        for noun in &nouns {
            *state.watched.entry(*noun).or_default() += 1;
        }
        let missed = usize::try_from(state.count - moment).unwrap_or(usize::MAX);
        let since: Vec<Noun> = match missed > state.recent.len() {
            // Too long ago to know.
            true => nouns.into_iter().collect(),
            false => {
                let recent = state.recent.iter().rev().take(missed);
                recent.copied().filter(|noun| nouns.contains(noun)).collect()
            }
        };
        if !since.is_empty() {
            state.changed.extend(since);
            self.0.changed.notify_one();
        }
    }

    /// Watches them no longer.
    pub fn unwatch(&self, nouns: impl IntoIterator<Item = Noun>) {
        let mut state = self.0.state.lock();
        for noun in nouns {
            let Some(count) = state.watched.get_mut(&noun) else { continue };
            *count -= 1;
            if *count == 0 {
                state.watched.remove(&noun);
                state.changed.remove(&noun);
            }
        }
    }

    /// Waits for a change of what is watched.
    pub async fn wait(&self) {
        self.0.changed.notified().await;
    }

    /// What is watched and has changed since this was last asked.
    pub fn take(&self) -> Vec<Noun> {
        let mut changed: Vec<Noun> = self.0.state.lock().changed.drain().collect();
        changed.sort_unstable();
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Noun = Noun::Post(Id(1));
    const TWO: Noun = Noun::Account(Id(2));

    #[test]
    fn only_what_is_watched_is_told_and_once() {
        let touches = Touches::default();
        touches.watch([ONE], touches.now());
        touches.touch(ONE);
        touches.touch(ONE);
        touches.touch(TWO);
        assert_eq!(touches.take(), [ONE]);
        assert_eq!(touches.take(), []);
        touches.unwatch([ONE]);
        touches.touch(ONE);
        assert_eq!(touches.take(), []);
    }

    #[test]
    fn what_changed_while_it_was_read_counts_as_changed() {
        let touches = Touches::default();
        touches.touch(ONE);
        let moment = touches.now();
        touches.touch(TWO);
        touches.watch([ONE, TWO], moment);
        assert_eq!(touches.take(), [TWO]);
    }

    #[test]
    fn what_may_have_changed_too_long_ago_to_know_counts_as_changed() {
        let touches = Touches::default();
        let moment = touches.now();
        for _ in 0..=RECENT_MAX {
            touches.touch(TWO);
        }
        touches.watch([ONE], moment);
        assert_eq!(touches.take(), [ONE]);
    }
}
