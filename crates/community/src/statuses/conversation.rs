//! What holds a thread together while its posts come and go in any order.
//!
//! A post belongs to the conversation of what it answers. While that is unknown the conversation
//! is named by a number made of its address, so that all who answer it meet there; when it comes,
//! they join its conversation. A deleted post leaves its conversation with its tombstone, so that
//! those before and after it stay together, even when it is deleted before it was ever seen.

use std::collections::BTreeMap;

use weir_base::Id;
use weir_db::{Row, ToValue, Tx, Value, ids, params};

use super::look::Look;
use super::remote::RemoteStatus;
use super::{Status, Visibility, publish};
use crate::federation::{self, order};
use crate::streams::Noun;
use crate::{Env, Error};

/// Marks numbers made of addresses; ids of time do not reach it for millennia.
const OF_ADDRESS: i64 = 1 << 62;
// As it is written in statements and in the index that they are answered by.
const _: () = assert!(OF_ADDRESS == 4_611_686_018_427_387_904);

/// The conversation of those who answer what stands at `uri`, which is unknown.
pub(super) fn of_unknown(uri: &str) -> Id {
    Id((order::hash(uri) >> 2) as i64 | OF_ADDRESS)
}

/// The conversation of a post that answers `in_reply_to`; none where it begins one.
pub(super) fn of(
    tx: &mut Tx,
    in_reply_to: Option<&str>,
    parent: Option<&Status>,
) -> Result<Option<Id>, Error> {
    if let Some(parent) = parent {
        return Ok(Some(parent.conversation_id));
    }
    let Some(uri) = in_reply_to else { return Ok(None) };
    let buried: Option<Option<Id>> =
        tx.value("SELECT conversation_id FROM tombstones WHERE uri = ?1", params![uri])?;
    Ok(Some(buried.flatten().unwrap_or_else(|| of_unknown(uri))))
}

/// Joins those who answered `posts`, which have just come, while these were not known. No two of
/// `posts` may answer each other. Of each pair of conversations in `apart` the first becomes part
/// of the second besides.
pub(super) fn adopt_each<'p>(
    tx: &mut Tx,
    env: &Env,
    posts: impl IntoIterator<Item = (&'p Status, &'p Look)>,
    apart: impl IntoIterator<Item = (Id, Id)>,
) -> Result<(), Error> {
    let posts: Vec<(&Status, &Look)> = posts.into_iter().collect();
    let answered = posts.iter().filter(|(_, seen)| seen.answered).map(|(post, _)| *post);
    let answered: Vec<&Status> = answered.collect();
    let answers = if answered.is_empty() { Vec::new() } else { take_answers(tx, &answered)? };
    publish::answered_each(tx, env, answers.iter().map(|answer| (answer.to, answer.visibility)))?;
    touched(tx, env, answers.iter().map(|answer| answer.id));
    let joining = posts.iter().filter(|(_, seen)| seen.answered || seen.joined);
    let joining = joining.map(|(post, _)| (of_unknown(&post.uri), post.conversation_id));
    merge_each(tx, joining.chain(apart))
}

/// A post that found what it answers.
struct Answer {
    id: Id,
    to: Id,
    visibility: Visibility,
}

/// Those who wait for `posts` answer them from now on.
fn take_answers(tx: &mut Tx, posts: &[&Status]) -> Result<Vec<Answer>, Error> {
    let mut answers = Vec::new();
    let mut answer = |row: &Row<'_>| {
        answers.push(Answer { id: row.get(0)?, to: row.get(1)?, visibility: row.get(2)? });
        Ok(())
    };
    let (inner, first): (Vec<&Status>, Vec<&Status>) =
        posts.iter().partition(|post| post.in_reply_to_id.is_some());
    // What answers nothing that is known is in no circle, but that it may answer itself.
    tx.query_each(
        "UPDATE statuses SET in_reply_to_id = ?2, in_reply_to_account_id = ?3,
           in_reply_to_uri = NULL
         WHERE in_reply_to_uri = ?1 AND in_reply_to_id IS NULL AND id <> ?2
         RETURNING id, in_reply_to_id, visibility",
        first
            .iter()
            .map(|post| [text(&post.uri), Value::Int(post.id.0), Value::Int(post.account_id.0)]),
        &mut answer,
    )?;
    for post in inner {
        // Not what it answers itself, directly or by others: that would be a circle.
        let above = above(tx, post)?;
        tx.query(
            "UPDATE statuses SET in_reply_to_id = ?2, in_reply_to_account_id = ?3,
               in_reply_to_uri = NULL
             WHERE in_reply_to_uri = ?1 AND in_reply_to_id IS NULL AND NOT (id IN ids(?4))
             RETURNING id, in_reply_to_id, visibility",
            &[post.uri.to_value(), post.id.to_value(), post.account_id.to_value(), ids(&above)],
            &mut answer,
        )?;
    }
    Ok(answers)
}

