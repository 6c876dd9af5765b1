//! Signed activities of several servers, sent to the door in any order, some of them twice, before
//! the workers start and while they work: what is left in the end is what their own order leaves.

use http::{HeaderMap, StatusCode};
use serde_json::{Value, json};
use weir_activitypub::signature::Form;
use weir_base::{Random, Timestamp};
use weir_community::Env;
use weir_community::relationships::{self, FollowWish};
use weir_community::statuses::Visibility;
use weir_db::{Row, Tx};

use crate::inbox::{INBOX, actor_of};
use crate::peer::Peer;
use crate::place::{Place, places, until};

const PUBLIC: &str = "https://www.w3.org/ns/activitystreams#Public";
/// Who lives where: two of them on one server.
const ACTORS: [(usize, &str); 4] = [(0, "ann"), (0, "ben"), (1, "cat"), (2, "dan")];
const SERVERS: usize = 3;
const NOTES: usize = 7;
const LENGTH: usize = 45;

/// Histories that are tried.
fn histories() -> u64 {
    if std::env::var_os("WEIR_TEST_LONG").is_some() { 40 } else { 2 }
}

/// People here, and the servers of those who write to them.
struct Universe {
    peers: Vec<Peer>,
    alice: String,
    bob: String,
    post: String,
}

/// What is sent: who says it from where, and when it was signed.
struct Message {
    actor: usize,
    activity: Value,
    signed_at: Timestamp,
}

impl Universe {
    /// The same people in each place, who know those actors.
    async fn new(place: &Place, peers: &[Peer]) -> Self {
        let alice = place.person("alice").await;
        let bob = place.person("bob").await;
        for (peer, name) in ACTORS {
            let actor = place.stranger(&peers[peer], name).await;
            let follow = move |tx: &mut Tx, env: &Env| {
                relationships::follow(tx, env, alice, actor, &FollowWish::default())?;
                relationships::accept_request(tx, env, actor, alice)
            };
            place.write(follow).await.unwrap();
        }
        let post = place.post(alice, "a post", Visibility::Public).await;
        let (alice, bob) = (actor_of(place, alice).await, actor_of(place, bob).await);
        let post = format!("{alice}/statuses/{post}");
        Self { peers: peers.to_vec(), alice, bob, post }
    }

    fn peer(&self, actor: usize) -> &Peer {
        &self.peers[ACTORS[actor].0]
    }

    fn actor(&self, actor: usize) -> String {
        self.peer(actor).actor(ACTORS[actor].1)
    }

    fn author(note: usize) -> usize {
        note % ACTORS.len()
    }

    fn note_uri(&self, note: usize) -> String {
        self.peer(Self::author(note)).at(&format!("/posts/{note}"))
    }

    /// Version `edit` of a note.
    fn note(&self, note: usize, edit: i64) -> Value {
        let published = Timestamp::from_ms(1_699_999_000_000 + 1_000 * note as i64);
        let whom = if edit % 2 == 1 { &self.alice } else { &self.bob };
        let in_reply_to = match note {
            0 | 5 => None,
            1 => Some(self.post.clone()),
            _ => Some(self.note_uri(note - 1)),
        };
        let mut value = json!({
            "@context": "https://www.w3.org/ns/activitystreams",
            "id": self.note_uri(note),
            "type": "Note",
            "attributedTo": self.actor(Self::author(note)),
            "content": format!("<p>version {edit}</p>"),
            "published": published.to_string(),
            "inReplyTo": in_reply_to,
            "to": [PUBLIC],
            "cc": [whom],
            "tag": [
                { "type": "Mention", "href": whom, "name": "@somebody@weir.test" },
                { "type": "Hashtag", "href": "https://x.test/t", "name": format!("#tag{edit}") },
            ],
        });
        if edit > 0 {
            value["updated"] = published.plus_ms(10_000 * edit).to_string().into();
        }
        value
    }

    /// A random history, each part signed a second after the one before. Their servers show the
    /// notes as they are in the end.
    fn history(&self, seed: u64, now: Timestamp) -> Vec<Message> {
        let random = Random::seeded(seed);
        let mut made: Vec<Message> = Vec::new();
        let mut last = [0; NOTES];
        let mut deleted = [false; NOTES];
        for at in 0..LENGTH {
            let (actor, mut activity) = self.step(&random, at, &made, &mut last, &mut deleted);
            activity["@context"] = "https://www.w3.org/ns/activitystreams".into();
            activity["actor"] = self.actor(actor).into();
            let signed_at = now.plus_ms((at as i64 - LENGTH as i64) * 1_000);
            made.push(Message { actor, activity, signed_at });
        }
        for note in 0..NOTES {
            let (peer, path) = (self.peer(Self::author(note)), format!("/posts/{note}"));
            match deleted[note] {
                true => peer.withhold(&path, StatusCode::GONE),
                false => peer.put(&path, self.note(note, last[note])),
            }
        }
        made
    }

