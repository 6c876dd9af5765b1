//! What came in and is not worked yet, and what gives way to it: queues of which little is taken
//! while it is behind, and fetches of what may be among it, which are called back when nothing
//! stands before them any more.

use std::collections::BTreeSet;
use std::time::Duration;

use parking_lot::Mutex;
use weir_base::Timestamp;
use weir_community::federation::{
    self, BEHIND, Fetch, Forward, INBOUND_LATE, PASSED_ON_MAX, Patience,
};
use weir_community::{Env, Error, search};
use weir_db::{Class, Tx};
use weir_jobs::{Job, Queue, Registry};

use super::unknown;
use crate::ActivityPub;
use crate::face::Weak;
use crate::outbound::DeliverPassedOn;
use crate::wire::{Activity, Kind, Object};

/// So long after that it still counts as behind, in ms: in a flood that the door slows down, what
/// waits goes up and down, and each moment of rest would be filled with what is to give way. And
/// after a flood the last posts that have to be fetched are asked for before the many strangers.
const BEHIND_STILL_MS: i64 = 4_000;
/// How often is looked whether something can be called back.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// With fewer messages that wait what is fetched goes on: other servers take about as long to
/// answer as these take to be worked.
const NEARLY_WORKED: u64 = 1_000;

/// Messages of unknown senders that go on every half second beside a flood.
const FEW_UNKNOWN: usize = 4;
/// The same of fetches, among which are those for who opens a thread.
const FEW_FETCHES: usize = 40;
/// The same of what is to be found by its words: a moment's posts together.
const MANY_FOUND: usize = 500;
/// The same of messages that are passed on: each is signed for every server of the followers of
/// whom it answers.
const FEW_PASSED_ON: usize = 1;
/// Deliveries of what is passed on that go on every half second beside many strangers: about those
/// of one message.
const FEW_DELIVERED: usize = 64;
/// Lanes of strangers that are called back in one transaction: each has a thousand messages at
/// most, and mostly a few.
const STRANGERS_MAX: usize = 20;

/// Has give way what costs more than what came in and is awaited by few: to get to know a
/// sender or to fetch a post takes as long as several messages of one who is known, to pass on what
/// others write as long as dozens. What is fetched because of a message is part of it, so fetches
/// go on a little before nothing waits any more.
///
/// What is passed on gives way to strangers as well, whose messages are for people here. Each is a
/// job for every server it goes to, so these do; what people here write has other queues.
///
/// What came late steps back while senders crowd at the door: their messages are safe first, and
/// people wait for fewer batches.
pub(super) fn register(registry: &mut Registry, face: &ActivityPub) {
    let few = [(unknown::QUEUE, FEW_UNKNOWN), (search::QUEUE, MANY_FOUND)];
    for (queue, few) in few {
        let face = face.clone();
        registry.give_way(queue, few, move || face.is_behind());
    }
    let passing = face.clone();
    registry.give_way(Forward::QUEUE, FEW_PASSED_ON, move || {
        let jobs = &passing.community().env().jobs;
        passing.is_behind() || jobs.depth(DeliverPassedOn::QUEUE.name) >= PASSED_ON_MAX
    });
    let judging = face.clone();
    registry.give_way(DeliverPassedOn::QUEUE, FEW_DELIVERED, move || judging.has_strangers());
    let callers = face.inbox().callers.clone();
    registry.step_back(INBOUND_LATE, move || callers.press());
    let env = face.community().env().clone();
    registry
        .give_way(Fetch::QUEUE, FEW_FETCHES, move || federation::unworked(&env) >= NEARLY_WORKED);
}

/// When so much was last seen to wait that what comes in was far behind.
#[derive(Default)]
pub(super) struct Backlog(Mutex<Option<Timestamp>>);

impl Backlog {
    /// Whether what comes in is behind, with so many messages `waiting` now, or was far behind a
    /// moment ago. Strangers who were judged together come in together as well: a pause after each
    /// few hundred would be most of their time.
    fn is_behind(&self, waiting: u64, now: Timestamp) -> bool {
        let mut behind_at = self.0.lock();
        if waiting >= NEARLY_WORKED {
            *behind_at = Some(now);
        }
        // A clock that was set back would hold it up.
        let is_still = behind_at.is_some_and(|at| (0..BEHIND_STILL_MS).contains(&now.since_ms(at)));
        waiting >= BEHIND || is_still
    }
}

impl ActivityPub {
    /// Whether messages of `host` wait, as far as this process knows.
    pub(crate) fn has_unworked_of(&self, host: &str) -> bool {
        federation::has_unworked_of(self.community().env(), host)
    }

    /// The door is about to let in `activity`: a post in it need not be fetched. Whether its
    /// signature is verified is in `proven`.
    pub(super) fn note_coming(&self, activity: &Activity, proven: bool) {
        if matches!(activity.kind, Kind::Create | Kind::Update)
            && let Some(Object::Post(post)) = activity.object.embedded()
        {
            federation::comes(self.community().env(), post.id.as_str(), proven);
        }
    }

