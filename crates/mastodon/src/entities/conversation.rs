//! Conversations as the API shows them.

use serde::Serialize;
use weir_base::Id;
use weir_community::conversations;
use weir_community::statuses::View;
use weir_community::{Env, Error};
use weir_db::Tx;

use super::{Account, Status, accounts, statuses};

/// Direct messages among some people.
#[derive(Debug, Clone, Serialize)]
pub struct Conversation {
    /// Its id.
    pub id: Id,
    /// Whether there is something new in it.
    pub unread: bool,
    /// The others in it; the reader in a conversation with oneself.
    pub accounts: Vec<Account>,
    /// The newest post.
    pub last_status: Option<Status>,
}

/// Conversations of `reader`, in their order.
///
/// # Errors
/// The database's.
pub fn conversations(
    tx: &mut Tx,
    env: &Env,
    reader: Id,
    list: &[conversations::Conversation],
) -> Result<Vec<Conversation>, Error> {
    let people = accounts(tx, env, list.iter().flat_map(|one| &one.accounts).map(AsRef::as_ref))?;
    let mut people = people.into_iter();
    let views: Vec<View> = list.iter().filter_map(|one| one.last_status.clone()).collect();
    let posts = statuses(tx, env, Some(reader), &views)?;
    let shaped = list.iter().map(|one| {
        let last = one.last_status.as_ref().map(|view| view.status.id);
        let last_status = posts.iter().find(|post| Some(post.id) == last).cloned();
        let mut accounts: Vec<Account> = people.by_ref().take(one.accounts.len()).collect();
        if accounts.is_empty() {
            accounts.extend(last_status.as_ref().map(|post| post.account.clone()));
        }
        Conversation { id: one.id, unread: one.unread, accounts, last_status }
    });
    Ok(shaped.collect())
}
