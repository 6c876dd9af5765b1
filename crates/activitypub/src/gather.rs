//! Writing together what comes at once: whoever comes while a transaction is on its way to the disk
//! goes with the next one.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::oneshot;
use weir_community::{Community, Error};

/// Things of one transaction.
const TOGETHER_MAX: usize = 256;
/// Transactions that are on their way at once: one is filled while the other is synced.
const WRITERS_MAX: usize = 2;

/// Writes several things in one transaction.
pub(crate) type Write<T> = for<'c> fn(&'c Community, Vec<T>) -> BoxFuture<'c, Result<(), Error>>;

/// Things on their way to the disk, each with somebody who waits until it is there: so there are no
/// more of them than requests or jobs.
pub(crate) struct Gather<T> {
    write: Write<T>,
    state: Arc<Mutex<State<T>>>,
}

struct State<T> {
    waiting: Vec<(T, oneshot::Sender<bool>)>,
    writers: usize,
}

impl<T: Send + 'static> Gather<T> {
    pub(crate) fn new(write: Write<T>) -> Self {
        let state = State { waiting: Vec::new(), writers: 0 };
        Self { write, state: Arc::new(Mutex::new(state)) }
    }

    /// Makes `one` durable; false when it could not be.
    pub(crate) async fn keep(&self, community: &Community, one: T) -> bool {
        let (tell, told) = oneshot::channel();
        let begins = {
            let mut state = self.state.lock();
            state.waiting.push((one, tell));
            let begins = state.writers < WRITERS_MAX;
            state.writers += usize::from(begins);
            begins
        };
        if begins {
            // A task of its own: whoever asks may go away, those who came along may not suffer.
            tokio::spawn(write_all(self.write, self.state.clone(), community.clone()));
        }
        told.await.unwrap_or(false)
    }
}

/// Writes until nothing waits.
async fn write_all<T>(write: Write<T>, state: Arc<Mutex<State<T>>>, community: Community) {
    loop {
        let some: Vec<(T, oneshot::Sender<bool>)> = {
            let mut state = state.lock();
            let count = state.waiting.len().min(TOGETHER_MAX);
            if count == 0 {
                state.writers -= 1;
                return;
            }
            state.waiting.drain(..count).collect()
        };
        let (things, askers): (Vec<T>, Vec<_>) = some.into_iter().unzip();
        let written = write(&community, things).await;
        if let Err(error) = &written {
            tracing::warn!(%error, count = askers.len(), "what came in or went out is not on disk");
        }
        for asker in askers {
            // Who went away does not hear it.
            let _ = asker.send(written.is_ok());
        }
    }
}
