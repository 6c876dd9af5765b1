//! Messages that are passed on: by this server, and to it.

use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use weir_activitypub::signature::Form;
use weir_activitypub::signature::key::PrivateKey;
use weir_base::Id;
use weir_community::federation::{PASSED_ON, PASSED_ON_MAX};
use weir_community::statuses::{self, Visibility};
use weir_community::{Env, accounts, hosts};
use weir_db::{Tx, params};
use weir_jobs::{Job, Queue};

use crate::deliveries::{came, follows};
use crate::giving_way::{pile, says_why};
use crate::peer::Peer;
use crate::place::{Place, Running, places, until};

const PUBLIC: &str = "https://www.w3.org/ns/activitystreams#Public";
const INBOX: &str = "http://weir.test/inbox";

async fn send(place: &Place, peer: &Peer, name: &str, activity: &Value) -> StatusCode {
    let body = activity.to_string().into_bytes();
    let now = place.clock.now();
    let headers = peer.sign_post(Form::Cavage, None, name, INBOX, &body, now);
    place.send("/inbox", headers, body).await
}

async fn content(place: &Place, uri: &str) -> Option<String> {
    let uri = uri.to_owned();
    place
        .read(move |tx, _| Ok(statuses::by_uri(tx, &uri)?.map(|status| status.content)))
        .await
        .unwrap()
}

fn activity(peer: &Peer, name: &str, kind: &str, object: Value) -> Value {
    json!({
        "@context": "https://www.w3.org/ns/activitystreams",
        "id": peer.at(&format!("/deeds/{kind}")),
        "type": kind,
        "actor": peer.actor(name),
        "to": [PUBLIC],
        "object": object,
    })
}

fn note(peer: &Peer, name: &str, path: &str, text: &str, in_reply_to: Option<&str>) -> Value {
    json!({
        "@context": "https://www.w3.org/ns/activitystreams",
        "id": peer.at(path),
        "type": "Note",
        "attributedTo": peer.actor(name),
        "content": format!("<p>{text}</p>"),
        "published": "2023-11-14T22:00:00Z",
        "inReplyTo": in_reply_to,
        "to": [PUBLIC],
    })
}

#[tokio::test]
async fn what_answers_a_post_is_passed_on_as_it_came_and_once() {
    for place in places() {
        let (near, far) = (Peer::start().await, Peer::start().await);
        let alice = place.person("alice").await;
        let bob = place.stranger(&near, "bob").await;
        let carol = place.stranger(&far, "carol").await;
        follows(&place, bob, alice).await;
        follows(&place, carol, alice).await;
        let running = place.start();
        let post = place.post(alice, "A question", Visibility::Public).await;
        came(&far, "Create").await;
        let asked = format!("http://weir.test/ap/users/{alice}/statuses/{post}");
        let reply = note(&near, "bob", "/posts/1", "An answer", Some(&asked));
        let create = activity(&near, "bob", "Create", reply.clone());
        assert_eq!(send(&place, &near, "bob", &create).await, 202);
        until("it is passed on", async || far.activities("Create").len() == 2).await;
        let passed = far.delivered().into_iter().rfind(|it| it.kind() == "Create").unwrap();
        assert_eq!(passed.body, create.to_string().as_bytes());
        let signature = passed.headers["signature"].to_str().unwrap();
        assert!(signature.contains(&format!("ap/users/{alice}#main-key")), "{signature}");
        // Said again later, and something that answers nothing here: neither goes on.
        place.pass(5_000);
        assert_eq!(send(&place, &near, "bob", &create).await, 202);
        let own = note(&near, "bob", "/posts/2", "By the way", None);
        assert_eq!(send(&place, &near, "bob", &activity(&near, "bob", "Create", own)).await, 202);
        let delete = activity(
            &near,
            "bob",
            "Delete",
            json!({
                "id": near.at("/posts/1"), "type": "Tombstone",
            }),
        );
        assert_eq!(send(&place, &near, "bob", &delete).await, 202);
        assert_eq!(came(&far, "Delete").await, delete);
        assert_eq!(far.activities("Create").len(), 2);
        came(&near, "Create").await;
        let told: Vec<String> = near.delivered().iter().map(|it| it.kind()).collect();
        assert!(!told.contains(&"Delete".to_owned()), "{told:?}");
        assert_eq!(told.iter().filter(|kind| *kind == "Create").count(), 1, "{told:?}");
        running.stop().await;
    }
}

