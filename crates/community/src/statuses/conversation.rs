//! What holds a thread together while its posts come and go in any order.
//!
//! A post belongs to the conversation of what it answers. While that is unknown the conversation
//! is named by a number made of its address, so that all who answer it meet there; when it comes,
//! they join its conversation. A deleted post leaves its conversation with its tombstone, so that
//! those before and after it stay together, even when it is deleted before it was ever seen.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use weir_base::Id;
use weir_db::{Row, ToValue, Tx, Value, ids, params};
use weir_jobs::{Claimed, Job, Queue, Registry};

use super::look::Look;
use super::remote::RemoteStatus;
use super::{Status, Visibility, by_uri, publish};
use crate::federation::{self, order};
use crate::streams::Noun;
use crate::{Community, Env, Error, done_or_retry, slices};

/// Marks numbers made of addresses; ids of time do not reach it for millennia.
const OF_ADDRESS: i64 = 1 << 62;
// As it is written in statements and in the index that they are answered by.
const _: () = assert!(OF_ADDRESS == 4_611_686_018_427_387_904);
/// Rows of each kind that [`JoinThread`] takes between two looks at the clock.
const PER_STEP: usize = 100;

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
/// `posts` may answer each other. Of each pair in `apart` what belonged to what stood at the first
/// becomes part of the second conversation besides. Where too many wait for that, [`JoinThread`]
/// does it.
pub(super) fn adopt_each<'p>(
    tx: &mut Tx,
    env: &Env,
    posts: impl IntoIterator<Item = (&'p Status, &'p Look)>,
    apart: impl IntoIterator<Item = (&'p str, Id)>,
) -> Result<(), Error> {
    let awaited = posts.into_iter().filter(|(_, seen)| seen.answered || seen.joined);
    let awaited: Vec<(&Status, &Look)> = awaited.collect();
    let joining = awaited.iter().map(|(post, _)| (post.uri.as_str(), post.conversation_id));
    let joining: Vec<(&str, Id)> = joining.chain(apart).collect();
    let crowded = crowded(tx, env, &joining)?;
    let answered = awaited.iter().filter(|(_, seen)| seen.answered).map(|(post, _)| *post);
    let answered: Vec<&Status> =
        answered.filter(|post| !crowded.contains(post.uri.as_str())).collect();
    let answers = if answered.is_empty() { Vec::new() } else { take_answers(tx, &answered)? };
    adopted(tx, env, &answers)?;
    let few = joining.into_iter().filter(|(uri, _)| !crowded.contains(uri));
    merge_each(tx, few.map(|(uri, into)| (of_unknown(uri), into)))
}

/// `answers` found what they answer.
fn adopted(tx: &mut Tx, env: &Env, answers: &[Answer]) -> Result<(), Error> {
    publish::answered_each(tx, env, answers.iter().map(|answer| (answer.to, answer.visibility)))?;
    touched(tx, env, answers.iter().map(|answer| answer.id));
    Ok(())
}

/// Whether more than 500 rows wait for what stands at `?1`, or belong to its conversation `?2`: so
/// many are no unit's work.
const CROWDED: &str = "SELECT
   (SELECT 1 FROM statuses WHERE in_reply_to_uri = ?1 AND in_reply_to_id IS NULL
     LIMIT 1 OFFSET 500),
   (SELECT 1 FROM statuses WHERE conversation_id = ?2 AND conversation_id >= 4611686018427387904
     LIMIT 1 OFFSET 500),
   (SELECT 1 FROM tombstones WHERE conversation_id = ?2 LIMIT 1 OFFSET 500)";

