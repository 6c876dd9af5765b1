//! Streams by WebSocket and as server-sent events.

use std::net::SocketAddr;

use http::Method;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use weir_base::{Id, Random};
use weir_community::relationships::{self, FollowWish};
use weir_community::statuses::{self, Draft, Visibility};
use weir_community::tags;
use weir_db::params;
use weir_live::socket::client::{Client, Request, connect};
use weir_live::socket::{Message, Sockets};
use weir_storm::fixture::RedisServer;

use crate::place::{Place, Someone, places};

/// A stream by WebSocket.
pub struct Stream(pub Client<TcpStream>);

impl Stream {
    pub async fn open(address: SocketAddr, by: Option<&Someone>, query: &str) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        let token = by.map_or(String::new(), |one| format!("access_token={}&", one.token));
        let request = Request {
            host: address.to_string(),
            path: format!("/api/v1/streaming?{token}{query}"),
            ..Request::default()
        };
        let sockets = Sockets::default();
        Self(connect(stream, &sockets, &request, Random::seeded(1)).await.unwrap())
    }

    pub async fn say(&mut self, message: Value) {
        self.0.send_text(&message.to_string()).await.unwrap();
    }

    /// The next event: its name, its stream's name and its payload.
    pub async fn next(&mut self) -> (String, String, Value) {
        loop {
            if let Message::Text(text) = self.0.recv().await.unwrap() {
                let message: Value = serde_json::from_str(&text).unwrap();
                let payload = message["payload"].as_str().unwrap_or("null");
                let payload = serde_json::from_str(payload).unwrap_or(Value::Null);
                let event = message["event"].as_str().unwrap_or_default().to_owned();
                let stream = message["stream"][0].as_str().unwrap_or_default().to_owned();
                return (event, stream, payload);
            }
        }
    }
}

pub async fn follow(place: &Place, by: &Someone, target: &Someone) {
    let (by, target, wish) = (by.id, target.id, FollowWish::default());
    place.write(move |tx, env| relationships::follow(tx, env, by, target, &wish)).await;
}

#[tokio::test]
async fn a_follower_hears_of_posts_edits_nothing_private_to_others_and_deletions() {
    for place in places() {
        let (alice, bob) = (place.person("alice").await, place.person("bob").await);
        let carol = place.person("carol").await;
        follow(&place, &bob, &alice).await;
        let address = place.listen().await;
        let mut stream = Stream::open(address, Some(&bob), "stream=user").await;
        place.post(&carol, "carol is not followed", Visibility::Public).await;
        place.post(&alice, "@carol not for bob", Visibility::Direct).await;
        let private = place.post(&alice, "for followers", Visibility::Private).await;
        let (event, name, status) = stream.next().await;
        assert_eq!((event.as_str(), name.as_str()), ("update", "user"));
        assert_eq!(status["id"], private.to_string());
        assert_eq!(status["favourited"], false);
        place.write(move |tx, env| statuses::delete(tx, env, alice.id, private)).await;
        let (event, _, id) = stream.next().await;
        assert_eq!((event.as_str(), id), ("delete", json!(private.0)));
    }
}

#[tokio::test]
async fn a_post_is_told_once_however_many_ways_lead_to_it() {
    for place in places() {
        let (alice, bob) = (place.person("alice").await, place.person("bob").await);
        follow(&place, &bob, &alice).await;
        for name in ["cats", "dogs"] {
            place.write(move |tx, env| tags::follow(tx, env, bob.id, name)).await;
        }
        let address = place.listen().await;
        let mut stream = Stream::open(address, Some(&bob), "stream=user").await;
        let post = place.post(&alice, "#cats and #dogs", Visibility::Public).await;
        let next = place.post(&alice, "neither", Visibility::Public).await;
        assert_eq!(stream.next().await.2["id"], post.to_string());
        assert_eq!(stream.next().await.2["id"], next.to_string());
        place.write(move |tx, env| statuses::delete(tx, env, alice.id, post)).await;
        place.write(move |tx, env| statuses::delete(tx, env, alice.id, next)).await;
        assert_eq!(stream.next().await.2, json!(post.0));
        assert_eq!(stream.next().await.2, json!(next.0));
    }
}

