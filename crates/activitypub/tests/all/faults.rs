//! What may go wrong elsewhere while a flood comes in, and whom it harms.

use http::StatusCode;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::broadcast;
use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio::task::JoinHandle;
use weir_activitypub::signature::Form;
use weir_activitypub::signature::key::PrivateKey;
use weir_community::{Env, Error};
use weir_db::Tx;

use crate::inbox::{INBOX, actor_of, create, send};
use crate::peer::Peer;
use crate::place::{Place, hasty_places, narrow_places, patient_places, places, until};

/// So many times as many messages where the full numbers are asked for.
fn times() -> usize {
    if std::env::var_os("WEIR_TEST_LONG").is_some() { 50 } else { 1 }
}

/// Sends notes `numbers` of `name`, signed with `key` (none: the peer's); each must be taken.
async fn flood(
    place: &Place,
    peer: &Peer,
    name: &str,
    whom: &str,
    numbers: std::ops::Range<usize>,
    key: Option<&PrivateKey>,
) {
    for number in numbers {
        let body = create(peer, name, number, whom).to_string().into_bytes();
        let now = place.clock.now();
        let headers = peer.sign_post(Form::Cavage, key, name, INBOX, &body, now);
        assert_eq!(place.send("/inbox", headers, body).await, 202, "{name}: {number}");
    }
}

/// Waits until so many posts are here. Time passes meanwhile: while many messages wait, others give
/// way to them, and for a while after.
async fn until_here(place: &Place, what: &str, count: usize) {
    until(what, async || {
        place.pass(1);
        place.count("statuses").await as usize == count
    })
    .await;
}

/// A server elsewhere, and the actor here that it writes to.
async fn apart(place: &Place) -> (Peer, String) {
    let peer = Peer::start().await;
    let alice = place.person("alice").await;
    let alice = actor_of(place, alice).await;
    (peer, alice)
}

/// The same, where bob of over there is known here.
async fn met(place: &Place) -> (Peer, String) {
    let (peer, alice) = apart(place).await;
    place.stranger(&peer, "bob").await;
    (peer, alice)
}

#[tokio::test]
async fn a_key_that_is_renewed_in_mid_flood_costs_one_look_and_no_message() {
    let each = 10 * times();
    for place in places() {
        let (peer, alice) = met(&place).await;
        place.stranger(&peer, "carol").await;
        let new = PrivateKey::generate_rsa().unwrap();
        flood(&place, &peer, "bob", &alice, 0..each, None).await;
        peer.put("/users/bob", peer.actor_with("bob", &new.public().unwrap().to_pem()));
        // What is known of the old one is older than these.
        place.pass(1_000);
        flood(&place, &peer, "bob", &alice, each..2 * each, Some(&new)).await;
        flood(&place, &peer, "carol", &alice, 2 * each..3 * each, None).await;
        let running = place.start();
        until_here(&place, "what came before", 3 * each).await;
        flood(&place, &peer, "bob", &alice, 3 * each..4 * each, Some(&new)).await;
        until_here(&place, "what came after", 4 * each).await;
        let looks = peer.fetched().iter().filter(|path| *path == "/users/bob").count();
        assert_eq!(looks, 1);
        running.stop().await;
    }
}

#[tokio::test]
async fn actors_that_vanish_in_mid_flood_leave_nothing_waiting_and_harm_nobody() {
    // Of one server, of which no more than 300 are looked for in a minute.
    let (ghosts, each) = (5 * times().min(20), 10 * times());
    for place in places() {
        let (peer, alice) = met(&place).await;
        place.stranger(&peer, "eve").await;
        for ghost in 0..ghosts {
            let name = format!("ghost{ghost}");
            flood(&place, &peer, &name, &alice, ghost..ghost + 1, None).await;
            peer.withhold(&format!("/users/{name}"), StatusCode::GONE);
        }
        // One that is known goes after it wrote, and says so.
        flood(&place, &peer, "eve", &alice, 1_000..1_002, None).await;
        peer.withhold("/users/eve", StatusCode::GONE);
        let eve = peer.actor("eve");
        let id = format!("{eve}#gone");
        let gone = json!({ "id": id, "type": "Delete", "actor": eve, "object": eve });
        assert_eq!(send(&place, &peer, Form::Cavage, "eve", &gone).await, 202);
        flood(&place, &peer, "bob", &alice, 2_000..2_000 + each, None).await;
        let running = place.start();
        until_here(&place, "those of bob", each).await;
        until("an end", async || {
            place.pass(1);
            place.count("jobs").await + place.count("jobs_later").await == 0
        })
        .await;
        assert_eq!(place.count("statuses").await as usize, each, "eve's are gone");
        assert_eq!(place.count("jobs_dead").await, 0);
        running.stop().await;
    }
}

