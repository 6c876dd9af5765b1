//! Messages that are worked in one batch, by statements for all of them.

use std::ops::Range;

use weir_base::Id;
use weir_community::accounts;
use weir_community::federation::order::Version;
use weir_community::federation::{
    self, Deed, Distribute, Fetch, Forward, Incoming, Passable, Senders, Undone, Wanted,
};
use weir_community::relationships::{self, FollowWish};
use weir_community::statuses::{self, RemoteMention, RemoteStatus, Visibility};
use weir_community::{Env, Error};
use weir_db::{Tx, params};
use weir_jobs::{Claimed, Job};

use crate::housekeeping::actor;
use crate::place::{Place, places, until};

const BOB: &str = "https://bob.example/bob";

fn uri(path: &str) -> String {
    format!("https://bob.example/{path}")
}

fn incoming(env: &Env, deed: Deed) -> Incoming {
    let now = env.clock.now();
    let version = Version { at: now, seq: env.ids.next() };
    Incoming { actor: BOB.into(), activity: String::new(), version, arrived: now, deed }
}

/// Works `deeds` of bob in one transaction; tells which were worked together.
async fn work(place: &Place, deeds: Vec<Deed>) -> Vec<bool> {
    work_of(place, BOB, deeds).await
}

/// [`work`], of `actor`.
async fn work_of(place: &Place, actor: &'static str, deeds: Vec<Deed>) -> Vec<bool> {
    let unit = move |tx: &mut Tx, env: &Env| {
        let one = |deed: &Deed| Incoming { actor: actor.into(), ..incoming(env, deed.clone()) };
        let batch: Vec<Incoming> = deeds.iter().map(one).collect();
        let body = String::from("{}");
        let passable = Passable { body, proven: false, addressed: Vec::new() };
        let messages: Vec<_> = batch.iter().map(|one| (one, Some(&passable))).collect();
        let mut senders = Senders::read(tx, &batch)?;
        let done = federation::receive_plain(tx, env, &mut senders, &messages)?;
        for (one, _) in batch.iter().zip(&done).filter(|(_, done)| !**done) {
            federation::receive_and_forward(tx, env, &mut senders, one, &passable)?;
        }
        Ok(done)
    };
    place.write(unit).await.unwrap()
}

fn note(path: &str, answers: Option<&str>, mentions: &[&str]) -> Deed {
    let mention = |uri: &&str| RemoteMention { uri: (*uri).into(), silent: false };
    let note = RemoteStatus {
        uri: uri(path),
        content: format!("<p>{path}</p>"),
        in_reply_to: answers.map(str::to_owned),
        mentions: mentions.iter().map(mention).collect(),
        tags: vec!["flood".into()],
        ..RemoteStatus::default()
    };
    Deed::Post(Box::new(note.cleaned().unwrap()))
}

fn deletion(path: &str) -> Deed {
    Deed::Delete { uri: uri(path) }
}

async fn rows(place: &Place, table: &str) -> i64 {
    let sql = format!("SELECT count(*) FROM {table}");
    place.read(move |tx, _| Ok(tx.value(&sql, &[])?.unwrap_or(0))).await.unwrap()
}

/// bob of another server, whom alice here follows, and a post of hers.
async fn met(place: &Place) -> (Id, Id, String) {
    let alice = place.person("alice").await;
    let bob = actor(place, "bob").await;
    let follow = move |tx: &mut Tx, env: &Env| {
        relationships::follow(tx, env, alice, bob, &FollowWish::default())?;
        relationships::accept_request(tx, env, bob, alice)
    };
    place.write(follow).await.unwrap();
    let asked = place.post(alice, "A question", Visibility::Public).await;
    let asked = place.read(move |tx, _| statuses::by_id(tx, asked)).await.unwrap();
    (alice, bob, asked.uri)
}

