//! Following, and being followed.

use std::collections::HashSet;

use weir_base::Id;
use weir_db::{Json, ToValue, Tx, params};

use crate::accounts::{self, Account};
use crate::federation::{self, Message};
use crate::notifications::{self, Kind};
use crate::streams::Noun;
use crate::{Env, Error};

/// How one wants to follow; what is `None` keeps its present (or default) value.
#[derive(Debug, Clone, Default)]
pub struct FollowWish {
    /// With boosts (default: yes).
    pub boosts: Option<bool>,
    /// With a notification for each post (default: no).
    pub notify: Option<bool>,
    /// Only these languages (default: all).
    pub languages: Option<Vec<String>>,
}

/// What became of a wish to follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Following {
    /// Followed at once (or already).
    Yes,
    /// It waits for the other's approval.
    Requested,
}

/// Local account `by` follows `target`, or changes how.
///
/// # Errors
/// [`Error::Forbidden`] when one blocks the other, the target moved or is the follower itself.
pub fn follow(
    tx: &mut Tx,
    env: &Env,
    by: Id,
    target: Id,
    wish: &FollowWish,
) -> Result<Following, Error> {
    let them = accounts::by_id(tx, target)?;
    if !them.is_available() {
        return Err(Error::NotFound("Account"));
    }
    let refused = by == target || them.moved_to_id.is_some() || blocked(tx, by, target)?;
    if refused {
        return Err(Error::Forbidden("This action is not allowed"));
    }
    for table in ["follows", "follow_requests"] {
        if update_wish(tx, table, by, target, wish)? {
            env.streams.bonds_changed(tx, by);
            let asked = table == "follow_requests";
            return Ok(if asked { Following::Requested } else { Following::Yes });
        }
    }
    let waits = them.locked || !them.is_local() || accounts::by_id(tx, by)?.silenced_at.is_some();
    let id = env.ids.next();
    let table = if waits { "follow_requests" } else { "follows" };
    insert(tx, table, id, by, target, "", wish)?;
    if waits {
        env.streams.bonds_changed(tx, by);
        if them.is_local() {
            env.streams.followers_changed(tx, target, by);
            notifications::notify(tx, env, target, Kind::FollowRequest, by, None)?;
        } else {
            federation::send(tx, env, by, Message::Follow { id, target })?;
        }
        return Ok(Following::Requested);
    }
    established(tx, env, by, &them)?;
    Ok(Following::Yes)
}

/// Whether the follow `id` of `target` by `by` still holds or waits for its answer.
///
/// # Errors
/// The database's.
pub fn is_wanted(tx: &mut Tx, by: Id, target: Id, id: Id) -> Result<bool, Error> {
    let found: Option<i64> = tx.value(
        "SELECT 1 FROM follow_requests WHERE account_id = ?1 AND target_id = ?2 AND id = ?3
         UNION ALL SELECT 1 FROM follows WHERE account_id = ?1 AND target_id = ?2 AND id = ?3",
        params![by, target, id],
    )?;
    Ok(found.is_some())
}

/// Whether one of the two blocks the other.
pub(crate) fn blocked(tx: &mut Tx, one: Id, other: Id) -> Result<bool, Error> {
    let found: Option<i64> = tx.value(
        "SELECT 1 FROM blocks WHERE (account_id = ?1 AND target_id = ?2)
           OR (account_id = ?2 AND target_id = ?1)",
        params![one, other],
    )?;
    Ok(found.is_some())
}

/// Those pairs of which one blocks the other.
pub(crate) fn blocked_each(tx: &mut Tx, pairs: &[(Id, Id)]) -> Result<HashSet<(Id, Id)>, Error> {
    let mut blocked = HashSet::new();
    tx.query_each(
        "SELECT CAST(?1 AS BIGINT), CAST(?2 AS BIGINT) FROM blocks
         WHERE (account_id = ?1 AND target_id = ?2) OR (account_id = ?2 AND target_id = ?1)",
        pairs.iter().map(|(one, other)| [one.to_value(), other.to_value()]),
        |row| {
            blocked.insert((row.get(0)?, row.get(1)?));
            Ok(())
        },
    )?;
    Ok(blocked)
}

fn update_wish(
    tx: &mut Tx,
    table: &str,
    by: Id,
    target: Id,
    wish: &FollowWish,
) -> Result<bool, Error> {
    let changed = tx.execute(
        &format!(
            "UPDATE {table} SET boosts = coalesce(?3, boosts), notify = coalesce(?4, notify),
               languages = coalesce(?5, languages) WHERE account_id = ?1 AND target_id = ?2"
        ),
        params![by, target, wish.boosts, wish.notify, wish.languages.clone().map(Json)],
    )?;
    Ok(changed > 0)
}

