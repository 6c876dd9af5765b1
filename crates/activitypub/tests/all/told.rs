//! What else other servers are told: votes, moves, reports, the end of a block; and what is done
//! where they renew a key or ask for patience.

use http::{StatusCode, header};
use serde_json::json;
use weir_activitypub::signature::Form;
use weir_activitypub::signature::key::PrivateKey;
use weir_base::{Id, Timestamp};
use weir_community::accounts;
use weir_community::federation::{Found, Resolver};
use weir_community::relationships;
use weir_community::reports::{self, NewReport};
use weir_community::statuses::{self, Visibility};

use crate::deliveries::{came, follows};
use crate::peer::Peer;
use crate::place::{Place, places, until};

const PUBLIC: &str = "https://www.w3.org/ns/activitystreams#Public";
const INBOX: &str = "http://weir.test/inbox";
const DAY_MS: i64 = 24 * 60 * 60 * 1_000;

async fn found(place: &Place, uri: &str) -> Id {
    match place.face.address(uri).await.unwrap() {
        Found::Status(id) | Found::Account(id) => id,
    }
}

#[tokio::test]
async fn a_vote_is_a_note_with_the_choices_name_to_who_asks_alone() {
    for place in places() {
        let peer = Peer::start().await;
        let alice = place.person("alice").await;
        let id = peer.at("/polls/1");
        peer.put(
            "/polls/1",
            json!({
                "@context": "https://www.w3.org/ns/activitystreams",
                "id": id,
                "type": "Question",
                "attributedTo": peer.actor("bob"),
                "content": "<p>Which?</p>",
                "published": "2023-11-14T22:00:00Z",
                "endTime": "2033-11-14T22:00:00Z",
                "to": [PUBLIC],
                "anyOf": [
                    { "type": "Note", "name": "left", "replies": { "totalItems": 1 } },
                    { "type": "Note", "name": "right", "replies": { "totalItems": 0 } },
                ],
            }),
        );
        let running = place.start();
        let post = found(&place, &id).await;
        place
            .write(move |tx, env| {
                let poll = statuses::by_id(tx, post)?.poll_id.unwrap();
                statuses::vote(tx, env, alice, poll, &[0, 1])
            })
            .await
            .unwrap();
        until("both votes", async || peer.activities("Create").len() == 2).await;
        let mut names = Vec::new();
        for vote in peer.activities("Create") {
            let note = &vote["object"];
            assert_eq!((&note["type"], &note["inReplyTo"]), (&"Note".into(), &id.as_str().into()));
            assert!(note.get("content").is_none(), "{note}");
            assert_eq!((&vote["to"], &note["to"]), (&json!([peer.actor("bob")]), &vote["to"]));
            assert!(vote.get("cc").is_none(), "{vote}");
            names.push(note["name"].as_str().unwrap().to_owned());
        }
        names.sort();
        assert_eq!(names, ["left", "right"]);
        running.stop().await;
    }
}

#[tokio::test]
async fn a_move_is_told_to_followers_with_the_profile_that_leads_on() {
    for place in places() {
        let (old_home, new_home) = (Peer::start().await, Peer::start().await);
        let alice = place.person("alice").await;
        let me = format!("http://weir.test/ap/users/{alice}");
        let bob = place.stranger(&old_home, "bob").await;
        follows(&place, bob, alice).await;
        let running = place.start();
        let mut target = new_home.actor_with("alice", &new_home.public_pem());
        new_home.put("/users/alice", target.clone());
        let new = found(&place, &new_home.actor("alice")).await;
        let refused = place.write(move |tx, env| accounts::move_out(tx, env, alice, new)).await;
        assert!(refused.is_err(), "the new account does not name the old one");
        target["alsoKnownAs"] = json!([me]);
        new_home.put("/users/alice", target);
        place.pass(2_000);
        place.face.renewed(new).await.unwrap();
        place.write(move |tx, env| accounts::move_out(tx, env, alice, new)).await.unwrap();
        let told = came(&old_home, "Move").await;
        assert_eq!(told["object"], me);
        assert_eq!(told["target"], new_home.actor("alice"));
        assert_eq!(told["to"], json!([format!("{me}/followers")]));
        let profile = came(&old_home, "Update").await;
        assert_eq!(profile["object"]["movedTo"], new_home.actor("alice"));
        let document = place.document(&format!("/ap/users/{alice}")).await;
        assert_eq!(document["movedTo"], new_home.actor("alice"));
        running.stop().await;
    }
}

