//! What the runs of chores did, and how large the database is.

use weir_base::Timestamp;
use weir_db::{Dialect, Tx, params};

use super::{Chore, Slice};
use crate::Error;

/// How a chore stands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Figures {
    /// The chore's name.
    pub name: &'static str,
    /// When the run that goes on, or the last one, began; none when it is due at once.
    pub began_at: Option<Timestamp>,
    /// When it ended; none while it goes on, and before the first one.
    pub ended_at: Option<Timestamp>,
    /// Rows that were looked at in that run.
    pub looked_at: u64,
    /// Rows that were removed in that run.
    pub removed: u64,
    /// How much text they held, in bytes.
    pub bytes: u64,
    /// Rows that were removed in all runs.
    pub removed_ever: u64,
    /// How much text these held, in bytes.
    pub bytes_ever: u64,
    pub(super) place: String,
}

impl Figures {
    /// Whether a run goes on.
    pub fn is_running(&self) -> bool {
        self.began_at.is_some() && self.ended_at.is_none()
    }

    pub(super) fn begin(&mut self, now: Timestamp) {
        (self.began_at, self.ended_at) = (Some(now), None);
        (self.looked_at, self.removed, self.bytes) = (0, 0, 0);
        self.place.clear();
    }

    pub(super) fn add(&mut self, slice: &Slice, now: Timestamp) {
        self.looked_at += slice.looked_at;
        self.removed += slice.removed;
        self.bytes += slice.bytes;
        self.removed_ever += slice.removed;
        self.bytes_ever += slice.bytes;
        self.place = slice.next.clone().unwrap_or_default();
        self.ended_at = slice.next.is_none().then_some(now);
    }
}

/// How `chore` stands.
///
/// # Errors
/// The database's.
pub fn figures(tx: &mut Tx, chore: &Chore) -> Result<Figures, Error> {
    of(tx, chore)
}

pub(super) fn of(tx: &mut Tx, chore: &Chore) -> Result<Figures, Error> {
    let found = tx.query_opt(
        "SELECT began_at, ended_at, place, looked_at, removed, bytes, removed_ever, bytes_ever
         FROM chores WHERE name = ?1",
        params![chore.name],
        |row| {
            Ok(Figures {
                name: chore.name,
                began_at: row.get(0)?,
                ended_at: row.get(1)?,
                place: row.get(2)?,
                looked_at: row.get(3)?,
                removed: row.get(4)?,
                bytes: row.get(5)?,
                removed_ever: row.get(6)?,
                bytes_ever: row.get(7)?,
            })
        },
    )?;
    Ok(found.unwrap_or(Figures { name: chore.name, ..Figures::default() }))
}

pub(super) fn keep(tx: &mut Tx, figures: &Figures) -> Result<(), Error> {
    tx.run(
        "INSERT INTO chores (name, began_at, ended_at, place, looked_at, removed, bytes,
           removed_ever, bytes_ever) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
         ON CONFLICT (name) DO UPDATE SET began_at = excluded.began_at,
           ended_at = excluded.ended_at, place = excluded.place, looked_at = excluded.looked_at,
           removed = excluded.removed, bytes = excluded.bytes,
           removed_ever = excluded.removed_ever, bytes_ever = excluded.bytes_ever",
        params![
            figures.name,
            figures.began_at,
            figures.ended_at,
            figures.place,
            figures.looked_at,
            figures.removed,
            figures.bytes,
            figures.removed_ever,
            figures.bytes_ever
        ],
    )?;
    Ok(())
}

/// Where something goes on that is done in parts as a [`Chore`] is, but is none, since it is about
/// more than rows; empty for the beginning.
pub(crate) fn place_of(tx: &mut Tx, name: &str) -> Result<String, Error> {
    let kept: Option<String> =
        tx.value("SELECT place FROM chores WHERE name = ?1", params![name])?;
    Ok(kept.unwrap_or_default())
}

/// It goes on at `place` from now on.
pub(crate) fn keep_place(tx: &mut Tx, name: &str, place: &str) -> Result<(), Error> {
    tx.run(
        "INSERT INTO chores (name, place) VALUES (?1, ?2)
         ON CONFLICT (name) DO UPDATE SET place = excluded.place",
        params![name, place],
    )?;
    Ok(())
}

/// How large the database is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// What it takes on the disk (of SQLite without its log), in bytes.
    pub bytes: u64,
    /// How much of it is free for new rows, in bytes; none where the database does not say.
    pub free_bytes: Option<u64>,
}

/// How large the database is.
///
/// # Errors
/// The database's.
pub fn size(tx: &mut Tx) -> Result<Size, Error> {
    match tx.dialect() {
        Dialect::Sqlite => Ok(tx.query_one(
            "SELECT s.page_size * c.page_count, s.page_size * f.freelist_count
             FROM pragma_page_size() s, pragma_page_count() c, pragma_freelist_count() f",
            &[],
            |row| Ok(Size { bytes: row.get(0)?, free_bytes: row.get(1)? }),
        )?),
        Dialect::Postgres => {
            Ok(tx.query_one("SELECT pg_database_size(current_database())", &[], |row| {
                Ok(Size { bytes: row.get(0)?, free_bytes: None })
            })?)
        }
    }
}