/// A server that begins each answer and sends a byte of it whenever it is told to, and never comes
/// to its end.
struct Drip {
    base: String,
    /// An answer was begun.
    begun: UnboundedReceiver<()>,
    more: broadcast::Sender<()>,
    serving: JoinHandle<()>,
}

impl Drip {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let (tell, begun) = mpsc::unbounded_channel();
        let (more, _) = broadcast::channel::<()>(1_000);
        let bytes = more.clone();
        let serving = tokio::spawn(async move {
            while let Ok((mut socket, _)) = listener.accept().await {
                let (tell, mut bytes) = (tell.clone(), bytes.subscribe());
                tokio::spawn(async move {
                    let mut asked = [0; 1_024];
                    let _ = socket.read(&mut asked).await;
                    let head = b"HTTP/1.1 200 OK\r\ncontent-type: application/activity+json\r\n\
                                 content-length: 5000\r\n\r\n{";
                    let _ = socket.write_all(head).await;
                    let _ = tell.send(());
                    while bytes.recv().await.is_ok() && socket.write_all(b" ").await.is_ok() {}
                });
            }
        });
        Self { base, begun, more, serving }
    }

    fn stop(self) {
        self.serving.abort();
    }
}

#[tokio::test]
async fn a_key_that_comes_a_byte_at_a_time_holds_up_nobody_else() {
    let each = 5 * times();
    for place in places() {
        let (peer, alice) = met(&place).await;
        let mut drip = Drip::start().await;
        let running = place.start();
        flood(&place, &peer.elsewhere(&drip.base), "drip", &alice, 0..each, None).await;
        drip.begun.recv().await.unwrap();
        // While that is open, those who are known and those who are not get through.
        flood(&place, &peer, "bob", &alice, 1_000..1_000 + 2 * each, None).await;
        flood(&place, &peer, "carol", &alice, 2_000..2_000 + each, None).await;
        until_here(&place, "all others", 3 * each).await;
        drip.stop();
        running.stop().await;
    }
}

#[tokio::test]
async fn an_answer_that_comes_a_byte_at_a_time_ends_at_its_deadline_and_is_its_servers_failure() {
    for place in hasty_places() {
        let (peer, alice) = met(&place).await;
        let mut drip = Drip::start().await;
        let running = place.start();
        flood(&place, &peer.elsewhere(&drip.base), "drip", &alice, 0..3, None).await;
        drip.begun.recv().await.unwrap();
        // However steadily bytes come, the answer is given up: each message waits for its retry.
        until("the deadline", async || {
            let _ = drip.more.send(());
            // One that was put off just as the answer was given up waits by the clock.
            place.pass(10);
            place.count("jobs_later WHERE failures >= 1").await == 3
        })
        .await;
        let host = drip.base.trim_start_matches("http://").to_owned();
        let report = place.fetch.hosts();
        assert_eq!(report.iter().map(|host| &host.host).collect::<Vec<_>>(), [&host]);
        assert_eq!(report[0].running, 0, "{report:?}");
        flood(&place, &peer, "bob", &alice, 20..25, None).await;
        until("all others", async || place.count("statuses").await == 5).await;
        drip.stop();
        running.stop().await;
    }
}

#[tokio::test]
async fn a_message_for_whose_sender_there_is_no_place_now_has_not_failed() {
    for place in narrow_places() {
        let (peer, alice) = apart(&place).await;
        let mut drip = Drip::start().await;
        let running = place.start();
        let there = peer.elsewhere(&drip.base);
        flood(&place, &there, "one", &alice, 0..1, None).await;
        drip.begun.recv().await.unwrap();
        flood(&place, &there, "other", &alice, 1..2, None).await;
        until("it is put off", async || {
            place.count("jobs_later WHERE reason LIKE 'too many%'").await == 1
        })
        .await;
        assert_eq!(place.count("jobs_later WHERE failures > 0 OR state <> 0").await, 0);
        let stats = place.jobs.stats().await.unwrap();
        let kind = stats.kinds.iter().find(|kind| kind.kind == "unverified").unwrap();
        assert!(kind.postponed >= 2 && kind.retried == 0, "{kind:?}");
        drip.stop();
        running.stop().await;
    }
}

