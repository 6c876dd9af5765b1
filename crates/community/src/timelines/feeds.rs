//! The memory behind home timelines: the newest ids of each author and tag that somebody here
//! follows, and who here follows whom.
//!
//! No row is ever written per follower. A list is loaded from SQL at its first use and kept up to
//! date by commits; what it does not reach, SQL answers. A list that is being loaded is marked
//! before the load's snapshot is taken, so that nothing committed meanwhile is missed.

use std::collections::{BTreeSet, HashMap, HashSet};

use parking_lot::RwLock;
use weir_base::Id;
use weir_db::{Dialect, Tx, Value};

use crate::Error;

/// Newest ids kept of one author or tag.
const IDS_MAX: usize = 60;
/// Lists kept; when there are more, lists are dropped and loaded again when they are used.
const LISTS_MAX: usize = 200_000;

/// Whose posts a list holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Source {
    /// What an account posted and boosted.
    Author(Id),
    /// Public posts with a hashtag.
    Tag(Id),
}

impl Source {
    /// The account, if it is one's.
    pub(super) fn author(&self) -> Option<Id> {
        match self {
            Self::Author(id) => Some(*id),
            Self::Tag(_) => None,
        }
    }
}

#[derive(Default)]
struct NewestIds {
    ids: BTreeSet<Id>,
    /// Below this id the list may lack posts; zero when it holds all there are.
    floor: Id,
    loaded: bool,
}

#[derive(Default)]
struct State {
    lists: HashMap<Source, NewestIds>,
    followers: HashMap<Id, HashSet<Id>>,
    following: HashMap<Id, HashSet<Id>>,
    tag_followers: HashMap<Id, HashSet<Id>>,
    followed_tags: HashMap<Id, HashSet<Id>>,
}

/// The memory; see the module.
#[derive(Default, Clone)]
pub struct Feeds(std::sync::Arc<RwLock<State>>);

impl Feeds {
    /// Reads who here follows whom.
    pub(crate) fn load_edges(&self, tx: &mut Tx) -> Result<(), Error> {
        let pair = |row: &weir_db::Row<'_>| Ok((row.get::<Id>(0)?, row.get::<Id>(1)?));
        let follows = tx.query(
            "SELECT f.account_id, f.target_id FROM follows f
             JOIN accounts a ON a.id = f.account_id WHERE a.domain = ''",
            &[],
            pair,
        )?;
        let tags = tx.query("SELECT account_id, tag_id FROM followed_tags", &[], pair)?;
        let mut state = self.0.write();
        for (account, target) in follows {
            state.followers.entry(target).or_default().insert(account);
            state.following.entry(account).or_default().insert(target);
        }
        for (account, tag) in tags {
            state.tag_followers.entry(tag).or_default().insert(account);
            state.followed_tags.entry(account).or_default().insert(tag);
        }
        metrics::gauge!("weir_community_follow_edges").set(state.followers.len() as f64);
        Ok(())
    }

    fn after(&self, tx: &mut Tx, change: impl FnOnce(&mut State) + Send + 'static) {
        let state = self.0.clone();
        tx.after_commit(move || change(&mut state.write()));
    }

    /// `account` follows `target` from this commit on. Kept for local followers only; for others
    /// it costs a few bytes until the next start.
    pub(crate) fn followed(&self, tx: &mut Tx, account: Id, target: Id) {
        self.after(tx, move |state| {
            state.followers.entry(target).or_default().insert(account);
            state.following.entry(account).or_default().insert(target);
        });
    }

    pub(crate) fn unfollowed(&self, tx: &mut Tx, account: Id, target: Id) {
        self.after(tx, move |state| {
            if let Some(followers) = state.followers.get_mut(&target) {
                followers.remove(&account);
            }
            if let Some(following) = state.following.get_mut(&account) {
                following.remove(&target);
            }
        });
    }

    /// `account` follows the tag from this commit on.
    pub fn tag_followed(&self, tx: &mut Tx, account: Id, tag: Id) {
        self.after(tx, move |state| {
            state.tag_followers.entry(tag).or_default().insert(account);
            state.followed_tags.entry(account).or_default().insert(tag);
        });
    }

    /// `account` no longer follows the tag.
    pub fn tag_unfollowed(&self, tx: &mut Tx, account: Id, tag: Id) {
        self.after(tx, move |state| {
            if let Some(followers) = state.tag_followers.get_mut(&tag) {
                followers.remove(&account);
            }
            if let Some(tags) = state.followed_tags.get_mut(&account) {
                tags.remove(&tag);
            }
        });
    }

