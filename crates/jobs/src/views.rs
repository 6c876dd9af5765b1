//! What each node of a PostgreSQL tells the others of itself, with its beat: so that whoever is
//! asked gives the numbers of all. They are as old as a beat.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use weir_base::{Id, Timestamp};
use weir_db::{Class, Dialect, Error, Tx, params};

use crate::jobs::Inner;
use crate::running::RunningJob;
use crate::{Breaker, Jobs, LaneStats, Progress, QueueStats};

/// Running tasks that a node tells of, the longest first.
const RUNNING_MAX: usize = 100;
/// Rows that are looked at for the lanes of a queue.
const COUNTED_MAX: u64 = 100_000;

/// A node as it was at its last beat.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct View {
    queues: Vec<QueueView>,
    running: Vec<RunningView>,
}

#[derive(Serialize, Deserialize)]
struct QueueView {
    name: String,
    lanes: u64,
    running: u64,
    limit: u64,
    oldest_age_ms: i64,
}

#[derive(Serialize, Deserialize)]
struct RunningView {
    id: i64,
    queue: String,
    lane: String,
    kind: String,
    attempt: u32,
    started_at: i64,
    progress: Option<(u64, u64, String)>,
}

impl View {
    /// This node, as text.
    pub(crate) fn of(inner: &Arc<Inner>) -> String {
        let jobs = Jobs { inner: inner.clone() };
        let queue = |queue: QueueStats| QueueView {
            name: queue.name,
            lanes: queue.lanes,
            running: queue.running,
            limit: queue.limit,
            oldest_age_ms: queue.oldest_age_ms,
        };
        let running = |job: RunningJob| RunningView {
            id: job.id.0,
            queue: job.queue.to_string(),
            lane: job.lane.to_string(),
            kind: job.kind.to_string(),
            attempt: job.attempt,
            started_at: job.started_at.as_ms(),
            progress: job.progress.map(|it| (it.done, it.total, it.text)),
        };
        let view = Self {
            queues: jobs.queues_here().into_iter().map(queue).collect(),
            running: jobs.running().into_iter().take(RUNNING_MAX).map(running).collect(),
        };
        // Texts and numbers always serialise.
        serde_json::to_string(&view).unwrap_or_default()
    }

    /// Adds what this node tells of its queues to `all`.
    pub(crate) fn add_to(self, all: &mut Vec<QueueStats>) {
        for there in self.queues {
            let at = all.iter().position(|here| here.name == there.name).unwrap_or_else(|| {
                all.push(QueueStats { name: there.name.clone(), ..QueueStats::default() });
                all.len() - 1
            });
            let here = &mut all[at];
            here.lanes += there.lanes;
            here.running += there.running;
            here.limit += there.limit;
            here.oldest_age_ms = here.oldest_age_ms.max(there.oldest_age_ms);
        }
    }

    fn running(self, process: &str) -> Vec<RunningJob> {
        let one = |job: RunningView| RunningJob {
            id: Id(job.id),
            queue: job.queue.into(),
            lane: job.lane.into(),
            kind: job.kind.into(),
            attempt: job.attempt,
            started_at: Timestamp::from_ms(job.started_at),
            progress: job.progress.map(|(done, total, text)| Progress { done, total, text }),
            process: Some(process.to_owned()),
        };
        self.running.into_iter().map(one).collect()
    }
}

/// What the nodes but `me` told, each with what it is called; none on SQLite.
pub(crate) fn others(tx: &mut Tx, me: Option<Id>) -> Result<Vec<(String, View)>, Error> {
    if tx.dialect() == Dialect::Sqlite {
        return Ok(Vec::new());
    }
    let me = me.unwrap_or(Id::ZERO);
    let sql = "SELECT node, place, view FROM jobs_nodes WHERE node <> ?1 ORDER BY node";
    let told: Vec<(Id, String, String)> =
        tx.query(sql, params![me], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    let one = |(node, place, view): (Id, String, String)| {
        let name = if place.is_empty() { node.to_string() } else { place };
        // One of another version is left out until it is replaced.
        Some((name, serde_json::from_str(&view).ok()?))
    };
    Ok(told.into_iter().filter_map(one).collect())
}

impl Jobs {
    /// The tasks that run now in any process, the longest first: as [`running`](Self::running) of
    /// this one, of the other nodes of a PostgreSQL as they told it with their last beat (at most
    /// 100 each), and with the jobs on Redis what Sidekiq Web shows.
    ///
    /// # Errors
    /// [`crate::Error::Redis`], [`crate::Error::Db`].
    pub async fn running_everywhere(&self) -> Result<Vec<RunningJob>, crate::Error> {
        let mut all = self.running();
        if let Some(redis) = self.inner.redis.get() {
            all.extend(redis.running(true).await?);
        } else {
            let me = self.inner.nodes.me();
            let read = move |tx: &mut Tx| others(tx, me);
            let others: Vec<(String, View)> = self.inner.db.read(Class::Interactive, read).await?;
            all.extend(others.into_iter().flat_map(|(process, view)| view.running(&process)));
        }
        all.sort_unstable_by_key(|job| (job.started_at, job.id));
        Ok(all)
    }

    /// The deepest lanes of `queue`, at most `limit`, as [`lanes`](Self::lanes); on PostgreSQL also
    /// those of other nodes, as far as they are among the first 100,000 jobs of all queues. What
    /// runs of a lane, and what stands before it, is only known of those that are worked on here.
    ///
    /// # Errors
    /// [`crate::Error::Db`].
    pub async fn lanes_everywhere(
        &self,
        queue: &str,
        limit: usize,
    ) -> Result<Vec<LaneStats>, crate::Error> {
        if self.inner.db.dialect() == Dialect::Sqlite {
            return Ok(self.lanes(queue, limit));
        }
        let name = queue.to_owned();
        let read = move |tx: &mut Tx| {
            tx.query(
                "SELECT lane, COUNT(*) FROM
                   (SELECT queue, lane FROM jobs ORDER BY id LIMIT ?2) held
                 WHERE queue = ?1 GROUP BY lane",
                params![name, COUNTED_MAX],
                |row| Ok((row.get(0)?, row.get(1)?)),
            )
        };
        let counted: Vec<(String, u64)> =
            self.inner.db.read::<_, Error, _>(Class::Interactive, read).await?;
        let here = self.lanes(queue, usize::MAX).into_iter();
        let mut all: BTreeMap<String, LaneStats> =
            here.map(|lane| (lane.lane.clone(), lane)).collect();
        for (lane, depth) in counted {
            let elsewhere = LaneStats {
                lane: lane.clone(),
                depth,
                running: 0,
                breaker: Breaker::default(),
                waits_until: None,
            };
            let known = all.entry(lane).or_insert(elsewhere);
            // Of a lane that is given to another node only what runs is known here.
            known.depth = known.depth.max(depth);
        }
        let mut all: Vec<LaneStats> = all.into_values().collect();
        all.sort_by_key(|lane| std::cmp::Reverse(lane.depth));
        all.truncate(limit);
        Ok(all)
    }
}