#[tokio::test]
async fn who_finds_too_many_keys_wanted_comes_again_long_before_those_who_wait_for_theirs() {
    for place in patient_places() {
        let (peer, alice) = apart(&place).await;
        let drip = Drip::start().await;
        let running = place.start();
        let there = peer.elsewhere(&drip.base);
        for number in 0..251 {
            let name = format!("name{number}");
            flood(&place, &there, &name, &alice, number..number + 1, None).await;
        }
        let put_off = async || place.count("jobs_later WHERE kind = 'unverified'").await;
        until("each is put off", async || put_off().await == 251).await;
        let in_a_minute = place.clock.now().plus_ms(60_000).as_ms();
        let soon = format!("jobs_later WHERE kind = 'unverified' AND due_at < {in_a_minute}");
        assert_eq!(
            place.count(&soon).await,
            1,
            "250 keys of one server are wanted at once by one network"
        );
        drip.stop();
        running.stop().await;
    }
}

#[tokio::test]
async fn what_asks_a_silent_server_holds_up_nothing_that_came_with_it() {
    for place in patient_places() {
        let (peer, alice) = met(&place).await;
        // Connections are taken by the system, and nothing is ever answered.
        let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let elsewhere = format!("http://{}/users/bob", silent.local_addr().unwrap());
        let bob = peer.actor("bob");
        let moved = json!({
            "@context": "https://www.w3.org/ns/activitystreams",
            "id": format!("{bob}#moved"), "type": "Move", "actor": bob, "object": bob,
            "target": elsewhere,
        });
        assert_eq!(send(&place, &peer, Form::Cavage, "bob", &moved).await, 202);
        flood(&place, &peer, "bob", &alice, 0..10, None).await;
        let running = place.start();
        until("all others", async || place.count("statuses").await == 10).await;
        until("it waits by itself", async || {
            place.count("jobs WHERE kind = 'look_up'").await == 1 && place.count("jobs").await == 1
        })
        .await;
        drop(silent);
        running.stop().await;
    }
}

/// Has every write to what messages become end as on a full disk while `disk_is_full` holds a row.
async fn set_up_full_disk(place: &Place) {
    let set_up = |tx: &mut Tx, _: &Env| {
        tx.execute("CREATE TABLE disk_is_full (since BIGINT NOT NULL)", &[])?;
        tx.execute(
            "CREATE FUNCTION extend_file() RETURNS trigger LANGUAGE plpgsql AS '
               BEGIN
                 IF EXISTS (SELECT 1 FROM disk_is_full) THEN
                   RAISE EXCEPTION ''could not extend file'' USING ERRCODE = ''53100'';
                 END IF;
                 RETURN NULL;
               END'",
            &[],
        )?;
        for table in ["jobs", "jobs_later", "statuses", "accounts", "notifications"] {
            let sql = format!(
                "CREATE TRIGGER full_disk BEFORE INSERT OR DELETE ON {table}
                 FOR EACH STATEMENT EXECUTE FUNCTION extend_file()"
            );
            tx.execute(&sql, &[])?;
        }
        Ok::<_, Error>(())
    };
    place.write(set_up).await.unwrap();
}

