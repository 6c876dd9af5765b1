//! The relay: rows of the database become jobs in Redis, and go only after that.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::RedisResult;
use tokio_util::sync::CancellationToken;
use weir_base::{Id, Timestamp};
use weir_db::{Class, Row, Tx, ids, params};

use super::shared::Shared;
use super::wire::{self, Place};
use super::worker::AGAIN_AFTER;
use super::{members, names};
use crate::directory::QueueState;
use crate::jobs::Inner;
use crate::registry::Registry;
use crate::rows::{self, Claim};
use crate::turns::Pick;
use crate::{Queue, Retry, Unique};

/// Jobs of one push.
const BATCH_MAX: usize = 1_000;
/// How often a queue of Redis that is full is looked at.
const FULL_LOOK: Duration = Duration::from_millis(10);
/// What happens to jobs in the end, in messages.
const REMOVED: &str = "removed after their push";

/// What rows of a kind become.
#[derive(Clone, Copy)]
pub(crate) struct Target {
    pub(crate) class: &'static str,
    pub(crate) retry: Retry,
    /// Another process runs it, and cannot free its key, which it is freed of when it is pushed.
    pub(crate) frees_key: bool,
    /// Another process runs it, and nobody hears of its end.
    pub(crate) is_elsewhere: bool,
}

impl Target {
    const UNKNOWN: Target =
        Target { class: "", retry: Retry::DEFAULT, frees_key: false, is_elsewhere: false };
}

/// What the relays share.
pub(crate) struct Relay {
    pub(crate) inner: Arc<Inner>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) targets: BTreeMap<&'static str, Target>,
    pub(crate) stop: CancellationToken,
}

/// By kind what its rows become.
pub(crate) fn targets(registry: &Registry) -> BTreeMap<&'static str, Target> {
    let handlers = registry.handlers.iter().map(|(kind, handler)| {
        (*kind, Target { class: handler.class, retry: handler.retry, ..Target::UNKNOWN })
    });
    let elsewhere = registry.elsewhere.iter().map(|(kind, elsewhere)| {
        let frees_key = !matches!(elsewhere.unique, Unique::ForMs(_));
        (
            *kind,
            Target {
                class: elsewhere.class,
                retry: elsewhere.retry,
                frees_key,
                is_elsewhere: true,
            },
        )
    });
    handlers.chain(elsewhere).collect()
}

/// A scheduled job, or one that waits for its retry, as it is pushed.
struct Later {
    id: Id,
    set: &'static str,
    score: String,
    job: String,
    /// A key that is free from now on.
    key: Option<String>,
    batch: Option<Id>,
    is_elsewhere: bool,
}

impl Relay {
    /// Relays the ready rows of `queue`, its keys taking turns, until it is time to stop. A key's
    /// rate is that at which its jobs are handed over; while its breaker is open none is.
    pub(crate) async fn ready(self: Arc<Self>, queue: Queue) {
        let state = self.inner.directory.queue(queue.name);
        state.turns.lock().configure(queue.order, false);
        state.turns.lock().set_gates(queue.lane_rate, queue.breaker_failures);
        // How many more jobs the queue of Redis may get, as far as is known.
        let mut room = 0;
        while !self.stop.is_cancelled() {
            if room == 0 && state.turns.lock().depth() > 0 {
                room = self.room(queue.name).await;
                continue;
            }
            let most = BATCH_MAX.min(state.claim_max()).min(room);
            let picks = {
                let mut turns = state.turns.lock();
                if turns.has_gates() {
                    turns.at(self.inner.clock.now().as_ms());
                }
                turns.select(most)
            };
            if picks.is_empty() {
                tokio::select! {
                    () = state.wake.notified() => {}
                    () = state.gate_opens(&self.inner.clock) => {}
                    () = self.stop.cancelled() => {}
                }
                continue;
            }
            let picks = Arc::new(picks);
            let (to_read, relay) = (picks.clone(), self.clone());
            let read = move |tx: &mut Tx| {
                let known = |kind: &str| relay.targets.get_key_value(kind).map(|(kind, _)| *kind);
                rows::read(tx, queue.name, &to_read, &known, relay.inner.nodes.me())
            };
            match self.inner.db.read::<_, weir_db::Error, _>(queue.class, read).await {
                Ok(found) => room = self.pass_on(queue.class, &state, &picks, found).await,
                Err(error) => {
                    self.inner.outage.failed("jobs cannot be read", &error);
                    picks.iter().for_each(|pick| state.released(&pick.lane, &pick.ids));
                    self.pause().await;
                }
            }
        }
    }

