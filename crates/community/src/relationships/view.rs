//! How one account stands to others, read for many at once.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};
use weir_base::{Id, Timestamp};
use weir_db::{Json, Question, Row, Tx, Value, ids, params};

use crate::Error;
use crate::accounts::Account;

/// How `reader` stands to one other account: what the Mastodon API calls a relationship.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Relationship {
    /// The other account.
    pub id: Id,
    /// The reader follows it.
    pub following: bool,
    /// With its boosts.
    pub showing_reblogs: bool,
    /// With a notification for each post.
    pub notifying: bool,
    /// Only posts in these languages; all when empty.
    pub languages: Vec<String>,
    /// It follows the reader.
    pub followed_by: bool,
    /// The reader blocks it.
    pub blocking: bool,
    /// It blocks the reader.
    pub blocked_by: bool,
    /// The reader mutes it.
    pub muting: bool,
    /// And its notifications.
    pub muting_notifications: bool,
    /// Until when.
    pub muting_expires_at: Option<Timestamp>,
    /// The reader asked to follow it.
    pub requested: bool,
    /// It asked to follow the reader.
    pub requested_by: bool,
    /// The reader blocks its whole server.
    pub domain_blocking: bool,
    /// The reader features it on their profile.
    pub endorsed: bool,
    /// The reader's private note about it.
    pub note: String,
}

/// How `reader` stands to each of `others`, in their order.
///
/// # Errors
/// The database's.
pub fn relationships(
    tx: &mut Tx,
    reader: Id,
    others: &[Id],
    now: Timestamp,
) -> Result<Vec<Relationship>, Error> {
    let mut found: HashMap<Id, Relationship> =
        others.iter().map(|&id| (id, Relationship { id, ..Relationship::default() })).collect();
    let list = ids(others);
    let mut each = |sql: &str, set: &mut dyn FnMut(&mut Relationship)| -> Result<(), Error> {
        for id in tx.column::<Id>(sql, &[weir_db::ToValue::to_value(&reader), list.clone()])? {
            if let Some(one) = found.get_mut(&id) {
                set(one);
            }
        }
        Ok(())
    };
    each(
        "SELECT account_id FROM follows WHERE target_id = ?1 AND account_id IN ids(?2)",
        &mut |one| one.followed_by = true,
    )?;
    each(
        "SELECT target_id FROM blocks WHERE account_id = ?1 AND target_id IN ids(?2)",
        &mut |one| one.blocking = true,
    )?;
    each(
        "SELECT account_id FROM blocks WHERE target_id = ?1 AND account_id IN ids(?2)",
        &mut |one| one.blocked_by = true,
    )?;
    each(
        "SELECT target_id FROM follow_requests WHERE account_id = ?1 AND target_id IN ids(?2)",
        &mut |one| one.requested = true,
    )?;
    each(
        "SELECT account_id FROM follow_requests WHERE target_id = ?1 AND account_id IN ids(?2)",
        &mut |one| one.requested_by = true,
    )?;
    each(
        "SELECT target_id FROM endorsements WHERE account_id = ?1 AND target_id IN ids(?2)",
        &mut |one| one.endorsed = true,
    )?;
    each(
        "SELECT a.id FROM account_domain_blocks b JOIN accounts a ON a.domain = b.domain
         WHERE b.account_id = ?1 AND a.id IN ids(?2)",
        &mut |one| one.domain_blocking = true,
    )?;
    details(tx, reader, &list, now, &mut found)?;
    Ok(others.iter().filter_map(|id| found.get(id).cloned()).collect())
}

fn details(
    tx: &mut Tx,
    reader: Id,
    list: &weir_db::Value<'static>,
    now: Timestamp,
    found: &mut HashMap<Id, Relationship>,
) -> Result<(), Error> {
    let both = [weir_db::ToValue::to_value(&reader), list.clone()];
    let follows = tx.query(
        "SELECT target_id, boosts, notify, languages FROM follows
         WHERE account_id = ?1 AND target_id IN ids(?2)",
        &both,
        |row| Ok((row.get::<Id>(0)?, row.get(1)?, row.get(2)?, row.get::<Json<Vec<String>>>(3)?)),
    )?;
    for (id, boosts, notify, languages) in follows {
        if let Some(one) = found.get_mut(&id) {
            one.following = true;
            (one.showing_reblogs, one.notifying, one.languages) = (boosts, notify, languages.0);
        }
    }
    let mutes = tx.query(
        "SELECT target_id, notifications, expires_at FROM mutes
         WHERE account_id = ?1 AND target_id IN ids(?2)",
        &both,
        |row| Ok((row.get::<Id>(0)?, row.get(1)?, row.get::<Option<Timestamp>>(2)?)),
    )?;
    for (id, notifications, expires_at) in mutes {
        let ended = expires_at.is_some_and(|at| at <= now);
        if let Some(one) = found.get_mut(&id).filter(|_| !ended) {
            one.muting = true;
            (one.muting_notifications, one.muting_expires_at) = (notifications, expires_at);
        }
    }
    let notes = tx.query(
        "SELECT target_id, comment FROM account_notes
         WHERE account_id = ?1 AND target_id IN ids(?2)",
        &both,
        |row| Ok((row.get::<Id>(0)?, row.get::<String>(1)?)),
    )?;
    for (id, note) in notes {
        if let Some(one) = found.get_mut(&id) {
            one.note = note;
        }
    }
    Ok(())
}

