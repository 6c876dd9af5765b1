//! Whose notifications a person wants at all, and what is put aside until they decide.

use std::collections::{BTreeSet, HashMap};

use serde::{Deserialize, Serialize};
use weir_base::{Id, Timestamp};
use weir_db::{Json, ToValue, Tx, Value, ids, params};

use super::list::SHOWN;
use super::{Kind, Notice};
use crate::streams::{Event, Topic};
use crate::timelines::Range;
use crate::{Env, Error};

/// Accounts younger than this are new.
const NEW_ACCOUNT_MS: i64 = 30 * 24 * 60 * 60 * 1_000;

/// What happens to notifications of a kind of sender.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Treatment {
    /// Shown.
    #[default]
    Accept,
    /// Put aside as a request.
    Filter,
    /// Dropped.
    Drop,
}

/// A person's policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Policy {
    /// People they do not follow.
    pub for_not_following: Treatment,
    /// People who do not follow them.
    pub for_not_followers: Treatment,
    /// Accounts made in the last 30 days.
    pub for_new_accounts: Treatment,
    /// Direct mentions they did not ask for.
    pub for_private_mentions: Treatment,
    /// Accounts limited by staff.
    pub for_limited_accounts: Treatment,
    /// Posts of bots, reserved: accepted.
    pub for_bots: Treatment,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            for_not_following: Treatment::Accept,
            for_not_followers: Treatment::Accept,
            for_new_accounts: Treatment::Accept,
            for_private_mentions: Treatment::Filter,
            for_limited_accounts: Treatment::Filter,
            for_bots: Treatment::Accept,
        }
    }
}

/// `of`'s policy.
///
/// # Errors
/// The database's.
pub fn policy(tx: &mut Tx, of: Id) -> Result<Policy, Error> {
    let sql = "SELECT policy FROM notification_policies WHERE account_id = ?1";
    Ok(tx.value::<Json<Policy>>(sql, params![of])?.map_or_else(Policy::default, |json| json.0))
}

/// Sets `of`'s policy.
///
/// # Errors
/// The database's.
pub fn set_policy(tx: &mut Tx, of: Id, policy: Policy) -> Result<(), Error> {
    tx.run(
        "INSERT INTO notification_policies (account_id, policy) VALUES (?1, ?2)
         ON CONFLICT (account_id) DO UPDATE SET policy = excluded.policy",
        params![of, Json(policy)],
    )?;
    Ok(())
}

/// The condition on requests that something waits behind them: what was sent may be gone, with a
/// post, in time, or by its receiver. The rows of such requests are removed by a chore.
const WAITS: &str = "EXISTS (SELECT 1 FROM notifications n WHERE n.filtered = 1
   AND n.from_account_id = notification_requests.from_account_id
   AND n.account_id = notification_requests.account_id)";

/// How many senders wait for a decision, and how many notifications they sent.
///
/// # Errors
/// The database's.
pub fn pending(tx: &mut Tx, of: Id) -> Result<(i64, i64), Error> {
    let requests = format!(
        "SELECT count(*) FROM notification_requests
         WHERE account_id = ?1 AND {SHOWN} AND {WAITS}"
    );
    let notifications = format!(
        "SELECT count(*) FROM notifications WHERE account_id = ?1 AND filtered = 1 AND {SHOWN}"
    );
    let requests: Option<i64> = tx.value(&requests, params![of])?;
    let notifications: Option<i64> = tx.value(&notifications, params![of])?;
    Ok((requests.unwrap_or(0), notifications.unwrap_or(0)))
}

/// What decides about one notification.
struct Sender {
    following: bool,
    follower: bool,
    created_at: Option<Timestamp>,
    limited: bool,
    permitted: bool,
    staff: bool,
    unasked: bool,
}

