//! Whom somebody does not want to hear of: what they ask, and what they say in private.

use weir_base::Id;
use weir_community::conversations;
use weir_community::federation::order::Version;
use weir_community::federation::{self, Deed, Incoming, Senders};
use weir_community::relationships::{self, FollowWish};
use weir_community::statuses::{self, Cause, RemoteMention, RemoteStatus, Visibility};
use weir_community::timelines::Range;
use weir_community::{Env, Error, accounts};
use weir_db::{Tx, params};

use crate::housekeeping::actor;
use crate::place::{Place, places};

/// `by`, who is remote, asks to follow `target`; how many requests wait then, and how many follows
/// there are.
async fn ask(place: &Place, by: Id, target: Id) -> (i64, i64) {
    let unit = move |tx: &mut Tx, env: &Env| {
        let (by, target) = (accounts::by_id(tx, by)?, accounts::by_id(tx, target)?);
        let (arrived, seq) = (env.clock.now(), env.ids.next());
        let follow = Incoming {
            activity: format!("{}#{seq}", by.uri),
            actor: by.uri,
            version: Version { at: arrived, seq },
            arrived,
            deed: Deed::Follow { target: target.uri },
        };
        let mut senders = Senders::read(tx, [&follow])?;
        federation::receive(tx, env, &mut senders, &follow)
    };
    place.write(unit).await.unwrap();
    bonds(place, by, target).await
}

async fn bonds(place: &Place, by: Id, target: Id) -> (i64, i64) {
    let read = move |tx: &mut Tx, _: &Env| {
        let mut count = |table| {
            let sql =
                format!("SELECT count(*) FROM {table} WHERE account_id = ?1 AND target_id = ?2");
            Ok::<_, Error>(tx.value::<i64>(&sql, params![by, target])?.unwrap_or(0))
        };
        Ok((count("follow_requests")?, count("follows")?))
    };
    place.read(read).await.unwrap()
}

async fn lock(place: &Place, account: Id, locked: bool) {
    let sql = "UPDATE accounts SET locked = ?2 WHERE id = ?1";
    place.write(move |tx, _| Ok(tx.run(sql, params![account, locked])?)).await.unwrap();
}

#[tokio::test]
async fn nobody_of_a_server_that_one_blocks_can_follow_one() {
    for place in places() {
        let (alice, far) = (place.person("alice").await, actor(&place, "far").await);
        assert_eq!(ask(&place, far, alice).await, (0, 1), "{}", place.name());
        let block =
            |tx: &mut Tx, env: &Env, by| relationships::block_domain(tx, env, by, "far.example");
        place.write(move |tx, env| block(tx, env, alice)).await.unwrap();
        assert_eq!(bonds(&place, far, alice).await, (0, 0));
        assert_eq!(ask(&place, far, alice).await, (0, 0), "{}", place.name());
        lock(&place, alice, true).await;
        assert_eq!(ask(&place, far, alice).await, (0, 0), "{}: asking", place.name());
        let wish = FollowWish::default();
        let own = place.write(move |tx, env| relationships::follow(tx, env, alice, far, &wish));
        assert!(matches!(own.await, Err(Error::Forbidden(_))), "{}: the other way", place.name());
        let lift = move |tx: &mut Tx, env: &Env| {
            relationships::unblock_domain(tx, env, alice, "far.example")
        };
        place.write(lift).await.unwrap();
        assert_eq!(ask(&place, far, alice).await, (1, 0), "{}: lifted", place.name());
    }
}

#[tokio::test]
async fn a_request_ends_with_the_follow_that_takes_its_place() {
    for place in places() {
        let (alice, far) = (place.person("alice").await, actor(&place, "far").await);
        lock(&place, alice, true).await;
        assert_eq!(ask(&place, far, alice).await, (1, 0));
        lock(&place, alice, false).await;
        assert_eq!(ask(&place, far, alice).await, (0, 1), "{}", place.name());
        // As it stood beside it in earlier times.
        let beside = move |tx: &mut Tx, env: &Env| {
            let sql = "INSERT INTO follow_requests (account_id, target_id, id, uri)
                       SELECT account_id, target_id, id, uri FROM follows WHERE account_id = ?1";
            tx.run(sql, params![far])?;
            relationships::reject_request(tx, env, alice, far)
        };
        place.write(beside).await.unwrap();
        assert_eq!(bonds(&place, far, alice).await, (0, 0), "{}: refused", place.name());
    }
}

