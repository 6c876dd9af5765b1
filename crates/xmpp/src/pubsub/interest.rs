//! What people's apps want to hear of, as their capabilities say (XEP-0115, XEP-0163 §4): `node` is
//! heard of by an app with the feature `node+notify`.
//!
//! Capabilities are asked for once for each hash, and kept for all who have the same, once it was
//! proven that they have it: nobody can say something in the name of others.

use std::sync::Arc;

use aws_lc_rs::digest;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use moka::sync::Cache;

use super::notify;
use crate::face::Xmpp;
use crate::router::Session;
use crate::wire::form::Form;
use crate::wire::{Element, Jid, Scope, ns, parse};

/// Hashes of capabilities that are remembered.
const KNOWN_MAX: u64 = 10_000;
/// The most nodes that one app hears of.
const WANTED_MAX: usize = 100;
/// The most features of one app.
const FEATURES_MAX: usize = 500;

/// The nodes that somebody wants to hear of.
pub(super) type Wanted = Arc<[Box<str>]>;

/// What apps want to hear of, by the hash of their capabilities.
pub struct Interests {
    known: Cache<Box<str>, Wanted>,
}

impl Default for Interests {
    fn default() -> Self {
        Self { known: Cache::new(KNOWN_MAX) }
    }
}

/// The capabilities that a presence names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Caps {
    pub(super) hash: String,
    pub(super) node: String,
    pub(super) ver: String,
}

impl Caps {
    pub(super) fn of(presence: &Element) -> Option<Self> {
        let caps = presence.child("c", ns::CAPS)?;
        let attr = |name: &str| caps.attr(name).map(str::to_owned);
        Some(Self { hash: attr("hash")?, node: attr("node")?, ver: attr("ver")? })
    }

    pub(super) fn key(&self) -> Box<str> {
        format!("{} {}", self.hash, self.ver).into()
    }

    /// As what the app at the full address `jid` says is remembered when the hash does not fit it.
    fn key_of(&self, jid: &str) -> Box<str> {
        format!("{jid} {}", self.ver).into()
    }

    /// How long they are.
    pub(super) fn bytes(&self) -> usize {
        self.hash.len() + self.node.len() + self.ver.len()
    }
}

impl Interests {
    /// Hashes in memory.
    pub(crate) fn held(&self) -> u64 {
        self.known.run_pending_tasks();
        self.known.entry_count()
    }

    /// Whether the app of `session` wants to hear of `node`.
    pub(super) fn wants(&self, session: &Session, node: &str) -> bool {
        let Some(tail) = session.state().presence.clone() else { return false };
        let wanted = caps_in(&tail).and_then(|caps| self.of(session.jid().as_str(), &caps));
        wanted.is_some_and(|wanted| wanted.iter().any(|name| **name == *node))
    }

    /// What the app at the full address `jid` wants to hear of, where that is known.
    pub(super) fn of(&self, jid: &str, caps: &Caps) -> Option<Wanted> {
        let known = self.known.get(&caps.key());
        known.or_else(|| self.known.get(&caps.key_of(jid)))
    }
}

/// The capabilities in what stands behind the addresses of a presence.
fn caps_in(tail: &[u8]) -> Option<Caps> {
    let tail = std::str::from_utf8(tail).ok()?;
    if !tail.contains(ns::CAPS) {
        return None;
    }
    let presence = parse::element_in(&format!("<presence{tail}"), &Scope::client()).ok()?;
    Caps::of(&presence)
}

/// `session` has sent available presence; `is_new` when it was not available before. Its app is
/// asked for what it wants to hear of where that is not known, and told of what is there.
pub fn presence_changed(xmpp: &Xmpp, session: &Arc<Session>, presence: &Element, is_new: bool) {
    let Some(caps) = Caps::of(presence) else { return };
    let known = xmpp.interests.of(session.jid().as_str(), &caps);
    if known.as_ref().is_some_and(|wanted| !is_new || wanted.is_empty()) {
        return;
    }
    let (xmpp_then, session) = (xmpp.clone(), session.clone());
    xmpp.spawn(Some(Box::pin(async move {
        let wanted = match known {
            Some(wanted) => wanted,
            None => {
                let Ok(host) = Jid::parse(xmpp_then.domain()) else { return };
                match learn(&xmpp_then, host, session.jid(), &caps).await {
                    Some(wanted) => wanted,
                    None => return,
                }
            }
        };
        if !wanted.is_empty() {
            notify::send_last(&xmpp_then, &session, &wanted).await;
        }
    })));
}

/// Asks the app at `jid` in the name of `from`, and remembers what it wants.
pub(super) async fn learn(xmpp: &Xmpp, from: Jid, jid: Jid, caps: &Caps) -> Option<Wanted> {
    let node = format!("{}#{}", caps.node, caps.ver);
    let query = Element::new("query", ns::DISCO_INFO).with_attr("node", node);
    let info = xmpp.ask(from, jid.clone(), query).await?;
    let text = verified(&info);
    let ver = text.as_deref().and_then(|text| verification(text, &caps.hash));
    let fits = ver.is_some_and(|ver| ver == caps.ver);
    let wanted = wanted_in(text.as_deref().unwrap_or_default());
    let key = if fits { caps.key() } else { caps.key_of(jid.as_str()) };
    xmpp.interests.known.insert(key, wanted.clone());
    Some(wanted)
}

