//! Running tasks: beside each other, each with its timeout, acknowledged in groups.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;

use crate::Outcome;
use crate::dispatch::{Worker, panic_text};
use crate::registry::{Handler, RunTask};
use crate::rows::Claim;

/// Starts `claims`.
pub(crate) fn start(worker: &Arc<Worker>, handler: &Handler, run: &RunTask, claims: Vec<Claim>) {
    let (retry, timeout) = (handler.retry, handler.timeout);
    for claim in claims {
        let (worker, run) = (worker.clone(), run.clone());
        worker.state.begin();
        let runs = worker.runs.clone();
        runs.spawn(async move {
            let claim = Arc::new(claim);
            let started = Instant::now();
            let outcome = tokio::select! {
                outcome = run_one(&worker, &run, &claim, timeout) => outcome,
                // It stays in its row, and in flight: nobody takes it before the next start.
                () = worker.cut.cancelled() => return,
            };
            let took = started.elapsed();
            metrics::histogram!("weir_jobs_run_seconds", "kind" => claim.kind.clone())
                .record(took.as_secs_f64());
            let took_us = i64::try_from(took.as_micros()).unwrap_or(i64::MAX);
            worker.acknowledge(claim.clone(), retry, outcome).await;
            worker.state.finished(&claim.lane, 1, took_us);
            worker.state.end();
        });
    }
}

async fn run_one(worker: &Worker, run: &RunTask, claim: &Arc<Claim>, timeout: Duration) -> Outcome {
    let body = async { run(claim.clone()).await };
    let caught = AssertUnwindSafe(body).catch_unwind();
    match tokio::time::timeout(timeout, caught).await {
        Ok(Ok(Outcome::Retry { reason, after_ms })) => {
            worker.failed(claim, reason.clone());
            Outcome::Retry { reason, after_ms }
        }
        Ok(Ok(outcome)) => outcome,
        Ok(Err(panic)) => worker.failed(claim, panic_text(&*panic)),
        Err(_) => worker.failed(claim, format!("not done within {} s", timeout.as_secs())),
    }
}
