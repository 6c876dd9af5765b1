//! What waits for servers that do not answer, and what is told of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::{StatusCode, header};
use weir_activitypub::retry_host;
use weir_activitypub::signature::Form;
use weir_activitypub::signature::key::PrivateKey;
use weir_base::Id;
use weir_community::federation::outgoing::{self, Arrival, Arrivals, Shipment, Totals};
use weir_community::federation::{Inbox, Message, Reach, send};
use weir_community::hosts::{self, Condition, Host};
use weir_community::statuses::Visibility;
use weir_community::{Env, Error};
use weir_db::{Tx, params};

use crate::deliveries::follows;
use crate::peer::Peer;
use crate::place::{Place, patient_places, places, until};

/// Messages whose signatures are not verified yet.
const UNVERIFIED: &str = "(SELECT kind FROM jobs UNION ALL SELECT kind FROM jobs_later) AS waiting
    WHERE kind = 'unverified'";

const DAY_MS: i64 = 24 * 60 * 60 * 1_000;
const NO: StatusCode = StatusCode::SERVICE_UNAVAILABLE;

/// A person here whom somebody on `peer` follows.
async fn followed(place: &Place, peer: &Peer) -> Id {
    let alice = place.person("alice").await;
    let bob = place.stranger(peer, "bob").await;
    follows(place, bob, alice).await;
    alice
}

pub async fn host(place: &Place, peer: &Peer) -> Host {
    let domain = peer.domain();
    let found = place.read(move |tx, _| hosts::by_domain(tx, &domain)).await.unwrap();
    found.unwrap_or_else(|| panic!("nothing is known of {}", peer.domain()))
}

async fn condition(place: &Place, peer: &Peer) -> Condition {
    host(place, peer).await.condition(place.clock.now())
}

async fn arrivals(place: &Place, status: Id) -> Arrivals {
    place.read(move |tx, env| outgoing::arrivals(tx, env, status)).await.unwrap().unwrap()
}

async fn is_failing(place: &Place, peer: &Peer) -> bool {
    let domain = peer.domain();
    let row = place.read(move |tx, _| hosts::by_domain(tx, &domain)).await.unwrap();
    row.is_some_and(|row| row.failing_since.is_some())
}

/// Brings `peer` to where it is asked with one delivery at a time; the posts that wait.
pub async fn silence(place: &Place, peer: &Peer, by: Id, posts: usize) -> Vec<Id> {
    // What was taken before must not be told of after the first failure.
    until("nothing waits", async || place.count("deliveries").await == 0).await;
    peer.answer(|_| NO);
    let mut ids = Vec::new();
    for number in 0..posts {
        ids.push(place.post(by, &format!("post {number}"), Visibility::Public).await);
    }
    until("it counts as failing", async || is_failing(place, peer).await).await;
    let waits = "jobs WHERE kind IN ('deliver', 'distribute')";
    until("the first tries are over", async || place.count(waits).await == 0).await;
    ids
}

/// Waits for a try. One that comes while another is still under way is made a second later, so the
/// time goes on.
pub async fn until_tried<F: Future<Output = bool>>(
    place: &Place,
    what: &str,
    condition: impl Fn() -> F,
) {
    until(what, async || {
        place.pass(10);
        condition().await
    })
    .await;
}

/// Lets the time come when a failing server is asked next.
pub async fn next_try(place: &Place, peer: &Peer) {
    let at = host(place, peer).await.next_try_at.unwrap();
    place.pass(at.since_ms(place.clock.now()).max(0) + 1);
}

/// Texts of the posts that came, in their order.
fn texts(peer: &Peer) -> Vec<String> {
    let text = |it: &serde_json::Value| it["object"]["content"].as_str().unwrap().to_owned();
    peer.activities("Create").iter().map(text).collect()
}

#[tokio::test]
async fn what_waits_for_a_server_that_fails_is_given_up_when_it_is_blocked() {
    for place in places() {
        let peer = Peer::start().await;
        let alice = followed(&place, &peer).await;
        let running = place.start();
        until("the follow is answered", async || !peer.activities("Accept").is_empty()).await;
        silence(&place, &peer, alice, 20).await;
        let tries = peer.delivered().len();
        place.block(&peer).await;
        next_try(&place, &peer).await;
        until("all is given up at once", async || place.count("deliveries").await == 0).await;
        assert_eq!(place.count("undelivered WHERE reason = 'the server is blocked'").await, 20);
        assert_eq!(peer.delivered().len(), tries);
        running.stop().await;
    }
}

