//! Hashtags.

use std::collections::BTreeMap;

use weir_base::{Id, Timestamp};
use weir_db::{Dialect, ToValue, Tx, Value, params, texts};

use crate::timelines::Range;
use crate::{Env, Error, text};

const HOUR_MS: i64 = 60 * 60 * 1_000;

weir_db::record! {
    /// A hashtag.
    #[derive(Debug, Clone)]
    pub struct Tag {
        /// Its id here.
        pub id: Id,
        /// Its key: composed, in lower case, without the sign.
        pub name: String,
        /// As it was first written.
        pub display: String,
    }
}

/// The tag of this name, written as people write it.
///
/// # Errors
/// The database's.
pub fn by_name(tx: &mut Tx, name: &str) -> Result<Option<Tag>, Error> {
    let key = text::tag_key(name);
    Ok(tx.record("SELECT {} FROM tags WHERE name = ?1", params![key])?)
}

/// The tags of these names, made where they are new; in order of their names, each once.
///
/// # Errors
/// The database's.
pub fn ensure(tx: &mut Tx, env: &Env, names: &[&str]) -> Result<Vec<Tag>, Error> {
    let mut keys: Vec<(String, &str)> =
        names.iter().map(|name| (text::tag_key(name), *name)).collect();
    keys.sort();
    keys.dedup_by(|one, other| one.0 == other.0);
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    let names = texts(keys.iter().map(|(key, _)| key));
    let known = |tx: &mut Tx| -> Result<Vec<Tag>, Error> {
        let sql = "SELECT {} FROM tags WHERE name IN texts(?1) ORDER BY name";
        Ok(tx.records(sql, std::slice::from_ref(&names))?)
    };
    // Mostly all are there.
    let there = known(tx)?;
    if there.len() == keys.len() {
        return Ok(there);
    }
    keys.retain(|(key, _)| there.binary_search_by(|tag| tag.name.cmp(key)).is_err());
    let rows = keys
        .iter()
        .map(|(key, display)| [Value::Int(env.ids.next().0), key.to_value(), display.to_value()]);
    tx.run_all(
        "INSERT INTO tags (id, name, display) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING",
        rows,
    )?;
    known(tx)
}

/// To be called before something is hung on tag `id` that keeps it: where the database runs several
/// units at once, one that removes it meanwhile is repeated, and then sees it.
fn hold(tx: &mut Tx, id: Id) -> Result<(), Error> {
    if tx.dialect() == Dialect::Postgres {
        tx.run("UPDATE tags SET display = display WHERE id = ?1", params![id])?;
    }
    Ok(())
}

/// Notes which posts have which tag: pairs of tag and post.
pub(crate) fn link_each(tx: &mut Tx, links: &[(Id, Id)]) -> Result<(), Error> {
    let rows = links.iter().map(|(tag, status)| [tag.to_value(), status.to_value()]);
    tx.run_all(
        "INSERT INTO status_tags (tag_id, status_id) VALUES (?1, ?2) ON CONFLICT DO NOTHING",
        rows,
    )?;
    Ok(())
}

/// Notes when tags were last used in public, to the hour: so what many use at once is written once.
pub(crate) fn used_each(tx: &mut Tx, used: &BTreeMap<Id, Timestamp>) -> Result<(), Error> {
    let rows =
        used.iter().map(|(tag, at)| [tag.to_value(), Value::Int(at.as_ms() / HOUR_MS * HOUR_MS)]);
    tx.run_all(
        "UPDATE tags SET last_status_at = ?2 WHERE id = ?1
           AND (last_status_at IS NULL OR last_status_at < ?2)",
        rows,
    )?;
    Ok(())
}

/// Whether `reader` follows each of `tags`.
///
/// # Errors
/// The database's.
pub fn followed_among(tx: &mut Tx, reader: Id, tags: &[Id]) -> Result<Vec<Id>, Error> {
    Ok(tx.column(
        "SELECT tag_id FROM followed_tags WHERE account_id = ?1 AND tag_id IN ids(?2)",
        &[weir_db::ToValue::to_value(&reader), weir_db::ids(tags)],
    )?)
}

