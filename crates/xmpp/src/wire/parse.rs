//! Text of one whole element to an [`Element`]: XML 1.0 with namespaces, as RFC 6120 section 11
//! restricts it (no DTD, comments, processing instructions; only the five entities).

use std::borrow::Cow;

use memchr::memchr;

use super::element::{Element, Node};
use super::ns;

/// Elements inside each other, the stanza counted.
pub const DEPTH_MAX: usize = 64;
/// Attributes of one element.
const ATTRIBUTES_MAX: usize = 64;

/// Why a text is no element that is taken here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum XmlError {
    /// It is not XML.
    #[error("this is not well-formed XML: {0}")]
    NotWellFormed(&'static str),
    /// A prefix that was not declared.
    #[error("an undeclared namespace prefix: declare it with xmlns:PREFIX")]
    Prefix,
    /// What XMPP forbids in XML.
    #[error("XMPP forbids this in XML: {0}")]
    Restricted(&'static str),
    /// Bytes that are no UTF-8.
    #[error("the stream is not UTF-8: send UTF-8 only")]
    Encoding,
    /// Beyond a limit.
    #[error("beyond a limit of this server: {0}")]
    Limit(&'static str),
}

/// The namespaces declared around an element.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    /// What no prefix stands for.
    pub default: Cow<'static, str>,
    /// What each prefix stands for.
    pub prefixes: Vec<(String, Cow<'static, str>)>,
}

impl Scope {
    /// Nothing is declared.
    pub fn empty() -> Self {
        Self { default: Cow::Borrowed(""), prefixes: Vec::new() }
    }

    /// As around the stanzas of nearly every client.
    pub fn client() -> Self {
        let prefixes = vec![("stream".to_owned(), Cow::Borrowed(ns::STREAM))];
        Self { default: Cow::Borrowed(ns::CLIENT), prefixes }
    }

    /// The scope within `header`, whose declarations stand among its attributes.
    fn within(&self, declared: &[(&str, Cow<'_, str>)]) -> Option<Self> {
        let mut scope = self.clone();
        for (name, value) in declared {
            match name.strip_prefix("xmlns") {
                Some("") => scope.default = ns::interned(value),
                Some(prefix) => {
                    let prefix = prefix.strip_prefix(':')?;
                    scope.prefixes.push((prefix.to_owned(), ns::interned(value)));
                }
                None => {}
            }
        }
        Some(scope)
    }
}

/// Parses one element that stands alone (a frame of WebSocket, a stored payload).
///
/// # Errors
/// [`XmlError`].
pub fn element(text: &str) -> Result<Element, XmlError> {
    element_in(text, &Scope::empty())
}

/// Parses one element in `scope`.
///
/// # Errors
/// [`XmlError`].
pub fn element_in(text: &str, scope: &Scope) -> Result<Element, XmlError> {
    let mut reader = Reader { text, at: 0, declared: Vec::new(), scope };
    reader.skip_space();
    let element = reader.whole()?;
    reader.skip_space();
    match reader.at == text.len() {
        true => Ok(element),
        false => Err(XmlError::NotWellFormed("something follows the element")),
    }
}

/// Parses an opening tag such as `<stream:stream …>`, and what is declared by it.
///
/// # Errors
/// [`XmlError`].
pub fn opening(text: &str) -> Result<(Element, Scope), XmlError> {
    let outer = Scope::empty();
    let mut reader = Reader { text, at: 0, declared: Vec::new(), scope: &outer };
    reader.skip_space();
    if reader.rest().starts_with("<?xml") {
        let end = reader.rest().find("?>").ok_or(BROKEN)?;
        reader.at += end + 2;
        reader.skip_space();
    }
    let tag = reader.tag()?;
    let own = outer.within(&tag.attrs).ok_or(BROKEN)?;
    let element = reader.element_of(&tag)?;
    Ok((element, own))
}

const BROKEN: XmlError = XmlError::NotWellFormed("a tag is broken");

struct Reader<'t> {
    text: &'t str,
    at: usize,
    /// Declarations of the elements around, innermost last; the depth tells when they end.
    declared: Vec<(usize, &'t str, Cow<'static, str>)>,
    scope: &'t Scope,
}

struct Tag<'t> {
    prefix: &'t str,
    name: &'t str,
    /// As written, to be met again by the closing tag.
    full: &'t str,
    attrs: Vec<(&'t str, Cow<'t, str>)>,
    is_empty: bool,
}

impl<'t> Reader<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_space(&mut self) -> bool {
        let from = self.at;
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
        self.at > from
    }

    fn eat(&mut self, byte: u8) -> Result<(), XmlError> {
        if self.peek() != Some(byte) {
            return Err(BROKEN);
        }
        self.at += 1;
        Ok(())
    }

    /// A name, perhaps with a prefix.
    fn name(&mut self) -> Result<(&'t str, &'t str, &'t str), XmlError> {
        let rest = self.rest();
        let end = rest.find(|c: char| !is_name_char(c)).unwrap_or(rest.len());
        let full = &rest[..end];
        self.at += end;
        let (prefix, name) = full.split_once(':').unwrap_or(("", full));
        let starts = |part: &str| part.starts_with(is_name_start);
        if !starts(name) || name.contains(':') || (full.len() != name.len() && !starts(prefix)) {
            return Err(XmlError::NotWellFormed("a name is broken"));
        }
        Ok((prefix, name, full))
    }

    fn tag(&mut self) -> Result<Tag<'t>, XmlError> {
        self.eat(b'<')?;
        match self.peek() {
            Some(b'!') => return Err(XmlError::Restricted("comments and DTDs")),
            Some(b'?') => return Err(XmlError::Restricted("processing instructions")),
            _ => {}
        }
        let (prefix, name, full) = self.name()?;
        let mut attrs: Vec<(&str, Cow<'_, str>)> = Vec::new();
        loop {
            let spaced = self.skip_space();
            match self.peek() {
                Some(b'>') => {
                    self.at += 1;
                    return Ok(Tag { prefix, name, full, attrs, is_empty: false });
                }
                Some(b'/') => {
                    self.at += 1;
                    self.eat(b'>')?;
                    return Ok(Tag { prefix, name, full, attrs, is_empty: true });
                }
                Some(_) if spaced => {}
                _ => return Err(BROKEN),
            }
            let (_, _, key) = self.name()?;
            self.skip_space();
            self.eat(b'=')?;
            self.skip_space();
            let value = self.quoted()?;
            if attrs.iter().any(|(is, _)| *is == key) {
                return Err(XmlError::NotWellFormed("an attribute stands twice"));
            }
            if attrs.len() == ATTRIBUTES_MAX {
                return Err(XmlError::Limit("at most 64 attributes"));
            }
            attrs.push((key, value));
        }
    }

    fn quoted(&mut self) -> Result<Cow<'t, str>, XmlError> {
        let quote = self.peek().filter(|byte| matches!(byte, b'"' | b'\'')).ok_or(BROKEN)?;
        self.at += 1;
        let rest = self.rest();
        let end = memchr(quote, rest.as_bytes()).ok_or(BROKEN)?;
        let raw = &rest[..end];
        self.at += end + 1;
        if raw.contains('<') {
            return Err(XmlError::NotWellFormed("`<` within an attribute"));
        }
        unescape(raw, true)
    }

    /// The element whose tag begins here, with everything inside. Goes down without recursion.
    fn whole(&mut self) -> Result<Element, XmlError> {
        let mut open: Vec<(Element, &'t str)> = Vec::new();
        loop {
            let tag = self.tag()?;
            let depth = open.len() + 1;
            if depth > DEPTH_MAX {
                return Err(XmlError::Limit("elements at most 64 deep"));
            }
            for (key, value) in &tag.attrs {
                match key.strip_prefix("xmlns") {
                    Some("") => self.declared.push((depth, "", ns::interned(value))),
                    Some(prefix) if prefix.starts_with(':') => {
                        if value.is_empty() {
                            return Err(XmlError::NotWellFormed("a prefix for nothing"));
                        }
                        self.declared.push((depth, &prefix[1..], ns::interned(value)));
                    }
                    _ => {}
                }
            }
            let mut element = self.element_of(&tag)?;
            if !tag.is_empty {
                open.push((element, tag.full));
            } else {
                self.end_declared(depth);
                match open.last_mut() {
                    None => return Ok(element),
                    Some((around, _)) => around.nodes.push(Node::Element(element)),
                }
            }
            // Text and closing tags up to the next opening one.
            loop {
                let Some((inside, full)) = open.last_mut() else { return Err(BROKEN) };
                let rest = &self.text[self.at..];
                let next = memchr(b'<', rest.as_bytes())
                    .ok_or(XmlError::NotWellFormed("an element is not closed"))?;
                if next > 0 {
                    let text = unescape(&rest[..next], false)?;
                    push_text(&mut inside.nodes, &text);
                    self.at += next;
                }
                let rest = &self.text[self.at..];
                if let Some(data) = rest.strip_prefix("<![CDATA[") {
                    let end = data.find("]]>").ok_or(BROKEN)?;
                    check_chars(&data[..end])?;
                    push_text(&mut inside.nodes, &data[..end]);
                    self.at += "<![CDATA[".len() + end + "]]>".len();
                    continue;
                }
                let Some(closing) = rest.strip_prefix("</") else { break };
                if !closing.starts_with(*full) {
                    return Err(XmlError::NotWellFormed("a closing tag that fits nothing"));
                }
                self.at += 2 + full.len();
                self.skip_space();
                self.eat(b'>')?;
                let depth = open.len();
                self.end_declared(depth);
                // Proven just above: there is a last one.
                (element, _) = open.pop().ok_or(BROKEN)?;
                match open.last_mut() {
                    None => return Ok(element),
                    Some((around, _)) => around.nodes.push(Node::Element(element)),
                }
            }
        }
    }

    fn end_declared(&mut self, depth: usize) {
        while self.declared.last().is_some_and(|(at, ..)| *at >= depth) {
            self.declared.pop();
        }
    }

    fn resolve(&self, prefix: &str) -> Option<Cow<'static, str>> {
        if prefix == "xml" {
            return Some(Cow::Borrowed(ns::XML));
        }
        let here = self.declared.iter().rev().find(|(_, is, _)| *is == prefix);
        if let Some((_, _, ns)) = here {
            return Some(ns.clone());
        }
        if prefix.is_empty() {
            return Some(self.scope.default.clone());
        }
        let around = self.scope.prefixes.iter().rev().find(|(is, _)| is == prefix);
        around.map(|(_, ns)| ns.clone())
    }

    /// The element of a tag, empty so far; its declarations count already, or are its own.
    fn element_of(&self, tag: &Tag<'t>) -> Result<Element, XmlError> {
        let own = |prefix: &str| {
            tag.attrs.iter().find_map(|(key, value)| {
                let declared = key.strip_prefix("xmlns")?;
                let declared = declared.strip_prefix(':').unwrap_or(declared);
                (declared == prefix).then(|| ns::interned(value))
            })
        };
        let resolve = |prefix: &str| own(prefix).or_else(|| self.resolve(prefix));
        let ns = resolve(tag.prefix).ok_or(XmlError::Prefix)?;
        let mut element = Element::new(known_name(tag.name), ns);
        for (key, value) in &tag.attrs {
            let name: Cow<'static, str> = match key.split_once(':') {
                None if *key == "xmlns" => continue,
                None => known_name(key),
                Some(("xmlns", _)) => continue,
                Some(("xml", "lang")) => Cow::Borrowed("xml:lang"),
                Some(("xml", name)) => format!("xml:{name}").into(),
                Some((prefix, name)) => {
                    let ns = resolve(prefix).ok_or(XmlError::Prefix)?;
                    format!("{{{ns}}}{name}").into()
                }
            };
            element.attrs.push((name, value.clone().into_owned()));
        }
        Ok(element)
    }
}