    fn step(
        &self,
        random: &Random,
        at: usize,
        made: &[Message],
        last: &mut [i64; NOTES],
        deleted: &mut [bool; NOTES],
    ) -> (usize, Value) {
        let pick = |below: usize| random.below(below as u64) as usize;
        let (actor, note) = (pick(ACTORS.len()), pick(NOTES));
        let author = Self::author(note);
        let id = |actor: usize| format!("{}/activities/{at}", self.actor(actor));
        let about = |actor: usize, kind: &str, object: Value| {
            (actor, json!({ "id": id(actor), "type": kind, "object": object }))
        };
        // Whether a note is here that is only boosted or answered is chance: what wanted it may be
        // taken back before it was fetched.
        if at < NOTES {
            return about(Self::author(at), "Create", self.note(at, 0));
        }
        match pick(100) {
            0..38 => {
                let edit = pick(4) as i64;
                last[note] = last[note].max(edit);
                let kind = if edit == 0 { "Create" } else { "Update" };
                about(author, kind, self.note(note, edit))
            }
            38..45 => {
                deleted[note] = true;
                let tombstone = json!({ "id": self.note_uri(note), "type": "Tombstone" });
                about(author, "Delete", tombstone)
            }
            45..55 => about(actor, "Like", self.post.clone().into()),
            55..70 => {
                let of = if pick(3) == 0 { self.post.clone() } else { self.note_uri(note) };
                let (actor, mut boost) = about(actor, "Announce", of.into());
                boost["to"] = json!([PUBLIC]);
                (actor, boost)
            }
            70..78 => {
                let whom = if pick(2) == 0 { &self.alice } else { &self.bob };
                about(actor, "Follow", whom.clone().into())
            }
            _ => {
                let marks = ["Like", "Announce", "Follow"];
                let is_mark =
                    |said: &&Message| marks.iter().any(|kind| said.activity["type"] == *kind);
                let said: Vec<&Message> = made.iter().filter(is_mark).collect();
                let Some(undone) = said.get(pick(said.len().max(1))) else {
                    return about(actor, "Like", self.post.clone().into());
                };
                let object = match pick(2) {
                    0 => undone.activity["id"].clone(),
                    _ => undone.activity.clone(),
                };
                about(undone.actor, "Undo", object)
            }
        }
    }

    /// Takes a message to the door.
    async fn send(&self, place: &Place, message: &Message) {
        let body = message.activity.to_string().into_bytes();
        let (peer, name) = (self.peer(message.actor), ACTORS[message.actor].1);
        let headers: HeaderMap =
            peer.sign_post(Form::Cavage, None, name, INBOX, &body, message.signed_at);
        let address = [192, 0, 2, ACTORS[message.actor].0 as u8];
        let status = place.send_from(address, "/inbox", headers, body).await;
        assert_eq!(status, 202, "{}", message.activity);
    }

    /// All that is left, in words that do not depend on ids.
    async fn state(&self, place: &Place) -> Vec<String> {
        let lines = place.read(|tx, _| {
            let mut lines = Vec::new();
            for (name, sql) in QUERIES {
                let line = |row: &Row<'_>| {
                    let mut words = vec![name.to_owned()];
                    while let Ok(word) = row.get::<String>(words.len() - 1) {
                        words.push(word);
                    }
                    Ok(words.join(" "))
                };
                lines.extend(tx.query(sql, &[], line)?);
            }
            Ok(lines)
        });
        let names = [(&self.post, "the-post"), (&self.alice, "the-alice"), (&self.bob, "the-bob")];
        let named = |line: String| {
            names.iter().fold(line, |line, (uri, name)| line.replace(uri.as_str(), name))
        };
        let mut lines: Vec<String> = lines.await.unwrap().into_iter().map(named).collect();
        lines.sort();
        lines
    }
}

