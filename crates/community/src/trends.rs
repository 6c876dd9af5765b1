//! What many people talk about now, counted from the newest public posts.

use std::collections::{HashMap, HashSet};

use serde_json::Value as JsonValue;
use weir_base::{Id, Timestamp};
use weir_db::{Json, Record, Tx, ids, params};

use crate::statuses::{self, View};
use crate::tags::Tag;
use crate::{Env, Error};

/// Posts that are looked at.
const LOOKED_AT_MAX: usize = 5_000;
/// How old they may be, in ms.
const WINDOW_MS: i64 = 2 * DAY_MS;
const DAY_MS: i64 = 24 * 60 * 60 * 1_000;

fn since(env: &Env) -> Id {
    Id::first_at(env.clock.now().plus_ms(-WINDOW_MS))
}

/// Hashtags used by the most people.
///
/// # Errors
/// The database's.
pub fn tags(tx: &mut Tx, env: &Env, limit: usize, offset: usize) -> Result<Vec<Tag>, Error> {
    let sql = format!(
        "SELECT {} FROM tags t JOIN (
           SELECT x.tag_id, count(DISTINCT s.account_id) AS people
           FROM (SELECT id, account_id FROM statuses
             WHERE visibility = 0 AND boost_of_id IS NULL AND id > ?1
             ORDER BY id DESC LIMIT ?4) s
           JOIN status_tags x ON x.status_id = s.id GROUP BY x.tag_id) u ON u.tag_id = t.id
         ORDER BY u.people DESC, t.id LIMIT ?2 OFFSET ?3",
        Tag::columns_of("t")
    );
    let since = since(env);
    let values = params![since, limit, offset, LOOKED_AT_MAX];
    Ok(tx.query(&sql, values, |row| Tag::read(row, 0))?)
}

/// Posts with the most favourites and boosts, without replies, warnings, and authors who do not
/// want to be found or whom the reader does not want to see.
///
/// # Errors
/// The database's.
pub fn statuses(
    tx: &mut Tx,
    env: &Env,
    reader: Option<Id>,
    limit: usize,
    offset: usize,
) -> Result<Vec<View>, Error> {
    let found: Vec<Id> = tx.column(
        "SELECT s.id FROM (SELECT id, account_id, sensitive, spoiler, in_reply_to_uri,
             in_reply_to_id, favourites_count + boosts_count AS marks FROM statuses
             WHERE visibility = 0 AND boost_of_id IS NULL AND id > ?1
             ORDER BY id DESC LIMIT ?4) s
         JOIN accounts a ON a.id = s.account_id
         WHERE s.marks > 0 AND s.sensitive = 0 AND s.spoiler = '' AND s.in_reply_to_id IS NULL
           AND s.in_reply_to_uri IS NULL AND a.discoverable = 1 AND a.silenced_at IS NULL
         ORDER BY s.marks DESC, s.id DESC LIMIT ?2 OFFSET ?3",
        params![since(env), limit, offset, LOOKED_AT_MAX],
    )?;
    let (mut views, bonds) = statuses::load_with_bonds(tx, env, reader, &found, Vec::new())?;
    views.retain(|view| !bonds.keep_out(reader, &view.account));
    Ok(views)
}

/// A page that posts link to.
#[derive(Debug, Clone)]
pub struct Link {
    /// Its preview, and the file of its picture.
    pub card: (JsonValue, String),
    /// How often it was linked to on each of the last seven days, today first: day (its
    /// beginning), posts, people.
    pub history: Vec<(Timestamp, usize, usize)>,
}

/// Pages that the most people link to.
///
/// # Errors
/// The database's.
pub fn links(tx: &mut Tx, env: &Env, limit: usize, offset: usize) -> Result<Vec<Link>, Error> {
    let uses: Vec<(Id, Id, Id)> = tx.query(
        "SELECT s.card_id, s.id, s.account_id FROM (
           SELECT id, card_id, account_id FROM statuses
           WHERE visibility = 0 AND boost_of_id IS NULL AND id > ?1 ORDER BY id DESC LIMIT ?2) s
         WHERE s.card_id IS NOT NULL",
        params![since(env), LOOKED_AT_MAX],
        |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
    )?;
    let mut by_card: HashMap<Id, Vec<(Id, Id)>> = HashMap::new();
    for (card, status, account) in uses {
        by_card.entry(card).or_default().push((status, account));
    }
    let people = |uses: &[(Id, Id)]| uses.iter().map(|(_, by)| *by).collect::<HashSet<Id>>().len();
    let mut ranked: Vec<(usize, Id)> =
        by_card.iter().map(|(card, uses)| (people(uses), *card)).collect();
    ranked.sort_by(|one, other| other.cmp(one));
    let wanted: Vec<Id> = ranked.into_iter().skip(offset).take(limit).map(|(_, id)| id).collect();
    let cards: HashMap<Id, (JsonValue, String)> = tx
        .query("SELECT id, card, image FROM cards WHERE id IN ids(?1)", &[ids(&wanted)], |row| {
            Ok((row.get(0)?, (row.get::<Json<JsonValue>>(1)?.0, row.get(2)?)))
        })?
        .into_iter()
        .collect();
    let today = env.clock.now().as_ms() / DAY_MS * DAY_MS;
    let found = wanted.iter().filter_map(|id| {
        let uses = by_card.get(id)?;
        let day = |number: i64| {
            let start = today - number * DAY_MS;
            let on_day = |status: Id| (start..start + DAY_MS).contains(&status.time().as_ms());
            let of_day: Vec<(Id, Id)> =
                uses.iter().filter(|(status, _)| on_day(*status)).copied().collect();
            (Timestamp::from_ms(start), of_day.len(), people(&of_day))
        };
        Some(Link { card: cards.get(id)?.clone(), history: (0..7).map(day).collect() })
    });
    Ok(found.collect())
}
