//! What is removed in time, and what never is.

use std::collections::BTreeSet;

use weir_base::{Id, Timestamp};
use weir_community::accounts::{self, RemoteAccount};
use weir_community::chat::messages;
use weir_community::chat::rooms::{self, RoomMessage};
use weir_community::federation::order::Version;
use weir_community::filters::{self, FilterChange};
use weir_community::housekeeping::{self, CHORES, Chore, Figures, Keep};
use weir_community::relationships::{self, FollowWish};
use weir_community::reports::{self, NewReport};
use weir_community::statuses::{
    self, Cause, Draft, Receipt, RemoteMedia, RemoteMention, RemotePoll, RemoteStatus, Visibility,
};
use weir_community::{Env, tags};
use weir_db::{Tx, params};

use crate::place::{Place, places};

pub const DAY_MS: i64 = 24 * 3_600 * 1_000;
pub const KEEP: Keep = Keep { remote_days: 30, chat_days: 30, notification_days: 180 };

pub fn chore(name: &str) -> &'static Chore {
    CHORES.iter().find(|chore| chore.name == name).expect("a chore of that name")
}

pub async fn run(place: &Place, name: &'static str) -> Figures {
    housekeeping::run(&place.community, chore(name), KEEP, |_| ()).await.unwrap();
    place.read(move |tx, _| housekeeping::figures(tx, chore(name))).await.unwrap()
}

/// An account of another server, with a name that is its address too.
pub async fn actor(place: &Place, name: &str) -> Id {
    let uri = format!("https://{name}.example/{name}");
    let remote = RemoteAccount {
        username: name.into(),
        domain: format!("{name}.example"),
        inbox: format!("{uri}/inbox"),
        uri,
        ..RemoteAccount::default()
    };
    let remote = remote.cleaned().unwrap();
    let learn = move |tx: &mut Tx, env: &Env| {
        let version = Version { at: env.clock.now(), seq: env.ids.next() };
        accounts::upsert(tx, env, &remote, version)
    };
    place.write(learn).await.unwrap()
}

async fn follow(place: &Place, by: Id, target: Id) {
    let unit = move |tx: &mut Tx, env: &Env| {
        relationships::follow(tx, env, by, target, &FollowWish::default())?;
        relationships::accept_request(tx, env, target, by)
    };
    place.write(unit).await.unwrap();
}

fn note(path: &str) -> RemoteStatus {
    RemoteStatus {
        uri: format!("https://notes.example/{path}"),
        content: format!("<p>{path}</p>"),
        ..RemoteStatus::default()
    }
}

/// A post of another server that came because something referred to it.
async fn take_in(place: &Place, by: Id, remote: RemoteStatus) -> Id {
    let remote = remote.cleaned().unwrap();
    let unit = move |tx: &mut Tx, env: &Env| {
        let (by, now) = (accounts::by_id(tx, by)?, env.clock.now());
        let version = Version { at: now, seq: env.ids.next() };
        let cause = Cause::Wanted { depth: 0 };
        statuses::receive(tx, env, &by, &remote, version, now, cause)
    };
    match place.write(unit).await.unwrap() {
        Receipt::New(id) => id,
        other => panic!("not new: {other:?}"),
    }
}

pub async fn learn(place: &Place, by: Id, path: &str) -> Id {
    take_in(place, by, note(path)).await
}

async fn boost(place: &Place, by: Id, path: &str) -> Id {
    let (object, activity) = (note(path).uri, format!("https://notes.example/boosts/{path}"));
    let unit = move |tx: &mut Tx, env: &Env| {
        let (by, now) = (accounts::by_id(tx, by)?, env.clock.now());
        let version = Version { at: now, seq: env.ids.next() };
        let open = Visibility::Public;
        statuses::receive_boost(tx, env, &by, &object, &activity, open, Some(now), version, now)
    };
    place.write(unit).await.unwrap().id().expect("a boost")
}

pub async fn left(place: &Place) -> BTreeSet<Id> {
    let all = |tx: &mut Tx, _: &Env| Ok(tx.column::<Id>("SELECT id FROM statuses", &[])?);
    place.read(all).await.unwrap().into_iter().collect()
}

pub async fn count(place: &Place, sql: &'static str) -> i64 {
    let count = move |tx: &mut Tx, _: &Env| Ok(tx.value::<i64>(sql, &[])?.unwrap_or(0));
    place.read(count).await.unwrap()
}

