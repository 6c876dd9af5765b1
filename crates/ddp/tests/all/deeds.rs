//! What people, staff and other servers do that views have to follow, beside posting and what
//! belongs to it.

use proptest::prelude::*;
use weir_base::Id;
use weir_community::accounts::{self, ProfileChange, RemoteAccount};
use weir_community::federation::order::Version;
use weir_community::filters::{self, FilterChange, KeywordChange};
use weir_community::notifications::{self, Page};
use weir_community::statuses::{self, Cause, Draft, PollDraft, Receipt, RemoteStatus, Visibility};
use weir_community::streams::{Event, Topic};
use weir_community::timelines::Range;
use weir_community::{Env, Error, conversations, lists, moderation, relationships};
use weir_db::Tx;
use weir_live::Shared;

use crate::place::Place;

/// People with sessions.
pub const PEOPLE: usize = 3;
/// Somebody of here without one, whom staff may send away.
pub const STRANGER: usize = PEOPLE;
/// Somebody on another server.
pub const REMOTE: usize = PEOPLE + 1;
/// Staff.
pub const STAFF: usize = PEOPLE + 2;
/// Events that are more than any outbox holds.
const OVERFLOW: usize = 1_100;
/// Where the one on another server is.
const ELSEWHERE: &str = "notes.example";

/// Something else that somebody does; numbers are taken modulo what there is.
#[derive(Debug, Clone)]
pub enum Other {
    Filter(usize, usize),
    Unfilter(usize),
    Ask(usize),
    Vote(usize, usize, usize),
    BlockDomain(usize),
    UnblockDomain(usize),
    Rename(usize, usize),
    Arrive(usize),
    ReviseRemote(usize),
    DeleteRemote(usize),
    Talk(usize, usize, bool),
    RemoveTalk(usize, usize),
    Dismiss(usize, usize),
    Clear(usize),
    NewList,
    DropList,
    Suspend(bool),
    DeleteStranger,
    Overflow(usize),
}

pub fn any_other() -> impl Strategy<Value = Other> {
    let who = 0..PEOPLE;
    let pair = (0..PEOPLE, 0_usize..40);
    prop_oneof![
        2 => pair.clone().prop_map(|(a, b)| Other::Filter(a, b)),
        1 => who.clone().prop_map(Other::Unfilter),
        2 => (0..=STRANGER).prop_map(Other::Ask),
        3 => (0..PEOPLE, 0_usize..40, 0_usize..2).prop_map(|(a, b, c)| Other::Vote(a, b, c)),
        1 => who.clone().prop_map(Other::BlockDomain),
        1 => who.clone().prop_map(Other::UnblockDomain),
        2 => (0..=STRANGER, 0_usize..40).prop_map(|(a, b)| Other::Rename(a, b)),
        3 => (0_usize..4).prop_map(Other::Arrive),
        1 => (0_usize..40).prop_map(Other::ReviseRemote),
        1 => (0_usize..40).prop_map(Other::DeleteRemote),
        1 => (0..PEOPLE, 0_usize..40, any::<bool>()).prop_map(|(a, b, c)| Other::Talk(a, b, c)),
        1 => pair.clone().prop_map(|(a, b)| Other::RemoveTalk(a, b)),
        2 => pair.prop_map(|(a, b)| Other::Dismiss(a, b)),
        1 => who.clone().prop_map(Other::Clear),
        1 => Just(Other::NewList),
        1 => Just(Other::DropList),
        1 => any::<bool>().prop_map(Other::Suspend),
        1 => Just(Other::DeleteStranger),
        1 => who.prop_map(Other::Overflow),
    ]
}

fn uri(round: usize, number: usize) -> String {
    format!("https://{ELSEWHERE}/r{round}/{number}")
}

/// Somebody on another server.
pub async fn somebody_elsewhere(place: &Place, round: usize) -> Id {
    let remote = RemoteAccount {
        uri: format!("https://{ELSEWHERE}/users/r{round}"),
        username: format!("away{round}"),
        domain: ELSEWHERE.into(),
        kind: "person".into(),
        inbox: format!("https://{ELSEWHERE}/inbox"),
        ..RemoteAccount::default()
    };
    let remote = remote.cleaned().unwrap();
    place.write(move |tx, env| accounts::upsert(tx, env, &remote, version(env))).await
}

fn version(env: &Env) -> Version {
    Version { at: env.clock.now(), seq: env.ids.next() }
}

/// More than an outbox holds comes for `who` in one moment, and concerns nobody.
pub fn overflow(place: &Place, who: Id) {
    let hub = place.community.env().streams.hub();
    for _ in 0..OVERFLOW {
        hub.publish(&Topic::Own(who), Shared::sized(Event::RoomsChanged, 10));
    }
}

/// A post that came from the other server, new or in another version.
fn arrive(
    tx: &mut Tx,
    env: &Env,
    by: Id,
    uri: String,
    content: &str,
) -> Result<Option<(Id, usize)>, Error> {
    let tags = vec!["rust".to_owned()];
    let updated = Some(env.clock.now());
    let content = format!("<p>{content}</p>");
    let remote = RemoteStatus { uri, content, tags, updated, ..RemoteStatus::default() };
    let (remote, by) = (remote.cleaned()?, accounts::by_id(tx, by)?);
    let (version, now, cause) = (version(env), env.clock.now(), Cause::Wanted { depth: 0 });
    Ok(match statuses::receive(tx, env, &by, &remote, version, now, cause)? {
        Receipt::New(id) => Some((id, REMOTE)),
        _ => None,
    })
}

