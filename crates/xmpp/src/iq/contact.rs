//! Whom to write to about this server (XEP-0157): what staff set for the community.

use weir_community::accounts;
use weir_community::chat::address;

use crate::face::Xmpp;
use crate::wire::form::{Field, Form};

const FORM_TYPE: &str = "http://jabber.org/network/serverinfo";
/// Weir knows one contact for all that people may want.
const FOR: [&str; 4] =
    ["abuse-addresses", "admin-addresses", "security-addresses", "support-addresses"];

/// What the domain tells of it in `disco#info`; none where staff has set nothing.
pub async fn form(xmpp: &Xmpp) -> Option<Form> {
    let settings = xmpp.env().instance.settings();
    let mut addresses = Vec::new();
    if !settings.contact_email.is_empty() {
        addresses.push(format!("mailto:{}", settings.contact_email));
    }
    if let Some(account) = settings.contact_account {
        let name = xmpp.read(move |tx, _| Ok(accounts::by_id(tx, account)?.username)).await;
        let jid = name.ok().map(|name| address::of(xmpp.env(), &name));
        addresses.extend(jid.map(|jid| format!("xmpp:{jid}")));
    }
    if addresses.is_empty() {
        return None;
    }
    let fields = FOR.iter().map(|name| Field::many("list-multi", name, "", &addresses));
    Some(fields.fold(Form::result(FORM_TYPE), Form::with))
}