    /// How many jobs the queue of Redis may get; waits a little where there is no room.
    async fn room(&self, queue: &str) -> usize {
        let mut length = redis::cmd("LLEN");
        length.arg(names::queue(queue));
        match length.query_async::<usize>(&mut self.shared.redis()).await {
            Ok(length) if length < self.shared.options.window => {
                self.shared.options.window - length
            }
            Ok(_) => {
                tokio::select! {
                    () = tokio::time::sleep(FULL_LOOK) => {}
                    () = self.stop.cancelled() => {}
                }
                0
            }
            Err(error) => {
                self.redis_again(error).await;
                0
            }
        }
    }

    /// Pushes what was read and removes its rows; stopped before that, it is still there at the
    /// next start. Tells how many more jobs the queue of Redis may get.
    async fn pass_on(
        &self,
        class: Class,
        state: &Arc<QueueState>,
        picks: &[Pick],
        found: Vec<Vec<Claim>>,
    ) -> usize {
        let started = Instant::now();
        let mut claims = Vec::new();
        {
            let mut turns = state.turns.lock();
            for (pick, mut found) in picks.iter().zip(found) {
                turns.gone(&pick.lane, pick.ids.len() - found.len());
                claims.append(&mut found);
            }
        }
        if !self.hand_over(class, state, &mut claims).await || claims.is_empty() {
            return 0;
        }
        let bytes = claims.iter().map(|claim| claim.payload.len()).sum();
        state.saw_payloads(claims.len(), bytes);
        let jobs: Vec<String> = claims.iter().map(|it| self.compose(it, &state.name)).collect();
        let length = loop {
            match self.push(&state.name, &jobs).await {
                Ok(length) => break length,
                Err(error) if !self.redis_again(&error).await => return 0,
                Err(_) => {}
            }
        };
        metrics::counter!("weir_jobs_relayed_total", "queue" => state.name.to_string())
            .increment(jobs.len() as u64);
        let claims = Arc::new(claims);
        while let Err(error) = self.remove(class, state, claims.clone()).await {
            if !self.again(REMOVED, error).await {
                return 0;
            }
        }
        let each_ns = started.elapsed().as_nanos() / claims.len() as u128;
        let each_ns = i64::try_from(each_ns).unwrap_or(i64::MAX);
        let runs = claims.chunk_by(|one, next| one.lane == next.lane);
        let work = |run: &[Claim]| {
            (run[0].lane.clone(), run.len(), each_ns.saturating_mul(run.len() as i64))
        };
        state.finished(&runs.map(work).collect::<Vec<_>>());
        self.shared.options.window.saturating_sub(length)
    }

    /// Writes down which of `claims` are members of batches, and leaves out those that ended
    /// meanwhile; false when it is time to stop.
    async fn hand_over(
        &self,
        class: Class,
        state: &Arc<QueueState>,
        claims: &mut Vec<Claim>,
    ) -> bool {
        let is_member =
            |claim: &Claim| claim.batch_id.is_some() && !self.target(&claim.kind).is_elsewhere;
        let members: Arc<Vec<Id>> =
            Arc::new(claims.iter().filter(|it| is_member(it)).map(|it| it.id).collect());
        if members.is_empty() {
            return true;
        }
        let there = loop {
            let list = members.clone();
            let hand_over = move |tx: &mut Tx| members::hand_over(tx, "jobs", &list);
            match self.inner.db.write::<_, weir_db::Error, _>(class, hand_over).await {
                Ok(there) => break there,
                Err(error) if !self.redis_again(&error).await => return false,
                Err(_) => {}
            }
        };
        let mut turns = state.turns.lock();
        claims.retain(|claim| {
            let stays = !is_member(claim) || there.binary_search(&claim.id).is_ok();
            turns.gone(&claim.lane, usize::from(!stays));
            stays
        });
        true
    }

