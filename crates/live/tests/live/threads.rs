//! Many threads at one hub.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::FutureExt;
use weir_base::Random;
use weir_live::{Hub, Limits, Session, Shared};

const TOPICS: u8 = 4;
const PUBLISHERS: u32 = 4;
const EVENTS: u32 = 500;

/// Everything that came, each publisher's numbers checked to be in order.
fn received_in_order(session: &mut Session<u8, (u32, u32)>, last: &mut HashMap<(u8, u32), u32>) {
    let Some(batch) = session.next().now_or_never() else { return };
    for (topic, event) in batch.expect("the outbox holds all there is") {
        let (publisher, number) = event.event;
        let before = last.insert((topic, publisher), number);
        assert_eq!(before.map_or(0, |before| before + 1), number, "of {publisher} on {topic}");
    }
}

#[test]
fn nothing_is_lost_or_reordered_while_sessions_come_and_go() {
    let outbox_events_max = (PUBLISHERS * EVENTS) as usize * usize::from(TOPICS);
    let hub = Hub::new(Limits { outbox_events_max, ..Limits::default() });
    let mut steady: Vec<_> = (0..20).map(|_| hub.session(0).unwrap()).collect();
    for session in &steady {
        (0..TOPICS).for_each(|topic| session.subscribe(topic).unwrap());
    }
    let done = AtomicBool::new(false);
    let mut last = vec![HashMap::new(); steady.len()];
    std::thread::scope(|scope| {
        let publishers: Vec<_> = (0..PUBLISHERS)
            .map(|publisher| {
                let hub = hub.clone();
                scope.spawn(move || {
                    for number in 0..EVENTS {
                        hub.publish_to(0..TOPICS, Shared::new((publisher, number)));
                    }
                })
            })
            .collect();
        for seed in 0..2 {
            let (hub, done) = (hub.clone(), &done);
            scope.spawn(move || come_and_go(&hub, seed, done));
        }
        for (session, last) in steady.iter_mut().zip(&mut last) {
            received_in_order(session, last);
        }
        publishers.into_iter().for_each(|publisher| publisher.join().unwrap());
        done.store(true, Ordering::Relaxed);
    });
    for (session, last) in steady.iter_mut().zip(&mut last) {
        received_in_order(session, last);
        assert_eq!(last.len(), usize::from(TOPICS) * PUBLISHERS as usize);
        assert!(last.values().all(|number| *number == EVENTS - 1));
    }
    drop(steady);
    let stats = hub.stats();
    assert_eq!((stats.sessions, stats.topics, stats.identities), (0, 0, 0));
    assert_eq!((stats.outbox_bytes, stats.lost), (0, 0));
}

/// Sessions on shared topics and on topics that begin and end with them.
fn come_and_go(hub: &Hub<u8, (u32, u32)>, seed: u64, done: &AtomicBool) {
    let random = Random::seeded(seed);
    let mut sessions = Vec::new();
    while !done.load(Ordering::Relaxed) {
        let session = hub.session(random.below(3) as i64).unwrap();
        for _ in 0..4 {
            session.subscribe(random.below(8) as u8).unwrap();
            session.unsubscribe(&(random.below(8) as u8));
        }
        sessions.push(session);
        if sessions.len() > 20 {
            sessions.swap_remove(random.below(20) as usize);
        }
    }
}

#[test]
fn a_subscription_counts_though_others_just_gave_up_the_topic() {
    // A thread that stands still for a while must not overflow.
    let limits = Limits { outbox_events_max: 100_000, ..Limits::default() };
    let hub: Hub<u8, u32> = Hub::new(limits);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let hub = hub.clone();
            scope.spawn(move || {
                let mut session = hub.session(0).unwrap();
                for round in 0..20_000 {
                    let number = thread * 100_000 + round;
                    session.subscribe(0).unwrap();
                    hub.publish(&0, Shared::new(number));
                    let batch = session.next().now_or_never().expect("an event").unwrap();
                    assert!(batch.iter().any(|(_, event)| event.event == number));
                    session.unsubscribe(&0);
                    // What others published before that is of no interest.
                    let _ = session.next().now_or_never();
                }
            });
        }
    });
    let stats = hub.stats();
    assert_eq!((stats.sessions, stats.topics, stats.outbox_bytes), (0, 0, 0));
}
