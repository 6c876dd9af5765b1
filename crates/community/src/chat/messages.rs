//! The archive of messages: one row for each, shared by both sides (XEP-0313).
//!
//! A message's id is its stanza id for both. Ids are in order of time, so a span of time is a span
//! of ids, and each page is read from one place of an index.

use std::collections::HashMap;

use aws_lc_rs::digest;
use weir_base::{Id, Timestamp};
use weir_db::{Error as DbError, Json, Row, ToValue, Tx, Value, ids, params};

use super::settings::Archive;
use super::{address, offline};
use crate::{Env, Error};

/// The most messages on a page.
pub const PAGE_MAX: usize = 250;
/// What the messages of a page may be long together, in bytes; one is always there.
pub const PAGE_BYTES_MAX: usize = 512 * 1024;
/// Up to so many messages are counted.
pub const COUNTED_MAX: usize = 1_000;
/// Messages of a deleted account that are taken out at a time.
const PER_STEP: usize = 100;

/// A message to be kept.
#[derive(Debug, Clone)]
pub struct New {
    /// Its id, of [`Env::ids`].
    pub id: Id,
    /// Who sent it.
    pub from: Side,
    /// Whom it is for.
    pub to: Side,
    /// The stanza as it is to be shown later.
    pub xml: String,
    /// Whether it goes to the archives of those of here who want that.
    pub archive: bool,
    /// Whether nobody is there to receive it, so that it waits for the account it is for.
    pub waits: bool,
}

/// One side of a message.
#[derive(Debug, Clone)]
pub struct Side {
    /// The account, if it is of here.
    pub account: Option<Id>,
    /// The address as it stands in the stanza.
    pub jid: String,
}

/// What became of a message to be kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stored {
    /// It stands in the sender's archive.
    pub from: bool,
    /// It stands in the receiver's archive.
    pub to: bool,
    /// It should have waited for the receiver, and there was no room.
    pub full: bool,
}

weir_db::record! {
    /// A kept message.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Message {
        /// Its id: when it was sent, and its stanza id.
        pub id: Id,
        /// Who sent it.
        pub from_jid: String,
        /// Whom it is for.
        pub to_jid: String,
        /// The stanza.
        pub xml: String,
    }
}

/// Which messages of an archive are asked for. All bounds are exclusive.
#[derive(Debug, Clone, Default)]
pub struct Query {
    /// Only messages with this address: with a resource only with that, without with all.
    pub with: Option<String>,
    /// Only messages sent then or later.
    pub start: Option<Timestamp>,
    /// Only messages sent then or earlier.
    pub end: Option<Timestamp>,
    /// Only messages newer than this one (RSM's `after`, or the form's `after-id`).
    pub after: Option<Id>,
    /// Only messages older than this one.
    pub before: Option<Id>,
    /// Only messages below this id, whether there is one of it or not ([`Writing::horizon`]).
    ///
    /// [`Writing::horizon`]: super::writing::Writing::horizon
    pub until: Option<Id>,
    /// The newest that match instead of the oldest; they still come in order of time.
    pub backwards: bool,
    /// So many at most; [`PAGE_MAX`] at most. With 0 only the count is wanted.
    pub limit: usize,
}

/// A page of an archive.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page {
    /// In order of time.
    pub messages: Vec<Message>,
    /// There are no more in the direction of reading.
    pub complete: bool,
    /// How many match, whatever page is asked for; none when more than [`COUNTED_MAX`].
    pub count: Option<usize>,
}

/// Keeps messages, many in one go. Answers for each what became of it, in their order.
///
/// # Errors
/// The database's.
pub fn store(tx: &mut Tx, list: &[New]) -> Result<Vec<Stored>, Error> {
    let owners = list.iter().flat_map(|new| [new.from.account, new.to.account]).flatten();
    let mut owners: Vec<Id> = owners.collect();
    owners.sort_unstable();
    owners.dedup();
    let choices: HashMap<Id, Archive> = tx
        .query(
            "SELECT account_id, archive FROM chat_settings
             WHERE account_id IN ids(?1) AND archive IS NOT NULL",
            &[ids(&owners)],
            |row| Ok((row.get(0)?, row.get::<Json<Archive>>(1)?.0)),
        )?
        .into_iter()
        .collect();
    let mut stored = Vec::with_capacity(list.len());
    let mut rows = Vec::with_capacity(list.len());
    let mut waiting: HashMap<Id, Vec<(usize, Id)>> = HashMap::new();
    for (at, new) in list.iter().enumerate() {
        let wants = |tx: &mut Tx, owner: &Side, peer: &Side| match owner.account {
            Some(account) if new.archive => keeps(tx, &choices, account, &peer.jid),
            _ => Ok(false),
        };
        let from = wants(tx, &new.from, &new.to)?;
        let to = wants(tx, &new.to, &new.from)?;
        stored.push(Stored { from, to, full: false });
        if let Some(account) = new.to.account.filter(|_| new.waits) {
            waiting.entry(account).or_default().push((at, new.id));
        } else if !from && !to {
            continue;
        }
        rows.push((new, from, to));
    }
    insert(tx, &rows)?;
    // In order of their ids, as every unit does that changes several accounts.
    let mut waiting: Vec<_> = waiting.into_iter().collect();
    waiting.sort_unstable_by_key(|(account, _)| *account);
    for (account, kept) in waiting {
        let wanted: Vec<Id> = kept.iter().map(|(_, id)| *id).collect();
        let left = offline::keep(tx, account, &wanted)?;
        for (at, _) in kept.iter().filter(|(_, id)| left.contains(id)) {
            stored[*at].full = true;
        }
        offline::received(tx, account, &left)?;
    }
    Ok(stored)
}

