//! What there is here (XEP-0030), and the hash by which apps know it again (XEP-0115).

use std::sync::Arc;

use parking_lot::Mutex;
use weir_community::instance::Settings;

use super::{Answer, Asked, At, contact, upload};
use crate::face::Xmpp;
use crate::pubsub::interest;
use crate::wire::{Condition, Element, StanzaError, ns};
use crate::{commands, pubsub};

/// The hash of what the domain says of itself.
const HASH: &str = "sha-1";

/// That hash, while the settings that are part of it are the same.
#[derive(Default)]
pub(crate) struct Caps(Mutex<Option<(Arc<Settings>, Arc<str>)>>);

/// `disco#info`: of the domain, or of an account.
pub async fn info(asked: Asked) -> Answer {
    let to_host = asked.to.as_ref().is_some_and(|to| to.local().is_none());
    if !to_host && !may_know(&asked) {
        return Err(StanzaError::new(Condition::ServiceUnavailable));
    }
    match asked.payload.attr("node") {
        Some(node) if !to_host => return pubsub::info(&asked, node).await,
        Some(node) if node == caps_node(&asked.xmpp).await => {
            return Ok(Some(of(&asked.xmpp, true).await.with_attr("node", node)));
        }
        Some(node) => return commands::info(&asked, node).await,
        None => {}
    }
    Ok(Some(of(&asked.xmpp, to_host).await))
}

/// What the domain, or an account, says of itself.
async fn of(xmpp: &Xmpp, to_host: bool) -> Element {
    let identity = |category: &str, kind: &str| {
        Element::new("identity", ns::DISCO_INFO)
            .with_attr("category", category.to_owned())
            .with_attr("type", kind.to_owned())
    };
    let identities = match to_host {
        true => vec![identity("server", "im").with_attr("name", "Weir"), identity("pubsub", "pep")],
        false => vec![identity("account", "registered"), identity("pubsub", "pep")],
    };
    let offered = crate::FEATURES.iter().filter(|(at, _)| match at {
        At::Host => to_host,
        At::Own | At::Account => !to_host,
        At::Anywhere => true,
    });
    let features = offered
        .map(|(_, feature)| Element::new("feature", ns::DISCO_INFO).with_attr("var", *feature));
    let verbs = pubsub::FEATURES.iter().filter(|_| !to_host).map(|name| {
        let feature = Element::new("feature", ns::DISCO_INFO);
        feature.with_attr("var", format!("{}#{name}", ns::PUBSUB))
    });
    let mut query = Element::new("query", ns::DISCO_INFO).with_children(identities);
    query = query.with_children(features).with_children(verbs);
    if to_host {
        let forms = [Some(upload::form()), contact::form(xmpp).await];
        query = query.with_children(forms.into_iter().flatten().map(|form| form.element()));
    }
    query
}

/// `<c/>`: by which apps know what the domain can, if they have asked before.
pub(crate) async fn caps(xmpp: &Xmpp) -> Element {
    Element::new("c", ns::CAPS)
        .with_attr("hash", HASH)
        .with_attr("node", xmpp.env().site.base.as_str())
        .with_attr("ver", &*caps_ver(xmpp).await)
}

async fn caps_node(xmpp: &Xmpp) -> String {
    format!("{}#{}", xmpp.env().site.base, caps_ver(xmpp).await)
}

async fn caps_ver(xmpp: &Xmpp) -> Arc<str> {
    let settings = xmpp.env().instance.settings();
    if let Some((of, ver)) = &*xmpp.caps.0.lock()
        && Arc::ptr_eq(of, &settings)
    {
        return ver.clone();
    }
    let text = interest::verified(&of(xmpp, true).await);
    let ver = text.and_then(|text| interest::verification(&text, HASH)).unwrap_or_default();
    let ver: Arc<str> = ver.into();
    *xmpp.caps.0.lock() = Some((settings, ver.clone()));
    ver
}

/// `disco#items`: the services of the domain.
pub async fn items(asked: Asked) -> Answer {
    let to_host = asked.to.as_ref().is_some_and(|to| to.local().is_none());
    if !to_host {
        return match may_know(&asked) {
            true => pubsub::names(&asked).await,
            false => Err(StanzaError::new(Condition::ServiceUnavailable)),
        };
    }
    let mut query = Element::new("query", ns::DISCO_ITEMS);
    if let Some(node) = asked.payload.attr("node") {
        if node == ns::COMMANDS {
            return commands::list(&asked).await;
        }
        query.set_attr("node", node);
        return Ok(Some(query));
    }
    let domain = asked.xmpp.domain();
    let item = |jid: String| Element::new("item", ns::DISCO_ITEMS).with_attr("jid", jid);
    let services =
        crate::SERVICES.iter().map(|service| item(format!("{}.{domain}", service.label)));
    let components = asked.xmpp.component_domains();
    let components = components.iter().map(|domain| item(domain.to_string()));
    Ok(Some(query.with_children(services).with_children(components)))
}

/// Whether who asks may know that the account exists: its owner, and who sees its presence.
fn may_know(asked: &Asked) -> bool {
    asked.is_own() || asked.xmpp.shows_presence(asked.owner().as_str(), asked.from.bare_str())
}
