//! Those with whom one follows each other, in the roster of who wants that: they come and go as
//! people follow, and are called what they call themselves.

use std::sync::Arc;

use weir_base::Id;
use weir_community::chat::contacts::{self, Change, Contact, MUTUALS, Roster};
use weir_community::chat::subscription::State;

use super::push;
use crate::face::Xmpp;
use crate::router::{Peer, Router};
use crate::wire::StanzaError;

/// How often reading begins anew where contacts change meanwhile.
const TRIES: usize = 8;

/// What of them a person's sessions know.
pub struct Mutuals(Box<[Known]>);

struct Known {
    jid: Box<str>,
    name: Box<str>,
    /// Whether both see the other's presence.
    both: bool,
}

impl Mutuals {
    /// Those of `roster`, where its person wants them.
    pub(super) fn of(roster: &Roster) -> Option<Box<Self>> {
        let known = |contact: &Contact| Known {
            jid: contact.jid.as_str().into(),
            name: contact.name.as_str().into(),
            both: contact.state.to,
        };
        let all = roster.contacts.iter().filter(|one| is_one(one)).map(known);
        roster.shows_mutuals().then(|| Box::new(Self(all.collect())))
    }
}

fn is_one(contact: &Contact) -> bool {
    contact.groups.len() == 1 && contact.groups[0] == MUTUALS
}

/// Whether `account` is here, and those stand in its roster.
pub(crate) fn shows(router: &Router, account: Id) -> bool {
    let peer = router.of_account(account);
    peer.is_some_and(|peer| peer.here().as_ref().is_some_and(|here| here.mutuals.is_some()))
}

/// `account` wants them from now on, or no longer.
///
/// # Errors
/// The database's.
pub(crate) async fn wanted(xmpp: &Xmpp, account: Id) -> Result<(), StanzaError> {
    if let Some(peer) = xmpp.router.of_account(account)
        && let Some(here) = peer.here().as_mut()
    {
        here.mutuals.get_or_insert_with(|| Box::new(Mutuals(Box::default())));
    }
    renew(xmpp, account).await
}

/// The roster of `account` shows those who are it now; its sessions are told what changes.
///
/// # Errors
/// The database's.
pub(crate) async fn renew(xmpp: &Xmpp, account: Id) -> Result<(), StanzaError> {
    let Some(peer) = xmpp.router.of_account(account) else { return Ok(()) };
    for _ in 0..TRIES {
        let before = match peer.here().as_ref() {
            Some(here) if here.mutuals.is_some() => here.revision(),
            _ => return Ok(()),
        };
        let roster = xmpp.read(move |tx, env| contacts::list(tx, env, account)).await?;
        if let Some(changes) = take_over(&peer, before, account, &roster) {
            changes.iter().for_each(|change| push::apply(xmpp, &peer, change));
            break;
        }
    }
    Ok(())
}

/// What is another in `roster` than the sessions know; none where contacts changed since `before`.
fn take_over(peer: &Arc<Peer>, before: u64, account: Id, roster: &Roster) -> Option<Vec<Change>> {
    let mut here = peer.here();
    let Some(there) = here.as_mut() else { return Some(Vec::new()) };
    if there.revision() != before {
        return None;
    }
    let known = std::mem::replace(&mut there.mutuals, Mutuals::of(roster));
    if there.contacts.is_none() {
        // They are read with the contacts; who reads those now reads again.
        there.revise();
        return Some(Vec::new());
    }
    let known = known.map(|known| known.0).unwrap_or_default();
    let change = |contact: Contact, before: State, removed: bool| Change {
        account,
        contact,
        before,
        removed,
        renamed: true,
        version: roster.version.clone(),
        passes: false,
        answers: None,
    };
    let was = |both: bool| State { listed: true, to: both, from: both, ..State::default() };
    let mut changes = Vec::new();
    for contact in roster.contacts.iter().filter(|contact| is_one(contact)) {
        let found = known.iter().find(|one| *one.jid == *contact.jid);
        let is_same = |one: &&Known| *one.name == *contact.name && one.both == contact.state.to;
        if found.filter(is_same).is_none() {
            let before = found.map_or_else(State::default, |one| was(one.both));
            changes.push(change(contact.clone(), before, false));
        }
    }
    let gone = known.iter().filter(|one| {
        // One that is a contact of its own by now was told as such.
        let left = roster.contacts.iter().find(|contact| *contact.jid == *one.jid);
        left.is_none_or(|contact| !contact.state.listed)
    });
    changes.extend(gone.map(|one| {
        let contact = Contact {
            jid: one.jid.to_string(),
            name: String::new(),
            groups: Vec::new(),
            state: State::default(),
            request: String::new(),
        };
        change(contact, was(one.both), true)
    }));
    Some(changes)
}
