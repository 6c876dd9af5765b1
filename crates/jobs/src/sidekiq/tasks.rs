//! Running tasks: beside each other, each with its timeout.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;

use super::failures::Next;
use super::worker::{Known, Taken, Worker};
use crate::directory::QueueState;
use crate::dispatch::panic_text;
use crate::registry::RunTask;
use crate::rows::Claim;
use crate::running::Site;
use crate::unique::KEY_IS_TAKEN;
use crate::{Outcome, Unique, cursors};

/// Starts a job.
pub(crate) fn start(
    worker: &Arc<Worker>,
    known: &Arc<Known>,
    run: &RunTask,
    taken: Arc<Taken>,
    claim: Claim,
) {
    let (worker, known, run) = (worker.clone(), known.clone(), run.clone());
    let runs = worker.runs.clone();
    runs.spawn(async move {
        let claim = Arc::new(claim);
        let core = &worker.core;
        let source = &core.sources[taken.source];
        let member = claim.batch_id.map(|_| claim.id);
        if known.unique == Unique::UntilDone
            && let Some(key) = &claim.unique_key
        {
            let kept = tokio::select! {
                biased;
                // It is held until the end of the worker, which puts it back.
                () = core.stop.cancelled() => return worker.free(taken.source),
                kept = worker.keeps_key(key, claim.id, known.class) => kept,
            };
            if !kept {
                let (kind, outcome) = (known.kind, Outcome::Dead(KEY_IS_TAKEN.into()));
                return worker.end(taken, kind, known.retry, outcome, Duration::ZERO, member).await;
            }
        }
        let place = tokio::select! {
            biased;
            // It is held until the end of the worker, which puts it back.
            () = core.stop.cancelled() => return worker.free(taken.source),
            place = Place::take(&source.state) => place,
        };
        let started = Instant::now();
        if let Err(at) = worker.may_start(taken.source, &claim.lane) {
            return worker.postpone(taken, known.kind, at).await;
        }
        let site = Arc::new(Site::new(core.inner.clone(), core.stop.clone()));
        let whole = async {
            let Some(key) = &claim.unique_key else {
                return run_one(&run, &claim, &site, known.timeout).await;
            };
            if known.unique.ends_at_start() {
                worker.free_key(key, claim.id, known.class).await;
            }
            let outcome = run_one(&run, &claim, &site, known.timeout).await;
            let next = core.next(&taken, known.retry, &outcome);
            let again = matches!(next, Next::Retry { .. } | Next::Later { .. });
            if known.unique.ends_at_start() && again {
                if !worker.take_key(key, claim.id, known.class).await {
                    return Outcome::Discard("a newer job of its key waits".into());
                }
            } else if known.unique == Unique::UntilDone && !again {
                worker.free_key(key, claim.id, known.class).await;
            }
            outcome
        };
        let running = &core.inner.running;
        let cancelled = running.begin(&claim, &source.state.name, taken.at);
        let outcome = tokio::select! {
            biased;
            outcome = whole => outcome,
            () = cancelled.cancelled() => {
                if let Some(key) = &claim.unique_key
                    && known.unique == Unique::UntilDone
                {
                    worker.free_key(key, claim.id, known.class).await;
                }
                Outcome::Cancelled
            }
            // It is held until the end of the worker, which puts it back.
            () = core.cut.cancelled() => {
                running.end(claim.id);
                return worker.free(taken.source);
            }
        };
        running.end(claim.id);
        source.ran(started.elapsed());
        drop(place);
        worker.tell_breaker(taken.source, &claim.lane, &outcome);
        if outcome.is_gone() {
            cursors::remove_one(&worker.core.inner, claim.id).await;
        }
        worker.end(taken, known.kind, known.retry, outcome, started.elapsed(), member).await;
    });
}

/// A place of the queue, given back when this is dropped.
struct Place(Arc<QueueState>);

impl Place {
    async fn take(queue: &Arc<QueueState>) -> Self {
        queue.places.take().await;
        Self(queue.clone())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.places.give();
    }
}

async fn run_one(
    run: &RunTask,
    claim: &Arc<Claim>,
    site: &Arc<Site>,
    timeout: Duration,
) -> Outcome {
    let body = async { run(claim, site).await };
    let caught = AssertUnwindSafe(body).catch_unwind();
    match tokio::time::timeout(timeout, caught).await {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(panic)) => Outcome::retry(panic_text(&*panic)),
        Err(_) => Outcome::retry(format!("not done within {} s", timeout.as_secs())),
    }
}
