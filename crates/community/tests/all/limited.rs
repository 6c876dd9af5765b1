//! People of servers that staff limited, met after that, or suspended.

use weir_base::Id;
use weir_community::accounts;
use weir_community::federation::order::Version;
use weir_community::federation::{self, Deed, Incoming, Senders};
use weir_community::hosts::{self, Severity};
use weir_community::statuses::{self, Cause, RemoteMention, RemoteStatus, Visibility};
use weir_community::timelines::{self, PublicPage, Range};
use weir_community::{Env, notifications};
use weir_db::{Tx, params};

use crate::housekeeping::{DAY_MS, actor, count, run};
use crate::place::{Place, places};

/// Staff limits the servers below this domain.
async fn limit(place: &Place, domain: &'static str) {
    let unit = move |tx: &mut Tx, env: &Env| hosts::block(tx, env, domain, Severity::Silence);
    place.write(unit).await.unwrap();
}

async fn is_limited(place: &Place, account: Id) -> bool {
    place.read(move |tx, _| accounts::by_id(tx, account)).await.unwrap().silenced_at.is_some()
}

/// `by`, who is remote, mentions `whom` in public.
async fn mention(place: &Place, by: Id, whom: Id) {
    write(place, by, whom, Visibility::Public).await;
}

async fn write(place: &Place, by: Id, whom: Id, visibility: Visibility) {
    let unit = move |tx: &mut Tx, env: &Env| {
        let (by, whom) = (accounts::by_id(tx, by)?, accounts::by_id(tx, whom)?);
        let note = RemoteStatus {
            uri: format!("{}/{}", by.uri, env.ids.next()),
            content: "<p>Hello</p>".into(),
            visibility,
            mentions: vec![RemoteMention { uri: whom.uri, silent: false }],
            ..RemoteStatus::default()
        };
        let now = env.clock.now();
        let version = Version { at: now, seq: env.ids.next() };
        statuses::receive(tx, env, &by, &note.cleaned()?, version, now, Cause::Delivered)
    };
    place.write(unit).await.unwrap();
}

/// Authors in the public timeline.
async fn seen(place: &Place) -> Vec<Id> {
    let page = PublicPage::default();
    let read = move |tx: &mut Tx, env: &Env| {
        timelines::public(tx, env, None, page, Range { limit: 40, ..Range::default() })
    };
    place.read(read).await.unwrap().iter().map(|view| view.account.id).collect()
}

#[tokio::test]
async fn who_is_met_after_their_server_was_limited_is_limited_like_those_known_before() {
    for place in places() {
        let alice = place.person("alice").await;
        limit(&place, "loud.example").await;
        let (loud, calm) = (actor(&place, "loud").await, actor(&place, "calm").await);
        assert!(is_limited(&place, loud).await && !is_limited(&place, calm).await);
        mention(&place, loud, alice).await;
        mention(&place, calm, alice).await;
        let pending =
            place.read(move |tx, _| notifications::policy::pending(tx, alice)).await.unwrap();
        assert_eq!(pending, (1, 1), "one person's one mention waits to be looked at");
        assert_eq!(seen(&place).await, [calm]);
        let asks = async |by: Id| {
            let unit = move |tx: &mut Tx, env: &Env| {
                let (by, target) = (accounts::by_id(tx, by)?, accounts::by_id(tx, alice)?);
                let arrived = env.clock.now();
                let follow = Incoming {
                    activity: format!("{}#follow", by.uri),
                    actor: by.uri,
                    version: Version { at: arrived, seq: env.ids.next() },
                    arrived,
                    deed: Deed::Follow { target: target.uri },
                };
                let mut senders = Senders::read(tx, [&follow])?;
                federation::receive(tx, env, &mut senders, &follow)
            };
            place.write(unit).await.unwrap();
            let read = move |tx: &mut Tx, _: &Env| {
                let mut count = |table| {
                    let sql = format!("SELECT count(*) FROM {table} WHERE account_id = ?1");
                    tx.value::<i64>(&sql, params![by])
                };
                Ok((count("follow_requests")?, count("follows")?))
            };
            place.read(read).await.unwrap()
        };
        assert_eq!(asks(loud).await, (Some(1), Some(0)));
        assert_eq!(asks(calm).await, (Some(0), Some(1)));
    }
}

