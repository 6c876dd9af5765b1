//! Running units: a batch is prepared, then written in one transaction with the names of its
//! jobs, so that none has its effect twice.

use std::ops::Range;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use futures_util::FutureExt;
use weir_base::Timestamp;
use weir_db::{Error, Tx};

use super::failures::Next;
use super::worker::{AGAIN_AFTER, Known, Taken, Worker};
use super::{members, seen};
use crate::dispatch::panic_text;
use crate::registry::{Prepare, PreparedBatch, Run, RunItems, Slot};
use crate::rows::{self, Claim};
use crate::{Outcome, Unique};

/// Jobs of one batch.
pub(crate) const BATCH_MAX: usize = 500;

/// Jobs of one kind that are prepared.
struct Batch {
    worker: Arc<Worker>,
    known: Arc<Known>,
    taken: Vec<Arc<Taken>>,
    claims: Arc<Vec<Claim>>,
    /// For each job its outcome if it ended before the transaction, else its item's place.
    slots: Vec<Result<usize, Outcome>>,
    run: RunItems,
}

/// Starts batches of `jobs`, all of one kind.
pub(crate) fn start(worker: &Arc<Worker>, known: &Arc<Known>, jobs: Vec<(Arc<Taken>, Claim)>) {
    let mut jobs = jobs.into_iter().peekable();
    while jobs.peek().is_some() {
        let (taken, claims): (Vec<_>, Vec<_>) = jobs.by_ref().take(BATCH_MAX).unzip();
        let (worker, known) = (worker.clone(), known.clone());
        let runs = worker.runs.clone();
        runs.spawn(async move {
            let sources: Vec<usize> = taken.iter().map(|taken| taken.source).collect();
            tokio::select! {
                biased;
                () = run(&worker, &known, taken, claims) => {}
                // Either committed or not at all; Redis hands out again what it was not told of.
                () = worker.core.cut.cancelled() => {
                    sources.into_iter().for_each(|source| worker.free(source));
                }
            }
        });
    }
}

async fn run(worker: &Arc<Worker>, known: &Arc<Known>, taken: Vec<Arc<Taken>>, claims: Vec<Claim>) {
    let Run::Unit(prepare) = &known.run else { return };
    let now = worker.core.inner.clock.now();
    if claims.len() > 1 {
        let claims = Arc::new(claims.clone());
        match prepared(prepare, known, claims.clone(), now).await {
            Ok(batch) => return Batch::new(worker, known, taken, claims, batch).write().await,
            Err(reason) => {
                tracing::warn!(kind = known.kind, reason, "a batch is prepared job by job");
            }
        }
    }
    for (taken, claim) in taken.into_iter().zip(claims) {
        let claims = Arc::new(vec![claim]);
        let batch = prepared(prepare, known, claims.clone(), now).await;
        let batch = batch.unwrap_or_else(|reason| PreparedBatch {
            slots: vec![Slot::Ended(Outcome::retry(reason))],
            run: Arc::new(|_: &mut Tx, _: Range<usize>| Ok(Vec::new())),
        });
        Batch::new(worker, known, vec![taken], claims, batch).write().await;
    }
}

async fn prepared(
    prepare: &Prepare,
    known: &Known,
    claims: Arc<Vec<Claim>>,
    now: Timestamp,
) -> Result<PreparedBatch, String> {
    let body = async { prepare(claims, now).await };
    let caught = AssertUnwindSafe(body).catch_unwind();
    match tokio::time::timeout(known.timeout, caught).await {
        Ok(Ok(batch)) => Ok(batch),
        Ok(Err(panic)) => Err(panic_text(&*panic)),
        Err(_) => Err(format!("not prepared within {} s", known.timeout.as_secs())),
    }
}

impl Batch {
    fn new(
        worker: &Arc<Worker>,
        known: &Arc<Known>,
        taken: Vec<Arc<Taken>>,
        claims: Arc<Vec<Claim>>,
        batch: PreparedBatch,
    ) -> Arc<Self> {
        let mut before = 0;
        let slot = |slot| match slot {
            Slot::Item => {
                before += 1;
                Ok(before - 1)
            }
            Slot::Ended(outcome) => Err(outcome),
        };
        let slots = batch.slots.into_iter().map(slot).collect();
        let (worker, known) = (worker.clone(), known.clone());
        Arc::new(Self { worker, known, taken, claims, slots, run: batch.run })
    }

    /// Writes the batch; when it fails as a whole, job by job.
    async fn write(self: Arc<Self>) {
        let all = 0..self.claims.len();
        match self.commit(all.clone(), None).await {
            Ok(()) => {}
            Err(error) if self.claims.len() == 1 => self.fail(0, &error).await,
            Err(error) => {
                let kind = self.known.kind;
                tracing::warn!(kind, %error, "a batch failed; its jobs run one by one");
                for at in all {
                    if let Err(error) = self.commit(at..at + 1, None).await {
                        self.fail(at, &error).await;
                    }
                }
            }
        }
    }

    /// Records that a job failed by itself.
    async fn fail(self: &Arc<Self>, at: usize, error: &Error) {
        let outcome = Outcome::retry(error);
        if let Err(error) = self.commit(at..at + 1, Some(outcome.clone())).await {
            tracing::error!(kind = self.known.kind, %error, "a failure was not written down");
            self.end(at..at + 1, vec![outcome], Instant::now(), true).await;
        }
    }

