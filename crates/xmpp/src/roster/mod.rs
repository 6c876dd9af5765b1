//! Contacts (RFC 6121 section 2): the roster that people's apps show.

mod invited;
pub mod load;
pub(crate) mod mutuals;
pub(crate) mod outside;
mod packed;
pub(crate) mod push;
pub(crate) mod subscriptions;

use weir_community::chat::contacts::{self, Contact, Removed};

use crate::iq::{Answer, Asked};
use crate::wire::{Condition, Element, Jid, StanzaError, ns};

/// `<query xmlns='jabber:iq:roster'/>`
pub async fn query(asked: Asked) -> Answer {
    match asked.set {
        true => set(asked).await,
        false => get(asked).await,
    }
}

/// RFC 6121 section 2.1.4.
async fn get(asked: Asked) -> Answer {
    let session = asked.session.clone().ok_or_else(forbidden)?;
    // Changes from here on are pushed, also those that the answer has already.
    session.state().is_interested = true;
    let roster = {
        let _permit = load::arrive(&asked.xmpp).await?;
        load::contacts(&asked.xmpp, &session).await?
    };
    if asked.payload.attr("ver") == Some(&roster.version) {
        return Ok(None);
    }
    let listed = roster.contacts.iter().filter(|contact| contact.state.listed).map(item);
    let query = Element::new("query", ns::ROSTER)
        .with_attr("ver", roster.version.clone())
        .with_children(listed);
    Ok(Some(query))
}

/// RFC 6121 sections 2.3 to 2.5.
async fn set(asked: Asked) -> Answer {
    let account = asked.own_account()?;
    let bad = |text: &str| StanzaError::new(Condition::BadRequest).text(text);
    let mut items = asked.payload.children().filter(|child| child.is("item", ns::ROSTER));
    let (Some(item), None) = (items.next(), items.next()) else {
        return Err(bad("change one contact at a time"));
    };
    let jid = item.attr("jid").map(Jid::parse);
    let Some(Ok(jid)) = jid else { return Err(bad("name the contact in `jid`")) };
    let (jid, own) = (jid.bare(), asked.from.bare());
    let xmpp = asked.xmpp.clone();
    let owner = xmpp.router.peer(own.as_str());
    if item.attr("subscription") == Some("remove") {
        let contact = jid.to_string();
        let removed: Removed =
            xmpp.write(move |tx, env| contacts::remove(tx, env, account, &contact)).await?;
        subscriptions::removed(&xmpp, &owner, &jid, removed);
        return Ok(None);
    }
    if jid == own {
        let text = "nobody is a contact of oneself";
        return Err(StanzaError::new(Condition::NotAllowed).text(text));
    }
    let name = item.attr("name").unwrap_or_default().to_owned();
    let mut groups = Vec::new();
    for group in item.children().filter(|child| child.is("group", ns::ROSTER)) {
        let group = group.text();
        if groups.contains(&group) {
            return Err(bad("a group stands once"));
        }
        groups.push(group);
    }
    let contact = jid.to_string();
    let change = xmpp
        .write(move |tx, env| contacts::set(tx, env, account, &contact, &name, &groups))
        .await?;
    push::apply(&xmpp, &owner, &change);
    Ok(None)
}

fn forbidden() -> StanzaError {
    StanzaError::new(Condition::Forbidden)
}

/// `<item/>`
pub(crate) fn item(contact: &Contact) -> Element {
    let state = contact.state;
    let mut item = Element::new("item", ns::ROSTER)
        .with_attr("jid", contact.jid.clone())
        .with_attr("subscription", state.subscription());
    if !contact.name.is_empty() {
        item.set_attr("name", contact.name.clone());
    }
    if state.asks {
        item.set_attr("ask", "subscribe");
    }
    if state.approved {
        item.set_attr("approved", "true");
    }
    let group = |group: &String| Element::new("group", ns::ROSTER).with_text(group.clone());
    item.with_children(contact.groups.iter().map(group))
}
