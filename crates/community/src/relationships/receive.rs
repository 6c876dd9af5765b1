//! What people of other servers do to people here: following, blocking, answering requests.
//!
//! Whether a remote person follows somebody here is read off what came in, in order of version:
//! the follow is there, no block by the same person is, and none came after the follow.

use weir_base::Id;
use weir_db::{Tx, params};

use super::follow::{self, Asking, FollowWish};
use crate::accounts::Account;
use crate::federation::chores::MigrateFollowers;
use crate::federation::order::{self, Event, News, Relation, Step, Version};
use crate::statuses::Receipt;
use crate::streams::Noun;
use crate::{Env, Error};

/// What a remote account does to a local one.
pub(crate) struct Act<'a> {
    pub(crate) by: &'a Account,
    pub(crate) target: &'a Account,
    /// A follow or a block.
    pub(crate) relation: Relation,
    /// Whether it takes that back.
    pub(crate) undo: bool,
    /// The activity's address, or that of what is undone; may be empty.
    pub(crate) activity: &'a str,
    pub(crate) version: Version,
}

impl Act<'_> {
    fn news(&self) -> News<'_> {
        let activity = self.activity.to_owned();
        let event = Event { version: self.version, undo: self.undo, activity, boost: None };
        let (actor, object) = (&self.by.uri, &self.target.uri);
        News { actor, object, relation: self.relation, event }
    }

    /// The relation that this one counts beside.
    fn other(&self) -> Relation {
        if self.relation == Relation::Follow { Relation::Block } else { Relation::Follow }
    }
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

/// Takes in what remote people do to people here, by statements for all of it; only blocks, and
/// follows that have to wait, are written one by one. No two may be of the same two people, or of
/// one activity.
///
/// # Errors
/// The database's.
pub(crate) fn receive_acts(tx: &mut Tx, env: &Env, acts: &[Act<'_>]) -> Result<(), Error> {
    let pairs = acts.iter().map(|act| format!("{} {}", act.by.uri, act.target.uri));
    let pairs: Vec<String> = pairs.collect();
    order::meet(tx, &pairs.iter().map(String::as_str).collect::<Vec<_>>())?;
    let steps = order::note_each(tx, acts.iter().map(Act::news).collect())?;
    let keys = acts.iter().map(|act| (&*act.by.uri, &*act.target.uri, act.other().name()));
    let beside = order::events_each(tx, keys)?;
    let (mut asking, mut ended) = (Vec::new(), Vec::new());
    for ((act, step), beside) in acts.iter().zip(steps).zip(beside) {
        match settle(tx, env, act, step, beside)? {
            Follows::Ask(uri) if act.by.is_available() => asking.push((act, uri)),
            Follows::End => ended.push((act.by.id, act.target.id)),
            Follows::Ask(_) | Follows::Stay => {}
        }
    }
    follow::end_quietly_each(tx, env, &ended)?;
    let asking: Vec<Asking<'_>> =
        asking.iter().map(|(Act { by, target, .. }, uri)| Asking { by, target, uri }).collect();
    follow::receive_each(tx, env, &asking)?;
    Ok(())
}

/// What becomes of a follow.
enum Follows {
    /// The one at this address is asked for, perhaps again.
    Ask(String),
    End,
    Stay,
}

/// Brings blocks in line with what holds, and tells what that means for the follow.
fn settle(
    tx: &mut Tx,
    env: &Env,
    act: &Act<'_>,
    step: Step,
    beside: Vec<Event>,
) -> Result<Follows, Error> {
    let Act { by, target, relation, undo, activity, version } = *act;
    let new = step.before != step.after;
    let unknown = step.before.is_empty();
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
    Ok(match (was, after.followed()) {
        (false, Some(follow)) => Follows::Ask(follow.activity.clone()),
        // Asked again: its server may have missed the answer.
        (true, Some(follow)) if new && !undo && follow.version == version => {
            Follows::Ask(activity.to_owned())
        }
        (true, None) => Follows::End,
        _ => Follows::Stay,
    })
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
                follow::end_quietly(tx, env, target, by)?;
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
        follow::end_quietly(tx, env, by.id, target.id)?;
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
