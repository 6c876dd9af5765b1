//! The memory behind home timelines: the newest ids of each author and tag that somebody here
//! follows, and who here follows whom.
//!
//! No row is ever written per follower. A list is loaded from SQL at its first use and kept up to
//! date by commits; what it does not reach, SQL answers. A list that is being loaded is marked
//! before the load's snapshot is taken, so that nothing committed meanwhile is missed.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

use parking_lot::RwLock;
use weir_base::Id;
use weir_db::{Dialect, Tx, Value, params};

use crate::Error;
use crate::accounts::Account;
use crate::federation::host_of;

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
    /// In ascending order: what is new comes at the end.
    ids: Vec<Id>,
    /// Below this id the list may lack posts; zero when it holds all there are.
    floor: Id,
    loaded: bool,
}

impl NewestIds {
    fn insert(&mut self, id: Id) {
        if let Err(at) = self.ids.binary_search(&id) {
            self.ids.insert(at, id);
        }
    }

    /// The ids between the bounds, both excluded.
    fn between(&self, above: Id, below: Id) -> &[Id] {
        let from = self.ids.partition_point(|id| *id <= above);
        let to = match self.ids.last() {
            Some(newest) if *newest >= below => self.ids.partition_point(|id| *id < below),
            _ => self.ids.len(),
        };
        self.ids.get(from..to).unwrap_or_default()
    }
}

/// Hashes ids, which are given here and differ in their low and middle bits: a home timeline looks
/// thousands of them up.
#[derive(Default, Clone)]
struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, number: u64) {
        // The golden ratio of 2^64; the product's upper half depends on all of the number.
        let product = u128::from(self.0 ^ number) * 0x9e37_79b9_7f4a_7c15;
        self.0 = (product as u64) ^ (product >> 64) as u64;
    }

    fn write_i64(&mut self, number: i64) {
        self.write_u64(number as u64);
    }

    fn write_isize(&mut self, number: isize) {
        self.write_u64(number as u64 ^ 0x5bd1_e995);
    }
}

type Map<K, V> = HashMap<K, V, BuildHasherDefault<IdHasher>>;
type Ids = HashSet<Id, BuildHasherDefault<IdHasher>>;

#[derive(Default)]
struct State {
    lists: Map<Source, NewestIds>,
    followers: Map<Id, Ids>,
    following: Map<Id, Ids>,
    tag_followers: Map<Id, Ids>,
    followed_tags: Map<Id, Ids>,
    /// Servers of those whom somebody here follows, or has since the start: what their messages
    /// come from and what they are sent to, which need not be the domain in their names.
    followed_hosts: HashSet<String>,
}