fn insert(
    tx: &mut Tx,
    table: &str,
    id: Id,
    by: Id,
    target: Id,
    uri: &str,
    wish: &FollowWish,
) -> Result<bool, Error> {
    let inserted = tx.execute(
        &format!(
            "INSERT INTO {table} (account_id, target_id, id, uri, boosts, notify, languages)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT DO NOTHING"
        ),
        params![
            by,
            target,
            id,
            uri,
            wish.boosts.unwrap_or(true),
            wish.notify.unwrap_or(false),
            Json(wish.languages.clone().unwrap_or_default())
        ],
    )?;
    Ok(inserted > 0)
}

/// What goes with a follow that has just come to be: counts, memory, the notification.
fn established(tx: &mut Tx, env: &Env, by: Id, them: &Account) -> Result<(), Error> {
    count(tx, env, by, them.id, 1)?;
    env.feeds.followed(tx, by, them);
    env.streams.bonds_changed(tx, by);
    if them.is_local() {
        env.streams.followers_changed(tx, them.id, by);
        env.streams.follow_changed(tx, by, them.id);
        notifications::notify(tx, env, them.id, Kind::Follow, by, None)?;
    }
    Ok(())
}

fn count(tx: &mut Tx, env: &Env, by: Id, target: Id, step: i64) -> Result<(), Error> {
    env.streams.touched(tx, Noun::Account(by));
    env.streams.touched(tx, Noun::Account(target));
    tx.run(
        "UPDATE accounts SET following_count = following_count + ?2
         WHERE id = ?1 AND following_count + ?2 >= 0",
        params![by, step],
    )?;
    tx.run(
        "UPDATE accounts SET followers_count = followers_count + ?2
         WHERE id = ?1 AND followers_count + ?2 >= 0",
        params![target, step],
    )?;
    Ok(())
}

/// A remote account asks to follow a local one: established at once unless it is locked.
///
/// # Errors
/// The database's. A blocked follower's wish is refused, not an error: `None`.
pub fn receive(
    tx: &mut Tx,
    env: &Env,
    by: Id,
    target: Id,
    uri: &str,
) -> Result<Option<Following>, Error> {
    let them = accounts::by_id(tx, target)?;
    if blocked(tx, by, target)? || !them.is_available() || them.moved_to_id.is_some() {
        federation::send(tx, env, target, Message::RejectFollow { uri: uri.into(), follower: by })?;
        return Ok(None);
    }
    let accept = Message::AcceptFollow { uri: uri.into(), follower: by };
    let known = "UPDATE follows SET uri = ?3 WHERE account_id = ?1 AND target_id = ?2";
    if tx.execute(known, params![by, target, uri])? > 0 {
        federation::send(tx, env, target, accept)?;
        return Ok(Some(Following::Yes));
    }
    let follower = accounts::by_id(tx, by)?;
    if them.locked || follower.silenced_at.is_some() {
        let id = env.ids.next();
        if insert(tx, "follow_requests", id, by, target, uri, &FollowWish::default())? {
            env.streams.followers_changed(tx, target, by);
            notifications::notify(tx, env, target, Kind::FollowRequest, by, None)?;
        }
        return Ok(Some(Following::Requested));
    }
    insert(tx, "follows", env.ids.next(), by, target, uri, &FollowWish::default())?;
    established(tx, env, by, &them)?;
    federation::send(tx, env, target, accept)?;
    Ok(Some(Following::Yes))
}

/// `target` lets `by` follow: a local person who approves, or a remote one who accepted.
///
/// # Errors
/// [`Error::NotFound`] when nobody asked.
pub fn accept_request(tx: &mut Tx, env: &Env, target: Id, by: Id) -> Result<(), Error> {
    let them = accounts::by_id(tx, target)?;
    let uri: Option<String> = tx.value(
        "SELECT uri FROM follow_requests WHERE account_id = ?1 AND target_id = ?2",
        params![by, target],
    )?;
    let uri = uri.ok_or(Error::NotFound("Follow request"))?;
    let inserted = tx.execute(
        "INSERT INTO follows (account_id, target_id, id, uri, boosts, notify, languages)
         SELECT account_id, target_id, id, uri, boosts, notify, languages FROM follow_requests
         WHERE account_id = ?1 AND target_id = ?2 ON CONFLICT DO NOTHING",
        params![by, target],
    )?;
    forget_request(tx, env, by, target)?;
    if inserted > 0 {
        established(tx, env, by, &them)?;
    }
    if them.is_local() && !accounts::by_id(tx, by)?.is_local() {
        federation::send(tx, env, target, Message::AcceptFollow { uri, follower: by })?;
    }
    Ok(())
}

pub(super) fn forget_request(tx: &mut Tx, env: &Env, by: Id, target: Id) -> Result<bool, Error> {
    let removed = tx.execute(
        "DELETE FROM follow_requests WHERE account_id = ?1 AND target_id = ?2",
        params![by, target],
    )?;
    tx.run(
        "DELETE FROM notifications WHERE account_id = ?2 AND kind = 'follow_request'
           AND from_account_id = ?1",
        params![by, target],
    )?;
    if removed > 0 {
        env.streams.bonds_changed(tx, by);
        env.streams.followers_changed(tx, target, by);
    }
    Ok(removed > 0)
}

