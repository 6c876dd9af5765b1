//! Namespaces.

use std::borrow::Cow;

macro_rules! namespaces {
    ($($(#[$docs:meta])* $name:ident = $text:literal;)*) => {
        $($(#[$docs])* pub const $name: &str = $text;)*

        /// The namespace as one of these where it is known, else as text of its own.
        pub fn interned(text: &str) -> Cow<'static, str> {
            match text {
                $($text => Cow::Borrowed($name),)*
                other => Cow::Owned(other.to_owned()),
            }
        }
    };
}

namespaces! {
    /// Stanzas of clients (RFC 6120).
    CLIENT = "jabber:client";
    /// Stanzas between servers; inside they are in [`CLIENT`] too.
    SERVER = "jabber:server";
    /// The stream itself.
    STREAM = "http://etherx.jabber.org/streams";
    /// What `xml:` stands for.
    XML = "http://www.w3.org/XML/1998/namespace";
    /// Conditions of stream errors.
    STREAM_ERRORS = "urn:ietf:params:xml:ns:xmpp-streams";
    /// Conditions of stanza errors.
    STANZA_ERRORS = "urn:ietf:params:xml:ns:xmpp-stanzas";
    /// STARTTLS.
    TLS = "urn:ietf:params:xml:ns:xmpp-tls";
    /// SASL.
    SASL = "urn:ietf:params:xml:ns:xmpp-sasl";
    /// SASL2 (XEP-0388).
    SASL2 = "urn:xmpp:sasl:2";
    /// Which channel bindings there are (XEP-0440).
    SASL_BINDINGS = "urn:xmpp:sasl-cb:0";
    /// Bind 2 (XEP-0386).
    BIND2 = "urn:xmpp:bind:0";
    /// Tokens of earlier log-ins (XEP-0484).
    FAST = "urn:xmpp:fast:0";
    /// Resource binding.
    BIND = "urn:ietf:params:xml:ns:xmpp-bind";
    /// Sessions, as old clients ask for them (RFC 3921).
    SESSION = "urn:ietf:params:xml:ns:xmpp-session";
    /// Contacts (RFC 6121).
    ROSTER = "jabber:iq:roster";
    /// The server keeps versions of rosters.
    ROSTER_VERSIONS = "urn:xmpp:features:rosterver";
    /// The server takes subscription approvals in advance.
    PRE_APPROVAL = "urn:xmpp:features:pre-approval";
    /// Framing over WebSocket (RFC 7395).
    FRAMING = "urn:ietf:params:xml:ns:xmpp-framing";
    /// XEP-0004.
    FORM = "jabber:x:data";
    /// XEP-0012.
    LAST = "jabber:iq:last";
    /// XEP-0030.
    DISCO_INFO = "http://jabber.org/protocol/disco#info";
    /// XEP-0030.
    DISCO_ITEMS = "http://jabber.org/protocol/disco#items";
    /// XEP-0045.
    MUC = "http://jabber.org/protocol/muc";
    /// XEP-0045.
    MUC_USER = "http://jabber.org/protocol/muc#user";
    /// XEP-0077.
    REGISTER = "jabber:iq:register";
    /// XEP-0077, as a stream feature.
    REGISTER_FEATURE = "http://jabber.org/features/iq-register";
    /// XEP-0085.
    CHAT_STATES = "http://jabber.org/protocol/chatstates";
    /// XEP-0092.
    VERSION = "jabber:iq:version";
    /// XEP-0115.
    CAPS = "http://jabber.org/protocol/caps";
    /// XEP-0184.
    RECEIPTS = "urn:xmpp:receipts";
    /// XEP-0198.
    SM = "urn:xmpp:sm:3";
    /// XEP-0199.
    PING = "urn:xmpp:ping";
    /// XEP-0202.
    TIME = "urn:xmpp:time";
    /// XEP-0203.
    DELAY = "urn:xmpp:delay";
    /// XEP-0280.
    CARBONS = "urn:xmpp:carbons:2";
    /// XEP-0297.
    FORWARD = "urn:xmpp:forward:0";
    /// XEP-0313.
    MAM = "urn:xmpp:mam:2";
    /// XEP-0333.
    MARKERS = "urn:xmpp:chat-markers:0";
    /// XEP-0334.
    HINTS = "urn:xmpp:hints";
    /// XEP-0352.
    CSI = "urn:xmpp:csi:0";
    /// XEP-0359.
    STANZA_ID = "urn:xmpp:sid:0";
    /// Offline messages are kept, for XEP-0160.
    OFFLINE = "msgoffline";
}
