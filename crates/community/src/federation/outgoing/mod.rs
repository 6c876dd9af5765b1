//! What is on its way to other servers: which inboxes wait for which message, host by host, and
//! what became of it.
//!
//! ```text
//!   ship ──▶ waiting row ── taken ─────────────────▶ (no row)
//!              ▲   │
//!              └───┴── not yet ── refused, gone or a week old ──▶ undelivered row
//! ```
//!
//! What has arrived leaves no row behind: it is all that was shipped but what waits or failed. A
//! count of a poll that a later one replaces was not shipped to that inbox.

mod counts;
mod report;

use std::collections::{BTreeMap, BTreeSet, HashSet};

use weir_base::{Id, Timestamp};
use weir_db::{Tx, Value, ids, params};

use super::{Inbox, Reach, order};
use crate::{Env, Error, slices};

pub use counts::replace_counts;
pub use report::{
    Arrival, Arrivals, HostArrival, HostBacklog, Overview, Totals, arrivals, arrivals_for, backlog,
    backlogs, overview, totals,
};

/// How long delivery is tried, in ms: a week.
pub const TRIED_MS: i64 = 7 * 24 * 60 * 60 * 1_000;
/// How long it is told what became of a message, in ms: a day longer.
const TOLD_MS: i64 = 8 * 24 * 60 * 60 * 1_000;
/// For how long a row is left to the first try, which has a job of its own, in ms.
pub const FIRST_TRY_MS: i64 = 10 * 60 * 1_000;
/// The names of hosts that are kept of one message, in bytes; the others are counted.
const NAMES_BYTES_MAX: usize = 64 * 1024;
/// A reason is cut to so many characters.
const REASON_CHARS_MAX: usize = 300;
/// Rows given up or forgotten in one unit.
const PRUNED_ROWS: i64 = 500;
/// Bodies looked at in one read.
const LOOKED_AT_ROWS: i64 = 2_000;
/// Bodies forgotten between two looks at the clock.
const FORGOTTEN_PER_STEP: usize = 200;

/// A message that goes out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shipment {
    /// Its id.
    pub id: Id,
    /// Who signs it.
    pub by: Id,
    /// The activity.
    pub body: String,
    /// The address of what it is about: what one account says about one thing arrives in its order.
    pub subject: String,
    /// Whether it is another server's message that is only passed on.
    pub passed_on: bool,
    /// Whether it only tells how many voted in a poll: a later one tells more.
    pub is_count: bool,
    /// The post that it is about, whose author may ask what became of it.
    pub about: Option<Id>,
}

/// Writes a message down with the inboxes that wait for it. Those for which `held` says so are not
/// left to a first try.
///
/// # Errors
/// The database's.
pub fn ship(
    tx: &mut Tx,
    env: &Env,
    shipment: &Shipment,
    reach: &Reach,
    held: impl Fn(&Inbox) -> bool,
) -> Result<(), Error> {
    let Shipment { id, by, body, subject, passed_on, is_count, about } = shipment;
    tx.run(
        "INSERT INTO payloads (id, account_id, subject, body, passed_on, is_count)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        params![id, by, number(subject), body, passed_on, is_count],
    )?;
    let first_try_till = env.clock.now().plus_ms(FIRST_TRY_MS);
    let waiting = reach.inboxes.iter().map(|inbox| {
        let next_ms = if held(inbox) { 0 } else { first_try_till.as_ms() };
        [
            Value::Int(id.0),
            Value::Text(inbox.host().into()),
            Value::Text(inbox.url.as_str().into()),
            Value::Text(inbox.domain.as_str().into()),
            Value::Int(next_ms),
        ]
    });
    tx.run_all(
        "INSERT INTO deliveries (payload_id, host, inbox, domain, next_at)
         VALUES (?1, ?2, ?3, ?4, ?5)",
        waiting,
    )?;
    let Some(status) = about else { return Ok(()) };
    let mut hosts: BTreeMap<&str, usize> = BTreeMap::new();
    for inbox in &reach.inboxes {
        *hosts.entry(inbox.host()).or_default() += 1;
    }
    tx.run(
        "INSERT INTO shipments (id, status_id, inboxes_count, hosts_count, hosts, spared)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        params![
            id,
            status,
            reach.inboxes.len(),
            hosts.len(),
            names(hosts),
            names(reach.dead.iter().map(|host| (host.as_str(), 1)))
        ],
    )?;
    Ok(())
}

