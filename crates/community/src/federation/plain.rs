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
    let mut done = vec![false; batch.len()];
    for _ in 0..PASSES_MAX {
        if !posts(tx, env, senders, batch, &mut done)? {
            break;
        }
    }
    edits(tx, env, senders, batch, &mut done)?;
    marks(tx, env, senders, batch, &mut done)?;
    unmarks(tx, env, senders, batch, &mut done)?;
    deletions(tx, env, senders, batch, &mut done)?;
    acts(tx, env, senders, batch, &mut done)?;
    Ok(done)
}

/// Whether any was taken in, so that others may be now.
fn posts(
    tx: &mut Tx,
    env: &Env,
    senders: &mut Senders,
    batch: &[(&Incoming, Option<&Passable>)],
    done: &mut [bool],
) -> Result<bool, Error> {
    let left = find_left(tx, senders, batch, done)?;
    let coming = all_coming(batch, &left);
    let taken = statuses::receive_plain(tx, env, &coming)?;
    let any = taken.iter().any(Option::is_some);
    let mut passing = Vec::new();
    for (Left { at, .. }, taken) in left.iter().zip(&taken) {
        let (incoming, passable) = batch[*at];
        match (taken, passable) {
            (None, _) => continue,
            (Some(Taken::Refused(why)), _) => refused(why),
            (Some(Taken::New(status)), Some(passable)) => {
                // Nobody has boosted it yet.
                passing.push(Passing { incoming, passable, status, is_boosted_here: false });
            }
            (Some(Taken::New(_)), None) => {}
        }
        done[*at] = true;
    }
    forward::forward_each(tx, env, senders, &passing)?;
    Ok(any)
}

/// A post that is still to be taken in.
struct Left<'b> {
    at: usize,
    by: Arc<Account>,
    post: &'b RemoteStatus,
    reject_media: bool,
}

fn find_left<'b>(
    tx: &mut Tx,
    senders: &mut Senders,
    batch: &[(&'b Incoming, Option<&Passable>)],
    done: &[bool],
) -> Result<Vec<Left<'b>>, Error> {
    let mut left = Vec::new();
    for (at, (incoming, _)) in batch.iter().enumerate().filter(|(at, _)| !done[*at]) {
        let Deed::Post(post) = &incoming.deed else { continue };
        let Some(by) = sender(tx, senders, incoming)? else { continue };
        let reject_media = senders.policy(tx, &by.domain)?.reject_media;
        left.push(Left { at, by, post, reject_media });
    }
    Ok(left)
}

fn all_coming<'b>(
    batch: &[(&Incoming, Option<&Passable>)],
    left: &'b [Left<'b>],
) -> Vec<Coming<'b>> {
    let one = |Left { at, by, post: remote, reject_media }: &'b Left<'b>| {
        let Incoming { version, arrived, .. } = batch[*at].0;
        let version = Version { at: content_time(remote, *version), ..*version };
        Coming { by, remote, version, arrived: *arrived, reject_media: *reject_media }
    };
    left.iter().map(one).collect()
}

/// Other versions of posts that are known.
fn edits(
    tx: &mut Tx,
    env: &Env,
    senders: &mut Senders,
    batch: &[(&Incoming, Option<&Passable>)],
    done: &mut [bool],
) -> Result<(), Error> {
    let left = find_left(tx, senders, batch, done)?;
    let edited = statuses::revise_plain(tx, env, &all_coming(batch, &left))?;
    let mut passing = Vec::new();
    for (Left { at, .. }, edited) in left.iter().zip(&edited) {
        let Some(Edited { before, status }) = edited else { continue };
        let (incoming, passable) = batch[*at];
        let changed =
            before.as_ref().is_some_and(|before| forward::shows(before) != forward::shows(status));
        if let Some(passable) = passable.filter(|_| changed) {
            // Of what somebody here boosted none is among them.
            passing.push(Passing { incoming, passable, status, is_boosted_here: false });
        }
        done[*at] = true;
    }
    forward::forward_each(tx, env, senders, &passing)
}

fn marks(
    tx: &mut Tx,
    env: &Env,
    senders: &mut Senders,
    batch: &[(&Incoming, Option<&Passable>)],
    done: &mut [bool],
) -> Result<(), Error> {
    let mut found = Vec::new();
    for (at, (incoming, _)) in batch.iter().enumerate() {
        let (object, boost) = match &incoming.deed {
            Deed::Like { object } => (object, None),
            Deed::Boost { object, visibility, published } => {
                let at = boosted_at(*published, incoming.arrived);
                (object, Some((at, (*visibility).min(Visibility::Private))))
            }
            _ => continue,
        };
        if let Some(by) = sender(tx, senders, incoming)? {
            found.push((at, by, object, boost));
        }
    }
    let coming: Vec<ComingMark<'_>> = found
        .iter()
        .map(|(at, by, object, boost)| {
            let Incoming { activity, version, .. } = batch[*at].0;
            ComingMark { by, object, activity, version: *version, boost: *boost }
        })
        .collect();
    let receipts = statuses::receive_marks(tx, env, &coming)?;
    for ((at, ..), receipt) in found.iter().zip(receipts) {
        if let Some(Receipt::Refused(why)) = receipt {
            refused(why);
        }
        done[*at] = receipt.is_some();
    }
    Ok(())
}