    fn target(&self, kind: &str) -> Target {
        self.targets.get(kind).copied().unwrap_or(Target::UNKNOWN)
    }

    fn compose(&self, claim: &Claim, queue: &str) -> String {
        let target = self.target(&claim.kind);
        let class = if target.class.is_empty() { &claim.kind } else { target.class };
        let times = self.shared.options.times;
        wire::compose(claim, queue, class, &target.retry, times, Place::Ready)
    }

    /// Tells the length of the queue.
    async fn push(&self, queue: &str, jobs: &[String]) -> RedisResult<usize> {
        let mut pipe = redis::pipe();
        pipe.cmd("SADD").arg(names::QUEUES).arg(queue).ignore();
        pipe.cmd("LPUSH").arg(names::queue(queue)).arg(jobs);
        let (length,) = pipe.query_async(&mut self.shared.redis()).await?;
        Ok(length)
    }

    async fn remove(
        &self,
        class: Class,
        state: &Arc<QueueState>,
        claims: Arc<Vec<Claim>>,
    ) -> Result<(), weir_db::Error> {
        let freed: Vec<(String, Id)> = (claims.iter())
            .filter(|claim| self.target(&claim.kind).frees_key)
            .filter_map(|claim| Some((claim.unique_key.clone()?, claim.id)))
            .collect();
        let gone: Vec<(Id, Id)> = (claims.iter())
            .filter(|claim| self.target(&claim.kind).is_elsewhere)
            .filter_map(|claim| Some((claim.id, claim.batch_id?)))
            .collect();
        let (inner, me) = (self.inner.clone(), self.inner.nodes.me());
        let remove = move |tx: &mut Tx| {
            let removed = rows::remove(tx, claims.iter(), me)?;
            let let_go = gone.iter().filter(|(id, _)| removed.has(*id)).map(|(_, batch)| *batch);
            members::let_go(tx, &inner, let_go)?;
            rows::free_keys(tx, freed.iter().map(|(key, id)| (key.as_str(), *id)))?;
            Ok::<_, weir_db::Error>(removed)
        };
        let removed = self.inner.db.write(class, remove).await?;
        state.settled(&removed.lanes);
        Ok(())
    }

    /// Relays what is scheduled, and what waited for a retry when the program ran without Redis.
    pub(crate) async fn later(self: Arc<Self>) {
        while !self.stop.is_cancelled() {
            self.inner.later.reset();
            while self.later_batch().await {}
            tokio::select! {
                () = self.inner.later.wake.notified() => {}
                () = self.stop.cancelled() => {}
            }
        }
    }

    /// Relays a group; false when none is left, or it is time to stop.
    async fn later_batch(self: &Arc<Self>) -> bool {
        let shared = self.clone();
        let read = move |tx: &mut Tx| shared.read_later(tx);
        let mut jobs = match self.inner.db.read(Class::Inbound, read).await {
            Ok(jobs) => jobs,
            Err(error) => return self.again("read", error as weir_db::Error).await,
        };
        if jobs.is_empty() {
            return false;
        }
        if let Err(error) = self.hand_over_later(&mut jobs).await {
            return self.redis_again(error).await;
        }
        let jobs = Arc::new(jobs);
        while let Err(error) = self.push_later(&jobs).await {
            if !self.redis_again(error).await {
                return false;
            }
        }
        while let Err(error) = self.remove_later(jobs.clone()).await {
            if !self.again(REMOVED, error).await {
                return false;
            }
        }
        true
    }

    async fn hand_over_later(&self, jobs: &mut Vec<Later>) -> Result<(), weir_db::Error> {
        let is_member = |job: &Later| job.batch.is_some() && !job.is_elsewhere;
        let list: Vec<Id> = jobs.iter().filter(|it| is_member(it)).map(|it| it.id).collect();
        if list.is_empty() {
            return Ok(());
        }
        let hand_over = move |tx: &mut Tx| members::hand_over(tx, "jobs_later", &list);
        let there = self.inner.db.write(Class::Inbound, hand_over).await?;
        jobs.retain(|job| !is_member(job) || there.binary_search(&job.id).is_ok());
        Ok(())
    }