/// `target` refuses `by`'s request.
///
/// # Errors
/// [`Error::NotFound`] when nobody asked.
pub fn reject_request(tx: &mut Tx, env: &Env, target: Id, by: Id) -> Result<(), Error> {
    let uri: Option<String> = tx.value(
        "SELECT uri FROM follow_requests WHERE account_id = ?1 AND target_id = ?2",
        params![by, target],
    )?;
    let uri = uri.ok_or(Error::NotFound("Follow request"))?;
    forget_request(tx, env, by, target)?;
    refuse_remote(tx, env, target, by, uri)
}

fn refuse_remote(tx: &mut Tx, env: &Env, target: Id, by: Id, uri: String) -> Result<(), Error> {
    let both = (accounts::by_id(tx, target)?.is_local(), accounts::by_id(tx, by)?.is_local());
    if both == (true, false) {
        federation::send(tx, env, target, Message::RejectFollow { uri, follower: by })?;
    }
    Ok(())
}

/// `by` no longer follows, or no longer asks to follow, `target`. True when something ended.
///
/// # Errors
/// The database's.
pub fn unfollow(tx: &mut Tx, env: &Env, by: Id, target: Id) -> Result<bool, Error> {
    let id: Option<Id> = tx.value(
        "SELECT id FROM follows WHERE account_id = ?1 AND target_id = ?2
         UNION ALL SELECT id FROM follow_requests WHERE account_id = ?1 AND target_id = ?2",
        params![by, target],
    )?;
    let Some(id) = id else { return Ok(false) };
    end(tx, env, by, target)?;
    forget_request(tx, env, by, target)?;
    let (one, other) = (accounts::by_id(tx, by)?, accounts::by_id(tx, target)?);
    if one.is_local() && !other.is_local() {
        federation::send(tx, env, by, Message::Unfollow { id, target })?;
    }
    Ok(true)
}

/// Ends a follow without telling anybody.
pub(super) fn end(tx: &mut Tx, env: &Env, by: Id, target: Id) -> Result<Option<String>, Error> {
    let ended: Option<String> = tx.value(
        "DELETE FROM follows WHERE account_id = ?1 AND target_id = ?2 RETURNING uri",
        params![by, target],
    )?;
    if ended.is_some() {
        count(tx, env, by, target, -1)?;
        env.feeds.unfollowed(tx, by, target);
        env.streams.bonds_changed(tx, by);
        env.streams.followers_changed(tx, target, by);
        env.streams.follow_changed(tx, by, target);
        // Whoever follows again later is told of again.
        notifications::withdraw(tx, env, target, Kind::Follow, by, None)?;
        tx.run(
            "DELETE FROM list_accounts WHERE account_id = ?2
               AND list_id IN (SELECT id FROM lists WHERE account_id = ?1)",
            params![by, target],
        )?;
    }
    Ok(ended)
}

/// Ends a follow, or the wish for one, without telling anybody: one of the two is gone.
///
/// # Errors
/// The database's.
pub fn end_quietly(tx: &mut Tx, env: &Env, by: Id, target: Id) -> Result<(), Error> {
    end(tx, env, by, target)?;
    forget_request(tx, env, by, target)?;
    Ok(())
}

/// `target` makes `by` stop following.
///
/// # Errors
/// The database's.
pub fn remove_follower(tx: &mut Tx, env: &Env, target: Id, by: Id) -> Result<(), Error> {
    if let Some(uri) = end(tx, env, by, target)? {
        refuse_remote(tx, env, target, by, uri)?;
    }
    Ok(())
}

/// Whom `account` follows, the newest follow first, below `before` (a follow's id): pairs of the
/// follow's id and the account.
///
/// # Errors
/// The database's.
pub fn following_ids(
    tx: &mut Tx,
    account: Id,
    before: Id,
    limit: usize,
) -> Result<Vec<(Id, Id)>, Error> {
    Ok(tx.query(
        "SELECT id, target_id FROM follows WHERE account_id = ?1 AND id < ?2
         ORDER BY id DESC LIMIT ?3",
        params![account, before, limit],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?)
}

/// Who follows `account`, as [`following_ids`].
///
/// # Errors
/// The database's.
pub fn follower_ids(
    tx: &mut Tx,
    account: Id,
    before: Id,
    limit: usize,
) -> Result<Vec<(Id, Id)>, Error> {
    Ok(tx.query(
        "SELECT id, account_id FROM follows WHERE target_id = ?1 AND id < ?2
         ORDER BY id DESC LIMIT ?3",
        params![account, before, limit],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?)
}
