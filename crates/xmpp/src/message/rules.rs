//! What becomes of a message: the rules of RFC 6121 section 8.5, what is kept, and what is copied
//! to one's other resources. Pure.

use super::carbons::Way;
use crate::wire::{Element, Stanza, ns};

/// The type of a message (RFC 6121 section 5.2.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Type {
    /// One of its own.
    Normal,
    /// Part of a talk between two.
    Chat,
    /// Part of a talk of many.
    Groupchat,
    /// News that nobody answers to.
    Headline,
    /// Something sent before was not served.
    Error,
}

impl Type {
    /// The type of a message; what is unknown is normal.
    pub fn of(message: &Stanza) -> Self {
        match message.type_() {
            Some("chat") => Self::Chat,
            Some("groupchat") => Self::Groupchat,
            Some("headline") => Self::Headline,
            Some("error") => Self::Error,
            _ => Self::Normal,
        }
    }
}

/// What is at the address of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// An account: its resources that are available with a priority of 0 or more.
    Bare {
        /// Whether there are any.
        anybody: bool,
    },
    /// A resource that is connected.
    Full,
    /// A resource that is not.
    FullGone {
        /// Whether the account has available resources with a priority of 0 or more.
        anybody: bool,
    },
}

/// What is done with a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// It goes to all available resources with a priority of 0 or more.
    All,
    /// It goes to the resource it is for.
    One,
    /// It waits until somebody is there, if it is one that is kept; else it is refused.
    Wait,
    /// Its sender is told that nobody is there.
    Refuse,
    /// Nothing.
    Drop,
}

/// RFC 6121, table 1 and sections 8.5.2 to 8.5.3, for an account that exists.
pub fn action(kind: Type, target: Target) -> Action {
    match (target, kind) {
        (Target::Full, _) => Action::One,
        (Target::Bare { .. }, Type::Groupchat) => Action::Refuse,
        (Target::Bare { .. }, Type::Error) => Action::Drop,
        (Target::Bare { anybody: true }, _) => Action::All,
        (Target::Bare { anybody: false }, Type::Headline) => Action::Drop,
        (Target::Bare { anybody: false }, _) => Action::Wait,
        (Target::FullGone { .. }, Type::Error | Type::Headline) => Action::Drop,
        (Target::FullGone { .. }, Type::Normal | Type::Groupchat) => Action::Refuse,
        (Target::FullGone { anybody: true }, Type::Chat) => Action::All,
        (Target::FullGone { anybody: false }, Type::Chat) => Action::Wait,
    }
}

/// How a message is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// In archives, and until somebody is there.
    Archived,
    /// Only until somebody is there.
    Waiting,
    /// Not at all.
    Not,
}

/// Payloads without a body that people would miss: receipts, markers, reactions, calls, keys.
const WORTH_KEEPING: &[&str] = &[
    ns::RECEIPTS,
    ns::MARKERS,
    "urn:xmpp:reactions:0",
    "urn:xmpp:message-retract:1",
    "urn:xmpp:message-retract:0",
    "urn:xmpp:fasten:0",
    "urn:xmpp:message-correct:0",
    "urn:xmpp:jingle-message:0",
    "urn:xmpp:call-invites:0",
    "urn:xmpp:omemo:2",
    "eu.siacs.conversations.axolotl",
    "urn:xmpp:openpgp:0",
    "jabber:x:encrypted",
    "jabber:x:conference",
    ns::MUC_USER,
];

/// `<x/>` that says no more than that a message is a private one of a room (XEP-0045 section 7.5).
fn is_private_mark(child: &Element) -> bool {
    child.is("x", ns::MUC_USER) && child.children().next().is_none()
}

/// How this message to a person is kept (XEP-0313 section 6.1.1, XEP-0160, XEP-0334).
pub fn kept(message: &Stanza) -> Kept {
    match Type::of(message) {
        Type::Chat | Type::Normal => worth(message, &["body"]),
        // Those of a room are kept by the room.
        Type::Groupchat | Type::Headline | Type::Error => Kept::Not,
    }
}

/// How a room keeps what is said to all in it: in its archive and for those who come, or for those
/// who come alone.
pub fn kept_by_room(message: &Stanza) -> Kept {
    worth(message, &["body", "subject"])
}

/// Whether people would miss it, as they do these `texts`, and what it asks for itself.
fn worth(message: &Stanza, texts: &[&str]) -> Kept {
    let hint = |name: &str| message.element.has(name, ns::HINTS);
    if hint("no-store") {
        return Kept::Not;
    }
    let worth = |child: &Element| {
        (child.ns == ns::CLIENT && texts.contains(&&*child.name))
            || WORTH_KEEPING.contains(&&*child.ns)
                && !matches!(&*child.name, "request" | "markable")
                && !is_private_mark(child)
    };
    let is_worth = hint("store") || message.element.children().any(worth);
    match (is_worth, hint("no-permanent-store")) {
        (false, _) => Kept::Not,
        (true, true) => Kept::Waiting,
        (true, false) => Kept::Archived,
    }
}

