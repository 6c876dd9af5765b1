use http::{HeaderMap, HeaderValue, StatusCode};
use serde_json::{Value, json};
use weir_activitypub::Unverified;
use weir_activitypub::signature::Form;
use weir_activitypub::signature::key::PrivateKey;
use weir_base::Id;
use weir_community::housekeeping::{self, CHORES, Keep};
use weir_community::relationships::{self, FollowWish};
use weir_community::{Env, accounts, hosts, statuses};
use weir_db::Tx;

use crate::peer::Peer;
use crate::place::{Place, patient_places, places, until};

const PUBLIC: &str = "https://www.w3.org/ns/activitystreams#Public";
pub const INBOX: &str = "http://weir.test/inbox";

/// A note of `name` for everybody that mentions `whom`, as an activity.
pub fn create(peer: &Peer, name: &str, number: usize, whom: &str) -> Value {
    let (actor, note) = (peer.actor(name), peer.at(&format!("/posts/{number}")));
    json!({
        "@context": "https://www.w3.org/ns/activitystreams",
        "id": format!("{note}/activity"),
        "type": "Create",
        "actor": actor,
        "to": [PUBLIC],
        "object": {
            "id": note,
            "type": "Note",
            "attributedTo": actor,
            "content": format!("<p>note {number}</p><script>x</script>"),
            "published": "2023-11-14T22:00:00Z",
            "to": [PUBLIC],
            "cc": [whom],
            "tag": [{ "type": "Mention", "href": whom, "name": "@alice@weir.test" }],
        },
    })
}

pub async fn send(
    place: &Place,
    peer: &Peer,
    form: Form,
    name: &str,
    activity: &Value,
) -> StatusCode {
    send_with(place, peer, form, None, name, activity).await
}

/// As [`send`], signed with `key` where one is given, whoever's that is.
async fn send_with(
    place: &Place,
    peer: &Peer,
    form: Form,
    key: Option<&PrivateKey>,
    name: &str,
    activity: &Value,
) -> StatusCode {
    let body = activity.to_string().into_bytes();
    let headers = peer.sign_post(form, key, name, INBOX, &body, place.clock.now());
    place.send("/inbox", headers, body).await
}

pub async fn actor_of(place: &Place, id: Id) -> String {
    place.read(move |tx, _| Ok(accounts::by_id(tx, id)?.uri)).await.unwrap()
}

async fn content(place: &Place, uri: String) -> Option<String> {
    place
        .read(move |tx, _| Ok(statuses::by_uri(tx, &uri)?.map(|status| status.content)))
        .await
        .unwrap()
}

#[tokio::test]
async fn a_message_of_a_known_sender_is_worked_in_either_form_of_signature() {
    for place in places() {
        let peer = Peer::start().await;
        let alice = place.person("alice").await;
        let alice = actor_of(&place, alice).await;
        place.stranger(&peer, "bob").await;
        let running = place.start();
        for (number, form) in [Form::Cavage, Form::Rfc9421].into_iter().enumerate() {
            let activity = create(&peer, "bob", number, &alice);
            assert_eq!(send(&place, &peer, form, "bob", &activity).await, 202);
            assert_eq!(send(&place, &peer, form, "bob", &activity).await, 202);
            let uri = peer.at(&format!("/posts/{number}"));
            until("the post", async || content(&place, uri.clone()).await.is_some()).await;
            assert_eq!(content(&place, uri).await.unwrap(), format!("<p>note {number}</p>"));
        }
        assert_eq!(place.count("statuses").await, 2);
        assert_eq!(place.count("notifications").await, 2);
        running.stop().await;
    }
}

