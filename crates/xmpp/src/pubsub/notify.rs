//! Telling of what was published: those who subscribed, and for an account's node also those who
//! see its presence and whose apps say that they want to hear (XEP-0163).

use std::collections::BTreeSet;
use std::sync::Arc;

use weir_base::Id;
use weir_community::chat::contacts::{self, Contact};
use weir_community::chat::nodes::{self as noun, Access, Affiliation, Item, Node, Notification};
use weir_community::chat::{address, blocks};
use weir_community::{Env, Error as CommunityError};
use weir_db::Tx;

use crate::face::Xmpp;
use crate::router::{Out, Peer, Session};
use crate::wire::{Element, Jid, Kind, Scope, Stanza, ns, parse};

/// Something to be told of a node.
pub(super) struct Event {
    host: Jid,
    /// Whether anybody is told, and as what.
    notifies: bool,
    kind: Notification,
    node: String,
    inside: Element,
    subscribers: Vec<String>,
    /// Those who may hear of it besides the owner; none: all who see the owner's presence.
    allowed: Option<Vec<String>>,
    /// Who sees the owner's presence, where that is known though the owner may not be here.
    contacts: Vec<String>,
}

impl Event {
    /// Told also while its owner is not here, to those who see its presence when it is.
    ///
    /// # Errors
    /// The database's.
    pub(super) fn seen_by_contacts(
        self,
        tx: &mut Tx,
        env: &Env,
        owner: Id,
    ) -> Result<Self, CommunityError> {
        let all = contacts::list(tx, env, owner)?.contacts;
        let blocked = blocks::list(tx, env, owner)?;
        let sees = |contact: &Contact| contact.state.from && !blocks::has(&blocked, &contact.jid);
        let from = all.into_iter().filter(sees);
        Ok(Self { contacts: from.map(|contact| contact.jid).collect(), ..self })
    }
}

/// `inside` told of `node`: whom it concerns is read in the unit of its cause.
pub(super) fn event(
    tx: &mut Tx,
    env: &Env,
    host: &Jid,
    node: &Node,
    inside: Element,
) -> Result<Event, CommunityError> {
    let subscribers = noun::subscribers(tx, node)?;
    let blocked = match node.owner {
        owner if owner != noun::SERVICE && !subscribers.is_empty() => blocks::list(tx, env, owner)?,
        _ => Vec::new(),
    };
    // Whom the owner blocks hears nothing of it.
    let hears = |jid: &str| !blocks::has(&blocked, jid);
    let heard = subscribers.into_iter().filter(|one| one.state == "subscribed" && hears(&one.jid));
    let allowed = match node.config.access {
        Access::Open | Access::Presence => None,
        Access::Roster => {
            let listed = contacts::groups(tx, node.owner)?;
            let fits =
                |groups: &[String]| groups.iter().any(|group| node.config.groups.contains(group));
            let listed = listed.into_iter().filter(|(_, groups)| fits(groups));
            Some(listed.map(|(jid, _)| jid).collect())
        }
        Access::Authorize | Access::Whitelist => {
            let all = noun::affiliations(tx, node.id)?;
            let reads =
                |one: &Affiliation| !matches!(one, Affiliation::Outcast | Affiliation::PublishOnly);
            Some(all.into_iter().filter(|(_, one)| reads(one)).map(|(jid, _)| jid).collect())
        }
    };
    let (notifies, kind) = (node.config.notifies, node.config.notification);
    let (host, node) = (host.clone(), node.name.clone());
    Ok(Event {
        host,
        notifies,
        kind,
        node,
        inside,
        subscribers: heard.map(|one| one.jid).collect(),
        allowed,
        contacts: Vec::new(),
    })
}

/// A payload as it is kept, to be put inside of an item.
pub(super) fn payload(xml: &str) -> Option<Element> {
    parse::element_in(xml, &Scope::empty()).ok()
}

fn message(host: &Jid, to: &Jid, kind: Notification, inside: Element) -> Stanza {
    let mut message = Stanza::new(Kind::Message).from(host.clone()).to(to.clone());
    if kind == Notification::Headline {
        message.element.set_attr("type", "headline");
    }
    let event = Element::new("event", ns::PUBSUB_EVENT).with_child(inside);
    message.element = message.element.with_child(event);
    message
}

/// Tells everybody whom `event` concerns.
pub(super) fn send(xmpp: &Xmpp, event: Event) {
    if !event.notifies {
        return;
    }
    let message = |to: &Jid| message(&event.host, to, event.kind, event.inside.clone());
    let mut told = BTreeSet::new();
    for jid in &event.subscribers {
        let Ok(jid) = Jid::parse(jid) else { continue };
        xmpp.send(message(&jid));
        told.insert(jid.as_str().to_owned());
    }
    if event.host.local().is_none() {
        return;
    }
    let is_told = |to: &Jid| told.contains(to.bare_str()) || told.contains(to.as_str());
    let (sessions, abroad) = interested(xmpp, &event);
    for session in sessions {
        let to = session.jid();
        if !is_told(&to) {
            session.push(Out::Bytes(message(&to).bytes()));
        }
    }
    for to in abroad.iter().filter(|to| !is_told(to)) {
        metrics::counter!("weir_xmpp_events_abroad_total").increment(1);
        xmpp.send(message(to));
    }
}