#[tokio::test]
async fn who_was_met_while_their_server_was_limited_is_free_when_that_ends() {
    for place in places() {
        let folder = tempfile::tempdir().unwrap();
        let working = place.work(folder.path());
        limit(&place, "loud.example").await;
        let loud = actor(&place, "loud").await;
        // Whom staff limits by hand stays so.
        let other = actor(&place, "quiet.loud").await;
        let by_hand = move |tx: &mut Tx, _: &Env| {
            let sql = "UPDATE accounts SET silenced_at = 1 WHERE id = ?1";
            Ok(tx.run(sql, params![other])?)
        };
        place.write(by_hand).await.unwrap();
        place.write(|tx, env| hosts::unblock(tx, env, "loud.example")).await.unwrap();
        place.idle().await;
        assert!(!is_limited(&place, loud).await);
        assert!(is_limited(&place, other).await);
        working.stop().await;
    }
}

#[tokio::test]
async fn who_is_limited_with_a_server_goes_when_nothing_is_known_of_them() {
    for place in places() {
        limit(&place, "loud.example").await;
        actor(&place, "loud").await;
        let known = actor(&place, "calm").await;
        let by_hand = move |tx: &mut Tx, _: &Env| {
            let sql = "UPDATE accounts SET silenced_at = 1 WHERE id = ?1";
            Ok(tx.run(sql, params![known])?)
        };
        place.write(by_hand).await.unwrap();
        place.clock.advance(31 * DAY_MS);
        run(&place, "accounts").await;
        let read = |tx: &mut Tx, _: &Env| {
            Ok(tx.column::<Id>("SELECT id FROM accounts WHERE domain <> ''", &[])?)
        };
        assert_eq!(place.read(read).await.unwrap(), [known]);
    }
}

/// Those of whom there are posts of other servers, and those who are known there.
async fn known(place: &Place) -> [Vec<Id>; 2] {
    let read = |tx: &mut Tx, _: &Env| {
        Ok([
            tx.column("SELECT account_id FROM statuses WHERE local = 0 ORDER BY account_id", &[])?,
            tx.column("SELECT id FROM accounts WHERE domain <> '' ORDER BY id", &[])?,
        ])
    };
    place.read(read).await.unwrap()
}

#[tokio::test]
async fn what_is_for_people_here_goes_in_time_where_its_server_is_suspended() {
    for place in places() {
        let alice = place.person("alice").await;
        let (loud, calm) = (actor(&place, "loud").await, actor(&place, "calm").await);
        for by in [loud, calm] {
            mention(&place, by, alice).await;
            for _ in 0..2 {
                write(&place, by, alice, Visibility::Direct).await;
            }
        }
        place.clock.advance(31 * DAY_MS);
        let folder = tempfile::tempdir().unwrap();
        let working = place.work(folder.path());
        let suspend =
            |tx: &mut Tx, env: &Env| hosts::block(tx, env, "loud.example", Severity::Suspend);
        place.write(suspend).await.unwrap();
        place.idle().await;
        working.stop().await;
        for name in ["posts", "accounts"] {
            run(&place, name).await;
        }
        let conversations = async || {
            count(
                &place,
                "SELECT count(*) FROM conversations c JOIN statuses s
               ON s.id = c.last_status_id",
            )
            .await
        };
        let (three_each, both) = (vec![loud, loud, loud, calm, calm, calm], vec![loud, calm]);
        let still = known(&place).await;
        assert_eq!(still, [three_each, both], "{}: it may be lifted", place.name());
        assert_eq!(conversations().await, 4);
        place.clock.advance(31 * DAY_MS);
        for name in ["posts", "accounts"] {
            run(&place, name).await;
        }
        assert_eq!(known(&place).await, [vec![calm; 3], vec![calm]], "{}", place.name());
        assert_eq!(count(&place, "SELECT count(*) FROM notifications").await, 3);
        assert_eq!(conversations().await, 2);
        assert_eq!(count(&place, "SELECT count(*) FROM conversations").await, 2);
    }
}

#[tokio::test]
async fn whom_staff_suspended_alone_stays_known() {
    for place in places() {
        let (loud, calm) = (actor(&place, "loud").await, actor(&place, "calm").await);
        let by_hand = move |tx: &mut Tx, env: &Env| {
            let sql = "UPDATE accounts SET suspended_at = ?2 WHERE id = ?1";
            Ok(tx.run(sql, params![loud, env.clock.now()])?)
        };
        place.write(by_hand).await.unwrap();
        place.clock.advance(62 * DAY_MS);
        assert_eq!(run(&place, "accounts").await.removed, 1, "{}", place.name());
        assert_eq!(known(&place).await[1], [loud], "{}: not {calm}", place.name());
    }
}
