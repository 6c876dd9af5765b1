//! Waking apps that are not connected (XEP-0357): when a message waits for somebody, or for a
//! session that no connection serves, the services of that person's apps are told that something
//! does, and nothing of what it says.

use std::collections::HashSet;

use parking_lot::Mutex;
use tokio::sync::Notify;
use weir_base::Id;
use weir_community::chat::address::{self, Whom};
use weir_community::chat::offline;
use weir_community::chat::push::{self, Service};

use crate::face::Xmpp;
use crate::iq::{Answer, Asked};
use crate::wire::form::{Field, Form};
use crate::wire::{Condition, Element, Jid, Scope, Stanza, StanzaError, ns, parse, write};

/// People whose apps wait to be woken; of more, the next message wakes them.
const WAITING_MAX: usize = 100_000;
/// People whose services are read in one unit.
const BATCH_MAX: usize = 200;
/// The longest name of a node, in bytes.
const NODE_BYTES_MAX: usize = 1_024;

/// Whose apps are to be woken, by addresses.
#[derive(Default)]
pub(crate) struct Pushes {
    waiting: Mutex<HashSet<String>>,
    wake: Notify,
}

impl Pushes {
    /// People whose apps wait to be woken.
    pub(crate) fn held(&self) -> u64 {
        self.waiting.lock().len() as u64
    }

    /// This message waits for whom it is for.
    pub(crate) fn wake(&self, message: &Stanza) {
        if let Some(to) = &message.to {
            self.wake_account(to.bare_str());
        }
    }

    /// Messages wait for the person with this address. Many in a moment are one.
    pub(crate) fn wake_account(&self, bare: &str) {
        let mut waiting = self.waiting.lock();
        if waiting.len() < WAITING_MAX && !waiting.contains(bare) {
            waiting.insert(bare.to_owned());
            drop(waiting);
            self.wake.notify_one();
        }
    }

    fn take(&self) -> Vec<String> {
        let mut waiting = self.waiting.lock();
        let some: Vec<String> = waiting.iter().take(BATCH_MAX).cloned().collect();
        some.iter().for_each(|jid| {
            waiting.remove(jid);
        });
        some
    }
}

/// Wakes apps until the shutdown.
pub(crate) async fn run(xmpp: Xmpp) {
    loop {
        let some = xmpp.pushes.take();
        if some.is_empty() {
            tokio::select! {
                () = xmpp.shutdown.cancelled() => return,
                () = xmpp.pushes.wake.notified() => continue,
            }
        }
        let found = xmpp.read(move |tx, env| {
            let mut found = Vec::new();
            for jid in &some {
                let Whom::Here(account) = address::whom(tx, env, jid)? else { continue };
                let services = push::list(tx, account)?;
                if !services.is_empty() {
                    found.push((account, jid.clone(), offline::count(tx, account)?, services));
                }
            }
            Ok(found)
        });
        // What cannot be read now is told with the next message.
        for (account, jid, count, services) in found.await.unwrap_or_default() {
            let Ok(from) = Jid::parse(&jid) else { continue };
            let peer = xmpp.router.find(&jid);
            let unread = peer.and_then(|peer| peer.here().as_ref().map(|here| here.unread_count()));
            let count = count + unread.unwrap_or_default();
            for service in services {
                let told = tell(xmpp.clone(), account, from.clone(), count, service);
                xmpp.spawn(Some(Box::pin(told)));
            }
        }
    }
}

/// Tells one service; one that refuses for good is forgotten.
async fn tell(xmpp: Xmpp, account: Id, from: Jid, count: usize, service: Service) {
    let Ok(to) = Jid::parse(&service.service) else { return };
    let Some(payload) = notification(count, &service) else { return };
    metrics::counter!("weir_xmpp_pushes_total").increment(1);
    let answer = xmpp.request("set", from, to, payload).await;
    if !answer.is_some_and(|answer| refuses(&answer)) {
        return;
    }
    metrics::counter!("weir_xmpp_push_services_forgotten_total").increment(1);
    let Service { service, node, .. } = service;
    let forgotten = xmpp.write(move |tx, _| push::disable(tx, account, &service, Some(&node)));
    if let Err(error) = forgotten.await {
        // It refuses again.
        tracing::debug!(?error, "a push service that refuses could not be forgotten");
    }
}

/// Whether this is the service's own word that it wakes nobody there any more.
fn refuses(answer: &Stanza) -> bool {
    const FOR_GOOD: &[&str] =
        &["item-not-found", "gone", "not-allowed", "forbidden", "not-authorized"];
    let error = answer.element.child("error", ns::CLIENT);
    error.is_some_and(|error| FOR_GOOD.iter().any(|name| error.has(name, ns::STANZA_ERRORS)))
}

/// XEP-0357 section 7.
fn notification(count: usize, to: &Service) -> Option<Element> {
    let summary = Form::result("urn:xmpp:push:summary").with(Field::new(
        "",
        "message-count",
        "",
        count.to_string(),
    ));
    let summary = Form { kind: "submit".into(), ..summary };
    let notification = Element::new("notification", ns::PUSH).with_child(summary.element());
    let item = Element::new("item", ns::PUBSUB).with_child(notification);
    let publish = Element::new("publish", ns::PUBSUB).with_attr("node", to.node.as_str());
    let mut pubsub = Element::new("pubsub", ns::PUBSUB).with_child(publish.with_child(item));
    if !to.options.is_empty() {
        let options = parse::element_in(&to.options, &Scope::client()).ok()?;
        pubsub = pubsub.with_child(Element::new("publish-options", ns::PUBSUB).with_child(options));
    }
    Some(pubsub)
}

fn service_of(asked: &Asked) -> Result<(Jid, Option<String>), StanzaError> {
    let bad = |text: &str| StanzaError::new(Condition::BadRequest).text(text);
    let jid = asked.payload.attr("jid").map(Jid::parse);
    let Some(Ok(jid)) = jid else { return Err(bad("name the service in `jid`")) };
    let node = asked.payload.attr("node").map(str::to_owned);
    if node.as_ref().is_some_and(|node| node.len() > NODE_BYTES_MAX) {
        return Err(bad("the name of the node is too long"));
    }
    Ok((jid, node))
}

/// `<enable/>`
pub async fn enable(asked: Asked) -> Answer {
    let account = asked.own_account()?;
    let (jid, node) = service_of(&asked)?;
    let options = asked.payload.children().find(|child| child.is("x", ns::FORM));
    let options = options.map(write::to_string).unwrap_or_default();
    let service = Service { service: jid.to_string(), node: node.unwrap_or_default(), options };
    asked.xmpp.write(move |tx, _| push::enable(tx, account, &service)).await?;
    Ok(None)
}

/// `<disable/>`
pub async fn disable(asked: Asked) -> Answer {
    let account = asked.own_account()?;
    let (jid, node) = service_of(&asked)?;
    let jid = jid.to_string();
    asked.xmpp.write(move |tx, _| push::disable(tx, account, &jid, node.as_deref())).await?;
    Ok(None)
}
