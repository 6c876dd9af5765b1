//! Signs of life: what Sidekiq Web shows of this process, and what it tells us to do.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use redis::{Pipeline, RedisResult};
use tokio_util::sync::CancellationToken;
use weir_base::Timestamp;

use super::steer::CANCEL;
use super::worker::Core;
use super::{names, wire};

/// How often a sign is given, at least.
const BEAT_EACH: Duration = Duration::from_secs(2);
/// Sidekiq Web forgets a process after so many seconds without a sign.
const SHOWN_S: i64 = 60;
/// The most running jobs that are shown, the oldest first.
const SHOWN_JOBS_MAX: usize = 200;
/// How long the numbers of a minute are kept, in seconds.
const MINUTE_KEPT_S: i64 = 8 * 3_600;
/// How long those of ten minutes are.
const TEN_MINUTES_KEPT_S: i64 = 3 * 24 * 3_600;

/// What ended since the last beat, by type.
#[derive(Default)]
pub(crate) struct Tally {
    kinds: Mutex<BTreeMap<&'static str, Counts>>,
}

#[derive(Default)]
struct Counts {
    processed: u64,
    failed: u64,
    took: Duration,
}

impl Tally {
    pub(crate) fn ended(&self, kind: &'static str, failed: bool, took: Duration) {
        let mut kinds = self.kinds.lock();
        let counts = kinds.entry(kind).or_default();
        counts.processed += 1;
        if failed {
            counts.failed += 1;
        } else {
            // Sidekiq's mean is of those that did not fail.
            counts.took += took;
        }
    }
}

/// Gives signs until `ended`, then takes this process off the list.
pub(crate) async fn run(core: Arc<Core>, ended: CancellationToken) {
    let started_at = core.inner.clock.now();
    let each = BEAT_EACH.min(core.shared.options.lease / 4);
    while !ended.is_cancelled() {
        if let Err(error) = beat(&core, started_at).await {
            tracing::debug!(%error, "no sign of life could be given");
        }
        tokio::select! {
            () = tokio::time::sleep(each) => {}
            () = ended.cancelled() => {}
        }
    }
    if let Err(error) = leave(&core).await {
        tracing::debug!(%error, "the process stays on the list until it expires");
    }
}

async fn beat(core: &Core, started_at: Timestamp) -> RedisResult<()> {
    let mut redis = core.shared.redis();
    let asked = Instant::now();
    let signal: Option<String> = redis::cmd("RPOP")
        .arg(format!("{}-signals", core.shared.identity))
        .query_async(&mut redis)
        .await?;
    let rtt_us = asked.elapsed().as_micros();
    let now = core.inner.clock.now();
    let mut pipe = redis::pipe();
    pipe.atomic();
    show_process(core, &mut pipe, started_at, now, rtt_us);
    show_jobs(core, &mut pipe);
    show_numbers(core, &mut pipe, now);
    let _: () = pipe.query_async(&mut redis).await?;
    if let Some(signal) = signal {
        obey(core, &signal);
    }
    Ok(())
}

fn show_process(
    core: &Core,
    pipe: &mut Pipeline,
    started_at: Timestamp,
    now: Timestamp,
    rtt_us: u128,
) {
    let identity = &core.shared.identity;
    let lease_ms = core.shared.options.lease.as_millis().max(1) as u64;
    pipe.cmd("SET").arg(names::alive(identity)).arg(1).arg("PX").arg(lease_ms).ignore();
    pipe.cmd("SADD").arg(names::PROCESSES).arg(identity).ignore();
    let quiet = core.inner.quiet.load(Ordering::Relaxed) || core.stop.is_cancelled();
    pipe.cmd("HSET")
        .arg(identity)
        .arg("info")
        .arg(info(core, started_at))
        .arg("concurrency")
        .arg(core.shared.options.held_max)
        .arg("busy")
        .arg(core.running.load(Ordering::Relaxed))
        .arg("beat")
        .arg(wire::seconds(now))
        .arg("rtt_us")
        .arg(rtt_us as u64)
        .arg("quiet")
        .arg(if quiet { "true" } else { "false" })
        .arg("rss")
        .arg(resident_kib())
        .ignore();
    pipe.cmd("EXPIRE").arg(identity).arg(SHOWN_S).ignore();
}

/// What does not change, in the forms of all versions.
fn info(core: &Core, started_at: Timestamp) -> String {
    let options = &core.shared.options;
    let names: Vec<&str> = core.sources.iter().map(|source| source.name.as_str()).collect();
    let weights: BTreeMap<&str, u32> =
        core.sources.iter().map(|source| (source.name.as_str(), source.weight)).collect();
    let mode = match options.order {
        super::QueueOrder::Strict => "strict",
        super::QueueOrder::Weighted => "weighted",
    };
    serde_json::json!({
        "hostname": core.shared.hostname,
        "started_at": started_at.as_ms() as f64 / 1_000.0,
        "pid": std::process::id(),
        "tag": options.tag,
        "concurrency": options.held_max,
        "queues": names,
        "weights": [weights],
        "capsules": { "default": {
            "concurrency": options.held_max, "mode": mode, "weights": weights,
        } },
        "labels": ["weir"],
        "identity": core.shared.identity,
        "version": env!("CARGO_PKG_VERSION"),
        // Sidekiq Web from 7 on has no buttons for a process that calls itself embedded.
        "embedded": false,
    })
    .to_string()
}

