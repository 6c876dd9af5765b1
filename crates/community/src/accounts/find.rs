//! Finding accounts.

use weir_base::Id;
use weir_db::{Tx, ids, params};

use super::Account;
use crate::{Env, Error};

/// The account with this id, whatever its state.
///
/// # Errors
/// [`Error::NotFound`].
pub fn by_id(tx: &mut Tx, id: Id) -> Result<Account, Error> {
    tx.record("SELECT {} FROM accounts WHERE id = ?1", params![id])?
        .ok_or(Error::NotFound("Account"))
}

/// The accounts with these ids, in no order; missing ones are left out.
///
/// # Errors
/// The database's.
pub fn by_ids(tx: &mut Tx, list: &[Id]) -> Result<Vec<Account>, Error> {
    if list.is_empty() {
        return Ok(Vec::new());
    }
    Ok(tx.records("SELECT {} FROM accounts WHERE id IN ids(?1)", &[ids(list)])?)
}

/// The account with this name; the empty domain is this server.
///
/// # Errors
/// The database's.
pub fn by_address(tx: &mut Tx, username: &str, domain: &str) -> Result<Option<Account>, Error> {
    Ok(tx.record(
        "SELECT {} FROM accounts WHERE username_key = ?1 AND domain = ?2",
        params![username.to_lowercase(), domain],
    )?)
}

/// The account with this actor id.
///
/// # Errors
/// The database's.
pub fn by_uri(tx: &mut Tx, uri: &str) -> Result<Option<Account>, Error> {
    Ok(tx.record("SELECT {} FROM accounts WHERE uri = ?1", params![uri])?)
}

/// `alice`, `@alice`, `alice@example.social` as name and domain: in lower case, empty for this
/// server.
pub fn parse_address(env: &Env, address: &str) -> Option<(String, String)> {
    let address = address.trim().strip_prefix("acct:").unwrap_or(address.trim());
    let address = address.strip_prefix('@').unwrap_or(address);
    let (name, domain) = address.split_once('@').unwrap_or((address, ""));
    let named = !name.is_empty()
        && name.len() <= 2_048
        && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '.' | '-'));
    let domain = domain.to_lowercase();
    let placed = domain.len() <= 255
        && domain.chars().all(|c| c.is_alphanumeric() || matches!(c, '.' | '-' | ':' | '[' | ']'));
    let here = domain == env.site.domain;
    (named && placed).then(|| (name.to_owned(), if here { String::new() } else { domain }))
}

/// The account known here under `address`, if it is available.
///
/// # Errors
/// [`Error::NotFound`] when it is unknown, deleted or not an address.
pub fn lookup(tx: &mut Tx, env: &Env, address: &str) -> Result<Account, Error> {
    let (name, domain) = parse_address(env, address).ok_or(Error::NotFound("Account"))?;
    by_address(tx, &name, &domain)?
        .filter(|account| account.deleted_at.is_none())
        .ok_or(Error::NotFound("Account"))
}
