//! How much may wait behind the door: in all, of one server, from one network, and on the disk.
//! Whoever brings too much is told to come again, before anybody else is: nobody may hold more than
//! is still free for all others, so that the deepest are put off first, and the last of it is for
//! those who have next to nothing waiting.

use std::collections::HashMap;

use weir_base::Timestamp;
use weir_community::federation::{AskOrigin, order};
use weir_jobs::{Job, Jobs};

use super::crowd::Crowd;
use super::look_up::LookUp;
use super::pace::Pace;
use super::work::{Inbound, Late};

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
const HEARSAY_MAX: u64 = AskOrigin::WAITING_MAX;
const HEARSAY_PER_HOST_MAX: u64 = AskOrigin::WAITING_OF_ONE_MAX;
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
/// How long a message is taken to be that waited before this process knew of it, in bytes.
const TYPICAL_BYTES: u64 = 2 << 10;
/// One in so many of all places is for those who have few waiting: no more than one in so many.
const LAST_PART: u64 = 8;
const FEW_PART: u64 = 20_000;
/// Whoever is put off comes again when one in so many of what is in their way will have been
/// worked.
const AGAIN_PART: u64 = 8;
/// How old what is known of the queues may be, in ms.
const AGE_MAX_MS: i64 = 200;
/// Deepest lanes looked at; those of others are when something of them comes.
const LANES: usize = 128;
/// Lanes are looked at where so many wait in all, or as many as one may have: below, no lane is too
/// deep.
const LANES_FROM: u64 = 256;
/// The queues of messages whose senders are known.
const KNOWN: &[&str] = &[Inbound::QUEUE.name, Late::QUEUE.name, LookUp::QUEUE.name];
/// What others say of third parties.
const SAID: &[&str] = &[AskOrigin::QUEUE_NAME];

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
            waiting_per_host_max: u64::from(order::WAITING_PER_HOST_MAX),
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
    /// How long a message of a server with a deep lane is, in bytes, smoothed.
    mean_bytes: HashMap<String, u64>,
    /// What `inbound` takes.
    weight: Weight,
}

/// What waits in some queues, with lanes of the same names: what was seen, and what was taken
/// since.
#[derive(Default)]
struct Depths {
    queues: &'static [&'static str],
    total: u64,
    /// Whether so few wait that no lane is too deep.
    is_shallow: bool,
    lanes: HashMap<String, u64>,
}

impl Depths {
    fn look(
        jobs: &Jobs,
        depth: impl Fn(&str) -> u64,
        queues: &'static [&'static str],
        lane_max: u64,
    ) -> Self {
        let total = queues.iter().copied().map(depth).sum();
        let is_shallow = total < LANES_FROM.min(lane_max);
        let mut lanes = HashMap::new();
        for queue in queues.iter().filter(|_| !is_shallow) {
            for one in jobs.lanes(queue, LANES) {
                *lanes.entry(one.lane).or_default() += one.depth;
            }
        }
        Self { queues, total, is_shallow, lanes }
    }

    /// How many wait in `lane`; none where no lane can be too deep.
    fn of(&mut self, jobs: &Jobs, lane: &str) -> u64 {
        if self.is_shallow {
            return 0;
        }
        match self.lanes.get(lane) {
            Some(depth) => *depth,
            None => {
                let depth = self.queues.iter().map(|queue| jobs.depth_in(queue, lane)).sum();
                self.lanes.insert(lane.to_owned(), depth);
                depth
            }
        }
    }

    fn taken(&mut self, lane: &str) {
        self.total += 1;
        if let Some(depth) = self.lanes.get_mut(lane) {
            *depth += 1;
        }
    }

    /// How many are worked until `count` of the deepest lane are, as lanes take turns.
    fn ahead(&self, count: u64) -> u64 {
        self.lanes.values().map(|depth| (*depth).min(count)).sum::<u64>().max(count)
    }
}

/// What messages that wait take, in bytes: what came is added, and what was worked is taken to have
/// been as long as the others.
#[derive(Debug, Default)]
struct Weight {
    bytes: u64,
}

