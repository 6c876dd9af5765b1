//! Finds where the elements of a stream begin and end, in bytes that come in pieces.
//!
//! It holds only what has come of an element that is not whole yet, and nothing between elements.

use memchr::{memchr, memchr3};

use super::element::Element;
use super::parse::{self, DEPTH_MAX, Scope, XmlError};

/// What a stream is made of.
#[derive(Debug, PartialEq, Eq)]
pub enum Frame {
    /// `<stream:stream …>`
    Open(Element),
    /// A whole element right inside the stream.
    Element(Element),
    /// White space between elements: a sign of life.
    Space,
    /// `</stream:stream>`
    Close,
}

/// Cuts a stream into [`Frame`]s.
#[derive(Debug)]
pub struct Framer {
    buffer: Vec<u8>,
    /// Looked at so far.
    at: usize,
    mode: Mode,
    depth: u16,
    opened: bool,
    element_bytes_max: u32,
    /// What the stream header declared; none means [`Scope::client`].
    scope: Option<Box<Scope>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Between tags.
    Text,
    /// Behind `<`.
    Began,
    /// In an opening tag; whether the last byte was `/`.
    Tag { slash: bool },
    /// In an attribute's value.
    Quoted { quote: u8 },
    /// In a closing tag.
    Closing,
    /// Behind `<!`, so many bytes of `[CDATA[` read.
    Bang { read: u8 },
    /// In CDATA, behind so many `]`.
    Data { brackets: u8 },
    /// In `<?xml …?>`.
    Declaration { question: bool },
}

const CDATA: &[u8] = b"[CDATA[";
/// A buffer that grew beyond this is not kept.
const KEPT_BYTES_MAX: usize = 32 * 1024;

impl Framer {
    /// A stream that has not begun, whose elements are at most so long.
    pub fn new(element_bytes_max: u32) -> Self {
        Self {
            buffer: Vec::new(),
            at: 0,
            mode: Mode::Text,
            depth: 0,
            opened: false,
            element_bytes_max,
            scope: None,
        }
    }

    /// From here on elements may be so long.
    pub fn set_element_bytes_max(&mut self, bytes: u32) {
        self.element_bytes_max = bytes;
    }

    /// The next thing that comes is a stream header: after STARTTLS and SASL streams begin anew.
    pub fn restart(&mut self) {
        self.opened = false;
        self.depth = 0;
        self.scope = None;
    }

    /// Bytes that have come.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Whether nothing of what was pushed waits.
    pub fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// Whether nothing but whitespace waits. Where another protocol begins (TLS), whitespace is
    /// dropped, since some clients end each element with a line; anything else is refused.
    pub fn has_only_space(&self) -> bool {
        self.buffer.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n'))
    }

    /// Whether an element has begun and is not whole.
    pub fn is_amid_element(&self) -> bool {
        !self.buffer.is_empty()
    }

