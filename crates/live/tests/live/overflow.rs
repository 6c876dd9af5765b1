//! Slow sessions and bounded outboxes.

use futures_util::FutureExt;
use weir_live::{Hub, Limits, Lost, Shared};

fn hub(outbox_events_max: usize, outbox_bytes_max: usize) -> Hub<u8, u32> {
    Hub::new(Limits { outbox_events_max, outbox_bytes_max, ..Limits::default() })
}

#[test]
fn a_session_that_never_reads_is_lost_alone() {
    let hub = hub(10, usize::MAX);
    let (mut slow, mut quick) = (hub.session(1).unwrap(), hub.session(2).unwrap());
    slow.subscribe(0).unwrap();
    quick.subscribe(0).unwrap();
    for number in 0..1_000 {
        hub.publish(&0, Shared::new(number));
        let batch = quick.next().now_or_never().unwrap().unwrap();
        assert_eq!((batch.len(), batch[0].1.event), (1, number));
    }
    let lost = slow.next().now_or_never().unwrap().err();
    assert_eq!(lost, Some(Lost::Overflowed { missed: 1_000 }));
    assert_eq!((hub.stats().lost, hub.stats().outbox_bytes), (1, 0));
}

#[test]
fn a_lost_session_goes_on_with_what_comes_after_it_was_told() {
    let hub = hub(2, usize::MAX);
    let mut session = hub.session(1).unwrap();
    session.subscribe(0).unwrap();
    (0..3).for_each(|number| {
        hub.publish(&0, Shared::new(number));
    });
    assert!(session.next().now_or_never().unwrap().is_err());
    assert_eq!(hub.publish(&0, Shared::new(3)), 1);
    assert_eq!(session.next().now_or_never().unwrap().unwrap()[0].1.event, 3);
}

#[test]
fn an_outbox_is_bounded_in_bytes_and_takes_one_big_event() {
    let hub = hub(1_000, 100);
    let mut session = hub.session(1).unwrap();
    session.subscribe(0).unwrap();
    assert_eq!(hub.publish(&0, Shared::sized(0, 5_000)), 1);
    assert_eq!(hub.stats().outbox_bytes, 5_000);
    assert_eq!(session.next().now_or_never().unwrap().unwrap().len(), 1);
    assert_eq!(hub.publish(&0, Shared::sized(1, 60)), 1);
    assert_eq!(hub.publish(&0, Shared::sized(2, 60)), 0);
    let lost = session.next().now_or_never().unwrap().err();
    assert_eq!(lost, Some(Lost::Overflowed { missed: 2 }));
}

#[tokio::test]
async fn a_session_that_waits_in_vain_learns_of_its_end() {
    let hub = hub(10, 10);
    let mut session = hub.session(1).unwrap();
    let reader = tokio::spawn(async move { session.next().await.err() });
    tokio::task::yield_now().await;
    hub.close(1);
    assert_eq!(reader.await.unwrap(), Some(Lost::Closed));
}
