//! Queries that are kept up to date, each once, however many sessions ask the same.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore, mpsc, oneshot};
use tokio::time::Instant;
use weir_base::Id;
use weir_live::admission::Admission;

use crate::document::{DocKey, Revision, Snapshot};
use crate::wire::Failure;

/// A boxed future.
pub type Work<'w, T> = Pin<Box<dyn Future<Output = T> + Send + 'w>>;

/// Sessions that may ask one query to catch up at once.
const FLUSHES_MAX: usize = 64;
/// How long a query that could not be read waits before it tries again, in ms, at first and at
/// most.
const RETRY_MS: [u64; 2] = [500, 30_000];

/// A query that knows when its result may have changed.
///
/// The first [`update`](Self::update) gives the whole result. To miss nothing, it must listen
/// before it reads.
pub trait Source: Send {
    /// Waits until the result may have changed. Dropping the future must lose nothing.
    fn wait(&mut self) -> Work<'_, ()>;

    /// Whether the result may have changed, as far as is known without waiting.
    fn is_due(&mut self) -> bool {
        self.wait().now_or_never().is_some()
    }

    /// What has changed since the last update: read in as few statements as possible.
    fn update(&mut self) -> Work<'_, Result<Update, Trouble>>;
}

/// A result, or a step to the next one.
pub enum Update {
    /// All there is now.
    Whole(Vec<Arc<Revision>>),
    /// What came or changed, and what is gone.
    Part {
        /// New revisions.
        put: Vec<Arc<Revision>>,
        /// Documents that are no longer part of it.
        gone: Vec<Arc<DocKey>>,
    },
}

impl Update {
    /// Nothing has changed.
    pub fn nothing() -> Self {
        Self::Part { put: Vec::new(), gone: Vec::new() }
    }
}

/// Why a query has no result.
#[derive(Debug, Clone, PartialEq)]
pub enum Trouble {
    /// It is worth trying again; what was shown stays.
    Passing(Failure),
    /// There is nothing (any more) for this reader: subscriptions end with this.
    Over(Failure),
}

/// What tells queries apart.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) publication: &'static str,
    /// The parameters, normalised, as JSON.
    pub(crate) params: Box<str>,
    /// For whom, where that matters.
    pub(crate) reader: Option<Id>,
}

/// Wakes a session, and says why.
#[derive(Default)]
pub(crate) struct Bell {
    rung: Mutex<Vec<u32>>,
    notify: Notify,
}

impl Bell {
    /// Subscription `token` has something new.
    pub(crate) fn ring(&self, token: u32) {
        {
            let mut rung = self.rung.lock();
            if !rung.contains(&token) {
                rung.push(token);
            }
        }
        self.notify.notify_one();
    }

    /// There is something else to look at.
    pub(crate) fn wake(&self) {
        self.notify.notify_one();
    }

    pub(crate) async fn heard(&self) {
        self.notify.notified().await;
    }

    pub(crate) fn take(&self) -> Vec<u32> {
        std::mem::take(&mut *self.rung.lock())
    }
}

/// A query and its newest result.
pub(crate) struct Observer {
    pub(crate) key: Key,
    state: Mutex<State>,
    flushes: mpsc::Sender<oneshot::Sender<()>>,
    // Somebody came or left.
    left: Notify,
}

struct State {
    result: Option<Result<Arc<Snapshot>, Failure>>,
    listeners: Vec<(Arc<Bell>, u32)>,
}

/// What runs an observer, from outside.
pub(crate) struct Runner {
    pub(crate) admission: Admission,
    pub(crate) reads: Arc<Semaphore>,
    pub(crate) linger: Duration,
    pub(crate) documents_max: usize,
    /// Takes the observer out of the registry unless somebody has come to listen.
    pub(crate) forget: Box<dyn Fn(&Arc<Observer>, bool) -> bool + Send + Sync>,
}

impl Observer {
    /// A query under way; it reads as soon as it is its turn.
    pub(crate) fn start(key: Key, source: Box<dyn Source>, runner: Runner) -> Arc<Self> {
        let (flushes, asked) = mpsc::channel(FLUSHES_MAX);
        let state = Mutex::new(State { result: None, listeners: Vec::new() });
        let observer = Arc::new(Self { key, state, flushes, left: Notify::new() });
        tokio::spawn(run(observer.clone(), source, asked, runner));
        observer
    }

    /// From now on `bell` rings for `token` when there is a new result, at once if there is one.
    pub(crate) fn listen(&self, bell: &Arc<Bell>, token: u32) {
        let mut state = self.state.lock();
        state.listeners.push((bell.clone(), token));
        // Its task sees that it is no longer alone.
        self.left.notify_one();
        if state.result.is_some() {
            bell.ring(token);
        }
    }