#[tokio::test]
async fn a_server_that_does_not_answer_costs_one_try_at_a_time_whatever_waits_for_it() {
    for place in places() {
        let peer = Peer::start().await;
        let alice = followed(&place, &peer).await;
        let running = place.start();
        until("the follow is answered", async || !peer.activities("Accept").is_empty()).await;
        silence(&place, &peer, alice, 20).await;
        let tries = peer.delivered().len();
        for number in 0..30 {
            place.post(alice, &format!("more {number}"), Visibility::Public).await;
        }
        until("all wait", async || place.count("deliveries").await == 50).await;
        until("nothing is distributed", async || {
            place.count("jobs WHERE kind = 'distribute'").await == 0
        })
        .await;
        assert_eq!(peer.delivered().len(), tries, "those that came later are not tried");
        let waits = "jobs_later WHERE kind = 'redeliver'";
        assert!(place.count(waits).await <= 3, "one job waits, not one for each delivery");
        assert_eq!(place.count("jobs WHERE kind = 'deliver'").await, 0);
        for probe in 1..=2 {
            let failures = host(&place, &peer).await.failures;
            next_try(&place, &peer).await;
            let asked = async || host(&place, &peer).await.failures > failures;
            until_tried(&place, "it was asked", asked).await;
            assert_eq!(peer.delivered().len(), tries + probe, "one try at a time");
        }
        running.stop().await;
    }
}

#[tokio::test]
async fn a_server_that_is_back_gets_what_waits_in_order_of_age_and_in_growing_steps() {
    for place in places() {
        let peer = Peer::start().await;
        let alice = followed(&place, &peer).await;
        let running = place.start();
        until("the follow is answered", async || !peer.activities("Accept").is_empty()).await;
        silence(&place, &peer, alice, 60).await;
        peer.answer(|_| StatusCode::ACCEPTED);
        let before = peer.activities("Create").len();
        let came = || peer.activities("Create").len() - before;
        next_try(&place, &peer).await;
        until_tried(&place, "the first is taken", async || came() >= 1).await;
        // What is new does not wait behind what is old.
        until("it answers again", async || condition(&place, &peer).await == Condition::CatchingUp)
            .await;
        place.post(alice, "fresh", Visibility::Public).await;
        let is_fresh = |text: &String| text.contains("fresh");
        until("what is new comes at once", async || texts(&peer).iter().any(is_fresh)).await;
        assert!(came() < 61, "what is old comes step by step");
        let begin = place.clock.now();
        until("nothing waits", async || {
            place.pass(100);
            place.count("deliveries").await == 0
        })
        .await;
        let ms = place.clock.now().since_ms(begin);
        assert!(ms >= 2_000, "60 deliveries take some steps, not {ms} ms");
        let old: Vec<String> =
            texts(&peer).split_off(before).into_iter().filter(|it| !it.contains("fresh")).collect();
        let number = |text: &String| -> usize {
            let digits: String = text.chars().filter(char::is_ascii_digit).collect();
            digits.parse().unwrap()
        };
        let numbers: Vec<usize> = old.iter().map(number).collect();
        // The first is the one that it was asked with; others overtake each other in a step.
        let sorted = numbers[1..].windows(33).all(|some| some[0] < some[32]);
        assert!(sorted, "in order of age: {numbers:?}");
        let place_of_fresh = texts(&peer)[before..].iter().position(is_fresh);
        assert!(place_of_fresh.unwrap() < 60, "what is new went before what is old");
        until("it is well", async || {
            place.pass(10);
            condition(&place, &peer).await == Condition::Well
        })
        .await;
        running.stop().await;
    }
}

/// Lets a second pass, and everything run that is due then.
async fn second(place: &Place) {
    place.pass(1_000);
    let now_ms = place.clock.now().as_ms();
    let due = format!(
        "(SELECT id FROM jobs WHERE kind = 'redeliver' UNION ALL
          SELECT id FROM jobs_later WHERE kind = 'redeliver' AND due_at <= {now_ms}) due"
    );
    until("the steps of a second", async || place.count(&due).await == 0).await;
}