/// What alice here asked, whom carol on `far` follows; bob on `near` is known.
pub struct Asked {
    pub near: Peer,
    pub far: Peer,
    pub alice: Id,
    pub running: Running,
    /// The address of her question.
    pub asked: String,
}

/// Asks it, and waits until `far` has it.
pub async fn ask(place: &Place) -> Asked {
    let (near, far) = (Peer::start().await, Peer::start().await);
    let alice = place.person("alice").await;
    place.stranger(&near, "bob").await;
    let carol = place.stranger(&far, "carol").await;
    follows(place, carol, alice).await;
    let running = place.start();
    let post = place.post(alice, "A question", Visibility::Public).await;
    came(&far, "Create").await;
    let asked = format!("http://weir.test/ap/users/{alice}/statuses/{post}");
    Asked { near, far, alice, running, asked }
}

#[tokio::test]
async fn who_does_not_believe_what_is_passed_on_is_not_asked_again() {
    for place in places() {
        let Asked { near, far, running, asked, .. } = ask(&place).await;
        until("all of that is settled", async || place.count("deliveries").await == 0).await;
        far.answer(|_| StatusCode::UNAUTHORIZED);
        let reply = note(&near, "bob", "/posts/1", "An answer", Some(&asked));
        assert_eq!(send(&place, &near, "bob", &activity(&near, "bob", "Create", reply)).await, 202);
        until("both forms are tried", async || far.activities("Create").len() == 3).await;
        until("it is given up", async || place.count("deliveries").await == 0).await;
        running.stop().await;
    }
}

/// Has `count` deliveries wait for the server of `peer`, which catches up with them.
async fn is_behind(place: &Place, peer: &Peer, count: i64) {
    let (host, inbox) = (peer.domain(), peer.at("/inbox"));
    let later = place.clock.now().plus_ms(60 * 60 * 1_000);
    let fill = move |tx: &mut Tx, env: &Env| {
        let first = env.ids.next();
        tx.execute(
            "INSERT INTO deliveries (host, payload_id, inbox, domain, next_at)
             WITH RECURSIVE numbers (n) AS
               (SELECT CAST(1 AS BIGINT) UNION ALL SELECT n + 1 FROM numbers WHERE n < ?4)
             SELECT ?1, ?5 - n, ?2, ?1, ?3 FROM numbers",
            params![host, inbox, later, count, first],
        )?;
        hosts::is_behind(tx, &host, env.clock.now())
    };
    place.write(fill).await.unwrap();
}

#[tokio::test]
async fn a_server_that_is_far_behind_hears_of_what_others_wrote_only_that_it_is_deleted() {
    for place in places() {
        let (slow, slower, catching_up) =
            (Peer::start().await, Peer::start().await, Peer::start().await);
        let Asked { near, far, alice, running, asked } = ask(&place).await;
        for peer in [&slow, &slower, &catching_up] {
            let dave = place.stranger(peer, "dave").await;
            follows(&place, dave, alice).await;
        }
        until("the follows are answered", async || place.count("deliveries").await == 0).await;
        is_behind(&place, &slow, 2_001).await;
        is_behind(&place, &slower, 4_001).await;
        is_behind(&place, &catching_up, 2_000).await;
        let reply = note(&near, "bob", "/posts/1", "An answer", Some(&asked));
        assert_eq!(send(&place, &near, "bob", &activity(&near, "bob", "Create", reply)).await, 202);
        until("it is passed on", async || far.activities("Create").len() == 2).await;
        came(&catching_up, "Create").await;
        let gone = json!({ "id": near.at("/posts/1"), "type": "Tombstone" });
        let delete = activity(&near, "bob", "Delete", gone);
        assert_eq!(send(&place, &near, "bob", &delete).await, 202);
        assert_eq!(came(&far, "Delete").await, delete);
        assert_eq!(came(&slow, "Delete").await, delete);
        assert_eq!(came(&catching_up, "Delete").await, delete);
        let passed =
            |peer: &Peer| [peer.activities("Create").len(), peer.activities("Delete").len()];
        until("all is passed on", async || place.count("jobs").await == 0).await;
        assert_eq!([&slow, &slower, &catching_up].map(passed), [[0, 1], [0, 0], [1, 1]]);
        running.stop().await;
    }
}

