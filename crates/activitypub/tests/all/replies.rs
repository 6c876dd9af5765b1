//! What answers a post elsewhere and was not sent here.

use serde_json::{Value, json};
use weir_community::federation::{self, Found, Resolver};
use weir_community::{Env, statuses};
use weir_db::Tx;

use crate::peer::Peer;
use crate::place::{Place, places, until};

async fn is_known(place: &Place, uri: &str) -> bool {
    let uri = uri.to_owned();
    place.read(move |tx, _| statuses::by_uri(tx, &uri)).await.unwrap().is_some()
}

fn page(peer: &Peer, path: &str, items: &[&str], next: Option<&str>) -> Value {
    json!({
        "@context": "https://www.w3.org/ns/activitystreams",
        "id": peer.at(path),
        "type": "CollectionPage",
        "items": items,
        "next": next.map(|next| peer.at(next)),
    })
}

/// A note with a list of its answers.
fn with_replies(peer: &Peer, path: &str, in_reply_to: Option<&str>, replies: &Value) -> String {
    let id = peer.at(path);
    peer.put(
        path,
        json!({
            "@context": "https://www.w3.org/ns/activitystreams",
            "id": id,
            "type": "Note",
            "attributedTo": peer.actor("bob"),
            "content": "<p>A note</p>",
            "published": "2023-11-14T22:00:00Z",
            "inReplyTo": in_reply_to,
            "to": ["https://www.w3.org/ns/activitystreams#Public"],
            "replies": replies,
        }),
    );
    id
}

#[tokio::test]
async fn the_answers_to_a_post_that_was_looked_for_are_fetched_page_by_page() {
    for place in places() {
        let (peer, other) = (Peer::start().await, Peer::start().await);
        let list = json!({
            "id": peer.at("/replies"), "type": "Collection",
            "first": page(&peer, "/replies/1", &[&peer.at("/second")], Some("/replies/2")),
        });
        let root = with_replies(&peer, "/first", None, &list);
        let deep = json!({ "type": "Collection", "items": [peer.at("/third")] });
        let second = with_replies(&peer, "/second", Some(&root), &deep);
        let third = with_replies(&peer, "/third", Some(&second), &Value::Null);
        let elsewhere = other.write("carol", "From elsewhere", Some(&root));
        let stray = other.write("carol", "Of something else", None);
        peer.put(
            "/replies/2",
            page(&peer, "/replies/2", &[&elsewhere, &stray], Some("/replies/2")),
        );
        let running = place.start();
        let found = place.face.address(&root).await.unwrap();
        let Found::Status(id) = found else { panic!("{found:?}") };
        for uri in [&second, &third, &elsewhere] {
            until(uri, async || is_known(&place, uri).await).await;
        }
        until("all is done", async || place.count("jobs").await == 0).await;
        assert!(!is_known(&place, &stray).await, "it answers nothing in this thread");
        let thread = place.read(move |tx, env| statuses::thread(tx, env, None, id)).await.unwrap();
        assert_eq!(thread.descendants.len(), 3);
        running.stop().await;
    }
}

#[tokio::test]
async fn a_list_without_end_costs_a_bounded_number_of_fetches() {
    for place in places() {
        let (peer, victim) = (Peer::start().await, Peer::start().await);
        let victims: Vec<String> = (0..30).map(|n| victim.at(&format!("/notes/{n}"))).collect();
        let mut items: Vec<&str> = victims.iter().map(String::as_str).collect();
        let own: Vec<String> = (0..80).map(|n| peer.at(&format!("/notes/{n}"))).collect();
        items.extend(own.iter().map(String::as_str));
        let list = json!({ "type": "Collection", "items": items, "next": peer.at("/replies/1") });
        for n in 1..20 {
            let (path, next) = (format!("/replies/{n}"), format!("/replies/{}", n + 1));
            peer.put(&path, page(&peer, &path, &[], Some(&next)));
        }
        let root = with_replies(&peer, "/first", None, &list);
        let running = place.start();
        place.face.address(&root).await.unwrap();
        until("the list is read", async || !victim.fetched().is_empty()).await;
        until("all is done", async || place.count("jobs").await == 0).await;
        let notes = |peer: &Peer| {
            let asked = peer.fetched();
            asked.iter().filter(|path| path.starts_with("/notes/")).count()
        };
        assert_eq!(notes(&victim), 5);
        assert_eq!(notes(&peer), 45);
        let pages = peer.fetched().iter().filter(|path| path.starts_with("/replies/")).count();
        assert_eq!(pages, federation::REPLIES_PAGES_MAX);
        running.stop().await;
    }
}

#[tokio::test]
async fn the_answers_to_a_thread_are_looked_for_when_somebody_opens_it() {
    for place in places() {
        let peer = Peer::start().await;
        let root = with_replies(&peer, "/first", None, &Value::Null);
        let running = place.start();
        let found = place.face.address(&root).await.unwrap();
        let Found::Status(id) = found else { panic!("{found:?}") };
        let late = peer.write("carol", "A late answer", Some(&root));
        let list = json!({ "type": "Collection", "items": [late] });
        with_replies(&peer, "/first", None, &list);
        let opened = &place.community.env().threads_opened;
        assert!(opened.is_due(id));
        assert!(!opened.is_due(id), "it was just opened");
        place.write(move |tx, env| federation::opened(tx, env, id)).await.unwrap();
        until("the answer", async || is_known(&place, &late).await).await;
        running.stop().await;
    }
}

#[tokio::test]
async fn posts_that_answer_each_other_are_no_circle() {
    for place in places() {
        let peer = Peer::start().await;
        let (one, other) = (peer.at("/one"), peer.at("/other"));
        with_replies(&peer, "/one", Some(&other), &Value::Null);
        with_replies(&peer, "/other", Some(&one), &Value::Null);
        let running = place.start();
        let found = place.face.address(&one).await.unwrap();
        let Found::Status(id) = found else { panic!("{found:?}") };
        until("the other is here", async || is_known(&place, &other).await).await;
        until("all is done", async || place.count("jobs").await == 0).await;
        let alice = place.person("alice").await;
        let thread = move |tx: &mut Tx, env: &Env| statuses::thread(tx, env, Some(alice), id);
        let thread = place.read(thread).await.unwrap();
        assert_eq!(thread.ancestors.len() + thread.descendants.len(), 1);
        running.stop().await;
    }
}