#[tokio::test]
async fn a_message_of_an_unknown_sender_waits_until_its_signature_is_verified() {
    for place in places() {
        let peer = Peer::start().await;
        let alice = place.person("alice").await;
        let alice = actor_of(&place, alice).await;
        let good = create(&peer, "carol", 1, &alice);
        assert_eq!(send(&place, &peer, Form::Cavage, "carol", &good).await, 202);
        let forged = create(&peer, "dave", 2, &alice);
        let key = PrivateKey::generate_rsa().unwrap();
        let sent = send_with(&place, &peer, Form::Cavage, Some(&key), "dave", &forged).await;
        assert_eq!(sent, 202);
        assert_eq!(place.count("statuses").await, 0);
        let running = place.start();
        until("the good one", async || place.count("statuses").await == 1).await;
        until("all was looked at", async || place.count("jobs").await == 0).await;
        assert!(content(&place, peer.at("/posts/2")).await.is_none());
        running.stop().await;
    }
}

#[tokio::test]
async fn who_forges_what_another_one_says_keeps_nothing_of_theirs_away() {
    for place in places() {
        let peer = Peer::start().await;
        let alice = place.person("alice").await;
        let alice = actor_of(&place, alice).await;
        let note = create(&peer, "carol", 1, &alice);
        let key = PrivateKey::generate_rsa().unwrap();
        for key in [Some(&key), None, None] {
            let sent = send_with(&place, &peer, Form::Cavage, key, "carol", &note).await;
            assert_eq!(sent, 202);
        }
        let waiting = place.count("jobs WHERE kind = 'unverified'").await;
        assert_eq!(waiting, 2, "what came twice as it is waits once");
        let running = place.start();
        let uri = peer.at("/posts/1");
        until("the post", async || content(&place, uri.clone()).await.is_some()).await;
        running.stop().await;
    }
}

#[tokio::test]
async fn who_is_known_and_gone_goes_though_their_key_was_renewed() {
    for place in places() {
        let peer = Peer::start().await;
        let alice = place.person("alice").await;
        let alice = actor_of(&place, alice).await;
        place.stranger(&peer, "bob").await;
        let running = place.start();
        let post = create(&peer, "bob", 1, &alice);
        assert_eq!(send(&place, &peer, Form::Cavage, "bob", &post).await, 202);
        let uri = peer.at("/posts/1");
        until("the post", async || content(&place, uri.clone()).await.is_some()).await;
        let renewed = PrivateKey::generate_rsa().unwrap();
        for name in ["bob", "nobody"] {
            peer.withhold(&format!("/users/{name}"), StatusCode::GONE);
            let actor = peer.actor(name);
            let id = format!("{actor}#gone");
            let gone = json!({ "id": id, "type": "Delete", "actor": actor, "object": actor });
            let sent = send_with(&place, &peer, Form::Cavage, Some(&renewed), name, &gone).await;
            assert_eq!(sent, 202);
        }
        until("bob to be gone", async || place.count("statuses").await == 0).await;
        assert!(!peer.fetched().contains(&"/users/nobody".to_owned()), "nobody here knew them");
        running.stop().await;
    }
}

#[tokio::test]
async fn what_waits_for_an_unknown_sender_costs_one_look_and_comes_together() {
    for place in places() {
        let peer = Peer::start().await;
        let alice = place.person("alice").await;
        let alice = actor_of(&place, alice).await;
        for number in 0..30 {
            let name = if number % 10 == 0 { format!("one{number}") } else { "carol".into() };
            let activity = create(&peer, &name, number, &alice);
            assert_eq!(send(&place, &peer, Form::Cavage, &name, &activity).await, 202);
        }
        let running = place.start();
        // The clock stands still: nothing comes but what is called back.
        until("all of them", async || place.count("statuses").await == 30).await;
        let waiting = place.count("jobs_later WHERE kind = 'unverified'").await;
        assert_eq!(waiting, 0, "all were called back");
        assert_eq!(peer.fetched().iter().filter(|path| *path == "/users/carol").count(), 1);
        let stats = place.jobs.stats().await.unwrap();
        assert!(stats.kinds.iter().all(|kind| kind.retried == 0), "{:?}", stats.kinds);
        running.stop().await;
    }
}

