//! What happens at its time, with workers that run: polls end, posts appear, keys are forgotten.

use weir_base::{Id, Timestamp};
use weir_community::accounts;
use weir_community::housekeeping::{self, Keep};
use weir_community::media::{self, Body, NewMedia};
use weir_community::notifications::{self, Kind, Page};
use weir_community::statuses::{self, Draft, PollDraft, Visibility};
use weir_community::timelines::{self, AccountPage, Range};
use weir_community::users::{self, UserChange};

use crate::place::{Place, places, until};
use crate::proxy::png;

const MINUTE_MS: i64 = 60_000;

/// The polls that `of` was told have ended.
async fn ended(place: &Place, of: Id) -> Vec<Id> {
    let list = place
        .read(move |tx, env| {
            let page = Page { types: vec![Kind::Poll], ..Page::default() };
            notifications::list(tx, env, of, &page)
        })
        .await
        .unwrap();
    list.into_iter().filter_map(|one| one.status.map(|view| view.status.id)).collect()
}

async fn poll(place: &Place, by: Id, minutes: i64) -> (Id, Id) {
    let asked = PollDraft {
        options: vec!["a".into(), "b".into()],
        expires_in_s: minutes * 60,
        multiple: false,
        hide_totals: true,
    };
    let draft = Draft { text: "?".into(), poll: Some(asked), ..Draft::default() };
    place
        .write(move |tx, env| {
            let post = statuses::publish(tx, env, by, &draft)?;
            let view = statuses::load_one(tx, env, None, post)?;
            Ok((post, view.poll.map_or(Id::ZERO, |poll| poll.id)))
        })
        .await
        .unwrap()
}

#[tokio::test]
async fn polls_end_at_their_time_and_those_who_voted_are_told_once() {
    for place in places() {
        let (alice, bob) = (place.person("alice").await, place.person("bob").await);
        let carol = place.person("carol").await;
        let ((short, first), (long, second)) =
            (poll(&place, alice, 10).await, poll(&place, alice, 60).await);
        let (gone, _) = poll(&place, alice, 10).await;
        place
            .write(move |tx, env| {
                statuses::vote(tx, env, bob, first, &[1])?;
                statuses::vote(tx, env, bob, second, &[0])?;
                statuses::delete(tx, env, alice, gone)
            })
            .await
            .unwrap();
        let running = place.start(statuses::register);
        place.clock.advance(10 * MINUTE_MS);
        place.jobs.wake();
        until("the short poll's end", async || ended(&place, bob).await == [short]).await;
        until("the author hears of it", async || ended(&place, alice).await == [short]).await;
        let late = place.write(move |tx, env| statuses::vote(tx, env, carol, first, &[0])).await;
        assert!(late.is_err(), "it has ended");
        place.clock.advance(50 * MINUTE_MS);
        place.jobs.wake();
        until("the long poll's end", async || ended(&place, bob).await == [long, short]).await;
        assert_eq!(ended(&place, carol).await, []);
        running.stop().await;
    }
}

async fn texts(place: &Place, of: Id) -> Vec<(String, usize)> {
    let read = move |tx: &mut weir_db::Tx, env: &weir_community::Env| {
        let (page, range) = (AccountPage::default(), Range { limit: 9, ..Range::default() });
        timelines::account(tx, env, Some(of), of, page, range)
    };
    let shown = place.read(read).await;
    shown.unwrap().iter().map(|view| (view.status.source.clone(), view.media.len())).collect()
}

#[tokio::test]
async fn scheduled_posts_appear_at_their_last_given_time_and_only_once() {
    for place in places() {
        let alice = place.person("alice").await;
        let body = Body::Bytes(png(8, 8));
        let new = NewMedia { body, focus: None, description: None, thumbnail: None };
        let picture = media::upload(&place.community, alice, new).await.unwrap().id;
        let start = place.clock.now();
        let at = move |minutes: i64| -> Timestamp { start.plus_ms(minutes * MINUTE_MS) };
        let draft = |text: &str, media: Vec<Id>| {
            let visibility = Visibility::Public;
            Draft { text: text.into(), media, visibility, ..Draft::default() }
        };
        let (first, moved) = (draft("first", vec![picture]), draft("moved", Vec::new()));
        let (early, never) = (draft("early", Vec::new()), draft("never", Vec::new()));
        place
            .write(move |tx, env| {
                statuses::schedule(tx, env, alice, &first, at(20))?;
                let moved = statuses::schedule(tx, env, alice, &moved, at(20))?;
                statuses::reschedule(tx, env, alice, moved, at(60))?;
                let early = statuses::schedule(tx, env, alice, &early, at(90))?;
                statuses::reschedule(tx, env, alice, early, at(10))?;
                let never = statuses::schedule(tx, env, alice, &never, at(20))?;
                statuses::unschedule(tx, env, alice, never)
            })
            .await
            .unwrap();
        let running = place.start(statuses::register);
        let (first, moved, early) =
            (("first".to_owned(), 1), ("moved".into(), 0), ("early".into(), 0));
        for (minutes, expected) in [
            (10, vec![early.clone()]),
            (20, vec![first.clone(), early.clone()]),
            (60, vec![moved.clone(), first.clone(), early.clone()]),
        ] {
            place.clock.advance(at(minutes).since_ms(place.clock.now()));
            place.jobs.wake();
            until("the next post", async || texts(&place, alice).await.len() == expected.len())
                .await;
            assert_eq!(texts(&place, alice).await, expected);
        }
        // The jobs of times that were given up come too, and do nothing.
        place.clock.advance(60 * MINUTE_MS);
        place.jobs.wake();
        let waiting = async || {
            let count = |tx: &mut weir_db::Tx, _: &weir_community::Env| {
                let sql = "SELECT count(*) FROM jobs WHERE kind = 'publish_scheduled'";
                Ok(tx.query_one(sql, &[], |row| row.get::<i64>(0))?)
            };
            place.read(count).await.unwrap()
        };
        until("all jobs' end", async || waiting().await == 0).await;
        assert_eq!(texts(&place, alice).await.len(), 3);
        running.stop().await;
    }
}