fn filter(tx: &mut Tx, env: &Env, by: Id, how: usize) -> Result<(), Error> {
    let word = ["plain", "rust", "for", "away"][how % 4];
    let contexts = [["home", "public"], ["notifications", "account"]][how / 4 % 2];
    let keyword = KeywordChange { keyword: Some(word.into()), ..KeywordChange::default() };
    let change = FilterChange {
        title: Some(word.into()),
        contexts: Some(contexts.map(str::to_owned).into()),
        action: Some(["warn", "hide"][how / 8 % 2].into()),
        keywords: vec![keyword],
        ..FilterChange::default()
    };
    filters::create(tx, env, by, &change).map(drop)
}

/// Does it; what can't be done is left.
pub fn act(
    tx: &mut Tx,
    env: &Env,
    other: &Other,
    people: &[Id],
    posts: &[(Id, usize)],
    round: usize,
) -> Result<Option<(Id, usize)>, Error> {
    let person = |at: usize| people[at % people.len()];
    match *other {
        Other::Filter(who, how) => filter(tx, env, person(who), how)?,
        Other::Unfilter(who) => {
            if let Some(one) = filters::all(tx, person(who))?.pop() {
                filters::delete(tx, env, person(who), one.id)?;
            }
        }
        Other::Ask(who) => {
            let options = ["tea", "water"].map(str::to_owned).into();
            let (multiple, hide_totals) = (false, false);
            let poll = PollDraft { options, expires_in_s: 3_600, multiple, hide_totals };
            let draft = Draft { text: "which #rust?".into(), poll: Some(poll), ..Draft::default() };
            return statuses::publish(tx, env, person(who), &draft).map(|id| Some((id, who)));
        }
        Other::Vote(who, at, choice) => {
            // Of those posts that are polls.
            let ids: Vec<Id> = posts.iter().map(|(id, _)| *id).collect();
            let mut views = statuses::load(tx, env, Some(person(who)), &ids)?;
            views.retain(|view| view.poll.is_some());
            if let Some(poll) = views.get(at % views.len().max(1)).and_then(|one| one.poll.as_ref())
            {
                statuses::vote(tx, env, person(who), poll.id, &[choice])?;
            }
        }
        Other::BlockDomain(who) => relationships::block_domain(tx, env, person(who), ELSEWHERE)?,
        Other::UnblockDomain(who) => {
            relationships::unblock_domain(tx, env, person(who), ELSEWHERE)?;
        }
        Other::Rename(who, how) => {
            let display_name = Some(format!("name {how}"));
            let change = ProfileChange { display_name, ..ProfileChange::default() };
            accounts::update_profile(tx, env, person(who), &change)?;
        }
        Other::Arrive(how) => {
            let number = posts.len() + 100 * how;
            return arrive(tx, env, person(REMOTE), uri(round, number), "from away");
        }
        Other::ReviseRemote(_) | Other::DeleteRemote(_) => {
            let all: Vec<Id> =
                posts.iter().filter(|(_, by)| *by == REMOTE).map(|(id, _)| *id).collect();
            let (Other::ReviseRemote(at) | Other::DeleteRemote(at)) = *other else {
                return Ok(None);
            };
            let Some(id) = all.get(at % all.len().max(1)) else { return Ok(None) };
            let sql = "SELECT uri FROM statuses WHERE id = ?1";
            let Some(uri) = tx.value(sql, weir_db::params![*id])? else { return Ok(None) };
            if matches!(other, Other::ReviseRemote(_)) {
                return arrive(tx, env, person(REMOTE), uri, "from far away");
            }
            statuses::receive_delete(tx, env, ELSEWHERE, &uri)?;
        }
        Other::Talk(who, at, _) | Other::RemoveTalk(who, at) => {
            let all = conversations::list(tx, env, person(who), Range::default())?;
            let Some(one) = all.get(at % all.len().max(1)) else { return Ok(None) };
            match *other {
                Other::Talk(_, _, unread) => {
                    conversations::mark(tx, env, person(who), one.id, unread)?;
                }
                _ => conversations::remove(tx, env, person(who), one.id)?,
            }
        }
        Other::Dismiss(who, at) => {
            let all = notifications::list(tx, env, person(who), &Page::default())?;
            if let Some(one) = all.get(at % all.len().max(1)) {
                notifications::dismiss(tx, env, person(who), one.id)?;
            }
        }
        Other::Clear(who) => notifications::clear(tx, env, person(who))?,
        Other::NewList => drop(lists::create(tx, env, person(0), "more", "list", false)?),
        Other::DropList => {
            let all = lists::all(tx, person(0))?;
            // Not the first one, which has a timeline open.
            if let Some(last) = all.iter().map(|list| list.id).max().filter(|_| all.len() > 1) {
                lists::delete(tx, env, person(0), last)?;
            }
        }
        Other::Suspend(true) => moderation::suspend(tx, env, person(STAFF), person(STRANGER))?,
        Other::Suspend(false) => moderation::unsuspend(tx, env, person(STAFF), person(STRANGER))?,
        Other::DeleteStranger => accounts::delete(tx, env, person(STRANGER))?,
        // No unit of work.
        Other::Overflow(_) => {}
    }
    Ok(None)
}

/// A post of the stranger, so that there is something to see of them.
pub async fn greet(place: &Place, people: &[Id]) -> (Id, usize) {
    (place.post(people[STRANGER], "plain #rust of a stranger", Visibility::Public).await, STRANGER)
}
