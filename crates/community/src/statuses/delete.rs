//! Deleting posts.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};
use weir_base::Id;
use weir_db::{Tx, Value, ids, params};
use weir_jobs::{Claimed, Job, Queue, Registry};

use super::{Status, Visibility, by_id, conversation};
use crate::federation::{self, Message};
use crate::streams::Noun;
use crate::{Community, Env, Error, conversations, done_or_retry, media, slices};

/// What of each kind hangs on a post (boosts, marks with what was told of them, answers) goes with
/// it while it is no more than that; of more, [`EraseRest`] takes what is left.
const AT_ONCE: usize = 500;
/// Rows of each kind that the job takes between two looks at the clock.
const PER_STEP: usize = 100;

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
        Some(_) => Boosts::default(),
        None => boosts_of(tx, &[status])?,
    };
    erase_with(tx, env, &[status], &boosts)
}

/// Boosts of posts that go.
#[derive(Default)]
pub(super) struct Boosts {
    pub(super) list: Vec<Status>,
    /// Whether there are more, which another unit takes away.
    pub(super) are_more: bool,
}

/// The boosts of `posts`, as many as go at once.
pub(super) fn boosts_of(tx: &mut Tx, posts: &[&Status]) -> Result<Boosts, Error> {
    let posts: Vec<Id> = posts.iter().map(|post| post.id).collect();
    let sql = "SELECT {} FROM statuses WHERE boost_of_id IN ids(?1) LIMIT ?2";
    let list: Vec<Status> = tx.records(sql, &[ids(&posts), Value::Int(AT_ONCE as i64)])?;
    Ok(Boosts { are_more: list.len() >= AT_ONCE, list })
}

/// [`erase`] of several, no two of them the same, with their `boosts`.
pub(super) fn erase_with(
    tx: &mut Tx,
    env: &Env,
    posts: &[&Status],
    boosts: &Boosts,
) -> Result<(), Error> {
    let all: Vec<&Status> = boosts.list.iter().chain(posts.iter().copied()).collect();
    let are_more = remove_each(tx, env, &all)?;
    let rest = posts.iter().filter(|post| boosts.are_more || are_more || is_crowded(post));
    let rest = rest.map(|post| EraseRest { post: post.id, uri: post.uri.clone() });
    let rest: Vec<EraseRest> = rest.collect();
    if !rest.is_empty() {
        env.jobs.enqueue_many(tx, &rest)?;
    }
    let gone = posts.iter().filter(|post| post.boost_of_id.is_none());
    let gone = gone.map(|post| (post.uri.as_str(), Some(post.conversation_id)));
    conversation::bury_each(tx, env, &gone.collect::<Vec<_>>())
}

/// What hangs on posts; `?1` are the posts.
const BELONGINGS: &[&str] = &[
    "DELETE FROM mentions WHERE status_id IN ids(?1)",
    "DELETE FROM status_tags WHERE status_id IN ids(?1)",
    "DELETE FROM bookmarks WHERE status_id IN ids(?1)",
    "DELETE FROM pins WHERE status_id IN ids(?1)",
    "DELETE FROM status_edits WHERE status_id IN ids(?1)",
    "DELETE FROM filter_statuses WHERE status_id IN ids(?1)",
    "DELETE FROM status_texts WHERE rowid IN ids(?1)",
    "DELETE FROM statuses WHERE id IN ids(?1)",
];

/// What hangs on posts that are not [crowded](is_crowded), of which people elsewhere make any
/// number; `?1` are the posts.
const MARKS: &[&str] = &[
    "DELETE FROM favourites WHERE status_id IN ids(?1)",
    "DELETE FROM notifications WHERE status_id IN ids(?1) AND status_id <> 0",
];

/// Some of the same of a crowded post `?1`, `?2` of each.
const SOME_MARKS: &[&str] = &[
    "DELETE FROM favourites WHERE id IN (
       SELECT f.id FROM favourites f WHERE f.status_id = ?1 LIMIT ?2)",
    "DELETE FROM notifications WHERE id IN (
       SELECT n.id FROM notifications n WHERE n.status_id = ?1 AND n.status_id <> 0 LIMIT ?2)",
];

