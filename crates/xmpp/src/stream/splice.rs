//! Elements that stand alone, without a stream around them: what is declared in the header of a
//! stream is declared in each of them (RFC 7395, 3.3.3; XEP-0206, 4).

/// In each stanza.
const CLIENT: &[u8] = b" xmlns='jabber:client'";
/// And in what is of the stream itself.
const STREAM: &[u8] = b" xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams'";

/// The element in parts, one of them what has to be declared.
pub(super) fn declared(element: &[u8]) -> [&[u8]; 3] {
    let Some(at) = undeclared(element) else { return [element, b"", b""] };
    let (name, rest) = element.split_at(at);
    [name, if name.starts_with(b"<stream:") { STREAM } else { CLIENT }, rest]
}

/// Where to put the declaration of a namespace into an element that has none: behind its name.
fn undeclared(element: &[u8]) -> Option<usize> {
    let end = element.iter().position(|byte| matches!(byte, b' ' | b'>' | b'/'))?;
    (!element[end..].starts_with(b" xmlns=")).then_some(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_is_declared_where_there_is_none() {
        assert_eq!(undeclared(b"<message to='x'/>"), Some(8));
        assert_eq!(undeclared(b"<presence/>"), Some(9));
        assert_eq!(undeclared(b"<iq>"), Some(3));
        assert_eq!(undeclared(b"<success xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/>"), None);
        assert_eq!(
            declared(b"<stream:features/>").concat(),
            [b"<stream:features", STREAM, b"/>"].concat()
        );
    }
}
