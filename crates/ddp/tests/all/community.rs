//! After any history each session's view is what a fresh subscription gives.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Map, Value, json};
use weir_base::Id;
use weir_community::relationships::{self, FollowWish};
use weir_community::statuses::{self, Draft, Edit, PollEdit, Visibility};
use weir_community::users::Role;
use weir_community::{Env, Error, lists, tags};
use weir_db::{Class, Tx};

use crate::client::Ddp;
use crate::deeds::{self, Other, PEOPLE, REMOTE, STAFF, STRANGER};
use crate::place::{Place, places};

/// Something somebody does; numbers are taken modulo what there is.
#[derive(Debug, Clone)]
enum Deed {
    Post(usize, usize),
    Answer(usize, usize, usize),
    Edit(usize, usize),
    Delete(usize),
    Boost(usize, usize),
    Unboost(usize, usize),
    Favourite(usize, usize),
    Unfavourite(usize, usize),
    Bookmark(usize, usize),
    Follow(usize, usize),
    Unfollow(usize, usize),
    Block(usize, usize),
    Unblock(usize, usize),
    Mute(usize, usize),
    Unmute(usize, usize),
    Pin(usize),
    MuteTalk(usize, usize),
    UnmuteTalk(usize, usize),
    IntoList(usize),
    OutOfList(usize),
    Policy(usize),
    FollowTag(usize),
    UnfollowTag(usize),
    Other(Other),
}

fn any_deed() -> impl Strategy<Value = Deed> {
    let who = 0..PEOPLE;
    let pair = (0..PEOPLE, 0_usize..40);
    let two = (0..PEOPLE, 0..STAFF);
    prop_oneof![
        6 => (who.clone(), 0_usize..4).prop_map(|(who, how)| Deed::Post(who, how)),
        3 => (who.clone(), 0_usize..40, 0_usize..4).prop_map(|(a, b, c)| Deed::Answer(a, b, c)),
        2 => (0_usize..40, 0_usize..4).prop_map(|(a, b)| Deed::Edit(a, b)),
        2 => (0_usize..40).prop_map(Deed::Delete),
        2 => pair.clone().prop_map(|(a, b)| Deed::Boost(a, b)),
        1 => pair.clone().prop_map(|(a, b)| Deed::Unboost(a, b)),
        2 => pair.clone().prop_map(|(a, b)| Deed::Favourite(a, b)),
        1 => pair.clone().prop_map(|(a, b)| Deed::Unfavourite(a, b)),
        1 => pair.clone().prop_map(|(a, b)| Deed::Bookmark(a, b)),
        1 => (0_usize..40).prop_map(Deed::Pin),
        1 => pair.clone().prop_map(|(a, b)| Deed::MuteTalk(a, b)),
        1 => pair.prop_map(|(a, b)| Deed::UnmuteTalk(a, b)),
        3 => who.clone().prop_map(Deed::IntoList),
        1 => who.clone().prop_map(Deed::OutOfList),
        1 => who.clone().prop_map(Deed::Policy),
        3 => two.clone().prop_map(|(a, b)| Deed::Follow(a, b)),
        1 => two.clone().prop_map(|(a, b)| Deed::Unfollow(a, b)),
        1 => two.clone().prop_map(|(a, b)| Deed::Block(a, b)),
        1 => two.clone().prop_map(|(a, b)| Deed::Unblock(a, b)),
        1 => two.clone().prop_map(|(a, b)| Deed::Mute(a, b)),
        1 => two.prop_map(|(a, b)| Deed::Unmute(a, b)),
        1 => who.clone().prop_map(Deed::FollowTag),
        1 => who.prop_map(Deed::UnfollowTag),
        16 => deeds::any_other().prop_map(Deed::Other),
    ]
}

fn text(how: usize, round: usize) -> String {
    match how {
        0 => "plain".into(),
        1 => "with #rust in it".into(),
        2 => format!("for @p1r{round}"),
        _ => format!("for @p2r{round} of #rust"),
    }
}

fn visibility(how: usize) -> Visibility {
    [Visibility::Public, Visibility::Unlisted, Visibility::Private, Visibility::Direct][how % 4]
}

