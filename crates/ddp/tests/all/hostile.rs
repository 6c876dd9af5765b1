//! Clients that mean no good, or know no better.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use weir_ddp::Limits;
use weir_live::socket::deflated_from_client;

use crate::client::Ddp;
use crate::memory::{Running, start};

/// A server that soon cuts who does not read, with more to show than fits into a socket.
async fn impatient_with_much() -> Running {
    let limits = Limits {
        write_deadline: Duration::from_millis(200),
        grace: Duration::from_millis(50),
        ..Limits::default()
    };
    let running = start(limits).await;
    let text = "x".repeat(20_000);
    for id in 0..1_500 {
        running.memory.put("a", &id.to_string(), json!({ "text": text }));
    }
    running
}

/// A server that soon asks for a sign of life.
async fn with_quick_heartbeat() -> Running {
    let (heartbeat, grace) = (Duration::from_millis(50), Duration::from_millis(50));
    start(Limits { heartbeat, grace, ..Limits::default() }).await
}

/// Waits until no more than `most` sessions are there.
async fn sessions_left(running: &Running, most: usize) {
    while running.server.counts().0 > most {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_flood_of_subscriptions_is_cut_at_the_limit_and_each_is_answered() {
    let running = start(Limits { subscriptions_max: 10, ..Limits::default() }).await;
    let mut ddp = Ddp::connect(running.address).await;
    for id in 0..100 {
        let id = id.to_string();
        ddp.say(json!({ "msg": "sub", "id": id, "name": "set", "params": ["a"] })).await;
    }
    let (mut ready, mut refused) = (0, 0);
    while ready + refused < 100 {
        let message = ddp.next().await.unwrap();
        ready += message["subs"].as_array().map_or(0, Vec::len);
        if message["msg"] == "nosub" {
            assert_eq!(message["error"]["error"], 429);
            refused += 1;
        }
    }
    assert_eq!((ready, refused), (10, 90));
}

#[tokio::test]
async fn who_leaves_what_was_never_there_is_answered_each_time_and_others_between() {
    let limits = Limits { messages_per_s: 1_000_000, ..Limits::default() };
    let running = start(limits).await;
    let mut ddp = Ddp::connect(running.address).await;
    let mut bystander = Ddp::connect(running.address).await;
    // A million, in the long form.
    let rounds = if std::env::var_os("WEIR_TEST_LONG").is_some() { 1_000 } else { 10 };
    for round in 0..rounds {
        for id in 0..1_000 {
            ddp.say(json!({ "msg": "unsub", "id": format!("{round}-{id}") })).await;
        }
        assert_eq!(bystander.call("echo", json!([round])).await, Ok(json!(round)));
        for _ in 0..1_000 {
            assert_eq!(ddp.next().await.unwrap()["msg"], "nosub");
        }
    }
}

#[tokio::test]
async fn who_talks_too_much_is_heard_later_and_others_at_once() {
    let limits = Limits { messages_per_s: 50, messages_burst: 20, ..Limits::default() };
    let running = start(limits).await;
    let mut loud = Ddp::connect(running.address).await;
    let mut quiet = Ddp::connect(running.address).await;
    for _ in 0..60 {
        loud.say(json!({ "msg": "ping" })).await;
    }
    assert_eq!(quiet.call_ping().await, "p");
    for _ in 0..60 {
        assert_eq!(loud.next().await.unwrap()["msg"], "pong");
    }
}

#[tokio::test]
async fn a_client_that_never_reads_is_cut_and_others_do_not_notice() {
    let running = impatient_with_much().await;
    let mut stuck = Ddp::connect(running.address).await;
    let mut fine = Ddp::connect(running.address).await;
    stuck.say(json!({ "msg": "sub", "id": "s", "name": "set", "params": ["a"] })).await;
    fine.sub("s", "set", json!(["a"])).await.unwrap();
    assert_eq!(fine.of("things").len(), 1_500);
    sessions_left(&running, 1).await;
    assert_eq!(fine.call_ping().await, "p");
}

#[tokio::test]
async fn who_never_connects_is_sent_away() {
    let limits = Limits { connect_deadline: Duration::from_millis(50), ..Limits::default() };
    let running = start(limits).await;
    let mut ddp = Ddp::open(running.address).await;
    assert_eq!(ddp.next().await, None);
}

#[tokio::test]
async fn who_does_not_answer_a_ping_is_cut() {
    let running = with_quick_heartbeat().await;
    let mut ddp = Ddp::connect(running.address).await;
    assert_eq!(ddp.next().await.unwrap()["msg"], "ping");
    assert_eq!(ddp.next().await, None);
}

#[tokio::test]
async fn what_is_too_long_too_deep_or_too_much_is_refused() {
    let running = start(Limits::default()).await;
    let mut ddp = Ddp::connect(running.address).await;
    for text in ["[".repeat(10_000), format!("[{}1]", "1,".repeat(20_000))] {
        ddp.say_text(&text).await;
        assert_eq!(ddp.until("error").await["reason"], "Parse error");
    }
    ddp.say_text(&" ".repeat(100_000)).await;
    assert_eq!(ddp.next().await, None);
}

#[tokio::test]
async fn a_subscription_with_long_parameters_is_refused_and_the_session_goes_on() {
    let running = start(Limits::default()).await;
    let mut ddp = Ddp::connect(running.address).await;
    // A hundred times as much once it is parsed.
    let error = ddp.sub("s", "set", json!(vec![json!({ "": 0 }); 32])).await.unwrap_err();
    assert_eq!(error["error"], 400);
    let error = ddp.sub("s", "set", json!([vec![json!({ "": 0 }); 4_000]])).await.unwrap_err();
    assert_eq!(error["error"], 413, "{error}");
    assert!(error["reason"].as_str().unwrap().contains("4096 bytes"), "{error}");
    ddp.sub("s", "set", json!(["a"])).await.unwrap();
}

#[tokio::test]
async fn however_much_waits_behind_a_method_is_answered_in_order() {
    let running = start(Limits { waiting_bytes_max: 1, ..Limits::default() }).await;
    let mut ddp = Ddp::connect(running.address).await;
    ddp.say(json!({ "msg": "method", "id": "m", "method": "hang", "params": [false] })).await;
    for id in 0..20 {
        let text = "x".repeat(10_000);
        let id = id.to_string();
        ddp.say(json!({ "msg": "method", "id": id, "method": "echo", "params": [text] })).await;
    }
    running.memory.gate.notify_one();
    assert_eq!(ddp.until("result").await["id"], "m");
    for id in 0..20 {
        assert_eq!(ddp.until("result").await["id"], id.to_string());
    }
}

#[tokio::test]
async fn who_is_not_heard_because_much_waits_is_not_taken_for_silent() {
    let (heartbeat, waiting_max) = (Duration::from_millis(50), 1);
    let limits = Limits { heartbeat, waiting_max, ..Limits::default() };
    let running = start(limits).await;
    let (mut ddp, mut other) =
        (Ddp::connect(running.address).await, Ddp::connect(running.address).await);
    ddp.say(json!({ "msg": "method", "id": "m", "method": "hang", "params": [false] })).await;
    ddp.say(json!({ "msg": "method", "id": "n", "method": "echo", "params": [1] })).await;
    // By then somebody silent was cut twice.
    for _ in 0..4 {
        other.until("ping").await;
        other.say(json!({ "msg": "pong" })).await;
    }
    running.memory.gate.notify_one();
    assert_eq!(ddp.until("result").await["id"], "m");
    assert_eq!(ddp.until("result").await["id"], "n");
}

/// A WebSocket of which every byte is the test's own, after its handshake.
async fn raw(address: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let asked = format!(
        "GET /websocket HTTP/1.1\r\nHost: {address}\r\nUpgrade: websocket\r\n\
         Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Extensions: permessage-deflate\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    stream.write_all(asked.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        answer.push(stream.read_u8().await.unwrap());
    }
    assert!(answer.starts_with(b"HTTP/1.1 101"));
    stream
}

/// A text message as a client sends it, masked by zeros.
fn masked(text: &str) -> Vec<u8> {
    let mut frame = vec![0x81, 0x80 | u8::try_from(text.len()).unwrap(), 0, 0, 0, 0];
    frame.extend_from_slice(text.as_bytes());
    frame
}

/// The code with which the server closes.
async fn close_code(stream: &mut TcpStream) -> u16 {
    loop {
        let [opcode, length] = [stream.read_u8().await.unwrap(), stream.read_u8().await.unwrap()];
        let mut payload = vec![0; usize::from(length)];
        stream.read_exact(&mut payload).await.unwrap();
        if opcode == 0x88 {
            return u16::from_be_bytes([payload[0], payload[1]]);
        }
    }
}

const CONNECT: &str = r#"{"msg":"connect","version":"1","support":["1"]}"#;

#[tokio::test]
async fn a_compression_bomb_ends_its_session_as_too_big_and_nobody_else_s() {
    let limits = Limits { grace: Duration::from_millis(50), ..Limits::default() };
    let running = start(limits).await;
    let mut fine = Ddp::connect(running.address).await;
    let mut bomber = raw(running.address).await;
    bomber.write_all(&masked(CONNECT)).await.unwrap();
    // 50 MB that fit into 50 KB.
    let bomb = deflated_from_client(&vec![b' '; 50_000_000], [0; 4]).unwrap();
    assert!(bomb.len() < 60_000);
    bomber.write_all(&bomb).await.unwrap();
    assert_eq!(close_code(&mut bomber).await, 1009);
    sessions_left(&running, 1).await;
    assert_eq!(fine.call_ping().await, "p");
}

#[tokio::test]
async fn a_client_that_reads_a_byte_at_a_time_is_cut_and_others_do_not_notice() {
    let running = impatient_with_much().await;
    let mut fine = Ddp::connect(running.address).await;
    let mut slow = raw(running.address).await;
    slow.write_all(&masked(CONNECT)).await.unwrap();
    let sub = r#"{"msg":"sub","id":"s","name":"set","params":["a"]}"#;
    slow.write_all(&masked(sub)).await.unwrap();
    slow.read_u8().await.unwrap();
    while running.server.counts().0 > 1 {
        // One byte for each answer that somebody else gets.
        let _ = slow.read_u8().await;
        assert_eq!(fine.call_ping().await, "p");
    }
}

#[tokio::test]
async fn a_client_that_does_not_finish_a_message_is_cut() {
    let limits = Limits {
        message_deadline: Duration::from_millis(50),
        grace: Duration::from_millis(50),
        ..Limits::default()
    };
    let running = start(limits).await;
    let mut slow = raw(running.address).await;
    slow.write_all(&masked(CONNECT)).await.unwrap();
    let begun = masked(r#"{"msg":"ping"}"#);
    slow.write_all(&begun[..begun.len() - 1]).await.unwrap();
    assert_eq!(close_code(&mut slow).await, 1008);
    sessions_left(&running, 0).await;
}

#[tokio::test]
async fn of_a_half_open_connection_nothing_is_left() {
    let running = with_quick_heartbeat().await;
    // It reads nothing and says nothing from here on, and its end is never told.
    let mut silent = raw(running.address).await;
    silent.write_all(&masked(CONNECT)).await.unwrap();
    assert_eq!(silent.read_u8().await.unwrap(), 0x81);
    assert_eq!(running.server.counts().0, 1);
    sessions_left(&running, 0).await;
}