/// Everything that a post's absence or presence must agree with.
pub async fn agrees(place: &Place) {
    for sql in [
        "SELECT count(*) FROM mentions WHERE status_id NOT IN (SELECT id FROM statuses)",
        "SELECT count(*) FROM status_tags WHERE status_id NOT IN (SELECT id FROM statuses)",
        "SELECT count(*) FROM media WHERE status_id NOT IN (SELECT id FROM statuses)
           AND status_id NOT IN (SELECT id FROM scheduled_statuses)",
        "SELECT count(*) FROM polls WHERE status_id NOT IN (SELECT id FROM statuses)",
        "SELECT count(*) FROM pins WHERE status_id NOT IN (SELECT id FROM statuses)",
        "SELECT count(*) FROM bookmarks WHERE status_id NOT IN (SELECT id FROM statuses)",
        "SELECT count(*) FROM statuses WHERE account_id NOT IN (SELECT id FROM accounts)",
        "SELECT count(*) FROM statuses WHERE in_reply_to_id NOT IN (SELECT id FROM statuses)",
        "SELECT count(*) FROM statuses WHERE boost_of_id NOT IN (SELECT id FROM statuses)",
        "SELECT count(*) FROM statuses p WHERE p.replies_count <> (
           SELECT count(*) FROM statuses r WHERE r.in_reply_to_id = p.id AND r.visibility <= 1)",
        "SELECT count(*) FROM statuses p WHERE p.boosts_count <> (
           SELECT count(*) FROM statuses b WHERE b.boost_of_id = p.id)",
        "SELECT count(*) FROM accounts a WHERE a.statuses_count <> (
           SELECT count(*) FROM statuses s WHERE s.account_id = a.id)",
    ] {
        assert_eq!(count(place, sql).await, 0, "{}: {sql}", place.name());
    }
}

fn picture() -> RemoteMedia {
    RemoteMedia {
        url: "https://notes.example/a.png".into(),
        content_type: "image/png".into(),
        description: None,
        blurhash: None,
        size: None,
        focus: None,
    }
}

fn poll() -> RemotePoll {
    RemotePoll {
        options: vec![("yes".into(), 0), ("no".into(), 0)],
        multiple: false,
        expires_at: Some(Timestamp::from_ms(1_700_000_000_000 + 5 * DAY_MS)),
        voters_count: 0,
    }
}

/// Posts of `stranger`, whom nobody follows, each of which somebody here touched in another way.
async fn touched(place: &Place, alice: Id, stranger: Id) -> Vec<(&'static str, Id)> {
    let mut kept = Vec::new();
    for name in ["favourited", "bookmarked", "boosted", "reported", "muted", "filtered", "answered"]
    {
        kept.push((name, learn(place, stranger, name).await));
    }
    let later = learn(place, stranger, "to be answered later").await;
    let voted =
        take_in(place, stranger, RemoteStatus { poll: Some(poll()), ..note("voted") }).await;
    let tagged = RemoteStatus { tags: vec!["Weir".into()], ..note("with a followed hashtag") };
    let tagged = take_in(place, stranger, tagged).await;
    let find = |name: &str| kept.iter().find(|(known, _)| *known == name).unwrap().1;
    let [favourited, bookmarked, boosted] = ["favourited", "bookmarked", "boosted"].map(find);
    let [reported, muted, filtered, answered] =
        ["reported", "muted", "filtered", "answered"].map(find);
    let touch = move |tx: &mut Tx, env: &Env| {
        statuses::favourite(tx, env, alice, favourited)?;
        statuses::bookmark(tx, env, alice, bookmarked)?;
        statuses::boost(tx, env, alice, boosted, None)?;
        statuses::mute_conversation(tx, env, alice, muted)?;
        statuses::vote(tx, env, alice, voted, &[0])?;
        let report =
            NewReport { target_id: stranger, status_ids: vec![reported], ..NewReport::default() };
        reports::create(tx, env, alice, &report, "")?;
        let change = FilterChange {
            title: Some("no".into()),
            contexts: Some(vec!["home".into()]),
            ..FilterChange::default()
        };
        let filter = filters::create(tx, env, alice, &change)?;
        filters::add_status(tx, env, alice, filter.id, filtered)?;
        let reply = |to| Draft { text: "!".into(), in_reply_to: Some(to), ..Draft::default() };
        statuses::publish(tx, env, alice, &reply(answered))?;
        let at = env.clock.now().plus_ms(60 * DAY_MS);
        statuses::schedule(tx, env, alice, &reply(later), at)?;
        tags::follow(tx, env, alice, "weir")?;
        Ok(())
    };
    place.write(touch).await.unwrap();
    kept.extend([("later", later), ("voted", voted), ("tagged", tagged)]);
    kept
}

