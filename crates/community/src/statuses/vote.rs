//! Voting in polls, and what happens when they end.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use weir_base::{Id, Timestamp};
use weir_db::{Class, Error as DbError, Json, Tx, params};
use weir_jobs::{Claimed, Job, Outcome, Queue, Registry};

use super::{View, load_one, receive_vote, visible_post};
use crate::federation::{self, Message};
use crate::notifications::{self, Kind};
use crate::{Community, Env, Error};

/// The job that runs when a poll ends: those who voted and who asked are told.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct EndPoll {
    /// The poll.
    pub poll: Id,
    /// Its end as this job was made; another job was made if that changed.
    pub at: Timestamp,
}

impl Job for EndPoll {
    const KIND: &'static str = "end_poll";
    const QUEUE: Queue = Queue::new("polls", Class::Inbound);

    fn lane(&self) -> Cow<'_, str> {
        Cow::Owned(self.poll.to_string())
    }
}

/// The post that asks poll `id`, as `reader` sees it.
///
/// # Errors
/// [`Error::NotFound`] when there is none for this reader.
pub fn poll_post(tx: &mut Tx, env: &Env, reader: Option<Id>, id: Id) -> Result<View, Error> {
    let status: Option<Id> = tx.value("SELECT status_id FROM polls WHERE id = ?1", params![id])?;
    let view = load_one(tx, env, reader, status.ok_or(Error::NotFound("Poll"))?)?;
    if view.poll.is_some() { Ok(view) } else { Err(Error::NotFound("Poll")) }
}

/// `by` chooses `choices` (from 0) in poll `id`; everybody votes once.
///
/// # Errors
/// [`Error::NotFound`]; [`Error::Invalid`] when the poll has ended, is one's own, was voted in
/// already or the choices do not fit.
pub fn vote(tx: &mut Tx, env: &Env, by: Id, id: Id, choices: &[usize]) -> Result<(), Error> {
    let view = poll_post(tx, env, Some(by), id)?;
    let Some(poll) = view.poll else { return Err(Error::NotFound("Poll")) };
    let status = visible_post(tx, Some(by), view.status.id)?;
    let refuse = |message: &str| Err(Error::Conflict(format!("Validation failed: {message}")));
    if poll.expired(env.clock.now()) {
        return refuse("The poll has already ended");
    }
    if status.account_id == by {
        return refuse("You cannot vote in your own polls");
    }
    if !poll.own_votes.is_empty() {
        return refuse("You have already voted on this poll");
    }
    let mut chosen = choices.to_vec();
    chosen.sort_unstable();
    chosen.dedup();
    let fits = chosen.last().is_some_and(|last| *last < poll.options.len())
        && (poll.multiple || chosen.len() == 1);
    if !fits {
        return refuse("The chosen vote option does not exist, or too many were chosen");
    }
    let mut tallies = poll.tallies;
    for &choice in &chosen {
        tx.run(
            "INSERT INTO poll_votes (poll_id, account_id, choice) VALUES (?1, ?2, ?3)",
            params![id, by, choice],
        )?;
        if let Some(tally) = tallies.get_mut(choice) {
            *tally = tally.saturating_add(1);
        }
    }
    let voters: Option<i64> = tx.value(
        "UPDATE polls SET tallies = ?2, voters_count = voters_count + 1 WHERE id = ?1
         RETURNING voters_count",
        params![id, Json(tallies)],
    )?;
    if status.local {
        env.streams.marked(tx, by, status.id);
        receive_vote::tell(tx, env, status.account_id, status.id, voters.unwrap_or(0))
    } else {
        env.streams.status_edited(tx, status.id);
        env.streams.marked(tx, by, status.id);
        end_at(tx, env, id, poll.expires_at)?;
        federation::send(tx, env, by, Message::Vote { poll: id, choices: chosen })
    }
}

/// Sees to it that the end of poll `id` is noticed.
pub(super) fn end_at(
    tx: &mut Tx,
    env: &Env,
    id: Id,
    expires_at: Option<Timestamp>,
) -> Result<(), Error> {
    if let Some(at) = expires_at {
        let key = format!("end poll {id} {}", at.as_ms());
        env.jobs.enqueue_unique(tx, &key, at, &EndPoll { poll: id, at })?;
    }
    Ok(())
}

/// Handles [`EndPoll`].
pub(super) fn register(registry: &mut Registry, community: &Community) {
    let env = community.env().clone();
    registry.simple_unit(move |tx: &mut Tx, jobs: &[Claimed<EndPoll>]| {
        let step = |claim: &Claimed<EndPoll>| match end(tx, &env, &claim.job) {
            Ok(()) => Ok(Outcome::Done),
            Err(Error::Db(error)) => Err(error),
            Err(error) => Ok(Outcome::Discard(error.to_string())),
        };
        jobs.iter().map(step).collect::<Result<Vec<_>, DbError>>()
    });
}

fn end(tx: &mut Tx, env: &Env, job: &EndPoll) -> Result<(), Error> {
    let id = job.poll;
    let row = tx.query_opt(
        "SELECT account_id, status_id FROM polls WHERE id = ?1 AND expires_at = ?2",
        params![id, job.at],
        |row| Ok((row.get::<Id>(0)?, row.get::<Id>(1)?)),
    )?;
    let Some((author, status)) = row else { return Ok(()) };
    let voters: Vec<Id> = tx.column(
        "SELECT DISTINCT v.account_id FROM poll_votes v JOIN accounts a ON a.id = v.account_id
         WHERE v.poll_id = ?1 AND a.domain = ''",
        params![id],
    )?;
    for voter in voters {
        notifications::notify(tx, env, voter, Kind::Poll, author, Some(status))?;
    }
    notifications::notify(tx, env, author, Kind::Poll, author, Some(status))?;
    let post = super::by_id(tx, status)?;
    env.streams.status_edited(tx, status);
    if post.local {
        federation::send(tx, env, author, Message::CountVotes { status })?;
    }
    Ok(())
}