/// Those of `joining` for which too much waits; that is left to jobs.
fn crowded<'u>(
    tx: &mut Tx,
    env: &Env,
    joining: &[(&'u str, Id)],
) -> Result<BTreeSet<&'u str>, Error> {
    let others = joining.iter().filter(|(uri, into)| of_unknown(uri) != *into);
    let others: Vec<&'u str> = others.map(|(uri, _)| *uri).collect();
    if others.is_empty() {
        return Ok(BTreeSet::new());
    }
    let mut are_crowded = Vec::with_capacity(others.len());
    let each = others.iter().map(|uri| [text(uri), Value::Int(of_unknown(uri).0)]);
    tx.query_each(CROWDED, each, |row| {
        let is = |column| Ok::<_, weir_db::Error>(row.get::<Option<i64>>(column)?.is_some());
        are_crowded.push(is(0)? || is(1)? || is(2)?);
        Ok(())
    })?;
    let crowded = others.into_iter().zip(are_crowded).filter(|(_, is_crowded)| *is_crowded);
    let crowded: BTreeSet<&str> = crowded.map(|(uri, _)| uri).collect();
    let jobs: Vec<JoinThread> =
        crowded.iter().map(|uri| JoinThread { uri: (*uri).to_owned() }).collect();
    if !jobs.is_empty() {
        env.jobs.enqueue_many(tx, &jobs)?;
    }
    Ok(crowded)
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

/// Parts those who answered `posts` from them, before they go; they keep their conversations. At
/// most `most` are parted: whether there may be more, for [`part`] once the posts are gone.
pub(super) fn orphan_each(
    tx: &mut Tx,
    env: &Env,
    posts: &[Id],
    most: usize,
) -> Result<bool, Error> {
    let answers: Vec<Id> = tx.column(
        "UPDATE statuses SET in_reply_to_id = NULL, in_reply_to_account_id = NULL,
           in_reply_to_uri = (SELECT p.uri FROM statuses p WHERE p.id = statuses.in_reply_to_id)
         WHERE id IN (SELECT s.id FROM statuses s WHERE s.in_reply_to_id IN ids(?1) LIMIT ?2)
         RETURNING id",
        &[ids(posts), most.to_value()],
    )?;
    let are_more = answers.len() >= most;
    touched(tx, env, answers);
    Ok(are_more)
}

/// Parts at most `most` of those who answered `post`, which is gone and stood at `uri`, from it;
/// how many.
pub(super) fn part(
    tx: &mut Tx,
    env: &Env,
    post: Id,
    uri: &str,
    most: usize,
) -> Result<usize, Error> {
    let answers: Vec<Id> = tx.column(
        "UPDATE statuses SET in_reply_to_id = NULL, in_reply_to_account_id = NULL,
           in_reply_to_uri = ?2
         WHERE id IN (SELECT s.id FROM statuses s WHERE s.in_reply_to_id = ?1 LIMIT ?3)
         RETURNING id",
        params![post, uri, most],
    )?;
    let count = answers.len();
    touched(tx, env, answers);
    Ok(count)
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
    adopt_each(tx, env, [], [(remote.uri.as_str(), joined)])
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
    let peoples: Vec<Id> = tx.column(OF_PEOPLE, &[ids(&from)])?;
    for (from, into) in joined.iter().filter(|(from, _)| peoples.contains(from)) {
        merge_peoples(tx, *from, *into)?;
    }
    Ok(())
}

/// Those of the conversations `?1` of which people keep something.
const OF_PEOPLE: &str = "SELECT conversation_id FROM conversation_mutes
   WHERE conversation_id IN ids(?1)
   UNION SELECT conversation_id FROM conversations WHERE conversation_id IN ids(?1)";

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

/// The job that joins those who answered a post before it came, where they are very many: they find
/// it, and become part of its conversation.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct JoinThread {
    /// Where the post stands, or stood until it was deleted.
    pub uri: String,
}

impl Job for JoinThread {
    const KIND: &'static str = "join_thread";
    const QUEUE: Queue = slices::UPKEEP;

    fn lane(&self) -> Cow<'_, str> {
        Cow::Borrowed(federation::host_of(&self.uri).unwrap_or_default())
    }
}

/// Handles [`JoinThread`].
pub(super) fn register(registry: &mut Registry, community: &Community) {
    let env = community.env().clone();
    registry.simple_unit(move |tx: &mut Tx, jobs: &[Claimed<JoinThread>]| {
        jobs.iter().map(|claim| done_or_retry(join(tx, &env, &claim.job))).collect()
    });
}