    pub(crate) fn posted(&self, tx: &mut Tx, author: Id, id: Id) {
        self.after(tx, move |state| state.insert(Source::Author(author), id));
    }

    pub(crate) fn tagged(&self, tx: &mut Tx, tag: Id, id: Id) {
        self.after(tx, move |state| state.insert(Source::Tag(tag), id));
    }

    pub(crate) fn removed(&self, tx: &mut Tx, author: Id, id: Id, tags: &[Id]) {
        let tags = tags.to_vec();
        self.after(tx, move |state| {
            let sources = tags.into_iter().map(Source::Tag).chain([Source::Author(author)]);
            for source in sources {
                if let Some(list) = state.lists.get_mut(&source) {
                    list.ids.remove(&id);
                }
            }
        });
    }

    /// The people here who follow `author`.
    pub fn local_followers(&self, author: Id) -> Vec<Id> {
        self.0
            .read()
            .followers
            .get(&author)
            .map(|set| set.iter().copied().collect())
            .unwrap_or_default()
    }

    /// The people here who follow the tag.
    pub fn tag_followers(&self, tag: Id) -> Vec<Id> {
        self.0
            .read()
            .tag_followers
            .get(&tag)
            .map(|set| set.iter().copied().collect())
            .unwrap_or_default()
    }

    /// The hashtags `account` follows.
    pub fn followed_tags(&self, account: Id) -> Vec<Id> {
        let state = self.0.read();
        state
            .followed_tags
            .get(&account)
            .map(|set| set.iter().copied().collect())
            .unwrap_or_default()
    }

    /// Whose posts make up the home timeline of `account`: those it follows and its own.
    pub fn sources_of(&self, account: Id) -> Vec<Source> {
        let state = self.0.read();
        let authors = state.following.get(&account).into_iter().flatten();
        let tags = state.followed_tags.get(&account).into_iter().flatten();
        let own = std::iter::once(Source::Author(account));
        own.chain(authors.map(|id| Source::Author(*id)))
            .chain(tags.map(|id| Source::Tag(*id)))
            .collect()
    }

    /// Marks those of `sources` that memory does not hold, so that commits are noted from now on,
    /// and tells which they are. They are to be loaded by [`load`](Self::load) in a transaction
    /// that begins after this call.
    pub(crate) fn mark_missing(&self, sources: &[Source]) -> Vec<Source> {
        let missing = |state: &State| -> Vec<Source> {
            let loaded = |source: &Source| state.lists.get(source).is_some_and(|list| list.loaded);
            sources.iter().filter(|source| !loaded(source)).copied().collect()
        };
        if missing(&self.0.read()).is_empty() {
            return Vec::new();
        }
        let mut state = self.0.write();
        if state.lists.len() + sources.len() > LISTS_MAX {
            let keep: HashSet<&Source> = sources.iter().collect();
            let drop_count = state.lists.len() / 4;
            let dropped: Vec<Source> = state
                .lists
                .keys()
                .filter(|key| !keep.contains(key))
                .take(drop_count)
                .copied()
                .collect();
            dropped.iter().for_each(|key| {
                state.lists.remove(key);
            });
            metrics::counter!("weir_community_feeds_dropped_total").increment(dropped.len() as u64);
        }
        let missing = missing(&state);
        for source in &missing {
            state.lists.entry(*source).or_default();
        }
        metrics::gauge!("weir_community_feeds").set(state.lists.len() as f64);
        missing
    }

    /// Reads the newest ids of `sources` and puts them beside what commits noted meanwhile.
    pub(crate) fn load(&self, tx: &mut Tx, sources: &[Source]) -> Result<(), Error> {
        let found = newest_of_all(tx, sources, IDS_MAX)?;
        let mut state = self.0.write();
        for (source, ids) in found {
            let Some(list) = state.lists.get_mut(&source) else { continue };
            let oldest = ids.last().copied().unwrap_or(Id::ZERO);
            list.floor = if ids.len() < IDS_MAX { Id::ZERO } else { oldest };
            list.ids.extend(ids);
            list.loaded = true;
        }
        Ok(())
    }

