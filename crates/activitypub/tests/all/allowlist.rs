//! A community that speaks only with servers that are listed.

use http::header::ACCEPT;
use http::{HeaderMap, HeaderValue};
use serde_json::json;
use weir_activitypub::signature::Form;
use weir_community::federation::Resolver;
use weir_community::statuses::Visibility;
use weir_community::{Error, hosts};

use crate::deliveries::{came, follows};
use crate::inbox::{actor_of, create, send};
use crate::peer::Peer;
use crate::place::{Place, allowlist_places, until};

async fn allow(place: &Place, peer: &Peer) {
    let domain = peer.domain();
    place.write(move |tx, env| hosts::allow(tx, env, &domain)).await.unwrap();
}

#[tokio::test]
async fn who_is_not_listed_is_not_heard_not_looked_up_and_sent_nothing() {
    for place in allowlist_places() {
        let (listed, other) = (Peer::start().await, Peer::start().await);
        allow(&place, &listed).await;
        let alice = place.person("alice").await;
        for (peer, name) in [(&listed, "bob"), (&other, "carol")] {
            let follower = place.stranger(peer, name).await;
            follows(&place, follower, alice).await;
        }
        let running = place.start();
        let uri = actor_of(&place, alice).await;
        let path = uri.trim_start_matches("http://weir.test");
        assert_eq!(place.get(path, HeaderMap::new()).await.status, 401);
        for (peer, name, status) in [(&listed, "bob", 202), (&other, "carol", 403)] {
            let note = create(peer, name, 1, &uri);
            assert_eq!(send(&place, peer, Form::Cavage, name, &note).await, status, "{name}");
            let dave = place.face.account("dave", &peer.domain()).await;
            assert_eq!(dave.is_ok(), status == 202, "{dave:?}");
            let key = peer.sign_get(name, &uri, place.clock.now());
            let read = place.get(path, key).await.status;
            assert_eq!(read, if status == 202 { 200 } else { 403 }, "{name}");
        }
        until("it is there", async || place.count("statuses").await == 1).await;
        let post = place.post(alice, "For who is listed", Visibility::Public).await;
        let mut browser = HeaderMap::new();
        browser.insert(ACCEPT, HeaderValue::from_static("text/html"));
        let page = place.get(&format!("{path}/statuses/{post}"), browser).await;
        assert_eq!(page.status, 303, "a visitor signs nothing");
        came(&listed, "Create").await;
        until("nothing waits", async || place.waiting().await == 0).await;
        assert!(other.delivered().is_empty() && other.fetched().is_empty());

        let domain = listed.domain();
        place.write(move |tx, env| hosts::disallow(tx, env, &domain)).await.unwrap();
        allow(&place, &other).await;
        let (gone, came_in) = (create(&listed, "bob", 2, &uri), create(&other, "carol", 2, &uri));
        assert_eq!(send(&place, &listed, Form::Cavage, "bob", &gone).await, 403);
        assert_eq!(send(&place, &other, Form::Cavage, "carol", &came_in).await, 202);
        place.post(alice, "For others now", Visibility::Public).await;
        came(&other, "Create").await;
        until("nothing waits", async || place.waiting().await == 0).await;
        assert_eq!(listed.activities("Create").len(), 1);
        running.stop().await;
    }
}

#[tokio::test]
async fn whose_name_is_of_a_server_that_is_not_listed_comes_in_under_no_other() {
    for place in allowlist_places() {
        let (host, named) = (Peer::start().await, Peer::start().await);
        allow(&place, &host).await;
        let bob = host.actor("bob");
        let link = json!({ "rel": "self", "type": "application/activity+json", "href": bob });
        let told = json!({ "subject": format!("acct:bob@{}", named.domain()), "links": [link] });
        for peer in [&host, &named] {
            peer.put("/.well-known/webfinger", told.clone());
        }
        let found = place.face.address(&bob).await;
        assert!(matches!(found, Err(Error::NotFound(_))), "{found:?}");
        assert!(named.fetched().is_empty(), "{:?}", named.fetched());
        allow(&place, &named).await;
        place.pass(600_000);
        place.face.address(&bob).await.unwrap();
        // What he writes comes in while both are listed.
        let alice = place.person("alice").await;
        let (alice, running) = (actor_of(&place, alice).await, place.start());
        let write = async |number: usize| {
            let note = create(&host, "bob", number, &alice);
            send(&place, &host, Form::Cavage, "bob", &note).await
        };
        assert_eq!(write(1).await, 202);
        until("it is there", async || place.count("statuses").await == 1).await;
        let domain = named.domain();
        place.write(move |tx, env| hosts::disallow(tx, env, &domain)).await.unwrap();
        assert_eq!(write(2).await, 403);
        running.stop().await;
    }
}