    /// One transaction, repeated while the database is away; then Redis is told.
    async fn commit(
        self: &Arc<Self>,
        range: Range<usize>,
        instead: Option<Outcome>,
    ) -> Result<(), Error> {
        let started = Instant::now();
        loop {
            let (shared, part, instead) = (self.clone(), range.clone(), instead.clone());
            let work = move |tx: &mut Tx| shared.work(tx, part.clone(), instead.as_ref());
            match self.worker.core.inner.db.write(self.known.class, work).await {
                Ok(outcomes) => {
                    self.end(range, outcomes, started, false).await;
                    return Ok(());
                }
                Err(error) if error.is_passing() && !matches!(error, Error::Contended) => {
                    tracing::warn!(kind = self.known.kind, %error, "jobs wait for the database");
                    tokio::time::sleep(AGAIN_AFTER).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn work(
        &self,
        tx: &mut Tx,
        range: Range<usize>,
        instead: Option<&Outcome>,
    ) -> Result<Vec<Outcome>, Error> {
        let claims = self.claims.get(range.clone()).unwrap_or_default();
        let jids: Vec<_> = claims.iter().filter_map(|claim| claim.jid.clone()).collect();
        let now = self.worker.core.inner.clock.now();
        let mut fresh = seen::mark(tx, &jids, now)?;
        let mut outcomes = vec![Outcome::Done; claims.len()];
        let mut to_run: Vec<(usize, usize)> = Vec::new();
        let mut members: Vec<usize> = Vec::new();
        let first = range.start;
        for (place, (at, claim)) in range.zip(claims).enumerate() {
            // What was had already is done; of two in one batch the first is run.
            if !claim.jid.as_deref().is_some_and(|jid| fresh.remove(jid)) {
                continue;
            }
            if claim.batch_id.is_some() {
                members.push(place);
            }
            if let Some(key) = &claim.unique_key
                && self.known.unique.ends_at_start()
            {
                rows::free_key(tx, key, claim.id)?;
            }
            match (instead, &self.slots[at]) {
                (Some(outcome), _) | (None, Err(outcome)) => outcomes[place] = outcome.clone(),
                (None, Ok(item)) => to_run.push((place, *item)),
            }
        }
        for run in to_run.chunk_by(|one, next| one.1 + 1 == next.1) {
            let given = (self.run)(tx, run[0].1..run[0].1 + run.len())?;
            if given.len() != run.len() {
                let reason = format!(
                    "the handler gave {} outcomes for {} jobs: a fault of the program",
                    given.len(),
                    run.len()
                );
                return Err(Error::Statement { reason, sql: String::new() });
            }
            for ((place, _), outcome) in run.iter().zip(given) {
                outcomes[*place] = outcome;
            }
        }
        self.keep_waiting(tx, first, &mut outcomes)?;
        self.count(tx, first, &members, &outcomes)?;
        Ok(outcomes)
    }

    /// Counts those at the places `members` from the `first` job on in their batches.
    fn count(
        &self,
        tx: &mut Tx,
        first: usize,
        members: &[usize],
        outcomes: &[Outcome],
    ) -> Result<(), Error> {
        let (known, core) = (&self.known, &self.worker.core);
        let end = |place: &usize| {
            let (at, outcome) = (first + place, outcomes.get(*place)?);
            let next = core.next(self.taken.get(at)?, known.retry, outcome);
            Some((self.claims.get(at)?.id, members::End::of(&next)?))
        };
        let ends: Vec<_> = members.iter().filter_map(end).collect();
        members::ended(tx, &core.inner, &ends)
    }

    /// What comes again is not done, and takes its key, unless a newer job of it waits; what ends
    /// frees it. The outcomes are those of the jobs from the `first` on.
    fn keep_waiting(
        &self,
        tx: &mut Tx,
        first: usize,
        outcomes: &mut [Outcome],
    ) -> Result<(), Error> {
        let (known, core) = (&self.known, &self.worker.core);
        let mut again = Vec::new();
        let jobs = self.claims.iter().zip(&self.taken).skip(first);
        for ((claim, taken), outcome) in jobs.zip(outcomes) {
            if let Some(key) = &claim.unique_key {
                let comes = matches!(core.next(taken, known.retry, outcome), Next::Retry { .. });
                if known.unique == Unique::UntilDone && !comes {
                    rows::free_key(tx, key, claim.id)?;
                } else if known.unique.ends_at_start()
                    && comes
                    && !rows::take_key(tx, key, claim.id)?
                {
                    *outcome = Outcome::Discard("a newer job of its key waits".into());
                }
            }
            if !outcome.is_gone() {
                again.extend(claim.jid.as_deref());
            }
        }
        seen::unmark(tx, &again)
    }

    async fn end(
        &self,
        range: Range<usize>,
        outcomes: Vec<Outcome>,
        started: Instant,
        uncounted: bool,
    ) {
        let each = started.elapsed() / u32::try_from(outcomes.len().max(1)).unwrap_or(1);
        let (known, claims) = (&self.known, &self.claims[range.clone()]);
        for ((taken, claim), outcome) in self.taken[range].iter().zip(claims).zip(outcomes) {
            let member = claim.batch_id.filter(|_| uncounted).map(|_| claim.id);
            self.worker.end(taken.clone(), known.kind, known.retry, outcome, each, member).await;
        }
    }
}
