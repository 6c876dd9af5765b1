//! What became of a post on other servers, and what waits for them.

use std::collections::BTreeMap;

use weir_base::{Id, Timestamp};
use weir_db::{Tx, ids, params};

use crate::hosts::{self, Condition, Host};
use crate::statuses;
use crate::users::{self, Role};
use crate::{Env, Error};

/// Messages about one post that are looked at: the newest, and besides them the oldest, with which
/// the post itself went out.
const SHIPMENTS_MAX: usize = 20;
/// Servers where a post waits, and as many where it failed, that are named; the inboxes of all are
/// counted.
const NAMED_MAX: usize = 20_000;
/// Servers of one overview.
const HOSTS_MAX: usize = 1_000;

/// How far a post came on one host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Arrival {
    /// Some inbox of it never took it.
    Failed,
    /// Some inbox of it still waits.
    Waiting,
    /// Nothing was sent: the host has not answered for over a week.
    Spared,
    /// All of its inboxes have it.
    Delivered,
}

impl Arrival {
    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Waiting => "waiting",
            Self::Spared => "spared",
            Self::Delivered => "delivered",
        }
    }
}

/// What became of a post on one host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostArrival {
    /// The host.
    pub host: String,
    /// How far it came.
    pub arrival: Arrival,
    /// Inboxes that have it, wait or failed, as `arrival` says, each with every edit; none was sent
    /// to where it was spared.
    pub inboxes: usize,
    /// Since when it waits, or when it failed.
    pub since: Option<Timestamp>,
    /// When it is tried next, where that is settled.
    pub next_try_at: Option<Timestamp>,
    /// Why it is not there; empty while nothing went wrong.
    pub reason: String,
}

/// What became of a post on other servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrivals {
    /// When it was sent first.
    pub sent_at: Timestamp,
    /// Inboxes it was sent to, each with every edit.
    pub inboxes: usize,
    /// Of these: they have it.
    pub delivered: usize,
    /// They wait for it.
    pub waiting: usize,
    /// They will not have it.
    pub failed: usize,
    /// Host by host: first what failed, then what waits.
    pub hosts: Vec<HostArrival>,
    /// Hosts that are not named, for they are too many.
    pub unnamed_hosts: usize,
}

/// What became of `status` on other servers, for `viewer`: its author, or staff.
///
/// # Errors
/// [`Error::NotFound`] for everybody else, where there is no such post, and where it was sent
/// nowhere, or over eight days ago; the database's.
pub fn arrivals_for(tx: &mut Tx, env: &Env, viewer: Id, status: Id) -> Result<Arrivals, Error> {
    let is_author = statuses::by_id(tx, status)?.account_id == viewer;
    if !is_author {
        let role = Role::parse(&users::by_account(tx, viewer)?.role).unwrap_or(Role::User);
        if role < Role::Moderator {
            return Err(Error::NotFound("Status"));
        }
    }
    arrivals(tx, env, status)?.ok_or(Error::NotFound("Delivery"))
}

/// What became of `status` on other servers; none where it was sent nowhere, or over eight
/// days ago.
///
/// # Errors
/// The database's.
pub fn arrivals(tx: &mut Tx, env: &Env, status: Id) -> Result<Option<Arrivals>, Error> {
    let shipments: Vec<(Id, usize, usize, String, String)> = tx.query(
        "SELECT id, inboxes_count, hosts_count, hosts, spared FROM shipments
         WHERE status_id = ?1 AND (
           id IN (SELECT id FROM shipments WHERE status_id = ?1 ORDER BY id DESC LIMIT ?2)
           OR id = (SELECT min(id) FROM shipments WHERE status_id = ?1))
         ORDER BY id DESC",
        params![status, SHIPMENTS_MAX],
        |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?)),
    )?;
    let Some(first) = shipments.iter().map(|(id, ..)| *id).min() else { return Ok(None) };
    let inboxes = shipments.iter().map(|(_, inboxes, ..)| inboxes).sum();
    let hosts_count = shipments.iter().map(|(_, _, hosts, ..)| *hosts).max().unwrap_or(0);
    let mut hosts: BTreeMap<String, HostArrival> = BTreeMap::new();
    for (_, _, _, reached, spared) in &shipments {
        for (names, arrival) in [(spared, Arrival::Spared), (reached, Arrival::Delivered)] {
            for (host, inboxes) in super::named(names) {
                let new = || HostArrival::new(host, arrival);
                let entry = hosts.entry(host.to_owned()).or_insert_with(new);
                if arrival == Arrival::Delivered && entry.arrival == arrival {
                    entry.inboxes += inboxes;
                }
            }
        }
    }
    let ids_of: Vec<Id> = shipments.iter().map(|(id, ..)| *id).collect();
    let waiting = waiting(tx, env, &ids_of, &mut hosts)?;
    let failed = failed(tx, &ids_of, &mut hosts)?;
    let named = hosts.values().filter(|host| host.arrival != Arrival::Spared).count();
    let mut hosts: Vec<HostArrival> = hosts.into_values().collect();
    hosts.sort_by(|a, b| (a.arrival, &a.host).cmp(&(b.arrival, &b.host)));
    let inboxes: usize = inboxes;
    Ok(Some(Arrivals {
        sent_at: first.time(),
        inboxes,
        delivered: inboxes.saturating_sub(waiting + failed),
        waiting,
        failed,
        hosts,
        unnamed_hosts: hosts_count.saturating_sub(named),
    }))
}

