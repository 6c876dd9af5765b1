//! Peers that break the protocol: each is told the right close code.

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use weir_live::socket::{
    Decoder, Message, Peer, ProtocolError, SocketError, SocketLimits, Sockets, close_code,
};

const LIMIT: usize = 1_000;

/// What a server answers to these bytes: the close code and the error it reports.
async fn answer(bytes: &[u8]) -> (u16, ProtocolError) {
    let sockets =
        Sockets::new(SocketLimits { message_bytes_max: LIMIT, ..SocketLimits::default() });
    let (here, mut there) = duplex(1 << 16);
    let mut server = sockets.server(here);
    there.write_all(bytes).await.unwrap();
    there.shutdown().await.unwrap();
    let error = loop {
        match server.recv().await {
            Ok(_) => {}
            Err(SocketError::Protocol(error)) => break error,
            Err(other) => panic!("{other} for {bytes:02x?}"),
        }
    };
    drop(server);
    let mut said = Vec::new();
    there.read_to_end(&mut said).await.unwrap();
    assert_eq!((said[0], usize::from(said[1])), (0x88, said.len() - 2));
    (u16::from_be_bytes([said[2], said[3]]), error)
}

const MASK: &[u8] = &[0; 4];

fn frame(head: &[u8], payload: &[u8]) -> Vec<u8> {
    [head, MASK, payload].concat()
}

#[tokio::test]
async fn a_frame_that_breaks_a_rule_is_answered_with_1002() {
    use ProtocolError as E;
    let cases: [(Vec<u8>, E); 16] = [
        (b"\x81\x05Hello".to_vec(), E::Unmasked),
        (frame(b"\xC1\x81", b"a"), E::ReservedBits),
        (frame(b"\xA1\x81", b"a"), E::ReservedBits),
        (frame(b"\x91\x81", b"a"), E::ReservedBits),
        (frame(b"\x83\x80", b""), E::UnknownOpcode(3)),
        (frame(b"\x8F\x80", b""), E::UnknownOpcode(15)),
        (frame(b"\x09\x80", b""), E::FragmentedControl),
        (frame(b"\x08\x80", b""), E::FragmentedControl),
        (frame(b"\x89\xFE\x00\x7E", &[0; 126]), E::LongControl),
        (frame(b"\x80\x81", b"a"), E::NothingToContinue),
        ([frame(b"\x01\x81", b"a"), frame(b"\x81\x81", b"b")].concat(), E::Interleaved),
        (frame(b"\x82\xFE\x00\x05", b"Hello"), E::BadLength),
        (frame(b"\x82\xFF\0\0\0\0\0\0\x01\0", &[0; 256]), E::BadLength),
        (frame(b"\x82\xFF\x80\0\0\0\0\0\0\0", b""), E::BadLength),
        (frame(b"\x88\x81", b"\x03"), E::BadClose),
        (frame(b"\x88\x82", &1005_u16.to_be_bytes()), E::BadClose),
    ];
    for (bytes, error) in cases {
        assert_eq!(answer(&bytes).await, (close_code::PROTOCOL, error), "{bytes:02x?}");
    }
}

#[tokio::test]
async fn text_that_is_not_utf_8_is_answered_with_1007() {
    let split = "é".as_bytes().split_at(1);
    let cases = [
        frame(b"\x81\x82", b"\xC3\x28"),
        frame(b"\x81\x83", b"\xED\xA0\x80"),
        [frame(b"\x01\x81", split.0), frame(b"\x80\x81", b"a")].concat(),
        frame(b"\x88\x84", b"\x03\xE8\xC3\x28"),
    ];
    for bytes in cases {
        let expected = (close_code::INVALID_DATA, ProtocolError::NotUtf8);
        assert_eq!(answer(&bytes).await, expected, "{bytes:02x?}");
    }
    // Cut between the bytes of a character, it is whole again.
    let mut decoder = Decoder::new(Peer::Client, LIMIT);
    let whole = [frame(b"\x01\x81", split.0), frame(b"\x80\x81", split.1)].concat();
    let message = decoder.decode(&mut &whole[..]);
    assert_eq!(message, Ok(Some(Message::Text("é".to_owned()))));
}

#[tokio::test]
async fn a_message_beyond_the_limit_is_answered_with_1009_before_it_is_held() {
    let part = frame(b"\x02\xFE\x02\x00", &[1; 512]);
    let more = frame(b"\x00\xFE\x02\x00", &[1; 512]);
    let cases = [
        frame(b"\x82\xFE\x03\xE9", b""),
        frame(b"\x82\xFF\x7F\xFF\xFF\xFF\xFF\xFF\xFF\xFF", b""),
        [part, more].concat(),
    ];
    for bytes in cases {
        let expected = ProtocolError::TooBig { message_bytes_max: LIMIT };
        assert_eq!(answer(&bytes).await, (close_code::TOO_BIG, expected), "{bytes:02x?}");
    }
    let mut decoder = Decoder::new(Peer::Client, LIMIT);
    let most = frame(b"\x82\xFE\x03\xE8", &[1; LIMIT]);
    let message = decoder.decode(&mut &most[..]);
    assert_eq!(message, Ok(Some(Message::Binary(Bytes::from(vec![1; LIMIT])))));
}

#[test]
fn a_client_refuses_masked_frames() {
    let mut decoder = Decoder::new(Peer::Server, LIMIT);
    let bytes = frame(b"\x81\x81", b"a");
    assert_eq!(decoder.decode(&mut &bytes[..]), Err(ProtocolError::Masked));
}

#[test]
fn after_an_error_nothing_is_decoded_any_more() {
    let mut decoder = Decoder::new(Peer::Client, LIMIT);
    let good = frame(b"\x81\x81", b"a");
    assert_eq!(decoder.decode(&mut &b"\x81\x01a"[..]), Err(ProtocolError::Unmasked));
    assert_eq!(decoder.decode(&mut &good[..]), Err(ProtocolError::Unmasked));
}