/// The hosts of all addresses that `sql` gives, three in a row.
fn hosts_of(tx: &mut Tx, sql: &str, params: &[Value<'_>]) -> Result<HashSet<String>, Error> {
    let mut hosts = HashSet::new();
    tx.query(sql, params, |row| {
        for column in 0..3 {
            let address: String = row.get(column)?;
            if let Some(host) = host_of(&address).filter(|host| !hosts.contains(*host)) {
                hosts.insert(host.to_owned());
            }
        }
        Ok(())
    })?;
    Ok(hosts)
}

/// Puts `now` in the place of what `account` follows, in both directions.
fn follow_these(account: Id, now: Vec<Id>, follows: &mut Map<Id, Ids>, back: &mut Map<Id, Ids>) {
    let now: Ids = now.into_iter().collect();
    for target in &now {
        back.entry(*target).or_default().insert(account);
    }
    let before = follows.insert(account, now.clone()).unwrap_or_default();
    for gone in before.difference(&now) {
        part(back, *gone, account);
    }
}

/// Takes `gone` out of the set of `key`, which is not kept when it is empty: else one would be left
/// of everybody who ever followed or was followed.
fn part(of: &mut Map<Id, Ids>, key: Id, gone: Id) {
    if let Some(ids) = of.get_mut(&key) {
        ids.remove(&gone);
        if ids.is_empty() {
            of.remove(&key);
        }
    }
}

impl State {
    fn followers_of(&self, source: Source) -> Option<&Ids> {
        match source {
            Source::Author(author) => self.followers.get(&author),
            Source::Tag(tag) => self.tag_followers.get(&tag),
        }
    }
}

/// Some people of this server.
pub(crate) trait Here {
    /// How many they are at most.
    fn count(&self) -> usize;
    /// Whether `account` is one of them.
    fn has(&self, account: Id) -> bool;
    /// All of them.
    fn all(&self) -> &[Id];
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
        let hosts = hosts_of(
            tx,
            "SELECT t.uri, t.inbox, t.shared_inbox FROM accounts t WHERE t.domain <> ''
             AND t.id IN (SELECT f.target_id FROM follows f JOIN accounts a ON a.id = f.account_id
               WHERE a.domain = '')",
            &[],
        )?;
        let mut state = self.0.write();
        state.followed_hosts.extend(hosts);
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
    pub(crate) fn followed(&self, tx: &mut Tx, account: Id, target: &Account) {
        let addresses = [&target.uri, &target.inbox, &target.shared_inbox].into_iter();
        let hosts: Vec<String> = addresses
            .filter(|_| !target.is_local())
            .filter_map(|address| host_of(address).map(str::to_owned))
            .collect();
        let target = target.id;
        self.after(tx, move |state| {
            state.followed_hosts.extend(hosts);
            state.followers.entry(target).or_default().insert(account);
            state.following.entry(account).or_default().insert(target);
        });
    }

    pub(crate) fn unfollowed(&self, tx: &mut Tx, account: Id, target: Id) {
        self.after(tx, move |state| {
            part(&mut state.followers, target, account);
            part(&mut state.following, account, target);
        });
    }

    /// Whether somebody here follows, or lately followed, somebody of `host`: its messages matter
    /// to people here.
    pub fn is_followed_host(&self, host: &str) -> bool {
        self.0.read().followed_hosts.contains(host)
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
            part(&mut state.tag_followers, tag, account);
            part(&mut state.followed_tags, account, tag);
        });
    }

    pub(crate) fn posted(&self, tx: &mut Tx, author: Id, id: Id) {
        self.after(tx, move |state| state.insert(Source::Author(author), id));
    }

    pub(crate) fn tagged(&self, tx: &mut Tx, tag: Id, id: Id) {
        self.after(tx, move |state| state.insert(Source::Tag(tag), id));
    }

    pub(crate) fn removed(&self, tx: &mut Tx, author: Id, id: Id, tags: &[Id]) {
        let tags = tags.iter().map(|tag| Source::Tag(*tag));
        self.taken_out(tx, id, tags.chain([Source::Author(author)]).collect());
    }

    /// A post was edited and has these hashtags no longer.
    pub(crate) fn untagged(&self, tx: &mut Tx, id: Id, tags: &[Id]) {
        self.taken_out(tx, id, tags.iter().map(|tag| Source::Tag(*tag)).collect());
    }

    fn taken_out(&self, tx: &mut Tx, id: Id, sources: Vec<Source>) {
        self.after(tx, move |state| {
            for source in sources {
                if let Some(list) = state.lists.get_mut(&source)
                    && let Ok(at) = list.ids.binary_search(&id)
                {
                    list.ids.remove(at);
                }
            }
        });
    }

    /// Those of this server who follow `source` and are of `here`. The smaller of the two sets is
    /// gone through.
    pub(crate) fn followers_here(&self, source: Source, here: &impl Here) -> Vec<Id> {
        let followers: Vec<Id> = {
            let state = self.0.read();
            let Some(followers) = state.followers_of(source) else { return Vec::new() };
            if followers.len() > here.count() {
                return here.all().iter().copied().filter(|one| followers.contains(one)).collect();
            }
            followers.iter().copied().collect()
        };
        followers.into_iter().filter(|follower| here.has(*follower)).collect()
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

    /// Drops what is held of `sources`: another node changed it. It is loaded again at its next
    /// use; a load that is under way is thrown away.
    pub(crate) fn forget(&self, sources: impl IntoIterator<Item = Source>) {
        let mut state = self.0.write();
        for source in sources {
            state.lists.remove(&source);
        }
    }

    /// Drops everything and reads anew who here follows whom: what other nodes changed was missed.
    pub(crate) fn read_anew(&self, tx: &mut Tx) -> Result<(), Error> {
        *self.0.write() = State::default();
        self.load_edges(tx)
    }

    /// Reads anew whom `account` follows: another node changed it.
    pub(crate) fn read_follows(&self, tx: &mut Tx, account: Id) -> Result<(), Error> {
        let follows: Vec<Id> =
            tx.column("SELECT target_id FROM follows WHERE account_id = ?1", params![account])?;
        let tags: Vec<Id> =
            tx.column("SELECT tag_id FROM followed_tags WHERE account_id = ?1", params![account])?;
        let hosts = hosts_of(
            tx,
            "SELECT t.uri, t.inbox, t.shared_inbox FROM accounts t WHERE t.domain <> ''
             AND t.id IN (SELECT target_id FROM follows WHERE account_id = ?1)",
            params![account],
        )?;
        let mut state = self.0.write();
        state.followed_hosts.extend(hosts);
        let State { followers, following, tag_followers, followed_tags, .. } = &mut *state;
        follow_these(account, follows, following, followers);
        follow_these(account, tags, followed_tags, tag_followers);
        Ok(())
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
            list.ids.sort_unstable();
            list.ids.dedup();
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
        // In ascending order; a post may be in several lists.
        let mut found: Vec<Id> = Vec::with_capacity(limit + 1);
        // What lies at or below the highest floor cannot be told from memory alone.
        let mut floor = Id::ZERO;
        for source in sources {
            let list = state.lists.get(source).filter(|list| list.loaded)?;
            floor = floor.max(list.floor);
            if above >= below {
                continue;
            }
            if ascending {
                found.extend(list.between(above, below).iter().take(limit));
                continue;
            }
            // Only what is above the least of enough can be among the newest.
            let least = found.first().filter(|_| found.len() >= limit).copied();
            let from = least.map_or(above, |least| above.max(least));
            if list.ids.last().is_none_or(|newest| *newest <= from) {
                continue;
            }
            for id in list.between(from, below).iter().rev().take(limit) {
                if let Err(at) = found.binary_search(id) {
                    found.insert(at, *id);
                }
            }
            found.drain(..found.len().saturating_sub(limit));
        }
        if ascending {
            found.sort_unstable();
            found.dedup();
            found.truncate(limit);
            let reaches = floor == Id::ZERO || above >= floor;
            return reaches.then_some(found);
        }
        let lowest = found.first().copied().unwrap_or(Id::ZERO);
        let reaches =
            floor == Id::ZERO || (found.len() >= limit && lowest > floor) || above >= floor;
        found.reverse();
        reaches.then_some(found)
    }
}

