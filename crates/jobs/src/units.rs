//! Running units: a batch is prepared, then written in one transaction with its removal.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_base::Timestamp;
use weir_db::{Dialect, Error, Tx};

use crate::Outcome;
use crate::dispatch::Worker;
use crate::endings::{Ending, Terms, record};
use crate::items::{self, Items};
use crate::registry::{Handler, Prepare};
use crate::rows::{self, Claim};

/// Jobs of one kind that are prepared, on their way into the database.
struct Batch {
    worker: Arc<Worker>,
    terms: Terms,
    claims: Arc<Vec<Claim>>,
    items: Items,
}

/// What a batch's own code is told by.
#[derive(Clone, Copy)]
struct Policy {
    terms: Terms,
    timeout: Duration,
    /// When it was taken.
    now: Timestamp,
}

/// Starts a batch of `claims`, all of one kind.
pub(crate) fn start(
    worker: &Arc<Worker>,
    handler: &Handler,
    prepare: &Prepare,
    claims: Vec<Claim>,
) {
    let now = worker.inner.clock.now();
    let policy = Policy { terms: handler.terms(), timeout: handler.timeout, now };
    let (worker, prepare) = (worker.clone(), prepare.clone());
    worker.state.places.take_anyway();
    let journal = worker.inner.journal.get();
    let written = journal.map(|journal| journal.hold(claims.iter().map(|claim| claim.id)));
    let runs = worker.runs.clone();
    runs.spawn(async move {
        let started = Instant::now();
        if let Some(first) = claims.first() {
            let kind = first.kind.to_string();
            let whole = run(&worker, &prepare, policy, claims);
            tokio::select! {
                () = whole => {}
                // Either committed or not at all: what is not stays in its rows.
                () = worker.cut.cancelled() => {}
            }
            let took = started.elapsed();
            metrics::histogram!("weir_jobs_run_seconds", "kind" => kind).record(took.as_secs_f64());
            drop(written);
            worker.rest_after(took).await;
        }
        worker.state.places.give();
        worker.state.wake.notify_one();
    });
}

async fn run(worker: &Arc<Worker>, prepare: &Prepare, policy: Policy, claims: Vec<Claim>) {
    if claims.len() == 1 {
        return run_prepared(worker, prepare, policy, Arc::new(claims)).await;
    }
    let claims = Arc::new(claims);
    match items::prepare(prepare, claims.clone(), policy.now, policy.timeout).await {
        Ok(items) => write(Batch::new(worker, policy, claims, items)).await,
        Err(reason) => {
            tracing::warn!(queue = %worker.state.name, reason, "a batch is prepared job by job");
            for claim in Arc::unwrap_or_clone(claims) {
                run_prepared(worker, prepare, policy, Arc::new(vec![claim])).await;
            }
        }
    }
}

/// A batch of one.
async fn run_prepared(
    worker: &Arc<Worker>,
    prepare: &Prepare,
    policy: Policy,
    claims: Arc<Vec<Claim>>,
) {
    let prepared = items::prepare(prepare, claims.clone(), policy.now, policy.timeout).await;
    let items = prepared.unwrap_or_else(|reason| {
        let outcome = match claims.first() {
            Some(claim) => worker.failed(claim, reason),
            None => Outcome::retry(reason),
        };
        Items::ended(outcome)
    });
    write(Batch::new(worker, policy, claims, items)).await;
}

/// Writes a batch; when it fails as a whole, job by job.
async fn write(batch: Batch) {
    let batch = Arc::new(batch);
    let all = 0..batch.claims.len();
    match commit(&batch, all.clone(), None).await {
        Ok(()) => {}
        Err(error) if error.is_away() => batch.give_back(all, &error).await,
        Err(error) if batch.claims.len() == 1 => fail(&batch, 0, error).await,
        Err(error) => {
            let queue = &batch.worker.state.name;
            tracing::warn!(%queue, %error, "a batch failed; its jobs run one by one");
            metrics::counter!("weir_jobs_split_total", "queue" => queue.to_string()).increment(1);
            for at in all {
                match commit(&batch, at..at + 1, None).await {
                    Ok(()) => {}
                    Err(error) if error.is_away() => batch.give_back(at..at + 1, &error).await,
                    Err(error) => fail(&batch, at, error).await,
                }
            }
        }
    }
}