#[tokio::test]
async fn a_report_is_told_in_the_servers_name_and_the_end_of_a_block_to_the_blocked() {
    for place in places() {
        let peer = Peer::start().await;
        let alice = place.person("alice").await;
        let running = place.start();
        let note = peer.write("bob", "Something bad", None);
        let post = found(&place, &note).await;
        let bob = found(&place, &peer.actor("bob")).await;
        let new = NewReport {
            target_id: bob,
            status_ids: vec![post],
            comment: "Look".into(),
            forward: true,
            ..NewReport::default()
        };
        place.write(move |tx, env| reports::create(tx, env, alice, &new, "")).await.unwrap();
        let flag = came(&peer, "Flag").await;
        assert_eq!(flag["actor"], "http://weir.test/actor");
        assert_eq!(flag["object"], json!([peer.actor("bob"), note]));
        assert_eq!(flag["content"], "Look");
        assert!(!flag.to_string().contains(&format!("/ap/users/{alice}")), "{flag}");
        let signed = peer.delivered().into_iter().find(|it| it.kind() == "Flag").unwrap();
        assert!(signed.headers["signature"].to_str().unwrap().contains("/actor#main-key"));

        place.write(move |tx, env| relationships::block(tx, env, alice, bob, "")).await.unwrap();
        let block = came(&peer, "Block").await;
        place.write(move |tx, env| relationships::unblock(tx, env, alice, bob)).await.unwrap();
        let undo = came(&peer, "Undo").await;
        assert_eq!(undo["object"]["id"], block["id"]);
        assert_eq!(undo["object"]["object"], peer.actor("bob"));
        running.stop().await;
    }
}

#[tokio::test]
async fn what_is_signed_by_a_renewed_key_waits_until_the_key_is_fetched() {
    let new_key = PrivateKey::generate_rsa().unwrap();
    let pem = new_key.public().unwrap().to_pem();
    for place in places() {
        let peer = Peer::start().await;
        let alice = place.person("alice").await;
        place.stranger(&peer, "bob").await;
        let running = place.start();
        peer.put("/users/bob", peer.actor_with("bob", &pem));
        let follow = json!({
            "id": peer.at("/follows/1"),
            "type": "Follow",
            "actor": peer.actor("bob"),
            "object": format!("http://weir.test/ap/users/{alice}"),
        });
        let body = follow.to_string().into_bytes();
        let send = async |key: Option<&PrivateKey>| {
            let now = place.clock.now();
            let headers = peer.sign_post(Form::Cavage, key, "bob", INBOX, &body, now);
            place.send("/inbox", headers, body.clone()).await
        };
        place.pass(2_000);
        assert_eq!(send(Some(&new_key)).await, 202, "the key is not known yet");
        came(&peer, "Accept").await;
        place.pass(2_000);
        assert_eq!(send(None).await, 401, "the old key is good for nothing any more");
        assert_eq!(peer.fetched().iter().filter(|path| *path == "/users/bob").count(), 1);
        running.stop().await;
    }
}

/// When the delivery that failed is tried again, in ms from now.
async fn tried_again_in_ms(place: &Place) -> i64 {
    let due: Timestamp = place
        .read(|tx, _| {
            let sql = "SELECT due_at FROM jobs_later WHERE kind = 'redeliver'";
            Ok(tx.value(sql, &[])?.unwrap_or_default())
        })
        .await
        .unwrap();
    due.since_ms(place.clock.now())
}

#[tokio::test]
async fn the_wait_that_a_server_asks_for_is_kept_within_bounds() {
    for place in places() {
        let alice = place.person("alice").await;
        let running = place.start();
        for (status, asked, least, most) in [
            (StatusCode::TOO_MANY_REQUESTS, "600", 590_000, 600_000),
            (StatusCode::SERVICE_UNAVAILABLE, "4000000000", DAY_MS - 10_000, DAY_MS),
            (StatusCode::TOO_MANY_REQUESTS, "0", 5_000, 15_000),
            (StatusCode::SERVICE_UNAVAILABLE, "soon", 5_000, 15_000),
        ] {
            let peer = Peer::start().await;
            peer.answer(move |_| (status, [(header::RETRY_AFTER, asked)]));
            place.stranger(&peer, "bob").await;
            let text = format!("@bob@{} hello", peer.domain());
            place.post(alice, &text, Visibility::Direct).await;
            let waits = "jobs_later WHERE kind = 'redeliver'";
            until("it waits", async || place.count(waits).await == 1).await;
            let ms = tried_again_in_ms(&place).await;
            assert!((least..=most).contains(&ms), "{status} {asked}: in {ms} ms");
            peer.answer(|_| StatusCode::ACCEPTED);
            place.pass(most + 1_000);
            until("it is delivered", async || place.count("deliveries").await == 0).await;
            assert_eq!(peer.activities("Create").len(), 2);
        }
        running.stop().await;
    }
}
