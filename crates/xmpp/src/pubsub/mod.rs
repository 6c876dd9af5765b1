//! Nodes that one publishes to (XEP-0060): those of accounts (XEP-0163), asked at their bare
//! addresses, and those of the service at `pubsub.` below the domain.

pub(crate) mod abroad;
mod approve;
pub mod avatar;
pub mod bookmarks;
mod disco;
pub mod interest;
mod items;
pub(crate) mod nick;
mod nodes;
mod notify;
mod options;
mod pending;
mod people;
mod publish;
pub(crate) mod vcard4;

use weir_base::Id;
use weir_community::chat::address::{self, Whom};
use weir_community::chat::nodes::{self as noun, Node, Standing};
use weir_community::{Env, Error as CommunityError};
use weir_db::Tx;

use crate::face::{Work, Xmpp};
use crate::iq::{Answer, Asked};
use crate::wire::{Condition, Element, Jid, Kind, Stanza, StanzaError, ns};

pub(crate) use disco::{FEATURES, info, names};

/// What stands before the domain in the address of the service.
pub const LABEL: &str = "pubsub";

/// A query about nodes.
#[derive(Clone)]
pub(crate) struct Call {
    xmpp: Xmpp,
    /// Who asks.
    from: Jid,
    /// Whose nodes: the bare address of an account, or the service.
    host: Jid,
    /// The account of here that asks.
    account: Option<Id>,
    set: bool,
}

/// Why a unit did not do what it was asked for.
#[derive(Debug)]
pub(crate) enum Fault {
    /// It is refused; nothing was written.
    Refused(StanzaError),
    /// The use case's.
    Community(CommunityError),
}

impl From<CommunityError> for Fault {
    fn from(error: CommunityError) -> Self {
        Self::Community(error)
    }
}

impl From<StanzaError> for Fault {
    fn from(error: StanzaError) -> Self {
        Self::Refused(error)
    }
}

/// A refusal is an answer of the unit; another fault is its failure.
fn settled<T>(done: Result<T, Fault>) -> Result<Result<T, StanzaError>, CommunityError> {
    match done {
        Ok(value) => Ok(Ok(value)),
        Err(Fault::Refused(error)) => Ok(Err(error)),
        Err(Fault::Community(error)) => Err(error),
    }
}

/// An error with a condition of XEP-0060.
fn refuse(condition: Condition, specific: &'static str, text: &str) -> StanzaError {
    let specific = Element::new(specific, ns::PUBSUB_ERRORS);
    StanzaError::new(condition).text(text).specific(specific)
}

/// What is not offered, by its name in XEP-0060.
fn unsupported(feature: &str) -> StanzaError {
    let specific = Element::new("unsupported", ns::PUBSUB_ERRORS).with_attr("feature", feature);
    StanzaError::new(Condition::FeatureNotImplemented)
        .text(format!("{feature} is not offered here"))
        .specific(specific)
}

fn bad(text: &str) -> StanzaError {
    StanzaError::new(Condition::BadRequest).text(text)
}

/// `<pubsub/>` at an account, in both namespaces.
pub async fn query(asked: Asked) -> Answer {
    let call = Call {
        host: asked.owner(),
        xmpp: asked.xmpp,
        from: asked.from,
        account: asked.account,
        set: asked.set,
    };
    call.answer(&asked.payload).await
}

/// A stanza for the service.
pub fn receive(xmpp: Xmpp, stanza: Stanza) -> Work {
    Box::pin(async move {
        let (Some(from), Some(to)) = (stanza.from.clone(), stanza.to.clone()) else { return };
        if stanza.kind == Kind::Presence || stanza.is_answer() {
            return;
        }
        if stanza.kind == Kind::Message {
            let call = Call { account: None, from, host: to.bare(), set: true, xmpp: xmpp.clone() };
            if let Err(error) = approve::answered(&call, &stanza.element).await {
                xmpp.send(stanza.error(&error));
            }
            return;
        }
        let unavailable = || Err(StanzaError::new(Condition::ServiceUnavailable));
        let payload = stanza.element.children().next().cloned();
        let answer = match payload {
            _ if to.local().is_some() => unavailable(),
            None => Err(bad("a query has an element inside")),
            Some(payload) => {
                let set = stanza.type_() == Some("set");
                let host = to.bare();
                let call = Call { account: None, from, host, set, xmpp: xmpp.clone() };
                match &*payload.ns {
                    ns::PUBSUB | ns::PUBSUB_OWNER => call.answer(&payload).await,
                    ns::DISCO_INFO => disco::of_service(&call, &payload).await,
                    ns::DISCO_ITEMS => disco::items_of_service(&call, &payload).await,
                    ns::COMMANDS => pending::command(&call, &payload).await,
                    ns::PING => Ok(None),
                    _ => unavailable(),
                }
            }
        };
        let answer = match answer {
            Ok(payload) => stanza.result(payload),
            Err(error) => stanza.error(&error),
        };
        xmpp.send(answer);
    })
}

impl Call {
    /// What the account at `host` does itself.
    fn of_owner(xmpp: &Xmpp, account: Id, host: &Jid) -> Self {
        let (from, host) = (host.clone(), host.clone());
        Self { xmpp: xmpp.clone(), from, host, account: Some(account), set: true }
    }