/// Who wants to hear of `event` without having subscribed: sessions of here, and addresses of apps
/// on other servers.
fn interested(xmpp: &Xmpp, event: &Event) -> (Vec<Arc<Session>>, Vec<Jid>) {
    let mut peers: Vec<Arc<Peer>> = xmpp.router.find(event.host.as_str()).into_iter().collect();
    let known = peers.first().and_then(|owner| {
        let here = owner.here();
        let here = here.as_ref()?;
        let from = here.contacts.as_ref()?.from();
        // Whom the owner blocks hears nothing of it.
        Some(from.iter().filter(|peer| !here.blocks(peer.jid())).cloned().collect::<Vec<_>>())
    });
    let may = |jid: &str| {
        jid == event.host.as_str()
            || event.allowed.as_ref().is_none_or(|list| list.iter().any(|one| one == jid))
    };
    let mut abroad = Vec::new();
    let mut look_abroad = |jid: &str| {
        if !xmpp.is_of_here(jid) && may(jid) {
            abroad.extend(xmpp.abroad.hearing(xmpp, event.host.as_str(), jid, &event.node));
        }
    };
    match known {
        Some(contacts) => {
            contacts.iter().for_each(|peer| look_abroad(peer.jid()));
            peers.extend(contacts);
        }
        None => {
            event.contacts.iter().for_each(|jid| look_abroad(jid));
            peers.extend(event.contacts.iter().filter_map(|jid| xmpp.router.find(jid)));
        }
    }
    let mut found = Vec::new();
    for peer in peers.iter().filter(|peer| may(peer.jid())) {
        let sessions: Vec<Arc<Session>> = match peer.here().as_ref() {
            Some(here) if !here.blocks(event.host.as_str()) => here.available().cloned().collect(),
            _ => continue,
        };
        found.extend(sessions.into_iter().filter(|one| xmpp.interests.wants(one, &event.node)));
    }
    (found, abroad)
}

/// Sends the last item of a node to one who has just come or subscribed.
pub(super) fn send_item(xmpp: &Xmpp, host: &Jid, to: &Jid, node: &Node, item: &Item) {
    let mut element = Element::new("item", ns::PUBSUB_EVENT).with_attr("id", &*item.name);
    if node.config.payloads {
        element = element.with_children(payload(&item.xml));
    }
    let items =
        Element::new("items", ns::PUBSUB_EVENT).with_attr("node", &*node.name).with_child(element);
    let mut message = message(host, to, node.config.notification, items);
    let delay = Element::new("delay", ns::DELAY).with_attr("stamp", item.id.time().to_string());
    message.element = message.element.with_child(delay);
    xmpp.send(message);
}

/// Sends the newest items of those whose presence `session` sees, and its own, of the nodes that
/// its app wants to hear of.
pub(super) async fn send_last(xmpp: &Xmpp, session: &Arc<Session>, wanted: &[Box<str>]) {
    let mut names = vec![local(session.bare()).to_owned()];
    if let Some(here) = session.peer.here().as_ref() {
        let contacts = here.contacts.iter().flat_map(|contacts| contacts.to());
        let here = contacts.filter(|peer| address::parts(peer.jid()).1 == xmpp.domain());
        names.extend(here.map(|peer| local(peer.jid()).to_owned()));
    }
    send_last_of(xmpp, names, session.jid(), wanted).await;
}

/// Sends `to` the newest items of the people of here called `names`, of the `wanted` nodes.
pub(super) async fn send_last_of(xmpp: &Xmpp, names: Vec<String>, to: Jid, wanted: &[Box<str>]) {
    let wanted: Vec<String> = wanted.iter().map(|name| name.to_string()).collect();
    let asked = to.clone();
    let found = xmpp
        .read(move |tx, env| {
            let found = noun::last_of(tx, &names, &wanted)?;
            let mut owners: Vec<Id> = found.iter().map(|(_, node, _)| node.owner).collect();
            owners.sort_unstable();
            owners.dedup();
            let blocked_by = blocks::who_blocks(tx, env, &owners, asked.as_str())?;
            let mut kept = Vec::with_capacity(found.len());
            for (name, node, item) in found {
                if blocked_by.contains(&node.owner) {
                    continue;
                }
                let host = address::of(env, &name);
                let who = noun::standing(tx, &node, &host, asked.as_str())?;
                if node.config.notifies && noun::may_read(&node, &who).is_ok() {
                    kept.push((host, node, item));
                }
            }
            Ok(kept)
        })
        .await;
    let Ok(found) = found else { return };
    for (host, node, item) in found {
        if let Ok(host) = Jid::parse(&host) {
            send_item(xmpp, &host, &to, &node, &item);
        }
    }
}

/// What stands before the `@`.
pub(super) fn local(bare: &str) -> &str {
    address::parts(bare).0
}
