//! What becomes of a message: the rules of RFC 6121 section 8.5, what is kept, and what is copied
//! to one's other resources. Pure.

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
    "urn:xmpp:omemo:2",
    "eu.siacs.conversations.axolotl",
    "urn:xmpp:openpgp:0",
    "jabber:x:encrypted",
    "jabber:x:conference",
    ns::MUC_USER,
];

/// How this message is kept (XEP-0313 section 6.1.1, XEP-0160, XEP-0334).
pub fn kept(message: &Stanza) -> Kept {
    if !matches!(Type::of(message), Type::Chat | Type::Normal) {
        return Kept::Not;
    }
    let hint = |name: &str| message.element.has(name, ns::HINTS);
    if hint("no-store") {
        return Kept::Not;
    }
    let worth = |child: &Element| {
        (child.name == "body" && child.ns == ns::CLIENT)
            || WORTH_KEEPING.contains(&&*child.ns)
                && !matches!(&*child.name, "request" | "markable")
    };
    let is_worth = hint("store") || message.element.children().any(worth);
    match (is_worth, hint("no-permanent-store")) {
        (false, _) => Kept::Not,
        (true, true) => Kept::Waiting,
        (true, false) => Kept::Archived,
    }
}

/// Whether one's other resources get copies of it (XEP-0280 section 6.1).
pub fn is_copied(message: &Stanza) -> bool {
    let inside = &message.element;
    if inside.has("private", ns::CARBONS) || inside.has("no-copy", ns::HINTS) {
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

/// Whether it may be left out where nobody looks: a chat state and nothing else.
pub fn is_passing(message: &Stanza) -> bool {
    let says_more = |child: &Element| {
        child.ns != ns::CHAT_STATES && child.ns != ns::HINTS && child.name != "thread"
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
    }

    #[test]
    fn private_messages_are_not_copied() {
        assert!(is_copied(&message("<message type='chat'><body>hi</body></message>")));
        let private = "<message type='chat'><body/><private xmlns='urn:xmpp:carbons:2'/></message>";
        assert!(!is_copied(&message(private)));
        assert!(!is_copied(&message("<message type='groupchat'><body/></message>")));
        assert!(!is_copied(&message("<message/>")));
    }
}