#[tokio::test]
async fn uploads_of_posts_that_waited_are_let_go_with_their_author() {
    for place in places() {
        let alice = place.person("alice").await;
        let body = Body::Bytes(png(8, 8));
        let new = NewMedia { body, focus: None, description: None, thumbnail: None };
        let picture = media::upload(&place.community, alice, new).await.unwrap().id;
        let at = place.clock.now().plus_ms(20 * MINUTE_MS);
        let draft = Draft { text: "later".into(), media: vec![picture], ..Draft::default() };
        let held = async || {
            let count = |tx: &mut weir_db::Tx, _: &weir_community::Env| {
                let sql = "SELECT count(*) FROM media WHERE status_id IS NOT NULL";
                Ok(tx.query_one(sql, &[], |row| row.get::<i64>(0))?)
            };
            place.read(count).await.unwrap()
        };
        place.write(move |tx, env| statuses::schedule(tx, env, alice, &draft, at)).await.unwrap();
        assert_eq!(held().await, 1);
        place.write(move |tx, env| accounts::delete(tx, env, alice)).await.unwrap();
        assert_eq!(held().await, 0, "they are pruned a day later");
    }
}

#[tokio::test]
async fn a_scheduled_post_of_somebody_shut_out_meanwhile_never_appears() {
    for place in places() {
        let (alice, bob) = (place.person("alice").await, place.person("bob").await);
        let at = place.clock.now().plus_ms(20 * MINUTE_MS);
        let draft = Draft { text: "later".into(), ..Draft::default() };
        place
            .write(move |tx, env| {
                statuses::schedule(tx, env, alice, &draft, at)?;
                statuses::schedule(tx, env, bob, &draft, at)?;
                let change = UserChange { disabled: Some(true), ..UserChange::default() };
                users::change(tx, env, alice, &change)
            })
            .await
            .unwrap();
        let running = place.start(statuses::register);
        place.clock.advance(20 * MINUTE_MS);
        place.jobs.wake();
        let waiting = async || {
            let count = |tx: &mut weir_db::Tx, _: &weir_community::Env| {
                let sql = "SELECT count(*) FROM scheduled_statuses";
                Ok(tx.query_one(sql, &[], |row| row.get::<i64>(0))?)
            };
            place.read(count).await.unwrap()
        };
        until("both have had their time", async || waiting().await == 0).await;
        assert_eq!(texts(&place, alice).await, []);
        assert_eq!(texts(&place, bob).await, [("later".to_owned(), 0)]);
        running.stop().await;
    }
}

#[tokio::test]
async fn keys_of_requests_are_forgotten_after_an_hour_and_not_before() {
    for place in places() {
        let alice = place.person("alice").await;
        let send = async |key: &'static str| {
            let draft = Draft {
                text: "once".into(),
                idempotency_key: Some(key.into()),
                ..Draft::default()
            };
            place.write(move |tx, env| statuses::publish(tx, env, alice, &draft)).await.unwrap()
        };
        let first = send("one").await;
        let running = place.start(|registry, community| {
            housekeeping::register(
                registry,
                community,
                Keep { remote_days: 0, chat_days: 0, notification_days: 0 },
            );
        });
        assert_eq!(send("one").await, first);
        place.clock.advance(30 * MINUTE_MS);
        let later = send("two").await;
        place.clock.advance(31 * MINUTE_MS);
        place.jobs.wake();
        let keys = async || {
            let list = |tx: &mut weir_db::Tx, _: &weir_community::Env| {
                let sql = "SELECT idempotency_key FROM idempotency_keys ORDER BY created_at";
                Ok(tx.column::<String>(sql, &[])?)
            };
            place.read(list).await.unwrap()
        };
        until("the old key's end", async || keys().await == ["two"]).await;
        assert_eq!(send("two").await, later);
        assert_ne!(send("one").await, first);
        running.stop().await;
    }
}
