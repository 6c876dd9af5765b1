//! Who here follows whom, and which hashtags.
//!
//! It is read from SQL, and kept up to date by commits. What commits change while it is read anew
//! is remembered, and done once more to what was read: whether that has it is not known.

use std::collections::VecDeque;

use weir_base::Id;
use weir_db::{Tx, params};

use super::hash::{Ids, Map};
use super::newest::Source;
use crate::Error;

/// The last changes that are remembered, about 32 bytes each.
const CHANGES_MAX: usize = 10_000;

/// `account` follows `source` from now on, or no longer.
#[derive(Debug, Clone, Copy)]
struct Change {
    account: Id,
    source: Source,
    follows: bool,
}

/// See the module.
#[derive(Default)]
pub(super) struct Edges {
    followers: Map<Id, Ids>,
    following: Map<Id, Ids>,
    tag_followers: Map<Id, Ids>,
    followed_tags: Map<Id, Ids>,
    /// The last of them.
    changes: VecDeque<Change>,
    /// How many there ever were.
    changed: u64,
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

/// Puts `now` in the place of what `account` follows, in both directions.
fn follow_these(account: Id, now: Vec<Id>, follows: &mut Map<Id, Ids>, back: &mut Map<Id, Ids>) {
    let now: Ids = now.into_iter().collect();
    for target in &now {
        back.entry(*target).or_default().insert(account);
    }
    let before = follows.remove(&account).unwrap_or_default();
    for gone in before.difference(&now) {
        part(back, *gone, account);
    }
    if !now.is_empty() {
        follows.insert(account, now);
    }
}

impl Edges {
    /// Reads all of them.
    pub(super) fn read(tx: &mut Tx) -> Result<Self, Error> {
        let mut edges = Self::default();
        let follows = "SELECT f.account_id, f.target_id FROM follows f
           JOIN accounts a ON a.id = f.account_id WHERE a.domain = ''";
        let tags = "SELECT account_id, tag_id FROM followed_tags";
        for (sql, source) in [(follows, Source::Author as fn(Id) -> Source), (tags, Source::Tag)] {
            tx.query(sql, &[], |row| {
                let source = source(row.get(1)?);
                edges.set(Change { account: row.get(0)?, source, follows: true });
                Ok(())
            })?;
        }
        metrics::gauge!("weir_community_follow_edges").set(edges.followers.len() as f64);
        Ok(edges)
    }

    /// `account` follows `source` from a commit on, or no longer.
    pub(super) fn change(&mut self, account: Id, source: Source, follows: bool) {
        let change = Change { account, source, follows };
        self.set(change);
        if self.changes.len() == CHANGES_MAX {
            self.changes.pop_front();
        }
        self.changes.push_back(change);
        self.changed += 1;
    }

    fn set(&mut self, change: Change) {
        let Change { account, source, follows } = change;
        let (target, followers, following) = match source {
            Source::Author(id) => (id, &mut self.followers, &mut self.following),
            Source::Tag(id) => (id, &mut self.tag_followers, &mut self.followed_tags),
        };
        if follows {
            followers.entry(target).or_default().insert(account);
            following.entry(account).or_default().insert(target);
        } else {
            part(followers, target, account);
            part(following, account, target);
        }
    }

    /// How many changes there ever were: to be asked before a transaction begins that reads.
    pub(super) fn changed(&self) -> u64 {
        self.changed
    }

    /// The changes since there were `before` of them.
    fn since(&self, before: u64) -> Result<Vec<Change>, Error> {
        let count = usize::try_from(self.changed.saturating_sub(before)).unwrap_or(usize::MAX);
        let Some(first) = self.changes.len().checked_sub(count) else {
            let why = "too much changed while it was read whom people here follow";
            return Err(Error::Conflict(why.into()));
        };
        Ok(self.changes.range(first..).copied().collect())
    }

    /// Puts what was `read` in the place of all, and all in its place; the reading began when there
    /// were `before` changes.
    pub(super) fn replace(&mut self, read: &mut Self, before: u64) -> Result<(), Error> {
        for change in self.since(before)? {
            read.set(change);
        }
        std::mem::swap(self, read);
        self.changes = std::mem::take(&mut read.changes);
        self.changed = read.changed;
        Ok(())
    }

    /// Puts what was `read` in the place of what `account` follows, likewise.
    pub(super) fn replace_of(
        &mut self,
        account: Id,
        (authors, tags): (Vec<Id>, Vec<Id>),
        before: u64,
    ) -> Result<(), Error> {
        let since = self.since(before)?;
        follow_these(account, authors, &mut self.following, &mut self.followers);
        follow_these(account, tags, &mut self.followed_tags, &mut self.tag_followers);
        since.into_iter().filter(|change| change.account == account).for_each(|it| self.set(it));
        Ok(())
    }

