//! What those who listen are told of.

use tokio_util::sync::CancellationToken;
use weir_base::Id;
use weir_community::Env;
use weir_community::relationships::{self, FollowWish};
use weir_community::statuses::{View, Visibility};
use weir_community::streams::{self, Event, Topic};
use weir_community::timelines::{self, Range};
use weir_db::{Class, Tx, params};
use weir_live::Session;
use weir_storm::fixture::break_commits;

use crate::place::{Place, places, until};

/// What a new post of `by` counts for in the log.
async fn size_of_a_post(place: &Place, by: Id, session: &mut Session<Topic, Event>) -> usize {
    place.post(by, "Hello", Visibility::Public).await;
    loop {
        let batch = session.next().await.unwrap();
        let told = batch.iter().find(|(_, shared)| matches!(shared.event, Event::Created(_)));
        if let Some((_, shared)) = told {
            return shared.held_bytes();
        }
    }
}

/// The follow stands, and what should have followed it did not run.
#[tokio::test]
async fn what_a_commit_in_doubt_may_have_changed_is_read_anew() {
    for place in places().into_iter().filter(|place| place.name() == "postgres") {
        let (alice, bob) = (place.person("alice").await, place.person("bob").await);
        let post = place.post(bob, "hello", Visibility::Public).await;
        let stop = CancellationToken::new();
        let telling = tokio::spawn(streams::run(place.community.clone(), stop.clone()));
        let home = async || {
            let ids =
                |views: Vec<View>| views.iter().map(|view| view.status.id).collect::<Vec<Id>>();
            let as_they_are = move |_: &mut Tx, _: &_, views| Ok(ids(views));
            let range = Range::default();
            timelines::home(&place.community, alice, range, as_they_are).await.unwrap()
        };
        let elsewhere = place.known_anew();
        let follow = move |tx: &mut Tx, env: &Env| {
            relationships::follow(tx, env, alice, bob, &FollowWish::default())
        };
        elsewhere.write(Class::Interactive, follow).await.unwrap();
        assert_eq!(home().await, []);
        let db = place.community.db().clone();
        let lose = move |tx: &mut Tx| {
            tx.after_commit(|| {});
            tx.execute("INSERT INTO lost VALUES (1)", &[]).map(|_| ())
        };
        let make = |tx: &mut Tx| tx.execute("CREATE TABLE lost (id BIGINT)", &[]).map(|_| ());
        db.write(Class::Interactive, make).await.unwrap();
        let breaking = db.clone();
        let broken = tokio::task::spawn_blocking(move || break_commits(&breaking, "lost")).await;
        broken.unwrap().unwrap();
        db.write(Class::Interactive, lose).await.unwrap_err();
        until("the post of who is followed", async || home().await == [post]).await;
        stop.cancel();
        telling.await.unwrap();
    }
}

#[tokio::test]
async fn a_post_counts_in_the_log_with_all_that_is_shown_beside_its_text() {
    const BIO_BYTES: usize = 20_000;
    for place in places() {
        let alice = place.person("alice").await;
        let stop = CancellationToken::new();
        let telling = tokio::spawn(streams::run(place.community.clone(), stop.clone()));
        let mut session = place.community.env().streams.hub().session(alice.0).unwrap();
        session.subscribe(Topic::Author(alice)).unwrap();
        let without = size_of_a_post(&place, alice, &mut session).await;
        let say = move |tx: &mut Tx, _: &_| {
            let note = "a".repeat(BIO_BYTES);
            tx.execute("UPDATE accounts SET note = ?2 WHERE id = ?1", params![alice, note])?;
            Ok(())
        };
        place.write(say).await.unwrap();
        let with = size_of_a_post(&place, alice, &mut session).await;
        // Once as it is, and once more for what is made of it.
        assert_eq!(with - without, 2 * BIO_BYTES);
        stop.cancel();
        telling.await.unwrap();
    }
}
