//! Business cards of the newer form by query (XEP-0292): the card that was published, or what the
//! older one (XEP-0054) says; always with the name and the picture of the profile.

use super::{Answer, Asked, vcard};
use crate::pubsub::vcard4;
use crate::wire::{Condition, Element, StanzaError, ns};

/// Properties with a text inside that both forms have: by their older and newer names.
const TEXTS: &[(&str, &str)] =
    &[("NICKNAME", "nickname"), ("TITLE", "title"), ("ROLE", "role"), ("DESC", "note")];

/// `<vcard/>`
pub async fn card(asked: Asked) -> Answer {
    if asked.set {
        if !asked.is_own() {
            let text = "only your own card can be changed";
            return Err(StanzaError::new(Condition::Forbidden).text(text));
        }
        let account = asked.own_account()?;
        vcard4::change(&asked.xmpp, account, &asked.from.bare(), asked.payload).await?;
        return Ok(None);
    }
    // Without an account there is none of the older form either.
    let old = vcard::shown_at(&asked.xmpp, &asked.owner()).await?;
    let card = match vcard4::readable(&asked).await? {
        Some(published) => published,
        None => from_old(&old),
    };
    let text = |name: &str| old.child(name, ns::VCARD).map(Element::text).unwrap_or_default();
    let mut card = vcard4::named(card, &vcard::shown(&text("FN")));
    if !card.has("url", ns::VCARD4) {
        card = card.with_child(vcard4::property("url", "uri", text("URL")));
    }
    card.remove_children(|child| child.is("photo", ns::VCARD4));
    let photo = old.child("PHOTO", ns::VCARD).map(|photo| {
        let text = |name: &str| photo.child(name, ns::VCARD).map(Element::text).unwrap_or_default();
        let uri = format!("data:{};base64,{}", text("TYPE"), text("BINVAL"));
        vcard4::property("photo", "uri", uri)
    });
    Ok(Some(card.with_children(photo)))
}

/// What the older form says and the newer one has too.
fn from_old(old: &Element) -> Element {
    let texts = TEXTS.iter().filter_map(|(old_name, name)| {
        let text = old.child(old_name, ns::VCARD)?.text();
        (!text.is_empty()).then(|| vcard4::property(name, "text", text))
    });
    Element::new("vcard", ns::VCARD4).with_children(texts)
}
