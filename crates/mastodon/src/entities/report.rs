//! Reports as the API shows them to those who made them, and to staff in notifications.

use serde::Serialize;
use weir_base::{Id, Timestamp};
use weir_community::{Env, Error, reports};
use weir_db::Tx;

use super::{Account, accounts_by_id};

/// A report.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Its id.
    pub id: Id,
    /// Whether staff closed it.
    pub action_taken: bool,
    /// When.
    pub action_taken_at: Option<Timestamp>,
    /// What it is about.
    pub category: String,
    /// What the reporter says.
    pub comment: String,
    /// Whether the reported person's server was told.
    pub forwarded: bool,
    /// When it was made.
    pub created_at: Timestamp,
    /// Posts it names.
    pub status_ids: Vec<Id>,
    /// Rules that were broken.
    pub rule_ids: Vec<Id>,
    /// Who is reported.
    pub target_account: Account,
}

/// Reports as they are shown, in their order.
///
/// # Errors
/// The database's.
pub fn reports(tx: &mut Tx, env: &Env, list: &[reports::Report]) -> Result<Vec<Report>, Error> {
    let mut targets: Vec<Id> = list.iter().map(|report| report.target_id).collect();
    targets.sort();
    targets.dedup();
    let people = accounts_by_id(tx, env, &targets)?;
    let shaped = list.iter().filter_map(|report| {
        let target = people.iter().find(|person| person.id == report.target_id)?;
        Some(Report {
            id: report.id,
            action_taken: report.action_taken_at.is_some(),
            action_taken_at: report.action_taken_at,
            category: report.category.clone(),
            comment: report.comment.clone(),
            forwarded: report.forwarded,
            created_at: report.id.time(),
            status_ids: report.status_ids.0.clone(),
            rule_ids: report.rule_ids.0.clone(),
            target_account: target.clone(),
        })
    });
    Ok(shaped.collect())
}
