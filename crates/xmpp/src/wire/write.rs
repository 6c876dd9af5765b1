//! Elements to text.

use std::fmt::Write as _;

use super::element::{Element, Node};
use super::ns;

/// The text of an element that stands alone.
pub fn to_string(element: &Element) -> String {
    let mut out = String::new();
    write(element, "", &mut out);
    out
}

/// Writes `element`, which stands within elements of the default namespace `around`.
pub fn write(element: &Element, around: &str, out: &mut String) {
    // `<stream:features>` and its kind: the prefix is declared by every stream header.
    let is_stream = element.ns == ns::STREAM && around != ns::STREAM;
    let prefix = if is_stream { "stream:" } else { "" };
    let _ = write!(out, "<{prefix}{}", element.name);
    let inside = if is_stream { around } else { &element.ns };
    if inside != around {
        attribute("xmlns", inside, out);
    }
    attributes(element, out);
    if element.nodes.is_empty() {
        out.push_str("/>");
        return;
    }
    out.push('>');
    inner(element, inside, out);
    let _ = write!(out, "</{prefix}{}>", element.name);
}

/// Writes what stands inside of `element`, within the default namespace `around`.
pub fn inner(element: &Element, around: &str, out: &mut String) {
    for node in &element.nodes {
        match node {
            Node::Element(child) => write(child, around, out),
            Node::Text(text) => escape(text, out),
        }
    }
}

/// Writes the attributes of `element`.
pub fn attributes(element: &Element, out: &mut String) {
    for (number, (name, value)) in element.attrs.iter().enumerate() {
        match name.strip_prefix('{').and_then(|name| name.split_once('}')) {
            None => attribute(name, value, out),
            Some((ns, name)) => {
                attribute(&format!("xmlns:n{number}"), ns, out);
                attribute(&format!("n{number}:{name}"), value, out);
            }
        }
    }
}

/// Writes ` name='value'`.
pub fn attribute(name: &str, value: &str, out: &mut String) {
    out.push(' ');
    out.push_str(name);
    out.push_str("='");
    escape_into(value, true, out);
    out.push('\'');
}

/// Writes text with what XML needs escaped.
pub fn escape(text: &str, out: &mut String) {
    escape_into(text, false, out);
}

fn escape_into(text: &str, in_attribute: bool, out: &mut String) {
    let mut from = 0;
    for (at, byte) in text.bytes().enumerate() {
        let escaped = match byte {
            b'<' => "&lt;",
            b'>' => "&gt;",
            b'&' => "&amp;",
            b'\'' if in_attribute => "&apos;",
            b'\n' if in_attribute => "&#10;",
            b'\t' if in_attribute => "&#9;",
            b'\r' => "&#13;",
            _ => continue,
        };
        out.push_str(&text[from..at]);
        out.push_str(escaped);
        from = at + 1;
    }
    out.push_str(&text[from..]);
}