impl Weight {
    fn comes(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// Of `before` that waited `now` are left; of those this process did not know of, all.
    fn looks(&mut self, before: u64, now: u64) {
        self.bytes = match before {
            0 => now.saturating_mul(TYPICAL_BYTES),
            before => {
                let left = u128::from(self.bytes) * u128::from(now) / u128::from(before);
                u64::try_from(left).unwrap_or(u64::MAX)
            }
        };
    }

    /// How long one of `count` is.
    fn mean(&self, count: u64) -> u64 {
        self.bytes.checked_div(count).unwrap_or(TYPICAL_BYTES)
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
    let most = free.saturating_sub(all / LAST_PART).max(all / FEW_PART).max(1);
    if depth >= each.min(most) {
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
            weight: Weight::default(),
        }
    }

    fn look(&mut self, jobs: &Jobs, now: Timestamp) {
        if now.since_ms(self.at).abs() <= AGE_MAX_MS {
            return;
        }
        let queues = jobs.queues();
        let depth = |name: &str| queues.iter().find(|it| it.name == name).map_or(0, |it| it.depth);
        let before = self.inbound.total;
        self.inbound = Depths::look(jobs, depth, KNOWN, self.limits.waiting_per_host_max);
        self.hearsay = Depths::look(jobs, depth, SAID, HEARSAY_PER_HOST_MAX);
        self.weight.looks(before, self.inbound.total);
        self.pace.saw(now, [Inbound::KIND, Late::KIND, LookUp::KIND].map(|kind| jobs.done(kind)));
        let far = FAR_DISK_BYTES.saturating_sub(self.weight.bytes);
        self.free_bytes = (self.free_disk)().unwrap_or(far);
        self.at = now;
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
        let (depth, total) = (self.inbound.of(jobs, host), self.inbound.total);
        let InboxLimits { waiting_max, waiting_per_host_max, .. } = self.limits;
        let mut refusal = crowded(depth, waiting_per_host_max, total, waiting_max);
        if refusal != Some(Refusal::SENDER) && self.holds_too_much(host, depth, bytes as u64) {
            refusal = Some(Refusal::SENDER);
        }
        match refusal {
            Some(Refusal::Sender(otherwise)) => {
                let ahead = self.inbound.ahead(depth / AGAIN_PART);
                Some(Refusal::Sender(self.pace.again_s(ahead, otherwise)))
            }
            Some(Refusal::Everybody(otherwise)) => {
                Some(Refusal::Everybody(self.pace.again_s(total / AGAIN_PART, otherwise)))
            }
            None if self.disk_is_full() => Some(Refusal::EVERYBODY),
            None => {
                self.inbound.taken(host);
                self.weight.comes(bytes as u64);
                None
            }
        }
    }

    /// Whether what waits of `host` takes more of the disk than one server may.
    fn holds_too_much(&mut self, host: &str, depth: u64, bytes: u64) -> bool {
        if depth == 0 {
            return false;
        }
        let typical = self.weight.mean(self.inbound.total);
        let mean = self.mean_bytes.entry(host.to_owned()).or_insert(typical);
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
        let (depth, total) = (self.hearsay.of(jobs, host), self.hearsay.total);
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

    /// How many wait of each of so many greedy ones, which come one after the other.
    fn greedy(count: usize, each: u64, all: u64) -> Vec<u64> {
        let mut depths = vec![0_u64; count];
        for at in 0..count {
            let others: u64 = depths.iter().sum();
            while crowded(depths[at], each, others + depths[at], all).is_none() {
                depths[at] += 1;
            }
        }
        depths
    }

    #[test]
    fn the_deepest_are_put_off_first_and_who_has_little_waiting_is_taken_to_the_end() {
        let (each, all) = (5_000, 20_000);
        // As many as the subdomains of one, each as deep as it may be.
        for count in [4, 30, 300] {
            let depths = greedy(count, each, all);
            assert_eq!(depths[..3], [5_000, 5_000, 3_750]);
            let total: u64 = depths.iter().sum();
            assert!(all - total >= all / LAST_PART - count as u64, "{count}: {total}");
            assert_eq!(crowded(5_000, each, total, all), Some(Refusal::SENDER));
            assert_eq!(crowded(0, each, total, all), None, "{count} leave room to others");
        }
        assert_eq!(crowded(0, each, all, all), Some(Refusal::EVERYBODY));
        assert_eq!(crowded(1, each, all, all), Some(Refusal::SENDER));
        // Of two millions the last eighth is for those who have less than a hundred waiting.
        assert_eq!(crowded(99, 500_000, 1_999_999, 2_000_000), None);
        assert_eq!(crowded(100, 500_000, 1_999_999, 2_000_000), Some(Refusal::SENDER));
    }

    #[test]
    fn a_few_large_messages_weigh_what_they_are_however_many_wait() {
        let mut weight = Weight::default();
        weight.looks(0, 1_000_000);
        assert_eq!(weight.mean(1_000_000), TYPICAL_BYTES, "those from before a start");
        weight.comes(1 << 20);
        weight.comes(1 << 20);
        assert_eq!(weight.bytes, 1_000_000 * TYPICAL_BYTES + (2 << 20));
        weight.looks(1_000_002, 500_001);
        assert_eq!(weight.bytes, 500_000 * TYPICAL_BYTES + (1 << 20));
        weight.looks(500_001, 0);
        assert_eq!((weight.bytes, weight.mean(0)), (0, TYPICAL_BYTES));
    }

    #[test]
    fn what_is_in_the_way_is_no_more_of_each_other_lane_than_of_ones_own() {
        let lanes =
            [("deep", 500_000), ("other", 200_000)].map(|(name, depth)| (name.into(), depth));
        let few = (0..100).map(|number| (format!("few{number}"), 2));
        let depths = Depths { lanes: lanes.into_iter().chain(few).collect(), ..Depths::default() };
        assert_eq!(depths.ahead(62_500), 62_500 + 62_500 + 200);
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