impl HostArrival {
    fn new(host: &str, arrival: Arrival) -> Self {
        let (host, reason) = (host.to_owned(), String::new());
        Self { host, arrival, inboxes: 0, since: None, next_try_at: None, reason }
    }

    /// So many of its inboxes stand so, which is worse than what was known of it.
    fn stands(&mut self, arrival: Arrival, inboxes: usize, since: Timestamp, reason: &str) {
        *self = Self::new(&self.host, arrival);
        (self.inboxes, self.since, self.reason) = (inboxes, Some(since), reason.to_owned());
    }
}

type Hosts = BTreeMap<String, HostArrival>;

fn at<'h>(hosts: &'h mut Hosts, host: &str) -> &'h mut HostArrival {
    let new = || HostArrival::new(host, Arrival::Delivered);
    hosts.entry(host.to_owned()).or_insert_with(new)
}

fn waiting(tx: &mut Tx, env: &Env, of: &[Id], hosts: &mut Hosts) -> Result<usize, Error> {
    let now = env.clock.now();
    let rows: Vec<(String, usize, Id, Option<Timestamp>, String)> = tx.query(
        "SELECT host, count(*), min(payload_id), min(CASE WHEN tries > 0 THEN next_at END),
           max(reason)
         FROM deliveries WHERE payload_id IN ids(?1) GROUP BY host ORDER BY host LIMIT ?2",
        &[ids(of), weir_db::Value::Int(NAMED_MAX as i64)],
        |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?)),
    )?;
    let names = rows.iter().map(|(host, ..)| host.as_str()).collect();
    let troubled: BTreeMap<String, Host> =
        hosts::troubled(tx, &names)?.into_iter().map(|host| (host.domain.clone(), host)).collect();
    let mut counted = 0;
    for (host, inboxes, payload, own, reason) in &rows {
        let trouble = troubled.get(host);
        let failing = trouble.filter(|host| host.failing_since.is_some());
        let reason = match failing {
            Some(failing) if reason.is_empty() => &failing.failure,
            _ => reason,
        };
        let entry = at(hosts, host);
        entry.stands(Arrival::Waiting, *inboxes, payload.time(), reason);
        let next = failing.and_then(|failing| failing.next_try_at).or(*own);
        entry.next_try_at = next.map(|at| at.max(now));
        counted += inboxes;
    }
    let Some((last, ..)) = rows.get(NAMED_MAX - 1) else { return Ok(counted) };
    forget_beyond(hosts, last);
    count(tx, "SELECT count(*) FROM deliveries WHERE payload_id IN ids(?1)", of)
}

fn failed(tx: &mut Tx, of: &[Id], hosts: &mut Hosts) -> Result<usize, Error> {
    let rows: Vec<(String, usize, Timestamp, String)> = tx.query(
        "SELECT host, count(*), min(failed_at), max(reason) FROM undelivered
         WHERE payload_id IN ids(?1) GROUP BY host ORDER BY host LIMIT ?2",
        &[ids(of), weir_db::Value::Int(NAMED_MAX as i64)],
        |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)),
    )?;
    let mut counted = 0;
    for (host, inboxes, failed_at, reason) in &rows {
        at(hosts, host).stands(Arrival::Failed, *inboxes, *failed_at, reason);
        counted += inboxes;
    }
    let Some((last, ..)) = rows.get(NAMED_MAX - 1) else { return Ok(counted) };
    forget_beyond(hosts, last);
    count(tx, "SELECT count(*) FROM undelivered WHERE payload_id IN ids(?1)", of)
}

/// Of hosts beyond the `last` that was read nobody knows that they have it.
fn forget_beyond(hosts: &mut Hosts, last: &str) {
    hosts.retain(|host, known| known.arrival != Arrival::Delivered || host.as_str() <= last);
}

fn count(tx: &mut Tx, sql: &'static str, of: &[Id]) -> Result<usize, Error> {
    Ok(tx.value::<usize>(sql, &[ids(of)])?.unwrap_or(0))
}