    async fn answer(&self, payload: &Element) -> Answer {
        let is_owner_verb = payload.ns == ns::PUBSUB_OWNER;
        let Some(verb) = payload.children().find(|child| child.ns == payload.ns) else {
            return Err(bad("say what to do with which node"));
        };
        match (is_owner_verb, self.set, &*verb.name) {
            (false, true, "publish") => publish::publish(self, payload, verb).await,
            (false, true, "retract") => publish::retract(self, verb).await,
            (false, true, "create") => nodes::create(self, payload, verb).await,
            (false, true, "subscribe") => people::subscribe(self, payload, verb).await,
            (false, true, "unsubscribe") => people::unsubscribe(self, verb).await,
            (false, false, "items") => items::items(self, payload, verb).await,
            (false, false, "subscriptions") => people::own_subscriptions(self, verb).await,
            (false, false, "affiliations") => people::own_affiliations(self, verb).await,
            (false, _, "options") => Err(unsupported("subscription-options")),
            (false, false, "default") => Err(unsupported("retrieve-default-sub")),
            (true, _, "configure") => nodes::configure(self, verb).await,
            (true, false, "default") => nodes::default(self).await,
            (true, true, "delete") => nodes::delete(self, verb).await,
            (true, true, "purge") => nodes::purge(self, verb).await,
            (true, _, "subscriptions") => people::subscriptions(self, verb).await,
            (true, _, "affiliations") => people::affiliations(self, verb).await,
            _ => Err(StanzaError::new(Condition::FeatureNotImplemented)
                .text(format!("{} is not offered here", verb.name))),
        }
    }

    /// Whether the nodes are those of the service.
    fn is_service(&self) -> bool {
        self.host.local().is_none()
    }

    /// Whether the nodes are those of who asks.
    fn is_own(&self) -> bool {
        self.account.is_some() && self.from.bare_str() == self.host.as_str()
    }

    /// Runs a unit that reads.
    async fn read<T: Send + 'static>(
        &self,
        mut unit: impl FnMut(&mut Tx, &Env, &Self) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, StanzaError> {
        let call = self.clone();
        self.xmpp.read(move |tx, env| settled(unit(tx, env, &call))).await?
    }

    /// Runs a unit that writes; what it refuses it refuses before it writes.
    async fn write<T: Send + 'static>(
        &self,
        mut unit: impl FnMut(&mut Tx, &Env, &Self) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, StanzaError> {
        let call = self.clone();
        self.xmpp.write(move |tx, env| settled(unit(tx, env, &call))).await?
    }

    /// Whose nodes: the account, or [`noun::SERVICE`].
    fn owner(&self, tx: &mut Tx, env: &Env) -> Result<Id, Fault> {
        if self.is_service() {
            return Ok(noun::SERVICE);
        }
        match address::whom(tx, env, self.host.as_str())? {
            Whom::Here(account) => Ok(account),
            _ => Err(StanzaError::new(Condition::ServiceUnavailable).into()),
        }
    }

    /// The node `name`, and what who asks is to it.
    fn node(&self, tx: &mut Tx, env: &Env, name: &str) -> Result<(Node, Standing), Fault> {
        let owner = self.owner(tx, env)?;
        let missing =
            || StanzaError::new(Condition::ItemNotFound).text(format!("there is no node {name}"));
        let node = noun::find(tx, owner, name)?.ok_or_else(missing)?;
        let standing = noun::standing(tx, &node, self.host.as_str(), self.from.as_str())?;
        Ok((node, standing))
    }

    /// The node `name`, if who asks owns it.
    fn owned(&self, tx: &mut Tx, env: &Env, name: &str) -> Result<Node, Fault> {
        let (node, standing) = self.node(tx, env, name)?;
        if standing.affiliation != noun::Affiliation::Owner {
            let text = "only owners of the node may do this";
            return Err(StanzaError::new(Condition::Forbidden).text(text).into());
        }
        Ok(node)
    }
}

/// That who stands so may read, or why not, as XEP-0060 §6.1.3 says it.
fn check_read(node: &Node, standing: &Standing) -> Result<(), StanzaError> {
    let Err(CommunityError::Forbidden(why)) = noun::may_read(node, standing) else { return Ok(()) };
    Err(match why {
        "presence-subscription-required" => refuse(
            Condition::NotAuthorized,
            "presence-subscription-required",
            "subscribe to the owner's presence first",
        ),
        "not-in-roster-group" => refuse(
            Condition::NotAuthorized,
            "not-in-roster-group",
            "only contacts in certain groups may read this",
        ),
        "not-subscribed" => {
            refuse(Condition::NotAuthorized, "not-subscribed", "subscribe to the node first")
        }
        "closed-node" => {
            refuse(Condition::NotAllowed, "closed-node", "only those on the node's list may read")
        }
        _ => StanzaError::new(Condition::Forbidden).text("you are kept out of this node"),
    })
}

/// The name of the node in `verb`.
fn node_name(verb: &Element) -> Result<String, StanzaError> {
    let name = verb.attr("node").filter(|name| !name.is_empty());
    let missing =
        || refuse(Condition::BadRequest, "nodeid-required", "say which node, in its attribute");
    name.map(str::to_owned).ok_or_else(missing)
}