/// Names of hosts in one text, as many as there is room for; one with several inboxes says how
/// many, as in `other.example=3`.
fn names<'h>(hosts: impl IntoIterator<Item = (&'h str, usize)>) -> String {
    let mut text = String::new();
    for (host, inboxes) in hosts {
        let several = if inboxes > 1 { format!("={inboxes}") } else { String::new() };
        if text.len() + host.len() + several.len() >= NAMES_BYTES_MAX {
            break;
        }
        if !text.is_empty() {
            text.push(' ');
        }
        text.push_str(host);
        text.push_str(&several);
    }
    text
}

/// The hosts of such a text, each with how many inboxes it has.
fn named(text: &str) -> impl Iterator<Item = (&str, usize)> {
    text.split_ascii_whitespace().map(|name| match name.split_once('=') {
        Some((host, inboxes)) => (host, inboxes.parse().unwrap_or(1)),
        None => (name, 1),
    })
}

/// What a message is about, as the rows have it.
fn number(subject: &str) -> i64 {
    order::hash(subject).cast_signed()
}

/// Of the inboxes in `reach` those, each with its host, that still wait for what was said before
/// `shipment` about the same thing. The newest row of each is held, which ends after the others, so
/// that whoever ends that wait at the same time learns of this message, or this one of the end.
///
/// # Errors
/// The database's.
pub fn waiting_for(
    tx: &mut Tx,
    shipment: &Shipment,
    reach: &Reach,
) -> Result<BTreeMap<String, String>, Error> {
    let mut newest: Vec<(Id, String, String)> = tx.query(
        "SELECT max(payload_id), host, inbox FROM deliveries
         WHERE payload_id IN (SELECT id FROM payloads WHERE account_id = ?1 AND subject = ?2)
         GROUP BY host, inbox",
        params![shipment.by, number(&shipment.subject)],
        |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
    )?;
    let goes_to: HashSet<&str> = reach.inboxes.iter().map(|inbox| &*inbox.url).collect();
    newest.retain(|(_, _, inbox)| goes_to.contains(&**inbox));
    hold(tx, newest.iter().map(|(payload, host, inbox)| (*payload, &**host, &**inbox)).collect())?;
    Ok(newest.into_iter().map(|(_, host, inbox)| (inbox, host)).collect())
}

/// Has whoever ends these waits at the same time begin again: on PostgreSQL a row that was only
/// locked could still be ended by who began before and does not see this message; not so one that
/// was changed. In the order in which they are ended, so that no two transactions wait for each
/// other.
fn hold<'t>(tx: &mut Tx, rows: BTreeSet<(Id, &'t str, &'t str)>) -> Result<(), Error> {
    let row = |(payload, host, inbox): (Id, &'t str, &'t str)| {
        [Value::Text(host.into()), Value::Int(payload.0), Value::Text(inbox.into())]
    };
    tx.run_all(
        "UPDATE deliveries SET tries = tries
         WHERE host = ?1 AND payload_id = ?2 AND inbox = ?3",
        rows.into_iter().map(row),
    )?;
    Ok(())
}

/// Of the messages `payloads` those after which something was said about the same things, that may
/// have waited for them.
///
/// # Errors
/// The database's.
pub fn waited_for(tx: &mut Tx, payloads: &BTreeSet<Id>) -> Result<BTreeSet<Id>, Error> {
    if payloads.is_empty() {
        return Ok(BTreeSet::new());
    }
    let found: Vec<Id> = tx.column(
        "SELECT p.id FROM payloads p WHERE p.id IN ids(?1) AND EXISTS (
           SELECT 1 FROM payloads q
           WHERE q.account_id = p.account_id AND q.subject = p.subject AND q.id > p.id)",
        &[ids(payloads)],
    )?;
    Ok(found.into_iter().collect())
}

/// Whether `d` waits for nothing that was said before about the same thing.
const FIRST: &str = "NOT EXISTS (
  SELECT 1 FROM payloads p JOIN payloads q
    ON q.account_id = p.account_id AND q.subject = p.subject AND q.id < p.id
    JOIN deliveries e ON e.host = d.host AND e.payload_id = q.id AND e.inbox = d.inbox
  WHERE p.id = d.payload_id)";

/// A body, and whose it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Body {
    /// Who signs it.
    pub by: Id,
    /// The activity.
    pub text: String,
    /// Whether it is another server's message that is only passed on.
    pub passed_on: bool,
}

