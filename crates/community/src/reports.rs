//! Reports of people and posts to staff.

use weir_base::{Id, Timestamp};
use weir_db::{Json, ToValue, Tx, Value, ids, params};

use crate::accounts::{self, Account};
use crate::federation::{self, Message};
use crate::notifications;
use crate::statuses::{self, Visibility};
use crate::timelines::Range;
use crate::{Env, Error};

/// The longest comment, in characters.
const COMMENT_CHARACTERS_MAX: usize = 1_000;
/// Posts one report may name.
const STATUSES_MAX: usize = 50;
/// Reports that another server may make in a day, …
pub const PER_SERVER_A_DAY_MAX: usize = 200;
/// … as far as the newest reports tell, which are so many: a look at more would cost too much.
const NEWEST: usize = 1_000;
/// Where those are all of one day, a server may have so many among them.
const OF_VERY_MANY_MAX: usize = 10;
const DAY_MS: i64 = 24 * 3_600 * 1_000;
/// What a report can be about.
const CATEGORIES: [&str; 4] = ["spam", "legal", "violation", "other"];

weir_db::record! {
    /// A report.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Report {
        /// Its id.
        pub id: Id,
        /// Who reports.
        pub account_id: Id,
        /// Who is reported.
        pub target_id: Id,
        /// Posts it names.
        pub status_ids: Json<Vec<Id>>,
        /// Rules that were broken.
        pub rule_ids: Json<Vec<Id>>,
        /// What the reporter says.
        pub comment: String,
        /// `spam`, `legal`, `violation` or `other`.
        pub category: String,
        /// Whether the reported person's server was told.
        pub forwarded: bool,
        /// When staff closed it.
        pub action_taken_at: Option<Timestamp>,
        /// Who closed it.
        pub action_taken_by_id: Option<Id>,
    }
}

/// What a person reports.
#[derive(Debug, Clone, Default)]
pub struct NewReport {
    /// Who is reported.
    pub target_id: Id,
    /// Posts it names; those not the target's, or that the reporter cannot see, are left out.
    pub status_ids: Vec<Id>,
    /// Rules that were broken.
    pub rule_ids: Vec<Id>,
    /// What the reporter says.
    pub comment: String,
    /// `spam`, `legal`, `violation` or `other`; chosen by the rules when empty.
    pub category: String,
    /// Whether to tell the reported person's server.
    pub forward: bool,
}

/// `by` reports somebody; staff is told. `uri` is the Flag's address when it came from elsewhere.
///
/// # Errors
/// [`Error::NotFound`], [`Error::Invalid`].
pub fn create(tx: &mut Tx, env: &Env, by: Id, new: &NewReport, uri: &str) -> Result<Report, Error> {
    let target = accounts::by_id(tx, new.target_id)?;
    if new.comment.chars().count() > COMMENT_CHARACTERS_MAX {
        let message = format!("is too long (maximum is {COMMENT_CHARACTERS_MAX} characters)");
        return Err(Error::invalid("comment", "ERR_TOO_LONG", message));
    }
    let category = match new.category.as_str() {
        "" if new.rule_ids.is_empty() => "other",
        "" => "violation",
        given if CATEGORIES.contains(&given) => given,
        _ => {
            return Err(Error::invalid("category", "ERR_INCLUSION", "is not included in the list"));
        }
    };
    let reporter = accounts::by_id(tx, by)?;
    let status_ids = named(tx, env, &reporter, new)?;
    accounts::hold(tx, target.id)?;
    for status in &status_ids {
        statuses::hold(tx, *status)?;
    }
    let report = Report {
        id: env.ids.next(),
        account_id: by,
        target_id: target.id,
        status_ids: Json(status_ids),
        rule_ids: Json(new.rule_ids.clone()),
        comment: new.comment.clone(),
        category: category.to_owned(),
        forwarded: new.forward && !target.is_local() && uri.is_empty(),
        action_taken_at: None,
        action_taken_by_id: None,
    };
    tx.run(
        "INSERT INTO reports (id, account_id, target_id, uri, status_ids, rule_ids, comment,
           category, forwarded) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        params![
            report.id,
            by,
            target.id,
            uri,
            report.status_ids,
            report.rule_ids,
            report.comment,
            report.category,
            report.forwarded
        ],
    )?;
    let staff: Vec<Id> =
        tx.column("SELECT account_id FROM users WHERE role <> 'user' AND disabled = 0", &[])?;
    for member in staff {
        notifications::notify_report(tx, env, member, by, report.id)?;
    }
    if report.forwarded {
        federation::send(tx, env, by, Message::Flag { report: report.id })?;
    }
    Ok(report)
}