#[tokio::test]
async fn servers_that_are_back_together_each_get_their_own_growing_steps_in_order() {
    const POSTS: usize = 60;
    for place in places() {
        let alice = place.person("alice").await;
        let mut peers = Vec::new();
        for name in ["bob", "carol", "dave"] {
            let peer = Peer::start().await;
            let follower = place.stranger(&peer, name).await;
            follows(&place, follower, alice).await;
            peers.push(peer);
        }
        let running = place.start();
        for peer in &peers {
            until("the follow is answered", async || !peer.activities("Accept").is_empty()).await;
        }
        until("nothing waits", async || place.count("deliveries").await == 0).await;
        peers.iter().for_each(|peer| peer.answer(|_| NO));
        silence(&place, &peers[0], alice, POSTS).await;
        for peer in &peers {
            until("each counts as failing", async || is_failing(&place, peer).await).await;
        }
        let begun: Vec<usize> = peers.iter().map(|peer| texts(peer).len()).collect();
        peers.iter().for_each(|peer| peer.answer(|_| StatusCode::ACCEPTED));
        for peer in &peers {
            next_try(&place, peer).await;
        }
        // What was tried before it was known that they are silent is due again, too.
        place.pass(60_000);
        let came = |at: usize| texts(&peers[at]).len() - begun[at];
        for at in 0..peers.len() {
            until("the first is taken", async || came(at) >= 1).await;
        }
        let mut before = [0; 3];
        for step in 0..8 {
            second(&place).await;
            for (at, before) in before.iter_mut().enumerate() {
                let all = came(at);
                let most = (8 << step) + 16;
                assert!(all - *before <= most, "step {step} of host {at}: {before} to {all}");
                *before = all;
            }
        }
        assert_eq!(before, [POSTS; 3], "steps grow, and none waits for another");
        for (peer, begun) in peers.iter().zip(begun) {
            let number = |text: &String| -> usize {
                let digits: String = text.chars().filter(char::is_ascii_digit).collect();
                digits.parse().unwrap()
            };
            let numbers: Vec<usize> = texts(peer)[begun..].iter().map(number).collect();
            // The first is the one that it was asked with; others overtake each other in a step.
            let sorted = numbers[1..].windows(33).all(|some| some[0] < some[32]);
            assert!(sorted, "in order of age: {numbers:?}");
        }
        running.stop().await;
    }
}

#[tokio::test]
async fn of_what_waits_for_a_server_that_is_back_several_are_on_their_way_at_once() {
    for place in patient_places() {
        let peer = Peer::start().await;
        let alice = followed(&place, &peer).await;
        let running = place.start();
        until("the follow is answered", async || !peer.activities("Accept").is_empty()).await;
        silence(&place, &peer, alice, 40).await;
        // The first of all is a probe, the next ones go one by one.
        let (held, mut answered) = (peer.clone(), 0);
        peer.answer(move |_| {
            answered += 1;
            if answered == 5 {
                held.hold_until_open(2);
            }
            StatusCode::ACCEPTED
        });
        next_try(&place, &peer).await;
        until("nothing waits", async || {
            place.pass(100);
            place.count("deliveries").await == 0
        })
        .await;
        running.stop().await;
    }
}

#[tokio::test]
async fn an_edit_does_not_overtake_its_post_that_was_not_taken_once() {
    for place in places() {
        let peer = Peer::start().await;
        let alice = followed(&place, &peer).await;
        let running = place.start();
        until("the follow is answered", async || !peer.activities("Accept").is_empty()).await;
        until("nothing waits", async || place.count("deliveries").await == 0).await;
        let mut answers = [StatusCode::INTERNAL_SERVER_ERROR].into_iter();
        peer.answer(move |_| answers.next().unwrap_or(StatusCode::ACCEPTED));
        let post = place.post(alice, "first words", Visibility::Public).await;
        until("it is not taken", async || place.count("deliveries WHERE tries = 1").await == 1)
            .await;
        assert_eq!(condition(&place, &peer).await, Condition::Well, "once is no habit");
        let edit = Message::UpdateStatus { status: post };
        place.write(move |tx, env| send(tx, env, alice, edit.clone())).await.unwrap();
        // What is of something else goes by.
        place.post(alice, "other words", Visibility::Public).await;
        until("the other is taken", async || texts(&peer).iter().any(|it| it.contains("other")))
            .await;
        until("the edit was looked at", async || {
            place.count("jobs").await == 0 && place.count("deliveries").await == 2
        })
        .await;
        assert!(peer.activities("Update").is_empty(), "it waits for its post");
        until("nothing waits", async || {
            place.pass(1_000);
            place.count("deliveries").await == 0
        })
        .await;
        let kinds: Vec<String> = peer.delivered().iter().map(|it| it.kind()).collect();
        assert_eq!(kinds[1..], ["Create", "Create", "Create", "Update"], "the first is an Accept");
        running.stop().await;
    }
}

