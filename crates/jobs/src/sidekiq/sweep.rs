//! Putting back what processes held that died. What was held at the third death, alone, is poison.

use std::collections::{BTreeMap, BTreeSet};

use redis::RedisResult;
use weir_base::Id;
use weir_db::{Tx, ids, params};

use super::members::End;
use super::wire::{self, Fields};
use super::worker::Core;
use super::{jid, members, names};
use crate::rows;

/// Jobs of one step.
const STEP: usize = 500;
/// Deaths are remembered for three days, in seconds.
const DEATHS_KEPT_S: i64 = 3 * 24 * 3_600;
/// Deaths of more jobs than these are forgotten.
const DEATHS_KNOWN_MAX: usize = 10_000;

/// Puts back what processes held that give no sign of life, except this one.
pub(crate) async fn dead(core: &Core) -> RedisResult<()> {
    let shared = &core.shared;
    let mut redis = shared.redis();
    let holders: Vec<String> =
        redis::cmd("SMEMBERS").arg(names::HOLDERS).query_async(&mut redis).await?;
    for identity in holders.iter().filter(|identity| **identity != shared.identity) {
        sweep(core, identity).await?;
    }
    Ok(())
}

/// Takes the place of an earlier process of the same place: what it held is put back at once.
pub(crate) async fn take_place(core: &Core) -> RedisResult<()> {
    let shared = &core.shared;
    if shared.options.place.is_empty() {
        return Ok(());
    }
    let key = names::place(&shared.hostname, &shared.options.place);
    let mut redis = shared.redis();
    let before: Option<String> =
        redis::cmd("GETSET").arg(&key).arg(&shared.identity).query_async(&mut redis).await?;
    if let Some(before) = before.filter(|before| *before != shared.identity) {
        let _: () = redis::cmd("DEL")
            .arg(names::alive(&before))
            .arg(&before)
            .arg(format!("{before}:work"))
            .arg(format!("{before}:workers"))
            .query_async(&mut redis)
            .await?;
        let _: () =
            redis::cmd("SREM").arg(names::PROCESSES).arg(&before).query_async(&mut redis).await?;
        sweep(core, &before).await?;
    }
    Ok(())
}

/// A job that a dead process held, as it goes on.
struct Orphan {
    field: String,
    job: Vec<u8>,
    /// It goes to the dead set, and this is what the database is to know of it.
    poison: Option<Poison>,
}

struct Poison {
    id: Id,
    /// It came from a database of ours.
    is_own: bool,
    is_member: bool,
    key: Option<String>,
}

async fn sweep(core: &Core, identity: &str) -> RedisResult<()> {
    let mut redis = core.shared.redis();
    if redis::cmd("EXISTS").arg(names::alive(identity)).query_async(&mut redis).await? {
        return Ok(());
    }
    let (alone, mut held): (Option<String>, Vec<(String, Vec<u8>)>) = redis::pipe()
        .cmd("GET")
        .arg(names::alone(identity))
        .cmd("HGETALL")
        .arg(names::held(identity))
        .query_async(&mut redis)
        .await?;
    // The first that was taken is put back last, where it is taken first.
    held.sort_unstable_by_key(|(field, _)| std::cmp::Reverse(number(field)));
    let jids: Vec<String> = held.iter().map(|(_, raw)| jid_of(raw)).collect();
    let deaths = count_deaths(core, identity, &jids).await?;
    let most = core.shared.options.deaths_max;
    let was_alone = |field: &str| alone.as_deref() == Some(field);
    let poisons = (held.iter().zip(&jids))
        .filter(|((field, _), jid)| was_alone(field) && deaths.get(*jid) >= Some(&most))
        .map(|(_, jid)| jid.clone());
    core.buried.lock().extend(poisons);
    let orphans: Vec<Orphan> = {
        let buried = core.buried.lock();
        (held.into_iter().zip(&jids))
            .map(|((field, raw), jid)| match buried.contains(jid) {
                true => poison(core, field, raw),
                false => Orphan { field, job: raw, poison: None },
            })
            .collect()
    };
    let buried: Vec<&Poison> = orphans.iter().filter_map(|it| it.poison.as_ref()).collect();
    if !tell_database(core, &buried).await {
        // It stays as it is until the next look.
        return Ok(());
    }
    let mut count = 0;
    let mut steps = orphans.chunks(STEP);
    // Once at least: who held nothing is forgotten.
    let mut step = steps.next().unwrap_or_default();
    loop {
        let mut call = core.shared.scripts.sweep.key(names::alive(identity));
        call.key(names::held(identity)).key(names::QUEUES).key(names::HOLDERS).key(names::DEAD);
        call.arg(identity).arg(wire::seconds(core.inner.clock.now()));
        for Orphan { field, job, poison } in step {
            call.arg(field).arg(i32::from(poison.is_some())).arg(job.as_slice());
        }
        let moved: i64 = call.invoke_async(&mut redis).await?;
        if moved < 0 {
            return Ok(());
        }
        count += moved;
        match steps.next() {
            Some(next) => step = next,
            None => break,
        }
    }
    if count > 0 {
        tracing::warn!(count, identity, "jobs of a process that died were put back");
        metrics::counter!("weir_jobs_swept_total").increment(count.unsigned_abs());
    }
    Ok(())
}

