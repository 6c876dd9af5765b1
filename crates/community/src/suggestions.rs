//! People one may want to follow: followed by those one follows, else popular here.

use weir_base::{Id, Timestamp};
use weir_db::{Tx, params};

use crate::Error;

/// Why somebody is suggested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// People one follows follow them.
    FriendsOfFriends,
    /// Many people here follow them.
    MostFollowed,
}

/// People to suggest to `reader`: discoverable, not followed, blocked, muted at `now` or dismissed.
///
/// # Errors
/// The database's.
pub fn list(
    tx: &mut Tx,
    reader: Id,
    limit: usize,
    now: Timestamp,
) -> Result<Vec<(Id, Source)>, Error> {
    const FITTING: &str = "a.discoverable = 1 AND a.locked = 0 AND a.suspended_at IS NULL
       AND a.silenced_at IS NULL AND a.deleted_at IS NULL AND a.moved_to_id IS NULL
       AND a.kind <> 'application' AND a.id <> ?1
       AND NOT EXISTS (SELECT 1 FROM follows WHERE account_id = ?1 AND target_id = a.id)
       AND NOT EXISTS (SELECT 1 FROM follow_requests WHERE account_id = ?1 AND target_id = a.id)
       AND NOT EXISTS (SELECT 1 FROM blocks WHERE account_id = ?1 AND target_id = a.id)
       AND NOT EXISTS (SELECT 1 FROM mutes WHERE account_id = ?1 AND target_id = a.id
         AND (expires_at IS NULL OR expires_at > ?3))
       AND NOT EXISTS (SELECT 1 FROM dismissed_suggestions
         WHERE account_id = ?1 AND target_id = a.id)";
    let friends: Vec<Id> = tx.column(
        &format!(
            "SELECT a.id FROM follows mine JOIN follows theirs ON theirs.account_id = mine.target_id
             JOIN accounts a ON a.id = theirs.target_id
             WHERE mine.account_id = ?1 AND {FITTING}
             GROUP BY a.id ORDER BY count(*) DESC, a.id LIMIT ?2"
        ),
        params![reader, limit, now],
    )?;
    let popular: Vec<Id> = tx.column(
        &format!(
            "SELECT a.id FROM accounts a WHERE a.domain = '' AND {FITTING}
             ORDER BY a.followers_count DESC, a.id LIMIT ?2"
        ),
        params![reader, limit, now],
    )?;
    let mut found: Vec<(Id, Source)> =
        friends.into_iter().map(|id| (id, Source::FriendsOfFriends)).collect();
    for id in popular {
        if found.len() < limit && !found.iter().any(|(known, _)| *known == id) {
            found.push((id, Source::MostFollowed));
        }
    }
    Ok(found)
}

/// `reader` does not want to see `target` among the suggestions.
///
/// # Errors
/// The database's.
pub fn dismiss(tx: &mut Tx, reader: Id, target: Id) -> Result<(), Error> {
    tx.run(
        "INSERT INTO dismissed_suggestions (account_id, target_id) VALUES (?1, ?2)
         ON CONFLICT DO NOTHING",
        params![reader, target],
    )?;
    Ok(())
}