#[tokio::test]
async fn what_nobody_here_follows_or_touched_goes_and_all_else_stays() {
    for place in places() {
        let alice = place.person("alice").await;
        let [stranger, other, friend] = [
            actor(&place, "stranger").await,
            actor(&place, "other").await,
            actor(&place, "friend").await,
        ];
        follow(&place, alice, friend).await;
        let mut kept = touched(&place, alice, stranger).await;
        kept.push(("followed", learn(&place, friend, "of a friend").await));
        let spread = learn(&place, stranger, "boosted by a friend").await;
        kept.push(("boosted by a friend", spread));
        boost(&place, friend, "boosted by a friend").await;
        let own = place.post(alice, "of alice", Visibility::Public).await;
        let answer = |to: &str| Some(format!("https://notes.example/{to}"));
        let own_uri = place.read(move |tx, _| Ok(statuses::by_id(tx, own)?.uri)).await.unwrap();
        let reply = RemoteStatus { in_reply_to: Some(own_uri), ..note("to alice") };
        kept.push(("answers alice", take_in(&place, stranger, reply).await));
        let alice_uri = place.read(move |tx, _| Ok(accounts::by_id(tx, alice)?.uri)).await.unwrap();
        let mention = RemoteMention { uri: alice_uri, silent: true };
        let mention = RemoteStatus { mentions: vec![mention], ..note("for alice") };
        kept.push(("for alice", take_in(&place, stranger, mention).await));
        // What a kept post answers stays with it, up to the first post.
        for path in ["root", "middle"] {
            let in_reply_to = answer("root").filter(|_| path == "middle");
            let id = take_in(&place, other, RemoteStatus { in_reply_to, ..note(path) }).await;
            kept.push((path, id));
        }
        let reply = RemoteStatus { in_reply_to: answer("middle"), ..note("of a friend, below") };
        kept.push(("below", take_in(&place, friend, reply).await));
        let mut gone = vec![("plain", learn(&place, stranger, "plain").await)];
        let full = RemoteStatus {
            media: vec![picture()],
            poll: Some(poll()),
            tags: vec!["unheard".into()],
            mentions: vec![RemoteMention {
                uri: "https://other.example/other".into(),
                silent: false,
            }],
            ..note("with all that hangs on a post")
        };
        gone.push(("full", take_in(&place, stranger, full).await));
        gone.push(("thread", learn(&place, stranger, "thread").await));
        for (path, to) in
            [("one", "thread"), ("two", "one"), ("three", "thread"), ("leaf", "middle")]
        {
            let reply = RemoteStatus { in_reply_to: answer(to), ..note(path) };
            let by = if path == "two" { stranger } else { other };
            gone.push((path, take_in(&place, by, reply).await));
        }
        gone.push(("once boosted", learn(&place, stranger, "once boosted").await));
        follow(&place, alice, other).await;
        gone.push(("boost", boost(&place, other, "once boosted").await));
        let pinned = gone[0].1;
        place
            .write(move |tx, env| {
                relationships::unfollow(tx, env, alice, other)?;
                statuses::set_pins(tx, env, stranger, &[pinned])
            })
            .await
            .unwrap();
        place.clock.advance(29 * DAY_MS);
        let all = left(&place).await;
        run(&place, "posts").await;
        assert_eq!(left(&place).await, all, "nothing is old enough");
        place.clock.advance(DAY_MS);
        // Written long ago, but it came today.
        let long_ago = Some(Timestamp::from_ms(1_600_000_000_000));
        let young = RemoteStatus { published: long_ago, ..note("came today") };
        kept.push(("young", take_in(&place, stranger, young).await));
        let figures = run(&place, "posts").await;
        let now = left(&place).await;
        for (why, id) in &kept {
            assert!(now.contains(id), "{}: {why} must stay", place.name());
        }
        for (why, id) in &gone {
            assert!(!now.contains(id), "{}: {why} must go", place.name());
        }
        assert_eq!(figures.removed, gone.len() as u64, "{}", place.name());
        assert!(figures.bytes > 0 && figures.ended_at.is_some());
        agrees(&place).await;
        assert_eq!(count(&place, "SELECT count(*) FROM tombstones").await, 0);
    }
}

