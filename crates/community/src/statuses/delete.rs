//! Deleting posts.

use std::collections::{BTreeMap, HashMap};

use weir_base::Id;
use weir_db::{Tx, Value, ids, params};

use super::{Status, by_id, conversation};
use crate::federation::{self, Message};
use crate::streams::Noun;
use crate::{Env, Error, conversations, media};

/// `by` deletes their own post `id`; boosts of it go too, other servers are told.
///
/// # Errors
/// [`Error::NotFound`] when it is not theirs.
pub fn delete(tx: &mut Tx, env: &Env, by: Id, id: Id) -> Result<Status, Error> {
    let status = by_id(tx, id)?;
    if status.account_id != by || status.boost_of_id.is_some() {
        return Err(Error::NotFound("Status"));
    }
    let concerned: Vec<Id> = tx.column(
        "SELECT a.id FROM accounts a WHERE a.domain <> '' AND a.id IN (
           SELECT account_id FROM mentions WHERE status_id = ?1
           UNION SELECT account_id FROM statuses WHERE boost_of_id = ?1
           UNION SELECT account_id FROM statuses WHERE in_reply_to_id = ?1
           UNION SELECT account_id FROM statuses WHERE id = ?2) LIMIT 5000",
        params![id, status.in_reply_to_id],
    )?;
    erase(tx, env, &status)?;
    let message =
        Message::DeleteStatus { uri: status.uri.clone(), visibility: status.visibility, concerned };
    federation::send(tx, env, by, message)?;
    Ok(status)
}

/// Takes a post (or boost) and all that hangs on it away, and leaves a tombstone; tells only
/// those who are here.
///
/// # Errors
/// The database's.
pub fn erase(tx: &mut Tx, env: &Env, status: &Status) -> Result<(), Error> {
    let boosts = match status.boost_of_id {
        Some(_) => Vec::new(),
        None => boosts_of(tx, &[status])?,
    };
    erase_with(tx, env, &[status], &boosts)
}

/// The boosts of `posts`.
pub(super) fn boosts_of(tx: &mut Tx, posts: &[&Status]) -> Result<Vec<Status>, Error> {
    let posts: Vec<Id> = posts.iter().map(|post| post.id).collect();
    Ok(tx.records("SELECT {} FROM statuses WHERE boost_of_id IN ids(?1)", &[ids(&posts)])?)
}

/// [`erase`] of several, no two of them the same, with all their `boosts`.
pub(super) fn erase_with(
    tx: &mut Tx,
    env: &Env,
    posts: &[&Status],
    boosts: &[Status],
) -> Result<(), Error> {
    let all: Vec<&Status> = boosts.iter().chain(posts.iter().copied()).collect();
    remove_each(tx, env, &all)?;
    let gone = posts.iter().filter(|post| post.boost_of_id.is_none());
    let gone = gone.map(|post| (post.uri.as_str(), Some(post.conversation_id)));
    conversation::bury_each(tx, env, &gone.collect::<Vec<_>>())
}

/// What hangs on posts; `?1` are the posts.
const BELONGINGS: &[&str] = &[
    "DELETE FROM mentions WHERE status_id IN ids(?1)",
    "DELETE FROM status_tags WHERE status_id IN ids(?1)",
    "DELETE FROM favourites WHERE status_id IN ids(?1)",
    "DELETE FROM bookmarks WHERE status_id IN ids(?1)",
    "DELETE FROM pins WHERE status_id IN ids(?1)",
    "DELETE FROM status_edits WHERE status_id IN ids(?1)",
    "DELETE FROM filter_statuses WHERE status_id IN ids(?1)",
    "DELETE FROM notifications WHERE status_id IN ids(?1) AND status_id <> 0",
    "DELETE FROM status_texts WHERE rowid IN ids(?1)",
    "DELETE FROM statuses WHERE id IN ids(?1)",
];

/// What hangs on polls; `?1` are the polls.
const OF_POLLS: &[&str] =
    &["DELETE FROM poll_votes WHERE poll_id IN ids(?1)", "DELETE FROM polls WHERE id IN ids(?1)"];

