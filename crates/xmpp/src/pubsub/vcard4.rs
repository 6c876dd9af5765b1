//! Business cards of the newer form (XEP-0292), in the node of XEP-0292 §3.1: the name on one is
//! that of the profile, and a picture inside of one becomes the profile's.

use weir_base::Id;
use weir_community::accounts::{self, DISPLAY_NAME_CHARACTERS_MAX, ProfileChange};
use weir_community::chat::address::{self, Whom};
use weir_community::chat::nodes as noun;

use super::avatar::{self, Picture};
use super::{Call, Fault, check_read, disco, notify, publish};
use crate::face::Xmpp;
use crate::iq::Asked;
use crate::wire::{Element, Jid, Scope, StanzaError, ns, parse, write};

/// The one item of the node.
const ITEM: &str = "current";

/// The text inside of a property: `<fn><text>…</text></fn>`.
fn text_of(card: &Element, name: &str) -> Option<String> {
    let property = card.child(name, ns::VCARD4)?;
    let text = property.children().find(|child| matches!(&*child.name, "text" | "uri"))?.text();
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// A property with a text or an address inside.
pub(crate) fn property(name: &str, kind: &'static str, text: impl Into<String>) -> Element {
    let inside = Element::new(kind, ns::VCARD4).with_text(text.into());
    Element::new(name.to_owned(), ns::VCARD4).with_child(inside)
}

/// The name on a card, as the profile shows it.
fn name_of(card: &Element) -> Option<String> {
    let name = text_of(card, "fn").or_else(|| text_of(card, "nickname"))?;
    Some(name.chars().take(DISPLAY_NAME_CHARACTERS_MAX).collect())
}

/// `card` bears this name.
pub(crate) fn named(mut card: Element, name: &str) -> Element {
    if name.is_empty() || name_of(&card).is_some_and(|known| known == name) {
        return card;
    }
    card.remove_children(|child| child.is("fn", ns::VCARD4));
    card.with_child(property("fn", "text", name))
}

/// The picture inside of a card, as `data:` address.
fn picture_of(card: &Element) -> Result<Option<Picture>, StanzaError> {
    let uri = text_of(card, "photo").unwrap_or_default();
    let data = uri.strip_prefix("data:").and_then(|data| data.split_once(";base64,"));
    data.map(|(content_type, data)| Picture::read(data, content_type)).transpose()
}

/// An app has published `item`: the profile shows its name from now on, and its picture if there
/// is one inside.
pub(super) async fn published(
    xmpp: &Xmpp,
    account: Id,
    host: &Jid,
    item: &Element,
) -> Result<(), StanzaError> {
    let Some(card) = item.child("vcard", ns::VCARD4) else { return Ok(()) };
    if let Some(name) = name_of(card) {
        xmpp.write(move |tx, env| {
            if accounts::by_id(tx, account)?.display_name != name {
                let display_name = Some(name.clone());
                let change = ProfileChange { display_name, ..ProfileChange::default() };
                accounts::update_profile(tx, env, account, &change)?;
            }
            Ok(())
        })
        .await?;
    }
    let Some(picture) = picture_of(card)? else { return Ok(()) };
    let before = avatar::current(xmpp, host).await?;
    if before.is_none_or(|before| before.name() != picture.name()) {
        avatar::change(xmpp, account, host, Some(picture)).await?;
    }
    Ok(())
}

/// `account` publishes `card`, as if an app of it had.
pub(crate) async fn change(
    xmpp: &Xmpp,
    account: Id,
    host: &Jid,
    card: Element,
) -> Result<(), StanzaError> {
    picture_of(&card)?;
    put(xmpp, account, host, write::to_string(&card)).await?;
    let item = Element::new("item", ns::PUBSUB).with_child(card);
    published(xmpp, account, host, &item).await
}

async fn put(xmpp: &Xmpp, account: Id, host: &Jid, xml: String) -> Result<(), StanzaError> {
    let event = Call::of_owner(xmpp, account, host)
        .write(move |tx, env, call| {
            let (name, id) = (ns::VCARD4_NODE.to_owned(), ITEM.to_owned());
            let new = publish::New { name, id, xml: xml.clone(), wish: None };
            Ok(publish::put(tx, env, call, &new)?.0.seen_by_contacts(tx, env, account)?)
        })
        .await?;
    notify::send(xmpp, event);
    Ok(())
}

/// The published card bears the name of the profile at `host`, where there is one.
pub(crate) async fn refresh(xmpp: &Xmpp, host: &Jid) -> Result<(), StanzaError> {
    let jid = host.as_str().to_owned();
    let found = xmpp
        .read(move |tx, env| {
            let Whom::Here(account) = address::whom(tx, env, &jid)? else { return Ok(None) };
            let Some(node) = noun::find(tx, account, ns::VCARD4_NODE)? else { return Ok(None) };
            let Some(last) = noun::last(tx, &node)? else { return Ok(None) };
            Ok(Some((account, accounts::display_name(tx, account)?, last.xml)))
        })
        .await?;
    let Some((account, name, last)) = found else { return Ok(()) };
    let Ok(card) = parse::element_in(&last, &Scope::empty()) else { return Ok(()) };
    let fresh = named(card.clone(), &name);
    if fresh == card {
        return Ok(());
    }
    put(xmpp, account, host, write::to_string(&fresh)).await
}

/// The card that was published, if there is one and who asks may read it.
pub(crate) async fn readable(asked: &Asked) -> Result<Option<Element>, StanzaError> {
    let xml = disco::call_of(asked)
        .read(|tx, env, call| match call.node(tx, env, ns::VCARD4_NODE) {
            Ok((node, who)) if check_read(&node, &who).is_ok() => {
                Ok(noun::last(tx, &node)?.map(|item| item.xml))
            }
            Ok(_) | Err(Fault::Refused(_)) => Ok(None),
            Err(fault) => Err(fault),
        })
        .await?;
    let card = xml.and_then(|xml| parse::element_in(&xml, &Scope::empty()).ok());
    Ok(card.filter(|card| card.is("vcard", ns::VCARD4)))
}
