//! Looking at what lies in Redis, and steering it by hand.

use std::sync::atomic::Ordering;

use redis::{FromRedisValue, RedisResult};
use weir_base::{Id, Timestamp};

use super::shared::Shared;
use super::wire::{self, Fields};
use super::{jid, names, poller};
use crate::{Entry, Error, QueueStats, Set};

/// Jobs of one step of a search, or of moving many.
const STEP: usize = 500;
/// Jobs of one queue that a search by id looks through.
const SEARCHED_MAX: usize = 1_000_000;

/// A job where it lies.
pub(crate) struct Found {
    pub(crate) entry: Entry,
    raw: Vec<u8>,
}

/// The numbers of the sets.
pub(crate) struct Sizes {
    pub(crate) scheduled: u64,
    pub(crate) retries: u64,
    pub(crate) dead: u64,
}

impl From<redis::RedisError> for Error {
    fn from(error: redis::RedisError) -> Self {
        Self::Redis(error.to_string())
    }
}

impl Shared {
    async fn ask<T: FromRedisValue>(&self, command: &[&str]) -> RedisResult<T> {
        let mut cmd = redis::Cmd::new();
        for part in command {
            cmd.arg(part);
        }
        cmd.query_async(&mut self.redis()).await
    }

    /// The queues that Redis knows, by name.
    async fn queue_names(&self) -> RedisResult<Vec<String>> {
        let mut names: Vec<String> = self.ask(&["SMEMBERS", names::QUEUES]).await?;
        names.sort_unstable();
        Ok(names)
    }

    pub(crate) async fn queue_stats(&self, now: Timestamp) -> RedisResult<Vec<QueueStats>> {
        let paused: Vec<String> = self.ask(&["SMEMBERS", names::PAUSED]).await?;
        let mut stats = Vec::new();
        for name in self.queue_names().await? {
            let mut pipe = redis::pipe();
            pipe.cmd("LLEN").arg(names::queue(&name));
            pipe.cmd("LINDEX").arg(names::queue(&name)).arg(-1);
            let (depth, oldest): (u64, Option<Vec<u8>>) =
                pipe.query_async(&mut self.redis()).await?;
            let running = (self.running.get().into_iter().flatten())
                .find(|(queue, _)| *queue == name)
                .map_or(0, |(_, held)| held.load(Ordering::Relaxed) as u64);
            let enqueued_at = oldest.and_then(|raw| Fields::parse(&raw)?.time("enqueued_at"));
            stats.push(QueueStats {
                paused: paused.contains(&name),
                name,
                depth: depth + running,
                lanes: u64::from(depth > 0),
                running,
                oldest_age_ms: enqueued_at.map_or(0, |at| now.since_ms(at).max(0)),
                ..QueueStats::default()
            });
        }
        Ok(stats)
    }

    /// Looks at all queues and sets, for the metrics and for who asks without waiting.
    pub(crate) async fn look(&self, now: Timestamp) -> RedisResult<()> {
        let (queues, sizes) = (self.queue_stats(now).await?, self.sizes().await?);
        for queue in &queues {
            let name = || queue.name.clone();
            metrics::gauge!("weir_jobs_depth_jobs", "queue" => name()).set(queue.depth as f64);
            metrics::gauge!("weir_jobs_running_jobs", "queue" => name()).set(queue.running as f64);
            metrics::gauge!("weir_jobs_oldest_seconds", "queue" => name())
                .set(queue.oldest_age_ms as f64 / 1_000.0);
        }
        metrics::gauge!("weir_jobs_dead_jobs").set(sizes.dead as f64);
        *self.seen.lock() = queues;
        Ok(())
    }

    pub(crate) async fn sizes(&self) -> RedisResult<Sizes> {
        let mut pipe = redis::pipe();
        for set in [names::SCHEDULE, names::RETRY, names::DEAD] {
            pipe.cmd("ZCARD").arg(set);
        }
        let (scheduled, retries, dead) = pipe.query_async(&mut self.redis()).await?;
        Ok(Sizes { scheduled, retries, dead })
    }

    /// At most `limit` jobs of `set` after the entry `after`, in the order of the SQL backend but
    /// that the ready come by queue, in the order in which they are taken; and whether `after` was
    /// found.
    pub(crate) async fn list(
        &self,
        set: Set,
        after: Option<&Entry>,
        limit: usize,
    ) -> RedisResult<(Vec<Entry>, bool)> {
        let (found, passed) = match set {
            Set::Ready => self.list_ready(after, limit).await?,
            _ => (self.list_sorted(set, after, limit).await?, true),
        };
        Ok((found.into_iter().map(|found| found.entry).collect(), passed))
    }