/// The jobs that run, under the names of all versions.
fn show_jobs(core: &Core, pipe: &mut Pipeline) {
    let mut shown: Vec<_> = core.held.lock().values().cloned().collect();
    shown.sort_unstable_by_key(|taken| taken.number);
    shown.truncate(SHOWN_JOBS_MAX);
    for suffix in ["work", "workers"] {
        let key = format!("{}:{suffix}", core.shared.identity);
        pipe.cmd("DEL").arg(&key).ignore();
        if shown.is_empty() {
            continue;
        }
        let set = pipe.cmd("HSET").arg(&key);
        for taken in &shown {
            let work = serde_json::json!({
                "queue": core.sources[taken.source].name,
                "payload": String::from_utf8_lossy(&taken.raw),
                "run_at": taken.at.as_ms() / 1_000,
            });
            set.arg(format!("j{:x}", taken.number)).arg(work.to_string());
        }
        set.ignore();
        pipe.cmd("EXPIRE").arg(&key).arg(SHOWN_S).ignore();
    }
}

/// The numbers of this minute, for the pages of metrics of Sidekiq 7 and 8.
fn show_numbers(core: &Core, pipe: &mut Pipeline, now: Timestamp) {
    let kinds = std::mem::take(&mut *core.tally.kinds.lock());
    if kinds.is_empty() {
        return;
    }
    for (key, kept_s) in number_keys(now) {
        for (kind, counts) in &kinds {
            let mut add = |what: &str, by: u64| {
                if by > 0 {
                    pipe.cmd("HINCRBY").arg(&key).arg(format!("{kind}|{what}")).arg(by).ignore();
                }
            };
            add("p", counts.processed);
            add("f", counts.failed);
            add("ms", u64::try_from(counts.took.as_millis()).unwrap_or(u64::MAX));
        }
        pipe.cmd("EXPIRE").arg(&key).arg(kept_s).ignore();
    }
}

/// The keys of the numbers at `now`, and how long they are kept: of the minute as Sidekiq 7 names
/// it, then of the minute and of its ten minutes as Sidekiq 8 does.
fn number_keys(now: Timestamp) -> [(String, i64); 3] {
    let day = now.date().replace('-', "");
    let short = day.get(2..).unwrap_or(&day);
    let minutes = now.as_ms().div_euclid(60_000).rem_euclid(24 * 60);
    let (hour, minute) = (minutes / 60, minutes % 60);
    [
        (format!("j|{day}|{hour}:{minute}"), MINUTE_KEPT_S),
        (format!("j|{short}|{hour}:{minute:02}"), MINUTE_KEPT_S),
        (format!("j|{short}|{hour}:{}", minute / 10), TEN_MINUTES_KEPT_S),
    ]
}

/// A button of Sidekiq Web.
fn obey(core: &Core, signal: &str) {
    match signal {
        "TSTP" => {
            tracing::info!("quiet, as Sidekiq Web asked: no more jobs are taken");
            core.inner.quiet.store(true, Ordering::Relaxed);
        }
        "TERM" => {
            tracing::info!("the jobs stop, as Sidekiq Web asked; start again to go on");
            core.stop.cancel();
        }
        "TTIN" => {
            for taken in core.held.lock().values().take(SHOWN_JOBS_MAX) {
                let job = String::from_utf8_lossy(&taken.raw);
                tracing::info!(queue = core.sources[taken.source].name, %job, "it runs");
            }
        }
        other if other.starts_with(CANCEL) => {
            let id = other.trim_start_matches(CANCEL).parse();
            let cut = id.is_ok_and(|id| core.inner.running.cancel(id));
            tracing::info!(job = other, cut, "a job is cancelled, as another process asked");
        }
        other => tracing::warn!(signal = other, "Sidekiq Web asked for something unknown"),
    }
}

async fn leave(core: &Core) -> RedisResult<()> {
    let identity = &core.shared.identity;
    redis::pipe()
        .cmd("SREM")
        .arg(names::PROCESSES)
        .arg(identity)
        .ignore()
        .cmd("DEL")
        .arg(identity)
        .arg(format!("{identity}:work"))
        .arg(format!("{identity}:workers"))
        .arg(names::alive(identity))
        .arg(names::alone(identity))
        .ignore()
        .query_async(&mut core.shared.redis())
        .await
}

/// What the process takes of memory, in KiB; 0 where that cannot be told.
fn resident_kib() -> u64 {
    const PAGE_KIB: u64 = 4;
    let pages = std::fs::read_to_string("/proc/self/statm").ok().and_then(|text| {
        text.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok())
    });
    pages.unwrap_or(0) * PAGE_KIB
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_minute_is_named_as_each_version_names_it() {
        let names = |ms| number_keys(Timestamp::from_ms(ms)).map(|(key, _)| key);
        let at = names(1_700_000_000_000);
        assert_eq!(at, ["j|20231114|22:13", "j|231114|22:13", "j|231114|22:1"]);
        let early = names(1_700_006_700_000);
        assert_eq!(early, ["j|20231115|0:5", "j|231115|0:05", "j|231115|0:0"]);
    }
}
