use http::StatusCode;
use http::header::LOCATION;
use serde_json::Value;
use weir_base::Id;
use weir_community::federation::order::Version;
use weir_community::federation::outgoing::{self, End, FIRST_TRY_MS, Tried};
use weir_community::federation::{self, Deed, Incoming, Message, Senders, send};
use weir_community::relationships::{self, FollowWish};
use weir_community::statuses::{self, Draft, PollDraft, Visibility};
use weir_community::{Env, accounts, hosts};
use weir_db::Tx;

use crate::backlog::{host, next_try, silence, until_tried};
use crate::peer::{Delivered, Peer};
use crate::place::{Place, places, until};

pub async fn follows(place: &Place, follower: Id, target: Id) {
    let unit = move |tx: &mut Tx, env: &Env| {
        let (by, target) = (accounts::by_id(tx, follower)?, accounts::by_id(tx, target)?);
        let arrived = env.clock.now();
        let follow = Incoming {
            actor: by.uri,
            activity: "http://peer.test/follows/1".into(),
            version: Version { at: arrived, seq: env.ids.next() },
            arrived,
            deed: Deed::Follow { target: target.uri },
        };
        let mut senders = Senders::read(tx, [&follow])?;
        federation::receive(tx, env, &mut senders, &follow)
    };
    place.write(unit).await.unwrap();
}

pub async fn came(peer: &Peer, kind: &str) -> Value {
    until(kind, async || !peer.activities(kind).is_empty()).await;
    peer.activities(kind).pop().unwrap()
}

/// What is undone, by its type.
async fn undone(peer: &Peer, kind: &str) -> Value {
    let find = || peer.activities("Undo").into_iter().find(|undo| undo["object"]["type"] == kind);
    until(kind, async || find().is_some()).await;
    find().unwrap()["object"].clone()
}

#[tokio::test]
async fn a_post_goes_once_to_each_server_that_has_followers() {
    for place in places() {
        let peer = Peer::start().await;
        let alice = place.person("alice").await;
        for name in ["bob", "carol"] {
            let follower = place.stranger(&peer, name).await;
            follows(&place, follower, alice).await;
        }
        let running = place.start();
        let status = place.post(alice, "Hello, world", Visibility::Public).await;
        let create = came(&peer, "Create").await;
        let id = format!("http://weir.test/ap/users/{alice}/statuses/{status}");
        assert_eq!(create["id"], format!("{id}/activity"));
        assert_eq!(create["object"]["id"], id);
        assert_eq!(create["object"]["attributedTo"], create["actor"]);
        let accepts = peer.activities("Accept");
        assert!(accepts.iter().all(|accept| accept["object"]["type"] == "Follow"), "{accepts:?}");
        until("nothing waits", async || place.count("deliveries").await == 0).await;
        assert_eq!(place.count("deliveries").await, 0);
        assert_eq!(peer.activities("Create").len(), 1);
        let delivered = peer.delivered();
        let create = delivered.iter().find(|it| it.kind() == "Create").unwrap();
        assert_eq!(create.path, "/inbox");
        let signature = create.headers["signature"].to_str().unwrap();
        assert!(signature.contains(&format!("ap/users/{alice}#main-key")), "{signature}");
        running.stop().await;
    }
}

#[tokio::test]
async fn what_a_server_takes_no_other_way_is_signed_by_rfc_9421_from_then_on() {
    let is_rfc = |it: &Delivered| it.headers.contains_key("signature-input");
    for place in places() {
        let peer = Peer::start().await;
        peer.answer(move |it| match is_rfc(it) {
            true => StatusCode::ACCEPTED,
            false => StatusCode::UNAUTHORIZED,
        });
        let alice = place.person("alice").await;
        let bob = place.stranger(&peer, "bob").await;
        follows(&place, bob, alice).await;
        let running = place.start();
        until("the answer is taken", async || {
            place.count("deliveries").await == 0 && !peer.delivered().is_empty()
        })
        .await;
        let tries: Vec<bool> = peer.delivered().iter().map(is_rfc).collect();
        assert_eq!(tries, [false, true]);
        place.post(alice, "Hello", Visibility::Public).await;
        came(&peer, "Create").await;
        assert!(peer.delivered().iter().filter(|it| it.kind() == "Create").all(is_rfc));
        let domain = peer.domain();
        let known = place.read(move |tx, _| hosts::by_domain(tx, &domain)).await.unwrap().unwrap();
        assert_eq!(known.signature_form, "rfc9421");
        assert!(known.delivered_at.is_some());
        running.stop().await;
    }
}

