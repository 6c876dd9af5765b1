//! Clients that come back.

use std::time::Duration;

use serde_json::json;
use weir_ddp::Limits;

use crate::client::Ddp;
use crate::memory::{Running, start};

/// The same client on a new connection, as Meteor 3.5 does it.
async fn back(running: &Running, mut before: Ddp, received: u64) -> Ddp {
    let mut ddp = Ddp::open(running.address).await;
    ddp.documents = std::mem::take(&mut before.documents);
    let session = before.session.clone();
    drop(before);
    ddp.say(json!({
        "msg": "connect", "version": "1", "support": ["1"], "session": session,
        "receivedCount": received
    }))
    .await;
    ddp
}

#[tokio::test]
async fn a_client_that_comes_back_goes_on_and_gets_only_what_it_missed() {
    let running = start(Limits::default()).await;
    running.memory.put("a", "1", json!({ "x": 1 }));
    let mut ddp = Ddp::connect(running.address).await;
    ddp.sub("s", "set", json!(["a"])).await.unwrap();
    let (session, received) = (ddp.session.clone(), ddp.received);
    let mut ddp = back(&running, ddp, received).await;
    running.memory.put("a", "2", json!({ "x": 2 }));
    // It asks again for what it has.
    ddp.say(json!({ "msg": "sub", "id": "s", "name": "set", "params": ["a"] })).await;
    assert_eq!(ddp.next().await.unwrap(), json!({ "msg": "connected", "session": session }));
    let added = ddp.next().await.unwrap();
    assert_eq!((&added["msg"], &added["id"]), (&json!("added"), &json!("2")));
    assert_eq!(ddp.of("things").len(), 2);
    assert_eq!(ddp.call("echo", json!([1])).await, Ok(json!(1)));
}

#[tokio::test]
async fn messages_that_were_lost_on_the_way_are_sent_again() {
    let running = start(Limits::default()).await;
    let mut ddp = Ddp::connect(running.address).await;
    ddp.sub("s", "set", json!(["a"])).await.unwrap();
    let before = ddp.received;
    running.memory.put("a", "1", json!({ "x": 1 }));
    ddp.until("added").await;
    // As if it had never come.
    ddp.documents.clear();
    let mut ddp = back(&running, ddp, before).await;
    ddp.until("connected").await;
    ddp.until("added").await;
    assert_eq!(ddp.of("things").len(), 1);
}

#[tokio::test]
async fn the_old_connection_may_still_seem_open() {
    let running = start(Limits::default()).await;
    let mut before = Ddp::connect(running.address).await;
    let mut ddp = Ddp::open(running.address).await;
    ddp.say(json!({
        "msg": "connect", "version": "1", "support": ["1"], "session": before.session,
        "receivedCount": before.received
    }))
    .await;
    assert_eq!(ddp.until("connected").await["session"], before.session.as_str());
    assert_eq!(before.next().await, None);
}

#[tokio::test]
async fn who_claims_what_can_not_be_begins_a_new_session() {
    let running = start(Limits::default()).await;
    let ddp = Ddp::connect(running.address).await;
    let session = ddp.session.clone();
    let mut ddp = back(&running, ddp, 1_000).await;
    assert_ne!(ddp.until("connected").await["session"], session.as_str());
    let mut unknown = Ddp::connect(running.address).await;
    unknown.session = "guess".into();
    let mut ddp = back(&running, unknown, 1).await;
    assert_ne!(ddp.until("connected").await["session"], "guess");
}

#[tokio::test]
async fn a_session_that_said_disconnect_or_stayed_away_is_gone() {
    let limits = Limits { grace: Duration::from_millis(50), ..Limits::default() };
    let running = start(limits).await;
    let mut ddp = Ddp::connect(running.address).await;
    ddp.say(json!({ "msg": "disconnect" })).await;
    assert_eq!(ddp.next().await, None);
    let ddp = Ddp::connect(running.address).await;
    drop(ddp);
    while running.server.counts().0 > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn what_a_method_answers_while_its_client_is_away_waits_for_it() {
    let running = start(Limits::default()).await;
    let mut ddp = Ddp::connect(running.address).await;
    ddp.say(json!({ "msg": "method", "id": "m", "method": "hang", "params": [false] })).await;
    assert_eq!(ddp.call_ping().await, "p");
    let received = ddp.received;
    let mut ddp = back(&running, ddp, received).await;
    running.memory.gate.notify_one();
    assert_eq!(ddp.until("result").await["id"], "m");
}

#[tokio::test]
async fn documents_are_compressed_for_who_asks_and_a_session_goes_on_only_as_it_began() {
    let running = start(Limits::default()).await;
    let text = "again and ".repeat(500);
    running.memory.put("a", "1", json!({ "text": text }));
    let mut ddp = Ddp::open_with(running.address, true).await;
    ddp.say(json!({ "msg": "connect", "version": "1", "support": ["1"] })).await;
    ddp.until("connected").await;
    ddp.sub("s", "set", json!(["a"])).await.unwrap();
    assert_eq!(ddp.of("things")["1"]["text"], text);
    let (session, received) = (ddp.session.clone(), ddp.received);
    // The new connection does not take compressed messages.
    let mut ddp = back(&running, ddp, received).await;
    let connected = ddp.next().await.unwrap();
    assert_eq!(connected["msg"], "connected");
    assert_ne!(connected["session"], session);
}