    /// Who follows `source`.
    pub(super) fn followers(&self, source: Source) -> Option<&Ids> {
        match source {
            Source::Author(author) => self.followers.get(&author),
            Source::Tag(tag) => self.tag_followers.get(&tag),
        }
    }

    /// What `account` follows.
    pub(super) fn followed_by(&self, account: Id) -> impl Iterator<Item = Source> + '_ {
        let authors = self.following.get(&account).into_iter().flatten();
        authors.map(|id| Source::Author(*id)).chain(self.tags_of(account).map(Source::Tag))
    }

    /// The hashtags `account` follows.
    pub(super) fn tags_of(&self, account: Id) -> impl Iterator<Item = Id> + '_ {
        self.followed_tags.get(&account).into_iter().flatten().copied()
    }
}

/// The people and the hashtags that `account` follows.
pub(super) fn read_of(tx: &mut Tx, account: Id) -> Result<(Vec<Id>, Vec<Id>), Error> {
    Ok((
        tx.column("SELECT target_id FROM follows WHERE account_id = ?1", params![account])?,
        tx.column("SELECT tag_id FROM followed_tags WHERE account_id = ?1", params![account])?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALICE: Id = Id(1);
    const BOB: Id = Id(2);
    const CAROL: Source = Source::Author(Id(3));
    const TAG: Source = Source::Tag(Id(3));

    fn of(edges: &Edges, account: Id) -> Vec<Source> {
        let mut all: Vec<Source> = edges.followed_by(account).collect();
        all.sort_unstable();
        all
    }

    /// As it is read where `account` follows these.
    fn read(account: Id, sources: &[Source]) -> Edges {
        let mut edges = Edges::default();
        for source in sources {
            edges.set(Change { account, source: *source, follows: true });
        }
        edges
    }

    #[test]
    fn nothing_is_left_of_who_followed_once() {
        let mut edges = Edges::default();
        for source in [CAROL, TAG] {
            edges.change(ALICE, source, true);
            edges.change(ALICE, source, false);
        }
        edges.replace_of(ALICE, (vec![Id(2), Id(3)], vec![Id(3)]), edges.changed()).unwrap();
        edges.replace_of(ALICE, (vec![Id(3)], vec![]), edges.changed()).unwrap();
        assert_eq!(of(&edges, ALICE), [CAROL]);
        assert_eq!(edges.followers.keys().collect::<Vec<_>>(), [&Id(3)]);
        edges.replace_of(ALICE, (vec![], vec![]), edges.changed()).unwrap();
        let Edges { followers, following, tag_followers, followed_tags, .. } = edges;
        let empty = [followers, following, tag_followers, followed_tags].map(|map| map.is_empty());
        assert_eq!(empty, [true; 4]);
    }

    #[test]
    fn what_commits_while_all_is_read_anew_is_not_undone() {
        let mut edges = Edges::default();
        edges.change(ALICE, CAROL, true);
        edges.change(BOB, CAROL, true);
        let before = edges.changed();
        // It is read as it was now; or as it will be, which comes to the same.
        edges.change(ALICE, CAROL, false);
        edges.change(BOB, TAG, true);
        edges.replace(&mut read(ALICE, &[CAROL]), before).unwrap();
        assert_eq!((of(&edges, ALICE), of(&edges, BOB)), (vec![], vec![TAG]));
        edges.replace(&mut read(BOB, &[TAG]), before).unwrap();
        assert_eq!((of(&edges, ALICE), of(&edges, BOB)), (vec![], vec![TAG]));
        assert_eq!(edges.followers(CAROL).map(Ids::len), None);
    }

    #[test]
    fn what_commits_while_is_read_whom_one_follows_is_not_undone() {
        let mut edges = Edges::default();
        edges.change(ALICE, CAROL, true);
        let before = edges.changed();
        edges.change(ALICE, CAROL, false);
        edges.change(BOB, CAROL, true);
        edges.replace_of(ALICE, (vec![Id(3)], vec![Id(3)]), before).unwrap();
        assert_eq!((of(&edges, ALICE), of(&edges, BOB)), (vec![TAG], vec![CAROL]));
    }

    #[test]
    fn where_too_much_changed_meanwhile_it_is_to_be_read_again() {
        let mut edges = Edges::default();
        for _ in 0..CHANGES_MAX {
            edges.change(ALICE, CAROL, true);
        }
        assert!(edges.replace(&mut read(ALICE, &[CAROL]), 0).is_ok());
        edges.change(BOB, CAROL, true);
        assert!(edges.replace(&mut read(ALICE, &[CAROL]), 0).is_err());
        assert_eq!(of(&edges, BOB), [CAROL], "as it was");
    }
}
