//! What readers do not want to see does not come on streams that are open already.

use serde_json::{Value, json};
use weir_base::Id;
use weir_community::accounts::{self, RemoteAccount};
use weir_community::federation::order::Version;
use weir_community::statuses::{self, Cause, Draft, Receipt, RemoteStatus, Visibility};
use weir_community::users::{self, Preferences};

use crate::place::{Place, Someone, places};
use crate::streaming::{Stream, follow};

async fn post_in(place: &Place, by: &Someone, language: &str) -> Id {
    let (language, by) = (Some(language.to_owned()), by.id);
    let draft = Draft { text: "hello".into(), language, ..Draft::default() };
    place.write(move |tx, env| statuses::publish(tx, env, by, &draft)).await
}

#[tokio::test]
async fn languages_that_are_chosen_hold_on_open_public_streams() {
    for place in places() {
        let (alice, bob) = (place.person("alice").await, place.person("bob").await);
        let address = place.listen().await;
        let mut stream = Stream::open(address, Some(&alice), "stream=public").await;
        let first = post_in(&place, &bob, "en").await;
        assert_eq!(stream.next().await.2["id"], first.to_string());
        let chosen = Preferences { chosen_languages: vec!["de".into()], ..Preferences::default() };
        place.write(move |tx, env| users::set_preferences(tx, env, alice.id, &chosen, "en")).await;
        post_in(&place, &bob, "en").await;
        let wanted = post_in(&place, &bob, "de").await;
        assert_eq!(stream.next().await.2["id"], wanted.to_string(), "{}", place.name);
    }
}

#[tokio::test]
async fn languages_of_somebody_who_is_followed_hold_on_open_home_streams() {
    for place in places() {
        let (alice, bob) = (place.person("alice").await, place.person("bob").await);
        follow(&place, &alice, &bob).await;
        let address = place.listen().await;
        let mut stream = Stream::open(address, Some(&alice), "stream=user").await;
        let path = format!("/api/v1/accounts/{}/follow", bob.id);
        place.do_post(&path, &alice, json!({ "languages": ["de"] })).await;
        post_in(&place, &bob, "en").await;
        let wanted = post_in(&place, &bob, "de").await;
        assert_eq!(stream.next().await.2["id"], wanted.to_string(), "{}", place.name);
        let home = place.get("/api/v1/timelines/home", &alice).await;
        let shown: Vec<&Value> = home.as_array().unwrap().iter().map(|one| &one["id"]).collect();
        assert_eq!(shown, [&json!(wanted.to_string())], "and in the timeline alike");
    }
}

/// A public post of somebody on another server.
async fn arrives(place: &Place, number: usize) -> Id {
    let remote = RemoteAccount {
        uri: "https://away.example/users/eve".into(),
        username: "eve".into(),
        domain: "away.example".into(),
        kind: "person".into(),
        inbox: "https://away.example/inbox".into(),
        ..RemoteAccount::default()
    };
    let post = RemoteStatus {
        uri: format!("https://away.example/{number}"),
        content: "<p>hello</p>".into(),
        ..RemoteStatus::default()
    };
    let (remote, post) = (remote.cleaned().unwrap(), post.cleaned().unwrap());
    let received = place.write(move |tx, env| {
        let now = env.clock.now();
        let version = || Version { at: now, seq: env.ids.next() };
        let by = accounts::upsert(tx, env, &remote, version())?;
        let by = accounts::by_id(tx, by)?;
        statuses::receive(tx, env, &by, &post, version(), now, Cause::Wanted { depth: 0 })
    });
    match received.await {
        Receipt::New(id) => id,
        other => panic!("not new: {other:?}"),
    }
}

#[tokio::test]
async fn a_server_that_is_blocked_is_not_heard_on_open_streams() {
    for place in places() {
        let alice = place.person("alice").await;
        let address = place.listen().await;
        let mut stream = Stream::open(address, Some(&alice), "stream=public").await;
        let first = arrives(&place, 1).await;
        assert_eq!(stream.next().await.2["id"], first.to_string());
        let block = json!({ "domain": "away.example" });
        place.do_post("/api/v1/domain_blocks", &alice, block).await;
        arrives(&place, 2).await;
        let mark = place.post(&alice, "a mark", Visibility::Public).await;
        assert_eq!(stream.next().await.2["id"], mark.to_string(), "{}", place.name);
        let path = "/api/v1/domain_blocks?domain=away.example";
        place.done(http::Method::DELETE, path, &alice, Value::Null).await;
        let again = arrives(&place, 3).await;
        assert_eq!(stream.next().await.2["id"], again.to_string(), "{}", place.name);
    }
}