#[tokio::test]
async fn a_revocation_is_told_when_what_changed_beside_it_cannot_be_read_which_nobody_resumes_over()
{
    for place in places() {
        let (alice, bob) = (place.person("alice").await, place.person("bob").await);
        let address = place.listen().await;
        let mut stream = Stream::open(address, Some(&bob), "stream=public").await;
        let mut other = Stream::open(address, Some(&alice), "stream=user&since=").await;
        assert_eq!(other.message().await["event"], "resumed");
        place.post(&alice, "before", Visibility::Public).await;
        let since = other.message().await["id"].as_str().unwrap().to_owned();
        stream.next().await;
        let rename = |from: &str, to: &str| format!("ALTER TABLE {from} RENAME TO {to}");
        let (away, back) = (rename("list_accounts", "hidden"), rename("hidden", "list_accounts"));
        let token = bob.token.clone();
        place
            .write(move |tx, env| {
                let draft = Draft { text: "during".into(), ..Draft::default() };
                statuses::publish(tx, env, alice.id, &draft)?;
                weir_community::oauth::revoke(tx, env, weir_base::Id::ZERO, &token)?;
                tx.run(&away, &[])?;
                Ok(())
            })
            .await;
        assert!(matches!(stream.0.recv().await, Ok(Message::Close(_)) | Err(_)));
        place.write(move |tx, _| Ok(tx.run(&back, &[])?)).await;
        let query = format!("stream=user&since={since}");
        let mut again = Stream::open(address, Some(&alice), &query).await;
        let message = again.message().await;
        assert_eq!(
            (&message["event"], &message["payload"]),
            (&json!("resumed"), &json!("{\"complete\":false}"))
        );
    }
}

#[tokio::test]
async fn a_mention_is_a_notification_and_filters_are_spliced_in() {
    for place in places() {
        let (alice, bob) = (place.person("alice").await, place.person("bob").await);
        follow(&place, &bob, &alice).await;
        let address = place.listen().await;
        let mut stream = Stream::open(address, Some(&bob), "stream=user").await;
        place
            .write(move |tx, env| {
                let change = weir_community::filters::FilterChange {
                    title: Some("mute the game".into()),
                    contexts: Some(vec!["home".into()]),
                    keywords: vec![weir_community::filters::KeywordChange {
                        keyword: Some("game".into()),
                        ..Default::default()
                    }],
                    ..Default::default()
                };
                weir_community::filters::create(tx, env, bob.id, &change)
            })
            .await;
        assert_eq!(stream.next().await.0, "filters_changed");
        place.post(&alice, "the game is on, @bob", Visibility::Public).await;
        let mut events = [stream.next().await, stream.next().await];
        events.sort_by(|one, other| one.0.cmp(&other.0));
        let [(first, _, notification), (second, _, status)] = events;
        assert_eq!((first.as_str(), second.as_str()), ("notification", "update"));
        assert_eq!(notification["type"], "mention");
        assert_eq!(status["filtered"][0]["filter"]["title"], "mute the game");
    }
}

#[tokio::test]
async fn public_and_hashtag_streams_are_multiplexed_and_blocks_hold() {
    for place in places() {
        let (alice, bob) = (place.person("alice").await, place.person("bob").await);
        let carol = place.person("carol").await;
        let address = place.listen().await;
        let mut stream = Stream::open(address, Some(&bob), "").await;
        stream.say(json!({ "type": "subscribe", "stream": "nonsense" })).await;
        stream.say(json!({ "type": "subscribe", "stream": "public:local" })).await;
        stream.say(json!({ "type": "subscribe", "stream": "hashtag", "tag": "Weir" })).await;
        assert_eq!(stream.next().await, (String::new(), String::new(), Value::Null));
        // An answer to a wrong wish says that those before it were heard.
        stream.say(json!({ "type": "nothing" })).await;
        stream.next().await;
        place.write(move |tx, env| relationships::block(tx, env, bob.id, carol.id, "")).await;
        place.post(&carol, "blocked #weir", Visibility::Public).await;
        let post = place.post(&alice, "hello #weir", Visibility::Public).await;
        let mut heard = [stream.next().await, stream.next().await];
        heard.sort_by(|one, other| one.1.cmp(&other.1));
        let names: Vec<&str> = heard.iter().map(|one| one.1.as_str()).collect();
        assert_eq!(names, ["hashtag", "public:local"]);
        assert!(heard.iter().all(|one| one.2["id"] == post.to_string()));
        place.write(move |tx, env| statuses::delete(tx, env, alice.id, post)).await;
        let gone = [stream.next().await, stream.next().await];
        assert!(gone.iter().all(|one| one.0 == "delete"), "{gone:?}");
        assert_ne!(gone[0].1, gone[1].1, "one on each");
    }
}

