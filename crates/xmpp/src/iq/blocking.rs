//! Whom one does not want to hear from (XEP-0191).
//!
//! Blocks are made here, by posts' API, and by other servers. Sessions follow all of them in the
//! same way: the community tells whose blocks may have changed, they are read again, and what is
//! another than before takes effect.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use weir_base::Id;
use weir_community::chat::blocks;

use super::{Answer, Asked};
use crate::face::Xmpp;
use crate::roster::load;
use crate::router::{Peer, Router, SHARDS};
use crate::wire::{Condition, Element, Jid, Stanza, StanzaError, ns};

/// The most addresses in one change.
const CHANGES_MAX: usize = 500;
/// Accounts whose blocks are read together.
const READ_AT_ONCE: usize = 256;
/// How often reading begins anew where blocks change meanwhile.
const TRIES: usize = 8;
/// How long a database that cannot be read is left alone.
const PAUSE: Duration = Duration::from_secs(1);

/// Whose blocks may have changed, of those who are here.
#[derive(Default)]
pub(crate) struct Changed {
    accounts: Mutex<HashSet<Id>>,
    all: AtomicBool,
    wake: Notify,
}

impl Changed {
    /// The blocks of `account` may have changed; without one, anybody's.
    pub(crate) fn note(&self, router: &Router, account: Option<Id>) {
        match account {
            Some(account) if router.of_account(account).is_none() => return,
            Some(account) => {
                self.accounts.lock().insert(account);
            }
            None => self.all.store(true, Relaxed),
        }
        self.wake.notify_one();
    }

    fn take(&self, router: &Router) -> Vec<Id> {
        let mut accounts = std::mem::take(&mut *self.accounts.lock());
        if self.all.swap(false, Relaxed) {
            accounts.extend((0..SHARDS).flat_map(|shard| router.accounts_of_shard(shard)));
        }
        accounts.into_iter().collect()
    }
}

/// Has sessions follow whatever changes blocks, until the shutdown.
pub(crate) async fn follow(xmpp: Xmpp) {
    loop {
        tokio::select! {
            () = xmpp.shutdown.cancelled() => return,
            () = xmpp.blocks_changed.wake.notified() => {}
        }
        for accounts in xmpp.blocks_changed.take(&xmpp.router).chunks(READ_AT_ONCE) {
            if let Err(error) = changed(&xmpp, accounts).await {
                tracing::warn!(?error, "blocks could not be read: they are in a moment");
                tokio::time::sleep(PAUSE).await;
                for account in accounts {
                    xmpp.blocks_changed.note(&xmpp.router, Some(*account));
                }
            }
        }
    }
}

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
    loaded(&asked).await?;
    let jids = items(&asked.payload)?;
    if jids.is_empty() {
        let text = "say whom to block, an item each";
        return Err(StanzaError::new(Condition::BadRequest).text(text));
    }
    let unit = asked.xmpp.write(move |tx, env| {
        jids.iter().try_for_each(|jid| blocks::block(tx, env, account, jid.as_str()))
    });
    unit.await?;
    changed(&asked.xmpp, &[account]).await?;
    Ok(None)
}

/// `<unblock/>`: some, or all.
pub async fn unblock(asked: Asked) -> Answer {
    let account = asked.own_account()?;
    loaded(&asked).await?;
    let jids = items(&asked.payload)?;
    let unit = asked.xmpp.write(move |tx, env| {
        if jids.is_empty() {
            blocks::unblock_all(tx, env, account)?;
        }
        jids.iter().try_for_each(|jid| blocks::unblock(tx, env, account, jid.as_str()))
    });
    unit.await?;
    changed(&asked.xmpp, &[account]).await?;
    Ok(None)
}

/// What is blocked before the change is known, so that what changes is.
async fn loaded(asked: &Asked) -> Result<(), StanzaError> {
    match &asked.session {
        Some(session) => load::ensure(&asked.xmpp, session).await,
        None => Ok(()),
    }
}

/// The blocks of these accounts may have changed: whatever did takes effect.
async fn changed(xmpp: &Xmpp, accounts: &[Id]) -> Result<(), StanzaError> {
    let here = |account: &Id| Some((*account, xmpp.router.of_account(*account)?));
    let mut left: Vec<(Id, Arc<Peer>)> = accounts.iter().filter_map(here).collect();
    for _ in 0..TRIES {
        let before: Vec<Option<u64>> = left.iter().map(|(_, peer)| revision(peer)).collect();
        let wanted: Vec<Id> = left.iter().map(|(account, _)| *account).collect();
        if wanted.is_empty() {
            break;
        }
        let mut lists = xmpp.read(move |tx, env| blocks::lists(tx, env, &wanted)).await?;
        let all = std::mem::take(&mut left);
        for ((account, peer), before) in all.into_iter().zip(before) {
            let Some(before) = before else { continue };
            let list = lists.remove(&account).unwrap_or_default();
            if !took_effect(xmpp, &peer, before, list) {
                left.push((account, peer));
            }
        }
    }
    Ok(())
}

fn revision(peer: &Peer) -> Option<u64> {
    peer.here().as_ref().map(|here| here.revision())
}

/// Sessions obey the list from now on, unless something changed since the revision `before`; the
/// person's apps and those who see it or no longer do are told. Whether it is settled.
fn took_effect(xmpp: &Xmpp, peer: &Arc<Peer>, before: u64, list: Vec<String>) -> bool {
    let list: Box<[Box<str>]> = list.into_iter().map(String::into_boxed_str).collect();
    let (begun, ended) = {
        let mut here = peer.here();
        let Some(there) = here.as_mut() else { return true };
        if there.revision() != before {
            return false;
        }
        if there.contacts.is_none() {
            // They are read with the contacts; who reads those now reads again.
            there.revise();
            return true;
        }
        let but = |some: &[Box<str>], others: &[Box<str>]| -> Vec<Jid> {
            let rest = some.iter().filter(|jid| !others.contains(jid));
            rest.filter_map(|jid| Jid::parse(jid).ok()).collect()
        };
        (but(&list, &there.blocked), but(&there.blocked, &list))
    };
    if begun.is_empty() && ended.is_empty() {
        return true;
    }
    // They see us go before the block takes effect.
    show(xmpp, peer, &begun, false);
    {
        let mut here = peer.here();
        let Some(there) = here.as_mut() else { return true };
        if there.revision() != before {
            return false;
        }
        there.blocked = list;
        there.revise();
    }
    push(xmpp, peer, "block", &begun);
    push(xmpp, peer, "unblock", &ended);
    show(xmpp, peer, &ended, true);
    true
}

/// Tells the resources that asked for the list.
fn push(xmpp: &Xmpp, peer: &Arc<Peer>, name: &'static str, jids: &[Jid]) {
    let sessions = match peer.here().as_ref() {
        Some(here) if !jids.is_empty() => here.sessions.clone(),
        _ => return,
    };
    for session in sessions.iter().filter(|session| session.state().wants_blocks) {
        let items = jids.iter().map(|jid| item(jid.as_str().to_owned()));
        let payload = Element::new(name, ns::BLOCKING).with_children(items);
        let push = Stanza::iq("set", xmpp.token(8), Some(payload)).to(session.jid());
        session.send(&push.from(session.jid().bare()));
    }
}

/// Shows or hides the presence of all resources to those of `jids` that see it.
fn show(xmpp: &Xmpp, peer: &Arc<Peer>, jids: &[Jid], on: bool) {
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
        crate::presence::show_all(xmpp, peer, contact, on);
    }
}
