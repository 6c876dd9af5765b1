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
    /// Stanzas of components (XEP-0114).
    COMPONENT = "jabber:component:accept";
    /// Dialback (XEP-0220).
    DIALBACK = "jabber:server:dialback";
    /// Dialback, as a stream feature.
    DIALBACK_FEATURE = "urn:xmpp:features:dialback";
    /// Streams between servers that carry both ways (XEP-0288).
    BIDI = "urn:xmpp:bidi";
    /// The same, as a stream feature.
    BIDI_FEATURE = "urn:xmpp:features:bidi";
    /// What people call themselves (XEP-0172).
    NICK = "http://jabber.org/protocol/nick";
    /// Around stanzas in requests of HTTP (XEP-0124).
    HTTP_BIND = "http://jabber.org/protocol/httpbind";
    /// What of XMPP stands in them (XEP-0206).
    XBOSH = "urn:xmpp:xbosh";
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
    /// XEP-0045.
    MUC_ADMIN = "http://jabber.org/protocol/muc#admin";
    /// XEP-0045.
    MUC_OWNER = "http://jabber.org/protocol/muc#owner";
    /// XEP-0045.
    MUC_CONFIG = "http://jabber.org/protocol/muc#roomconfig";
    /// XEP-0045.
    MUC_INFO = "http://jabber.org/protocol/muc#roominfo";
    /// XEP-0045.
    MUC_REQUEST = "http://jabber.org/protocol/muc#request";
    /// XEP-0045.
    MUC_REGISTER = "http://jabber.org/protocol/muc#register";
    /// XEP-0048.
    BOOKMARKS = "storage:bookmarks";
    /// XEP-0049.
    PRIVATE = "jabber:iq:private";
    /// XEP-0050.
    COMMANDS = "http://jabber.org/protocol/commands";
    /// XEP-0054.
    VCARD = "vcard-temp";
    /// Business cards of the newer form (XEP-0292).
    VCARD4 = "urn:ietf:params:xml:ns:vcard-4.0";
    /// The node where these are published.
    VCARD4_NODE = "urn:xmpp:vcard4";
    /// The form by which owners let others hear of a node.
    PUBSUB_AUTHORIZE = "http://jabber.org/protocol/pubsub#subscribe_authorization";
    /// Bookmarks are the same in all their forms (XEP-0411).
    BOOKMARKS_CONVERSION = "urn:xmpp:bookmarks-conversion:0";
    /// XEP-0059.
    PAGES = "http://jabber.org/protocol/rsm";
    /// XEP-0060.
    PUBSUB = "http://jabber.org/protocol/pubsub";
    /// XEP-0060.
    PUBSUB_OWNER = "http://jabber.org/protocol/pubsub#owner";
    /// XEP-0060.
    PUBSUB_EVENT = "http://jabber.org/protocol/pubsub#event";
    /// XEP-0060.
    PUBSUB_ERRORS = "http://jabber.org/protocol/pubsub#errors";
    /// XEP-0060.
    PUBSUB_CONFIG = "http://jabber.org/protocol/pubsub#node_config";
    /// XEP-0060.
    PUBSUB_META_DATA = "http://jabber.org/protocol/pubsub#meta-data";
    /// XEP-0060.
    PUBLISH_OPTIONS = "http://jabber.org/protocol/pubsub#publish-options";
    /// XEP-0084.
    AVATAR_DATA = "urn:xmpp:avatar:data";
    /// XEP-0084.
    AVATAR_METADATA = "urn:xmpp:avatar:metadata";
    /// XEP-0153.
    VCARD_UPDATE = "vcard-temp:x:update";
    /// XEP-0191.
    BLOCKING = "urn:xmpp:blocking";
    /// XEP-0215.
    EXT_DISCO = "urn:xmpp:extdisco:2";
    /// XEP-0249.
    INVITATION = "jabber:x:conference";
    /// XEP-0317.
    HATS = "urn:xmpp:hats:0";
    /// XEP-0357.
    PUSH = "urn:xmpp:push:0";
    /// XEP-0363.
    UPLOAD = "urn:xmpp:http:upload:0";
    /// XEP-0398.
    AVATAR_CONVERSION = "urn:xmpp:pep-vcard-conversion:0";
    /// XEP-0402.
    BOOKMARKS_2 = "urn:xmpp:bookmarks:1";
    /// XEP-0410.
    SELF_PING = "http://jabber.org/protocol/muc#self-ping-optimization";
    /// XEP-0421.
    OCCUPANT_ID = "urn:xmpp:occupant-id:0";
    /// XEP-0424.
    RETRACT = "urn:xmpp:message-retract:1";
    /// XEP-0425.
    MODERATE = "urn:xmpp:message-moderate:1";
    /// XEP-0133, before the name of a command.
    ADMIN = "http://jabber.org/protocol/admin";
    /// XEP-0401, easy onboarding.
    INVITE = "urn:xmpp:invite";
    /// XEP-0379 and XEP-0445, asking to be a contact and joining with an invitation.
    PRE_AUTH = "urn:xmpp:pars:0";
    /// Offline messages are kept, for XEP-0160.
    OFFLINE = "msgoffline";
}
