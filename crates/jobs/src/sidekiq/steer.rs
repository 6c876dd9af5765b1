//! Steering by hand what lies in Redis or runs there: one job, or many in one step.

use std::collections::BTreeSet;
use std::time::Duration;

use weir_base::Id;
use weir_db::{Class, Tx};

use super::inspect::Found;
use super::shared::Shared;
use super::{members, names};
use crate::{Action, Error, Jobs, Search, Set, Swept, rows, unique};

/// Begins the word by which a process of ours is told to cut off a job that it runs.
pub(crate) const CANCEL: &str = "CANCEL ";

/// How often a job that is being handed over is looked for, …
const LOOKS: usize = 25;
/// … and how soon again.
const LOOK_EACH: Duration = Duration::from_millis(20);

impl Jobs {
    /// Does `action` to all jobs in Redis that `search` finds, by their places in its lists, and
    /// adds to `swept` what was looked at and changed.
    pub(crate) async fn sweep_redis(
        &self,
        redis: &Shared,
        search: &Search,
        action: Action,
        swept: &mut Swept,
        told: &mut (impl FnMut(Swept) + Send),
    ) -> Result<(), Error> {
        let queues = match search.set {
            Set::Ready => redis.queue_names().await?,
            _ => vec![String::new()],
        };
        let is_meant = |queue: &&String| {
            search.set != Set::Ready || search.queue.as_ref().is_none_or(|name| name == *queue)
        };
        for queue in queues.iter().filter(is_meant) {
            let mut from = 0;
            // What fails again meanwhile is not changed again.
            let mut left = redis.size(search.set, queue).await?;
            while left > 0 {
                let some = redis.step(search.set, queue, from).await?;
                if some.is_empty() {
                    break;
                }
                let looked = some.len();
                let meant = self.meant(search, some, |it: &Found| &it.entry).await;
                let changed = self.change_in_redis(redis, action, meant).await?;
                left = left.saturating_sub(looked);
                // What went makes room for the next at its place.
                from += looked.saturating_sub(changed);
                swept.looked += looked as u64;
                swept.changed += changed as u64;
                told(*swept);
            }
        }
        Ok(())
    }

    /// Does `action` to jobs of one set (and queue) in one step; tells to how many.
    pub(crate) async fn change_in_redis(
        &self,
        redis: &Shared,
        action: Action,
        found: Vec<Found>,
    ) -> Result<usize, Error> {
        let Some(first) = found.first() else { return Ok(0) };
        let (set, now) = (first.entry.set, self.inner.clock.now());
        match (action, set) {
            (Action::Retry, Set::Ready) | (Action::Kill, Set::Dead) => Ok(0),
            (Action::Retry, Set::Dead) => {
                let found = self.with_keys(redis, found).await?;
                let members: Vec<Id> =
                    found.iter().filter(|it| it.batch.is_some()).map(|it| it.entry.id).collect();
                let raised = redis.raise(set, found, now).await?;
                if !members.is_empty() {
                    let inner = self.inner.clone();
                    let raise = move |tx: &mut Tx| members::raised(tx, &inner, &members);
                    self.inner.db.write::<_, weir_db::Error, _>(Class::Interactive, raise).await?;
                }
                Ok(usize::try_from(raised).unwrap_or(usize::MAX))
            }
            (Action::Retry, _) => {
                let raised = redis.raise(set, found, now).await?;
                Ok(usize::try_from(raised).unwrap_or(usize::MAX))
            }
            (Action::Delete | Action::Kill, _) => {
                let bury = (action == Action::Kill).then_some(now);
                let gone = redis.take(found, bury).await?;
                let count = gone.len();
                let end = match action {
                    Action::Kill => members::End::Dead,
                    _ => members::End::Failed,
                };
                self.left_redis(gone, end).await?;
                Ok(count)
            }
        }
    }

    /// Those of the dead that may be retried: their keys are taken, if they are unique. What others
    /// have the key of stays dead.
    async fn with_keys(&self, redis: &Shared, found: Vec<Found>) -> Result<Vec<Found>, Error> {
        let is_keyed =
            |it: &Found| redis.keyed.get().is_some_and(|all| all.contains(&*it.entry.kind));
        let keyed = found.iter().filter(|it| is_keyed(it));
        // In one order, so that no two units wait for each other.
        let keys: BTreeSet<(String, Id)> =
            keyed.filter_map(|it| Some((it.key.clone()?, it.entry.id))).collect();
        if keys.is_empty() {
            return Ok(found);
        }
        let now = self.inner.clock.now();
        let take = move |tx: &mut Tx| {
            let mut kept_away = BTreeSet::new();
            for (key, id) in &keys {
                // It has the key already where a retry was cut off in the middle.
                if !unique::keep(tx, key, *id, now)? {
                    kept_away.insert(*id);
                }
            }
            Ok::<_, weir_db::Error>(kept_away)
        };
        let kept_away = self.inner.db.write(Class::Interactive, take).await?;
        Ok(found.into_iter().filter(|it| !kept_away.contains(&it.entry.id)).collect())
    }

    /// What follows in the database when jobs left Redis by hand.
    async fn left_redis(&self, gone: Vec<Found>, end: members::End) -> Result<(), Error> {
        let keys: Vec<(String, Id)> =
            gone.iter().filter_map(|it| Some((it.key.clone()?, it.entry.id))).collect();
        // The dead were counted when they died.
        let counts = gone.iter().filter(|it| it.batch.is_some() && it.entry.set != Set::Dead);
        let ends: Vec<_> = counts.map(|it| (it.entry.id, end)).collect();
        if keys.is_empty() && ends.is_empty() {
            return Ok(());
        }
        let inner = self.inner.clone();
        let write = move |tx: &mut Tx| {
            rows::free_keys(tx, keys.iter().map(|(key, id)| (key.as_str(), *id)))?;
            members::ended(tx, &inner, &ends)
        };
        Ok(self.inner.db.write::<_, weir_db::Error, _>(Class::Interactive, write).await?)
    }

    /// Takes back job `id` where it waits in Redis, or has it cut off by the process of ours that
    /// runs it, within seconds; false when neither is so. One that is about to be handed over
    /// (`comes`) is waited for a little.
    pub(crate) async fn cancel_in_redis(
        &self,
        redis: &Shared,
        id: Id,
        comes: bool,
    ) -> Result<bool, Error> {
        let mut found = redis.find(id).await?;
        for _ in 0..if comes { LOOKS } else { 0 } {
            if found.is_some() {
                break;
            }
            tokio::time::sleep(LOOK_EACH).await;
            found = redis.find(id).await?;
        }
        if let Some(found) = found.filter(|found| found.entry.set != Set::Dead) {
            return Ok(self.change_in_redis(redis, Action::Delete, vec![found]).await? > 0);
        }
        let running = redis.running(false).await?;
        let Some(process) =
            running.iter().find(|job| job.id == id).and_then(|it| it.process.as_deref())
        else {
            return Ok(false);
        };
        if !redis.is_ours(process).await? {
            return Ok(false);
        }
        let signals = format!("{process}-signals");
        let mut tell = redis::pipe();
        tell.cmd("LPUSH").arg(&signals).arg(format!("{CANCEL}{id}")).ignore();
        tell.cmd("EXPIRE").arg(&signals).arg(60).ignore();
        tell.exec_async(&mut redis.redis()).await?;
        Ok(true)
    }
}

/// The key of the sorted set `set`.
pub(super) fn key(set: Set) -> &'static str {
    match set {
        Set::Dead => names::DEAD,
        Set::Retries => names::RETRY,
        Set::Scheduled | Set::Ready => names::SCHEDULE,
    }
}
