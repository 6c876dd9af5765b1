//! Asking for presence, granting it, and ending it (RFC 6121 section 3).

use std::sync::Arc;

use weir_base::Id;
use weir_community::chat::address::{self, Whom};
use weir_community::chat::contacts::{self, Change, Exchange, Other, Removed};
use weir_community::chat::subscription::Kind;
use weir_community::{Error, accounts};
use weir_db::Class;

use super::{invited, push};
use crate::face::{Work, Xmpp, fault};
use crate::route::Place;
use crate::router::{Out, Peer, Session};
use crate::wire::{Condition, Element, Jid, Node, Stanza, StanzaError, ns, write};

/// The kind of presence that changes a subscription, by its type.
pub(crate) fn kind(name: &str) -> Option<Kind> {
    Some(match name {
        "subscribe" => Kind::Subscribe,
        "subscribed" => Kind::Subscribed,
        "unsubscribe" => Kind::Unsubscribe,
        "unsubscribed" => Kind::Unsubscribed,
        _ => return None,
    })
}

fn name(kind: Kind) -> &'static str {
    match kind {
        Kind::Subscribe => "subscribe",
        Kind::Subscribed => "subscribed",
        Kind::Unsubscribe => "unsubscribe",
        Kind::Unsubscribed => "unsubscribed",
    }
}

fn presence(kind: Kind, from: &Jid, to: &Jid) -> Stanza {
    Stanza::presence(Some(name(kind))).from(from.bare()).to(to.bare())
}

/// A session sends one of the four. Between bare addresses, whatever was written.
pub(crate) fn sent(
    xmpp: &Xmpp,
    session: &Arc<Session>,
    kind: Kind,
    mut presence: Stanza,
) -> Option<Work> {
    let Some(to) = presence.to.as_ref().map(Jid::bare) else {
        let text = "say in `to` whom it is for";
        let error = StanzaError::new(Condition::BadRequest).text(text);
        session.send(&presence.error(&error));
        return None;
    };
    if session.peer.blocks(to.as_str()) {
        let text = "you have blocked this contact: unblock it first";
        let error = StanzaError::new(Condition::NotAcceptable).text(text);
        session.send(&presence.error(&error));
        return None;
    }
    let own = session.jid().bare();
    if to == own {
        return None;
    }
    presence.from = Some(own.clone());
    presence.to = Some(to.clone());
    let (xmpp, session) = (xmpp.clone(), session.clone());
    Some(Box::pin(async move {
        let by = (session.account, &session.peer);
        if let Err(error) = exchange(&xmpp, by, kind, presence.clone()).await {
            session.send(&presence.error(&fault(error)));
        }
    }))
}

/// `account`, whose sessions are at `owner`, sends one of the four between the bare addresses that
/// `presence` has.
pub(super) async fn exchange(
    xmpp: &Xmpp,
    (account, owner): (Id, &Arc<Peer>),
    kind: Kind,
    mut presence: Stanza,
) -> Result<(), Error> {
    let (Some(own), Some(to)) = (presence.from.clone(), presence.to.clone()) else {
        return Ok(());
    };
    presence.element.set_attr("type", name(kind));
    let jid = to.to_string();
    let is_nameless = kind == Kind::Subscribe && !presence.element.has("nick", ns::NICK);
    let token = invited::token(kind, &presence);
    let back = self::presence(Kind::Subscribe, &to, &own);
    let asks_back = back.clone();
    let unit = xmpp.community.write(Class::Interactive, move |tx, env| {
        let mut presence = presence.clone();
        let inviter = match (&token, address::whom(tx, env, &jid)?) {
            (Some(token), Whom::Here(other)) => {
                let own = asks_back.to.as_ref().map(Jid::as_str).unwrap_or_default();
                invited::approve(tx, env, other, own, token)?.then_some(other)
            }
            _ => None,
        };
        if is_nameless {
            introduce(&accounts::display_name(tx, account)?, &mut presence);
        }
        let request = write::to_string(&presence.to_element());
        let exchange = contacts::exchange(tx, env, account, kind, &jid, &request)?;
        // Nobody of that name: the answer comes at once.
        let refused = exchange.theirs == Other::Nobody && kind == Kind::Subscribe;
        let refused = match refused {
            true => contacts::receive(tx, env, account, Kind::Unsubscribed, &jid, "")?,
            false => None,
        };
        let asked_back = match inviter {
            Some(inviter) => invited::ask_back(tx, env, inviter, &asks_back)?,
            None => None,
        };
        Ok((presence, exchange, refused, asked_back))
    });
    let (presence, exchange, refused, asked_back) = unit.await?;
    exchanged(xmpp, owner, &to, presence, exchange);
    if let Some(exchange) = asked_back {
        let inviter = xmpp.router.peer(to.as_str());
        exchanged(xmpp, &inviter, &own, back, exchange);
    }
    if let Some(change) = refused {
        deliver(owner, &self::presence(Kind::Unsubscribed, &to, &own));
        push::apply(xmpp, owner, &change);
    }
    Ok(())
}