fn push_text(nodes: &mut Vec<Node>, text: &str) {
    if text.is_empty() {
        return;
    }
    match nodes.last_mut() {
        Some(Node::Text(before)) => before.push_str(text),
        _ => nodes.push(Node::Text(text.to_owned())),
    }
}

/// Names met all the time need no memory of their own.
fn known_name(name: &str) -> Cow<'static, str> {
    macro_rules! known {
        ($($known:literal)*) => {
            match name {
                $($known => Cow::Borrowed($known),)*
                other => Cow::Owned(other.to_owned()),
            }
        };
    }
    known!("message" "presence" "iq" "id" "to" "from" "type" "body" "show" "status" "priority" "c"
        "hash" "node" "ver" "query" "item" "group" "jid" "name" "subscription" "ask" "active"
        "composing" "paused" "origin-id" "request" "received" "x" "r" "a" "h" "ping" "thread"
        "subject" "enable" "resume" "bind" "resource" "auth" "mechanism" "error" "result")
}

fn is_name_start(c: char) -> bool {
    matches!(c, 'a'..='z' | 'A'..='Z' | '_' | '\u{C0}'..='\u{D6}' | '\u{D8}'..='\u{F6}'
        | '\u{F8}'..='\u{2FF}' | '\u{370}'..='\u{37D}' | '\u{37F}'..='\u{1FFF}'
        | '\u{200C}'..='\u{200D}' | '\u{2070}'..='\u{218F}' | '\u{2C00}'..='\u{2FEF}'
        | '\u{3001}'..='\u{D7FF}' | '\u{F900}'..='\u{FDCF}' | '\u{FDF0}'..='\u{FFFD}'
        | '\u{10000}'..='\u{EFFFF}')
}

