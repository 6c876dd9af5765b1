//! Business cards (XEP-0054): what an app wrote, with the name and the picture that people have on
//! their profile.

use weir_base::Id;
use weir_community::accounts::{self, DISPLAY_NAME_CHARACTERS_MAX, ProfileChange};
use weir_community::chat::address::{self, Whom};
use weir_community::chat::private;

use super::{Answer, Asked};
use crate::face::Xmpp;
use crate::pubsub::avatar::{self, Picture};
use crate::wire::{Condition, Element, Jid, Scope, StanzaError, ns, parse, write};

/// `<vCard/>`
pub async fn card(asked: Asked) -> Answer {
    if asked.set {
        return change(asked).await;
    }
    shown_at(&asked.xmpp, &asked.owner()).await.map(Some)
}

/// The card of the account at `host`.
///
/// # Errors
/// `service-unavailable` where there is none.
pub(super) async fn shown_at(xmpp: &Xmpp, host: &Jid) -> Result<Element, StanzaError> {
    let jid = host.as_str().to_owned();
    let found = xmpp
        .read(move |tx, env| {
            let Whom::Here(account) = address::whom(tx, env, &jid)? else { return Ok(None) };
            let profile = accounts::by_id(tx, account)?;
            let url = env.site.profile_url(&profile.username);
            let kept = private::get(tx, account, private::VCARD)?;
            Ok(Some((profile.display_name, url, kept)))
        })
        .await?;
    let Some((name, url, kept)) = found else {
        return Err(StanzaError::new(Condition::ServiceUnavailable));
    };
    let kept = kept.and_then(|xml| parse::element_in(&xml, &Scope::empty()).ok());
    let mut card = kept.unwrap_or_else(|| Element::new("vCard", ns::VCARD));
    let full_name = card.child("FN", ns::VCARD).map(Element::text);
    if !name.is_empty() && full_name.is_none_or(|full| shown(&full) != name) {
        card.remove_children(|child| child.is("FN", ns::VCARD));
        card = card.with_child(Element::new("FN", ns::VCARD).with_text(name));
    }
    if !card.has("URL", ns::VCARD) {
        card = card.with_child(Element::new("URL", ns::VCARD).with_text(url));
    }
    if let Some(picture) = avatar::current(xmpp, host).await? {
        let text = |name: &'static str, text: &str| Element::new(name, ns::VCARD).with_text(text);
        let photo = Element::new("PHOTO", ns::VCARD)
            .with_child(text("TYPE", &picture.content_type))
            .with_child(text("BINVAL", &picture.text()));
        card = card.with_child(photo);
    }
    Ok(card)
}

async fn change(asked: Asked) -> Answer {
    if !asked.is_own() {
        let text = "only your own card can be changed";
        return Err(StanzaError::new(Condition::Forbidden).text(text));
    }
    let account = asked.own_account()?;
    let mut card = asked.payload;
    let picture = match card.child("PHOTO", ns::VCARD) {
        None => None,
        Some(photo) => {
            let text = |name: &str| photo.child(name, ns::VCARD).map(Element::text);
            let content_type = text("TYPE").unwrap_or_else(|| "image/png".into());
            let data = text("BINVAL").filter(|data| !data.trim().is_empty());
            data.map(|data| Picture::read(&data, &content_type)).transpose()?
        }
    };
    card.remove_children(|child| child.is("PHOTO", ns::VCARD));
    let name = ["FN", "NICKNAME"].into_iter().find_map(|name| {
        let text = shown(&card.child(name, ns::VCARD)?.text());
        (!text.is_empty()).then_some(text)
    });
    keep(&asked.xmpp, account, &card, name).await?;
    let host = asked.from.bare();
    let before = avatar::current(&asked.xmpp, &host).await?;
    let same = |one: &Option<Picture>| one.as_ref().map(Picture::name);
    if same(&before) != same(&picture) {
        avatar::change(&asked.xmpp, account, &host, picture).await?;
    }
    Ok(None)
}

/// The name of a card as the profile shows it.
pub(super) fn shown(name: &str) -> String {
    name.trim().chars().take(DISPLAY_NAME_CHARACTERS_MAX).collect()
}

async fn keep(
    xmpp: &Xmpp,
    account: Id,
    card: &Element,
    name: Option<String>,
) -> Result<(), StanzaError> {
    let xml = write::to_string(card);
    xmpp.write(move |tx, env| {
        private::set(tx, account, private::VCARD, &xml)?;
        let before = accounts::by_id(tx, account)?.display_name;
        if name.as_ref().is_some_and(|name| *name != before) {
            let change = ProfileChange { display_name: name.clone(), ..ProfileChange::default() };
            accounts::update_profile(tx, env, account, &change)?;
        }
        Ok(())
    })
    .await
}
