//! A session as a body of server-sent events.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use weir_live::socket::{SocketError, Sockets};
use weir_live::sse::{Body, Feed, HEARTBEAT, event};
use weir_live::{Hub, Limits, Shared};

fn encode(topic: &u8, shared: &Arc<Shared<u32>>) -> Option<bytes::Bytes> {
    let visible = !shared.event.is_multiple_of(10);
    visible.then(|| {
        shared.encoded(0, |number| event(Some(&format!("t{topic}")), None, &number.to_string()))
    })
}

#[tokio::test(start_paused = true)]
async fn what_waits_goes_out_in_one_piece_without_what_the_reader_may_not_see() {
    let hub: Hub<u8, u32> = Hub::new(Limits::default());
    let session = hub.session(1).unwrap();
    session.subscribe(3).unwrap();
    let mut body = Body::new(session, Duration::from_secs(15), encode);
    (10..13).for_each(|number| {
        hub.publish(&3, Shared::new(number));
    });
    let piece = body.next().await.unwrap();
    assert_eq!(piece, "event: t3\ndata: 11\n\nevent: t3\ndata: 12\n\n");
    hub.publish(&3, Shared::new(20));
    assert!(body.next().now_or_never().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_single_event_is_the_shared_bytes_themselves() {
    let hub: Hub<u8, u32> = Hub::new(Limits::default());
    let session = hub.session(1).unwrap();
    session.subscribe(3).unwrap();
    let mut body = Body::new(session, Duration::from_secs(15), encode);
    let event = Shared::new(1);
    hub.publish(&3, event.clone());
    let piece = body.next().await.unwrap();
    assert_eq!(piece.as_ptr(), encode(&3, &event).unwrap().as_ptr());
}

#[tokio::test(start_paused = true)]
async fn each_silence_is_followed_by_a_heartbeat() {
    let hub: Hub<u8, u32> = Hub::new(Limits::default());
    let begin = tokio::time::Instant::now();
    let mut body = Body::new(hub.session(1).unwrap(), Duration::from_secs(15), encode);
    assert_eq!(body.next().await.unwrap(), HEARTBEAT);
    assert_eq!(body.next().await.unwrap(), HEARTBEAT);
    assert_eq!(begin.elapsed().as_secs(), 30);
}

#[tokio::test(start_paused = true)]
async fn the_body_ends_when_the_session_is_lost() {
    let hub: Hub<u8, u32> = Hub::new(Limits { outbox_events_max: 1, ..Limits::default() });
    let session = hub.session(1).unwrap();
    session.subscribe(3).unwrap();
    let mut body = Body::new(session, Duration::from_secs(15), encode);
    hub.publish(&3, Shared::new(1));
    hub.publish(&3, Shared::new(2));
    assert_eq!(body.next().await, None);
    assert_eq!(hub.stats().sessions, 0);
}

#[tokio::test]
async fn what_waits_goes_over_the_connection_as_one_chunk() {
    let (near, mut far) = tokio::io::duplex(1_000);
    let mut feed = Feed::new(near, &Sockets::default());
    let events = [event(None, None, "one"), event(None, None, "two")];
    feed.send_many(&events).await.unwrap();
    feed.send_many(&[]).await.unwrap();
    feed.finish().await;
    let mut heard = String::new();
    far.read_to_string(&mut heard).await.unwrap();
    assert_eq!(heard, "16\r\ndata: one\n\ndata: two\n\n\r\n0\r\n\r\n");
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_takes_nothing_is_given_up_and_one_that_leaves_is_noticed() {
    let sockets = Sockets::default();
    let (near, mut far) = tokio::io::duplex(10);
    let mut feed = Feed::new(near, &sockets);
    let sent = feed.send_many(&[event(None, None, "more than ten bytes")]).await;
    assert!(matches!(sent, Err(SocketError::SlowReader)));
    let (near, mut gone) = tokio::io::duplex(10);
    let mut feed = Feed::new(near, &sockets);
    gone.write_all(b"GET again").await.unwrap();
    assert!(poll_fn(|context| Poll::Ready(feed.poll_gone(context).is_pending())).await);
    drop(gone);
    poll_fn(|context| feed.poll_gone(context)).await;
    far.shutdown().await.unwrap();
}