/// The body of message `payload`; none when nothing waits for it any more.
///
/// # Errors
/// The database's.
pub fn body(tx: &mut Tx, payload: Id) -> Result<Option<Body>, Error> {
    Ok(tx.query_opt(
        "SELECT account_id, body, passed_on FROM payloads WHERE id = ?1",
        params![payload],
        |row| Ok(Body { by: row.get(0)?, text: row.get(1)?, passed_on: row.get(2)? }),
    )?)
}

weir_db::record! {
    /// An inbox that waits for a message.
    #[derive(Debug, Clone)]
    pub struct Waiting {
        /// The message.
        pub payload_id: Id,
        /// The inbox.
        pub inbox: String,
        /// The domain of those it is for.
        pub domain: String,
        /// Tries that failed.
        pub tries: u32,
    }
}

/// What waits for `host` and may be tried now, the oldest first; of what was said about one thing
/// only the first, so that all of it may be tried beside each other.
///
/// # Errors
/// The database's.
pub fn due(tx: &mut Tx, host: &str, now: Timestamp, limit: usize) -> Result<Vec<Waiting>, Error> {
    let sql = format!(
        "SELECT {{}} FROM deliveries d WHERE host = ?1 AND next_at <= ?2 AND {FIRST}
         ORDER BY payload_id LIMIT ?3"
    );
    Ok(tx.records(&sql, params![host, now, limit])?)
}

/// What `host` is tried with while it does not answer: the oldest of what was tried least, so that
/// a message which the host cannot bear is not the only one it is asked with. What may wait for its
/// first try yet is left to that. With `is_own` what is for the host's own people, if anything is.
///
/// # Errors
/// The database's.
pub fn probe(
    tx: &mut Tx,
    host: &str,
    now: Timestamp,
    is_own: bool,
) -> Result<Option<Waiting>, Error> {
    let own: &[&str] = if is_own { &["AND domain = host", ""] } else { &[""] };
    for whose in own {
        // What was never tried may be very much, and lies in the order of its age already.
        let sql = format!(
            "SELECT {{}} FROM deliveries d
             WHERE host = ?1 AND tries = 0 AND next_at <= ?2 {whose} AND {FIRST}
             ORDER BY payload_id LIMIT 1"
        );
        if let Some(untried) = tx.record(&sql, params![host, now])? {
            return Ok(Some(untried));
        }
        let sql = format!(
            "SELECT {{}} FROM deliveries d WHERE host = ?1 AND tries > 0 {whose} AND {FIRST}
             ORDER BY tries, payload_id LIMIT 1"
        );
        if let Some(tried) = tx.record(&sql, params![host])? {
            return Ok(Some(tried));
        }
    }
    Ok(None)
}

/// Gives up what waits for `host`, with which this server does not speak any more: a part of it;
/// true while there may be more.
///
/// # Errors
/// The database's.
pub fn give_up(tx: &mut Tx, env: &Env, host: &str, reason: &str) -> Result<bool, Error> {
    let end = End::Failed(reason.to_owned());
    let tries: Vec<Tried> = tx.query(
        "SELECT payload_id, inbox FROM deliveries WHERE host = ?1
         ORDER BY payload_id, inbox LIMIT ?2",
        params![host, PRUNED_ROWS],
        |row| Ok(Tried { payload: row.get(0)?, inbox: row.get(1)?, end: end.clone() }),
    )?;
    settle(tx, env, host, &tries)?;
    Ok(tries.len() as i64 == PRUNED_ROWS)
}

/// The inboxes of `host` that still wait for a message.
///
/// # Errors
/// The database's.
pub fn still_waiting(tx: &mut Tx, host: &str, payload: Id) -> Result<BTreeSet<String>, Error> {
    let inboxes: Vec<String> = tx.column(
        "SELECT inbox FROM deliveries WHERE host = ?1 AND payload_id = ?2",
        params![host, payload],
    )?;
    Ok(inboxes.into_iter().collect())
}

/// When something that waits for `host` may be tried next.
///
/// # Errors
/// The database's.
pub fn next_due(tx: &mut Tx, host: &str) -> Result<Option<Timestamp>, Error> {
    let sql = format!("SELECT min(next_at) FROM deliveries d WHERE host = ?1 AND {FIRST}");
    Ok(tx.value::<Option<Timestamp>>(&sql, params![host])?.flatten())
}

/// Whether anything waits for `host`.
///
/// # Errors
/// The database's.
pub fn waits(tx: &mut Tx, host: &str) -> Result<bool, Error> {
    let sql = "SELECT 1 FROM deliveries WHERE host = ?1 LIMIT 1";
    Ok(tx.value::<i64>(sql, params![host])?.is_some())
}

