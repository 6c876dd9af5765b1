//! Reading and clearing notifications.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use weir_base::Id;
use weir_db::{Tx, Value, params, texts};

use super::Kind;
use crate::accounts::{self, Account};
use crate::statuses::{self, View};
use crate::streams::Event;
use crate::timelines::Range;
use crate::{Env, Error};

/// A notification as it is shown.
#[derive(Debug, Clone)]
pub struct Notification {
    /// Its id.
    pub id: Id,
    /// Why.
    pub kind: Kind,
    /// Those shown as one share this key.
    pub group_key: String,
    /// Who did it.
    pub account: Arc<Account>,
    /// To which post.
    pub status: Option<Arc<View>>,
    /// About which report, warning or loss of follows, by its kind.
    pub subject_id: Option<Id>,
    /// Whether the reader's policy put it aside.
    pub filtered: bool,
}

/// Which notifications are wanted.
#[derive(Debug, Clone, Default)]
pub struct Page {
    /// Between which ids.
    pub range: Range,
    /// Only these kinds; all when empty.
    pub types: Vec<Kind>,
    /// None of these kinds.
    pub exclude: Vec<Kind>,
    /// Only by this account.
    pub from: Option<Id>,
    /// Also those that the policy put aside.
    pub filtered: bool,
}

impl Page {
    /// The names of the kinds that are wanted.
    pub(super) fn kinds(&self) -> Vec<&'static str> {
        Kind::ALL
            .into_iter()
            .filter(|kind| self.types.is_empty() || self.types.contains(kind))
            .filter(|kind| !self.exclude.contains(kind))
            .map(Kind::name)
            .collect()
    }
}

/// Reads of a page until it is full, where many posts of those read may not be seen (any more).
const READS_MAX: usize = 10;
/// The condition on notifications that nobody is shown those by people suspended or deleted.
pub(super) const SHOWN: &str = "EXISTS (SELECT 1 FROM accounts a WHERE a.id = from_account_id
   AND a.suspended_at IS NULL AND a.deleted_at IS NULL)";

/// A page of `reader`'s notifications, the newest first.
///
/// # Errors
/// The database's.
pub fn list(tx: &mut Tx, env: &Env, reader: Id, page: &Page) -> Result<Vec<Notification>, Error> {
    let limit = page.range.limit;
    let mut found = Vec::new();
    let mut next = page.clone();
    for _ in 0..READS_MAX {
        let rows = rows(tx, reader, &next)?;
        let last = rows.last().filter(|_| rows.len() >= limit).map(|row| row.id);
        found.extend(fill(tx, env, reader, rows)?);
        match last {
            Some(last) if found.len() < limit => next.range = next.range.after(last, limit),
            _ => break,
        }
    }
    found.truncate(limit);
    if page.range.ascends() {
        found.reverse();
    }
    Ok(found)
}

/// The notifications of a page in the order of reading, whether their posts may be seen or not.
fn rows(tx: &mut Tx, reader: Id, page: &Page) -> Result<Vec<Bare>, Error> {
    let (order, range) = page.range.sql("id", 5);
    let sql = format!(
        "SELECT id, kind, group_key, from_account_id, status_id, subject_id, filtered
         FROM notifications WHERE account_id = ?1 AND kind IN texts(?2)
           AND (CAST(?3 AS BIGINT) = 0 OR from_account_id = ?3) AND filtered <= ?4 AND {range}
           AND {SHOWN}
         ORDER BY id {order} LIMIT ?7"
    );
    let (low, high) = page.range.bounds();
    let mut values: Vec<Value<'_>> = vec![Value::Int(reader.0), texts(page.kinds())];
    values.extend([
        Value::Int(page.from.unwrap_or(Id::ZERO).0),
        Value::Int(i64::from(page.filtered)),
        Value::Int(low.0),
        Value::Int(high.0),
        Value::Int(page.range.limit as i64),
    ]);
    Ok(tx.query(&sql, &values, row)?)
}

/// One of `reader`'s notifications.
///
/// # Errors
/// [`Error::NotFound`].
pub fn get(tx: &mut Tx, env: &Env, reader: Id, id: Id) -> Result<Notification, Error> {
    let rows = tx.query(
        "SELECT id, kind, group_key, from_account_id, status_id, subject_id, filtered
         FROM notifications WHERE account_id = ?1 AND id = ?2",
        params![reader, id],
        row,
    )?;
    fill(tx, env, reader, rows)?.pop().ok_or(Error::NotFound("Notification"))
}

struct Bare {
    id: Id,
    kind: Option<Kind>,
    group_key: String,
    from: Id,
    status: Option<Id>,
    subject: Option<Id>,
    filtered: bool,
}

fn row(row: &weir_db::Row<'_>) -> Result<Bare, weir_db::Error> {
    let some = |id: Id| (id != Id::ZERO).then_some(id);
    Ok(Bare {
        id: row.get(0)?,
        kind: Kind::parse(&row.get::<String>(1)?),
        group_key: row.get(2)?,
        from: row.get(3)?,
        status: some(row.get(4)?),
        subject: some(row.get(5)?),
        filtered: row.get(6)?,
    })
}

fn fill(tx: &mut Tx, env: &Env, reader: Id, rows: Vec<Bare>) -> Result<Vec<Notification>, Error> {
    let from: Vec<Id> = rows.iter().map(|row| row.from).collect();
    let about: BTreeSet<Id> = rows.iter().filter_map(|row| row.status).collect();
    let about: Vec<Id> = about.into_iter().collect();
    let mut accounts: HashMap<Id, Arc<Account>> = HashMap::new();
    let asked = vec![accounts::ask_by_ids(&mut accounts, &from)];
    let views: HashMap<Id, Arc<View>> = statuses::load_beside(tx, env, reader, &about, asked)?
        .into_iter()
        .map(|view| (view.status.id, Arc::new(view)))
        .collect();
    let filled = rows.into_iter().filter_map(|row| {
        let status = match row.status {
            Some(id) => Some(views.get(&id)?.clone()),
            None => None,
        };
        Some(Notification {
            id: row.id,
            kind: row.kind?,
            group_key: row.group_key,
            account: accounts.get(&row.from)?.clone(),
            status,
            subject_id: row.subject,
            filtered: row.filtered,
        })
    });
    Ok(filled.collect())
}

/// Removes all of `reader`'s notifications.
///
/// # Errors
/// The database's.
pub fn clear(tx: &mut Tx, env: &Env, reader: Id) -> Result<(), Error> {
    tx.run("DELETE FROM notifications WHERE account_id = ?1", params![reader])?;
    env.streams.tell_if_here(tx, reader, Event::NotificationsChanged);
    Ok(())
}

/// Removes one of `reader`'s notifications.
///
/// # Errors
/// [`Error::NotFound`].
pub fn dismiss(tx: &mut Tx, env: &Env, reader: Id, id: Id) -> Result<(), Error> {
    let removed = tx.execute(
        "DELETE FROM notifications WHERE account_id = ?1 AND id = ?2",
        params![reader, id],
    )?;
    env.streams.tell_if_here(tx, reader, Event::NotificationsChanged);
    if removed == 0 { Err(Error::NotFound("Notification")) } else { Ok(()) }
}
