use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde_json::Value;
use weir_community::accounts;
use weir_community::statuses::{self, Visibility};

use crate::deliveries::follows;
use crate::peer::Peer;
use crate::place::{Answer, Place, places, strict_place};

fn asking(accept: &'static str) -> HeaderMap {
    HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_static(accept))])
}

async fn signed(place: &Place, peer: &Peer, name: &str, path: &str) -> Answer {
    let url = format!("http://weir.test{path}");
    place.get(path, peer.sign_get(name, &url, place.clock.now())).await
}

#[tokio::test]
async fn a_person_is_described_with_a_key_under_all_names() {
    for place in places() {
        let alice = place.person("alice").await;
        let path = format!("/ap/users/{alice}");
        let answer = place.get(&path, HeaderMap::new()).await;
        assert_eq!(answer.status, 200);
        let kind = answer.headers[header::CONTENT_TYPE].to_str().unwrap();
        assert!(kind.starts_with("application/activity+json"), "{kind}");
        let actor = answer.body;
        let id = format!("http://weir.test{path}");
        assert_eq!(actor["id"], id);
        assert_eq!(
            (&actor["type"], &actor["preferredUsername"]),
            (&"Person".into(), &"alice".into())
        );
        assert_eq!(actor["inbox"], format!("{id}/inbox"));
        assert_eq!(actor["endpoints"]["sharedInbox"], "http://weir.test/inbox");
        assert_eq!(actor["publicKey"]["id"], format!("{id}#main-key"));
        let pem = actor["publicKey"]["publicKeyPem"].as_str().unwrap();
        assert!(pem.starts_with("-----BEGIN PUBLIC KEY-----"), "{pem}");
        for other in ["/users/alice", "/@alice", "/users/Alice"] {
            assert_eq!(place.document(other).await, actor, "{other}");
        }
        for collection in ["outbox", "followers", "following", "collections/featured"] {
            let of = place.document(&format!("{path}/{collection}")).await;
            assert_eq!(of["type"], "OrderedCollection", "{collection}");
            assert_eq!(of["totalItems"], 0, "{collection}");
        }
        assert_eq!(place.document(&format!("{path}/collections/tags")).await["totalItems"], 0);
        let page = place.get(&path, asking("text/html,*/*")).await;
        assert_eq!(page.headers[header::LOCATION], "http://weir.test/@alice");
        let none = place.get("/ap/users/12345", HeaderMap::new()).await;
        assert_eq!(none.status, StatusCode::NOT_FOUND);
        place.write(move |tx, env| accounts::delete(tx, env, alice)).await.unwrap();
        let gone = place.get(&path, HeaderMap::new()).await;
        assert_eq!((gone.status, &gone.body["type"]), (StatusCode::GONE, &"Tombstone".into()));
    }
}

#[tokio::test]
async fn posts_are_shown_to_those_who_may_see_them() {
    for place in places() {
        let peer = Peer::start().await;
        let alice = place.person("alice").await;
        let follower = place.stranger(&peer, "bob").await;
        place.stranger(&peer, "carol").await;
        follows(&place, follower, alice).await;
        let of = |status| format!("/ap/users/{alice}/statuses/{status}");
        let open = of(place.post(alice, "For all #weir", Visibility::Public).await);
        let note = place.document(&open).await;
        assert_eq!(note["type"], "Note");
        assert_eq!(note["to"][0], "https://www.w3.org/ns/activitystreams#Public");
        assert_eq!(note["cc"][0], format!("http://weir.test/ap/users/{alice}/followers"));
        assert_eq!(note["tag"][0]["name"], "#weir");
        let create = place.document(&format!("{open}/activity")).await;
        assert_eq!((&create["type"], &create["object"]["id"]), (&"Create".into(), &note["id"]));
        let closed = of(place.post(alice, "For followers", Visibility::Private).await);
        assert_eq!(place.get(&closed, HeaderMap::new()).await.status, 404);
        assert_eq!(signed(&place, &peer, "carol", &closed).await.status, 404);
        let seen = signed(&place, &peer, "bob", &closed).await;
        assert_eq!(seen.status, 200, "{:?}", seen.body);
        assert!(seen.headers[header::CACHE_CONTROL].to_str().unwrap().contains("private"));
        let outbox = place.document(&format!("/ap/users/{alice}/outbox?page=true")).await;
        let ids: Vec<&Value> = outbox["orderedItems"].as_array().unwrap().iter().collect();
        assert_eq!(ids.len(), 1, "what is for followers stands in no public list");
        let followers = place.document(&format!("/ap/users/{alice}/followers?page=true")).await;
        assert_eq!(followers["orderedItems"][0], peer.actor("bob"));
    }
}