impl State {
    fn insert(&mut self, source: Source, id: Id) {
        let Some(list) = self.lists.get_mut(&source) else { return };
        list.insert(id);
        if list.loaded && list.ids.len() > IDS_MAX * 2 {
            // Keep the newest; what is cut off, SQL answers from now on.
            let cut = list.ids.drain(..list.ids.len() - IDS_MAX).next_back();
            list.floor = list.floor.max(cut.unwrap_or(Id::ZERO));
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

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    struct These {
        ids: Vec<Id>,
        /// How often somebody was looked up, and all were listed.
        asked: Cell<(usize, usize)>,
    }

    impl Here for These {
        fn count(&self) -> usize {
            self.ids.len()
        }

        fn has(&self, account: Id) -> bool {
            let (looked_up, listed) = self.asked.get();
            self.asked.set((looked_up + 1, listed));
            self.ids.contains(&account)
        }

        fn all(&self) -> &[Id] {
            let (looked_up, listed) = self.asked.get();
            self.asked.set((looked_up, listed + 1));
            &self.ids
        }
    }

    #[test]
    fn of_followers_and_those_here_the_fewer_are_gone_through() {
        let feeds = Feeds::default();
        let (few, many, tag) = (Id(1), Id(2), Id(3));
        {
            let mut state = feeds.0.write();
            state.followers.insert(few, (10..12).map(Id).collect());
            state.followers.insert(many, (10..100_010).map(Id).collect());
            state.tag_followers.insert(tag, (10..100_010).map(Id).collect());
        }
        let here = These { ids: [4, 11, 12, 13].map(Id).into(), asked: Cell::default() };
        assert_eq!(feeds.followers_here(Source::Author(few), &here), [Id(11)]);
        assert_eq!(here.asked.get(), (2, 0));
        for many in [Source::Author(many), Source::Tag(tag)] {
            assert_eq!(feeds.followers_here(many, &here), [11, 12, 13].map(Id));
        }
        assert_eq!(here.asked.get(), (2, 2), "nobody else was looked up");
        assert!(feeds.followers_here(Source::Author(Id(9)), &here).is_empty());
    }
}