    async fn list_ready(
        &self,
        after: Option<&Entry>,
        limit: usize,
    ) -> RedisResult<(Vec<Found>, bool)> {
        let (mut listed, mut passed) = (Vec::new(), after.is_none());
        for queue in self.queue_names().await? {
            if after.is_some_and(|after| queue < after.queue) {
                continue;
            }
            let mut passing = after.filter(|after| after.queue == queue);
            let mut from = 0;
            while listed.len() < limit && from < SEARCHED_MAX {
                let some = self.ready_step(&queue, from).await?;
                if some.is_empty() {
                    break;
                }
                from += some.len();
                for found in some {
                    if passing.is_none() && listed.len() < limit {
                        listed.push(found);
                    } else if passing.is_some_and(|after| after.id == found.entry.id) {
                        (passing, passed) = (None, true);
                    }
                }
            }
            if !passed && after.is_some_and(|after| queue == after.queue) {
                break;
            }
        }
        Ok((listed, passed))
    }

    /// Jobs of `queue` from the `from`-th that is taken on.
    async fn ready_step(&self, queue: &str, from: usize) -> RedisResult<Vec<Found>> {
        let (first, last) = ((from + STEP).to_string(), (from + 1).to_string());
        let (first, last) = (format!("-{first}"), format!("-{last}"));
        let raws: Vec<Vec<u8>> = self.ask(&["LRANGE", &names::queue(queue), &first, &last]).await?;
        Ok(raws.into_iter().rev().map(|raw| found(Set::Ready, queue, None, raw)).collect())
    }

    async fn list_sorted(
        &self,
        set: Set,
        after: Option<&Entry>,
        limit: usize,
    ) -> RedisResult<Vec<Found>> {
        let (command, edge, end) = match set {
            Set::Dead => ("ZREVRANGEBYSCORE", "+inf", "-inf"),
            _ => ("ZRANGEBYSCORE", "-inf", "+inf"),
        };
        let score = after.and_then(|after| after.at).map(wire::seconds);
        let start = score.unwrap_or_else(|| edge.to_owned());
        let mut passing = after.filter(|after| after.at.is_some());
        let (mut listed, mut from) = (Vec::new(), 0);
        while listed.len() < limit && from < SEARCHED_MAX {
            let (skip, step) = (from.to_string(), STEP.to_string());
            let command = [command, key(set), &start, end, "WITHSCORES", "LIMIT", &skip, &step];
            let some: Vec<(Vec<u8>, f64)> = self.ask(&command).await?;
            if some.is_empty() {
                break;
            }
            from += some.len();
            for (raw, score) in some {
                let at = wire::from_seconds(score);
                let found = found(set, "", Some(at), raw);
                match passing {
                    Some(after) if after.id == found.entry.id => passing = None,
                    Some(after) if after.at == Some(at) => {}
                    _ if listed.len() < limit => {
                        passing = None;
                        listed.push(found);
                    }
                    _ => {}
                }
            }
        }
        Ok(listed)
    }

    /// The job `id`, wherever it lies but in the hands of a process.
    pub(crate) async fn find(&self, id: Id) -> RedisResult<Option<Found>> {
        for set in [Set::Retries, Set::Scheduled, Set::Dead] {
            for pattern in patterns(id) {
                if let Some(found) = self.find_sorted(set, id, &pattern).await? {
                    return Ok(Some(found));
                }
            }
        }
        for queue in self.queue_names().await? {
            let mut from = 0;
            while from < SEARCHED_MAX {
                let some = self.ready_step(&queue, from).await?;
                if some.is_empty() {
                    break;
                }
                from += some.len();
                if let Some(found) = some.into_iter().find(|found| found.entry.id == id) {
                    return Ok(Some(found));
                }
            }
        }
        Ok(None)
    }

    async fn find_sorted(&self, set: Set, id: Id, pattern: &str) -> RedisResult<Option<Found>> {
        let mut cursor = "0".to_owned();
        loop {
            let command = ["ZSCAN", key(set), &cursor, "MATCH", pattern, "COUNT", "1000"];
            let (next, some): (String, Vec<(Vec<u8>, f64)>) = self.ask(&command).await?;
            for (raw, score) in some {
                let found = found(set, "", Some(wire::from_seconds(score)), raw);
                if found.entry.id == id {
                    return Ok(Some(found));
                }
            }
            if next == "0" {
                return Ok(None);
            }
            cursor = next;
        }
    }

    /// Makes a job that was found ready now; false when it is ready, or went meanwhile.
    pub(crate) async fn retry(&self, found: Found, now: Timestamp) -> RedisResult<bool> {
        let set = found.entry.set;
        if set == Set::Ready {
            return Ok(false);
        }
        Ok(self.raise(set, &[found.raw], now).await? > 0)
    }

