//! Waking people when something comes for them and no app of theirs is connected: by the services
//! of their chat apps (XEP-0357), and by Web Push on the devices that want it.

use std::collections::HashSet;

use weir_base::Id;
use weir_db::{Tx, params};

use super::messages::{Side, pair};
use super::{address, contacts};
use crate::push::SendChat;
use crate::{Env, Error, accounts, notifications};

/// The alert by which a device says that it wants to hear of messages in chat (Web Push).
pub const ALERT: &str = "chat";

/// The most services of one account.
pub const SERVICES_MAX: usize = 20;
/// The longest form of options, in bytes.
pub const OPTIONS_BYTES_MAX: usize = 4 * 1_024;

weir_db::record! {
    /// A service that wakes an app.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Service {
        /// Its address.
        pub service: String,
        /// The app's node there; may be empty.
        pub node: String,
        /// The form to be sent along, as XML; may be empty.
        pub options: String,
    }
}

/// The services of `account`.
///
/// # Errors
/// The database's.
pub fn list(tx: &mut Tx, account: Id) -> Result<Vec<Service>, Error> {
    let sql = "SELECT {} FROM chat_push WHERE account_id = ?1 ORDER BY service, node";
    Ok(tx.records(sql, params![account])?)
}

/// `account` is to be woken by `new`.
///
/// # Errors
/// [`Error::Invalid`] when there are too many, or the options are too long.
pub fn enable(tx: &mut Tx, account: Id, new: &Service) -> Result<(), Error> {
    if new.options.len() > OPTIONS_BYTES_MAX {
        return Err(Error::invalid("options", "ERR_TOO_LONG", "is too long"));
    }
    let is_new = |old: &&Service| old.service != new.service || old.node != new.node;
    if list(tx, account)?.iter().filter(is_new).count() >= SERVICES_MAX {
        let most = format!("would be more than {SERVICES_MAX}; disable some first");
        return Err(Error::invalid("services", "ERR_LIMIT", most));
    }
    tx.run(
        "INSERT INTO chat_push (account_id, service, node, options) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (account_id, service, node) DO UPDATE SET options = excluded.options",
        params![account, new.service, new.node, new.options],
    )?;
    Ok(())
}

/// `account` is no longer to be woken by `service`, at `node` or at all.
///
/// # Errors
/// The database's.
pub fn disable(tx: &mut Tx, account: Id, service: &str, node: Option<&str>) -> Result<(), Error> {
    tx.run(
        "DELETE FROM chat_push WHERE account_id = ?1 AND service = ?2
           AND (?3 = '' OR node = ?3)",
        params![account, service, node.unwrap_or_default()],
    )?;
    Ok(())
}

/// A message that begins to wait for somebody.
#[derive(Debug, Clone)]
pub struct Waits {
    /// The message, which is stored.
    pub message: Id,
    /// Who wrote it.
    pub from: Side,
    /// Whom it is for.
    pub to: Side,
    /// How its text begins; of one without nobody is told.
    pub says: String,
}

/// Tells the devices that want it of messages that wait: of the first of each sender, until the
/// person has come. Of strangers from other servers nobody is told.
///
/// # Errors
/// The database's.
pub fn tell_devices(tx: &mut Tx, env: &Env, list: &[Waits]) -> Result<(), Error> {
    let mut seen = HashSet::new();
    let mut first: Vec<&Waits> = list.iter().filter(|one| !one.says.is_empty()).collect();
    // The oldest come first in the list.
    first.retain(|one| seen.insert((one.to.account, address::bare(&one.from.jid))));
    let people: Vec<Id> = first.iter().filter_map(|one| one.to.account).collect();
    if people.is_empty() {
        return Ok(());
    }
    let mut devices = crate::push::devices(tx, &people)?;
    devices.retain(|device| device.alerts.0.get(ALERT).copied().unwrap_or(false));
    for one in first {
        let own = |to: Id| devices.iter().filter(move |device| device.account_id == to);
        let Some(to) = one.to.account.filter(|to| own(*to).next().is_some()) else { continue };
        if waited_before(tx, to, one)? || !is_told(tx, env, to, one)? {
            continue;
        }
        let mut name = match one.from.account {
            Some(from) => accounts::display_name(tx, from)?,
            None => String::new(),
        };
        if name.is_empty() {
            name = address::bare(&one.from.jid).to_owned();
        }
        for device in own(to) {
            if device.hears(tx, one.from.account)? {
                let (message, says) = (one.message, one.says.clone());
                let (subscription, from, name) = (device.id, one.from.account, name.clone());
                let job = SendChat { subscription, account: to, message, from, name, says };
                env.jobs.enqueue(tx, &job)?;
            }
        }
    }
    Ok(())
}

/// Whether an earlier message between the two waits for `to` still.
fn waited_before(tx: &mut Tx, to: Id, one: &Waits) -> Result<bool, Error> {
    let found: Option<i64> = tx.value(
        "SELECT 1 FROM chat_offline o JOIN chat_messages m ON m.id = o.message_id
         WHERE o.account_id = ?1 AND o.message_id < ?2 AND m.pair = ?3 LIMIT 1",
        params![to, one.message, pair(&one.from.jid, &one.to.jid)],
    )?;
    Ok(found.is_some())
}

fn is_told(tx: &mut Tx, env: &Env, to: Id, one: &Waits) -> Result<bool, Error> {
    let contact = contacts::get(tx, to, address::bare(&one.from.jid))?;
    let is_contact = contact.is_some_and(|contact| contact.state.listed);
    match one.from.account {
        Some(from) => notifications::is_told(tx, env, to, from, is_contact),
        None => Ok(is_contact),
    }
}
