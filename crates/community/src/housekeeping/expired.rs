//! What has had its time: notifications, tokens and sessions, sign-ups that were never confirmed,
//! keys of requests, tombstones, and the memory that makes the order of messages irrelevant.

use weir_base::Id;
use weir_db::{Tx, params};

use super::{Chore, DAY_MS, SOON_MS, Slice, expire, is_over};
use crate::federation::order;
use crate::{Env, Error, statuses, users};

/// Rows removed by one statement.
const PER_STEP: i64 = 200;
/// How long a token of an app alone, which stands for nobody, lives without being used, in ms.
const APP_TOKEN_MS: i64 = 90 * DAY_MS;
/// How long a sign-up waits to be confirmed, in ms.
const UNCONFIRMED_MS: i64 = 14 * DAY_MS;

pub(super) const NOTIFICATIONS: Chore = Chore {
    name: "notifications",
    removes: "old notifications",
    every_ms: DAY_MS,
    slice: |tx, env, keep, _| match keep.notifications_before(env) {
        Some(before) => expire(tx, OLD_NOTIFICATIONS, Id::first_at(before), PER_STEP),
        None => Ok(Slice::default()),
    },
    statements: &[&[OLD_NOTIFICATIONS]],
};

const OLD_NOTIFICATIONS: &str = "DELETE FROM notifications WHERE id IN (
   SELECT id FROM notifications WHERE id < ?1 ORDER BY id LIMIT ?2)
   RETURNING octet_length(kind) + octet_length(group_key)";

pub(super) const MUTES: Chore = Chore {
    name: "mutes",
    removes: "mutes that have ended",
    every_ms: SOON_MS,
    slice: |tx, env, _, _| expire(tx, OLD_MUTES, env.clock.now(), PER_STEP),
    statements: &[&[OLD_MUTES]],
};

// Asked twice, so that one which is given more time meanwhile stays. They hold only numbers.
const OLD_MUTES: &str = "DELETE FROM mutes WHERE expires_at < ?1 AND (account_id, target_id) IN (
   SELECT account_id, target_id FROM mutes WHERE expires_at < ?1 ORDER BY expires_at LIMIT ?2)
   RETURNING 0";

pub(super) const GRANTS: Chore = Chore {
    name: "codes",
    removes: "codes by which apps get their tokens, ten minutes old",
    every_ms: SOON_MS,
    slice: |tx, env, _, _| expire(tx, OLD_GRANTS, env.clock.now(), PER_STEP),
    statements: &[&[OLD_GRANTS]],
};

const OLD_GRANTS: &str = "DELETE FROM oauth_grants WHERE code_hash IN (
   SELECT code_hash FROM oauth_grants WHERE expires_at < ?1 ORDER BY expires_at LIMIT ?2)
   RETURNING octet_length(code_hash) + octet_length(scopes) + octet_length(redirect_uri)
     + octet_length(coalesce(challenge, ''))";

pub(super) const TOKENS: Chore = Chore {
    name: "app_tokens",
    removes: "tokens that stand for nobody, unused for 90 days",
    every_ms: DAY_MS,
    slice: |tx, env, _, _| expire(tx, OLD_TOKENS, env.clock.now().plus_ms(-APP_TOKEN_MS), PER_STEP),
    statements: &[&[OLD_TOKENS]],
};

const OLD_TOKENS: &str = "DELETE FROM oauth_tokens WHERE account_id IS NULL AND id IN (
   SELECT id FROM oauth_tokens WHERE account_id IS NULL AND last_used_at < ?1
   ORDER BY last_used_at LIMIT ?2)
   RETURNING octet_length(token_hash) + octet_length(scopes)";

pub(super) const SESSIONS: Chore = Chore {
    name: "sessions",
    removes: "log-ins of browsers, unused for 90 days",
    every_ms: DAY_MS,
    slice: |tx, env, _, _| {
        expire(tx, OLD_SESSIONS, env.clock.now().plus_ms(-users::SESSION_IDLE_MS_MAX), PER_STEP)
    },
    statements: &[&[OLD_SESSIONS]],
};

const OLD_SESSIONS: &str = "DELETE FROM web_sessions WHERE id IN (
   SELECT id FROM web_sessions WHERE last_used_at < ?1 ORDER BY last_used_at LIMIT ?2)
   RETURNING octet_length(token_hash) + octet_length(ip) + octet_length(user_agent)";

pub(super) const MAIL_TOKENS: Chore = Chore {
    name: "mail_tokens",
    removes: "links of mails that have expired",
    every_ms: SOON_MS,
    slice: |tx, env, _, _| expire(tx, OLD_MAIL_TOKENS, env.clock.now(), PER_STEP),
    statements: &[&[OLD_MAIL_TOKENS]],
};

