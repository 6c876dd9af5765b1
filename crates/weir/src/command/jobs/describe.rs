//! How jobs and queues are shown.

use serde_json::{Value, json};
use weir_jobs::{
    BatchStats, Breaker, Entry, Jobs, KindStats, LaneStats, Minute, PeriodicStats, QueueStats,
    RunningJob, Stats,
};

/// Everything at a glance; `minutes` are this one and the one before.
pub(super) fn stats(stats: &Stats, minutes: &[Minute]) -> Value {
    let total = |of: fn(&QueueStats) -> u64| stats.queues.iter().map(of).sum::<u64>();
    let sum = |of: fn(&KindStats) -> u64| stats.kinds.iter().map(of).sum::<u64>();
    let oldest = stats.queues.iter().map(|queue| queue.oldest_age_ms).max().unwrap_or(0);
    let failing: Value = (stats.kinds.iter())
        .filter(|it| it.retried + it.discarded + it.dead > 0)
        .map(kind)
        .collect();
    json!({
        "ready": total(|queue| queue.depth),
        "running": total(|queue| queue.running),
        "oldest_age_ms": oldest,
        "scheduled": stats.scheduled,
        "retries": stats.retries,
        "dead": stats.dead,
        "done_since_start": sum(|kind| kind.done),
        "retried_since_start": sum(|kind| kind.retried),
        "postponed_since_start": sum(|kind| kind.postponed),
        "done_last_two_minutes": minutes.iter().map(|minute| minute.done).sum::<u64>(),
        "failed_last_two_minutes": minutes.iter().map(|minute| minute.failed).sum::<u64>(),
        "queues": stats.queues.iter().map(queue).collect::<Value>(),
        "failing": failing,
    })
}

pub(super) fn queue(queue: &QueueStats) -> Value {
    json!({
        "queue": queue.name,
        "ready": queue.depth,
        "lanes": queue.lanes,
        "running": queue.running,
        "oldest_age_ms": queue.oldest_age_ms,
        "paused": queue.paused,
        "limit": queue.limit,
        "limited_by": queue.limited_by.name(),
        "why": queue.limited_by.to_string(),
    })
}

pub(super) fn lane(lane: &LaneStats) -> Value {
    json!({
        "lane": lane.lane,
        "ready": lane.depth,
        "running": lane.running,
        "breaker": match lane.breaker {
            Breaker::Closed => "closed",
            Breaker::Open => "open",
            Breaker::Probing => "probing",
        },
        "waits_until": lane.waits_until.map(|at| at.to_string()),
    })
}

pub(super) fn kind(kind: &KindStats) -> Value {
    json!({
        "kind": kind.kind,
        "done": kind.done,
        "retried": kind.retried,
        "postponed": kind.postponed,
        "discarded": kind.discarded,
        "dead": kind.dead,
        "expired": kind.expired,
        "cancelled": kind.cancelled,
    })
}

pub(super) fn minute(minute: &Minute) -> Value {
    json!({
        "minute": minute.at.to_string(),
        "queue": minute.queue,
        "done": minute.done,
        "failed": minute.failed,
    })
}

pub(super) fn running(job: &RunningJob) -> Value {
    let progress = job.progress.as_ref().map(|progress| match progress.total {
        0 => format!("{} {}", progress.done, progress.text),
        total => format!("{} of {total} {}", progress.done, progress.text),
    });
    json!({
        "id": job.id.to_string(),
        "queue": &*job.queue,
        "kind": &*job.kind,
        "lane": &*job.lane,
        "attempt": job.attempt,
        "started_at": job.started_at.to_string(),
        "progress": progress,
        "process": job.process,
    })
}

pub(super) fn periodic(periodic: &PeriodicStats) -> Value {
    json!({
        "name": periodic.name,
        "kind": periodic.kind,
        "plan": periodic.plan,
        "next_at": periodic.next_at.map(|at| at.to_string()),
        "last_at": periodic.last_at.map(|at| at.to_string()),
        "paused": periodic.paused,
    })
}

pub(super) fn batch(batch: &BatchStats) -> Value {
    json!({
        "id": batch.id.to_string(),
        "parent": batch.parent.map(|id| id.to_string()),
        "label": batch.label,
        "created_at": batch.created_at.to_string(),
        "total": batch.total,
        "pending": batch.pending(),
        "done": batch.done,
        "failed": batch.failed,
        "complete_at": batch.complete_at.map(|at| at.to_string()),
        "success_at": batch.success_at.map(|at| at.to_string()),
        "death_at": batch.death_at.map(|at| at.to_string()),
    })
}

pub(super) fn entry(jobs: &Jobs, entry: &Entry) -> Value {
    json!({
        "id": entry.id.to_string(),
        "queue": entry.queue,
        "kind": entry.kind,
        "lane": entry.lane,
        "failures": entry.failures,
        "enqueued_at": entry.enqueued_at.to_string(),
        "at": entry.at.map(|at| at.to_string()),
        "reason": entry.reason,
        "payload": jobs.readable(entry),
    })
}