const QUERIES: [(&str, &str); 10] = [
    (
        "post",
        "SELECT s.uri, s.content, CAST(s.visibility AS TEXT), coalesce(p.uri, ''),
           CAST(s.replies_count AS TEXT), CAST(s.boosts_count AS TEXT),
           CAST(s.favourites_count AS TEXT), CAST(coalesce(s.edited_at, 0) AS TEXT)
         FROM statuses s LEFT JOIN statuses p ON p.id = s.in_reply_to_id
         WHERE s.boost_of_id IS NULL",
    ),
    ("boost", "SELECT s.uri, b.uri FROM statuses s JOIN statuses b ON b.id = s.boost_of_id"),
    (
        "edit",
        "SELECT s.uri, e.content, CAST(e.created_at AS TEXT)
         FROM status_edits e JOIN statuses s ON s.id = e.status_id",
    ),
    (
        "mention",
        "SELECT s.uri, a.uri FROM mentions m
         JOIN statuses s ON s.id = m.status_id JOIN accounts a ON a.id = m.account_id",
    ),
    (
        "tag",
        "SELECT s.uri, t.name FROM status_tags m
         JOIN statuses s ON s.id = m.status_id JOIN tags t ON t.id = m.tag_id",
    ),
    (
        "like",
        "SELECT a.uri, s.uri FROM favourites f
         JOIN accounts a ON a.id = f.account_id JOIN statuses s ON s.id = f.status_id",
    ),
    (
        "follow",
        "SELECT a.uri, t.uri FROM follows f
         JOIN accounts a ON a.id = f.account_id JOIN accounts t ON t.id = f.target_id",
    ),
    (
        "notification",
        "SELECT n.kind, a.uri, f.uri, coalesce(s.uri, '') FROM notifications n
         JOIN accounts a ON a.id = n.account_id JOIN accounts f ON f.id = n.from_account_id
         LEFT JOIN statuses s ON s.id = n.status_id",
    ),
    ("tombstone", "SELECT uri FROM tombstones"),
    (
        "account",
        "SELECT uri, CAST(statuses_count AS TEXT), CAST(followers_count AS TEXT),
           CAST(following_count AS TEXT) FROM accounts
         WHERE domain <> '' OR username IN ('alice', 'bob')",
    ),
];

async fn all_is_worked(place: &Place) {
    until("all is worked", async || place.count("jobs").await == 0).await;
}

/// The same; and time passes, for what waits for it.
async fn all_is_settled(place: &Place) {
    let is_settled = async || {
        let (now, later) = (place.count("jobs").await, place.count("jobs_later").await);
        if now == 0 && later > 0 {
            place.pass(1_000);
        }
        now + later == 0
    };
    until("nothing waits", is_settled).await;
}

/// The history in its own order, one by one; what it leaves.
async fn in_order(place: &Place, peers: &[Peer], seed: u64) -> Vec<String> {
    let universe = Universe::new(place, peers).await;
    let running = place.start();
    for message in universe.history(seed, place.clock.now()) {
        universe.send(place, &message).await;
        all_is_worked(place).await;
    }
    all_is_settled(place).await;
    running.stop().await;
    universe.state(place).await
}

/// The same in another order, with repetitions: most of it before anybody works.
async fn in_any_order(place: &Place, peers: &[Peer], seed: u64) -> Vec<String> {
    let universe = Universe::new(place, peers).await;
    let random = Random::seeded(seed);
    let history = universe.history(seed, place.clock.now());
    let mut order: Vec<usize> = (0..history.len()).collect();
    order.extend((0..history.len() / 3).map(|_| random.below(LENGTH as u64) as usize));
    for at in (1..order.len()).rev() {
        order.swap(at, random.below(at as u64 + 1) as usize);
    }
    let (before, meanwhile) = order.split_at(LENGTH);
    for at in before {
        universe.send(place, &history[*at]).await;
    }
    let running = place.start();
    for at in meanwhile {
        universe.send(place, &history[*at]).await;
    }
    all_is_settled(place).await;
    running.stop().await;
    universe.state(place).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_comes_to_the_door_in_any_order_leaves_what_its_own_order_leaves() {
    for seed in 0..histories() {
        let mut peers = Vec::new();
        for _ in 0..SERVERS {
            peers.push(Peer::start().await);
        }
        for (one, other) in places().into_iter().zip(places()) {
            let expected = in_order(&one, &peers, seed).await;
            let found = in_any_order(&other, &peers, seed).await;
            let only = |a: &[String], b: &[String]| -> Vec<String> {
                a.iter().filter(|line| !b.contains(line)).cloned().collect()
            };
            assert!(
                expected == found,
                "postgres: {}, seed {seed}: in its own order {:#?}\nbut in another {:#?}",
                one.is_postgres(),
                only(&expected, &found),
                only(&found, &expected)
            );
            assert!(expected.len() > 20, "the history does something");
        }
    }
}
