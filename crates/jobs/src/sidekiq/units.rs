//! Running units: a batch is prepared, then written in one transaction with the names of its
//! jobs, so that none has its effect twice.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use weir_db::{Error, Tx};

use super::failures::Next;
use super::worker::{AGAIN_AFTER, Known, Taken, Worker};
use super::{members, seen};
use crate::items::{self, Items};
use crate::registry::Run;
use crate::rows::{self, Claim};
use crate::unique::{self, KEY_IS_TAKEN};
use crate::{Outcome, Unique};

/// Jobs of one batch.
pub(crate) const BATCH_MAX: usize = 500;

/// Jobs of one kind that are prepared.
struct Batch {
    worker: Arc<Worker>,
    known: Arc<Known>,
    taken: Vec<Arc<Taken>>,
    claims: Arc<Vec<Claim>>,
    items: Items,
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
        match items::prepare(prepare, claims.clone(), now, known.timeout).await {
            Ok(items) => return Batch::new(worker, known, taken, claims, items).write().await,
            Err(reason) => {
                tracing::warn!(kind = known.kind, reason, "a batch is prepared job by job");
            }
        }
    }
    for (taken, claim) in taken.into_iter().zip(claims) {
        let claims = Arc::new(vec![claim]);
        let prepared = items::prepare(prepare, claims.clone(), now, known.timeout).await;
        let items = prepared.unwrap_or_else(|reason| Items::ended(Outcome::retry(reason)));
        Batch::new(worker, known, vec![taken], claims, items).write().await;
    }
}

impl Batch {
    fn new(
        worker: &Arc<Worker>,
        known: &Arc<Known>,
        taken: Vec<Arc<Taken>>,
        claims: Arc<Vec<Claim>>,
        items: Items,
    ) -> Arc<Self> {
        let (worker, known) = (worker.clone(), known.clone());
        Arc::new(Self { worker, known, taken, claims, items })
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
                Err(error) if error.is_away() => {
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
        let (mut to_run, mut members) = (Vec::new(), Vec::new());
        let first = range.start;
        for (place, (at, claim)) in range.zip(claims).enumerate() {
            // What was had already is done; of two in one batch the first is run.
            if !claim.jid.as_deref().is_some_and(|jid| fresh.remove(jid)) {
                continue;
            }
            if claim.batch_id.is_some() {
                members.push(place);
            }
            if let Some(key) = &claim.unique_key {
                if self.known.unique.ends_at_start() {
                    rows::free_keys(tx, [(key.as_str(), claim.id)])?;
                } else if self.known.unique == Unique::UntilDone
                    && !unique::keep(tx, key, claim.id, now)?
                {
                    // It came back from the dead set without us.
                    outcomes[place] = Outcome::Dead(KEY_IS_TAKEN.into());
                    continue;
                }
            }
            to_run.push(at);
        }
        let given = self.items.run(tx, &to_run, instead)?;
        for (at, outcome) in to_run.into_iter().zip(given) {
            outcomes[at - first] = outcome;
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
                let next = core.next(taken, known.retry, outcome);
                let comes = matches!(next, Next::Retry { .. } | Next::Later { .. });
                if known.unique == Unique::UntilDone && !comes {
                    rows::free_keys(tx, [(key.as_str(), claim.id)])?;
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
