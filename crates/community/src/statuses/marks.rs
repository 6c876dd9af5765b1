//! Favouriting, boosting, bookmarking, pinning, and muting a conversation.

use std::collections::{BTreeMap, HashMap};

use weir_base::Id;
use weir_db::{Json, ToValue, Tx, Value, params};

use super::publish::Reach;
use super::{
    Status, View, Visibility, by_id, delete, may_boost, publish, visibility, visible_post,
};
use crate::federation::order::Version;
use crate::federation::{self, Message};
use crate::notifications::{self, Kind, Notice};
use crate::streams::Noun;
use crate::timelines::Range;
use crate::{Env, Error, accounts, search};

/// `by` favourites post `id`. Again is no error.
///
/// # Errors
/// [`Error::NotFound`] when it is not there for this person.
pub fn favourite(tx: &mut Tx, env: &Env, by: Id, id: Id) -> Result<Id, Error> {
    let status = visible_post(tx, Some(by), id)?;
    search::status_marked(tx, env, &status)?;
    if add_favourite(tx, env, by, &status)?.is_some_and(|_| !status.local) {
        let row = "SELECT id FROM favourites WHERE status_id = ?1 AND account_id = ?2";
        if let Some(favourite) = tx.value(row, params![status.id, by])? {
            let message = Message::Favourite { id: favourite, status: status.id };
            federation::send(tx, env, by, message)?;
        }
    }
    Ok(status.id)
}

/// Writes a favourite of anybody; its id when it is new.
pub(crate) fn add_favourite(
    tx: &mut Tx,
    env: &Env,
    by: Id,
    status: &Status,
) -> Result<Option<Id>, Error> {
    let id = env.ids.next();
    if tx.execute(FAVOURITE, &favourite_row(id, by, status.id))? == 0 {
        return Ok(None);
    }
    tx.run(
        "UPDATE statuses SET favourites_count = favourites_count + 1 WHERE id = ?1",
        params![status.id],
    )?;
    env.streams.touched(tx, Noun::Post(status.id));
    env.streams.marked(tx, by, status.id);
    notifications::notify(tx, env, status.account_id, Kind::Favourite, by, Some(status.id))?;
    Ok(Some(id))
}

/// Writes a favourite, unless there is one already.
pub(super) const FAVOURITE: &str =
    "INSERT INTO favourites (id, account_id, status_id) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING";

/// A row for [`FAVOURITE`].
pub(super) fn favourite_row(id: Id, by: Id, status: Id) -> [Value<'static>; 3] {
    [id, by, status].map(|id| Value::Int(id.0))
}

/// Post `id`, if `by` may see it or has marked it, which `marked` (post, person) looks for: a mark
/// can be taken back when the post has gone out of sight.
fn post_of_mark(tx: &mut Tx, by: Id, id: Id, marked: &str) -> Result<Status, Error> {
    match visible_post(tx, Some(by), id) {
        Err(Error::NotFound(what)) => match tx.value::<Id>(marked, params![id, by])? {
            Some(_) => by_id(tx, id),
            None => Err(Error::NotFound(what)),
        },
        seen => seen,
    }
}

/// `by` takes a favourite back. Without one it is no error.
///
/// # Errors
/// [`Error::NotFound`] when the post is not there for this person.
pub fn unfavourite(tx: &mut Tx, env: &Env, by: Id, id: Id) -> Result<Id, Error> {
    let mark = "SELECT id FROM favourites WHERE status_id = ?1 AND account_id = ?2";
    let status = post_of_mark(tx, by, id, mark)?;
    if let Some(favourite) = remove_favourite(tx, env, by, &status)?.filter(|_| !status.local) {
        let (status_uri, author) = (status.uri.clone(), status.account_id);
        let message = Message::Unfavourite { id: favourite, status_uri, author };
        federation::send(tx, env, by, message)?;
    }
    Ok(status.id)
}

/// Whether the favourite `id` still holds.
///
/// # Errors
/// The database's.
pub fn is_favourite(tx: &mut Tx, id: Id) -> Result<bool, Error> {
    let found: Option<i64> = tx.value("SELECT 1 FROM favourites WHERE id = ?1", params![id])?;
    Ok(found.is_some())
}

/// Removes a favourite of anybody; its id when there was one.
pub(crate) fn remove_favourite(
    tx: &mut Tx,
    env: &Env,
    by: Id,
    status: &Status,
) -> Result<Option<Id>, Error> {
    Ok(remove_favourites(tx, env, &[(by, status)])?.pop())
}