/// Whether more favour or boost `status` than one unit takes away.
fn is_crowded(status: &Status) -> bool {
    status.favourites_count + status.boosts_count >= AT_ONCE as i64
}

/// What hangs on polls; `?1` are the polls.
const OF_POLLS: &[&str] =
    &["DELETE FROM poll_votes WHERE poll_id IN ids(?1)", "DELETE FROM polls WHERE id IN ids(?1)"];

/// Removes the rows of `all`; whether more answer them than were parted from them.
fn remove_each(tx: &mut Tx, env: &Env, all: &[&Status]) -> Result<bool, Error> {
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
    let are_more = conversation::orphan_each(tx, env, &list, AT_ONCE)?;
    for sql in BELONGINGS {
        tx.run(sql, &[ids(&list)])?;
    }
    let few = all.iter().filter(|status| !is_crowded(status)).map(|status| status.id);
    let few: Vec<Id> = few.collect();
    for sql in MARKS.iter().filter(|_| !few.is_empty()) {
        tx.run(sql, &[ids(&few)])?;
    }
    let polls: Vec<Id> = all.iter().filter_map(|status| status.poll_id).collect();
    for sql in OF_POLLS.iter().filter(|_| !polls.is_empty()) {
        tx.run(sql, &[ids(&polls)])?;
    }
    media::detach(tx, &list, env.clock.now())?;
    uncount(tx, env, all)?;
    for status in all {
        if status.visibility == Visibility::Direct {
            conversations::status_removed(tx, env, status.id, status.conversation_id)?;
        }
        let tags = tags.remove(&status.id).unwrap_or_default();
        let tag_ids: Vec<Id> = tags.iter().map(|(tag, _)| *tag).collect();
        env.feeds.removed(tx, status.account_id, status.id, &tag_ids);
        let mentioned = mentioned.remove(&status.id).unwrap_or_default();
        env.streams.status_deleted(tx, status, mentioned, tags);
    }
    Ok(are_more)
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

/// The job that takes away what was too much to go with a post: its boosts, marks and what was told
/// of them, and its place above those who answered it. Nobody sees any of it without the post.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct EraseRest {
    /// The post, whose row is gone.
    pub post: Id,
    /// Where it stood.
    pub uri: String,
}

impl Job for EraseRest {
    const KIND: &'static str = "erase_rest";
    const QUEUE: Queue = slices::UPKEEP;

    fn lane(&self) -> Cow<'_, str> {
        Cow::Borrowed(federation::host_of(&self.uri).unwrap_or_default())
    }
}

/// Handles [`EraseRest`].
pub(super) fn register(registry: &mut Registry, community: &Community) {
    let env = community.env().clone();
    registry.simple_unit(move |tx: &mut Tx, jobs: &[Claimed<EraseRest>]| {
        jobs.iter().map(|claim| done_or_retry(erase_rest(tx, &env, &claim.job))).collect()
    });
}

/// One slice; what is left goes into a new job in the same transaction.
fn erase_rest(tx: &mut Tx, env: &Env, job: &EraseRest) -> Result<(), Error> {
    loop {
        // Its number may be another post's by now: what hangs on that is not told apart.
        let other: Option<i64> =
            tx.value("SELECT 1 FROM statuses WHERE id = ?1", params![job.post])?;
        if other.is_some() || !erase_some(tx, env, job)? {
            return Ok(());
        }
        if slices::is_over(tx) {
            env.jobs.enqueue(tx, job)?;
            return Ok(());
        }
    }
}

/// Whether there was something left.
fn erase_some(tx: &mut Tx, env: &Env, job: &EraseRest) -> Result<bool, Error> {
    let mut gone = conversation::part(tx, env, job.post, &job.uri, PER_STEP)? as u64;
    for sql in SOME_MARKS {
        gone += tx.execute(sql, params![job.post, PER_STEP])?;
    }
    let sql = "SELECT {} FROM statuses WHERE boost_of_id = ?1 LIMIT ?2";
    let boosts: Vec<Status> = tx.records(sql, params![job.post, PER_STEP])?;
    if !boosts.is_empty() {
        remove_each(tx, env, &boosts.iter().collect::<Vec<_>>())?;
    }
    Ok(gone > 0 || !boosts.is_empty())
}