#[tokio::test]
async fn what_fails_for_a_while_is_tried_again_and_what_is_refused_is_not() {
    for place in places() {
        let peer = Peer::start().await;
        let alice = place.person("alice").await;
        let bob = place.stranger(&peer, "bob").await;
        follows(&place, bob, alice).await;
        let mut answers = [StatusCode::INTERNAL_SERVER_ERROR; 1].into_iter();
        peer.answer(move |_| answers.next().unwrap_or(StatusCode::ACCEPTED));
        let running = place.start();
        until("a first try", async || peer.delivered().len() == 1).await;
        let waits = "jobs_later WHERE kind = 'redeliver'";
        until("it waits", async || place.count(waits).await == 1).await;
        place.pass(60_000);
        until("a second try", async || peer.delivered().len() == 2).await;
        let bodies: Vec<Value> = peer.delivered().iter().map(Delivered::json).collect();
        assert_eq!(bodies[0], bodies[1], "the same activity, under the same id");
        until("it is settled", async || place.count("deliveries").await == 0).await;
        peer.answer(|_| StatusCode::GONE);
        place.post(alice, "Into the void", Visibility::Public).await;
        until("it is tried", async || peer.delivered().len() == 3).await;
        until("it is given up", async || place.count("deliveries").await == 0).await;
        running.stop().await;
    }
}

#[tokio::test]
async fn a_delivery_is_not_led_on_to_a_server_that_is_blocked() {
    for place in places() {
        let (peer, other) = (Peer::start().await, Peer::start().await);
        let to = other.at("/inbox");
        peer.answer(move |_| (StatusCode::PERMANENT_REDIRECT, [(LOCATION, to.clone())]));
        let alice = place.person("alice").await;
        let bob = place.stranger(&peer, "bob").await;
        follows(&place, bob, alice).await;
        let running = place.start();
        came(&other, "Accept").await;
        until("it is taken", async || place.count("deliveries").await == 0).await;
        let signature = |of: &Peer| of.delivered()[0].headers["signature"].clone();
        assert_ne!(signature(&peer), signature(&other), "it is of what is asked");
        place.block(&other).await;
        place.post(alice, "Not for everybody", Visibility::Public).await;
        came(&peer, "Create").await;
        until("it is given up", async || place.count("deliveries").await == 0).await;
        assert!(other.activities("Create").is_empty());
        running.stop().await;
    }
}

#[tokio::test]
async fn a_delivery_that_is_led_in_a_circle_is_tried_again() {
    for place in places() {
        let (peer, other) = (Peer::start().await, Peer::start().await);
        for (from, to) in [(&peer, other.at("/inbox")), (&other, peer.at("/inbox"))] {
            from.answer(move |_| (StatusCode::PERMANENT_REDIRECT, [(LOCATION, to.clone())]));
        }
        let alice = place.person("alice").await;
        let bob = place.stranger(&peer, "bob").await;
        follows(&place, bob, alice).await;
        let running = place.start();
        until("it waits", async || place.count("jobs_later WHERE kind = 'redeliver'").await == 1)
            .await;
        assert_eq!((peer.delivered().len(), other.delivered().len()), (2, 1));
        peer.answer(|_| StatusCode::ACCEPTED);
        place.pass(60_000);
        until("it is taken", async || place.count("deliveries").await == 0).await;
        running.stop().await;
    }
}

