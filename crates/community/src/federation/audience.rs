//! For whom an activity is, and the inboxes by which they are reached.

use std::collections::{BTreeMap, BTreeSet};

use weir_base::{Id, Timestamp};
use weir_db::{Tx, ids, params};

use super::{AskOrigin, Hearsay, host_of};
use crate::hosts::{self, Condition};
use crate::statuses::Status;
use crate::{Env, Error};

/// How often a dead server is still tried, in ms.
const PROBED_EVERY_MS: i64 = 24 * 60 * 60 * 1_000;

/// People told of one post besides followers.
const CONCERNED_MAX: usize = 5_000;
/// Posts looked back at for whom a person spoke with lately.
const LATELY_POSTS_MAX: usize = 200;

/// Follows looked through by one statement: those of a person with a million followers would take
/// longer than one may.
const FOLLOWS_AT_ONCE: usize = 10_000;
/// Accounts whose inbox is forgotten in one unit.
const FORGOTTEN_MAX: usize = 1_000;
/// How old what is known of an account must be for its server to be asked because of a dead
/// inbox, in ms.
const ASKED_AGAIN_AFTER_MS: i64 = 60 * 60 * 1_000;

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

/// Those on other servers who hold a copy of an open post because they did something with it; of
/// a post that is not open, nobody.
///
/// # Errors
/// The database's.
pub fn concerned(tx: &mut Tx, status: &Status) -> Result<Vec<Id>, Error> {
    if !status.visibility.is_open() {
        return Ok(Vec::new());
    }
    Ok(tx.column(
        "SELECT a.id FROM accounts a WHERE a.domain <> '' AND a.id IN (
           SELECT account_id FROM statuses WHERE boost_of_id = ?1
           UNION SELECT account_id FROM statuses WHERE in_reply_to_id = ?1
           UNION SELECT account_id FROM favourites WHERE status_id = ?1
           UNION SELECT account_id FROM poll_votes WHERE poll_id = ?2
           UNION SELECT account_id FROM statuses WHERE id = ?3) LIMIT ?4",
        params![status.id, status.poll_id, status.in_reply_to_id, CONCERNED_MAX],
    )?)
}

/// Whom `account` mentioned lately.
///
/// # Errors
/// The database's.
pub fn spoken_with(tx: &mut Tx, account: Id) -> Result<Vec<Id>, Error> {
    Ok(tx.column(
        "SELECT DISTINCT m.account_id FROM mentions m WHERE m.status_id IN (
           SELECT id FROM statuses WHERE account_id = ?1 ORDER BY id DESC LIMIT ?2)",
        params![account, LATELY_POSTS_MAX],
    )?)
}

/// An inbox, and the server of those it is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inbox {
    /// Where it is.
    pub url: String,
    /// The server's domain.
    pub domain: String,
}

impl Inbox {
    /// The host that is spoken with, and its port if there is one.
    pub fn host(&self) -> &str {
        host_of(&self.url).unwrap_or_default()
    }
}

/// Where a message goes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reach {
    /// The inboxes, each once, in order of their addresses.
    pub inboxes: Vec<Inbox>,
    /// Hosts of those among them that do not answer, by when they are asked again.
    pub failing: BTreeMap<String, Timestamp>,
    /// Hosts that answer, for which older deliveries wait.
    pub behind: BTreeSet<String>,
    /// Hosts that are left out, because they have not answered for long.
    pub dead: BTreeSet<String>,
}

/// An account's server's one inbox, or else its own.
const INBOX: &str = "CASE WHEN a.shared_inbox <> '' THEN a.shared_inbox ELSE a.inbox END";
const REACHABLE: &str =
    "a.domain <> '' AND a.inbox <> '' AND a.suspended_at IS NULL AND a.deleted_at IS NULL";

