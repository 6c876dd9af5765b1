//! A server all of whose places are taken, and one that ends.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use weir_ddp::Limits;

use crate::client::Ddp;
use crate::memory::{Running, start};

/// What a request is answered, up to its body.
async fn head(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    String::from_utf8(head).unwrap().to_lowercase()
}

fn handshake(path: &str) -> String {
    format!(
        "GET {path} HTTP/1.1\r\nHost: weir\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
}

#[tokio::test]
async fn more_sessions_than_there_is_room_for_are_told_when_to_come_again() {
    let running = start(Limits { sessions_max: 2, ..Limits::default() }).await;
    let mut late = Ddp::open(running.address).await;
    let _one = Ddp::connect(running.address).await;
    let _two = Ddp::connect(running.address).await;
    // Its handshake was before the last place was taken.
    late.say(json!({ "msg": "connect", "version": "1", "support": ["1"] })).await;
    assert_eq!(late.next().await, None);
    let poll = "POST /sockjs/0/abc/xhr HTTP/1.1\r\nHost: weir\r\nContent-Length: 0\r\n\r\n";
    let raw = ["/websocket", "/sockjs/websocket", "/sockjs/0/abc/websocket"].map(handshake);
    for request in raw.iter().map(String::as_str).chain([poll]) {
        let head = head(running.address, request).await;
        assert!(head.starts_with("http/1.1 503"), "{request}: {head}");
        let after = head.lines().find_map(|line| line.strip_prefix("retry-after: ")).unwrap();
        assert!((5..=20).contains(&after.parse::<u64>().unwrap()), "{head}");
    }
}

/// A session with a subscription whose connection broke: its id, and how much of it came.
async fn broken(running: &Running) -> (String, u64) {
    let mut ddp = Ddp::connect(running.address).await;
    ddp.sub("s", "set", json!(["a"])).await.unwrap();
    (ddp.session.clone(), ddp.received)
}

/// Whether a client that comes back goes on with its session.
async fn goes_on(running: &Running, (session, received): (String, u64)) -> bool {
    let mut ddp = Ddp::open(running.address).await;
    ddp.say(json!({
        "msg": "connect", "version": "1", "support": ["1"], "session": session,
        "receivedCount": received
    }))
    .await;
    ddp.until("connected").await["session"] == session.as_str()
}

#[tokio::test]
async fn of_those_whose_connection_broke_the_one_away_for_longest_gives_way() {
    let grace = Duration::from_secs(3_600);
    let running = start(Limits { sessions_max: 2, grace, ..Limits::default() }).await;
    let first = broken(&running).await;
    let mut here = Ddp::connect(running.address).await;
    // Both places are taken until the first is known to be lost.
    let mut new = loop {
        if let Some(new) = Ddp::open_at(running.address, "/websocket").await {
            break new;
        }
    };
    new.say(json!({ "msg": "connect", "version": "1", "support": ["1"] })).await;
    new.until("connected").await;
    assert_eq!(here.call_ping().await, "p", "who is here stays");
    drop(new);
    while running.server.counts().0 > 1 {
        tokio::task::yield_now().await;
    }
    assert!(!goes_on(&running, first).await);
}

#[tokio::test]
async fn who_has_nothing_to_come_back_for_is_not_kept_and_who_has_is() {
    let grace = Duration::from_secs(3_600);
    let running = start(Limits { grace, ..Limits::default() }).await;
    let kept = broken(&running).await;
    for _ in 0..20 {
        drop(Ddp::connect(running.address).await);
    }
    while running.server.counts().0 > 1 {
        tokio::task::yield_now().await;
    }
    assert!(goes_on(&running, kept).await);
}

#[tokio::test]
async fn at_the_end_not_all_sessions_end_in_the_same_moment() {
    let parting = Duration::from_secs(3_600 * 24 * 365);
    let running = start(Limits { parting, ..Limits::default() }).await;
    let mut all = Vec::new();
    for _ in 0..20 {
        all.push(Ddp::connect(running.address).await);
    }
    running.shutdown.cancel();
    for ddp in &mut all {
        assert_eq!(ddp.call_ping().await, "p");
    }
}

#[tokio::test]
async fn at_the_end_every_session_is_told_to_come_again() {
    let parting = Duration::from_secs(2);
    let running = start(Limits { parting, ..Limits::default() }).await;
    let mut all = Vec::new();
    for _ in 0..20 {
        all.push(Ddp::connect(running.address).await);
    }
    running.shutdown.cancel();
    for mut ddp in all {
        assert_eq!(ddp.next().await, None);
    }
    while running.server.counts().0 > 0 {
        tokio::task::yield_now().await;
    }
}