/// How far up is looked for circles.
const ABOVE_MAX: i64 = 4_096;

/// `status` and what it answers, directly or by others.
fn above(tx: &mut Tx, status: &Status) -> Result<Vec<Id>, Error> {
    let mut all = vec![status.id];
    if let Some(parent) = status.in_reply_to_id {
        let others: Vec<Id> = tx.column(
            "WITH RECURSIVE above (id, parent, depth) AS (
               SELECT id, in_reply_to_id, 0 FROM statuses WHERE id = ?1
               UNION ALL SELECT s.id, s.in_reply_to_id, above.depth + 1
               FROM above JOIN statuses s ON s.id = above.parent WHERE above.depth < ?2)
             SELECT id FROM above",
            params![parent, ABOVE_MAX],
        )?;
        all.extend(others);
    }
    Ok(all)
}

/// Parts those who answered `posts` from them, before they go; they keep their conversations.
pub(super) fn orphan_each(tx: &mut Tx, env: &Env, posts: &[Id]) -> Result<(), Error> {
    let answers: Vec<Id> = tx.column(
        "UPDATE statuses SET in_reply_to_id = NULL, in_reply_to_account_id = NULL,
           in_reply_to_uri = (SELECT p.uri FROM statuses p WHERE p.id = statuses.in_reply_to_id)
         WHERE in_reply_to_id IN ids(?1) RETURNING id",
        &[ids(posts)],
    )?;
    touched(tx, env, answers);
    Ok(())
}

/// What these posts answer is another than before.
fn touched(tx: &mut Tx, env: &Env, posts: impl IntoIterator<Item = Id>) {
    posts.into_iter().for_each(|post| env.streams.touched(tx, Noun::Post(post)));
}

/// A deleted post came after its deletion: all that is taken from it is what it answered.
pub(super) fn remember_of_deleted(
    tx: &mut Tx,
    env: &Env,
    remote: &RemoteStatus,
    parent: Option<&Status>,
) -> Result<(), Error> {
    let own = of_unknown(&remote.uri);
    if let Some(uri) = remote.in_reply_to.as_deref().filter(|_| parent.is_none()) {
        order::meet(tx, &[uri])?;
    }
    let joined = of(tx, remote.in_reply_to.as_deref(), parent)?.unwrap_or(own);
    bury(tx, env, &remote.uri, Some(joined))?;
    merge_each(tx, [(own, joined)])
}

/// Remembers for 30 days that what stood at `uri` was deleted, so that it does not come back; and
/// to which conversation it belonged, when that is known. What one server has too much of that is
/// forgotten earlier, by the chore `surplus_tombstones`.
pub(crate) fn bury(
    tx: &mut Tx,
    env: &Env,
    uri: &str,
    conversation: Option<Id>,
) -> Result<(), Error> {
    bury_each(tx, env, &[(uri, conversation)])
}

/// As [`bury`], of many addresses, of which no two are the same.
pub(super) fn bury_each(tx: &mut Tx, env: &Env, gone: &[(&str, Option<Id>)]) -> Result<(), Error> {
    let (now, host) = (env.clock.now(), |uri| federation::host_of(uri).unwrap_or_default());
    tx.run_all(
        "INSERT INTO tombstones (uri, host, deleted_at, conversation_id) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (uri) DO UPDATE SET conversation_id =
           coalesce(tombstones.conversation_id, excluded.conversation_id)",
        gone.iter().map(|(uri, conversation)| {
            [text(uri), text(host(uri)), Value::Int(now.as_ms()), conversation.to_value()]
        }),
    )?;
    Ok(())
}

/// A value that outlives the reference to the text.
fn text(text: &str) -> Value<'_> {
    text.to_value()
}

/// Whether what stood at `uri` was deleted.
pub(crate) fn is_buried(tx: &mut Tx, uri: &str) -> Result<bool, Error> {
    let found: Option<i64> = tx.value("SELECT 1 FROM tombstones WHERE uri = ?1", params![uri])?;
    Ok(found.is_some())
}