#[tokio::test]
async fn each_deed_has_its_activity_and_reaches_whom_it_concerns() {
    for place in places() {
        let peer = Peer::start().await;
        let alice = place.person("alice").await;
        let bob = place.stranger(&peer, "bob").await;
        let running = place.start();
        let me = format!("http://weir.test/ap/users/{alice}");
        let wish = FollowWish::default();
        place
            .write(move |tx, env| relationships::follow(tx, env, alice, bob, &wish))
            .await
            .unwrap();
        let follow = came(&peer, "Follow").await;
        assert_eq!(
            (&follow["actor"], &follow["object"]),
            (&me.as_str().into(), &peer.actor("bob").into())
        );
        assert!(follow["id"].as_str().unwrap().starts_with(&format!("{me}#follows/")), "{follow}");
        place.write(move |tx, env| relationships::unfollow(tx, env, alice, bob)).await.unwrap();
        assert_eq!(undone(&peer, "Follow").await["id"], follow["id"]);

        let note = peer.write("bob", "A note", None);
        let found =
            weir_community::federation::Resolver::address(&place.face, &note).await.unwrap();
        let weir_community::federation::Found::Status(theirs) = found else { panic!("{found:?}") };
        place.write(move |tx, env| statuses::favourite(tx, env, alice, theirs)).await.unwrap();
        assert_eq!(came(&peer, "Like").await["object"], note);
        place.write(move |tx, env| statuses::unfavourite(tx, env, alice, theirs)).await.unwrap();
        assert_eq!(undone(&peer, "Like").await["object"], note);
        place.write(move |tx, env| statuses::boost(tx, env, alice, theirs, None)).await.unwrap();
        let announce = came(&peer, "Announce").await;
        assert_eq!(announce["object"], note);
        place.write(move |tx, env| statuses::unboost(tx, env, alice, theirs)).await.unwrap();
        assert_eq!(undone(&peer, "Announce").await["id"], announce["id"]);

        follows(&place, bob, alice).await;
        assert_eq!(came(&peer, "Accept").await["object"]["actor"], peer.actor("bob"));
        let mine = place.post(alice, "Mine", Visibility::Public).await;
        place.write(move |tx, env| statuses::pin(tx, env, alice, mine)).await.unwrap();
        assert_eq!(came(&peer, "Add").await["target"], format!("{me}/collections/featured"));
        place.write(move |tx, env| statuses::unpin(tx, env, alice, mine)).await.unwrap();
        assert_eq!(came(&peer, "Remove").await["object"], format!("{me}/statuses/{mine}"));
        place
            .write(move |tx, env| send(tx, env, alice, Message::UpdateStatus { status: mine }))
            .await
            .unwrap();
        assert_eq!(came(&peer, "Update").await["object"]["type"], "Note");
        place.write(move |tx, env| send(tx, env, alice, Message::UpdateActor)).await.unwrap();
        until("the profile", async || {
            let updates = peer.activities("Update");
            updates.iter().any(|update| update["object"]["publicKey"]["owner"] == me.as_str())
        })
        .await;
        place.write(move |tx, env| statuses::delete(tx, env, alice, mine)).await.unwrap();
        assert_eq!(came(&peer, "Delete").await["object"]["type"], "Tombstone");
        place.write(move |tx, env| relationships::block(tx, env, alice, bob, "")).await.unwrap();
        assert_eq!(came(&peer, "Block").await["object"], peer.actor("bob"));
        assert_eq!(came(&peer, "Reject").await["object"]["type"], "Follow");
        let farewell = Message::DeleteActor { actor: me.clone() };
        place.write(move |tx, env| send(tx, env, alice, farewell.clone())).await.unwrap();
        until("the farewell", async || {
            peer.activities("Delete").iter().any(|delete| delete["object"] == me.as_str())
        })
        .await;
        running.stop().await;
    }
}

#[tokio::test]
async fn what_was_taken_back_before_anybody_heard_of_it_is_not_told() {
    for place in places() {
        let peer = Peer::start().await;
        let alice = place.person("alice").await;
        let bob = place.stranger(&peer, "bob").await;
        let carol = place.stranger(&peer, "carol").await;
        let note = peer.write("bob", "A note", None);
        let found =
            weir_community::federation::Resolver::address(&place.face, &note).await.unwrap();
        let weir_community::federation::Found::Status(theirs) = found else { panic!("{found:?}") };
        let mine = place.post(alice, "Mine", Visibility::Public).await;
        follows(&place, bob, alice).await;
        follows(&place, carol, alice).await;
        place
            .write(move |tx, env| {
                relationships::end_quietly(tx, env, bob, alice)?;
                statuses::favourite(tx, env, alice, theirs)?;
                statuses::unfavourite(tx, env, alice, theirs)?;
                statuses::pin(tx, env, alice, mine)?;
                statuses::unpin(tx, env, alice, mine)?;
                relationships::block(tx, env, alice, bob, "")?;
                relationships::unblock(tx, env, alice, bob)
            })
            .await
            .unwrap();
        let running = place.start();
        until("all is told", async || {
            place.count("jobs WHERE kind = 'distribute'").await == 0
                && place.count("deliveries").await == 0
        })
        .await;
        let mut kinds: Vec<String> = peer.delivered().iter().map(Delivered::kind).collect();
        kinds.sort();
        assert_eq!(kinds, ["Accept", "Create", "Remove", "Undo", "Undo"]);
        assert_eq!(peer.activities("Accept")[0]["object"]["actor"], peer.actor("carol"));
        running.stop().await;
    }
}