fn insert(tx: &mut Tx, rows: &[(&New, bool, bool)]) -> Result<(), Error> {
    let none = Some(Id::ZERO);
    tx.run_all(
        "INSERT INTO chat_messages (id, from_id, to_id, pair, from_jid, to_jid, xml)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        rows.iter().map(|(new, from, to)| {
            let id_of = |side: &Side, wanted: bool| {
                let id = if wanted { side.account } else { none };
                Value::Int(id.map_or(0, |id| id.0))
            };
            [
                new.id.to_value(),
                id_of(&new.from, *from),
                id_of(&new.to, *to),
                Value::Int(pair(&new.from.jid, &new.to.jid)),
                new.from.jid.to_value(),
                new.to.jid.to_value(),
                new.xml.to_value(),
            ]
        }),
    )?;
    Ok(())
}

fn keeps(
    tx: &mut Tx,
    choices: &HashMap<Id, Archive>,
    account: Id,
    peer: &str,
) -> Result<bool, Error> {
    let Some(choice) = choices.get(&account) else { return Ok(true) };
    if let Some(sure) = choice.keeps(peer) {
        return Ok(sure);
    }
    let listed: Option<i64> = tx.value(
        "SELECT 1 FROM chat_contacts WHERE account_id = ?1 AND jid = ?2 AND state % 2 = 1",
        params![account, address::bare(peer)],
    )?;
    Ok(listed.is_some())
}

/// The same number for both directions between two addresses. That two pairs share one does no
/// harm: whose messages are read is always asked too.
pub(super) fn pair(one: &str, other: &str) -> i64 {
    let (one, other) = (address::bare(one), address::bare(other));
    let (low, high) = if one <= other { (one, other) } else { (other, one) };
    let hash = digest::digest(&digest::SHA256, format!("{low}\0{high}").as_bytes());
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&hash.as_ref()[..8]);
    i64::from_be_bytes(bytes)
}

/// The bounds of ids, exclusive, of a span of time and of ids.
pub(super) fn bounds(query: &Query) -> (i64, i64) {
    let above = query.start.map_or(-1, |start| Id::first_at(start).0 - 1);
    let below = query.end.map_or(i64::MAX, |end| Id::first_at(end.plus_ms(1)).0);
    let after = query.after.map_or(-1, |id| id.0);
    let before = query.before.map_or(i64::MAX, |id| id.0);
    let until = query.until.map_or(i64::MAX, |id| id.0);
    (above.max(after), below.min(before).min(until))
}

/// What a page takes up while it is read.
#[derive(Default)]
pub(super) struct Filling {
    bytes: usize,
    /// Whether something did not fit.
    pub(super) full: bool,
}

impl Filling {
    /// The next message, unless the page is full.
    pub(super) fn take(&mut self, row: &Row<'_>, xml: usize) -> Result<Option<String>, DbError> {
        if self.full {
            return Ok(None);
        }
        let text: String = row.get(xml)?;
        self.full = self.bytes > 0 && self.bytes + text.len() > PAGE_BYTES_MAX;
        self.bytes += text.len();
        Ok((!self.full).then_some(text))
    }
}

