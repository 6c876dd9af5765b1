//! Coming back: what was missed is told, each event once, or it is said that it cannot be.

use std::collections::BTreeSet;

use futures_util::FutureExt;
use proptest::prelude::*;
use weir_base::{Clock, Random, Timestamp};
use weir_live::{Class, Cursor, Gone, Hub, Limits, LogLimits, Resumed, Session, Shared};

fn hub(log: LogLimits) -> (Hub<u8, u32>, Clock) {
    let clock = Clock::manual(Timestamp::from_ms(1_000));
    let limits = Limits { log, ..Limits::default() };
    (Hub::with(limits, clock.clone(), Random::seeded(7)), clock)
}

fn waiting(session: &mut Session<u8, u32>) -> Vec<(u8, u32)> {
    let batch = session.next().now_or_never().and_then(Result::ok).unwrap_or_default();
    batch.iter().map(|(topic, event)| (*topic, event.event)).collect()
}

fn tell(hub: &Hub<u8, u32>, topic: u8, number: u32) {
    hub.publish(&topic, Shared::sized(number, 10));
}

#[test]
fn who_comes_back_gets_what_was_missed_in_order_and_then_goes_on() {
    let (hub, _) = hub(LogLimits::default());
    tell(&hub, 1, 10);
    let cursor = hub.cursor();
    tell(&hub, 1, 11);
    tell(&hub, 2, 12);
    tell(&hub, 3, 13);
    tell(&hub, 1, 14);
    let mut session = hub.session(1).unwrap();
    session.subscribe(1).unwrap();
    session.subscribe(2).unwrap();
    let missed = session.resume(&[1, 2], cursor).unwrap().missed;
    let told: Vec<_> = missed.iter().map(|(topic, event)| (*topic, event.event)).collect();
    assert_eq!(told, [(1, 11), (2, 12), (1, 14)]);
    tell(&hub, 1, 15);
    assert_eq!(waiting(&mut session), [(1, 15)]);
}

#[test]
fn what_waits_already_when_somebody_resumes_comes_once() {
    let (hub, _) = hub(LogLimits::default());
    let cursor = hub.cursor();
    let mut session = hub.session(1).unwrap();
    (1..=3).for_each(|topic| session.subscribe(topic).unwrap());
    tell(&hub, 1, 20);
    tell(&hub, 3, 21);
    let resumed = session.resume(&[1, 2], cursor).unwrap();
    assert_eq!((resumed.missed.len(), resumed.withdrawn.len()), (1, 1));
    assert_eq!(waiting(&mut session), [(3, 21)]);
    assert_eq!(hub.stats().outbox_bytes, 0);
}

#[test]
fn a_cursor_of_another_run_or_of_the_future_is_refused() {
    let (hub, _) = hub(LogLimits::default());
    let session = hub.session(1).unwrap();
    session.subscribe(1).unwrap();
    let now = hub.cursor();
    let other = Cursor { epoch: now.epoch + 1, offset: 0 };
    assert_eq!(session.resume(&[1], other).err(), Some(Gone::OtherEpoch));
    let ahead = Cursor { offset: now.offset + 1, ..now };
    assert_eq!(session.resume(&[1], ahead).err(), Some(Gone::OtherEpoch));
    assert!(session.resume(&[1], now).is_ok());
    let last = Shared::sized(1, 10);
    hub.publish(&1, last.clone());
    hub.forget();
    assert_eq!(session.resume(&[1], now).err(), Some(Gone::OtherEpoch));
    // As it is told to who gets it only now: what was lost may have been behind it.
    assert_eq!(session.resume(&[1], hub.cursor_of(&last)).err(), Some(Gone::TooOld));
    assert!(session.resume(&[1], hub.cursor()).is_ok());
}

#[test]
fn the_log_is_bounded_in_count_bytes_age_and_topics() {
    let bounds = [
        LogLimits { events_max: 5, ..LogLimits::default() },
        LogLimits { bytes_max: 50, ..LogLimits::default() },
        LogLimits { topics_max: 5, ..LogLimits::default() },
    ];
    for log in bounds {
        let (hub, _) = hub(log);
        let session = hub.session(1).unwrap();
        let first = hub.cursor();
        (0..6).for_each(|number| tell(&hub, number, u32::from(number)));
        assert_eq!(session.resume(&[0], first).err(), Some(Gone::TooOld), "{log:?}");
        let later = Cursor { offset: first.offset + 1, ..first };
        assert_eq!(session.resume(&[1, 5], later).unwrap().missed.len(), 2, "{log:?}");
    }
    let (hub, clock) = hub(LogLimits { age_ms_max: 1_000, ..LogLimits::default() });
    let session = hub.session(1).unwrap();
    let first = hub.cursor();
    tell(&hub, 1, 1);
    clock.advance(1_000);
    assert!(session.resume(&[1], first).is_ok());
    clock.advance(1);
    assert_eq!(session.resume(&[1], first).err(), Some(Gone::TooOld));
}