/// Those of `hosts` for which more than `rows_max` deliveries wait.
///
/// # Errors
/// The database's.
pub fn crowded<'h>(
    tx: &mut Tx,
    hosts: impl IntoIterator<Item = &'h str>,
    rows_max: usize,
) -> Result<BTreeSet<String>, Error> {
    let mut crowded = BTreeSet::new();
    tx.query_each(
        "SELECT host FROM deliveries WHERE host = ?1 LIMIT 1 OFFSET ?2",
        hosts.into_iter().map(|host| [Value::Text(host.into()), Value::Int(rows_max as i64)]),
        |row| {
            crowded.insert(row.get(0)?);
            Ok(())
        },
    )?;
    Ok(crowded)
}

/// What became of one try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tried {
    /// The message.
    pub payload: Id,
    /// The inbox.
    pub inbox: String,
    /// How it ended.
    pub end: End,
}

/// How a try ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// The inbox has it.
    Taken,
    /// It never will.
    Failed(String),
    /// It may later.
    NotYet {
        /// What went wrong.
        reason: String,
        /// Not to be tried again before this moment.
        next_at: Timestamp,
    },
    /// It was not tried after all: whoever comes next may.
    Untried,
}

/// Messages are not waited for any more: each with its host and inbox. Their rows are locked in the
/// order in which [`waiting_for`] does for one message.
///
/// # Errors
/// The database's.
pub fn ended<'t>(
    tx: &mut Tx,
    each: impl Iterator<Item = (Id, &'t str, &'t str)>,
) -> Result<(), Error> {
    let mut rows: Vec<(Id, &str, &str)> = each.collect();
    rows.sort_unstable();
    rows.dedup();
    let row = |(payload, host, inbox): (Id, &'t str, &'t str)| {
        [Value::Text(host.into()), Value::Int(payload.0), Value::Text(inbox.into())]
    };
    tx.run_all(
        "DELETE FROM deliveries WHERE host = ?1 AND payload_id = ?2 AND inbox = ?3",
        rows.into_iter().map(row),
    )?;
    Ok(())
}

/// Writes down what became of tries to deliver to `host`.
///
/// # Errors
/// The database's.
pub fn settle(tx: &mut Tx, env: &Env, host: &str, tries: &[Tried]) -> Result<(), Error> {
    let over = tries.iter().filter(|tried| matches!(tried.end, End::Taken | End::Failed(_)));
    ended(tx, over.map(|tried| (tried.payload, host, &*tried.inbox)))?;
    for tried in tries {
        match &tried.end {
            End::Taken => {}
            End::Failed(reason) => failed(tx, env, host, tried, reason)?,
            End::NotYet { reason, next_at } => {
                tx.run(
                    "UPDATE deliveries SET tries = tries + 1, next_at = ?4, reason = ?5
                     WHERE host = ?1 AND payload_id = ?2 AND inbox = ?3",
                    params![host, tried.payload, tried.inbox, next_at, shortened(reason)],
                )?;
            }
            End::Untried => {
                tx.run(
                    "UPDATE deliveries SET next_at = 0
                     WHERE host = ?1 AND payload_id = ?2 AND inbox = ?3 AND tries = 0",
                    params![host, tried.payload, tried.inbox],
                )?;
            }
        }
    }
    Ok(())
}

fn failed(tx: &mut Tx, env: &Env, host: &str, tried: &Tried, reason: &str) -> Result<(), Error> {
    tx.run(
        "INSERT INTO undelivered (payload_id, host, inbox, failed_at, reason)
         SELECT ?1, ?2, ?3, ?4, ?5 WHERE EXISTS (SELECT 1 FROM shipments WHERE id = ?1)
         ON CONFLICT DO NOTHING",
        params![tried.payload, host, tried.inbox, env.clock.now(), shortened(reason)],
    )?;
    Ok(())
}

fn shortened(reason: &str) -> String {
    reason.chars().take(REASON_CHARS_MAX).collect()
}

/// What was tried in vain while `host` did not answer may be tried again at once.
///
/// # Errors
/// The database's.
pub fn answers_again(tx: &mut Tx, host: &str) -> Result<(), Error> {
    tx.run(
        "UPDATE deliveries SET next_at = 0 WHERE host = ?1 AND tries > 0 AND next_at > 0",
        params![host],
    )?;
    Ok(())
}

