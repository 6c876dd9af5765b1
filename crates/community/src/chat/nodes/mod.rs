//! Nodes to which one publishes (XEP-0060): those of an account (XEP-0163), and those of the
//! service.

mod config;
mod items;
mod people;

use weir_base::Id;
use weir_db::{Json, Tx, params};

use crate::{Env, Error};

pub use config::{Access, Config, Notification, Publish, SendLast};
pub use items::{
    ITEM_BYTES_MAX, Item, Published, item_names, items, last, last_of, publish, purge, retract,
};
pub use people::{
    Affiliation, Standing, Subscription, affiliate, affiliations, affiliations_of, may_publish,
    may_read, pending_of, standing, subscribe, subscribers, subscriptions_of, unsubscribe,
};

/// The owner of the nodes that belong to nobody's account.
pub const SERVICE: Id = Id::ZERO;
/// The most nodes of one account.
pub const NODES_MAX: usize = 200;
/// The most nodes of the service.
pub const SERVICE_NODES_MAX: usize = 10_000;
/// The longest name of a node or an item, in bytes.
pub const NAME_BYTES_MAX: usize = 512;

/// A node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Its id.
    pub id: Id,
    /// The account it belongs to, or [`SERVICE`].
    pub owner: Id,
    /// Its name, one of its owner's.
    pub name: String,
    /// How it behaves.
    pub config: Config,
}

fn read(row: &weir_db::Row<'_>) -> Result<Node, weir_db::Error> {
    let Json(config) = row.get(3)?;
    Ok(Node { id: row.get(0)?, owner: row.get(1)?, name: row.get(2)?, config })
}

/// The node `name` of `owner`.
///
/// # Errors
/// The database's.
pub fn find(tx: &mut Tx, owner: Id, name: &str) -> Result<Option<Node>, Error> {
    let sql = "SELECT id, owner_id, name, config FROM chat_nodes WHERE owner_id = ?1 AND name = ?2";
    Ok(tx.query_opt(sql, params![owner, name], read)?)
}

/// The nodes of `owner` in order of their names, after the name `after`, so many at most.
///
/// # Errors
/// The database's.
pub fn list(tx: &mut Tx, owner: Id, after: &str, limit: usize) -> Result<Vec<Node>, Error> {
    Ok(tx.query(
        "SELECT id, owner_id, name, config FROM chat_nodes WHERE owner_id = ?1 AND name > ?2
         ORDER BY name LIMIT ?3",
        params![owner, after, limit],
        read,
    )?)
}

/// Makes the node `name` of `owner`; `creator` owns it where that is not the account's owner.
///
/// # Errors
/// [`Error::Conflict`] when there is one, [`Error::Invalid`] when there are too many.
pub fn create(
    tx: &mut Tx,
    env: &Env,
    owner: Id,
    name: &str,
    config: &Config,
    creator: &str,
) -> Result<Node, Error> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        return Err(Error::invalid("node", "ERR_INVALID", "is empty or too long"));
    }
    let sql = "SELECT count(*) FROM chat_nodes WHERE owner_id = ?1";
    let count: usize = tx.query_one(sql, params![owner], |row| row.get(0))?;
    let most = if owner == SERVICE { SERVICE_NODES_MAX } else { NODES_MAX };
    if count >= most {
        let most = format!("would be more than {most}; delete some first");
        return Err(Error::invalid("nodes", "ERR_LIMIT", most));
    }
    let id = env.ids.next();
    let config = config.clone().within_limits();
    let made = tx.execute(
        "INSERT INTO chat_nodes (id, owner_id, name, config) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT DO NOTHING",
        params![id, owner, name, Json(&config)],
    )?;
    if made == 0 {
        return Err(Error::Conflict(format!("The node {name} is there already")));
    }
    if owner == SERVICE {
        affiliate(tx, id, creator, Affiliation::Owner)?;
    }
    Ok(Node { id, owner, name: name.to_owned(), config })
}

/// Changes how `node` behaves; items beyond its new limit go.
///
/// # Errors
/// The database's.
pub fn configure(tx: &mut Tx, node: &mut Node, config: Config) -> Result<(), Error> {
    node.config = config.within_limits();
    let sql = "UPDATE chat_nodes SET config = ?2 WHERE id = ?1";
    tx.run(sql, params![node.id, Json(&node.config)])?;
    items::trim(tx, node)
}

/// Deletes `node` with all that hangs on it.
///
/// # Errors
/// The database's.
pub fn delete(tx: &mut Tx, node: &Node) -> Result<(), Error> {
    for sql in [
        "DELETE FROM chat_items WHERE node_id = ?1",
        "DELETE FROM chat_node_affiliations WHERE node_id = ?1",
        "DELETE FROM chat_node_subscriptions WHERE node_id = ?1",
        "DELETE FROM chat_nodes WHERE id = ?1",
    ] {
        tx.run(sql, params![node.id])?;
    }
    Ok(())
}
