//! Blocking whole servers, each person for themselves.

use weir_base::Id;
use weir_db::{Tx, Value, params};

use super::follow;
use crate::notifications::{self, Cause};
use crate::timelines::Range;
use crate::{Env, Error, hosts};

/// `domain` as it is kept, if it could be one of another server.
fn parse(env: &Env, domain: &str) -> Result<String, Error> {
    let domain = hosts::name(domain.trim().trim_start_matches('@'));
    if domain == env.site.domain {
        return Err(Error::invalid("domain", "ERR_INVALID", "is this server's own"));
    }
    if !(hosts::is_name(&domain) && domain.contains(['.', ':'])) {
        return Err(Error::invalid("domain", "ERR_INVALID", hosts::NO_DOMAIN));
    }
    Ok(domain)
}

/// `by` blocks all of `domain`: follows end both ways, requests and notifications go.
///
/// # Errors
/// [`Error::Invalid`] when it is no domain of another server.
pub fn block_domain(tx: &mut Tx, env: &Env, by: Id, domain: &str) -> Result<(), Error> {
    let domain = parse(env, domain)?;
    tx.run(
        "INSERT INTO account_domain_blocks (account_id, domain, id) VALUES (?1, ?2, ?3)
         ON CONFLICT DO NOTHING",
        params![by, domain, env.ids.next()],
    )?;
    let asking: Vec<Id> = tx.column(
        "SELECT r.account_id FROM follow_requests r JOIN accounts a ON a.id = r.account_id
         WHERE r.target_id = ?1 AND a.domain = ?2",
        params![by, domain],
    )?;
    for other in asking {
        follow::reject_request(tx, env, by, other)?;
    }
    let followers: Vec<Id> = tx.column(
        "SELECT f.account_id FROM follows f JOIN accounts a ON a.id = f.account_id
         WHERE f.target_id = ?1 AND a.domain = ?2",
        params![by, domain],
    )?;
    let (lost_following, lost_followers) = with_domain(tx, by, &domain)?;
    for other in followers {
        follow::remove_follower(tx, env, by, other)?;
    }
    let followed: Vec<Id> = tx.column(
        "SELECT f.target_id FROM follows f JOIN accounts a ON a.id = f.target_id
         WHERE f.account_id = ?1 AND a.domain = ?2
         UNION SELECT r.target_id FROM follow_requests r JOIN accounts a ON a.id = r.target_id
         WHERE r.account_id = ?1 AND a.domain = ?2",
        params![by, domain],
    )?;
    for other in followed {
        follow::unfollow(tx, env, by, other)?;
    }
    tx.run(
        "DELETE FROM notifications WHERE account_id = ?1
           AND from_account_id IN (SELECT id FROM accounts WHERE domain = ?2 AND domain <> '')",
        params![by, domain],
    )?;
    if lost_following + lost_followers > 0 {
        let cause = Cause { kind: "user_domain_block", target: &domain, at: env.clock.now() };
        notifications::notify_severed(tx, env, by, cause, lost_followers, lost_following)?;
    }
    env.streams.bonds_changed(tx, by);
    Ok(())
}

/// `by` no longer blocks `domain`.
///
/// # Errors
/// [`Error::Invalid`] when it is no domain.
pub fn unblock_domain(tx: &mut Tx, env: &Env, by: Id, domain: &str) -> Result<(), Error> {
    let domain = parse(env, domain)?;
    tx.run(
        "DELETE FROM account_domain_blocks WHERE account_id = ?1 AND domain = ?2",
        params![by, domain],
    )?;
    env.streams.bonds_changed(tx, by);
    Ok(())
}

/// A page of the domains `by` blocks, the newest first, with the ids they are paged by.
///
/// # Errors
/// The database's.
pub fn blocked_domains(tx: &mut Tx, by: Id, range: Range) -> Result<Vec<(Id, String)>, Error> {
    let (order, bounds) = range.sql("id", 2);
    let (above, below) = range.bounds();
    let sql = format!(
        "SELECT id, domain FROM account_domain_blocks WHERE account_id = ?1 AND {bounds}
         ORDER BY id {order} LIMIT ?4"
    );
    let values = [
        Value::Int(by.0),
        Value::Int(above.0),
        Value::Int(below.0),
        Value::Int(range.limit as i64),
    ];
    let mut rows = tx.query(&sql, &values, |row| Ok((row.get(0)?, row.get(1)?)))?;
    if range.ascends() {
        rows.reverse();
    }
    Ok(rows)
}

/// How many people of `domain` `by` follows, and how many follow `by`.
///
/// # Errors
/// The database's.
pub fn with_domain(tx: &mut Tx, by: Id, domain: &str) -> Result<(i64, i64), Error> {
    Ok(tx.query_one(
        "SELECT (SELECT count(*) FROM follows f JOIN accounts a ON a.id = f.target_id
             WHERE f.account_id = ?1 AND a.domain = ?2),
           (SELECT count(*) FROM follows f JOIN accounts a ON a.id = f.account_id
             WHERE f.target_id = ?1 AND a.domain = ?2)",
        params![by, hosts::name(domain)],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?)
}
