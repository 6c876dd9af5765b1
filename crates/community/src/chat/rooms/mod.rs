//! Rooms that outlive their occupants: configuration, affiliations, subject, and what was said
//! (XEP-0045). Who is in a room now is known in the memory of the face alone.

mod config;
mod history;

use weir_base::{Id, Timestamp};
use weir_db::{Json, Tx, params};

use crate::streams::{Event, Topic};
use crate::{Env, Error};

pub use config::{Config, OCCUPANTS_MAX, Private, Whois};
pub use history::{RoomMessage, RoomPage, by_ids, ends, page, replace, store};

/// The most rooms that are kept.
pub const ROOMS_MAX: usize = 50_000;
/// The most rooms of one owner that are kept.
pub const ROOMS_OF_ONE_MAX: usize = 200;
/// The most entries in the lists of one room.
pub const AFFILIATIONS_MAX: usize = 20_000;
/// The longest nick, reason or subject, in bytes.
pub const TEXT_BYTES_MAX: usize = 4 * 1_024;

/// The longest card of a room, its picture included, in bytes.
pub const CARD_BYTES_MAX: usize = 200 * 1_024;

/// A kept room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Room {
    /// Its id.
    pub id: Id,
    /// What stands before the `@`.
    pub name: String,
    /// How it behaves.
    pub config: Config,
    /// Whether it belongs to the community: everybody here may enter, and staff owns it.
    pub of_community: bool,
    /// Its subject.
    pub subject: Subject,
}

/// The subject of a room.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Subject {
    /// The text; may be empty.
    pub text: String,
    /// The nick of who set it; empty when nobody did.
    pub by: String,
    /// When.
    pub at: Timestamp,
}

/// What one is to a room, for long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Affiliation {
    /// Is kept out.
    Outcast,
    /// Nothing special.
    #[default]
    None,
    /// May enter, and has voice.
    Member,
    /// Keeps the order.
    Admin,
    /// Decides all.
    Owner,
}

impl Affiliation {
    /// All, with the names the protocol has for them.
    pub const ALL: [(Self, &'static str); 5] = [
        (Self::Outcast, "outcast"),
        (Self::None, "none"),
        (Self::Member, "member"),
        (Self::Admin, "admin"),
        (Self::Owner, "owner"),
    ];

    /// Its name in the protocol.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(one, _)| *one == self).map_or("none", |(_, name)| name)
    }

    /// By its name in the protocol.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, one)| *one == name).map(|(found, _)| *found)
    }
}

/// An entry in the lists of a room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Who, without a resource.
    pub jid: String,
    /// What they are.
    pub affiliation: Affiliation,
    /// The nick they have registered; empty for none.
    pub nick: String,
    /// Why; may be empty.
    pub reason: String,
}

impl Listed {
    /// Whether it says nothing: such entries are not kept.
    pub fn is_nothing(&self) -> bool {
        self.affiliation == Affiliation::None && self.nick.is_empty()
    }
}

fn read(row: &weir_db::Row<'_>) -> Result<Room, weir_db::Error> {
    let Json(config) = row.get(2)?;
    let subject = Subject { text: row.get(4)?, by: row.get(5)?, at: row.get(6)? };
    Ok(Room { id: row.get(0)?, name: row.get(1)?, config, of_community: row.get(3)?, subject })
}

const COLUMNS: &str = "id, name, config, of_community, subject, subject_by, subject_at";

/// The room `name`.
///
/// # Errors
/// The database's.
pub fn find(tx: &mut Tx, name: &str) -> Result<Option<Room>, Error> {
    let sql = format!("SELECT {COLUMNS} FROM chat_rooms WHERE name = ?1");
    Ok(tx.query_opt(&sql, params![name], read)?)
}

/// Rooms in the list of rooms, in order of their names, after the name `after`, so many at most.
///
/// # Errors
/// The database's.
pub fn public(tx: &mut Tx, after: &str, limit: usize) -> Result<Vec<Room>, Error> {
    let sql = format!(
        "SELECT {COLUMNS} FROM chat_rooms WHERE is_public = 1 AND name > ?1 ORDER BY name LIMIT ?2"
    );
    Ok(tx.query(&sql, params![after, limit], read)?)
}

/// The rooms that belong to the community.
///
/// # Errors
/// The database's.
pub fn of_community(tx: &mut Tx) -> Result<Vec<Room>, Error> {
    let sql = format!("SELECT {COLUMNS} FROM chat_rooms WHERE of_community = 1 ORDER BY name");
    Ok(tx.query(&sql, &[], read)?)
}

/// Keeps the room `name` from now on, owned by `owner`.
///
/// # Errors
/// [`Error::Conflict`] when there is one, [`Error::Invalid`] when there are too many.
pub fn create(
    tx: &mut Tx,
    env: &Env,
    name: &str,
    config: &Config,
    owner: &str,
) -> Result<Room, Error> {
    let all: usize = tx.query_one("SELECT count(*) FROM chat_rooms", &[], |row| row.get(0))?;
    let sql = "SELECT count(*) FROM chat_affiliations WHERE jid = ?1 AND affiliation = 'owner'";
    let own: usize = tx.query_one(sql, params![owner], |row| row.get(0))?;
    if all >= ROOMS_MAX || own >= ROOMS_OF_ONE_MAX {
        return Err(Error::invalid("rooms", "ERR_LIMIT", "are too many; destroy some first"));
    }
    let id = env.ids.next();
    let config = config.clone().within_limits();
    let made = tx.execute(
        "INSERT INTO chat_rooms (id, name, config, is_public) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT DO NOTHING",
        params![id, name, Json(&config), config.public],
    )?;
    if made == 0 {
        return Err(Error::Conflict(format!("The room {name} is there already")));
    }
    let mine = Listed {
        jid: owner.to_owned(),
        affiliation: Affiliation::Owner,
        nick: String::new(),
        reason: String::new(),
    };
    env.streams.tell(tx, Topic::Rooms, Event::RoomsChanged);
    affiliate(tx, id, &mine)?;
    let (of_community, subject) = (false, Subject::default());
    Ok(Room { id, name: name.to_owned(), config, of_community, subject })
}