    /// No longer.
    pub(crate) fn leave(&self, bell: &Arc<Bell>, token: u32) {
        let mut state = self.state.lock();
        let at = state
            .listeners
            .iter()
            .position(|(one, number)| Arc::ptr_eq(one, bell) && *number == token);
        if let Some(at) = at {
            state.listeners.swap_remove(at);
        }
        if state.listeners.is_empty() {
            self.left.notify_one();
        }
    }

    /// The newest result, or why there is none.
    pub(crate) fn result(&self) -> Option<Result<Arc<Snapshot>, Failure>> {
        self.state.lock().result.clone()
    }

    pub(crate) fn is_alone(&self) -> bool {
        self.state.lock().listeners.is_empty()
    }

    /// Waits until what the query heard of before this call is part of its result.
    pub(crate) async fn flush(&self) {
        let (done, caught_up) = oneshot::channel();
        if self.flushes.send(done).await.is_ok() {
            let _ = caught_up.await;
        }
    }

    fn publish(&self, result: Result<Arc<Snapshot>, Failure>) {
        let mut state = self.state.lock();
        state.result = Some(result);
        for (bell, token) in &state.listeners {
            bell.ring(*token);
        }
    }
}

async fn run(
    observer: Arc<Observer>,
    source: Box<dyn Source>,
    mut asked: mpsc::Receiver<oneshot::Sender<()>>,
    runner: Runner,
) {
    let mut reading = Reading { source, shown: Snapshot::empty(), failures: 0 };
    let first = match runner.admission.enter().await {
        Ok(_place) => reading.update(runner.documents_max).await,
        Err(busy) => {
            let failure = Failure::new(503, busy.to_string());
            Err(Trouble::Over(failure.with_details(serde_json::json!({
                "retryAfter": busy.retry_after_s
            }))))
        }
    };
    match first {
        Ok(_) => observer.publish(Ok(reading.shown.clone())),
        Err(Trouble::Passing(failure) | Trouble::Over(failure)) => {
            // Whoever asks from now on asks anew.
            (runner.forget)(&observer, true);
            observer.publish(Err(failure));
            return;
        }
    }
    let (mut retry, mut alone_until) = (None, None);
    loop {
        let linger_until = match observer.is_alone() {
            true => *alone_until.get_or_insert_with(|| Instant::now() + runner.linger),
            false => {
                alone_until = None;
                Instant::now()
            }
        };
        let mut flushed = None;
        tokio::select! {
            biased;
            () = reading.source.wait(), if retry.is_none() => {}
            () = wait(&mut retry), if retry.is_some() => {}
            ask = asked.recv() => match ask {
                Some(ask) => flushed = Some(ask),
                None => return,
            },
            () = observer.left.notified() => continue,
            () = tokio::time::sleep_until(linger_until), if alone_until.is_some() => {
                if (runner.forget)(&observer, false) {
                    return;
                }
                alone_until = None;
                continue;
            }
        }
        loop {
            let due = flushed.is_none() || reading.source.is_due();
            if !due {
                break;
            }
            let Ok(_place) = runner.reads.acquire().await else { return };
            match reading.update(runner.documents_max).await {
                Ok(true) => observer.publish(Ok(reading.shown.clone())),
                Ok(false) => {}
                Err(Trouble::Over(failure)) => {
                    (runner.forget)(&observer, true);
                    observer.publish(Err(failure));
                    return;
                }
                Err(Trouble::Passing(failure)) => {
                    tracing::warn!(%failure, publication = observer.key.publication,
                        "a live query could not be read; it will be tried again");
                    retry = Some(reading.retry_delay());
                    break;
                }
            }
            retry = None;
            if flushed.is_none() {
                break;
            }
        }
        if let Some(flushed) = flushed {
            let _ = flushed.send(());
        }
    }
}

async fn wait(delay: &mut Option<Duration>) {
    if let Some(delay) = delay {
        tokio::time::sleep(*delay).await;
    }
}

struct Reading {
    source: Box<dyn Source>,
    shown: Arc<Snapshot>,
    failures: u32,
}

impl Reading {
    /// Whether the result is another than before.
    async fn update(&mut self, documents_max: usize) -> Result<bool, Trouble> {
        let next = match self.source.update().await.inspect_err(|_| self.failures += 1)? {
            Update::Whole(revisions) => Snapshot::of(revisions),
            Update::Part { put, gone } if put.is_empty() && gone.is_empty() => return Ok(false),
            Update::Part { put, gone } => self.shown.patched(put, &gone),
        };
        self.failures = 0;
        if next.revisions().len() > documents_max {
            let reason = format!("The result has more than {documents_max} documents.");
            return Err(Trouble::Over(Failure::new(413, reason)));
        }
        let changed = !next.is_same(&self.shown);
        self.shown = next;
        Ok(changed)
    }

    fn retry_delay(&self) -> Duration {
        let [first, most] = RETRY_MS;
        Duration::from_millis((first << self.failures.min(8)).min(most))
    }
}
