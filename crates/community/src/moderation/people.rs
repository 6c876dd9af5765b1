//! What staff does to accounts. Each step is a line in the log.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use weir_base::Id;
use weir_db::{Tx, params};
use weir_jobs::{Claimed, Job, Queue, Registry};

use crate::accounts::{self, Account};
use crate::federation::{self, Message};
use crate::mail::{self, Letter};
use crate::notifications::{self, Cause};
use crate::users::{self, Role};
use crate::{Community, Env, Error, done_or_retry, oauth, relationships, slices, statuses};

/// Follows that are ended at a time.
const FOLLOWS_PER_STEP: usize = 50;

/// `target`, if `by` is of staff and above it.
fn person_below(tx: &mut Tx, by: Id, target: Id) -> Result<Account, Error> {
    let rank = |tx: &mut Tx, id: Id| -> Result<Role, Error> {
        match users::by_account(tx, id) {
            Ok(user) => Ok(Role::parse(&user.role).unwrap_or(Role::User)),
            Err(Error::NotFound(_)) => Ok(Role::User),
            Err(error) => Err(error),
        }
    };
    let account = accounts::by_id(tx, target)?;
    if account.deleted_at.is_some() {
        return Err(Error::Gone("Account"));
    }
    let (mine, theirs) = (rank(tx, by)?, rank(tx, target)?);
    if mine < Role::Moderator || theirs >= mine || account.kind == "application" {
        return Err(Error::Forbidden("Staff can act only on people below their own rank"));
    }
    Ok(account)
}

/// Whether `by`, of staff, may act on `target`.
///
/// # Errors
/// [`Error::Forbidden`] when not.
pub fn check_rank(tx: &mut Tx, by: Id, target: Id) -> Result<(), Error> {
    person_below(tx, by, target).map(|_| ())
}

fn log(by: Id, target: &Account, action: &str) {
    tracing::info!(staff = %by, account = %target.id, name = target.acct(), action, "moderation");
    metrics::counter!("weir_community_moderation_total", "action" => action.to_owned())
        .increment(1);
}

/// Tells `target`, if it is of here, what was done and to which posts.
fn tell(
    tx: &mut Tx,
    env: &Env,
    by: Id,
    target: &Account,
    (action, what): (&str, &str),
    posts: &[Id],
) -> Result<(), Error> {
    if !target.is_local() {
        return Ok(());
    }
    notifications::warn(tx, env, by, target.id, action, what, posts)?;
    mail::send(tx, env, Letter::Moderated { account: target.id, what: what.to_owned() })
}

/// Hides `target` from everybody and ends its log-ins. Follows between people here and a remote
/// account are ended, a local one keeps its followers for the day it may come back.
///
/// # Errors
/// [`Error::Forbidden`] when `by` may not.
pub fn suspend(tx: &mut Tx, env: &Env, by: Id, target: Id) -> Result<(), Error> {
    let account = person_below(tx, by, target)?;
    if account.suspended_at.is_some() {
        return Ok(());
    }
    let what = "The staff has suspended it: nobody can see it, and you cannot log in. If you think \
                this is wrong, answer this mail or write to the staff.";
    tell(tx, env, by, &account, ("suspend", what), &[])?;
    env.streams.people_changed(tx, target);
    tx.run(
        "UPDATE accounts SET suspended_at = ?2 WHERE id = ?1",
        params![target, env.clock.now()],
    )?;
    if account.is_local() {
        users::end_other_sessions(tx, env, target, None)?;
        federation::send(tx, env, target, Message::UpdateActor)?;
    } else {
        env.jobs.enqueue(tx, &SeverFollows { account: target, server: None })?;
    }
    oauth::access_changed(tx, env, target);
    env.streams.bonds_changed(tx, target);
    env.streams.looks_changed(tx, target);
    log(by, &account, "suspend");
    Ok(())
}

/// Shows `target` again.
///
/// # Errors
/// As [`suspend`].
pub fn unsuspend(tx: &mut Tx, env: &Env, by: Id, target: Id) -> Result<(), Error> {
    let account = person_below(tx, by, target)?;
    if account.suspended_at.is_none() {
        return Ok(());
    }
    env.streams.people_changed(tx, target);
    tx.run("UPDATE accounts SET suspended_at = NULL WHERE id = ?1", params![target])?;
    if account.is_local() {
        federation::send(tx, env, target, Message::UpdateActor)?;
    }
    let what = "The staff has lifted its suspension: it is as it was before.";
    tell(tx, env, by, &account, ("none", what), &[])?;
    oauth::access_changed(tx, env, target);
    env.streams.bonds_changed(tx, target);
    env.streams.looks_changed(tx, target);
    log(by, &account, "unsuspend");
    Ok(())
}