#[tokio::test]
async fn deletions_that_come_together_take_all_that_hangs_on_their_posts() {
    for place in places() {
        let (alice, bob, asked) = met(&place).await;
        let me = place.read(move |tx, _| accounts::by_id(tx, alice)).await.unwrap().uri;
        let posts = vec![
            note("answer", Some(&asked), &[&me]),
            note("boosted", None, &[]),
            note("plain", None, &[]),
            note("stays", None, &[]),
        ];
        work(&place, posts).await;
        work(&place, vec![note("below", Some(&uri("boosted")), &[])]).await;
        let boosted = uri("boosted");
        let mark = move |tx: &mut Tx, env: &Env| {
            let post = statuses::by_uri(tx, &boosted)?.ok_or(Error::NotFound("Status"))?;
            statuses::boost(tx, env, alice, post.id, None)?;
            statuses::favourite(tx, env, alice, post.id).map(drop)
        };
        place.write(mark).await.unwrap();
        let at = async |path: &str| {
            let uri = uri(path);
            place.read(move |tx, _| statuses::by_uri(tx, &uri)).await.unwrap()
        };
        let forwards = format!("jobs WHERE kind = '{}'", Forward::KIND);
        let before = rows(&place, &forwards).await;
        let gone = ["answer", "boosted", "plain", "never"].map(deletion).into();
        assert_eq!(work(&place, gone).await, [true; 4], "{}", place.name());
        for path in ["answer", "boosted", "plain"] {
            assert!(at(path).await.is_none(), "{path}");
        }
        assert!(at("stays").await.is_some());
        let below = at("below").await.expect("it stays");
        assert_eq!((below.in_reply_to_id, below.in_reply_to_uri), (None, Some(uri("boosted"))));
        let asked = place.read(move |tx, _| statuses::by_uri(tx, &asked)).await.unwrap().unwrap();
        assert_eq!(asked.replies_count, 0);
        for table in ["mentions", "favourites", "notifications WHERE status_id <> 0"] {
            assert_eq!(rows(&place, table).await, 0, "{table}");
        }
        assert_eq!(rows(&place, "status_tags").await, 2);
        assert_eq!(rows(&place, "tombstones").await, 4, "also of what never came");
        let counts = async |id: Id| {
            place.read(move |tx, _| accounts::by_id(tx, id)).await.unwrap().statuses_count
        };
        assert_eq!((counts(bob).await, counts(alice).await), (2, 1), "boosts are gone, too");
        // To those who have it by an answer here, or by a boost.
        assert_eq!(rows(&place, &forwards).await - before, 2);
        // What was deleted does not come back.
        work(&place, vec![note("never", None, &[]), note("plain", None, &[])]).await;
        assert!(at("never").await.is_none() && at("plain").await.is_none());
    }
}

#[tokio::test]
async fn an_edit_that_changes_nothing_but_the_text_keeps_what_else_there_is_and_one_version_each() {
    for place in places() {
        let (alice, _, asked) = met(&place).await;
        let me = place.read(move |tx, _| accounts::by_id(tx, alice)).await.unwrap().uri;
        work(&place, vec![note("answer", Some(&asked), &[&me])]).await;
        let edit = |text: &str| {
            let Deed::Post(mut post) = note("answer", Some(&asked), &[&me]) else { unreachable!() };
            post.content = format!("<p>{text}</p>");
            Deed::Post(post)
        };
        for text in ["second", "third", "third"] {
            work(&place, vec![edit(text)]).await;
        }
        let read = |tx: &mut Tx, _: &Env| {
            let post = statuses::by_uri(tx, &uri("answer"))?.ok_or(Error::NotFound("Status"))?;
            let versions: Vec<String> = tx.column(
                "SELECT content FROM status_edits WHERE status_id = ?1 ORDER BY created_at, id",
                params![post.id],
            )?;
            Ok((post.content, versions))
        };
        let (content, versions) = place.read(read).await.unwrap();
        assert_eq!(content, "<p>third</p>");
        assert_eq!(versions, ["<p>answer</p>", "<p>second</p>", "<p>third</p>"]);
        assert_eq!(rows(&place, "mentions").await, 1);
        assert_eq!(rows(&place, "status_tags").await, 1);
    }
}