#[tokio::test]
async fn who_may_not_read_notifications_hears_of_none_in_the_stream_of_home() {
    for place in places() {
        let (alice, bob) = (place.person("alice").await, place.person("bob").await);
        follow(&place, &bob, &alice).await;
        let address = place.listen().await;
        let narrow =
            Someone { id: bob.id, token: place.token(Some(bob.id), "read:statuses").await };
        let mut stream = Stream::open(address, Some(&narrow), "stream=user").await;
        place.post(&alice, "hello @bob", Visibility::Public).await;
        place.post(&alice, "hello again", Visibility::Public).await;
        assert_eq!([stream.next().await.0, stream.next().await.0], ["update", "update"]);
    }
}

#[tokio::test]
async fn a_stream_without_a_token_that_it_needs_is_refused() {
    for place in places() {
        let address = place.listen().await;
        for (path, status) in [
            ("/api/v1/streaming/user", "401"),
            ("/api/v1/streaming/list?list=1", "401"),
            ("/api/v1/streaming/hashtag", "400"),
            ("/api/v1/streaming", "400"),
        ] {
            let (line, _) = ask(address, path, None).await;
            assert!(line.contains(status), "{path}: {line}");
        }
    }
}

pub async fn ask(
    address: SocketAddr,
    path: &str,
    token: Option<&str>,
) -> (String, BufReader<TcpStream>) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let token = token.map_or(String::new(), |token| format!("Authorization: Bearer {token}\r\n"));
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n{token}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).await.unwrap();
    (line, reader)
}

#[tokio::test]
async fn server_sent_events_tell_the_same() {
    for place in places() {
        let (alice, bob) = (place.person("alice").await, place.person("bob").await);
        follow(&place, &bob, &alice).await;
        let address = place.listen().await;
        let (line, mut reader) = ask(address, "/api/v1/streaming/user", Some(&bob.token)).await;
        assert!(line.contains("200"), "{line}");
        let mut line = String::new();
        while !line.starts_with(':') {
            line.clear();
            reader.read_line(&mut line).await.unwrap();
        }
        let post = place.post(&alice, "over SSE", Visibility::Public).await;
        while !line.starts_with("event: update") {
            line.clear();
            reader.read_line(&mut line).await.unwrap();
        }
        line.clear();
        reader.read_line(&mut line).await.unwrap();
        let status: Value = serde_json::from_str(line.trim_start_matches("data: ")).unwrap();
        assert_eq!(status["id"], post.to_string());
    }
}

#[tokio::test]
async fn server_sent_events_go_over_http_where_a_connection_is_shared() {
    for place in places() {
        let alice = place.person("alice").await;
        let _address = place.listen().await;
        let request = http::Request::get("/api/v1/streaming/public/local")
            .header("authorization", format!("Bearer {}", alice.token))
            .body(axum::body::Body::empty())
            .unwrap();
        let mut body = place.begin(request).await.into_body();
        let mut heard = String::new();
        while !heard.starts_with(": )") {
            let frame = body.frame().await.unwrap().unwrap();
            heard.push_str(std::str::from_utf8(frame.data_ref().unwrap()).unwrap());
        }
        place.post(&alice, "over a shared connection", Visibility::Public).await;
        while !heard.contains("event: update") {
            let frame = body.frame().await.unwrap().unwrap();
            heard.push_str(std::str::from_utf8(frame.data_ref().unwrap()).unwrap());
        }
    }
}