#[tokio::test]
async fn a_post_that_is_needed_again_takes_its_place_in_the_thread() {
    for place in places() {
        let alice = place.person("alice").await;
        let (friend, stranger) = (actor(&place, "friend").await, actor(&place, "stranger").await);
        follow(&place, alice, friend).await;
        let root = learn(&place, friend, "root").await;
        let to = |path: &str| Some(note(path).uri);
        let leaf = || RemoteStatus { in_reply_to: to("root"), ..note("leaf") };
        take_in(&place, stranger, leaf()).await;
        place.clock.advance(31 * DAY_MS);
        assert_eq!(run(&place, "posts").await.removed, 1);
        // Somebody answers it: what it answers is unknown for a moment.
        let below = RemoteStatus { in_reply_to: to("leaf"), ..note("below") };
        let below = take_in(&place, friend, below).await;
        let again = take_in(&place, stranger, leaf()).await;
        let read = move |tx: &mut Tx, env: &Env| statuses::thread(tx, env, Some(alice), below);
        let thread = place.read(read).await.unwrap();
        let above: Vec<Id> = thread.ancestors.iter().map(|view| view.status.id).collect();
        assert_eq!(above, [root, again], "{}", place.name());
        agrees(&place).await;
    }
}

/// Writes `posts` old posts of each of `authors` strangers.
async fn crowd(place: &Place, authors: i64, posts: i64) {
    for number in 0..authors {
        let author = actor(place, &format!("stranger{number}")).await;
        let write = move |tx: &mut Tx, env: &Env| {
            let first = env.ids.next();
            for post in 0..posts {
                let uri = format!("https://stranger.example/{number}/{post}");
                tx.execute(
                    "INSERT INTO statuses (id, account_id, uri, created_at, visibility, content)
                     VALUES (?1, ?2, ?3, 0, 0, 'A post')",
                    params![Id(first.0 + post), author, uri],
                )?;
            }
            tx.execute(
                "UPDATE accounts SET statuses_count = ?2 WHERE id = ?1",
                params![author, posts],
            )?;
            Ok(())
        };
        place.write(write).await.unwrap();
    }
}

#[tokio::test]
async fn a_run_is_cut_into_slices_and_goes_on_where_it_was_cut_off() {
    for place in places() {
        crowd(&place, 20, 400).await;
        place.clock.advance(31 * DAY_MS);
        let step = |tx: &mut Tx, env: &Env| housekeeping::step(tx, env, chore("posts"), KEEP);
        let first = place.write(step).await.unwrap().unwrap();
        assert!(first.is_running(), "{}: 8,000 posts are no slice", place.name());
        assert_eq!(left(&place).await.len() as u64, 8_000 - first.removed);
        // The next slice is lost with its transaction: it counts as if it had never begun.
        let lost = move |tx: &mut Tx, env: &Env| {
            housekeeping::step(tx, env, chore("posts"), KEEP)?;
            Err::<(), _>(weir_community::Error::Conflict("killed".into()))
        };
        assert!(place.write(lost).await.is_err());
        let read = |tx: &mut Tx, _: &Env| housekeeping::figures(tx, chore("posts"));
        assert_eq!(place.read(read).await.unwrap(), first);
        let running = place.start(|registry, community| {
            housekeeping::register(registry, community, KEEP);
        });
        let ended = async || !place.read(read).await.unwrap().is_running();
        crate::place::until("the end of the run", ended).await;
        running.stop().await;
        let last = place.read(read).await.unwrap();
        assert_eq!(last.began_at, first.began_at, "it is the same run");
        assert_eq!((last.removed, last.looked_at), (8_000, 8_020), "{}: each once", place.name());
        assert_eq!(left(&place).await.len(), 0);
        agrees(&place).await;
    }
}

