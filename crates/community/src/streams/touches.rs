//! Which posts and accounts have changed, for whoever keeps what they show up to date.
//!
//! A name costs a moment's lock when it changes, whether somebody watches it or not, and nothing is
//! queued: what is watched and has changed is a set of names, read anew by whoever watches. Where
//! there are other nodes, names are gathered for them in the same way.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use weir_base::Id;
use weir_db::Tx;

/// Changes remembered, for those who began to watch while they were reading.
const RECENT_MAX: usize = 16_384;
/// Names gathered for the other nodes; of more they learn only that there were many.
const OUTWARD_MAX: usize = 4_096;

/// Something that is shown to many in the same form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Noun {
    /// A post or boost: its text, its counters, its poll, whether it is there.
    Post(Id),
    /// An account: its profile, its counters, whether it is there.
    Account(Id),
    /// Whether an account is in chat, at this node.
    Chatting(Id),
}

/// What has changed. Clones are the same.
#[derive(Clone, Default)]
pub struct Touches(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Notify,
    gathered: Notify,
}

#[derive(Default)]
struct State {
    /// Changes so far; the last of them are in `recent`.
    count: u64,
    recent: VecDeque<Noun>,
    watched: HashMap<Noun, usize>,
    changed: HashSet<Noun>,
    /// What other nodes are to be told; none where there are no others.
    outward: Option<Outward>,
}

/// What has changed here, for the other nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outward {
    /// These.
    Nouns(HashSet<Noun>),
    /// More than are named.
    Many,
}

impl Touches {
    pub(super) fn after(&self, tx: &mut Tx, what: Noun) {
        let touches = self.clone();
        tx.after_commit(move || touches.touch(what));
    }

    fn touch(&self, what: Noun) {
        let mut state = self.0.state.lock();
        if let Some(outward) = &mut state.outward {
            match outward {
                Outward::Nouns(nouns) if nouns.len() < OUTWARD_MAX => {
                    nouns.insert(what);
                }
                outward => *outward = Outward::Many,
            }
            self.0.gathered.notify_one();
        }
        self.heard(&mut state, what);
    }

    /// These have changed, of which the other nodes are not told.
    pub(super) fn note(&self, nouns: impl IntoIterator<Item = Noun>) {
        let mut state = self.0.state.lock();
        nouns.into_iter().for_each(|noun| self.heard(&mut state, noun));
    }

    /// Anything may have changed: it was missed.
    pub(super) fn missed(&self) {
        let mut state = self.0.state.lock();
        // Whoever is reading now can't know either.
        state.count += RECENT_MAX as u64 + 1;
        state.recent.clear();
        state.changed = state.watched.keys().copied().collect();
        self.0.changed.notify_one();
    }

    /// From now on what changes here is gathered for other nodes too.
    pub(super) fn gather(&self) {
        self.0.state.lock().outward.get_or_insert_with(|| Outward::Nouns(HashSet::new()));
    }

    /// Waits for something that other nodes are to be told, and takes it. Dropping the future loses
    /// nothing.
    pub(super) async fn outward(&self) -> Outward {
        loop {
            if let Some(outward) = self.take_outward() {
                return outward;
            }
            self.0.gathered.notified().await;
        }
    }

    /// What other nodes are to be told now, if anything.
    pub(super) fn take_outward(&self) -> Option<Outward> {
        let mut state = self.0.state.lock();
        let none = || Outward::Nouns(HashSet::new());
        let outward = state.outward.as_mut().filter(|outward| **outward != none())?;
        Some(std::mem::replace(outward, none()))
    }

    fn heard(&self, state: &mut State, what: Noun) {
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
    /// `moment` count as changed now: true where there are any.
    pub fn watch(&self, nouns: impl IntoIterator<Item = Noun>, moment: u64) -> bool {
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
        let any = !since.is_empty();
        if any {
            state.changed.extend(since);
            self.0.changed.notify_one();
        }
        any
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
        assert!(touches.watch([ONE, TWO], moment));
        assert_eq!(touches.take(), [TWO]);
        assert!(!touches.watch([ONE, TWO], touches.now()));
    }

    #[test]
    fn what_other_nodes_are_to_be_told_is_gathered_whether_it_is_watched_here_or_not() {
        let touches = Touches::default();
        touches.touch(ONE);
        touches.gather();
        assert_eq!(touches.take_outward(), None);
        touches.touch(TWO);
        touches.touch(TWO);
        touches.note([ONE]);
        let told = Outward::Nouns(HashSet::from([TWO]));
        assert_eq!(touches.take_outward(), Some(told));
        assert_eq!(touches.take_outward(), None);
        (0..=OUTWARD_MAX as i64).for_each(|id| touches.touch(Noun::Post(Id(id))));
        assert_eq!(touches.take_outward(), Some(Outward::Many));
    }

    #[test]
    fn after_a_loss_all_that_is_watched_counts_as_changed_and_what_is_being_read_too() {
        let touches = Touches::default();
        touches.watch([ONE], touches.now());
        let moment = touches.now();
        touches.missed();
        assert_eq!(touches.take(), [ONE]);
        touches.watch([TWO], moment);
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
