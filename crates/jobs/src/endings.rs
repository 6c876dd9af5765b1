//! How jobs end: their rows go, or move to the retry set or the dead set, in one transaction.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use weir_base::{Id, Timestamp};
use weir_db::{Error, Tx};

use crate::batches::{Change, Changes, change};
use crate::directory::QueueState;
use crate::jobs::Inner;
use crate::retry::{bounded_ms, postponed_ms};
use crate::rows::{self, Again, Claim, Removed};
use crate::{KindStats, Last, Outcome, Retry, Unique, cursors};

/// A reason is cut to this many bytes in its row.
const REASON_BYTES_MAX: usize = 1_000;

/// How many ended, by kind and outcome.
pub(crate) type Counts = BTreeMap<(Cow<'static, str>, &'static str), u64>;

/// Counts of what ended since the process started.
#[derive(Default)]
pub(crate) struct Totals {
    kinds: Mutex<BTreeMap<String, KindStats>>,
}

impl Totals {
    pub(crate) fn count(&self, ended: &Counts) {
        let mut kinds = self.kinds.lock();
        for ((kind, outcome), count) in ended {
            metrics::counter!("weir_jobs_ended_total", "kind" => kind.to_string(),
                "outcome" => *outcome)
            .increment(*count);
            let stats = kinds.entry(kind.to_string()).or_default();
            stats.kind = kind.to_string();
            match *outcome {
                "done" => stats.done += count,
                "retry" => stats.retried += count,
                "postponed" => stats.postponed += count,
                "discard" => stats.discarded += count,
                "expired" => stats.expired += count,
                "cancelled" => stats.cancelled += count,
                _ => stats.dead += count,
            }
        }
    }

    pub(crate) fn done(&self, kind: &str) -> u64 {
        self.kinds.lock().get(kind).map_or(0, |stats| stats.done)
    }

    pub(crate) fn all(&self) -> Vec<KindStats> {
        self.kinds.lock().values().cloned().collect()
    }
}

/// What of a type's declaration matters at the end of its jobs.
#[derive(Clone, Copy)]
pub(crate) struct Terms {
    pub(crate) retry: Retry,
    /// None where nobody here knows.
    pub(crate) unique: Option<Unique>,
}

impl Terms {
    /// Of a kind that nobody here knows.
    pub(crate) const UNKNOWN: Terms = Terms { retry: Retry::DEFAULT, unique: None };

    fn frees_key_at_start(self) -> bool {
        self.unique.is_some_and(Unique::ends_at_start)
    }

    /// The key that is free once the job is over.
    fn key_that_ends(self, claim: &Claim) -> Option<&str> {
        let ends = matches!(self.unique, Some(Unique::UntilDone) | None);
        claim.unique_key.as_deref().filter(|_| ends)
    }

    /// The key that a dead job takes again if it is retried.
    fn key_of_dead(self, claim: &Claim) -> Option<&str> {
        claim.unique_key.as_deref().filter(|_| self.unique.is_some_and(Unique::ends_with_job))
    }
}

/// The end of one job.
pub(crate) struct Ending<'c> {
    pub(crate) claim: &'c Claim,
    pub(crate) terms: Terms,
    pub(crate) outcome: Outcome,
}

/// What was written of ends, to be told once it is committed.
struct Written {
    removed: Removed,
    ended: Counts,
    first_due: Option<Timestamp>,
    died: i64,
    /// Jobs whose cursors went.
    cursors: Vec<Id>,
}

impl Written {
    /// Tells the directory of what was committed.
    fn tell(&self, inner: &Inner, queue: &QueueState) {
        queue.settled(&self.removed.lanes);
        inner.totals.count(&self.ended);
        if let Some(due_at) = self.first_due {
            inner.later.due(due_at);
        }
        if self.died > 0 {
            inner.later.died(self.died);
        }
        if !self.cursors.is_empty() {
            inner.cursors.forget(&self.cursors);
        }
    }
}

