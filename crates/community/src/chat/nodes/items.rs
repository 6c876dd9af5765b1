//! What is published to a node.

use weir_base::Id;
use weir_db::{ToValue, Tx, Value, params, texts};

use super::{NAME_BYTES_MAX, Node, SERVICE};
use crate::{Env, Error};

/// The longest item, in bytes.
pub const ITEM_BYTES_MAX: usize = 256 * 1_024;
/// All items of one account's nodes together, in bytes.
pub const BYTES_MAX: u64 = 16 << 20;
/// All items of the service's nodes together, in bytes.
pub const SERVICE_BYTES_MAX: u64 = 1 << 30;

weir_db::record! {
    /// A published item.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Item {
        /// Its name in the node.
        pub name: String,
        /// When it was published; in order of publishing.
        pub id: Id,
        /// Who published it, without a resource.
        pub publisher: String,
        /// The payload; may be empty.
        pub xml: String,
    }
}

/// What became of publishing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Published {
    /// The item's name.
    pub name: String,
    /// Items that went since there is no room for them.
    pub dropped: Vec<String>,
}

/// Publishes `xml` to `node` under `name`, in place of what was there; the empty name gets one.
///
/// # Errors
/// [`Error::Invalid`] when it is too long, or the owner's nodes are full.
pub fn publish(
    tx: &mut Tx,
    env: &Env,
    node: &Node,
    publisher: &str,
    name: &str,
    xml: &str,
) -> Result<Published, Error> {
    if name.len() > NAME_BYTES_MAX || xml.len() > ITEM_BYTES_MAX {
        let most = format!("is longer than {ITEM_BYTES_MAX} bytes, or its id is too long");
        return Err(Error::invalid("item", "ERR_TOO_LONG", most));
    }
    let id = env.ids.next();
    let name = if name.is_empty() { id.to_string() } else { name.to_owned() };
    if !node.config.persist || node.config.items_max == 0 {
        return Ok(Published { name, dropped: Vec::new() });
    }
    let sql = "SELECT coalesce(sum(bytes), 0) FROM chat_nodes WHERE owner_id = ?1";
    let sql = match tx.dialect() {
        weir_db::Dialect::Sqlite => sql.to_owned(),
        // A sum of BIGINTs is a NUMERIC there.
        weir_db::Dialect::Postgres => sql.replace("sum(bytes), 0)", "sum(bytes), 0)::BIGINT"),
    };
    let used: u64 = tx.query_one(&sql, params![node.owner], |row| row.get(0))?;
    let most = if node.owner == SERVICE { SERVICE_BYTES_MAX } else { BYTES_MAX };
    if used + xml.len() as u64 > most {
        let most = format!("would need more than {most} bytes in all; retract something first");
        return Err(Error::invalid("items", "ERR_LIMIT", most));
    }
    let old: Option<i64> = tx.value(
        "SELECT octet_length(xml) FROM chat_items WHERE node_id = ?1 AND name = ?2",
        params![node.id, name],
    )?;
    tx.run(
        "INSERT INTO chat_items (node_id, name, id, publisher, xml) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (node_id, name) DO UPDATE SET id = excluded.id,
           publisher = excluded.publisher, xml = excluded.xml",
        params![node.id, name, id, publisher, xml],
    )?;
    weigh(tx, node, xml.len() as i64 - old.unwrap_or(0))?;
    let dropped = beyond(tx, node)?;
    Ok(Published { name, dropped })
}

/// Counts `bytes` more or less in `node`.
fn weigh(tx: &mut Tx, node: &Node, bytes: i64) -> Result<(), Error> {
    tx.run("UPDATE chat_nodes SET bytes = bytes + ?2 WHERE id = ?1", params![node.id, bytes])?;
    Ok(())
}

/// Removes the items beyond the limit of `node`, the oldest.
fn beyond(tx: &mut Tx, node: &Node) -> Result<Vec<String>, Error> {
    let old: Vec<String> = tx.column(
        "SELECT name FROM chat_items WHERE node_id = ?1 ORDER BY id DESC LIMIT ?3 OFFSET ?2",
        params![node.id, node.config.items_max, super::config::ITEMS_MAX],
    )?;
    retract(tx, node, &old)?;
    Ok(old)
}

