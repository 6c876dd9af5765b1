//! Starting to work on Redis.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use parking_lot::Mutex;
use redis::RedisResult;
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use weir_db::Class;

use super::limits::{Limited, Source};
use super::poller::Poller;
use super::relay::{self, Relay};
use super::worker::{Core, Known, Worker};
use super::{Options, Shared, acks, beat, fetch, lost, units};
use crate::steering::{self, Senses, Steered};
use crate::workers::Node;
use crate::{Jobs, Queue, Registry, StartError, Workers, history};

impl Jobs {
    /// Lets the jobs in Redis be looked at and steered from here, without working on any. To be
    /// called within a tokio runtime.
    ///
    /// # Errors
    /// [`StartError::Redis`] when the address makes no sense.
    pub fn reach_redis(&self, options: Options) -> Result<(), StartError> {
        let shared = Shared::open(options, &self.inner.random)
            .map_err(|error| StartError::Redis(error.to_string()))?;
        let _ = self.inner.redis.set(Arc::new(shared));
        Ok(())
    }

    /// Starts working on Redis, in Sidekiq's format, until `shutdown`: relays what is enqueued in
    /// the database, and runs what `registry` handles. To be called within a tokio runtime, once.
    /// Redis may be away: everything waits for it. See [`sidekiq`](crate::sidekiq) for what is
    /// guaranteed.
    ///
    /// # Errors
    /// As [`start`](Self::start), and [`StartError::Redis`] when the address makes no sense.
    pub fn start_on_redis(
        &self,
        registry: Registry,
        options: Options,
        shutdown: CancellationToken,
    ) -> Result<Workers, StartError> {
        let queues = self.check(&registry)?;
        if tokio::runtime::Handle::try_current().is_err() {
            return Err(StartError::NoRuntime);
        }
        let registry = registry.hooked();
        let shared = Shared::open(options, &self.inner.random)
            .map_err(|error| StartError::Redis(error.to_string()))?;
        let shared = Arc::new(shared);
        let kinds = registry.handlers.keys().chain(registry.elsewhere.keys()).copied().collect();
        if self.inner.kinds.set(kinds).is_err() {
            return Err(StartError::Started);
        }
        let keyed = registry.handlers.values().filter(|it| it.unique.ends_with_job());
        let _ = shared.keyed.set(keyed.map(|it| it.class).collect());
        let _ = self.inner.redis.set(shared.clone());
        // A button of Sidekiq Web stops the jobs, and not what else the process does.
        let stop = shutdown.child_token();
        let targets = relay::targets(&registry);
        let relay = Arc::new(Relay {
            inner: self.inner.clone(),
            shared: shared.clone(),
            targets,
            stop: stop.clone(),
        });
        let mut loops = vec![tokio::spawn(relay.clone().later())];
        let elsewhere = registry.elsewhere.values().map(|it| (it.queue.name, it.queue));
        let all: BTreeMap<&str, Queue> = elsewhere.chain(queues.clone()).collect();
        for queue in all.keys() {
            self.inner.directory.queue(queue);
        }
        let ready = |queue: Queue| {
            // How jobs end is only known of tasks that run here.
            let mut here = registry.handlers.values().filter(|it| it.queue.name == queue.name);
            let are_tasks = here.next().is_some_and(|handler| !handler.run.is_unit());
            let breaker_failures = if are_tasks { queue.breaker_failures } else { 0 };
            tokio::spawn(relay.clone().ready(Queue { breaker_failures, ..queue }))
        };
        loops.extend(all.into_values().map(ready));
        let worker = worker(self, &registry, &queues, shared, stop.clone());
        let (worker, receiver) = worker;
        let core = worker.core.clone();
        let (cut, runs) = (core.cut.clone(), worker.runs.clone());
        loops.push(tokio::spawn(history::run(self.inner.clone(), stop.clone())));
        loops.push(tokio::spawn(say_what_is_kept(core.clone())));
        loops.push(tokio::spawn(lost::run(core.clone())));
        loops.push(tokio::spawn(Poller::new(core.clone(), self.plan(registry.periodic)).run()));
        loops
            .extend((0..core.sources.len()).map(|at| tokio::spawn(fetch::watch(core.clone(), at))));
        loops.push(tokio::spawn(fetch::Fetcher::new(Arc::new(worker)).run()));
        let limited = |at| Arc::new(Limited { core: core.clone(), at }) as Arc<dyn Steered>;
        let steered = (0..core.sources.len()).map(limited).collect();
        let senses = Senses::new(self.inner.clone());
        loops.push(tokio::spawn(steering::run(senses, steered, stop.clone())));
        let acks = tokio::spawn(async move {
            let ended = CancellationToken::new();
            let beats = tokio::spawn(beat::run(core.clone(), ended.clone()));
            acks::run(core, receiver).await;
            ended.cancel();
            // A panic was reported by the runtime.
            let _ = beats.await;
        });
        let acks = futures_util::future::join_all([acks]);
        let node = Node::start(self, &shutdown);
        Ok(Workers { stop, cut, runs, loops, acks, node })
    }
}

