//! Making messages durable together: whoever comes while a transaction is on its way to the disk
//! goes with the next one.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use weir_community::{Community, Env, Error};
use weir_db::{Class, Tx};
use weir_jobs::Job;

/// Messages of one transaction.
const TOGETHER_MAX: usize = 256;
/// Transactions that are on their way at once: one is filled while the other is synced.
const WRITERS_MAX: usize = 2;

/// Messages on their way to the disk. No more wait than there are requests.
pub(super) struct Gather<J> {
    state: Arc<Mutex<State<J>>>,
}

struct State<J> {
    waiting: Vec<(J, oneshot::Sender<bool>)>,
    writers: usize,
}

impl<J> Default for Gather<J> {
    fn default() -> Self {
        let state = State { waiting: Vec::new(), writers: 0 };
        Self { state: Arc::new(Mutex::new(state)) }
    }
}

impl<J: Job + Clone> Gather<J> {
    /// Makes `job` durable; false when it could not be.
    pub(super) async fn keep(&self, community: &Community, job: J) -> bool {
        let (tell, told) = oneshot::channel();
        let begins = {
            let mut state = self.state.lock();
            state.waiting.push((job, tell));
            let begins = state.writers < WRITERS_MAX;
            state.writers += usize::from(begins);
            begins
        };
        if begins {
            // A task of its own: whoever asks may go away, those who came along may not suffer.
            tokio::spawn(write_all(self.state.clone(), community.clone()));
        }
        told.await.unwrap_or(false)
    }
}

/// Writes until nothing waits.
async fn write_all<J: Job + Clone>(state: Arc<Mutex<State<J>>>, community: Community) {
    loop {
        let some: Vec<(J, oneshot::Sender<bool>)> = {
            let mut state = state.lock();
            let count = state.waiting.len().min(TOGETHER_MAX);
            if count == 0 {
                state.writers -= 1;
                return;
            }
            state.waiting.drain(..count).collect()
        };
        let (jobs, askers): (Vec<J>, Vec<_>) = some.into_iter().unzip();
        metrics::histogram!("weir_activitypub_inbox_group").record(jobs.len() as f64);
        let written = write(&community, jobs).await;
        if let Err(error) = &written {
            tracing::warn!(%error, messages = askers.len(), "messages could not be taken in");
        }
        for asker in askers {
            // Who went away does not hear it.
            let _ = asker.send(written.is_ok());
        }
    }
}

/// Packed here, so that the thread which writes does nothing else.
async fn write<J: Job + Clone>(community: &Community, jobs: Vec<J>) -> Result<(), Error> {
    let mut packed = community.env().jobs.pack_in_hand(jobs)?;
    let write = move |tx: &mut Tx, env: &Env| Ok(env.jobs.enqueue_packed(tx, &mut packed)?);
    community.write(Class::Inbound, write).await
}
