//! What people change of themselves and between each other elsewhere, by posts' API or on the web,
//! shows in chat at once: pictures, names, hats, and the group of mutual followers.
//!
//! The community tells whom something changed of. What is shown is read again then, and whoever
//! sees it is told where it is another than before.

use std::collections::BTreeSet;

use parking_lot::Mutex;
use tokio::sync::Notify;
use weir_base::Id;
use weir_community::chat::{address, contacts, nodes};
use weir_community::streams::Aspect;

use crate::face::Xmpp;
use crate::muc;
use crate::pubsub::{avatar, nick, vcard4};
use crate::roster::mutuals;
use crate::router::Router;
use crate::wire::{Jid, StanzaError, ns};

/// Accounts that wait to be looked at; what changes of further ones shows when somebody asks.
const WAITING_MAX: usize = 100_000;

/// Of whom something changed.
#[derive(Default)]
pub(crate) struct Changed {
    waiting: Mutex<Waiting>,
    wake: Notify,
}

#[derive(Default)]
struct Waiting {
    looks: BTreeSet<Id>,
    bonds: BTreeSet<Id>,
}

impl Changed {
    /// This of `account` is another than before.
    pub(crate) fn note(&self, router: &Router, account: Id, aspect: Aspect) {
        if !concerns(router, account, aspect) {
            return;
        }
        let mut waiting = self.waiting.lock();
        let list = match aspect {
            Aspect::Looks => &mut waiting.looks,
            Aspect::Bonds => &mut waiting.bonds,
        };
        if list.len() >= WAITING_MAX {
            metrics::counter!("weir_xmpp_profile_changes_dropped_total").increment(1);
            return;
        }
        list.insert(account);
        drop(waiting);
        self.wake.notify_one();
    }
}

/// Whether somebody in chat may see that this of `account` changed.
pub(crate) fn concerns(router: &Router, account: Id, aspect: Aspect) -> bool {
    match aspect {
        Aspect::Looks => true,
        Aspect::Bonds => mutuals::shows(router, account),
    }
}

/// Has chat follow what changes, until the shutdown.
pub(crate) async fn follow(xmpp: Xmpp) {
    loop {
        tokio::select! {
            () = xmpp.shutdown.cancelled() => return,
            () = xmpp.profiles_changed.wake.notified() => {}
        }
        let Waiting { looks, bonds: mut rosters } =
            std::mem::take(&mut *xmpp.profiles_changed.waiting.lock());
        for account in looks {
            match show(&xmpp, account).await {
                Ok(others) => rosters.extend(others),
                Err(error) => tracing::warn!(%account, ?error, "a changed profile is not shown"),
            }
        }
        for account in rosters {
            if let Err(error) = mutuals::renew(&xmpp, account).await {
                tracing::warn!(%account, ?error, "mutual followers are not shown as they are");
            }
        }
    }
}

/// Shows what `account` looks like now; answers those in whose rosters it may stand otherwise.
async fn show(xmpp: &Xmpp, account: Id) -> Result<Vec<Id>, StanzaError> {
    let (bare, was_published, others) = xmpp
        .read(move |tx, env| {
            let published = nodes::find(tx, account, ns::AVATAR_METADATA)?.is_some()
                || nodes::find(tx, account, ns::NICK)?.is_some()
                || nodes::find(tx, account, ns::VCARD4_NODE)?.is_some();
            let others = contacts::mutual_ids(tx, account)?;
            Ok((address::of_account(tx, env, account)?, published, others))
        })
        .await?;
    let Some(host) = bare.and_then(|bare| Jid::parse(&bare).ok()) else { return Ok(others) };
    // Of others it is published when somebody asks.
    if was_published || xmpp.router.find(host.as_str()).is_some() {
        avatar::refresh(xmpp, &host).await?;
        nick::refresh(xmpp, &host).await?;
        vcard4::refresh(xmpp, &host).await?;
    }
    muc::hats::renew(xmpp, &host).await;
    Ok(others)
}
