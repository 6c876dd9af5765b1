//! What goes to many: encoded once, with a place for the address.

use std::sync::{Arc, OnceLock};

use crate::face::Xmpp;
use crate::message::rules;
use crate::router::Spliced;
use crate::wire::{Jid, Kind, Stanza, ns, write};

/// A stanza without `to`, to be sent to many.
pub(super) struct Parcel {
    stanza: Stanza,
    shared: OnceLock<Arc<Spliced>>,
}

impl Parcel {
    pub(super) fn new(stanza: Stanza) -> Self {
        Self { stanza, shared: OnceLock::new() }
    }

    /// Sends it to `to`. Whether a session of here took it; true for those elsewhere.
    pub(super) fn deliver(&self, xmpp: &Xmpp, to: &Jid) -> bool {
        if to.domain() != xmpp.domain() {
            xmpp.send(self.stanza.clone().to(to.clone()));
            return true;
        }
        let stanza = self.shared.get_or_init(|| Arc::new(self.encode()));
        let resource = to.resource().unwrap_or_default();
        xmpp.router.deliver_spliced(to.bare_str(), resource, stanza)
    }

    fn encode(&self) -> Spliced {
        let Stanza { kind, from, element, .. } = &self.stanza;
        let mut head = format!("<{}", kind.name());
        if let Some(from) = from {
            write::attribute("from", from.as_str(), &mut head);
        }
        write::attributes(element, &mut head);
        let mut tail = String::from("/>");
        if !element.nodes.is_empty() {
            tail.truncate(0);
            tail.push('>');
            write::inner(element, ns::CLIENT, &mut tail);
            tail.push_str("</");
            tail.push_str(kind.name());
            tail.push('>');
        }
        let is_passing = *kind == Kind::Message && rules::is_passing(&self.stanza);
        let (head, tail) = (head.into_bytes().into(), tail.into_bytes().into());
        Spliced { head, tail, is_passing }
    }
}
