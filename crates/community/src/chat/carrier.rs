//! What the face of chat does for the other faces, which know nothing of it: it carries messages,
//! and knows who is here.

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

/// A message on its way: its id once it is durable.
pub type Sending = Pin<Box<dyn Future<Output = Result<Id, Error>> + Send>>;

/// The face of chat, as others see it.
pub struct Carrier {
    /// Sends a message by the rules that hold for all messages.
    pub send: Box<dyn Fn(Outgoing) -> Sending + Send + Sync>,
    /// Whether this account is here; where that changes it is told
    /// ([`Streams::chat_presence_changed`](crate::streams::Streams::chat_presence_changed)).
    pub is_here: Box<dyn Fn(Id) -> bool + Send + Sync>,
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
