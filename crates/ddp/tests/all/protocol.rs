//! The protocol, message by message.

use serde_json::{Value, json};
use weir_ddp::Limits;

use crate::client::Ddp;
use crate::memory::start;

fn method(id: &str, name: &str, params: Value) -> Value {
    json!({ "msg": "method", "id": id, "method": name, "params": params })
}

#[tokio::test]
async fn a_subscription_gets_its_documents_before_ready_and_what_changes_after() {
    let running = start(Limits::default()).await;
    running.memory.put("a", "1", json!({ "x": 1, "y": [1, 2] }));
    let mut ddp = Ddp::connect(running.address).await;
    ddp.sub("s", "set", json!(["a"])).await.unwrap();
    assert_eq!(ddp.of("things")["1"]["y"], json!([1, 2]));
    running.memory.put("a", "1", json!({ "x": 2, "z": null }));
    let changed = ddp.until("changed").await;
    assert_eq!(changed["fields"], json!({ "x": 2, "z": null }));
    assert_eq!(changed["cleared"], json!(["y"]));
    running.memory.remove("a", "1");
    assert_eq!(ddp.until("removed").await["id"], "1");
}

#[tokio::test]
async fn everything_may_be_said_at_once_before_connected() {
    let running = start(Limits::default()).await;
    running.memory.put("user7", "1", json!({ "own": true }));
    let mut ddp = Ddp::open(running.address).await;
    ddp.say(json!({ "msg": "connect", "version": "1", "support": ["1", "pre2", "pre1"] })).await;
    ddp.say(method("1", "login", json!([7]))).await;
    ddp.say(json!({ "msg": "sub", "id": "s", "name": "mine", "params": [] })).await;
    ddp.until("ready").await;
    assert_eq!(ddp.of("things")["1"]["own"], true);
    assert_eq!(running.memory.reads_of("nobody"), 0, "the subscription waited for the log-in");
}

#[tokio::test]
async fn versions_are_agreed_on_or_the_best_of_ours_is_named() {
    let running = start(Limits::default()).await;
    for version in ["1", "pre2", "pre1"] {
        let mut ddp = Ddp::open(running.address).await;
        ddp.say(json!({ "msg": "connect", "version": version, "support": [version] })).await;
        ddp.until("connected").await;
    }
    let mut ddp = Ddp::open(running.address).await;
    ddp.say(json!({ "msg": "connect", "version": "2", "support": ["2"] })).await;
    assert_eq!(ddp.next().await.unwrap(), json!({ "msg": "failed", "version": "1" }));
    assert_eq!(ddp.next().await, None);
}

