//! WebSocket frames of clients, with and without compression: any bytes give messages within the
//! limit or an error, and the same ones however they are cut.

#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_live::socket::{Decoder, Message, Peer, ProtocolError};

const LIMIT: usize = 4_096;

fn decode(stream: &[u8], deflating: bool, piece: usize) -> (Vec<Message>, Option<ProtocolError>) {
    let mut decoder = Decoder::new(Peer::Client, LIMIT);
    if deflating {
        decoder = decoder.deflating();
    }
    let mut messages = Vec::new();
    for mut input in stream.chunks(piece) {
        while !input.is_empty() {
            match decoder.decode(&mut input) {
                Ok(Some(message)) => messages.push(message),
                Ok(None) => assert!(input.is_empty(), "input was left without a message"),
                Err(error) => return (messages, Some(error)),
            }
        }
    }
    (messages, None)
}

fuzz_target!(|data: &[u8]| {
    let Some((first, stream)) = data.split_first() else { return };
    let deflating = first % 2 == 1;
    let whole = decode(stream, deflating, stream.len().max(1));
    for message in &whole.0 {
        let held_bytes = match message {
            Message::Text(text) => text.len(),
            Message::Binary(bytes) | Message::Ping(bytes) | Message::Pong(bytes) => bytes.len(),
            Message::Close(reason) => reason.as_ref().map_or(0, |reason| reason.reason.len()),
        };
        assert!(held_bytes <= LIMIT);
    }
    assert_eq!(whole, decode(stream, deflating, usize::from(first / 2) + 1));
});
