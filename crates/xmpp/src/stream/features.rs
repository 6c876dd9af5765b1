//! What a stream offers: `<stream:features/>`.

use super::transport::Transport;
use crate::face::Xmpp;
use crate::iq::disco;
use crate::sasl::{Binding, Mechanism, Offer};
use crate::wire::{Element, ns};

/// By what somebody may log in on this connection.
pub(crate) fn offer(xmpp: &Xmpp, transport: &dyn Transport) -> Offer {
    let security = transport.security();
    let is_private = security.is_encrypted || xmpp.is_dev();
    Offer { is_private, bindings: security.bindings }
}

/// Whether somebody may make an account on this connection.
pub(crate) fn may_join(xmpp: &Xmpp, transport: &dyn Transport) -> bool {
    offer(xmpp, transport).is_private && crate::register::is_open(xmpp)
}

/// Before somebody has logged in.
pub(crate) fn to_strangers(xmpp: &Xmpp, transport: &dyn Transport) -> Element {
    let mut features = Element::new("features", ns::STREAM);
    if transport.can_start_tls() {
        let mut starttls = Element::new("starttls", ns::TLS);
        if !xmpp.is_dev() {
            starttls = starttls.with_child(Element::new("required", ns::TLS));
        }
        features = features.with_child(starttls);
    }
    if may_join(xmpp, transport) {
        features = features
            .with_child(Element::new("register", ns::REGISTER_FEATURE))
            .with_child(Element::new("register", ns::INVITE));
    }
    let offer = offer(xmpp, transport);
    if offer.mechanisms().next().is_none() {
        return features;
    }
    if !offer.bindings.is_empty() {
        let bindings =
            offer.bindings.iter().map(Binding::name).map(|name| {
                Element::new("channel-binding", ns::SASL_BINDINGS).with_attr("type", name)
            });
        features.nodes.push(crate::wire::Node::Element(
            Element::new("sasl-channel-binding", ns::SASL_BINDINGS).with_children(bindings),
        ));
    }
    features
        .with_child(Element::new("mechanisms", ns::SASL).with_children(names(ns::SASL, &offer)))
        .with_child(
            Element::new("authentication", ns::SASL2)
                .with_children(names(ns::SASL2, &offer))
                .with_child(inline(&offer)),
        )
}

fn names(ns: &'static str, offer: &Offer) -> impl Iterator<Item = Element> {
    let name = move |mechanism: Mechanism| named(ns, mechanism);
    offer.mechanisms().map(name).collect::<Vec<_>>().into_iter()
}

fn named(ns: &'static str, mechanism: Mechanism) -> Element {
    Element::new("mechanism", ns).with_text(mechanism.name())
}

/// What can be asked for together with a log-in.
fn inline(offer: &Offer) -> Element {
    let within = [ns::CARBONS, ns::CSI, ns::SM]
        .map(|name| Element::new("feature", ns::BIND2).with_attr("var", name));
    let bind = Element::new("bind", ns::BIND2)
        .with_child(Element::new("inline", ns::BIND2).with_children(within));
    let tokens = offer.token_mechanisms().map(|mechanism| named(ns::FAST, mechanism));
    Element::new("inline", ns::SASL2)
        .with_child(bind)
        .with_child(Element::new("sm", ns::SM))
        .with_child(Element::new("fast", ns::FAST).with_children(tokens))
}

/// To somebody who has logged in.
pub(crate) async fn to_people(xmpp: &Xmpp) -> Element {
    let session =
        Element::new("session", ns::SESSION).with_child(Element::new("optional", ns::SESSION));
    let bind = [Element::new("bind", ns::BIND), session, Element::new("sm", ns::SM)];
    let mut features = Element::new("features", ns::STREAM).with_children(bind);
    features.nodes.extend(to_bound(xmpp).await.nodes);
    features
}

/// To somebody whose log-in has bound a resource or resumed a session: what was done is offered no
/// more (XEP-0386), or apps do it twice.
pub(crate) async fn to_bound(xmpp: &Xmpp) -> Element {
    Element::new("features", ns::STREAM)
        .with_child(Element::new("ver", ns::ROSTER_VERSIONS))
        .with_child(Element::new("sub", ns::PRE_APPROVAL))
        .with_child(Element::new("csi", ns::CSI))
        .with_child(disco::caps(xmpp).await)
}
