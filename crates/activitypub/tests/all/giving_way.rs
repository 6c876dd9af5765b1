//! What waits until the messages that came in are worked.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use weir_activitypub::signature::Form;
use weir_community::statuses::{self, Visibility};
use weir_db::Class;
use weir_jobs::{Action, Job, Queue, Search, Set};

use crate::deliveries::{came, follows};
use crate::peer::Peer;
use crate::place::{Place, Running, places, until};

const INBOX: &str = "http://weir.test/inbox";
/// What is of long ago waits here.
const LATE: &str = "inbound_late";

/// Sends a post of `name`, said to be `minutes` old.
async fn send(place: &Place, peer: &Peer, path: &str, minutes: i64, answers: Option<&str>) {
    let published = place.clock.now().plus_ms(-minutes * 60_000).to_string();
    let create = json!({
        "@context": "https://www.w3.org/ns/activitystreams",
        "id": peer.at(&format!("{path}/create")),
        "type": "Create",
        "actor": peer.actor("bob"),
        "to": ["https://www.w3.org/ns/activitystreams#Public"],
        "object": {
            "id": peer.at(path),
            "type": "Note",
            "attributedTo": peer.actor("bob"),
            "content": "<p>Something</p>",
            "published": published,
            "inReplyTo": answers.map_or(Value::Null, Value::from),
            "to": ["https://www.w3.org/ns/activitystreams#Public"],
        },
    });
    let body = create.to_string().into_bytes();
    let headers = peer.sign_post(Form::Cavage, None, "bob", INBOX, &body, place.clock.now());
    assert_eq!(place.send("/inbox", headers, body).await, 202);
}

async fn is_here(place: &Place, uri: String) -> bool {
    place.read(move |tx, _| Ok(statuses::by_uri(tx, &uri)?.is_some())).await.unwrap()
}

/// What bob wrote five minutes ago, whom alice follows, has come in and is not worked yet.
async fn behind(place: &Place) -> (Peer, Running) {
    let peer = Peer::start().await;
    let alice = place.person("alice").await;
    let bob = place.stranger(&peer, "bob").await;
    follows(place, alice, bob).await;
    let running = place.start();
    place.jobs.pause(LATE).await.unwrap();
    send(place, &peer, "/posts/1", 5, None).await;
    (peer, running)
}

#[tokio::test]
async fn a_post_that_may_be_among_what_came_in_is_not_asked_for_before_that_is_worked() {
    for place in places() {
        let (peer, running) = behind(&place).await;
        send(&place, &peer, "/posts/2", 0, Some(&peer.at("/posts/1"))).await;
        until("the answer is here", async || is_here(&place, peer.at("/posts/2")).await).await;
        let put_off = "jobs_later WHERE kind = 'fetch'";
        until("its parent is waited for", async || place.count(put_off).await == 1).await;
        place.jobs.resume(LATE).await.unwrap();
        until("the parent is here", async || is_here(&place, peer.at("/posts/1")).await).await;
        place.pass(30_000);
        let waits = async |table: &str| place.count(&format!("{table} WHERE kind = 'fetch'")).await;
        until("nothing is wanted", async || waits("jobs_later").await + waits("jobs").await == 0)
            .await;
        assert!(!peer.fetched().contains(&"/posts/1".to_owned()), "{:?}", peer.fetched());
        running.stop().await;
    }
}

#[tokio::test]
async fn a_post_that_does_not_come_by_itself_is_asked_for_in_the_end() {
    for place in places() {
        let (peer, running) = behind(&place).await;
        let parent = peer.write("bob", "Long ago", None);
        send(&place, &peer, "/posts/2", 0, Some(&parent)).await;
        let put_off = "jobs_later WHERE kind = 'fetch'";
        until("its parent is waited for", async || place.count(put_off).await == 1).await;
        place.pass(60_000);
        // Who has waited a minute waits half a minute more.
        let long = "jobs_later WHERE kind = 'fetch' AND due_at - enqueued_at >= 90000";
        until("it is waited for longer", async || place.count(long).await == 1).await;
        place.pass(11 * 60_000);
        until("the parent is here", async || is_here(&place, parent.clone()).await).await;
        running.stop().await;
    }
}

/// A message that stands in the way of others.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Earlier;

impl Job for Earlier {
    const KIND: &'static str = "inbound_late";
    const QUEUE: Queue = Queue::new(LATE, Class::Inbound);
}

#[tokio::test]
async fn what_others_write_is_passed_on_when_what_came_in_is_worked() {
    for place in places() {
        let (near, far) = (Peer::start().await, Peer::start().await);
        let alice = place.person("alice").await;
        place.stranger(&near, "bob").await;
        let carol = place.stranger(&far, "carol").await;
        follows(&place, carol, alice).await;
        let running = place.start();
        let post = place.post(alice, "A question", Visibility::Public).await;
        came(&far, "Create").await;
        place.jobs.pause(LATE).await.unwrap();
        place.write(|tx, env| Ok(env.jobs.enqueue_many(tx, &vec![Earlier; 500])?)).await.unwrap();
        let asked = format!("http://weir.test/ap/users/{alice}/statuses/{post}");
        send(&place, &near, "/posts/1", 0, Some(&asked)).await;
        let put_off = "jobs_later WHERE kind = 'forward'";
        until("the answer gives way", async || place.count(put_off).await == 1).await;
        assert_eq!(far.activities("Create").len(), 1);
        let earlier = Search { queue: Some(LATE.into()), ..Search::all(Set::Ready) };
        place.jobs.sweep(&earlier, Action::Delete, |_| {}).await.unwrap();
        place.pass(40_000);
        until("it is passed on", async || far.activities("Create").len() == 2).await;
        running.stop().await;
    }
}
