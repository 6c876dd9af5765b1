//! Who gets what.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use futures_util::FutureExt;
use weir_live::{FORMATS_MAX, Full, Hub, Limits, Lost, Session, Shared, TooMany};

type Events = Vec<(&'static str, u32)>;

fn hub(limits: Limits) -> Hub<&'static str, u32> {
    Hub::new(limits)
}

/// What waits now; empty where nothing does.
fn waiting(session: &mut Session<&'static str, u32>) -> Events {
    let batch = session.next().now_or_never().unwrap_or(Ok(Vec::new())).unwrap();
    batch.into_iter().map(|(topic, event)| (topic, event.event)).collect()
}

#[test]
fn an_event_reaches_those_who_listen_and_nobody_else() {
    let hub = hub(Limits::default());
    let (mut alice, mut bob) = (hub.session(1).unwrap(), hub.session(2).unwrap());
    alice.subscribe("news").unwrap();
    bob.subscribe("weather").unwrap();
    assert_eq!(hub.publish(&"news", Shared::new(1)), 1);
    assert_eq!(hub.publish(&"sport", Shared::new(2)), 0);
    assert_eq!(waiting(&mut alice), [("news", 1)]);
    assert_eq!(waiting(&mut bob), []);
}

#[test]
fn all_that_waits_comes_at_once_and_in_order() {
    let hub = hub(Limits::default());
    let mut alice = hub.session(1).unwrap();
    alice.subscribe("news").unwrap();
    (0..100).for_each(|number| {
        hub.publish(&"news", Shared::new(number));
    });
    let expected: Events = (0..100).map(|number| ("news", number)).collect();
    assert_eq!(waiting(&mut alice), expected);
    assert_eq!(waiting(&mut alice), []);
}

#[test]
fn an_event_for_several_topics_comes_once_for_each_that_is_listened_to() {
    let hub = hub(Limits::default());
    let (mut alice, mut bob) = (hub.session(1).unwrap(), hub.session(2).unwrap());
    alice.subscribe("home").unwrap();
    alice.subscribe("public").unwrap();
    alice.subscribe("public").unwrap();
    bob.subscribe("public").unwrap();
    let topics = ["home", "public", "nobody's"];
    assert_eq!(hub.publish_to(topics.into_iter(), Shared::new(5)), 3);
    assert_eq!(waiting(&mut alice), [("home", 5), ("public", 5)]);
    assert_eq!(waiting(&mut bob), [("public", 5)]);
    assert_eq!(hub.stats().published, 1);
    assert_eq!(hub.stats().delivered, 3);
}

#[test]
fn after_unsubscribing_nothing_more_comes() {
    let hub = hub(Limits::default());
    let mut alice = hub.session(1).unwrap();
    alice.subscribe("news").unwrap();
    hub.publish(&"news", Shared::new(1));
    alice.unsubscribe(&"news");
    alice.unsubscribe(&"never had");
    assert_eq!(hub.publish(&"news", Shared::new(2)), 0);
    assert_eq!(waiting(&mut alice), [("news", 1)]);
    assert_eq!((hub.listeners(&"news"), alice.subscriptions()), (0, 0));
}

#[test]
fn a_dropped_session_leaves_nothing_behind() {
    let hub = hub(Limits::default());
    let alice = hub.session(1).unwrap();
    let others: Vec<_> = (0..40).map(|_| hub.session(0).unwrap()).collect();
    alice.subscribe("own").unwrap();
    for session in others.iter().chain([&alice]) {
        session.subscribe("public").unwrap();
    }
    hub.publish(&"public", Shared::new(1));
    assert_eq!((hub.listeners(&"public"), hub.stats().topics), (41, 2));
    assert!(hub.stats().outbox_bytes > 0);
    drop(alice);
    assert_eq!((hub.listeners(&"public"), hub.stats().topics), (40, 1));
    drop(others);
    let stats = hub.stats();
    assert_eq!((stats.sessions, stats.identities, stats.topics), (0, 0, 0));
    assert_eq!(stats.outbox_bytes, 0);
}

#[tokio::test]
async fn a_session_that_waits_is_woken() {
    let hub = hub(Limits::default());
    let mut alice = hub.session(1).unwrap();
    alice.subscribe("news").unwrap();
    let reader = tokio::spawn(async move { alice.next().await.map(|batch| batch[0].1.event) });
    tokio::task::yield_now().await;
    hub.publish(&"news", Shared::new(9));
    assert_eq!(reader.await.unwrap(), Ok(9));
}