/// `by` writes to `whom` in private.
async fn whisper(place: &Place, by: Id, whom: Id) -> Id {
    let unit = move |tx: &mut Tx, env: &Env| {
        let (by, whom) = (accounts::by_id(tx, by)?, accounts::by_id(tx, whom)?);
        let (now, seq) = (env.clock.now(), env.ids.next());
        let note = RemoteStatus {
            uri: format!("{}/{seq}", by.uri),
            content: "<p>psst</p>".into(),
            visibility: Visibility::Direct,
            mentions: vec![RemoteMention { uri: whom.uri, silent: false }],
            ..RemoteStatus::default()
        };
        let version = Version { at: now, seq };
        statuses::receive(tx, env, &by, &note.cleaned()?, version, now, Cause::Delivered)
    };
    place.write(unit).await.unwrap().id().expect("a post")
}

/// The posts that stand in `reader`'s conversations, and whether each is unread; none where one is
/// withheld.
async fn heard(place: &Place, reader: Id) -> Vec<(Option<Id>, bool)> {
    let read = move |tx: &mut Tx, env: &Env| {
        let list = conversations::list(tx, env, reader, Range::default())?;
        let shown = list.into_iter().map(|one| (one.last_status.map(|v| v.status.id), one.unread));
        Ok(shown.collect())
    };
    place.read(read).await.unwrap()
}

#[tokio::test]
async fn what_unwanted_people_say_in_private_reaches_no_conversation() {
    type Hide = fn(&mut Tx, &Env, Id, Id) -> Result<(), Error>;
    let hides: [(&str, Hide); 4] = [
        ("blocked", |tx, env, by, whom| relationships::block(tx, env, by, whom, "")),
        ("muted", |tx, env, by, whom| relationships::mute(tx, env, by, whom, true, None)),
        ("of a blocked server", |tx, env, by, whom| {
            let domain = accounts::by_id(tx, whom)?.domain;
            relationships::block_domain(tx, env, by, &domain)
        }),
        ("limited", |tx, _, _, whom| {
            let sql = "UPDATE accounts SET silenced_at = 1 WHERE id = ?1";
            Ok(tx.run(sql, params![whom])?)
        }),
    ];
    for place in places() {
        for (number, (why, hide)) in hides.into_iter().enumerate() {
            let reader = place.person(&format!("reader{number}")).await;
            let writer = actor(&place, &format!("writer{number}")).await;
            let before = whisper(&place, writer, reader).await;
            assert_eq!(heard(&place, reader).await, [(Some(before), true)]);
            place.write(move |tx, env| hide(tx, env, reader, writer)).await.unwrap();
            whisper(&place, writer, reader).await;
            let left = heard(&place, reader).await;
            assert_eq!(left, [(None, false)], "{}: {why}", place.name());
        }
    }
}

#[tokio::test]
async fn who_is_muted_but_for_notifications_or_limited_and_followed_is_heard_in_private() {
    type Leave = fn(&mut Tx, &Env, Id, Id) -> Result<(), Error>;
    let leaves: [(&str, Leave); 2] = [
        ("muted", |tx, env, by, whom| relationships::mute(tx, env, by, whom, false, None)),
        ("limited and followed", |tx, env, by, whom| {
            relationships::follow(tx, env, by, whom, &FollowWish::default())?;
            relationships::accept_request(tx, env, whom, by)?;
            let sql = "UPDATE accounts SET silenced_at = 1 WHERE id = ?1";
            Ok(tx.run(sql, params![whom])?)
        }),
    ];
    for place in places() {
        for (number, (why, leave)) in leaves.into_iter().enumerate() {
            let reader = place.person(&format!("reader{number}")).await;
            let writer = actor(&place, &format!("writer{number}")).await;
            place.write(move |tx, env| leave(tx, env, reader, writer)).await.unwrap();
            let post = whisper(&place, writer, reader).await;
            let shown = heard(&place, reader).await;
            assert_eq!(shown, [(Some(post), true)], "{}: {why}", place.name());
        }
    }
}
