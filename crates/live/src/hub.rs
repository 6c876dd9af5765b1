//! Who is here, and handing events to them.

use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering::Relaxed};

use std::sync::OnceLock;
use std::time::Duration;

use metrics::{Counter, Gauge};
use parking_lot::Mutex;
use weir_base::{Clock, Random};

use crate::admission::Admission;
use crate::awaited::Awaited;
use crate::log::{Cursor, Log};
use crate::outbox::{Emptied, Offered, Seat};
use crate::registry::{Joined, Registry};
use crate::rouse::Rouse;
use crate::{Class, Full, Limits, Moved, Presence, PresenceLimits, Session, Shared};

/// Groups of sessions whose connections are looked after in turn.
const BEATS: u8 = 60;
/// At a shutdown, sessions ended at once at least: few people are no stampede.
const SLICE_MIN: usize = 50;
/// How often a slice of the sessions is ended at a shutdown.
const SLICE_EACH: Duration = Duration::from_millis(50);

/// Looks at each event as it is published, before anybody gets it.
type Tap<K, E> = Box<dyn Fn(&K, &Shared<E>) + Send + Sync>;

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
    pub(crate) beats: Registry<u8, K, E>,
    /// Held while an event is published, so that each session gets events in their order.
    pub(crate) log: Mutex<Log<K, E>>,
    pub(crate) awaited: Awaited,
    pub(crate) presence: Presence<()>,
    rouse: Arc<Rouse>,
    pub(crate) clock: Clock,
    random: Random,
    taps: OnceLock<Tap<K, E>>,
    meters: Meters,
    admission: Admission,
    beat: AtomicU64,
    epoch: AtomicU64,
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
    dropped: Counter,
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
            dropped: metrics::counter!("weir_live_events_left_out_total"),
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

    /// An empty hub with the caller's clock and random source.
    pub fn with(limits: Limits, clock: Clock, random: Random) -> Self {
        let (at_once, waiting_max) = (limits.arrivals_max, limits.arrivals_waiting_max);
        let presence =
            PresenceLimits { places_max: limits.sessions_max, ..PresenceLimits::default() };
        let admission = Admission::new(at_once, waiting_max, clock.clone(), random.clone());
        let log = Log::new(limits.log, &random);
        Self(Arc::new(Inner {
            epoch: AtomicU64::new(log.epoch()),
            limits,
            topics: Registry::new(),
            people: Registry::new(),
            beats: Registry::new(),
            log: Mutex::new(log),
            awaited: Awaited::new(limits.log.age_ms_max, limits.log.awaited_max),
            presence: Presence::new(presence, clock.clone()),
            rouse: Arc::new(Rouse::new(limits.sessions_max)),
            clock,
            random,
            taps: OnceLock::new(),
            meters: Meters::new(),
            admission,
            beat: AtomicU64::new(0),
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
        inner.rouse.lives_here();
        let seat = Arc::new(Seat::new(inner.seats.fetch_add(1, Relaxed), identity));
        let sessions_max = match identity {
            0 => usize::MAX,
            _ => inner.limits.sessions_per_identity_max,
        };
        let beat = (seat.id % u64::from(BEATS)) as u8;
        // A new seat's id is nobody else's, so it can't stand anywhere already.
        if let Joined::New(person) = inner.people.join(&identity, &seat, sessions_max) {
            if let Joined::New(beats) = inner.beats.join(&beat, &seat, usize::MAX) {
                inner.meters.sessions.increment(1.0);
                if identity != 0 {
                    inner.presence.enter(&(), identity);
                }
                return Ok(Session::new(inner.clone(), seat, person, beats));
            }
            inner.people.leave(&person, seat.id);
        }
        inner.sessions.fetch_sub(1, Relaxed);
        Err(Full::Identity { identity, sessions_max })
    }

    /// Puts `event` into the outbox of every session that listens to `topic`, and tells how many
    /// those are. Never waits for a session: what becomes of an event at one whose outbox is full
    /// is said by its [`Class`]; the others don't notice.
    ///
    /// Every session gets events in the order in which they were published, by whomever. An event
    /// is published once; it gets its [`offset`](Shared::offset) here.
    pub fn publish(&self, topic: &K, event: Arc<Shared<E>>) -> usize {
        self.deliver(std::slice::from_ref(topic), &event)
    }

    /// [`publish`](Self::publish) to several topics. A session that listens to two of them gets
    /// the event twice, once under each topic's name; the sum counts it twice.
    pub fn publish_to(&self, topics: impl Iterator<Item = K>, event: Arc<Shared<E>>) -> usize {
        let topics: Vec<K> = topics.collect();
        self.deliver(&topics, &event)
    }

    /// Has `tap` look at each event and topic as it is published, before any session gets it and
    /// before `publish` returns. There is one; another one is not taken. It must be quick and not
    /// publish.
    pub fn tap(&self, tap: impl Fn(&K, &Shared<E>) + Send + Sync + 'static) -> bool {
        self.0.taps.set(Box::new(tap)).is_ok()
    }

    fn deliver(&self, topics: &[K], event: &Arc<Shared<E>>) -> usize {
        let inner = &self.0;
        inner.published.fetch_add(1, Relaxed);
        inner.meters.published.increment(1);
        // Tasks are woken and dropped events freed after the locks: either may run code that
        // comes back to this hub.
        let mut sum = Delivered::default();
        let log = match event.class() {
            Class::Droppable => None,
            Class::Stream | Class::State { .. } => {
                let mut log = inner.log.lock();
                log.append(topics, event, inner.clock.now());
                Some(log)
            }
        };
        for topic in topics {
            if let Some(tap) = inner.taps.get() {
                tap(topic, event);
            }
            if let Some(group) = inner.topics.find(topic) {
                group.each(|seat| sum.add(seat.offer(topic, event, &inner.limits)));
            }
        }
        drop(log);
        inner.count(event, &sum);
        inner.rouse.wake(sum.wakers);
        sum.emptied.into_iter().for_each(|thrown_out| inner.discard(thrown_out));
        sum.reached
    }

    /// Waits until the sessions were woken for what was published so far: many are woken by and
    /// by. For who publishes to many and can wait; what is published meanwhile is not waited for.
    pub async fn caught_up(&self) {
        self.0.rouse.caught_up().await;
    }

    /// The place of now in what is published: whoever saw everything up to here
    /// [resumes](Session::resume) from it.
    pub fn cursor(&self) -> Cursor {
        Cursor { epoch: self.0.epoch.load(Relaxed), offset: self.0.log.lock().newest() }
    }

    /// The place behind a published event.
    pub fn cursor_of(&self, event: &Shared<E>) -> Cursor {
        Cursor { epoch: self.0.epoch.load(Relaxed), offset: event.offset() }
    }

    /// Forgets what was published so far: from now on nobody resumes what was before. For when
    /// events were lost on their way to this hub.
    pub fn forget(&self) {
        let mut log = self.0.log.lock();
        self.0.epoch.store(log.forget(&self.0.random), Relaxed);
    }

    /// Tells a share of the sessions that it is time to look after their connections
    /// ([`Next::Beat`](crate::Next::Beat)); after 60 calls each was told once.
    pub fn beat(&self) {
        let turn = (self.0.beat.fetch_add(1, Relaxed) % u64::from(BEATS)) as u8;
        let Some(group) = self.0.beats.find(&turn) else { return };
        let mut wakers = Vec::new();
        group.each(|seat| wakers.extend(seat.beat()));
        self.0.rouse.wake(wakers);
    }

    /// [Beats](Self::beat) so that each session is told once a `period`, until it is dropped.
    pub async fn keep_beat(&self, period: Duration) {
        let mut each = tokio::time::interval(period / u32::from(BEATS));
        each.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        loop {
            each.tick().await;
            self.beat();
        }
    }

    /// Whether `identity` has a session now.
    pub fn is_here(&self, identity: i64) -> bool {
        self.0.people.find(&identity).is_some()
    }

    /// Who came and who left since this was last asked: that somebody left only once they stayed
    /// away for a while. To be asked at intervals, by one task.
    pub fn moved(&self) -> Option<Moved<()>> {
        self.0.presence.tick().pop()
    }

    /// Who is here, as [`moved`](Self::moved) told it so far, ascending.
    pub fn all_present(&self) -> Vec<i64> {
        self.0.presence.here(&())
    }

    /// Whether `identity` is here, as [`moved`](Self::moved) told it so far.
    pub fn is_present(&self, identity: i64) -> bool {
        self.0.presence.is_here(&(), identity)
    }

    /// The identities that have a session now, without 0, in no order.
    pub fn present(&self) -> Vec<i64> {
        self.0.people.all().map(|person| person.key).filter(|identity| *identity != 0).collect()
    }

    /// Whether `identity` has a session now, or left so lately that it may come back and ask for
    /// what it missed: what it would get is to be published.
    pub fn is_awaited(&self, identity: i64) -> bool {
        self.is_here(identity) || self.0.awaited.contains(identity, self.0.clock.now())
    }

    /// The identities that are here or [awaited](Self::is_awaited), without 0, in no order.
    pub fn awaited(&self) -> Vec<i64> {
        let mut all = self.present();
        let left = self.0.awaited.all(self.0.clock.now()).into_iter();
        all.extend(left.filter(|identity| *identity != 0 && !self.is_here(*identity)));
        all
    }

    /// How many [`awaited`](Self::awaited) would list, at most: who is back since counts twice.
    pub fn awaited_max(&self) -> usize {
        self.0.people.len() + self.0.awaited.len(self.0.clock.now())
    }

    /// Whether anybody is here or awaited at all.
    pub fn awaits_anybody(&self) -> bool {
        self.0.sessions.load(Relaxed) > 0 || !self.0.awaited.is_empty(self.0.clock.now())
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

    /// For a shutdown: takes nobody in from now on, and ends up to `slice_max` sessions, of
    /// everybody some. Tells how many still stand; called again at intervals it spreads the
    /// reconnecting.
    pub fn drain(&self, slice_max: usize) -> usize {
        self.0.draining.store(true, Relaxed);
        let mut closed = Vec::new();
        for group in self.0.beats.all() {
            group.each(|seat| {
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

    /// [Drains](Self::drain) in slices of uneven size and pace over about `spread`, so that a
    /// restart is no stampede. Returns when everybody was told.
    pub async fn drain_over(&self, spread: Duration) {
        self.0.draining.store(true, Relaxed);
        let slices = (spread.as_millis() / SLICE_EACH.as_millis()).max(1) as usize;
        let slice = self.0.sessions.load(Relaxed).div_ceil(slices).max(SLICE_MIN);
        for _ in 0..slices {
            // Between half and one and a half of the usual.
            let some = slice / 2 + self.0.random.below(slice as u64 + 1) as usize;
            if self.drain(some) == 0 {
                return;
            }
            let each_ms = SLICE_EACH.as_millis() as u64;
            let pause_ms = each_ms / 2 + self.0.random.below(each_ms + 1);
            tokio::time::sleep(Duration::from_millis(pause_ms)).await;
        }
        self.drain(usize::MAX);
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

/// What became of one event.
struct Delivered<K, E> {
    reached: usize,
    lost: u64,
    dropped: u64,
    replaced_bytes: usize,
    wakers: Vec<std::task::Waker>,
    replaced: Vec<Arc<Shared<E>>>,
    emptied: Vec<Emptied<K, E>>,
}

impl<K, E> Default for Delivered<K, E> {
    fn default() -> Self {
        Self {
            reached: 0,
            lost: 0,
            dropped: 0,
            replaced_bytes: 0,
            wakers: Vec::new(),
            replaced: Vec::new(),
            emptied: Vec::new(),
        }
    }
}

impl<K, E> Delivered<K, E> {
    fn add(&mut self, offered: Offered<K, E>) {
        match offered {
            Offered::Taken(waker) => {
                self.reached += 1;
                self.wakers.extend(waker);
            }
            Offered::Replaced(waker, old) => {
                self.reached += 1;
                self.dropped += 1;
                self.replaced_bytes += old.size_bytes();
                self.wakers.extend(waker);
                self.replaced.push(old);
            }
            Offered::Dropped(waker) => {
                self.dropped += 1;
                self.wakers.extend(waker);
            }
            Offered::Overflowed(thrown_out) => {
                self.lost += 1;
                self.emptied.push(thrown_out);
            }
            Offered::Missed => {}
        }
    }
}

impl<K, E> Inner<K, E> {
    fn count(&self, event: &Shared<E>, sum: &Delivered<K, E>) {
        self.outboxes_grew(event.size_bytes() * sum.reached);
        self.outboxes_shrank(sum.replaced_bytes);
        self.delivered.fetch_add(sum.reached as u64, Relaxed);
        self.meters.delivered.increment(sum.reached as u64);
        self.lost.fetch_add(sum.lost, Relaxed);
        if sum.lost > 0 {
            self.meters.lost.increment(sum.lost);
        }
        if sum.dropped > 0 {
            self.meters.dropped.increment(sum.dropped);
        }
    }

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
