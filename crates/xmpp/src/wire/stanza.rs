//! Messages, presence and queries, with their addresses.

use std::sync::Arc;

use super::element::Element;
use super::error::{Condition, StanzaError};
use super::jid::Jid;
use super::{ns, write};

/// Which of the three it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `<message/>`
    Message,
    /// `<presence/>`
    Presence,
    /// `<iq/>`
    Iq,
}

/// A stanza. Its addresses stand in the fields and not among the element's attributes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stanza {
    /// Which of the three it is.
    pub kind: Kind,
    /// From whom.
    pub from: Option<Jid>,
    /// To whom.
    pub to: Option<Jid>,
    /// Everything else.
    pub element: Element,
}

/// Why an element is no stanza.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoStanza {
    /// Neither message, presence nor iq of clients.
    Kind(Element),
    /// The address of the receiver or sender is none; the element as it was.
    Address(Element),
}

impl Kind {
    /// Its name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Message => "message",
            Self::Presence => "presence",
            Self::Iq => "iq",
        }
    }
}

impl Stanza {
    /// An empty one.
    pub fn new(kind: Kind) -> Self {
        let element = Element::new(kind.name(), ns::CLIENT);
        Self { kind, from: None, to: None, element }
    }

    /// A presence of this type; none means available.
    pub fn presence(kind: Option<&str>) -> Self {
        let mut presence = Self::new(Kind::Presence);
        if let Some(kind) = kind {
            presence.element.set_attr("type", kind);
        }
        presence
    }

    /// A query or command of the server's own, with this id.
    pub fn iq(kind: &str, id: impl Into<String>, payload: Option<Element>) -> Self {
        let mut iq = Self::new(Kind::Iq);
        iq.element.set_attr("type", kind);
        iq.element.set_attr("id", id);
        iq.element = iq.element.with_children(payload);
        iq
    }

    /// The stanza that an element is.
    ///
    /// # Errors
    /// [`NoStanza`].
    pub fn of(mut element: Element) -> Result<Self, NoStanza> {
        let kind = match &*element.name {
            "message" => Kind::Message,
            "presence" => Kind::Presence,
            "iq" => Kind::Iq,
            _ => return Err(NoStanza::Kind(element)),
        };
        if element.ns != ns::CLIENT {
            return Err(NoStanza::Kind(element));
        }
        let read = |text: Option<&str>| text.map(Jid::parse).transpose();
        let (from, to) = (read(element.attr("from")), read(element.attr("to")));
        let (Ok(from), Ok(to)) = (from, to) else { return Err(NoStanza::Address(element)) };
        element.attrs.retain(|(name, _)| name != "from" && name != "to");
        Ok(Self { kind, from, to, element })
    }

    /// Its `id`.
    pub fn id(&self) -> Option<&str> {
        self.element.attr("id")
    }

    /// Its `type`, as it stands.
    pub fn type_(&self) -> Option<&str> {
        self.element.attr("type")
    }

    /// Whether it tells of an error, or answers a query: nothing is answered to it.
    pub fn is_answer(&self) -> bool {
        matches!(self.type_(), Some("error")) || self.is_result()
    }

    fn is_result(&self) -> bool {
        self.kind == Kind::Iq && self.type_() == Some("result")
    }

    /// From this address.
    #[must_use]
    pub fn from(mut self, from: Jid) -> Self {
        self.from = Some(from);
        self
    }

    /// To this address.
    #[must_use]
    pub fn to(mut self, to: Jid) -> Self {
        self.to = Some(to);
        self
    }

    /// The answer to this query, back to who asked.
    pub fn result(&self, payload: Option<Element>) -> Self {
        let mut answer = Self::iq("result", self.id().unwrap_or_default(), payload);
        (answer.from, answer.to) = (self.to.clone(), self.from.clone());
        answer
    }

    /// The error about this stanza, back to its sender; with what was sent, bounded.
    pub fn error(&self, error: &StanzaError) -> Self {
        let mut answer = Self::new(self.kind);
        (answer.from, answer.to) = (self.to.clone(), self.from.clone());
        answer.element.set_attr("type", "error");
        if let Some(id) = self.id() {
            answer.element.set_attr("id", id);
        }
        answer.element.nodes.push(super::Node::Element(error.element()));
        answer
    }

    /// The error about an element whose addresses cannot be read.
    pub fn malformed(element: &Element, to: &Jid) -> Option<Self> {
        let kind = match &*element.name {
            "message" => Kind::Message,
            "presence" => Kind::Presence,
            "iq" => Kind::Iq,
            _ => return None,
        };
        if matches!(element.attr("type"), Some("error" | "result")) {
            return None;
        }
        let mut asked = Self::new(kind);
        asked.from = Some(to.clone());
        if let Some(id) = element.attr("id") {
            asked.element.set_attr("id", id);
        }
        let error = StanzaError::new(Condition::JidMalformed);
        Some(asked.error(&error.text("write the address as local@domain/resource")))
    }

    /// Its text within a stream of clients.
    pub fn text(&self) -> String {
        let mut out = String::with_capacity(160);
        self.write(&mut out);
        out
    }

    /// Its bytes within a stream of clients, to be shared.
    pub fn bytes(&self) -> Arc<[u8]> {
        Arc::from(self.text().into_bytes())
    }

    /// Writes it as it stands within a stream of clients.
    pub fn write(&self, out: &mut String) {
        out.push('<');
        out.push_str(self.kind.name());
        if let Some(from) = &self.from {
            write::attribute("from", from.as_str(), out);
        }
        if let Some(to) = &self.to {
            write::attribute("to", to.as_str(), out);
        }
        write::attributes(&self.element, out);
        if self.element.nodes.is_empty() {
            out.push_str("/>");
            return;
        }
        out.push('>');
        write::inner(&self.element, ns::CLIENT, out);
        out.push_str("</");
        out.push_str(self.kind.name());
        out.push('>');
    }

    /// The whole as an element with its addresses, for example to be forwarded in another.
    pub fn to_element(&self) -> Element {
        let mut element = self.element.clone();
        if let Some(to) = &self.to {
            element.attrs.insert(0, ("to".into(), to.to_string()));
        }
        if let Some(from) = &self.from {
            element.attrs.insert(0, ("from".into(), from.to_string()));
        }
        element
    }
}
