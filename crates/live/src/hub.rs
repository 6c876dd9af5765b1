//! Who is here, and handing events to them.

use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering::Relaxed};

use metrics::{Counter, Gauge};
use weir_base::{Clock, Random};

use crate::admission::Admission;
use crate::outbox::{Emptied, Offered, Seat};
use crate::registry::{Joined, Registry};
use crate::{Full, Limits, Session, Shared};

/// Sessions and topics of one process. Cheap to clone: all clones are the same hub.
///
/// `K` names a topic and is cloned for every delivery, so it should be small; `E` is an event.
pub struct Hub<K, E>(Arc<Inner<K, E>>);

impl<K, E> Clone for Hub<K, E> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

pub(crate) struct Inner<K, E> {
    pub(crate) limits: Limits,
    pub(crate) topics: Registry<K, K, E>,
    pub(crate) people: Registry<i64, K, E>,
    meters: Meters,
    admission: Admission,
    seats: AtomicU64,
    sessions: AtomicUsize,
    // Signed: a reader may take out what its publisher has not counted yet.
    outbox_bytes: AtomicI64,
    draining: AtomicBool,
    published: AtomicU64,
    delivered: AtomicU64,
    lost: AtomicU64,
}

/// What a hub holds and has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stats {
    /// Sessions now.
    pub sessions: usize,
    /// Different identities with a session now; identity 0 counts as one.
    pub identities: usize,
    /// Topics somebody listens to now.
    pub topics: usize,
    /// Bytes that wait in all outboxes, each session counted by itself.
    pub outbox_bytes: usize,
    /// Events published since the start.
    pub published: u64,
    /// Events put into outboxes since the start.
    pub delivered: u64,
    /// Sessions that overflowed since the start.
    pub lost: u64,
}

struct Meters {
    topics: Gauge,
    sessions: Gauge,
    outbox_bytes: Gauge,
    published: Counter,
    delivered: Counter,
    lost: Counter,
    refused: Counter,
}

impl Meters {
    fn new() -> Self {
        Self {
            topics: metrics::gauge!("weir_live_topics"),
            sessions: metrics::gauge!("weir_live_sessions"),
            outbox_bytes: metrics::gauge!("weir_live_outbox_bytes"),
            published: metrics::counter!("weir_live_events_published_total"),
            delivered: metrics::counter!("weir_live_events_delivered_total"),
            lost: metrics::counter!("weir_live_sessions_lost_total"),
            refused: metrics::counter!("weir_live_sessions_refused_total"),
        }
    }
}