#[tokio::test]
async fn deleted_posts_leave_a_tombstone() {
    for place in places() {
        let alice = place.person("alice").await;
        let status = place.post(alice, "Soon gone", Visibility::Public).await;
        let path = format!("/ap/users/{alice}/statuses/{status}");
        let reply = weir_community::statuses::Draft {
            text: "A reply".into(),
            in_reply_to: Some(status),
            ..Default::default()
        };
        place.write(move |tx, env| statuses::publish(tx, env, alice, &reply)).await.unwrap();
        let replies = place.document(&format!("{path}/replies")).await;
        assert_eq!(replies["first"]["items"].as_array().unwrap().len(), 1);
        place.write(move |tx, env| statuses::delete(tx, env, alice, status)).await.unwrap();
        let gone = place.get(&path, HeaderMap::new()).await;
        assert_eq!((gone.status, &gone.body["type"]), (StatusCode::GONE, &"Tombstone".into()));
    }
}

#[tokio::test]
async fn discovery_leads_from_a_name_to_an_actor() {
    for place in places() {
        let alice = place.person("alice").await;
        let id = format!("http://weir.test/ap/users/{alice}");
        for resource in
            ["acct:alice@weir.test", "acct:Alice@Weir.test", "http://weir.test/@alice", &id]
        {
            let path = format!("/.well-known/webfinger?resource={resource}");
            let found = place.document(&path).await;
            assert_eq!(found["subject"], "acct:alice@weir.test", "{resource}");
            assert_eq!(found["links"][1]["href"], id);
        }
        let server = place.document("/.well-known/webfinger?resource=acct:weir.test@weir.test");
        assert_eq!(server.await["links"][1]["href"], "http://weir.test/actor");
        for (path, status) in [
            ("/.well-known/webfinger", 400),
            ("/.well-known/webfinger?resource=acct:nobody@weir.test", 404),
            ("/.well-known/webfinger?resource=acct:alice@other.test", 404),
        ] {
            assert_eq!(place.get(path, HeaderMap::new()).await.status, status, "{path}");
        }
        let links = place.document("/.well-known/nodeinfo").await;
        assert_eq!(links["links"][1]["href"], "http://weir.test/nodeinfo/2.1");
        place.post(alice, "Counted", Visibility::Public).await;
        let info = place.document("/nodeinfo/2.1").await;
        assert_eq!(info["software"]["name"], "weir");
        assert_eq!(
            (&info["usage"]["users"]["total"], &info["usage"]["localPosts"]),
            (&1.into(), &1.into())
        );
        let meta = place.get("/.well-known/host-meta", HeaderMap::new()).await;
        assert!(meta.body.as_str().unwrap().contains("webfinger?resource={uri}"));
        let further = "<Link rel=\"example\" href=\"wss://weir.test/x?a&amp;b\"/>";
        assert!(meta.body.as_str().unwrap().contains(further));
        let meta = place.get("/.well-known/host-meta.json", HeaderMap::new()).await;
        let link = serde_json::json!({ "rel": "example", "href": "wss://weir.test/x?a&b" });
        assert_eq!(meta.body["links"][1], link);
    }
}

#[tokio::test]
async fn a_server_that_wants_signatures_shows_only_itself_without() {
    let place = strict_place();
    let peer = Peer::start().await;
    let alice = place.person("alice").await;
    let path = format!("/ap/users/{alice}");
    assert_eq!(place.get(&path, HeaderMap::new()).await.status, 401);
    let actor = place.document("/actor").await;
    assert_eq!(
        (&actor["type"], &actor["id"]),
        (&"Application".into(), &"http://weir.test/actor".into())
    );
    // Carol is not known here: her key is fetched.
    assert_eq!(signed(&place, &peer, "carol", &path).await.status, 200);
    assert!(peer.fetched().contains(&"/users/carol".to_owned()));
    place.block(&peer).await;
    assert_eq!(signed(&place, &peer, "carol", &path).await.status, 403);
}

#[tokio::test]
async fn who_reads_by_keys_that_are_nowhere_is_looked_up_no_more_after_a_while() {
    let place = strict_place();
    let peer = Peer::start().await;
    let path = format!("/ap/users/{}", place.person("alice").await);
    for number in 0..300 {
        let name = format!("ghost{number}");
        peer.withhold(&format!("/users/{name}"), StatusCode::NOT_FOUND);
        assert_eq!(signed(&place, &peer, &name, &path).await.status, 401);
    }
    let other = Peer::start().await;
    assert_eq!(signed(&place, &other, "carol", &path).await.status, 401);
    assert_eq!(other.fetched(), Vec::<String>::new());
}
