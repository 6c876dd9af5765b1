//! Lists of accounts that stand in a relation, page by page.

use weir_base::{Id, Timestamp};
use weir_db::{Tx, Value};

use crate::Error;
use crate::timelines::Range;

/// A relation, and of whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relation {
    /// Those who follow the account.
    Followers(Id),
    /// Those whom the account follows.
    Following(Id),
    /// Those whom the account blocks.
    Blocked(Id),
    /// Those whom the account mutes.
    Muted(Id),
    /// Those who ask to follow the account.
    Asking(Id),
    /// Those whom the account features on its profile.
    Endorsed(Id),
    /// Those who favourited the post.
    Favouriting(Id),
    /// Those who boosted the post, for everybody to see.
    Boosting(Id),
}

impl Relation {
    /// Table, the column of whom it is, the column of who stands in it, and of whom.
    fn columns(self) -> (&'static str, &'static str, &'static str, Id) {
        match self {
            Self::Followers(id) => ("follows", "target_id", "account_id", id),
            Self::Following(id) => ("follows", "account_id", "target_id", id),
            Self::Blocked(id) => ("blocks", "account_id", "target_id", id),
            Self::Muted(id) => ("mutes", "account_id", "target_id", id),
            Self::Asking(id) => ("follow_requests", "target_id", "account_id", id),
            Self::Endorsed(id) => ("endorsements", "account_id", "target_id", id),
            Self::Favouriting(id) => ("favourites", "status_id", "account_id", id),
            Self::Boosting(id) => ("statuses", "boost_of_id", "account_id", id),
        }
    }
}

/// A page of those who stand in `relation`, the newest first: the relation's id, by which the list
/// is paged, and the account. Left out are accounts that are not available and, unless the list is
/// the reader's own, those whom the reader blocks or mutes at `now` or who block the reader.
///
/// # Errors
/// The database's.
pub fn page(
    tx: &mut Tx,
    reader: Option<Id>,
    relation: Relation,
    range: Range,
    now: Timestamp,
) -> Result<Vec<(Id, Id)>, Error> {
    let (table, of, who, id) = relation.columns();
    let (order, bounds) = range.sql("r.id", 2);
    let mut filter = match relation {
        Relation::Boosting(_) => String::from(" AND r.visibility <= 1"),
        // One that has ended lies there until it is removed.
        Relation::Muted(_) => String::from(" AND (r.expires_at IS NULL OR r.expires_at > ?5)"),
        _ => String::new(),
    };
    let own = matches!(
        relation,
        Relation::Blocked(_) | Relation::Muted(_) | Relation::Asking(_) | Relation::Endorsed(_)
    );
    let reader = reader.filter(|reader| !own && *reader != id);
    if reader.is_some() {
        filter.push_str(&format!(
            " AND NOT EXISTS (SELECT 1 FROM blocks b WHERE (b.account_id = ?5
                AND b.target_id = r.{who}) OR (b.account_id = r.{who} AND b.target_id = ?5))
              AND NOT EXISTS (SELECT 1 FROM mutes m WHERE m.account_id = ?5
                AND m.target_id = r.{who} AND (m.expires_at IS NULL OR m.expires_at > ?6))"
        ));
    }
    let sql = format!(
        "SELECT r.id, r.{who} FROM {table} r JOIN accounts a ON a.id = r.{who}
         WHERE r.{of} = ?1 AND {bounds} AND a.suspended_at IS NULL AND a.deleted_at IS NULL{filter}
         ORDER BY r.id {order} LIMIT ?4"
    );
    let (above, below) = range.bounds();
    let mut values = vec![
        Value::Int(id.0),
        Value::Int(above.0),
        Value::Int(below.0),
        Value::Int(range.limit as i64),
    ];
    match (reader, relation) {
        (Some(reader), _) => values.extend([Value::Int(reader.0), Value::Int(now.as_ms())]),
        (None, Relation::Muted(_)) => values.push(Value::Int(now.as_ms())),
        (None, _) => {}
    }
    let mut rows = tx.query(&sql, &values, |row| Ok((row.get(0)?, row.get(1)?)))?;
    if range.ascends() {
        rows.reverse();
    }
    Ok(rows)
}

/// Those whom `reader` follows and who follow `of`: at most 10, the newest first. Nobody when `of`
/// hides its followers, and nobody who hides whom they follow.
///
/// # Errors
/// The database's.
pub fn familiar_followers(tx: &mut Tx, reader: Id, of: Id) -> Result<Vec<Id>, Error> {
    Ok(tx.column(
        "SELECT f.account_id FROM follows f
         JOIN follows mine ON mine.target_id = f.account_id AND mine.account_id = ?1
         JOIN accounts a ON a.id = f.account_id JOIN accounts t ON t.id = f.target_id
         WHERE f.target_id = ?2 AND t.hide_collections = 0 AND a.hide_collections = 0
           AND a.suspended_at IS NULL AND a.deleted_at IS NULL
         ORDER BY f.id DESC LIMIT 10",
        &[Value::Int(reader.0), Value::Int(of.0)],
    )?)
}
