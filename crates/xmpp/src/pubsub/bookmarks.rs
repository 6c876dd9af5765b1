//! Bookmarks: one truth, the node of XEP-0402, also for apps that know only the older forms
//! (XEP-0048 in a node of its own, and in private storage; XEP-0411). What only those have, links
//! to pages, lies beside it.

use std::collections::BTreeMap;

use weir_base::Id;
use weir_community::chat::{nodes as noun, private};

use super::{Call, Fault, notify, options, publish};
use crate::face::Xmpp;
use crate::wire::{Condition, Element, Jid, Scope, StanzaError, ns, parse, write};

/// The paper of bookmarks that are no rooms.
const OTHERS: &str = "storage:bookmarks storage";

/// All bookmarks of `account` in the older form.
pub(crate) async fn storage(xmpp: &Xmpp, account: Id) -> Result<Element, StanzaError> {
    let (items, others) = xmpp
        .read(move |tx, _| {
            let items = match noun::find(tx, account, ns::BOOKMARKS_2)? {
                Some(node) => noun::items(tx, &node, &[], None, 1_000)?,
                None => Vec::new(),
            };
            Ok((items, private::get(tx, account, OTHERS)?))
        })
        .await?;
    let others = others.and_then(|xml| parse::element_in(&xml, &Scope::empty()).ok());
    let others = others.into_iter().flat_map(Element::into_children);
    let rooms = items.iter().rev().filter_map(|item| {
        let new = parse::element_in(&item.xml, &Scope::empty()).ok()?;
        Some(old_form(&item.name, &new))
    });
    let storage = Element::new("storage", ns::BOOKMARKS).with_children(rooms);
    Ok(storage.with_children(others))
}

/// What of a `<storage/>` is no room.
fn others_in(storage: &Element) -> String {
    let others = storage.children().filter(|child| !child.is("conference", ns::BOOKMARKS));
    let kept = Element::new("storage", ns::BOOKMARKS).with_children(others.cloned());
    if kept.nodes.is_empty() { String::new() } else { write::to_string(&kept) }
}

fn old_form(jid: &str, new: &Element) -> Element {
    let mut old = Element::new("conference", ns::BOOKMARKS).with_attr("jid", jid);
    for name in ["name", "autojoin"] {
        if let Some(value) = new.attr(name) {
            old.set_attr(name, value);
        }
    }
    let inside = ["nick", "password"].into_iter().filter_map(|name| {
        let text = new.child(name, ns::BOOKMARKS_2)?.text();
        Some(Element::new(name, ns::BOOKMARKS).with_text(text))
    });
    old.with_children(inside)
}

/// What the older form knows comes from there, what it does not know stays.
fn new_form(old: &Element, before: Option<Element>) -> Element {
    let mut new = Element::new("conference", ns::BOOKMARKS_2);
    for name in ["name", "autojoin"] {
        if let Some(value) = old.attr(name) {
            new.set_attr(name, value);
        }
    }
    for name in ["nick", "password"] {
        if let Some(child) = old.child(name, ns::BOOKMARKS) {
            new = new.with_child(Element::new(name, ns::BOOKMARKS_2).with_text(child.text()));
        }
    }
    let kept = before.and_then(|old| old.child("extensions", ns::BOOKMARKS_2).cloned());
    new.with_children(kept)
}

/// The bookmarks of `account` are those in `storage`, of the older form, from now on.
pub(crate) async fn replace_all(
    xmpp: &Xmpp,
    account: Id,
    host: &Jid,
    storage: &Element,
) -> Result<(), StanzaError> {
    let mut wanted = BTreeMap::new();
    for old in storage.children().filter(|child| child.is("conference", ns::BOOKMARKS)) {
        let jid = old.attr("jid").and_then(|jid| Jid::parse(jid).ok()).ok_or_else(|| {
            StanzaError::new(Condition::BadRequest).text("a bookmark names the room in `jid`")
        })?;
        wanted.insert(jid.as_str().to_owned(), old.clone());
    }
    let others = others_in(storage);
    let call = Call {
        xmpp: xmpp.clone(),
        from: host.clone(),
        host: host.clone(),
        account: Some(account),
        set: true,
    };
    let events = call
        .write(move |tx, env, call| {
            private::set(tx, account, OTHERS, &others)?;
            let node = match noun::find(tx, account, ns::BOOKMARKS_2)? {
                Some(node) => node,
                None => {
                    let config = options::initial(ns::BOOKMARKS_2);
                    noun::create(tx, env, account, ns::BOOKMARKS_2, &config, call.host.as_str())?
                }
            };
            let mut events = Vec::new();
            let mut before = BTreeMap::new();
            for item in noun::items(tx, &node, &[], None, 1_000)? {
                before.insert(item.name, item.xml);
            }
            for (jid, old) in &wanted {
                let xml = before.get(jid);
                let element = xml.and_then(|xml| parse::element_in(xml, &Scope::empty()).ok());
                let new = write::to_string(&new_form(old, element));
                if xml.is_none_or(|xml| *xml != new) {
                    let (name, id) = (ns::BOOKMARKS_2.to_owned(), jid.clone());
                    let new = publish::New { name, id, xml: new, wish: None };
                    events.push(publish::put(tx, env, call, &new)?.0);
                }
            }
            let gone: Vec<String> =
                before.into_keys().filter(|jid| !wanted.contains_key(jid)).collect();
            let gone = noun::retract(tx, &node, &gone)?;
            if !gone.is_empty() {
                let retract = |id: &String| {
                    Element::new("retract", ns::PUBSUB_EVENT).with_attr("id", id.as_str())
                };
                let items = Element::new("items", ns::PUBSUB_EVENT)
                    .with_attr("node", ns::BOOKMARKS_2)
                    .with_children(gone.iter().map(retract));
                events.push(notify::event(tx, env, &call.host, &node, items).map_err(Fault::from)?);
            }
            Ok(events)
        })
        .await?;
    for event in events {
        notify::send(xmpp, event);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_older_form_does_not_know_stays() {
        let new = "<conference xmlns='urn:xmpp:bookmarks:1' name='Tea' autojoin='1'>\
                   <nick>alice</nick><extensions><x xmlns='urn:x'/></extensions></conference>";
        let new = parse::element(new).unwrap();
        let old = old_form("tea@rooms.test", &new);
        assert_eq!(old.attr("jid"), Some("tea@rooms.test"));
        assert_eq!(new_form(&old, Some(new.clone())), new);
    }
}