    /// Whether more waits than a moment's work, or did a moment ago, as far as this process knows.
    fn is_behind(&self) -> bool {
        let waiting = federation::unworked(self.community().env());
        self.inbox().backlog.is_behind(waiting, self.now())
    }

    /// The same of messages of unknown senders that are ready: not of those that wait for a key,
    /// for which other servers are asked.
    fn has_strangers(&self) -> bool {
        let ready = self.community().env().jobs.depth(unknown::QUEUE.name);
        self.inbox().strangers.is_behind(ready, self.now())
    }

    /// Has fetches that were put off called back when nothing stands before them, those from
    /// before this process began too.
    pub(super) fn look_after_patient(&self) {
        let (face, patience) = (self.clone(), self.community().env().patience.clone());
        self.inbox().door.spawn(async move {
            let waiting = face.put_off(Fetch::QUEUE).await;
            waiting.iter().for_each(|lane| patience.waits(lane));
            let weak = face.downgrade();
            drop(face);
            watch(weak, &patience).await;
        });
    }

    /// Calls back the messages of strangers that were put off before this process began: whoever
    /// asked for their keys does not any more.
    pub(super) fn look_after_strangers(&self) {
        let face = self.clone();
        self.inbox().door.spawn(async move {
            let lanes = face.put_off(unknown::QUEUE).await;
            for some in lanes.chunks(STRANGERS_MAX) {
                if let Err(error) = face.hasten(unknown::QUEUE, some.to_vec()).await {
                    tracing::warn!(%error, "messages of strangers wait for their time");
                }
            }
        });
    }

    /// The lanes of `queue` in which something was put off.
    async fn put_off(&self, queue: Queue) -> Vec<String> {
        let read =
            move |tx: &mut Tx, env: &Env| env.jobs.waiting_again(tx, queue).map_err(Error::from);
        let found = self.community().read(Class::Housekeeping, read).await;
        let found = found.unwrap_or_else(|error| {
            tracing::warn!(queue = queue.name, %error, "what was put off waits for its time");
            Vec::new()
        });
        found.into_iter().map(|(lane, _)| lane).collect::<BTreeSet<_>>().into_iter().collect()
    }

    async fn hasten(&self, queue: Queue, lanes: Vec<String>) -> Result<(), Error> {
        let call = move |tx: &mut Tx, env: &Env| {
            for lane in &lanes {
                env.jobs.hasten(tx, queue, lane)?;
            }
            Ok(())
        };
        self.community().write(Class::Outbound, call).await
    }

    async fn call_back(&self, lanes: Vec<String>) {
        if let Err(error) = self.hasten(Fetch::QUEUE, lanes.clone()).await {
            tracing::warn!(%error, "what was put off could not be called back: it is tried again");
            let patience = &self.community().env().patience;
            lanes.iter().for_each(|lane| patience.waits(lane));
        }
    }
}

/// Looks after those who wait as long as the face is there.
async fn watch(face: Weak, patience: &Patience) {
    loop {
        patience.any().await;
        tokio::time::sleep(LOOK_EVERY).await;
        let Some(face) = face.upgrade() else { return };
        let is_behind = federation::unworked(face.community().env()) >= NEARLY_WORKED;
        let called = patience.look(|lane| !face.has_unworked_of(lane), is_behind);
        if !called.is_empty() {
            face.call_back(called).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_of_rest_in_a_flood_is_not_its_end() {
        let backlog = Backlog::default();
        let at = |ms| Timestamp::from_ms(1_000_000 + ms);
        assert!(!backlog.is_behind(BEHIND - 1, at(0)));
        assert!(backlog.is_behind(NEARLY_WORKED, at(1)));
        assert!(backlog.is_behind(0, at(BEHIND_STILL_MS)));
        assert!(backlog.is_behind(NEARLY_WORKED, at(BEHIND_STILL_MS)), "the flood goes on");
        assert!(backlog.is_behind(0, at(2 * BEHIND_STILL_MS - 1)));
        assert!(!backlog.is_behind(0, at(2 * BEHIND_STILL_MS)));
        assert!(backlog.is_behind(NEARLY_WORKED, at(2 * BEHIND_STILL_MS)));
        assert!(!backlog.is_behind(0, at(0)), "the clock was set back");
    }

    #[test]
    fn what_some_strangers_brought_is_over_when_it_is_worked() {
        let backlog = Backlog::default();
        let now = Timestamp::from_ms(1_000_000);
        assert!(backlog.is_behind(BEHIND, now));
        assert!(backlog.is_behind(NEARLY_WORKED - 1, now));
        assert!(!backlog.is_behind(BEHIND - 1, now));
    }
}
