//! How the reader stands to somebody, as the API shows it.

use serde::Serialize;
use weir_base::{Id, Timestamp};
use weir_community::relationships;
use weir_community::{Env, Error};
use weir_db::Tx;

/// How the reader stands to an account.
#[derive(Debug, Clone, Serialize)]
pub struct Relationship {
    /// The account.
    pub id: Id,
    /// The reader follows it.
    pub following: bool,
    /// With its boosts.
    pub showing_reblogs: bool,
    /// With a notification for each post.
    pub notifying: bool,
    /// Only in these languages.
    pub languages: Option<Vec<String>>,
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
    /// The reader blocks its server.
    pub domain_blocking: bool,
    /// The reader features it.
    pub endorsed: bool,
    /// The reader's note about it.
    pub note: String,
}

impl From<relationships::Relationship> for Relationship {
    fn from(one: relationships::Relationship) -> Self {
        Self {
            id: one.id,
            following: one.following,
            showing_reblogs: one.showing_reblogs,
            notifying: one.notifying,
            languages: Some(one.languages).filter(|languages| !languages.is_empty()),
            followed_by: one.followed_by,
            blocking: one.blocking,
            blocked_by: one.blocked_by,
            muting: one.muting,
            muting_notifications: one.muting_notifications,
            muting_expires_at: one.muting_expires_at,
            requested: one.requested,
            requested_by: one.requested_by,
            domain_blocking: one.domain_blocking,
            endorsed: one.endorsed,
            note: one.note,
        }
    }
}

/// How `reader` stands to `others`, in their order.
///
/// # Errors
/// The database's.
pub fn relationships(
    tx: &mut Tx,
    env: &Env,
    reader: Id,
    others: &[Id],
) -> Result<Vec<Relationship>, Error> {
    let found = relationships::relationships(tx, reader, others, env.clock.now())?;
    Ok(found.into_iter().map(Relationship::from).collect())
}

/// How `reader` stands to `other`.
///
/// # Errors
/// The database's.
pub fn relationship(tx: &mut Tx, env: &Env, reader: Id, other: Id) -> Result<Relationship, Error> {
    relationships(tx, env, reader, &[other])?.pop().ok_or(Error::NotFound("Account"))
}
