//! Reading what was published.

use weir_community::chat::nodes as noun;

use super::{Call, avatar, bookmarks, check_read, node_name, notify};
use crate::iq::Answer;
use crate::wire::{Condition, Element, StanzaError, ns, page};

/// Items on a page at most.
const PAGE_MAX: usize = 250;

/// `<items/>`
pub(super) async fn items(call: &Call, payload: &Element, verb: &Element) -> Answer {
    let name = node_name(verb)?;
    if matches!(name.as_str(), ns::AVATAR_METADATA | ns::AVATAR_DATA) && !call.is_service() {
        avatar::refresh(&call.xmpp, &call.host).await?;
    }
    if name == ns::BOOKMARKS && call.is_own() {
        let all = bookmarks::storage(&call.xmpp, call.account.unwrap_or_default()).await?;
        let item = Element::new("item", ns::PUBSUB).with_attr("id", "current").with_child(all);
        return Ok(Some(told(&name, vec![item])));
    }
    let ids = verb.children().filter(|child| child.is("item", ns::PUBSUB));
    let ids: Vec<String> = ids.filter_map(|item| item.attr("id")).map(str::to_owned).collect();
    let most = match verb.attr("max_items") {
        Some(text) => text.parse().map_err(|_| super::bad("write max_items as a number"))?,
        None => PAGE_MAX,
    };
    let wish = page::Wish::inside(payload)?;
    let found = call
        .read(move |tx, env, call| {
            let (node, who) = call.node(tx, env, &name)?;
            check_read(&node, &who)?;
            let items = noun::items(tx, &node, &ids, None, 1_000)?;
            Ok((node, items, ids.is_empty()))
        })
        .await?;
    let (node, mut items, all) = found;
    let element = |item: &noun::Item| {
        let element = Element::new("item", ns::PUBSUB).with_attr("id", &*item.name);
        let by = call.is_service().then_some(&*item.publisher);
        element.with_attr_opt("publisher", by).with_children(notify::payload(&item.xml))
    };
    if !all {
        if items.is_empty() {
            let text = "there is no such item";
            return Err(StanzaError::new(Condition::ItemNotFound).text(text));
        }
        return Ok(Some(told(&node.name, items.iter().map(element).collect())));
    }
    items.truncate(most.min(1_000));
    items.reverse();
    let named: Vec<_> = items.into_iter().map(|item| (item.name.clone(), item)).collect();
    let (some, set) = page::of(&named, &wish, PAGE_MAX)?;
    let is_whole = some.len() == named.len();
    let answer = told(&node.name, some.iter().map(element).collect());
    Ok(Some(if is_whole { answer } else { answer.with_child(set) }))
}

fn told(node: &str, items: Vec<Element>) -> Element {
    let items = Element::new("items", ns::PUBSUB).with_attr("node", node).with_children(items);
    Element::new("pubsub", ns::PUBSUB).with_child(items)
}