    /// The next frame of the bytes pushed, or none until more come.
    ///
    /// # Errors
    /// [`XmlError`]; the stream is of no more use then.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, XmlError> {
        loop {
            let Some(end) = self.scan()? else {
                if self.buffer.len() > self.element_bytes_max as usize {
                    return Err(XmlError::Limit("this stanza is too long"));
                }
                if self.buffer.is_empty() && self.buffer.capacity() > 0 {
                    self.buffer = Vec::new();
                }
                return Ok(None);
            };
            let frame = self.cut(end)?;
            if frame.is_some() {
                return Ok(frame);
            }
        }
    }

    fn cut(&mut self, end: Cut) -> Result<Option<Frame>, XmlError> {
        let (length, frame) = match end {
            Cut::Space(length) => (length, self.opened.then_some(Frame::Space)),
            Cut::Close(length) => (length, Some(Frame::Close)),
            Cut::Header(length) => {
                let text = utf8(&self.buffer[..length])?;
                let (element, scope) = parse::opening(text)?;
                self.scope = (scope != Scope::client()).then(|| Box::new(scope));
                self.opened = true;
                (length, Some(Frame::Open(element)))
            }
            Cut::Element(length) => {
                if length > self.element_bytes_max as usize {
                    return Err(XmlError::Limit("this stanza is too long"));
                }
                let text = utf8(&self.buffer[..length])?;
                let element = match &self.scope {
                    Some(scope) => parse::element_in(text, scope),
                    None => CLIENT.with(|scope| parse::element_in(text, scope)),
                };
                (length, Some(Frame::Element(element?)))
            }
        };
        if length == self.buffer.len() {
            self.buffer.clear();
            if self.buffer.capacity() > KEPT_BYTES_MAX {
                self.buffer = Vec::new();
            }
        } else {
            self.buffer.drain(..length);
        }
        self.at = 0;
        self.mode = Mode::Text;
        Ok(frame)
    }

    /// Looks for the end of the first frame, from where it stopped the last time.
    fn scan(&mut self) -> Result<Option<Cut>, XmlError> {
        while let Some(&byte) = self.buffer.get(self.at) {
            match self.mode {
                Mode::Text if self.depth == 0 => match byte {
                    b' ' | b'\t' | b'\r' | b'\n' => self.at += 1,
                    b'<' if self.at > 0 && self.opened => return Ok(Some(Cut::Space(self.at))),
                    b'<' => {
                        self.mode = Mode::Began;
                        self.at += 1;
                    }
                    _ => return Err(XmlError::NotWellFormed("text between stanzas")),
                },
                Mode::Text => {
                    let rest = &self.buffer[self.at..];
                    match memchr(b'<', rest) {
                        Some(found) => {
                            self.at += found + 1;
                            self.mode = Mode::Began;
                        }
                        None => self.at = self.buffer.len(),
                    }
                }
                Mode::Began => {
                    self.at += 1;
                    self.mode = match byte {
                        b'/' => Mode::Closing,
                        b'!' if self.depth > 0 => Mode::Bang { read: 0 },
                        b'!' => return Err(XmlError::Restricted("comments and DTDs")),
                        b'?' if !self.opened && self.depth == 0 => {
                            Mode::Declaration { question: false }
                        }
                        b'?' => return Err(XmlError::Restricted("processing instructions")),
                        _ => Mode::Tag { slash: false },
                    };
                }
                Mode::Tag { slash } => {
                    if slash && byte == b'>' {
                        self.at += 1;
                        self.mode = Mode::Text;
                        if self.depth == 0 {
                            return Ok(Some(self.whole()));
                        }
                        continue;
                    }
                    let rest = &self.buffer[self.at..];
                    let Some(found) = memchr3(b'>', b'"', b'\'', rest) else {
                        self.mode = Mode::Tag { slash: rest.last() == Some(&b'/') };
                        self.at = self.buffer.len();
                        continue;
                    };
                    let before = found.checked_sub(1).map(|before| rest[before]);
                    let slash = before.map_or(slash, |before| before == b'/');
                    let byte = rest[found];
                    self.at += found + 1;
                    if byte != b'>' {
                        self.mode = Mode::Quoted { quote: byte };
                        continue;
                    }
                    self.mode = Mode::Text;
                    if !self.opened {
                        return Ok(Some(Cut::Header(self.at)));
                    }
                    if !slash {
                        self.depth += 1;
                        if usize::from(self.depth) > DEPTH_MAX {
                            return Err(XmlError::Limit("elements at most 64 deep"));
                        }
                    } else if self.depth == 0 {
                        return Ok(Some(Cut::Element(self.at)));
                    }
                }
                Mode::Quoted { quote } => match memchr(quote, &self.buffer[self.at..]) {
                    Some(found) => {
                        self.at += found + 1;
                        self.mode = Mode::Tag { slash: false };
                    }
                    None => self.at = self.buffer.len(),
                },
                Mode::Closing => match memchr(b'>', &self.buffer[self.at..]) {
                    Some(found) => {
                        self.at += found + 1;
                        self.mode = Mode::Text;
                        if self.depth == 0 {
                            return Ok(Some(Cut::Close(self.at)));
                        }
                        self.depth -= 1;
                        if self.depth == 0 {
                            return Ok(Some(Cut::Element(self.at)));
                        }
                    }
                    None => self.at = self.buffer.len(),
                },
                Mode::Bang { read } => {
                    if CDATA[usize::from(read)] != byte {
                        return Err(XmlError::Restricted("comments and DTDs"));
                    }
                    self.at += 1;
                    let is_whole = usize::from(read) + 1 == CDATA.len();
                    self.mode = match is_whole {
                        true => Mode::Data { brackets: 0 },
                        false => Mode::Bang { read: read + 1 },
                    };
                }
                Mode::Data { brackets } => {
                    self.at += 1;
                    self.mode = match byte {
                        b'>' if brackets >= 2 => Mode::Text,
                        b']' => Mode::Data { brackets: brackets.saturating_add(1).min(2) },
                        _ => Mode::Data { brackets: 0 },
                    };
                }
                Mode::Declaration { question } => {
                    self.at += 1;
                    self.mode = match byte {
                        b'>' if question => Mode::Text,
                        _ => Mode::Declaration { question: byte == b'?' },
                    };
                }
            }
        }
        // White space alone is told at once: it is all there is.
        let is_space = self.mode == Mode::Text && self.depth == 0 && self.at > 0;
        Ok((is_space && self.opened).then_some(Cut::Space(self.at)))
    }

    /// An element without anything inside, right in the stream.
    fn whole(&self) -> Cut {
        if self.opened { Cut::Element(self.at) } else { Cut::Header(self.at) }
    }
}

