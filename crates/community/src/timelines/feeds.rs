//! The memory behind home timelines: the newest ids of each author and tag that somebody here
//! follows, and who here follows whom.
//!
//! No row is ever written per follower. A list is loaded from SQL at its first use and kept up to
//! date by commits; what it does not reach, SQL answers. A list that is being loaded is marked
//! before the load's snapshot is taken, so that nothing committed meanwhile is missed.

use std::collections::HashSet;

use parking_lot::RwLock;
use weir_base::Id;
use weir_db::{Tx, Value, params};

use super::edges::{self, Edges};
use super::hash::Map;
use super::newest::{IDS_MAX, NewestIds, Source, newest_of_all};
use crate::Error;
use crate::accounts::Account;
use crate::federation::host_of;

/// Lists kept; when there are more, lists are dropped and loaded again when they are used.
const LISTS_MAX: usize = 200_000;
/// The same for the ids in all of them, 8 to 16 bytes each.
const HELD_MAX: usize = 4_000_000;
/// Servers of people who are followed here that are remembered.
const HOSTS_MAX: usize = 100_000;

/// A list that is to be loaded, and since when commits are noted in it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Missing {
    source: Source,
    mark: u64,
}

#[derive(Default)]
struct State {
    lists: Map<Source, NewestIds>,
    /// Ids in all of them.
    held: usize,
    /// Lists that were ever marked.
    marks: u64,
    edges: Edges,
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

impl State {
    /// Changes the list of `source`, if it is held.
    fn change(&mut self, source: Source, change: impl FnOnce(&mut NewestIds)) {
        let Some(list) = self.lists.get_mut(&source) else { return };
        let before = list.ids.len();
        change(list);
        self.held = self.held - before + list.ids.len();
    }

    /// Has commits be noted in the list of `source` from now on, if they are not yet.
    fn mark(&mut self, source: Source) -> Missing {
        let marks = &mut self.marks;
        let list = self.lists.entry(source).or_insert_with(|| {
            *marks += 1;
            NewestIds { mark: *marks, ..NewestIds::default() }
        });
        Missing { source, mark: list.mark }
    }

    /// Puts `newest`, as SQL knew it after the mark, into a list that was not dropped since.
    fn fill(&mut self, Missing { source, mark }: Missing, newest: Vec<Id>) {
        self.change(source, |list| {
            if list.mark == mark && !list.loaded {
                list.fill(newest);
            }
        });
    }

    fn insert(&mut self, source: Source, id: Id) {
        self.change(source, |list| list.insert(id));
        self.make_room(0, &[]);
    }

    /// Drops a quarter of the lists, but not those of `keep`, where there are too many with so many
    /// `more`, or too much is in them.
    fn make_room(&mut self, more: usize, keep: &[Source]) {
        let held_after = self.held + more * IDS_MAX;
        if self.lists.len() + more <= LISTS_MAX && held_after <= HELD_MAX {
            return;
        }
        let keep: HashSet<&Source> = keep.iter().collect();
        let dropped: Vec<Source> = self
            .lists
            .keys()
            .filter(|key| !keep.contains(key))
            .take(self.lists.len() / 4)
            .copied()
            .collect();
        dropped.iter().for_each(|key| self.drop_list(key));
        metrics::counter!("weir_community_feeds_dropped_total").increment(dropped.len() as u64);
    }

    fn show(&self) {
        metrics::gauge!("weir_community_feeds").set(self.lists.len() as f64);
        metrics::gauge!("weir_community_feeds_posts").set(self.held as f64);
    }

    fn drop_list(&mut self, source: &Source) {
        let dropped = self.lists.remove(source);
        self.held -= dropped.map_or(0, |list| list.ids.len());
    }

    /// Notes servers as followed, as far as there is room: others are as those that nobody follows.
    fn follow_hosts(&mut self, hosts: impl IntoIterator<Item = String>) {
        for host in hosts {
            if self.followed_hosts.len() < HOSTS_MAX || self.followed_hosts.contains(&host) {
                self.followed_hosts.insert(host);
            }
        }
        let held = metrics::gauge!("weir_community_followed_hosts");
        held.set(self.followed_hosts.len() as f64);
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
    /// How often somebody here began or ceased to follow. What is read anew is given what this was
    /// before its transaction began.
    pub(crate) fn changed(&self) -> u64 {
        self.0.read().edges.changed()
    }

    /// Drops everything that is held of posts and reads anew who here follows whom, as at the
    /// start. Meanwhile that stays as it was.
    ///
    /// # Errors
    /// Also when too much changed since there were `before` changes: it is to be done again.
    pub(crate) fn read_anew(&self, tx: &mut Tx, before: u64) -> Result<(), Error> {
        // What is left of it in the end takes a while to drop: not while others wait.
        let mut edges = Edges::read(tx)?;
        let hosts = hosts_of(
            tx,
            "SELECT t.uri, t.inbox, t.shared_inbox FROM accounts t WHERE t.domain <> ''
             AND t.id IN (SELECT f.target_id FROM follows f JOIN accounts a ON a.id = f.account_id
               WHERE a.domain = '')",
            &[],
        )?;
        let mut state = self.0.write();
        state.edges.replace(&mut edges, before)?;
        // Loads that are under way are thrown away.
        (state.lists, state.held) = (Map::default(), 0);
        state.follow_hosts(hosts);
        state.show();
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
            state.follow_hosts(hosts);
            state.edges.change(account, Source::Author(target), true);
        });
    }