/// Favourites and boosts that are taken back.
fn unmarks(
    tx: &mut Tx,
    env: &Env,
    senders: &mut Senders,
    batch: &[(&Incoming, Option<&Passable>)],
    done: &mut [bool],
) -> Result<(), Error> {
    let (mut found, mut marks, mut activities) = (Vec::new(), HashSet::new(), HashSet::new());
    for (at, (incoming, _)) in batch.iter().enumerate() {
        let Deed::Undo(undone @ Undone { object, activity, .. }) = &incoming.deed else { continue };
        let relation = undone.relation();
        let Some(relation @ (Relation::Like | Relation::Boost)) = relation else { continue };
        let Some(by) = sender(tx, senders, incoming)? else { continue };
        let alone = !object.is_empty()
            && !activity.is_empty()
            && marks.insert((by.id, relation.name(), object))
            && activities.insert(activity);
        if alone {
            found.push((at, by, relation, object, activity));
        }
    }
    if found.is_empty() {
        return Ok(());
    }
    let unmarks: Vec<Unmark<'_>> = found
        .iter()
        .map(|(at, by, relation, object, activity)| {
            let (relation, version) = (*relation, batch[*at].0.version);
            Unmark { by, relation, object, activity, version }
        })
        .collect();
    let receipts = statuses::undo_marks(tx, env, &unmarks)?;
    for ((at, ..), receipt) in found.iter().zip(receipts) {
        if let Receipt::Refused(why) = receipt {
            refused(why);
        }
        done[*at] = true;
    }
    Ok(())
}

/// People's deletions of their own posts.
fn deletions(
    tx: &mut Tx,
    env: &Env,
    senders: &mut Senders,
    batch: &[(&Incoming, Option<&Passable>)],
    done: &mut [bool],
) -> Result<(), Error> {
    let (mut found, mut uris) = (Vec::new(), BTreeSet::new());
    for (at, (incoming, passable)) in batch.iter().enumerate() {
        let Deed::Delete { uri } = &incoming.deed else { continue };
        let Some(by) = sender(tx, senders, incoming)? else { continue };
        let of_itself = *uri == by.uri || env.site.is_local(uri);
        let of_its_host = host_of(uri).is_some() && host_of(uri) == host_of(&by.uri);
        if of_its_host && !of_itself && uris.insert(uri.as_str()) {
            found.push((at, by, uri, passable));
        }
    }
    if found.len() < 2 {
        return Ok(());
    }
    let uris: Vec<&str> = uris.into_iter().collect();
    let going = Going::find(tx, &uris)?;
    let (mut known, mut unknown, mut passing) = (Vec::new(), Vec::new(), Vec::new());
    for (at, by, uri, passable) in found {
        match going.at(uri) {
            None => {
                refused("unknown");
                unknown.push(uri.as_str());
            }
            Some(post) if post.account_id == by.id && post.boost_of_id.is_none() => {
                if let Some(passable) = passable {
                    let (incoming, is_boosted_here) = (batch[at].0, going.is_boosted_here(post.id));
                    passing.push(Passing { incoming, passable, status: post, is_boosted_here });
                }
                known.push(uri.as_str());
            }
            Some(_) => continue,
        }
        done[at] = true;
    }
    forward::forward_each(tx, env, senders, &passing)?;
    going.erase(tx, env, &known, &unknown)
}

/// Follows and blocks of people here, and those that are taken back.
fn acts(
    tx: &mut Tx,
    env: &Env,
    senders: &mut Senders,
    batch: &[(&Incoming, Option<&Passable>)],
    done: &mut [bool],
) -> Result<(), Error> {
    let mut found = Vec::new();
    for (at, (incoming, _)) in batch.iter().enumerate() {
        let (target, relation, undo, activity) = match &incoming.deed {
            Deed::Follow { target } => (target, Relation::Follow, false, &incoming.activity),
            Deed::Block { target } => (target, Relation::Block, false, &incoming.activity),
            Deed::Undo(undone) => match undone.relation() {
                Some(relation @ (Relation::Follow | Relation::Block)) => {
                    (&undone.object, relation, true, &undone.activity)
                }
                _ => continue,
            },
            _ => continue,
        };
        if let Some(by) = sender(tx, senders, incoming)? {
            found.push((at, by, target, relation, undo, activity));
        }
    }
    if found.len() < 2 {
        return Ok(());
    }
    let targets: BTreeSet<&String> = found.iter().map(|(_, _, target, ..)| *target).collect();
    let targets: Vec<String> = targets.into_iter().cloned().collect();
    let people = accounts::by_uris(tx, &targets)?;
    let people: HashMap<&str, &Account> = people
        .iter()
        .filter(|person| person.is_local())
        .map(|person| (person.uri.as_str(), person))
        .collect();
    let (mut pairs, mut activities, mut acts) = (HashSet::new(), HashSet::new(), Vec::new());
    for (at, by, target, relation, undo, activity) in &found {
        let Some(target) = people.get(target.as_str()) else { continue };
        let alone = pairs.insert((by.id, target.id))
            && !activity.is_empty()
            && activities.insert(activity.as_str());
        if alone {
            let (relation, undo, version) = (*relation, *undo, batch[*at].0.version);
            acts.push(Act { by, target, relation, undo, activity, version });
            done[*at] = true;
        }
    }
    relationships::receive_acts(tx, env, &acts)
}

/// Whose message it is, unless more has to be asked about them.
fn sender(
    tx: &mut Tx,
    senders: &mut Senders,
    incoming: &Incoming,
) -> Result<Option<Arc<Account>>, Error> {
    let fits = |by: &Arc<Account>| !by.is_local() && by.is_available();
    let Some(by) = senders.get(tx, &incoming.actor)?.filter(fits) else { return Ok(None) };
    let suspended = senders.policy(tx, &by.domain)?.suspended;
    Ok(Some(by).filter(|_| !suspended))
}
