//! Messages that nobody was there to receive. They lie in the archive's table; here stands only
//! which of them an account has not been sent.

use weir_base::Id;
use weir_db::{ToValue, Tx, ids, params};

use super::messages::Message;
use crate::Error;

/// The most messages that wait for one account; further ones are refused or go to the archive only.
pub const WAITING_MAX: usize = 1_000;

/// Keeps the stored messages `list` for `account`, as far as there is room, and answers those for
/// which there was none.
///
/// # Errors
/// The database's.
pub fn keep(tx: &mut Tx, account: Id, list: &[Id]) -> Result<Vec<Id>, Error> {
    let sql = "SELECT count(*) FROM chat_offline WHERE account_id = ?1";
    let waiting: usize = tx.query_one(sql, params![account], |row| row.get(0))?;
    let room = WAITING_MAX.saturating_sub(waiting).min(list.len());
    let (kept, left) = list.split_at(room);
    tx.execute_all(
        "INSERT INTO chat_offline (account_id, message_id) VALUES (?1, ?2) ON CONFLICT DO NOTHING",
        kept.iter().map(|id| [account.to_value(), id.to_value()]),
    )?;
    if !left.is_empty() {
        metrics::counter!("weir_community_chat_offline_full_total").increment(left.len() as u64);
    }
    Ok(left.to_vec())
}

/// What waits for `account`, the oldest first.
///
/// # Errors
/// The database's.
pub fn waiting(tx: &mut Tx, account: Id) -> Result<Vec<Message>, Error> {
    Ok(tx.records(
        "SELECT {} FROM chat_messages WHERE id IN
           (SELECT message_id FROM chat_offline WHERE account_id = ?1) ORDER BY id",
        params![account],
    )?)
}

/// `account` has been sent the messages `list`. Those that stand in nobody's archive go.
///
/// # Errors
/// The database's.
pub fn received(tx: &mut Tx, account: Id, list: &[Id]) -> Result<(), Error> {
    if list.is_empty() {
        return Ok(());
    }
    tx.execute(
        "DELETE FROM chat_offline WHERE account_id = ?1 AND message_id IN ids(?2)",
        params![account, ids(list)],
    )?;
    tx.execute(
        "DELETE FROM chat_messages WHERE id IN ids(?1) AND from_id = 0 AND to_id = 0",
        params![ids(list)],
    )?;
    Ok(())
}

/// Takes what waits for `account`, the oldest first: nothing waits afterwards.
///
/// # Errors
/// The database's.
pub fn take(tx: &mut Tx, account: Id) -> Result<Vec<Message>, Error> {
    let found = waiting(tx, account)?;
    let list: Vec<Id> = found.iter().map(|message| message.id).collect();
    received(tx, account, &list)?;
    Ok(found)
}