/// Makes conversations of posts that were not known part of others; of each pair the first becomes
/// part of the second.
fn merge_each(tx: &mut Tx, pairs: impl IntoIterator<Item = (Id, Id)>) -> Result<(), Error> {
    let joined = joined(pairs);
    if joined.is_empty() {
        return Ok(());
    }
    let each = || joined.iter().map(|(from, into)| [from.to_value(), into.to_value()]);
    // Only such conversations are in the index: see `OF_ADDRESS`.
    let of_posts = "UPDATE statuses SET conversation_id = ?2
       WHERE conversation_id = ?1 AND conversation_id >= 4611686018427387904";
    tx.run_all(of_posts, each())?;
    let of_deleted = "UPDATE tombstones SET conversation_id = ?2 WHERE conversation_id = ?1";
    tx.run_all(of_deleted, each())?;
    let from: Vec<Id> = joined.iter().map(|(from, _)| *from).collect();
    let peoples: Vec<Id> = tx.column(
        "SELECT conversation_id FROM conversation_mutes WHERE conversation_id IN ids(?1)
         UNION SELECT conversation_id FROM conversations WHERE conversation_id IN ids(?1)",
        &[ids(&from)],
    )?;
    for (from, into) in joined.iter().filter(|(from, _)| peoples.contains(from)) {
        merge_peoples(tx, *from, *into)?;
    }
    Ok(())
}

/// Each first conversation of `pairs` and the one that it is part of in the end, in order.
fn joined(pairs: impl IntoIterator<Item = (Id, Id)>) -> Vec<(Id, Id)> {
    fn end(joined: &mut BTreeMap<Id, Id>, of: Id) -> Id {
        let (mut end, mut at) = (of, of);
        while let Some(next) = joined.get(&end) {
            end = *next;
        }
        // All on the way lead there at once from now on.
        while let Some(next) = joined.get_mut(&at) {
            at = std::mem::replace(next, end);
        }
        end
    }
    let mut joined = BTreeMap::new();
    for (from, into) in pairs {
        let into = end(&mut joined, into);
        // Else what it is to join is part of it already.
        if into != from {
            joined.entry(from).or_insert(into);
        }
    }
    let all: Vec<Id> = joined.keys().copied().collect();
    all.into_iter().map(|from| (from, end(&mut joined, from))).collect()
}

/// What people keep of conversation `from` becomes part of what they keep of `into`.
fn merge_peoples(tx: &mut Tx, from: Id, into: Id) -> Result<(), Error> {
    for sql in [
        "INSERT INTO conversation_mutes (account_id, conversation_id)
         SELECT account_id, ?2 FROM conversation_mutes WHERE conversation_id = ?1
         ON CONFLICT DO NOTHING",
        "UPDATE conversations SET last_status_id = (
           SELECT max(o.last_status_id) FROM conversations o
           WHERE o.conversation_id IN (?1, ?2) AND o.account_id = conversations.account_id
             AND o.participants = conversations.participants)
         WHERE conversation_id = ?2",
        "UPDATE conversations SET conversation_id = ?2 WHERE conversation_id = ?1
           AND NOT EXISTS (SELECT 1 FROM conversations o WHERE o.conversation_id = ?2
             AND o.account_id = conversations.account_id
             AND o.participants = conversations.participants)",
    ] {
        tx.run(sql, params![from, into])?;
    }
    for sql in [
        "DELETE FROM conversation_mutes WHERE conversation_id = ?1",
        "DELETE FROM conversations WHERE conversation_id = ?1",
    ] {
        tx.run(sql, params![from])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(pairs: &[(i64, i64)]) -> Vec<(i64, i64)> {
        let joined = joined(pairs.iter().map(|(from, into)| (Id(*from), Id(*into))));
        joined.into_iter().map(|(from, into)| (from.0, into.0)).collect()
    }

    #[test]
    fn conversations_join_what_others_join_in_whatever_order_it_is_learnt() {
        assert_eq!(ends(&[(3, 1), (4, 3)]), [(3, 1), (4, 1)]);
        assert_eq!(ends(&[(4, 3), (3, 1)]), [(3, 1), (4, 1)]);
        assert_eq!(ends(&[(2, 2)]), []);
        // A circle becomes one.
        assert_eq!(ends(&[(5, 6), (6, 5)]), [(5, 6)]);
        assert_eq!(ends(&[(5, 6), (6, 7), (7, 5)]), [(5, 7), (6, 7)]);
        // Two addresses of one number.
        assert_eq!(ends(&[(5, 1), (5, 2)]), [(5, 1)]);
    }
}
