//! Conversations over a WebSocket.

use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::net::{TcpListener, TcpStream};
use weir_base::Random;
use weir_live::socket::client::{Client, Request, connect};
use weir_live::socket::{
    CloseReason, Decoder, Message, Peer, Socket, SocketError, SocketLimits, Sockets, close_code,
    ping, text, upgrade_headers,
};

fn pair(limits: SocketLimits, room: usize) -> (Socket<DuplexStream>, Client<DuplexStream>) {
    let sockets = Sockets::new(limits);
    let (here, there) = duplex(room);
    (sockets.server(here), Client::upgraded(there, &sockets, Random::seeded(3)))
}

#[tokio::test]
async fn text_and_bytes_go_both_ways() {
    let (mut server, mut client) = pair(SocketLimits::default(), 1 << 20);
    client.send_text("héllo").await.unwrap();
    client.send_binary(&[0xFF; 40_000]).await.unwrap();
    assert_eq!(server.recv().await.unwrap(), Message::Text("héllo".to_owned()));
    assert_eq!(server.recv().await.unwrap(), Message::Binary(vec![0xFF; 40_000].into()));
    let long = "x".repeat(30_000);
    let frames: Vec<Bytes> = vec![text("a"), Bytes::new(), text(&long), text("")];
    server.send_many(&frames).await.unwrap();
    for expected in ["a", &long, ""] {
        assert_eq!(client.recv().await.unwrap(), Message::Text(expected.to_owned()));
    }
}

#[tokio::test]
async fn hundreds_of_frames_arrive_through_a_narrow_stream() {
    let (mut server, mut client) = pair(SocketLimits::default(), 100);
    let frames: Vec<Bytes> = (0..500).map(|number| text(&format!("event {number}"))).collect();
    let writer = tokio::spawn(async move { server.send_many(&frames).await.map(|()| server) });
    for number in 0..500 {
        let expected = Message::Text(format!("event {number}"));
        assert_eq!(client.recv().await.unwrap(), expected);
    }
    writer.await.unwrap().unwrap();
}

#[tokio::test]
async fn many_frames_arrive_over_tcp() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (accepted, connected) = tokio::join!(listener.accept(), TcpStream::connect(address));
    let sockets = Sockets::default();
    let mut server = sockets.server(accepted.unwrap().0);
    let mut client = Client::upgraded(connected.unwrap(), &sockets, Random::seeded(3));
    let frames: Vec<Bytes> = (0..100).map(|number| text(&number.to_string())).collect();
    server.send_many(&frames).await.unwrap();
    for number in 0..100 {
        assert_eq!(client.recv().await.unwrap(), Message::Text(number.to_string()));
    }
    client.send_text("done").await.unwrap();
    assert_eq!(server.recv().await.unwrap(), Message::Text("done".to_owned()));
}

#[tokio::test]
async fn pings_are_answered_with_their_payload_on_both_sides() {
    let (mut server, mut client) = pair(SocketLimits::default(), 1 << 16);
    for number in 0..3_u8 {
        client.ping(&[number]).await.unwrap();
        assert_eq!(server.recv().await.unwrap(), Message::Ping(vec![number].into()));
        assert_eq!(client.recv().await.unwrap(), Message::Pong(vec![number].into()));
    }
    server.send_many(&[ping(b"there?")]).await.unwrap();
    assert_eq!(client.recv().await.unwrap(), Message::Ping("there?".into()));
    assert_eq!(server.recv().await.unwrap(), Message::Pong("there?".into()));
}

#[tokio::test]
async fn a_flood_of_pings_with_nobody_reading_pongs_stays_small() {
    let sockets = Sockets::default();
    let (here, mut there) = duplex(64);
    let mut server = sockets.server(here);
    let flood = tokio::spawn(async move {
        for _ in 0..10_000 {
            there.write_all(b"\x89\x80\x01\x02\x03\x04").await.unwrap();
        }
        there
    });
    for _ in 0..10_000 {
        assert_eq!(server.recv().await.unwrap(), Message::Ping(Bytes::new()));
    }
    flood.await.unwrap();
}

#[tokio::test]
async fn the_client_closes_and_both_sides_know_why() {
    let (mut server, mut client) = pair(SocketLimits::default(), 1 << 16);
    let closing = tokio::spawn(async move { client.close(close_code::GOING_AWAY, "bye").await });
    let reason = CloseReason { code: close_code::GOING_AWAY, reason: "bye".to_owned() };
    assert_eq!(server.recv().await.unwrap(), Message::Close(Some(reason)));
    assert!(matches!(server.recv().await, Err(SocketError::Closed)));
    assert!(matches!(server.send_many(&[text("x")]).await, Err(SocketError::Closed)));
    drop(server);
    closing.await.unwrap();
}

#[tokio::test]
async fn the_server_closes_and_the_client_is_told_the_code() {
    let (mut server, mut client) = pair(SocketLimits::default(), 1 << 16);
    let closing = tokio::spawn(async move { server.close(close_code::RESTART, "restart").await });
    let reason = CloseReason { code: close_code::RESTART, reason: "restart".to_owned() };
    assert_eq!(client.recv().await.unwrap(), Message::Close(Some(reason)));
    drop(client);
    closing.await.unwrap();
}

