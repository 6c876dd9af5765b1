//! People: looking at them, following, blocking and muting them, and changing oneself.

pub mod block;
pub mod endorse;
pub mod familiar_followers;
pub mod featured_tags;
pub mod follow;
pub mod lists;
pub mod lookup;
pub mod mute;
pub mod note;
pub mod related;
pub mod relationships;
pub mod search;
pub mod show;
pub mod sign_up;
pub mod statuses;
pub mod update_credentials;
pub mod verify_credentials;

use weir_base::Id;
use weir_community::accounts::{self, Account};
use weir_community::{Env, Error};
use weir_db::Tx;

use crate::entities::Relationship;

/// The account `id`, unless it is gone for good: deleted ones were here, so 410.
fn present(tx: &mut Tx, id: Id) -> Result<Account, Error> {
    let account = accounts::by_id(tx, id)?;
    if account.deleted_at.is_some() { Err(Error::Gone("Account")) } else { Ok(account) }
}

/// How `by` stands to `other` after `change`.
fn changed(
    tx: &mut Tx,
    env: &Env,
    by: Id,
    other: Id,
    change: impl FnOnce(&mut Tx, &Env) -> Result<(), Error>,
) -> Result<Relationship, Error> {
    present(tx, other)?;
    change(tx, env)?;
    crate::entities::relationship(tx, env, by, other)
}