/// The messages that wait for keys, and when each comes by itself, in the order they came.
async fn put_off(place: &Place) -> Vec<(Id, i64)> {
    let sql = "SELECT id, due_at FROM jobs_later WHERE kind = 'unverified' ORDER BY id";
    place
        .read(move |tx, _| Ok(tx.query(sql, &[], |row| Ok((row.get(0)?, row.get(1)?)))?))
        .await
        .unwrap()
}

/// How often messages were read whose keys were not there.
async fn read_for_nothing(place: &Place) -> u64 {
    place.jobs.stats().await.unwrap().kinds.iter().map(|kind| kind.postponed).sum()
}

#[tokio::test]
async fn a_key_that_comes_calls_those_back_who_wait_for_it_and_no_others_of_its_server() {
    for place in patient_places() {
        let peer = Peer::start().await;
        let alice = place.person("alice").await;
        let alice = actor_of(&place, alice).await;
        ["/users/carol", "/users/dave"].iter().for_each(|path| peer.hold(path));
        for (number, name) in ["carol", "dave", "dave", "dave"].into_iter().enumerate() {
            let activity = create(&peer, name, number, &alice);
            assert_eq!(send(&place, &peer, Form::Cavage, name, &activity).await, 202);
        }
        let running = place.start();
        until("each waits for its key", async || put_off(&place).await.len() == 4).await;
        let before = put_off(&place).await;
        peer.let_go("/users/carol");
        until("hers is here", async || place.count("statuses").await == 1).await;
        until("all was looked at", async || place.count("jobs").await == 0).await;
        assert_eq!(put_off(&place).await, before[1..], "nobody looked at those of dave");
        // Should the call be lost they come by themselves, and find that it goes on.
        place.pass(90_000);
        until("they came", async || read_for_nothing(&place).await == 4 + 3).await;
        peer.let_go("/users/dave");
        until("all of them", async || place.count("statuses").await == 4).await;
        assert_eq!(read_for_nothing(&place).await, 4 + 3);
        assert_eq!(retried(&place).await, 0);
        let looks = peer.fetched();
        for path in ["/users/carol", "/users/dave"] {
            assert_eq!(looks.iter().filter(|look| *look == path).count(), 1, "{path}");
        }
        running.stop().await;
    }
}

#[tokio::test]
async fn who_waited_for_a_key_before_the_start_is_looked_at_at_once() {
    for place in places() {
        let peer = Peer::start().await;
        let alice = place.person("alice").await;
        let alice = actor_of(&place, alice).await;
        let activity = create(&peer, "carol", 1, &alice);
        assert_eq!(send(&place, &peer, Form::Cavage, "carol", &activity).await, 202);
        let put_off = |tx: &mut Tx, env: &Env| {
            let text: Option<String> =
                tx.value("SELECT payload FROM jobs WHERE kind = 'unverified'", &[])?;
            let message: Unverified = serde_json::from_str(&text.unwrap()).unwrap();
            tx.execute("DELETE FROM jobs WHERE kind = 'unverified'", &[])?;
            let waiting = [("a key".to_owned(), message)];
            Ok(env.jobs.put_off_unique_each(tx, 600_000, "its sender is asked for", &waiting)?)
        };
        place.write(put_off).await.unwrap();
        let running = place.start();
        until("it is here", async || place.count("statuses").await == 1).await;
        running.stop().await;
    }
}

#[tokio::test]
async fn a_message_whose_sender_was_forgotten_meanwhile_is_worked_all_the_same() {
    for place in places() {
        let peer = Peer::start().await;
        let alice = place.person("alice").await;
        let alice = actor_of(&place, alice).await;
        place.stranger(&peer, "bob").await;
        let activity = create(&peer, "bob", 1, &alice);
        assert_eq!(send(&place, &peer, Form::Cavage, "bob", &activity).await, 202);
        let known = place.count("accounts").await;
        place.pass(31 * 24 * 3_600 * 1_000);
        for chore in CHORES {
            let keep = Keep { remote_days: 30, chat_days: 0, notification_days: 0 };
            housekeeping::run(&place.community, chore, keep, |_| ()).await.unwrap();
        }
        assert_eq!(place.count("accounts").await, known - 1);
        let running = place.start();
        let uri = peer.at("/posts/1");
        until("the post", async || content(&place, uri.clone()).await.is_some()).await;
        assert_eq!(place.count("notifications").await, 1);
        running.stop().await;
    }
}

