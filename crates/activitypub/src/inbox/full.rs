//! How much may wait behind the door.

use weir_base::Timestamp;
use weir_community::federation::AskOrigin;
use weir_jobs::Jobs;

/// Messages that may wait to be worked.
const INBOUND_MAX: u64 = 2_000_000;
/// Messages of one server that may wait to be worked.
const INBOUND_PER_HOST_MAX: u64 = 500_000;
/// Messages of unknown senders that may wait to be verified.
const UNKNOWN_MAX: u64 = 20_000;
/// Those of them from one server and one source.
const UNKNOWN_PER_LANE_MAX: u64 = 200;
/// What others say of third parties that may wait for an answer of those, in all and by one server.
const HEARSAY_MAX: u64 = 20_000;
const HEARSAY_PER_HOST_MAX: u64 = 500;
/// How old what is known of the queues may be, in ms.
const AGE_MAX_MS: i64 = 200;
/// Deepest lanes looked at.
const LANES: usize = 128;

/// What waits, as it was a moment ago.
#[derive(Default)]
pub(crate) struct Full {
    at: Timestamp,
    inbound: u64,
    unknown: u64,
    hearsay: u64,
    deep_inbound: Vec<String>,
    deep_unknown: Vec<String>,
    deep_hearsay: Vec<String>,
}

/// Why a message is not taken now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Too much waits in all.
    Everybody,
    /// Too much of this sender waits.
    Sender,
}

impl Full {
    fn look(&mut self, jobs: &Jobs, now: Timestamp) {
        if now.since_ms(self.at).abs() <= AGE_MAX_MS {
            return;
        }
        let queues = jobs.queues();
        let depth =
            |name: &str| queues.iter().find(|queue| queue.name == name).map_or(0, |q| q.depth);
        let deep = |name: &str, most: u64| -> Vec<String> {
            let lanes = jobs.lanes(name, LANES).into_iter();
            lanes.filter(|lane| lane.depth >= most).map(|lane| lane.lane).collect()
        };
        *self = Self {
            at: now,
            inbound: depth(super::work::QUEUE.name),
            unknown: depth(super::unknown::QUEUE.name),
            hearsay: depth(AskOrigin::QUEUE_NAME),
            deep_inbound: deep(super::work::QUEUE.name, INBOUND_PER_HOST_MAX),
            deep_unknown: deep(super::unknown::QUEUE.name, UNKNOWN_PER_LANE_MAX),
            deep_hearsay: deep(AskOrigin::QUEUE_NAME, HEARSAY_PER_HOST_MAX),
        };
    }

    /// Whether a message of a known sender at `host` is not taken.
    pub(super) fn inbound(&mut self, jobs: &Jobs, now: Timestamp, host: &str) -> Option<Refusal> {
        self.look(jobs, now);
        if self.deep_inbound.iter().any(|lane| lane == host) {
            return Some(Refusal::Sender);
        }
        (self.inbound >= INBOUND_MAX).then_some(Refusal::Everybody)
    }

    /// Whether what the server `host` says of a third party is not taken.
    pub(super) fn hearsay(&mut self, jobs: &Jobs, now: Timestamp, host: &str) -> Option<Refusal> {
        self.look(jobs, now);
        if self.deep_hearsay.iter().any(|lane| lane == host) {
            return Some(Refusal::Sender);
        }
        self.hearsay += 1;
        (self.hearsay > HEARSAY_MAX).then_some(Refusal::Everybody)
    }

    /// Whether a message of an unknown sender is not taken.
    pub(super) fn unknown(&mut self, jobs: &Jobs, now: Timestamp, lane: &str) -> Option<Refusal> {
        self.look(jobs, now);
        if self.deep_unknown.iter().any(|deep| deep == lane) {
            return Some(Refusal::Sender);
        }
        // What is taken between two looks counts too.
        self.unknown += 1;
        (self.unknown > UNKNOWN_MAX).then_some(Refusal::Everybody)
    }
}