#[tokio::test]
async fn what_is_for_one_goes_to_one_and_nothing_to_blocked_servers() {
    for place in places() {
        let (near, far) = (Peer::start().await, Peer::start().await);
        let alice = place.person("alice").await;
        let bob = place.stranger(&near, "bob").await;
        let carol = place.stranger(&far, "carol").await;
        follows(&place, bob, alice).await;
        follows(&place, carol, alice).await;
        let running = place.start();
        let text = format!("@bob@{} only you", near.domain());
        place.post(alice, &text, Visibility::Direct).await;
        let create = came(&near, "Create").await;
        assert_eq!(create["to"], serde_json::json!([near.actor("bob")]));
        place.block(&far).await;
        place.post(alice, "For all", Visibility::Public).await;
        until("the second post", async || near.activities("Create").len() == 2).await;
        until("nothing waits", async || place.count("deliveries").await == 0).await;
        assert!(far.activities("Create").is_empty());
        running.stop().await;
    }
}

#[tokio::test]
async fn an_inbox_on_a_blocked_server_gets_nothing_whosever_it_is_said_to_be() {
    for place in places() {
        let (near, far) = (Peer::start().await, Peer::start().await);
        let alice = place.person("alice").await;
        let bob = place.stranger(&near, "bob").await;
        let (base, pem, inbox) = (near.at(""), near.public_pem(), far.at("/inbox"));
        let carol = place.stranger_by(&base, &pem, "carol", inbox).await;
        follows(&place, bob, alice).await;
        follows(&place, carol, alice).await;
        far.answer(|_| StatusCode::SERVICE_UNAVAILABLE);
        let running = place.start();
        let waits = "jobs_later WHERE kind = 'redeliver'";
        until("one waits", async || place.count(waits).await == 1).await;
        far.answer(|_| StatusCode::ACCEPTED);
        let tried = far.delivered().len();
        assert_eq!(tried, 1, "before it is blocked, it is spoken with");
        place.block(&far).await;
        place.pass(60_000);
        until("what waited is given up", async || place.count("deliveries").await == 0).await;
        place.post(alice, "For all", Visibility::Public).await;
        came(&near, "Create").await;
        until("nothing waits", async || place.count("deliveries").await == 0).await;
        assert_eq!(far.delivered().len(), tried);
        assert_eq!(place.count("undelivered").await, 0, "it was not even meant for it");
        running.stop().await;
    }
}

/// alice has an account of `peer` follow her, and what that brought about is over.
async fn followed(place: &Place, peer: &Peer) -> Id {
    let alice = place.person("alice").await;
    let bob = place.stranger(peer, "bob").await;
    follows(place, bob, alice).await;
    came(peer, "Accept").await;
    until("nothing waits", async || place.count("deliveries").await == 0).await;
    until("this node knows of all", async || place.jobs.knows_all_that_waits()).await;
    alice
}

