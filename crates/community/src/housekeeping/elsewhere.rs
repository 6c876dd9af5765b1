//! What is known of other servers beyond their people and posts: the emoji of those of which
//! nobody is known any more, and what was noted of those that are neither heard of nor sent to.

use serde::{Deserialize, Serialize};
use weir_base::{Id, Timestamp};
use weir_db::{ToValue, Tx, Value, ids, texts};

use super::{Chore, DAY_MS, Slice, is_over, place};
use crate::Error;

/// Rows that are looked at between two looks at the clock.
const PER_STEP: i64 = 200;

pub(super) const EMOJIS: Chore = Chore {
    name: "emojis",
    removes: "emoji of other servers of which nobody is known any more",
    every_ms: DAY_MS,
    slice: |tx, env, keep, at| match keep.remote_before(env) {
        Some(before) => emojis(tx, at, before),
        None => Ok(Slice::default()),
    },
    statements: &[&[SEEN_EMOJIS, IDLE_EMOJIS, FORGET_EMOJIS]],
};

const SEEN_EMOJIS: &str = "SELECT e.domain, e.shortcode, e.id FROM custom_emojis e
   WHERE e.domain <> '' AND (e.domain, e.shortcode) > (?1, ?2)
   ORDER BY e.domain, e.shortcode LIMIT ?3";

/// Those of the emoji `?1` that may go, as they came before `?2`. What staff decided stays.
const IDLE_EMOJIS: &str = "SELECT e.id, octet_length(e.shortcode) + octet_length(e.remote_url)
     + octet_length(e.uri) FROM custom_emojis e
   WHERE e.id IN ids(?1) AND e.id < ?2 AND e.domain <> '' AND e.disabled = 0
     AND NOT EXISTS (SELECT 1 FROM accounts a WHERE a.domain = e.domain AND a.domain <> '')";

const FORGET_EMOJIS: &str = "DELETE FROM custom_emojis WHERE id IN ids(?1)";

/// The emoji that was looked at last.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Emoji {
    domain: String,
    shortcode: String,
}

fn emojis(tx: &mut Tx, at: &str, before: Timestamp) -> Result<Slice, Error> {
    let mut at: Emoji = place(at);
    let mut slice = Slice::default();
    loop {
        let values = [at.domain.to_value(), at.shortcode.to_value(), Value::Int(PER_STEP)];
        let seen: Vec<(String, String, Id)> =
            tx.query(SEEN_EMOJIS, &values, |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        slice.looked_at += seen.len() as u64;
        let list: Vec<Id> = seen.iter().map(|(.., id)| *id).collect();
        let first = Id::first_at(before);
        let going: Vec<(Id, u64)> =
            tx.query(IDLE_EMOJIS, &[ids(&list), first.to_value()], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })?;
        if !going.is_empty() {
            tx.run(FORGET_EMOJIS, &[ids(going.iter().map(|(id, _)| id))])?;
        }
        slice.removed += going.len() as u64;
        slice.bytes += going.iter().map(|(_, bytes)| bytes).sum::<u64>();
        let full = seen.len() as i64 == PER_STEP;
        let Some((domain, shortcode, _)) = seen.into_iter().last().filter(|_| full) else {
            return Ok(slice);
        };
        at = Emoji { domain, shortcode };
        if is_over(tx) {
            return Ok(slice.goes_on_at(&at));
        }
    }
}

pub(super) const HOSTS: Chore = Chore {
    name: "hosts",
    removes: "what is noted of servers that are neither heard of nor sent to any more",
    every_ms: DAY_MS,
    slice: |tx, env, keep, at| match keep.remote_before(env) {
        Some(before) => hosts(tx, at, before),
        None => Ok(Slice::default()),
    },
    statements: &[&[SEEN_HOSTS, IDLE_HOSTS, FORGET_HOSTS]],
};

const SEEN_HOSTS: &str = "SELECT h.domain FROM hosts h WHERE h.domain > ?1
   ORDER BY h.domain LIMIT ?2";

/// Those of the servers `?1` that may go, as nothing was sent there since `?2`.
const IDLE_HOSTS: &str = "SELECT h.domain, octet_length(h.domain) + octet_length(h.failure)
   FROM hosts h WHERE h.domain IN texts(?1) AND h.first_seen_at < ?2
     AND coalesce(h.delivered_at, 0) < ?2 AND coalesce(h.failed_at, 0) < ?2
     AND NOT EXISTS (SELECT 1 FROM accounts a WHERE a.domain = h.domain AND a.domain <> '')
     AND NOT EXISTS (SELECT 1 FROM deliveries d WHERE d.host = h.domain)";

const FORGET_HOSTS: &str = "DELETE FROM hosts WHERE domain IN texts(?1)";

/// The server that was looked at last.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Host {
    domain: String,
}

fn hosts(tx: &mut Tx, at: &str, before: Timestamp) -> Result<Slice, Error> {
    let mut at: Host = place(at);
    let mut slice = Slice::default();
    loop {
        let seen: Vec<String> =
            tx.column(SEEN_HOSTS, &[at.domain.to_value(), Value::Int(PER_STEP)])?;
        slice.looked_at += seen.len() as u64;
        let going: Vec<(String, u64)> =
            tx.query(IDLE_HOSTS, &[texts(&seen), before.to_value()], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })?;
        if !going.is_empty() {
            tx.run(FORGET_HOSTS, &[texts(going.iter().map(|(domain, _)| domain))])?;
        }
        slice.removed += going.len() as u64;
        slice.bytes += going.iter().map(|(_, bytes)| bytes).sum::<u64>();
        let full = seen.len() as i64 == PER_STEP;
        let Some(domain) = seen.into_iter().last().filter(|_| full) else { return Ok(slice) };
        at = Host { domain };
        if is_over(tx) {
            return Ok(slice.goes_on_at(&at));
        }
    }
}
