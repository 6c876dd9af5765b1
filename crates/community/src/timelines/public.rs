//! Timelines that everybody shares: public, by hashtag, and one account's posts.

use std::collections::HashSet;

use weir_base::Id;
use weir_db::{Tx, Value};

use super::Range;
use crate::relationships::Bonds;
use crate::statuses::{self, View};
use crate::{Env, Error, users};

/// Rounds of reading candidates before a page is given short, each of twice as many for what is
/// still lacking …
const ROUNDS_MAX: usize = 10;
/// … but no more than this.
const CANDIDATES_MAX: usize = 400;

/// What of the public posts is wanted.
#[derive(Debug, Clone, Copy, Default)]
pub struct PublicPage {
    /// Only posts written here.
    pub local: bool,
    /// Only posts written elsewhere.
    pub remote: bool,
    /// Only posts with media.
    pub only_media: bool,
}

/// What of an account's posts is wanted.
#[derive(Debug, Clone, Copy, Default)]
pub struct AccountPage {
    /// Only posts with media.
    pub only_media: bool,
    /// No replies to others.
    pub exclude_replies: bool,
    /// No boosts.
    pub exclude_boosts: bool,
    /// Only posts with this hashtag.
    pub tag: Option<Id>,
}

/// A page of the public posts, the newest first: for somebody who chose languages, those in one of
/// them, or in none that is known.
///
/// # Errors
/// The database's.
pub fn public(
    tx: &mut Tx,
    env: &Env,
    reader: Option<Id>,
    page: PublicPage,
    range: Range,
) -> Result<Vec<View>, Error> {
    let mut filter = String::from("visibility = 0 AND boost_of_id IS NULL");
    if page.local {
        filter.push_str(" AND local = 1");
    }
    if page.remote {
        filter.push_str(" AND local = 0");
    }
    if page.only_media {
        filter.push_str(" AND media_ids <> '[]'");
    }
    let user = reader.and_then(|reader| users::by_account(tx, reader).ok());
    let chosen = user.map(|user| user.settings.0.chosen_languages).unwrap_or_default();
    let mut more = Vec::new();
    if !chosen.is_empty() {
        filter.push_str(" AND (language IS NULL OR language IN texts(?4))");
        more.push(weir_db::texts(&chosen));
    }
    let (order, bounds) = range.sql("id", 1);
    let sql =
        format!("SELECT id FROM statuses WHERE {filter} AND {bounds} ORDER BY id {order} LIMIT ?3");
    collect(tx, env, reader, range, &sql, &more)
}

/// A page of the public posts with one of `any`, all of `all` and none of `none` hashtags.
///
/// # Errors
/// The database's.
pub fn tag(
    tx: &mut Tx,
    env: &Env,
    reader: Option<Id>,
    tags: (&[Id], &[Id], &[Id]),
    page: PublicPage,
    range: Range,
) -> Result<Vec<View>, Error> {
    let (any, all, none) = tags;
    let mut filter = String::from("s.visibility = 0");
    if page.local {
        filter.push_str(" AND s.local = 1");
    }
    if page.remote {
        filter.push_str(" AND s.local = 0");
    }
    if page.only_media {
        filter.push_str(" AND s.media_ids <> '[]'");
    }
    let mut more = vec![weir_db::ids(any), weir_db::ids(none)];
    if !all.is_empty() {
        filter.push_str(
            " AND (SELECT COUNT(*) FROM status_tags WHERE status_id = s.id AND tag_id IN ids(?6))
               = ?7",
        );
        let different: HashSet<&Id> = all.iter().collect();
        more.extend([weir_db::ids(all), Value::Int(different.len() as i64)]);
    }
    let (order, bounds) = range.sql("s.id", 1);
    let sql = format!(
        "SELECT DISTINCT s.id FROM status_tags t JOIN statuses s ON s.id = t.status_id
         WHERE t.tag_id IN ids(?4) AND {filter} AND {bounds}
           AND NOT EXISTS (SELECT 1 FROM status_tags WHERE status_id = s.id AND tag_id IN ids(?5))
         ORDER BY s.id {order} LIMIT ?3"
    );
    collect(tx, env, reader, range, &sql, &more)
}

