//! What there is of nodes (XEP-0030).

use weir_community::chat::nodes as noun;

use super::{Call, check_read, options, pending};
use crate::iq::{Answer, Asked};
use crate::wire::{Element, ns, page};

/// Nodes on a page of a list.
const PAGE_MAX: usize = 200;

pub(super) fn call_of(asked: &Asked) -> Call {
    Call {
        xmpp: asked.xmpp.clone(),
        from: asked.from.clone(),
        host: asked.owner(),
        account: asked.account,
        set: false,
    }
}

/// `disco#info` of a node of an account.
pub(crate) async fn info(asked: &Asked, node: &str) -> Answer {
    node_info(&call_of(asked), node).await
}

/// `disco#items` of an account: its nodes.
pub(crate) async fn names(asked: &Asked) -> Answer {
    items(&call_of(asked), &asked.payload).await
}

/// `disco#info` of the service.
pub(super) async fn of_service(call: &Call, payload: &Element) -> Answer {
    if let Some(node) = payload.attr("node") {
        return node_info(call, node).await;
    }
    let identity = Element::new("identity", ns::DISCO_INFO)
        .with_attr("category", "pubsub")
        .with_attr("type", "service")
        .with_attr("name", "Nodes");
    let own = [ns::COMMANDS, ns::DISCO_INFO, ns::DISCO_ITEMS, ns::PUBSUB].map(str::to_owned);
    let verbs = FEATURES.iter().chain(OF_SERVICE).map(|name| format!("{}#{name}", ns::PUBSUB));
    let feature = |var: String| Element::new("feature", ns::DISCO_INFO).with_attr("var", var);
    Ok(Some(
        Element::new("query", ns::DISCO_INFO)
            .with_child(identity)
            .with_children(own.into_iter().chain(verbs).map(feature)),
    ))
}

/// What of XEP-0060 is offered.
pub(crate) const FEATURES: &[&str] = &[
    "access-open",
    "access-presence",
    "access-roster",
    "access-authorize",
    "access-whitelist",
    "auto-create",
    "config-node",
    "config-node-max",
    "create-and-configure",
    "create-nodes",
    "delete-items",
    "delete-nodes",
    "instant-nodes",
    "item-ids",
    "last-published",
    "manage-subscriptions",
    "member-affiliation",
    "meta-data",
    "modify-affiliations",
    "multi-items",
    "outcast-affiliation",
    "persistent-items",
    "publish",
    "publish-only-affiliation",
    "publish-options",
    "publisher-affiliation",
    "purge-nodes",
    "retract-items",
    "retrieve-affiliations",
    "retrieve-default",
    "retrieve-items",
    "retrieve-subscriptions",
    "rsm",
    "subscribe",
];

/// What of it the service alone offers.
const OF_SERVICE: &[&str] = &["get-pending"];

/// `disco#items` of the service.
pub(super) async fn items_of_service(call: &Call, payload: &Element) -> Answer {
    if payload.attr("node") == Some(ns::COMMANDS) {
        return Ok(Some(pending::list(call)));
    }
    items(call, payload).await
}

async fn node_info(call: &Call, node: &str) -> Answer {
    let name = node.to_owned();
    let found = call.read(move |tx, env, call| call.node(tx, env, &name)).await?.0;
    let identity = Element::new("identity", ns::DISCO_INFO)
        .with_attr("category", "pubsub")
        .with_attr("type", "leaf");
    let mut data = options::form(&found.config);
    data.kind = "result".into();
    for field in &mut data.fields {
        if field.var == "FORM_TYPE" {
            field.values = vec![ns::PUBSUB_META_DATA.into()];
        }
    }
    let feature = Element::new("feature", ns::DISCO_INFO).with_attr("var", ns::PUBSUB);
    Ok(Some(
        Element::new("query", ns::DISCO_INFO)
            .with_attr("node", node)
            .with_child(identity)
            .with_child(feature)
            .with_child(data.element()),
    ))
}

async fn items(call: &Call, payload: &Element) -> Answer {
    let wish = page::Wish::inside(payload)?;
    let query = Element::new("query", ns::DISCO_ITEMS);
    let item = |jid: &str| Element::new("item", ns::DISCO_ITEMS).with_attr("jid", jid);
    if let Some(node) = payload.attr("node") {
        let name = node.to_owned();
        let names = call
            .read(move |tx, env, call| {
                let (node, who) = call.node(tx, env, &name)?;
                check_read(&node, &who)?;
                Ok(noun::item_names(tx, &node)?)
            })
            .await?;
        let items = names.into_iter().map(|name| item(call.host.as_str()).with_attr("name", name));
        return Ok(Some(query.with_attr("node", node).with_children(items)));
    }
    let nodes = call
        .read(|tx, env, call| {
            let owner = call.owner(tx, env)?;
            let mut shown = Vec::new();
            for node in noun::list(tx, owner, "", noun::SERVICE_NODES_MAX)? {
                let who = noun::standing(tx, &node, call.host.as_str(), call.from.as_str())?;
                if noun::may_read(&node, &who).is_ok() {
                    shown.push((node.name.clone(), node));
                }
            }
            Ok(shown)
        })
        .await?;
    let (some, set) = page::of(&nodes, &wish, PAGE_MAX)?;
    let is_whole = some.len() == nodes.len();
    let items = some.into_iter().map(|node| {
        let title = Some(node.config.title).filter(|title| !title.is_empty());
        item(call.host.as_str()).with_attr("node", node.name).with_attr_opt("name", title)
    });
    let query = query.with_children(items);
    Ok(Some(if is_whole { query } else { query.with_child(set) }))
}