#[test]
fn who_left_a_moment_ago_is_awaited_and_after_the_age_of_the_log_no_more() {
    let log = LogLimits { age_ms_max: 1_000, awaited_max: 2, ..LogLimits::default() };
    let (hub, clock) = hub(log);
    drop(hub.session(5).unwrap());
    assert!(!hub.is_here(5) && hub.is_awaited(5) && hub.awaits_anybody());
    clock.advance(1_001);
    assert!(!hub.is_awaited(5) && !hub.awaits_anybody());
    (6..9).for_each(|identity| drop(hub.session(identity).unwrap()));
    assert_eq!([6, 7, 8].map(|identity| hub.is_awaited(identity)), [false, true, true]);
    let _here = hub.session(8).unwrap();
    assert_eq!(hub.awaited().into_iter().collect::<BTreeSet<_>>(), BTreeSet::from([7, 8]));
}

#[test]
fn a_cursor_is_written_and_read_alike() {
    let cursor = Cursor { epoch: 0xABCD, offset: 12 };
    assert_eq!(cursor.to_string(), "abcd-12");
    assert_eq!("abcd-12".parse(), Ok(cursor));
    for bad in ["", "abcd", "-1", "x-1", "1-x", "1-1-1"] {
        assert!(bad.parse::<Cursor>().is_err(), "{bad}");
    }
}

#[test]
fn the_moment_is_not_kept() {
    let (hub, _) = hub(LogLimits::default());
    let session = hub.session(1).unwrap();
    let cursor = hub.cursor();
    let typing = Shared::classed(1, 10, Class::Droppable);
    hub.publish(&1, typing.clone());
    assert_eq!((typing.offset(), hub.cursor()), (0, cursor));
    assert!(session.resume(&[1], cursor).unwrap().missed.is_empty());
}

proptest! {
    /// However often a client loses its connection, and at whatever place: with its cursor it gets
    /// every event of its topics once and in order, or learns that it cannot.
    #[test]
    fn nothing_is_missed_or_told_twice(
        steps in proptest::collection::vec((0_u8..4, 0_u8..6), 1..200),
        events_max in 1_usize..40,
    ) {
        let (hub, _) = hub(LogLimits { events_max, ..LogLimits::default() });
        let (mut told, mut published) = (Vec::new(), Vec::new());
        let topics = [0, 1];
        let mut cursor = hub.cursor();
        let mut session: Option<Session<u8, u32>> = None;
        for (number, (topic, action)) in steps.into_iter().enumerate() {
            let number = number as u32;
            match action {
                0 => session = None,
                1 if session.is_none() => {
                    let again = hub.session(1).unwrap();
                    topics.iter().for_each(|topic| again.subscribe(*topic).unwrap());
                    match again.resume(&topics, cursor) {
                        Ok(Resumed { missed, .. }) => {
                            let last = missed.last().map(|(_, event)| event.offset());
                            cursor.offset = last.unwrap_or(cursor.offset);
                            told.extend(missed.iter().map(|(_, event)| event.event));
                        }
                        Err(_) => {
                            // It reads the state anew.
                            told = published.clone();
                            cursor = hub.cursor();
                        }
                    }
                    session = Some(again);
                }
                2 => {
                    let batch = session.as_mut().and_then(|it| it.next().now_or_never());
                    for (_, event) in batch.and_then(Result::ok).unwrap_or_default() {
                        cursor.offset = event.offset();
                        told.push(event.event);
                    }
                }
                _ => {
                    tell(&hub, topic, number);
                    if topics.contains(&topic) {
                        published.push(number);
                    }
                }
            }
            prop_assert!(published.starts_with(&told), "{told:?} of {published:?}");
        }
        if let Some(session) = &mut session {
            told.extend(waiting(session).iter().map(|(_, number)| *number));
            prop_assert_eq!(told, published);
        }
    }
}