/// What decides, of all the reader's relations, who may see what and what is hidden.
#[derive(Debug, Clone, Default)]
pub struct Bonds {
    /// Whom the reader follows.
    pub following: HashSet<Id>,
    /// Of those, whose boosts the reader does not want.
    pub boosts_hidden: HashSet<Id>,
    /// Of those, whose posts the reader wants in these languages alone.
    pub languages: HashMap<Id, Vec<String>>,
    /// Whom the reader blocks.
    pub blocking: HashSet<Id>,
    /// Who blocks the reader.
    pub blocked_by: HashSet<Id>,
    /// Whom the reader mutes now.
    pub muting: HashSet<Id>,
    /// Servers the reader blocks.
    pub domains: HashSet<String>,
}

impl Bonds {
    /// Whether what `author` wrote is kept out where posts of strangers stand: of whom the reader
    /// blocks or mutes, and, but for followers and themselves, of whom staff silenced.
    pub(crate) fn keep_out(&self, reader: Option<Id>, author: &Account) -> bool {
        if reader == Some(author.id) {
            return false;
        }
        author.silenced_at.is_some() && !self.following.contains(&author.id)
            || self.blocking.contains(&author.id)
            || self.muting.contains(&author.id)
            || self.domains.contains(&author.domain)
    }
}

/// The reader's bonds with `others`.
///
/// # Errors
/// The database's.
pub fn bonds(tx: &mut Tx, reader: Id, others: &[Id], now: Timestamp) -> Result<Bonds, Error> {
    let mut found = Vec::new();
    tx.query_together(vec![ask_bonds(&mut found, reader, others, now)])?;
    Ok(found.into())
}

/// A row of what [`ask_bonds`] and [`ask_bonds_of_posts`] find.
pub(crate) type BondRow = (i64, Id, String);

/// The reader's bonds with those of `?2`.
const BONDS: &str = "SELECT 1 - boosts, target_id, languages FROM follows
       WHERE account_id = ?1 AND target_id IN ids(?2)
     UNION ALL SELECT 2, target_id, '' FROM blocks
       WHERE account_id = ?1 AND target_id IN ids(?2)
     UNION ALL SELECT 3, account_id, '' FROM blocks
       WHERE target_id = ?1 AND account_id IN ids(?2)
     UNION ALL SELECT 4, target_id, '' FROM mutes
       WHERE account_id = ?1 AND target_id IN ids(?2)
         AND (expires_at IS NULL OR expires_at > ?3)
     UNION ALL SELECT 5, 0, domain FROM account_domain_blocks WHERE account_id = ?1";

/// Asks for the reader's bonds with `others`: what is `found` makes [`Bonds`].
fn ask_bonds<'q>(
    found: &'q mut Vec<BondRow>,
    reader: Id,
    others: &[Id],
    now: Timestamp,
) -> Question<'q> {
    let values = [Value::Int(reader.0), ids(others), Value::Int(now.as_ms())];
    Question::new(BONDS, values, |row| keep_bond(found, row))
}

/// As [`bonds`], asked for, and which of those whom `posts` mention the reader blocks: what is
/// `found` makes [`Bonds`].
pub(crate) fn ask_bonds_of_posts<'q>(
    found: &'q mut Vec<BondRow>,
    reader: Id,
    others: &HashSet<Id>,
    posts: &[Id],
    now: Timestamp,
) -> Question<'q> {
    let sql = format!(
        "{BONDS}
     UNION ALL SELECT 2, target_id, '' FROM blocks
       WHERE account_id = ?1 AND target_id IN (
         SELECT account_id FROM mentions WHERE status_id IN ids(?4))"
    );
    let values = [Value::Int(reader.0), ids(others), Value::Int(now.as_ms()), ids(posts)];
    Question::new(sql, values, |row| keep_bond(found, row))
}

fn keep_bond(found: &mut Vec<BondRow>, row: &Row<'_>) -> Result<(), weir_db::Error> {
    found.push((row.get(0)?, row.get(1)?, row.get(2)?));
    Ok(())
}

impl From<Vec<BondRow>> for Bonds {
    fn from(rows: Vec<BondRow>) -> Self {
        let mut bonds = Bonds::default();
        for (kind, id, text) in rows {
            match kind {
                0 | 1 => {
                    bonds.following.insert(id);
                    if kind == 1 {
                        bonds.boosts_hidden.insert(id);
                    }
                    let languages: Vec<String> = serde_json::from_str(&text).unwrap_or_default();
                    if !languages.is_empty() {
                        bonds.languages.insert(id, languages);
                    }
                }
                2 => {
                    bonds.blocking.insert(id);
                }
                3 => {
                    bonds.blocked_by.insert(id);
                }
                4 => {
                    bonds.muting.insert(id);
                }
                _ => {
                    bonds.domains.insert(text);
                }
            }
        }
        bonds
    }
}

/// All of the reader's bonds: for a session that decides in memory.
///
/// # Errors
/// The database's.
pub fn all_bonds(tx: &mut Tx, reader: Id, now: Timestamp) -> Result<Bonds, Error> {
    let others: Vec<Id> = tx.column(
        "SELECT target_id FROM follows WHERE account_id = ?1
         UNION SELECT target_id FROM blocks WHERE account_id = ?1
         UNION SELECT account_id FROM blocks WHERE target_id = ?1
         UNION SELECT target_id FROM mutes WHERE account_id = ?1",
        params![reader],
    )?;
    bonds(tx, reader, &others, now)
}

/// When the next of the reader's mutes ends by itself, after `now`.
///
/// # Errors
/// The database's.
pub fn next_mute_end(tx: &mut Tx, reader: Id, now: Timestamp) -> Result<Option<Timestamp>, Error> {
    Ok(tx.value(
        "SELECT expires_at FROM mutes WHERE account_id = ?1 AND expires_at > ?2
         ORDER BY expires_at LIMIT 1",
        params![reader, now],
    )?)
}
