//! How much may wait behind the door: in all, of one server, from one network, and on the disk.
//! Whoever brings too much is told to come again, before anybody else is.

use std::collections::HashMap;

use moka::sync::Cache;
use weir_base::Timestamp;
use weir_community::federation::AskOrigin;
use weir_jobs::Jobs;

/// Messages that may wait to be worked.
const INBOUND_MAX: u64 = 2_000_000;
/// Messages of one server that may wait to be worked.
const INBOUND_PER_HOST_MAX: u64 = 500_000;
/// What the messages of one server that wait to be worked may take, in bytes, where that is less
/// than an eighth of the free disk.
const INBOUND_PER_HOST_BYTES_MAX: u64 = 4 << 30;
/// So much, in bytes, each server's may take however little disk is free.
const INBOUND_PER_HOST_BYTES_MIN: u64 = 16 << 20;
/// Messages of unknown senders that may wait to be verified.
const UNKNOWN_MAX: u64 = 100_000;
/// Those of them from one source.
const UNKNOWN_PER_SOURCE_MAX: u64 = 10_000;
/// Those of them from one server and one source.
const UNKNOWN_PER_LANE_MAX: u64 = 1_000;
/// What others say of third parties that may wait for an answer of those, in all and by one server.
const HEARSAY_MAX: u64 = 20_000;
const HEARSAY_PER_HOST_MAX: u64 = 500;
/// What stays free on the disk, in bytes: for what people here write, and to drain what waits.
const DISK_RESERVE_BYTES: u64 = 256 << 20;
/// How old what is known of the queues may be, in ms.
const AGE_MAX_MS: i64 = 200;
/// Deepest lanes looked at, and those of unknown senders.
const LANES: usize = 128;
const UNKNOWN_LANES: usize = UNKNOWN_MAX as usize;
/// Lanes are looked at where so many wait in all: below, no lane is too deep.
const LANES_FROM: u64 = 256;

/// The bytes that are free on the database's disk, where that can be known.
pub type FreeDisk = Box<dyn Fn() -> Option<u64> + Send + Sync>;

/// What waits, as it was a moment ago.
pub(crate) struct Full {
    at: Timestamp,
    free_disk: FreeDisk,
    free_bytes: Option<u64>,
    inbound: Depths,
    unknown: Depths,
    /// Of these, how many are put off, by lane.
    put_off: Cache<String, u64>,
    /// Of unknown senders, by the network they came from.
    sources: HashMap<String, u64>,
    hearsay: Depths,
    /// How long a message of a server with a deep lane is, in bytes, smoothed.
    mean_bytes: HashMap<String, u64>,
}

/// What waits in a queue: what was seen, and what was taken since.
#[derive(Default)]
struct Depths {
    total: u64,
    lanes: HashMap<String, u64>,
}

impl Depths {
    fn look(jobs: &Jobs, name: &str, total: u64, lanes_max: usize) -> Self {
        let mut lanes = HashMap::new();
        if total >= LANES_FROM {
            lanes.extend(jobs.lanes(name, lanes_max).into_iter().map(|one| (one.lane, one.depth)));
        }
        Self { total, lanes }
    }

    /// What waits in another queue with lanes of the same names counts too.
    fn add(&mut self, other: Self) {
        self.total += other.total;
        for (lane, depth) in other.lanes {
            *self.lanes.entry(lane).or_default() += depth;
        }
    }

    fn of(&self, lane: &str) -> u64 {
        self.lanes.get(lane).copied().unwrap_or(0)
    }

    fn taken(&mut self, lane: &str) {
        self.total += 1;
        if let Some(depth) = self.lanes.get_mut(lane) {
            *depth += 1;
        }
    }
}

/// Why a message is not taken now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Too much waits in all, or the disk is nearly full.
    Everybody,
    /// Too much of this sender waits.
    Sender,
}

impl Full {
    /// Nothing is known yet.
    pub(crate) fn new(free_disk: FreeDisk, put_off: Cache<String, u64>) -> Self {
        Self {
            at: Timestamp::default(),
            free_disk,
            free_bytes: None,
            inbound: Depths::default(),
            unknown: Depths::default(),
            put_off,
            sources: HashMap::new(),
            hearsay: Depths::default(),
            mean_bytes: HashMap::new(),
        }
    }

