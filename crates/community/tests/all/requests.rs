//! Requests of senders whose notifications were put aside, and when they are over.

use weir_base::Id;
use weir_community::notifications::policy;
use weir_community::statuses::{self, Visibility};
use weir_community::timelines::Range;
use weir_community::{Env, accounts};
use weir_db::Tx;

use crate::housekeeping::{count, run};
use crate::place::{Place, places};

const ROWS: &str = "SELECT count(*) FROM notification_requests";

/// alice, and two strangers each of whom wrote to her: who they are, and bob's post.
async fn written_to(place: &Place) -> ([Id; 3], Id) {
    let [alice, bob, carol] =
        [place.person("alice").await, place.person("bob").await, place.person("carol").await];
    let post = place.post(bob, "@alice psst", Visibility::Direct).await;
    place.post(carol, "@alice hey", Visibility::Direct).await;
    assert_eq!(senders(place, alice).await, [carol, bob], "{}", place.name());
    ([alice, bob, carol], post)
}

/// Who waits for a decision of `of`, the newest first.
async fn senders(place: &Place, of: Id) -> Vec<Id> {
    let read = move |tx: &mut Tx, _: &Env| {
        let requests = policy::requests(tx, of, Range::default())?;
        Ok(requests.iter().map(|request| request.from_account_id).collect())
    };
    place.read(read).await.unwrap()
}

#[tokio::test]
async fn a_request_ends_with_the_last_notification_behind_it() {
    for place in places() {
        let ([alice, bob, carol], post) = written_to(&place).await;
        let read = move |tx: &mut Tx, _: &Env| policy::requests(tx, alice, Range::default());
        let of_bob = place.read(read).await.unwrap().pop().expect("bob's, the older one").id;
        place.write(move |tx, env| statuses::delete(tx, env, bob, post)).await.unwrap();
        assert_eq!(senders(&place, alice).await, [carol], "{}", place.name());
        let pending = place.read(move |tx, _| policy::pending(tx, alice)).await.unwrap();
        assert_eq!(pending, (1, 1), "{}", place.name());
        let one = place.read(move |tx, _| policy::request_by_id(tx, alice, of_bob)).await;
        assert!(one.is_err(), "{}", place.name());
        assert_eq!(count(&place, ROWS).await, 2);
        assert_eq!(run(&place, "notification_requests").await.removed, 1, "{}", place.name());
        assert_eq!(count(&place, ROWS).await, 1);
        assert_eq!(senders(&place, alice).await, [carol], "{}", place.name());
    }
}

#[tokio::test]
async fn who_deletes_their_account_waits_for_no_decision() {
    for place in places() {
        let ([alice, bob, carol], _) = written_to(&place).await;
        place.write(move |tx, env| accounts::delete(tx, env, bob)).await.unwrap();
        assert_eq!(senders(&place, alice).await, [carol], "{}: at once", place.name());
        let pending = place.read(move |tx, _| policy::pending(tx, alice)).await.unwrap();
        assert_eq!(pending, (1, 1), "{}: at once", place.name());
        let erase = move |tx: &mut Tx, env: &Env| {
            while !accounts::erase_step(tx, env, bob)? {}
            Ok(())
        };
        place.write(erase).await.unwrap();
        assert_eq!(run(&place, "notification_requests").await.removed, 1, "{}", place.name());
        assert_eq!(count(&place, ROWS).await, 1, "carol's stays");
    }
}
