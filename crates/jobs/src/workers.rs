//! The workers of a process.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::JoinAll;
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use weir_db::Dialect;

use crate::dispatch::Worker;
use crate::keeper::Keeper;
use crate::line::Line;
use crate::registry::Periodic;
use crate::steering::{Senses, Steered};
use crate::suspects::{self, Trial};
use crate::yielding::Yielding;
use crate::{Jobs, Queue, Registry, StartError, acks, history, steering};
use crate::{news, nodes};

/// The running workers. Dropped, they go on until their shutdown.
#[derive(Debug)]
pub struct Workers {
    pub(crate) stop: CancellationToken,
    pub(crate) cut: CancellationToken,
    pub(crate) runs: TaskTracker,
    /// Dispatchers and the keeper.
    pub(crate) loops: Vec<JoinHandle<()>>,
    pub(crate) acks: JoinAll<JoinHandle<()>>,
    /// Tells the other nodes goodbye.
    pub(crate) node: Node,
}

impl Jobs {
    /// Starts working, until `shutdown`. To be called within a tokio runtime, once.
    ///
    /// # Errors
    /// [`StartError`] when rows hold kinds or queues that `registry` does not serve, or the
    /// registry contradicts itself.
    pub fn start(
        &self,
        registry: Registry,
        shutdown: CancellationToken,
    ) -> Result<Workers, StartError> {
        self.start_with(registry, shutdown, Senses::new(self.inner.clone()))
    }

    pub(crate) fn start_with(
        &self,
        registry: Registry,
        shutdown: CancellationToken,
        senses: Senses,
    ) -> Result<Workers, StartError> {
        if let Some(kind) = registry.elsewhere.keys().next() {
            return Err(StartError::ElsewhereWithoutRedis((*kind).into()));
        }
        let queues = self.check(&registry)?;
        if tokio::runtime::Handle::try_current().is_err() {
            return Err(StartError::NoRuntime);
        }
        let registry = registry.hooked();
        let Registry { handlers, periodic, favours, mut yields, mut steps, .. } = registry;
        if self.inner.kinds.set(handlers.keys().copied().collect()).is_err() {
            return Err(StartError::Started);
        }
        let (sender, receiver) = mpsc::channel(acks::WAITING_MAX);
        let (cut, runs) = (CancellationToken::new(), TaskTracker::new());
        let receiver = Arc::new(tokio::sync::Mutex::new(receiver));
        let write = |_| tokio::spawn(acks::run(self.inner.clone(), receiver.clone(), cut.clone()));
        let acks = futures_util::future::join_all((0..acks::WRITERS).map(write));
        let keeper = Keeper::new(self.inner.clone(), self.plan(periodic));
        let node = Node::start(self, &shutdown);
        let mut loops = vec![tokio::spawn(keeper.run(shutdown.clone()))];
        loops.push(tokio::spawn(history::run(self.inner.clone(), shutdown.clone())));
        let handlers = Arc::new(handlers);
        let mut steered: Vec<Arc<Worker>> = Vec::new();
        let declared = queues.values().map(|queue| (queue.class, queue.weight));
        let line = Arc::new(Mutex::new(Line::new(declared)));
        let state = |queue: &Queue| (*queue, self.inner.directory.queue(queue.name));
        let beside: Arc<[_]> = queues.values().map(state).collect();
        for (number, queue) in queues.into_values().enumerate() {
            let worker = Arc::new(Worker {
                inner: self.inner.clone(),
                queue,
                state: self.inner.directory.queue(queue.name),
                handlers: handlers.clone(),
                waited: metrics::histogram!("weir_jobs_wait_seconds", "queue" => queue.name),
                limit: metrics::gauge!("weir_jobs_limit_jobs", "queue" => queue.name),
                open_breakers: metrics::gauge!("weir_jobs_open_breakers_lanes",
                    "queue" => queue.name),
                acks: sender.clone(),
                runs: runs.clone(),
                line: line.clone(),
                yielding: yields.remove(queue.name).map(|(few, behind)| Yielding::new(few, behind)),
                pressed: steps.remove(queue.name),
                number,
                beside: beside.clone(),
                stop: shutdown.clone(),
                cut: cut.clone(),
            });
            worker.configure();
            if let Some(favours) = favours.get(queue.name) {
                worker.state.turns.lock().set_favours(favours.clone());
            }
            steered.push(worker);
        }
        let trials = std::mem::take(&mut *self.inner.trials.lock());
        loops.push(tokio::spawn(dispatch(steered.clone(), trials)));
        let steered = steered.into_iter().map(|worker| worker as Arc<dyn Steered>).collect();
        let steering = steering::run(senses, steered, shutdown.clone());
        loops.push(tokio::spawn(steering));
        Ok(Workers { stop: shutdown, cut, runs, loops, acks, node })
    }