#[tokio::test]
async fn server_sent_events_end_whole_when_their_session_does() {
    for place in places() {
        let (alice, bob) = (place.person("alice").await, place.person("bob").await);
        let address = place.listen().await;
        let (_, mut of_alice) = ask(address, "/api/v1/streaming/user", Some(&alice.token)).await;
        let (_, mut of_bob) = ask(address, "/api/v1/streaming/user", Some(&bob.token)).await;
        let mut line = String::new();
        while !line.starts_with(':') {
            line.clear();
            of_bob.read_line(&mut line).await.unwrap();
        }
        let hub = place.community.env().streams.hub().clone();
        drop(of_bob);
        // Whose client went away is no longer here, before anything is told.
        while hub.is_here(bob.id.0) {
            tokio::task::yield_now().await;
        }
        hub.close(alice.id.0);
        let mut rest = String::new();
        of_alice.read_to_string(&mut rest).await.unwrap();
        assert!(rest.to_lowercase().contains("transfer-encoding: chunked"), "{rest}");
        assert!(rest.ends_with("\r\n0\r\n\r\n"), "{rest}");
    }
}

#[tokio::test]
async fn of_boosts_and_of_votes_everybody_sees_what_they_did_themselves() {
    for place in places() {
        let [alice, bob] = [place.person("alice").await, place.person("bob").await];
        let [carol, dave] = [place.person("carol").await, place.person("dave").await];
        let poll = json!({"status": "?", "poll": {"options": ["a", "b"], "expires_in": 600}});
        let post = place.do_post("/api/v1/statuses", &alice, poll).await;
        let at = |verb: &str| format!("/api/v1/statuses/{}/{verb}", post["id"].as_str().unwrap());
        place.do_post(&at("favourite"), &bob, Value::Null).await;
        place.do_post(&at("mute"), &bob, Value::Null).await;
        follow(&place, &bob, &dave).await;
        follow(&place, &carol, &dave).await;
        follow(&place, &carol, &alice).await;
        let address = place.listen().await;
        let mut streams = Vec::new();
        for one in [Some(&alice), Some(&bob), Some(&carol)] {
            streams.push(Stream::open(address, one, "stream=user").await);
        }
        place.do_post(&at("reblog"), &dave, Value::Null).await;
        let (_, _, of_bob) = streams[1].next().await;
        let marks = |status: &Value| {
            let of = ["favourited", "muted", "bookmarked", "reblogged"];
            of.map(|mark| (status[mark] == true, status["reblog"][mark] == true))
        };
        assert_eq!(marks(&of_bob), [(true, true), (true, true), (false, false), (false, false)]);
        let (_, _, of_carol) = streams[2].next().await;
        assert_eq!(marks(&of_carol), [(false, false); 4]);
        assert_eq!(of_carol["reblog"]["poll"]["voted"], false);
        let votes = format!("/api/v1/polls/{}/votes", post["poll"]["id"].as_str().unwrap());
        place.do_post(&votes, &carol, json!({"choices": [1]})).await;
        let (event, _, voted) = streams[2].next().await;
        assert_eq!(event, "status.update");
        assert_eq!(voted["poll"]["own_votes"], json!([1]));
        assert_eq!(voted["poll"]["votes_count"], 1);
        place.do_post(&votes, &dave, json!({"choices": [0]})).await;
        let (_, _, voted) = streams[2].next().await;
        assert_eq!(voted["poll"]["votes_count"], 2, "no older rendering is shown again");
        assert_eq!(voted["poll"]["own_votes"], json!([1]));
        let own = loop {
            let (event, _, status) = streams[0].next().await;
            if event == "status.update" {
                break status;
            }
        };
        assert_eq!(own["pinned"], false, "the author sees what only authors see");
    }
}

#[tokio::test]
async fn a_mute_that_ends_by_itself_ends_on_open_streams_too() {
    for place in places() {
        let (alice, bob) = (place.person("alice").await, place.person("bob").await);
        follow(&place, &bob, &alice).await;
        let mute = format!("/api/v1/accounts/{}/mute", alice.id);
        place.do_post(&mute, &bob, json!({"duration": 60})).await;
        let address = place.listen().await;
        let mut stream = Stream::open(address, Some(&bob), "stream=user").await;
        place.post(&alice, "not now", Visibility::Public).await;
        let mark = place.post(&bob, "a mark", Visibility::Public).await;
        assert_eq!(stream.next().await.2["id"], mark.to_string());
        place.clock.advance(60_000);
        let heard = place.post(&alice, "again", Visibility::Public).await;
        assert_eq!(stream.next().await.2["id"], heard.to_string());
    }
}