/// As its new configuration wants it.
pub(super) fn trim(tx: &mut Tx, node: &Node) -> Result<(), Error> {
    if !node.config.persist {
        return purge(tx, node);
    }
    beyond(tx, node).map(|_| ())
}

/// Takes the items `names` out of `node`; answers those that were there.
///
/// # Errors
/// The database's.
pub fn retract(tx: &mut Tx, node: &Node, names: &[String]) -> Result<Vec<String>, Error> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let gone: Vec<(String, i64)> = tx.query(
        "DELETE FROM chat_items WHERE node_id = ?1 AND name IN texts(?2)
         RETURNING name, octet_length(xml)",
        params![node.id, texts(names)],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    weigh(tx, node, -gone.iter().map(|(_, bytes)| bytes).sum::<i64>())?;
    Ok(gone.into_iter().map(|(name, _)| name).collect())
}

/// Takes all items out of `node`.
///
/// # Errors
/// The database's.
pub fn purge(tx: &mut Tx, node: &Node) -> Result<(), Error> {
    tx.run("DELETE FROM chat_items WHERE node_id = ?1", params![node.id])?;
    tx.run("UPDATE chat_nodes SET bytes = 0 WHERE id = ?1", params![node.id])?;
    Ok(())
}

/// Items of `node`, the newest first: those called `names`, or all; older than `before`; so many at
/// most.
///
/// # Errors
/// The database's.
pub fn items(
    tx: &mut Tx,
    node: &Node,
    names: &[String],
    before: Option<Id>,
    limit: usize,
) -> Result<Vec<Item>, Error> {
    let named = if names.is_empty() { "" } else { "AND name IN texts(?4)" };
    let sql = format!(
        "SELECT {{}} FROM chat_items WHERE node_id = ?1 AND id < ?2 {named}
         ORDER BY id DESC LIMIT ?3"
    );
    let values = [
        node.id.to_value(),
        Value::Int(before.map_or(i64::MAX, |id| id.0)),
        Value::Int(limit as i64),
        texts(names),
    ];
    Ok(tx.records(&sql, &values[..if names.is_empty() { 3 } else { 4 }])?)
}

/// The names of the items of `node`, the oldest first.
///
/// # Errors
/// The database's.
pub fn item_names(tx: &mut Tx, node: &Node) -> Result<Vec<String>, Error> {
    let sql = "SELECT name FROM chat_items WHERE node_id = ?1 ORDER BY id LIMIT ?2";
    Ok(tx.column(sql, params![node.id, super::config::ITEMS_MAX])?)
}

/// The newest item of `node`.
///
/// # Errors
/// The database's.
pub fn last(tx: &mut Tx, node: &Node) -> Result<Option<Item>, Error> {
    Ok(items(tx, node, &[], None, 1)?.pop())
}

/// The newest items of the nodes called `nodes` of the people called `names` that are sent to who
/// comes, each with its owner's name.
///
/// # Errors
/// The database's.
pub fn last_of(
    tx: &mut Tx,
    names: &[String],
    nodes: &[String],
) -> Result<Vec<(String, Node, Item)>, Error> {
    let found: Vec<(String, Node, Item)> = tx.query(
        "SELECT a.username_key, n.id, n.owner_id, n.name, n.config,
           i.name, i.id, i.publisher, i.xml
         FROM accounts a JOIN chat_nodes n ON n.owner_id = a.id
           JOIN chat_items i ON i.node_id = n.id
         WHERE a.username_key IN texts(?1) AND a.domain = '' AND n.name IN texts(?2)
           AND i.id = (SELECT max(id) FROM chat_items WHERE node_id = n.id)",
        &[texts(names), texts(nodes)],
        |row| {
            let weir_db::Json(config) = row.get(4)?;
            let node = Node { id: row.get(1)?, owner: row.get(2)?, name: row.get(3)?, config };
            Ok((row.get(0)?, node, weir_db::Record::read(row, 5)?))
        },
    )?;
    let is_sent = |(_, node, _): &(String, Node, Item)| {
        node.config.send_last == super::SendLast::OnSubAndPresence
    };
    Ok(found.into_iter().filter(is_sent).collect())
}
