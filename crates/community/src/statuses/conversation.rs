//! What holds a thread together while its posts come and go in any order.
//!
//! A post belongs to the conversation of what it answers. While that is unknown the conversation
//! is named by a number made of its address, so that all who answer it meet there; when it comes,
//! they join its conversation. A deleted post leaves its conversation with its tombstone, so that
//! those before and after it stay together, even when it is deleted before it was ever seen.

use weir_base::Id;
use weir_db::{ToValue, Tx, Value, ids, params};

use super::look::Look;
use super::remote::RemoteStatus;
use super::{Status, Visibility};
use crate::federation::{self, order};
use crate::streams::Noun;
use crate::{Env, Error};

/// Marks numbers made of addresses; ids of time do not reach it for millennia.
const OF_ADDRESS: i64 = 1 << 62;
// As it is written in statements and in the index that they are answered by.
const _: () = assert!(OF_ADDRESS == 4_611_686_018_427_387_904);
/// Tombstones kept of one server; older ones are forgotten.
const PER_HOST_MAX: i64 = 10_000;

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

/// Joins those who answered `status` before it was known to it.
pub(super) fn adopt(tx: &mut Tx, env: &Env, status: &Status, seen: &Look) -> Result<(), Error> {
    let unknown = of_unknown(&status.uri);
    if !seen.answered {
        return if seen.joined { merge(tx, unknown, status.conversation_id) } else { Ok(()) };
    }
    // Not what it answers itself, directly or by others: that would be a circle.
    let above = above(tx, status)?;
    let waiting: Vec<Visibility> = tx.column(
        "SELECT visibility FROM statuses
         WHERE in_reply_to_uri = ?1 AND in_reply_to_id IS NULL AND NOT (id IN ids(?2))",
        &[status.uri.to_value(), ids(&above)],
    )?;
    let answers: Vec<Id> = tx.column(
        "UPDATE statuses SET in_reply_to_id = ?2, in_reply_to_account_id = ?3,
           in_reply_to_uri = NULL
         WHERE in_reply_to_uri = ?1 AND in_reply_to_id IS NULL AND NOT (id IN ids(?4))
         RETURNING id",
        &[status.uri.to_value(), status.id.to_value(), status.account_id.to_value(), ids(&above)],
    )?;
    let open = waiting.iter().filter(|visibility| visibility.is_open()).count();
    tx.run(
        "UPDATE statuses SET replies_count = replies_count + ?2 WHERE id = ?1",
        params![status.id, open],
    )?;
    touched(tx, env, &answers);
    env.streams.touched(tx, Noun::Post(status.id));
    merge(tx, unknown, status.conversation_id)
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
    touched(tx, env, &answers);
    Ok(())
}

/// What these posts answer is another than before.
fn touched(tx: &mut Tx, env: &Env, posts: &[Id]) {
    posts.iter().for_each(|post| env.streams.touched(tx, Noun::Post(*post)));
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
    merge(tx, own, joined)
}

/// Remembers for 30 days that what stood at `uri` was deleted, so that it does not come back; and
/// to which conversation it belonged, when that is known.
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
    // Now and then, by chance that needs no source: what is too much for one server goes.
    for (uri, _) in gone.iter().filter(|(uri, _)| order::hash(uri).is_multiple_of(256)) {
        tx.run(
            "DELETE FROM tombstones WHERE host = ?1 AND deleted_at < (
               SELECT deleted_at FROM tombstones WHERE host = ?1
               ORDER BY deleted_at DESC LIMIT 1 OFFSET ?2)",
            params![host(uri), PER_HOST_MAX],
        )?;
    }
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

/// Makes conversation `from`, of a post that was not known, part of `into`.
fn merge(tx: &mut Tx, from: Id, into: Id) -> Result<(), Error> {
    if from == into {
        return Ok(());
    }
    for sql in [
        // Only such conversations are in the index: see `OF_ADDRESS`.
        "UPDATE statuses SET conversation_id = ?2
         WHERE conversation_id = ?1 AND conversation_id >= 4611686018427387904",
        "UPDATE tombstones SET conversation_id = ?2 WHERE conversation_id = ?1",
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