    fn look(&mut self, jobs: &Jobs, now: Timestamp) {
        if now.since_ms(self.at).abs() <= AGE_MAX_MS {
            return;
        }
        let queues = jobs.queues();
        let look = |name: &str, lanes_max| {
            let total = queues.iter().find(|queue| queue.name == name).map_or(0, |q| q.depth);
            Depths::look(jobs, name, total, lanes_max)
        };
        self.at = now;
        self.free_bytes = (self.free_disk)();
        self.inbound = look(super::work::QUEUE.name, LANES);
        self.inbound.add(look(super::work::LATE_QUEUE.name, LANES));
        self.inbound.add(look(super::look_up::QUEUE.name, LANES));
        self.unknown = look(super::unknown::QUEUE.name, UNKNOWN_LANES);
        let put_off = self.put_off.iter().map(|(lane, count)| (lane.to_string(), count));
        let lanes: HashMap<String, u64> = put_off.collect();
        self.unknown.add(Depths { total: lanes.values().sum(), lanes });
        self.hearsay = look(AskOrigin::QUEUE_NAME, LANES);
        let inbound = &self.inbound.lanes;
        self.mean_bytes.retain(|host, _| inbound.contains_key(host));
        self.sources.clear();
        for (lane, depth) in &self.unknown.lanes {
            // A lane of this queue is a server and a source.
            let source = lane.rsplit(' ').next().unwrap_or_default();
            *self.sources.entry(source.to_owned()).or_default() += depth;
        }
    }

    fn disk_is_full(&self) -> bool {
        self.free_bytes.is_some_and(|free| free < DISK_RESERVE_BYTES)
    }

    /// Whether a message of `bytes` bytes of a known sender at `host` is not taken.
    pub(super) fn inbound(
        &mut self,
        jobs: &Jobs,
        now: Timestamp,
        host: &str,
        bytes: usize,
    ) -> Option<Refusal> {
        self.look(jobs, now);
        let depth = self.inbound.of(host);
        if depth >= INBOUND_PER_HOST_MAX || self.holds_too_much(host, depth, bytes as u64) {
            return Some(Refusal::Sender);
        }
        if self.inbound.total >= INBOUND_MAX || self.disk_is_full() {
            return Some(Refusal::Everybody);
        }
        self.inbound.taken(host);
        None
    }

    /// Whether what waits of `host` takes more of the disk than one server may.
    fn holds_too_much(&mut self, host: &str, depth: u64, bytes: u64) -> bool {
        if depth == 0 {
            return false;
        }
        let mean = self.mean_bytes.entry(host.to_owned()).or_insert(bytes);
        *mean = (*mean * 15 + bytes) / 16;
        let free = self.free_bytes.unwrap_or(u64::MAX);
        let most = (free / 8).clamp(INBOUND_PER_HOST_BYTES_MIN, INBOUND_PER_HOST_BYTES_MAX);
        depth.saturating_mul(*mean) > most
    }

    /// Whether what the server `host` says of a third party is not taken.
    pub(super) fn hearsay(&mut self, jobs: &Jobs, now: Timestamp, host: &str) -> Option<Refusal> {
        self.look(jobs, now);
        if self.hearsay.of(host) >= HEARSAY_PER_HOST_MAX {
            return Some(Refusal::Sender);
        }
        if self.hearsay.total >= HEARSAY_MAX || self.disk_is_full() {
            return Some(Refusal::Everybody);
        }
        self.hearsay.taken(host);
        None
    }

    /// Whether a message of an unknown sender is not taken, that would wait in `lane` and came
    /// from `source`.
    pub(super) fn unknown(
        &mut self,
        jobs: &Jobs,
        now: Timestamp,
        lane: &str,
        source: &str,
    ) -> Option<Refusal> {
        self.look(jobs, now);
        let of_source = self.sources.get(source).copied().unwrap_or(0);
        if self.unknown.of(lane) >= UNKNOWN_PER_LANE_MAX || of_source >= UNKNOWN_PER_SOURCE_MAX {
            return Some(Refusal::Sender);
        }
        if self.unknown.total >= UNKNOWN_MAX || self.disk_is_full() {
            return Some(Refusal::Everybody);
        }
        self.unknown.taken(lane);
        *self.sources.entry(source.to_owned()).or_default() += 1;
        None
    }
}