#[tokio::test]
async fn what_follows_a_post_waits_for_its_first_try_and_goes_right_after() {
    for place in patient_places() {
        let peer = Peer::start().await;
        let alice = followed(&place, &peer).await;
        let running = place.start();
        until("nothing waits", async || {
            place.count("deliveries").await == 0 && !peer.activities("Accept").is_empty()
        })
        .await;
        peer.hold_until_open(2);
        let post = place.post(alice, "first words", Visibility::Public).await;
        until("it is on its way", async || place.count("deliveries").await == 1).await;
        let edit = Message::UpdateStatus { status: post };
        place.write(move |tx, env| send(tx, env, alice, edit.clone())).await.unwrap();
        until("the edit waits", async || {
            place.count("deliveries").await == 2
                && place.count("jobs WHERE kind IN ('distribute', 'redeliver')").await == 0
        })
        .await;
        peer.hold_until_open(0);
        until("both are taken", async || place.count("deliveries").await == 0).await;
        let kinds: Vec<String> = peer.delivered().iter().map(|it| it.kind()).collect();
        assert_eq!(kinds[1..], ["Create", "Update"]);
        running.stop().await;
    }
}

/// A message of `alice` to one inbox of other.test, about the same as others.
fn shipped(tx: &mut Tx, env: &Env, alice: Id) -> Result<(Id, usize), Error> {
    let shipment = Shipment {
        id: env.ids.next(),
        by: alice,
        body: "{}".into(),
        subject: "http://weir.test/posts/1".into(),
        passed_on: false,
        is_count: false,
        about: None,
    };
    let inbox = Inbox { url: "https://other.test/inbox".into(), domain: "other.test".into() };
    let reach = Reach { inboxes: vec![inbox], ..Reach::default() };
    let before = outgoing::waiting_for(tx, &shipment, &reach)?;
    outgoing::ship(tx, env, &shipment, &reach, |_| !before.is_empty())?;
    Ok((shipment.id, before.len()))
}

#[tokio::test]
async fn who_ends_a_wait_learns_of_what_was_said_meanwhile() {
    // On SQLite no two transactions write at once.
    for place in places().into_iter().filter(Place::is_postgres) {
        let alice = place.person("alice").await;
        let (post, _) = place.write(move |tx, env| shipped(tx, env, alice)).await.unwrap();
        let (begins, begun) = std::sync::mpsc::channel();
        let (goes_on, told) = std::sync::mpsc::channel();
        let mut told = Some(told);
        let end = place.write(move |tx, _| {
            // What it sees is of this moment.
            tx.value::<i64>("SELECT count(*) FROM payloads", &[])?;
            if let Some(told) = told.take() {
                begins.send(()).unwrap();
                told.recv().unwrap();
            }
            outgoing::ended(tx, [(post, "other.test", "https://other.test/inbox")].into_iter())?;
            outgoing::waited_for(tx, &[post].into())
        });
        let edit = async {
            tokio::task::spawn_blocking(move || begun.recv().unwrap()).await.unwrap();
            let edit = place.write(move |tx, env| shipped(tx, env, alice)).await.unwrap();
            goes_on.send(()).unwrap();
            edit
        };
        let (ended, (_, before)) = tokio::join!(end, edit);
        assert_eq!(before, 1, "the edit waits");
        assert_eq!(ended.unwrap(), [post].into(), "and has to be told of");
    }
}