#[tokio::test]
async fn boosts_of_posts_that_are_not_here_yet_stand_when_those_come() {
    for place in places() {
        met(&place).await;
        let unit = |tx: &mut Tx, env: &Env| {
            let boosted = |path: &str| {
                let activity = uri(&format!("{path}/boost"));
                Incoming { activity, ..incoming(env, boost(path)) }
            };
            let batch = ["one", "two", "gone"].map(boosted);
            let messages: Vec<_> = batch.iter().map(|one| (one, None)).collect();
            let mut senders = Senders::read(tx, &batch)?;
            federation::receive_plain(tx, env, &mut senders, &messages)
        };
        work(&place, vec![deletion("gone"), deletion("gone too")]).await;
        assert_eq!(place.write(unit).await.unwrap(), [true; 3], "{}", place.name());
        let wanted = "jobs WHERE kind = 'fetch'";
        assert_eq!(rows(&place, wanted).await, 2, "nobody asks for what was deleted");
        work(&place, vec![note("one", None, &[]), note("two", None, &[])]).await;
        let boosts = "statuses WHERE boost_of_id IS NOT NULL";
        assert_eq!(rows(&place, boosts).await, 2, "{}", place.name());
    }
}

#[tokio::test]
async fn of_third_parties_so_much_is_fetched_at_once_on_one_servers_word_and_the_rest_by_and_by() {
    for place in places() {
        met(&place).await;
        // Each post names ten people of as many other servers.
        let named = |post: usize, of: &str| -> Vec<String> {
            (0..10).map(|it| format!("https://{of}{}.example/it", post * 10 + it)).collect()
        };
        let posts = |of: &str, posts: Range<usize>| -> Vec<Deed> {
            let one = |post| {
                let names = named(post, of);
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                note(&format!("{of}{post}"), None, &names)
            };
            posts.map(one).collect()
        };
        let (now, later) = ("jobs WHERE kind = 'fetch'", "jobs_later WHERE kind = 'fetch'");
        work(&place, posts("many", 0..100)).await;
        assert_eq!((rows(&place, now).await, rows(&place, later).await), (1_000, 0));
        work(&place, posts("more", 0..5)).await;
        assert_eq!((rows(&place, now).await, rows(&place, later).await), (1_000, 50));
        // Of its own server what it wants is fetched as before.
        work(&place, vec![note("own", None, &[&uri("somebody")])]).await;
        assert_eq!((rows(&place, now).await, rows(&place, later).await), (1_001, 50));
        // Nor does its turn keep away whoever else wants the same.
        let post = "https://third.example/post";
        let (visibility, published) = (Visibility::Public, None);
        work(&place, vec![Deed::Boost { object: post.into(), visibility, published }]).await;
        assert_eq!((rows(&place, now).await, rows(&place, later).await), (1_001, 51));
        let wanted = Wanted::Status { uri: post.into() };
        place.write(move |tx, env| federation::want(tx, env, wanted.clone(), 0)).await.unwrap();
        assert_eq!((rows(&place, now).await, rows(&place, later).await), (1_002, 51));
    }
}

/// bob's boost of his own post at `path`.
fn boost(path: &str) -> Deed {
    Deed::Boost { object: uri(path), visibility: Visibility::Public, published: None }
}

/// How many statements it takes to work `deeds` of bob together.
async fn statements(place: &Place, deeds: Vec<Deed>) -> usize {
    let one = |deed: Deed| {
        let activity = match &deed {
            Deed::Boost { object, .. } => format!("{object}/boost"),
            _ => String::new(),
        };
        (BOB.to_owned(), activity, deed)
    };
    statements_of(place, deeds.into_iter().map(one).collect()).await
}

/// [`statements`], of several: who says it, the activity's address, and the deed.
async fn statements_of(place: &Place, said: Vec<(String, String, Deed)>) -> usize {
    let unit = move |tx: &mut Tx, env: &Env| {
        let incoming = |(actor, activity, deed): &(String, String, Deed)| {
            let (actor, activity) = (actor.clone(), activity.clone());
            Incoming { actor, activity, ..incoming(env, deed.clone()) }
        };
        let batch: Vec<Incoming> = said.iter().map(incoming).collect();
        let passable = Passable { body: "{}".into(), proven: false, addressed: Vec::new() };
        let messages: Vec<_> = batch.iter().map(|one| (one, Some(&passable))).collect();
        let before = tx.statements();
        let mut senders = Senders::read(tx, &batch)?;
        let done = federation::receive_plain(tx, env, &mut senders, &messages)?;
        assert!(done.iter().all(|done| *done), "all are worked together");
        Ok(tx.statements() - before)
    };
    place.write(unit).await.unwrap()
}

