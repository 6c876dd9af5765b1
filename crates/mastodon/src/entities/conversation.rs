//! Conversations as the API shows them.

use serde::Serialize;
use weir_base::Id;
use weir_community::accounts;
use weir_community::conversations;
use weir_community::statuses::View;
use weir_community::{Env, Error};
use weir_db::Tx;

use super::shapes::Shapes;
use super::{Account, Shared, Status};

/// Direct messages among some people.
#[derive(Debug, Clone, Serialize)]
pub struct Conversation {
    /// Its id.
    pub id: Id,
    /// Whether there is something new in it.
    pub unread: bool,
    /// The others in it; the reader in a conversation with oneself.
    pub accounts: Vec<Shared<Account>>,
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
    let people: Vec<&accounts::Account> =
        list.iter().flat_map(|one| &one.accounts).map(AsRef::as_ref).collect();
    let views: Vec<&View> = list.iter().filter_map(|one| one.last_status.as_ref()).collect();
    let shapes = Shapes::load(tx, env, Some(reader), &people, &views)?;
    let shaped = list.iter().map(|one| {
        let last_status = one.last_status.as_ref().and_then(|view| shapes.status(view));
        let shown = one.accounts.iter().filter_map(|other| shapes.account(other.id));
        let mut accounts: Vec<Shared<Account>> = shown.collect();
        if accounts.is_empty() {
            accounts.extend(last_status.as_ref().map(|post| post.account.clone()));
        }
        Conversation { id: one.id, unread: one.unread, accounts, last_status }
    });
    Ok(shaped.collect())
}