#[tokio::test]
async fn a_deletion_does_not_overtake_its_post_that_still_waits() {
    for place in places() {
        let peer = Peer::start().await;
        let alice = followed(&place, &peer).await;
        let running = place.start();
        until("the follow is answered", async || !peer.activities("Accept").is_empty()).await;
        let posts = silence(&place, &peer, alice, 12).await;
        peer.answer(|_| StatusCode::ACCEPTED);
        next_try(&place, &peer).await;
        until("it answers again", async || condition(&place, &peer).await == Condition::CatchingUp)
            .await;
        // Which of them was taken when it was asked again is not told by their order.
        let mut waiting = Vec::new();
        for post in posts {
            if arrivals(&place, post).await.waiting == 1 {
                waiting.push(post);
            }
        }
        let last = waiting.pop().expect("of twelve only one was taken");
        place
            .write(move |tx, env| weir_community::statuses::delete(tx, env, alice, last))
            .await
            .unwrap();
        until("the deletion waits", async || {
            place.count("jobs WHERE kind IN ('distribute', 'deliver')").await == 0
                && place.count("payloads WHERE body LIKE '%Tombstone%'").await == 1
        })
        .await;
        for _ in 0..4 {
            place.pass(1_000);
            let due = "jobs WHERE kind = 'redeliver'";
            until("a step is done", async || place.count(due).await == 0).await;
        }
        until("nothing waits", async || {
            place.pass(1_000);
            place.count("deliveries").await == 0
        })
        .await;
        let about = place.face.urls().post(alice, last).to_string();
        let said = peer.delivered().into_iter().filter(|it| it.json()["object"]["id"] == *about);
        let mut kinds: Vec<String> = said.map(|it| it.kind()).collect();
        // It may have been tried in vain before.
        kinds.dedup();
        assert_eq!(kinds, ["Create", "Delete"]);
        running.stop().await;
    }
}

#[tokio::test]
async fn what_is_not_taken_for_a_week_is_given_up_and_a_dead_server_is_spared_until_it_speaks() {
    for place in places() {
        let peer = Peer::start().await;
        let alice = followed(&place, &peer).await;
        let running = place.start();
        until("the follow is answered", async || !peer.activities("Accept").is_empty()).await;
        let post = silence(&place, &peer, alice, 3).await[0];
        for _ in 0..2 {
            let failures = host(&place, &peer).await.failures;
            place.pass(3 * DAY_MS);
            let asked = async || host(&place, &peer).await.failures > failures;
            until_tried(&place, "it was asked", asked).await;
        }
        assert_eq!(place.count("deliveries").await, 3, "after six days all are kept");
        place.pass(DAY_MS + DAY_MS / 12);
        let given_up = async || place.count("deliveries").await == 0;
        until_tried(&place, "they are given up", given_up).await;
        let given_up = arrivals(&place, post).await;
        assert_eq!((given_up.delivered, given_up.waiting, given_up.failed), (0, 0, 1));
        assert!(given_up.hosts[0].reason.starts_with("not delivered within a week: "));
        assert_eq!(condition(&place, &peer).await, Condition::Dead);
        // One delivery a day sees if it is back; everything else is spared.
        let mut spared = place.post(alice, "is anybody there?", Visibility::Public).await;
        let told = async |id: Id| {
            place.read(move |tx, env| outgoing::arrivals(tx, env, id)).await.unwrap()
        };
        until("it is sent or spared", async || told(spared).await.is_some()).await;
        if told(spared).await.unwrap().hosts[0].arrival != Arrival::Spared {
            let lately = place.clock.now().plus_ms(-DAY_MS / 24);
            let asked = async || host(&place, &peer).await.failed_at >= Some(lately);
            until_tried(&place, "it was asked", asked).await;
            spared = place.post(alice, "nobody", Visibility::Public).await;
            until("it is spared", async || told(spared).await.is_some()).await;
        }
        assert_eq!(told(spared).await.unwrap().hosts[0].arrival, Arrival::Spared);
        // Something valid from there is reason enough to try again.
        peer.answer(|_| StatusCode::ACCEPTED);
        place.pass(60_000);
        let like = serde_json::json!({
            "@context": "https://www.w3.org/ns/activitystreams",
            "id": peer.at("/likes/1"), "type": "Like", "actor": peer.actor("bob"),
            "object": format!("http://weir.test/ap/users/{alice}/statuses/{spared}"),
        });
        let (body, now) = (like.to_string().into_bytes(), place.clock.now());
        let inbox = "http://weir.test/inbox";
        let sign = |key| peer.sign_post(Form::Cavage, key, "bob", inbox, &body, now);
        // What only claims to be from there is none.
        let other = PrivateKey::generate_rsa().unwrap();
        let forged = sign(Some(&other));
        assert_eq!(place.send("/inbox", forged, body.clone()).await, StatusCode::ACCEPTED);
        until("it was looked at", async || place.count(UNVERIFIED).await == 0).await;
        assert_eq!(condition(&place, &peer).await, Condition::Dead);
        let headers = sign(None);
        assert_eq!(place.send("/inbox", headers, body).await, StatusCode::ACCEPTED);
        until("it is forgiven", async || condition(&place, &peer).await == Condition::Failing)
            .await;
        place.post(alice, "welcome back", Visibility::Public).await;
        // Where the first try finds the step of before still under way, another step follows.
        until("it is delivered", async || {
            place.pass(10);
            texts(&peer).iter().any(|text| text.contains("welcome back"))
        })
        .await;
        // Where two jobs wanted the turn, a step follows that finds nothing left.
        until("it is well", async || {
            place.pass(10);
            condition(&place, &peer).await == Condition::Well
        })
        .await;
        running.stop().await;
    }
}

