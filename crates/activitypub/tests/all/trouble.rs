//! Trouble at other servers: what of it passes by itself ends nothing.

use http::header::RETRY_AFTER;
use http::{HeaderMap, HeaderValue, StatusCode};
use serde_json::{Value, json};
use weir_activitypub::signature::Form;
use weir_base::Id;
use weir_community::federation::{self, Resolver, Wanted};
use weir_community::statuses::Visibility;
use weir_community::{accounts, hosts, statuses};

use crate::deliveries::follows;
use crate::inbox::{actor_of, create, send};
use crate::peer::Peer;
use crate::place::{Place, places, until};

/// How often jobs failed that are tried again.
async fn retried(place: &Place) -> u64 {
    place.jobs.stats().await.unwrap().kinds.iter().map(|kind| kind.retried).sum()
}

fn activity(peer: &Peer, kind: &str, by: &str, object: &str) -> Value {
    let id = peer.at(&format!("/activities/{kind}/{by}"));
    json!({ "id": id, "type": kind, "actor": peer.actor(by), "object": object })
}

#[tokio::test]
async fn whose_name_is_of_a_suspended_server_comes_in_under_no_other() {
    for place in places() {
        let (host, named) = (Peer::start().await, Peer::start().await);
        let (bob, alice) = (host.actor("bob"), place.person("alice").await);
        let alice = actor_of(&place, alice).await;
        let link = json!({ "rel": "self", "type": "application/activity+json", "href": bob });
        let told = json!({ "subject": format!("acct:bob@{}", named.domain()), "links": [link] });
        for peer in [&host, &named] {
            peer.put("/.well-known/webfinger", told.clone());
        }
        place.block(&named).await;
        let found = place.face.address(&bob).await;
        assert!(found.is_err(), "{found:?}");
        let running = place.start();
        let note = create(&host, "bob", 1, &alice);
        place.pass(600_000);
        assert_eq!(send(&place, &host, Form::Cavage, "bob", &note).await, 202);
        until("it was looked at", async || place.waiting().await == 0).await;
        assert_eq!(place.count("statuses").await, 0);
        let known = place.read(move |tx, _| accounts::by_uri(tx, &bob)).await.unwrap();
        assert!(known.is_none(), "{known:?}");
        running.stop().await;
    }
}

#[tokio::test]
async fn what_somebody_wrote_waits_while_their_server_does_not_find_them_and_not_if_it_says_gone() {
    for place in places() {
        let peer = Peer::start().await;
        let alice = place.person("alice").await;
        let alice = actor_of(&place, alice).await;
        peer.withhold("/users/carol", StatusCode::NOT_FOUND);
        peer.put_page("/users/dave", "<p>Back soon</p>");
        peer.withhold("/users/eve", StatusCode::GONE);
        for (number, name) in ["carol", "dave", "eve"].into_iter().enumerate() {
            let note = create(&peer, name, number, &alice);
            assert_eq!(send(&place, &peer, Form::Cavage, name, &note).await, 202);
        }
        let running = place.start();
        until("two wait", async || retried(&place).await == 2 && place.waiting().await == 2).await;
        let asked = || peer.fetched().iter().filter(|path| path.starts_with("/users/")).count();
        assert_eq!(asked(), 3);
        for name in ["carol", "dave", "eve"] {
            peer.put(&format!("/users/{name}"), peer.actor_with(name, &peer.public_pem()));
        }
        place.pass(600_000);
        until("both", async || place.count("statuses").await == 2).await;
        assert_eq!(asked(), 5);
        running.stop().await;
    }
}

#[tokio::test]
async fn a_key_that_is_there_at_last_calls_those_back_who_waited_long_for_it() {
    for place in places() {
        let peer = Peer::start().await;
        let alice = place.person("alice").await;
        let alice = actor_of(&place, alice).await;
        peer.withhold("/users/carol", StatusCode::NOT_FOUND);
        let write = async |number: usize| {
            let note = create(&peer, "carol", number, &alice);
            assert_eq!(send(&place, &peer, Form::Cavage, "carol", &note).await, 202);
        };
        write(1).await;
        let running = place.start();
        // The third look is after twenty minutes, and the next one twenty minutes later.
        for looks in 1..=3 {
            until("it is not there", async || retried(&place).await == looks).await;
            if looks < 3 {
                place.pass(600_000);
            }
        }
        peer.put("/users/carol", peer.actor_with("carol", &peer.public_pem()));
        place.pass(660_000);
        write(2).await;
        until("both", async || place.count("statuses").await == 2).await;
        assert_eq!(retried(&place).await, 3, "it was not its time");
        assert_eq!(peer.fetched().iter().filter(|path| *path == "/users/carol").count(), 4);
        running.stop().await;
    }
}

