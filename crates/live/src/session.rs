//! Somebody who is here: subscriptions, and what waits for them.

use std::hash::Hash;
use std::sync::Arc;
use std::task::{Context, Poll};

use parking_lot::Mutex;

use crate::hub::Inner;
use crate::outbox::{Batch, Seat};
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
    /// The hub ended this session; nothing more comes.
    #[error("the session was ended by the server: connect again")]
    Closed,
}

/// Somebody who is here. Dropping it ends every subscription.
pub struct Session<K: Eq + Hash + Clone, E> {
    hub: Arc<Inner<K, E>>,
    seat: Arc<Seat<K, E>>,
    person: Arc<Group<i64, K, E>>,
    topics: Mutex<Vec<Arc<Group<K, K, E>>>>,
}

impl<K: Eq + Hash + Clone, E> Session<K, E> {
    pub(crate) fn new(
        hub: Arc<Inner<K, E>>,
        seat: Arc<Seat<K, E>>,
        person: Arc<Group<i64, K, E>>,
    ) -> Self {
        Self { hub, seat, person, topics: Mutex::new(Vec::new()) }
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

    /// Waits until something is there, and takes all of it, oldest first. Dropping the future
    /// loses nothing.
    pub async fn next(&mut self) -> Result<Batch<K, E>, Lost> {
        std::future::poll_fn(|context| self.poll_next(context)).await
    }

    /// [`next`](Self::next) for hand-written futures: wakes the last task that polled.
    pub fn poll_next(&mut self, context: &Context<'_>) -> Poll<Result<Batch<K, E>, Lost>> {
        self.seat.poll_take(context).map_ok(|(events, size_bytes)| {
            self.hub.outboxes_shrank(size_bytes);
            events
        })
    }
}

impl<K: Eq + Hash + Clone, E> Drop for Session<K, E> {
    fn drop(&mut self) {
        for group in self.topics.get_mut().drain(..) {
            self.hub.topics.leave(&group, self.seat.id);
        }
        self.hub.topics_changed();
        self.hub.people.leave(&self.person, self.seat.id);
        // No publisher can reach the seat any more, so what is taken out here is the last.
        if let Some(emptied) = self.seat.close() {
            self.hub.outboxes_shrank(emptied.size_bytes);
        }
        self.hub.left();
    }
}
