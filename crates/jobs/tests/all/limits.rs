//! How many jobs run at once, and why no more.

use std::sync::Arc;

use tokio::sync::Semaphore;
use weir_jobs::{Claimed, LimitedBy, QueueStats, Registry};

use crate::house::{Call, House, houses, numbers, until};

/// Calls that wait until they are let go.
fn waiting_for(gate: &Arc<Semaphore>) -> Registry {
    let gate = gate.clone();
    let mut registry = Registry::new();
    registry.task(move |_: Claimed<Call>| {
        let gate = gate.clone();
        async move {
            let _ = gate.acquire().await.map(|it| it.forget());
            Ok(())
        }
    });
    registry
}

fn calls(house: &House) -> QueueStats {
    house.jobs.queues().into_iter().find(|it| it.name == "calls").unwrap()
}

async fn enqueue(house: &House, count: i64) {
    let jobs = house.jobs.clone();
    let calls: Vec<Call> = numbers(count).into_iter().map(|number| Call { number }).collect();
    house.write(move |tx| jobs.enqueue_many(tx, &calls)).await;
}

#[tokio::test]
async fn a_limit_set_by_hand_holds_over_restarts_until_it_is_taken_back() {
    for house in houses() {
        enqueue(&house, 100).await;
        let gate = Arc::new(Semaphore::new(0));
        let running = house.start(waiting_for(&gate));
        house.jobs.set_limit("calls", Some(80)).await.unwrap();
        until("the reason", async || calls(&house).limited_by == LimitedBy::ByHand).await;
        until("as many as were allowed", async || calls(&house).running == 80).await;
        running.stop_within(std::time::Duration::ZERO).await;

        let house = house.reopened();
        house.jobs.set_limit("calls", Some(7)).await.unwrap();
        let house = house.reopened();
        let running = house.start(waiting_for(&gate));
        until("as many as are allowed", async || calls(&house).running == 7).await;
        until("the reason", async || calls(&house).limited_by == LimitedBy::ByHand).await;
        assert_eq!(calls(&house).limit, 7);
        house.jobs.set_limit("calls", None).await.unwrap();
        until("the reason", async || calls(&house).limited_by != LimitedBy::ByHand).await;
        gate.add_permits(100);
        running.stop().await;
        assert!(house.jobs.set_limit("cals", None).await.is_err());
    }
}