const OLD_MAIL_TOKENS: &str = "DELETE FROM mail_tokens WHERE token_hash IN (
   SELECT token_hash FROM mail_tokens WHERE expires_at < ?1 ORDER BY expires_at LIMIT ?2)
   RETURNING octet_length(token_hash) + octet_length(purpose) + octet_length(email)";

pub(super) const CHAT_TOKENS: Chore = Chore {
    name: "chat_tokens",
    removes: "tokens of chat apps that have expired",
    every_ms: DAY_MS,
    slice: |tx, env, _, _| expire(tx, OLD_CHAT_TOKENS, env.clock.now(), PER_STEP),
    statements: &[&[OLD_CHAT_TOKENS]],
};

const OLD_CHAT_TOKENS: &str = "DELETE FROM chat_tokens WHERE (account_id, client, is_new) IN (
   SELECT account_id, client, is_new FROM chat_tokens WHERE expires_at < ?1
   ORDER BY expires_at LIMIT ?2)
   RETURNING octet_length(client) + octet_length(mechanism) + octet_length(sealed)";

pub(super) const SIGN_UPS: Chore = Chore {
    name: "sign_ups",
    removes: "sign-ups whose address was not confirmed within 14 days",
    every_ms: DAY_MS,
    slice: |tx, env, _, _| sign_ups(tx, env),
    statements: &[&[OLD_SIGN_UPS]],
};

const OLD_SIGN_UPS: &str = "SELECT account_id FROM users u
   WHERE u.confirmed_at IS NULL AND u.created_at < ?1 AND u.role = 'user'
     AND u.last_sign_in_at IS NULL
     AND NOT EXISTS (SELECT 1 FROM statuses s WHERE s.account_id = u.account_id)
     AND NOT EXISTS (SELECT 1 FROM follows f WHERE f.target_id = u.account_id)
   ORDER BY u.created_at LIMIT ?2";

fn sign_ups(tx: &mut Tx, env: &Env) -> Result<Slice, Error> {
    let before = env.clock.now().plus_ms(-UNCONFIRMED_MS);
    let mut slice = Slice::default();
    loop {
        let old: Vec<Id> = tx.column(OLD_SIGN_UPS, params![before, PER_STEP])?;
        let full = old.len() as i64 == PER_STEP;
        for account in old {
            crate::moderation::forget_sign_up(tx, env, account)?;
            slice.looked_at += 1;
            slice.removed += 1;
            if is_over(tx) {
                return Ok(slice.goes_on_at(&account));
            }
        }
        if !full {
            return Ok(slice);
        }
    }
}

pub(super) const KEYS: Chore = Chore {
    name: "request_keys",
    removes: "keys of requests (Idempotency-Key), an hour old",
    every_ms: SOON_MS,
    slice: |tx, env, _, _| {
        expire(tx, OLD_KEYS, env.clock.now().plus_ms(-statuses::KEY_LIFE_MS), PER_STEP)
    },
    statements: &[&[OLD_KEYS]],
};

const OLD_KEYS: &str = "DELETE FROM idempotency_keys WHERE (account_id, idempotency_key) IN (
   SELECT account_id, idempotency_key FROM idempotency_keys WHERE created_at < ?1
   ORDER BY created_at LIMIT ?2)
   RETURNING octet_length(idempotency_key)";

pub(super) const TOMBSTONES: Chore = Chore {
    name: "tombstones",
    removes: "what is remembered of deleted posts, 30 days old",
    every_ms: SOON_MS,
    slice: |tx, env, _, _| {
        expire(tx, OLD_TOMBSTONES, env.clock.now().plus_ms(-order::KEPT_MS), PER_STEP)
    },
    statements: &[&[OLD_TOMBSTONES]],
};

const OLD_TOMBSTONES: &str = "DELETE FROM tombstones WHERE uri IN (
   SELECT uri FROM tombstones WHERE deleted_at < ?1 ORDER BY deleted_at LIMIT ?2)
   RETURNING octet_length(uri) + octet_length(host)";

pub(super) const ORDER: Chore = Chore {
    name: "order",
    removes: "what is remembered of follows, marks and edits to put them in order, 30 days old",
    every_ms: SOON_MS,
    slice: |tx, env, _, _| {
        let before = Id::first_at(env.clock.now().plus_ms(-order::KEPT_MS));
        expire(tx, OLD_VERSIONS, before, PER_STEP)
    },
    statements: &[&[OLD_VERSIONS]],
};

const OLD_VERSIONS: &str = "DELETE FROM versions WHERE (actor, object, relation) IN (
   SELECT actor, object, relation FROM versions
   WHERE version_seq < ?1 AND coalesce(relation, '') <> 'profile'
   ORDER BY version_seq LIMIT ?2)
   RETURNING octet_length(actor) + octet_length(object) + octet_length(relation)
     + octet_length(events) + octet_length(activity)";
