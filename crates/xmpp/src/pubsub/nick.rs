//! What people are called (XEP-0172): one name for posts and chat. What an app publishes becomes
//! the name of the profile; what was changed there is published here.

use weir_base::Id;
use weir_community::accounts::{self, DISPLAY_NAME_CHARACTERS_MAX, ProfileChange};
use weir_community::chat::address::{self, Whom};
use weir_community::chat::nodes as noun;

use super::{Call, notify, publish};
use crate::face::Xmpp;
use crate::wire::{Element, Jid, Scope, StanzaError, ns, parse, write};

/// The one item of the node.
const ITEM: &str = "current";

/// An app has published `item`: the profile shows that name from now on.
pub(super) async fn published(xmpp: &Xmpp, account: Id, item: &Element) -> Result<(), StanzaError> {
    let Some(nick) = item.child("nick", ns::NICK) else { return Ok(()) };
    let name: String = nick.text().trim().chars().take(DISPLAY_NAME_CHARACTERS_MAX).collect();
    xmpp.write(move |tx, env| {
        if accounts::by_id(tx, account)?.display_name != name {
            let display_name = Some(name.clone());
            let change = ProfileChange { display_name, ..ProfileChange::default() };
            accounts::update_profile(tx, env, account, &change)?;
        }
        Ok(())
    })
    .await
}

/// Publishes the name of the profile at `host`, where it is not what is published.
pub(crate) async fn refresh(xmpp: &Xmpp, host: &Jid) -> Result<(), StanzaError> {
    let jid = host.as_str().to_owned();
    let found = xmpp
        .read(move |tx, env| {
            let Whom::Here(account) = address::whom(tx, env, &jid)? else { return Ok(None) };
            let name = accounts::display_name(tx, account)?;
            let last = match noun::find(tx, account, ns::NICK)? {
                Some(node) => noun::last(tx, &node)?,
                None => None,
            };
            Ok(Some((account, name, last.map(|item| item.xml))))
        })
        .await?;
    let Some((account, name, last)) = found else { return Ok(()) };
    let last = last.and_then(|xml| parse::element_in(&xml, &Scope::empty()).ok());
    if last.map(|nick| nick.text()).unwrap_or_default() == name {
        return Ok(());
    }
    let xml = write::to_string(&Element::new("nick", ns::NICK).with_text(name));
    let event = Call::of_owner(xmpp, account, host)
        .write(move |tx, env, call| {
            let (name, id) = (ns::NICK.to_owned(), ITEM.to_owned());
            let new = publish::New { name, id, xml: xml.clone(), wish: None };
            Ok(publish::put(tx, env, call, &new)?.0.seen_by_contacts(tx, env, account)?)
        })
        .await?;
    notify::send(xmpp, event);
    Ok(())
}
