//! Deleting a local account. At once it cannot be seen or used; what it left behind is taken away
//! in slices by a job, after the network was told. The row stays so that nobody takes the name.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use weir_base::Id;
use weir_db::{Tx, params};
use weir_jobs::{Claimed, Job, Queue, Registry};

use super::by_id;
use crate::federation::{self, Message};
use crate::statuses::Status;
use crate::streams::Noun;
use crate::{
    Community, Env, Error, chat, done_or_retry, media, oauth, relationships, slices, statuses,
    users,
};

/// Rows that are taken at a time.
const ROWS_PER_STEP: usize = 50;
/// How long what was left behind stays, so that the followers' servers can be told first, in ms.
const ERASE_AFTER_MS: i64 = 60 * 1_000;

/// What a person has besides the account and its posts; `?1` is the account.
const BELONGINGS: &[&str] = &[
    "DELETE FROM users WHERE account_id = ?1",
    "DELETE FROM web_sessions WHERE account_id = ?1",
    "DELETE FROM mail_tokens WHERE account_id = ?1",
    "DELETE FROM chat_tokens WHERE account_id = ?1",
    "DELETE FROM invites WHERE account_id = ?1",
    "DELETE FROM markers WHERE account_id = ?1",
    "DELETE FROM scheduled_statuses WHERE account_id = ?1",
    "DELETE FROM account_texts WHERE rowid = ?1",
];

/// What is left when posts, follows and favourites are gone.
const REMAINS: &[&str] = &[
    "DELETE FROM notifications WHERE account_id = ?1 OR from_account_id = ?1",
    "DELETE FROM mentions WHERE account_id = ?1",
    "DELETE FROM notification_policies WHERE account_id = ?1",
    "DELETE FROM notification_permissions WHERE account_id = ?1",
    "DELETE FROM notification_requests WHERE account_id = ?1",
    "DELETE FROM bookmarks WHERE account_id = ?1",
    "DELETE FROM pins WHERE account_id = ?1",
    "DELETE FROM followed_tags WHERE account_id = ?1",
    "DELETE FROM featured_tags WHERE account_id = ?1",
    "DELETE FROM blocks WHERE account_id = ?1 OR target_id = ?1",
    "DELETE FROM mutes WHERE account_id = ?1 OR target_id = ?1",
    "DELETE FROM account_domain_blocks WHERE account_id = ?1",
    "DELETE FROM account_notes WHERE account_id = ?1",
    "DELETE FROM account_warnings WHERE account_id = ?1",
    "DELETE FROM severances WHERE account_id = ?1",
    "DELETE FROM endorsements WHERE account_id = ?1 OR target_id = ?1",
    "DELETE FROM dismissed_suggestions WHERE account_id = ?1",
    "DELETE FROM follow_requests WHERE account_id = ?1 OR target_id = ?1",
    "DELETE FROM conversations WHERE account_id = ?1",
    "DELETE FROM conversation_mutes WHERE account_id = ?1",
    "DELETE FROM list_accounts WHERE list_id IN (SELECT id FROM lists WHERE account_id = ?1)",
    "DELETE FROM lists WHERE account_id = ?1",
    "DELETE FROM filter_keywords WHERE filter_id IN
       (SELECT id FROM filters WHERE account_id = ?1)",
    "DELETE FROM filter_statuses WHERE filter_id IN
       (SELECT id FROM filters WHERE account_id = ?1)",
    "DELETE FROM filters WHERE account_id = ?1",
    "DELETE FROM idempotency_keys WHERE account_id = ?1",
    "DELETE FROM migrations WHERE account_id = ?1",
    "UPDATE accounts SET followers_count = 0, following_count = 0, statuses_count = 0
     WHERE id = ?1",
];

/// Deletes the local account `id` for good.
///
/// # Errors
/// [`Error::NotFound`] when it is not local, or deleted already; [`Error::Conflict`] when it is the
/// last admin's.
pub fn delete(tx: &mut Tx, env: &Env, id: Id) -> Result<(), Error> {
    let account = by_id(tx, id)?;
    if !account.is_local() || account.deleted_at.is_some() || account.kind == "application" {
        return Err(Error::NotFound("Account"));
    }
    users::keep_an_admin(tx, id)?;
    federation::send(tx, env, id, Message::DeleteActor { actor: account.uri.clone() })?;
    env.streams.people_changed(tx, id);
    tx.run(
        "UPDATE accounts SET deleted_at = ?2, display_name = '', note = '', note_source = '',
           fields = '[]', fields_source = '[]', avatar = '', avatar_description = '', header = '',
           header_description = '', discoverable = 0, indexable = 0, also_known_as = '[]'
         WHERE id = ?1",
        params![id, env.clock.now()],
    )?;
    // What waited to appear takes its uploads along: no post has them, so they are pruned.
    let uploads: Vec<Id> = tx.column(
        "SELECT m.id FROM media m JOIN scheduled_statuses s ON s.id = m.status_id
         WHERE s.account_id = ?1",
        params![id],
    )?;
    media::release(tx, env, &uploads)?;
    for sql in BELONGINGS {
        tx.run(sql, params![id])?;
    }
    oauth::revoke_all(tx, env, id)?;
    env.streams.bonds_changed(tx, id);
    env.streams.looks_changed(tx, id);
    env.jobs.enqueue_at(
        tx,
        env.clock.now().plus_ms(ERASE_AFTER_MS),
        &EraseAccount { account: id },
    )?;
    tracing::info!(account = %id, name = account.username, "account deleted");
    metrics::counter!("weir_community_accounts_deleted_total").increment(1);
    Ok(())
}