#[tokio::test]
async fn a_move_waits_for_a_server_that_does_not_believe_who_asks_and_for_one_that_failed_before() {
    for place in places() {
        let (old, new) = (Peer::start().await, Peer::start().await);
        let running = place.start();
        let is_there = |name: &str| {
            let mut actor = new.actor_with(name, &new.public_pem());
            actor["alsoKnownAs"] = json!([old.actor(name)]);
            new.put(&format!("/users/{name}"), actor);
        };
        let moves = async |name: &str| {
            let mut moves = activity(&old, "Move", name, &old.actor(name));
            moves["target"] = new.actor(name).into();
            assert_eq!(send(&place, &old, Form::Cavage, name, &moves).await, 202);
        };
        let moved = async |account: Id| {
            until("the move", async || {
                let read = place.read(move |tx, _| accounts::by_id(tx, account));
                read.await.unwrap().moved_to_id.is_some()
            })
            .await;
        };
        let bob = place.stranger(&old, "bob").await;
        new.withhold("/users/bob", StatusCode::UNAUTHORIZED);
        moves("bob").await;
        until("it is tried again", async || retried(&place).await == 1).await;
        is_there("bob");
        place.pass(60_000);
        moved(bob).await;

        let dora = place.stranger(&old, "dora").await;
        new.withhold("/users/dora", StatusCode::NOT_FOUND);
        let known = Wanted::Account { uri: new.actor("dora") };
        place.write(move |tx, env| federation::want(tx, env, known.clone(), 0)).await.unwrap();
        until("it was looked for", async || place.count("jobs").await == 0).await;
        is_there("dora");
        moves("dora").await;
        moved(dora).await;
        running.stop().await;
    }
}

#[tokio::test]
async fn of_what_changed_and_gives_only_its_address_the_new_words_are_fetched() {
    for place in places() {
        let peer = Peer::start().await;
        let running = place.start();
        let note = peer.write("bob", "Before", None);
        place.face.address(&note).await.unwrap();
        let after = json!({
            "@context": "https://www.w3.org/ns/activitystreams", "id": note, "type": "Note",
            "attributedTo": peer.actor("bob"), "content": "<p>After</p>",
            "published": "2023-11-14T22:00:00Z", "updated": "2023-11-14T22:10:00Z",
            "to": ["https://www.w3.org/ns/activitystreams#Public"],
        });
        peer.withhold("/notes/0", StatusCode::NOT_FOUND);
        place.pass(60_000);
        let update = activity(&peer, "Update", "bob", &note);
        assert_eq!(send(&place, &peer, Form::Cavage, "bob", &update).await, 202);
        until("it is tried again", async || retried(&place).await == 1).await;
        assert_eq!(place.count("statuses").await, 1, "who edits it says that it is there");
        peer.put("/notes/0", after);
        place.pass(90_000);
        until("the new words", async || {
            let note = note.clone();
            let read = place.read(move |tx, _| statuses::by_uri(tx, &note)).await;
            read.unwrap().is_some_and(|status| status.content == "<p>After</p>")
        })
        .await;
        running.stop().await;
    }
}

#[tokio::test]
async fn a_server_that_answers_another_node_is_sent_what_is_new_at_once() {
    for place in places() {
        let peer = Peer::start().await;
        let alice = place.person("alice").await;
        let bob = place.stranger(&peer, "bob").await;
        let running = place.start();
        follows(&place, bob, alice).await;
        until("the answer", async || !peer.activities("Accept").is_empty()).await;
        until("nothing waits", async || place.count("deliveries").await == 0).await;
        let later = HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_static("3600"))]);
        peer.answer(move |_| (StatusCode::SERVICE_UNAVAILABLE, later.clone()));
        place.post(alice, "One", Visibility::Public).await;
        until("it waits", async || place.count("jobs_later WHERE kind = 'redeliver'").await == 1)
            .await;
        peer.answer(|_| StatusCode::ACCEPTED);
        let (host, now) = (peer.domain(), place.clock.now());
        place.write(move |tx, _| hosts::delivered(tx, &host, "cavage", now)).await.unwrap();
        place.post(alice, "Two", Visibility::Public).await;
        let came = |text: &str| {
            let each = peer.activities("Create").into_iter();
            each.filter(|it| it["object"]["content"].as_str().unwrap().contains(text)).count()
        };
        until("the second", async || came("Two") == 1).await;
        assert_eq!(came("One"), 1, "what was put off has its time");
        running.stop().await;
    }
}
