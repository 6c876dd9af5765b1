//! Random histories of activities of several actors over the same objects.

use weir_base::{Id, Random, Timestamp};
use weir_community::accounts::{self, RemoteAccount};
use weir_community::federation::order::Version;
use weir_community::federation::{Deed, Incoming, Undone};
use weir_community::relationships::{self, FollowWish};
use weir_community::statuses::{self, Draft, PollDraft, RemoteMention, RemoteStatus, Visibility};

use crate::place::Place;

const NOTES: u64 = 7;
const LENGTH: usize = 45;

/// People and things of one run, apart from those of others.
pub struct Universe {
    pub tag: String,
    pub actors: Vec<String>,
    pub alice: String,
    pub bob: String,
    pub post: String,
    pub poll: String,
    began: Timestamp,
}

impl Universe {
    pub async fn new(place: &Place, tag: &str) -> Self {
        let began = Timestamp::from_ms(1_700_000_000_000);
        let names = [("ann", "x"), ("ben", "x"), ("cat", "y"), ("dan", "z")];
        let alice = place.person(&format!("alice{tag}")).await;
        let bob = place.person(&format!("bob{tag}")).await;
        let mut actors = Vec::new();
        for (name, host) in names {
            let host = format!("{host}.{tag}.example");
            let uri = format!("https://{host}/{name}");
            let remote = RemoteAccount {
                uri: uri.clone(),
                username: name.into(),
                domain: host,
                inbox: format!("{uri}/inbox"),
                ..RemoteAccount::default()
            };
            let remote = remote.cleaned().unwrap();
            let version = Version { at: Timestamp::from_ms(1), seq: Id(1) };
            place
                .write(move |tx, env| {
                    let id = accounts::upsert(tx, env, &remote, version)?;
                    relationships::follow(tx, env, alice, id, &FollowWish::default())?;
                    relationships::accept_request(tx, env, id, alice)
                })
                .await
                .unwrap();
            actors.push(uri);
        }
        let post = place.post(alice, "a post", Visibility::Public).await;
        let poll = PollDraft {
            options: vec!["yes".into(), "no".into()],
            expires_in_s: 86_400,
            multiple: true,
            hide_totals: false,
        };
        let draft = Draft { text: "a poll".into(), poll: Some(poll), ..Draft::default() };
        let poll =
            place.write(move |tx, env| statuses::publish(tx, env, alice, &draft)).await.unwrap();
        place
            .read(move |tx, _| {
                Ok(Universe {
                    tag: String::new(),
                    actors: Vec::new(),
                    alice: accounts::by_id(tx, alice)?.uri,
                    bob: accounts::by_id(tx, bob)?.uri,
                    post: statuses::by_id(tx, post)?.uri,
                    poll: statuses::by_id(tx, poll)?.uri,
                    began,
                })
            })
            .await
            .map(|universe| Universe { tag: tag.into(), actors, ..universe })
            .unwrap()
    }

    fn note_uri(&self, note: u64) -> String {
        format!("{}/notes/{note}", self.author(note))
    }

    fn author(&self, note: u64) -> &str {
        &self.actors[(note % 4) as usize]
    }
}