enum Cut {
    Space(usize),
    Header(usize),
    Element(usize),
    Close(usize),
}

thread_local! {
    static CLIENT: Scope = Scope::client();
}

fn utf8(bytes: &[u8]) -> Result<&str, XmlError> {
    std::str::from_utf8(bytes).map_err(|_| XmlError::Encoding)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HEADER: &str = "<?xml version='1.0'?><stream:stream xmlns='jabber:client' \
                          xmlns:stream='http://etherx.jabber.org/streams' to='a.test'>";

    fn frames(framer: &mut Framer, bytes: &[u8]) -> Result<Vec<Frame>, XmlError> {
        framer.push(bytes);
        let mut all = Vec::new();
        while let Some(frame) = framer.next_frame()? {
            all.push(frame);
        }
        Ok(all)
    }

    fn names(frames: &[Frame]) -> Vec<String> {
        let name = |frame: &Frame| match frame {
            Frame::Open(element) => format!("open {}", element.attr("to").unwrap_or("")),
            Frame::Element(element) => format!("{}:{}", element.name, element.children().count()),
            Frame::Space => "space".into(),
            Frame::Close => "close".into(),
        };
        frames.iter().map(name).collect()
    }

    const TALK: &str = "<iq id='1'><q a=\"<\" b='/>'/></iq> <presence/><message><body>a > b \
                        <![CDATA[</body>]]></body><x/></message></stream:stream>";

    #[test]
    fn elements_are_found_wherever_the_bytes_are_cut() {
        let talk = format!("{HEADER}{}", TALK.replace("a=\"<\"", "a=\"'\""));
        let expected = ["open a.test", "iq:1", "space", "presence:0", "message:2", "close"];
        for piece in 1..talk.len() {
            let mut framer = Framer::new(1_000);
            let mut all = Vec::new();
            for bytes in talk.as_bytes().chunks(piece) {
                all.extend(frames(&mut framer, bytes).unwrap());
            }
            assert_eq!(names(&all), expected, "in pieces of {piece}");
        }
    }

    #[test]
    fn nothing_is_held_between_elements() {
        let mut framer = Framer::new(1_000);
        frames(&mut framer, HEADER.as_bytes()).unwrap();
        frames(&mut framer, b"<presence/>").unwrap();
        assert_eq!(framer.buffer.capacity(), 0);
    }

    #[test]
    fn an_endless_element_is_refused_at_the_limit() {
        let mut framer = Framer::new(1_000);
        frames(&mut framer, HEADER.as_bytes()).unwrap();
        let piece = [b'a'; 100];
        framer.push(b"<message>");
        let refused = (0..20).find_map(|_| frames(&mut framer, &piece).err());
        assert_eq!(refused, Some(XmlError::Limit("this stanza is too long")));
    }

    #[test]
    fn what_xmpp_forbids_is_refused_before_it_is_whole() {
        for text in ["<!DOCTYPE", "<a><!-", "<a><?", "<?x", "text", "<a>\u{7f}\0</a>"] {
            let mut framer = Framer::new(1_000);
            frames(&mut framer, HEADER.as_bytes()).unwrap();
            assert!(frames(&mut framer, text.as_bytes()).is_err(), "{text}");
        }
        let mut framer = Framer::new(1_000);
        assert!(frames(&mut framer, b"<!DOCTYPE x [<!ENTITY").is_err());
    }

    #[test]
    fn bytes_that_are_no_utf8_are_refused() {
        let mut framer = Framer::new(1_000);
        frames(&mut framer, HEADER.as_bytes()).unwrap();
        assert_eq!(frames(&mut framer, b"<a>\xff</a>"), Err(XmlError::Encoding));
    }

    proptest! {
        #[test]
        fn nothing_panics_and_nothing_loops(bytes in proptest::collection::vec(
            prop_oneof![Just(b'<'), Just(b'>'), Just(b'/'), Just(b'\''), Just(b'!'), Just(b'['),
                Just(b'a'), Just(b' '), Just(b'?'), Just(b']'), any::<u8>()], 0..60)) {
            let mut framer = Framer::new(1_000);
            let _ = frames(&mut framer, HEADER.as_bytes());
            let _ = frames(&mut framer, &bytes);
        }
    }
}
