//! Somebody who is here: subscriptions, and what waits for them.

use std::hash::Hash;
use std::sync::Arc;
use std::task::{Context, Poll};

use parking_lot::Mutex;

use crate::hub::Inner;
use crate::log::{Cursor, Gone};
use crate::outbox::{Batch, Found, Seat};
use crate::registry::{Group, Joined};

/// No room for another session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Full {
    /// The whole hub is full.
    #[error("all {sessions_max} live sessions are taken: come again later")]
    Hub {
        /// [`Limits::sessions_max`](crate::Limits::sessions_max).
        sessions_max: usize,
    },
    /// This identity has its share.
    #[error("identity {identity} has {sessions_max} live sessions: close one first")]
    Identity {
        /// Whose sessions.
        identity: i64,
        /// [`Limits::sessions_per_identity_max`](crate::Limits::sessions_per_identity_max).
        sessions_max: usize,
    },
    /// The hub is being drained and takes nobody in.
    #[error("the live hub is shutting down: connect again")]
    Draining,
}

/// A session has all the subscriptions it may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this session has {subscriptions_max} subscriptions: drop one first")]
pub struct TooMany {
    /// [`Limits::subscriptions_max`](crate::Limits::subscriptions_max).
    pub subscriptions_max: usize,
}

/// Why a session's events broke off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Lost {
    /// The outbox was full: `missed` events are gone. The session goes on with what is published
    /// from now on; the client has to read anew what it missed, or to resume.
    #[error("the session read too slowly and missed {missed} events: read the state anew")]
    Overflowed {
        /// How many events were dropped.
        missed: u64,
    },
    /// The outbox had no room for [`Class::State`](crate::Class::State): `missed` changes are
    /// gone. Nothing else is, and the session goes on; the state has to be read anew and what
    /// differs (by its revisions, say) told to the client.
    #[error("the session read too slowly and missed {missed} changes of state: read it anew")]
    Stale {
        /// How many changes were dropped.
        missed: u64,
    },
    /// The hub ended this session; nothing more comes.
    #[error("the session was ended by the server: connect again")]
    Closed,
}

/// What a session waits for.
#[derive(Debug)]
pub enum Next<K, E> {
    /// Events with the topics they came by, oldest first.
    Events(Batch<K, E>),
    /// Time to look after the connection: is the peer still there? Comes at the pace of
    /// [`Hub::beat`](crate::Hub::beat), so that no connection needs a timer of its own.
    Beat,
}

/// What is to be told to somebody who comes back.
#[derive(Debug)]
pub struct Resumed<K, E> {
    /// What was missed since the cursor, oldest first, each event by every topic that it names.
    pub missed: Batch<K, E>,
    /// What waited for this session already and does no longer, oldest first: whoever shares it
    /// with others who listened before tells them this, and this alone.
    pub withdrawn: Batch<K, E>,
}

/// Somebody who is here. Dropping it ends every subscription.
pub struct Session<K: Eq + Hash + Clone, E> {
    hub: Arc<Inner<K, E>>,
    seat: Arc<Seat<K, E>>,
    person: Arc<Group<i64, K, E>>,
    beats: Arc<Group<u8, K, E>>,
    topics: Mutex<Vec<Arc<Group<K, K, E>>>>,
}

impl<K: Eq + Hash + Clone, E> Session<K, E> {
    pub(crate) fn new(
        hub: Arc<Inner<K, E>>,
        seat: Arc<Seat<K, E>>,
        person: Arc<Group<i64, K, E>>,
        beats: Arc<Group<u8, K, E>>,
    ) -> Self {
        Self { hub, seat, person, beats, topics: Mutex::new(Vec::new()) }
    }

    /// Whose session this is; 0 for nobody in particular.
    pub fn identity(&self) -> i64 {
        self.seat.identity
    }

