//! Clients of streams that mean no good, or know no better, and crowds.

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use http::{Method, Version};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use weir_base::Id;
use weir_community::statuses::Visibility;
use weir_community::streams::{Event, Topic};
use weir_live::Shared;

use crate::place::places;
use crate::streaming::{Stream, ask};
use crate::streaming_slow::Sse;

const STREAMING: &str = "/api/v1/streaming";
const PUBLIC: &str = "/api/v1/streaming/public";

#[tokio::test]
async fn what_makes_no_sense_is_answered_and_the_stream_goes_on() {
    for place in places() {
        let alice = place.person("alice").await;
        let address = place.listen().await;
        let mut stream = Stream::open(address, Some(&alice), "stream=public").await;
        let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
        let long = format!("{{\"type\":\"subscribe\",\"stream\":\"{}\"}}", "x".repeat(50_000));
        for text in ["", "{", "null", "[]", "7", &deep, &long, "{\"type\":{}}"] {
            stream.0.send_text(text).await.unwrap();
            assert_eq!(stream.message().await["status"], 400, "{text:.50}");
        }
        let post = place.post(&alice, "still here", Visibility::Public).await;
        assert_eq!(stream.next().await.2["id"], post.to_string());
    }
}

#[tokio::test]
async fn a_hashtag_longer_than_any_is_refused() {
    for place in places() {
        let alice = place.person("alice").await;
        let address = place.listen().await;
        let mut stream = Stream::open(address, Some(&alice), "").await;
        for (tag, taken) in [("x".repeat(100), true), ("ﷺ".repeat(102), false)] {
            stream.say(json!({ "type": "subscribe", "stream": "hashtag", "tag": tag })).await;
            stream.say(json!({ "type": "nothing" })).await;
            let answer = stream.message().await["error"].clone();
            assert_eq!(answer == "The hashtag is too long", !taken, "{answer}");
            let path = format!("/api/v1/streaming/hashtag?tag={}", "x".repeat(tag.chars().count()));
            let (line, _) = ask(address, &path, Some(&alice.token)).await;
            assert!(line.contains(if taken { "200" } else { "400" }), "{line}");
        }
    }
}

#[tokio::test]
async fn a_flood_of_streams_is_cut_at_the_limit_and_nothing_is_left_of_what_failed() {
    for place in places() {
        let alice = place.person("alice").await;
        let address = place.listen().await;
        let mut stream = Stream::open(address, Some(&alice), "").await;
        for number in 0..255 {
            let tag = format!("tag{number}");
            stream.say(json!({ "type": "subscribe", "stream": "hashtag", "tag": tag })).await;
        }
        // Three topics, and room for one.
        stream.say(json!({ "type": "subscribe", "stream": "user" })).await;
        assert_eq!(stream.message().await["status"], 400);
        let hub = place.community.env().streams.hub();
        assert_eq!(hub.listeners(&Topic::Home(alice.id)), 0);
        stream.say(json!({ "type": "subscribe", "stream": "direct" })).await;
        // One topic under any number of names is bounded too.
        stream.say(json!({ "type": "subscribe", "stream": "hashtag", "tag": "TAG1" })).await;
        assert_eq!(stream.message().await["status"], 400);
        assert_eq!(hub.listeners(&Topic::Direct(alice.id)), 1);
        drop(stream);
        while hub.is_here(alice.id.0) {
            tokio::task::yield_now().await;
        }
        assert_eq!(hub.stats().topics, 0, "{}", place.name);
    }
}

