//! How far a person has read a timeline.

use weir_base::{Id, Timestamp};
use weir_db::{Tx, params, texts};

use crate::streams::Event;
use crate::{Env, Error};

/// The timelines that have a marker.
pub const TIMELINES: [&str; 2] = ["home", "notifications"];

weir_db::record! {
    /// How far a person has read.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Marker {
        /// `home` or `notifications`.
        pub timeline: String,
        /// The newest item read.
        pub last_read_id: Id,
        /// Counts the changes.
        pub version: i64,
        /// When it last changed.
        pub updated_at: Timestamp,
    }
}

/// `by`'s markers of `timelines`; those never set are left out.
///
/// # Errors
/// The database's.
pub fn get(tx: &mut Tx, by: Id, timelines: &[&str]) -> Result<Vec<Marker>, Error> {
    let names = texts(timelines);
    Ok(tx.records(
        "SELECT {} FROM markers WHERE account_id = ?1 AND timeline IN texts(?2) ORDER BY timeline",
        &[weir_db::ToValue::to_value(&by), names],
    )?)
}

/// `by` has read `timeline` up to `last_read`.
///
/// # Errors
/// [`Error::Invalid`] for a timeline that has no marker.
pub fn set(tx: &mut Tx, env: &Env, by: Id, timeline: &str, last_read: Id) -> Result<Marker, Error> {
    if !TIMELINES.contains(&timeline) {
        return Err(Error::invalid("timeline", "ERR_INCLUSION", "must be home or notifications"));
    }
    tx.run(
        "INSERT INTO markers (account_id, timeline, last_read_id, version, updated_at)
         VALUES (?1, ?2, ?3, 1, ?4) ON CONFLICT (account_id, timeline) DO UPDATE
         SET last_read_id = excluded.last_read_id, version = markers.version + 1,
           updated_at = excluded.updated_at",
        params![by, timeline, last_read, env.clock.now()],
    )?;
    env.streams.tell_if_here(tx, by, Event::MarkersChanged);
    get(tx, by, &[timeline])?.pop().ok_or(Error::NotFound("Marker"))
}
