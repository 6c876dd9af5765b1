//! What waits for one session.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

use crate::{Limits, Lost, Shared};

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
    closed: bool,
    waker: Option<Waker>,
}

/// What became of an event at a seat.
pub(crate) enum Offered<K, E> {
    /// It waits in the outbox; the reader wants to be woken.
    Taken(Option<Waker>),
    /// The outbox overflowed at this event and was emptied.
    Overflowed(Emptied<K, E>),
    /// The session is lost or closed already.
    Missed,
}

/// What was thrown out of an outbox; to be dropped and woken outside all locks.
pub(crate) struct Emptied<K, E> {
    pub(crate) waker: Option<Waker>,
    pub(crate) events: Batch<K, E>,
    pub(crate) size_bytes: usize,
}

impl<K, E> Seat<K, E> {
    pub(crate) fn new(id: u64, identity: i64) -> Self {
        let outbox =
            Outbox { events: Vec::new(), size_bytes: 0, missed: 0, closed: false, waker: None };
        Self { id, identity, outbox: Mutex::new(outbox) }
    }

    /// Puts `event` into the outbox if it has room.
    pub(crate) fn offer(&self, topic: &K, event: &Arc<Shared<E>>, limits: &Limits) -> Offered<K, E>
    where
        K: Clone,
    {
        let mut outbox = self.outbox.lock();
        if outbox.closed {
            return Offered::Missed;
        }
        if outbox.missed > 0 {
            outbox.missed += 1;
            return Offered::Missed;
        }
        let size_bytes = outbox.size_bytes.saturating_add(event.size_bytes());
        let full = outbox.events.len() >= limits.outbox_events_max
            || (size_bytes > limits.outbox_bytes_max && !outbox.events.is_empty());
        if full {
            outbox.missed = outbox.events.len() as u64 + 1;
            return Offered::Overflowed(outbox.empty());
        }
        outbox.events.push((topic.clone(), event.clone()));
        outbox.size_bytes = size_bytes;
        Offered::Taken(outbox.waker.take())
    }

    /// Ends the session from the hub's side; `None` where it had ended already.
    pub(crate) fn close(&self) -> Option<Emptied<K, E>> {
        let mut outbox = self.outbox.lock();
        if std::mem::replace(&mut outbox.closed, true) {
            return None;
        }
        Some(outbox.empty())
    }

    /// All that waits, with its size in bytes; or why nothing more comes.
    pub(crate) fn poll_take(
        &self,
        context: &Context<'_>,
    ) -> Poll<Result<(Batch<K, E>, usize), Lost>> {
        let mut outbox = self.outbox.lock();
        if outbox.closed {
            return Poll::Ready(Err(Lost::Closed));
        }
        if outbox.missed > 0 {
            let missed = std::mem::take(&mut outbox.missed);
            return Poll::Ready(Err(Lost::Overflowed { missed }));
        }
        if outbox.events.is_empty() {
            match &mut outbox.waker {
                Some(waker) => waker.clone_from(context.waker()),
                none => *none = Some(context.waker().clone()),
            }
            return Poll::Pending;
        }
        let taken = outbox.empty();
        Poll::Ready(Ok((taken.events, taken.size_bytes)))
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