/// A WebSocket of which every byte is the test's own, after its handshake.
async fn raw(mut stream: TcpStream, token: &str) -> TcpStream {
    let asked = format!(
        "GET /api/v1/streaming?stream=user&access_token={token} HTTP/1.1\r\nHost: weir\r\n\
         Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
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

#[tokio::test]
async fn of_a_half_open_connection_nothing_is_left() {
    let place = &places()[0];
    let alice = place.person("alice").await;
    let address = place.listen().await;
    let stream = TcpStream::connect(address).await.unwrap();
    // It says nothing from here on, and its end is never told.
    let _silent = raw(stream, &alice.token).await;
    let hub = place.community.env().streams.hub();
    assert!(hub.is_here(alice.id.0));
    while hub.is_here(alice.id.0) {
        hub.beat();
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn who_never_reads_is_cut_and_others_are_told_everything() {
    let place = &places()[0];
    let (alice, bob) = (place.person("alice").await, place.person("bob").await);
    let carol = place.person("carol").await;
    let address = place.listen().await;
    // Of these only the answer is not read: the connection is well.
    let _unread = Sse::open(address, Version::HTTP_2, &carol, None).await;
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4_096).unwrap();
    let _stuck = raw(socket.connect(address).await.unwrap(), &alice.token).await;
    let mut fine = Stream::open(address, Some(&bob), "stream=user").await;
    let hub = place.community.env().streams.hub();
    let mut told = 0;
    while hub.is_here(alice.id.0) || hub.is_here(carol.id.0) {
        told += 1;
        hub.publish(&Topic::Everybody, Shared::sized(Event::AnnouncementDeleted(Id(told)), 100));
        let (event, _, id) = fine.next().await;
        assert_eq!((event.as_str(), id), ("announcement.delete", json!(told)));
    }
    assert_eq!(hub.stats().lost, 2, "these were too slow, and nobody else");
    assert!(hub.is_here(bob.id.0));
}

#[tokio::test]
async fn who_has_all_the_sessions_that_one_may_have_is_told_when_to_come_again() {
    for place in places() {
        let alice = place.person("alice").await;
        let hub = place.community.env().streams.hub();
        let mut all = Vec::new();
        while let Ok(one) = hub.session(alice.id.0) {
            all.push(one);
        }
        let answer = place.call(Method::GET, PUBLIC, Some(&alice), Value::Null).await;
        assert_eq!(answer.status, 503);
        let after = answer.headers["retry-after"].to_str().unwrap().parse::<u64>().unwrap();
        assert!((5..=20).contains(&after), "{after}");
        let socket = http::Request::get(format!("{STREAMING}?stream=public"))
            .header("authorization", format!("Bearer {}", alice.token))
            .header("connection", "upgrade")
            .header("upgrade", "websocket")
            .header("sec-websocket-version", "13")
            .header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==");
        let answer = place.send(socket.body(axum::body::Body::empty()).unwrap()).await;
        assert_eq!(answer.status, 503, "before the upgrade");
        assert!(answer.headers.contains_key("retry-after"));
    }
}

#[tokio::test]
async fn while_the_line_is_full_those_who_arrive_are_sent_away_and_machines_are_answered() {
    for place in places() {
        let alice = place.person("alice").await;
        let address = place.listen().await;
        let mut stream = Stream::open(address, Some(&alice), "stream=public").await;
        let door = place.community.env().streams.hub().admission();
        let (mut inside, mut line) = (Vec::new(), FuturesUnordered::new());
        while let Some(Ok(one)) = door.enter().now_or_never() {
            inside.push(one);
        }
        // All who fit into the line, and one who does not.
        while line.next().now_or_never().flatten().is_none() {
            for _ in 0..1_000 {
                line.push(Box::pin(door.enter()));
            }
        }
        let health = place.call(Method::GET, "/api/v1/streaming/health", None, Value::Null).await;
        assert_eq!(health.status, 200);
        assert!(place.call(Method::OPTIONS, PUBLIC, None, Value::Null).await.status != 503);
        let answer = place.call(Method::GET, PUBLIC, Some(&alice), Value::Null).await;
        assert_eq!(answer.status, 503);
        let after = answer.headers["retry-after"].to_str().unwrap().parse::<u64>().unwrap();
        assert!((1..=60).contains(&after), "{after}");
        let wish = json!({ "type": "subscribe", "stream": "user", "since": "" });
        stream.say(wish.clone()).await;
        assert_eq!(stream.message().await["status"], 503, "who comes back stands in line");
        drop((line, inside));
        stream.say(wish).await;
        assert_eq!(stream.message().await["event"], "resumed");
    }
}
