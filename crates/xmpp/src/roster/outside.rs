//! What people do about their contacts from outside of chat: as their apps do, who are told.

use weir_base::Id;
use weir_community::Error;
use weir_community::chat::carrier::ContactDeed;
use weir_community::chat::contacts;
use weir_community::chat::subscription::Kind;
use weir_db::Class;

use super::{push, subscriptions};
use crate::face::Xmpp;
use crate::wire::{Jid, Stanza};

/// Does something about the contact at `address` of `account`, whose own address is `own`.
///
/// # Errors
/// [`Error::Invalid`] for an address that is none or one's own; those of the use cases.
pub(crate) async fn act(
    xmpp: &Xmpp,
    (account, own): (Id, &Jid),
    address: &str,
    deed: ContactDeed,
) -> Result<(), Error> {
    let wrong = |why| Error::invalid("jid", "ERR_INVALID", why);
    let jid = Jid::parse(address).map_err(|_| wrong("is not an address"))?.bare();
    if jid == *own {
        return Err(wrong("is your own address"));
    }
    let kind = match deed {
        ContactDeed::Add { name, groups } => {
            if list(xmpp, (account, own), &jid, name, groups).await? {
                return Ok(());
            }
            Kind::Subscribe
        }
        ContactDeed::Remove => return remove(xmpp, (account, own), &jid).await,
        ContactDeed::Approve => Kind::Subscribed,
        ContactDeed::Refuse => Kind::Unsubscribed,
    };
    let owner = xmpp.router.peer(own.as_str());
    let presence = Stanza::presence(None).from(own.clone()).to(jid);
    subscriptions::exchange(xmpp, (account, &owner), kind, presence).await
}

/// Has it on the roster by this name and in these groups; whether its presence is seen already.
async fn list(
    xmpp: &Xmpp,
    (account, own): (Id, &Jid),
    jid: &Jid,
    name: Option<String>,
    groups: Option<Vec<String>>,
) -> Result<bool, Error> {
    let contact = jid.to_string();
    let unit = xmpp.community.write(Class::Interactive, move |tx, env| {
        let old = contacts::get(tx, account, &contact)?;
        let (old_name, old_groups) = old.map(|old| (old.name, old.groups)).unwrap_or_default();
        let name = name.as_ref().unwrap_or(&old_name);
        let groups = groups.as_ref().unwrap_or(&old_groups);
        contacts::set(tx, env, account, &contact, name, groups)
    });
    let change = unit.await?;
    push::apply(xmpp, &xmpp.router.peer(own.as_str()), &change);
    Ok(change.contact.state.to)
}

async fn remove(xmpp: &Xmpp, (account, own): (Id, &Jid), jid: &Jid) -> Result<(), Error> {
    let contact = jid.to_string();
    let unit = xmpp
        .community
        .write(Class::Interactive, move |tx, env| contacts::remove(tx, env, account, &contact));
    let removed = unit.await?;
    subscriptions::removed(xmpp, &xmpp.router.peer(own.as_str()), jid, removed);
    Ok(())
}