/// Writes what follows the removal of `removed`, and tells the directory after the commit.
pub(crate) fn record(
    tx: &mut Tx,
    inner: &Arc<Inner>,
    queue: &Arc<QueueState>,
    removed: Removed,
    endings: Vec<Ending<'_>>,
) -> Result<(), Error> {
    let now = inner.clock.now();
    let mut written =
        Written { removed, ended: Counts::new(), first_due: None, died: 0, cursors: Vec::new() };
    let mut batches = Changes::new();
    let (mut again, mut freed) = (Vec::new(), Vec::new());
    for run in endings.chunk_by(|one, next| one.claim.kind == next.claim.kind) {
        let mut done = 0;
        for Ending { claim, terms, outcome } in run {
            // A key that was given by hand may be of both.
            if terms.frees_key_at_start() && claim.unique_key.is_some() && !freed.is_empty() {
                rows::free_keys(tx, freed.drain(..))?;
            }
            let outcome = settle(tx, inner, claim, *terms, outcome)?;
            if matches!(outcome, Settled::Gone(_) | Settled::Dead(_)) {
                freed.extend(terms.key_that_ends(claim).map(|key| (key, claim.id)));
            }
            if let Some(batch) = claim.batch_id {
                outcome.count(batches.entry(batch).or_default());
            }
            if let Settled::Gone("done") = outcome {
                done += 1;
                continue;
            }
            *written.ended.entry((claim.kind.clone(), outcome.name())).or_default() += 1;
            match outcome {
                Settled::Gone(_) => {}
                Settled::Retry(delay_ms, reason) | Settled::Postponed(delay_ms, reason) => {
                    let due_at = now.plus_ms(delay_ms);
                    let failed = matches!(outcome, Settled::Retry(..));
                    again.push(Again { due_at, claim, failed, reason: shortened(reason) });
                    let first = written.first_due.map_or(due_at, |first| due_at.min(first));
                    written.first_due = Some(first);
                }
                Settled::Dead(reason) => {
                    let key = terms.key_of_dead(claim);
                    rows::insert_dead(tx, now, &queue.name, claim, key, shortened(reason))?;
                    written.died += 1;
                }
            }
        }
        if done > 0 {
            *written.ended.entry((run[0].claim.kind.clone(), "done")).or_default() += done;
        }
    }
    rows::free_keys(tx, freed)?;
    rows::insert_again(tx, &queue.name, &again)?;
    if !batches.is_empty() && change(tx, now, batches)? {
        written.first_due = Some(now);
    }
    if inner.cursors.any() {
        let gone = endings.iter().filter(|ending| ending.outcome.is_gone());
        written.cursors = inner.cursors.of(gone.map(|ending| ending.claim.id));
        cursors::remove(tx, &written.cursors)?;
    }
    let (inner, queue) = (inner.clone(), queue.clone());
    tx.after_commit(move || written.tell(&inner, &queue));
    Ok(())
}

enum Settled<'o> {
    Gone(&'static str),
    Retry(i64, &'o str),
    Postponed(i64, &'o str),
    Dead(&'o str),
}

impl Settled<'_> {
    fn name(&self) -> &'static str {
        match self {
            Self::Gone(name) => name,
            Self::Retry(..) => "retry",
            Self::Postponed(..) => "postponed",
            Self::Dead(_) => "dead",
        }
    }

    /// What it is to the job's batch.
    fn count(&self, change: &mut Change) {
        match self {
            Self::Gone("done") => change.done += 1,
            Self::Gone(_) | Self::Dead(_) => change.failed += 1,
            Self::Retry(..) | Self::Postponed(..) => {}
        }
    }
}

/// What the job's policy makes of its outcome.
fn settle<'o>(
    tx: &mut Tx,
    inner: &Inner,
    claim: &Claim,
    terms: Terms,
    outcome: &'o Outcome,
) -> Result<Settled<'o>, Error> {
    let settled = judge(inner, claim, terms.retry, outcome);
    if matches!(settled, Settled::Retry(..) | Settled::Postponed(..))
        && terms.frees_key_at_start()
        && let Some(key) = &claim.unique_key
        && !rows::take_key(tx, key, claim.id)?
    {
        // A newer job of the same key waits: it does the same work.
        return Ok(Settled::Gone("discard"));
    }
    Ok(settled)
}

fn judge<'o>(inner: &Inner, claim: &Claim, retry: Retry, outcome: &'o Outcome) -> Settled<'o> {
    let (reason, after_ms) = match outcome {
        Outcome::Dead(reason) => return Settled::Dead(reason),
        Outcome::Postponed { reason, after_ms } => {
            let age_ms = inner.clock.now().since_ms(claim.ready_first());
            if let Some(delay_ms) = postponed_ms(*after_ms, age_ms, &inner.random) {
                return Settled::Postponed(delay_ms, reason);
            }
            (reason, None)
        }
        Outcome::Retry { reason, after_ms } | Outcome::Down { reason, after_ms } => {
            (reason, *after_ms)
        }
        _ => return Settled::Gone(outcome.name()),
    };
    match (retry.delay_ms(claim.attempt, &inner.random), retry.last) {
        (Some(delay_ms), _) => Settled::Retry(after_ms.map_or(delay_ms, bounded_ms), reason),
        (None, Last::Dead) => Settled::Dead(reason),
        (None, Last::Discard) => Settled::Gone("discard"),
    }
}

fn shortened(reason: &str) -> &str {
    let mut end = reason.len().min(REASON_BYTES_MAX);
    while !reason.is_char_boundary(end) {
        end -= 1;
    }
    &reason[..end]
}