    /// From now on, what is published to `topic` comes to this session. Doing it twice is once.
    pub fn subscribe(&self, topic: K) -> Result<(), TooMany> {
        let mut topics = self.topics.lock();
        let subscriptions_max = self.hub.limits.subscriptions_max;
        if topics.len() >= subscriptions_max {
            let there = self.hub.topics.find(&topic);
            return match there.is_some_and(|group| group.contains(self.seat.id)) {
                true => Ok(()),
                false => Err(TooMany { subscriptions_max }),
            };
        }
        if let Joined::New(group) = self.hub.topics.join(&topic, &self.seat, usize::MAX) {
            if topics.len() == topics.capacity() && topics.len() < 8 {
                topics.reserve_exact(2);
            }
            topics.push(group);
            self.hub.topics_changed();
        }
        Ok(())
    }

    /// What is published to `topic` no longer comes; what waits already still does.
    pub fn unsubscribe(&self, topic: &K) {
        let mut topics = self.topics.lock();
        let Some(group) = self.hub.topics.find(topic) else { return };
        if self.hub.topics.leave(&group, self.seat.id) {
            topics.retain(|mine| !Arc::ptr_eq(mine, &group));
            self.hub.topics_changed();
        }
    }

    /// How many topics this session listens to.
    pub fn subscriptions(&self) -> usize {
        self.topics.lock().len()
    }

    /// What was published to `topics` since `cursor`; from here on the session gets what follows,
    /// each event once. It has to listen to these topics already.
    ///
    /// # Errors
    /// [`Gone`] when that is not known any more: the client has to read the state anew, and loses
    /// nothing from here on.
    pub fn resume(&self, topics: &[K], cursor: Cursor) -> Result<Resumed<K, E>, Gone> {
        // Nothing is published while this is held: what waits is in the log, and all of it.
        let mut log = self.hub.log.lock();
        let missed = log.since(topics, cursor, self.hub.clock.now())?;
        let (withdrawn, size_bytes) = self.seat.withdraw(topics);
        drop(log);
        self.hub.outboxes_shrank(size_bytes);
        Ok(Resumed { missed, withdrawn })
    }

    /// Waits until something is there, and takes all of it, oldest first. Dropping the future
    /// loses nothing.
    pub async fn next(&mut self) -> Result<Batch<K, E>, Lost> {
        std::future::poll_fn(|context| self.poll_next(context)).await
    }

    /// [`next`](Self::next) for hand-written futures: wakes the last task that polled.
    pub fn poll_next(&mut self, context: &Context<'_>) -> Poll<Result<Batch<K, E>, Lost>> {
        self.poll_found(context, false).map_ok(|next| match next {
            Next::Events(events) => events,
            Next::Beat => Vec::new(),
        })
    }

    /// [`next`](Self::next), or a beat.
    pub async fn next_or_beat(&mut self) -> Result<Next<K, E>, Lost> {
        std::future::poll_fn(|context| self.poll_next_or_beat(context)).await
    }

    /// [`next_or_beat`](Self::next_or_beat) for hand-written futures.
    pub fn poll_next_or_beat(&mut self, context: &Context<'_>) -> Poll<Result<Next<K, E>, Lost>> {
        self.poll_found(context, true)
    }

    fn poll_found(&mut self, context: &Context<'_>, beats: bool) -> Poll<Result<Next<K, E>, Lost>> {
        self.seat.poll_take(context, beats).map_ok(|found| match found {
            Found::Events(events, size_bytes) => {
                self.hub.outboxes_shrank(size_bytes);
                Next::Events(events)
            }
            Found::Beat => Next::Beat,
        })
    }
}

impl<K: Eq + Hash + Clone, E> Drop for Session<K, E> {
    fn drop(&mut self) {
        for group in self.topics.get_mut().drain(..) {
            self.hub.topics.leave(&group, self.seat.id);
        }
        self.hub.topics_changed();
        self.hub.beats.leave(&self.beats, self.seat.id);
        self.hub.people.leave(&self.person, self.seat.id);
        if self.seat.identity != 0 {
            self.hub.presence.leave(&(), self.seat.identity);
        }
        if self.hub.people.find(&self.seat.identity).is_none() {
            self.hub.awaited.left(self.seat.identity, self.hub.clock.now());
        }
        // No publisher can reach the seat any more, so what is taken out here is the last.
        if let Some(emptied) = self.seat.close() {
            self.hub.outboxes_shrank(emptied.size_bytes);
        }
        self.hub.left();
    }
}
