//! A batch of units after its preparation, wherever its jobs lie: what ended in it, and what is
//! left to be run in the transaction.

use std::ops::Range;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use weir_base::Timestamp;
use weir_db::{Error, Tx};

use crate::Outcome;
use crate::dispatch::panic_text;
use crate::registry::{Prepare, PreparedBatch, RunItems, Slot};
use crate::rows::Claim;

/// What is left of the jobs of a batch.
pub(crate) struct Items {
    /// For each job its outcome if it ended, else the place of its item.
    slots: Vec<Result<usize, Outcome>>,
    run: RunItems,
}

/// Prepares `claims`, which were taken at `now`; a panic, and what takes longer than `timeout`, is
/// told as the reason of a failure.
pub(crate) async fn prepare(
    prepare: &Prepare,
    claims: Arc<Vec<Claim>>,
    now: Timestamp,
    timeout: Duration,
) -> Result<Items, String> {
    let body = async { prepare(claims, now).await };
    let caught = AssertUnwindSafe(body).catch_unwind();
    match tokio::time::timeout(timeout, caught).await {
        Ok(Ok(batch)) => Ok(Items::new(batch)),
        Ok(Err(panic)) => Err(panic_text(&*panic)),
        Err(_) => Err(format!("not prepared within {} s", timeout.as_secs())),
    }
}

impl Items {
    fn new(batch: PreparedBatch) -> Self {
        let mut before = 0;
        let slot = |slot| match slot {
            Slot::Item => {
                before += 1;
                Ok(before - 1)
            }
            Slot::Ended(outcome) => Err(outcome),
        };
        Self { slots: batch.slots.into_iter().map(slot).collect(), run: batch.run }
    }

    /// One job, which ended.
    pub(crate) fn ended(outcome: Outcome) -> Self {
        let run = |_: &mut Tx, _: Range<usize>| Ok(Vec::new());
        Self { slots: vec![Err(outcome)], run: Arc::new(run) }
    }

    /// What the jobs at `places`, in their order, end with: `instead` if it is given, what they
    /// ended with before, or what comes of running them, neighbours in one call.
    ///
    /// # Errors
    /// What the handler says, and that it gave too few outcomes or too many.
    pub(crate) fn run(
        &self,
        tx: &mut Tx,
        places: &[usize],
        instead: Option<&Outcome>,
    ) -> Result<Vec<Outcome>, Error> {
        let mut outcomes = Vec::with_capacity(places.len());
        let mut to_run: Vec<(usize, usize)> = Vec::new();
        for (at, place) in places.iter().enumerate() {
            outcomes.push(match (instead, self.slots.get(*place)) {
                (Some(outcome), _) | (None, Some(Err(outcome))) => outcome.clone(),
                (None, Some(Ok(item))) => {
                    to_run.push((at, *item));
                    Outcome::Done
                }
                (None, None) => Outcome::Done,
            });
        }
        for run in to_run.chunk_by(|one, next| one.1 + 1 == next.1) {
            let given = (self.run)(tx, run[0].1..run[0].1 + run.len())?;
            if given.len() != run.len() {
                let (given, count) = (given.len(), run.len());
                let reason = format!(
                    "the handler gave {given} outcomes for {count} jobs: a fault of the program"
                );
                return Err(Error::Statement { reason, sql: String::new() });
            }
            for ((at, _), outcome) in run.iter().zip(given) {
                outcomes[*at] = outcome;
            }
        }
        Ok(outcomes)
    }
}
