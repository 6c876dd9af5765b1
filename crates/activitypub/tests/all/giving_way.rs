//! What waits until the messages that came in are worked.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use weir_activitypub::signature::Form;
use weir_base::Id;
use weir_community::Env;
use weir_community::federation::{
    self, FOLLOWS_MS, FOLLOWS_OTHERS_MS, Fetch, ON_ITS_WAY, PATIENCE_MS, Wanted,
};
use weir_community::relationships::{self, FollowWish};
use weir_community::statuses::{self, Visibility};
use weir_db::{Class, Tx};
use weir_jobs::{Action, Job, LimitedBy, Queue, Search, Set};

use crate::forwarding::{Asked, ask};
use crate::peer::Peer;
use crate::place::{Place, Running, places, until};

const INBOX: &str = "http://weir.test/inbox";
/// What is of long ago waits here.
const LATE: &str = "inbound_late";

/// Messages of who is not known that were not looked at.
const UNVERIFIED: &str = "jobs WHERE kind = 'unverified'";

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

/// alice here follows bob, who lets her.
async fn befriend(place: &Place, alice: Id, bob: Id) {
    let unit = move |tx: &mut Tx, env: &Env| {
        relationships::follow(tx, env, alice, bob, &FollowWish::default())?;
        relationships::accept_request(tx, env, bob, alice)
    };
    place.write(unit).await.unwrap();
}

/// What bob wrote five minutes ago, whom alice follows, has come in and is not worked yet.
async fn behind(place: &Place) -> (Peer, Running) {
    let peer = Peer::start().await;
    let alice = place.person("alice").await;
    let bob = place.stranger(&peer, "bob").await;
    befriend(place, alice, bob).await;
    let running = place.start();
    place.jobs.pause(LATE).await.unwrap();
    until("this node knows of all", async || place.jobs.knows_all_that_waits()).await;
    send(place, &peer, "/posts/1", 5, None).await;
    // A node that has just begun on PostgreSQL reads what waits slot by slot.
    until("this node knows of it", async || place.jobs.depth(LATE) == 1).await;
    (peer, running)
}

/// Jobs that are to fetch something, wherever they wait.
async fn fetches(place: &Place) -> i64 {
    let of = async |table: &str| place.count(&format!("{table} WHERE kind = 'fetch'")).await;
    of("jobs_later").await + of("jobs").await
}

/// Fetches that were put off for so long.
async fn put_off_for(place: &Place, ms: i64) -> i64 {
    place.count(&format!("jobs_later WHERE kind = 'fetch' AND due_at - enqueued_at = {ms}")).await
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
        assert_eq!(fetches(&place).await, 0, "what came is not waited for any more");
        assert!(!peer.fetched().contains(&"/posts/1".to_owned()), "{:?}", peer.fetched());
        running.stop().await;
    }
}

#[tokio::test]
async fn of_posts_that_come_together_none_is_waited_for_any_more() {
    for place in places() {
        let (peer, running) = behind(&place).await;
        send(&place, &peer, "/posts/3", 6, None).await;
        send(&place, &peer, "/posts/4", 7, None).await;
        for (answer, answered) in [("/posts/5", "/posts/1"), ("/posts/6", "/posts/3")] {
            send(&place, &peer, answer, 0, Some(&peer.at(answered))).await;
        }
        let put_off = "jobs_later WHERE kind = 'fetch'";
        until("both are waited for", async || place.count(put_off).await == 2).await;
        place.jobs.resume(LATE).await.unwrap();
        for path in ["/posts/1", "/posts/3", "/posts/4"] {
            until(path, async || is_here(&place, peer.at(path)).await).await;
        }
        assert_eq!(fetches(&place).await, 0, "what came is not waited for any more");
        running.stop().await;
    }
}

#[tokio::test]
async fn a_post_that_was_not_among_what_came_in_is_asked_for_when_that_is_worked() {
    for place in places() {
        let (peer, running) = behind(&place).await;
        let parent = peer.write("bob", "Long ago", None);
        send(&place, &peer, "/posts/2", 0, Some(&parent)).await;
        let put_off = "jobs_later WHERE kind = 'fetch'";
        until("its parent is waited for", async || place.count(put_off).await == 1).await;
        assert!(!is_here(&place, parent.clone()).await);
        place.jobs.resume(LATE).await.unwrap();
        // No time goes by: it is called.
        until("the parent is here", async || is_here(&place, parent.clone()).await).await;
        running.stop().await;
    }
}

