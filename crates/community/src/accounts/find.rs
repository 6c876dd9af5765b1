//! Finding accounts.

use std::collections::HashMap;
use std::sync::Arc;

use weir_base::Id;
use weir_db::{Dialect, Question, Record as _, Tx, ids, params};

use super::Account;
use crate::{Env, Error, hosts};

/// The account with this id, whatever its state.
///
/// # Errors
/// [`Error::NotFound`].
pub fn by_id(tx: &mut Tx, id: Id) -> Result<Account, Error> {
    tx.record("SELECT {} FROM accounts WHERE id = ?1", params![id])?
        .ok_or(Error::NotFound("Account"))
}

/// What the account with this id calls itself; may be empty.
///
/// # Errors
/// The database's.
pub fn display_name(tx: &mut Tx, id: Id) -> Result<String, Error> {
    let name: Option<String> =
        tx.value("SELECT display_name FROM accounts WHERE id = ?1", params![id])?;
    Ok(name.unwrap_or_default())
}

/// To be called before something is hung on account `id` of another server that keeps it and does
/// not change its row: where the database runs several units at once, one that removes it meanwhile
/// is repeated, and then sees it.
pub(crate) fn hold(tx: &mut Tx, id: Id) -> Result<(), Error> {
    if tx.dialect() == Dialect::Postgres {
        let sql = "UPDATE accounts SET deleted_at = deleted_at WHERE id = ?1 AND domain <> ''";
        tx.run(sql, params![id])?;
    }
    Ok(())
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

/// As [`by_ids`], asked together with other things.
pub fn ask_by_ids<'q, 'w>(
    found: &'q mut HashMap<Id, Arc<Account>>,
    list: impl IntoIterator<Item = &'w Id>,
) -> Question<'q> {
    let sql = format!("SELECT {} FROM accounts WHERE id IN ids(?1)", Account::COLUMNS);
    Question::new(sql, [ids(list)], |row| {
        let account = Account::read(row, 0)?;
        found.insert(account.id, Arc::new(account));
        Ok(())
    })
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

/// Accounts of here and elsewhere whose names begin with `start`, in the order of the names; of the
/// same name the one of here first. At most `limit`.
///
/// # Errors
/// The database's.
pub fn by_beginning(tx: &mut Tx, start: &str, limit: usize) -> Result<Vec<Account>, Error> {
    let key = start.to_lowercase();
    Ok(tx.records(
        "SELECT {} FROM accounts WHERE username_key >= ?1 AND username_key < ?2
         ORDER BY username_key, domain LIMIT ?3",
        params![key, format!("{key}\u{10FFFF}"), limit],
    )?)
}

/// The account with this actor id.
///
/// # Errors
/// The database's.
pub fn by_uri(tx: &mut Tx, uri: &str) -> Result<Option<Account>, Error> {
    Ok(tx.record("SELECT {} FROM accounts WHERE uri = ?1", params![uri])?)
}

/// The accounts with these actor ids, in no order; unknown ones are left out.
///
/// # Errors
/// The database's.
pub fn by_uris(tx: &mut Tx, uris: &[String]) -> Result<Vec<Account>, Error> {
    Ok(tx.records("SELECT {} FROM accounts WHERE uri IN texts(?1)", &[weir_db::texts(uris)])?)
}

/// Of somebody what it takes to read what they send.
#[derive(Debug, Clone)]
pub struct Sender {
    /// As of the account.
    pub username: String,
    /// As of the account.
    pub domain: String,
    /// As of the account.
    pub uri: String,
    /// As of the account.
    pub followers_uri: String,
    /// As of the account.
    pub featured_uri: String,
}

/// Those of `uris` who are known here, by their addresses.
///
/// # Errors
/// The database's.
pub fn senders(tx: &mut Tx, uris: &[String]) -> Result<HashMap<String, Sender>, Error> {
    let found: Vec<Sender> = tx.query(
        "SELECT username, domain, uri, followers_uri, featured_uri FROM accounts
         WHERE uri IN texts(?1)",
        &[weir_db::texts(uris)],
        |row| {
            let (username, domain, uri) = (row.get(0)?, row.get(1)?, row.get(2)?);
            let (followers_uri, featured_uri) = (row.get(3)?, row.get(4)?);
            Ok(Sender { username, domain, uri, followers_uri, featured_uri })
        },
    )?;
    Ok(found.into_iter().map(|sender| (sender.uri.clone(), sender)).collect())
}

/// `alice`, `@alice`, `alice@example.social` as name, as it is written, and domain, as it is kept:
/// empty for this server.
pub fn parse_address(env: &Env, address: &str) -> Option<(String, String)> {
    let address = address.trim().strip_prefix("acct:").unwrap_or(address.trim());
    let address = address.strip_prefix('@').unwrap_or(address);
    let (name, domain) = address.split_once('@').unwrap_or((address, ""));
    let named = !name.is_empty()
        && name.len() <= 2_048
        && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '.' | '-'));
    let domain = hosts::name(domain);
    let placed = domain.is_empty() || hosts::is_name(&domain);
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

/// Which people a directory shows.
#[derive(Debug, Clone, Copy, Default)]
pub struct DirectoryPage {
    /// Only people of this server.
    pub local: bool,
    /// Those who came last first, not those who posted last.
    pub newest: bool,
    /// So many are left out.
    pub offset: usize,
    /// At most so many.
    pub limit: usize,
}

/// People who want to be found.
///
/// # Errors
/// The database's.
pub fn directory(tx: &mut Tx, page: DirectoryPage) -> Result<Vec<Account>, Error> {
    let here = if page.local { "AND domain = ''" } else { "" };
    let order = if page.newest { "id DESC" } else { "coalesce(last_status_at, 0) DESC, id DESC" };
    let sql = format!(
        "SELECT {{}} FROM accounts WHERE discoverable = 1 AND suspended_at IS NULL
           AND silenced_at IS NULL AND deleted_at IS NULL AND moved_to_id IS NULL
           AND kind <> 'application' {here}
           AND NOT EXISTS (SELECT 1 FROM users WHERE account_id = accounts.id
             AND (approved = 0 OR confirmed_at IS NULL))
         ORDER BY {order} LIMIT ?1 OFFSET ?2"
    );
    Ok(tx.records(&sql, params![page.limit, page.offset])?)
}
