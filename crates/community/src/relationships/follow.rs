//! Following, and being followed.

use std::collections::{BTreeMap, HashSet};

use weir_base::Id;
use weir_db::{Json, ToValue, Tx, Value, params};

use crate::accounts::{self, Account};
use crate::federation::{self, Distribute, Message};
use crate::notifications::{self, Kind, Notice};
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
/// [`Error::Forbidden`] when one blocks the other, the follower blocks the target's server, the
/// target moved or is the follower itself.
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
    let refused = by == target
        || them.moved_to_id.is_some()
        || blocked(tx, by, target)?
        || blocks_server(tx, by, &them.domain)?;
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

/// Whether `account` is followed by `follower`.
///
/// # Errors
/// The database's.
pub fn is_followed(tx: &mut Tx, account: Id, follower: Id) -> Result<bool, Error> {
    let found: Option<i64> = tx.value(
        "SELECT 1 FROM follows WHERE account_id = ?1 AND target_id = ?2",
        params![follower, account],
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

/// Whether `person` blocks all of the server `domain`; never this one.
fn blocks_server(tx: &mut Tx, person: Id, domain: &str) -> Result<bool, Error> {
    let found: Option<i64> = tx.value(
        "SELECT 1 FROM account_domain_blocks WHERE account_id = ?1 AND domain = ?2",
        params![person, domain],
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
    let languages = Json(wish.languages.clone().unwrap_or_default());
    let row = row([by, target, id], uri, wish, &languages);
    Ok(tx.execute(&insertion(table), &row)? > 0)
}

/// Writes a follow, or a wish for one, unless there is one already.
fn insertion(table: &str) -> String {
    format!(
        "INSERT INTO {table} (account_id, target_id, id, uri, boosts, notify, languages)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT DO NOTHING"
    )
}

/// A row for [`insertion`]: of whom, whom, and its id.
fn row<'r>(
    ids: [Id; 3],
    uri: &'r str,
    wish: &FollowWish,
    languages: &'r Json<Vec<String>>,
) -> [Value<'r>; 7] {
    let [by, target, id] = ids.map(|id| Value::Int(id.0));
    let [boosts, notify] = [wish.boosts.unwrap_or(true), wish.notify.unwrap_or(false)];
    let [boosts, notify] = [boosts, notify].map(|is| Value::Int(is.into()));
    [by, target, id, uri.to_value(), boosts, notify, languages.to_value()]
}

/// What goes with a follow that has just come to be: counts, memory, the notification.
fn established(tx: &mut Tx, env: &Env, by: Id, them: &Account) -> Result<(), Error> {
    established_each(tx, env, &[(by, them)])
}

/// The same of many.
fn established_each(tx: &mut Tx, env: &Env, new: &[(Id, &Account)]) -> Result<(), Error> {
    count(tx, env, new.iter().map(|(by, them)| (*by, them.id)), 1)?;
    let mut notices = Vec::new();
    for (by, them) in new {
        env.feeds.followed(tx, *by, them);
        env.streams.bonds_changed(tx, *by);
        if them.is_local() {
            env.streams.followers_changed(tx, them.id, *by);
            env.streams.follow_changed(tx, *by, them.id);
            notices.push(Notice { to: them.id, kind: Kind::Follow, from: *by, status: None });
        }
    }
    notifications::notify_each(tx, env, notices)
}

/// Counts follows that came to be, or ended: pairs of who follows and whom.
fn count(
    tx: &mut Tx,
    env: &Env,
    pairs: impl IntoIterator<Item = (Id, Id)>,
    step: i64,
) -> Result<(), Error> {
    let (mut following, mut followers) = (BTreeMap::new(), BTreeMap::new());
    for (by, target) in pairs {
        env.streams.touched(tx, Noun::Account(by));
        env.streams.touched(tx, Noun::Account(target));
        *following.entry(by).or_insert(0) += step;
        *followers.entry(target).or_insert(0) += step;
    }
    let row = |(account, steps): (&Id, &i64)| [Value::Int(account.0), Value::Int(*steps)];
    for (column, steps) in [("following_count", following), ("followers_count", followers)] {
        let sql = format!(
            "UPDATE accounts SET {column} =
               CASE WHEN {column} + ?2 > 0 THEN {column} + ?2 ELSE 0 END WHERE id = ?1"
        );
        tx.run_all(&sql, steps.iter().map(row))?;
    }
    Ok(())
}

/// A remote account that asks to follow a local one.
pub(super) struct Asking<'a> {
    pub(super) by: &'a Account,
    pub(super) target: &'a Account,
    /// The Follow's address.
    pub(super) uri: &'a str,
}

/// Remote accounts ask to follow local ones: established at once, by statements for all of them,
/// unless the target is locked or the follower limited. A follower's wish is refused whom, or whose
/// server, the target blocks. A request that waited ends with the answer. No two may be of the same
/// two people.
pub(super) fn receive_each(tx: &mut Tx, env: &Env, asking: &[Asking<'_>]) -> Result<(), Error> {
    if asking.is_empty() {
        return Ok(());
    }
    let bonds = asked_bonds(tx, asking)?;
    let (mut messages, mut again, mut new) = (Vec::new(), Vec::new(), Vec::new());
    let mut answered = Vec::new();
    for (one, bond) in asking.iter().zip(bonds) {
        let Asking { by, target, uri } = one;
        let refused = bond.blocked || !target.is_available() || target.moved_to_id.is_some();
        if !refused && !bond.follows && (target.locked || by.silenced_at.is_some()) {
            request(tx, env, one)?;
            continue;
        }
        let (uri, follower) = ((*uri).to_owned(), by.id);
        let message = match refused {
            true => Message::RejectFollow { uri, follower },
            false => Message::AcceptFollow { uri, follower },
        };
        messages.push(Distribute { by: target.id, message });
        if bond.asks {
            answered.push((by.id, target.id));
        }
        match (refused, bond.follows) {
            (true, _) => {}
            (false, true) => again.push(one),
            (false, false) => new.push(one),
        }
    }
    tx.run_all(
        "UPDATE follows SET uri = ?3 WHERE account_id = ?1 AND target_id = ?2",
        again
            .iter()
            .map(|one| [Value::Int(one.by.id.0), Value::Int(one.target.id.0), one.uri.to_value()]),
    )?;
    let (wish, all) = (FollowWish::default(), Json(Vec::new()));
    let rows =
        new.iter().map(|one| row([one.by.id, one.target.id, env.ids.next()], one.uri, &wish, &all));
    tx.run_all(&insertion("follows"), rows)?;
    if !answered.is_empty() {
        forget_requests(tx, env, &answered)?;
    }
    let new: Vec<(Id, &Account)> = new.iter().map(|one| (one.by.id, one.target)).collect();
    established_each(tx, env, &new)?;
    if !messages.is_empty() {
        env.jobs.enqueue_many(tx, &messages)?;
    }
    Ok(())
}

/// The wish waits for the one who is to be followed.
fn request(tx: &mut Tx, env: &Env, asking: &Asking<'_>) -> Result<(), Error> {
    let (id, by, target) = (env.ids.next(), asking.by.id, asking.target.id);
    if insert(tx, "follow_requests", id, by, target, asking.uri, &FollowWish::default())? {
        env.streams.followers_changed(tx, target, by);
        notifications::notify(tx, env, target, Kind::FollowRequest, by, None)?;
    }
    Ok(())
}

/// What counts of two when one asks to follow the other.
struct AskedBond {
    /// One of them blocks the other, or the target the follower's server.
    blocked: bool,
    follows: bool,
    /// A request of before waits.
    asks: bool,
}

fn asked_bonds(tx: &mut Tx, asking: &[Asking<'_>]) -> Result<Vec<AskedBond>, Error> {
    let mut bonds = Vec::with_capacity(asking.len());
    tx.query_each(
        "SELECT (SELECT count(*) FROM blocks WHERE (account_id = ?1 AND target_id = ?2)
             OR (account_id = ?2 AND target_id = ?1))
           + (SELECT count(*) FROM account_domain_blocks WHERE account_id = ?2 AND domain = ?3),
           (SELECT count(*) FROM follows WHERE account_id = ?1 AND target_id = ?2),
           (SELECT count(*) FROM follow_requests WHERE account_id = ?1 AND target_id = ?2)",
        asking.iter().map(|Asking { by, target, .. }| {
            [by.id.to_value(), target.id.to_value(), by.domain.to_value()]
        }),
        |row| {
            let is = |column| Ok::<_, weir_db::Error>(row.get::<i64>(column)? > 0);
            bonds.push(AskedBond { blocked: is(0)?, follows: is(1)?, asks: is(2)? });
            Ok(())
        },
    )?;
    Ok(bonds)
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
    forget_requests(tx, env, &[(by, target)])?;
    if inserted > 0 {
        established(tx, env, by, &them)?;
    }
    if them.is_local() && !accounts::by_id(tx, by)?.is_local() {
        federation::send(tx, env, target, Message::AcceptFollow { uri, follower: by })?;
    }
    Ok(())
}

/// Ends wishes to follow: pairs of who asked and whom.
fn forget_requests(tx: &mut Tx, env: &Env, pairs: &[(Id, Id)]) -> Result<(), Error> {
    let mut removed: Vec<(Id, Id)> = Vec::new();
    tx.query_each(
        "DELETE FROM follow_requests WHERE account_id = ?1 AND target_id = ?2
         RETURNING account_id, target_id",
        pairs.iter().map(ids_of),
        |row| {
            removed.push((row.get(0)?, row.get(1)?));
            Ok(())
        },
    )?;
    tx.run_all(
        "DELETE FROM notifications WHERE account_id = ?2 AND kind = 'follow_request'
           AND from_account_id = ?1",
        pairs.iter().map(ids_of),
    )?;
    for (by, target) in removed {
        env.streams.bonds_changed(tx, by);
        env.streams.followers_changed(tx, target, by);
    }
    Ok(())
}

fn ids_of((one, other): &(Id, Id)) -> [Value<'static>; 2] {
    [Value::Int(one.0), Value::Int(other.0)]
}

/// `target` refuses `by`'s request; a follow that stands beside it ends too.
///
/// # Errors
/// [`Error::NotFound`] when nobody asked.
pub fn reject_request(tx: &mut Tx, env: &Env, target: Id, by: Id) -> Result<(), Error> {
    let uri: Option<String> = tx.value(
        "SELECT uri FROM follow_requests WHERE account_id = ?1 AND target_id = ?2",
        params![by, target],
    )?;
    let uri = uri.ok_or(Error::NotFound("Follow request"))?;
    end_quietly(tx, env, by, target)?;
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
    end_quietly(tx, env, by, target)?;
    let (one, other) = (accounts::by_id(tx, by)?, accounts::by_id(tx, target)?);
    if one.is_local() && !other.is_local() {
        federation::send(tx, env, by, Message::Unfollow { id, target })?;
    }
    Ok(true)
}

/// Ends a follow without telling anybody; its address, if there was one.
fn end(tx: &mut Tx, env: &Env, by: Id, target: Id) -> Result<Option<String>, Error> {
    Ok(end_each(tx, env, &[(by, target)])?.pop())
}

/// The same of many: pairs of who follows and whom. The addresses of those that there were.
fn end_each(tx: &mut Tx, env: &Env, pairs: &[(Id, Id)]) -> Result<Vec<String>, Error> {
    let (mut ended, mut addresses): (Vec<(Id, Id)>, Vec<String>) = (Vec::new(), Vec::new());
    tx.query_each(
        "DELETE FROM follows WHERE account_id = ?1 AND target_id = ?2
         RETURNING account_id, target_id, uri",
        pairs.iter().map(ids_of),
        |row| {
            ended.push((row.get(0)?, row.get(1)?));
            addresses.push(row.get(2)?);
            Ok(())
        },
    )?;
    count(tx, env, ended.iter().copied(), -1)?;
    let mut notices = Vec::new();
    for (by, target) in &ended {
        let (by, target) = (*by, *target);
        env.feeds.unfollowed(tx, by, target);
        env.streams.bonds_changed(tx, by);
        env.streams.followers_changed(tx, target, by);
        env.streams.follow_changed(tx, by, target);
        // Whoever follows again later is told of again.
        notices.push(Notice { to: target, kind: Kind::Follow, from: by, status: None });
    }
    notifications::withdraw_each(tx, env, &notices)?;
    let mut listed: Vec<(Id, Id)> = Vec::new();
    tx.query_each(
        "SELECT list_id, CAST(?2 AS BIGINT) FROM list_accounts
         WHERE account_id = ?2 AND list_id IN (SELECT id FROM lists WHERE account_id = ?1)",
        ended.iter().map(ids_of),
        |row| {
            listed.push((row.get(0)?, row.get(1)?));
            Ok(())
        },
    )?;
    tx.run_all(
        "DELETE FROM list_accounts WHERE list_id = ?1 AND account_id = ?2",
        listed.iter().map(ids_of),
    )?;
    Ok(addresses)
}

/// Ends a follow, or the wish for one, without telling anybody: one of the two is gone.
///
/// # Errors
/// The database's.
pub fn end_quietly(tx: &mut Tx, env: &Env, by: Id, target: Id) -> Result<(), Error> {
    end_quietly_each(tx, env, &[(by, target)])
}

/// The same of many: pairs of who follows and whom.
pub(super) fn end_quietly_each(tx: &mut Tx, env: &Env, pairs: &[(Id, Id)]) -> Result<(), Error> {
    if pairs.is_empty() {
        return Ok(());
    }
    end_each(tx, env, pairs)?;
    forget_requests(tx, env, pairs)
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