#[tokio::test]
async fn what_was_put_off_before_the_start_is_called_as_well() {
    for place in places() {
        let peer = Peer::start().await;
        let old = peer.write("bob", "Long ago", None);
        let wanted = Wanted::Status { uri: old.clone() };
        let fetch = Fetch { wanted, depth: 0, patient: true };
        let put_off = move |tx: &mut Tx, env: &Env| {
            let waiting = [("a key".to_owned(), fetch.clone())];
            Ok(env.jobs.put_off_unique_each(tx, PATIENCE_MS, ON_ITS_WAY, &waiting)?)
        };
        place.write(put_off).await.unwrap();
        let running = place.start();
        until("it is here", async || is_here(&place, old.clone()).await).await;
        running.stop().await;
    }
}

#[tokio::test]
async fn a_post_that_does_not_come_soon_after_what_names_it_is_asked_for_beside_the_flood() {
    for place in places() {
        let (peer, running) = behind(&place).await;
        flood(&place, 1_000).await;
        let waiting = async || place.count("jobs_later WHERE kind = 'fetch'").await;
        let comes_by = async |parent: &String| {
            place.pass(FOLLOWS_OTHERS_MS);
            until("it waits no more", async || waiting().await == 0).await;
            // Some of what is fetched goes on now and then.
            place.pass(1_000);
            until("it is here", async || is_here(&place, parent.clone()).await).await;
        };
        let parent = peer.write("bob", "Long ago", None);
        send(&place, &peer, "/posts/2", 0, Some(&parent)).await;
        until("its parent is waited for", async || waiting().await == 1).await;
        let longer = put_off_for(&place, FOLLOWS_OTHERS_MS).await;
        assert_eq!(longer, 1, "bob's server wrote a moment ago");
        comes_by(&parent).await;
        // That of a message which came a while ago is not waited for at all.
        let wanted = peer.write("bob", "Longer ago", None);
        place.jobs.pause("inbound").await.unwrap();
        send(&place, &peer, "/posts/3", 0, Some(&wanted)).await;
        place.pass(FOLLOWS_OTHERS_MS);
        place.jobs.resume("inbound").await.unwrap();
        until("the answer is here", async || is_here(&place, peer.at("/posts/3")).await).await;
        assert_eq!(waiting().await, 0);
        place.pass(1_000);
        until("what it answers too", async || is_here(&place, wanted.clone()).await).await;
        assert!(place.jobs.depth(LATE) > 1_000, "the flood goes on");
        running.stop().await;
    }
}

#[tokio::test]
async fn a_server_that_sends_nothing_else_is_waited_for_briefly() {
    for place in places() {
        let (peer, running) = behind(&place).await;
        flood(&place, 1_000).await;
        let other = Peer::start().await;
        place.stranger(&other, "carol").await;
        let parent = other.write("carol", "Long ago", None);
        send(&place, &peer, "/posts/2", 0, Some(&parent)).await;
        let brief = async || put_off_for(&place, FOLLOWS_MS).await == 1;
        until("its parent is waited for", brief).await;
        running.stop().await;
    }
}

#[tokio::test]
async fn a_post_that_came_and_is_not_worked_is_asked_for_in_the_end() {
    for place in places() {
        let (peer, running) = behind(&place).await;
        let parent = peer.write("bob", "Long ago", None);
        let path = parent.strip_prefix(&peer.at("")).unwrap();
        send(&place, &peer, path, 5, None).await;
        send(&place, &peer, "/posts/2", 0, Some(&parent)).await;
        let put_off = "jobs_later WHERE kind = 'fetch'";
        until("its parent is waited for", async || place.count(put_off).await == 1).await;
        let long = put_off_for(&place, PATIENCE_MS).await;
        assert_eq!(long, 1, "it is put off once, and looks for itself no more");
        place.pass(15 * 60_000);
        until("the parent is here", async || is_here(&place, parent.clone()).await).await;
        running.stop().await;
    }
}

#[tokio::test]
async fn a_post_is_not_asked_for_at_once_while_much_of_others_waits_among_which_it_may_come() {
    for place in places() {
        let peer = Peer::start().await;
        let alice = place.person("alice").await;
        let bob = place.stranger(&peer, "bob").await;
        befriend(&place, alice, bob).await;
        let parent = peer.write("bob", "Long ago", None);
        let running = place.start();
        flood(&place, 1_000).await;
        send(&place, &peer, "/posts/2", 0, Some(&parent)).await;
        until("the answer is here", async || is_here(&place, peer.at("/posts/2")).await).await;
        assert_eq!(place.count("jobs_later WHERE kind = 'fetch'").await, 1, "it is waited for");
        let earlier = Search { queue: Some(LATE.into()), ..Search::all(Set::Ready) };
        place.jobs.sweep(&earlier, Action::Delete, |_| {}).await.unwrap();
        until("the parent is here", async || is_here(&place, parent.clone()).await).await;
        running.stop().await;
    }
}