/// The inboxes by which `audience` is reached, without those for or on servers that are blocked (or
/// not allowed, where `allowlist`), or on dead ones.
///
/// # Errors
/// The database's.
pub fn reach(tx: &mut Tx, env: &Env, audience: &Audience, allowlist: bool) -> Result<Reach, Error> {
    // Each inbox with all domains of those who name it: anybody may name another server's.
    let mut found: BTreeSet<(String, String)> = BTreeSet::new();
    for (account, mine, theirs) in [
        (audience.followers_of, "target_id", "account_id"),
        (audience.followed_by, "account_id", "target_id"),
    ] {
        let Some(account) = account else { continue };
        found.extend(inboxes_of_follows(tx, account, mine, theirs)?);
    }
    if !audience.accounts.is_empty() {
        let sql = format!(
            "SELECT DISTINCT {INBOX}, a.domain FROM accounts a
             WHERE a.id IN ids(?1) AND {REACHABLE}"
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
    let hosts = found.iter().filter_map(|(url, _)| host_of(url));
    let domains = found.iter().map(|(_, domain)| domain.as_str());
    let refused = refused(tx, domains.chain(hosts), allowlist)?;
    let is_sent_to = |url: &str, domain: &str| {
        let is_spoken_with = |host: &str| !refused.contains(host) && !refused.contains(domain);
        host_of(url).is_some_and(is_spoken_with) && !env.site.is_local(url)
    };
    let mut reach = Reach::default();
    for (url, domain) in found.into_iter().filter(|(url, domain)| is_sent_to(url, domain)) {
        match reach.inboxes.last_mut().filter(|last| last.url == url) {
            // Whoever else names it, it is the inbox of those whose domain is its host.
            Some(last) if host_of(&url) == Some(&*domain) => last.domain = domain,
            Some(_) => {}
            None => reach.inboxes.push(Inbox { url, domain }),
        }
    }
    let now = env.clock.now();
    let names: BTreeSet<&str> = reach.inboxes.iter().map(Inbox::host).collect();
    for host in hosts::troubled(tx, &names)? {
        let lately = |at| (0..PROBED_EVERY_MS).contains(&now.since_ms(at));
        let tried_lately = host.failed_at.is_some_and(lately);
        match host.condition(now) {
            Condition::Dead if tried_lately => {
                reach.dead.insert(host.domain);
            }
            Condition::Dead | Condition::Failing => {
                let next = host.asked_next(now);
                reach.failing.insert(host.domain, next);
            }
            Condition::CatchingUp => {
                reach.behind.insert(host.domain);
            }
            Condition::Well => {}
        }
    }
    if !reach.dead.is_empty() {
        let dead = &reach.dead;
        reach.inboxes.retain(|inbox| !dead.contains(inbox.host()));
    }
    Ok(reach)
}

/// The inboxes, and the domains, of those who stand in column `theirs` of the follows that have
/// `account` in column `mine`.
fn inboxes_of_follows(
    tx: &mut Tx,
    account: Id,
    mine: &str,
    theirs: &str,
) -> Result<BTreeSet<(String, String)>, Error> {
    let page = format!(
        "SELECT id FROM follows WHERE {mine} = ?1 AND id > ?2 ORDER BY id LIMIT 1 OFFSET ?3"
    );
    // Looked up one by one: a join may read all accounts, where the database knows little of
    // them yet. A domain has no spaces.
    let inboxes = format!(
        "SELECT DISTINCT (SELECT {INBOX} || ' ' || a.domain FROM accounts a
           WHERE a.id = f.{theirs} AND {REACHABLE})
         FROM follows f WHERE f.{mine} = ?1 AND f.id > ?2 AND f.id <= ?3"
    );
    let mut found = BTreeSet::new();
    let mut after = Id::ZERO;
    loop {
        let next: Option<Id> = tx.value(&page, params![account, after, FOLLOWS_AT_ONCE - 1])?;
        let until = next.unwrap_or(Id::MAX);
        let all: Vec<Option<String>> = tx.column(&inboxes, params![account, after, until])?;
        let each = all.iter().flatten().filter_map(|one| one.rsplit_once(' '));
        found.extend(each.map(|(inbox, domain)| (inbox.to_owned(), domain.to_owned())));
        if next.is_none() {
            return Ok(found);
        }
        after = until;
    }
}

/// The server `domain` says that `inbox` is there no more (410): nothing is sent there again
/// unless a profile names it anew. Where it was the inbox of a person, that person is looked for,
/// and is gone here too if their server says so.
///
/// # Errors
/// The database's.
pub fn forget_inbox(tx: &mut Tx, env: &Env, domain: &str, inbox: &str) -> Result<(), Error> {
    // In parts: what is left is met again by the next delivery.
    tx.run(
        "UPDATE accounts SET shared_inbox = '' WHERE id IN (
           SELECT id FROM accounts WHERE domain = ?1 AND domain <> '' AND shared_inbox = ?2
           LIMIT ?3)",
        params![domain, inbox, FORGOTTEN_MAX],
    )?;
    let owners: Vec<(String, Timestamp)> = tx.query(
        "UPDATE accounts SET inbox = '' WHERE id IN (
           SELECT id FROM accounts WHERE domain = ?1 AND domain <> '' AND inbox = ?2
           LIMIT ?3) RETURNING uri, fetched_at",
        params![domain, inbox, FORGOTTEN_MAX],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    for (uri, fetched_at) in owners {
        // Who names a dead inbox again and again is not asked each time.
        if env.clock.now().since_ms(fetched_at) < ASKED_AGAIN_AFTER_MS {
            continue;
        }
        let ask = AskOrigin {
            said: Hearsay::Delete,
            actor: uri.clone(),
            object: uri,
            in_reply_to: None,
            told_by: domain.to_owned(),
        };
        env.jobs.enqueue_unique(tx, &ask.key(), env.clock.now(), &ask)?;
    }
    Ok(())
}

/// Those of `domains` that nothing is sent to, because staff says so.
fn refused<'d>(
    tx: &mut Tx,
    domains: impl Iterator<Item = &'d str>,
    allowlist: bool,
) -> Result<BTreeSet<String>, Error> {
    let domains: BTreeSet<&str> = domains.collect();
    let all: Vec<&str> = domains.iter().copied().collect();
    let policies = hosts::policies(tx, &all)?;
    let suspended = policies.into_iter().filter(|(_, policy)| policy.suspended);
    let mut refused: BTreeSet<String> = suspended.map(|(domain, _)| domain).collect();
    for domain in domains.into_iter().filter(|_| allowlist) {
        if !hosts::is_allowed(tx, domain)? {
            refused.insert(domain.to_owned());
        }
    }
    Ok(refused)
}
