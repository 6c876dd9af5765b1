//! Looking at what lies in Redis, and steering it by hand.

use std::sync::atomic::Ordering;

use redis::{FromRedisValue, RedisResult};
use weir_base::{Id, Timestamp};

use super::shared::Shared;
use super::steer::key;
use super::wire::{self, Fields};
use super::{acks, jid, names, poller};
use crate::running::RunningJob;
use crate::{Entry, Error, QueueStats, Set};

/// Jobs of one step of a search, or of moving many.
const STEP: usize = 500;
/// Jobs of one queue that a search by id looks through.
const SEARCHED_MAX: usize = 1_000_000;
/// Running jobs that are listed.
const RUNNING_MAX: usize = 10_000;

/// A job where it lies.
pub(crate) struct Found {
    pub(crate) entry: Entry,
    /// Its batch and its unique key, if it is ours.
    pub(crate) batch: Option<Id>,
    pub(crate) key: Option<String>,
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
    pub(crate) async fn queue_names(&self) -> RedisResult<Vec<String>> {
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

    /// Makes jobs of `set` ready now, and tells how many were still there. The dead begin anew,
    /// with all their attempts.
    pub(crate) async fn raise(
        &self,
        set: Set,
        found: Vec<Found>,
        now: Timestamp,
    ) -> RedisResult<u64> {
        let raws: Vec<Vec<u8>> = found.into_iter().map(|found| found.raw).collect();
        let mut raised = 0;
        for some in raws.chunks(STEP) {
            raised += poller::push(self, key(set), some, |job| {
                job.set_time("enqueued_at", now, self.options.times);
                if set == Set::Dead {
                    job.remove("retry_count");
                    job.remove("failed_at");
                }
            })
            .await?;
        }
        Ok(raised)
    }

    /// Takes jobs of one set (and queue) away, into the dead set if they are to be buried, and
    /// tells which were still there.
    pub(crate) async fn take(
        &self,
        mut found: Vec<Found>,
        bury: Option<Timestamp>,
    ) -> RedisResult<Vec<Found>> {
        let Some(first) = found.first() else { return Ok(found) };
        let (set, queue) = (first.entry.set, first.entry.queue.clone());
        let (lies, what) = match set {
            Set::Ready => (names::queue(&queue), "list"),
            set => (key(set).to_owned(), "zset"),
        };
        let mut gone = Vec::with_capacity(found.len());
        for some in found.chunks(STEP) {
            let mut call = self.scripts.take.key(&lies);
            call.key(names::DEAD).arg(what);
            match bury {
                Some(now) => {
                    let oldest = now.plus_ms(-acks::DEAD_AGE_MS_MAX);
                    call.arg(wire::seconds(now)).arg(wire::seconds(oldest)).arg(acks::DEAD_MAX);
                }
                None => {
                    call.arg("").arg("").arg("");
                }
            }
            some.iter().for_each(|found| {
                call.arg(found.raw.as_slice());
            });
            let counts: Vec<u64> = call.invoke_async(&mut self.redis()).await?;
            gone.extend(counts.into_iter().map(|count| count > 0));
        }
        let mut gone = gone.into_iter();
        found.retain(|_| gone.next().unwrap_or(false));
        Ok(found)
    }

    /// How many jobs lie in `set`, or in `queue` of it.
    pub(crate) async fn size(&self, set: Set, queue: &str) -> RedisResult<usize> {
        match set {
            Set::Ready => self.ask(&["LLEN", &names::queue(queue)]).await,
            set => self.ask(&["ZCARD", key(set)]).await,
        }
    }

    /// Jobs of `set`, or of `queue` of it, from the `from`-th on.
    pub(crate) async fn step(&self, set: Set, queue: &str, from: usize) -> RedisResult<Vec<Found>> {
        if set == Set::Ready {
            return self.ready_step(queue, from).await;
        }
        let (first, last) = (from.to_string(), (from + STEP - 1).to_string());
        let some: Vec<(Vec<u8>, f64)> =
            self.ask(&["ZRANGE", key(set), &first, &last, "WITHSCORES"]).await?;
        let one = |(raw, score)| found(set, "", Some(wire::from_seconds(score)), raw);
        Ok(some.into_iter().map(one).collect())
    }

    /// The jobs that run, in whatever process, or only in others than this.
    pub(crate) async fn running(&self, elsewhere: bool) -> RedisResult<Vec<RunningJob>> {
        let processes: Vec<String> = self.ask(&["SMEMBERS", names::PROCESSES]).await?;
        let mut all = Vec::new();
        let others = |identity: &&String| !elsewhere || **identity != self.identity;
        for identity in processes.iter().filter(others) {
            let mut running = Vec::new();
            // Up to Sidekiq 6 the hash has the longer name.
            for suffix in ["work", "workers"] {
                if running.is_empty() {
                    running = self.ask(&["HVALS", &format!("{identity}:{suffix}")]).await?;
                }
            }
            let shown = running.iter().take(RUNNING_MAX.saturating_sub(all.len()));
            all.extend(shown.filter_map(|work: &Vec<u8>| running_job(work, identity)));
        }
        Ok(all)
    }

    /// Whether process `identity` is a Weir.
    pub(crate) async fn is_ours(&self, identity: &str) -> RedisResult<bool> {
        let info: Option<String> = self.ask(&["HGET", identity, "info"]).await?;
        let info: serde_json::Value =
            info.and_then(|info| serde_json::from_str(&info).ok()).unwrap_or_default();
        Ok(info["labels"].as_array().is_some_and(|labels| labels.contains(&"weir".into())))
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

/// What the name of job `id` may contain: ours, and what others with that number begin with.
fn patterns(id: Id) -> [String; 2] {
    let digits = format!("{:016x}", (id.0 as u64) << 1);
    [format!("*{}*", jid::of(id)), format!("*\"jid\":\"{}*", &digits[..15])]
}

/// A job as it is shown to people. What is no job shows as it is.
fn found(set: Set, queue: &str, at: Option<Timestamp>, raw: Vec<u8>) -> Found {
    let (mut batch, mut key) = (None, None);
    let entry = match Fields::parse(&raw) {
        Some(job) => {
            let enqueued_at = job.time("created_at").or_else(|| job.time("enqueued_at"));
            let own: serde_json::Value = job.get("weir").unwrap_or_default();
            batch = own["batch"].as_i64().map(Id);
            key = own["key"].as_str().map(str::to_owned);
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
    Found { entry, batch, key, raw }
}

/// One object as an argument is the job.
fn shown(args: &str) -> String {
    let list: Result<Vec<&serde_json::value::RawValue>, _> = serde_json::from_str(args);
    match list.as_deref() {
        Ok([one]) if one.get().starts_with('{') => one.get().to_owned(),
        _ => args.to_owned(),
    }
}

/// A job that runs, as its process shows it.
fn running_job(work: &[u8], identity: &str) -> Option<RunningJob> {
    let work = Fields::parse(work)?;
    // An object up to Sidekiq 7, a text from then on.
    let payload = work.get::<String>("payload");
    let job = match &payload {
        Some(text) => Fields::parse(text.as_bytes())?,
        None => Fields::parse(work.raw("payload")?.as_bytes())?,
    };
    let own: serde_json::Value = job.get("weir").unwrap_or_default();
    let failures = job.get::<i64>("retry_count").map_or(0, |count| count.saturating_add(1).max(0));
    Some(RunningJob {
        id: jid::id(&job.get::<String>("jid")?),
        queue: work.get::<String>("queue").unwrap_or_default().into(),
        lane: own["lane"].as_str().unwrap_or("").into(),
        kind: job.get::<String>("class").unwrap_or_default().into(),
        attempt: u32::try_from(failures).unwrap_or(u32::MAX).saturating_add(1),
        started_at: work.time("run_at").unwrap_or(Timestamp::from_ms(0)),
        progress: None,
        process: Some(identity.to_owned()),
    })
}