#[tokio::test]
async fn what_has_no_place_is_answered_with_an_error_and_the_session_goes_on() {
    let running = start(Limits::default()).await;
    let mut ddp = Ddp::open(running.address).await;
    ddp.say(json!({ "msg": "sub", "id": "1", "name": "set", "params": ["a"] })).await;
    let error = ddp.until("error").await;
    assert_eq!(error["reason"], "Must connect first");
    assert_eq!(error["offendingMessage"]["id"], "1");
    ddp.say(json!({ "msg": "connect", "version": "1", "support": ["1"] })).await;
    ddp.until("connected").await;
    for (text, reason) in [
        ("{", "Parse error"),
        ("[]", "Bad request"),
        (r#"{"msg":"dance"}"#, "Bad request"),
        (r#"{"msg":"sub"}"#, "Malformed subscription"),
        (r#"{"msg":"method","id":"1"}"#, "Malformed method invocation"),
        (r#"{"msg":"connect","version":"1","support":["1"]}"#, "Already connected"),
    ] {
        ddp.say_text(text).await;
        assert_eq!(ddp.until("error").await["reason"], reason, "{text}");
    }
    assert_eq!(ddp.call("echo", json!([7])).await, Ok(json!(7)));
}

#[tokio::test]
async fn unknown_names_are_refused_in_meteor_s_form() {
    let running = start(Limits::default()).await;
    let mut ddp = Ddp::connect(running.address).await;
    let error = ddp.sub("s", "nothing", json!([])).await.unwrap_err();
    assert_eq!((&error["error"], &error["errorType"]), (&json!(404), &json!("Meteor.Error")));
    assert_eq!(error["reason"], "Subscription 'nothing' not found");
    let error = ddp.call("nothing", json!([])).await.unwrap_err();
    assert_eq!(error["message"], "Method 'nothing' not found [404]");
    let error = ddp.sub("s", "set", json!(["none"])).await.unwrap_err();
    assert_eq!(error["reason"], "There is no such set.");
    let error = ddp.sub("s", "set", json!([{ "not": "a text" }])).await.unwrap_err();
    assert_eq!(error["error"], 400);
}

#[tokio::test]
async fn ejson_goes_through_a_method_and_back() {
    let running = start(Limits::default()).await;
    let mut ddp = Ddp::connect(running.address).await;
    let value = json!({
        "date": { "$date": 1_700_000_000_000_i64 }, "bytes": { "$binary": "AQID" },
        "escaped": { "$escape": { "$date": 1 } }, "nan": { "$InfNaN": 0 },
        "id": { "$type": "oid", "$value": "0123456789abcdef01234567" },
        "own": { "$type": "money", "$value": 5 }, "re": { "$regexp": "^a", "$flags": "i" },
    });
    assert_eq!(ddp.call("echo", json!([value])).await, Ok(value));
}

#[tokio::test]
async fn a_method_holds_up_what_comes_behind_it_but_not_pings() {
    let running = start(Limits::default()).await;
    let mut ddp = Ddp::connect(running.address).await;
    ddp.say(method("1", "hang", json!([false]))).await;
    ddp.say(method("2", "echo", json!(["second"]))).await;
    ddp.say(json!({ "msg": "ping", "id": "p" })).await;
    assert_eq!(ddp.next().await.unwrap(), json!({ "msg": "pong", "id": "p" }));
    running.memory.gate.notify_one();
    assert_eq!(ddp.until("result").await["result"], "at last");
    assert_eq!(ddp.until("result").await["result"], "second");
}

#[tokio::test]
async fn a_method_that_unblocks_lets_the_next_begin() {
    let running = start(Limits::default()).await;
    let mut ddp = Ddp::connect(running.address).await;
    ddp.say(method("1", "hang", json!([true]))).await;
    ddp.say(method("2", "echo", json!(["second"]))).await;
    assert_eq!(ddp.until("result").await["id"], "2");
    running.memory.gate.notify_one();
    assert_eq!(ddp.until("result").await["id"], "1");
}

#[tokio::test]
async fn a_method_that_breaks_is_answered_and_the_session_goes_on() {
    let running = start(Limits::default()).await;
    let mut ddp = Ddp::connect(running.address).await;
    assert_eq!(ddp.call("break", json!([])).await.unwrap_err()["error"], 500);
    assert_eq!(ddp.call("echo", json!([1])).await, Ok(json!(1)));
}

#[tokio::test]
async fn updated_comes_after_what_the_method_changed() {
    let running = start(Limits::default()).await;
    let mut ddp = Ddp::connect(running.address).await;
    ddp.sub("s", "set", json!(["a"])).await.unwrap();
    for round in 0..50 {
        ddp.call("put", json!([["a", "1", { "round": round }]])).await.unwrap();
        assert_eq!(ddp.of("things")["1"]["round"], round);
    }
}

#[tokio::test]
async fn an_id_that_is_subscribed_is_passed_over_and_one_that_ended_is_not() {
    let running = start(Limits::default()).await;
    running.memory.put("a", "1", json!({ "x": 1 }));
    let mut ddp = Ddp::connect(running.address).await;
    ddp.sub("s", "set", json!(["a"])).await.unwrap();
    ddp.say(json!({ "msg": "sub", "id": "s", "name": "set", "params": ["b"] })).await;
    ddp.say(json!({ "msg": "unsub", "id": "s" })).await;
    assert_eq!(ddp.until("removed").await["id"], "1");
    assert_eq!(ddp.until("nosub").await, json!({ "msg": "nosub", "id": "s" }));
    ddp.sub("s", "set", json!(["a"])).await.unwrap();
    assert_eq!(ddp.of("things").len(), 1);
}

#[tokio::test]
async fn identical_subscriptions_of_all_sessions_are_one_query() {
    let running = start(Limits::default()).await;
    running.memory.put("a", "1", json!({ "x": 1 }));
    let mut sessions = Vec::new();
    for _ in 0..20 {
        let mut ddp = Ddp::connect(running.address).await;
        ddp.sub("s", "set", json!(["a"])).await.unwrap();
        sessions.push(ddp);
    }
    assert_eq!(running.memory.reads_of("a"), 1);
    running.memory.put("a", "1", json!({ "x": 2 }));
    for ddp in &mut sessions {
        ddp.until("changed").await;
    }
    assert_eq!(running.memory.reads_of("a"), 2);
}

#[tokio::test]
async fn logging_in_touches_only_subscriptions_that_change_by_it() {
    let running = start(Limits::default()).await;
    running.memory.put("a", "1", json!({ "x": 1 }));
    running.memory.put("nobody", "2", json!({ "who": "nobody" }));
    running.memory.put("user7", "2", json!({ "who": "seven" }));
    running.memory.put("user7", "3", json!({ "who": "seven" }));
    let mut ddp = Ddp::connect(running.address).await;
    ddp.sub("all", "set", json!(["a"])).await.unwrap();
    ddp.sub("mine", "mine", json!([])).await.unwrap();
    let before = running.memory.reads_of("a");
    ddp.call("login", json!([7])).await.unwrap();
    ddp.hear_until(|ddp| ddp.of("things").len() == 3).await;
    assert_eq!(ddp.of("things")["2"]["who"], "seven");
    assert_eq!(running.memory.reads_of("a"), before);
    ddp.call("logout", json!([])).await.unwrap();
    ddp.hear_until(|ddp| ddp.of("things").len() == 2).await;
    assert_eq!(ddp.of("things")["2"]["who"], "nobody");
}

#[tokio::test]
async fn logging_in_again_and_again_on_one_connection_is_refused_for_a_while() {
    let running = start(Limits::default()).await;
    let mut ddp = Ddp::connect(running.address).await;
    for _ in 0..5 {
        ddp.call("login", json!([7])).await.unwrap();
    }
    let error = ddp.call("login", json!([7])).await.unwrap_err();
    assert_eq!(error["error"], "too-many-requests");
    assert!(error["details"]["timeToReset"].as_u64().unwrap() <= 10_000);
}

#[tokio::test]
async fn a_query_that_fails_later_ends_its_subscription_with_the_reason() {
    let running = start(Limits { documents_max: 2, ..Limits::default() }).await;
    running.memory.put("a", "1", json!({ "x": 1 }));
    let mut ddp = Ddp::connect(running.address).await;
    ddp.sub("s", "set", json!(["a"])).await.unwrap();
    running.memory.put("a", "2", json!({ "x": 1 }));
    running.memory.put("a", "3", json!({ "x": 1 }));
    let nosub = ddp.until("nosub").await;
    assert_eq!(nosub["error"]["error"], 413);
    assert!(ddp.of("things").is_empty());
}
