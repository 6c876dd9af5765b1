//! The keys in Redis.

use weir_base::{Random, Timestamp};

pub(crate) const QUEUES: &str = "queues";
pub(crate) const SCHEDULE: &str = "schedule";
pub(crate) const RETRY: &str = "retry";
pub(crate) const DEAD: &str = "dead";
pub(crate) const PAUSED: &str = "paused";
pub(crate) const PROCESSES: &str = "processes";
pub(crate) const PROCESSED: &str = "stat:processed";
pub(crate) const FAILED: &str = "stat:failed";
/// Ours: by `jid`, how many processes died that held a job.
pub(crate) const DEATHS: &str = "weir:deaths";
/// Ours: the processes that hold, or held, jobs.
pub(crate) const HOLDERS: &str = "weir:holders";

pub(crate) fn queue(name: &str) -> String {
    format!("queue:{name}")
}

/// Ours: what `identity` holds.
pub(crate) fn held(identity: &str) -> String {
    format!("weir:held:{identity}")
}

/// Ours: expires when `identity` gives no sign of life.
pub(crate) fn alive(identity: &str) -> String {
    format!("weir:alive:{identity}")
}

/// Ours: the field of the job that runs alone in `identity`.
pub(crate) fn alone(identity: &str) -> String {
    format!("weir:alone:{identity}")
}

/// Ours: the death of `identity` was counted.
pub(crate) fn counted(identity: &str) -> String {
    format!("weir:counted:{identity}")
}

/// Ours: who runs at `place` of the machine `hostname`.
pub(crate) fn place(hostname: &str, place: &str) -> String {
    format!("weir:place:{hostname}:{place}")
}

/// `stat` of the day of `now`.
pub(crate) fn dated(stat: &str, now: Timestamp) -> String {
    format!("{stat}:{}", now.date())
}

/// A name for this process, as Sidekiq's have: host, process, chance.
pub(crate) fn identity(hostname: &str, random: &Random) -> String {
    let mut nonce = [0; 6];
    random.fill(&mut nonce);
    let hex: String = nonce.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{hostname}:{}:{hex}", std::process::id())
}