/// Does it; what can't be done is left.
fn act(
    tx: &mut Tx,
    env: &Env,
    deed: &Deed,
    people: &[Id],
    posts: &[(Id, usize)],
    round: usize,
) -> Result<Option<(Id, usize)>, Error> {
    let post = |at: usize| posts.get(at % posts.len().max(1)).copied();
    let person = |at: usize| people[at % people.len()];
    let publish = |tx: &mut Tx, who: usize, how: usize, to: Option<Id>| {
        let draft = Draft {
            text: text(how, round),
            visibility: visibility(how + who),
            in_reply_to: to,
            ..Draft::default()
        };
        statuses::publish(tx, env, person(who), &draft).map(|id| Some((id, who)))
    };
    match *deed {
        Deed::Post(who, how) => return publish(tx, who, how, None),
        Deed::Answer(who, at, how) => {
            if let Some((to, _)) = post(at) {
                return publish(tx, who, how, Some(to));
            }
        }
        Deed::Edit(at, how) => {
            if let Some((id, author)) = post(at).filter(|(_, author)| *author != REMOTE) {
                let edit = Edit {
                    text: text(how, round),
                    spoiler: String::new(),
                    sensitive: false,
                    language: None,
                    media: Vec::new(),
                    media_changes: Vec::new(),
                    poll: PollEdit::Keep,
                };
                statuses::edit(tx, env, person(author), id, &edit)?;
            }
        }
        Deed::Delete(at) => {
            if let Some((id, author)) = post(at).filter(|(_, author)| *author != REMOTE) {
                statuses::delete(tx, env, person(author), id)?;
            }
        }
        Deed::Boost(who, at) => {
            if let Some((id, _)) = post(at) {
                statuses::boost(tx, env, person(who), id, None)?;
            }
        }
        Deed::Unboost(who, at) => {
            if let Some((id, _)) = post(at) {
                statuses::unboost(tx, env, person(who), id)?;
            }
        }
        Deed::Favourite(who, at) => {
            if let Some((id, _)) = post(at) {
                statuses::favourite(tx, env, person(who), id)?;
            }
        }
        Deed::Unfavourite(who, at) => {
            if let Some((id, _)) = post(at) {
                statuses::unfavourite(tx, env, person(who), id)?;
            }
        }
        Deed::Bookmark(who, at) => {
            if let Some((id, _)) = post(at) {
                statuses::bookmark(tx, env, person(who), id)?;
            }
        }
        Deed::Follow(one, other) => {
            let wish = FollowWish::default();
            relationships::follow(tx, env, person(one), person(other), &wish)?;
            if other == REMOTE {
                relationships::accept_request(tx, env, person(other), person(one))?;
            }
        }
        Deed::Unfollow(one, other) => {
            relationships::unfollow(tx, env, person(one), person(other))?;
        }
        Deed::Block(one, other) => relationships::block(tx, env, person(one), person(other), "")?,
        Deed::Unblock(one, other) => relationships::unblock(tx, env, person(one), person(other))?,
        Deed::Mute(one, other) => {
            relationships::mute(tx, env, person(one), person(other), true, None)?;
        }
        Deed::Unmute(one, other) => relationships::unmute(tx, env, person(one), person(other))?,
        Deed::Pin(at) => {
            if let Some((id, author)) = post(at).filter(|(_, author)| *author != REMOTE) {
                statuses::pin(tx, env, person(author), id)?;
            }
        }
        Deed::MuteTalk(who, at) => {
            if let Some((id, _)) = post(at) {
                statuses::mute_conversation(tx, env, person(who), id)?;
            }
        }
        Deed::UnmuteTalk(who, at) => {
            if let Some((id, _)) = post(at) {
                statuses::unmute_conversation(tx, env, person(who), id)?;
            }
        }
        Deed::IntoList(who) | Deed::OutOfList(who) | Deed::Policy(who) => {
            let owner = person(0);
            let all = lists::all(tx, owner)?;
            let Some(list) = all.iter().min_by_key(|list| list.id) else { return Ok(None) };
            match deed {
                Deed::IntoList(_) => {
                    let wish = FollowWish::default();
                    relationships::follow(tx, env, owner, person(who), &wish)?;
                    lists::add_members(tx, env, owner, list.id, &[person(who)])?;
                }
                Deed::OutOfList(_) => {
                    lists::remove_members(tx, env, owner, list.id, &[person(who)])?;
                }
                _ => {
                    let policy = Some(["followed", "list", "none"][who % 3]);
                    lists::update(tx, env, owner, list.id, None, policy, None)?;
                }
            }
        }
        Deed::FollowTag(who) => drop(tags::follow(tx, env, person(who), "rust")?),
        Deed::UnfollowTag(who) => drop(tags::unfollow(tx, env, person(who), "rust")?),
        Deed::Other(ref other) => return deeds::act(tx, env, other, people, posts, round),
    }
    Ok(None)
}

type Documents = BTreeMap<(String, String), Map<String, Value>>;