/// The same of many: whose, and of which post. No two may be the same.
pub(super) fn remove_favourites(
    tx: &mut Tx,
    env: &Env,
    marks: &[(Id, &Status)],
) -> Result<Vec<Id>, Error> {
    let mut removed: HashMap<(Id, Id), Id> = HashMap::new();
    tx.query_each(
        "DELETE FROM favourites WHERE status_id = ?1 AND account_id = ?2
         RETURNING id, account_id, status_id",
        marks.iter().map(|(by, status)| [status.id.to_value(), by.to_value()]),
        |row| {
            removed.insert((row.get(1)?, row.get(2)?), row.get(0)?);
            Ok(())
        },
    )?;
    let (mut counts, mut notices) = (BTreeMap::new(), Vec::new());
    for (by, status) in marks.iter().filter(|(by, post)| removed.contains_key(&(*by, post.id))) {
        *counts.entry(status.id).or_insert(0) += 1;
        env.streams.touched(tx, Noun::Post(status.id));
        env.streams.marked(tx, *by, status.id);
        let (to, status) = (status.account_id, Some(status.id));
        notices.push(Notice { to, kind: Kind::Favourite, from: *by, status });
    }
    tx.run_all(
        "UPDATE statuses SET favourites_count =
           CASE WHEN favourites_count > ?2 THEN favourites_count - ?2 ELSE 0 END WHERE id = ?1",
        counts.iter().map(|(post, count): (&Id, &i64)| [post.to_value(), count.to_value()]),
    )?;
    notifications::withdraw_each(tx, env, &notices)?;
    Ok(removed.into_values().collect())
}

/// `by` boosts post `id` to those whom `wanted` says (at most as widely as the post itself). The
/// boost's id; again gives the first one.
///
/// # Errors
/// [`Error::NotFound`] when the post is not there or not to be boosted by this person.
pub fn boost(
    tx: &mut Tx,
    env: &Env,
    by: Id,
    id: Id,
    wanted: Option<Visibility>,
) -> Result<Id, Error> {
    let post = visible_post(tx, Some(by), id)?;
    if !may_boost(&visibility::bond(tx, Some(by), &post)?) {
        return Err(Error::NotFound("Status"));
    }
    let known: Option<Id> = tx.value(
        "SELECT id FROM statuses WHERE boost_of_id = ?1 AND account_id = ?2",
        params![post.id, by],
    )?;
    if let Some(known) = known {
        return Ok(known);
    }
    let author = accounts::by_id(tx, by)?;
    let boost_id = env.ids.next();
    let wanted = wanted.filter(|wanted| *wanted != Visibility::Direct);
    let visibility = wanted.unwrap_or(Visibility::Public).max(post.visibility);
    let uri = env.site.status_uri(by, boost_id);
    let boost = boost_row(env, &post, by, boost_id, visibility, format!("{uri}/activity"));
    let boost = Status { url: env.site.status_url(&author.username, boost_id), ..boost };
    add_boost(tx, env, &Status { local: true, ..boost }, &post)?;
    federation::send(tx, env, by, Message::Boost { status: boost_id })?;
    Ok(boost_id)
}

/// The row of a boost.
pub(crate) fn boost_row(
    env: &Env,
    post: &Status,
    by: Id,
    id: Id,
    visibility: Visibility,
    uri: String,
) -> Status {
    Status {
        id,
        account_id: by,
        local: false,
        url: uri.clone(),
        uri,
        created_at: id.time().min(env.clock.now()),
        edited_at: None,
        visibility,
        content: String::new(),
        source: String::new(),
        spoiler: String::new(),
        sensitive: false,
        language: None,
        in_reply_to_id: None,
        in_reply_to_account_id: None,
        in_reply_to_uri: None,
        boost_of_id: Some(post.id),
        conversation_id: post.conversation_id,
        poll_id: None,
        card_id: None,
        app_id: None,
        media_ids: Json(Vec::new()),
        replies_count: 0,
        boosts_count: 0,
        favourites_count: 0,
    }
}