#[tokio::test]
async fn servers_that_answer_wait_for_none_that_does_not() {
    for place in places() {
        let (peer, silent) = (Peer::start().await, tokio::net::TcpListener::bind("127.0.0.1:0"));
        // Connections are taken by the system, and nothing is ever answered.
        let silent = silent.await.unwrap();
        let alice = followed(&place, &peer).await;
        let base = format!("http://{}", silent.local_addr().unwrap());
        let carol = place.stranger_at(&base, &peer.public_pem(), "carol").await;
        follows(&place, carol, alice).await;
        let running = place.start();
        for number in 0..5 {
            place.post(alice, &format!("post {number}"), Visibility::Public).await;
        }
        until("all came where they are taken", async || peer.activities("Create").len() == 5).await;
        let elsewhere = place.count("deliveries").await;
        assert!(elsewhere >= 5, "{elsewhere} wait for the other one");
        drop(silent);
        running.stop().await;
    }
}

/// More servers than are delivered to at once, none of which answers; and how many requests they
/// hold.
struct Silent {
    bases: Vec<String>,
    held: Arc<AtomicUsize>,
    holds: tokio::task::JoinHandle<()>,
}

async fn silent(count: usize) -> Silent {
    let listener = tokio::net::TcpListener::bind("0.0.0.0:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let held = Arc::new(AtomicUsize::new(0));
    let counted = held.clone();
    let holds = tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((socket, _)) = listener.accept().await {
            open.push(socket);
            counted.store(open.len(), Ordering::Relaxed);
        }
    });
    let base = |number| format!("http://127.0.{}.{}:{port}", 1 + number / 200, 1 + number % 200);
    Silent { bases: (0..count).map(base).collect(), held, holds }
}

#[tokio::test]
async fn more_silent_servers_than_there_are_places_do_not_hold_up_one_that_answers() {
    for place in patient_places() {
        let peer = Peer::start().await;
        let alice = followed(&place, &peer).await;
        let dave = place.person("dave").await;
        let silent = silent(600).await;
        follow_from(&place, &silent.bases, dave).await;
        let running = place.start();
        until("the follow is answered", async || !peer.activities("Accept").is_empty()).await;
        place.post(dave, "is anybody there?", Visibility::Public).await;
        until("all places are taken", async || silent.held.load(Ordering::Relaxed) >= 512).await;
        place.post(alice, "here", Visibility::Public).await;
        until("it comes where it is taken", async || !texts(&peer).is_empty()).await;
        assert!(place.count("deliveries WHERE tries = 0").await >= 600, "none of them failed");
        assert_eq!(
            place.count("jobs_later WHERE kind = 'deliver'").await,
            0,
            "nor ran out of time"
        );
        silent.holds.abort();
        running.stop().await;
    }
}

/// Somebody at each of `bases` follows `target`, and wants no answer.
async fn follow_from(place: &Place, bases: &[String], target: Id) {
    let inboxes: Vec<String> = bases.iter().map(|base| format!("{base}/inbox")).collect();
    place
        .write(move |tx, env| {
            for inbox in &inboxes {
                let id = env.ids.next();
                let domain = inbox.trim_start_matches("http://").trim_end_matches("/inbox");
                tx.execute(
                    "INSERT INTO accounts (id, username, username_key, domain, uri, url, inbox,
                       created_at) VALUES (?1, 'carol', 'carol', ?2, ?3, ?3, ?3, 0)",
                    params![id, domain, inbox],
                )?;
                let sql = "INSERT INTO follows (id, account_id, target_id) VALUES (?1, ?1, ?2)";
                tx.execute(sql, params![id, target])?;
            }
            Ok(())
        })
        .await
        .unwrap();
}