#[tokio::test]
async fn who_forges_is_asked_for_once_and_then_refused_but_nobody_else() {
    for place in places() {
        let peer = Peer::start().await;
        let alice = place.person("alice").await;
        let alice = actor_of(&place, alice).await;
        place.stranger(&peer, "bob").await;
        let key = PrivateKey::generate_rsa().unwrap();
        let forge = async |number: usize| {
            let note = create(&peer, "bob", number, &alice);
            send_with(&place, &peer, Form::Cavage, Some(&key), "bob", &note).await
        };
        // The first could be of a new key; it waits until that was looked for.
        assert_eq!(forge(1).await, 202);
        let running = place.start();
        until("it was looked at", async || place.waiting().await == 0).await;
        for number in 2..=150 {
            assert_eq!(forge(number).await, 401);
        }
        assert_eq!(peer.fetched().iter().filter(|path| *path == "/users/bob").count(), 1);
        // Of this source nobody is looked for any more who is not known; those who are get through.
        let unknown = create(&peer, "carol", 200, &alice);
        assert_eq!(send(&place, &peer, Form::Cavage, "carol", &unknown).await, 429);
        let good = create(&peer, "bob", 201, &alice);
        assert_eq!(send(&place, &peer, Form::Cavage, "bob", &good).await, 202);
        until("the good one", async || place.count("statuses").await == 1).await;
        running.stop().await;
    }
}

/// How often a job failed that is tried again.
async fn retried(place: &Place) -> u64 {
    place.jobs.stats().await.unwrap().kinds.iter().map(|kind| kind.retried).sum()
}

#[tokio::test]
async fn what_somebody_wrote_waits_while_their_server_does_not_believe_who_asks_for_the_key() {
    for place in places() {
        let peer = Peer::start().await;
        let alice = place.person("alice").await;
        let alice = actor_of(&place, alice).await;
        let doubts = [("carol", StatusCode::UNAUTHORIZED), ("dave", StatusCode::FORBIDDEN)];
        for (number, (name, status)) in doubts.into_iter().enumerate() {
            peer.withhold(&format!("/users/{name}"), status);
            let post = create(&peer, name, number, &alice);
            assert_eq!(send(&place, &peer, Form::Cavage, name, &post).await, 202);
        }
        let running = place.start();
        until("both failed", async || retried(&place).await == 2).await;
        for (name, _) in doubts {
            let path = format!("/users/{name}");
            peer.put(&path, peer.actor_with(name, &peer.public_pem()));
        }
        place.pass(60_000);
        until("both", async || place.count("statuses").await == 2).await;
        running.stop().await;
    }
}

