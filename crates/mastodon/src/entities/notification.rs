//! Notifications as the API shows them, each for itself.

use serde::Serialize;
use weir_base::{Id, Timestamp};
use weir_community::notifications;
use weir_community::statuses::View;
use weir_community::{Env, Error};
use weir_db::Tx;

use super::{Account, Status, accounts, statuses};

/// A notification.
#[derive(Debug, Clone, Serialize)]
pub struct Notification {
    /// Its id.
    pub id: Id,
    /// Why.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// When.
    pub created_at: Timestamp,
    /// Those shown as one share this.
    pub group_key: String,
    /// Whether the reader's policy put it aside.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filtered: Option<bool>,
    /// Who did it.
    pub account: Account,
    /// To which post.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
}

/// Notifications of `reader`, in their order.
///
/// # Errors
/// The database's.
pub fn notifications(
    tx: &mut Tx,
    env: &Env,
    reader: Id,
    list: &[notifications::Notification],
) -> Result<Vec<Notification>, Error> {
    let people = accounts(tx, env, list.iter().map(|one| one.account.as_ref()))?;
    let views: Vec<View> = list.iter().filter_map(|one| one.status.clone()).collect();
    let mut posts = statuses(tx, env, Some(reader), &views)?.into_iter();
    let shaped = list.iter().zip(people).map(|(one, account)| Notification {
        id: one.id,
        kind: one.kind.name(),
        created_at: one.id.time(),
        group_key: one.group_key.clone(),
        filtered: one.filtered.then_some(true),
        account,
        status: one.status.as_ref().and_then(|_| posts.next()),
    });
    Ok(shaped.collect())
}