/// What is to become of each of `notices`.
pub(super) fn treat_each(
    tx: &mut Tx,
    env: &Env,
    notices: &[Notice],
) -> Result<Vec<Treatment>, Error> {
    let judged: Vec<&Notice> = notices.iter().filter(|notice| !is_exempt(notice)).collect();
    let each = judged.iter().map(|notice| {
        let mention = notice.status.filter(|_| notice.kind == Kind::Mention);
        let mention = Value::Int(mention.unwrap_or(Id::ZERO).0);
        [notice.to.to_value(), notice.from.to_value(), mention]
    });
    let mut senders = Vec::with_capacity(judged.len());
    tx.query_each(SENDER, each, |row| {
        senders.push(Sender {
            following: row.get(0)?,
            follower: row.get(1)?,
            created_at: row.get(2)?,
            limited: row.get(3)?,
            permitted: row.get(4)?,
            staff: row.get(5)?,
            unasked: row.get::<Option<i64>>(6)?.is_some(),
        });
        Ok(())
    })?;
    let policies = policies(tx, &judged)?;
    let now = env.clock.now();
    let mut treatments = judged.iter().zip(senders).map(|(notice, sender)| {
        let policy = policies.get(&notice.to).copied().unwrap_or_default();
        treat(&sender, policy, now)
    });
    let treat = |notice: &Notice| match is_exempt(notice) {
        true => Treatment::Accept,
        false => treatments.next().unwrap_or(Treatment::Drop),
    };
    Ok(notices.iter().map(treat).collect())
}

/// What everybody is always told.
fn is_exempt(notice: &Notice) -> bool {
    let kinds = [
        Kind::Poll,
        Kind::AdminReport,
        Kind::AdminSignUp,
        Kind::SeveredRelationships,
        Kind::ModerationWarning,
    ];
    kinds.contains(&notice.kind) || notice.to == notice.from
}

/// A row for each question: of an account that is not there all is as of a stranger, who came now.
/// The last column says whether `?3` is a direct mention in a conversation that `?1` has not
/// written in.
const SENDER: &str =
    "SELECT (SELECT count(*) FROM follows WHERE account_id = ?1 AND target_id = ?2),
     (SELECT count(*) FROM follows WHERE account_id = ?2 AND target_id = ?1),
     (SELECT created_at FROM accounts WHERE id = ?2),
     (SELECT count(*) FROM accounts WHERE id = ?2 AND silenced_at IS NOT NULL),
     (SELECT count(*) FROM notification_permissions
       WHERE account_id = ?1 AND from_account_id = ?2),
     (SELECT count(*) FROM users WHERE account_id = ?2 AND role <> 'user'),
     (SELECT 1 FROM statuses s WHERE s.id = ?3 AND s.visibility = 3 AND NOT EXISTS (
       SELECT 1 FROM statuses p WHERE p.id = s.in_reply_to_id AND p.account_id = ?1))";

/// The policies of those whom `notices` are for, where they set one.
fn policies(tx: &mut Tx, notices: &[&Notice]) -> Result<HashMap<Id, Policy>, Error> {
    let people: BTreeSet<Id> = notices.iter().map(|notice| notice.to).collect();
    let mut policies = HashMap::new();
    let sql = "SELECT account_id, policy FROM notification_policies WHERE account_id = ?1";
    tx.query_each(sql, people.iter().map(|of| [of.to_value()]), |row| {
        policies.insert(row.get(0)?, row.get::<Json<Policy>>(1)?.0);
        Ok(())
    })?;
    Ok(policies)
}

fn treat(sender: &Sender, policy: Policy, now: Timestamp) -> Treatment {
    if sender.permitted || sender.staff {
        return Treatment::Accept;
    }
    let is_new = sender.created_at.is_some_and(|at| now.since_ms(at) < NEW_ACCOUNT_MS);
    let stranger = !sender.following;
    let rules = [
        (stranger, policy.for_not_following),
        (!sender.follower, policy.for_not_followers),
        (stranger && is_new, policy.for_new_accounts),
        (stranger && sender.unasked, policy.for_private_mentions),
        (stranger && sender.limited, policy.for_limited_accounts),
    ];
    let applying = || rules.iter().filter(|(applies, _)| *applies).map(|(_, rule)| *rule);
    match () {
        () if applying().any(|rule| rule == Treatment::Drop) => Treatment::Drop,
        () if applying().any(|rule| rule == Treatment::Filter) => Treatment::Filter,
        () => Treatment::Accept,
    }
}