#[tokio::test]
async fn a_batch_costs_as_many_statements_however_many_follow_or_like_or_take_that_back() {
    for place in places() {
        let (alice, _, asked) = met(&place).await;
        let me = place.read(move |tx, _| accounts::by_id(tx, alice)).await.unwrap().uri;
        let (few, many) = (3, 12);
        for fan in 0..few + many {
            actor(&place, &format!("fan{fan}")).await;
        }
        let undo = |kind: &str, object: &str, activity: String| {
            Deed::Undo(Undone { activity, kind: kind.into(), object: object.into() })
        };
        let deed = |does: &str, fan: &str| match does {
            "follow" => Deed::Follow { target: me.clone() },
            "like" => Deed::Like { object: asked.clone() },
            "unlike" => undo("like", &asked, format!("{fan}#like")),
            _ => undo("follow", &me, format!("{fan}#follow")),
        };
        let said = |does: &str, fans: Range<usize>| -> Vec<(String, String, Deed)> {
            let one = |fan: usize| {
                let fan = format!("https://fan{fan}.example/fan{fan}");
                (fan.clone(), format!("{fan}#{does}"), deed(does, &fan))
            };
            fans.map(one).collect()
        };
        let answers = format!("jobs WHERE kind = '{}'", Distribute::KIND);
        let before = rows(&place, &answers).await;
        for (does, followers, favourites) in
            [("follow", 15, 0), ("like", 15, 15), ("unlike", 15, 0), ("unfollow", 0, 0)]
        {
            let cost = statements_of(&place, said(does, 0..few)).await;
            let more = statements_of(&place, said(does, few..few + many)).await;
            assert_eq!(cost, more, "{}: {does}", place.name());
            let alice = place.read(move |tx, _| accounts::by_id(tx, alice)).await.unwrap();
            let asked = asked.clone();
            let post = place.read(move |tx, _| statuses::by_uri(tx, &asked)).await.unwrap();
            let counts = (alice.followers_count, post.unwrap().favourites_count);
            assert_eq!(counts, (followers, favourites), "{}: {does}", place.name());
            for (kind, count) in [("follow", followers), ("favourite", favourites)] {
                let told = format!("notifications WHERE kind = '{kind}'");
                assert_eq!(rows(&place, &told).await, count, "{}: {does}, {kind}", place.name());
            }
            let follows = rows(&place, "follows").await;
            assert_eq!(follows, followers + 1, "alice's of bob stays");
            assert_eq!(rows(&place, "favourites").await, favourites);
        }
        assert_eq!(rows(&place, &answers).await - before, 15, "each follow is accepted once");
    }
}

#[tokio::test]
async fn a_batch_costs_as_many_statements_however_many_posts_and_deletions_it_holds() {
    for place in places() {
        let (alice, _, asked) = met(&place).await;
        let me = place.read(move |tx, _| accounts::by_id(tx, alice)).await.unwrap().uri;
        // Each mentions somebody, answers, has a tag, and is passed on.
        let posts = |part: &str, count: usize| -> Vec<Deed> {
            let path = |number| format!("{part}{number}");
            (0..count).map(|number| note(&path(number), Some(&asked), &[&me])).collect()
        };
        // The tag is known from then on.
        statements(&place, posts("first", 2)).await;
        let forwards = format!("jobs WHERE kind = '{}'", Forward::KIND);
        let few = statements(&place, posts("few", 3)).await;
        let many = statements(&place, posts("many", 12)).await;
        assert_eq!(few, many, "{}: posts", place.name());
        assert_eq!(rows(&place, &forwards).await, 2 + 3 + 12, "each is passed on");
        let gone = |part: &str, count: usize| -> Vec<Deed> {
            (0..count).map(|number| deletion(&format!("{part}{number}"))).collect()
        };
        let few = statements(&place, gone("few", 3)).await;
        let many = statements(&place, gone("many", 12)).await;
        assert_eq!(few, many, "{}: deletions", place.name());
        assert_eq!(rows(&place, "tombstones").await, 3 + 12);
        let few = statements(&place, gone("never", 3)).await;
        let many = statements(&place, gone("neither", 12)).await;
        assert_eq!(few, many, "{}: deletions of what never came", place.name());
    }
}

