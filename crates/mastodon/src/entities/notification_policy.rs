//! Whose notifications somebody wants, as the API shows it in its two forms, and who waits.

use serde::Serialize;
use weir_base::{Id, Timestamp};
use weir_community::notifications::policy::{self, Policy, Request, Treatment};
use weir_community::statuses;
use weir_community::{Env, Error};
use weir_db::Tx;

use super::{Account, Status, accounts_by_id};

/// A policy: `accept`, `filter` or `drop` for each kind of sender.
#[derive(Debug, Clone, Serialize)]
pub struct NotificationPolicy {
    /// What happens to what.
    #[serde(flatten)]
    pub policy: Policy,
    /// What waits for a decision.
    pub summary: Summary,
}

/// A policy in the older form, which knows only whether something is put aside.
#[derive(Debug, Clone, Serialize)]
pub struct NotificationPolicyV1 {
    /// People one does not follow.
    pub filter_not_following: bool,
    /// People who do not follow one.
    pub filter_not_followers: bool,
    /// Accounts made lately.
    pub filter_new_accounts: bool,
    /// Direct mentions not asked for.
    pub filter_private_mentions: bool,
    /// What waits for a decision.
    pub summary: Summary,
}

/// What waits for a decision.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Summary {
    /// Senders.
    pub pending_requests_count: i64,
    /// Their notifications.
    pub pending_notifications_count: i64,
}

fn summary(tx: &mut Tx, reader: Id) -> Result<Summary, Error> {
    let (pending_requests_count, pending_notifications_count) = policy::pending(tx, reader)?;
    Ok(Summary { pending_requests_count, pending_notifications_count })
}

/// `reader`'s policy.
///
/// # Errors
/// The database's.
pub fn notification_policy(tx: &mut Tx, reader: Id) -> Result<NotificationPolicy, Error> {
    Ok(NotificationPolicy { policy: policy::policy(tx, reader)?, summary: summary(tx, reader)? })
}

/// `reader`'s policy in the older form.
///
/// # Errors
/// The database's.
pub fn notification_policy_v1(tx: &mut Tx, reader: Id) -> Result<NotificationPolicyV1, Error> {
    let policy = policy::policy(tx, reader)?;
    let filters = |treatment: Treatment| treatment != Treatment::Accept;
    Ok(NotificationPolicyV1 {
        filter_not_following: filters(policy.for_not_following),
        filter_not_followers: filters(policy.for_not_followers),
        filter_new_accounts: filters(policy.for_new_accounts),
        filter_private_mentions: filters(policy.for_private_mentions),
        summary: summary(tx, reader)?,
    })
}

/// Somebody whose notifications wait for a decision.
#[derive(Debug, Clone, Serialize)]
pub struct NotificationRequest {
    /// Its id.
    pub id: Id,
    /// When the first came.
    pub created_at: Timestamp,
    /// When the newest came.
    pub updated_at: Timestamp,
    /// How many there are, as text.
    pub notifications_count: String,
    /// Who sends.
    pub account: Account,
    /// The newest post they are about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_status: Option<Status>,
}

/// Requests to `reader`, in their order.
///
/// # Errors
/// The database's.
pub fn notification_requests(
    tx: &mut Tx,
    env: &Env,
    reader: Id,
    list: &[Request],
) -> Result<Vec<NotificationRequest>, Error> {
    let senders: Vec<Id> = list.iter().map(|request| request.from_account_id).collect();
    let people = accounts_by_id(tx, env, &senders)?;
    let waiting = policy::waiting(tx, reader, &senders)?;
    let posts: Vec<Id> = list.iter().filter_map(|request| request.last_status_id).collect();
    let views = statuses::load(tx, env, Some(reader), &posts)?;
    let posts = super::statuses(tx, env, Some(reader), &views)?;
    let mut shaped = Vec::with_capacity(list.len());
    for request in list {
        let sender = people.iter().find(|person| person.id == request.from_account_id);
        let Some(account) = sender.cloned() else { continue };
        let known = waiting.iter().find(|(from, _)| *from == request.from_account_id);
        let count = known.map_or(0, |(_, count)| *count);
        shaped.push(NotificationRequest {
            id: request.id,
            created_at: request.id.time(),
            updated_at: request.updated_at,
            notifications_count: count.to_string(),
            account,
            last_status: posts.iter().find(|post| Some(post.id) == request.last_status_id).cloned(),
        });
    }
    Ok(shaped)
}