#[tokio::test]
async fn a_run_begins_once_a_day_or_when_it_is_asked_for() {
    for place in places() {
        let step = |tx: &mut Tx, env: &Env| housekeeping::step(tx, env, chore("posts"), KEEP);
        assert!(place.write(step).await.unwrap().is_some(), "never done: due");
        place.clock.advance(23 * 3_600 * 1_000);
        assert_eq!(place.write(step).await.unwrap(), None);
        place.write(|tx, _| housekeeping::ask_for(tx, chore("posts"))).await.unwrap();
        assert!(place.write(step).await.unwrap().is_some(), "asked for");
        assert_eq!(place.write(step).await.unwrap(), None);
        place.clock.advance(DAY_MS);
        assert!(place.write(step).await.unwrap().is_some(), "a day later");
    }
}

/// Keeps a message for alice's archive, and one that waits for her; one said in a room. All now.
async fn talk(place: &Place, alice: Id) {
    let side = |account| messages::Side { account, jid: "carol@far.test/x".into() };
    let (from, to) = (side(None), side(Some(alice)));
    let unit = move |tx: &mut Tx, env: &Env| {
        let new = |waits| messages::New {
            id: env.ids.next(),
            from: from.clone(),
            to: to.clone(),
            xml: "<message/>".into(),
            archive: true,
            waits,
        };
        messages::store(tx, &[new(false), new(true)])?;
        let said = RoomMessage {
            id: env.ids.next(),
            from_jid: "alice@weir.test/x".into(),
            xml: "<message/>".into(),
        };
        let sql = "INSERT INTO chat_rooms (id, name, config, is_public) VALUES (7, 'well', '{}', 1)
                   ON CONFLICT DO NOTHING";
        tx.execute(sql, &[])?;
        rooms::store(tx, &[(Id(7), said)])
    };
    place.write(unit).await.unwrap();
}

#[tokio::test]
async fn messages_of_chat_go_in_time_but_for_those_that_wait() {
    for place in places() {
        let alice = place.person("alice").await;
        talk(&place, alice).await;
        place.clock.advance(31 * DAY_MS);
        talk(&place, alice).await;
        run(&place, "chat_messages").await;
        let removed = run(&place, "room_messages").await.removed;
        assert_eq!(removed, 1);
        assert_eq!(count(&place, "SELECT count(*) FROM chat_messages").await, 3);
        assert_eq!(count(&place, "SELECT count(*) FROM chat_room_messages").await, 1);
    }
}

#[tokio::test]
async fn with_no_limit_in_days_nothing_of_other_servers_goes() {
    for place in places() {
        crowd(&place, 1, 3).await;
        place.clock.advance(1_000 * DAY_MS);
        for name in ["posts", "accounts", "tags"] {
            let keep = Keep { remote_days: 0, chat_days: 0, notification_days: 0 };
            housekeeping::run(&place.community, chore(name), keep, |_| ()).await.unwrap();
        }
        assert_eq!(left(&place).await.len(), 3);
        assert_eq!(count(&place, "SELECT count(*) FROM accounts WHERE domain <> ''").await, 1);
    }
}

#[tokio::test]
async fn accounts_that_nothing_is_known_of_go_and_with_them_their_keys() {
    for place in places() {
        let alice = place.person("alice").await;
        let names =
            ["nobody", "followed", "blocked", "muted", "noted", "silenced", "named", "wrote"];
        let mut known = Vec::new();
        for name in names {
            known.push((name, actor(&place, name).await));
        }
        let of = |name: &str| known.iter().find(|(known, _)| *known == name).unwrap().1;
        follow(&place, alice, of("followed")).await;
        learn(&place, of("wrote"), "wrote").await;
        let (blocked, muted, noted, silenced) =
            (of("blocked"), of("muted"), of("noted"), of("silenced"));
        let decide = move |tx: &mut Tx, env: &Env| {
            relationships::block(tx, env, alice, blocked, "")?;
            relationships::mute(tx, env, alice, muted, true, None)?;
            relationships::set_note(tx, env, alice, noted, "met at the river")?;
            tx.execute("UPDATE accounts SET silenced_at = 1 WHERE id = ?1", params![silenced])?;
            tx.execute(
                "INSERT INTO account_keys (key_id, account_id, algorithm, public_pem)
                 SELECT uri || '#key', id, 'rsa', '' FROM accounts WHERE domain <> ''",
                &[],
            )?;
            Ok(())
        };
        place.write(decide).await.unwrap();
        place.post(alice, "Hello @named@named.example", Visibility::Public).await;
        place.clock.advance(31 * DAY_MS);
        let young = actor(&place, "young").await;
        run(&place, "accounts").await;
        let left = |tx: &mut Tx, _: &Env| {
            let sql = "SELECT id FROM accounts WHERE domain <> '' ORDER BY id";
            Ok(tx.column::<Id>(sql, &[])?)
        };
        let expected: Vec<Id> = known[1..].iter().map(|(_, id)| *id).chain([young]).collect();
        assert_eq!(place.read(left).await.unwrap(), expected, "{}", place.name());
        assert_eq!(count(&place, "SELECT count(*) FROM account_keys").await, 7);
        // Known again, it is another row under the same address.
        assert_ne!(actor(&place, "nobody").await, of("nobody"));
    }
}