#[tokio::test]
async fn of_one_server_so_many_messages_wait_to_be_passed_on_and_those_of_others_beside() {
    for place in places() {
        let (alice, _, asked) = met(&place).await;
        actor(&place, "carol").await;
        let running = place.start(|registry, _| {
            registry.task(async |_: Claimed<Forward>| Ok(()));
        });
        let queue = Forward::QUEUE.name;
        place.jobs.pause(queue).await.unwrap();
        let origin = "bob.example";
        let many = move |tx: &mut Tx, env: &Env| {
            let one = Forward { by: vec![alice], body: "{}".into(), origin: origin.into() };
            Ok(env.jobs.enqueue_many(tx, &vec![one; 4_999])?)
        };
        place.write(many).await.unwrap();
        let known = |count| {
            let (jobs, name) = (place.jobs.clone(), place.name());
            async move {
                until(name, async || jobs.depth_in(queue, origin) == count).await;
            }
        };
        known(4_999).await;
        work(&place, vec![note("first", Some(&asked), &[])]).await;
        known(5_000).await;
        work(&place, vec![note("second", Some(&asked), &[])]).await;
        let Deed::Post(mut post) = note("third", Some(&asked), &[]) else { unreachable!() };
        post.uri = "https://carol.example/third".into();
        work_of(&place, "https://carol.example/carol", vec![Deed::Post(post)]).await;
        let here = "statuses WHERE local = 0";
        assert_eq!(rows(&place, here).await, 3, "all are here");
        work(&place, vec![deletion("first")]).await;
        let waiting = format!("jobs WHERE kind = '{}'", Forward::KIND);
        // Those of bob before the limit, carol's, and the deletion.
        assert_eq!(rows(&place, &waiting).await, 5_002, "{}", place.name());
        running.stop().await;
    }
}

/// A post with this text.
fn text(path: &str, text: &str, answers: Option<&str>) -> Deed {
    let Deed::Post(mut post) = note(path, answers, &[BOB]) else { unreachable!() };
    post.content = format!("<p>{text}</p>");
    Deed::Post(post)
}

#[tokio::test]
async fn a_batch_costs_as_many_statements_however_many_wait_for_what_it_brings() {
    for place in places() {
        met(&place).await;
        let all = |count: usize, deed: &dyn Fn(usize) -> Deed| -> Vec<Deed> {
            (0..count).map(deed).collect()
        };
        let mut costs = Vec::new();
        for (part, count) in [("first", 2), ("few", 3), ("many", 12)] {
            let path = |number: usize| format!("{part}{number}");
            let answer =
                |number| text(&format!("{}/answer", path(number)), "?", Some(&uri(&path(number))));
            // What comes first answers, and boosts, what comes then.
            statements(&place, all(count, &answer)).await;
            statements(&place, all(count, &|number| boost(&path(number)))).await;
            let cost =
                statements(&place, all(count, &|number| text(&path(number), "!", None))).await;
            let edits = all(count, &|number| text(&path(number), "edited", None));
            costs.push((cost, statements(&place, edits).await));
        }
        assert_eq!(costs[1], costs[2], "{}", place.name());
        let count = 2 + 3 + 12;
        let boosts = "statuses WHERE boost_of_id IS NOT NULL";
        assert_eq!(rows(&place, boosts).await, count, "{}", place.name());
        let answers = "statuses a JOIN statuses p ON p.id = a.in_reply_to_id
           WHERE a.uri = p.uri || '/answer' AND a.conversation_id = p.conversation_id
             AND p.conversation_id = p.id AND p.replies_count = 1 AND a.in_reply_to_uri IS NULL";
        assert_eq!(rows(&place, answers).await, count, "{}", place.name());
        assert_eq!(rows(&place, "statuses WHERE content = '<p>edited</p>'").await, count);
        assert_eq!(rows(&place, "status_edits").await, 2 * count, "as it was, and as it is");
    }
}