/// What is heard of by whose capabilities are `text`. It is read from that and not from what was
/// split to make it: different ones have the same text and hash, and nobody may change what others
/// hear of.
fn wanted_in(text: &str) -> Wanted {
    let names = text.split('<').filter_map(|name| name.strip_suffix("+notify"));
    names.take(WANTED_MAX).map(Box::from).collect()
}

/// The hash of such a text (XEP-0115 §5.1).
pub(crate) fn verification(text: &str, hash: &str) -> Option<String> {
    let algorithm = match hash {
        "sha-1" => &digest::SHA1_FOR_LEGACY_USE_ONLY,
        "sha-256" => &digest::SHA256,
        "sha-512" => &digest::SHA512,
        _ => return None,
    };
    Some(STANDARD.encode(digest::digest(algorithm, text.as_bytes())))
}

/// What an app says of itself as one text (XEP-0115 §5.1); none where it says too much.
pub(crate) fn verified(info: &Element) -> Option<String> {
    let attr = |element: &Element, name: &str| element.attr(name).unwrap_or_default().to_owned();
    let mut identities = Vec::new();
    let mut features = Vec::new();
    let mut forms = Vec::new();
    for child in info.children() {
        match &*child.name {
            "identity" => identities.push(format!(
                "{}/{}/{}/{}<",
                attr(child, "category"),
                attr(child, "type"),
                attr(child, "xml:lang"),
                attr(child, "name")
            )),
            "feature" => features.push(format!("{}<", attr(child, "var"))),
            "x" => forms.extend(Form::read(child)),
            _ => {}
        }
        if identities.len() + features.len() + forms.len() > FEATURES_MAX {
            return None;
        }
    }
    identities.sort();
    features.sort();
    forms.sort_by(|one, other| one.form_type().cmp(&other.form_type()));
    let mut all = identities.concat() + &features.concat();
    for form in &forms {
        let Some(kind) = form.form_type() else { continue };
        all.push_str(kind);
        all.push('<');
        let mut fields: Vec<_> =
            form.fields.iter().filter(|field| field.var != "FORM_TYPE").collect();
        fields.sort_by(|one, other| one.var.cmp(&other.var));
        for field in fields {
            let mut values = field.values.clone();
            values.sort();
            all.push_str(&field.var);
            all.push('<');
            for value in values {
                all.push_str(&value);
                all.push('<');
            }
        }
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of XEP-0115 §5.2.
    const EXODUS: &str = "<query xmlns='http://jabber.org/protocol/disco#info'>
        <identity category='client' type='pc' name='Exodus 0.9.1'/>
        <feature var='http://jabber.org/protocol/caps'/>
        <feature var='http://jabber.org/protocol/disco#info'/>
        <feature var='http://jabber.org/protocol/disco#items'/>
        <feature var='http://jabber.org/protocol/muc'/></query>";

    fn text_of(info: &str) -> String {
        verified(&parse::element(info).unwrap()).unwrap()
    }

    #[test]
    fn the_hash_is_that_of_the_specification() {
        let text = text_of(EXODUS);
        let ver = verification(&text, "sha-1");
        assert_eq!(ver.as_deref(), Some("QgayPKawpkPSDYmwT/WM94uAlu0="));
        assert_eq!(verification(&text, "md5"), None);
    }

    #[test]
    fn what_an_app_wants_to_hear_of_ends_in_notify() {
        let info = EXODUS.replace("protocol/muc'", "protocol/mood+notify'");
        let wanted = wanted_in(&text_of(&info));
        assert_eq!(
            wanted.iter().map(|one| &**one).collect::<Vec<_>>(),
            ["http://jabber.org/protocol/mood"]
        );
    }

    #[test]
    fn nobody_changes_what_others_hear_of_by_the_hash_of_their_app() {
        let query = "<query xmlns='http://jabber.org/protocol/disco#info'>";
        let honest = format!(
            "{query}<feature var='urn:a'/><feature var='urn:b+notify'/><feature var='urn:c'/>
             </query>"
        );
        let joined = format!("{query}<feature var='urn:a&lt;urn:b+notify&lt;urn:c'/></query>");
        let as_form = format!(
            "{query}<feature var='urn:a'/><x xmlns='jabber:x:data' type='result'>
             <field var='FORM_TYPE' type='hidden'><value>urn:b+notify</value></field>
             <field var='urn:c'/></x></query>"
        );
        let wanted = wanted_in(&text_of(&honest));
        assert_eq!(wanted.len(), 1);
        for forged in [joined, as_form] {
            assert_eq!(text_of(&forged), text_of(&honest), "it has the same hash");
            assert_eq!(wanted_in(&text_of(&forged)), wanted);
        }
    }
}
