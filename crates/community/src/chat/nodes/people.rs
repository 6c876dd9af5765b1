//! Who may do what with a node, and who hears of it.

use weir_base::Id;
use weir_db::{Tx, params};

use super::{Access, Node, Publish};
use crate::Error;
use crate::chat::address;
use crate::chat::contacts::Contact;

/// The most subscribers of one node.
pub const SUBSCRIBERS_MAX: usize = 20_000;
/// The most entries of a node's list of affiliations.
pub const AFFILIATIONS_MAX: usize = 1_000;

/// What one is to a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Affiliation {
    /// Does everything.
    Owner,
    /// Publishes, and reads.
    Publisher,
    /// Publishes, and does not read.
    PublishOnly,
    /// Reads.
    Member,
    /// Nothing special.
    None,
    /// Is kept out.
    Outcast,
}

impl Affiliation {
    /// All, with the names the protocol has for them.
    pub const ALL: [(Self, &'static str); 6] = [
        (Self::Owner, "owner"),
        (Self::Publisher, "publisher"),
        (Self::PublishOnly, "publish-only"),
        (Self::Member, "member"),
        (Self::None, "none"),
        (Self::Outcast, "outcast"),
    ];

    /// Its name in the protocol.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(one, _)| *one == self).map_or("none", |(_, name)| name)
    }

    /// By its name in the protocol.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, one)| *one == name).map(|(found, _)| *found)
    }
}

weir_db::record! {
    /// Someone who hears what is published.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Subscription {
        /// Who, perhaps with a resource.
        pub jid: String,
        /// `subscribed`, or `pending` until an owner approves.
        pub state: String,
    }
}

/// What somebody is to a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// What was decided about them.
    pub affiliation: Affiliation,
    /// Whether they are subscribed.
    pub subscribed: bool,
    /// What they are to the node's owner, if that is an account and knows them.
    pub contact: Option<Contact>,
}

/// What `jid` (any resource) is to `node`. `own` is the address of the account it belongs to.
///
/// # Errors
/// The database's.
pub fn standing(tx: &mut Tx, node: &Node, own: &str, jid: &str) -> Result<Standing, Error> {
    let bare = address::bare(jid);
    if node.owner != super::SERVICE && own == bare {
        let affiliation = Affiliation::Owner;
        return Ok(Standing { affiliation, subscribed: true, contact: None });
    }
    let sql = "SELECT affiliation FROM chat_node_affiliations WHERE node_id = ?1 AND jid = ?2";
    let kept: Option<String> = tx.value(sql, params![node.id, bare])?;
    let affiliation = kept.and_then(|name| Affiliation::parse(&name));
    let subscribed: Option<i64> = tx.value(
        "SELECT 1 FROM chat_node_subscriptions
         WHERE node_id = ?1 AND (jid = ?2 OR jid = ?3) AND state = 'subscribed'",
        params![node.id, bare, jid],
    )?;
    let contact = match node.owner {
        super::SERVICE => None,
        owner => crate::chat::contacts::get(tx, owner, bare)?,
    };
    Ok(Standing {
        affiliation: affiliation.unwrap_or(Affiliation::None),
        subscribed: subscribed.is_some(),
        contact,
    })
}

/// Whether who stands so to `node` may read it.
///
/// # Errors
/// [`Error::Forbidden`] with the reason: the name of the condition in XEP-0060.
pub fn may_read(node: &Node, who: &Standing) -> Result<(), Error> {
    use Affiliation::{Member, None, Outcast, Owner, PublishOnly, Publisher};
    match who.affiliation {
        Owner | Publisher | Member => return Ok(()),
        Outcast => return Err(Error::Forbidden("outcast")),
        PublishOnly => return Err(Error::Forbidden("publish-only")),
        None => {}
    }
    let listed = who.contact.as_ref().filter(|contact| contact.state.listed);
    let in_group = || {
        let groups = listed.map(|contact| contact.groups.as_slice()).unwrap_or_default();
        groups.iter().any(|group| node.config.groups.contains(group))
    };
    let sees = || who.contact.as_ref().is_some_and(|contact| contact.state.from);
    match node.config.access {
        Access::Open => Ok(()),
        Access::Presence if sees() => Ok(()),
        Access::Presence => Err(Error::Forbidden("presence-subscription-required")),
        Access::Roster if in_group() => Ok(()),
        Access::Roster => Err(Error::Forbidden("not-in-roster-group")),
        Access::Authorize if who.subscribed => Ok(()),
        Access::Authorize => Err(Error::Forbidden("not-subscribed")),
        Access::Whitelist => Err(Error::Forbidden("closed-node")),
    }
}

/// Whether who stands so to `node` may publish to it.
pub fn may_publish(node: &Node, who: &Standing) -> bool {
    use Affiliation::{Outcast, Owner, PublishOnly, Publisher};
    match (who.affiliation, node.config.publish) {
        (Owner | Publisher | PublishOnly, _) => true,
        (Outcast, _) => false,
        (_, Publish::Open) => true,
        (_, Publish::Subscribers) => who.subscribed,
        (_, Publish::Publishers) => false,
    }
}

