//! Telling people of what somebody writes: those who asked to hear of all of it, and those who
//! boosted what is edited. So many are told with the post; the others, where there are more, by
//! jobs, so that no unit takes long however many people are here.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};

use serde::{Deserialize, Serialize};
use weir_base::Id;
use weir_db::{Class, Tx, Value, params};
use weir_jobs::{Claimed, Job, Queue, Registry};

use super::publish::Posted;
use super::{Status, Visibility};
use crate::notifications::{self, Kind, Notice};
use crate::{Community, Env, Error, done_or_retry};

/// People who are told in one unit.
const TOLD_MAX: usize = 500;

/// Those after `?2` who asked to be told of the posts of `?1`. The order is one that no index has,
/// so that only those who asked are looked at.
pub(super) const WATCHERS: &str = "SELECT target_id, account_id FROM follows
 WHERE target_id = ?1 AND notify = 1 AND account_id > ?2 ORDER BY account_id + 0 LIMIT ?3";

/// Why people are told of a post.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// It is new, and they asked to be told of what its author writes.
    Posted,
    /// It was edited, and they boosted it.
    Edited,
}

/// The job that tells those who were too many to be told with the post.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TellRest {
    /// The post.
    pub post: Id,
    /// Why.
    pub why: Why,
    /// Those with higher numbers are left.
    pub after: Id,
    /// Who wrote it.
    pub by: Id,
}

impl TellRest {
    /// Of several edits the last is told of: whoever waits to be told hears of that.
    fn enqueue(self, tx: &mut Tx, env: &Env) -> Result<(), Error> {
        let key = format!("tell {:?} {} {}", self.why, self.post, self.after);
        env.jobs.enqueue_unique(tx, &key, env.clock.now(), &self)?;
        Ok(())
    }
}

impl Job for TellRest {
    const KIND: &'static str = "tell_rest";
    const QUEUE: Queue = Queue::new("tell", Class::Inbound);

    fn lane(&self) -> Cow<'_, str> {
        Cow::Owned(self.by.to_string())
    }
}

/// Handles [`TellRest`].
pub(super) fn register(registry: &mut Registry, community: &Community) {
    let env = community.env().clone();
    registry.simple_unit(move |tx: &mut Tx, jobs: &[Claimed<TellRest>]| {
        jobs.iter().map(|claim| done_or_retry(tell_rest(tx, &env, &claim.job))).collect()
    });
}

fn tell_rest(tx: &mut Tx, env: &Env, job: &TellRest) -> Result<(), Error> {
    // It may be gone by now, and with it what there was to tell. Its row is changed, so that on
    // PostgreSQL a deletion that has begun does not go on without what is told here.
    tx.execute("UPDATE statuses SET account_id = account_id WHERE id = ?1", params![job.post])?;
    let sql = "SELECT {} FROM statuses WHERE id = ?1";
    let Some(post) = tx.record::<Status>(sql, params![job.post])? else { return Ok(()) };
    match job.why {
        Why::Edited => tell_boosters(tx, env, &post, job.after),
        Why::Posted => {
            let sql = "SELECT account_id FROM mentions WHERE status_id = ?1";
            let mentioned: Vec<Id> = tx.column(sql, params![post.id])?;
            let watchers = watchers(tx, [post.account_id], job.after)?;
            let Some(watchers) = watchers.get(&post.account_id) else { return Ok(()) };
            go_on(tx, env, &post, Why::Posted, watchers)?;
            notifications::notify_each(tx, env, of_watchers(&post, &mentioned, watchers).collect())
        }
    }
}

/// Notices of new posts for those who asked to be told of what their authors write.
pub(super) fn watched_each(
    tx: &mut Tx,
    env: &Env,
    posts: &[Posted<'_>],
) -> Result<Vec<Notice>, Error> {
    let watched = || posts.iter().filter(|post| post.reach.watched && is_for_all(post.status));
    let authors: BTreeSet<Id> = watched().map(|post| post.status.account_id).collect();
    let watchers = watchers(tx, authors, Id::ZERO)?;
    let mut notices = Vec::new();
    for Posted { status, mentioned, .. } in watched() {
        let Some(watchers) = watchers.get(&status.account_id) else { continue };
        if notices.len() >= TOLD_MAX {
            let (post, why, after, by) = (status.id, Why::Posted, Id::ZERO, status.account_id);
            TellRest { post, why, after, by }.enqueue(tx, env)?;
            continue;
        }
        go_on(tx, env, status, Why::Posted, watchers)?;
        notices.extend(of_watchers(status, mentioned, watchers));
    }
    Ok(notices)
}

/// Whether those who asked are told of `post`: not of answers to others, nor of what is for those
/// alone whom it mentions.
fn is_for_all(post: &Status) -> bool {
    let to_other = post.in_reply_to_account_id.is_some_and(|to| to != post.account_id);
    !to_other && post.visibility != Visibility::Direct
}

fn of_watchers(post: &Status, mentioned: &[Id], watchers: &[Id]) -> impl Iterator<Item = Notice> {
    let told = watchers.iter().filter(|watcher| !mentioned.contains(watcher));
    told.map(|to| notice(post, Kind::Status, *to))
}

/// Those after `after` who asked to be told of posts of each of the authors, in order, as many as
/// are told in one unit.
fn watchers(
    tx: &mut Tx,
    authors: impl IntoIterator<Item = Id>,
    after: Id,
) -> Result<HashMap<Id, Vec<Id>>, Error> {
    let mut watchers: HashMap<Id, Vec<Id>> = HashMap::new();
    let each = authors
        .into_iter()
        .map(|author| [Value::Int(author.0), Value::Int(after.0), Value::Int(TOLD_MAX as i64)]);
    tx.query_each(WATCHERS, each, |row| {
        watchers.entry(row.get(0)?).or_default().push(row.get(1)?);
        Ok(())
    })?;
    Ok(watchers)
}

/// Tells those here after `after` who boosted `post` that it was edited.
pub(super) fn tell_boosters(tx: &mut Tx, env: &Env, post: &Status, after: Id) -> Result<(), Error> {
    let boosters: Vec<Id> = tx.column(
        "SELECT account_id FROM statuses WHERE boost_of_id = ?1 AND local = 1 AND account_id > ?2
         ORDER BY account_id LIMIT ?3",
        params![post.id, after, TOLD_MAX],
    )?;
    go_on(tx, env, post, Why::Edited, &boosters)?;
    let notices = || boosters.iter().map(|to| notice(post, Kind::Update, *to)).collect::<Vec<_>>();
    // Of several edits the last is told of.
    notifications::withdraw_each(tx, env, &notices())?;
    notifications::notify_each(tx, env, notices())
}

fn notice(post: &Status, kind: Kind, to: Id) -> Notice {
    Notice { to, kind, from: post.account_id, status: Some(post.id) }
}

/// Where `told` are as many as are told in one unit, the others are left to a job.
fn go_on(tx: &mut Tx, env: &Env, post: &Status, why: Why, told: &[Id]) -> Result<(), Error> {
    let last = told.iter().max().filter(|_| told.len() == TOLD_MAX);
    last.map_or(Ok(()), |after| {
        TellRest { post: post.id, why, after: *after, by: post.account_id }.enqueue(tx, env)
    })
}