    /// The ids of `sources` between the bounds, merged: from the top down (or, `ascending`, from
    /// the bottom up), at most `limit`. None when memory does not reach that far.
    pub(crate) fn merged(
        &self,
        sources: &[Source],
        above: Id,
        below: Id,
        limit: usize,
        ascending: bool,
    ) -> Option<Vec<Id>> {
        let state = self.0.read();
        let mut found: BTreeSet<Id> = BTreeSet::new();
        // What lies at or below the highest floor cannot be told from memory alone.
        let mut floor = Id::ZERO;
        for source in sources {
            let list = state.lists.get(source).filter(|list| list.loaded)?;
            floor = floor.max(list.floor);
            if above >= below {
                continue;
            }
            let bounds = (std::ops::Bound::Excluded(above), std::ops::Bound::Excluded(below));
            let range = list.ids.range(bounds);
            if ascending {
                found.extend(range.take(limit));
            } else {
                for id in range.rev().take(limit) {
                    let full = found.len() >= limit;
                    if full && found.first().is_some_and(|least| id < least) {
                        break;
                    }
                    found.insert(*id);
                    if found.len() > limit {
                        found.pop_first();
                    }
                }
            }
        }
        if ascending {
            let reaches = floor == Id::ZERO || above >= floor;
            return reaches.then(|| found.into_iter().take(limit).collect());
        }
        let lowest = found.first().copied().unwrap_or(Id::ZERO);
        let reaches =
            floor == Id::ZERO || (found.len() >= limit && lowest > floor) || above >= floor;
        reaches.then(|| found.into_iter().rev().collect())
    }
}

impl State {
    fn insert(&mut self, source: Source, id: Id) {
        let Some(list) = self.lists.get_mut(&source) else { return };
        list.ids.insert(id);
        if list.loaded && list.ids.len() > IDS_MAX * 2 {
            // Keep the newest; what is cut off, SQL answers from now on.
            let cut: Vec<Id> = list.ids.iter().take(list.ids.len() - IDS_MAX).copied().collect();
            cut.iter().for_each(|id| {
                list.ids.remove(id);
            });
            list.floor = list.floor.max(cut.last().copied().unwrap_or(Id::ZERO));
        }
    }
}

/// The newest ids of each of `sources`, from SQL. PostgreSQL answers all authors in one query,
/// for a query there costs a round trip; SQLite, which knows no lateral join, one by one.
fn newest_of_all(
    tx: &mut Tx,
    sources: &[Source],
    limit: usize,
) -> Result<Vec<(Source, Vec<Id>)>, Error> {
    let mut found: HashMap<Source, Vec<Id>> = HashMap::new();
    let mut one_by_one: Vec<Source> = sources.to_vec();
    if tx.dialect() == Dialect::Postgres {
        let authors: Vec<Id> = sources.iter().filter_map(Source::author).collect();
        one_by_one.retain(|source| source.author().is_none());
        found.extend(authors.iter().map(|id| (Source::Author(*id), Vec::new())));
        let pairs: Vec<(Id, Id)> = tx.query(
            "SELECT a.id, s.id FROM accounts a CROSS JOIN LATERAL (
               SELECT id FROM statuses WHERE account_id = a.id ORDER BY id DESC LIMIT ?2) s
             WHERE a.id IN ids(?1) ORDER BY s.id DESC",
            &[weir_db::ids(&authors), Value::Int(limit as i64)],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )?;
        for (author, id) in pairs {
            found.entry(Source::Author(author)).or_default().push(id);
        }
    }
    for source in one_by_one {
        found.insert(source, newest(tx, source, Id::ZERO, Id::MAX, limit, false)?);
    }
    Ok(found.into_iter().collect())
}

/// The ids of one source between the bounds, from SQL.
pub(super) fn newest(
    tx: &mut Tx,
    source: Source,
    above: Id,
    below: Id,
    limit: usize,
    ascending: bool,
) -> Result<Vec<Id>, Error> {
    let order = if ascending { "ASC" } else { "DESC" };
    let (sql, key) = match source {
        Source::Author(id) => (
            format!(
                "SELECT id FROM statuses WHERE account_id = ?1 AND id > ?2 AND id < ?3
                 ORDER BY id {order} LIMIT ?4"
            ),
            id,
        ),
        Source::Tag(id) => (
            format!(
                "SELECT s.id FROM status_tags t JOIN statuses s ON s.id = t.status_id
                 WHERE t.tag_id = ?1 AND t.status_id > ?2 AND t.status_id < ?3
                   AND s.visibility = 0 ORDER BY t.status_id {order} LIMIT ?4"
            ),
            id,
        ),
    };
    let values =
        [Value::Int(key.0), Value::Int(above.0), Value::Int(below.0), Value::Int(limit as i64)];
    Ok(tx.column(&sql, &values)?)
}
