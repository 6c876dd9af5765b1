//! A session as a body of server-sent events.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use weir_live::sse::{Body, HEARTBEAT, event};
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
