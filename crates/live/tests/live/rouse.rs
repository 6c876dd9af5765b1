//! How many are woken.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};

use tokio::runtime::Builder;
use weir_live::{Hub, Limits, Session, Shared};

const CROWD: usize = 1_000;

/// Counts how often somebody was woken.
#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

fn crowd(hub: &Hub<u8, u32>) -> Vec<Session<u8, u32>> {
    let one = || {
        let session = hub.session(0).unwrap();
        session.subscribe(1).unwrap();
        session
    };
    std::iter::repeat_with(one).take(CROWD).collect()
}

#[tokio::test]
async fn who_has_something_else_to_do_gets_in_between_thousands_that_are_woken() {
    let hub: Hub<u8, u32> = Hub::new(Limits::default());
    let served = Arc::new(AtomicUsize::new(0));
    let listening: Vec<_> = crowd(&hub)
        .into_iter()
        .map(|mut session| {
            let served = served.clone();
            tokio::spawn(async move {
                let mut got = 0;
                while got < 2 {
                    let batch = session.next().await.unwrap();
                    got += batch.len();
                    served.fetch_add(batch.len(), SeqCst);
                }
            })
        })
        .collect();
    while hub.listeners(&1) < CROWD {
        tokio::task::yield_now().await;
    }
    // All of them wait.
    tokio::spawn(async {}).await.unwrap();
    assert_eq!(hub.publish(&1, Shared::new(7)), CROWD);
    let seen = served.clone();
    let between = tokio::spawn(async move { seen.load(SeqCst) }).await.unwrap();
    assert!(between < CROWD / 2, "{between} of {CROWD} went first");
    // Whoever was not woken yet gets both at once.
    assert_eq!(hub.publish(&1, Shared::new(8)), CROWD);
    hub.caught_up().await;
    for one in listening {
        one.await.unwrap();
    }
    assert_eq!(served.load(SeqCst), 2 * CROWD);
    hub.caught_up().await;
}

#[test]
fn where_the_sessions_runtime_has_ended_all_are_woken_at_once() {
    let hub: Hub<u8, u32> = Hub::new(Limits::default());
    let runtime = Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let mut sessions = runtime.block_on(async { crowd(&hub) });
    drop(runtime);
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(woken.clone());
    let context = Context::from_waker(&waker);
    for session in &mut sessions {
        assert!(matches!(session.poll_next(&context), Poll::Pending));
    }
    hub.publish(&1, Shared::new(7));
    assert_eq!(woken.0.load(SeqCst), CROWD);
}
