//! What the face of chat does for the other faces, which know nothing of it: it carries messages,
//! knows who is here and what rooms are like, and keeps contacts as people's apps do.

use std::future::Future;
use std::pin::Pin;

use weir_base::Id;

use crate::Error;

/// The longest text of a message that is written outside of chat, in bytes.
pub const TEXT_BYTES_MAX: usize = 16 * 1_024;

/// A message that is written outside of chat.
#[derive(Debug, Clone)]
pub struct Outgoing {
    /// Who writes it.
    pub from: Id,
    /// Their address.
    pub from_jid: String,
    /// Whom it is for.
    pub to_jid: String,
    /// Its text.
    pub text: String,
}

/// Something said in a room by somebody who need not be there with an app.
#[derive(Debug, Clone)]
pub struct Saying {
    /// Who says it.
    pub by: Id,
    /// The address of the room.
    pub room: String,
    /// Its text.
    pub text: String,
}

/// What somebody wants to see of a room.
#[derive(Debug, Clone)]
pub struct RoomQuery {
    /// Who.
    pub reader: Id,
    /// The address of the room.
    pub room: String,
    /// Only messages older than this one.
    pub before: Option<Id>,
    /// So many messages at most: the newest.
    pub limit: usize,
}

/// What somebody sees of a room.
#[derive(Debug, Clone, Default)]
pub struct RoomView {
    /// What was said, in order of time; nothing where the room keeps nothing.
    pub messages: Vec<Said>,
    /// Who is there, and members who are not.
    pub people: Vec<RoomPerson>,
}

/// Something that was said in a room.
#[derive(Debug, Clone)]
pub struct Said {
    /// Its id.
    pub id: Id,
    /// The nick of who said it; empty for the room itself.
    pub nick: String,
    /// Whether the reader said it.
    pub is_own: bool,
    /// Its text, where it has one.
    pub text: Option<String>,
}

/// Somebody of a room.
#[derive(Debug, Clone)]
pub struct RoomPerson {
    /// What they are called there.
    pub nick: String,
    /// What they are to the room for long, by the name the protocol has for it.
    pub affiliation: &'static str,
    /// What they are while they are there; none for those who are not.
    pub role: Option<&'static str>,
    /// Their address, where the reader may know it.
    pub jid: Option<String>,
}

/// What somebody does about a contact.
#[derive(Debug, Clone)]
pub enum ContactDeed {
    /// Lists it, and asks to see its presence. Without a name or groups those it has stay.
    Add {
        /// What to call it.
        name: Option<String>,
        /// The groups it stands in.
        groups: Option<Vec<String>>,
    },
    /// Takes it off, both ways.
    Remove,
    /// Lets it see one's presence.
    Approve,
    /// Does not let it, or not any more.
    Refuse,
}

/// Something on its way.
pub type Doing<T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send>>;

/// A message on its way: its id once it is durable.
pub type Sending = Doing<Id>;

/// The face of chat, as others see it.
pub struct Carrier {
    /// Sends a message by the rules that hold for all messages.
    pub send: Box<dyn Fn(Outgoing) -> Sending + Send + Sync>,
    /// Whether this account is here; where that changes it is told
    /// ([`Streams::chat_presence_changed`](crate::streams::Streams::chat_presence_changed)).
    pub is_here: Box<dyn Fn(Id) -> bool + Send + Sync>,
    /// Says something in a room by the rules that hold for its occupants.
    pub say: Box<dyn Fn(Saying) -> Sending + Send + Sync>,
    /// What somebody sees of a room, who may read its archive; that it is another is told
    /// ([`Streams::room_moved`](crate::streams::Streams::room_moved)).
    pub room: Box<dyn Fn(RoomQuery) -> Doing<RoomView> + Send + Sync>,
    /// Does something about the contact at an address in the name of an account.
    pub contact: Box<dyn Fn(Id, String, ContactDeed) -> Doing<()> + Send + Sync>,
}

/// The text of a stored message: of the `<body/>` right inside of it. Stored messages are as this
/// server wrote them: without comments, CDATA, or entities but the five.
pub fn text_of(xml: &str) -> Option<String> {
    let mut depth = 0_usize;
    let mut text: Option<&str> = None;
    let mut at = 0;
    while let Some(open) = xml.get(at..)?.find('<').map(|found| at + found) {
        let end = tag_end(xml, open)?;
        let tag = &xml[open + 1..end];
        if tag.starts_with('/') {
            if depth == 2
                && let Some(rest) = text
            {
                let length = rest.len() - (xml.len() - open);
                return Some(unescaped(&rest[..length]));
            }
            depth = depth.checked_sub(1)?;
        } else if !tag.ends_with('/') {
            depth += 1;
            let name = tag.split(char::is_whitespace).next().unwrap_or_default();
            let is_own = !tag.contains("xmlns=") || tag.contains("jabber:client");
            if depth == 2 && name == "body" && is_own {
                text = Some(&xml[end + 1..]);
            }
        }
        at = end + 1;
    }
    None
}

/// Where the tag that begins at `open` ends; what stands in quotes does not count.
fn tag_end(xml: &str, open: usize) -> Option<usize> {
    let mut quote = None;
    for (at, byte) in xml.bytes().enumerate().skip(open) {
        match (quote, byte) {
            (None, b'>') => return Some(at),
            (None, b'\'' | b'"') => quote = Some(byte),
            (Some(begun), byte) if begun == byte => quote = None,
            _ => {}
        }
    }
    None
}

fn unescaped(text: &str) -> String {
    let five = [("&lt;", "<"), ("&gt;", ">"), ("&apos;", "'"), ("&quot;", "\""), ("&amp;", "&")];
    five.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}

#[cfg(test)]
mod tests {
    use super::text_of;

    #[test]
    fn the_text_of_a_message_is_found_whatever_stands_beside_it() {
        let around = |inside: &str| {
            let begin = "<message xmlns='jabber:client' from='a@b' id='x>y'>";
            text_of(&format!("{begin}{inside}</message>"))
        };
        assert_eq!(around("<body>a &lt;b&gt; &amp;lt;</body>").unwrap(), "a <b> &lt;");
        let html = "<html xmlns='h'><body xmlns='w'>no</body></html><body xml:lang='en'>yes</body>";
        assert_eq!(around(html).unwrap(), "yes");
        let forwarded = "<f xmlns='f'><message><body>no</body></message></f>";
        assert_eq!(around(forwarded), None);
        assert_eq!(around("<body/>"), None);
        assert_eq!(text_of("<message><body>cut"), None);
        assert_eq!(text_of("no xml"), None);
    }
}
