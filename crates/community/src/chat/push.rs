//! Services that wake people's apps when something comes for them and none is connected (XEP-0357).

use weir_base::Id;
use weir_db::{Tx, params};

use crate::Error;

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
    tx.execute(
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
    tx.execute(
        "DELETE FROM chat_push WHERE account_id = ?1 AND service = ?2
           AND (?3 = '' OR node = ?3)",
        params![account, service, node.unwrap_or_default()],
    )?;
    Ok(())
}
