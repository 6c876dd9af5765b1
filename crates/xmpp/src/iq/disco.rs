//! What there is here (XEP-0030).

use super::{Answer, Asked, At, contact, upload};
use crate::wire::{Condition, Element, StanzaError, ns};
use crate::{commands, pubsub};

/// `disco#info`: of the domain, or of an account.
pub async fn info(asked: Asked) -> Answer {
    let to_host = asked.to.as_ref().is_some_and(|to| to.local().is_none());
    if !to_host && !may_know(&asked) {
        return Err(StanzaError::new(Condition::ServiceUnavailable));
    }
    match asked.payload.attr("node") {
        Some(node) if !to_host => return pubsub::info(&asked, node).await,
        Some(node) => return commands::info(&asked, node).await,
        None => {}
    }
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
        let forms = [Some(upload::form()), contact::form(&asked.xmpp).await];
        query = query.with_children(forms.into_iter().flatten().map(|form| form.element()));
    }
    Ok(Some(query))
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