fn remove_each(tx: &mut Tx, env: &Env, all: &[&Status]) -> Result<(), Error> {
    let list: Vec<Id> = all.iter().map(|status| status.id).collect();
    let mut mentioned: HashMap<Id, Vec<Id>> = HashMap::new();
    let rows: Vec<(Id, Id)> = tx.query(
        "SELECT status_id, account_id FROM mentions WHERE status_id IN ids(?1)",
        &[ids(&list)],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    rows.into_iter()
        .for_each(|(status, account)| mentioned.entry(status).or_default().push(account));
    let mut tags: HashMap<Id, Vec<(Id, String)>> = HashMap::new();
    let rows: Vec<(Id, Id, String)> = tx.query(
        "SELECT s.status_id, t.id, t.name FROM status_tags s JOIN tags t ON t.id = s.tag_id
         WHERE s.status_id IN ids(?1)",
        &[ids(&list)],
        |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
    )?;
    rows.into_iter()
        .for_each(|(status, tag, name)| tags.entry(status).or_default().push((tag, name)));
    conversation::orphan_each(tx, env, &list)?;
    for sql in BELONGINGS {
        tx.run(sql, &[ids(&list)])?;
    }
    let polls: Vec<Id> = all.iter().filter_map(|status| status.poll_id).collect();
    for sql in OF_POLLS.iter().filter(|_| !polls.is_empty()) {
        tx.run(sql, &[ids(&polls)])?;
    }
    media::detach(tx, &list, env.clock.now())?;
    uncount(tx, env, all)?;
    for status in all {
        conversations::status_removed(tx, env, status)?;
        let tags = tags.remove(&status.id).unwrap_or_default();
        let tag_ids: Vec<Id> = tags.iter().map(|(tag, _)| *tag).collect();
        env.feeds.removed(tx, status.account_id, status.id, &tag_ids);
        let mentioned = mentioned.remove(&status.id).unwrap_or_default();
        env.streams.status_deleted(tx, status, mentioned, tags);
    }
    Ok(())
}

/// Posts that are gone count no more: with their authors, with what they boosted and answered.
fn uncount(tx: &mut Tx, env: &Env, all: &[&Status]) -> Result<(), Error> {
    let (mut posts, mut boosts, mut answers) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    for status in all {
        *posts.entry(status.account_id).or_insert(0) += 1;
        env.streams.touched(tx, Noun::Account(status.account_id));
        if let Some(of) = status.boost_of_id {
            *boosts.entry(of).or_insert(0) += 1;
            env.streams.touched(tx, Noun::Post(of));
            env.streams.marked(tx, status.account_id, of);
        }
        if let Some(parent) = status.in_reply_to_id.filter(|_| status.visibility.is_open()) {
            *answers.entry(parent).or_insert(0) += 1;
            env.streams.touched(tx, Noun::Post(parent));
        }
    }
    let of_boosts = all.iter().filter_map(|boost| {
        Some([Value::Int(boost.boost_of_id?.0), Value::Int(boost.account_id.0)])
    });
    tx.run_all(
        "DELETE FROM notifications WHERE kind = 'reblog' AND status_id = ?1
           AND from_account_id = ?2",
        of_boosts,
    )?;
    for (sql, counts) in [
        (
            "UPDATE accounts SET statuses_count =
               CASE WHEN statuses_count > ?2 THEN statuses_count - ?2 ELSE 0 END WHERE id = ?1",
            posts,
        ),
        (
            "UPDATE statuses SET boosts_count =
               CASE WHEN boosts_count > ?2 THEN boosts_count - ?2 ELSE 0 END WHERE id = ?1",
            boosts,
        ),
        (
            "UPDATE statuses SET replies_count =
               CASE WHEN replies_count > ?2 THEN replies_count - ?2 ELSE 0 END WHERE id = ?1",
            answers,
        ),
    ] {
        tx.run_all(
            sql,
            counts.into_iter().map(|(id, count)| [Value::Int(id.0), Value::Int(count)]),
        )?;
    }
    Ok(())
}