/// Changes how room `id` behaves.
///
/// # Errors
/// The database's.
pub fn configure(tx: &mut Tx, env: &Env, id: Id, config: &Config) -> Result<(), Error> {
    tx.run(
        "UPDATE chat_rooms SET config = ?2, is_public = ?3 WHERE id = ?1",
        params![id, Json(config), config.public],
    )?;
    env.streams.tell(tx, Topic::Rooms, Event::RoomsChanged);
    Ok(())
}

/// Whether room `id` belongs to the community.
///
/// # Errors
/// The database's.
pub fn set_of_community(tx: &mut Tx, env: &Env, id: Id, on: bool) -> Result<(), Error> {
    tx.run("UPDATE chat_rooms SET of_community = ?2 WHERE id = ?1", params![id, on])?;
    env.streams.tell(tx, Topic::Rooms, Event::RoomsChanged);
    Ok(())
}

/// The card of room `id` as XML, with its picture; empty without one.
///
/// # Errors
/// The database's.
pub fn card(tx: &mut Tx, id: Id) -> Result<String, Error> {
    Ok(tx.value("SELECT card FROM chat_rooms WHERE id = ?1", params![id])?.unwrap_or_default())
}

/// Room `id` has this card from now on; `config` names the picture in it.
///
/// # Errors
/// [`Error::Invalid`] when it is too long.
pub fn set_card(tx: &mut Tx, env: &Env, id: Id, config: &Config, xml: &str) -> Result<(), Error> {
    if xml.len() > CARD_BYTES_MAX {
        return Err(Error::invalid("card", "ERR_TOO_LONG", "is too long"));
    }
    configure(tx, env, id, config)?;
    tx.run("UPDATE chat_rooms SET card = ?2 WHERE id = ?1", params![id, xml])?;
    Ok(())
}

/// Sets the subject of room `id`.
///
/// # Errors
/// The database's.
pub fn set_subject(tx: &mut Tx, env: &Env, id: Id, subject: &Subject) -> Result<(), Error> {
    tx.run(
        "UPDATE chat_rooms SET subject = ?2, subject_by = ?3, subject_at = ?4 WHERE id = ?1",
        params![id, subject.text, subject.by, subject.at],
    )?;
    env.streams.tell(tx, Topic::Rooms, Event::RoomsChanged);
    Ok(())
}

/// Room `id` and all that was said there goes.
///
/// # Errors
/// The database's.
pub fn destroy(tx: &mut Tx, env: &Env, id: Id) -> Result<(), Error> {
    for sql in [
        "DELETE FROM chat_affiliations WHERE room_id = ?1",
        "DELETE FROM chat_room_messages WHERE room_id = ?1",
        "DELETE FROM chat_rooms WHERE id = ?1",
    ] {
        tx.run(sql, params![id])?;
    }
    env.streams.tell(tx, Topic::Rooms, Event::RoomsChanged);
    Ok(())
}

/// All lists of room `id`, by address.
///
/// # Errors
/// The database's.
pub fn affiliations(tx: &mut Tx, id: Id) -> Result<Vec<Listed>, Error> {
    Ok(tx.query(
        "SELECT jid, affiliation, nick, reason FROM chat_affiliations WHERE room_id = ?1
         ORDER BY jid",
        params![id],
        |row| {
            Ok(Listed {
                jid: row.get(0)?,
                affiliation: Affiliation::parse(row.str(1)?).unwrap_or_default(),
                nick: row.get(2)?,
                reason: row.get(3)?,
            })
        },
    )?)
}

/// Puts `entry` into the lists of room `id`, in place of what stood there for its address;
/// one that [says nothing](Listed::is_nothing) takes it out.
///
/// # Errors
/// [`Error::Invalid`] when a text is too long or the lists are full.
pub fn affiliate(tx: &mut Tx, id: Id, entry: &Listed) -> Result<(), Error> {
    if entry.nick.len().max(entry.reason.len()) > TEXT_BYTES_MAX {
        return Err(Error::invalid("reason", "ERR_TOO_LONG", "is too long"));
    }
    let sql = "DELETE FROM chat_affiliations WHERE room_id = ?1 AND jid = ?2";
    let was = tx.execute(sql, params![id, entry.jid])?;
    if entry.is_nothing() {
        return Ok(());
    }
    if was == 0 {
        let sql = "SELECT count(*) FROM chat_affiliations WHERE room_id = ?1";
        let count: usize = tx.query_one(sql, params![id], |row| row.get(0))?;
        if count >= AFFILIATIONS_MAX {
            let most = format!("would be more than {AFFILIATIONS_MAX}; remove some first");
            return Err(Error::invalid("affiliations", "ERR_LIMIT", most));
        }
    }
    tx.run(
        "INSERT INTO chat_affiliations (room_id, jid, affiliation, nick, reason)
         VALUES (?1, ?2, ?3, ?4, ?5)",
        params![id, entry.jid, entry.affiliation.name(), entry.nick, entry.reason],
    )?;
    Ok(())
}