/// Records that a job failed by itself.
async fn fail(batch: &Arc<Batch>, at: usize, error: Error) {
    let Some(claim) = batch.claims.get(at) else { return };
    let outcome = batch.worker.failed(claim, error.to_string());
    if let Err(error) = commit(batch, at..at + 1, Some(outcome)).await {
        batch.give_back(at..at + 1, &error).await;
    }
}

/// One transaction: the rows of `range` go, their items run (or all end with `instead`), and what
/// follows from their outcomes is written.
async fn commit(
    batch: &Arc<Batch>,
    range: Range<usize>,
    instead: Option<Outcome>,
) -> Result<(), Error> {
    let (shared, part) = (batch.clone(), range.clone());
    let work = move |tx: &mut Tx| {
        shared.work(tx, part.clone(), instead.as_ref())?;
        Ok::<_, Error>(i64::try_from(tx.elapsed().as_nanos()).unwrap_or(i64::MAX))
    };
    let (inner, class) = (&batch.worker.inner, batch.worker.queue.class);
    let _turn = match inner.db.dialect() {
        // Its one writer has queues for the classes.
        Dialect::Sqlite => None,
        Dialect::Postgres => Some(inner.units[class as usize].lock().await),
    };
    // A power cut takes back what the batch did and its end alike.
    let took_ns = inner.db.write_early(class, work).await?;
    batch.finished(range, took_ns);
    Ok(())
}

impl Batch {
    fn new(worker: &Arc<Worker>, policy: Policy, claims: Arc<Vec<Claim>>, items: Items) -> Self {
        Self { worker: worker.clone(), terms: policy.terms, claims, items }
    }

    fn work(
        &self,
        tx: &mut Tx,
        range: Range<usize>,
        instead: Option<&Outcome>,
    ) -> Result<(), Error> {
        let state = &self.worker.state;
        let claims = self.claims.get(range.clone()).unwrap_or_default();
        let removed = rows::remove(tx, claims, self.worker.inner.nodes.me())?;
        // What was cancelled meanwhile is left out.
        let there: Vec<usize> =
            range.clone().filter(|at| removed.has(claims[at - range.start].id)).collect();
        let outcomes = self.items.run(tx, &there, instead)?;
        let ending = |(at, outcome): (&usize, Outcome)| Ending {
            claim: &claims[at - range.start],
            terms: self.terms,
            outcome,
        };
        let endings = there.iter().zip(outcomes).map(ending).collect();
        record(tx, &self.worker.inner, state, removed, endings)
    }

    /// Tells the directory how much work each lane of `range` was.
    fn finished(&self, range: Range<usize>, took_ns: i64) {
        let claims = self.claims.get(range).unwrap_or_default();
        let each_ns = took_ns / i64::try_from(claims.len().max(1)).unwrap_or(1);
        let runs = claims.chunk_by(|one, next| one.lane == next.lane);
        let work = |run: &[Claim]| {
            let ns = each_ns.saturating_mul(i64::try_from(run.len()).unwrap_or(1));
            (run[0].lane.clone(), run.len(), ns)
        };
        self.worker.state.finished(&runs.map(work).collect::<Vec<_>>());
    }

    /// The database is away: the jobs of `range` wait again, and no failure is counted.
    async fn give_back(&self, range: Range<usize>, error: &Error) {
        self.worker.inner.outage.failed("jobs wait for it", error);
        self.worker.pause_for_database().await;
        self.worker.give_back(self.claims.get(range).unwrap_or_default());
    }
}
