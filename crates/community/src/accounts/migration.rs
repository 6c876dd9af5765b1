//! Moving out to another account, and the other accounts (aliases) by which one may move in.

use weir_base::{Id, Timestamp};
use weir_db::{Json, Tx, params};

use super::{Account, by_id, by_ids, by_uris};
use crate::federation::chores::MigrateFollowers;
use crate::federation::{self, Message};
use crate::streams::Noun;
use crate::{Env, Error};

/// Aliases one account may have.
pub const ALIASES_MAX: usize = 10;
/// How long after one move the next may follow, in ms: 30 days. Each has every follower's server
/// at work.
pub const COOL_DOWN_MS: i64 = 30 * 24 * 60 * 60 * 1_000;

/// How an account stands to its owner's others.
#[derive(Debug, Clone)]
pub struct Migration {
    /// The accounts that may move their followers here.
    pub aliases: Vec<Alias>,
    /// Where this one moved to.
    pub moved_to: Option<Account>,
    /// When it may move (again), where that is not now.
    pub next_at: Option<Timestamp>,
}

/// Another account of the same person.
#[derive(Debug, Clone)]
pub struct Alias {
    /// Its actor id.
    pub uri: String,
    /// The account, where it is known here.
    pub account: Option<Account>,
}

fn refuse<T>(message: &str) -> Result<T, Error> {
    Err(Error::invalid("address", "ERR_INVALID", message))
}

/// What account `of` may do and has done.
///
/// # Errors
/// [`Error::NotFound`].
pub fn migration(tx: &mut Tx, env: &Env, of: Id) -> Result<Migration, Error> {
    let me = by_id(tx, of)?;
    let mut known = by_uris(tx, &me.also_known_as.0)?;
    let mut alias = |uri: &String| {
        let at = known.iter().position(|account| account.uri == *uri);
        Alias { uri: uri.clone(), account: at.map(|at| known.swap_remove(at)) }
    };
    let aliases = me.also_known_as.0.iter().map(&mut alias).collect();
    let moved_to = match me.moved_to_id {
        Some(id) => by_ids(tx, &[id])?.pop(),
        None => None,
    };
    let next_at = next_at(tx, of)?.filter(|at| *at > env.clock.now());
    Ok(Migration { aliases, moved_to, next_at })
}

fn next_at(tx: &mut Tx, of: Id) -> Result<Option<Timestamp>, Error> {
    let last: Option<Id> = tx.value(
        "SELECT id FROM migrations WHERE account_id = ?1 ORDER BY id DESC LIMIT 1",
        params![of],
    )?;
    Ok(last.map(|id| id.time().plus_ms(COOL_DOWN_MS)))
}

/// `by` says that account `other` is theirs too: that one may move its followers here.
///
/// # Errors
/// [`Error::Invalid`] when it is the same account or there are too many.
pub fn add_alias(tx: &mut Tx, env: &Env, by: Id, other: Id) -> Result<(), Error> {
    let (me, other) = (by_id(tx, by)?, by_id(tx, other)?);
    if other.id == me.id {
        return refuse("is this very account");
    }
    let mut aliases = me.also_known_as.0;
    if aliases.contains(&other.uri) {
        return Ok(());
    }
    if aliases.len() >= ALIASES_MAX {
        return refuse("is one too many: remove another alias first");
    }
    aliases.push(other.uri);
    set_aliases(tx, env, by, aliases)
}

/// `by` no longer says that the account with the actor id `uri` is theirs.
///
/// # Errors
/// The database's.
pub fn remove_alias(tx: &mut Tx, env: &Env, by: Id, uri: &str) -> Result<(), Error> {
    let mut aliases = by_id(tx, by)?.also_known_as.0;
    aliases.retain(|alias| alias != uri);
    set_aliases(tx, env, by, aliases)
}

fn set_aliases(tx: &mut Tx, env: &Env, by: Id, aliases: Vec<String>) -> Result<(), Error> {
    let sql = "UPDATE accounts SET also_known_as = ?2 WHERE id = ?1 AND domain = ''";
    tx.run(sql, params![by, Json(aliases)])?;
    federation::send(tx, env, by, Message::UpdateActor)
}

/// Local account `by` moves to `target`, which must name it among its aliases (the caller has
/// looked at it anew): its followers here follow the target instead, and other servers are told
/// so that theirs can do the same. Posts stay where they are.
///
/// # Errors
/// [`Error::Invalid`] when the target does not know of it, moved itself or is not to be had, or
/// when the last move was less than 30 days ago.
pub fn move_out(tx: &mut Tx, env: &Env, by: Id, target: Id) -> Result<(), Error> {
    let me = by_id(tx, by)?;
    if !me.is_local() || !me.is_available() {
        return Err(Error::Forbidden("This action is not allowed"));
    }
    let target = by_id(tx, target)?;
    if target.id == me.id {
        return refuse("is this very account");
    }
    if !target.is_available() || target.moved_to_id.is_some() {
        return refuse("cannot be moved to: it is not in use any more");
    }
    if me.moved_to_id == Some(target.id) {
        return refuse("is where this account moved to already");
    }
    if !target.also_known_as.0.contains(&me.uri) {
        return refuse("does not name this account: add an alias for it over there first");
    }
    if next_at(tx, by)?.is_some_and(|at| at > env.clock.now()) {
        return refuse("cannot be moved to yet: 30 days must lie between two moves");
    }
    tx.run(
        "INSERT INTO migrations (id, account_id, target_id, followers) VALUES (?1, ?2, ?3, ?4)",
        params![env.ids.next(), by, target.id, me.followers_count],
    )?;
    env.streams.touched(tx, Noun::Account(by));
    env.streams.touched(tx, Noun::Account(by));
    tx.run("UPDATE accounts SET moved_to_id = ?2 WHERE id = ?1", params![by, target.id])?;
    env.jobs.enqueue(tx, &MigrateFollowers { old: by, new: target.id })?;
    federation::send(tx, env, by, Message::UpdateActor)?;
    federation::send(tx, env, by, Message::Move { target: target.id })?;
    metrics::counter!("weir_community_accounts_moved_total").increment(1);
    Ok(())
}

/// `by` stays after all: its profile leads nowhere else any more. Followers who have moved stay
/// moved, and the time until the next move goes on.
///
/// # Errors
/// The database's.
pub fn move_back(tx: &mut Tx, env: &Env, by: Id) -> Result<(), Error> {
    let changed = tx.execute(
        "UPDATE accounts SET moved_to_id = NULL
         WHERE id = ?1 AND domain = '' AND moved_to_id IS NOT NULL",
        params![by],
    )?;
    if changed > 0 {
        federation::send(tx, env, by, Message::UpdateActor)?;
    }
    Ok(())
}
