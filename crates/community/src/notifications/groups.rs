//! Notifications shown as groups: "alice and 3 others favourited".

use std::collections::HashMap;

use weir_base::Id;
use weir_db::{ToValue, Tx, ids, params};

use super::list::{self, SHOWN};
use super::{Kind, Notification, Page};
use crate::streams::Event;
use crate::timelines::Range;
use crate::{Env, Error};

/// People shown of a group.
const SAMPLE_MAX: usize = 8;

/// Several notifications that are shown as one.
#[derive(Debug, Clone)]
pub struct Group {
    /// Their key; an ungrouped one's is its own.
    pub key: String,
    /// Why.
    pub kind: Kind,
    /// How many there are in all.
    pub count: i64,
    /// The newest of them in all.
    pub newest: Notification,
    /// The least and greatest id on this page.
    pub page_ids: (Id, Id),
    /// Who did it, the newest first; the first few.
    pub sample: Vec<Id>,
}

/// A page of groups, in order of their newest notification; those kinds not in `grouped` stay
/// apart.
///
/// # Errors
/// The database's.
pub fn groups(
    tx: &mut Tx,
    env: &Env,
    reader: Id,
    page: &Page,
    grouped: &[Kind],
) -> Result<Vec<Group>, Error> {
    let limit = page.range.limit;
    let mut groups: Vec<Group> = Vec::new();
    let mut next = page.clone();
    // One group may fill several pages of notifications.
    for _ in 0..10 {
        next.range.limit = limit.max(40);
        let found = list::list(tx, env, reader, &next)?;
        let full = found.len() >= next.range.limit;
        let ordered: Vec<Notification> =
            if page.range.ascends() { found.into_iter().rev().collect() } else { found };
        let last = ordered.last().map(|one| one.id);
        for one in ordered {
            let apart = !grouped.contains(&one.kind);
            let key = if apart { format!("ungrouped-{}", one.id) } else { one.group_key.clone() };
            let known = groups.iter().position(|group| group.key == key);
            match known {
                Some(at) => {
                    let (least, most) = groups[at].page_ids;
                    groups[at].page_ids = (least.min(one.id), most.max(one.id));
                }
                None if groups.len() < limit => groups.push(start(key, one)),
                None => return finish(tx, reader, page.range, groups),
            }
        }
        match last {
            Some(last) if full && groups.len() < limit => next.range = next.range.after(last, 40),
            _ => break,
        }
    }
    finish(tx, reader, page.range, groups)
}

fn start(key: String, newest: Notification) -> Group {
    Group {
        key,
        kind: newest.kind,
        count: 1,
        page_ids: (newest.id, newest.id),
        sample: vec![newest.account.id],
        newest,
    }
}

/// Counts the groups and names those in them.
fn finish(
    tx: &mut Tx,
    reader: Id,
    range: Range,
    mut groups: Vec<Group>,
) -> Result<Vec<Group>, Error> {
    let keys: Vec<&str> = groups.iter().map(|group| group.key.as_str()).collect();
    let sql = format!(
        "SELECT group_key, from_account_id FROM notifications
         WHERE account_id = ?1 AND group_key IN texts(?2) AND {SHOWN}
         ORDER BY id DESC LIMIT 20000"
    );
    let members: Vec<(String, Id)> =
        tx.query(&sql, &[reader.to_value(), weir_db::texts(&keys)], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?;
    let mut by_key: HashMap<String, Vec<Id>> = HashMap::new();
    for (key, from) in members {
        by_key.entry(key).or_default().push(from);
    }
    for group in &mut groups {
        if let Some(members) = by_key.get(&group.key) {
            group.count = members.len() as i64;
            group.sample = members.iter().copied().take(SAMPLE_MAX).collect();
        }
    }
    if range.ascends() {
        groups.reverse();
    }
    Ok(groups)
}

/// One of `reader`'s groups.
///
/// # Errors
/// [`Error::NotFound`].
pub fn group(tx: &mut Tx, env: &Env, reader: Id, key: &str) -> Result<Group, Error> {
    let newest: Option<Id> = match key.strip_prefix("ungrouped-").and_then(|id| id.parse().ok()) {
        Some(id) => Some(id),
        None => tx
            .value::<Option<Id>>(
                "SELECT max(id) FROM notifications WHERE account_id = ?1 AND group_key = ?2",
                params![reader, key],
            )?
            .flatten(),
    };
    let newest = newest.ok_or(Error::NotFound("Notification group"))?;
    let notification = list::get(tx, env, reader, newest)?;
    let started = start(key.to_owned(), notification);
    finish(tx, reader, Range::default(), vec![started])?
        .pop()
        .ok_or(Error::NotFound("Notification group"))
}

/// All people in one of `reader`'s groups, the newest first.
///
/// # Errors
/// The database's.
pub fn group_accounts(tx: &mut Tx, reader: Id, key: &str) -> Result<Vec<Id>, Error> {
    let own: Vec<Id> =
        key.strip_prefix("ungrouped-").and_then(|id| id.parse().ok()).into_iter().collect();
    let sql = format!(
        "SELECT from_account_id FROM notifications
         WHERE account_id = ?1 AND (group_key = ?2 OR id IN ids(?3)) AND {SHOWN}
         ORDER BY id DESC LIMIT 1000"
    );
    Ok(tx.column(&sql, &[reader.to_value(), key.to_value(), ids(&own)])?)
}

/// Removes one of `reader`'s groups.
///
/// # Errors
/// The database's.
pub fn dismiss_group(tx: &mut Tx, env: &Env, reader: Id, key: &str) -> Result<(), Error> {
    let own: Vec<Id> =
        key.strip_prefix("ungrouped-").and_then(|id| id.parse().ok()).into_iter().collect();
    tx.run(
        "DELETE FROM notifications WHERE account_id = ?1 AND (group_key = ?2 OR id IN ids(?3))",
        &[reader.to_value(), key.to_value(), ids(&own)],
    )?;
    env.streams.tell_if_here(tx, reader, Event::NotificationsChanged);
    Ok(())
}

/// How many of `reader`'s notifications of this page there are, counted up to its limit. Those of
/// the kinds in `grouped` count once for each group.
///
/// # Errors
/// The database's.
pub fn unread_count(tx: &mut Tx, reader: Id, page: &Page, grouped: &[Kind]) -> Result<i64, Error> {
    let (above, below) = page.range.bounds();
    let sql = format!(
        "SELECT count(*) FROM (SELECT DISTINCT
                 CASE WHEN kind IN texts(?7) THEN group_key ELSE 'ungrouped-' || id END AS one
               FROM notifications WHERE account_id = ?1 AND kind IN texts(?2)
                 AND (CAST(?3 AS BIGINT) = 0 OR from_account_id = ?3) AND filtered <= ?4
                 AND id > ?5 AND id < ?6 AND {SHOWN}
               LIMIT ?8) AS unread"
    );
    let from = page.from.unwrap_or(Id::ZERO);
    let values = [
        reader.to_value(),
        weir_db::texts(page.kinds()),
        from.to_value(),
        page.filtered.to_value(),
        above.to_value(),
        below.to_value(),
        weir_db::texts(grouped.iter().map(|kind| kind.name())),
        page.range.limit.to_value(),
    ];
    Ok(tx.value(&sql, &values)?.unwrap_or(0))
}