/// A page of the archive of `owner`. It may end early, by [`PAGE_BYTES_MAX`].
///
/// # Errors
/// [`Error::NotFound`] when the message to go on from is not (or no longer) in it.
pub fn page(tx: &mut Tx, env: &Env, owner: Id, query: &Query) -> Result<Page, Error> {
    let edges: Vec<Id> = [query.after, query.before].into_iter().flatten().collect();
    if by_ids(tx, owner, &edges)?.len() < edges.len() {
        return Err(Error::NotFound("Message"));
    }
    let limit = query.limit.min(PAGE_MAX);
    let own = address::of_account(tx, env, owner)?.ok_or(Error::NotFound("Account"))?;
    let order = if query.backwards { "DESC" } else { "ASC" };
    let columns = "id, from_jid, to_jid, xml";
    let (sql, exact) = selection(query, columns, order);
    let (above, below) = bounds(query);
    let pair = query.with.as_deref().map_or(0, |with| pair(&own, with));
    let values = [
        owner.to_value(),
        Value::Int(above),
        Value::Int(below),
        Value::Int(limit as i64 + 1),
        Value::Int(pair),
        exact.to_value(),
    ];
    let used = if exact.is_some() {
        6
    } else if query.with.is_some() {
        5
    } else {
        4
    };
    let mut filling = Filling::default();
    let messages: Vec<Option<Message>> = tx.query(&sql, &values[..used], |row| {
        let Some(xml) = filling.take(row, 3)? else { return Ok(None) };
        Ok(Some(Message { id: row.get(0)?, from_jid: row.get(1)?, to_jid: row.get(2)?, xml }))
    })?;
    let complete = messages.len() <= limit && !filling.full;
    let mut messages: Vec<Message> = messages.into_iter().take(limit).flatten().collect();
    if query.backwards {
        messages.reverse();
    }
    let whole = Query { after: None, before: None, ..query.clone() };
    let (above, below) = bounds(&whole);
    let (sql, _) = selection(&whole, "id", order);
    let mut values = values;
    values[1] = Value::Int(above);
    values[2] = Value::Int(below);
    values[3] = Value::Int(COUNTED_MAX as i64 + 1);
    let count: usize =
        tx.query_one(&format!("SELECT count(*) FROM ({sql}) all_of"), &values[..used], |row| {
            row.get(0)
        })?;
    Ok(Page { messages, complete, count: (count <= COUNTED_MAX).then_some(count) })
}

/// The select of a page, and the address with a resource that it compares as `?6`.
fn selection<'q>(query: &'q Query, columns: &str, order: &str) -> (String, Option<&'q str>) {
    let range = format!("id > ?2 AND id < ?3 ORDER BY id {order} LIMIT ?4");
    let Some(with) = query.with.as_deref() else {
        let one =
            format!("SELECT {columns} FROM chat_messages WHERE from_id = ?1 AND from_id <> 0");
        let other = format!(
            "SELECT {columns} FROM chat_messages WHERE to_id = ?1 AND to_id <> 0 AND from_id <> ?1"
        );
        let sql = format!(
            "SELECT {columns} FROM (SELECT * FROM ({one} AND {range}) sent UNION ALL
               SELECT * FROM ({other} AND {range}) got) both_ways ORDER BY id {order} LIMIT ?4"
        );
        return (sql, None);
    };
    let exact = with.contains('/').then_some(with);
    let resource = if exact.is_some() { "AND (from_jid = ?6 OR to_jid = ?6)" } else { "" };
    let sql = format!(
        "SELECT {columns} FROM chat_messages WHERE pair = ?5 AND (from_id = ?1 OR to_id = ?1)
           {resource} AND {range}"
    );
    (sql, exact)
}

/// Those of the messages `list` that stand in the archive of `owner`, in order of time.
///
/// # Errors
/// The database's.
pub fn by_ids(tx: &mut Tx, owner: Id, list: &[Id]) -> Result<Vec<Message>, Error> {
    if list.is_empty() {
        return Ok(Vec::new());
    }
    Ok(tx.records(
        "SELECT {} FROM chat_messages WHERE id IN ids(?1) AND (from_id = ?2 OR to_id = ?2)
         ORDER BY id",
        params![ids(list), owner],
    )?)
}

/// The oldest and the newest message in the archive of `owner`.
///
/// # Errors
/// The database's.
pub fn ends(tx: &mut Tx, owner: Id) -> Result<Option<(Id, Id)>, Error> {
    let end = |tx: &mut Tx, function: &str| -> Result<Option<Id>, Error> {
        let side = |column: &str| {
            format!(
                "SELECT {function}(id) AS id FROM chat_messages
                 WHERE {column} = ?1 AND {column} <> 0"
            )
        };
        let sql = format!(
            "SELECT {function}(id) FROM ({} UNION ALL {}) ends",
            side("from_id"),
            side("to_id")
        );
        Ok(tx.value(&sql, params![owner])?.flatten())
    };
    Ok(end(tx, "min")?.zip(end(tx, "max")?))
}

/// Takes `account` out of some of its messages, and those that are in nobody's archive then; false
/// when there are none left.
pub(super) fn leave(tx: &mut Tx, account: Id) -> Result<bool, Error> {
    let mut some = false;
    for column in ["from_id", "to_id"] {
        let list: Vec<Id> = tx.column(
            &format!(
                "SELECT id FROM chat_messages WHERE {column} = ?1 AND {column} <> 0
                 ORDER BY id LIMIT ?2"
            ),
            params![account, PER_STEP],
        )?;
        let out = format!("UPDATE chat_messages SET {column} = 0 WHERE id IN ids(?1)");
        tx.run(&out, &[ids(&list)])?;
        tx.run(
            "DELETE FROM chat_messages WHERE id IN ids(?1) AND from_id = 0 AND to_id = 0
               AND NOT EXISTS (SELECT 1 FROM chat_offline o WHERE o.message_id = chat_messages.id
                 AND o.account_id <> ?2)",
            params![ids(&list), account],
        )?;
        some |= !list.is_empty();
    }
    Ok(some)
}