    /// Keeps what the registry plans.
    pub(crate) fn plan(&self, periodic: Vec<Periodic>) -> Vec<Arc<Periodic>> {
        self.inner.periodic.get_or_init(|| periodic.into_iter().map(Arc::new).collect()).clone()
    }

    /// The queues that `registry` serves, if it serves all that is there.
    pub(crate) fn check(
        &self,
        registry: &Registry,
    ) -> Result<BTreeMap<&'static str, Queue>, StartError> {
        let handlers = &registry.handlers;
        if let Some(fault) = registry.faults.first() {
            return Err(fault.clone());
        }
        let unhandled = |periodic: &&Periodic| !handlers.contains_key(periodic.kind);
        if let Some(periodic) = registry.periodic.iter().find(unhandled) {
            let (name, kind) = (periodic.name.into(), periodic.kind.into());
            return Err(StartError::PeriodicUnhandled { name, kind });
        }
        let queues: BTreeMap<&'static str, Queue> =
            handlers.values().map(|handler| (handler.queue.name, handler.queue)).collect();
        let kinds = handlers.iter().map(|(kind, handler)| (*kind, handler.queue.name)).collect();
        let _ = self.inner.history.queues.set(kinds);
        for (queue, kind, count) in self.inner.found.get().into_iter().flatten() {
            let (queue, kind, count) = (queue.clone(), kind.clone(), *count);
            if registry.elsewhere.contains_key(kind.as_str()) {
                continue;
            }
            if !handlers.contains_key(kind.as_str()) {
                return Err(StartError::UnknownKind { kind, queue, count });
            }
            if !queues.contains_key(queue.as_str()) {
                return Err(StartError::UnservedQueue { queue, count });
            }
        }
        Ok(queues)
    }
}

/// This process's place among the nodes.
#[derive(Debug)]
pub(crate) struct Node {
    leave: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Node {
    pub(crate) fn start(jobs: &Jobs, stop: &CancellationToken) -> Self {
        let (leave, left) = oneshot::channel();
        if jobs.inner.db.dialect() == Dialect::Postgres {
            tokio::spawn(news::run(jobs.inner.clone(), stop.clone()));
        }
        Self { leave, task: tokio::spawn(nodes::run(jobs.inner.clone(), stop.clone(), left)) }
    }

    /// Says goodbye, so that others need not wait for the end of its leases.
    async fn leave(self, patience: Duration) {
        let _ = self.leave.send(());
        // Without an answer of the database it ends without goodbye.
        let _ = tokio::time::timeout(patience, self.task).await;
    }
}

/// Runs the dispatchers, after what has to be tried alone.
async fn dispatch(workers: Vec<Arc<Worker>>, trials: Vec<Trial>) {
    suspects::run(&workers, trials).await;
    let all = workers.into_iter().map(|worker| tokio::spawn(worker.run()));
    // A loop that panicked was reported by the runtime.
    let _ = futures_util::future::join_all(all).await;
}

impl Workers {
    /// Waits until the shutdown was asked for, and then for what runs, at most `patience`. What
    /// has not ended by then is cut off: it stays in its row and runs again at the next start,
    /// as the same attempt. What ended is durable when this returns.
    pub async fn finish(mut self, patience: Duration) {
        self.stop.cancelled().await;
        for each in self.loops {
            // A loop that panicked was reported by the runtime.
            let _ = each.await;
        }
        self.runs.close();
        if tokio::time::timeout(patience, self.runs.wait()).await.is_err() {
            self.cut.cancel();
            self.runs.wait().await;
        }
        // All senders are gone with their tasks: this ends, unless the database is away.
        if tokio::time::timeout(patience, &mut self.acks).await.is_err() {
            self.cut.cancel();
            let _ = self.acks.await;
        }
        self.node.leave(patience).await;
    }
}
