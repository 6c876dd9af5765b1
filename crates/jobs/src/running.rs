//! The tasks that run and have to wait for something: to be shown, and to be cut off.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use weir_base::{Id, Timestamp};
use weir_db::{Class, Tx};

use crate::inspect::find_ready;
use crate::jobs::Inner;
use crate::rows::Claim;
use crate::{Error, Jobs};

/// Tasks that were cancelled before their start was seen; the next beyond are not.
const DOOMED_MAX: usize = 1_000;
/// A progress text is cut to this many bytes.
const TEXT_BYTES_MAX: usize = 200;

/// How far a running job is, as it says itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Progress {
    /// What is done.
    pub done: u64,
    /// Out of how much; 0 when it is not known.
    pub total: u64,
    /// What it is at, for people.
    pub text: String,
}

/// A task that runs now. One that ends without having to wait for anything is never seen here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningJob {
    /// Its id.
    pub id: Id,
    /// Its queue.
    pub queue: Arc<str>,
    /// Its fairness key.
    pub lane: Arc<str>,
    /// Its type's name.
    pub kind: Cow<'static, str>,
    /// Which attempt this is, from 1.
    pub attempt: u32,
    /// When this attempt began.
    pub started_at: Timestamp,
    /// How far it says it is.
    pub progress: Option<Progress>,
    /// The process that runs it; none is this one.
    pub process: Option<String>,
}

/// What of a process runs, by id.
#[derive(Default)]
pub(crate) struct Running {
    jobs: Mutex<HashMap<Id, Entry>>,
    /// How many of them were cancelled before their start was seen.
    doomed: AtomicUsize,
}

#[derive(Default)]
struct Entry {
    token: CancellationToken,
    job: Option<RunningJob>,
    progress: Option<Progress>,
    doomed: bool,
}

impl Running {
    /// A task goes on beyond its first poll.
    pub(crate) fn begin(
        &self,
        claim: &Claim,
        queue: &Arc<str>,
        now: Timestamp,
    ) -> CancellationToken {
        let mut jobs = self.jobs.lock();
        let entry = jobs.entry(claim.id).or_default();
        entry.job = Some(RunningJob {
            id: claim.id,
            queue: queue.clone(),
            lane: claim.lane.clone(),
            kind: claim.kind.clone(),
            attempt: claim.attempt,
            started_at: now,
            progress: None,
            process: None,
        });
        entry.token.clone()
    }

