//! What is told of what goes to other servers.

use std::time::Duration;

use weir_base::Id;
use weir_community::federation::outgoing::{self, Arrival, End, FIRST_TRY_MS, Shipment, Tried};
use weir_community::federation::{Inbox, Reach};
use weir_community::hosts::{self, Condition};
use weir_community::statuses::Visibility;
use weir_community::{Env, Error};
use weir_db::{Tx, params};

use crate::place::places;

const HOUR_MS: i64 = 3_600 * 1_000;

/// A message of `by` about `post` goes out to one inbox on each of `hosts`.
fn ship(tx: &mut Tx, env: &Env, by: Id, post: Id, hosts: &[&str]) -> Result<Id, Error> {
    let inbox =
        |host: &&str| Inbox { url: format!("https://{host}/inbox"), domain: (*host).to_owned() };
    let reach = Reach { inboxes: hosts.iter().map(inbox).collect(), ..Reach::default() };
    let shipment = shipment(env, by, post);
    outgoing::ship(tx, env, &shipment, &reach, |_| false)?;
    Ok(shipment.id)
}

/// A message of `by` about `post`.
fn shipment(env: &Env, by: Id, post: Id) -> Shipment {
    Shipment {
        id: env.ids.next(),
        by,
        body: "{}".into(),
        subject: format!("https://weir.test/posts/{post}"),
        passed_on: false,
        about: Some(post),
    }
}

#[tokio::test]
async fn where_a_post_went_is_told_however_often_its_poll_was_counted_since() {
    for place in places() {
        let alice = place.person("alice").await;
        let post = place.post(alice, "Which of these?", Visibility::Public).await;
        let everywhere = &["far.test", "near.test"];
        let create =
            place.write(move |tx, env| ship(tx, env, alice, post, everywhere)).await.unwrap();
        let count = move |tx: &mut Tx, env: &Env| {
            for _ in 0..40 {
                ship(tx, env, alice, post, &["near.test"])?;
            }
            Ok(())
        };
        place.write(count).await.unwrap();
        let read = place.read(move |tx, env| outgoing::arrivals(tx, env, post)).await;
        let told = read.unwrap().expect("it went out");
        assert_eq!(told.sent_at, create.time());
        let hosts: Vec<_> = told.hosts.iter().map(|it| (&*it.host, it.arrival)).collect();
        assert_eq!(hosts, [("far.test", Arrival::Waiting), ("near.test", Arrival::Waiting)]);
        assert_eq!((told.inboxes, told.waiting), (22, 22), "of the newest 20 and the first");
    }
}

#[tokio::test]
async fn the_dead_stand_behind_those_that_may_come_back_and_who_is_not_named_is_counted() {
    for place in places() {
        let meet = |tx: &mut Tx, env: &Env| {
            let now = env.clock.now();
            let mut is_down = |host: &str, hours: i64| {
                let since = now.plus_ms(-hours * HOUR_MS);
                hosts::is_down(tx, host, "no answer", 1, since, now)
            };
            for number in 0..1_000 {
                is_down(&format!("dead{number:04}.test"), 8 * 24)?;
            }
            is_down("older.test", 48)?;
            is_down("newer.test", 1)?;
            is_down("oldest.test", 1_000 * 24)?;
            hosts::is_behind(tx, "back.test", now)
        };
        place.write(meet).await.unwrap();
        let told = place.read(outgoing::overview).await.unwrap();
        let first = told.troubled.iter().take(4).map(|(host, at, _)| (&*host.domain, *at));
        assert_eq!(
            first.collect::<Vec<_>>(),
            [
                ("back.test", Condition::CatchingUp),
                ("newer.test", Condition::Failing),
                ("older.test", Condition::Failing),
                ("dead0000.test", Condition::Dead),
            ]
        );
        assert_eq!((told.troubled.len(), told.unnamed_hosts), (1_000, 4));
        let named = |name: &str| told.troubled.iter().any(|(host, ..)| host.domain == name);
        assert!(!named("oldest.test"), "who was silent longest is the first not to be named");
    }
}

