//! What people of other servers do to people here: following, blocking, answering requests.
//!
//! Whether a remote person follows somebody here is read off what came in, in order of version:
//! the follow is there, no block by the same person is, and none came after the follow.

use weir_base::Id;
use weir_db::{Tx, params};

use super::follow::{self, FollowWish};
use crate::accounts::Account;
use crate::federation::chores::MigrateFollowers;
use crate::federation::order::{self, Event, Relation, Version};
use crate::statuses::Receipt;
use crate::streams::Noun;
use crate::{Env, Error};

/// Remote account `by` wants to follow local account `target`, by `activity`.
///
/// # Errors
/// The database's.
pub fn receive_follow(
    tx: &mut Tx,
    env: &Env,
    by: &Account,
    target: &Account,
    activity: &str,
    version: Version,
) -> Result<Receipt, Error> {
    step(tx, env, by, target, Relation::Follow, activity, false, version)
}

/// Remote account `by` blocks local account `target`, by `activity`.
///
/// # Errors
/// The database's.
pub fn receive_block(
    tx: &mut Tx,
    env: &Env,
    by: &Account,
    target: &Account,
    activity: &str,
    version: Version,
) -> Result<Receipt, Error> {
    step(tx, env, by, target, Relation::Block, activity, false, version)
}

/// Remote account `by` takes back a follow or block of `target`; `activity` may be empty.
///
/// # Errors
/// The database's.
pub(crate) fn undo(
    tx: &mut Tx,
    env: &Env,
    by: &Account,
    target: &Account,
    relation: Relation,
    activity: &str,
    version: Version,
) -> Result<Receipt, Error> {
    step(tx, env, by, target, relation, activity, true, version)
}

/// How a remote person stands to one here, as told by what came in.
struct Standing {
    follows: Vec<Event>,
    blocks: Vec<Event>,
}

impl Standing {
    fn blocked(&self) -> Option<&Event> {
        order::fold(&self.blocks)
    }

    fn followed(&self) -> Option<&Event> {
        let last_block = self.blocks.iter().rev().find(|event| !event.undo);
        order::fold(&self.follows)
            .filter(|_| self.blocked().is_none())
            .filter(|follow| last_block.is_none_or(|block| block.version < follow.version))
    }
}

fn step(
    tx: &mut Tx,
    env: &Env,
    by: &Account,
    target: &Account,
    relation: Relation,
    activity: &str,
    undo: bool,
    version: Version,
) -> Result<Receipt, Error> {
    order::meet(tx, &[&format!("{} {}", by.uri, target.uri)])?;
    let event = Event { version, undo, activity: activity.into(), boost: None };
    let step = order::note(tx, &by.uri, &target.uri, relation, event)?;
    let new = step.before != step.after;
    let unknown = step.before.is_empty();
    let other = if relation == Relation::Follow { Relation::Block } else { Relation::Follow };
    let beside = order::events(tx, &by.uri, &target.uri, other.name())?;
    let standing = |events: Vec<Event>| match relation {
        Relation::Follow => Standing { follows: events, blocks: beside.clone() },
        _ => Standing { follows: beside.clone(), blocks: events },
    };
    let (before, after) = (standing(step.before), standing(step.after));
    if relation == Relation::Block {
        let was = before.blocked().is_some() || (undo && unknown);
        settle_block(tx, env, by.id, target.id, was, after.blocked(), version)?;
    }
    let was = before.followed().is_some() || (undo && unknown && relation == Relation::Follow);
    match (was, after.followed()) {
        (false, Some(follow)) => establish(tx, env, by, target, &follow.activity)?,
        (true, None) => end(tx, env, by.id, target.id)?,
        // Asked again: its server may have missed the answer.
        (true, Some(follow)) if new && !undo && follow.version == version => {
            establish(tx, env, by, target, activity)?;
        }
        _ => {}
    }
    Ok(Receipt::Known(target.id))
}

fn establish(
    tx: &mut Tx,
    env: &Env,
    by: &Account,
    target: &Account,
    activity: &str,
) -> Result<(), Error> {
    if by.is_available() {
        follow::receive(tx, env, by.id, target.id, activity)?;
    }
    Ok(())
}

fn end(tx: &mut Tx, env: &Env, by: Id, target: Id) -> Result<(), Error> {
    follow::end(tx, env, by, target)?;
    follow::forget_request(tx, env, by, target)?;
    Ok(())
}

