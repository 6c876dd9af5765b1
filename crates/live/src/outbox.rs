//! What waits for one session.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

use crate::{Class, Limits, Lost, Shared};

/// Events with the topics they came by.
pub(crate) type Batch<K, E> = Vec<(K, Arc<Shared<E>>)>;

/// A session as publishers see it.
pub(crate) struct Seat<K, E> {
    pub(crate) id: u64,
    pub(crate) identity: i64,
    outbox: Mutex<Outbox<K, E>>,
}

struct Outbox<K, E> {
    // Unallocated while nothing waits: taken whole by the reader.
    events: Batch<K, E>,
    size_bytes: usize,
    missed: u64,
    // State that was thrown out: the reader has to read it anew.
    stale: u64,
    closed: bool,
    beat: bool,
    waker: Option<Waker>,
}

/// What became of an event at a seat.
pub(crate) enum Offered<K, E> {
    /// It waits in the outbox; the reader wants to be woken.
    Taken(Option<Waker>),
    /// The outbox overflowed at this event and was emptied.
    Overflowed(Emptied<K, E>),
    /// It took the place of older state, which is to be dropped outside of all locks.
    Replaced(Option<Waker>, Arc<Shared<E>>),
    /// There is no room for what may be left out.
    Dropped(Option<Waker>),
    /// The session is lost or closed already.
    Missed,
}

/// What a reader finds.
pub(crate) enum Found<K, E> {
    /// All that waited, and its size in bytes.
    Events(Batch<K, E>, usize),
    /// Nothing, but it is time to look after the connection.
    Beat,
}

/// What was thrown out of an outbox; to be dropped and woken outside all locks.
pub(crate) struct Emptied<K, E> {
    pub(crate) waker: Option<Waker>,
    pub(crate) events: Batch<K, E>,
    pub(crate) size_bytes: usize,
}

impl<K, E> Seat<K, E> {
    pub(crate) fn new(id: u64, identity: i64) -> Self {
        let outbox = Outbox {
            events: Vec::new(),
            size_bytes: 0,
            missed: 0,
            stale: 0,
            closed: false,
            beat: false,
            waker: None,
        };
        Self { id, identity, outbox: Mutex::new(outbox) }
    }

    /// Puts `event` into the outbox if it has room, by the rules of its class.
    pub(crate) fn offer(&self, topic: &K, event: &Arc<Shared<E>>, limits: &Limits) -> Offered<K, E>
    where
        K: Clone + Eq,
    {
        let mut outbox = self.outbox.lock();
        if outbox.closed {
            return Offered::Missed;
        }
        if outbox.missed > 0 {
            outbox.missed += 1;
            return Offered::Missed;
        }
        match event.class() {
            Class::Stream => outbox.stream(topic, event, limits),
            Class::State { key } => outbox.state(key, topic, event, limits),
            Class::Droppable => {
                let crowded = outbox.events.len() >= limits.outbox_events_max / 2
                    || outbox.size_bytes > limits.outbox_bytes_max / 2;
                if crowded { Offered::Dropped(None) } else { outbox.push(topic, event) }
            }
        }
    }

    /// Takes out what waits and goes to one of `topics`: it will be told otherwise. Answers its
    /// size in bytes with it, to be dropped outside of all locks.
    pub(crate) fn withdraw(&self, topics: &[K]) -> (Batch<K, E>, usize)
    where
        K: Eq,
    {
        let mut outbox = self.outbox.lock();
        let (out, stay): (Batch<K, E>, _) = std::mem::take(&mut outbox.events)
            .into_iter()
            .partition(|(topic, event)| event.offset() > 0 && topics.contains(topic));
        outbox.events = stay;
        let size_bytes = out.iter().map(|(_, event)| event.size_bytes()).sum();
        outbox.size_bytes -= size_bytes;
        (out, size_bytes)
    }

