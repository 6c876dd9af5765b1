//! What people choose for chat.

use serde::{Deserialize, Serialize};
use weir_base::Id;
use weir_db::{Json, Tx, params};

use super::{address, contacts};
use crate::streams::Event;
use crate::{Env, Error};

/// The most addresses in one list of archive preferences.
pub const ARCHIVE_LIST_MAX: usize = 200;

/// Which messages go to one's archive (XEP-0441).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Archive {
    /// For whom neither list says.
    pub default: Keep,
    /// Addresses whose messages always go there.
    #[serde(default)]
    pub always: Vec<String>,
    /// Addresses whose messages never do.
    #[serde(default)]
    pub never: Vec<String>,
}

/// Whose messages go to an archive.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Keep {
    /// Everybody's.
    #[default]
    Always,
    /// Nobody's.
    Never,
    /// Those of one's contacts.
    Roster,
}

impl Archive {
    /// Whether a message with `peer` (with or without a resource) goes to the archive; none when
    /// it depends on whether that is a contact.
    pub fn keeps(&self, peer: &str) -> Option<bool> {
        let names =
            |list: &[String]| list.iter().any(|jid| jid == peer || jid == address::bare(peer));
        if names(&self.never) {
            return Some(false);
        }
        if names(&self.always) {
            return Some(true);
        }
        match self.default {
            Keep::Always => Some(true),
            Keep::Never => Some(false),
            Keep::Roster => None,
        }
    }
}

/// What `account` chose to be archived.
///
/// # Errors
/// The database's.
pub fn archive(tx: &mut Tx, account: Id) -> Result<Archive, Error> {
    let kept: Option<Json<Archive>> = tx.value(
        "SELECT archive FROM chat_settings WHERE account_id = ?1 AND archive IS NOT NULL",
        params![account],
    )?;
    Ok(kept.map(|Json(archive)| archive).unwrap_or_default())
}

/// `account` chooses what is archived from now on.
///
/// # Errors
/// [`Error::Invalid`] when a list is too long.
pub fn set_archive(tx: &mut Tx, account: Id, archive: &Archive) -> Result<(), Error> {
    if archive.always.len().max(archive.never.len()) > ARCHIVE_LIST_MAX {
        let most = format!("has more than {ARCHIVE_LIST_MAX} addresses in a list");
        return Err(Error::invalid("archive", "ERR_TOO_LONG", most));
    }
    let value = (*archive != Archive::default()).then_some(Json(archive));
    tx.run(
        "INSERT INTO chat_settings (account_id, archive) VALUES (?1, ?2)
         ON CONFLICT (account_id) DO UPDATE SET archive = excluded.archive",
        params![account, value],
    )?;
    Ok(())
}

/// Whether those with whom `account` follows each other appear among its contacts.
///
/// # Errors
/// The database's.
pub fn shows_mutuals(tx: &mut Tx, account: Id) -> Result<bool, Error> {
    let sql = "SELECT mutuals FROM chat_settings WHERE account_id = ?1";
    Ok(tx.value(sql, params![account])?.unwrap_or(false))
}

/// `account` chooses whether those with whom it follows each other appear among its contacts.
///
/// # Errors
/// The database's.
pub fn show_mutuals(tx: &mut Tx, env: &Env, account: Id, on: bool) -> Result<(), Error> {
    tx.run(
        "INSERT INTO chat_settings (account_id, mutuals) VALUES (?1, ?2)
         ON CONFLICT (account_id) DO UPDATE SET mutuals = excluded.mutuals",
        params![account, on],
    )?;
    // Whoever chose the same sees their presence, or no longer does.
    for one in contacts::mutual_ids(tx, account)?.into_iter().chain([account]) {
        env.streams.tell_if_here(tx, one, Event::ContactsChanged);
    }
    Ok(())
}