/// Those posts a report names that are the target's and that the reporter can know. A server may
/// report in its own name, so of it anybody counts whom a post concerns.
fn named(tx: &mut Tx, env: &Env, by: &Account, new: &NewReport) -> Result<Vec<Id>, Error> {
    let wished: Vec<Id> = new.status_ids.iter().copied().take(STATUSES_MAX).collect();
    if by.is_local() {
        let views = statuses::load(tx, env, Some(by.id), &wished)?;
        let of_target = views.iter().filter(|view| view.status.account_id == new.target_id);
        let mut seen: Vec<Id> = of_target.map(|view| view.status.id).collect();
        seen.sort_unstable();
        return Ok(seen);
    }
    Ok(tx.column(
        "SELECT s.id FROM statuses s WHERE s.account_id = ?1 AND s.id IN ids(?2)
           AND (s.visibility <= ?3
             OR EXISTS (SELECT 1 FROM mentions m JOIN accounts p ON p.id = m.account_id
                WHERE m.status_id = s.id AND p.domain = ?5)
             OR s.visibility = ?4 AND EXISTS (SELECT 1 FROM follows f
                JOIN accounts p ON p.id = f.account_id
                WHERE f.target_id = s.account_id AND p.domain = ?5))
         ORDER BY s.id",
        &[
            new.target_id.to_value(),
            ids(&wished),
            Visibility::Unlisted.to_value(),
            Visibility::Private.to_value(),
            by.domain.to_value(),
        ],
    )?)
}

/// Whether no more reports of the server `domain` are taken for now, for it made too many within a
/// day.
///
/// # Errors
/// The database's.
pub(crate) fn are_too_many(tx: &mut Tx, env: &Env, domain: &str) -> Result<bool, Error> {
    let since = Id::first_at(env.clock.now().plus_ms(-DAY_MS));
    let sql = format!(
        "SELECT count(*), count(CASE WHEN a.domain = ?2 THEN 1 END) FROM (
           SELECT account_id FROM reports WHERE id >= ?1 ORDER BY id DESC LIMIT {NEWEST}) lately
         JOIN accounts a ON a.id = lately.account_id"
    );
    let (all, own): (usize, usize) =
        tx.query_one(&sql, params![since, domain], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let most = if all < NEWEST { PER_SERVER_A_DAY_MAX } else { OF_VERY_MANY_MAX };
    Ok(own >= most)
}

/// Report `id`.
///
/// # Errors
/// [`Error::NotFound`].
pub fn get(tx: &mut Tx, id: Id) -> Result<Report, Error> {
    tx.record("SELECT {} FROM reports WHERE id = ?1", params![id])?.ok_or(Error::NotFound("Report"))
}

/// The reports with these ids, in no order; missing ones are left out.
///
/// # Errors
/// The database's.
pub fn by_ids(tx: &mut Tx, list: &[Id]) -> Result<Vec<Report>, Error> {
    if list.is_empty() {
        return Ok(Vec::new());
    }
    Ok(tx.records("SELECT {} FROM reports WHERE id IN ids(?1)", &[ids(list)])?)
}

/// A page of reports, the newest first: those still open, or those closed.
///
/// # Errors
/// The database's.
pub fn list(tx: &mut Tx, resolved: bool, range: Range) -> Result<Vec<Report>, Error> {
    let state = if resolved { "IS NOT NULL" } else { "IS NULL" };
    let (order, bounds) = range.sql("id", 1);
    let (low, high) = range.bounds();
    let sql = format!(
        "SELECT {{}} FROM reports WHERE action_taken_at {state} AND {bounds}
         ORDER BY id {order} LIMIT ?3"
    );
    let limit = Value::Int(range.limit as i64);
    let mut found: Vec<Report> =
        tx.records(&sql, &[Value::Int(low.0), Value::Int(high.0), limit])?;
    if range.ascends() {
        found.reverse();
    }
    Ok(found)
}

/// `by`, of staff, closes report `id`, or opens it again.
///
/// # Errors
/// [`Error::NotFound`].
pub fn resolve(tx: &mut Tx, env: &Env, by: Id, id: Id, resolved: bool) -> Result<(), Error> {
    get(tx, id)?;
    let at = resolved.then(|| env.clock.now());
    tx.run(
        "UPDATE reports SET action_taken_at = ?2, action_taken_by_id = ?3 WHERE id = ?1",
        params![id, at, resolved.then_some(by)],
    )?;
    Ok(())
}
