//! What the block of a server does to the accounts that are known from there.
//!
//! An account that a block suspends or limits carries the time of the block, so that lifting the
//! block frees just those and not whom staff acted upon one by one.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use weir_base::{Id, Timestamp};
use weir_db::{Tx, params};
use weir_jobs::{Claimed, Job, Queue, Registry};

use super::SeverFollows;
use crate::hosts::{self, Severity};
use crate::{Community, Env, Error, done_or_retry, slices};

/// Accounts that are looked at a time.
const ACCOUNTS_PER_STEP: usize = 50;
/// Servers below a domain that are looked at.
const BELOW_MAX: i64 = 10_000;

/// The job that brings the accounts of one server in line with the blocks as they are now.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ApplyBlock {
    /// The server's domain.
    pub domain: String,
    /// When the block was made that is no more.
    pub lifted: Option<Timestamp>,
    /// The last account that was looked at.
    pub after: Id,
}

impl Job for ApplyBlock {
    const KIND: &'static str = "apply_block";
    const QUEUE: Queue = slices::UPKEEP;

    fn lane(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.domain)
    }
}

/// The blocks of `domain` changed: the accounts there, and on servers below it, follow.
///
/// # Errors
/// The database's.
pub fn apply_block(
    tx: &mut Tx,
    env: &Env,
    domain: &str,
    lifted: Option<Timestamp>,
) -> Result<(), Error> {
    let mut domains: Vec<String> = tx.column(
        "SELECT domain FROM hosts WHERE domain LIKE '%.' || ?1 ORDER BY domain LIMIT ?2",
        params![domain, BELOW_MAX],
    )?;
    domains.push(domain.to_owned());
    let jobs: Vec<ApplyBlock> =
        domains.into_iter().map(|domain| ApplyBlock { domain, lifted, after: Id::ZERO }).collect();
    env.jobs.enqueue_many(tx, &jobs)?;
    Ok(())
}

/// Handles [`ApplyBlock`].
pub(super) fn register(registry: &mut Registry, community: &Community) {
    let env = community.env().clone();
    registry.simple_unit(move |tx: &mut Tx, jobs: &[Claimed<ApplyBlock>]| {
        jobs.iter().map(|claim| done_or_retry(apply(tx, &env, &claim.job))).collect()
    });
}

fn apply(tx: &mut Tx, env: &Env, job: &ApplyBlock) -> Result<(), Error> {
    let block = hosts::covering_block(tx, &job.domain)?;
    let server = block.as_ref().map(|block| block.domain.clone());
    let severity = block.as_ref().and_then(|block| Severity::parse(&block.severity));
    let at = block.map(|block| block.id.time());
    let suspend = at.filter(|_| severity == Some(Severity::Suspend));
    let silence = at.filter(|_| severity == Some(Severity::Silence));
    let mut after = job.after;
    loop {
        let accounts: Vec<Id> = tx.column(
            "SELECT id FROM accounts WHERE domain = ?1 AND domain <> '' AND id > ?2
             ORDER BY id LIMIT ?3",
            params![job.domain, after, ACCOUNTS_PER_STEP],
        )?;
        let Some(last) = accounts.last() else { return Ok(()) };
        after = *last;
        for account in accounts {
            if bring_in_line(tx, env, account, job.lifted, suspend, silence)? {
                env.jobs.enqueue(tx, &SeverFollows { account, server: server.clone() })?;
            }
        }
        if slices::is_over(tx) {
            env.jobs.enqueue(tx, &ApplyBlock { after, ..job.clone() })?;
            return Ok(());
        }
    }
}

/// Does to one account what the block says; whether that suspended it.
fn bring_in_line(
    tx: &mut Tx,
    env: &Env,
    account: Id,
    lifted: Option<Timestamp>,
    suspend: Option<Timestamp>,
    silence: Option<Timestamp>,
) -> Result<bool, Error> {
    if let Some(lifted) = lifted {
        for column in ["suspended_at", "silenced_at"] {
            tx.run(
                &format!("UPDATE accounts SET {column} = NULL WHERE id = ?1 AND {column} = ?2"),
                params![account, lifted],
            )?;
        }
    }
    if silence.is_some() {
        tx.run(
            "UPDATE accounts SET silenced_at = ?2 WHERE id = ?1 AND silenced_at IS NULL",
            params![account, silence],
        )?;
    }
    let suspended = suspend.is_some()
        && tx.execute(
            "UPDATE accounts SET suspended_at = ?2 WHERE id = ?1 AND suspended_at IS NULL",
            params![account, suspend],
        )? > 0;
    env.streams.bonds_changed(tx, account);
    Ok(suspended)
}