fn number(field: &str) -> u64 {
    field.split(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// The name of a job; empty of what is none.
pub(super) fn jid_of(raw: &[u8]) -> String {
    Fields::parse(raw).and_then(|job| job.get("jid")).unwrap_or_default()
}

/// Counts one more death for each of `jids`, and tells how many there were. The counts stand beside
/// the jobs: the relay may hand one over twice when its process dies. However often and by how many
/// the death of `identity` is looked at, it counts once.
async fn count_deaths(
    core: &Core,
    identity: &str,
    jids: &[String],
) -> RedisResult<BTreeMap<String, u32>> {
    if core.shared.options.deaths_max == 0 {
        return Ok(BTreeMap::new());
    }
    let jids: BTreeSet<&String> = jids.iter().collect();
    let mut redis = core.shared.redis();
    let known: usize = redis::cmd("HLEN").arg(names::DEATHS).query_async(&mut redis).await?;
    let mut pipe = redis::pipe();
    if known > DEATHS_KNOWN_MAX {
        // So many die with their processes only where something else is wrong.
        pipe.cmd("DEL").arg(names::DEATHS).ignore();
    }
    let mut note = redis::cmd("SET");
    note.arg(names::counted(identity)).arg(1).arg("NX").arg("EX").arg(DEATHS_KEPT_S);
    let is_first: bool = note.query_async(&mut redis).await?;
    for jid in &jids {
        pipe.cmd("HINCRBY").arg(names::DEATHS).arg(*jid).arg(i32::from(is_first));
    }
    pipe.cmd("EXPIRE").arg(names::DEATHS).arg(DEATHS_KEPT_S).ignore();
    let deaths: Vec<u32> = pipe.query_async(&mut redis).await?;
    let counts: BTreeMap<String, u32> = jids.into_iter().cloned().zip(deaths).collect();
    core.deaths.lock().extend(counts.iter().map(|(jid, count)| (jid.clone(), *count)));
    Ok(counts)
}

/// Learns what is known of jobs that were held at deaths.
pub(crate) async fn learn_deaths(core: &Core) -> RedisResult<()> {
    let all =
        redis::cmd("HGETALL").arg(names::DEATHS).query_async(&mut core.shared.redis()).await?;
    *core.deaths.lock() = all;
    Ok(())
}

/// Why poison is dead.
pub(crate) fn reason(core: &Core) -> String {
    format!("its process died {} times while it ran", core.shared.options.deaths_max)
}

/// A job that goes to the dead set.
fn poison(core: &Core, field: String, raw: Vec<u8>) -> Orphan {
    let Some(mut job) = Fields::parse(&raw) else {
        return Orphan { field, job: raw, poison: None };
    };
    let own: serde_json::Value = job.get("weir").unwrap_or_default();
    let jid: String = job.get("jid").unwrap_or_default();
    let poison = Poison {
        id: jid::id(&jid),
        is_own: jid::of(jid::id(&jid)) == jid,
        is_member: own["batch"].is_i64(),
        key: own["key"].as_str().map(str::to_owned),
    };
    let queue = field.split_once(' ').map_or("", |(_, queue)| queue);
    tracing::error!(queue, jid, "the job killed its process too often: it is dead");
    metrics::counter!("weir_jobs_poison_total", "queue" => queue.to_owned()).increment(1);
    job.set("queue", queue);
    job.set("error_message", reason(core));
    job.set("error_class", "Weir::Poison");
    job.set_time("failed_at", core.inner.clock.now(), core.shared.options.times);
    Orphan { field, job: job.write(), poison: Some(poison) }
}

/// Counts what is buried in its batches and frees its keys; false when the database is away.
async fn tell_database(core: &Core, buried: &[&Poison]) -> bool {
    let ends: Vec<(Id, End)> =
        buried.iter().filter(|it| it.is_member).map(|it| (it.id, End::Dead)).collect();
    let keys: Vec<(String, Id)> =
        buried.iter().filter_map(|it| Some((it.key.clone()?, it.id))).collect();
    let own: Vec<Id> = buried.iter().filter(|it| it.is_own).map(|it| it.id).collect();
    if ends.is_empty() && keys.is_empty() && own.is_empty() {
        return true;
    }
    let inner = core.inner.clone();
    let write = move |tx: &mut Tx| {
        rows::free_keys(tx, keys.iter().map(|(key, id)| (key.as_str(), *id)))?;
        // The relay of the dead process may not have come to it.
        tx.run("DELETE FROM jobs WHERE id IN ids(?1)", params![ids(&own)])?;
        members::ended(tx, &inner, &ends)
    };
    let written = core.inner.db.write(weir_db::Class::Interactive, write).await;
    written
        .inspect_err(|error: &weir_db::Error| {
            tracing::warn!(%error, "jobs of a process that died wait for the database");
        })
        .is_ok()
}
