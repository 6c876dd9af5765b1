//! Units that are kept in hand beside their rows.

use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use weir_db::{Class, Tx};
use weir_jobs::{Claimed, Delay, Job, Outcome, Prepared, Queue, Registry, Retry};

use crate::house::{House, houses, soon, until, write_effect};

/// A unit that knows more than its row says.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Held {
    number: i64,
    #[serde(skip)]
    more: Option<&'static str>,
}

impl Job for Held {
    const KIND: &'static str = "held";
    const QUEUE: Queue = Queue::new("held", Class::Inbound);
    const RETRY: Retry = Retry { delay: Delay::FixedMs(1_000), ..Retry::DEFAULT };
}

/// What a handler was given: number, attempt, and what no row says.
type Given = (i64, u32, Option<&'static str>);

/// A handler that tells what it is given, writes its numbers, and refuses negative ones at first.
fn telling() -> (Registry, mpsc::UnboundedReceiver<Given>) {
    let (told, given) = mpsc::unbounded_channel();
    let prepare = move |jobs: Vec<Claimed<Held>>| {
        let told = told.clone();
        async move {
            for Claimed { job, attempt, .. } in &jobs {
                let _ = told.send((job.number, *attempt, job.more));
            }
            jobs.into_iter().map(Prepared::Run).collect()
        }
    };
    let mut registry = Registry::new();
    registry.unit(prepare, |tx: &mut Tx, batch: &[Claimed<Held>]| {
        let one = |claimed: &Claimed<Held>| {
            if claimed.job.number < 0 && claimed.attempt == 1 {
                return Ok(Outcome::retry("not yet"));
            }
            write_effect(tx, claimed.job.number).map(|()| Outcome::Done)
        };
        batch.iter().map(one).collect()
    });
    (registry, given)
}

async fn enqueue(house: &House, number: i64) {
    let jobs = house.jobs.clone();
    let mut packed = jobs.pack_in_hand(vec![Held { number, more: Some("more") }]).unwrap();
    house.write(move |tx| jobs.enqueue_packed(tx, &mut packed)).await;
}

/// Enqueues until one is given from hand: a node that just gained its lanes forgets what it held.
async fn held(house: &House, given: &mut mpsc::UnboundedReceiver<Given>) {
    loop {
        enqueue(house, 0).await;
        if soon(given.recv()).await == Some((0, 1, Some("more"))) {
            return;
        }
    }
}

#[tokio::test]
async fn a_unit_in_hand_is_given_as_it_was_and_as_its_row_says_when_it_is_tried_again() {
    for house in houses() {
        let (registry, mut given) = telling();
        let running = house.start(registry);
        held(&house, &mut given).await;
        enqueue(&house, -1).await;
        assert_eq!(soon(given.recv()).await, Some((-1, 1, Some("more"))), "{}", house.fixture.name);
        until("it waits", async || house.rows("jobs_later").await == 1).await;
        house.advance(2_000);
        assert_eq!(soon(given.recv()).await, Some((-1, 2, None)), "{}", house.fixture.name);
        until("it is done", async || house.effects().await.contains(&-1)).await;
        running.stop().await;
    }
}

#[tokio::test]
async fn a_unit_in_hand_whose_row_is_gone_is_not_done() {
    for house in houses() {
        let (registry, mut given) = telling();
        let running = house.start(registry);
        held(&house, &mut given).await;
        until("nothing waits", async || house.rows("jobs").await == 0).await;
        house.jobs.pause("held").await.unwrap();
        enqueue(&house, 1).await;
        house.write(|tx| tx.run("DELETE FROM jobs", &[])).await;
        enqueue(&house, 2).await;
        house.jobs.resume("held").await.unwrap();
        if house.fixture.name == "sqlite" {
            // Elsewhere nobody is told of a row that is gone before it is looked for.
            assert_eq!(soon(given.recv()).await, Some((1, 1, Some("more"))), "it was in hand");
        }
        until("the other is done", async || house.effects().await.contains(&2)).await;
        until("nothing waits", async || house.jobs.depth("held") == 0).await;
        assert!(!house.effects().await.contains(&1), "{}", house.fixture.name);
        running.stop().await;
    }
}
