//! What was published lately, for those who come back.
//!
//! All topics of a hub share one sequence of offsets, so that a client that listens to many needs
//! one [`Cursor`]. The log holds the newest events with the topics each went to, and an index by
//! topic; what one topic missed is found without looking at the others' events.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::hash::Hash;
use std::str::FromStr;
use std::sync::Arc;

use metrics::{Counter, Gauge};
use weir_base::{Random, Timestamp};

use crate::outbox::Batch;
use crate::{LogLimits, Shared};

/// A place in what a hub published: everything up to `offset` was seen. Written `epoch-offset`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cursor {
    /// Which run of which process gave the offset: offsets of others mean nothing here.
    pub epoch: u64,
    /// The [`Shared::offset`] of the last event seen.
    pub offset: u64,
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}-{}", self.epoch, self.offset)
    }
}

/// Not a cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a cursor is written EPOCH-OFFSET, as it was given")]
pub struct BadCursor;

impl FromStr for Cursor {
    type Err = BadCursor;

    fn from_str(text: &str) -> Result<Self, BadCursor> {
        let (epoch, offset) = text.split_once('-').ok_or(BadCursor)?;
        let epoch = u64::from_str_radix(epoch, 16).map_err(|_| BadCursor)?;
        let offset = offset.parse().map_err(|_| BadCursor)?;
        Ok(Self { epoch, offset })
    }
}

/// What was missed is not known any more: the client has to read the state anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Gone {
    /// The cursor is of another process, an earlier run, or a time that was forgotten.
    #[error("the cursor is of another run of the server: read the state anew")]
    OtherEpoch,
    /// More happened since than is kept.
    #[error("too much happened since, or too long ago: read the state anew")]
    TooOld,
}

/// The newest events of a hub.
pub(crate) struct Log<K, E> {
    limits: LogLimits,
    epoch: u64,
    /// The offset of the newest event, kept or not.
    newest: u64,
    /// The offset before the oldest event that is kept.
    floor: u64,
    entries: VecDeque<Entry<K, E>>,
    by_topic: HashMap<K, VecDeque<u64>>,
    size_bytes: usize,
    meters: Meters,
}

struct Entry<K, E> {
    at: Timestamp,
    topics: Box<[K]>,
    event: Arc<Shared<E>>,
}

struct Meters {
    events: Gauge,
    bytes: Gauge,
    resumed: Counter,
    replayed: Counter,
    gone: Counter,
}

impl<K: Eq + Hash + Clone, E> Log<K, E> {
    pub(crate) fn new(limits: LogLimits, random: &Random) -> Self {
        let meters = Meters {
            events: metrics::gauge!("weir_live_log_events"),
            bytes: metrics::gauge!("weir_live_log_bytes"),
            resumed: metrics::counter!("weir_live_resumed_total"),
            replayed: metrics::counter!("weir_live_events_replayed_total"),
            gone: metrics::counter!("weir_live_resume_refused_total"),
        };
        Self {
            limits,
            epoch: epoch(random),
            newest: 0,
            floor: 0,
            entries: VecDeque::new(),
            by_topic: HashMap::new(),
            size_bytes: 0,
            meters,
        }
    }

    /// Gives the event its offset and keeps it as far as the bounds allow.
    pub(crate) fn append(&mut self, topics: &[K], event: &Arc<Shared<E>>, now: Timestamp) {
        self.newest += 1;
        event.set_offset(self.newest);
        if self.limits.events_max == 0 {
            self.floor = self.newest;
            return;
        }
        for topic in topics {
            let offsets = match self.by_topic.get_mut(topic) {
                Some(offsets) => offsets,
                None => self.by_topic.entry(topic.clone()).or_default(),
            };
            // An event that names a topic twice went there once.
            if offsets.back() != Some(&self.newest) {
                offsets.push_back(self.newest);
            }
        }
        self.size_bytes = self.size_bytes.saturating_add(event.held_bytes());
        self.entries.push_back(Entry { at: now, topics: topics.into(), event: event.clone() });
        self.shrink(now);
    }

    fn shrink(&mut self, now: Timestamp) {
        while let Some(oldest) = self.entries.front() {
            let limits = &self.limits;
            let fits = self.entries.len() <= limits.events_max
                && self.size_bytes <= limits.bytes_max
                && self.by_topic.len() <= limits.topics_max
                && now.since_ms(oldest.at) <= limits.age_ms_max;
            if fits {
                break;
            }
            self.drop_oldest();
        }
        self.meters.events.set(self.entries.len() as f64);
        self.meters.bytes.set(self.size_bytes as f64);
    }

    fn drop_oldest(&mut self) {
        let Some(entry) = self.entries.pop_front() else { return };
        self.floor += 1;
        self.size_bytes = self.size_bytes.saturating_sub(entry.event.held_bytes());
        for topic in &entry.topics {
            if let Some(offsets) = self.by_topic.get_mut(topic) {
                if offsets.front() == Some(&self.floor) {
                    offsets.pop_front();
                }
                if offsets.is_empty() {
                    self.by_topic.remove(topic);
                }
            }
        }
    }

    /// Forgets everything, and every cursor given so far: something was lost that cannot be told.
    /// Answers the new epoch.
    pub(crate) fn forget(&mut self, random: &Random) -> u64 {
        self.epoch = epoch(random);
        // Who has the last event of before, by whatever name, is not behind the loss.
        self.newest += 1;
        self.floor = self.newest;
        self.entries = VecDeque::new();
        self.by_topic = HashMap::new();
        self.size_bytes = 0;
        self.meters.events.set(0.0);
        self.meters.bytes.set(0.0);
        self.epoch
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The offset of the newest event.
    pub(crate) fn newest(&self) -> u64 {
        self.newest
    }

    /// What was published to `topics` since, oldest first, each event by every topic that it
    /// names.
    pub(crate) fn since(
        &mut self,
        topics: &[K],
        cursor: Cursor,
        now: Timestamp,
    ) -> Result<Batch<K, E>, Gone> {
        self.shrink(now);
        let known = if cursor.epoch != self.epoch || cursor.offset > self.newest {
            Err(Gone::OtherEpoch)
        } else if cursor.offset < self.floor {
            Err(Gone::TooOld)
        } else {
            Ok(())
        };
        known.inspect_err(|_| self.meters.gone.increment(1))?;
        let mut missed: Vec<(u64, &K)> = Vec::new();
        for topic in topics {
            let Some(offsets) = self.by_topic.get(topic) else { continue };
            let from = offsets.partition_point(|offset| *offset <= cursor.offset);
            missed.extend(offsets.range(from..).map(|offset| (*offset, topic)));
        }
        missed.sort_by_key(|(offset, _)| *offset);
        let event = |offset: u64| self.entries.get((offset - self.floor - 1) as usize);
        let batch: Batch<K, E> = missed
            .into_iter()
            .filter_map(|(offset, topic)| Some((topic.clone(), event(offset)?.event.clone())))
            .collect();
        self.meters.resumed.increment(1);
        self.meters.replayed.increment(batch.len() as u64);
        Ok(batch)
    }
}

fn epoch(random: &Random) -> u64 {
    // Fits a double, for clients that read numbers so.
    random.below(1 << 48).max(1)
}