#[tokio::test]
async fn people_read_and_find_a_message_that_waits_as_it_came() {
    for place in places() {
        let (_peer, running) = behind(&place).await;
        let search = Search { text: Some("<p>Something</p>".into()), ..Search::all(Set::Ready) };
        let found = place.jobs.look(&search, None).await.unwrap().found;
        assert_eq!(found.len(), 1);
        assert!(!found[0].payload.contains("Something"), "it is kept as small as it can be");
        let shown: Value = serde_json::from_str(&place.jobs.readable(&found[0])).unwrap();
        assert_eq!(shown["body"]["object"]["content"], "<p>Something</p>");
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

/// The same of somebody who is not known.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Stranger;

impl Job for Stranger {
    const KIND: &'static str = "unverified";
    const QUEUE: Queue = Queue::new("unverified", Class::Outbound);
}

/// So many messages stand in the way, and go on doing so.
async fn flood(place: &Place, count: usize) {
    pile(place, Earlier, count).await;
}

/// So many jobs like this one wait, and go on doing so.
pub async fn pile<J: Job + Clone>(place: &Place, one: J, count: usize) {
    let queue = J::QUEUE.name;
    place.jobs.pause(queue).await.unwrap();
    let all = vec![one; count];
    let enqueue = move |tx: &mut Tx, env: &Env| Ok(env.jobs.enqueue_many(tx, &all)?);
    place.write(enqueue).await.unwrap();
    until("this node knows of them", async || place.jobs.depth(queue) >= count as u64).await;
}

/// Waits until it is said of a queue that it gives way.
pub async fn says_why(place: &Place, queue: &str) {
    let gives_way = async || {
        let queues = place.jobs.queues();
        queues.iter().any(|it| it.name == queue && it.limited_by == LimitedBy::Urgent)
    };
    until("it says so", gives_way).await;
}

#[tokio::test]
async fn what_others_write_is_passed_on_when_what_came_in_is_worked() {
    for place in places() {
        let Asked { near, far, running, asked, .. } = ask(&place).await;
        flood(&place, 100).await;
        for path in ["/posts/1", "/posts/2", "/posts/3"] {
            send(&place, &near, path, 0, Some(&asked)).await;
            until("the answer is here", async || is_here(&place, near.at(path)).await).await;
        }
        says_why(&place, "forward").await;
        let left = async || place.count("jobs WHERE kind = 'forward'").await;
        assert_eq!(left().await, 3, "it gives way");
        assert_eq!(far.activities("Create").len(), 1);
        place.pass(1_000);
        until("one goes on all the same", async || far.activities("Create").len() == 2).await;
        until("two wait", async || left().await == 2).await;
        let earlier = Search { queue: Some(LATE.into()), ..Search::all(Set::Ready) };
        place.jobs.sweep(&earlier, Action::Delete, |_| {}).await.unwrap();
        // What comes in has to be worked for a moment; but not for so long as it would wait itself.
        place.pass(4_500);
        until("all are passed on", async || far.activities("Create").len() == 4).await;
        running.stop().await;
    }
}

#[tokio::test]
async fn what_is_passed_on_waits_for_strangers_to_be_judged_and_what_people_here_write_does_not() {
    for place in places() {
        let Asked { near, far, alice, running, asked } = ask(&place).await;
        pile(&place, Stranger, 100).await;
        send(&place, &near, "/posts/1", 0, Some(&asked)).await;
        let left = async || place.count("jobs WHERE kind = 'deliver_passed_on'").await;
        until("it is to be passed on", async || left().await == 1).await;
        says_why(&place, "deliver_passed_on").await;
        place.post(alice, "Another thought", Visibility::Public).await;
        until("that is there", async || far.activities("Create").len() == 2).await;
        assert_eq!(left().await, 1, "it gives way");
        let strangers = Search { queue: Some("unverified".into()), ..Search::all(Set::Ready) };
        place.jobs.sweep(&strangers, Action::Delete, |_| {}).await.unwrap();
        place.pass(4_500);
        until("it is passed on", async || far.activities("Create").len() == 3).await;
        running.stop().await;
    }
}

#[tokio::test]
async fn beside_a_flood_words_are_kept_now_and_then_and_those_of_who_is_here_among_them() {
    for place in places() {
        let near = Peer::start().await;
        let alice = place.person("alice").await;
        let bob = place.stranger(&near, "bob").await;
        befriend(&place, alice, bob).await;
        let running = place.start();
        until("alice is found", async || place.count("jobs").await == 0).await;
        flood(&place, 100).await;
        send(&place, &near, "/posts/1", 0, None).await;
        until("it is here", async || is_here(&place, near.at("/posts/1")).await).await;
        let uri = near.at("/posts/1");
        let post = place.read(move |tx, _| statuses::by_uri(tx, &uri)).await.unwrap().unwrap().id;
        place.write(move |tx, env| statuses::favourite(tx, env, alice, post)).await.unwrap();
        let own = place.post(alice, "A thought", Visibility::Public).await;
        place.write(move |tx, env| statuses::favourite(tx, env, alice, own)).await.unwrap();
        let left = async |of: &str| {
            place.count(&format!("jobs WHERE kind = 'index_status' AND {of}")).await
        };
        assert_eq!(left("lane = 'here'").await, 2, "hers is written, and marked");
        assert!(left("lane = ''").await >= 1, "his");
        says_why(&place, "search").await;
        let kept = async || {
            place.pass(1_000);
            left("1 = 1").await == 0
        };
        until("they go on all the same", kept).await;
        assert_eq!(place.jobs.depth(LATE), 100, "the flood goes on");
        running.stop().await;
    }
}

#[tokio::test]
async fn what_has_to_be_fetched_is_fetched_by_and_by_beside_a_flood_and_at_once_after_it() {
    for place in places() {
        let peer = Peer::start().await;
        let posts: Vec<String> =
            (0..100).map(|number| peer.write("bob", &format!("Post {number}"), None)).collect();
        let running = place.start();
        flood(&place, 1_000).await;
        let want = move |tx: &mut Tx, env: &Env| {
            let mut each = posts.iter().map(|uri| Wanted::Status { uri: uri.clone() });
            each.try_for_each(|wanted| federation::want(tx, env, wanted, 0))
        };
        place.write(want).await.unwrap();
        let left = async || place.count("jobs WHERE kind = 'fetch'").await;
        assert_eq!(left().await, 100);
        place.pass(1_000);
        until("some are fetched", async || left().await == 60).await;
        let earlier = Search { queue: Some(LATE.into()), ..Search::all(Set::Ready) };
        place.jobs.sweep(&earlier, Action::Delete, |_| {}).await.unwrap();
        // No time goes by.
        until("all are", async || left().await == 0).await;
        running.stop().await;
    }
}

/// A message of bob, whom nobody here knows, comes while more waits than a moment's work; and what
/// it answers.
async fn stranger_in_a_flood(place: &Place) -> (Peer, String, Running) {
    let (peer, near) = (Peer::start().await, Peer::start().await);
    let alice = place.person("alice").await;
    place.stranger(&near, "bob").await;
    let running = place.start();
    let post = place.post(alice, "A question", Visibility::Public).await;
    let asked = format!("http://weir.test/ap/users/{alice}/statuses/{post}");
    flood(place, 100).await;
    send(place, &peer, "/posts/1", 0, Some(&asked)).await;
    send(place, &near, "/posts/2", 0, Some(&asked)).await;
    let known = near.at("/posts/2");
    until("what a known one wrote is here", async || is_here(place, known.clone()).await).await;
    assert_eq!(peer.fetched(), Vec::<String>::new(), "nobody asks who the stranger is");
    assert_eq!(place.count(UNVERIFIED).await, 1);
    (peer, asked, running)
}

#[tokio::test]
async fn who_is_not_known_is_asked_for_when_what_came_in_is_worked() {
    for place in places() {
        let (peer, asked, running) = stranger_in_a_flood(&place).await;
        // More than go on now and then in a flood, for the clock stands still.
        for number in 3..43 {
            send(&place, &peer, &format!("/posts/{number}"), 0, Some(&asked)).await;
        }
        let earlier = Search { queue: Some(LATE.into()), ..Search::all(Set::Ready) };
        place.jobs.sweep(&earlier, Action::Delete, |_| {}).await.unwrap();
        place.pass(4_500);
        until("all is judged", async || place.count(UNVERIFIED).await == 0).await;
        until("the first is here", async || is_here(&place, peer.at("/posts/1")).await).await;
        running.stop().await;
    }
}

#[tokio::test]
async fn a_flood_that_does_not_end_keeps_no_stranger_out() {
    for place in places() {
        let (peer, _, running) = stranger_in_a_flood(&place).await;
        let here = async || {
            // First who it is is asked for; the message goes on with those after that.
            place.pass(1_000);
            is_here(&place, peer.at("/posts/1")).await
        };
        until("it is here", here).await;
        assert_eq!(place.jobs.depth(LATE), 100, "the flood goes on");
        running.stop().await;
    }
}
