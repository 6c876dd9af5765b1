//! Whom one does not want to hear from (XEP-0191).

use weir_community::chat::blocks;

use super::{Answer, Asked};
use crate::face::Xmpp;
use crate::wire::{Condition, Element, Jid, Stanza, StanzaError, ns};

/// The most addresses in one change.
const CHANGES_MAX: usize = 500;

/// `<blocklist/>`
pub async fn list(asked: Asked) -> Answer {
    let account = asked.own_account()?;
    let all = asked.xmpp.read(move |tx, env| blocks::list(tx, env, account)).await?;
    if let Some(session) = &asked.session {
        session.state().wants_blocks = true;
    }
    let items = all.into_iter().map(item);
    Ok(Some(Element::new("blocklist", ns::BLOCKING).with_children(items)))
}

fn item(jid: String) -> Element {
    Element::new("item", ns::BLOCKING).with_attr("jid", jid)
}

fn items(payload: &Element) -> Result<Vec<Jid>, StanzaError> {
    let items = payload.children().filter(|child| child.is("item", ns::BLOCKING));
    let read = |item: &Element| {
        let jid = item.attr("jid").ok_or(Condition::BadRequest)?;
        Jid::parse(jid).map_err(|_| Condition::JidMalformed)
    };
    let all: Vec<Jid> = items.map(read).collect::<Result<_, _>>().map_err(StanzaError::new)?;
    if all.len() > CHANGES_MAX {
        let text = format!("at most {CHANGES_MAX} addresses at a time");
        return Err(StanzaError::new(Condition::PolicyViolation).text(text));
    }
    Ok(all)
}

/// `<block/>`
pub async fn block(asked: Asked) -> Answer {
    let account = asked.own_account()?;
    let jids = items(&asked.payload)?;
    if jids.is_empty() {
        let text = "say whom to block, an item each";
        return Err(StanzaError::new(Condition::BadRequest).text(text));
    }
    let all = jids.clone();
    let now = asked
        .xmpp
        .write(move |tx, env| {
            for jid in &all {
                blocks::block(tx, env, account, jid.as_str())?;
            }
            blocks::list(tx, env, account)
        })
        .await?;
    // They see us go before the block takes effect.
    show(&asked, &jids, false);
    took_effect(&asked.xmpp, asked.from.bare_str(), now);
    push(&asked, "block", &jids);
    Ok(None)
}

/// `<unblock/>`: some, or all.
pub async fn unblock(asked: Asked) -> Answer {
    let account = asked.own_account()?;
    let jids = items(&asked.payload)?;
    let all = jids.clone();
    let (was, now) = asked
        .xmpp
        .write(move |tx, env| {
            let was = match all.is_empty() {
                true => blocks::unblock_all(tx, env, account)?,
                false => Vec::new(),
            };
            for jid in &all {
                blocks::unblock(tx, env, account, jid.as_str())?;
            }
            Ok((was, blocks::list(tx, env, account)?))
        })
        .await?;
    took_effect(&asked.xmpp, asked.from.bare_str(), now);
    push(&asked, "unblock", &jids);
    let freed: Vec<Jid> = match jids.is_empty() {
        true => was.iter().filter_map(|jid| Jid::parse(jid).ok()).collect(),
        false => jids,
    };
    show(&asked, &freed, true);
    Ok(None)
}

/// Sessions obey the list from now on.
fn took_effect(xmpp: &Xmpp, bare: &str, list: Vec<String>) {
    let Some(peer) = xmpp.router.find(bare) else { return };
    if let Some(here) = peer.here().as_mut() {
        here.blocked = list.into_iter().map(String::into_boxed_str).collect();
        here.revision = here.revision.wrapping_add(1);
    }
}

/// Tells the other resources.
fn push(asked: &Asked, name: &'static str, jids: &[Jid]) {
    let Some(peer) = asked.xmpp.router.find(asked.from.bare_str()) else { return };
    let sessions = match peer.here().as_ref() {
        Some(here) => here.sessions.clone(),
        None => return,
    };
    for session in sessions.iter().filter(|session| session.state().wants_blocks) {
        let items = jids.iter().map(|jid| item(jid.as_str().to_owned()));
        let payload = Element::new(name, ns::BLOCKING).with_children(items);
        let push = Stanza::iq("set", asked.xmpp.token(8), Some(payload)).to(session.jid());
        session.send(&push.from(asked.from.bare()));
    }
}

/// Shows or hides the presence of all resources to those of `jids` that see it.
fn show(asked: &Asked, jids: &[Jid], on: bool) {
    let xmpp = &asked.xmpp;
    let Some(peer) = xmpp.router.find(asked.from.bare_str()) else { return };
    let seen_by: Vec<String> = match peer.here().as_ref() {
        Some(here) => {
            let from = here.contacts.iter().flat_map(|contacts| contacts.from());
            from.map(|peer| peer.jid().to_owned()).collect()
        }
        None => return,
    };
    let concerns = |contact: &str| {
        let domain = contact.split_once('@').map_or(contact, |(_, domain)| domain);
        jids.iter().any(|jid| jid.bare_str() == contact || jid.as_str() == domain)
    };
    for contact in seen_by.iter().filter(|contact| concerns(contact)) {
        crate::presence::show_all(xmpp, &peer, contact, on);
    }
}