#[tokio::test]
async fn while_the_disk_of_postgresql_is_full_messages_are_refused_and_none_that_was_taken_is_lost()
{
    for place in places().into_iter().filter(Place::is_postgres) {
        let (peer, alice) = met(&place).await;
        set_up_full_disk(&place).await;
        let fill = |tx: &mut Tx, _: &Env| {
            Ok::<_, Error>(tx.execute("INSERT INTO disk_is_full VALUES (1)", &[])?)
        };
        let running = place.start();
        flood(&place, &peer, "bob", &alice, 0..10, None).await;
        flood(&place, &peer, "carol", &alice, 10..15, None).await;
        // In mid flood: what was taken is worked, waits, or is being looked up.
        place.write(fill).await.unwrap();
        for number in 20..25 {
            for name in ["bob", "dave"] {
                let note = create(&peer, name, number, &alice);
                let status = send(&place, &peer, Form::Cavage, name, &note).await;
                assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{name}: {number}");
            }
        }
        let clear =
            |tx: &mut Tx, _: &Env| Ok::<_, Error>(tx.execute("DELETE FROM disk_is_full", &[])?);
        place.write(clear).await.unwrap();
        // What was refused comes again, and is no repetition.
        flood(&place, &peer, "bob", &alice, 20..25, None).await;
        until("all that was taken", async || {
            place.pass(20_000);
            place.count("statuses").await == 20
        })
        .await;
        assert_eq!(place.count("notifications").await, 20, "each is had once");
        let stats = place.jobs.stats().await.unwrap();
        let mut ours =
            stats.kinds.iter().filter(|it| ["inbound", "unverified"].contains(&&*it.kind));
        assert!(ours.all(|kind| kind.retried == 0), "no message failed: {:?}", stats.kinds);
        assert_eq!(place.count("jobs_dead").await, 0);
        running.stop().await;
    }
}

/// How many signatures are forged in one test.
fn forgeries() -> usize {
    if std::env::var_os("WEIR_TEST_LONG").is_some() { 100_000 } else { 300 }
}

#[tokio::test]
async fn a_network_that_forges_signatures_costs_a_few_looks_and_slows_nobody_else() {
    for place in places() {
        let (peer, alice) = met(&place).await;
        place.stranger(&peer, "carol").await;
        let running = place.start();
        let forger = PrivateKey::generate_rsa().unwrap();
        let (mut taken, mut refused) = (0, 0);
        for number in 0..forgeries() {
            // By turns as one who is known and as ever other ones who are not.
            let name = if number % 2 == 0 { "bob".into() } else { format!("nobody{number}") };
            let body = create(&peer, &name, number, &alice).to_string().into_bytes();
            let now = place.clock.now();
            let headers = peer.sign_post(Form::Cavage, Some(&forger), &name, INBOX, &body, now);
            match place.send_from([198, 51, 100, 7], "/inbox", headers, body).await {
                StatusCode::ACCEPTED => taken += 1,
                _ => refused += 1,
            }
            // Meanwhile others get through, from elsewhere and with the names that were forged.
            if number % 50 == 49 {
                let body = create(&peer, "bob", 1_000_000 + number, &alice);
                let body = body.to_string().into_bytes();
                let headers = peer.sign_post(Form::Cavage, None, "bob", INBOX, &body, now);
                assert_eq!(place.send("/inbox", headers, body).await, 202);
            }
        }
        assert!(refused > 0, "{taken} were taken");
        let good = forgeries() / 50;
        until("the good ones", async || place.count("statuses").await == good as i64).await;
        until("all was looked at", async || place.count("jobs").await == 0).await;
        assert_eq!(place.count("statuses").await, good as i64, "nothing forged came in");
        assert_eq!(place.count("jobs_dead").await, 0);
        // So many requests to one server are made in a minute.
        let looks = peer.fetched().len();
        assert!(looks <= 300, "{looks} looks for {} forgeries", forgeries());
        running.stop().await;
    }
}

#[tokio::test]
async fn what_waits_for_a_dead_server_is_counted_between_its_tries_too() {
    for place in places() {
        let (peer, alice) = apart(&place).await;
        let dead = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let there = peer.elsewhere(&format!("http://{}", dead.local_addr().unwrap()));
        drop(dead);
        let running = place.start();
        flood(&place, &there, "one", &alice, 0..1_000, None).await;
        until("each was tried", async || {
            place.count("jobs").await == 0
                && place.count("jobs_later WHERE kind = 'unverified' AND state = 1").await > 990
        })
        .await;
        // Of what was taken is known only what is counted, as after a restart.
        place.pass(1_000);
        let more = create(&there, "other", 1_000, &alice);
        assert_eq!(send(&place, &there, Form::Cavage, "other", &more).await, 429);
        assert_eq!(place.count("jobs_later WHERE kind = 'unverified'").await, 1_000);
        let elsewhere = create(&peer, "carol", 1, &alice);
        assert_eq!(send(&place, &peer, Form::Cavage, "carol", &elsewhere).await, 202);
        running.stop().await;
    }
}