/// Writes a boost of anybody, counts and announces it; false when there was one already.
pub(crate) fn add_boost(
    tx: &mut Tx,
    env: &Env,
    boost: &Status,
    post: &Status,
) -> Result<bool, Error> {
    let version = Version { at: boost.created_at, seq: boost.id };
    if !publish::insert(tx, boost, version)? {
        return Ok(false);
    }
    tx.run("UPDATE statuses SET boosts_count = boosts_count + 1 WHERE id = ?1", params![post.id])?;
    env.streams.touched(tx, Noun::Post(post.id));
    env.streams.marked(tx, boost.account_id, post.id);
    publish::count(tx, env, boost, None)?;
    notifications::notify(tx, env, post.account_id, Kind::Reblog, boost.account_id, Some(post.id))?;
    publish::announce(tx, env, boost, &[], &[], Reach::UNKNOWN)?;
    Ok(true)
}

/// `by` takes the boost of post `id` back; the post's id. Without one it is no error.
///
/// # Errors
/// [`Error::NotFound`] when the post is not there for this person.
pub fn unboost(tx: &mut Tx, env: &Env, by: Id, id: Id) -> Result<Id, Error> {
    let given = by_id(tx, id)?;
    let post = match given.boost_of_id {
        Some(of) if given.account_id == by => by_id(tx, of)?,
        _ => {
            let mark = "SELECT id FROM statuses WHERE boost_of_id = ?1 AND account_id = ?2";
            post_of_mark(tx, by, id, mark)?
        }
    };
    let boost: Option<Status> = tx.record(
        "SELECT {} FROM statuses WHERE boost_of_id = ?1 AND account_id = ?2",
        params![post.id, by],
    )?;
    let Some(boost) = boost else { return Ok(post.id) };
    delete::erase(tx, env, &boost)?;
    notifications::withdraw(tx, env, post.account_id, Kind::Reblog, by, Some(post.id))?;
    let message = Message::Unboost {
        uri: boost.uri,
        of_uri: post.uri.clone(),
        author: post.account_id,
        visibility: boost.visibility,
        at: boost.created_at,
    };
    federation::send(tx, env, by, message)?;
    Ok(post.id)
}

/// `by` keeps post `id`. Again is no error.
///
/// # Errors
/// [`Error::NotFound`].
pub fn bookmark(tx: &mut Tx, env: &Env, by: Id, id: Id) -> Result<Id, Error> {
    let status = visible_post(tx, Some(by), id)?;
    super::hold(tx, status.id)?;
    tx.run(
        "INSERT INTO bookmarks (id, account_id, status_id) VALUES (?1, ?2, ?3)
         ON CONFLICT DO NOTHING",
        params![env.ids.next(), by, status.id],
    )?;
    search::status_marked(tx, env, &status)?;
    env.streams.marked(tx, by, status.id);
    Ok(status.id)
}

/// `by` no longer keeps post `id`.
///
/// # Errors
/// [`Error::NotFound`].
pub fn unbookmark(tx: &mut Tx, env: &Env, by: Id, id: Id) -> Result<Id, Error> {
    let mark = "SELECT id FROM bookmarks WHERE status_id = ?1 AND account_id = ?2";
    let status = post_of_mark(tx, by, id, mark)?;
    tx.run(
        "DELETE FROM bookmarks WHERE status_id = ?1 AND account_id = ?2",
        params![status.id, by],
    )?;
    env.streams.marked(tx, by, status.id);
    Ok(status.id)
}

/// `by` shows their own post `id` at the top of their profile.
///
/// # Errors
/// [`Error::Invalid`] when it is not theirs, not open, or there are too many.
pub fn pin(tx: &mut Tx, env: &Env, by: Id, id: Id) -> Result<(), Error> {
    let status = visible_post(tx, Some(by), id)?;
    let refuse = |message: &str| Err(Error::invalid("status", "ERR_INVALID", message));
    if status.account_id != by {
        return refuse("of someone else cannot be pinned");
    }
    if status.visibility == Visibility::Direct {
        return refuse("that is only visible to mentioned people cannot be pinned");
    }
    let pinned: Vec<Id> =
        tx.column("SELECT status_id FROM pins WHERE account_id = ?1", params![by])?;
    if pinned.contains(&status.id) {
        return refuse("has already been pinned");
    }
    if pinned.len() >= env.instance.settings().pinned_statuses_max {
        return refuse("cannot be pinned: you have already pinned the maximum number of posts");
    }
    tx.run(
        "INSERT INTO pins (account_id, status_id, id) VALUES (?1, ?2, ?3)",
        params![by, status.id, env.ids.next()],
    )?;
    env.streams.marked(tx, by, status.id);
    federation::send(tx, env, by, Message::Pin { status: status.id })
}

