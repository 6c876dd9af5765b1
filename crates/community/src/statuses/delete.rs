//! Deleting posts.

use weir_base::Id;
use weir_db::{Tx, params};

use super::{Status, by_id, conversation, publish};
use crate::federation::{self, Message};
use crate::streams::Noun;
use crate::{Env, Error, conversations, media};

/// `by` deletes their own post `id`; boosts of it go too, other servers are told.
///
/// # Errors
/// [`Error::NotFound`] when it is not theirs.
pub fn delete(tx: &mut Tx, env: &Env, by: Id, id: Id) -> Result<Status, Error> {
    let status = by_id(tx, id)?;
    if status.account_id != by || status.boost_of_id.is_some() {
        return Err(Error::NotFound("Status"));
    }
    let concerned: Vec<Id> = tx.column(
        "SELECT a.id FROM accounts a WHERE a.domain <> '' AND a.id IN (
           SELECT account_id FROM mentions WHERE status_id = ?1
           UNION SELECT account_id FROM statuses WHERE boost_of_id = ?1
           UNION SELECT account_id FROM statuses WHERE in_reply_to_id = ?1
           UNION SELECT account_id FROM statuses WHERE id = ?2) LIMIT 5000",
        params![id, status.in_reply_to_id],
    )?;
    erase(tx, env, &status)?;
    let message =
        Message::DeleteStatus { uri: status.uri.clone(), visibility: status.visibility, concerned };
    federation::send(tx, env, by, message)?;
    Ok(status)
}

/// Takes a post (or boost) and all that hangs on it away, and leaves a tombstone; tells only
/// those who are here.
///
/// # Errors
/// The database's.
pub fn erase(tx: &mut Tx, env: &Env, status: &Status) -> Result<(), Error> {
    let boosts: Vec<Status> = if status.boost_of_id.is_some() {
        Vec::new()
    } else {
        tx.records("SELECT {} FROM statuses WHERE boost_of_id = ?1", params![status.id])?
    };
    for boost in &boosts {
        remove(tx, env, boost)?;
    }
    remove(tx, env, status)?;
    if status.boost_of_id.is_none() {
        conversation::bury(tx, env, &status.uri, Some(status.conversation_id))?;
    }
    Ok(())
}

fn remove(tx: &mut Tx, env: &Env, status: &Status) -> Result<(), Error> {
    let mentioned: Vec<Id> =
        tx.column("SELECT account_id FROM mentions WHERE status_id = ?1", params![status.id])?;
    let tags: Vec<(Id, String)> = tx.query(
        "SELECT t.id, t.name FROM status_tags s JOIN tags t ON t.id = s.tag_id
         WHERE s.status_id = ?1",
        params![status.id],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    conversation::orphan(tx, env, status)?;
    for sql in [
        "DELETE FROM mentions WHERE status_id = ?1",
        "DELETE FROM status_tags WHERE status_id = ?1",
        "DELETE FROM favourites WHERE status_id = ?1",
        "DELETE FROM bookmarks WHERE status_id = ?1",
        "DELETE FROM pins WHERE status_id = ?1",
        "DELETE FROM status_edits WHERE status_id = ?1",
        "DELETE FROM filter_statuses WHERE status_id = ?1",
        "DELETE FROM notifications WHERE status_id = ?1 AND status_id <> 0",
        "DELETE FROM poll_votes WHERE poll_id = ?1",
        "DELETE FROM polls WHERE id = ?1",
        "DELETE FROM status_texts WHERE rowid = ?1",
        "DELETE FROM statuses WHERE id = ?1",
    ] {
        let poll = sql.contains("poll").then_some(status.poll_id).flatten();
        tx.run(sql, params![poll.unwrap_or(status.id)])?;
    }
    media::detach(tx, status.id, env.clock.now())?;
    tx.run(
        "UPDATE accounts SET statuses_count = statuses_count - 1
         WHERE id = ?1 AND statuses_count > 0",
        params![status.account_id],
    )?;
    env.streams.touched(tx, Noun::Account(status.account_id));
    if let Some(of) = status.boost_of_id {
        env.streams.touched(tx, Noun::Post(of));
        env.streams.marked(tx, status.account_id, of);
        tx.run(
            "DELETE FROM notifications WHERE kind = 'reblog' AND status_id = ?1
               AND from_account_id = ?2",
            params![of, status.account_id],
        )?;
        tx.run(
            "UPDATE statuses SET boosts_count = boosts_count - 1
             WHERE id = ?1 AND boosts_count > 0",
            params![of],
        )?;
    }
    if let Some(parent) = publish::parent(tx, status)?.filter(|_| status.visibility.is_open()) {
        env.streams.touched(tx, Noun::Post(parent.id));
        tx.run(
            "UPDATE statuses SET replies_count = replies_count - 1
             WHERE id = ?1 AND replies_count > 0",
            params![parent.id],
        )?;
    }
    conversations::status_removed(tx, env, status)?;
    let tag_ids: Vec<Id> = tags.iter().map(|(tag, _)| *tag).collect();
    env.feeds.removed(tx, status.account_id, status.id, &tag_ids);
    env.streams.status_deleted(tx, status, mentioned, tags);
    Ok(())
}
