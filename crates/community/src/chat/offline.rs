//! Messages that nobody was there to receive. They lie in the archive's table; here stands only
//! which of them an account has not got.

use weir_base::Id;
use weir_db::{ToValue, Tx, ids, params};

use super::messages::Message;
use crate::Error;

/// The most messages that wait for one account; further ones are refused or go to the archive only.
pub const WAITING_MAX: usize = 1_000;
/// The most messages that are read at once.
pub const READ_MAX: usize = 500;
/// What they may be long, one always being read, in bytes.
pub const READ_BYTES_MAX: usize = 512 * 1024;

/// Messages that wait, as far as they are read at once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Waiting {
    /// The oldest first.
    pub messages: Vec<Message>,
    /// Whether more wait behind them.
    pub has_more: bool,
}

/// Keeps the stored messages `list` for `account`, as far as there is room, and answers those for
/// which there was none.
///
/// # Errors
/// The database's.
pub fn keep(tx: &mut Tx, account: Id, list: &[Id]) -> Result<Vec<Id>, Error> {
    let room = WAITING_MAX.saturating_sub(count(tx, account)?).min(list.len());
    let (kept, left) = list.split_at(room);
    tx.run_all(
        "INSERT INTO chat_offline (account_id, message_id) VALUES (?1, ?2) ON CONFLICT DO NOTHING",
        kept.iter().map(|id| [account.to_value(), id.to_value()]),
    )?;
    if !left.is_empty() {
        metrics::counter!("weir_community_chat_offline_full_total").increment(left.len() as u64);
    }
    Ok(left.to_vec())
}

/// What waits for `account` but those in `but`.
///
/// # Errors
/// The database's.
pub fn waiting(tx: &mut Tx, account: Id, but: &[Id]) -> Result<Waiting, Error> {
    let all: Vec<(Id, usize)> = tx.query(
        "SELECT m.id, length(m.xml) FROM chat_messages m WHERE m.id IN
           (SELECT message_id FROM chat_offline WHERE account_id = ?1) ORDER BY m.id",
        params![account],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    let others: Vec<_> = all.into_iter().filter(|(id, _)| !but.contains(id)).collect();
    let mut bytes = 0;
    let fits = |(_, length): &&(Id, usize)| {
        let is_first = bytes == 0;
        bytes += length;
        is_first || bytes <= READ_BYTES_MAX
    };
    let list: Vec<Id> = others.iter().take(READ_MAX).take_while(fits).map(|(id, _)| *id).collect();
    if list.is_empty() {
        return Ok(Waiting::default());
    }
    let sql = "SELECT {} FROM chat_messages WHERE id IN ids(?1) ORDER BY id";
    let messages = tx.records(sql, &[ids(&list)])?;
    Ok(Waiting { messages, has_more: list.len() < others.len() })
}

/// How many messages wait for `account`.
///
/// # Errors
/// The database's.
pub fn count(tx: &mut Tx, account: Id) -> Result<usize, Error> {
    let sql = "SELECT count(*) FROM chat_offline WHERE account_id = ?1";
    Ok(tx.query_one(sql, params![account], |row| row.get(0))?)
}

/// `account` has the messages `list`. Those that stand in nobody's archive go.
///
/// # Errors
/// The database's.
pub fn received(tx: &mut Tx, account: Id, list: &[Id]) -> Result<(), Error> {
    if list.is_empty() {
        return Ok(());
    }
    tx.run(
        "DELETE FROM chat_offline WHERE account_id = ?1 AND message_id IN ids(?2)",
        params![account, ids(list)],
    )?;
    tx.run(
        "DELETE FROM chat_messages WHERE id IN ids(?1) AND from_id = 0 AND to_id = 0",
        params![ids(list)],
    )?;
    Ok(())
}

/// `account` reads its archive: what stands there does not wait any longer.
///
/// # Errors
/// The database's.
pub fn reads_archive(tx: &mut Tx, account: Id) -> Result<(), Error> {
    tx.run(
        "DELETE FROM chat_offline WHERE account_id = ?1 AND message_id IN
           (SELECT m.id FROM chat_messages m JOIN chat_offline o ON o.message_id = m.id
            WHERE o.account_id = ?1 AND m.to_id = ?1)",
        params![account],
    )?;
    Ok(())
}