#[tokio::test]
async fn an_announcement_is_told_to_all_alike() {
    for place in places() {
        let (alice, bob) = (place.person("alice").await, place.person("bob").await);
        let address = place.listen().await;
        let mut first = Stream::open(address, Some(&alice), "stream=user").await;
        let mut second = Stream::open(address, Some(&bob), "stream=user").await;
        let id = place
            .write(|tx, env| {
                weir_community::announcements::publish(tx, env, "Back at 8", None, None, false)
            })
            .await;
        let (event, _, told) = first.next().await;
        assert_eq!((event.as_str(), &told["id"]), ("announcement", &json!(id.to_string())));
        assert_eq!(told.get("read"), None);
        assert_eq!(second.next().await.2, told);
        let party = format!("/api/v1/announcements/{id}/reactions/%F0%9F%8E%89");
        place.done(http::Method::PUT, &party, &bob, Value::Null).await;
        let (event, _, told) = first.next().await;
        assert_eq!((event.as_str(), &told["count"]), ("announcement.reaction", &json!(1)));
        assert_eq!(second.next().await.2, told);
    }
}

impl Stream {
    /// The next message as it came.
    pub async fn message(&mut self) -> Value {
        loop {
            if let Message::Text(text) = self.0.recv().await.unwrap() {
                return serde_json::from_str(&text).unwrap();
            }
        }
    }
}

#[tokio::test]
async fn who_comes_back_with_the_last_id_is_told_what_was_missed_and_nothing_twice() {
    for place in places() {
        let (alice, bob) = (place.person("alice").await, place.person("bob").await);
        follow(&place, &bob, &alice).await;
        let address = place.listen().await;
        let mut stream = Stream::open(address, Some(&bob), "stream=user&since=").await;
        let begun = stream.message().await;
        assert_eq!(begun["event"], "resumed");
        assert_eq!(begun["payload"], "{\"complete\":false}");
        let first = place.post(&alice, "while bob is here", Visibility::Public).await;
        let told = stream.message().await;
        assert!(told["payload"].as_str().unwrap().contains(&first.to_string()));
        let since = told["id"].as_str().unwrap().to_owned();
        drop(stream);
        while place.community.env().streams.hub().is_here(bob.id.0) {
            tokio::task::yield_now().await;
        }
        let second = place.post(&alice, "while bob is away", Visibility::Public).await;
        let third = place.post(&alice, "and again", Visibility::Private).await;
        // What bob is told by now is known by what somebody who stayed was told.
        let mut witness = Stream::open(address, Some(&alice), "stream=user").await;
        let mark = place.post(&alice, "a mark", Visibility::Direct).await;
        while witness.next().await.2["id"] != mark.to_string() {}
        let query = format!("stream=user&since={since}");
        let mut stream = Stream::open(address, Some(&bob), &query).await;
        let mut told = Vec::new();
        loop {
            let message = stream.message().await;
            if message["event"] == "resumed" {
                assert_eq!(message["payload"], "{\"complete\":true}");
                break;
            }
            let payload: Value =
                serde_json::from_str(message["payload"].as_str().unwrap()).unwrap();
            told.push(payload["id"].clone());
        }
        assert_eq!(told, [json!(second.to_string()), json!(third.to_string())]);
        let last = place.post(&alice, "bob is back", Visibility::Public).await;
        assert_eq!(stream.next().await.2["id"], last.to_string());
    }
}

#[tokio::test]
async fn server_sent_events_resume_by_their_last_id_and_say_when_they_cannot() {
    for place in places() {
        let (alice, bob) = (place.person("alice").await, place.person("bob").await);
        follow(&place, &bob, &alice).await;
        let address = place.listen().await;
        let token = Some(bob.token.as_str());
        let (_, mut reader) = ask(address, "/api/v1/streaming/user", token).await;
        line_with(&mut reader, ": )").await;
        place.post(&alice, "one", Visibility::Public).await;
        let id = line_with(&mut reader, "id: ").await;
        let id = id.trim().trim_start_matches("id: ").to_owned();
        drop(reader);
        let path = format!("/api/v1/streaming/user?since={id}");
        let (_, mut reader) = ask(address, &path, token).await;
        line_with(&mut reader, "event: resumed").await;
        assert_eq!(line_with(&mut reader, "data: ").await.trim(), "data: {\"complete\":true}");
        let path = "/api/v1/streaming/user?since=1-1";
        let (_, mut reader) = ask(address, path, token).await;
        line_with(&mut reader, "event: resumed").await;
        assert_eq!(line_with(&mut reader, "data: ").await.trim(), "data: {\"complete\":false}");
    }
}

