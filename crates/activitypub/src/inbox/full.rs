//! How much may wait behind the door: in all, of one server, from one network, and on the disk.
//! Whoever brings too much is told to come again, before anybody else is: nobody may hold more than
//! is still free for all others, so that the deepest are put off first, and who has little waiting
//! is taken until nothing is left at all.

use std::collections::HashMap;

use weir_base::Timestamp;
use weir_community::federation::{AskOrigin, INBOUND, INBOUND_LATE};
use weir_jobs::Jobs;

use super::crowd::Crowd;
use super::pace::Pace;

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
/// A message of an unknown sender is taken while all that wait from its source, and all in all, if
/// they were as large, would take no more than this, in bytes, where that is less than a 64th and a
/// quarter of the free disk; nor than that, however little is free.
const UNKNOWN_PER_SOURCE_BYTES_MAX: u64 = 64 << 20;
const UNKNOWN_PER_SOURCE_BYTES_MIN: u64 = 4 << 20;
const UNKNOWN_BYTES_MAX: u64 = 1 << 30;
const UNKNOWN_BYTES_MIN: u64 = 64 << 20;
/// What others say of third parties that may wait for an answer of those, in all and by one server.
const HEARSAY_MAX: u64 = 20_000;
const HEARSAY_PER_HOST_MAX: u64 = 500;
/// What stays free on the disk, in bytes: for what people here write, and to drain what waits, for
/// which SQLite's log may have to grow once more to its 256 MiB.
const DISK_RESERVE_BYTES: u64 = 512 << 20;
/// What messages of unknown senders leave free, in bytes: they shut the door to nobody else.
const UNKNOWN_RESERVE_BYTES: u64 = DISK_RESERVE_BYTES + (256 << 20);
/// When to come again, in s, where too much of one sender waits, and where too much waits in all,
/// while it is not known how fast it is worked.
const SENDER_AGAIN_S: u32 = 300;
const EVERYBODY_AGAIN_S: u32 = 60;
/// Where nobody can tell what is free on the database's disk (PostgreSQL's may be another
/// machine's), what waits is taken to have had so much, in bytes: 32 GiB.
const FAR_DISK_BYTES: u64 = 32 << 30;
/// How old what is known of the queues may be, in ms.
const AGE_MAX_MS: i64 = 200;
/// Deepest lanes looked at.
const LANES: usize = 128;
/// Lanes are looked at where so many wait in all, or as many as one may have: below, no lane is too
/// deep.
const LANES_FROM: u64 = 256;

/// What the door takes before it tells others to come again.
#[derive(Debug, Clone, Copy)]
pub struct InboxLimits {
    /// Messages that may wait to be worked.
    pub waiting_max: u64,
    /// Those of them of one server.
    pub waiting_per_host_max: u64,
    /// What the bodies that are being read or judged may take of the memory, in bytes; those from
    /// one network a quarter of that.
    pub bodies_bytes_max: usize,
}

impl Default for InboxLimits {
    fn default() -> Self {
        Self {
            waiting_max: 2_000_000,
            waiting_per_host_max: 500_000,
            // With messages of usual size tens of thousands at once.
            bodies_bytes_max: 128 << 20,
        }
    }
}

/// The bytes that are free on the database's disk, where that can be known.
pub type FreeDisk = Box<dyn Fn() -> Option<u64> + Send + Sync>;

/// What waits, as it was a moment ago.
pub(crate) struct Full {
    limits: InboxLimits,
    at: Timestamp,
    free_disk: FreeDisk,
    free_bytes: u64,
    inbound: Depths,
    pace: Pace,
    /// Of unknown senders.
    pub(super) crowd: Crowd,
    hearsay: Depths,
    /// How long a message of a server with a deep lane is, in bytes, smoothed; and one of anybody.
    mean_bytes: HashMap<String, u64>,
    mean_of_all_bytes: u64,
}

/// What waits in a queue: what was seen, and what was taken since.
#[derive(Default)]
struct Depths {
    total: u64,
    lanes: HashMap<String, u64>,
}

