//! What only stood there for posts and people that are gone: requests behind which nothing waits,
//! hashtags, link previews, apps.

use serde::{Deserialize, Serialize};
use weir_base::{Id, Timestamp};
use weir_db::{ToValue, Tx, Value, ids};

use super::{Chore, DAY_MS, Keep, Slice, is_over, place};
use crate::Error;

/// Rows that are looked at between two looks at the clock.
const PER_STEP: i64 = 200;
/// How long something stays that nothing uses, in ms: 30 days.
const UNUSED_MS: i64 = 30 * DAY_MS;

pub(super) const REQUESTS: Chore = Chore {
    name: "notification_requests",
    removes: "senders that wait for a decision, of whom no notification is left",
    every_ms: DAY_MS,
    slice: |tx, env, _: Keep, at| {
        let delete = "DELETE FROM notification_requests WHERE id IN ids(?1)";
        walk(tx, at, env.clock.now(), ["notification_requests", IDLE_REQUESTS, delete])
    },
    statements: &[&[IDLE_REQUESTS]],
};

const IDLE_REQUESTS: &str = "SELECT r.id, 0 FROM notification_requests r
   WHERE r.id IN ids(?1) AND r.id < ?2 AND r.updated_at < ?3
     AND NOT EXISTS (SELECT 1 FROM notifications n WHERE n.from_account_id = r.from_account_id
       AND n.account_id = r.account_id AND n.filtered = 1)";

pub(super) const TAGS: Chore = Chore {
    name: "tags",
    removes: "hashtags that no post has and nobody follows or shows",
    every_ms: DAY_MS,
    slice: |tx, env, keep, at| match keep.remote_before(env) {
        Some(before) => {
            walk(tx, at, before, ["tags", UNUSED_TAGS, "DELETE FROM tags WHERE id IN ids(?1)"])
        }
        None => Ok(Slice::default()),
    },
    statements: &[&[UNUSED_TAGS]],
};

const UNUSED_TAGS: &str = "SELECT t.id, octet_length(t.name) + octet_length(t.display) FROM tags t
   WHERE t.id IN ids(?1) AND t.id < ?2 AND coalesce(t.last_status_at, 0) < ?3
     AND NOT EXISTS (SELECT 1 FROM status_tags s WHERE s.tag_id = t.id)
     AND NOT EXISTS (SELECT 1 FROM followed_tags f WHERE f.tag_id = t.id)
     AND NOT EXISTS (SELECT 1 FROM featured_tags f WHERE f.tag_id = t.id)";

pub(super) const CARDS: Chore = Chore {
    name: "cards",
    removes: "link previews that no post shows",
    every_ms: DAY_MS,
    slice: |tx, env, _: Keep, at| {
        let before = env.clock.now().plus_ms(-UNUSED_MS);
        walk(tx, at, before, ["cards", UNUSED_CARDS, "DELETE FROM cards WHERE id IN ids(?1)"])
    },
    statements: &[&[UNUSED_CARDS]],
};

const UNUSED_CARDS: &str = "SELECT c.id, octet_length(c.card) + octet_length(c.url) FROM cards c
   WHERE c.id IN ids(?1) AND c.id < ?2 AND c.fetched_at < ?3
     AND NOT EXISTS (SELECT 1 FROM statuses s WHERE s.card_id = c.id)";

pub(super) const APPS: Chore = Chore {
    name: "apps",
    removes: "registered apps that hold no token and wrote no post",
    every_ms: DAY_MS,
    slice: |tx, env, _: Keep, at| {
        let before = env.clock.now().plus_ms(-UNUSED_MS);
        walk(
            tx,
            at,
            before,
            ["oauth_apps", UNUSED_APPS, "DELETE FROM oauth_apps WHERE id IN ids(?1)"],
        )
    },
    statements: &[&[UNUSED_APPS]],
};

const UNUSED_APPS: &str = "SELECT p.id, octet_length(p.name) + octet_length(p.redirect_uris)
   FROM oauth_apps p WHERE p.id IN ids(?1) AND p.id < ?2 AND p.created_at < ?3
     AND NOT EXISTS (SELECT 1 FROM oauth_tokens t WHERE t.app_id = p.id)
     AND NOT EXISTS (SELECT 1 FROM statuses s WHERE s.app_id = p.id)";

/// The row that was looked at last.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Place {
    id: Id,
}

/// Goes through a table in order of id; removes what is unused since `before`. Given are the
/// table, which of the rows `?1` are unused, and how they are removed.
fn walk(tx: &mut Tx, at: &str, before: Timestamp, sql: [&str; 3]) -> Result<Slice, Error> {
    let [table, unused, delete] = sql;
    let next = format!("SELECT id FROM {table} WHERE id > ?1 ORDER BY id LIMIT ?2");
    let mut at: Place = place(at);
    let mut slice = Slice::default();
    loop {
        let seen: Vec<Id> = tx.column(&next, &[at.id.to_value(), Value::Int(PER_STEP)])?;
        slice.looked_at += seen.len() as u64;
        let first = Id::first_at(before);
        let going: Vec<(Id, u64)> =
            tx.query(unused, &[ids(&seen), first.to_value(), before.to_value()], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })?;
        let list: Vec<Id> = going.iter().map(|(id, _)| *id).collect();
        if !list.is_empty() {
            tx.run(delete, &[ids(&list)])?;
        }
        slice.removed += going.len() as u64;
        slice.bytes += going.iter().map(|(_, bytes)| bytes).sum::<u64>();
        let Some(last) = seen.last().filter(|_| seen.len() as i64 == PER_STEP) else {
            return Ok(slice);
        };
        at.id = *last;
        if is_over(tx) {
            return Ok(slice.goes_on_at(&at));
        }
    }
}