#[tokio::test]
async fn what_became_of_a_post_is_told_host_by_host() {
    for place in places() {
        let [well, busy, refuses] = [Peer::start().await, Peer::start().await, Peer::start().await];
        let alice = followed(&place, &well).await;
        for peer in [&busy, &refuses] {
            let bob = place.stranger(peer, "bob").await;
            follows(&place, bob, alice).await;
        }
        let running = place.start();
        for peer in [&well, &busy, &refuses] {
            until("the follow is answered", async || !peer.activities("Accept").is_empty()).await;
        }
        until("nothing waits", async || place.count("deliveries").await == 0).await;
        busy.answer(|_| (NO, [(header::RETRY_AFTER, "120")]));
        refuses.answer(|_| StatusCode::FORBIDDEN);
        let post = place.post(alice, "Hello", Visibility::Public).await;
        until("every host was tried", async || {
            place.count("shipments").await == 1
                && place.count("undelivered").await == 1
                && place.count("deliveries").await == 1
                && place.count("deliveries WHERE tries > 0").await == 1
        })
        .await;
        let told = arrivals(&place, post).await;
        assert_eq!((told.inboxes, told.delivered, told.waiting, told.failed), (3, 1, 1, 1));
        let totals = place.read(outgoing::totals).await.unwrap();
        let busy_fails = Totals { waiting: 1, failed: 1, failing: 1, ..Totals::default() };
        assert_eq!(totals, busy_fails);
        let (busy_is, week_ago) = (busy.domain(), place.clock.now().plus_ms(-7 * 86_400_000));
        let (dead, totals) = place
            .write(move |tx, env| {
                let before: Option<i64> = tx
                    .value("SELECT failing_since FROM hosts WHERE domain = ?1", params![busy_is])?;
                let since = "UPDATE hosts SET failing_since = ?2 WHERE domain = ?1";
                tx.execute(since, params![busy_is, week_ago])?;
                hosts::is_behind(tx, "back.test", env.clock.now())?;
                let totals = outgoing::totals(tx, env)?;
                tx.execute(since, params![busy_is, before])?;
                hosts::is_behind_no_more(tx, "back.test")?;
                Ok((Totals { failing: 0, dead: 1, catching_up: 1, ..busy_fails }, totals))
            })
            .await
            .unwrap();
        assert_eq!(totals, dead);
        let hosts: BTreeMap<_, _> =
            told.hosts.iter().map(|host| (host.host.clone(), host.clone())).collect();
        let delivered = &hosts[&well.domain()];
        assert_eq!((delivered.arrival, delivered.inboxes), (Arrival::Delivered, 1));
        let waiting = &hosts[&busy.domain()];
        assert_eq!((waiting.arrival, waiting.inboxes), (Arrival::Waiting, 1));
        assert!(waiting.reason.contains("503"), "{}", waiting.reason);
        let wait_ms = waiting.next_try_at.unwrap().since_ms(place.clock.now());
        assert!((100_000..=120_000).contains(&wait_ms), "{wait_ms}");
        let failed = &hosts[&refuses.domain()];
        assert_eq!(failed.arrival, Arrival::Failed);
        assert!(failed.reason.contains("403"), "{}", failed.reason);
        let dave = place.person("dave").await;
        let asked = place.read(move |tx, env| outgoing::arrivals_for(tx, env, dave, post)).await;
        assert!(asked.is_err(), "it is nobody else's affair");
        place.read(move |tx, env| outgoing::arrivals_for(tx, env, alice, post)).await.unwrap();
        // Asked by hand, it is tried at once.
        busy.answer(|_| StatusCode::ACCEPTED);
        let domain = busy.domain();
        assert!(place.write(move |tx, env| retry_host(tx, env, &domain)).await.unwrap());
        until("it is there", async || arrivals(&place, post).await.delivered == 2).await;
        assert_eq!(arrivals(&place, post).await.waiting, 0);
        running.stop().await;
    }
}