/// Decides what `jid` (without a resource) is to `node`.
///
/// # Errors
/// [`Error::Invalid`] when the list is full.
pub fn affiliate(tx: &mut Tx, node: Id, jid: &str, to: Affiliation) -> Result<(), Error> {
    let sql = "DELETE FROM chat_node_affiliations WHERE node_id = ?1 AND jid = ?2";
    tx.run(sql, params![node, jid])?;
    if to == Affiliation::None {
        return Ok(());
    }
    let sql = "SELECT count(*) FROM chat_node_affiliations WHERE node_id = ?1";
    let count: usize = tx.query_one(sql, params![node], |row| row.get(0))?;
    if count >= AFFILIATIONS_MAX {
        let most = format!("would be more than {AFFILIATIONS_MAX}; remove some first");
        return Err(Error::invalid("affiliations", "ERR_LIMIT", most));
    }
    tx.run(
        "INSERT INTO chat_node_affiliations (node_id, jid, affiliation) VALUES (?1, ?2, ?3)",
        params![node, jid, to.name()],
    )?;
    Ok(())
}

fn pairs(
    tx: &mut Tx,
    sql: &str,
    values: &[weir_db::Value<'_>],
) -> Result<Vec<(String, Affiliation)>, Error> {
    Ok(tx.query(sql, values, |row| {
        Ok((row.get(0)?, Affiliation::parse(row.str(1)?).unwrap_or(Affiliation::None)))
    })?)
}

/// Everybody who is something to `node`, by address.
///
/// # Errors
/// The database's.
pub fn affiliations(tx: &mut Tx, node: Id) -> Result<Vec<(String, Affiliation)>, Error> {
    let sql = "SELECT jid, affiliation FROM chat_node_affiliations WHERE node_id = ?1 ORDER BY jid";
    pairs(tx, sql, params![node])
}

/// What `jid` is to which nodes of `owner`, by the nodes' names.
///
/// # Errors
/// The database's.
pub fn affiliations_of(
    tx: &mut Tx,
    owner: Id,
    jid: &str,
) -> Result<Vec<(String, Affiliation)>, Error> {
    let sql = "SELECT n.name, a.affiliation FROM chat_nodes n
       JOIN chat_node_affiliations a ON a.node_id = n.id
       WHERE n.owner_id = ?1 AND a.jid = ?2 ORDER BY n.name";
    pairs(tx, sql, params![owner, jid])
}

/// Subscribes `jid` to `node`; `pending` until an owner approves.
///
/// # Errors
/// [`Error::Invalid`] when the list is full.
pub fn subscribe(tx: &mut Tx, node: &Node, jid: &str, pending: bool) -> Result<(), Error> {
    let sql = "SELECT count(*) FROM chat_node_subscriptions WHERE node_id = ?1";
    let count: usize = tx.query_one(sql, params![node.id], |row| row.get(0))?;
    if count >= SUBSCRIBERS_MAX {
        return Err(Error::invalid("subscriptions", "ERR_LIMIT", "are full"));
    }
    let state = if pending { "pending" } else { "subscribed" };
    tx.run(
        "INSERT INTO chat_node_subscriptions (node_id, jid, state) VALUES (?1, ?2, ?3)
         ON CONFLICT (node_id, jid) DO UPDATE SET state = CASE
           WHEN chat_node_subscriptions.state = 'subscribed' THEN 'subscribed'
           ELSE excluded.state END",
        params![node.id, jid, state],
    )?;
    Ok(())
}

/// Ends the subscription of `jid` to `node`; false when there is none.
///
/// # Errors
/// The database's.
pub fn unsubscribe(tx: &mut Tx, node: &Node, jid: &str) -> Result<bool, Error> {
    let sql = "DELETE FROM chat_node_subscriptions WHERE node_id = ?1 AND jid = ?2";
    Ok(tx.execute(sql, params![node.id, jid])? > 0)
}

/// Who is subscribed to `node`, or waits to be.
///
/// # Errors
/// The database's.
pub fn subscribers(tx: &mut Tx, node: &Node) -> Result<Vec<Subscription>, Error> {
    let sql = "SELECT {} FROM chat_node_subscriptions WHERE node_id = ?1 ORDER BY jid";
    Ok(tx.records(sql, params![node.id])?)
}

/// The nodes of the service that `jid` (without a resource) owns and that somebody waits to hear
/// of, so many at most as can be chosen from.
///
/// # Errors
/// The database's.
pub fn pending_of(tx: &mut Tx, jid: &str) -> Result<Vec<String>, Error> {
    Ok(tx.column(
        "SELECT DISTINCT n.name FROM chat_node_affiliations a
           JOIN chat_nodes n ON n.id = a.node_id
           JOIN chat_node_subscriptions s ON s.node_id = n.id
         WHERE a.jid = ?1 AND a.affiliation = 'owner' AND n.owner_id = ?2 AND s.state = 'pending'
         ORDER BY n.name LIMIT 200",
        params![jid, super::SERVICE],
    )?)
}

/// The subscriptions of `jid` (with any resource) to nodes of `owner`: the name of the node, and
/// the subscription.
///
/// # Errors
/// The database's.
pub fn subscriptions_of(
    tx: &mut Tx,
    owner: Id,
    jid: &str,
) -> Result<Vec<(String, Subscription)>, Error> {
    let bare = address::bare(jid);
    Ok(tx.query(
        "SELECT n.name, s.jid, s.state FROM chat_node_subscriptions s
           JOIN chat_nodes n ON n.id = s.node_id
         WHERE (s.jid = ?2 OR s.jid >= ?3 AND s.jid < ?4) AND n.owner_id = ?1
         ORDER BY n.name, s.jid LIMIT 1000",
        params![owner, bare, format!("{bare}/"), format!("{bare}0")],
        |row| Ok((row.get(0)?, Subscription { jid: row.get(1)?, state: row.get(2)? })),
    )?)
}
