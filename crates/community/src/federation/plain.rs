//! What most messages of a batch are, taken in together: new posts, edits, favourites, boosts,
//! deletions, follows, blocks, and what takes marks, follows and blocks back.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use weir_db::Tx;

use super::forward::Passing;
use super::incoming::{boosted_at, content_time, refused};
use super::order::{Relation, Version};
use super::{Deed, Incoming, Passable, Senders, Undone, forward, host_of};
use crate::accounts::{self, Account};
use crate::relationships::{self, Act};
use crate::statuses::{
    self, Coming, ComingMark, Edited, Going, Receipt, RemoteStatus, Taken, Unmark, Visibility,
};
use crate::{Env, Error};

/// How often posts are looked through: of those that answer each other one is taken each time.
const PASSES_MAX: usize = 3;

/// Takes in those of `batch` that are new posts, edits, favourites or boosts on which nothing else
/// here hangs, deletions, or follows and blocks, or take one of these back, by statements for all
/// of them; tells of which it did. What is left is for [`receive`](super::receive) and
/// [`receive_and_forward`](super::receive_and_forward). That these go before the others changes
/// nothing, for the order of working never does.
///
/// # Errors
/// The database's.
pub fn receive_plain(
    tx: &mut Tx,
    env: &Env,
    senders: &mut Senders,
    batch: &[(&Incoming, Option<&Passable>)],
) -> Result<Vec<bool>, Error> {
    let mut batch = Batch { tx, env, senders, messages: batch, done: vec![false; batch.len()] };
    for _ in 0..PASSES_MAX {
        if !batch.posts()? {
            break;
        }
    }
    batch.edits()?;
    batch.marks()?;
    batch.unmarks()?;
    batch.deletions()?;
    batch.acts()?;
    Ok(batch.done)
}

/// Messages that are worked at once, and which of them are taken in.
struct Batch<'a, 'tx> {
    tx: &'a mut Tx<'tx>,
    env: &'a Env,
    senders: &'a mut Senders,
    messages: &'a [(&'a Incoming, Option<&'a Passable>)],
    done: Vec<bool>,
}

/// A message that is still to be taken in: its place in the batch, whose it is, what of it matters.
struct Left<T> {
    at: usize,
    by: Arc<Account>,
    what: T,
}