fn settle_block(
    tx: &mut Tx,
    env: &Env,
    by: Id,
    target: Id,
    was: bool,
    now: Option<&Event>,
    version: Version,
) -> Result<(), Error> {
    match now {
        Some(block) if !was => {
            tx.run(
                "INSERT INTO blocks (account_id, target_id, id, uri) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT DO NOTHING",
                params![by, target, env.ids.next(), block.activity],
            )?;
            // A follow that was made after the block came to the door stays the follower's own.
            let older: Option<Id> = tx.value(
                "SELECT id FROM follows WHERE account_id = ?1 AND target_id = ?2 AND id < ?3
                 UNION ALL SELECT id FROM follow_requests
                   WHERE account_id = ?1 AND target_id = ?2 AND id < ?3",
                params![target, by, version.seq],
            )?;
            if older.is_some() {
                end(tx, env, target, by)?;
            }
        }
        None if was => {
            tx.run(
                "DELETE FROM blocks WHERE account_id = ?1 AND target_id = ?2",
                params![by, target],
            )?;
        }
        _ => return Ok(()),
    }
    env.streams.bonds_changed(tx, target);
    Ok(())
}

/// Remote account `target` answers the request of local account `by`: lets it follow, or refuses
/// (also later, which ends the follow). A refusal of a request is for good: an acceptance that
/// comes after it changes nothing. `follow` is the request's id, none where it was not named.
///
/// # Errors
/// The database's.
pub fn receive_answer(
    tx: &mut Tx,
    env: &Env,
    target: &Account,
    by: &Account,
    follow: Option<Id>,
    accepted: bool,
) -> Result<Receipt, Error> {
    let row: Option<(Id, bool)> = tx.query_opt(
        "SELECT id, 1 FROM follow_requests WHERE account_id = ?1 AND target_id = ?2
         UNION ALL SELECT id, 0 FROM follows WHERE account_id = ?1 AND target_id = ?2",
        params![by.id, target.id],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    let Some((id, waits)) = row.filter(|(id, _)| follow.is_none_or(|named| named == *id)) else {
        return Ok(Receipt::Refused("unknown"));
    };
    if !accepted {
        end(tx, env, by.id, target.id)?;
        env.streams.bonds_changed(tx, by.id);
    } else if waits {
        follow::accept_request(tx, env, target.id, by.id)?;
        env.streams.bonds_changed(tx, by.id);
    }
    Ok(Receipt::Known(id))
}

/// Remote account `old` moved to `new`, which says so too (the caller has looked): those here who
/// follow the old one follow the new one instead.
///
/// # Errors
/// The database's.
pub fn receive_move(
    tx: &mut Tx,
    env: &Env,
    old: &Account,
    new: &Account,
) -> Result<Receipt, Error> {
    if old.id == new.id || !new.is_available() || !new.also_known_as.0.contains(&old.uri) {
        return Ok(Receipt::Refused("not said by both"));
    }
    env.streams.touched(tx, Noun::Account(old.id));
    tx.run("UPDATE accounts SET moved_to_id = ?2 WHERE id = ?1", params![old.id, new.id])?;
    env.jobs.enqueue(tx, &MigrateFollowers { old: old.id, new: new.id })?;
    Ok(Receipt::Known(new.id))
}

/// `follower` follows `new` as it followed `old`, and no longer `old`.
pub(crate) fn migrate(
    tx: &mut Tx,
    env: &Env,
    follower: Id,
    old: &Account,
    new: &Account,
) -> Result<(), Error> {
    let row = tx.query_opt(
        "SELECT boosts, notify, languages FROM follows WHERE account_id = ?1 AND target_id = ?2",
        params![follower, old.id],
        |row| {
            let languages: weir_db::Json<Vec<String>> = row.get(2)?;
            Ok((row.get(0)?, row.get(1)?, languages.0))
        },
    )?;
    let Some((boosts, notify, languages)) = row else { return Ok(()) };
    let wish = FollowWish {
        boosts: Some(boosts),
        notify: Some(notify),
        languages: Some(languages).filter(|list| !list.is_empty()),
    };
    match follow::follow(tx, env, follower, new.id, &wish) {
        Ok(_) | Err(Error::Forbidden(_) | Error::NotFound(_)) => {}
        Err(error) => return Err(error),
    }
    follow::unfollow(tx, env, follower, old.id)?;
    Ok(())
}