#[tokio::test]
async fn a_peer_that_vanishes_is_gone() {
    let (mut server, client) = pair(SocketLimits::default(), 64);
    drop(client);
    assert!(matches!(server.recv().await, Err(SocketError::Gone)));
    assert!(matches!(server.recv().await, Err(SocketError::Closed)));
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_never_reads_is_cut_at_the_write_deadline() {
    let (mut server, _client) = pair(SocketLimits::default(), 64);
    let begin = tokio::time::Instant::now();
    let sent = server.send_many(&[text(&"x".repeat(1_000))]).await;
    assert!(matches!(sent, Err(SocketError::SlowReader)));
    assert_eq!(begin.elapsed(), SocketLimits::default().write_deadline);
    assert!(matches!(server.recv().await, Err(SocketError::Closed)));
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_reads_steadily_gets_a_batch_longer_than_one_deadline() {
    let sockets = Sockets::default();
    let (here, mut there) = duplex(32 * 1024);
    let mut server = sockets.server(here);
    let reader = tokio::spawn(async move {
        let mut buffer = vec![0; 32 * 1024];
        let mut total = 0;
        while total < 320 * 1024 {
            tokio::time::advance(Duration::from_secs(3)).await;
            total += there.read(&mut buffer).await.unwrap();
        }
        there
    });
    let begin = tokio::time::Instant::now();
    server.send_many(&[text(&"x".repeat(330 * 1024))]).await.unwrap();
    assert!(begin.elapsed() > SocketLimits::default().write_deadline);
    drop(reader.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_message_that_is_never_finished_is_cut_at_its_deadline() {
    let sockets = Sockets::default();
    let (here, mut there) = duplex(1024);
    let mut server = sockets.server(here);
    let reading = tokio::spawn(async move { server.recv().await.err() });
    let begin = tokio::time::Instant::now();
    // The first fragment of a text, and a second later the first byte of the next one.
    there.write_all(b"\x01\x81\0\0\0\0a").await.unwrap();
    tokio::time::advance(Duration::from_secs(1)).await;
    there.write_all(b"\x80").await.unwrap();
    let mut answer = Vec::new();
    there.read_to_end(&mut answer).await.unwrap();
    assert_eq!(&answer[..1], b"\x88");
    assert_eq!(&answer[2..4], &close_code::POLICY.to_be_bytes());
    assert!(begin.elapsed() >= SocketLimits::default().message_deadline);
    drop(there);
    assert!(matches!(reading.await.unwrap(), Some(SocketError::SlowMessage)));
}

#[tokio::test]
async fn a_recv_that_is_dropped_loses_nothing() {
    let sockets = Sockets::default();
    let (here, mut there) = duplex(1024);
    let mut server = sockets.server(here);
    for byte in *b"\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51" {
        there.write_all(&[byte]).await.unwrap();
        assert!(server.recv().now_or_never().is_none());
    }
    there.write_all(b"\x58").await.unwrap();
    assert_eq!(server.recv().await.unwrap(), Message::Text("Hello".to_owned()));
}

#[tokio::test]
async fn a_send_that_is_dropped_amid_a_frame_closes_the_socket() {
    let (mut server, _client) = pair(SocketLimits::default(), 64);
    assert!(server.send_many(&[text(&"x".repeat(1_000))]).now_or_never().is_none());
    assert!(matches!(server.send_many(&[text("y")]).await, Err(SocketError::Closed)));
}

#[tokio::test]
async fn the_client_speaks_the_handshake_and_checks_the_answer() {
    for honest in [true, false] {
        let (mut here, there) = duplex(4096);
        let server = tokio::spawn(async move {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(here.read_u8().await.unwrap());
            }
            let head = String::from_utf8(head).unwrap();
            assert!(head.starts_with("GET /live?a=1 HTTP/1.1\r\nHost: weir.test\r\n"));
            let fields = head.lines().filter_map(|line| line.split_once(": "));
            let headers =
                fields.map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
            let upgrade = upgrade_headers(&headers.collect()).unwrap();
            let mut answer = upgrade.response_headers(None);
            if !honest {
                answer.insert("sec-websocket-accept", "bm8=".parse().unwrap());
            }
            here.write_all(b"HTTP/1.1 101 Switching Protocols\r\n").await.unwrap();
            for (name, value) in &answer {
                let line = format!("{name}: {}\r\n", value.to_str().unwrap());
                here.write_all(line.as_bytes()).await.unwrap();
            }
            here.write_all(b"\r\n\x81\x02hi").await.unwrap();
            here
        });
        let request =
            Request { host: "weir.test".into(), path: "/live?a=1".into(), ..Request::default() };
        let connected = connect(there, &Sockets::default(), &request, Random::seeded(5)).await;
        assert_eq!(connected.is_ok(), honest);
        if let Ok(mut client) = connected {
            assert_eq!(client.recv().await.unwrap(), Message::Text("hi".to_owned()));
        }
        drop(server.await.unwrap());
    }
}

/// One fragment of a message as a client would send it: opcode, end mark, payload.
fn masked(opcode: u8, fin: bool, payload: &[u8], key: [u8; 4]) -> Vec<u8> {
    let mut frame = vec![opcode | if fin { 0x80 } else { 0 }];
    match payload.len() {
        length @ 0..=125 => frame.push(0x80 | length as u8),
        length => {
            frame.push(0x80 | 126);
            frame.extend((length as u16).to_be_bytes());
        }
    }
    frame.extend(key);
    frame.extend(payload.iter().zip(key.iter().cycle()).map(|(byte, key)| byte ^ key));
    frame
}

fn decode_all(decoder: &mut Decoder, mut input: &[u8], messages: &mut Vec<Message>) {
    while let Some(message) = decoder.decode(&mut input).unwrap() {
        messages.push(message);
    }
    assert!(input.is_empty());
}

proptest! {
    #[test]
    fn any_chunking_and_fragmenting_gives_the_same_messages(
        said in proptest::collection::vec(
            (any::<bool>(), "\\PC{0,200}", proptest::collection::vec(any::<usize>(), 0..4)),
            0..8,
        ),
        pings in any::<bool>(),
        cuts in proptest::collection::vec(1..50_usize, 1..200),
        key in any::<[u8; 4]>(),
    ) {
        let (mut stream, mut expected) = (Vec::new(), Vec::new());
        for (is_text, payload, splits) in said {
            let bytes = payload.as_bytes();
            let mut ends: Vec<_> = splits.iter().map(|split| split % (bytes.len() + 1)).collect();
            ends.push(bytes.len());
            ends.sort_unstable();
            let mut begin = 0;
            for (index, end) in ends.iter().enumerate() {
                let kind = if index > 0 { 0 } else if is_text { 1 } else { 2 };
                let fin = index + 1 == ends.len();
                stream.extend(masked(kind, fin, &bytes[begin..*end], key));
                if pings {
                    stream.extend(masked(9, true, b"p", key));
                }
                if pings && !fin {
                    expected.push(Message::Ping("p".into()));
                }
                begin = *end;
            }
            expected.push(match is_text {
                true => Message::Text(payload),
                false => Message::Binary(payload.into()),
            });
            if pings {
                expected.push(Message::Ping("p".into()));
            }
        }
        let mut decoder = Decoder::new(Peer::Client, 1 << 16);
        let (mut messages, mut rest) = (Vec::new(), &stream[..]);
        for cut in cuts.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (now, later) = rest.split_at(rest.len().min(*cut));
            decode_all(&mut decoder, now, &mut messages);
            rest = later;
        }
        prop_assert_eq!(messages, expected);
        prop_assert!(!decoder.is_amid_message());
    }
}

#[tokio::test]
async fn a_message_for_many_is_compressed_once_for_those_who_agreed() {
    let sockets = Sockets::default();
    let frame = weir_live::socket::SharedFrame::text_of(&[&"again and again ".repeat(100)]);
    for agreed in [true, false] {
        let (near, far) = tokio::io::duplex(16 * 1024);
        let mut server = sockets.server(near).deflating(agreed);
        let mut client = Client::upgraded(far, &sockets, Random::seeded(1));
        if agreed {
            client = client.deflating();
        }
        server.send_many(&[frame.bytes(server.is_deflating())]).await.unwrap();
        let Message::Text(text) = client.recv().await.unwrap() else { panic!("no text") };
        assert_eq!(text, "again and again ".repeat(100));
    }
    assert!(frame.bytes(true).len() * 5 < frame.bytes(false).len());
}

#[tokio::test]
async fn a_compressed_message_is_read_within_the_limit_and_a_bomb_is_not() {
    use tokio::io::AsyncWriteExt;
    let sockets = Sockets::default();
    let long = vec![b'x'; 60_000];
    let bomb = vec![b'x'; 10_000_000];
    for (payload, fits) in [(&long, true), (&bomb, false)] {
        let (near, mut far) = tokio::io::duplex(256 * 1024);
        let mut server = sockets.server(near).deflating(true);
        let frame = weir_live::socket::deflated_from_client(payload, [1, 2, 3, 4]).unwrap();
        far.write_all(&frame).await.unwrap();
        drop(far);
        let read = server.recv().await;
        match fits {
            true => assert_eq!(read.unwrap(), Message::Text("x".repeat(60_000))),
            false => assert!(matches!(read, Err(SocketError::Protocol(_)))),
        }
    }
}

#[tokio::test]
async fn a_compressed_message_that_nobody_agreed_on_breaks_the_protocol() {
    use tokio::io::AsyncWriteExt;
    let (near, mut far) = tokio::io::duplex(16 * 1024);
    let mut server = Sockets::default().server(near);
    let frame = weir_live::socket::deflated_from_client(&[b'x'; 500], [1, 2, 3, 4]).unwrap();
    far.write_all(&frame).await.unwrap();
    drop(far);
    assert!(matches!(server.recv().await, Err(SocketError::Protocol(_))));
}
