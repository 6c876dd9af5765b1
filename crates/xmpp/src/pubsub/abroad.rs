//! Contacts on other servers: which of their apps are there, as their presence says, and hear of
//! what people of here publish (XEP-0163 §4). What is forgotten for want of room is known again by
//! the next presence.

use std::collections::HashSet;
use std::sync::Arc;

use moka::ops::compute::Op;
use moka::sync::Cache;
use parking_lot::Mutex;

use super::interest::{self, Caps};
use super::notify;
use crate::face::{Work, Xmpp};
use crate::wire::{Jid, Stanza};

/// Apps that are remembered, of all contacts of all people together.
const APPS_MAX: u64 = 100_000;
/// Apps of one contact.
const APPS_OF_ONE_MAX: usize = 32;
/// The longest capabilities that are remembered, in bytes.
const CAPS_BYTES_MAX: usize = 512;
/// Apps that are asked at once what they can.
const ASKED_MAX: usize = 1_000;

/// The apps of contacts on other servers, by who is seen by them and whose they are.
pub(crate) struct Abroad {
    apps: Cache<Box<str>, Arc<[App]>>,
    asked: Mutex<HashSet<Box<str>>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct App {
    resource: Box<str>,
    caps: Caps,
}

impl Default for Abroad {
    fn default() -> Self {
        let apps = Cache::builder()
            .max_capacity(APPS_MAX)
            .weigher(|_, apps: &Arc<[App]>| u32::try_from(apps.len()).unwrap_or(u32::MAX))
            .build();
        Self { apps, asked: Mutex::default() }
    }
}

fn key(owner: &str, contact: &str) -> Box<str> {
    format!("{owner} {contact}").into()
}

impl Abroad {
    /// Apps in memory.
    pub(crate) fn held(&self) -> u64 {
        self.apps.run_pending_tasks();
        self.apps.weighted_size()
    }

    /// `owner` has got presence of the app at `from`; without capabilities, or when it is gone, it
    /// is forgotten. Whether it was not known so before.
    fn note(&self, owner: &str, from: &Jid, caps: Option<&Caps>) -> bool {
        let Some(resource) = from.resource() else { return false };
        let mut is_new = false;
        self.apps.entry(key(owner, from.bare_str())).and_compute_with(|known| {
            let known = known.map(|known| known.into_value());
            let was = known.iter().flat_map(|apps| apps.iter());
            let others = was.clone().filter(|app| *app.resource != *resource);
            is_new = was.clone().all(|app| *app.resource != *resource || Some(&app.caps) != caps);
            let own = caps.map(|caps| App { resource: resource.into(), caps: caps.clone() });
            let apps: Vec<App> = own.into_iter().chain(others.cloned()).collect();
            let apps: Arc<[App]> = apps.into_iter().take(APPS_OF_ONE_MAX).collect();
            match (apps.is_empty(), known) {
                (true, None) => Op::Nop,
                (true, Some(_)) => Op::Remove,
                (false, _) => Op::Put(apps),
            }
        });
        is_new
    }

    /// The apps of `contact` that hear of `node` of `owner`.
    pub(super) fn hearing(&self, xmpp: &Xmpp, owner: &str, contact: &str, node: &str) -> Vec<Jid> {
        let apps = self.apps.get(&key(owner, contact));
        let jids = apps.iter().flat_map(|apps| apps.iter()).filter_map(|app| {
            let jid = Jid::parse(&format!("{contact}/{}", app.resource)).ok()?;
            let wanted = xmpp.interests.of(jid.as_str(), &app.caps)?;
            wanted.iter().any(|name| **name == *node).then_some(jid)
        });
        jids.collect()
    }
}

/// A contact on another server, who sees the presence of `owner`, has sent it presence. Its app is
/// asked for what it wants to hear of where that is not known, and told of what is there when it
/// has just come.
pub(crate) fn presence_arrived(xmpp: &Xmpp, owner: Jid, presence: &Stanza) -> Option<Work> {
    let from = presence.from.clone()?;
    let caps = Caps::of(&presence.element).filter(|caps| caps.bytes() <= CAPS_BYTES_MAX);
    let caps = caps.filter(|_| presence.type_().is_none());
    let is_new = xmpp.abroad.note(owner.as_str(), &from, caps.as_ref());
    let caps = caps?;
    let known = xmpp.interests.of(from.as_str(), &caps);
    if known.as_ref().is_some_and(|wanted| !is_new || wanted.is_empty()) {
        return None;
    }
    let xmpp = xmpp.clone();
    Some(Box::pin(async move {
        let wanted = match known {
            Some(wanted) => wanted,
            None => match ask(&xmpp, &owner, &from, &caps).await {
                Some(wanted) => wanted,
                None => return,
            },
        };
        if !wanted.is_empty() {
            let names = vec![notify::local(owner.as_str()).to_owned()];
            notify::send_last_of(&xmpp, names, from, &wanted).await;
        }
    }))
}

/// Asks an app what it can, in the name of who sees it; not two of the same hash at once.
async fn ask(xmpp: &Xmpp, owner: &Jid, from: &Jid, caps: &Caps) -> Option<interest::Wanted> {
    let hash = caps.key();
    {
        let mut asked = xmpp.abroad.asked.lock();
        if asked.len() >= ASKED_MAX || !asked.insert(hash.clone()) {
            metrics::counter!("weir_xmpp_apps_not_asked_total").increment(1);
            return None;
        }
    }
    let wanted = interest::learn(xmpp, owner.clone(), from.clone(), caps).await;
    xmpp.abroad.asked.lock().remove(&hash);
    wanted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caps(ver: &str) -> Caps {
        Caps { hash: "sha-1".into(), node: "urn:app".into(), ver: ver.into() }
    }

    #[test]
    fn an_app_is_new_when_it_comes_and_when_it_can_something_else() {
        let abroad = Abroad::default();
        let phone = Jid::parse("bob@b.test/phone").unwrap();
        let note = |ver: Option<&str>| abroad.note("alice@a.test", &phone, ver.map(caps).as_ref());
        assert!(note(Some("1")));
        assert!(!note(Some("1")));
        assert!(note(Some("2")));
        note(None);
        assert!(abroad.apps.get(&key("alice@a.test", "bob@b.test")).is_none());
        assert!(note(Some("2")));
    }

    #[test]
    fn of_one_contact_so_many_apps_are_remembered() {
        let abroad = Abroad::default();
        for at in 0..100 {
            let jid = Jid::parse(&format!("bob@b.test/{at}")).unwrap();
            abroad.note("alice@a.test", &jid, Some(&caps("1")));
        }
        let apps = abroad.apps.get(&key("alice@a.test", "bob@b.test")).unwrap();
        assert_eq!(apps.len(), APPS_OF_ONE_MAX);
        assert_eq!(&*apps[0].resource, "99");
    }
}