/// One slice; the rest goes into a new job in the same transaction. The conversation is asked for
/// each time: it may have become part of another.
fn join(tx: &mut Tx, env: &Env, job: &JoinThread) -> Result<(), Error> {
    let post = by_uri(tx, &job.uri)?.filter(|post| post.boost_of_id.is_none());
    let from = of_unknown(&job.uri);
    let into = match &post {
        Some(post) => post.conversation_id,
        None => of(tx, Some(job.uri.as_str()), None)?.unwrap_or(from),
    };
    let is_over = loop {
        let found = match &post {
            Some(post) => adopt_some(tx, env, post)?,
            None => 0,
        };
        let moved = if into == from { 0 } else { move_some(tx, from, into)? };
        if found == 0 && moved == 0 {
            break true;
        }
        if slices::is_over(tx) {
            break false;
        }
    };
    if into != from && !tx.column::<Id>(OF_PEOPLE, &[ids(&[from])])?.is_empty() {
        merge_peoples(tx, from, into)?;
    }
    if !is_over {
        env.jobs.enqueue(tx, job)?;
    }
    Ok(())
}

/// Some of those who wait for `post` answer it from now on; how many.
fn adopt_some(tx: &mut Tx, env: &Env, post: &Status) -> Result<u64, Error> {
    let above = above(tx, post)?;
    let answers: Vec<Answer> = tx.query(
        "UPDATE statuses SET in_reply_to_id = ?2, in_reply_to_account_id = ?3,
           in_reply_to_uri = NULL
         WHERE id IN (SELECT s.id FROM statuses s WHERE s.in_reply_to_uri = ?1
           AND s.in_reply_to_id IS NULL AND NOT (s.id IN ids(?4)) LIMIT ?5)
         RETURNING id, in_reply_to_id, visibility",
        &[
            post.uri.to_value(),
            post.id.to_value(),
            post.account_id.to_value(),
            ids(&above),
            PER_STEP.to_value(),
        ],
        |row| Ok(Answer { id: row.get(0)?, to: row.get(1)?, visibility: row.get(2)? }),
    )?;
    adopted(tx, env, &answers)?;
    Ok(answers.len() as u64)
}

/// Some of what belongs to conversation `from` becomes part of `into`; how much.
fn move_some(tx: &mut Tx, from: Id, into: Id) -> Result<u64, Error> {
    let mut moved = 0;
    for sql in [
        "UPDATE statuses SET conversation_id = ?2 WHERE id IN (
           SELECT s.id FROM statuses s WHERE s.conversation_id = ?1
             AND s.conversation_id >= 4611686018427387904 LIMIT ?3)",
        "UPDATE tombstones SET conversation_id = ?2 WHERE uri IN (
           SELECT t.uri FROM tombstones t WHERE t.conversation_id = ?1 LIMIT ?3)",
    ] {
        moved += tx.execute(sql, params![from, into, PER_STEP])?;
    }
    Ok(moved)
}

#[cfg(test)]
mod tests {
    use weir_db::Class;
    use weir_storm::fixture::databases;

    use super::*;
    use crate::conversations::OF_NEWEST;
    use crate::schema;

    #[test]
    fn what_people_keep_of_a_conversation_is_found_without_what_they_keep_of_others() {
        for fixture in databases() {
            fixture.db.migrate("community", schema::MIGRATIONS).unwrap();
            let plans = |tx: &mut Tx| {
                tx.run_all(
                    "INSERT INTO conversations (id, account_id, conversation_id, participants,
                       last_status_id) VALUES (?1, ?1, ?1, '[]', ?1)",
                    (1..1_000).map(|one| [Value::Int(one)]),
                )?;
                tx.run("ANALYZE conversations", &[])?;
                let one = [Id(1)];
                Ok([
                    schema::plan(tx, OF_NEWEST, params![1, 1])?,
                    schema::plan(tx, OF_PEOPLE, &[ids(&one)])?,
                ])
            };
            let plans: Result<_, weir_db::Error> =
                fixture.db.write_blocking(Class::Interactive, plans);
            for plan in plans.unwrap() {
                assert!(plan.contains("conversations_of_posts"), "{}: {plan}", fixture.name);
            }
        }
    }

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