/// Everything a person can subscribe to, small so that it overflows.
async fn subscribe(ddp: &mut Ddp, people: &[Id], list: Id) {
    let limit = json!([{ "limit": 5 }]);
    for name in ["timelines.home", "timelines.public", "notifications", "conversations"] {
        ddp.sub(name, name, limit.clone()).await.unwrap();
    }
    ddp.sub("tag", "timelines.tag", json!([{ "tag": "rust", "limit": 5 }])).await.unwrap();
    let _ = ddp.sub("list", "timelines.list", json!([{ "list_id": list, "limit": 5 }])).await;
    ddp.sub("tags", "tags.followed", json!([])).await.unwrap();
    ddp.sub("lists", "lists", json!([])).await.unwrap();
    for (at, person) in people[..PEOPLE].iter().enumerate() {
        let params = json!([{ "account_id": person, "limit": 5 }]);
        ddp.sub(&format!("account{at}"), "timelines.account", params).await.unwrap();
    }
    ddp.sub("all", "relationships", json!([{ "account_ids": people }])).await.unwrap();
}

/// Waits until everything committed was told, and all of it heard.
async fn settled(ddp: &mut Ddp) {
    // Markers belong to nobody else's queries, and a method's `updated` follows all that was
    // committed before it.
    let params = json!([{ "timeline": "home", "last_read_id": ddp.received.to_string() }]);
    ddp.call("markers.set", params).await.unwrap();
}

/// What one view shows otherwise than the other: of both, where they show it.
fn differing(one: &Documents, other: &Documents) -> Vec<String> {
    let keys: BTreeSet<_> = one.keys().chain(other.keys()).collect();
    let differing = keys.into_iter().filter(|key| one.get(*key) != other.get(*key));
    differing.map(|key| format!("{key:?}: {:?}, not {:?}", one.get(key), other.get(key))).collect()
}

async fn run(place: &Place, deeds: &[Deed], round: usize) -> Result<(), TestCaseError> {
    let mut people = Vec::new();
    for at in 0..PEOPLE {
        people.push(place.person(&format!("p{at}r{round}")).await);
    }
    people.push(place.person(&format!("stranger{round}")).await);
    people.push(deeds::somebody_elsewhere(place, round).await);
    people.push(place.person_with(&format!("staff{round}"), Role::Admin).await);
    let owner = people[0];
    let list = place
        .write(move |tx, env| Ok(lists::create(tx, env, owner, "all", "list", false)?.id))
        .await;
    let mut sessions = Vec::new();
    for person in &people[..PEOPLE] {
        let mut ddp = place.session(*person).await;
        subscribe(&mut ddp, &people, list).await;
        sessions.push(ddp);
    }
    let mut posts: Vec<(Id, usize)> = vec![deeds::greet(place, &people).await];
    for deed in deeds {
        if let Deed::Other(Other::Overflow(who)) = deed {
            deeds::overflow(place, people[*who]);
        }
        let (deed, people, known) = (deed.clone(), people.clone(), posts.clone());
        let done = place
            .community
            .write(Class::Interactive, move |tx, env| act(tx, env, &deed, &people, &known, round))
            .await;
        posts.extend(done.ok().flatten());
    }
    // Queries are shared by all sessions of a server: fresh ones are another server's.
    let beside = place.another().await;
    for (ddp, person) in sessions.iter_mut().zip(&people) {
        settled(ddp).await;
        let mut fresh = place.session_at(beside, *person).await;
        subscribe(&mut fresh, &people, list).await;
        settled(&mut fresh).await;
        let differing = differing(&ddp.documents, &fresh.documents);
        prop_assert!(differing.is_empty(), "{} of {person}: {differing:#?}", place.name);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_any_history_a_view_is_what_a_fresh_subscription_gives() {
    let long = std::env::var_os("WEIR_TEST_LONG").is_some();
    let cases = if long { 100 } else { 6 };
    for place in places().await {
        let mut runner = TestRunner::new(Config { failure_persistence: None, ..Config::default() });
        for round in 0..cases {
            let deeds = prop::collection::vec(any_deed(), 10..80);
            let deeds = deeds.new_tree(&mut runner).unwrap().current();
            if let Err(error) = run(&place, &deeds, round).await {
                panic!("{error}\nafter {deeds:#?}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_boost_of_whom_the_reader_mutes_comes_to_no_profile() {
    for place in places().await {
        let deeds = [Deed::Mute(1, STRANGER), Deed::Boost(2, 0)];
        run(&place, &deeds, 0).await.unwrap();
    }
}
