//! Whatever comes in gives frames, elements and addresses, or an error.

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use weir_xmpp::sasl;
use weir_xmpp::wire::form::Form;
use weir_xmpp::wire::{Frame, Framer, Jid, Stanza, parse, write};

const ELEMENT_BYTES_MAX: u32 = 4_096;
const HEADER: &[u8] = b"<stream:stream xmlns='jabber:client' \
                        xmlns:stream='http://etherx.jabber.org/streams' version='1.0'>";

/// What a stream of these bytes gives when they come in pieces of this size.
fn frames(data: &[u8], piece: usize) -> Vec<String> {
    let mut framer = Framer::new(ELEMENT_BYTES_MAX);
    let mut found = Vec::new();
    let whole = [HEADER, data].concat();
    for part in whole.chunks(piece.max(1)) {
        framer.push(part);
        loop {
            match framer.next_frame() {
                Ok(None) => break,
                Ok(Some(Frame::Space)) => {}
                Ok(Some(Frame::Close)) => {
                    found.push("close".into());
                    return found;
                }
                Ok(Some(frame)) => found.push(format!("{frame:?}")),
                Err(_) => {
                    found.push("error".into());
                    return found;
                }
            }
        }
    }
    found
}

fn read(data: &[u8]) {
    let _ = sasl::parse_plain(data);
    let _ = sasl::parse_oauth(data);
    let _ = sasl::parse_ht(data);
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(jid) = Jid::parse(text) {
        assert_eq!(Jid::parse(jid.as_str()).as_ref(), Ok(&jid));
    }
    let Ok(element) = parse::element(text) else { return };
    let _ = Form::read(&element);
    let written = write::to_string(&element);
    let again = parse::element(&written).expect("what is written can be read");
    assert_eq!(write::to_string(&again), written);
    if let Ok(stanza) = Stanza::of(element) {
        let _ = stanza.text();
    }
}

/// Pieces of XML, so that what is made of them goes deep.
fn nearly_xml() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just("<message to='bob@weir.test'>"),
        Just("<body>"),
        Just("</body>"),
        Just("</message>"),
        Just("<iq type='set' id='1'>"),
        Just("</iq>"),
        Just("<x xmlns='jabber:x:data' type='submit'>"),
        Just("</x>"),
        Just("<p:a xmlns:p='urn:p' p:b=\"c\"/>"),
        Just("&amp;"),
        Just("&#65;"),
        Just("&lol;"),
        Just("<![CDATA[<]]>"),
        Just("<!DOCTYPE a>"),
        Just("<?a b?>"),
        Just("<!-- -->"),
        Just("é☃"),
        Just(" "),
        Just("</stream:stream>"),
        Just("<"),
        Just("'>"),
    ];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat().into_bytes())
}

proptest! {
    #[test]
    fn any_bytes_are_frames_or_an_error(data in prop::collection::vec(any::<u8>(), 0..400)) {
        frames(&data, 7);
        read(&data);
    }

    #[test]
    fn what_is_nearly_xml_is_read_or_refused(data in nearly_xml()) {
        read(&data);
    }

    #[test]
    fn in_which_pieces_a_stream_comes_makes_no_difference(
        data in nearly_xml(),
        piece in 1_usize..40,
    ) {
        prop_assert_eq!(frames(&data, piece), frames(&data, usize::MAX / 2));
    }
}

#[test]
fn the_kept_corpus_is_read() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/stanzas");
    let files: Vec<_> = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    assert!(files.len() > 5);
    for file in files {
        let data = fs::read(&file).unwrap();
        read(&data);
        frames(&data, 3);
    }
}
