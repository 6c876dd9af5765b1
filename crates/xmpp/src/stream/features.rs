//! What a stream offers: `<stream:features/>`.

use super::login;
use super::transport::Transport;
use crate::face::Xmpp;
use crate::wire::{Element, ns};

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
    let names = login::mechanisms(xmpp, transport.security());
    if !names.is_empty() {
        let names =
            names.into_iter().map(|name| Element::new("mechanism", ns::SASL).with_text(name));
        features = features.with_child(Element::new("mechanisms", ns::SASL).with_children(names));
    }
    features
}

/// To somebody who has logged in.
pub(crate) fn to_people() -> Element {
    let session =
        Element::new("session", ns::SESSION).with_child(Element::new("optional", ns::SESSION));
    Element::new("features", ns::STREAM)
        .with_child(Element::new("bind", ns::BIND))
        .with_child(session)
        .with_child(Element::new("sm", ns::SM))
        .with_child(Element::new("ver", ns::ROSTER_VERSIONS))
        .with_child(Element::new("sub", ns::PRE_APPROVAL))
        .with_child(Element::new("csi", ns::CSI))
}
