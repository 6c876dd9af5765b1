//! Publishing, and taking back.

use weir_base::Id;
use weir_community::Env;
use weir_community::chat::nodes::{self as noun, Node};
use weir_db::Tx;

use super::notify::{self, Event};
use super::{Call, Fault, bad, bookmarks, node_name, options, refuse};
use crate::iq::Answer;
use crate::wire::form::Form;
use crate::wire::{Condition, Element, StanzaError, ns, write};

/// `<publish/>`; a node of one's own is made by it.
pub(super) async fn publish(call: &Call, payload: &Element, verb: &Element) -> Answer {
    let name = node_name(verb)?;
    let mut items = verb.children().filter(|child| child.is("item", ns::PUBSUB));
    let (Some(item), None) = (items.next(), items.next()) else {
        return Err(refuse(Condition::BadRequest, "item-required", "publish one item at a time"));
    };
    let mut inside = item.children();
    let inside = (inside.next(), inside.next());
    if inside.1.is_some() {
        let text = "an item has one element inside";
        return Err(refuse(Condition::BadRequest, "invalid-payload", text));
    }
    let xml = inside.0.map(write::to_string).unwrap_or_default();
    if xml.is_empty() && item.nodes.iter().any(|node| matches!(node, crate::wire::Node::Text(_))) {
        let text = "an item has an element inside, and no text";
        return Err(refuse(Condition::BadRequest, "invalid-payload", text));
    }
    let id = item.attr("id").unwrap_or_default().to_owned();
    let wish = payload.child("publish-options", ns::PUBSUB).and_then(Form::inside);
    if call.is_own() && name == ns::BOOKMARKS {
        let Some(storage) = inside.0 else { return Err(bad("publish a <storage/> there")) };
        let account = call.account.unwrap_or(Id::ZERO);
        bookmarks::replace_all(&call.xmpp, account, &call.host, storage).await?;
        return Ok(Some(published(&name, "current")));
    }
    let new = New { name: name.clone(), id, xml, wish };
    let (event, id) = call.write(move |tx, env, call| put(tx, env, call, &new)).await?;
    notify::send(&call.xmpp, event);
    if call.is_own() && name == ns::AVATAR_METADATA {
        let account = call.account.unwrap_or(Id::ZERO);
        super::avatar::published(&call.xmpp, account, &call.host, item, &id).await?;
    }
    if call.is_own() && name == ns::NICK {
        super::nick::published(&call.xmpp, call.account.unwrap_or(Id::ZERO), item).await?;
    }
    if call.is_own() && name == ns::VCARD4_NODE {
        let account = call.account.unwrap_or(Id::ZERO);
        super::vcard4::published(&call.xmpp, account, &call.host, item).await?;
    }
    Ok(Some(published(&name, &id)))
}

fn published(node: &str, item: &str) -> Element {
    let item = Element::new("item", ns::PUBSUB).with_attr("id", item);
    let publish = Element::new("publish", ns::PUBSUB).with_attr("node", node).with_child(item);
    Element::new("pubsub", ns::PUBSUB).with_child(publish)
}

/// What is to be published.
#[derive(Clone)]
pub(super) struct New {
    pub(super) name: String,
    pub(super) id: String,
    pub(super) xml: String,
    pub(super) wish: Option<Form>,
}

/// Publishes in a unit, and answers what is to be told and the item's name.
pub(super) fn put(
    tx: &mut Tx,
    env: &Env,
    call: &Call,
    new: &New,
) -> Result<(Event, String), Fault> {
    let owner = call.owner(tx, env)?;
    let node = match noun::find(tx, owner, &new.name)? {
        Some(node) => {
            let who = noun::standing(tx, &node, call.host.as_str(), call.from.as_str())?;
            if !noun::may_publish(&node, &who) {
                let text = "you may not publish to this node";
                return Err(StanzaError::new(Condition::Forbidden).text(text).into());
            }
            if let Some(wish) = &new.wish {
                options::demand(&node.config, wish)?;
            }
            node
        }
        None if call.is_own() => {
            let config = options::initial(&new.name);
            let config = match &new.wish {
                Some(wish) => options::changed(&config, wish)?,
                None => config,
            };
            noun::create(tx, env, owner, &new.name, &config, call.host.as_str())?
        }
        None => {
            let text = format!("there is no node {}; create it first", new.name);
            return Err(StanzaError::new(Condition::ItemNotFound).text(text).into());
        }
    };
    let bytes_max = node.config.payload_bytes_max as usize;
    if new.xml.len() > bytes_max {
        let text = format!("this node takes payloads of at most {bytes_max} bytes");
        return Err(refuse(Condition::NotAcceptable, "payload-too-big", &text).into());
    }
    let by = call.from.bare_str();
    let done = noun::publish(tx, env, &node, by, &new.id, &new.xml)?;
    let mut item = Element::new("item", ns::PUBSUB_EVENT).with_attr("id", &*done.name);
    if call.is_service() {
        item.set_attr("publisher", by);
    }
    if node.config.payloads {
        item = item.with_children(notify::payload(&new.xml));
    }
    let items =
        Element::new("items", ns::PUBSUB_EVENT).with_attr("node", &*node.name).with_child(item);
    Ok((notify::event(tx, env, &call.host, &node, items)?, done.name))
}

/// `<retract/>`
pub(super) async fn retract(call: &Call, verb: &Element) -> Answer {
    let name = node_name(verb)?;
    let items = verb.children().filter(|child| child.is("item", ns::PUBSUB));
    let ids: Vec<String> = items.filter_map(|item| item.attr("id")).map(str::to_owned).collect();
    if ids.is_empty() {
        return Err(refuse(Condition::BadRequest, "item-required", "say which items to retract"));
    }
    let tells = matches!(verb.attr("notify"), Some("1" | "true"));
    let event = call
        .write(move |tx, env, call| {
            let (node, who) = call.node(tx, env, &name)?;
            let is_owner = who.affiliation == noun::Affiliation::Owner;
            if !is_owner && !published_all(tx, &node, &ids, call.from.bare_str())? {
                let text = "only owners and those who published an item may retract it";
                return Err(StanzaError::new(Condition::Forbidden).text(text).into());
            }
            let gone = noun::retract(tx, &node, &ids)?;
            if gone.is_empty() {
                let text = "there is no such item";
                return Err(StanzaError::new(Condition::ItemNotFound).text(text).into());
            }
            if !tells && !node.config.tells_retracts {
                return Ok(None);
            }
            let gone = gone
                .iter()
                .map(|id| Element::new("retract", ns::PUBSUB_EVENT).with_attr("id", id.as_str()));
            let items = Element::new("items", ns::PUBSUB_EVENT)
                .with_attr("node", &*node.name)
                .with_children(gone);
            Ok(Some(notify::event(tx, env, &call.host, &node, items)?))
        })
        .await?;
    if let Some(event) = event {
        notify::send(&call.xmpp, event);
    }
    Ok(None)
}

fn published_all(tx: &mut Tx, node: &Node, ids: &[String], by: &str) -> Result<bool, Fault> {
    let items = noun::items(tx, node, ids, None, ids.len())?;
    Ok(!items.is_empty() && items.iter().all(|item| item.publisher == by))
}