#[tokio::test]
async fn who_answers_through_what_comes_later_is_in_the_conversation_of_all() {
    for place in places() {
        met(&place).await;
        // last, which answers middle, and middle, which answers first, come before first; what
        // answers last came even before that.
        work(&place, vec![text("below", "4", Some(&uri("last")))]).await;
        work(&place, vec![text("middle", "2", Some(&uri("first")))]).await;
        statements(&place, vec![boost("last"), boost("nothing")]).await;
        let both = vec![text("first", "1", None), text("last", "3", Some(&uri("middle")))];
        work(&place, both).await;
        let threads = "(SELECT DISTINCT conversation_id FROM statuses WHERE local = 0) AS one";
        assert_eq!(rows(&place, threads).await, 1, "{}", place.name());
        assert_eq!(rows(&place, "statuses WHERE boost_of_id IS NOT NULL").await, 1);
    }
}

#[tokio::test]
async fn posts_that_come_after_their_deletions_cost_as_many_statements_however_many_they_are() {
    for place in places() {
        let (_, _, asked) = met(&place).await;
        let uri = asked.clone();
        let post = place.read(move |tx, _| statuses::by_uri(tx, &uri)).await.unwrap().unwrap();
        for answered in [None, Some(asked.as_str())] {
            let mut costs = Vec::new();
            for (part, count) in [("first", 2), ("few", 3), ("many", 12)] {
                let path = |number: usize| format!("{part}{number}{}", answered.is_some());
                statements(&place, (0..count).map(|number| deletion(&path(number))).collect())
                    .await;
                let posts = (0..count).map(|number| text(&path(number), "!", answered)).collect();
                costs.push(statements(&place, posts).await);
            }
            assert_eq!(costs[1], costs[2], "{}: {answered:?}", place.name());
        }
        assert_eq!(rows(&place, "statuses WHERE local = 0").await, 0, "{}", place.name());
        let kept = "tombstones WHERE conversation_id IS NOT NULL";
        assert_eq!(rows(&place, kept).await, 2 * (2 + 3 + 12), "{}", place.name());
        let answers = format!("tombstones WHERE conversation_id = {}", post.conversation_id);
        assert_eq!(rows(&place, &answers).await, 2 + 3 + 12, "{}", place.name());
    }
}

#[tokio::test]
async fn edits_that_name_others_or_have_other_tags_are_taken_in_all_the_same() {
    for place in places() {
        let (alice, _, _) = met(&place).await;
        let me = place.read(move |tx, _| accounts::by_id(tx, alice)).await.unwrap().uri;
        work(&place, ["one", "two", "three"].map(|path| note(path, None, &[])).into()).await;
        let mut edits = ["one", "two", "three"].map(|path| note(path, None, &[]));
        for (at, edit) in edits.iter_mut().enumerate() {
            let Deed::Post(post) = edit else { unreachable!() };
            post.content = "<p>edited</p>".into();
            match at {
                0 => post.mentions.push(RemoteMention { uri: me.clone(), silent: false }),
                1 => post.tags = vec!["other".into()],
                _ => post.tags.push("Flood".into()),
            }
        }
        assert_eq!(work(&place, edits.into()).await, [false, false, true], "{}", place.name());
        assert_eq!(rows(&place, "statuses WHERE content = '<p>edited</p>'").await, 3);
        assert_eq!(rows(&place, "mentions").await, 1, "{}", place.name());
        let tags = "status_tags s JOIN tags t ON t.id = s.tag_id WHERE t.name = 'other'";
        assert_eq!(rows(&place, tags).await, 1, "{}", place.name());
    }
}

/// More than one unit takes care of.
const CROWD: i64 = 1_200;

