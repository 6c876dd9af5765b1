//! XML streams, as little of them as a client needs that trusts its server.

use anyhow::{Result, bail};
use memchr::{memchr, memmem};

/// An element may be so long.
const ELEMENT_BYTES_MAX: usize = 4 << 20;

/// Cuts what came into the elements right inside the stream.
#[derive(Default)]
pub(super) struct Cutter {
    buffer: Vec<u8>,
    /// Where the element begins that is not whole yet.
    from: usize,
    /// Looked at so far.
    at: usize,
    depth: u32,
}

impl Cutter {
    /// Where bytes that come are appended.
    pub(super) fn buffer(&mut self) -> &mut Vec<u8> {
        if self.from > 0 {
            self.buffer.drain(..self.from);
            self.at -= self.from;
            self.from = 0;
        }
        &mut self.buffer
    }

    /// The next whole element, or the header or the end of a stream.
    pub(super) fn next(&mut self) -> Result<Option<&str>> {
        loop {
            let Some(open) = memchr(b'<', &self.buffer[self.at..]).map(|at| at + self.at) else {
                self.at = self.buffer.len();
                break;
            };
            let Some(close) = tag_end(&self.buffer[open..]).map(|at| at + open) else {
                self.at = open;
                break;
            };
            self.at = close + 1;
            let tag = &self.buffer[open + 1..close];
            if self.depth == 0 {
                self.from = open;
            }
            let whole = match tag {
                [b'?', ..] => {
                    self.from = self.at;
                    false
                }
                [b's', b't', b'r', b'e', b'a', b'm', b':', b's', b't', ..] => true,
                [b'/', rest @ ..] => {
                    self.depth = self.depth.saturating_sub(1);
                    self.depth == 0 || rest.starts_with(b"stream:stream")
                }
                [.., b'/'] => self.depth == 0,
                _ => {
                    self.depth += 1;
                    false
                }
            };
            if whole {
                let from = std::mem::replace(&mut self.from, self.at);
                return Ok(Some(std::str::from_utf8(&self.buffer[from..self.at])?));
            }
        }
        if self.buffer.len() - self.from > ELEMENT_BYTES_MAX {
            bail!("the server sent an element of more than {ELEMENT_BYTES_MAX} bytes");
        }
        Ok(None)
    }
}

/// Where the tag that begins here ends.
fn tag_end(tag: &[u8]) -> Option<usize> {
    let mut quote = None;
    for (at, byte) in tag.iter().enumerate() {
        match (quote, byte) {
            (None, b'>') => return Some(at),
            (None, b'"' | b'\'') => quote = Some(*byte),
            (Some(open), byte) if open == *byte => quote = None,
            _ => {}
        }
    }
    None
}

/// The name of an element.
pub(super) fn name(element: &str) -> &str {
    let from = element.trim_start_matches('<');
    from.split([' ', '>', '/', '\n']).next().unwrap_or_default()
}

/// An attribute of the element itself, as it is written.
pub(super) fn attribute<'e>(element: &'e str, name: &str) -> Option<&'e str> {
    let tag = &element[..tag_end(element.as_bytes())?];
    let mut rest = tag;
    loop {
        let at = memmem::find(rest.as_bytes(), name.as_bytes())?;
        let before = rest[..at].chars().next_back();
        let after = &rest[at + name.len()..];
        let quote = after.strip_prefix('=').and_then(|value| value.chars().next());
        match (before, quote) {
            (Some(' ' | '\n'), Some(quote @ ('"' | '\''))) => {
                return after[2..].split(quote).next();
            }
            _ => rest = after,
        }
    }
}

/// The text of the first `<name>` inside, as it is written.
pub(super) fn text_of<'e>(element: &'e str, name: &str) -> Option<&'e str> {
    let open = format!("<{name}");
    let mut rest = element;
    loop {
        rest = &rest[memmem::find(rest.as_bytes(), open.as_bytes())? + open.len()..];
        if rest.starts_with([' ', '>']) {
            let inner = &rest[rest.find('>')? + 1..];
            return inner.split('<').next();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_cut_wherever_its_bytes_are() {
        let stream = "<?xml version='1.0'?><stream:stream id='1' to=\">\"><stream:features>\
            <a/><b>c</b></stream:features> <presence from='x'/><message><body>d</body></message>\
            </stream:stream>";
        let whole = [
            "<stream:stream id='1' to=\">\">",
            "<stream:features><a/><b>c</b></stream:features>",
            "<presence from='x'/>",
            "<message><body>d</body></message>",
            "</stream:stream>",
        ];
        for step in 1..stream.len() {
            let (mut cutter, mut found) = (Cutter::default(), Vec::new());
            for part in stream.as_bytes().chunks(step) {
                cutter.buffer().extend_from_slice(part);
                while let Some(element) = cutter.next().unwrap() {
                    found.push(element.to_owned());
                }
            }
            assert_eq!(found, whole, "in steps of {step}");
        }
    }

    #[test]
    fn names_attributes_and_texts_are_found() {
        let element = "<iq type='result' id=\"a1\"><bind><jid >a@b/c</jid></bind></iq>";
        assert_eq!(name(element), "iq");
        assert_eq!(attribute(element, "id"), Some("a1"));
        assert_eq!(attribute(element, "type"), Some("result"));
        assert_eq!(attribute(element, "to"), None);
        assert_eq!(text_of(element, "jid"), Some("a@b/c"));
        assert_eq!(text_of(element, "j"), None);
    }
}
