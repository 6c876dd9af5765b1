//! XML that people's apps keep here for themselves (XEP-0049), a paper for each name of an element;
//! vCards lie here too.

use weir_base::Id;
use weir_db::{Tx, params};

use crate::Error;

/// The most papers of one account.
pub const PAPERS_MAX: usize = 100;
/// The longest paper, in bytes.
pub const BYTES_MAX: usize = 128 * 1_024;
/// The name of the paper that is the vCard (XEP-0054), which apps do not reach by XEP-0049.
pub const VCARD: &str = "vcard-temp vCard";

/// What `account` keeps under `name`: the namespace and the name of the element.
///
/// # Errors
/// The database's.
pub fn get(tx: &mut Tx, account: Id, name: &str) -> Result<Option<String>, Error> {
    let sql = "SELECT xml FROM chat_private WHERE account_id = ?1 AND name = ?2";
    Ok(tx.value(sql, params![account, name])?)
}

/// `account` keeps `xml` under `name` from now on; the empty text removes it.
///
/// # Errors
/// [`Error::Invalid`] when it is too long, or there are too many.
pub fn set(tx: &mut Tx, account: Id, name: &str, xml: &str) -> Result<(), Error> {
    if name.len() + xml.len() > BYTES_MAX {
        let most = format!("is longer than {BYTES_MAX} bytes");
        return Err(Error::invalid("xml", "ERR_TOO_LONG", most));
    }
    if xml.is_empty() {
        let sql = "DELETE FROM chat_private WHERE account_id = ?1 AND name = ?2";
        tx.run(sql, params![account, name])?;
        return Ok(());
    }
    let sql = "SELECT count(*) FROM chat_private WHERE account_id = ?1 AND name <> ?2";
    let others: usize = tx.query_one(sql, params![account, name], |row| row.get(0))?;
    if others >= PAPERS_MAX {
        let most = format!("would be more than {PAPERS_MAX}; remove some first");
        return Err(Error::invalid("papers", "ERR_LIMIT", most));
    }
    tx.run(
        "INSERT INTO chat_private (account_id, name, xml) VALUES (?1, ?2, ?3)
         ON CONFLICT (account_id, name) DO UPDATE SET xml = excluded.xml",
        params![account, name, xml],
    )?;
    Ok(())
}