fn is_name_char(c: char) -> bool {
    matches!(c, '-' | '.' | '0'..='9' | ':' | '\u{B7}' | '\u{300}'..='\u{36F}'
        | '\u{203F}'..='\u{2040}')
        || is_name_start(c)
}

/// Whether XML 1.0 may hold this character at all.
pub(crate) fn is_char(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | ' '..='\u{D7FF}' | '\u{E000}'..='\u{FFFD}' | '\u{10000}'..)
}

fn check_chars(text: &str) -> Result<(), XmlError> {
    match text.chars().all(is_char) {
        true => Ok(()),
        false => Err(XmlError::NotWellFormed("a character that XML does not have")),
    }
}

/// Text with its references resolved; in attributes white space becomes blanks.
fn unescape(raw: &str, in_attribute: bool) -> Result<Cow<'_, str>, XmlError> {
    check_chars(raw)?;
    if !in_attribute && raw.contains("]]>") {
        return Err(XmlError::NotWellFormed("`]]>` in text"));
    }
    let plain = |byte: &u8| match byte {
        b'&' | b'\r' => false,
        b'\n' | b'\t' => !in_attribute,
        _ => true,
    };
    if raw.as_bytes().iter().all(plain) {
        return Ok(Cow::Borrowed(raw));
    }
    let mut out = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        match c {
            '&' => {
                let (name, after) =
                    rest.split_once(';').ok_or(XmlError::NotWellFormed("a bare `&`"))?;
                out.push(reference(name)?);
                rest = after;
            }
            '\r' => {
                rest = rest.strip_prefix('\n').unwrap_or(rest);
                out.push(if in_attribute { ' ' } else { '\n' });
            }
            '\n' | '\t' if in_attribute => out.push(' '),
            c => out.push(c),
        }
    }
    Ok(Cow::Owned(out))
}