impl<'a> Batch<'a, '_> {
    /// Those that are left and in which `pick` finds something, but for senders of whom more has
    /// to be asked.
    fn left<T>(&mut self, pick: impl Fn(&'a Incoming) -> Option<T>) -> Result<Vec<Left<T>>, Error> {
        let mut left = Vec::new();
        for (at, (incoming, _)) in self.messages.iter().enumerate() {
            let Some(what) = pick(incoming).filter(|_| !self.done[at]) else { continue };
            let fits = |by: &Arc<Account>| !by.is_local() && by.is_available();
            let by = self.senders.get(self.tx, &incoming.actor)?.filter(fits);
            let Some(by) = by else { continue };
            if !self.senders.policy(self.tx, &by.domain)?.suspended {
                left.push(Left { at, by, what });
            }
        }
        Ok(left)
    }

    fn left_posts(&mut self) -> Result<Vec<Left<&'a RemoteStatus>>, Error> {
        self.left(|incoming| match &incoming.deed {
            Deed::Post(post) => Some(&**post),
            _ => None,
        })
    }

    fn coming<'l>(&mut self, left: &'l [Left<&'l RemoteStatus>]) -> Result<Vec<Coming<'l>>, Error> {
        let mut coming = Vec::with_capacity(left.len());
        for Left { at, by, what: remote } in left {
            let Incoming { version, arrived, .. } = self.messages[*at].0;
            let version = Version { at: content_time(remote, *version), ..*version };
            let reject_media = self.senders.policy(self.tx, &by.domain)?.reject_media;
            coming.push(Coming { by, remote, version, arrived: *arrived, reject_media });
        }
        Ok(coming)
    }

    /// Whether any was taken in, so that others may be now.
    fn posts(&mut self) -> Result<bool, Error> {
        let left = self.left_posts()?;
        let coming = self.coming(&left)?;
        let taken = statuses::receive_plain(self.tx, self.env, &coming)?;
        let any = taken.iter().any(Option::is_some);
        let mut passing = Vec::new();
        for (Left { at, .. }, taken) in left.iter().zip(&taken) {
            let (incoming, passable) = self.messages[*at];
            match (taken, passable) {
                (None, _) => continue,
                (Some(Taken::Refused(why)), _) => refused(why),
                (Some(Taken::New(status)), Some(passable)) => {
                    // Nobody has boosted it yet.
                    passing.push(Passing { incoming, passable, status, is_boosted_here: false });
                }
                (Some(Taken::New(_)), None) => {}
            }
            self.done[*at] = true;
        }
        forward::forward_each(self.tx, self.env, self.senders, &passing)?;
        Ok(any)
    }

    /// Other versions of posts that are known.
    fn edits(&mut self) -> Result<(), Error> {
        let left = self.left_posts()?;
        let coming = self.coming(&left)?;
        let edited = statuses::revise_plain(self.tx, self.env, &coming)?;
        let mut passing = Vec::new();
        for (Left { at, .. }, edited) in left.iter().zip(&edited) {
            let Some(Edited { before, status }) = edited else { continue };
            let (incoming, passable) = self.messages[*at];
            let before = before.as_ref().map(forward::shows);
            let changed = before.is_some_and(|before| before != forward::shows(status));
            if let Some(passable) = passable.filter(|_| changed) {
                // Of what somebody here boosted none is among them.
                passing.push(Passing { incoming, passable, status, is_boosted_here: false });
            }
            self.done[*at] = true;
        }
        forward::forward_each(self.tx, self.env, self.senders, &passing)
    }

    /// Favourites and boosts.
    fn marks(&mut self) -> Result<(), Error> {
        let left = self.left(|incoming| match &incoming.deed {
            Deed::Like { object } => Some((object, None)),
            Deed::Boost { object, visibility, published } => {
                let at = boosted_at(*published, incoming.arrived);
                Some((object, Some((at, (*visibility).min(Visibility::Private)))))
            }
            _ => None,
        })?;
        let coming: Vec<ComingMark<'_>> = left
            .iter()
            .map(|Left { at, by, what: (object, boost) }| {
                let Incoming { activity, version, .. } = self.messages[*at].0;
                ComingMark { by, object, activity, version: *version, boost: *boost }
            })
            .collect();
        let receipts = statuses::receive_marks(self.tx, self.env, &coming)?;
        for (Left { at, .. }, receipt) in left.iter().zip(receipts) {
            if let Some(Receipt::Refused(why)) = receipt {
                refused(why);
            }
            self.done[*at] = receipt.is_some();
        }
        Ok(())
    }

    /// Favourites and boosts that are taken back.
    fn unmarks(&mut self) -> Result<(), Error> {
        let mut left = self.left(|incoming| match &incoming.deed {
            Deed::Undo(undone) => match undone.relation() {
                Some(relation @ (Relation::Like | Relation::Boost)) => Some((relation, undone)),
                _ => None,
            },
            _ => None,
        })?;
        let (mut marks, mut activities) = (HashSet::new(), HashSet::new());
        left.retain(|Left { by, what: (relation, Undone { object, activity, .. }), .. }| {
            !object.is_empty()
                && !activity.is_empty()
                && marks.insert((by.id, relation.name(), object))
                && activities.insert(activity)
        });
        if left.is_empty() {
            return Ok(());
        }
        let unmarks: Vec<Unmark<'_>> = left
            .iter()
            .map(|Left { at, by, what: (relation, Undone { object, activity, .. }) }| {
                let (relation, version) = (*relation, self.messages[*at].0.version);
                Unmark { by, relation, object, activity, version }
            })
            .collect();
        let receipts = statuses::undo_marks(self.tx, self.env, &unmarks)?;
        for (Left { at, .. }, receipt) in left.iter().zip(receipts) {
            if let Receipt::Refused(why) = receipt {
                refused(why);
            }
            self.done[*at] = true;
        }
        Ok(())
    }

    /// People's deletions of their own posts.
    fn deletions(&mut self) -> Result<(), Error> {
        let mut left = self.left(|incoming| match &incoming.deed {
            Deed::Delete { uri } => Some(uri.as_str()),
            _ => None,
        })?;
        let (site, mut uris) = (&self.env.site, BTreeSet::new());
        left.retain(|Left { by, what: uri, .. }| {
            let of_itself = *uri == by.uri || site.is_local(uri);
            let of_its_host = host_of(uri).is_some() && host_of(uri) == host_of(&by.uri);
            of_its_host && !of_itself && uris.insert(*uri)
        });
        if left.len() < 2 {
            return Ok(());
        }
        let uris: Vec<&str> = uris.into_iter().collect();
        let going = Going::find(self.tx, &uris)?;
        let (mut known, mut unknown, mut passing) = (Vec::new(), Vec::new(), Vec::new());
        for Left { at, by, what: uri } in left {
            match going.at(uri) {
                None => {
                    refused("unknown");
                    unknown.push(uri);
                }
                Some(status) if status.account_id == by.id && status.boost_of_id.is_none() => {
                    let (incoming, passable) = self.messages[at];
                    if let Some(passable) = passable {
                        let is_boosted_here = going.is_boosted_here(status.id);
                        passing.push(Passing { incoming, passable, status, is_boosted_here });
                    }
                    known.push(uri);
                }
                Some(_) => continue,
            }
            self.done[at] = true;
        }
        forward::forward_each(self.tx, self.env, self.senders, &passing)?;
        going.erase(self.tx, self.env, &known, &unknown)
    }

    /// Follows and blocks of people here, and those that are taken back.
    fn acts(&mut self) -> Result<(), Error> {
        let left = self.left(|incoming| match &incoming.deed {
            Deed::Follow { target } => Some((target, Relation::Follow, false, &incoming.activity)),
            Deed::Block { target } => Some((target, Relation::Block, false, &incoming.activity)),
            Deed::Undo(undone) => match undone.relation() {
                Some(relation @ (Relation::Follow | Relation::Block)) => {
                    Some((&undone.object, relation, true, &undone.activity))
                }
                _ => None,
            },
            _ => None,
        })?;
        if left.len() < 2 {
            return Ok(());
        }
        let targets: BTreeSet<&String> = left.iter().map(|left| left.what.0).collect();
        let targets: Vec<String> = targets.into_iter().cloned().collect();
        let people = accounts::by_uris(self.tx, &targets)?;
        let people: HashMap<&str, &Account> = people
            .iter()
            .filter(|person| person.is_local())
            .map(|person| (person.uri.as_str(), person))
            .collect();
        let (mut pairs, mut activities, mut acts) = (HashSet::new(), HashSet::new(), Vec::new());
        for Left { at, by, what: (target, relation, undo, activity) } in &left {
            let Some(target) = people.get(target.as_str()) else { continue };
            let alone = pairs.insert((by.id, target.id))
                && !activity.is_empty()
                && activities.insert(activity.as_str());
            if alone {
                let (relation, undo, version) = (*relation, *undo, self.messages[*at].0.version);
                acts.push(Act { by, target, relation, undo, activity, version });
                self.done[*at] = true;
            }
        }
        relationships::receive_acts(self.tx, self.env, &acts)
    }
}