    pub(crate) fn unfollowed(&self, tx: &mut Tx, account: Id, target: Id) {
        self.after(tx, move |state| state.edges.change(account, Source::Author(target), false));
    }

    /// Whether somebody here follows, or lately followed, somebody of `host`: its messages matter
    /// to people here.
    pub fn is_followed_host(&self, host: &str) -> bool {
        self.0.read().followed_hosts.contains(host)
    }

    /// `account` follows the tag from this commit on.
    pub fn tag_followed(&self, tx: &mut Tx, account: Id, tag: Id) {
        self.after(tx, move |state| state.edges.change(account, Source::Tag(tag), true));
    }

    /// `account` no longer follows the tag.
    pub fn tag_unfollowed(&self, tx: &mut Tx, account: Id, tag: Id) {
        self.after(tx, move |state| state.edges.change(account, Source::Tag(tag), false));
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
                state.change(source, |list| {
                    if let Ok(at) = list.ids.binary_search(&id) {
                        list.ids.remove(at);
                    }
                });
            }
        });
    }

    /// Those of this server who follow `source` and are of `here`. The smaller of the two sets is
    /// gone through.
    pub(crate) fn followers_here(&self, source: Source, here: &impl Here) -> Vec<Id> {
        let followers: Vec<Id> = {
            let state = self.0.read();
            let Some(followers) = state.edges.followers(source) else { return Vec::new() };
            if followers.len() > here.count() {
                return here.all().iter().copied().filter(|one| followers.contains(one)).collect();
            }
            followers.iter().copied().collect()
        };
        followers.into_iter().filter(|follower| here.has(*follower)).collect()
    }

    /// The hashtags `account` follows.
    pub fn followed_tags(&self, account: Id) -> Vec<Id> {
        self.0.read().edges.tags_of(account).collect()
    }

    /// Whose posts make up the home timeline of `account`: those it follows and its own.
    pub fn sources_of(&self, account: Id) -> Vec<Source> {
        let state = self.0.read();
        let own = std::iter::once(Source::Author(account));
        own.chain(state.edges.followed_by(account)).collect()
    }

    /// Drops what is held of `sources`: another node changed it. It is loaded again at its next
    /// use; a load that is under way is thrown away.
    pub(crate) fn forget(&self, sources: impl IntoIterator<Item = Source>) {
        let mut state = self.0.write();
        for source in sources {
            state.drop_list(&source);
        }
        state.show();
    }

    /// Reads anew whom `account` follows: another node changed it.
    ///
    /// # Errors
    /// As [`read_anew`](Self::read_anew).
    pub(crate) fn read_follows(&self, tx: &mut Tx, account: Id, before: u64) -> Result<(), Error> {
        let follows = edges::read_of(tx, account)?;
        let hosts = hosts_of(
            tx,
            "SELECT t.uri, t.inbox, t.shared_inbox FROM accounts t WHERE t.domain <> ''
             AND t.id IN (SELECT target_id FROM follows WHERE account_id = ?1)",
            params![account],
        )?;
        let mut state = self.0.write();
        state.follow_hosts(hosts);
        state.edges.replace_of(account, follows, before)
    }

    /// Marks those of `sources` that memory does not hold, so that commits are noted from now on,
    /// and tells which they are. They are to be loaded by [`load`](Self::load) in a transaction
    /// that begins after this call.
    pub(crate) fn mark_missing(&self, sources: &[Source]) -> Vec<Missing> {
        let missing = |state: &State| -> Vec<Source> {
            let loaded = |source: &Source| state.lists.get(source).is_some_and(|list| list.loaded);
            sources.iter().filter(|source| !loaded(source)).copied().collect()
        };
        if missing(&self.0.read()).is_empty() {
            return Vec::new();
        }
        let mut state = self.0.write();
        let missing = missing(&state);
        let new = missing.iter().filter(|source| !state.lists.contains_key(source)).count();
        state.make_room(new, sources);
        let missing = missing.into_iter().map(|source| state.mark(source)).collect();
        state.show();
        missing
    }

    /// Reads the newest ids of `missing` and puts them beside what commits noted meanwhile. A list
    /// that was dropped meanwhile, and is marked again by somebody else, is theirs to load: of what
    /// was committed between, this reading knows nothing.
    pub(crate) fn load(&self, tx: &mut Tx, missing: &[Missing]) -> Result<(), Error> {
        let sources: Vec<Source> = missing.iter().map(|missing| missing.source).collect();
        let mut found = newest_of_all(tx, &sources, IDS_MAX)?;
        let mut state = self.0.write();
        for missing in missing {
            state.fill(*missing, found.remove(&missing.source).unwrap_or_default());
        }
        state.make_room(0, &sources);
        state.show();
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

    const AUTHOR: Source = Source::Author(Id(1));

    /// What SQL knows that has these ids.
    fn known(ids: std::ops::Range<i64>) -> Vec<Id> {
        ids.rev().map(Id).take(IDS_MAX).collect()
    }

    /// The newest first.
    fn newest(feeds: &Feeds) -> Option<Vec<Id>> {
        feeds.merged(&[AUTHOR], Id::ZERO, Id::MAX, 20, false)
    }

    #[test]
    fn a_list_that_was_long_in_loading_says_only_what_it_knows_in_full() {
        let feeds = Feeds::default();
        let missing = feeds.mark_missing(&[AUTHOR]);
        let mut state = feeds.0.write();
        (1_001..2_001).for_each(|id| state.insert(AUTHOR, Id(id)));
        assert!(state.held <= 2 * IDS_MAX, "bounded though nothing was loaded yet");
        state.fill(missing[0], known(1..1_001));
        assert_eq!(state.held, state.lists[&AUTHOR].ids.len());
        drop(state);
        assert_eq!(newest(&feeds), Some((1_981..2_001).rev().map(Id).collect()));
        // Between what SQL knew and what was cut off nothing is claimed.
        assert_eq!(feeds.merged(&[AUTHOR], Id(900), Id(1_500), 20, false), None);
        feeds.forget([AUTHOR]);
        assert_eq!(feeds.0.read().held, 0);
    }

    #[test]
    fn what_was_read_before_a_list_was_dropped_is_not_put_into_the_next_one() {
        let feeds = Feeds::default();
        let early = feeds.mark_missing(&[AUTHOR]);
        // Another node posted 4, and told of it, after the first reading began.
        feeds.forget([AUTHOR]);
        let late = feeds.mark_missing(&[AUTHOR]);
        assert_eq!(feeds.mark_missing(&[AUTHOR])[0].mark, late[0].mark, "one list, two readers");
        feeds.0.write().fill(early[0], known(1..4));
        assert_eq!(newest(&feeds), None, "SQL is to be asked");
        feeds.0.write().fill(late[0], known(1..5));
        assert_eq!(newest(&feeds), Some(known(1..5)));
    }

    #[test]
    fn lists_are_dropped_before_they_hold_too_much_and_those_in_use_are_not() {
        let (feeds, author) = (Feeds::default(), |number: usize| Source::Author(Id(number as i64)));
        let mut state = feeds.0.write();
        let count = HELD_MAX / IDS_MAX;
        for number in 0..count {
            let missing = state.mark(author(number));
            state.fill(missing, known(0..IDS_MAX as i64));
        }
        assert_eq!((state.lists.len(), state.held), (count, count * IDS_MAX));
        drop(state);
        // What is missing is counted before it is there, and what is there not again.
        assert!(feeds.mark_missing(&[author(0), author(1)]).is_empty());
        feeds.mark_missing(&[author(0), author(count), author(count + 1)]);
        let state = feeds.0.read();
        assert_eq!(state.lists.len(), count - count / 4 + 2);
        assert!([0, count, count + 1].iter().all(|one| state.lists.contains_key(&author(*one))));
        assert_eq!(state.held, (count - count / 4) * IDS_MAX);
    }

    #[test]
    fn no_more_servers_are_remembered_than_there_is_room_for() {
        let feeds = Feeds::default();
        let mut state = feeds.0.write();
        state.follow_hosts((0..=HOSTS_MAX).map(|number| format!("{number}.example")));
        drop(state);
        assert!(feeds.is_followed_host("0.example"));
        assert!(!feeds.is_followed_host(&format!("{HOSTS_MAX}.example")));
    }

    #[test]
    fn of_followers_and_those_here_the_fewer_are_gone_through() {
        let feeds = Feeds::default();
        let (few, many, tag) = (Id(1), Id(2), Id(3));
        {
            let mut state = feeds.0.write();
            let mut follow = |by, source| state.edges.change(Id(by), source, true);
            (10..12).for_each(|by| follow(by, Source::Author(few)));
            for source in [Source::Author(many), Source::Tag(tag)] {
                (10..100_010).for_each(|by| follow(by, source));
            }
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
