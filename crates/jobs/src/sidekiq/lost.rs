//! Keys of unique jobs that are nowhere any more: somebody deleted them on Sidekiq Web, or Redis
//! lost them. Nobody tells of that, and such a key would keep others away for ever, so the leader
//! looks for them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use redis::RedisResult;
use weir_base::Id;
use weir_db::{Class, Tx, params};

use super::worker::Core;
use super::{jid, names, sweep};
use crate::{Error, rows};

/// How often it is looked, in ms. What two looks did not find is nowhere: at one look a job may
/// have been on its way from one place to another.
const LOOK_EACH_MS: i64 = 10 * 60 * 1_000;
/// How often the clock is looked at, at least.
const SLEEP_MAX: Duration = Duration::from_secs(5);
/// Keys of one look.
const KEYS_MAX: i64 = 100_000;
/// Jobs that one look goes through; where more lie in Redis, no key is freed.
const SEARCHED_MAX: usize = 1_000_000;
/// Jobs of one step.
const STEP: usize = 500;

/// Looks until it is time to stop.
pub(crate) async fn run(core: Arc<Core>) {
    // The keys of the jobs that the last look did not find.
    let mut missing = HashMap::new();
    let mut look_at = core.inner.clock.now().plus_ms(LOOK_EACH_MS);
    let sleep = core.shared.options.lease.min(SLEEP_MAX);
    while !core.stop.is_cancelled() {
        let now = core.inner.clock.now();
        if !core.inner.nodes.leads() {
            missing.clear();
        } else if look_at <= now {
            look_at = now.plus_ms(LOOK_EACH_MS);
            if let Err(error) = look(&core, &mut missing).await {
                tracing::warn!(%error, "keys of lost jobs stay; the next look is in ten minutes");
            }
        }
        tokio::select! {
            () = tokio::time::sleep(sleep) => {}
            () = core.stop.cancelled() => {}
        }
    }
}

/// Frees the keys of jobs that were missing before and are now.
async fn look(core: &Core, missing: &mut HashMap<Id, String>) -> Result<(), Error> {
    let read = |tx: &mut Tx| {
        tx.query(
            "SELECT id, unique_key FROM jobs_unique WHERE until_at IS NULL
               AND NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.id = jobs_unique.id)
               AND NOT EXISTS (SELECT 1 FROM jobs_later WHERE jobs_later.id = jobs_unique.id)
             ORDER BY unique_key LIMIT ?1",
            params![KEYS_MAX],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
    };
    let keys: Vec<(Id, String)> = core.inner.db.read(Class::Housekeeping, read).await?;
    let mut search = Search { wanted: keys.into_iter().collect(), left: SEARCHED_MAX };
    search.through(core).await?;
    let both = |(id, key): &(Id, String)| missing.get(id) == Some(key);
    let (lost, wanted): (Vec<_>, Vec<_>) = search.wanted.into_iter().partition(both);
    *missing = wanted.into_iter().collect();
    if lost.is_empty() {
        return Ok(());
    }
    let count = lost.len();
    let free =
        move |tx: &mut Tx| rows::free_keys(tx, lost.iter().map(|(id, key)| (key.as_str(), *id)));
    core.inner.db.write::<_, weir_db::Error, _>(Class::Housekeeping, free).await?;
    tracing::warn!(count, "unique jobs were lost or deleted in Redis: others of them are let in");
    metrics::counter!("weir_jobs_keys_freed_total").increment(count as u64);
    Ok(())
}

/// A look for jobs wherever they may be but in the dead set, where they have no key.
struct Search {
    /// Those that were not found so far, with their keys.
    wanted: HashMap<Id, String>,
    /// How many more jobs are gone through.
    left: usize,
}

impl Search {
    async fn through(&mut self, core: &Core) -> RedisResult<()> {
        let held: Vec<_> = core.held.lock().values().cloned().collect();
        held.iter().for_each(|taken| self.saw(&taken.raw));
        // In the order in which jobs move: from here into queues, from there into hands, and back.
        for set in [names::SCHEDULE, names::RETRY] {
            self.scan(core, "ZSCAN", set).await?;
        }
        for queue in core.shared.queue_names().await? {
            self.queue(core, &names::queue(&queue)).await?;
        }
        let mut redis = core.shared.redis();
        let holders: Vec<String> =
            redis::cmd("SMEMBERS").arg(names::HOLDERS).query_async(&mut redis).await?;
        for identity in holders {
            self.scan(core, "HSCAN", &names::held(&identity)).await?;
        }
        self.scan(core, "ZSCAN", names::RETRY).await?;
        if self.left == 0 {
            self.wanted.clear();
        }
        Ok(())
    }

    async fn queue(&mut self, core: &Core, key: &str) -> RedisResult<()> {
        let mut from = 1;
        while !self.is_over() {
            let (first, last) = (from + STEP as i64 - 1, from);
            let mut some = redis::cmd("LRANGE");
            some.arg(key).arg(-first).arg(-last);
            let some: Vec<Vec<u8>> = some.query_async(&mut core.shared.redis()).await?;
            if some.is_empty() {
                break;
            }
            some.iter().for_each(|raw| self.saw(raw));
            from += STEP as i64;
        }
        Ok(())
    }

    async fn scan(&mut self, core: &Core, command: &str, key: &str) -> RedisResult<()> {
        let mut cursor = "0".to_owned();
        while !self.is_over() {
            let mut some = redis::cmd(command);
            some.arg(key).arg(&cursor).arg("COUNT").arg(STEP);
            // Fields and scores between the jobs name no job.
            let (next, some): (String, Vec<Vec<u8>>) =
                some.query_async(&mut core.shared.redis()).await?;
            some.iter().for_each(|raw| self.saw(raw));
            if next == "0" {
                break;
            }
            cursor = next;
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.left == 0 || self.wanted.is_empty()
    }

    fn saw(&mut self, raw: &[u8]) {
        self.left = self.left.saturating_sub(1);
        self.wanted.remove(&jid::id(&sweep::jid_of(raw)));
    }
}