/// Notes that `from` has something waiting for `to`.
pub(super) fn request(
    tx: &mut Tx,
    env: &Env,
    to: Id,
    from: Id,
    status: Option<Id>,
) -> Result<(), Error> {
    tx.run(
        "INSERT INTO notification_requests (id, account_id, from_account_id, last_status_id,
           updated_at) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (account_id, from_account_id) DO UPDATE
         SET last_status_id = coalesce(excluded.last_status_id,
             notification_requests.last_status_id), updated_at = excluded.updated_at",
        params![env.ids.next(), to, from, status, env.clock.now()],
    )?;
    Ok(())
}

weir_db::record! {
    /// A sender whose notifications wait for a decision.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Request {
        /// Its id.
        pub id: Id,
        /// Who sends.
        pub from_account_id: Id,
        /// The newest post it is about.
        pub last_status_id: Option<Id>,
        /// When the newest came.
        pub updated_at: Timestamp,
    }
}

/// A page of `of`'s requests behind which something waits, the newest first.
///
/// # Errors
/// The database's.
pub fn requests(tx: &mut Tx, of: Id, range: Range) -> Result<Vec<Request>, Error> {
    let (order, bounds) = range.sql("id", 2);
    let (low, high) = range.bounds();
    let sql = format!(
        "SELECT {{}} FROM notification_requests WHERE account_id = ?1 AND {bounds}
           AND {SHOWN} AND {WAITS} ORDER BY id {order} LIMIT ?4"
    );
    let mut found: Vec<Request> = tx.records(&sql, params![of, low, high, range.limit])?;
    if range.ascends() {
        found.reverse();
    }
    Ok(found)
}

/// How many notifications of each of `senders` wait for a decision; those of whom none waits are
/// left out.
///
/// # Errors
/// The database's.
pub fn waiting(tx: &mut Tx, of: Id, senders: &[Id]) -> Result<Vec<(Id, i64)>, Error> {
    Ok(tx.query(
        "SELECT from_account_id, count(*) FROM notifications
         WHERE account_id = ?1 AND from_account_id IN ids(?2) AND filtered = 1
         GROUP BY from_account_id",
        &[of.to_value(), ids(senders)],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?)
}

/// `of`'s request `id`.
///
/// # Errors
/// [`Error::NotFound`].
pub fn request_by_id(tx: &mut Tx, of: Id, id: Id) -> Result<Request, Error> {
    let sql = format!(
        "SELECT {{}} FROM notification_requests
         WHERE account_id = ?1 AND id = ?2 AND {SHOWN} AND {WAITS}"
    );
    tx.record(&sql, params![of, id])?.ok_or(Error::NotFound("Notification request"))
}

/// `of` lets the senders of these requests through, now and from now on.
///
/// # Errors
/// The database's.
pub fn accept(tx: &mut Tx, env: &Env, of: Id, list: &[Id]) -> Result<(), Error> {
    for from in senders(tx, of, list)? {
        tx.run(
            "INSERT INTO notification_permissions (account_id, from_account_id) VALUES (?1, ?2)
             ON CONFLICT DO NOTHING",
            params![of, from],
        )?;
        tx.run(
            "UPDATE notifications SET filtered = 0 WHERE account_id = ?1 AND from_account_id = ?2",
            params![of, from],
        )?;
    }
    forget(tx, of, list)?;
    env.streams.tell(tx, Topic::Own(of), Event::NotificationsMerged);
    Ok(())
}

/// `of` does not want what waits behind these requests.
///
/// # Errors
/// The database's.
pub fn dismiss(tx: &mut Tx, of: Id, list: &[Id]) -> Result<(), Error> {
    for from in senders(tx, of, list)? {
        tx.run(
            "DELETE FROM notifications
             WHERE account_id = ?1 AND from_account_id = ?2 AND filtered = 1",
            params![of, from],
        )?;
    }
    forget(tx, of, list)
}

fn senders(tx: &mut Tx, of: Id, list: &[Id]) -> Result<Vec<Id>, Error> {
    Ok(tx.column(
        "SELECT from_account_id FROM notification_requests
         WHERE account_id = ?1 AND id IN ids(?2)",
        &[of.to_value(), ids(list)],
    )?)
}

fn forget(tx: &mut Tx, of: Id, list: &[Id]) -> Result<(), Error> {
    tx.run(
        "DELETE FROM notification_requests WHERE account_id = ?1 AND id IN ids(?2)",
        &[of.to_value(), ids(list)],
    )?;
    Ok(())
}
