//! What staff did, as people are told of it: warnings, reports, and follows that ended. Neither
//! blocks nor policies keep these away, and of what happens to the reader staff stays unnamed.

use weir_base::{Id, Timestamp};
use weir_db::{Json, Tx, ids, params};

use super::notify::group_key;
use super::{Kind, Notice};
use crate::streams::{Event, Topic};
use crate::{Env, Error, push};

weir_db::record! {
    /// What staff told somebody about their account.
    #[derive(Debug, Clone)]
    pub struct Warning {
        /// Its id, and so when.
        pub id: Id,
        /// Whose account.
        pub account_id: Id,
        /// What was done, in the API's words: `none`, `disable`, `delete_statuses`, `sensitive`,
        /// `silence`, `suspend`.
        pub action: String,
        /// What staff says about it.
        pub content: String,
        /// Posts it is about.
        pub status_ids: Json<Vec<Id>>,
    }
}

weir_db::record! {
    /// Follows of somebody that ended at one event.
    #[derive(Debug, Clone)]
    pub struct Severance {
        /// Its id, and so when.
        pub id: Id,
        /// Why, in the API's words: `account_suspension`, `domain_block`, `user_domain_block`.
        pub kind: String,
        /// The account or server that is lost.
        pub target: String,
        /// Followers that were lost.
        pub followers_count: i64,
        /// Followees that were lost.
        pub following_count: i64,
    }
}

/// Why follows ended.
#[derive(Debug, Clone, Copy)]
pub struct Cause<'a> {
    /// As [`Severance::kind`].
    pub kind: &'a str,
    /// As [`Severance::target`].
    pub target: &'a str,
    /// When: what ends at one event is counted together, however many units it takes.
    pub at: Timestamp,
}

fn tell(tx: &mut Tx, env: &Env, to: Id, kind: Kind, from: Id, subject: Id) -> Result<(), Error> {
    let id = env.ids.next();
    let notice = Notice { to, kind, from, status: None };
    let inserted = tx.execute(
        "INSERT INTO notifications (id, account_id, kind, from_account_id, subject_id, group_key)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT DO NOTHING",
        params![id, to, kind.name(), from, subject, group_key(&notice, id)],
    )?;
    if inserted > 0 {
        env.streams.tell(tx, Topic::Own(to), Event::Notification { account: to, id });
        push::enqueue_each(tx, env, &[(notice, id)])?;
    }
    Ok(())
}

/// Tells `to`, of staff, that `by` reported somebody.
///
/// # Errors
/// The database's.
pub fn notify_report(tx: &mut Tx, env: &Env, to: Id, by: Id, report: Id) -> Result<(), Error> {
    tell(tx, env, to, Kind::AdminReport, by, report)
}

/// Tells `to`, who is local, what `by`, of staff, did to their account or to posts of theirs.
///
/// # Errors
/// The database's.
pub fn warn(
    tx: &mut Tx,
    env: &Env,
    by: Id,
    to: Id,
    action: &str,
    content: &str,
    statuses: &[Id],
) -> Result<(), Error> {
    let id = env.ids.next();
    tx.run(
        "INSERT INTO account_warnings (id, account_id, by_id, action, content, status_ids)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        params![id, to, by, action, content, Json(statuses.to_vec())],
    )?;
    tell(tx, env, to, Kind::ModerationWarning, by, id)
}

/// Tells `to` that they lost a follower or a followee, or counts one more for what they were told
/// of already; remote people are not told.
///
/// # Errors
/// The database's.
pub fn notify_severed(
    tx: &mut Tx,
    env: &Env,
    to: Id,
    cause: Cause<'_>,
    followers: i64,
    following: i64,
) -> Result<(), Error> {
    let counted: Option<Id> = tx.value(
        "INSERT INTO severances (id, account_id, kind, target, caused_at, followers_count,
           following_count)
         SELECT ?1, id, ?3, ?4, ?5, ?6, ?7 FROM accounts WHERE id = ?2 AND domain = ''
         ON CONFLICT (account_id, kind, target, caused_at) DO UPDATE SET
           followers_count = severances.followers_count + excluded.followers_count,
           following_count = severances.following_count + excluded.following_count
         RETURNING id",
        params![env.ids.next(), to, cause.kind, cause.target, cause.at, followers, following],
    )?;
    match counted {
        Some(severance) => tell(tx, env, to, Kind::SeveredRelationships, to, severance),
        None => Ok(()),
    }
}

/// Warnings by id, in no order.
///
/// # Errors
/// The database's.
pub fn warnings(tx: &mut Tx, list: &[Id]) -> Result<Vec<Warning>, Error> {
    if list.is_empty() {
        return Ok(Vec::new());
    }
    Ok(tx.records("SELECT {} FROM account_warnings WHERE id IN ids(?1)", &[ids(list)])?)
}

/// Events at which follows ended by id, in no order.
///
/// # Errors
/// The database's.
pub fn severances(tx: &mut Tx, list: &[Id]) -> Result<Vec<Severance>, Error> {
    if list.is_empty() {
        return Ok(Vec::new());
    }
    Ok(tx.records("SELECT {} FROM severances WHERE id IN ids(?1)", &[ids(list)])?)
}