#[tokio::test]
async fn hashtags_previews_and_apps_that_nothing_uses_go() {
    for place in places() {
        let (alice, stranger) = (place.person("alice").await, actor(&place, "stranger").await);
        for (path, tag) in [("one", "unheard"), ("two", "followed")] {
            take_in(&place, stranger, RemoteStatus { tags: vec![tag.into()], ..note(path) }).await;
        }
        let make = move |tx: &mut Tx, env: &Env| {
            tags::follow(tx, env, alice, "followed")?;
            let draft = Draft { text: "#spoken".into(), ..Draft::default() };
            let own = statuses::publish(tx, env, alice, &draft)?;
            let now = env.clock.now();
            for (number, name) in ["unused", "used"].iter().enumerate() {
                let id = env.ids.next();
                tx.execute(
                    "INSERT INTO cards (id, url, card, fetched_at) VALUES (?1, ?2, '{}', ?3)",
                    params![id, *name, now],
                )?;
                tx.execute(
                    "INSERT INTO oauth_apps (id, client_id, client_secret_hash, name,
                       redirect_uris, scopes, created_at) VALUES (?1, ?2, ?3, ?2, '', '', ?4)",
                    params![id, *name, vec![0_u8], now],
                )?;
                if number == 1 {
                    tx.execute(
                        "UPDATE statuses SET card_id = ?2, app_id = ?2 WHERE id = ?1",
                        params![own, id],
                    )?;
                }
            }
            Ok(())
        };
        place.write(make).await.unwrap();
        place.clock.advance(31 * DAY_MS);
        for name in ["posts", "tags", "cards", "apps"] {
            run(&place, name).await;
        }
        let list =
            |sql: &'static str| move |tx: &mut Tx, _: &Env| Ok(tx.column::<String>(sql, &[])?);
        let tags = place.read(list("SELECT name FROM tags ORDER BY name")).await.unwrap();
        assert_eq!(tags, ["followed", "spoken"], "{}", place.name());
        assert_eq!(place.read(list("SELECT url FROM cards")).await.unwrap(), ["used"]);
        assert_eq!(place.read(list("SELECT name FROM oauth_apps")).await.unwrap(), ["used"]);
    }
}

#[tokio::test]
async fn what_has_expired_goes_and_what_has_not_stays() {
    for place in places() {
        let alice = place.person("alice").await;
        let write = move |tx: &mut Tx, env: &Env| {
            let now = env.clock.now();
            for (number, at) in [now, now.plus_ms(200 * DAY_MS)].into_iter().enumerate() {
                let (hash, id) = (vec![number as u8], Id::first_at(at));
                let uri = format!("https://a.example/{number}");
                for (sql, values) in [
                    (
                        "INSERT INTO oauth_grants (code_hash, app_id, account_id, scopes,
                           redirect_uri, expires_at) VALUES (?1, 0, 0, '', '', ?2)",
                        params![hash, at].to_vec(),
                    ),
                    (
                        "INSERT INTO mail_tokens (token_hash, account_id, purpose, expires_at)
                         VALUES (?1, 0, '', ?2)",
                        params![hash, at].to_vec(),
                    ),
                    (
                        "INSERT INTO web_sessions (id, token_hash, account_id, created_at,
                           last_used_at) VALUES (?1, ?2, 0, 0, ?3)",
                        params![id, hash, at].to_vec(),
                    ),
                    (
                        "INSERT INTO oauth_tokens (id, token_hash, app_id, scopes, created_at,
                           last_used_at) VALUES (?1, ?2, 0, '', 0, ?3)",
                        params![id, hash, at].to_vec(),
                    ),
                    (
                        "INSERT INTO tombstones (uri, host, deleted_at) VALUES (?1, '', ?2)",
                        params![uri, at].to_vec(),
                    ),
                    (
                        "INSERT INTO versions (actor, object, relation, version_ms, version_seq)
                         VALUES (?1, '', 'like', 0, ?2), (?1, '', 'profile', 0, ?2)",
                        params![uri, id].to_vec(),
                    ),
                ] {
                    tx.execute(sql, &values)?;
                }
            }
            // Those of people do not expire.
            tx.execute(
                "INSERT INTO oauth_tokens (id, token_hash, app_id, account_id, scopes, created_at,
                   last_used_at) VALUES (7, ?1, 0, ?2, '', 0, 0)",
                params![vec![7_u8], alice],
            )?;
            Ok(())
        };
        place.write(write).await.unwrap();
        place.clock.advance(100 * DAY_MS);
        let names = ["codes", "app_tokens", "sessions", "mail_tokens", "tombstones", "order"];
        for (name, bytes) in names.into_iter().zip([1, 1, 1, 1, 19, 25]) {
            let done = run(&place, name).await;
            assert_eq!((done.removed, done.bytes), (1, bytes), "{}: {name}", place.name());
        }
        assert_eq!(count(&place, "SELECT count(*) FROM oauth_tokens").await, 2);
        assert_eq!(count(&place, "SELECT count(*) FROM versions").await, 3);
    }
}