/// Whoever is asked is told what the person calls themselves (XEP-0172 section 4.2).
fn introduce(name: &str, presence: &mut Stanza) {
    // Without a name it goes by its address.
    if !name.is_empty() {
        let nick = Element::new("nick", ns::NICK).with_text(name);
        presence.element.nodes.push(Node::Element(nick));
    }
}

/// What became of it is told to both sides.
fn exchanged(xmpp: &Xmpp, owner: &Arc<Peer>, to: &Jid, stanza: Stanza, exchange: Exchange) {
    let answer = match &exchange.theirs {
        Other::Here(theirs) => theirs.answers,
        _ => None,
    };
    if let (Some(answer), Some(own)) = (answer, &stanza.from) {
        deliver(owner, &presence(answer, to, own));
    }
    push::apply(xmpp, owner, &exchange.mine);
    other_side(xmpp, to, stanza, exchange);
}

fn other_side(xmpp: &Xmpp, to: &Jid, stanza: Stanza, exchange: Exchange) {
    match exchange.theirs {
        Other::Elsewhere if exchange.mine.passes => xmpp.send(stanza),
        Other::Here(theirs) => {
            let peer = xmpp.router.peer(to.as_str());
            if theirs.passes {
                deliver(&peer, &stanza);
            }
            push::apply(xmpp, &peer, &theirs);
        }
        Other::Elsewhere | Other::Nobody | Other::Deaf => {}
    }
}

/// To the available resources that look after the roster.
fn deliver(owner: &Arc<Peer>, stanza: &Stanza) {
    let bytes = stanza.bytes();
    let here = owner.here();
    for session in here.iter().flat_map(|here| here.available()) {
        session.push(Out::Bytes(bytes.clone()));
    }
}

/// A contact was taken off the roster (RFC 6121 section 2.5).
pub(super) fn removed(xmpp: &Xmpp, owner: &Arc<Peer>, jid: &Jid, removed: Removed) {
    push::apply(xmpp, owner, &removed.mine);
    let Ok(own) = Jid::parse(owner.jid()) else { return };
    for (kind, exchange) in removed.told {
        other_side(xmpp, jid, presence(kind, &own, jid), exchange);
    }
}

/// One of the four has come for an account of here, from another server or a service.
pub(crate) fn received(xmpp: &Xmpp, kind: Kind, mut presence: Stanza) -> Option<Work> {
    let (from, to) = (presence.from.as_ref()?.bare(), presence.to.as_ref()?.bare());
    // People of here change both sides at once, and never come this way.
    if matches!(xmpp.place(&from), Place::Account) {
        return None;
    }
    presence.from = Some(from.clone());
    presence.to = Some(to.clone());
    let request = write::to_string(&presence.to_element());
    let xmpp = xmpp.clone();
    Some(Box::pin(async move {
        let (owner, jid) = (to.to_string(), from.to_string());
        let token = invited::token(kind, &presence);
        let back = self::presence(Kind::Subscribe, &to, &from);
        let asks_back = back.clone();
        let unit = xmpp.write(move |tx, env| {
            let Whom::Here(account) = address::whom(tx, env, &owner)? else {
                return Ok((false, None, None));
            };
            let is_invited = match &token {
                Some(token) => invited::approve(tx, env, account, &jid, token)?,
                None => false,
            };
            let change = contacts::receive(tx, env, account, kind, &jid, &request)?;
            let back = match is_invited {
                true => invited::ask_back(tx, env, account, &asks_back)?,
                false => None,
            };
            Ok((true, change, back))
        });
        let (exists, change, asked_back): (bool, Option<Change>, _) = match unit.await {
            Ok(done) => done,
            Err(error) => {
                let work = xmpp.bounce(&presence, &error);
                xmpp.spawn(work);
                return;
            }
        };
        if !exists && kind == Kind::Subscribe {
            xmpp.send(self::presence(Kind::Unsubscribed, &to, &from));
        }
        let Some(change) = change else { return };
        let peer = xmpp.router.peer(to.as_str());
        if change.passes {
            deliver(&peer, &presence);
        }
        push::apply(&xmpp, &peer, &change);
        if let Some(answer) = change.answers {
            xmpp.send(self::presence(answer, &to, &from));
        }
        if let Some(exchange) = asked_back {
            exchanged(&xmpp, &peer, &from, back, exchange);
        }
    }))
}

/// Whether the person at the bare address `owner` shows its presence to `whom`, as the rows say.
pub(crate) async fn shows(xmpp: &Xmpp, owner: String, whom: String) -> bool {
    let found = xmpp.read(move |tx, env| match address::whom(tx, env, &owner)? {
        Whom::Here(account) => contacts::get(tx, account, &whom),
        _ => Ok(None),
    });
    matches!(found.await, Ok(Some(contact)) if contact.state.from)
}
