//! Posts that are to appear later.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use weir_base::{Id, Timestamp};
use weir_db::{Class, Error as DbError, Json, Tx, Value, params};
use weir_jobs::{Claimed, Job, Outcome, Queue, Registry};

use super::{Draft, keys, publish};
use crate::media::{self, Media};
use crate::timelines::Range;
use crate::{Community, Env, Error, users};

/// How far ahead a post must be scheduled, in ms.
const AHEAD_MIN_MS: i64 = 5 * 60 * 1_000;
/// How far ahead a post may be scheduled, in ms: five years.
const AHEAD_MAX_MS: i64 = 5 * 366 * 24 * 60 * 60 * 1_000;
/// Posts a person may have waiting.
const WAITING_MAX: i64 = 300;

/// A post that waits.
#[derive(Debug, Clone)]
pub struct Scheduled {
    /// Its id while it waits.
    pub id: Id,
    /// When it is to appear.
    pub scheduled_at: Timestamp,
    /// What it will be.
    pub draft: Draft,
    /// Its media.
    pub media: Vec<Media>,
}

/// The job that publishes a post in its time.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PublishScheduled {
    /// Which.
    pub scheduled: Id,
    /// When it was to appear as this job was made; another job was made if that changed.
    pub at: Timestamp,
}

impl Job for PublishScheduled {
    const KIND: &'static str = "publish_scheduled";
    const QUEUE: Queue = Queue::new("scheduled", Class::Inbound);

    fn lane(&self) -> Cow<'_, str> {
        Cow::Owned(self.scheduled.to_string())
    }
}

fn check_time(env: &Env, at: Timestamp) -> Result<(), Error> {
    let ahead_ms = at.since_ms(env.clock.now());
    if !(AHEAD_MIN_MS..=AHEAD_MAX_MS).contains(&ahead_ms) {
        let message = "must be in the future: by five minutes at least and five years at most";
        return Err(Error::invalid("scheduled_at", "ERR_INVALID", message));
    }
    Ok(())
}

/// `by` schedules `draft` for `at`.
///
/// # Errors
/// [`Error::Invalid`] as for publishing, when the time does not fit, or too many wait.
pub fn schedule(tx: &mut Tx, env: &Env, by: Id, draft: &Draft, at: Timestamp) -> Result<Id, Error> {
    if let Some(known) = keys::known(tx, by, draft)? {
        return Ok(known);
    }
    publish::check(env, draft, false)?;
    check_time(env, at)?;
    let waiting: Option<i64> =
        tx.value("SELECT count(*) FROM scheduled_statuses WHERE account_id = ?1", params![by])?;
    if waiting.unwrap_or(0) >= WAITING_MAX {
        let message = format!("limit reached: at most {WAITING_MAX} posts can wait");
        return Err(Error::invalid("scheduled_at", "ERR_TOO_MANY", message));
    }
    let id = env.ids.next();
    // Nothing else may use the media meanwhile, nor is it pruned.
    publish::attach_media(tx, by, id, &draft.media)?;
    if let Some(parent) = draft.in_reply_to {
        super::hold(tx, parent)?;
    }
    let job = env.jobs.enqueue_at(tx, at, &PublishScheduled { scheduled: id, at })?;
    let kept = Draft { idempotency_key: None, ..draft.clone() };
    tx.run(
        "INSERT INTO scheduled_statuses (id, account_id, scheduled_at, in_reply_to_id, draft,
           job_id) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        params![id, by, at, kept.in_reply_to, Json(&kept), job],
    )?;
    keys::remember(tx, env, by, draft, id)?;
    Ok(id)
}

