//! What becomes of events at a session that reads too slowly, by their class.

use futures_util::FutureExt;
use proptest::prelude::*;
use weir_live::{Class, Hub, Limits, Lost, Next, Shared};

fn hub(outbox_events_max: usize) -> Hub<u8, u32> {
    Hub::new(Limits { outbox_events_max, ..Limits::default() })
}

fn state(key: u64, value: u32) -> std::sync::Arc<Shared<u32>> {
    Shared::classed(value, 10, Class::State { key })
}

#[test]
fn of_state_the_newest_wins_and_comes_after_what_led_to_it() {
    let hub = hub(10);
    let mut session = hub.session(1).unwrap();
    session.subscribe(0).unwrap();
    hub.publish(&0, state(1, 100));
    hub.publish(&0, state(2, 200));
    hub.publish(&0, Shared::sized(7, 10));
    hub.publish(&0, state(1, 101));
    assert_eq!(hub.stats().outbox_bytes, 30);
    let batch = session.next().now_or_never().unwrap().unwrap();
    let told: Vec<u32> = batch.iter().map(|(_, event)| event.event).collect();
    assert_eq!(told, [200, 7, 101]);
    assert_eq!(hub.stats().outbox_bytes, 0);
}

#[test]
fn state_without_room_is_to_be_read_anew_and_nothing_else_is_lost() {
    let hub = hub(3);
    let mut session = hub.session(1).unwrap();
    session.subscribe(0).unwrap();
    (1..=3).for_each(|number| {
        hub.publish(&0, Shared::new(number));
    });
    (1..=4).for_each(|key| {
        hub.publish(&0, state(key, 0));
    });
    assert_eq!(session.next().now_or_never().unwrap().unwrap().len(), 3);
    let lost = session.next().now_or_never().unwrap().err();
    assert_eq!(lost, Some(Lost::Stale { missed: 4 }));
    hub.publish(&0, state(1, 9));
    assert_eq!(session.next().now_or_never().unwrap().unwrap()[0].1.event, 9);
    assert_eq!(hub.stats().lost, 0);
}

#[test]
fn what_is_of_the_moment_is_left_out_without_a_word() {
    let hub = hub(4);
    let mut session = hub.session(1).unwrap();
    session.subscribe(0).unwrap();
    for number in 0..10 {
        hub.publish(&0, Shared::classed(number, 10, Class::Droppable));
    }
    (10..12).for_each(|number| {
        hub.publish(&0, Shared::new(number));
    });
    let batch = session.next().now_or_never().unwrap().unwrap();
    let told: Vec<u32> = batch.iter().map(|(_, event)| event.event).collect();
    assert_eq!(told, [0, 1, 10, 11]);
}

#[test]
fn each_session_gets_a_beat_once_a_round_and_events_before_it() {
    let hub = hub(10);
    let mut sessions: Vec<_> = (0..130).map(|_| hub.session(0).unwrap()).collect();
    (0..60).for_each(|_| hub.beat());
    sessions[0].subscribe(0).unwrap();
    hub.publish(&0, Shared::new(1));
    let first = sessions[0].next_or_beat().now_or_never().unwrap().unwrap();
    assert!(matches!(first, Next::Events(events) if events.len() == 1));
    for session in &mut sessions {
        let next = session.next_or_beat().now_or_never().unwrap().unwrap();
        assert!(matches!(next, Next::Beat));
        assert!(session.next_or_beat().now_or_never().is_none());
    }
}

#[tokio::test]
async fn a_beat_wakes_who_waits_for_it_and_nobody_else() {
    let hub = hub(10);
    let (mut cares, mut does_not) = (hub.session(1).unwrap(), hub.session(2).unwrap());
    let beat = tokio::spawn(async move { matches!(cares.next_or_beat().await, Ok(Next::Beat)) });
    let events = tokio::spawn(async move { does_not.next().await.is_ok_and(|all| all.is_empty()) });
    tokio::task::yield_now().await;
    (0..60).for_each(|_| hub.beat());
    assert!(beat.await.unwrap());
    assert!(!events.is_finished());
    events.abort();
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_sessions_in_slices_and_all_of_them() {
    let hub = hub(10);
    let sessions: Vec<_> = (0..1_000).map(|_| hub.session(0).unwrap()).collect();
    let ends = sessions.into_iter().map(|mut session| {
        tokio::spawn(async move {
            let lost = session.next().await.err();
            assert_eq!(lost, Some(Lost::Closed));
            tokio::time::Instant::now()
        })
    });
    let ends: Vec<_> = ends.collect();
    tokio::task::yield_now().await;
    hub.drain_over(std::time::Duration::from_secs(4)).await;
    assert!(hub.session(1).is_err());
    let mut moments = std::collections::BTreeSet::new();
    for end in ends {
        moments.insert(end.await.unwrap());
    }
    assert!(moments.len() > 10, "{}", moments.len());
    assert_eq!(hub.stats().sessions, 0);
}

proptest! {
    /// Whatever is published and however slowly it is read: the last that is read of each key is
    /// the newest, or the reader was told to read anew after it.
    #[test]
    fn state_ends_as_it_was_published(
        steps in proptest::collection::vec((0_u64..8, any::<bool>()), 1..100),
        room in 1_usize..6,
    ) {
        let hub = hub(room);
        let mut session = hub.session(1).unwrap();
        session.subscribe(0).unwrap();
        let mut newest = std::collections::BTreeMap::new();
        let mut seen = std::collections::BTreeMap::new();
        let steps = steps.into_iter().map(Some).chain([None, None]);
        for (value, step) in steps.enumerate() {
            let (reads, value) = (step.is_none_or(|(_, reads)| reads), value as u32);
            if let Some((key, _)) = step {
                newest.insert(key, value);
                hub.publish(&0, state(key, value));
            }
            let mut next = || if reads { session.next().now_or_never() } else { None };
            while let Some(next) = next() {
                match next {
                    Ok(batch) => batch.iter().for_each(|(_, event)| {
                        let Class::State { key } = event.class() else { return };
                        seen.insert(key, event.event);
                    }),
                    Err(Lost::Stale { .. }) => seen = newest.clone(),
                    Err(other) => return Err(TestCaseError::fail(other.to_string())),
                }
            }
        }
        prop_assert_eq!(seen, newest);
    }
}