impl Depths {
    fn look(jobs: &Jobs, name: &str, total: u64, lane_max: u64) -> Self {
        let mut lanes = HashMap::new();
        if total >= LANES_FROM.min(lane_max) {
            lanes.extend(jobs.lanes(name, LANES).into_iter().map(|one| (one.lane, one.depth)));
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

/// Why a message is not taken now, and when to come again, in s.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Too much waits in all, or the disk is nearly full.
    Everybody(u32),
    /// Too much of this sender waits.
    Sender(u32),
}

impl Refusal {
    /// Nobody is taken for a while.
    pub(super) const EVERYBODY: Self = Self::Everybody(EVERYBODY_AGAIN_S);
    /// This sender is not.
    pub(super) const SENDER: Self = Self::Sender(SENDER_AGAIN_S);
}

/// Whether one of whom `depth` messages wait brings too much, where each may have `each`, and all
/// together `all`, of which `total` wait.
fn crowded(depth: u64, each: u64, total: u64, all: u64) -> Option<Refusal> {
    let free = all.saturating_sub(total);
    if depth > 0 && depth >= each.min(free) {
        Some(Refusal::SENDER)
    } else if free == 0 {
        Some(Refusal::EVERYBODY)
    } else {
        None
    }
}

impl Full {
    /// Nothing is known yet.
    pub(crate) fn new(limits: InboxLimits, free_disk: FreeDisk) -> Self {
        Self {
            limits,
            at: Timestamp::default(),
            free_disk,
            free_bytes: u64::MAX,
            inbound: Depths::default(),
            pace: Pace::default(),
            crowd: Crowd::default(),
            hearsay: Depths::default(),
            mean_bytes: HashMap::new(),
            mean_of_all_bytes: 0,
        }
    }

    fn look(&mut self, jobs: &Jobs, now: Timestamp) {
        if now.since_ms(self.at).abs() <= AGE_MAX_MS {
            return;
        }
        let queues = jobs.queues();
        let look = |name: &str, lane_max| {
            let total = queues.iter().find(|queue| queue.name == name).map_or(0, |q| q.depth);
            Depths::look(jobs, name, total, lane_max)
        };
        let per_host = self.limits.waiting_per_host_max;
        let (known, elapsed_ms) = (self.at != Timestamp::default(), now.since_ms(self.at));
        let before = self.inbound.total;
        self.at = now;
        self.inbound = look(INBOUND.name, per_host);
        self.inbound.add(look(INBOUND_LATE.name, per_host));
        self.inbound.add(look(super::look_up::QUEUE.name, per_host));
        if known {
            self.pace.saw(before.saturating_sub(self.inbound.total), elapsed_ms);
        }
        self.hearsay = look(AskOrigin::QUEUE_NAME, HEARSAY_PER_HOST_MAX);
        self.free_bytes = (self.free_disk)().unwrap_or_else(|| {
            FAR_DISK_BYTES.saturating_sub(self.inbound.total.saturating_mul(self.mean_of_all_bytes))
        });
        let inbound = &self.inbound.lanes;
        self.mean_bytes.retain(|host, _| inbound.contains_key(host));
    }

    fn disk_is_full(&self) -> bool {
        self.is_below(DISK_RESERVE_BYTES)
    }

    fn is_below(&self, reserve_bytes: u64) -> bool {
        self.free_bytes < reserve_bytes
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
        let (depth, total) = (self.inbound.of(host), self.inbound.total);
        let InboxLimits { waiting_max, waiting_per_host_max, .. } = self.limits;
        let refusal = if self.holds_too_much(host, depth, bytes as u64) {
            Some(Refusal::SENDER)
        } else if self.disk_is_full() {
            Some(Refusal::EVERYBODY)
        } else {
            crowded(depth, waiting_per_host_max, total, waiting_max)
        };
        let lanes = self.inbound.lanes.len();
        match refusal {
            Some(Refusal::Sender(otherwise)) => {
                Some(Refusal::Sender(self.pace.again_s(depth, lanes, otherwise)))
            }
            Some(Refusal::Everybody(otherwise)) => {
                Some(Refusal::Everybody(self.pace.again_s(total, 1, otherwise)))
            }
            None => {
                self.inbound.taken(host);
                let (mean, bytes) = (self.mean_of_all_bytes, bytes as u64);
                self.mean_of_all_bytes = if mean == 0 { bytes } else { (mean * 63 + bytes) / 64 };
                None
            }
        }
    }

    /// Whether what waits of `host` takes more of the disk than one server may.
    fn holds_too_much(&mut self, host: &str, depth: u64, bytes: u64) -> bool {
        if depth == 0 {
            return false;
        }
        let mean = self.mean_bytes.entry(host.to_owned()).or_insert(bytes);
        *mean = (*mean * 15 + bytes) / 16;
        let free = self.free_bytes.saturating_sub(DISK_RESERVE_BYTES);
        let most = (free / 8).clamp(INBOUND_PER_HOST_BYTES_MIN, INBOUND_PER_HOST_BYTES_MAX);
        depth.saturating_mul(*mean) > most
    }

    /// Whether what the server `host` says of a third party is not taken.
    pub(super) fn hearsay(&mut self, jobs: &Jobs, now: Timestamp, host: &str) -> Option<Refusal> {
        self.look(jobs, now);
        if self.disk_is_full() {
            return Some(Refusal::EVERYBODY);
        }
        let (depth, total) = (self.hearsay.of(host), self.hearsay.total);
        let refusal = crowded(depth, HEARSAY_PER_HOST_MAX, total, HEARSAY_MAX);
        if refusal.is_none() {
            self.hearsay.taken(host);
        }
        refusal
    }

    /// Whether a message of `bytes` bytes of an unknown sender is not taken, that would wait in
    /// `lane`. If it is, it comes: see [`Crowd`].
    pub(super) fn unknown(
        &mut self,
        jobs: &Jobs,
        now: Timestamp,
        lane: &str,
        bytes: usize,
    ) -> Option<Refusal> {
        self.look(jobs, now);
        let (of_source, total) = (self.crowd.of_source(lane), self.crowd.total());
        if self.crowd.of_lane(lane) >= UNKNOWN_PER_LANE_MAX {
            return Some(Refusal::SENDER);
        }
        if self.is_below(UNKNOWN_RESERVE_BYTES) {
            return Some(Refusal::EVERYBODY);
        }
        let refusal = crowded(of_source, UNKNOWN_PER_SOURCE_MAX, total, UNKNOWN_MAX)
            .or_else(|| too_large(self.free_bytes, bytes as u64, of_source, total));
        if refusal.is_none() {
            self.crowd.comes(lane);
        }
        refusal
    }
}

/// Whether a message of an unknown sender is larger than what is left for it, with so many that
/// wait of its source and in all. So no sizes need be kept, and a large one finds room where few
/// wait; sizes that fall as the number grows may come to a few times the bound.
fn too_large(free: u64, bytes: u64, of_source: u64, total: u64) -> Option<Refusal> {
    let source = (free / 64).clamp(UNKNOWN_PER_SOURCE_BYTES_MIN, UNKNOWN_PER_SOURCE_BYTES_MAX);
    let all = (free / 4).clamp(UNKNOWN_BYTES_MIN, UNKNOWN_BYTES_MAX);
    if bytes.saturating_mul(of_source + 1) > source {
        Some(Refusal::SENDER)
    } else if bytes.saturating_mul(total + 1) > all {
        Some(Refusal::EVERYBODY)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deepest_are_put_off_first_and_who_has_little_waiting_is_taken_to_the_end() {
        let (each, all) = (500_000, 2_000_000);
        let mut depths = [0_u64; 8];
        for at in 0..depths.len() {
            while crowded(depths[at], each, depths.iter().sum(), all).is_none() {
                depths[at] += 1_000;
            }
        }
        let total: u64 = depths.iter().sum();
        assert_eq!(depths[..4], [500_000, 500_000, 500_000, 250_000]);
        assert_eq!(crowded(500_000, each, total, all), Some(Refusal::SENDER));
        assert_eq!(crowded(0, each, total, all), None, "eight greedy ones leave some to others");
        assert_eq!(crowded(1_000, each, total, all), None);
        assert_eq!(crowded(0, each, all, all), Some(Refusal::EVERYBODY));
        assert_eq!(crowded(1, each, all, all), Some(Refusal::SENDER));
    }

    #[test]
    fn large_messages_of_unknown_senders_find_room_while_few_wait() {
        let (disk, mib, kib) = (100 << 30, 1 << 20, 1 << 10);
        assert_eq!(too_large(disk, mib, 63, 63), None);
        assert_eq!(too_large(disk, mib, 64, 64), Some(Refusal::SENDER));
        assert_eq!(too_large(disk, 6 * kib, 9_999, 99_999), None);
        assert_eq!(too_large(disk, mib, 1, 1_024), Some(Refusal::EVERYBODY));
        // A small disk has room for small ones.
        assert_eq!(too_large(600 << 20, mib, 8, 8), None);
        assert_eq!(too_large(600 << 20, mib, 9, 9), Some(Refusal::SENDER));
    }
}
