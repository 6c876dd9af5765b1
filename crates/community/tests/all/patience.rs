//! What counts as on its way here, and so holds up what is to give way to it.

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;
use weir_base::Id;
use weir_community::Env;
use weir_community::federation::{INBOUND_LATE, has_unworked_of, unworked};
use weir_db::Tx;
use weir_jobs::{Claimed, Job, Queue};

use crate::place::{places, until};

const HOST: &str = "bob.example";

/// A message that came late.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Late {
    number: Id,
}

impl Job for Late {
    const KIND: &'static str = "late";
    const QUEUE: Queue = INBOUND_LATE;

    fn lane(&self) -> Cow<'_, str> {
        Cow::Borrowed(HOST)
    }
}

#[tokio::test]
async fn what_waits_in_a_queue_that_was_paused_holds_nothing_up() {
    for place in places() {
        let let_end = Arc::new(Semaphore::new(0));
        let held = let_end.clone();
        let running = place.start(|registry, _| {
            registry.task(move |_: Claimed<Late>| {
                let held = held.clone();
                async move {
                    // Closed, it lets everyone.
                    let _ = held.acquire().await;
                    Ok(())
                }
            });
        });
        let come = |tx: &mut Tx, env: &Env| {
            let all: Vec<Late> = (0..150).map(|number| Late { number: Id(number) }).collect();
            Ok(env.jobs.enqueue_many(tx, &all)?)
        };
        place.write(come).await.unwrap();
        let env = place.community.env();
        until(place.name(), async || unworked(env) == 150).await;
        assert!(has_unworked_of(env, HOST));
        place.jobs.pause(INBOUND_LATE.name).await.unwrap();
        assert_eq!(unworked(env), 0, "{}", place.name());
        assert!(!has_unworked_of(env, HOST));
        place.jobs.resume(INBOUND_LATE.name).await.unwrap();
        assert_eq!(unworked(env), 150, "{}", place.name());
        assert!(has_unworked_of(env, HOST));
        let_end.close();
        until(place.name(), async || unworked(env) == 0).await;
        running.stop().await;
    }
}
