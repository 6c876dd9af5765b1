//! The ends of jobs, told to Redis in groups.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use redis::RedisResult;
use tokio::sync::mpsc;
use weir_base::Id;

use super::failures::Next;
use super::worker::{AGAIN_AFTER, Core, Taken};
use super::{members, names};
use crate::endings::Counts;

/// Ends that may wait to be told; jobs that end beyond them wait.
pub(crate) const WAITING_MAX: usize = 20_000;
/// Ends of one step.
const GROUP_MAX: usize = 1_000;
/// How long the first of a group waits for others.
const LINGER: Duration = Duration::from_millis(2);
/// The dead set keeps so many, one less, as Sidekiq does.
pub(crate) const DEAD_MAX: i64 = 10_000;
/// The dead set keeps jobs for this long: 180 days, in ms.
pub(crate) const DEAD_AGE_MS_MAX: i64 = 180 * 24 * 3_600 * 1_000;
/// Counters of a day live for so long: five years, in seconds.
const DAY_COUNTER_S: i64 = 5 * 365 * 24 * 3_600;

/// The end of a job.
pub(crate) struct Ack {
    pub(crate) taken: Arc<Taken>,
    pub(crate) kind: &'static str,
    pub(crate) next: Next,
    pub(crate) failed: bool,
    /// How it ended as a member of a batch, if that is still to be counted.
    pub(crate) member: Option<(Id, members::End)>,
}

/// Tells what comes, until all senders are gone; then puts back what did not end.
pub(crate) async fn run(core: Arc<Core>, mut acks: mpsc::Receiver<Ack>) {
    let mut group = Vec::new();
    while acks.recv_many(&mut group, GROUP_MAX).await > 0 {
        if group.len() < GROUP_MAX && !acks.is_closed() {
            tokio::time::sleep(LINGER).await;
            while group.len() < GROUP_MAX
                && let Ok(ack) = acks.try_recv()
            {
                group.push(ack);
            }
        }
        let ends = group.iter().filter_map(|ack| ack.member).collect();
        if !members::count(&core, ends).await {
            // They stay in the hash of what is held, from where they run again.
            tracing::error!(count = group.len(), "ends of jobs were not told to Redis");
            settle(&core, &mut group);
            continue;
        }
        while let Err(error) = tell(&core, &group).await {
            core.shared.outage.failed("the ends of jobs wait", &error);
            if core.cut.is_cancelled() {
                // They stay in the hash of what is held, from where they run again.
                tracing::error!(count = group.len(), "ends of jobs were not told to Redis");
                break;
            }
            tokio::time::sleep(AGAIN_AFTER).await;
        }
        settle(&core, &mut group);
    }
    put_back(&core).await;
}

async fn tell(core: &Core, group: &[Ack]) -> RedisResult<()> {
    let now = core.inner.clock.now();
    let mut done = Vec::new();
    let mut moved = Vec::new();
    let mut failed = 0;
    for ack in group {
        failed += u64::from(ack.failed);
        match &ack.next {
            Next::Gone(_) => done.push(core.field(&ack.taken)),
            Next::Retry { score, job } => moved.push((core.field(&ack.taken), 2, score, job)),
            Next::Dead { score, job } => moved.push((core.field(&ack.taken), 3, score, job)),
            Next::Later { score, job } => moved.push((core.field(&ack.taken), 8, score, job)),
        }
    }
    let mut call = core.shared.scripts.end.key(&core.shared.held_key);
    call.key(names::RETRY).key(names::DEAD).key(names::PROCESSED).key(names::FAILED);
    call.key(names::dated(names::PROCESSED, now)).key(names::dated(names::FAILED, now));
    call.key(names::SCHEDULE);
    call.arg(super::wire::seconds(now.plus_ms(-DEAD_AGE_MS_MAX))).arg(DEAD_MAX);
    call.arg(DAY_COUNTER_S).arg(failed).arg(done.len());
    for field in done {
        call.arg(field);
    }
    for (field, set, score, job) in moved {
        call.arg(field).arg(set).arg(score).arg(job.as_slice());
    }
    let _: i64 = call.invoke_async(&mut core.shared.redis()).await?;
    Ok(())
}

/// Redis knows: the process does not hold them any more.
fn settle(core: &Core, group: &mut Vec<Ack>) {
    let mut held = core.held.lock();
    let mut ended = Counts::new();
    for ack in group.drain(..) {
        held.remove(&ack.taken.number);
        *ended.entry((Cow::Borrowed(ack.kind), ack.next.name())).or_default() += 1;
    }
    drop(held);
    core.inner.totals.count(&ended);
}

/// Puts back what is held and did not end, so that others take it at once.
async fn put_back(core: &Core) {
    let mut held: Vec<Arc<Taken>> = core.held.lock().drain().map(|(_, taken)| taken).collect();
    if held.is_empty() {
        return;
    }
    held.sort_unstable_by_key(|taken| taken.number);
    let mut call = core.shared.scripts.back.key(&core.shared.held_key);
    call.key(names::QUEUES);
    for taken in &held {
        call.arg(core.field(taken));
    }
    let put: RedisResult<i64> = call.invoke_async(&mut core.shared.redis()).await;
    match put {
        Ok(count) => tracing::info!(count, "jobs that did not end were put back"),
        Err(error) => {
            tracing::warn!(%error, count = held.len(), "jobs wait to be put back by others");
        }
    }
}