/// Post `status` has these hashtags no longer.
pub(crate) fn unlink(tx: &mut Tx, env: &Env, status: Id, tags: &[Id]) -> Result<(), Error> {
    if tags.is_empty() {
        return Ok(());
    }
    tx.run(
        "DELETE FROM status_tags WHERE status_id = ?1 AND tag_id IN ids(?2)",
        &[weir_db::ToValue::to_value(&status), weir_db::ids(tags)],
    )?;
    env.feeds.untagged(tx, status, tags);
    env.streams.untagged(tx, tags);
    Ok(())
}

/// `by` follows the hashtag: its public posts come into the home timeline.
///
/// # Errors
/// [`Error::Invalid`] when the name cannot be a hashtag.
pub fn follow(tx: &mut Tx, env: &Env, by: Id, name: &str) -> Result<Tag, Error> {
    let tag = named(tx, env, name)?;
    hold(tx, tag.id)?;
    let inserted = tx.execute(
        "INSERT INTO followed_tags (account_id, tag_id, id) VALUES (?1, ?2, ?3)
         ON CONFLICT DO NOTHING",
        params![by, tag.id, env.ids.next()],
    )?;
    if inserted > 0 {
        env.feeds.tag_followed(tx, by, tag.id);
        env.streams.bonds_changed(tx, by);
    }
    Ok(tag)
}

/// `by` no longer follows the hashtag.
///
/// # Errors
/// [`Error::Invalid`] when the name cannot be a hashtag.
pub fn unfollow(tx: &mut Tx, env: &Env, by: Id, name: &str) -> Result<Tag, Error> {
    let tag = named(tx, env, name)?;
    tx.run("DELETE FROM followed_tags WHERE account_id = ?1 AND tag_id = ?2", params![by, tag.id])?;
    env.feeds.tag_unfollowed(tx, by, tag.id);
    env.streams.bonds_changed(tx, by);
    Ok(tag)
}

/// The tag of this name, made where it is new.
///
/// # Errors
/// [`Error::Invalid`] when the name cannot be a hashtag.
pub fn named(tx: &mut Tx, env: &Env, name: &str) -> Result<Tag, Error> {
    let name = name.trim().trim_start_matches('#');
    let whole = format!("#{name}");
    let fits = text::pieces(&whole) == [text::Piece::Tag(name)];
    let invalid = || Error::invalid("hashtag", "ERR_INVALID", "is not a hashtag");
    if !fits {
        return Err(invalid());
    }
    ensure(tx, env, &[name])?.pop().ok_or_else(invalid)
}

/// A page of the hashtags `by` follows, the newest first, with the follow's id by which they are
/// paged.
///
/// # Errors
/// The database's.
pub fn followed(tx: &mut Tx, by: Id, range: Range) -> Result<Vec<(Id, Tag)>, Error> {
    use weir_db::Record;
    let (order, bounds) = range.sql("f.id", 2);
    let (above, below) = range.bounds();
    let sql = format!(
        "SELECT f.id, {} FROM followed_tags f JOIN tags t ON t.id = f.tag_id
         WHERE f.account_id = ?1 AND {bounds} ORDER BY f.id {order} LIMIT ?4",
        Tag::columns_of("t")
    );
    let values = [by.0, above.0, below.0, range.limit as i64].map(Value::Int);
    let mut rows = tx.query(&sql, &values, |row| Ok((row.get(0)?, Tag::read(row, 1)?)))?;
    if range.ascends() {
        rows.reverse();
    }
    Ok(rows)
}