    /// Tells the reader that it is time to look after its connection.
    pub(crate) fn beat(&self) -> Option<Waker> {
        let mut outbox = self.outbox.lock();
        outbox.beat = true;
        outbox.waker.take()
    }

    /// Ends the session from the hub's side; `None` where it had ended already.
    pub(crate) fn close(&self) -> Option<Emptied<K, E>> {
        let mut outbox = self.outbox.lock();
        if std::mem::replace(&mut outbox.closed, true) {
            return None;
        }
        Some(outbox.empty())
    }

    /// All that waits, or that it is time for a beat (where the reader cares); or why nothing more
    /// comes.
    pub(crate) fn poll_take(
        &self,
        context: &Context<'_>,
        beats: bool,
    ) -> Poll<Result<Found<K, E>, Lost>> {
        let mut outbox = self.outbox.lock();
        if outbox.closed {
            return Poll::Ready(Err(Lost::Closed));
        }
        if outbox.missed > 0 {
            let missed = std::mem::take(&mut outbox.missed);
            return Poll::Ready(Err(Lost::Overflowed { missed }));
        }
        if !outbox.events.is_empty() {
            let taken = outbox.empty();
            return Poll::Ready(Ok(Found::Events(taken.events, taken.size_bytes)));
        }
        if outbox.stale > 0 {
            let missed = std::mem::take(&mut outbox.stale);
            return Poll::Ready(Err(Lost::Stale { missed }));
        }
        if beats && std::mem::take(&mut outbox.beat) {
            return Poll::Ready(Ok(Found::Beat));
        }
        match &mut outbox.waker {
            Some(waker) => waker.clone_from(context.waker()),
            none => *none = Some(context.waker().clone()),
        }
        Poll::Pending
    }
}

impl<K: Eq + Clone, E> Outbox<K, E> {
    fn is_full(&self, event: &Shared<E>, limits: &Limits) -> bool {
        let size_bytes = self.size_bytes.saturating_add(event.size_bytes());
        self.events.len() >= limits.outbox_events_max
            || (size_bytes > limits.outbox_bytes_max && !self.events.is_empty())
    }

    fn push(&mut self, topic: &K, event: &Arc<Shared<E>>) -> Offered<K, E> {
        self.events.push((topic.clone(), event.clone()));
        self.size_bytes = self.size_bytes.saturating_add(event.size_bytes());
        Offered::Taken(self.waker.take())
    }

    fn stream(&mut self, topic: &K, event: &Arc<Shared<E>>, limits: &Limits) -> Offered<K, E> {
        if self.is_full(event, limits) {
            self.missed = self.events.len() as u64 + self.stale + 1;
            self.stale = 0;
            return Offered::Overflowed(self.empty());
        }
        self.push(topic, event)
    }

    fn state(
        &mut self,
        key: u64,
        topic: &K,
        event: &Arc<Shared<E>>,
        limits: &Limits,
    ) -> Offered<K, E> {
        if self.stale > 0 {
            // It will be read anew, and this with it.
            self.stale += 1;
            return Offered::Dropped(None);
        }
        let same =
            |(by, old): &(K, Arc<Shared<E>>)| old.class() == Class::State { key } && by == topic;
        if let Some(at) = self.events.iter().rposition(same) {
            // At the end, so that it does not pass what led to it.
            let (_, old) = self.events.remove(at);
            self.size_bytes -= old.size_bytes();
            return match self.push(topic, event) {
                Offered::Taken(waker) => Offered::Replaced(waker, old),
                other => other,
            };
        }
        if self.is_full(event, limits) {
            self.stale = 1;
            return Offered::Dropped(self.waker.take());
        }
        self.push(topic, event)
    }
}

impl<K, E> Outbox<K, E> {
    fn empty(&mut self) -> Emptied<K, E> {
        Emptied {
            waker: self.waker.take(),
            events: std::mem::take(&mut self.events),
            size_bytes: std::mem::take(&mut self.size_bytes),
        }
    }
}