/// Gives up what was tried for a week, and forgets what became of older messages: a part of it;
/// true while there may be more.
///
/// # Errors
/// The database's.
pub fn prune(tx: &mut Tx, env: &Env) -> Result<bool, Error> {
    let now = env.clock.now();
    let old = Id::first_at(now.plus_ms(-TRIED_MS));
    tx.run(
        "INSERT INTO undelivered (payload_id, host, inbox, failed_at, reason)
         SELECT d.payload_id, d.host, d.inbox, ?2,
           CASE WHEN d.reason = '' THEN 'not delivered within a week'
             ELSE 'not delivered within a week: ' || d.reason END
         FROM deliveries d WHERE (d.payload_id, d.host, d.inbox) IN (
           SELECT payload_id, host, inbox FROM deliveries WHERE payload_id < ?1
           ORDER BY payload_id, host, inbox LIMIT ?3)
           AND EXISTS (SELECT 1 FROM shipments s WHERE s.id = d.payload_id)
         ON CONFLICT DO NOTHING",
        params![old, now, PRUNED_ROWS],
    )?;
    let given_up = tx.execute(
        "DELETE FROM deliveries WHERE (payload_id, host, inbox) IN (
           SELECT payload_id, host, inbox FROM deliveries WHERE payload_id < ?1
           ORDER BY payload_id, host, inbox LIMIT ?2)",
        params![old, PRUNED_ROWS],
    )?;
    metrics::counter!("weir_community_deliveries_given_up_total").increment(given_up);
    let told = Id::first_at(now.plus_ms(-TOLD_MS));
    let shipments = tx.execute(
        "DELETE FROM shipments WHERE id IN (
           SELECT id FROM shipments WHERE id < ?1 ORDER BY id LIMIT ?2)",
        params![told, PRUNED_ROWS],
    )?;
    let failures = tx.execute(
        "DELETE FROM undelivered WHERE (payload_id, host, inbox) IN (
           SELECT payload_id, host, inbox FROM undelivered WHERE payload_id < ?1
           ORDER BY payload_id, host, inbox LIMIT ?2)",
        params![told, PRUNED_ROWS],
    )?;
    let most = given_up.max(shipments).max(failures);
    Ok(most >= PRUNED_ROWS as u64)
}

/// Of the bodies after `after` those that nobody waits for, and the last that was looked at; none
/// when these were all.
///
/// # Errors
/// The database's.
pub fn idle_bodies(tx: &mut Tx, after: Id) -> Result<(Vec<Id>, Option<Id>), Error> {
    let seen: Vec<(Id, bool)> = tx.query(
        "SELECT p.id, CASE WHEN EXISTS (SELECT 1 FROM deliveries d WHERE d.payload_id = p.id)
           THEN 1 ELSE 0 END
         FROM payloads p WHERE p.id > ?1 ORDER BY p.id LIMIT ?2",
        params![after, LOOKED_AT_ROWS],
        |row| Ok((row.get(0)?, row.get::<i64>(1)? == 1)),
    )?;
    let last = seen.last().map(|(id, _)| *id).filter(|_| seen.len() as i64 == LOOKED_AT_ROWS);
    Ok((seen.into_iter().filter(|(_, waits)| !waits).map(|(id, _)| id).collect(), last))
}

/// Forgets those of `bodies` that nobody waits for, until the unit has had its time: then the last
/// that was looked at, after which another unit goes on; none when it had time for all.
///
/// # Errors
/// The database's.
pub fn forget_bodies(tx: &mut Tx, bodies: &[Id]) -> Result<Option<Id>, Error> {
    for some in bodies.chunks(FORGOTTEN_PER_STEP) {
        // It is waited for, so that the clock knows of it.
        tx.execute(
            "DELETE FROM payloads WHERE id IN ids(?1) AND NOT EXISTS (
               SELECT 1 FROM deliveries d WHERE d.payload_id = payloads.id)",
            &[ids(some)],
        )?;
        if slices::is_over(tx) {
            return Ok(some.last().copied());
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_hosts_keep_how_many_inboxes_each_has() {
        let hosts = [("a.example", 1), ("b.example:8443", 3)];
        assert_eq!(names(hosts), "a.example b.example:8443=3");
        assert_eq!(named(&names(hosts)).collect::<Vec<_>>(), hosts);
        assert!(names(hosts.into_iter().cycle()).len() < NAMES_BYTES_MAX);
    }
}