    /// Task `id` ended.
    pub(crate) fn end(&self, id: Id) {
        if let Some(entry) = self.jobs.lock().remove(&id)
            && entry.doomed
        {
            self.doomed.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// The token of `id`, and whether it was made just now.
    fn token(&self, id: Id) -> (CancellationToken, bool) {
        let mut jobs = self.jobs.lock();
        let made = !jobs.contains_key(&id);
        (jobs.entry(id).or_default().token.clone(), made)
    }

    fn progress(&self, id: Id, progress: Progress) -> bool {
        let mut jobs = self.jobs.lock();
        let made = !jobs.contains_key(&id);
        jobs.entry(id).or_default().progress = Some(progress);
        made
    }

    /// Cuts task `id` off; false when it is not seen running.
    pub(crate) fn cancel(&self, id: Id) -> bool {
        let token = self.jobs.lock().get(&id).map(|entry| entry.token.clone());
        token.map(|token| token.cancel()).is_some()
    }

    /// Task `id`, which was taken, is not to start.
    pub(crate) fn doom(&self, id: Id) -> bool {
        let mut jobs = self.jobs.lock();
        let room = self.doomed.load(Ordering::Relaxed) < DOOMED_MAX;
        match jobs.get(&id) {
            Some(entry) => entry.token.cancel(),
            None if room => {
                let entry = Entry { doomed: true, ..Entry::default() };
                entry.token.cancel();
                jobs.insert(id, entry);
                self.doomed.fetch_add(1, Ordering::Relaxed);
            }
            None => return false,
        }
        true
    }

    /// Whether task `id`, which would start now, is not to.
    pub(crate) fn is_doomed(&self, id: Id) -> bool {
        if self.doomed.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let found = self.jobs.lock().get(&id).is_some_and(|entry| entry.doomed);
        if found {
            self.end(id);
        }
        found
    }

    /// Whether a job of `lane` runs.
    pub(crate) fn has_lane(&self, queue: &str, lane: &str) -> bool {
        let is_of = |job: &RunningJob| *job.queue == *queue && *job.lane == *lane;
        self.jobs.lock().values().any(|entry| entry.job.as_ref().is_some_and(is_of))
    }

    fn all(&self) -> Vec<RunningJob> {
        let jobs = self.jobs.lock();
        let one = |entry: &Entry| {
            let job = entry.job.clone()?;
            Some(RunningJob { progress: entry.progress.clone(), ..job })
        };
        jobs.values().filter_map(one).collect()
    }
}

/// What the jobs of a run know of where they run.
pub(crate) struct Site {
    pub(crate) inner: Arc<Inner>,
    /// The process is about to stop.
    pub(crate) stop: CancellationToken,
    /// One of them was noted as running at its first poll.
    noted: AtomicBool,
}

impl Site {
    pub(crate) fn new(inner: Arc<Inner>, stop: CancellationToken) -> Self {
        Self { inner, stop, noted: AtomicBool::new(false) }
    }

    pub(crate) fn token(&self, id: Id) -> CancellationToken {
        let (token, made) = self.inner.running.token(id);
        self.note(made);
        token
    }

    pub(crate) fn progress(&self, id: Id, done: u64, total: u64, text: &str) {
        let mut end = text.len().min(TEXT_BYTES_MAX);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let progress = Progress { done, total, text: text[..end].to_owned() };
        let made = self.inner.running.progress(id, progress);
        self.note(made);
    }

    fn note(&self, made: bool) {
        if made {
            self.noted.store(true, Ordering::Relaxed);
        }
    }

    /// Task `id` ended at its first poll.
    pub(crate) fn ended_at_once(&self, id: Id) {
        if self.noted.load(Ordering::Relaxed) {
            self.noted.store(false, Ordering::Relaxed);
            self.inner.running.end(id);
        }
    }
}

impl std::fmt::Debug for Site {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Site").finish_non_exhaustive()
    }
}

impl Jobs {
    /// The tasks that run in this process and wait for something (a peer, a timer, a lock), the
    /// longest first, with the progress they tell.
    pub fn running(&self) -> Vec<RunningJob> {
        let mut all = self.inner.running.all();
        all.sort_unstable_by_key(|job| (job.started_at, job.id));
        all
    }

    /// Cuts off a task that runs in this process, at its next `await` at the latest: it ends as
    /// `cancelled`, without a retry. False when it is not seen running (it waits, ended, or is
    /// about to). What the handler handed to threads of its own goes on, unless that looks at
    /// [`Claimed::is_cancelled`](crate::Claimed::is_cancelled).
    ///
    /// The end is written as any other: after a crash within the next 50 ms the task runs again.
    pub fn cancel_running(&self, id: Id) -> bool {
        self.inner.running.cancel(id)
    }

    /// Cancels a job wherever it stands: one that waits never runs ([`cancel`](Self::cancel)), one
    /// that runs as a task is cut off ([`cancel_running`](Self::cancel_running)). False when there
    /// is none: it ended, is dead, or runs in another process.
    ///
    /// # Errors
    /// [`Error::Db`].
    pub async fn cancel_now(&self, id: Id) -> Result<bool, Error> {
        if self.cancel_running(id) {
            return Ok(true);
        }
        let jobs = self.clone();
        let take_back = move |tx: &mut Tx| {
            let waited = jobs.cancel(tx, id)?;
            let left = if waited { None } else { find_ready(tx, id)? };
            Ok::<_, weir_db::Error>((waited, left))
        };
        let (waited, left) = self.inner.db.write(Class::Interactive, take_back).await?;
        if let Some(redis) = self.inner.redis.get() {
            let is_here = waited || self.cancel_running(id);
            return Ok(is_here || self.cancel_in_redis(redis, id, left.is_some()).await?);
        }
        let taken = left.is_some_and(|entry| {
            let state = self.inner.directory.find(&entry.queue);
            state.is_some_and(|state| state.turns.lock().has_taken(&entry.lane))
        });
        // Taken from its queue meanwhile, and about to start.
        Ok(waited || self.cancel_running(id) || (taken && self.inner.running.doom(id)))
    }
}