#[tokio::test]
async fn what_is_handed_on_has_effect_only_as_its_origin_says() {
    for place in places() {
        let (origin, hand) = (Peer::start().await, Peer::start().await);
        let alice = place.person("alice").await;
        place.stranger(&hand, "dave").await;
        let running = place.start();
        let post = place.post(alice, "A question", Visibility::Public).await;
        let asked = format!("http://weir.test/ap/users/{alice}/statuses/{post}");
        let uri = origin.write("bob", "What bob wrote", Some(&asked));
        let forged = note(&origin, "bob", "/notes/0", "What dave wrote", Some(&asked));
        let create = activity(&origin, "bob", "Create", forged.clone());
        assert_eq!(send(&place, &hand, "dave", &create).await, 202);
        until("the post", async || content(&place, &uri).await.is_some()).await;
        assert_eq!(content(&place, &uri).await.unwrap(), "<p>What bob wrote</p>");

        let mut edited = note(&origin, "bob", "/notes/0", "Edited by bob", Some(&asked));
        edited["updated"] = "2023-11-14T22:05:00Z".into();
        origin.put("/notes/0", edited);
        let update = activity(&origin, "bob", "Update", forged);
        assert_eq!(send(&place, &hand, "dave", &update).await, 202);
        let now = async || content(&place, &uri).await;
        until("the edit", async || now().await.as_deref() == Some("<p>Edited by bob</p>")).await;

        let delete = activity(&origin, "bob", "Delete", uri.clone().into());
        let asked_before = origin.fetched().len();
        assert_eq!(send(&place, &hand, "dave", &delete).await, 202);
        until("the origin is asked", async || origin.fetched().len() > asked_before).await;
        until("all is done", async || place.count("jobs").await == 0).await;
        assert!(content(&place, &uri).await.is_some(), "its origin still has it");
        origin.withhold("/notes/0", StatusCode::GONE);
        place.pass(1_000);
        assert_eq!(send(&place, &hand, "dave", &delete).await, 202);
        until("it is deleted", async || content(&place, &uri).await.is_none()).await;
        // Other kinds cannot be asked about.
        let follow = activity(&origin, "bob", "Like", asked.into());
        assert_eq!(send(&place, &hand, "dave", &follow).await, 403);
        running.stop().await;
    }
}

#[tokio::test]
async fn nobody_is_gone_because_another_server_says_that_they_wrote_themselves() {
    for place in places() {
        let (origin, hand) = (Peer::start().await, Peer::start().await);
        let alice = place.person("alice").await;
        place.stranger(&hand, "dave").await;
        let bob = place.stranger(&origin, "bob").await;
        let running = place.start();
        let post = place.post(alice, "A question", Visibility::Public).await;
        let asked = format!("http://weir.test/ap/users/{alice}/statuses/{post}");
        let forged = note(&origin, "bob", "/users/bob", "A post at an account", Some(&asked));
        let create = activity(&origin, "bob", "Create", forged);
        for times in 1..=2 {
            assert_eq!(send(&place, &hand, "dave", &create).await, 202);
            until("all is done", async || place.count("jobs").await == 0).await;
            assert!(origin.fetched().contains(&"/users/bob".to_owned()), "{times}");
            let known = place.read(move |tx, _| accounts::by_id(tx, bob)).await.unwrap();
            assert_eq!(known.deleted_at, None, "{times}");
        }
        running.stop().await;
    }
}

#[tokio::test]
async fn a_private_post_is_not_deleted_on_hearsay_because_its_origin_hides_it() {
    for place in places() {
        let (origin, hand) = (Peer::start().await, Peer::start().await);
        let alice = place.person("alice").await;
        let me = format!("http://weir.test/ap/users/{alice}");
        place.stranger(&origin, "bob").await;
        place.stranger(&hand, "dave").await;
        let running = place.start();
        let mut secret = note(&origin, "bob", "/posts/1", "Between us", None);
        secret["to"] = json!([me]);
        secret["tag"] = json!([{ "type": "Mention", "href": me, "name": "@alice@weir.test" }]);
        let create = activity(&origin, "bob", "Create", secret);
        assert_eq!(send(&place, &origin, "bob", &create).await, 202);
        let uri = origin.at("/posts/1");
        until("the post", async || content(&place, &uri).await.is_some()).await;
        let delete = activity(&origin, "bob", "Delete", uri.clone().into());
        origin.withhold("/posts/1", StatusCode::NOT_FOUND);
        assert_eq!(send(&place, &hand, "dave", &delete).await, 202);
        until("the origin is asked", async || origin.fetched().contains(&"/posts/1".into())).await;
        until("all is done", async || place.count("jobs").await == 0).await;
        assert!(content(&place, &uri).await.is_some());
        origin.withhold("/posts/1", StatusCode::GONE);
        place.pass(1_000);
        assert_eq!(send(&place, &hand, "dave", &delete).await, 202);
        until("it is deleted", async || content(&place, &uri).await.is_none()).await;
        running.stop().await;
    }
}

