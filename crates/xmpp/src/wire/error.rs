//! Errors of stanzas (RFC 6120 section 8.3) and of streams (section 4.9).

use super::element::Element;
use super::ns;
use super::parse::XmlError;

macro_rules! conditions {
    ($(#[$docs:meta])* $name:ident: $($(#[$says:meta])* $case:ident = $text:literal;)*) => {
        $(#[$docs])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name {
            $($(#[$says])* $case,)*
        }

        impl $name {
            /// Its name on the wire.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$case => $text,)*
                }
            }

            /// The condition of that name.
            pub fn parse(name: &str) -> Option<Self> {
                match name {
                    $($text => Some(Self::$case),)*
                    _ => None,
                }
            }
        }
    };
}

conditions! {
    /// Why a stanza was not served.
    Condition:
    /// It does not follow its schema.
    BadRequest = "bad-request";
    /// Somebody else has that.
    Conflict = "conflict";
    /// The other side does not know this at all.
    FeatureNotImplemented = "feature-not-implemented";
    /// Not allowed to the one who asks.
    Forbidden = "forbidden";
    /// It is elsewhere now.
    Gone = "gone";
    /// A defect here.
    InternalServerError = "internal-server-error";
    /// There is no such thing.
    ItemNotFound = "item-not-found";
    /// An address that is none.
    JidMalformed = "jid-malformed";
    /// Against the rules of the place.
    NotAcceptable = "not-acceptable";
    /// Not allowed to anybody.
    NotAllowed = "not-allowed";
    /// Log in first.
    NotAuthorized = "not-authorized";
    /// Against a policy.
    PolicyViolation = "policy-violation";
    /// The one asked is not there now.
    RecipientUnavailable = "recipient-unavailable";
    /// Ask there instead.
    Redirect = "redirect";
    /// Register first.
    RegistrationRequired = "registration-required";
    /// There is no such server.
    RemoteServerNotFound = "remote-server-not-found";
    /// That server does not answer.
    RemoteServerTimeout = "remote-server-timeout";
    /// Too much; later.
    ResourceConstraint = "resource-constraint";
    /// There is no such service here, for the one who asks.
    ServiceUnavailable = "service-unavailable";
    /// Subscribe first.
    SubscriptionRequired = "subscription-required";
    /// Another condition, of an application.
    UndefinedCondition = "undefined-condition";
    /// Out of order.
    UnexpectedRequest = "unexpected-request";
}

impl Condition {
    /// What the sender can do about it, as `type` of the error.
    pub fn kind(self) -> &'static str {
        use Condition::*;
        match self {
            BadRequest | JidMalformed | NotAcceptable | PolicyViolation | Redirect => "modify",
            Forbidden | NotAuthorized | RegistrationRequired | SubscriptionRequired => "auth",
            RecipientUnavailable | RemoteServerTimeout | ResourceConstraint | UnexpectedRequest => {
                "wait"
            }
            _ => "cancel",
        }
    }
}

conditions! {
    /// Why a stream ends.
    StreamCondition:
    /// XML that cannot be worked with.
    BadFormat = "bad-format";
    /// Another stream of the same resource has come.
    Conflict = "conflict";
    /// The peer took too long.
    ConnectionTimeout = "connection-timeout";
    /// Not a domain of here any more.
    HostGone = "host-gone";
    /// Not a domain of here.
    HostUnknown = "host-unknown";
    /// A `to` or `from` is missing or wrong.
    ImproperAddressing = "improper-addressing";
    /// A defect here.
    InternalServerError = "internal-server-error";
    /// A `from` of somebody else.
    InvalidFrom = "invalid-from";
    /// A namespace that does not stand for streams.
    InvalidNamespace = "invalid-namespace";
    /// XML against the schema.
    InvalidXml = "invalid-xml";
    /// Log in first, and nothing else.
    NotAuthorized = "not-authorized";
    /// Not XML.
    NotWellFormed = "not-well-formed";
    /// Against a policy, a limit for example.
    PolicyViolation = "policy-violation";
    /// The server cannot reach another.
    RemoteConnectionFailed = "remote-connection-failed";
    /// The stream has to begin anew.
    Reset = "reset";
    /// Too little of something here.
    ResourceConstraint = "resource-constraint";
    /// A DTD, a comment, an entity.
    RestrictedXml = "restricted-xml";
    /// Elsewhere.
    SeeOtherHost = "see-other-host";
    /// The server stops.
    SystemShutdown = "system-shutdown";
    /// Another condition, of an application.
    UndefinedCondition = "undefined-condition";
    /// Not UTF-8.
    UnsupportedEncoding = "unsupported-encoding";
    /// A feature that is not there.
    UnsupportedFeature = "unsupported-feature";
    /// Neither message, presence nor iq.
    UnsupportedStanzaType = "unsupported-stanza-type";
    /// Not version 1.0.
    UnsupportedVersion = "unsupported-version";
}

