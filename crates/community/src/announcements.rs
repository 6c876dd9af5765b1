//! What staff tells everybody.

use weir_base::{Id, Timestamp};
use weir_db::{ToValue, Tx, ids, params};

use crate::streams::{Event, Topic};
use crate::{Env, Error};

/// Different reactions one announcement may have.
const REACTIONS_MAX: i64 = 8;
/// The longest announcement, in characters.
const CONTENT_CHARACTERS_MAX: usize = 5_000;

weir_db::record! {
    /// An announcement.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Announcement {
        /// Its id.
        pub id: Id,
        /// What it says, as safe HTML.
        pub content: String,
        /// When what it is about begins.
        pub starts_at: Option<Timestamp>,
        /// When it ends.
        pub ends_at: Option<Timestamp>,
        /// Whether only the days matter.
        pub all_day: bool,
        /// Since when it is shown.
        pub published_at: Option<Timestamp>,
        /// When it last changed.
        pub updated_at: Timestamp,
    }
}

/// A reaction and who gave it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reaction {
    /// To which announcement.
    pub announcement_id: Id,
    /// The emoji, or a custom one's shortcode.
    pub name: String,
    /// How many gave it.
    pub count: i64,
    /// Whether the reader did.
    pub me: bool,
}

/// What is shown now, with those the reader has read.
///
/// # Errors
/// The database's.
pub fn current(tx: &mut Tx, env: &Env, reader: Id) -> Result<Vec<(Announcement, bool)>, Error> {
    let found: Vec<Announcement> = tx.records(
        "SELECT {} FROM announcements WHERE published_at IS NOT NULL
           AND (ends_at IS NULL OR ends_at > ?1) ORDER BY id DESC LIMIT 100",
        params![env.clock.now()],
    )?;
    let list: Vec<Id> = found.iter().map(|one| one.id).collect();
    let read: Vec<Id> = tx.column(
        "SELECT announcement_id FROM announcement_reads
         WHERE account_id = ?1 AND announcement_id IN ids(?2)",
        &[reader.to_value(), ids(&list)],
    )?;
    Ok(found
        .into_iter()
        .map(|one| {
            let seen = read.contains(&one.id);
            (one, seen)
        })
        .collect())
}

/// Reactions to these announcements.
///
/// # Errors
/// The database's.
pub fn reactions(tx: &mut Tx, reader: Id, list: &[Id]) -> Result<Vec<Reaction>, Error> {
    Ok(tx.query(
        "SELECT announcement_id, name, count(*),
           max(CASE WHEN account_id = ?1 THEN 1 ELSE 0 END)
         FROM announcement_reactions WHERE announcement_id IN ids(?2)
         GROUP BY announcement_id, name ORDER BY announcement_id, count(*) DESC, name",
        &[reader.to_value(), ids(list)],
        |row| {
            Ok(Reaction {
                announcement_id: row.get(0)?,
                name: row.get(1)?,
                count: row.get(2)?,
                me: row.get(3)?,
            })
        },
    )?)
}

/// `by` has read announcement `id`.
///
/// # Errors
/// [`Error::NotFound`].
pub fn dismiss(tx: &mut Tx, by: Id, id: Id) -> Result<(), Error> {
    get(tx, id)?;
    tx.run(
        "INSERT INTO announcement_reads (account_id, announcement_id) VALUES (?1, ?2)
         ON CONFLICT DO NOTHING",
        params![by, id],
    )?;
    Ok(())
}

/// Announcement `id`.
///
/// # Errors
/// [`Error::NotFound`].
pub fn get(tx: &mut Tx, id: Id) -> Result<Announcement, Error> {
    tx.record("SELECT {} FROM announcements WHERE id = ?1", params![id])?
        .ok_or(Error::NotFound("Announcement"))
}

/// `by` reacts to announcement `id`; again is no error.
///
/// # Errors
/// [`Error::NotFound`], [`Error::Invalid`] when there are too many different reactions.
pub fn react(tx: &mut Tx, env: &Env, by: Id, id: Id, name: &str) -> Result<(), Error> {
    get(tx, id)?;
    if name.is_empty() || name.chars().count() > 64 {
        return Err(Error::invalid("name", "ERR_INVALID", "is not a recognized emoji"));
    }
    let others: Option<i64> = tx.value(
        "SELECT count(DISTINCT name) FROM announcement_reactions
         WHERE announcement_id = ?1 AND name <> ?2",
        params![id, name],
    )?;
    if others.unwrap_or(0) >= REACTIONS_MAX {
        return Err(Error::invalid("base", "ERR_TOO_MANY", "Limit of different reactions reached"));
    }
    tx.run(
        "INSERT INTO announcement_reactions (announcement_id, name, account_id)
         VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING",
        params![id, name, by],
    )?;
    let event = Event::AnnouncementReaction { id, name: name.to_owned() };
    env.streams.tell(tx, Topic::Everybody, event);
    Ok(())
}

/// `by` takes a reaction back.
///
/// # Errors
/// [`Error::NotFound`].
pub fn unreact(tx: &mut Tx, env: &Env, by: Id, id: Id, name: &str) -> Result<(), Error> {
    get(tx, id)?;
    tx.run(
        "DELETE FROM announcement_reactions
         WHERE announcement_id = ?1 AND name = ?2 AND account_id = ?3",
        params![id, name, by],
    )?;
    let event = Event::AnnouncementReaction { id, name: name.to_owned() };
    env.streams.tell(tx, Topic::Everybody, event);
    Ok(())
}

/// Staff publishes an announcement; `content` is plain text.
///
/// # Errors
/// [`Error::Invalid`].
pub fn publish(
    tx: &mut Tx,
    env: &Env,
    content: &str,
    starts_at: Option<Timestamp>,
    ends_at: Option<Timestamp>,
    all_day: bool,
) -> Result<Id, Error> {
    if content.trim().is_empty() {
        return Err(Error::invalid("text", "ERR_BLANK", "can't be blank"));
    }
    if content.chars().count() > CONTENT_CHARACTERS_MAX {
        return Err(Error::invalid("text", "ERR_TOO_LONG", "is too long"));
    }
    let id = env.ids.next();
    let html = crate::text::render(content, &Default::default(), |tag| env.site.tag_url(tag));
    tx.run(
        "INSERT INTO announcements (id, content, starts_at, ends_at, all_day, published_at,
           updated_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6)",
        params![id, html, starts_at, ends_at, all_day, env.clock.now()],
    )?;
    env.streams.tell(tx, Topic::Everybody, Event::Announcement(id));
    Ok(id)
}

/// Staff takes announcement `id` away.
///
/// # Errors
/// [`Error::NotFound`].
pub fn delete(tx: &mut Tx, env: &Env, id: Id) -> Result<(), Error> {
    get(tx, id)?;
    tx.run("DELETE FROM announcement_reads WHERE announcement_id = ?1", params![id])?;
    tx.run("DELETE FROM announcement_reactions WHERE announcement_id = ?1", params![id])?;
    tx.run("DELETE FROM announcements WHERE id = ?1", params![id])?;
    env.streams.tell(tx, Topic::Everybody, Event::AnnouncementDeleted(id));
    Ok(())
}
