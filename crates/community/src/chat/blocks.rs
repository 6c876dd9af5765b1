//! Whom people do not want to hear from in chat. Accounts known here are blocked for posts and chat
//! alike; other addresses, and whole servers that only chat knows, stand in a list beside.

use std::collections::{BTreeSet, HashMap, HashSet};

use weir_base::Id;
use weir_db::{Tx, ids, params};

use super::address;
use crate::{Env, Error, accounts, hosts, relationships};

/// The most addresses that one person may block in chat alone.
pub const BLOCKS_MAX: usize = 2_000;

/// All addresses that `owner` blocks, in order.
///
/// # Errors
/// The database's.
pub fn list(tx: &mut Tx, env: &Env, owner: Id) -> Result<Vec<String>, Error> {
    Ok(lists(tx, env, &[owner])?.remove(&owner).unwrap_or_default())
}

/// All addresses that each of `owners` blocks, in order; who blocks nobody is left out.
///
/// # Errors
/// The database's.
pub fn lists(tx: &mut Tx, env: &Env, owners: &[Id]) -> Result<HashMap<Id, Vec<String>>, Error> {
    let rows: Vec<(Id, Option<String>, Option<String>)> = tx.query(
        "SELECT account_id, jid, NULL FROM chat_blocks WHERE account_id IN ids(?1)
         UNION ALL SELECT b.account_id, a.username_key, a.domain
           FROM blocks b JOIN accounts a ON a.id = b.target_id WHERE b.account_id IN ids(?1)
         UNION ALL SELECT account_id, NULL, domain FROM account_domain_blocks
           WHERE account_id IN ids(?1)",
        &[ids(owners)],
        |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
    )?;
    let mut found: HashMap<Id, BTreeSet<String>> = HashMap::new();
    for (owner, name, place) in rows {
        let place = place.map(|place| hosts::as_read(&place));
        let jid = match (name, place.as_deref()) {
            (Some(name), Some("")) => address::of(env, &name),
            (Some(name), Some(place)) => format!("{name}@{place}"),
            (name, place) => name.or(place.map(str::to_owned)).unwrap_or_default(),
        };
        found.entry(owner).or_default().insert(jid);
    }
    Ok(found.into_iter().map(|(owner, list)| (owner, list.into_iter().collect())).collect())
}

/// Whether `owner` blocks `jid`: itself, without its resource, or its server (XEP-0191 §5).
///
/// # Errors
/// The database's.
pub fn blocks(tx: &mut Tx, env: &Env, owner: Id, jid: &str) -> Result<bool, Error> {
    Ok(!who_blocks(tx, env, &[owner], jid)?.is_empty())
}

/// Which of `owners` block `jid`: itself, without its resource, or its server.
///
/// # Errors
/// The database's.
pub fn who_blocks(tx: &mut Tx, env: &Env, owners: &[Id], jid: &str) -> Result<HashSet<Id>, Error> {
    let (name, place) = address::parts(jid);
    let server = jid.split_once('/').map(|(_, resource)| format!("{place}/{resource}"));
    let server = server.as_deref().unwrap_or(place);
    let domain = hosts::name(place);
    let account_domain = if domain == address::domain(env) { "" } else { &*domain };
    let found: Vec<Id> = tx.column(
        "SELECT account_id FROM chat_blocks WHERE account_id IN ids(?1)
           AND jid IN (?2, ?3, ?4, ?5)
         UNION ALL SELECT b.account_id FROM blocks b WHERE b.account_id IN ids(?1)
           AND b.target_id = (SELECT id FROM accounts WHERE username_key = ?6 AND domain = ?7)
         UNION ALL SELECT account_id FROM account_domain_blocks WHERE account_id IN ids(?1)
           AND domain = ?8",
        params![ids(owners), jid, address::bare(jid), place, server, name, account_domain, domain],
    )?;
    Ok(found.into_iter().collect())
}

/// Whether `list`, of which each is an address or a server, has `jid`: itself, without its
/// resource, or its server.
pub fn has(list: &[String], jid: &str) -> bool {
    let (bare, (_, place)) = (address::bare(jid), address::parts(jid));
    list.iter().any(|one| one == jid || one == bare || one == place)
}

/// `owner` blocks `jid`. An account known here is blocked everywhere.
///
/// # Errors
/// [`Error::Invalid`] when it blocks too many already, or for one's own address.
pub fn block(tx: &mut Tx, env: &Env, owner: Id, jid: &str) -> Result<(), Error> {
    if let Some(account) = account(tx, env, jid)? {
        if account == owner {
            return Err(Error::invalid("jid", "ERR_INVALID", "is your own address"));
        }
        return relationships::block(tx, env, owner, account, "");
    }
    let sql = "SELECT count(*) FROM chat_blocks WHERE account_id = ?1";
    let count: usize = tx.query_one(sql, params![owner], |row| row.get(0))?;
    if count >= BLOCKS_MAX {
        let most = format!("would be more than {BLOCKS_MAX}; unblock some first");
        return Err(Error::invalid("blocks", "ERR_LIMIT", most));
    }
    tx.run(
        "INSERT INTO chat_blocks (account_id, jid) VALUES (?1, ?2) ON CONFLICT DO NOTHING",
        params![owner, jid],
    )?;
    env.streams.bonds_changed(tx, owner);
    Ok(())
}

/// `owner` no longer blocks `jid`.
///
/// # Errors
/// The database's.
pub fn unblock(tx: &mut Tx, env: &Env, owner: Id, jid: &str) -> Result<(), Error> {
    tx.run("DELETE FROM chat_blocks WHERE account_id = ?1 AND jid = ?2", params![owner, jid])?;
    let domains = "DELETE FROM account_domain_blocks WHERE account_id = ?1 AND domain = ?2";
    tx.run(domains, params![owner, hosts::name(jid)])?;
    env.streams.bonds_changed(tx, owner);
    match account(tx, env, jid)? {
        Some(account) => relationships::unblock(tx, env, owner, account),
        None => Ok(()),
    }
}

/// `owner` blocks nobody any more; answers whom it did.
///
/// # Errors
/// The database's.
pub fn unblock_all(tx: &mut Tx, env: &Env, owner: Id) -> Result<Vec<String>, Error> {
    let all = list(tx, env, owner)?;
    for jid in &all {
        unblock(tx, env, owner, jid)?;
    }
    Ok(all)
}

/// The account that `jid` means, if it is known here and the address has no resource.
fn account(tx: &mut Tx, env: &Env, jid: &str) -> Result<Option<Id>, Error> {
    let (name, place) = address::parts(jid);
    if name.is_empty() || jid.contains('/') {
        return Ok(None);
    }
    let domain = hosts::name(place);
    let domain = if domain == address::domain(env) { "" } else { &*domain };
    let found = accounts::by_address(tx, name, domain)?;
    Ok(found.filter(|account| account.deleted_at.is_none()).map(|account| account.id))
}