fn worker(
    jobs: &Jobs,
    registry: &Registry,
    queues: &BTreeMap<&'static str, Queue>,
    shared: Arc<Shared>,
    stop: CancellationToken,
) -> (Worker, mpsc::Receiver<acks::Ack>) {
    let known = registry
        .handlers
        .iter()
        .map(|(kind, handler)| (handler.class, Arc::new(Known::new(kind, handler))));
    let (acks, receiver) = mpsc::channel(acks::WAITING_MAX);
    let core = Core {
        inner: jobs.inner.clone(),
        known: known.collect(),
        sources: sources(jobs, registry, queues, &shared.options),
        shared,
        held: Mutex::new(HashMap::new()),
        deaths: Mutex::new(HashMap::new()),
        buried: Mutex::default(),
        running: AtomicU64::new(0),
        freed: Notify::new(),
        arrived: Notify::new(),
        tally: beat::Tally::default(),
        stop,
        cut: CancellationToken::new(),
    };
    let running = core.sources.iter().map(|source| (source.name.clone(), source.held.clone()));
    let _ = core.shared.running.set(running.collect());
    (Worker { core: Arc::new(core), acks, runs: TaskTracker::new() }, receiver)
}

/// The queues to work: those that were named, or else those that the types declare.
fn sources(
    jobs: &Jobs,
    registry: &Registry,
    queues: &BTreeMap<&'static str, Queue>,
    options: &Options,
) -> Vec<Source> {
    let source = |name: &str, weight: u32| {
        let mut here = registry.handlers.values().filter(|handler| handler.queue.name == name);
        let (is_unit, is_blocking) =
            here.next().map_or((false, false), |it| (it.run.is_unit(), it.is_blocking));
        let state = jobs.inner.directory.queue(name);
        let batch_max = if is_unit { units::BATCH_MAX } else { 1 };
        Source::new(state, weight, queues.get(name).copied(), is_blocking, batch_max)
    };
    if !options.queues.is_empty() {
        return options.queues.iter().map(|(name, weight)| source(name, *weight)).collect();
    }
    let mut queues: Vec<&Queue> = queues.values().collect();
    queues.sort_by_key(|queue| std::cmp::Reverse(weight(queue.class)));
    queues.into_iter().map(|queue| source(queue.name, weight(queue.class))).collect()
}

/// The more urgent, the more often first; none starves.
fn weight(class: Class) -> u32 {
    match class {
        Class::Interactive => 16,
        Class::Live => 12,
        Class::Inbound => 8,
        Class::Outbound => 4,
        Class::Housekeeping => 1,
    }
}

/// Says in the log what Redis loses when it falls, once it answers.
async fn say_what_is_kept(core: Arc<Core>) {
    while !core.stop.is_cancelled() {
        match persistence(&core.shared).await {
            Ok(Some(warning)) => return tracing::warn!("{warning}"),
            Ok(None) => return,
            Err(_) => core.pause().await,
        }
    }
}

/// What Redis's configuration does not keep; none when each write is synced.
pub(crate) async fn persistence(shared: &Shared) -> RedisResult<Option<String>> {
    let mut redis = shared.redis();
    let mut setting = async |name: &str| -> RedisResult<Option<String>> {
        let pair: RedisResult<Vec<String>> =
            redis::cmd("CONFIG").arg("GET").arg(name).query_async(&mut redis).await;
        match pair {
            Ok(pair) => Ok(pair.into_iter().nth(1)),
            // Hosted ones do not tell.
            Err(error) if error.code().is_some() => Ok(None),
            Err(error) => Err(error),
        }
    };
    let appendonly = setting("appendonly").await?;
    let appendfsync = setting("appendfsync").await?;
    let save = setting("save").await?;
    Ok(super::persistence::lost(appendonly.as_deref(), appendfsync.as_deref(), save.as_deref()))
}