impl<K, E> Hub<K, E>
where
    K: Eq + Hash + Clone + Send + Sync + 'static,
    E: Send + Sync + 'static,
{
    /// An empty hub.
    pub fn new(limits: Limits) -> Self {
        Self::with(limits, Clock::system(), Random::system())
    }

    /// An empty hub with the caller's clock and random source (its admission uses them).
    pub fn with(limits: Limits, clock: Clock, random: Random) -> Self {
        let admission =
            Admission::new(limits.arrivals_max, limits.arrivals_waiting_max, clock, random);
        Self(Arc::new(Inner {
            limits,
            topics: Registry::new(),
            people: Registry::new(),
            meters: Meters::new(),
            admission,
            seats: AtomicU64::new(0),
            sessions: AtomicUsize::new(0),
            outbox_bytes: AtomicI64::new(0),
            draining: AtomicBool::new(false),
            published: AtomicU64::new(0),
            delivered: AtomicU64::new(0),
            lost: AtomicU64::new(0),
        }))
    }

    /// A session for `identity`: an account's id, or 0 for nobody in particular.
    pub fn session(&self, identity: i64) -> Result<Session<K, E>, Full> {
        self.seat(identity).inspect_err(|_| self.0.meters.refused.increment(1))
    }

    fn seat(&self, identity: i64) -> Result<Session<K, E>, Full> {
        let inner = &self.0;
        if inner.draining.load(Relaxed) {
            return Err(Full::Draining);
        }
        let sessions_max = inner.limits.sessions_max;
        let room = |sessions| (sessions < sessions_max).then_some(sessions + 1);
        if inner.sessions.fetch_update(Relaxed, Relaxed, room).is_err() {
            return Err(Full::Hub { sessions_max });
        }
        let seat = Arc::new(Seat::new(inner.seats.fetch_add(1, Relaxed), identity));
        let sessions_max = match identity {
            0 => usize::MAX,
            _ => inner.limits.sessions_per_identity_max,
        };
        match inner.people.join(&identity, &seat, sessions_max) {
            Joined::New(person) => {
                inner.meters.sessions.increment(1.0);
                Ok(Session::new(inner.clone(), seat, person))
            }
            // A new seat's id is nobody else's, so it can't stand there already.
            Joined::Already | Joined::Full => {
                inner.sessions.fetch_sub(1, Relaxed);
                Err(Full::Identity { identity, sessions_max })
            }
        }
    }

    /// Puts `event` into the outbox of every session that listens to `topic`, and tells how many
    /// those are. Never waits for a session: one whose outbox is full is lost
    /// ([`Lost::Overflowed`](crate::Lost::Overflowed)), the others don't notice.
    ///
    /// Two events that one thread publishes arrive in that order.
    pub fn publish(&self, topic: &K, event: Arc<Shared<E>>) -> usize {
        self.count_published();
        self.deliver(topic, &event)
    }

    /// [`publish`](Self::publish) to several topics. A session that listens to two of them gets
    /// the event twice, once under each topic's name; the sum counts it twice.
    pub fn publish_to(&self, topics: impl Iterator<Item = K>, event: Arc<Shared<E>>) -> usize {
        self.count_published();
        topics.map(|topic| self.deliver(&topic, &event)).sum()
    }

    fn count_published(&self) {
        self.0.published.fetch_add(1, Relaxed);
        self.0.meters.published.increment(1);
    }

    fn deliver(&self, topic: &K, event: &Arc<Shared<E>>) -> usize {
        let inner = &self.0;
        let Some(group) = inner.topics.find(topic) else { return 0 };
        // Tasks are woken and dropped events freed after the locks: either may run code that
        // comes back to this hub.
        let (mut reached, mut wakers, mut emptied) = (0, Vec::new(), Vec::new());
        group.each(|seat| match seat.offer(topic, event, &inner.limits) {
            Offered::Taken(waker) => {
                reached += 1;
                wakers.extend(waker);
            }
            Offered::Overflowed(thrown_out) => emptied.push(thrown_out),
            Offered::Missed => {}
        });
        inner.outboxes_grew(event.size_bytes() * reached);
        inner.delivered.fetch_add(reached as u64, Relaxed);
        inner.meters.delivered.increment(reached as u64);
        inner.lost.fetch_add(emptied.len() as u64, Relaxed);
        inner.meters.lost.increment(emptied.len() as u64);
        wakers.into_iter().for_each(std::task::Waker::wake);
        emptied.into_iter().for_each(|thrown_out| inner.discard(thrown_out));
        reached
    }

    /// Whether `identity` has a session now.
    pub fn is_here(&self, identity: i64) -> bool {
        self.0.people.find(&identity).is_some()
    }

    /// The identities that have a session now, without 0, in no order.
    pub fn present(&self) -> Vec<i64> {
        self.0.people.all().map(|person| person.key).filter(|identity| *identity != 0).collect()
    }

    /// How many sessions listen to `topic`.
    pub fn listeners(&self, topic: &K) -> usize {
        self.0.topics.find(topic).map_or(0, |group| group.len())
    }

    /// Ends all sessions of `identity` (its access was withdrawn, say): each gets
    /// [`Lost::Closed`](crate::Lost::Closed) and nothing that waited. Tells how many those were.
    pub fn close(&self, identity: i64) -> usize {
        let Some(person) = self.0.people.find(&identity) else { return 0 };
        let mut closed = Vec::new();
        person.each(|seat| closed.extend(seat.close()));
        let count = closed.len();
        closed.into_iter().for_each(|emptied| self.0.discard(emptied));
        count
    }

    /// For a shutdown: takes nobody in from now on, and ends up to `slice_max` sessions. Tells how
    /// many still stand; called again at intervals it spreads the reconnecting.
    pub fn drain(&self, slice_max: usize) -> usize {
        self.0.draining.store(true, Relaxed);
        let mut closed = Vec::new();
        for person in self.0.people.all() {
            person.each(|seat| {
                if closed.len() < slice_max {
                    closed.extend(seat.close());
                }
            });
            if closed.len() >= slice_max {
                break;
            }
        }
        closed.into_iter().for_each(|emptied| self.0.discard(emptied));
        self.0.sessions.load(Relaxed)
    }

    /// The line in which those who arrive wait for their first data.
    pub fn admission(&self) -> &Admission {
        &self.0.admission
    }

    /// What the hub holds and has done.
    pub fn stats(&self) -> Stats {
        let inner = &self.0;
        Stats {
            sessions: inner.sessions.load(Relaxed),
            identities: inner.people.len(),
            topics: inner.topics.len(),
            outbox_bytes: inner.outbox_bytes.load(Relaxed).max(0) as usize,
            published: inner.published.load(Relaxed),
            delivered: inner.delivered.load(Relaxed),
            lost: inner.lost.load(Relaxed),
        }
    }
}

impl<K, E> Inner<K, E> {
    fn outboxes_grew(&self, size_bytes: usize) {
        if size_bytes > 0 {
            self.outbox_bytes.fetch_add(size_bytes as i64, Relaxed);
            self.meters.outbox_bytes.increment(size_bytes as f64);
        }
    }

    pub(crate) fn outboxes_shrank(&self, size_bytes: usize) {
        if size_bytes > 0 {
            self.outbox_bytes.fetch_sub(size_bytes as i64, Relaxed);
            self.meters.outbox_bytes.decrement(size_bytes as f64);
        }
    }

    fn discard(&self, emptied: Emptied<K, E>) {
        self.outboxes_shrank(emptied.size_bytes);
        drop(emptied.events);
        if let Some(waker) = emptied.waker {
            waker.wake();
        }
    }

    pub(crate) fn left(&self) {
        self.sessions.fetch_sub(1, Relaxed);
        self.meters.sessions.decrement(1.0);
    }
}

impl<K: Eq + Hash + Clone, E> Inner<K, E> {
    pub(crate) fn topics_changed(&self) {
        self.meters.topics.set(self.topics.len() as f64);
    }
}
