//! Conversations as the API shows them.

use serde::Serialize;
use weir_base::Id;
use weir_community::statuses::View;
use weir_community::{Env, Error, conversations};
use weir_db::Tx;

use super::{Account, Status, accounts, statuses};

/// A conversation.
#[derive(Debug, Clone, Serialize)]
pub struct Conversation {
    /// Its id.
    pub id: Id,
    /// Whether there is something new in it.
    pub unread: bool,
    /// The others in it.
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
    let people = list.iter().flat_map(|one| one.accounts.iter().map(AsRef::as_ref));
    let mut people = accounts(tx, env, people)?.into_iter();
    let views: Vec<View> = list.iter().filter_map(|one| one.last_status.clone()).collect();
    let mut posts = statuses(tx, env, Some(reader), &views)?.into_iter();
    let shaped = list.iter().map(|one| Conversation {
        id: one.id,
        unread: one.unread,
        accounts: people.by_ref().take(one.accounts.len()).collect(),
        last_status: one.last_status.as_ref().and_then(|_| posts.next()),
    });
    Ok(shaped.collect())
}