/// The same history for each universe, from `seed`, in the door's order.
pub fn history(universe: &Universe, seed: u64) -> Vec<Incoming> {
    let random = Random::seeded(seed);
    let mut done: Vec<(String, String, &'static str, String)> = Vec::new();
    let mut made = Vec::new();
    for at in 0..LENGTH {
        let arrived = universe.began.plus_ms(60_000 + at as i64 * 1_000);
        let signed = arrived.plus_ms(-(random.below(8) as i64) * 1_000);
        let version = Version { at: signed, seq: Id(Id::first_at(arrived).0 + at as i64) };
        let (actor, activity, deed) = step(universe, &random, at, &mut done);
        made.push(Incoming { actor, activity, version, arrived, deed });
    }
    made
}

fn step(
    universe: &Universe,
    random: &Random,
    at: usize,
    done: &mut Vec<(String, String, &'static str, String)>,
) -> (String, String, Deed) {
    let pick = |count: u64| random.below(count);
    let actor = universe.actors[pick(4) as usize].clone();
    let activity = format!("{actor}/activities/{at}");
    let mut mark = |kind: &'static str, object: String, deed: Deed| {
        // Some servers give a repeated activity the same address.
        let deterministic = format!("{actor}/{kind}/{}", object == universe.alice);
        let activity = if kind == "follow" && actor.contains("cat") {
            deterministic
        } else {
            activity.clone()
        };
        done.push((actor.clone(), activity.clone(), kind, object));
        (actor.clone(), activity, deed)
    };
    match pick(100) {
        0..35 => post(universe, random, &activity),
        35..42 => {
            let note = pick(NOTES);
            let uri = universe.note_uri(note);
            (universe.author(note).to_owned(), activity, Deed::Delete { uri })
        }
        42..50 => {
            let object = universe.post.clone();
            mark("like", object.clone(), Deed::Like { object })
        }
        50..62 => {
            let object =
                if pick(3) == 0 { universe.post.clone() } else { universe.note_uri(pick(NOTES)) };
            let visibility = Visibility::Public;
            let deed = Deed::Boost { object: object.clone(), visibility, published: None };
            mark("announce", object, deed)
        }
        62..70 => {
            let target = if pick(2) == 0 { &universe.alice } else { &universe.bob }.clone();
            mark("follow", target.clone(), Deed::Follow { target })
        }
        70..73 => {
            let target = universe.bob.clone();
            mark("block", target.clone(), Deed::Block { target })
        }
        73..90 => undo(random, done, actor, activity),
        90..94 => {
            let choice = if pick(2) == 0 { "yes" } else { "no" }.into();
            (actor, activity, Deed::Vote { poll: universe.poll.clone(), choice })
        }
        94..97 => {
            let profile = RemoteAccount {
                uri: actor.clone(),
                username: actor.rsplit('/').next().unwrap().into(),
                domain: actor.split('/').nth(2).unwrap().into(),
                inbox: format!("{actor}/inbox"),
                display_name: format!("name {at}"),
                ..RemoteAccount::default()
            };
            (actor, activity, Deed::Profile(Box::new(profile.cleaned().unwrap())))
        }
        97..99 => {
            let objects = vec![universe.alice.clone()];
            (actor, activity, Deed::Flag { objects, comment: format!("report {at}") })
        }
        _ if at > LENGTH / 2 => (actor, activity, Deed::DeleteSelf),
        _ => (actor, activity, Deed::Featured),
    }
}

fn post(universe: &Universe, random: &Random, activity: &str) -> (String, String, Deed) {
    let note = random.below(NOTES);
    let edit = random.below(4) as i64;
    let published = universe.began.plus_ms(1_000 * note as i64);
    let mut mentions = vec![RemoteMention { uri: universe.bob.clone(), silent: false }];
    // Some edits change the text alone.
    if edit / 2 == 1 {
        mentions = vec![RemoteMention { uri: universe.alice.clone(), silent: false }];
    }
    let in_reply_to = match note {
        0 | 5 => None,
        1 => Some(universe.post.clone()),
        _ => Some(universe.note_uri(note - 1)),
    };
    let status = RemoteStatus {
        uri: universe.note_uri(note),
        published: Some(published),
        updated: (edit > 0).then(|| published.plus_ms(10_000 * edit)),
        content: format!("<p>version {edit}</p>"),
        visibility: if note == 6 { Visibility::Private } else { Visibility::Public },
        in_reply_to,
        mentions,
        tags: vec![format!("tag{}", edit / 2), "always".into()],
        ..RemoteStatus::default()
    };
    let deed = Deed::Post(Box::new(status.cleaned().unwrap()));
    (universe.author(note).to_owned(), activity.to_owned(), deed)
}

/// Takes back something done before, or something that comes later or never.
fn undo(
    random: &Random,
    done: &[(String, String, &'static str, String)],
    actor: String,
    activity: String,
) -> (String, String, Deed) {
    let Some((by, of, kind, object)) = done.get(random.below(done.len() as u64 + 1) as usize)
    else {
        let undone = Undone {
            activity: format!("{actor}/activities/{}", random.below(45)),
            ..Undone::default()
        };
        return (actor, activity, Deed::Undo(undone));
    };
    let undone = match random.below(3) {
        0 => Undone { activity: of.clone(), ..Undone::default() },
        1 => Undone { kind: (*kind).into(), object: object.clone(), ..Undone::default() },
        _ => Undone { activity: of.clone(), kind: (*kind).into(), object: object.clone() },
    };
    (by.clone(), activity, Deed::Undo(undone))
}