#[test]
fn the_hub_knows_who_is_here() {
    let hub = hub(Limits::default());
    let nobody = hub.session(0).unwrap();
    let (phone, desk) = (hub.session(7).unwrap(), hub.session(7).unwrap());
    assert!(hub.is_here(7) && !hub.is_here(8));
    assert_eq!(hub.present(), [7]);
    drop(phone);
    assert!(hub.is_here(7));
    drop((desk, nobody));
    assert!(!hub.is_here(7));
    assert_eq!(hub.present(), []);
}

#[test]
fn an_event_is_encoded_once_for_each_format() {
    let event = Shared::new(7_u32);
    let made = AtomicUsize::new(0);
    let encode = |format| {
        event.encoded(format, |number| {
            made.fetch_add(1, Ordering::Relaxed);
            Bytes::from(format!("{format}:{number}"))
        })
    };
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| (0..3).map(encode).for_each(drop));
        }
    });
    assert_eq!(made.load(Ordering::Relaxed), 3);
    assert_eq!(encode(2), "2:7");
    assert_eq!(encode(2).as_ptr(), encode(2).as_ptr());
    assert_eq!(encode(FORMATS_MAX), format!("{FORMATS_MAX}:7"));
}

#[test]
fn sessions_and_subscriptions_are_limited() {
    let limits = Limits {
        sessions_max: 3,
        sessions_per_identity_max: 2,
        subscriptions_max: 1,
        ..Limits::default()
    };
    let hub = hub(limits);
    let first = hub.session(1).unwrap();
    let second = hub.session(1).unwrap();
    let full = Full::Identity { identity: 1, sessions_max: 2 };
    assert_eq!(hub.session(1).err(), Some(full));
    let _third = hub.session(2).unwrap();
    assert_eq!(hub.session(3).err(), Some(Full::Hub { sessions_max: 3 }));
    first.subscribe("a").unwrap();
    assert_eq!(first.subscribe("b"), Err(TooMany { subscriptions_max: 1 }));
    assert_eq!(first.subscribe("a"), Ok(()));
    drop(second);
    assert!(hub.session(1).is_ok());
}

#[test]
fn the_sessions_of_one_identity_can_be_ended() {
    let hub = hub(Limits::default());
    let (mut alice, mut bob) = (hub.session(1).unwrap(), hub.session(2).unwrap());
    alice.subscribe("news").unwrap();
    bob.subscribe("news").unwrap();
    hub.publish(&"news", Shared::new(1));
    assert_eq!((hub.close(1), hub.close(1), hub.close(99)), (1, 0, 0));
    assert_eq!(hub.publish(&"news", Shared::new(2)), 1);
    assert_eq!(alice.next().now_or_never().unwrap().err(), Some(Lost::Closed));
    assert_eq!(waiting(&mut bob), [("news", 1), ("news", 2)]);
}

#[test]
fn a_hub_drains_in_slices_and_takes_nobody_in_meanwhile() {
    let hub = hub(Limits::default());
    let mut sessions: Vec<_> = (1..=5).map(|identity| hub.session(identity).unwrap()).collect();
    let mut closed_by_slice = Vec::new();
    for _ in 0..3 {
        hub.drain(2);
        assert_eq!(hub.session(9).err(), Some(Full::Draining));
        let before = sessions.len();
        sessions.retain_mut(|session| session.next().now_or_never().is_none());
        closed_by_slice.push(before - sessions.len());
    }
    assert_eq!(closed_by_slice, [2, 2, 1]);
    assert_eq!(hub.drain(2), 0);
}

#[test]
fn events_are_shared_not_copied() {
    let hub = hub(Limits::default());
    let sessions: Vec<_> = (0..10).map(|_| hub.session(0).unwrap()).collect();
    sessions.iter().for_each(|session| session.subscribe("news").unwrap());
    let event = Shared::new(1);
    assert_eq!(hub.publish(&"news", event.clone()), 10);
    // The sessions', ours and that of the log.
    assert_eq!(Arc::strong_count(&event), 12);
    drop(sessions);
    assert_eq!(Arc::strong_count(&event), 2);
}