/// Whether `by` still shows post `id` at the top of their profile.
///
/// # Errors
/// The database's.
pub fn is_pinned(tx: &mut Tx, by: Id, id: Id) -> Result<bool, Error> {
    let sql = "SELECT 1 FROM pins WHERE account_id = ?1 AND status_id = ?2";
    let found: Option<i64> = tx.value(sql, params![by, id])?;
    Ok(found.is_some())
}

/// `by` takes post `id` from the top of their profile.
///
/// # Errors
/// [`Error::NotFound`].
pub fn unpin(tx: &mut Tx, env: &Env, by: Id, id: Id) -> Result<(), Error> {
    let status = visible_post(tx, Some(by), id)?;
    let removed = tx.execute(
        "DELETE FROM pins WHERE account_id = ?1 AND status_id = ?2",
        params![by, status.id],
    )?;
    if removed > 0 {
        env.streams.marked(tx, by, status.id);
        federation::send(tx, env, by, Message::Unpin { status_uri: status.uri })?;
    }
    Ok(())
}

/// Remote account `of` shows these of its posts at the top of its profile, in this order.
///
/// # Errors
/// The database's.
pub fn set_pins(tx: &mut Tx, env: &Env, of: Id, posts: &[Id]) -> Result<(), Error> {
    tx.run("DELETE FROM pins WHERE account_id = ?1", params![of])?;
    // The newest pin is shown first.
    for post in posts.iter().rev() {
        tx.run(
            "INSERT INTO pins (account_id, status_id, id)
             SELECT ?1, id, ?3 FROM statuses WHERE id = ?2 AND account_id = ?1
             ON CONFLICT DO NOTHING",
            params![of, *post, env.ids.next()],
        )?;
    }
    Ok(())
}

/// `by` wants no more notifications from the conversation of post `id`.
///
/// # Errors
/// [`Error::NotFound`].
pub fn mute_conversation(tx: &mut Tx, env: &Env, by: Id, id: Id) -> Result<Id, Error> {
    let status = visible_post(tx, Some(by), id)?;
    super::hold(tx, status.id)?;
    tx.run(
        "INSERT INTO conversation_mutes (account_id, conversation_id) VALUES (?1, ?2)
         ON CONFLICT DO NOTHING",
        params![by, status.conversation_id],
    )?;
    env.streams.conversation_muted(tx, by);
    Ok(status.id)
}

/// `by` wants notifications from the conversation of post `id` again.
///
/// # Errors
/// [`Error::NotFound`].
pub fn unmute_conversation(tx: &mut Tx, env: &Env, by: Id, id: Id) -> Result<Id, Error> {
    let status = visible_post(tx, Some(by), id)?;
    tx.run(
        "DELETE FROM conversation_mutes WHERE account_id = ?1 AND conversation_id = ?2",
        params![by, status.conversation_id],
    )?;
    env.streams.conversation_muted(tx, by);
    Ok(status.id)
}

/// The posts `of` pinned, the newest pin first, as `reader` may see them.
///
/// # Errors
/// The database's.
pub fn pinned(tx: &mut Tx, env: &Env, reader: Option<Id>, of: Id) -> Result<Vec<View>, Error> {
    let list: Vec<Id> = tx
        .column("SELECT status_id FROM pins WHERE account_id = ?1 ORDER BY id DESC", params![of])?;
    super::load(tx, env, reader, &list)
}

/// What a person did with posts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// Kept them.
    Bookmark,
    /// Favourited them.
    Favourite,
}

/// A page of the posts `by` marked so, the newest mark first: the mark's id and the post's.
///
/// # Errors
/// The database's.
pub fn marked(tx: &mut Tx, by: Id, mark: Mark, range: Range) -> Result<Vec<(Id, Id)>, Error> {
    let table = match mark {
        Mark::Bookmark => "bookmarks",
        Mark::Favourite => "favourites",
    };
    let (order, bounds) = range.sql("id", 2);
    let (above, below) = range.bounds();
    let sql = format!(
        "SELECT id, status_id FROM {table} WHERE account_id = ?1 AND {bounds}
         ORDER BY id {order} LIMIT ?4"
    );
    let values = [by.0, above.0, below.0, range.limit as i64].map(Value::Int);
    let mut rows = tx.query(&sql, &values, |row| Ok((row.get(0)?, row.get(1)?)))?;
    if range.ascends() {
        rows.reverse();
    }
    Ok(rows)
}
