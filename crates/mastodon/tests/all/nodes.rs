//! What the other nodes of a community hear.

use std::time::Duration;

use serde_json::json;
use tokio_util::sync::CancellationToken;
use weir_base::Random;
use weir_community::statuses::Visibility;
use weir_community::streams::{self, Nodes};
use weir_live::bus::{Bus, Heard};
use weir_storm::fixture::RedisServer;

use crate::place::places;
use crate::streaming::{Stream, ask, line_with};

#[tokio::test]
async fn what_a_leaving_node_did_last_is_heard_by_the_others() {
    for place in places() {
        let mut redis = RedisServer::away();
        redis.start();
        let channel = "weir:weir.test:changes";
        let (_other, mut ear) = Bus::open(&redis.url(), channel, &Random::seeded(3)).unwrap();
        assert_eq!(ear.next().await, Some(Heard::Missed));
        let alice = place.person("alice").await;
        let nodes = Nodes::join(&place.community, &redis.url()).unwrap();
        let post = place.post(&alice, "the last word", Visibility::Public).await;
        let ended = CancellationToken::new();
        ended.cancel();
        streams::run_among(place.community.clone(), Some(nodes), ended).await;
        // Other things are told as well, such as that rows of the person were touched.
        let of_the_post = async {
            while let Some(heard) = ear.next().await {
                if let Heard::Message { payload, .. } = heard
                    && String::from_utf8(payload).unwrap().contains(&post.0.to_string())
                {
                    return;
                }
            }
        };
        let told = tokio::time::timeout(Duration::from_secs(30), of_the_post).await;
        assert!(told.is_ok(), "what it did last was not told");
    }
}

#[tokio::test]
async fn who_asked_to_go_on_is_told_that_something_of_another_node_was_missed() {
    for place in places() {
        let mut redis = RedisServer::away();
        let alice = place.person("alice").await;
        let address = place.listen_among(Some(&redis.url())).await;
        let mut asked = Stream::open(address, Some(&alice), "").await;
        for stream in ["user", "public"] {
            asked.say(json!({ "type": "subscribe", "stream": stream, "since": "" })).await;
            assert_eq!(asked.message().await["event"], "resumed");
        }
        let mut other = Stream::open(address, Some(&alice), "stream=user").await;
        let path = "/api/v1/streaming/public/local?since=";
        let (_, mut events) = ask(address, path, Some(&alice.token)).await;
        line_with(&mut events, "event: resumed").await;
        line_with(&mut events, "id: ").await;
        let before = place.community.env().streams.hub().cursor();
        // Nobody knows what others said until it is there.
        redis.start();
        let gaps = [asked.message().await, asked.message().await];
        for (gap, stream) in gaps.iter().zip(["user", "public"]) {
            assert_eq!((&gap["event"], &gap["stream"]), (&json!("resumed"), &json!([stream])));
            assert_eq!(gap["payload"], "{\"complete\":false}", "{}", place.name);
        }
        line_with(&mut events, "event: resumed").await;
        assert_eq!(line_with(&mut events, "data: ").await.trim(), "data: {\"complete\":false}");
        let post = place.post(&alice, "after the gap", Visibility::Public).await;
        assert_eq!(other.next().await.2["id"], post.to_string(), "it knows no such word");
        for (since, complete) in [(before.to_string(), false), (cursor(&gaps[0]), true)] {
            let query = format!("stream=user&since={since}");
            let mut again = Stream::open(address, Some(&alice), &query).await;
            if complete {
                assert_eq!(again.next().await.2["id"], post.to_string(), "{}", place.name);
            }
            let resumed = again.message().await;
            assert_eq!(resumed["payload"], json!({ "complete": complete }).to_string());
        }
    }
}

/// The place that a message gives.
fn cursor(message: &serde_json::Value) -> String {
    message["id"].as_str().unwrap().to_owned()
}
