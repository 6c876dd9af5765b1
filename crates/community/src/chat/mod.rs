//! Chat: contacts, messages, rooms, nodes, and what people keep for their apps.
//!
//! Everybody with an account here is reachable under `username@domain`. An address (JID) comes here
//! as normalised text; payloads are XML as text, into which nothing here looks but
//! [`carrier::text_of`].

pub mod address;
pub mod blocks;
pub mod carrier;
pub mod contacts;
pub mod messages;
pub mod nodes;
pub mod offline;
pub mod private;
pub mod push;
pub mod rooms;
pub mod settings;
pub mod subscription;
pub mod uploads;
pub mod writing;

use weir_base::Id;
use weir_db::{Tx, params};

use crate::{Env, Error};

/// What a deleted account leaves behind here besides contacts and messages; `?1` is the account.
const REMAINS: &[&str] = &[
    "DELETE FROM chat_settings WHERE account_id = ?1",
    "DELETE FROM chat_contacts WHERE account_id = ?1",
    "DELETE FROM chat_blocks WHERE account_id = ?1",
    "DELETE FROM chat_offline WHERE account_id = ?1",
    "DELETE FROM chat_private WHERE account_id = ?1",
    "DELETE FROM chat_push WHERE account_id = ?1",
];
/// Where its address stands; `?1` is that.
const MENTIONS: &[&str] = &[
    "DELETE FROM chat_affiliations WHERE jid = ?1",
    "DELETE FROM chat_node_subscriptions WHERE jid = ?1",
];
/// Contacts that are removed at a time.
const CONTACTS_PER_STEP: usize = 50;

/// Takes a slice of what the deleted `account` has here away: contacts both ways, messages out of
/// its archive. What it wrote stays in the archives of the others. False when there is none left.
pub(crate) fn erase(tx: &mut Tx, env: &Env, account: Id) -> Result<bool, Error> {
    let listed: Vec<String> = tx.column(
        "SELECT jid FROM chat_contacts WHERE account_id = ?1 AND state % 2 = 1
         ORDER BY jid LIMIT ?2",
        params![account, CONTACTS_PER_STEP],
    )?;
    for jid in &listed {
        contacts::remove(tx, env, account, jid)?;
    }
    if !listed.is_empty() || messages::leave(tx, account)? || uploads::erase(tx, env, account)? {
        return Ok(true);
    }
    for node in nodes::list(tx, account, "", nodes::NODES_MAX)? {
        nodes::delete(tx, &node)?;
    }
    for sql in REMAINS {
        tx.run(sql, params![account])?;
    }
    if let Some(jid) = address::of_account(tx, env, account)? {
        for sql in MENTIONS {
            tx.run(sql, params![jid])?;
        }
    }
    Ok(false)
}