/// Why a stanza was not served, with a text that says what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StanzaError {
    /// The condition.
    pub condition: Condition,
    /// `auth`, `cancel`, `continue`, `modify` or `wait`, where it is not the condition's own.
    pub kind: Option<&'static str>,
    /// For people.
    pub text: Option<String>,
    /// A condition of the application's own beside it.
    pub specific: Option<Box<Element>>,
}

impl StanzaError {
    /// An error without a text.
    pub fn new(condition: Condition) -> Self {
        Self { condition, kind: None, text: None, specific: None }
    }

    /// With what to do.
    #[must_use]
    pub fn text(mut self, text: impl Into<String>) -> Self {
        self.text = Some(text.into());
        self
    }

    /// With another `type` than is usual for the condition.
    #[must_use]
    pub fn kind(mut self, kind: &'static str) -> Self {
        self.kind = Some(kind);
        self
    }

    /// With a condition of the application's own.
    #[must_use]
    pub fn specific(mut self, specific: Element) -> Self {
        self.specific = Some(Box::new(specific));
        self
    }

    /// `<error type='…'>…</error>`
    pub fn element(&self) -> Element {
        let kind = self.kind.unwrap_or(self.condition.kind());
        let mut error = Element::new("error", ns::CLIENT)
            .with_attr("type", kind)
            .with_child(Element::new(self.condition.name(), ns::STANZA_ERRORS));
        if let Some(text) = &self.text {
            let text = Element::new("text", ns::STANZA_ERRORS).with_text(text);
            error = error.with_child(text.with_attr("xml:lang", "en"));
        }
        match &self.specific {
            Some(specific) => error.with_child((**specific).clone()),
            None => error,
        }
    }
}

impl From<Condition> for StanzaError {
    fn from(condition: Condition) -> Self {
        Self::new(condition)
    }
}

/// Why a stream ends, with a text that says what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamError {
    /// The condition.
    pub condition: StreamCondition,
    /// For people.
    pub text: Option<String>,
}

impl StreamError {
    /// An error without a text.
    pub fn new(condition: StreamCondition) -> Self {
        Self { condition, text: None }
    }

    /// With what to do.
    #[must_use]
    pub fn text(mut self, text: impl Into<String>) -> Self {
        self.text = Some(text.into());
        self
    }

    /// `<stream:error>…</stream:error>`
    pub fn element(&self) -> Element {
        let error = Element::new("error", ns::STREAM)
            .with_child(Element::new(self.condition.name(), ns::STREAM_ERRORS));
        match &self.text {
            Some(text) => {
                let text = Element::new("text", ns::STREAM_ERRORS).with_text(text);
                error.with_child(text.with_attr("xml:lang", "en"))
            }
            None => error,
        }
    }
}

impl From<StreamCondition> for StreamError {
    fn from(condition: StreamCondition) -> Self {
        Self::new(condition)
    }
}

impl From<XmlError> for StreamError {
    fn from(error: XmlError) -> Self {
        let condition = match error {
            XmlError::NotWellFormed(_) => StreamCondition::NotWellFormed,
            XmlError::Prefix => StreamCondition::NotWellFormed,
            XmlError::Restricted(_) => StreamCondition::RestrictedXml,
            XmlError::Encoding => StreamCondition::UnsupportedEncoding,
            XmlError::Limit(_) => StreamCondition::PolicyViolation,
        };
        Self::new(condition).text(error.to_string())
    }
}
