//! What the door says when too much waits, and to whom.

use axum::body::{Body, Bytes};
use futures_util::stream;
use http::StatusCode;
use weir_activitypub::InboxLimits;
use weir_activitypub::signature::Form;

use crate::inbox::{INBOX, actor_of, create};
use crate::peer::Peer;
use crate::place::{Place, small_places, until};

/// Sends note `number` of bob of `peer`; the answer, and when to come again.
async fn send(
    place: &Place,
    peer: &Peer,
    number: usize,
    whom: &str,
) -> (StatusCode, Option<String>) {
    let body = create(peer, "bob", number, whom).to_string().into_bytes();
    let headers = peer.sign_post(Form::Cavage, None, "bob", INBOX, &body, place.clock.now());
    place.send_again(headers, Body::from(body)).await
}

/// Waits until `count` messages are known to wait, and the door looks again.
async fn wait(place: &Place, count: u64) {
    let depth = || place.jobs.depth("inbound") + place.jobs.depth("inbound_late");
    until("they wait", async || depth() == count).await;
    place.pass(1_000);
}

#[tokio::test]
async fn of_whom_too_much_waits_comes_again_later_and_others_are_taken_until_all_is_full() {
    let limits = InboxLimits { waiting_max: 6, waiting_per_host_max: 3, ..InboxLimits::default() };
    for place in small_places(limits) {
        let peers = [Peer::start().await, Peer::start().await, Peer::start().await];
        let [loud, calm, quiet] = &peers;
        let alice = place.person("alice").await;
        let alice = actor_of(&place, alice).await;
        for peer in &peers {
            place.stranger(peer, "bob").await;
        }
        let running = place.start();
        place.jobs.pause("inbound").await.unwrap();
        place.jobs.pause("inbound_late").await.unwrap();
        for number in 0..3 {
            assert_eq!(send(&place, loud, number, &alice).await.0, 202);
        }
        wait(&place, 3).await;
        let (status, after) = send(&place, loud, 3, &alice).await;
        assert_eq!((status.as_u16(), after.as_deref()), (429, Some("300")));
        for number in 0..2 {
            assert_eq!(send(&place, calm, number, &alice).await.0, 202, "it sent little");
            wait(&place, 4 + number as u64).await;
        }
        // It has as much waiting as is left for all others.
        assert_eq!(send(&place, calm, 2, &alice).await.0, 429);
        assert_eq!(send(&place, quiet, 0, &alice).await.0, 202, "nothing of it waits");
        wait(&place, 6).await;
        let (status, after) = send(&place, &Peer::start().await, 0, &alice).await;
        // Nobody knows who that is: it takes nothing of what known senders have.
        assert_eq!((status.as_u16(), after), (202, None));
        for queue in ["inbound", "inbound_late"] {
            place.jobs.resume(queue).await.unwrap();
        }
        until("what was taken is here", async || place.count("statuses").await == 6).await;
        wait(&place, 0).await;
        // What was refused comes again, and is no repetition.
        assert_eq!(send(&place, loud, 3, &alice).await.0, 202);
        until("it is here, too", async || place.count("statuses").await == 7).await;
        wait(&place, 0).await;
        // By now it is known how fast they are worked.
        place.pass(10_000);
        for queue in ["inbound", "inbound_late"] {
            place.jobs.pause(queue).await.unwrap();
        }
        for number in 4..7 {
            assert_eq!(send(&place, loud, number, &alice).await.0, 202);
        }
        wait(&place, 3).await;
        let (status, after) = send(&place, loud, 7, &alice).await;
        assert_eq!((status.as_u16(), after.as_deref()), (429, Some("10")));
        running.stop().await;
    }
}

#[tokio::test]
async fn where_nothing_is_left_everybody_comes_again_later() {
    let limits = InboxLimits { waiting_max: 1, ..InboxLimits::default() };
    for place in small_places(limits) {
        let (first, second) = (Peer::start().await, Peer::start().await);
        let alice = place.person("alice").await;
        let alice = actor_of(&place, alice).await;
        place.stranger(&first, "bob").await;
        place.stranger(&second, "bob").await;
        let running = place.start();
        place.jobs.pause("inbound").await.unwrap();
        place.jobs.pause("inbound_late").await.unwrap();
        assert_eq!(send(&place, &first, 0, &alice).await.0, 202);
        wait(&place, 1).await;
        let (status, after) = send(&place, &second, 0, &alice).await;
        assert_eq!((status.as_u16(), after.as_deref()), (503, Some("60")));
        running.stop().await;
    }
}

#[tokio::test]
async fn bodies_that_do_not_end_take_no_more_of_the_memory_than_there_is_for_them() {
    let limits = InboxLimits { bodies_bytes_max: 16 << 10, ..InboxLimits::default() };
    for place in small_places(limits) {
        let peer = Peer::start().await;
        let alice = place.person("alice").await;
        let alice = actor_of(&place, alice).await;
        place.stranger(&peer, "bob").await;
        // As much as one network may have, and it says no more.
        let piece = Bytes::from(vec![b' '; 4 << 10]);
        let begun = stream::iter([Ok::<_, std::convert::Infallible>(piece)]);
        let endless = Body::from_stream(futures_util::StreamExt::chain(begun, stream::pending()));
        let mut hung = Box::pin(place.send_again(http::HeaderMap::new(), endless));
        assert!(futures_util::poll!(&mut hung).is_pending());
        let (status, after) = send(&place, &peer, 1, &alice).await;
        assert_eq!((status.as_u16(), after.as_deref()), (429, Some("5")));
        drop(hung);
        assert_eq!(send(&place, &peer, 1, &alice).await.0, 202);
    }
}