#[tokio::test]
async fn mutes_that_ended_are_forgotten() {
    for place in places() {
        let (alice, bob) = (place.person("alice").await, place.person("bob").await);
        let carol = place.person("carol").await;
        let end = place.clock.now().plus_ms(DAY_MS);
        let write = move |tx: &mut Tx, env: &Env| {
            relationships::mute(tx, env, alice, bob, true, Some(end))?;
            relationships::mute(tx, env, alice, carol, true, None)
        };
        place.write(write).await.unwrap();
        assert_eq!(run(&place, "mutes").await.removed, 0);
        place.clock.advance(2 * DAY_MS);
        assert_eq!(run(&place, "mutes").await.removed, 1);
        assert_eq!(count(&place, "SELECT count(*) FROM mutes").await, 1);
    }
}

#[tokio::test]
async fn a_name_is_free_again_when_its_sign_up_was_never_confirmed() {
    for place in places() {
        let (alice, bob) = (place.person("alice").await, place.person("bob").await);
        let unconfirm = move |tx: &mut Tx, _: &Env| {
            Ok(tx.execute(
                "UPDATE users SET confirmed_at = NULL WHERE account_id = ?1",
                params![bob],
            )?)
        };
        place.write(unconfirm).await.unwrap();
        place.clock.advance(13 * DAY_MS);
        assert_eq!(run(&place, "sign_ups").await.removed, 0);
        place.clock.advance(2 * DAY_MS);
        assert_eq!(run(&place, "sign_ups").await.removed, 1);
        assert!(place.read(move |tx, _| accounts::by_id(tx, bob)).await.is_err());
        place.read(move |tx, _| accounts::by_id(tx, alice)).await.unwrap();
        assert_ne!(place.person("bob").await, bob);
    }
}

#[tokio::test]
async fn a_chore_that_fails_keeps_no_other_from_its_work() {
    for place in places() {
        let broken = |tx: &mut Tx, _: &Env| {
            tx.run("DROP TABLE chat_tokens", &[])?;
            let sql = "INSERT INTO tombstones (uri, host, deleted_at) VALUES (?1, ?1, 1)";
            Ok(tx.run(sql, params!["gone"])?)
        };
        place.write(broken).await.unwrap();
        assert!(housekeeping::run_due(&place.community, KEEP).await.is_err());
        assert_eq!(count(&place, "SELECT count(*) FROM tombstones").await, 0);
    }
}

#[tokio::test]
async fn a_chore_that_began_when_the_clock_was_ahead_is_due() {
    for place in places() {
        let now = place.clock.now();
        let ahead = now.plus_ms(1_000 * DAY_MS);
        run(&place, "tags").await;
        let set = move |tx: &mut Tx, _: &Env| {
            let sql = "UPDATE chores SET began_at = ?1, ended_at = ?1 WHERE name = 'tags'";
            Ok(tx.run(sql, params![ahead])?)
        };
        place.write(set).await.unwrap();
        let figures = run(&place, "tags").await;
        assert!(figures.began_at < Some(ahead), "{}", place.name());
    }
}
