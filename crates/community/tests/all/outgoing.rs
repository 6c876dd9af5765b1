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
    ship_as(tx, env, &shipment(env, by, post), hosts)
}

/// The same, whatever waits.
fn ship_as(tx: &mut Tx, env: &Env, shipment: &Shipment, hosts: &[&str]) -> Result<Id, Error> {
    outgoing::ship(tx, env, shipment, &reach(hosts), |_| false)?;
    Ok(shipment.id)
}

/// One inbox on each of `hosts`.
fn reach(hosts: &[&str]) -> Reach {
    let inbox =
        |host: &&str| Inbox { url: format!("https://{host}/inbox"), domain: (*host).to_owned() };
    Reach { inboxes: hosts.iter().map(inbox).collect(), ..Reach::default() }
}

/// A message of `by` about `post`.
fn shipment(env: &Env, by: Id, post: Id) -> Shipment {
    Shipment {
        id: env.ids.next(),
        by,
        body: "{}".into(),
        subject: format!("https://weir.test/posts/{post}"),
        passed_on: false,
        is_count: false,
        about: Some(post),
    }
}

/// The same as the face sends it: behind what waits for the same inboxes.
fn follow_up(tx: &mut Tx, env: &Env, shipment: Shipment, hosts: &[&str]) -> Result<Id, Error> {
    let reach = reach(hosts);
    outgoing::replace_counts(tx, &shipment, &reach)?;
    let waiting = outgoing::waiting_for(tx, &shipment, &reach)?;
    outgoing::ship(tx, env, &shipment, &reach, |inbox| waiting.contains_key(&inbox.url))?;
    Ok(shipment.id)
}

/// `host` has taken message `payload`.
fn taken(tx: &mut Tx, env: &Env, host: &str, payload: Id) -> Result<(), Error> {
    let inbox = format!("https://{host}/inbox");
    outgoing::settle(tx, env, host, &[Tried { payload, inbox, end: End::Taken }])
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
            let reach = reach(&["near.test", "new.test"]);
            outgoing::waiting_for(tx, &shipment(env, alice, Id(1)), &reach)
        };
        let waiting = place.write(say).await.unwrap();
        let near = ("https://near.test/inbox".to_owned(), "near.test".to_owned());
        assert_eq!(waiting.into_iter().collect::<Vec<_>>(), [near], "{}", place.name());
    }
}

#[tokio::test]
async fn of_all_counts_of_a_poll_the_last_waits_and_one_that_may_be_on_its_way() {
    for place in places() {
        let alice = place.person("alice").await;
        let post = place.post(alice, "Which of these?", Visibility::Public).await;
        let everywhere = &["far.test", "near.test"];
        let count = move |tx: &mut Tx, env: &Env| {
            let count = Shipment { is_count: true, ..shipment(env, alice, post) };
            let id = follow_up(tx, env, count, everywhere)?;
            taken(tx, env, "near.test", id)?;
            Ok::<_, Error>(id)
        };
        let waiting = async || {
            let sql = "SELECT payload_id FROM deliveries WHERE host = 'far.test' ORDER BY 1";
            place.read(move |tx, _| Ok(tx.column::<Id>(sql, &[])?)).await.unwrap()
        };
        let say = move |tx: &mut Tx, env: &Env| {
            let create = follow_up(tx, env, shipment(env, alice, post), everywhere)?;
            taken(tx, env, "near.test", create)?;
            let counts: Vec<Id> = (0..30).map(|_| count(tx, env)).collect::<Result<_, _>>()?;
            Ok((create, counts[29]))
        };
        let (create, last) = place.write(say).await.unwrap();
        assert_eq!(waiting().await, [create, last], "{}", place.name());
        let told = async || {
            let read = place.read(move |tx, env| outgoing::arrivals(tx, env, post)).await;
            read.unwrap().expect("it went out")
        };
        let hosts = |told: &outgoing::Arrivals| -> Vec<(String, Arrival, usize)> {
            told.hosts.iter().map(|it| (it.host.clone(), it.arrival, it.inboxes)).collect()
        };
        // The newest 20 and the first: near has each of these, far two of them.
        let known = told().await;
        assert_eq!((known.inboxes, known.delivered, known.waiting), (23, 21, 2));
        let [near, far] = ["near.test", "far.test"].map(str::to_owned);
        let both = [(far.clone(), Arrival::Waiting, 2), (near.clone(), Arrival::Delivered, 21)];
        assert_eq!(hosts(&known), both);
        // The last may be on its way once nothing is before it; an edit is always told.
        let more = move |tx: &mut Tx, env: &Env| {
            taken(tx, env, "far.test", create)?;
            count(tx, env)?;
            let edit = follow_up(tx, env, shipment(env, alice, post), everywhere)?;
            taken(tx, env, "near.test", edit)?;
            count(tx, env)?;
            Ok((edit, count(tx, env)?))
        };
        let (edit, newest) = place.write(more).await.unwrap();
        assert_eq!(waiting().await, [last, edit, newest], "{}", place.name());
        let all = move |tx: &mut Tx, env: &Env| {
            [last, edit, newest].iter().try_for_each(|id| taken(tx, env, "far.test", *id))
        };
        place.write(all).await.unwrap();
        let known = told().await;
        assert_eq!((known.inboxes, known.delivered, known.waiting), (25, 25, 0));
        let both = [(far, Arrival::Delivered, 4), (near, Arrival::Delivered, 21)];
        assert_eq!(hosts(&known), both, "{}", place.name());
    }
}

#[tokio::test]
async fn a_count_replaces_none_that_may_be_on_its_way_or_goes_where_it_does_not() {
    for place in places() {
        let alice = place.person("alice").await;
        let say = move |tx: &mut Tx, env: &Env| {
            let count = |env: &Env| Shipment { is_count: true, ..shipment(env, alice, Id(1)) };
            let ids = [
                follow_up(tx, env, shipment(env, alice, Id(1)), &["far.test", "left.test"])?,
                // It has a first try of its own, whatever it stands behind.
                ship_as(tx, env, &count(env), &["far.test"])?,
                follow_up(tx, env, count(env), &["far.test", "left.test"])?,
                follow_up(tx, env, count(env), &["far.test"])?,
            ];
            let waits = |tx: &mut Tx, host: &str| {
                let sql = "SELECT payload_id FROM deliveries WHERE host = ?1 ORDER BY 1";
                tx.column::<Id>(sql, params![host])
            };
            Ok((ids, waits(tx, "far.test")?, waits(tx, "left.test")?))
        };
        let ([create, tried, both, last], far, left) = place.write(say).await.unwrap();
        assert_eq!(far, [create, tried, last], "{}", place.name());
        assert_eq!(left, [create, both], "{}", place.name());
    }
}
