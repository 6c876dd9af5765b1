//! Identical work under way at the same time is done once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use futures_util::FutureExt;
use tokio::sync::oneshot;
use weir_live::SingleFlight;

#[tokio::test]
async fn a_crowd_that_asks_the_same_is_answered_by_one_run() {
    let flights = Arc::new(SingleFlight::<u8, usize>::new(10));
    let runs = Arc::new(AtomicUsize::new(0));
    let crowd = (0..50).map(|_| {
        let (flights, runs) = (flights.clone(), runs.clone());
        tokio::spawn(async move {
            let make = async {
                tokio::task::yield_now().await;
                runs.fetch_add(1, Relaxed) + 1
            };
            flights.run(&1, make).await
        })
    });
    for asked in crowd.collect::<Vec<_>>() {
        assert_eq!(asked.await.unwrap(), 1);
    }
    assert_eq!(flights.under_way(), 0);
    assert_eq!(flights.run(&1, async { 9 }).await, 9);
}

#[tokio::test]
async fn where_the_one_who_works_goes_away_the_next_does_it() {
    let flights = SingleFlight::<u8, u8>::new(10);
    let (_never, gate) = oneshot::channel::<()>();
    let mut first = Box::pin(flights.run(&1, async {
        let _ = gate.await;
        1
    }));
    assert!((&mut first).now_or_never().is_none());
    let mut second = Box::pin(flights.run(&1, async { 2 }));
    assert!((&mut second).now_or_never().is_none());
    drop(first);
    assert_eq!(second.await, 2);
    assert_eq!(flights.under_way(), 0);
}

#[tokio::test]
async fn beyond_the_limit_everybody_works_alone() {
    let flights = SingleFlight::<u8, u8>::new(1);
    let (_never, gate) = oneshot::channel::<()>();
    let mut first = Box::pin(flights.run(&1, async {
        let _ = gate.await;
        1
    }));
    assert!((&mut first).now_or_never().is_none());
    assert_eq!(flights.run(&2, async { 2 }).await, 2);
    assert_eq!(flights.under_way(), 1);
}
