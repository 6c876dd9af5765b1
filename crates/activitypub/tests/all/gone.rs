//! Inboxes that are no more, and ways to people and posts that are not the straight one.

use http::StatusCode;
use serde_json::{Value, json};
use weir_base::Id;
use weir_community::accounts::{self, Account};
use weir_community::federation::{Found, Resolver};
use weir_community::statuses::{self, Visibility};

use crate::deliveries::{came, follows};
use crate::peer::Peer;
use crate::place::{Place, places, until};

async fn account(place: &Place, id: Id) -> Account {
    place.read(move |tx, _| accounts::by_id(tx, id)).await.unwrap()
}

#[tokio::test]
async fn an_inbox_that_is_gone_is_forgotten_and_its_owner_looked_for() {
    for place in places() {
        let peer = Peer::start().await;
        let alice = place.person("alice").await;
        let bob = place.stranger(&peer, "bob").await;
        let carol = place.stranger(&peer, "carol").await;
        for follower in [bob, carol] {
            follows(&place, follower, alice).await;
        }
        // Of the two, only bob is really gone.
        peer.withhold("/users/bob", StatusCode::GONE);
        peer.answer(|it| match it.path.as_str() {
            "/users/carol/inbox" => StatusCode::ACCEPTED,
            _ => StatusCode::GONE,
        });
        place.pass(2 * 60 * 60 * 1_000);
        let running = place.start();
        let forgotten = async |id: Id| account(&place, id).await.shared_inbox.is_empty();
        until("the shared inbox is forgotten", async || {
            forgotten(bob).await && forgotten(carol).await
        })
        .await;
        until("nothing waits", async || place.count("deliveries").await == 0).await;
        place.post(alice, "Hello", Visibility::Public).await;
        until("bob is gone", async || account(&place, bob).await.deleted_at.is_some()).await;
        came(&peer, "Create").await;
        until("nothing waits", async || place.count("deliveries").await == 0).await;
        let before = peer.delivered().len();
        place.post(alice, "Once more", Visibility::Public).await;
        until("it is there", async || peer.delivered().len() > before).await;
        until("nothing waits", async || place.count("deliveries").await == 0).await;
        let to: Vec<String> =
            peer.delivered().drain(before..).map(|delivered| delivered.path).collect();
        assert_eq!(to, ["/users/carol/inbox"]);
        assert!(account(&place, carol).await.deleted_at.is_none());
        running.stop().await;
    }
}

fn note(peer: &Peer, path: &str) -> Value {
    json!({
        "@context": "https://www.w3.org/ns/activitystreams",
        "id": peer.at(path),
        "type": "Note",
        "attributedTo": peer.actor("bob"),
        "content": "<p>A note</p>",
        "published": "2023-11-14T22:00:00Z",
        "to": ["https://www.w3.org/ns/activitystreams#Public"],
    })
}

#[tokio::test]
async fn a_page_leads_to_the_post_that_it_names_as_its_alternate() {
    for place in places() {
        let (peer, other) = (Peer::start().await, Peer::start().await);
        peer.put("/posts/1", note(&peer, "/posts/1"));
        let link = peer.at("/posts/1");
        peer.put_page(
            "/page",
            &format!("<link rel=alternate type=application/activity+json href={link}>"),
        );
        let found = place.face.address(&peer.at("/page")).await.unwrap();
        let Found::Status(id) = found else { panic!("{found:?}") };
        let status = place.read(move |tx, _| statuses::by_id(tx, id)).await.unwrap();
        assert_eq!(status.uri, link);
        // A page may lead anywhere, but only a post's own server speaks for it.
        other.put("/posts/2", note(&peer, "/posts/2"));
        let link = other.at("/posts/2");
        other.put_page(
            "/page",
            &format!("<link rel=alternate type=application/activity+json href={link}>"),
        );
        assert!(place.face.address(&other.at("/page")).await.is_err());
        peer.put_page("/plain", "<p>Nothing here</p>");
        assert!(place.face.address(&peer.at("/plain")).await.is_err());
    }
}

#[tokio::test]
async fn host_meta_tells_where_webfinger_is_asked_if_not_at_the_domain() {
    for place in places() {
        let (domain, server) = (Peer::start().await, Peer::start().await);
        domain.withhold("/.well-known/webfinger", StatusCode::NOT_FOUND);
        let template = server.at("/elsewhere?resource={uri}");
        domain.put_page(
            "/.well-known/host-meta",
            &format!("<?xml version='1.0'?><XRD><Link rel='lrdd' template='{template}'/></XRD>"),
        );
        let link = json!({
            "rel": "self", "type": "application/activity+json", "href": server.actor("bob"),
        });
        let subject = format!("acct:bob@{}", server.domain());
        server.put("/elsewhere", json!({ "subject": subject, "links": [link] }));
        let bob = place.face.account("bob", &domain.domain()).await.unwrap();
        let bob = account(&place, bob).await;
        assert_eq!((bob.uri, bob.domain), (server.actor("bob"), server.domain()));
        assert!(server.fetched().contains(&"/elsewhere".to_owned()));
    }
}