/// How often hashtags were used on each of the last seven days, today first: day (its beginning),
/// posts, people. Counted from the newest thousand public posts of each tag.
///
/// # Errors
/// The database's.
pub fn history(tx: &mut Tx, env: &Env, tag: Id) -> Result<Vec<(Timestamp, i64, i64)>, Error> {
    const DAY_MS: i64 = 24 * 60 * 60 * 1_000;
    let today = env.clock.now().as_ms() / DAY_MS * DAY_MS;
    let oldest = Id::first_at(Timestamp::from_ms(today - 6 * DAY_MS));
    let uses: Vec<(Id, Id)> = tx.query(
        "SELECT s.id, s.account_id FROM status_tags t JOIN statuses s ON s.id = t.status_id
         WHERE t.tag_id = ?1 AND t.status_id >= ?2 AND s.visibility = 0
         ORDER BY t.status_id DESC LIMIT 1000",
        params![tag, oldest],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    let day = |number: i64| {
        let start = today - number * DAY_MS;
        let on_day = |id: Id| (start..start + DAY_MS).contains(&id.time().as_ms());
        let of_day: Vec<Id> =
            uses.iter().filter(|(id, _)| on_day(*id)).map(|(_, by)| *by).collect();
        let people: std::collections::HashSet<Id> = of_day.iter().copied().collect();
        (Timestamp::from_ms(start), of_day.len() as i64, people.len() as i64)
    };
    Ok((0..7).map(day).collect())
}

/// A hashtag somebody shows on their profile.
#[derive(Debug, Clone)]
pub struct Featured {
    /// The entry's id.
    pub id: Id,
    /// The hashtag.
    pub tag: Tag,
    /// Public posts of theirs with it.
    pub statuses_count: i64,
    /// The newest of them.
    pub last_status_at: Option<Timestamp>,
}

/// Hashtags a profile may show.
const FEATURED_MAX: usize = 10;

/// The hashtags `of` shows.
///
/// # Errors
/// The database's.
pub fn featured(tx: &mut Tx, of: Id) -> Result<Vec<Featured>, Error> {
    use weir_db::Record;
    let sql = format!(
        "SELECT f.id,
           (SELECT count(*) FROM status_tags x JOIN statuses s ON s.id = x.status_id
             WHERE x.tag_id = t.id AND s.account_id = ?1 AND s.visibility <= 1),
           (SELECT max(s.created_at) FROM status_tags x JOIN statuses s ON s.id = x.status_id
             WHERE x.tag_id = t.id AND s.account_id = ?1 AND s.visibility <= 1), {}
         FROM featured_tags f JOIN tags t ON t.id = f.tag_id WHERE f.account_id = ?1 ORDER BY f.id",
        Tag::columns_of("t")
    );
    Ok(tx.query(&sql, params![of], |row| {
        Ok(Featured {
            id: row.get(0)?,
            statuses_count: row.get(1)?,
            last_status_at: row.get(2)?,
            tag: Tag::read(row, 3)?,
        })
    })?)
}

/// `by` shows the hashtag on their profile; again gives the same entry.
///
/// # Errors
/// [`Error::Invalid`].
pub fn feature(tx: &mut Tx, env: &Env, by: Id, name: &str) -> Result<Featured, Error> {
    let tag = named(tx, env, name)?;
    let there = featured(tx, by)?;
    if let Some(known) = there.iter().find(|one| one.tag.id == tag.id) {
        return Ok(known.clone());
    }
    if there.len() >= FEATURED_MAX {
        let message = "the maximum number of hashtags is shown already";
        return Err(Error::invalid("hashtags", "ERR_TOO_MANY", message));
    }
    hold(tx, tag.id)?;
    tx.run(
        "INSERT INTO featured_tags (id, account_id, tag_id) VALUES (?1, ?2, ?3)",
        params![env.ids.next(), by, tag.id],
    )?;
    let entry = featured(tx, by)?.into_iter().find(|one| one.tag.id == tag.id);
    entry.ok_or(Error::NotFound("Featured tag"))
}

/// `by` no longer shows entry `id` (or the hashtag with this id).
///
/// # Errors
/// [`Error::NotFound`].
pub fn unfeature(tx: &mut Tx, by: Id, id: Id) -> Result<(), Error> {
    let removed = tx.execute(
        "DELETE FROM featured_tags WHERE account_id = ?1 AND (id = ?2 OR tag_id = ?2)",
        params![by, id],
    )?;
    if removed == 0 { Err(Error::NotFound("Featured tag")) } else { Ok(()) }
}

/// Hashtags `by` used most in their newest posts and does not show yet.
///
/// # Errors
/// The database's.
pub fn suggested(tx: &mut Tx, by: Id) -> Result<Vec<Tag>, Error> {
    use weir_db::Record;
    let sql = format!(
        "SELECT {} FROM tags t JOIN (
           SELECT x.tag_id, count(*) AS uses FROM status_tags x
           JOIN (SELECT id FROM statuses WHERE account_id = ?1 ORDER BY id DESC LIMIT 1000) s
             ON s.id = x.status_id GROUP BY x.tag_id) u ON u.tag_id = t.id
         WHERE t.id NOT IN (SELECT tag_id FROM featured_tags WHERE account_id = ?1)
         ORDER BY u.uses DESC, t.id LIMIT 10",
        Tag::columns_of("t")
    );
    Ok(tx.query(&sql, params![by], |row| Tag::read(row, 0))?)
}