/// Whether one's other resources get copies of it (XEP-0280 section 6.1). A private message of a
/// room comes to each app that is in the room by itself; who sends one does so by one app.
pub fn is_copied(message: &Stanza, way: Way) -> bool {
    let inside = &message.element;
    if inside.has("private", ns::CARBONS) || inside.has("no-copy", ns::HINTS) {
        return false;
    }
    if way == Way::Received && inside.children().any(is_private_mark) {
        return false;
    }
    match Type::of(message) {
        Type::Chat => true,
        Type::Normal => {
            inside.has("body", ns::CLIENT)
                || inside
                    .children()
                    .any(|child| matches!(&*child.ns, ns::RECEIPTS | ns::CHAT_STATES | ns::MARKERS))
        }
        Type::Groupchat | Type::Headline | Type::Error => false,
    }
}

/// Whether it may be left out where nobody looks: a chat state and nothing else, but ids and from
/// whom it is.
pub fn is_passing(message: &Stanza) -> bool {
    let says_more = |child: &Element| {
        let is_aside =
            matches!(&*child.ns, ns::CHAT_STATES | ns::HINTS | ns::STANZA_ID | ns::OCCUPANT_ID);
        !is_aside && child.name != "thread" && !is_private_mark(child)
    };
    !message.element.children().any(says_more)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::parse;

    fn message(text: &str) -> Stanza {
        let text = text.replacen("<message", "<message xmlns='jabber:client'", 1);
        Stanza::of(parse::element(&text).unwrap()).unwrap()
    }

    /// RFC 6121, table 1, the rows of accounts that exist.
    #[test]
    fn every_cell_of_the_table_is_as_specified() {
        use Action::*;
        let types = [Type::Normal, Type::Chat, Type::Groupchat, Type::Headline, Type::Error];
        let row = |target| types.map(|kind| action(kind, target));
        assert_eq!(row(Target::Bare { anybody: false }), [Wait, Wait, Refuse, Drop, Drop]);
        assert_eq!(row(Target::Bare { anybody: true }), [All, All, Refuse, All, Drop]);
        assert_eq!(row(Target::Full), [One, One, One, One, One]);
        assert_eq!(row(Target::FullGone { anybody: true }), [Refuse, All, Refuse, Drop, Drop]);
        assert_eq!(row(Target::FullGone { anybody: false }), [Refuse, Wait, Refuse, Drop, Drop]);
    }

    #[test]
    fn what_people_would_miss_is_kept_and_nothing_else() {
        let body = "<message type='chat'><body>hi</body></message>";
        assert_eq!(kept(&message(body)), Kept::Archived);
        let typing = "<message type='chat'><composing \
                      xmlns='http://jabber.org/protocol/chatstates'/></message>";
        assert_eq!(kept(&message(typing)), Kept::Not);
        assert!(is_passing(&message(typing)));
        let receipt = "<message><received xmlns='urn:xmpp:receipts' id='1'/></message>";
        assert_eq!(kept(&message(receipt)), Kept::Archived);
        let secret = "<message><body>hi</body><no-store xmlns='urn:xmpp:hints'/></message>";
        assert_eq!(kept(&message(secret)), Kept::Not);
        let brief =
            "<message><body>hi</body><no-permanent-store xmlns='urn:xmpp:hints'/></message>";
        assert_eq!(kept(&message(brief)), Kept::Waiting);
        assert_eq!(kept(&message("<message type='headline'><body>hi</body></message>")), Kept::Not);
        let private_typing = "<message type='chat'><composing \
                              xmlns='http://jabber.org/protocol/chatstates'/>\
                              <x xmlns='http://jabber.org/protocol/muc#user'/></message>";
        assert_eq!(kept(&message(private_typing)), Kept::Not);
    }

    #[test]
    fn a_room_keeps_what_people_would_miss() {
        let is = |inside: &str| {
            kept_by_room(&message(&format!("<message type='groupchat'>{inside}</message>")))
        };
        assert_eq!(is("<body>hi</body>"), Kept::Archived);
        assert_eq!(is("<subject>tea</subject><thread>1</thread>"), Kept::Archived);
        for ns in [
            "urn:xmpp:reactions:0",
            "urn:xmpp:message-retract:1",
            "urn:xmpp:message-correct:0",
            "urn:xmpp:receipts",
            "urn:xmpp:chat-markers:0",
        ] {
            assert_eq!(is(&format!("<it xmlns='{ns}'/>")), Kept::Archived, "{ns}");
        }
        assert_eq!(is("<paused xmlns='http://jabber.org/protocol/chatstates'/>"), Kept::Not);
        assert_eq!(is("<body>hi</body><no-store xmlns='urn:xmpp:hints'/>"), Kept::Not);
        let brief = is("<body>hi</body><no-permanent-store xmlns='urn:xmpp:hints'/>");
        assert_eq!(brief, Kept::Waiting);
    }

    #[test]
    fn private_messages_are_not_copied() {
        let is = |text: &str, way| is_copied(&message(text), way);
        assert!(is("<message type='chat'><body>hi</body></message>", Way::Received));
        let private = "<message type='chat'><body/><private xmlns='urn:xmpp:carbons:2'/></message>";
        assert!(!is(private, Way::Sent));
        assert!(!is("<message type='groupchat'><body/></message>", Way::Sent));
        assert!(!is("<message/>", Way::Sent));
        let of_room = "<message type='chat'><body>hi</body>\
                       <x xmlns='http://jabber.org/protocol/muc#user'/></message>";
        assert!(is(of_room, Way::Sent));
        assert!(!is(of_room, Way::Received));
        let invitation = "<message><body>hi</body><x xmlns='http://jabber.org/protocol/muc#user'>\
                          <invite/></x></message>";
        assert!(is(invitation, Way::Received));
    }
}