/// `by` writes, and its one inbox has it before its first try.
async fn overtake(place: &Place, by: Id) {
    place.post(by, "Hello", Visibility::Public).await;
    until("its first try waits", async || place.count("deliveries").await == 1).await;
    let take = |tx: &mut Tx, env: &Env| {
        let sql = "SELECT host, payload_id, inbox FROM deliveries";
        let (host, payload, inbox): (String, Id, String) =
            tx.query_one(sql, &[], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        outgoing::settle(tx, env, &host, &[Tried { payload, inbox, end: End::Taken }])
    };
    place.write(take).await.unwrap();
}

#[tokio::test]
async fn a_first_try_that_begins_late_leaves_out_who_got_the_message_meanwhile() {
    for place in places() {
        let peer = Peer::start().await;
        let running = place.start();
        let alice = followed(&place, &peer).await;
        place.jobs.pause("deliver").await.unwrap();
        overtake(&place, alice).await;
        place.pass(FIRST_TRY_MS);
        place.jobs.resume("deliver").await.unwrap();
        let first = "jobs WHERE kind = 'deliver'";
        until("it is over", async || place.count(first).await == 0).await;
        assert_eq!(peer.activities("Create").len(), 0);
        running.stop().await;
    }
}

#[tokio::test]
async fn beside_other_nodes_a_first_try_leaves_out_who_got_the_message_from_one_of_them() {
    // SQLite has one process.
    for place in places().into_iter().filter(Place::is_postgres) {
        let peer = Peer::start().await;
        let running = place.start();
        let alice = followed(&place, &peer).await;
        place.jobs.pause("deliver").await.unwrap();
        let other = place.start_another();
        until("they know of each other", async || !place.jobs.knows_all_that_waits()).await;
        overtake(&place, alice).await;
        place.jobs.resume("deliver").await.unwrap();
        let first = "jobs WHERE kind = 'deliver'";
        until("it is over", async || place.count(first).await == 0).await;
        assert_eq!(peer.activities("Create").len(), 0);
        other.stop().await;
        running.stop().await;
    }
}

#[tokio::test]
async fn a_failing_server_is_asked_in_turn_with_what_is_for_its_own_people() {
    for place in places() {
        let (near, far) = (Peer::start().await, Peer::start().await);
        let alice = place.person("alice").await;
        let bob = place.stranger(&far, "bob").await;
        follows(&place, bob, alice).await;
        for number in 0..4 {
            let (base, pem) = (near.at(""), near.public_pem());
            let inbox = far.at(&format!("/users/!{number}/inbox"));
            let carol = place.stranger_by(&base, &pem, &format!("carol{number}"), inbox).await;
            follows(&place, carol, alice).await;
        }
        let running = place.start();
        silence(&place, &far, alice, 4).await;
        let first = "jobs WHERE kind = 'deliver_rest'";
        until("all first tries are over", async || place.count(first).await == 0).await;
        let tried = far.delivered().len();
        for tries in 1..=6 {
            next_try(&place, &far).await;
            let asked = async || far.delivered().len() == tried + tries;
            until_tried(&place, "it is asked", asked).await;
            let told = async || host(&place, &far).await.next_try_at > Some(place.clock.now());
            until("it waits for longer", told).await;
        }
        let probes = far.delivered().split_off(tried);
        let own = probes.iter().filter(|it| !it.path.contains('!')).count();
        assert_eq!((own, probes.len()), (3, 6));
        running.stop().await;
    }
}

#[tokio::test]
async fn a_server_that_is_back_is_told_how_a_poll_stands_and_not_how_it_stood_before() {
    for place in places() {
        let peer = Peer::start().await;
        let alice = place.person("alice").await;
        let bob = place.stranger(&peer, "bob").await;
        follows(&place, bob, alice).await;
        let running = place.start();
        came(&peer, "Accept").await;
        silence(&place, &peer, alice, 3).await;
        let ask = move |tx: &mut Tx, env: &Env| {
            let poll = PollDraft {
                options: vec!["yes".into(), "no".into()],
                expires_in_s: 24 * 3_600,
                multiple: false,
                hide_totals: false,
            };
            let draft = Draft { text: "?".into(), poll: Some(poll), ..Draft::default() };
            let post = statuses::publish(tx, env, alice, &draft)?;
            Ok((post, statuses::by_id(tx, post)?.poll_id.unwrap()))
        };
        let (post, poll) = place.write(ask).await.unwrap();
        for (number, name) in (1..).zip(["carol", "dave", "erin"]) {
            let voter = place.person(name).await;
            let vote = move |tx: &mut Tx, env: &Env| statuses::vote(tx, env, voter, poll, &[0]);
            place.write(vote).await.unwrap();
            place.pass(6_000);
            let counts = "payloads WHERE is_count = 1";
            until("it is counted", async || place.count(counts).await == number).await;
        }
        let counts = "deliveries WHERE payload_id IN (SELECT id FROM payloads WHERE is_count = 1)";
        assert_eq!(place.count(counts).await, 1);
        peer.answer(|_| StatusCode::ACCEPTED);
        next_try(&place, &peer).await;
        until_tried(&place, "all is taken", async || {
            place.pass(1_000);
            place.count("deliveries").await == 0
        })
        .await;
        let updates = peer.activities("Update");
        let votes: Vec<&Value> =
            updates.iter().map(|it| &it["object"]["oneOf"][0]["replies"]["totalItems"]).collect();
        assert_eq!(votes, [3]);
        let told = place.read(move |tx, env| outgoing::arrivals(tx, env, post)).await.unwrap();
        let told = told.unwrap();
        assert_eq!((told.inboxes, told.delivered), (2, 2), "the post and the last count");
        running.stop().await;
    }
}