/// A page of `of`'s posts, as `reader` may see them, without boosts of whom the reader blocks or
/// mutes.
///
/// # Errors
/// The database's.
pub fn account(
    tx: &mut Tx,
    env: &Env,
    reader: Option<Id>,
    of: Id,
    page: AccountPage,
    range: Range,
) -> Result<Vec<View>, Error> {
    let mut filter = String::from("s.account_id = ?4");
    if page.only_media {
        filter.push_str(" AND s.media_ids <> '[]' AND s.boost_of_id IS NULL");
    }
    if page.exclude_boosts {
        filter.push_str(" AND s.boost_of_id IS NULL");
    }
    if page.exclude_replies {
        filter.push_str(
            " AND (s.in_reply_to_account_id IS NULL OR s.in_reply_to_account_id = s.account_id)
              AND (s.in_reply_to_uri IS NULL OR s.in_reply_to_id IS NOT NULL)",
        );
    }
    let mut more = vec![Value::Int(of.0)];
    match reader {
        Some(reader) if reader == of => {}
        Some(reader) => {
            filter.push_str(
                " AND (s.visibility <= 1
                    OR s.visibility = 2 AND EXISTS (
                      SELECT 1 FROM follows WHERE account_id = ?5 AND target_id = ?4)
                    OR EXISTS (
                      SELECT 1 FROM mentions WHERE status_id = s.id AND account_id = ?5))",
            );
            more.push(Value::Int(reader.0));
        }
        None => filter.push_str(" AND s.visibility <= 1"),
    }
    if let Some(tag) = page.tag {
        more.push(Value::Int(tag.0));
        filter.push_str(&format!(
            " AND EXISTS (SELECT 1 FROM status_tags WHERE status_id = s.id AND tag_id = ?{})",
            more.len() + 3
        ));
    }
    let (order, bounds) = range.sql("s.id", 1);
    let sql = format!(
        "SELECT s.id FROM statuses s WHERE {filter} AND {bounds} ORDER BY s.id {order} LIMIT ?3"
    );
    pages(tx, env, reader, range, &sql, &more, |view, bonds| comes_to_profile(view, reader, bonds))
}

/// Whether `reader` finds a post of somebody in their profile, once they may see it.
pub(crate) fn comes_to_profile(view: &View, reader: Option<Id>, bonds: &Bonds) -> bool {
    let boosted = view.boost.as_ref().map(|boosted| &boosted.account);
    let is_own = reader == Some(view.account.id);
    is_own || !boosted.is_some_and(|author| bonds.keep_out(reader, author))
}

/// As [`pages`], leaving out whom the reader blocks or mutes, and silenced people not followed.
fn collect(
    tx: &mut Tx,
    env: &Env,
    reader: Option<Id>,
    range: Range,
    sql: &str,
    more: &[Value<'_>],
) -> Result<Vec<View>, Error> {
    pages(tx, env, reader, range, sql, more, |view, bonds| !bonds.keep_out(reader, &view.account))
}

/// Reads candidates by `sql` (bounds and limit are its parameters 1 to 3) until the page is full.
fn pages(
    tx: &mut Tx,
    env: &Env,
    reader: Option<Id>,
    range: Range,
    sql: &str,
    more: &[Value<'_>],
    fits: impl Fn(&View, &Bonds) -> bool,
) -> Result<Vec<View>, Error> {
    let mut shown: Vec<View> = Vec::new();
    let mut next = range;
    for round in 0..ROUNDS_MAX {
        let (above, below) = next.bounds();
        let lacking = range.limit - shown.len();
        let wanted = (lacking << round).min(CANDIDATES_MAX.max(lacking));
        let mut values = vec![Value::Int(above.0), Value::Int(below.0), Value::Int(wanted as i64)];
        values.extend_from_slice(more);
        let ids: Vec<Id> = tx.column(sql, &values)?;
        let Some(&last) = ids.last() else { break };
        let (views, bonds) = statuses::load_with_bonds(tx, env, reader, &ids, Vec::new())?;
        shown.extend(views.into_iter().filter(|view| fits(view, &bonds)));
        if shown.len() >= range.limit || ids.len() < wanted {
            break;
        }
        next = range.after(last, range.limit);
    }
    shown.truncate(range.limit);
    if range.ascends() {
        shown.reverse();
    }
    Ok(shown)
}

/// A page of the public posts whose preview is of the page at `url`.
///
/// # Errors
/// The database's.
pub fn link(
    tx: &mut Tx,
    env: &Env,
    reader: Option<Id>,
    url: &str,
    range: Range,
) -> Result<Vec<View>, Error> {
    let (order, bounds) = range.sql("s.id", 1);
    let sql = format!(
        "SELECT s.id FROM statuses s WHERE s.card_id = (SELECT id FROM cards WHERE url = ?4)
           AND s.card_id IS NOT NULL AND s.visibility = 0 AND s.boost_of_id IS NULL AND {bounds}
         ORDER BY s.id {order} LIMIT ?3"
    );
    let url = url.to_owned();
    collect(tx, env, reader, range, &sql, &[weir_db::ToValue::to_value(&url)])
}

/// A page of the direct messages that `reader` wrote or that mention `reader`.
///
/// # Errors
/// The database's.
pub fn direct(tx: &mut Tx, env: &Env, reader: Id, range: Range) -> Result<Vec<View>, Error> {
    let (order, bounds) = range.sql("s.id", 1);
    let sql = format!(
        "SELECT s.id FROM statuses s JOIN (
           SELECT status_id FROM mentions WHERE account_id = ?4 AND status_id > ?1
             AND status_id < ?2
           UNION SELECT id FROM statuses WHERE account_id = ?4 AND visibility = 3 AND id > ?1
             AND id < ?2) mine ON mine.status_id = s.id
         WHERE s.visibility = 3 AND {bounds} ORDER BY s.id {order} LIMIT ?3"
    );
    collect(tx, env, Some(reader), range, &sql, &[Value::Int(reader.0)])
}