fn rows(tx: &mut Tx, sql: &str, values: &[Value<'_>]) -> Result<Vec<Scheduled>, Error> {
    let found: Vec<(Id, Timestamp, Json<Draft>)> =
        tx.query(sql, values, |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    let mut list = Vec::with_capacity(found.len());
    for (id, scheduled_at, Json(draft)) in found {
        let mut media: Vec<Media> =
            tx.records("SELECT {} FROM media WHERE status_id = ?1", params![id])?;
        media.sort_by_key(|one| draft.media.iter().position(|id| *id == one.id));
        list.push(Scheduled { id, scheduled_at, draft, media });
    }
    Ok(list)
}

/// A page of `by`'s posts that wait, the newest first.
///
/// # Errors
/// The database's.
pub fn scheduled(tx: &mut Tx, by: Id, range: Range) -> Result<Vec<Scheduled>, Error> {
    let (order, bounds) = range.sql("id", 2);
    let (above, below) = range.bounds();
    let sql = format!(
        "SELECT id, scheduled_at, draft FROM scheduled_statuses WHERE account_id = ?1 AND {bounds}
         ORDER BY id {order} LIMIT ?4"
    );
    let values = [by.0, above.0, below.0, range.limit as i64].map(Value::Int);
    let mut list = rows(tx, &sql, &values)?;
    if range.ascends() {
        list.reverse();
    }
    Ok(list)
}

/// `by`'s post `id` that waits.
///
/// # Errors
/// [`Error::NotFound`].
pub fn scheduled_one(tx: &mut Tx, by: Id, id: Id) -> Result<Scheduled, Error> {
    let sql = "SELECT id, scheduled_at, draft FROM scheduled_statuses
               WHERE account_id = ?1 AND id = ?2";
    rows(tx, sql, params![by, id])?.pop().ok_or(Error::NotFound("Scheduled status"))
}

/// `by` gives their waiting post `id` another time.
///
/// # Errors
/// [`Error::NotFound`]; [`Error::Invalid`] when the time does not fit.
pub fn reschedule(tx: &mut Tx, env: &Env, by: Id, id: Id, at: Timestamp) -> Result<(), Error> {
    check_time(env, at)?;
    let job = env.jobs.enqueue_at(tx, at, &PublishScheduled { scheduled: id, at })?;
    let changed = tx.execute(
        "UPDATE scheduled_statuses SET scheduled_at = ?3, job_id = ?4
         WHERE account_id = ?1 AND id = ?2",
        params![by, id, at, job],
    )?;
    if changed == 0 { Err(Error::NotFound("Scheduled status")) } else { Ok(()) }
}

/// `by`'s waiting post `id` is not to appear.
///
/// # Errors
/// [`Error::NotFound`].
pub fn unschedule(tx: &mut Tx, env: &Env, by: Id, id: Id) -> Result<(), Error> {
    let waiting = scheduled_one(tx, by, id)?;
    tx.run("DELETE FROM scheduled_statuses WHERE id = ?1", params![id])?;
    media::release(tx, env, &waiting.draft.media)
}

/// Handles [`PublishScheduled`].
pub(super) fn register(registry: &mut Registry, community: &Community) {
    let env = community.env().clone();
    registry.simple_unit(move |tx: &mut Tx, jobs: &[Claimed<PublishScheduled>]| {
        let step = |claim: &Claimed<PublishScheduled>| appear(tx, &env, &claim.job);
        jobs.iter().map(step).collect::<Result<Vec<_>, DbError>>()
    });
}

fn appear(tx: &mut Tx, env: &Env, job: &PublishScheduled) -> Result<Outcome, DbError> {
    let row: Option<(Id, Timestamp, Json<Draft>)> = tx.query_opt(
        "SELECT account_id, scheduled_at, draft FROM scheduled_statuses WHERE id = ?1",
        params![job.scheduled],
        |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
    )?;
    let Some((by, _, Json(draft))) = row.filter(|(_, at, _)| *at == job.at) else {
        return Ok(Outcome::Discard(String::from("not to appear, or at another time")));
    };
    let published = publish_now(tx, env, by, &draft);
    tx.run("DELETE FROM scheduled_statuses WHERE id = ?1", params![job.scheduled])?;
    match published {
        Ok(()) => Ok(Outcome::Done),
        Err(Error::Db(error)) => Err(error),
        // What it answers is gone, or its author may no longer post: nobody is there to ask.
        Err(error) => Ok(Outcome::Discard(error.to_string())),
    }
}

fn publish_now(tx: &mut Tx, env: &Env, by: Id, draft: &Draft) -> Result<(), Error> {
    // Also where nothing comes of it, so that its media can be pruned.
    media::release(tx, env, &draft.media)?;
    if users::who_may_be_here(tx, &[by])?.is_empty() {
        return Err(Error::Forbidden("Its author may not log in"));
    }
    tx.savepoint(|tx| publish::publish(tx, env, by, draft).map(|_| ()))
}