#[tokio::test]
async fn a_server_is_not_asked_with_what_may_have_its_first_try_before_it() {
    for place in places() {
        let alice = place.person("alice").await;
        let send = move |post| {
            move |tx: &mut Tx, env: &Env| ship(tx, env, alice, Id(post), &["down.test"])
        };
        let left = place.write(send(1)).await.unwrap();
        let tried = place.write(send(2)).await.unwrap();
        let asked_with = async || {
            let read = |tx: &mut Tx, env: &Env| {
                let now = env.clock.now();
                let each = [true, false].map(|own| outgoing::probe(tx, "down.test", now, own));
                Ok(each.map(|found| found.unwrap().map(|found| found.payload_id)))
            };
            let [own, any] = place.read(read).await.unwrap();
            assert_eq!(own, any, "{}", place.name());
            own
        };
        assert_eq!(asked_with().await, None, "{}: both may", place.name());
        let settle = |end: End| {
            let inbox = String::from("https://down.test/inbox");
            let tries = [Tried { payload: tried, inbox, end }];
            move |tx: &mut Tx, env: &Env| outgoing::settle(tx, env, "down.test", &tries)
        };
        let next_at = place.clock.now().plus_ms(HOUR_MS);
        place.write(settle(End::NotYet { reason: "no answer".into(), next_at })).await.unwrap();
        assert_eq!(asked_with().await, Some(tried), "{}: however late it is due", place.name());
        place.write(settle(End::Taken)).await.unwrap();
        assert_eq!(asked_with().await, None, "{}", place.name());
        place.clock.advance(FIRST_TRY_MS);
        assert_eq!(asked_with().await, Some(left), "{}: that time is over", place.name());
    }
}

#[tokio::test]
async fn a_unit_that_has_had_its_time_leaves_the_rest_of_the_bodies_to_another() {
    for place in places() {
        let alice = place.person("alice").await;
        let say = move |tx: &mut Tx, env: &Env| {
            let waits = ship(tx, env, alice, Id(1), &["other.test"])?;
            let mut bodies = vec![waits];
            for _ in 1..450 {
                bodies.push(ship(tx, env, alice, Id(1), &[])?);
            }
            Ok(bodies)
        };
        let bodies = place.write(say).await.unwrap();
        for (done, left) in [(0, 251), (200, 51)] {
            let rest = bodies[done..].to_vec();
            let forget = move |tx: &mut Tx, _: &Env| {
                while tx.elapsed() < Duration::from_millis(5) {
                    std::hint::spin_loop();
                }
                outgoing::forget_bodies(tx, &rest)
            };
            assert_eq!(place.write(forget).await.unwrap(), Some(bodies[done + 199]));
            let count = "SELECT count(*) FROM payloads";
            let count = place.read(move |tx, _| Ok(tx.value::<i64>(count, &[])?)).await;
            assert_eq!(count.unwrap(), Some(left), "the first is waited for");
        }
    }
}

#[tokio::test]
async fn what_is_for_a_servers_own_people_is_found_among_what_strangers_have_go_there() {
    for place in places() {
        let wait = |tx: &mut Tx, _: &Env| {
            let rows = [(1, "own", 3), (2, "stranger", 0), (3, "stranger", 0), (4, "own", 4)];
            for (payload, whose, tries) in rows {
                let (inbox, domain) = match whose {
                    "own" => ("https://down.test/inbox", "down.test"),
                    _ => ("https://down.test/!", "stranger.test"),
                };
                tx.run(
                    "INSERT INTO deliveries (host, payload_id, inbox, domain, tries)
                     VALUES ('down.test', ?1, ?2, ?3, ?4)",
                    params![payload, inbox, domain, tries],
                )?;
            }
            Ok(())
        };
        place.write(wait).await.unwrap();
        let asked_with = async |host: &'static str, own| {
            let read =
                move |tx: &mut Tx, env: &Env| outgoing::probe(tx, host, env.clock.now(), own);
            place.read(read).await.unwrap().map(|found| found.payload_id)
        };
        assert_eq!(asked_with("down.test", true).await, Some(Id(1)), "{}", place.name());
        assert_eq!(asked_with("down.test", false).await, Some(Id(2)), "{}", place.name());
        let moved =
            |tx: &mut Tx, _: &Env| Ok(tx.run("UPDATE deliveries SET host = 'other.test'", &[])?);
        place.write(moved).await.unwrap();
        assert_eq!(asked_with("other.test", true).await, Some(Id(2)), "none is for its own people");
    }
}

#[tokio::test]
async fn who_is_told_what_follows_waits_for_what_is_for_the_same_inboxes_and_for_nothing_else() {
    for place in places() {
        let alice = place.person("alice").await;
        let say = move |tx: &mut Tx, env: &Env| {
            for _ in 0..3 {
                ship(tx, env, alice, Id(1), &["far.test", "near.test"])?;
            }
            let inbox = |host: &str| Inbox {
                url: format!("https://{host}/inbox"),
                domain: host.to_owned(),
            };
            let inboxes = ["near.test", "new.test"].map(inbox).to_vec();
            let reach = Reach { inboxes, ..Reach::default() };
            outgoing::waiting_for(tx, &shipment(env, alice, Id(1)), &reach)
        };
        let waiting = place.write(say).await.unwrap();
        let near = ("https://near.test/inbox".to_owned(), "near.test".to_owned());
        assert_eq!(waiting.into_iter().collect::<Vec<_>>(), [near], "{}", place.name());
    }
}