pub async fn line_with(reader: &mut BufReader<TcpStream>, start: &str) -> String {
    let mut line = String::new();
    while !line.starts_with(start) {
        line.clear();
        assert!(reader.read_line(&mut line).await.unwrap() > 0, "the stream ended");
    }
    line
}

#[tokio::test]
async fn a_block_holds_for_all_sessions_of_an_account_from_the_next_post_on() {
    for place in places() {
        let (alice, bob) = (place.person("alice").await, place.person("bob").await);
        let carol = place.person("carol").await;
        follow(&place, &bob, &alice).await;
        follow(&place, &bob, &carol).await;
        let address = place.listen().await;
        let mut streams = Vec::new();
        for _ in 0..20 {
            streams.push(Stream::open(address, Some(&bob), "stream=public").await);
        }
        let first = place.post(&alice, "to twenty sessions", Visibility::Public).await;
        for stream in &mut streams {
            assert_eq!(stream.next().await.2["id"], first.to_string());
        }
        place.write(move |tx, env| relationships::block(tx, env, bob.id, alice.id, "")).await;
        place.post(&alice, "to none", Visibility::Public).await;
        let second = place.post(&carol, "to all again", Visibility::Public).await;
        for stream in &mut streams {
            assert_eq!(stream.next().await.2["id"], second.to_string());
        }
    }
}

#[tokio::test]
async fn a_list_that_keeps_its_people_out_of_home_does_so_on_open_streams() {
    for place in places() {
        let (alice, bob) = (place.person("alice").await, place.person("bob").await);
        follow(&place, &bob, &alice).await;
        let address = place.listen().await;
        let mut stream = Stream::open(address, Some(&bob), "stream=user").await;
        let list = json!({ "title": "apart", "exclusive": true });
        let list = place.do_post("/api/v1/lists", &bob, list).await;
        let members = format!("/api/v1/lists/{}/accounts", list["id"].as_str().unwrap());
        place.do_post(&members, &bob, json!({ "account_ids": [alice.id.to_string()] })).await;
        place.post(&alice, "in the list alone", Visibility::Public).await;
        let mark = place.post(&bob, "a mark", Visibility::Public).await;
        assert_eq!(stream.next().await.2["id"], mark.to_string());
    }
}

async fn reply(place: &Place, by: &Someone, to: Id) -> Id {
    let draft = Draft { text: "a reply".into(), in_reply_to: Some(to), ..Draft::default() };
    let by = by.id;
    place.write(move |tx, env| statuses::publish(tx, env, by, &draft)).await
}

