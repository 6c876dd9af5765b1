//! For whom an activity is, and the inboxes by which they are reached.

use std::collections::{BTreeMap, BTreeSet};

use weir_base::{Id, Timestamp};
use weir_community::{Env, Error, hosts};
use weir_db::{Tx, ids, params};

/// How long a server may be silent before most deliveries to it are spared, in ms.
const SILENT_MS: i64 = 7 * 24 * 60 * 60 * 1_000;
/// How often a silent server is still tried, in ms.
const PROBED_EVERY_MS: i64 = 24 * 60 * 60 * 1_000;

/// For whom an activity is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Audience {
    /// The followers of this account.
    pub followers_of: Option<Id>,
    /// Those whom this account follows.
    pub followed_by: Option<Id>,
    /// These accounts.
    pub accounts: Vec<Id>,
    /// Every server that is known.
    pub everybody: bool,
}

impl Audience {
    /// One account.
    pub fn one(account: Id) -> Self {
        Self { accounts: vec![account], ..Self::default() }
    }

    /// The followers of `account`.
    pub fn followers(account: Id) -> Self {
        Self { followers_of: Some(account), ..Self::default() }
    }
}

/// An inbox, and the server of those it is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inbox {
    /// Where it is.
    pub url: String,
    /// The server's domain.
    pub domain: String,
}

/// An account's server's one inbox, or else its own.
const INBOX: &str = "CASE WHEN a.shared_inbox <> '' THEN a.shared_inbox ELSE a.inbox END, a.domain";
const REACHABLE: &str =
    "a.domain <> '' AND a.inbox <> '' AND a.suspended_at IS NULL AND a.deleted_at IS NULL";

/// The inboxes by which `audience` is reached, each once, without those of servers that are
/// blocked (or not allowed, where `allowlist`) or have not answered for long.
///
/// # Errors
/// The database's.
pub fn inboxes(
    tx: &mut Tx,
    env: &Env,
    audience: &Audience,
    allowlist: bool,
) -> Result<Vec<Inbox>, Error> {
    let mut found: BTreeMap<String, String> = BTreeMap::new();
    for (account, mine, theirs) in [
        (audience.followers_of, "target_id", "account_id"),
        (audience.followed_by, "account_id", "target_id"),
    ] {
        let Some(account) = account else { continue };
        let sql = format!(
            "SELECT DISTINCT {INBOX} FROM follows f JOIN accounts a ON a.id = f.{theirs}
             WHERE f.{mine} = ?1 AND {REACHABLE}"
        );
        found.extend(tx.query(&sql, params![account], |row| Ok((row.get(0)?, row.get(1)?)))?);
    }
    if !audience.accounts.is_empty() {
        let sql = format!(
            "SELECT DISTINCT {INBOX} FROM accounts a WHERE a.id IN ids(?1) AND {REACHABLE}"
        );
        let accounts = [ids(&audience.accounts)];
        found.extend(tx.query(&sql, &accounts, |row| Ok((row.get(0)?, row.get(1)?)))?);
    }
    if audience.everybody {
        let sql = format!(
            "SELECT DISTINCT a.shared_inbox, a.domain FROM accounts a
             WHERE a.shared_inbox <> '' AND {REACHABLE}"
        );
        found.extend(tx.query(&sql, &[], |row| Ok((row.get(0)?, row.get(1)?)))?);
    }
    let domains: BTreeSet<String> = found.values().cloned().collect();
    let spared = spared(tx, env.clock.now(), domains, allowlist)?;
    let kept = found.into_iter().filter(|(_, domain)| !spared.contains(domain));
    Ok(kept
        .filter(|(url, _)| !env.site.is_local(url))
        .map(|(url, domain)| Inbox { url, domain })
        .collect())
}

/// Those of `domains` that nothing is sent to.
fn spared(
    tx: &mut Tx,
    now: Timestamp,
    domains: BTreeSet<String>,
    allowlist: bool,
) -> Result<BTreeSet<String>, Error> {
    let mut spared: BTreeSet<String> = if domains.is_empty() {
        BTreeSet::new()
    } else {
        let (since, tried) = (now.plus_ms(-SILENT_MS), now.plus_ms(-PROBED_EVERY_MS));
        let silent: Vec<String> = tx.column(
            "SELECT domain FROM hosts WHERE failing_since < ?1 AND failed_at > ?2",
            params![since, tried],
        )?;
        silent.into_iter().collect()
    };
    for domain in domains {
        let refused = hosts::policy(tx, &domain)?.suspended
            || (allowlist && !hosts::is_allowed(tx, &domain)?);
        if refused {
            spared.insert(domain);
        }
    }
    Ok(spared)
}
