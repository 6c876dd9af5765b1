//! The line at the door.

use std::collections::VecDeque;

use futures_util::FutureExt;
use weir_base::{Clock, Random, Timestamp};
use weir_live::admission::Admission;

fn door(at_once: usize, waiting_max: usize) -> (Admission, Clock) {
    let clock = Clock::manual(Timestamp::from_ms(1_000));
    (Admission::new(at_once, waiting_max, clock.clone(), Random::seeded(1)), clock)
}

#[test]
fn so_many_work_at_once_and_the_next_follows_when_one_is_done() {
    let (door, _) = door(2, 10);
    let first = door.enter().now_or_never().unwrap().unwrap();
    let _second = door.enter().now_or_never().unwrap().unwrap();
    let mut third = Box::pin(door.enter());
    assert!((&mut third).now_or_never().is_none());
    assert_eq!((door.working(), door.waiting()), (2, 1));
    drop(first);
    assert!(third.now_or_never().unwrap().is_ok());
    assert_eq!(door.waiting(), 0);
}

#[test]
fn first_come_is_first_served() {
    let (door, _) = door(1, 100);
    let mut held = Some(door.enter().now_or_never().unwrap().unwrap());
    let mut line: VecDeque<_> = (0..20).map(|_| Box::pin(door.enter())).collect();
    line.iter_mut().for_each(|waiting| assert!(waiting.now_or_never().is_none()));
    while let Some(mut first) = line.pop_front() {
        drop(held.take());
        // A newcomer does not pass those in line.
        assert!(Box::pin(door.enter()).as_mut().now_or_never().is_none());
        line.iter_mut().for_each(|waiting| assert!(waiting.now_or_never().is_none()));
        held = Some((&mut first).now_or_never().unwrap().unwrap());
    }
}

#[test]
fn a_full_line_is_told_when_to_come_again() {
    let (door, clock) = door(1, 40);
    for _ in 0..40 {
        let permit = door.enter().now_or_never().unwrap().unwrap();
        clock.advance(500);
        drop(permit);
    }
    let _held = door.enter().now_or_never().unwrap().unwrap();
    let mut line: Vec<_> = (0..40).map(|_| Box::pin(door.enter())).collect();
    line.iter_mut().for_each(|waiting| assert!(waiting.now_or_never().is_none()));
    let refused: Vec<_> = (0..50)
        .map(|_| door.enter().now_or_never().unwrap().err().unwrap().retry_after_s)
        .collect();
    // Forty at about half a second each, and as much again of spreading.
    assert!(refused.iter().all(|wait_s| (15..=40).contains(wait_s)), "{refused:?}");
    assert!(refused.iter().any(|wait_s| *wait_s != refused[0]));
}

#[test]
fn who_leaves_the_line_makes_room_in_it() {
    let (door, _) = door(1, 1);
    let held = door.enter().now_or_never().unwrap().unwrap();
    let mut leaver = Box::pin(door.enter());
    assert!((&mut leaver).now_or_never().is_none());
    assert!(door.enter().now_or_never().unwrap().is_err());
    drop(leaver);
    let mut next = Box::pin(door.enter());
    assert!((&mut next).now_or_never().is_none());
    drop(held);
    assert!(next.now_or_never().unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn somebody_with_much_to_load_holds_up_nobody_with_little() {
    let (door, _) = door(2, 10);
    let (much, mut little) = (door.enter().await.unwrap(), door.enter().await.unwrap());
    // Ten turns' worth in one go: ten turns of the others' come first.
    let mut slice = much.slice().await;
    slice.spend(640 * 1024);
    let much = slice.end();
    let turns = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = turns.clone();
    let busy = tokio::spawn(async move {
        for _ in 0..100 {
            let mut slice = little.slice().await;
            slice.spend(64 * 1024);
            assert!(slice.is_over());
            little = slice.end();
            count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            tokio::task::yield_now().await;
        }
    });
    assert!(!much.slice().await.is_over());
    let before = turns.load(std::sync::atomic::Ordering::Relaxed);
    assert!((8..=11).contains(&before), "{before} turns of the other came first");
    busy.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn time_counts_where_bytes_do_not() {
    let (door, _) = door(1, 10);
    let permit = door.enter().await.unwrap();
    let slice = permit.slice().await;
    tokio::time::advance(std::time::Duration::from_micros(900)).await;
    assert!(!slice.is_over());
    tokio::time::advance(std::time::Duration::from_micros(200)).await;
    assert!(slice.is_over());
}

#[test]
fn a_turn_that_is_dropped_lets_the_next_one_in() {
    let (door, _) = door(1, 1);
    let permit = door.enter().now_or_never().unwrap().unwrap();
    let slice = permit.slice().now_or_never().unwrap();
    let mut next = Box::pin(door.enter());
    assert!((&mut next).now_or_never().is_none());
    drop(slice);
    let next = next.now_or_never().unwrap().unwrap();
    assert!(next.slice().now_or_never().is_some());
}