#[tokio::test]
async fn a_list_s_streams_tell_the_replies_that_its_timeline_shows() {
    for place in places() {
        let (alice, bob) = (place.person("alice").await, place.person("bob").await);
        let carol = place.person("carol").await;
        follow(&place, &alice, &bob).await;
        let list = place.do_post("/api/v1/lists", &alice, json!({ "title": "l" })).await;
        let list = list["id"].as_str().unwrap();
        let (path, members) =
            (format!("/api/v1/lists/{list}"), format!("/api/v1/lists/{list}/accounts"));
        let (bob_s, carol_s) = (bob.id.to_string(), carol.id.to_string());
        place.do_post(&members, &alice, json!({ "account_ids": [bob_s] })).await;
        let to_carol = place.post(&carol, "carol's", Visibility::Public).await;
        let to_alice = place.post(&alice, "alice's", Visibility::Public).await;
        let address = place.listen().await;
        let mut stream =
            Stream::open(address, Some(&alice), &format!("stream=list&list={list}")).await;
        let (_, mut events) =
            ask(address, &format!("/api/v1/streaming/list?list={list}"), Some(&alice.token)).await;
        line_with(&mut events, ":").await;
        let mut since = to_alice;
        for (policy, follows, has_member, shown) in [
            ("none", false, false, 3),
            ("list", false, false, 3),
            ("followed", false, false, 3),
            ("followed", true, false, 4),
            ("list", true, false, 3),
            ("list", true, true, 4),
            ("none", true, true, 3),
            ("list", true, false, 3),
        ] {
            let change = json!({ "replies_policy": policy });
            place.done(Method::PUT, &path, &alice, change).await;
            let ids = json!({ "account_ids": [carol_s] });
            if follows {
                follow(&place, &alice, &carol).await;
            }
            match has_member {
                true => place.do_post(&members, &alice, ids).await,
                false => place.done(Method::DELETE, &members, &alice, ids).await,
            };
            reply(&place, &bob, to_carol).await;
            reply(&place, &bob, to_alice).await;
            let own = place.post(&bob, "to nobody", Visibility::Public).await;
            let mark = reply(&place, &bob, own).await;
            let timeline = format!("/api/v1/timelines/list/{list}?since_id={since}");
            let timeline = place.get(&timeline, &alice).await;
            let timeline = timeline.as_array().unwrap().iter().rev();
            let expected: Vec<&str> = timeline.map(|one| one["id"].as_str().unwrap()).collect();
            assert_eq!(expected.len(), shown, "{policy}, {follows}, {has_member}");
            let (mut heard, mut heard_sse) = (Vec::new(), Vec::new());
            while heard.last() != Some(&mark.to_string()) {
                heard.push(stream.next().await.2["id"].as_str().unwrap().to_owned());
            }
            while heard_sse.last() != Some(&mark.to_string()) {
                let line = line_with(&mut events, "data: ").await;
                let status: Value = serde_json::from_str(&line["data: ".len()..]).unwrap();
                heard_sse.push(status["id"].as_str().unwrap().to_owned());
            }
            assert_eq!(heard, expected, "{policy}, {follows}, {has_member} on {}", place.name);
            assert_eq!(heard_sse, expected, "{policy}, {follows}, {has_member}");
            since = mark;
        }
        place.write(move |tx, env| statuses::delete(tx, env, bob.id, since)).await;
        let (event, _, id) = stream.next().await;
        assert_eq!((event.as_str(), id), ("delete", json!(since.0)));
    }
}

#[tokio::test]
async fn open_streams_end_when_the_token_is_revoked_and_come_back_with_one_that_is_not() {
    for place in places() {
        let bob = place.person("bob").await;
        let address = place.listen().await;
        let mut stream = Stream::open(address, Some(&bob), "stream=public").await;
        let (token, other) = (bob.token.clone(), place.token(Some(bob.id), "read").await);
        place
            .write(move |tx, env| {
                weir_community::oauth::revoke(tx, env, weir_base::Id::ZERO, &token)
            })
            .await;
        assert!(matches!(stream.0.recv().await, Ok(Message::Close(_)) | Err(_)));
        let bob = Someone { token: other, ..bob };
        let mut stream = Stream::open(address, Some(&bob), "stream=public").await;
        let id = place.post(&bob, "still here", Visibility::Public).await;
        assert_eq!(stream.next().await.2["id"], id.to_string());
    }
}

#[tokio::test]
async fn what_was_revoked_while_the_bus_was_away_is_closed_when_it_is_back() {
    for place in places() {
        let mut redis = RedisServer::away();
        let [alice, bob] = [place.person("alice").await, place.person("bob").await];
        let carol = place.person("carol").await;
        let address = place.listen_among(Some(&redis.url())).await;
        let mut of_alice = Stream::open(address, Some(&alice), "stream=user").await;
        let mut of_carol = Stream::open(address, Some(&carol), "stream=user").await;
        let mut of_bob = Stream::open(address, Some(&bob), "stream=user").await;
        // As another node does it, which nobody here hears of.
        place
            .write(move |tx, env| {
                tx.execute("DELETE FROM oauth_tokens WHERE account_id = ?1", params![alice.id])?;
                let sql = "UPDATE accounts SET suspended_at = ?2 WHERE id = ?1";
                tx.execute(sql, params![carol.id, env.clock.now()])?;
                Ok(())
            })
            .await;
        redis.start();
        for stream in [&mut of_alice, &mut of_carol] {
            assert!(matches!(stream.0.recv().await.unwrap(), Message::Close(_)), "{}", place.name);
        }
        let post = place.post(&bob, "still here", Visibility::Public).await;
        assert_eq!(of_bob.next().await.2["id"], post.to_string());
        assert!(ask(address, "/api/v1/streaming/user", Some(&alice.token)).await.0.contains("401"));
    }
}