/// Remote account `id` deleted itself: it cannot be seen from now on, and what it left behind goes.
///
/// # Errors
/// The database's.
pub fn delete_remote(tx: &mut Tx, env: &Env, id: Id) -> Result<(), Error> {
    let marked = tx.execute(
        "UPDATE accounts SET deleted_at = ?2, display_name = '', note = '', fields = '[]',
           avatar = '', header = '', also_known_as = '[]', discoverable = 0, indexable = 0
         WHERE id = ?1 AND deleted_at IS NULL AND domain <> ''",
        params![id, env.clock.now()],
    )?;
    if marked > 0 {
        env.streams.people_changed(tx, id);
        env.jobs.enqueue(tx, &EraseAccount { account: id })?;
    }
    Ok(())
}

/// The job that takes away what a deleted account left behind, a slice at a time.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct EraseAccount {
    /// Which.
    pub account: Id,
}

impl Job for EraseAccount {
    const KIND: &'static str = "erase_account";
    const QUEUE: Queue = slices::UPKEEP;

    fn lane(&self) -> Cow<'_, str> {
        Cow::Owned(self.account.to_string())
    }
}

/// Handles [`EraseAccount`].
pub fn register_erasure(registry: &mut Registry, community: &Community) {
    let env = community.env().clone();
    registry.simple_unit(move |tx: &mut Tx, jobs: &[Claimed<EraseAccount>]| {
        jobs.iter().map(|claim| done_or_retry(erase(tx, &env, claim.job.account))).collect()
    });
}

/// One slice; the rest goes into a new job in the same transaction.
fn erase(tx: &mut Tx, env: &Env, account: Id) -> Result<(), Error> {
    if !erase_step(tx, env, account)? {
        env.jobs.enqueue(tx, &EraseAccount { account })?;
    }
    Ok(())
}

/// Takes a slice of what a deleted account left behind away; true when nothing is left.
///
/// # Errors
/// [`Error::NotFound`].
pub fn erase_step(tx: &mut Tx, env: &Env, account: Id) -> Result<bool, Error> {
    if by_id(tx, account)?.deleted_at.is_none() {
        return Ok(true);
    }
    while posts(tx, env, account)?
        || follows(tx, env, account)?
        || favourites(tx, env, account)?
        || chat::erase(tx, env, account)?
    {
        if slices::is_over(tx) {
            return Ok(false);
        }
    }
    for sql in REMAINS {
        tx.run(sql, params![account])?;
    }
    Ok(true)
}

fn posts(tx: &mut Tx, env: &Env, account: Id) -> Result<bool, Error> {
    let posts: Vec<Status> = tx.records(
        "SELECT {} FROM statuses WHERE account_id = ?1 ORDER BY id DESC LIMIT ?2",
        params![account, ROWS_PER_STEP],
    )?;
    for post in &posts {
        statuses::erase(tx, env, post)?;
        if slices::is_over(tx) {
            break;
        }
    }
    Ok(!posts.is_empty())
}

fn follows(tx: &mut Tx, env: &Env, account: Id) -> Result<bool, Error> {
    let followers = relationships::follower_ids(tx, account, Id::MAX, ROWS_PER_STEP)?;
    let followees = relationships::following_ids(tx, account, Id::MAX, ROWS_PER_STEP)?;
    for (_, follower) in &followers {
        relationships::end_quietly(tx, env, *follower, account)?;
    }
    for (_, followee) in &followees {
        relationships::end_quietly(tx, env, account, *followee)?;
    }
    Ok(!followers.is_empty() || !followees.is_empty())
}

fn favourites(tx: &mut Tx, env: &Env, account: Id) -> Result<bool, Error> {
    let favourites: Vec<(Id, Id)> = tx.query(
        "SELECT id, status_id FROM favourites WHERE account_id = ?1 ORDER BY id LIMIT ?2",
        params![account, ROWS_PER_STEP],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    for (id, status) in &favourites {
        tx.run("DELETE FROM favourites WHERE id = ?1", params![id])?;
        env.streams.touched(tx, Noun::Post(*status));
        tx.run(
            "UPDATE statuses SET favourites_count = favourites_count - 1
             WHERE id = ?1 AND favourites_count > 0",
            params![status],
        )?;
    }
    Ok(!favourites.is_empty())
}