    fn read_later(&self, tx: &mut Tx) -> Result<Vec<Later>, weir_db::Error> {
        tx.query(
            "SELECT due_at, id, state, queue, lane, kind, failures, enqueued_at, unique_key,
               payload, batch_id, expires_at, postponed_since
             FROM jobs_later WHERE state < 2 ORDER BY state, due_at, id LIMIT ?1",
            params![BATCH_MAX],
            |row| self.read_one_later(row),
        )
    }

    fn read_one_later(&self, row: &Row<'_>) -> Result<Later, weir_db::Error> {
        let (due_at, state): (Timestamp, i64) = (row.get(0)?, row.get(2)?);
        let (queue, lane, failures): (String, String, u32) =
            (row.get(3)?, row.get(4)?, row.get(6)?);
        let claim = Claim {
            lane: lane.into(),
            id: row.get(1)?,
            kind: Cow::Owned(row.get(5)?),
            attempt: failures.saturating_add(1),
            enqueued_at: row.get(7)?,
            ready_at: due_at,
            unique_key: row.get(8)?,
            payload: row.get(9)?,
            batch_id: row.get(10)?,
            expires_at: row.get(11)?,
            postponed_since: row.get(12)?,
            jid: None,
            in_hand: None,
        };
        let target = self.target(&claim.kind);
        let class = if target.class.is_empty() { &claim.kind } else { target.class };
        let times = self.shared.options.times;
        Ok(Later {
            id: claim.id,
            set: if state == 0 { names::SCHEDULE } else { names::RETRY },
            score: wire::seconds(due_at),
            job: wire::compose(&claim, &queue, class, &target.retry, times, Place::Later),
            key: claim.unique_key.clone().filter(|_| target.frees_key),
            batch: claim.batch_id,
            is_elsewhere: target.is_elsewhere,
        })
    }

    async fn push_later(&self, jobs: &[Later]) -> RedisResult<()> {
        let mut pipe = redis::pipe();
        for job in jobs {
            pipe.cmd("ZADD").arg(job.set).arg(&job.score).arg(&job.job).ignore();
        }
        pipe.query_async(&mut self.shared.redis()).await
    }

    async fn remove_later(&self, jobs: Arc<Vec<Later>>) -> Result<(), weir_db::Error> {
        let inner = self.inner.clone();
        let remove = move |tx: &mut Tx| {
            let list: Vec<Id> = jobs.iter().map(|job| job.id).collect();
            let sql = "DELETE FROM jobs_later WHERE id IN ids(?1) RETURNING id";
            let gone: Vec<Id> = tx.column(sql, params![ids(&list)])?;
            let let_go = jobs.iter().filter(|job| job.is_elsewhere && gone.contains(&job.id));
            members::let_go(tx, &inner, let_go.filter_map(|job| job.batch))?;
            let keys = jobs.iter().filter_map(|job| Some((job.key.as_deref()?, job.id)));
            rows::free_keys(tx, keys)
        };
        self.inner.db.write(Class::Inbound, remove).await
    }

    /// Redis failed: waits a little, unless it is time to stop, which gives false.
    async fn redis_again(&self, error: impl std::fmt::Display) -> bool {
        self.shared.outage.failed("jobs cannot be pushed to it", &error);
        self.pause().await;
        !self.stop.is_cancelled()
    }

    /// The database failed: waits a little, unless it is time to stop, which gives false.
    async fn again(&self, what: &str, error: impl std::fmt::Display) -> bool {
        self.inner.outage.failed(&format!("jobs cannot be {what} yet"), &error);
        self.pause().await;
        !self.stop.is_cancelled()
    }

    async fn pause(&self) {
        tokio::select! {
            () = tokio::time::sleep(AGAIN_AFTER) => {}
            () = self.stop.cancelled() => {}
        }
    }
}