/// What waits for a host.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HostBacklog {
    /// Inboxes that wait, each with every message.
    pub waiting: i64,
    /// When the oldest message was sent that waits.
    pub oldest: Option<Timestamp>,
}

/// What waits for `host`.
///
/// # Errors
/// The database's.
pub fn backlog(tx: &mut Tx, host: &str) -> Result<HostBacklog, Error> {
    Ok(tx.query_one(
        "SELECT count(*), min(payload_id) FROM deliveries WHERE host = ?1",
        params![host],
        |row| {
            Ok(HostBacklog {
                waiting: row.get(0)?,
                oldest: row.get::<Option<Id>>(1)?.map(Id::time),
            })
        },
    )?)
}

/// What waits for each host for which anything does.
///
/// # Errors
/// The database's.
pub fn backlogs(tx: &mut Tx) -> Result<BTreeMap<String, HostBacklog>, Error> {
    let rows = tx.query(
        "SELECT host, count(*), min(payload_id) FROM deliveries GROUP BY host",
        &[],
        |row| {
            let oldest = row.get::<Option<Id>>(2)?.map(Id::time);
            Ok((row.get(0)?, HostBacklog { waiting: row.get(1)?, oldest }))
        },
    )?;
    Ok(rows.into_iter().collect())
}

/// How deliveries to all servers stand.
#[derive(Debug, Clone)]
pub struct Overview {
    /// Inboxes that wait, each with every message.
    pub waiting: i64,
    /// When the oldest message was sent that waits.
    pub oldest: Option<Timestamp>,
    /// Inboxes that a message about a post did not reach in the last eight days.
    pub failed: i64,
    /// Servers that are not well, how each fares and what waits for it: first those that answer
    /// again and catch up, then the silent, the latest first, so that the dead stand last.
    pub troubled: Vec<(Host, Condition, HostBacklog)>,
    /// Servers that are not well and not named, for they are too many.
    pub unnamed_hosts: usize,
}

/// How deliveries to all servers stand.
///
/// # Errors
/// The database's.
pub fn overview(tx: &mut Tx, env: &Env) -> Result<Overview, Error> {
    let now = env.clock.now();
    let backlogs = backlogs(tx)?;
    let failed: Option<i64> = tx.value("SELECT count(*) FROM undelivered", &[])?;
    let hosts: Vec<Host> = tx.records(
        "SELECT {} FROM hosts WHERE failing_since IS NOT NULL OR behind = 1
         ORDER BY coalesce(failing_since, 9223372036854775807) DESC, domain LIMIT ?1",
        params![HOSTS_MAX],
    )?;
    let not_well: Option<usize> =
        tx.value("SELECT count(*) FROM hosts WHERE failing_since IS NOT NULL OR behind = 1", &[])?;
    let unnamed_hosts = not_well.unwrap_or(0).saturating_sub(hosts.len());
    let with_backlog = |host: Host| {
        let backlog = backlogs.get(&host.domain).copied().unwrap_or_default();
        (host.condition(now), host, backlog)
    };
    let troubled = hosts.into_iter().map(with_backlog);
    Ok(Overview {
        waiting: backlogs.values().map(|backlog| backlog.waiting).sum(),
        oldest: backlogs.values().filter_map(|backlog| backlog.oldest).min(),
        failed: failed.unwrap_or(0),
        troubled: troubled.map(|(condition, host, backlog)| (host, condition, backlog)).collect(),
        unnamed_hosts,
    })
}

/// How many inboxes and servers stand how.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Inboxes that wait, each with every message.
    pub waiting: i64,
    /// Inboxes that a message about a post did not reach in the last eight days.
    pub failed: i64,
    /// Servers that do not answer, for less than a week,
    pub failing: i64,
    /// for longer,
    pub dead: i64,
    /// and those that answer again, and get what waits step by step.
    pub catching_up: i64,
}

/// How many inboxes and servers stand how, counted.
///
/// # Errors
/// The database's.
pub fn totals(tx: &mut Tx, env: &Env) -> Result<Totals, Error> {
    let waiting: Option<i64> = tx.value("SELECT count(*) FROM deliveries", &[])?;
    let failed: Option<i64> = tx.value("SELECT count(*) FROM undelivered", &[])?;
    let dead_since = hosts::dead_if_failing_since(env.clock.now());
    let (not_well, silent, dead): (i64, i64, i64) = tx.query_one(
        "SELECT count(*), count(failing_since), count(CASE WHEN failing_since <= ?1 THEN 1 END)
         FROM hosts WHERE failing_since IS NOT NULL OR behind = 1",
        params![dead_since],
        |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
    )?;
    Ok(Totals {
        waiting: waiting.unwrap_or(0),
        failed: failed.unwrap_or(0),
        failing: silent - dead,
        dead,
        catching_up: not_well - silent,
    })
}