#[tokio::test]
async fn what_a_renewed_key_signed_waits_while_the_key_cannot_be_had() {
    for place in places() {
        let peer = Peer::start().await;
        let alice = place.person("alice").await;
        let alice = actor_of(&place, alice).await;
        place.stranger(&peer, "bob").await;
        let key = PrivateKey::generate_rsa().unwrap();
        place.pass(2_000);
        let write = async |number: usize| {
            let note = create(&peer, "bob", number, &alice);
            send_with(&place, &peer, Form::Cavage, Some(&key), "bob", &note).await
        };
        let bob = peer.actor_with("bob", &key.public().unwrap().to_pem());
        peer.withhold("/users/bob", StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(write(1).await, 202);
        let running = place.start();
        until("the first look failed", async || retried(&place).await == 1).await;
        // As many as would cost the whole budget of a network that forges.
        for number in 2..=120 {
            assert_eq!(write(number).await, 202, "nothing shows that it is forged");
        }
        until("each failed", async || retried(&place).await == 120).await;
        peer.put("/users/bob", bob);
        place.pass(60_000);
        until("all of them", async || place.count("statuses").await == 120).await;
        running.stop().await;
    }
}

#[tokio::test]
async fn who_writes_to_nobody_is_told_so() {
    for place in places() {
        let peer = Peer::start().await;
        let alice = place.person("alice").await;
        let bob = place.person("bob").await;
        place.stranger(&peer, "bob").await;
        let running = place.start();
        place.write(move |tx, env| accounts::delete(tx, env, bob)).await.unwrap();
        let to = actor_of(&place, alice).await;
        let write = async |number: usize, path: String| {
            let body = create(&peer, "bob", number, &to).to_string().into_bytes();
            let url = format!("http://weir.test{path}");
            let now = place.clock.now();
            let headers = peer.sign_post(Form::Cavage, None, "bob", &url, &body, now);
            place.send(&path, headers, body).await.as_u16()
        };
        assert_eq!(write(1, format!("/ap/users/{alice}/inbox")).await, 202);
        assert_eq!(write(2, "/users/alice/inbox".into()).await, 202);
        assert_eq!(write(3, "/ap/users/1/inbox".into()).await, 404);
        assert_eq!(write(4, "/users/nobody/inbox".into()).await, 404);
        assert_eq!(write(5, format!("/ap/users/{bob}/inbox")).await, 410);
        until("what was taken is here", async || place.count("statuses").await == 2).await;
        running.stop().await;
    }
}

#[tokio::test]
async fn what_cannot_be_right_is_refused_at_once_in_the_protocols_form() {
    for place in places() {
        let peer = Peer::start().await;
        let alice = place.person("alice").await;
        let alice = actor_of(&place, alice).await;
        place.stranger(&peer, "bob").await;
        let good = create(&peer, "bob", 1, &alice);
        let now = place.clock.now();
        let sign = |body: &[u8], at| peer.sign_post(Form::Cavage, None, "bob", INBOX, body, at);
        let bytes = |value: &Value| value.to_string().into_bytes();
        let body = bytes(&good);

        assert_eq!(place.send("/inbox", HeaderMap::new(), body.clone()).await, 401);
        let large = vec![b' '; 1_100_000];
        assert_eq!(place.send("/inbox", sign(&body, now), large).await, 413);
        assert_eq!(place.send("/inbox", sign(&body, now), b"{}".to_vec()).await, 400);
        let old = now.plus_ms(-24 * 3_600_000);
        assert_eq!(place.send("/inbox", sign(&body, old), body.clone()).await, 401);
        for broken in [b"{".to_vec(), b"[]".to_vec(), vec![b'['; 5_000]] {
            let headers = sign(&broken, now);
            assert_eq!(place.send("/inbox", headers, broken).await, 400);
        }
        let mut garbage = sign(&body, now);
        garbage.insert("signature", HeaderValue::from_static("keyId=\"x\",signature=\"???\""));
        assert!(place.send("/inbox", garbage, body.clone()).await.is_client_error());

        let mut forged = good.clone();
        forged["object"]["id"] = "https://other.example/1".into();
        let mut stranger = good.clone();
        stranger["actor"] = "https://other.example/users/eve".into();
        let mut neighbour = good.clone();
        neighbour["actor"] = peer.actor("carol").into();
        for bad in [forged, stranger, neighbour] {
            let bad = bytes(&bad);
            let headers = sign(&bad, now);
            assert_eq!(place.send("/inbox", headers, bad).await, 403);
        }
        let unknown = bytes(&json!({
            "id": peer.at("/x/1"), "type": "Dance", "actor": peer.actor("bob"), "object": alice,
        }));
        let headers = sign(&unknown, now);
        assert_eq!(place.send("/inbox", headers, unknown).await, 202);

        place.block(&peer).await;
        let mut fresh = good;
        fresh["id"] = peer.at("/posts/9/activity").into();
        let fresh = bytes(&fresh);
        // It was welcome a moment ago.
        assert_eq!(place.send("/inbox", sign(&fresh, now), fresh.clone()).await, 403);
        let domain = peer.domain();
        place.write(move |tx, env| hosts::unblock(tx, env, &domain)).await.unwrap();
        assert_eq!(place.send("/inbox", sign(&fresh, now), fresh).await, 202);
        assert_eq!(place.count("statuses").await, 0);
    }
}

#[tokio::test]
async fn somebody_elsewhere_moves_to_somebody_here_who_says_so() {
    for place in places() {
        let peer = Peer::start().await;
        let (alice, fan) = (place.person("alice").await, place.person("fan").await);
        let bob = place.stranger(&peer, "bob").await;
        let running = place.start();
        let wish = FollowWish::default();
        place
            .write(move |tx, env| {
                relationships::follow(tx, env, fan, bob, &wish)?;
                accounts::add_alias(tx, env, alice, bob)
            })
            .await
            .unwrap();
        until("the wish", async || !peer.activities("Follow").is_empty()).await;
        let accept = json!({
            "id": peer.at("/accepts/1"), "type": "Accept", "actor": peer.actor("bob"),
            "object": peer.activities("Follow")[0],
        });
        assert_eq!(send(&place, &peer, Form::Cavage, "bob", &accept).await, 202);
        let followers = async |of: Id| {
            let read = place.read(move |tx, _| relationships::follower_ids(tx, of, Id::MAX, 9));
            read.await.unwrap().into_iter().map(|(_, follower)| follower).collect::<Vec<Id>>()
        };
        until("the agreement", async || followers(bob).await == [fan]).await;
        let new = actor_of(&place, alice).await;
        let mut profile = json!({
            "@context": "https://www.w3.org/ns/activitystreams",
            "id": peer.at("/updates/1"), "type": "Update", "actor": peer.actor("bob"),
            "object": {
                "id": peer.actor("bob"), "type": "Person", "preferredUsername": "bob",
                "inbox": peer.at("/users/bob/inbox"), "movedTo": new,
            },
        });
        profile["object"]["publicKey"] = json!({
            "id": format!("{}#main-key", peer.actor("bob")),
            "owner": peer.actor("bob"),
            "publicKeyPem": peer.public_pem(),
        });
        assert_eq!(send(&place, &peer, Form::Cavage, "bob", &profile).await, 202);
        let moves = json!({
            "id": peer.at("/moves/1"), "type": "Move", "actor": peer.actor("bob"),
            "object": peer.actor("bob"), "target": new,
        });
        assert_eq!(send(&place, &peer, Form::Cavage, "bob", &moves).await, 202);
        until("the move", async || followers(alice).await == [fan]).await;
        until("the end", async || followers(bob).await.is_empty()).await;
        running.stop().await;
    }
}

#[tokio::test]
async fn an_address_that_no_index_could_hold_is_none() {
    for place in places() {
        let peer = Peer::start().await;
        let running = place.start();
        let host = "a".repeat(300);
        for strange in ["https://far.example/\0", &format!("https://{host}.example/1")] {
            let alice = place.person(&format!("alice{}", strange.len())).await;
            let (whom, bob) = (actor_of(&place, alice).await, peer.actor("bob"));
            place.stranger(&peer, "bob").await;
            let undo = json!({
                "id": peer.at("/1"), "type": "Undo", "actor": bob, "object": strange,
            });
            assert_eq!(send(&place, &peer, Form::Cavage, "bob", &undo).await, 400);
            let follow = json!({ "id": strange, "type": "Follow", "actor": bob, "object": whom });
            assert_eq!(send(&place, &peer, Form::Cavage, "bob", &follow).await, 202);
        }
        until("both follows", async || place.count("follows").await == 2).await;
        running.stop().await;
    }
}