/// Shows `target` only to those who follow it, or to everybody again.
///
/// # Errors
/// As [`suspend`].
pub fn silence(tx: &mut Tx, env: &Env, by: Id, target: Id, on: bool) -> Result<(), Error> {
    let account = person_below(tx, by, target)?;
    if account.silenced_at.is_some() == on {
        return Ok(());
    }
    env.streams.people_changed(tx, target);
    tx.run(
        "UPDATE accounts SET silenced_at = ?2 WHERE id = ?1",
        params![target, on.then(|| env.clock.now())],
    )?;
    if on {
        let what = "The staff has limited it: only people who follow it see its posts, and it \
                    stands in no public timeline.";
        tell(tx, env, by, &account, ("silence", what), &[])?;
    }
    log(by, &account, if on { "silence" } else { "unsilence" });
    Ok(())
}

/// Takes all media of `target` as sensitive, or no longer.
///
/// # Errors
/// As [`suspend`].
pub fn sensitize(tx: &mut Tx, env: &Env, by: Id, target: Id, on: bool) -> Result<(), Error> {
    let account = person_below(tx, by, target)?;
    env.streams.people_changed(tx, target);
    tx.run(
        "UPDATE accounts SET sensitized_at = ?2 WHERE id = ?1",
        params![target, on.then(|| env.clock.now())],
    )?;
    if on {
        let what = "The staff marks all its media as sensitive from now on.";
        tell(tx, env, by, &account, ("sensitive", what), &[])?;
    }
    log(by, &account, if on { "sensitize" } else { "unsensitize" });
    Ok(())
}

/// Shuts a local person out of logging in, or lets them in again; what they wrote stays.
///
/// # Errors
/// As [`suspend`].
pub fn set_disabled(tx: &mut Tx, env: &Env, by: Id, target: Id, on: bool) -> Result<(), Error> {
    let account = person_below(tx, by, target)?;
    tx.run("UPDATE users SET disabled = ?2 WHERE account_id = ?1", params![target, on])?;
    oauth::access_changed(tx, env, target);
    if on {
        users::end_other_sessions(tx, env, target, None)?;
    }
    log(by, &account, if on { "disable" } else { "enable" });
    Ok(())
}

/// Deletes somebody's post; a local author's post is deleted on the network too.
///
/// # Errors
/// As [`suspend`], and [`Error::NotFound`].
pub fn delete_status(tx: &mut Tx, env: &Env, by: Id, status: Id) -> Result<(), Error> {
    let post = statuses::by_id(tx, status)?;
    let account = person_below(tx, by, post.account_id)?;
    if account.is_local() && post.boost_of_id.is_none() {
        statuses::delete(tx, env, account.id, status)?;
    } else {
        statuses::erase(tx, env, &post)?;
    }
    let what = "The staff has deleted a post of yours that broke the rules.";
    tell(tx, env, by, &account, ("delete_statuses", what), &[status])?;
    log(by, &account, "delete post");
    Ok(())
}

/// The job that ends follows between people here and a suspended remote account.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SeverFollows {
    /// The account.
    pub account: Id,
    /// The blocked server for which it is suspended; none when staff suspended it alone.
    #[serde(default)]
    pub server: Option<String>,
}

impl Job for SeverFollows {
    const KIND: &'static str = "sever_follows";
    const QUEUE: Queue = slices::UPKEEP;

    fn lane(&self) -> Cow<'_, str> {
        Cow::Owned(self.account.to_string())
    }
}

/// Handles [`SeverFollows`].
pub fn register(registry: &mut Registry, community: &Community) {
    let env = community.env().clone();
    registry.simple_unit(move |tx: &mut Tx, jobs: &[Claimed<SeverFollows>]| {
        jobs.iter().map(|claim| done_or_retry(sever(tx, &env, &claim.job))).collect()
    });
}

fn sever(tx: &mut Tx, env: &Env, job: &SeverFollows) -> Result<(), Error> {
    let account = job.account;
    let lost = accounts::by_id(tx, account)?;
    let Some(at) = lost.suspended_at else { return Ok(()) };
    let acct = lost.acct();
    let cause = match &job.server {
        Some(domain) => Cause { kind: "domain_block", target: domain, at },
        None => Cause { kind: "account_suspension", target: &acct, at },
    };
    loop {
        let followers = relationships::follower_ids(tx, account, Id::MAX, FOLLOWS_PER_STEP)?;
        let followees = relationships::following_ids(tx, account, Id::MAX, FOLLOWS_PER_STEP)?;
        if followers.is_empty() && followees.is_empty() {
            return Ok(());
        }
        for (_, follower) in followers {
            relationships::unfollow(tx, env, follower, account)?;
            notifications::notify_severed(tx, env, follower, cause, 0, 1)?;
        }
        for (_, followee) in followees {
            relationships::remove_follower(tx, env, followee, account)?;
            notifications::notify_severed(tx, env, followee, cause, 1, 0)?;
        }
        if slices::is_over(tx) {
            env.jobs.enqueue(tx, job)?;
            return Ok(());
        }
    }
}