fn reference(name: &str) -> Result<char, XmlError> {
    let number = match name {
        "lt" => return Ok('<'),
        "gt" => return Ok('>'),
        "amp" => return Ok('&'),
        "quot" => return Ok('"'),
        "apos" => return Ok('\''),
        _ => name.strip_prefix('#').ok_or(XmlError::Restricted("entities"))?,
    };
    let is_number = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let code = match number.strip_prefix('x') {
        Some(hex) if is_number(hex) => u32::from_str_radix(hex, 16).ok(),
        None if is_number(number) => number.parse().ok(),
        _ => None,
    };
    let found = code.and_then(char::from_u32).filter(|c| is_char(*c));
    found.ok_or(XmlError::NotWellFormed("a reference to no character"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::write;
    use super::*;

    #[test]
    fn namespaces_are_resolved_through_prefixes_and_defaults() {
        let text = "<a xmlns='urn:a' xmlns:p='urn:p' p:k='1' xml:lang='de'><p:b/><c xmlns=''/></a>";
        let a = element(text).unwrap();
        assert!(a.is("a", "urn:a"));
        assert_eq!(a.attr("{urn:p}k"), Some("1"));
        assert_eq!(a.attr("xml:lang"), Some("de"));
        let inside: Vec<_> = a.children().map(|el| (&*el.name, &*el.ns)).collect();
        assert_eq!(inside, [("b", "urn:p"), ("c", "")]);
    }

    #[test]
    fn references_and_white_space_are_read_as_xml_has_them() {
        let a = element("<a k='1\n2&#10;3'>&lt;&amp;&#x41;\r\nz<![CDATA[<&]]></a>").unwrap();
        assert_eq!(a.attr("k"), Some("1 2\n3"));
        assert_eq!(a.text(), "<&A\nz<&");
    }

    #[test]
    fn what_xmpp_forbids_is_refused() {
        let refused = [
            "<!DOCTYPE a><a/>",
            "<a><!-- hi --></a>",
            "<a><?php ?></a>",
            "<a>&lol;</a>",
            "<a",
            "<a></b>",
            "<a k=1/>",
            "<a k='1' k='2'/>",
            "<p:a/>",
            "<a>\u{1}</a>",
            "<a>&#0;</a>",
            "<a/><b/>",
            "<a>&</a>",
            "<a k='<'/>",
            "<1a/>",
            "<a:b:c xmlns:a='x'/>",
            "<a></a",
            "",
            "<a>]]></a>",
            "<a xmlns:p=''/>",
            "<a k='1'l='2'/>",
        ];
        for text in refused {
            assert!(element(text).is_err(), "{text}");
        }
    }

    #[test]
    fn elements_too_deep_are_refused_without_a_deep_stack() {
        let deep = "<a>".repeat(100_000);
        assert_eq!(element(&deep), Err(XmlError::Limit("elements at most 64 deep")));
    }

    fn any_element() -> impl Strategy<Value = Element> {
        let name = "[a-z][a-z0-9]{0,5}";
        let text = "[ -~äé☃\\n\\t]{0,12}";
        let ns = prop_oneof![Just(ns::CLIENT), Just("urn:x"), Just(ns::MUC), Just("")];
        let leaf = (name, ns.clone(), proptest::collection::btree_map(name, text, 0..3));
        let leaf = leaf.prop_map(|(name, ns, attrs)| {
            let mut one = Element::new(name, ns);
            attrs.into_iter().for_each(|(key, value)| {
                if !key.starts_with("xmlns") {
                    one.set_attr(key, value);
                }
            });
            one
        });
        leaf.prop_recursive(4, 24, 4, move |inner| {
            (inner.clone(), proptest::collection::vec((inner, text), 0..4)).prop_map(
                |(around, inside)| {
                    inside.into_iter().fold(around, |around, (child, text)| {
                        let mut around = around.with_child(child);
                        push_text(&mut around.nodes, &text);
                        around
                    })
                },
            )
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_the_same(element in any_element()) {
            let text = write::to_string(&element);
            prop_assert_eq!(super::element(&text), Ok(element));
        }

        #[test]
        fn nothing_panics(text in ".{0,80}") {
            let _ = super::element(&text);
        }

        #[test]
        fn nothing_made_of_pieces_panics(
            pieces in proptest::collection::vec(prop_oneof![
                Just("<a"), Just(" k='"), Just("'"), Just(">"), Just("</a>"), Just("/>"),
                Just("&amp;"), Just("<![CDATA["), Just("]]>"), Just("é"), Just(" xmlns='"),
            ], 0..20),
        ) {
            let _ = super::element(&pieces.concat());
        }
    }
}