#[tokio::test]
async fn very_many_who_answered_a_post_before_it_came_find_it_a_slice_at_a_time() {
    for place in places() {
        let (_, bob, _) = met(&place).await;
        work(&place, vec![note("early", Some(&uri("late")), &[])]).await;
        let crowd = move |tx: &mut Tx, env: &Env| {
            let early = statuses::by_uri(tx, &uri("early"))?.ok_or(Error::NotFound("Status"))?;
            let (first, late) = (env.ids.next(), uri("late"));
            for number in 1..CROWD {
                let (id, uri) = (Id(first.0 + number), uri(&number.to_string()));
                tx.run(
                    "INSERT INTO statuses (id, account_id, uri, created_at, visibility,
                       in_reply_to_uri, conversation_id) VALUES (?1, ?2, ?3, 0, 0, ?4, ?5)",
                    params![id, bob, uri, late, early.conversation_id],
                )?;
            }
            Ok(())
        };
        place.write(crowd).await.unwrap();
        work(&place, vec![note("late", None, &[])]).await;
        let waiting = "statuses WHERE in_reply_to_uri IS NOT NULL";
        assert_eq!(rows(&place, waiting).await, CROWD, "{}: all at once", place.name());
        let running = place.start(|registry, community| {
            statuses::register(registry, community);
            registry.task(async |_: Claimed<Fetch>| Ok(()));
        });
        let late = async || {
            let found = place.read(|tx, _| statuses::by_uri(tx, &uri("late"))).await;
            found.unwrap().expect("it came")
        };
        let id = late().await.id;
        let thread = format!("statuses WHERE conversation_id = {id}");
        until(place.name(), async || rows(&place, &thread).await == CROWD + 1).await;
        until(place.name(), async || rows(&place, waiting).await == 0).await;
        running.stop().await;
        assert_eq!(late().await.replies_count, CROWD, "{}", place.name());
        let answers = format!("statuses WHERE in_reply_to_id = {id}");
        assert_eq!(rows(&place, &answers).await, CROWD, "{}", place.name());
    }
}

#[tokio::test]
async fn what_very_many_did_to_a_post_goes_after_it_a_slice_at_a_time() {
    for place in places() {
        let (alice, _, asked) = met(&place).await;
        let uri = asked.clone();
        let post = place.read(move |tx, _| statuses::by_uri(tx, &uri)).await.unwrap().unwrap();
        let id = post.id;
        let crowd = move |tx: &mut Tx, env: &Env| {
            let first = env.ids.next().0;
            for number in 0..CROWD {
                // Each is somebody's, of whom nothing else is known.
                let (one, other) = (Id(first + number), Id(first + CROWD + number));
                for (sql, row) in [
                    (
                        "INSERT INTO statuses (id, account_id, uri, created_at, visibility,
                           in_reply_to_id, in_reply_to_account_id)
                         VALUES (?1, ?2, ?3, 0, 0, ?4, 0)",
                        one,
                    ),
                    (
                        "INSERT INTO statuses (id, account_id, uri, created_at, visibility,
                           boost_of_id) VALUES (?1, ?2, ?3, 0, 0, ?4)",
                        other,
                    ),
                ] {
                    tx.run(sql, params![row, one, uri_of(row), id])?;
                }
                tx.run(
                    "INSERT INTO favourites (id, account_id, status_id) VALUES (?1, ?1, ?2)",
                    params![one, id],
                )?;
                tx.run(
                    "INSERT INTO notifications (id, account_id, kind, group_key, from_account_id,
                       status_id) VALUES (?1, ?3, 'favourite', '', ?1, ?2)",
                    params![one, id, alice],
                )?;
            }
            tx.run(
                "UPDATE statuses SET favourites_count = ?2, boosts_count = ?2, replies_count = ?2
                 WHERE id = ?1",
                params![id, CROWD],
            )?;
            Ok(())
        };
        place.write(crowd).await.unwrap();
        place.write(move |tx, env| statuses::delete(tx, env, alice, id).map(drop)).await.unwrap();
        let left = [
            format!("statuses WHERE boost_of_id = {id}"),
            format!("statuses WHERE in_reply_to_id = {id}"),
            format!("favourites WHERE status_id = {id}"),
            format!("notifications WHERE status_id = {id}"),
        ];
        for left in &left {
            let count = rows(&place, left).await;
            assert!((1..=CROWD).contains(&count), "{}: {left}: {count}", place.name());
        }
        let running = place.start(statuses::register);
        for left in &left {
            until(left, async || rows(&place, left).await == 0).await;
        }
        running.stop().await;
        let parted = format!("statuses WHERE in_reply_to_uri = '{asked}'");
        assert_eq!(rows(&place, &parted).await, CROWD, "{}", place.name());
    }
}

/// An address for a row of a crowd.
fn uri_of(row: Id) -> String {
    uri(&row.to_string())
}