    /// Makes all of `set` ready now, and tells how many.
    pub(crate) async fn retry_all(&self, set: Set, now: Timestamp) -> RedisResult<u64> {
        let mut moved = 0;
        if set == Set::Ready {
            return Ok(moved);
        }
        let last = (STEP - 1).to_string();
        // What fails again meanwhile is not moved again.
        let steps = self.ask::<usize>(&["ZCARD", key(set)]).await?.div_ceil(STEP);
        for _ in 0..steps {
            let some: Vec<Vec<u8>> = self.ask(&["ZRANGE", key(set), "0", &last]).await?;
            moved += self.raise(set, &some, now).await?;
        }
        Ok(moved)
    }

    /// A dead job begins anew, with all its attempts.
    async fn raise(&self, set: Set, raws: &[Vec<u8>], now: Timestamp) -> RedisResult<u64> {
        poller::push(self, key(set), raws, |job| {
            job.set_time("enqueued_at", now, self.options.times);
            if set == Set::Dead {
                job.remove("retry_count");
                job.remove("failed_at");
            }
        })
        .await
    }

    /// Removes a job that was found; false when it went meanwhile.
    pub(crate) async fn remove(&self, found: &Found) -> RedisResult<bool> {
        let mut cmd = redis::Cmd::new();
        match found.entry.set {
            Set::Ready => cmd.arg("LREM").arg(names::queue(&found.entry.queue)).arg(-1),
            set => cmd.arg("ZREM").arg(key(set)),
        };
        let gone: u64 = cmd.arg(found.raw.as_slice()).query_async(&mut self.redis()).await?;
        Ok(gone > 0)
    }

    /// Whether Redis knows `queue`.
    pub(crate) async fn has_queue(&self, queue: &str) -> RedisResult<bool> {
        self.ask(&["SISMEMBER", names::QUEUES, queue]).await
    }

    pub(crate) async fn set_paused(&self, queue: &str, paused: bool) -> RedisResult<()> {
        let command = if paused { "SADD" } else { "SREM" };
        let _: u64 = self.ask(&[command, names::PAUSED, queue]).await?;
        Ok(())
    }
}

fn key(set: Set) -> &'static str {
    match set {
        Set::Dead => names::DEAD,
        Set::Retries => names::RETRY,
        Set::Scheduled | Set::Ready => names::SCHEDULE,
    }
}

/// What the name of job `id` may contain: ours, and what others with that number begin with.
fn patterns(id: Id) -> [String; 2] {
    let digits = format!("{:016x}", (id.0 as u64) << 1);
    [format!("*{}*", jid::of(id)), format!("*\"jid\":\"{}*", &digits[..15])]
}

/// A job as it is shown to people. What is no job shows as it is.
fn found(set: Set, queue: &str, at: Option<Timestamp>, raw: Vec<u8>) -> Found {
    let entry = match Fields::parse(&raw) {
        Some(job) => {
            let enqueued_at = job.time("created_at").or_else(|| job.time("enqueued_at"));
            let own: serde_json::Value = job.get("weir").unwrap_or_default();
            let in_queue = if set == Set::Ready { Some(queue.to_owned()) } else { None };
            Entry {
                id: jid::id(&job.get::<String>("jid").unwrap_or_default()),
                set,
                queue: in_queue.or_else(|| job.get("queue")).unwrap_or_default(),
                lane: own["lane"].as_str().unwrap_or("").to_owned(),
                kind: job.get("class").unwrap_or_default(),
                failures: (job.get::<i64>("retry_count"))
                    .and_then(|count| u32::try_from(count.saturating_add(1)).ok())
                    .unwrap_or(0),
                enqueued_at: enqueued_at.unwrap_or(Timestamp::from_ms(0)),
                at,
                reason: job.get("error_message"),
                payload: job.raw("args").map(shown).unwrap_or_default(),
            }
        }
        None => Entry {
            id: Id::ZERO,
            set,
            queue: queue.to_owned(),
            lane: String::new(),
            kind: String::new(),
            failures: 0,
            enqueued_at: at.unwrap_or(Timestamp::from_ms(0)),
            at,
            reason: Some("it is no job".into()),
            payload: String::from_utf8_lossy(&raw).into_owned(),
        },
    };
    Found { entry, raw }
}

/// One object as an argument is the job.
fn shown(args: &str) -> String {
    let list: Result<Vec<&serde_json::value::RawValue>, _> = serde_json::from_str(args);
    match list.as_deref() {
        Ok([one]) if one.get().starts_with('{') => one.get().to_owned(),
        _ => args.to_owned(),
    }
}
