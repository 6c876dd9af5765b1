//! SockJS: its ways that are made of requests, and its WebSocket without frames of its own.

use std::net::SocketAddr;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use weir_ddp::Limits;

use crate::client::Ddp;
use crate::memory::start;

#[tokio::test]
async fn a_plain_websocket_below_sockjs_speaks_ddp() {
    let running = start(Limits::default()).await;
    running.memory.put("a", "1", json!({ "x": 1 }));
    let mut ddp = Ddp::open_at(running.address, "/sockjs/websocket").await.unwrap();
    ddp.say(json!({ "msg": "connect", "version": "1", "support": ["1"] })).await;
    ddp.until("connected").await;
    ddp.sub("s", "set", json!(["a"])).await.unwrap();
    assert_eq!(ddp.of("things").len(), 1);
    assert_eq!(ddp.call("echo", json!([7])).await, Ok(json!(7)));
}

/// What the server streams, by server-sent events.
struct Events(BufReader<TcpStream>);

impl Events {
    async fn open(address: SocketAddr, session: &str) -> Self {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let path = format!("/sockjs/0/{session}/eventsource");
        let asked = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n");
        stream.write_all(asked.as_bytes()).await.unwrap();
        let mut events = Self(BufReader::new(stream));
        assert!(events.line().await.contains("200"));
        events
    }

    async fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).await.unwrap();
        line
    }

    /// The next frame.
    async fn frame(&mut self) -> String {
        loop {
            let line = self.line().await;
            assert!(!line.is_empty(), "the answer ended");
            if let Some(frame) = line.strip_prefix("data: ") {
                return frame.trim_end().to_owned();
            }
        }
    }

    /// Messages until one of this kind.
    async fn until(&mut self, kind: &str) -> Value {
        loop {
            let frame = self.frame().await;
            let texts: Vec<String> = serde_json::from_str(&frame[1..]).unwrap();
            let messages = texts.iter().map(|text| serde_json::from_str::<Value>(text).unwrap());
            if let Some(found) = { messages }.find(|message| message["msg"] == kind) {
                return found;
            }
        }
    }
}

/// Says messages; how that is answered.
async fn send(address: SocketAddr, session: &str, messages: &[String]) -> String {
    let body = json!(messages).to_string();
    let mut stream = TcpStream::connect(address).await.unwrap();
    let asked = format!(
        "POST /sockjs/0/{session}/xhr_send HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\
         Content-Type: text/plain\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(asked.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer.lines().next().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn by_server_sent_events_a_client_subscribes_and_is_told_of_changes() {
    let running = start(Limits::default()).await;
    let mut events = Events::open(running.address, "abc").await;
    assert_eq!(events.frame().await, "o");
    let connect = json!({ "msg": "connect", "version": "1", "support": ["1"] }).to_string();
    let sub = json!({ "msg": "sub", "id": "s", "name": "set", "params": ["a"] }).to_string();
    assert!(send(running.address, "abc", &[connect, sub]).await.contains("204"));
    events.until("ready").await;
    running.memory.put("a", "1", json!({ "x": "é\"" }));
    assert_eq!(events.until("added").await["fields"], json!({ "x": "é\"" }));
    assert!(send(running.address, "nobody", &["{}".into()]).await.contains("404"));
}

#[tokio::test]
async fn a_message_too_long_for_any_way_ends_the_session_on_this_one_too() {
    let running = start(Limits::default()).await;
    let mut events = Events::open(running.address, "abc").await;
    assert_eq!(events.frame().await, "o");
    let long = [json!({ "msg": "ping", "id": "x".repeat(70_000) }).to_string()];
    assert!(send(running.address, "abc", &long).await.contains("413"));
    assert!(events.frame().await.starts_with("c[1009,"));
}

#[tokio::test]
async fn what_is_not_heard_yet_is_bounded_in_bytes() {
    let limits = Limits { messages_burst: 1, messages_per_s: 1, ..Limits::default() };
    let running = start(limits).await;
    let mut events = Events::open(running.address, "abc").await;
    assert_eq!(events.frame().await, "o");
    let connect = json!({ "msg": "connect", "version": "1", "support": ["1"] }).to_string();
    assert!(send(running.address, "abc", &[connect]).await.contains("204"));
    events.until("connected").await;
    let long = [json!({ "msg": "ping", "id": "x".repeat(60_000) }).to_string()];
    let mut taken = 0;
    while send(running.address, "abc", &long).await.contains("204") {
        taken += 1;
        assert!(taken < 20, "a client may fill the memory");
    }
    assert!(taken > 0);
}
