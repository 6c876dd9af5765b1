//! XMPP: chat for people's apps and with other servers (RFC 6120, 6121, 7395).
//!
//! The tables here show the whole protocol at once: which query is answered by which file, what is
//! offered, and which services stand at addresses of their own. Messages are in [`message`],
//! presence in [`presence`], contacts in [`roster`]; connections begin in [`stream`], and
//! [`router`] knows who is where.

mod carrier;
pub mod commands;
mod face;
pub mod iq;
pub mod limits;
pub mod log_in;
pub mod message;
mod muc;
pub mod presence;
mod profile;
pub mod pubsub;
mod push;
pub mod register;
pub mod roster;
mod route;
pub mod router;
pub mod s2s;
pub mod sasl;
pub mod stream;
pub mod upload;
pub mod wire;

pub use face::{Inner, Remote, Setup, Work, Xmpp, fault};
use iq::{At, Handler, Service, iq};
use wire::ns;

/// Which query is answered where, and by whom.
const IQS: &[Handler] = &[
    iq!(ns::PING, "ping", At::Anywhere, iq::ping::ping),
    iq!(ns::DISCO_INFO, "query", At::Anywhere, iq::disco::info),
    iq!(ns::DISCO_ITEMS, "query", At::Anywhere, iq::disco::items),
    iq!(ns::VERSION, "query", At::Host, iq::version::version),
    iq!(ns::TIME, "time", At::Host, iq::time::time),
    iq!(ns::LAST, "query", At::Anywhere, iq::last::last),
    iq!(ns::REGISTER, "query", At::Anywhere, register::query),
    iq!(ns::UPLOAD, "request", At::Host, iq::upload::request),
    iq!(ns::EXT_DISCO, "services", At::Host, iq::external::services),
    iq!(ns::EXT_DISCO, "credentials", At::Host, iq::external::credentials),
    iq!(ns::PUSH, "enable", At::Own, push::enable),
    iq!(ns::PUSH, "disable", At::Own, push::disable),
    iq!(ns::COMMANDS, "command", At::Host, commands::command),
    iq!(ns::ROSTER, "query", At::Own, roster::query),
    iq!(ns::SESSION, "session", At::Anywhere, iq::ping::ping),
    iq!(ns::CARBONS, "enable", At::Own, message::carbons::enable),
    iq!(ns::CARBONS, "disable", At::Own, message::carbons::disable),
    iq!(ns::MAM, "query", At::Own, iq::mam::query),
    iq!(ns::MAM, "metadata", At::Own, iq::mam::metadata),
    iq!(ns::MAM, "prefs", At::Own, iq::mam::preferences),
    iq!(ns::BLOCKING, "blocklist", At::Own, iq::blocking::list),
    iq!(ns::BLOCKING, "block", At::Own, iq::blocking::block),
    iq!(ns::BLOCKING, "unblock", At::Own, iq::blocking::unblock),
    iq!(ns::PRIVATE, "query", At::Own, iq::private::query),
    iq!(ns::VCARD, "vCard", At::Account, iq::vcard::card),
    iq!(ns::VCARD4, "vcard", At::Account, iq::vcard4::card),
    iq!(ns::PUBSUB, "pubsub", At::Account, pubsub::query),
    iq!(ns::PUBSUB_OWNER, "pubsub", At::Account, pubsub::query),
];

/// What `disco#info` tells of the domain and of accounts.
const FEATURES: &[(At, &str)] = &[
    (At::Anywhere, ns::DISCO_INFO),
    (At::Anywhere, ns::DISCO_ITEMS),
    (At::Anywhere, ns::PING),
    (At::Host, ns::VERSION),
    (At::Host, ns::TIME),
    (At::Host, ns::LAST),
    (At::Host, ns::REGISTER),
    (At::Host, ns::UPLOAD),
    (At::Host, ns::EXT_DISCO),
    (At::Host, ns::COMMANDS),
    (At::Anywhere, ns::PUSH),
    (At::Host, ns::CARBONS),
    (At::Host, ns::OFFLINE),
    (At::Host, ns::ROSTER),
    (At::Account, ns::MAM),
    (At::Account, "urn:xmpp:mam:2#extended"),
    (At::Account, ns::STANZA_ID),
    (At::Host, ns::BLOCKING),
    (At::Host, ns::PRIVATE),
    (At::Anywhere, ns::VCARD),
    (At::Account, ns::VCARD4),
    (At::Account, ns::AVATAR_CONVERSION),
    (At::Account, ns::BOOKMARKS_CONVERSION),
    (At::Account, "urn:xmpp:bookmarks:1#compat"),
    (At::Account, "urn:xmpp:bookmarks:1#compat-pep"),
];

/// What stands at an address of its own below the domain.
const SERVICES: &[Service] = &[
    Service { label: muc::LABEL, receive: muc::receive },
    Service { label: pubsub::LABEL, receive: pubsub::receive },
];
