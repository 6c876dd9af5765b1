//! Accounts of other servers that nothing is known of any more but their profile.
//!
//! An account stays when there is a post of it or for it, when it and anybody here follow, block
//! or mute each other, have noted something of each other, voted or marked something, when it
//! stands in a list, a report, a notification or a decision of staff, when another account moved
//! to it, and as long as its deletion is remembered. Notifications of accounts whose whole server
//! staff suspended as long ago are shown to nobody, and keep none of them.

use serde::{Deserialize, Serialize};
use weir_base::Id;
use weir_db::{ToValue, Tx, Value, ids};

use super::{Chore, DAY_MS, Keep, Slice, is_over, place};
use crate::{Env, Error};

pub(super) const CHORE: Chore = Chore {
    name: "accounts",
    removes: "accounts of other servers that nothing is known of any more",
    every_ms: DAY_MS,
    slice,
    statements: &[&[ACCOUNTS, REMOVABLE], BELONGINGS],
};

/// Accounts that are looked at between two looks at the clock.
const PER_STEP: i64 = 100;

const ACCOUNTS: &str = "SELECT a.domain, a.id FROM accounts a
   WHERE a.domain <> '' AND (a.domain, a.id) > (?1, ?2) ORDER BY a.domain, a.id LIMIT ?3";

/// Those of the accounts `?1` that may go, as they were learnt before `?2` (a moment) and `?3`
/// (the same as an id). Whom staff limited or suspended stays, for that would be forgotten; not who
/// is limited with a whole server, at the time in the id of its block (65,536 ids to a
/// millisecond): whoever comes from there again is limited again. Nor who was suspended with it
/// before `?2`: nobody comes from there while it is.
const REMOVABLE: &str = "SELECT a.id, a.uri, octet_length(a.note) + octet_length(a.fields)
       + octet_length(a.display_name) + octet_length(a.uri)
   FROM accounts a WHERE a.id IN ids(?1) AND a.domain <> '' AND a.fetched_at < ?2 AND a.id < ?3
     AND (a.deleted_at IS NULL OR a.deleted_at < ?2)
     AND (a.suspended_at IS NULL OR a.suspended_by_origin = 1
       OR EXISTS (SELECT 1 FROM domain_blocks d WHERE a.suspended_at < ?2
         AND d.id >= a.suspended_at * 65536 AND d.id < (a.suspended_at + 1) * 65536))
     AND (a.silenced_at IS NULL OR EXISTS (SELECT 1 FROM domain_blocks d
       WHERE d.id >= a.silenced_at * 65536 AND d.id < (a.silenced_at + 1) * 65536))
     AND a.sensitized_at IS NULL
     AND NOT EXISTS (SELECT 1 FROM statuses s WHERE s.account_id = a.id)
     AND NOT EXISTS (SELECT 1 FROM mentions m WHERE m.account_id = a.id)
     AND NOT EXISTS (SELECT 1 FROM follows f WHERE f.target_id = a.id)
     AND NOT EXISTS (SELECT 1 FROM follows f WHERE f.account_id = a.id)
     AND NOT EXISTS (SELECT 1 FROM follow_requests f WHERE f.target_id = a.id)
     AND NOT EXISTS (SELECT 1 FROM follow_requests f WHERE f.account_id = a.id)
     AND NOT EXISTS (SELECT 1 FROM blocks b WHERE b.target_id = a.id)
     AND NOT EXISTS (SELECT 1 FROM blocks b WHERE b.account_id = a.id)
     AND NOT EXISTS (SELECT 1 FROM mutes m WHERE m.target_id = a.id)
     AND NOT EXISTS (SELECT 1 FROM favourites f WHERE f.account_id = a.id)
     AND NOT EXISTS (SELECT 1 FROM poll_votes v WHERE v.account_id = a.id)
     AND NOT EXISTS (SELECT 1 FROM list_accounts l WHERE l.account_id = a.id)
     AND (NOT EXISTS (SELECT 1 FROM notifications n WHERE n.from_account_id = a.id)
       OR EXISTS (SELECT 1 FROM domain_blocks d WHERE d.id >= a.suspended_at * 65536
         AND d.id < (a.suspended_at + 1) * 65536))
     AND NOT EXISTS (SELECT 1 FROM notification_permissions n WHERE n.from_account_id = a.id)
     AND NOT EXISTS (SELECT 1 FROM account_notes n WHERE n.target_id = a.id)
     AND NOT EXISTS (SELECT 1 FROM endorsements e WHERE e.target_id = a.id)
     AND NOT EXISTS (SELECT 1 FROM reports r WHERE r.target_id = a.id)
     AND NOT EXISTS (SELECT 1 FROM reports r WHERE r.account_id = a.id)
     AND NOT EXISTS (SELECT 1 FROM account_warnings w WHERE w.account_id = a.id)
     AND NOT EXISTS (SELECT 1 FROM migrations m WHERE m.target_id = a.id)
     AND NOT EXISTS (SELECT 1 FROM accounts o WHERE o.moved_to_id = a.id)";

/// What hangs on accounts; `?1` are the accounts.
const BELONGINGS: &[&str] = &[
    "DELETE FROM account_keys WHERE account_id IN ids(?1)",
    "DELETE FROM account_texts WHERE rowid IN ids(?1)",
    "DELETE FROM pins WHERE account_id IN ids(?1)",
    "DELETE FROM notifications WHERE from_account_id IN ids(?1)",
    "DELETE FROM accounts WHERE id IN ids(?1)",
];

/// The account that was looked at last.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Place {
    domain: String,
    account: Id,
}

fn slice(tx: &mut Tx, env: &Env, keep: Keep, at: &str) -> Result<Slice, Error> {
    let Some(before) = keep.remote_before(env) else { return Ok(Slice::default()) };
    let mut at: Place = place(at);
    let mut slice = Slice::default();
    loop {
        let values = [at.domain.to_value(), at.account.to_value(), Value::Int(PER_STEP)];
        let seen: Vec<(String, Id)> =
            tx.query(ACCOUNTS, &values, |row| Ok((row.get(0)?, row.get(1)?)))?;
        slice.looked_at += seen.len() as u64;
        let list: Vec<Id> = seen.iter().map(|(_, id)| *id).collect();
        let first = Id::first_at(before);
        let going: Vec<(Id, String, u64)> =
            tx.query(REMOVABLE, &[ids(&list), before.to_value(), first.to_value()], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?))
            })?;
        erase(tx, &going)?;
        slice.removed += going.len() as u64;
        slice.bytes += going.iter().map(|(.., bytes)| bytes).sum::<u64>();
        let full = seen.len() as i64 == PER_STEP;
        let Some((domain, account)) = seen.into_iter().last().filter(|_| full) else {
            return Ok(slice);
        };
        at = Place { domain, account };
        if is_over(tx) {
            return Ok(slice.goes_on_at(&at));
        }
    }
}

fn erase(tx: &mut Tx, going: &[(Id, String, u64)]) -> Result<(), Error> {
    if going.is_empty() {
        return Ok(());
    }
    let list: Vec<Id> = going.iter().map(|(id, ..)| *id).collect();
    for sql in BELONGINGS {
        tx.run(sql, &[ids(&list)])?;
    }
    let profiles = going.iter().map(|(_, uri, _)| [uri.to_value()]);
    tx.run_all(
        "DELETE FROM versions WHERE actor = ?1 AND object = ?1 AND relation = 'profile'",
        profiles,
    )?;
    Ok(())
}
