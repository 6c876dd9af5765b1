//! Finding people by the beginning of their names.

use weir_base::Id;
use weir_db::{Tx, params};

use super::{Account, by_address, parse_address};
use crate::{Env, Error};

/// What is looked for.
#[derive(Debug, Clone, Default)]
pub struct NameSearch {
    /// The beginning of a username, or of an address, or a part of a display name.
    pub query: String,
    /// Only those the reader follows.
    pub following: bool,
    /// At most so many.
    pub limit: usize,
    /// After so many.
    pub offset: usize,
}

/// People whose names fit, for `reader`: who is followed first, then who has more followers.
///
/// # Errors
/// The database's.
pub fn by_name(
    tx: &mut Tx,
    env: &Env,
    reader: Id,
    search: &NameSearch,
) -> Result<Vec<Account>, Error> {
    let query = search.query.trim();
    let address = query.strip_prefix('@').unwrap_or(query);
    if address.is_empty() || address.len() > 500 {
        return Ok(Vec::new());
    }
    let (name, domain) = address.split_once('@').unwrap_or((address, ""));
    let key = name.to_lowercase();
    let mut found: Vec<Account> = Vec::new();
    if let Some((name, domain)) = parse_address(env, address)
        && let Some(exact) = by_address(tx, &name, &domain)?
        && search.offset == 0
    {
        found.extend(Some(exact).filter(|one| one.is_available() && !search.following));
    }
    let domain = domain.to_lowercase();
    let local = !domain.is_empty() && domain == env.site.domain;
    let rows: Vec<Account> = tx.records(
        "SELECT {} FROM accounts a WHERE a.suspended_at IS NULL AND a.deleted_at IS NULL
               AND a.kind <> 'application'
               AND ((a.username_key >= ?2 AND a.username_key < ?3)
                 OR (lower(a.display_name) LIKE ?4 AND ?5 = ''))
               AND (?5 = '' OR a.domain LIKE ?6)
               AND NOT EXISTS (SELECT 1 FROM blocks b WHERE (b.account_id = ?1
                 AND b.target_id = a.id) OR (b.account_id = a.id AND b.target_id = ?1))
               AND (?7 = 0 OR EXISTS (SELECT 1 FROM follows f
                 WHERE f.account_id = ?1 AND f.target_id = a.id))
             ORDER BY CASE WHEN EXISTS (SELECT 1 FROM follows f
                 WHERE f.account_id = ?1 AND f.target_id = a.id) THEN 0 ELSE 1 END,
               a.followers_count DESC, a.id LIMIT ?8 OFFSET ?9",
        params![
            reader,
            key,
            format!("{key}\u{10FFFF}"),
            format!("%{}%", key.replace(['%', '_'], "")),
            domain,
            if local { String::new() } else { format!("{}%", domain.replace(['%', '_'], "")) },
            search.following,
            search.limit,
            search.offset
        ],
    )?;
    let first = found.first().map(|one| one.id);
    found.extend(rows.into_iter().filter(|row| Some(row.id) != first));
    found.truncate(search.limit);
    Ok(found)
}
