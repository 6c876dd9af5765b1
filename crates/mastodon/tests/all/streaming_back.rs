//! Clients that come back to streams with much that they missed.

use serde_json::{Value, json};
use weir_base::Id;
use weir_community::streams::{Event, Topic};
use weir_live::Shared;

use crate::place::{Place, places};
use crate::streaming::{Stream, ask, line_with};

/// Tells those who listen to a hashtag that these posts are gone.
fn tell(place: &Place, tag: &str, ids: std::ops::Range<i64>) {
    let hub = place.community.env().streams.hub();
    for id in ids {
        hub.publish(&Topic::Tag(tag.into()), Shared::sized(Event::Deleted(Id(id)), 100));
    }
}

#[tokio::test]
async fn what_was_missed_comes_in_slices_whole_and_in_order() {
    for place in places() {
        let alice = place.person("alice").await;
        let address = place.listen().await;
        let hub = place.community.env().streams.hub().clone();
        let since = hub.cursor();
        let count = 1_000;
        tell(&place, "weir", 0..count);
        let query = format!("stream=hashtag&tag=weir&since={since}");
        let mut socket = Stream::open(address, Some(&alice), &query).await;
        let path = format!("/api/v1/streaming/hashtag?tag=weir&since={since}");
        let (_, mut sse) = ask(address, &path, Some(&alice.token)).await;
        for id in 0..count {
            assert_eq!(socket.next().await.2, json!(id));
            assert_eq!(line_with(&mut sse, "data: ").await.trim(), format!("data: {id}"));
        }
        let resumed = socket.message().await;
        assert_eq!(
            (&resumed["event"], &resumed["payload"]),
            (&json!("resumed"), &json!("{\"complete\":true}"))
        );
        assert_eq!(line_with(&mut sse, "data: ").await.trim(), "data: {\"complete\":true}");
        tell(&place, "weir", count..count + 1);
        assert_eq!(socket.next().await.2, json!(count));
        assert_eq!(line_with(&mut sse, "data: ").await.trim(), format!("data: {count}"));
        // Over HTTP too, where a connection is shared.
        let request = http::Request::get(path.as_str())
            .header("authorization", format!("Bearer {}", alice.token))
            .body(axum::body::Body::empty())
            .unwrap();
        let mut body = place.begin(request).await.into_body();
        let mut heard = String::new();
        while !heard.contains("event: resumed") {
            let frame = http_body_util::BodyExt::frame(&mut body).await.unwrap().unwrap();
            heard.push_str(std::str::from_utf8(frame.data_ref().unwrap()).unwrap());
        }
        let told =
            heard.lines().filter_map(|line| line.strip_prefix("data: ")?.parse::<i64>().ok());
        assert!(told.eq(0..=count), "{}", place.name);
    }
}

#[tokio::test]
async fn what_a_new_stream_missed_is_not_told_again_to_those_that_were_open() {
    for place in places() {
        let alice = place.person("alice").await;
        let address = place.listen().await;
        let mut stream =
            Stream::open(address, Some(&alice), "stream=hashtag&tag=weir&since=").await;
        let since = stream.message().await["id"].clone();
        tell(&place, "weir", 0..3);
        for id in 0..3 {
            assert_eq!(stream.next().await.2, json!(id));
        }
        // The same topic by another name.
        let wish = json!({
            "type": "subscribe", "stream": "hashtag", "tag": "WEIR", "since": since
        });
        stream.say(wish).await;
        let mut told: Vec<(Value, Value)> = Vec::new();
        loop {
            let message = stream.message().await;
            told.push((message["stream"][1].clone(), message["payload"].clone()));
            if message["event"] == "resumed" {
                break;
            }
        }
        let of_new = |payload: &str| (json!("WEIR"), json!(payload));
        assert_eq!(told, ["0", "1", "2", "{\"complete\":true}"].map(of_new));
        tell(&place, "weir", 3..4);
        let mut both = [stream.message().await, stream.message().await];
        both.sort_by_key(|message| message["stream"][1].to_string());
        assert_eq!(both.map(|message| message["stream"][1].clone()), ["WEIR", "weir"]);
        for tag in ["weir", "WEIR"] {
            stream.say(json!({ "type": "unsubscribe", "stream": "hashtag", "tag": tag })).await;
            stream.say(json!({ "type": "nothing" })).await;
            assert_eq!(stream.message().await["status"], 400);
            let left = usize::from(tag == "weir");
            let hub = place.community.env().streams.hub();
            assert_eq!(hub.listeners(&Topic::Tag("weir".into())), left);
        }
    }
}

#[tokio::test]
async fn a_stream_of_a_list_that_is_gone_can_be_left() {
    for place in places() {
        let alice = place.person("alice").await;
        let list = place.do_post("/api/v1/lists", &alice, json!({ "title": "l" })).await;
        let list = list["id"].as_str().unwrap();
        let address = place.listen().await;
        let query = format!("stream=list&list={list}");
        let mut stream = Stream::open(address, Some(&alice), &query).await;
        let topic = Topic::List(list.parse().unwrap());
        assert_eq!(place.community.env().streams.hub().listeners(&topic), 1);
        let path = format!("/api/v1/lists/{list}");
        place.done(http::Method::DELETE, &path, &alice, Value::Null).await;
        stream.say(json!({ "type": "unsubscribe", "stream": "list", "list": list })).await;
        stream.say(json!({ "type": "unsubscribe", "stream": "dance" })).await;
        assert_eq!(stream.message().await["error"], "Unknown stream type");
        assert_eq!(place.community.env().streams.hub().listeners(&topic), 0);
    }
}
