//! Addresses of chat, and whom of here they mean.

use std::collections::HashMap;

use weir_base::Id;
use weir_db::{Tx, params};

use crate::{Env, Error, hosts};

/// The longest address, in bytes: three parts of 1023 and two separators (RFC 7622 §3.1).
pub const BYTES_MAX: usize = 3071;

/// The domain of people's addresses here: that of the site, without a port.
pub fn domain(env: &Env) -> &str {
    let domain = env.site.domain.as_str();
    match domain.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => domain,
    }
}

/// The address of the person here called `username`.
pub fn of(env: &Env, username: &str) -> String {
    format!("{}@{}", username.to_lowercase(), domain(env))
}

/// `jid` without its resource.
pub fn bare(jid: &str) -> &str {
    jid.split_once('/').map_or(jid, |(bare, _)| bare)
}

/// What stands before the `@` (empty for a server) and behind it, without the resource.
pub fn parts(jid: &str) -> (&str, &str) {
    bare(jid).split_once('@').unwrap_or(("", bare(jid)))
}

/// Whom an address means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whom {
    /// Someone or something on another server.
    Elsewhere,
    /// This person here.
    Here(Id),
    /// It would be of here, but there is nobody of this name, or no longer.
    Nobody,
}

/// Whom `jid` means; who is suspended or deleted is nobody.
///
/// # Errors
/// The database's.
pub fn whom(tx: &mut Tx, env: &Env, jid: &str) -> Result<Whom, Error> {
    let (name, place) = parts(jid);
    if place != domain(env) {
        return Ok(Whom::Elsewhere);
    }
    let found: Option<Id> = tx.value(
        "SELECT id FROM accounts WHERE username_key = ?1 AND domain = '' AND kind <> 'application'
           AND suspended_at IS NULL AND deleted_at IS NULL",
        params![name],
    )?;
    Ok(found.map_or(Whom::Nobody, Whom::Here))
}

/// Those of `jids` that mean people here, as [`whom`] tells it, with one query for all.
///
/// # Errors
/// The database's.
pub fn people<'j>(
    tx: &mut Tx,
    env: &Env,
    jids: impl IntoIterator<Item = &'j str>,
) -> Result<HashMap<String, Id>, Error> {
    let here = jids.into_iter().map(parts).filter(|(_, place)| *place == domain(env));
    let names: Vec<&str> = here.map(|(name, _)| name).collect();
    if names.is_empty() {
        return Ok(HashMap::new());
    }
    let sql = "SELECT username_key, id FROM accounts WHERE username_key IN texts(?1)
                 AND domain = '' AND kind <> 'application'
                 AND suspended_at IS NULL AND deleted_at IS NULL";
    let found: Vec<(String, Id)> =
        tx.query(sql, &[weir_db::texts(names)], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let of_name = |(name, id): (String, Id)| (format!("{name}@{}", domain(env)), id);
    Ok(found.into_iter().map(of_name).collect())
}

/// The address of account `id`, of here or elsewhere; none when there is no such account.
///
/// # Errors
/// The database's.
pub fn of_account(tx: &mut Tx, env: &Env, id: Id) -> Result<Option<String>, Error> {
    let name: Option<(String, String)> = tx.query_opt(
        "SELECT username_key, domain FROM accounts WHERE id = ?1",
        params![id],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    Ok(name.map(|(name, place)| match place.as_str() {
        "" => of(env, &name),
        place => format!("{name}@{}", hosts::as_read(place)),
    }))
}
