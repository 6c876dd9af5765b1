//! XMPP: a stream of bytes in pieces, elements, stanzas, addresses and forms: anything gives frames
//! or an error, in bounded time and memory, and what is read is written as the same.
//! SASL messages give a log-in or a failure.

#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_xmpp::sasl;
use weir_xmpp::wire::form::Form;
use weir_xmpp::wire::{Frame, Framer, Jid, Stanza, parse, write};

/// The longest element that is taken, in bytes.
const ELEMENT_BYTES_MAX: u32 = 4_096;
const HEADER: &[u8] = b"<stream:stream xmlns='jabber:client' \
                        xmlns:stream='http://etherx.jabber.org/streams' version='1.0'>";

fuzz_target!(|data: &[u8]| {
    let Some((&piece, data)) = data.split_first() else { return };
    stream(data, usize::from(piece).max(1));
    let _ = sasl::parse_plain(data);
    let _ = sasl::parse_oauth(data);
    let _ = sasl::parse_ht(data);
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(jid) = Jid::parse(text) {
        assert_eq!(Jid::parse(jid.as_str()).as_ref(), Ok(&jid), "normalised once is normalised");
    }
    let Ok(element) = parse::element(text) else { return };
    let _ = Form::read(&element);
    let written = write::to_string(&element);
    let again = parse::element(&written).map(|again| write::to_string(&again));
    assert_eq!(again.as_ref(), Ok(&written));
    if let Ok(stanza) = Stanza::of(element) {
        let _ = stanza.text();
    }
});

fn stream(data: &[u8], piece: usize) {
    let mut framer = Framer::new(ELEMENT_BYTES_MAX);
    for part in HEADER.chunks(piece).chain(data.chunks(piece)) {
        framer.push(part);
        loop {
            match framer.next_frame() {
                Ok(Some(Frame::Close)) | Err(_) => return,
                Ok(Some(_)) => {}
                Ok(None) => break,
            }
        }
    }
}