#[tokio::test]
async fn who_forges_what_is_handed_on_has_the_key_fetched_once_and_loses_its_budget() {
    for place in places() {
        let (origin, hand) = (Peer::start().await, Peer::start().await);
        place.stranger(&hand, "dave").await;
        let key = PrivateKey::generate_rsa().unwrap();
        let reply = note(&origin, "bob", "/posts/1", "Handed on", None);
        let body = activity(&origin, "bob", "Create", reply).to_string().into_bytes();
        let now = place.clock.now();
        let forge = async || {
            let headers = hand.sign_post(Form::Cavage, Some(&key), "dave", INBOX, &body, now);
            place.send("/inbox", headers, body.clone()).await
        };
        assert_eq!(forge().await, 401);
        let running = place.start();
        until("the key is fetched", async || place.waiting().await == 0).await;
        for _ in 0..100 {
            assert_eq!(forge().await, 401);
        }
        assert_eq!(place.waiting().await, 0, "it is not wanted again");
        let unknown = activity(&origin, "carol", "Create", note(&origin, "carol", "/2", "", None));
        assert_eq!(send(&place, &origin, "carol", &unknown).await, 429);
        running.stop().await;
    }
}

/// bob's answer to the post `asked`.
fn answer(peer: &Peer, path: &str, asked: &str) -> Value {
    let mut create = activity(peer, "bob", "Create", note(peer, "bob", path, "Yes", Some(asked)));
    create["id"] = peer.at(&format!("{path}/create")).into();
    create
}

#[tokio::test]
async fn an_answer_is_passed_on_unless_its_message_is_longer_than_64_kib() {
    for place in places() {
        let Asked { near, far, running, asked, .. } = ask(&place).await;
        for (path, bytes) in [("/posts/1", 64 * 1_024 + 1), ("/posts/2", 64 * 1_024)] {
            let mut create = answer(&near, path, &asked);
            create["padding"] = "".into();
            create["padding"] = "x".repeat(bytes - create.to_string().len()).into();
            assert_eq!(send(&place, &near, "bob", &create).await, 202);
            let here = async || content(&place, &near.at(path)).await.is_some();
            until("it is here", here).await;
        }
        until("all is done", async || {
            place.count("jobs").await == 0 && place.count("deliveries").await == 0
        })
        .await;
        let passed: Vec<Value> =
            far.activities("Create").iter().map(|create| create["object"]["id"].clone()).collect();
        assert_eq!(passed[1..], [Value::from(near.at("/posts/2"))]);
        running.stop().await;
    }
}

/// A delivery of what is passed on.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct PassedOn;

impl Job for PassedOn {
    const KIND: &'static str = "deliver_passed_on";
    const QUEUE: Queue = PASSED_ON;
}

#[tokio::test]
async fn while_very_many_deliveries_of_it_wait_nothing_but_deletions_is_passed_on() {
    // Either database has the same rule, and PostgreSQL takes far longer to write so many.
    for place in places().into_iter().filter(|place| !place.is_postgres()) {
        let Asked { near, running, asked, .. } = ask(&place).await;
        pile(&place, PassedOn, PASSED_ON_MAX as usize - 1).await;
        let depth = || place.jobs.depth(PASSED_ON.name);
        let come = async |path: &str| {
            assert_eq!(send(&place, &near, "bob", &answer(&near, path, &asked)).await, 202);
            until(path, async || content(&place, &near.at(path)).await.is_some()).await;
        };
        come("/posts/1").await;
        until("it is passed on", async || depth() == PASSED_ON_MAX).await;
        come("/posts/2").await;
        let left = async || place.count("jobs WHERE kind = 'forward'").await;
        assert_eq!((left().await, depth()), (0, PASSED_ON_MAX), "there is no room for it");
        let delete = activity(&near, "bob", "Delete", near.at("/posts/1").into());
        assert_eq!(send(&place, &near, "bob", &delete).await, 202);
        until("the deletion is to be", async || left().await == 1).await;
        says_why(&place, "forward").await;
        assert_eq!((left().await, depth()), (1, PASSED_ON_MAX), "it waits as well");
        running.stop().await;
    }
}
