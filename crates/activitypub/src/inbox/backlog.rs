//! What came in and is not worked yet, and what gives way to it: queues of which little is taken
//! while it is behind, and fetches of what may be among it. These are put off once for as long as
//! they may wait, and called back when nothing stands before them any more.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use weir_base::Timestamp;
use weir_community::federation::{Fetch, Forward};
use weir_community::{Env, Error};
use weir_db::{Class, Tx};
use weir_jobs::{Job, Registry};

use super::unknown;
use super::work::{LATE_QUEUE, QUEUE};
use crate::ActivityPub;
use crate::face::Weak;

/// Messages that wait from which on what comes in is behind: some hundredths of a second of work.
const BEHIND: u64 = 100;
/// So long after that it still counts as behind, in ms: in a flood that the door slows down, what
/// waits goes up and down, and each moment of rest would be filled with what is to give way. And
/// after a flood the last posts that have to be fetched are asked for before the many strangers.
const BEHIND_STILL_MS: i64 = 4_000;
/// How often is looked whether something can be called back.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Lanes that are called back by one transaction.
const CALLED_MAX: usize = 100;
/// Lanes that are watched at most. What is of others is not called back and waits for its time.
const WATCHED_MAX: usize = 20_000;

/// Has give way what costs more than what came in and is awaited by nobody here: to get to know a
/// sender takes as long as several messages of one who is known, to pass on what others write as
/// long as to work what they send.
pub(super) fn register(registry: &mut Registry, face: &ActivityPub) {
    for queue in [unknown::QUEUE, Forward::QUEUE] {
        let face = face.clone();
        registry.give_way(queue, move || face.is_behind());
    }
}

/// The lanes of which a fetch was put off.
#[derive(Default)]
pub(super) struct GivingWay(Mutex<Lanes>);

#[derive(Default)]
struct Lanes {
    /// Whether nothing stood before them at the last look.
    free: HashMap<String, bool>,
    is_watched: bool,
    /// When so much was last seen to wait that what comes in was behind.
    behind_at: Option<Timestamp>,
}

impl GivingWay {
    /// A fetch of `lane` is put off; whether nobody looks after the lanes yet.
    fn add(&self, lane: &str) -> bool {
        let mut lanes = self.0.lock();
        if lanes.free.len() < WATCHED_MAX {
            lanes.free.insert(lane.to_owned(), false);
        }
        !std::mem::replace(&mut lanes.is_watched, true)
    }

    /// Whether what comes in is behind, or was a moment ago, with so many messages `waiting` now.
    fn is_behind(&self, waiting: u64, now: Timestamp) -> bool {
        let mut lanes = self.0.lock();
        if waiting >= BEHIND {
            lanes.behind_at = Some(now);
        }
        // A clock that was set back would hold it up.
        lanes.behind_at.is_some_and(|at| (0..BEHIND_STILL_MS).contains(&now.since_ms(at)))
    }

    /// Those before which nothing stood at two looks running, some of them, which are watched no
    /// more. At the first look a job may be on its way to where it waits, and would not be called.
    /// None when there is nothing to look after.
    fn look(&self, is_free: impl Fn(&str) -> bool) -> Option<Vec<String>> {
        let mut lanes = self.0.lock();
        if lanes.free.is_empty() {
            lanes.is_watched = false;
            return None;
        }
        let mut called = Vec::new();
        for (lane, was_free) in &mut lanes.free {
            let is_free = is_free(lane);
            if is_free && *was_free && called.len() < CALLED_MAX {
                called.push(lane.clone());
            }
            *was_free = is_free;
        }
        for lane in &called {
            lanes.free.remove(lane);
        }
        Some(called)
    }
}

impl ActivityPub {
    /// Whether messages of `host` wait, as far as this process knows.
    pub(crate) fn has_unworked_of(&self, host: &str) -> bool {
        let jobs = &self.community().env().jobs;
        [QUEUE, LATE_QUEUE].iter().any(|queue| jobs.depth_in(queue.name, host) > 0)
    }

    /// Whether more waits than a moment's work, or did a moment ago, as far as this process knows.
    fn is_behind(&self) -> bool {
        let jobs = &self.community().env().jobs;
        let waiting = [QUEUE, LATE_QUEUE].iter().map(|queue| jobs.depth(queue.name)).sum();
        self.inbox().giving_way.is_behind(waiting, self.now())
    }

    /// Has a fetch that is put off now in `lane` be called back when nothing stands before it.
    pub(crate) fn gives_way(&self, lane: &str) {
        if self.inbox().giving_way.add(lane) {
            self.inbox().door.spawn(watch(self.downgrade()));
        }
    }

    /// The same of all that was put off before this process began.
    pub(super) fn resume_giving_way(&self) {
        let face = self.clone();
        self.inbox().door.spawn(async move {
            let read = |tx: &mut Tx, env: &Env| {
                env.jobs.waiting_again(tx, Fetch::QUEUE).map_err(Error::from)
            };
            match face.community().read(Class::Housekeeping, read).await {
                Ok(found) => found.iter().for_each(|(lane, _)| face.gives_way(lane)),
                Err(error) => tracing::warn!(%error, "what was put off waits for its time"),
            }
        });
    }

    async fn call_back(&self, lanes: Vec<String>) {
        let call = move |tx: &mut Tx, env: &Env| {
            for lane in &lanes {
                env.jobs.hasten(tx, Fetch::QUEUE, lane)?;
            }
            Ok::<_, Error>(())
        };
        if let Err(error) = self.community().write(Class::Outbound, call).await {
            tracing::warn!(%error, "what was put off waits for its time");
        }
    }
}

/// Looks after the lanes as long as there are any, and the face is there.
async fn watch(face: Weak) {
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let Some(face) = face.upgrade() else { return };
        let is_free = |lane: &str| !face.has_unworked_of(lane);
        match face.inbox().giving_way.look(is_free) {
            None => return,
            Some(lanes) if lanes.is_empty() => {}
            Some(lanes) => face.call_back(lanes).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn called(lanes: &GivingWay, is_free: bool) -> Option<usize> {
        lanes.look(|_| is_free).map(|called| called.len())
    }

    #[test]
    fn who_gives_way_is_called_when_nothing_stood_before_it_at_two_looks_running() {
        let lanes = GivingWay::default();
        assert!(lanes.add("a.example"), "nobody looks yet");
        assert!(!lanes.add("b.example"), "somebody does");
        assert_eq!(called(&lanes, true), Some(0));
        assert_eq!(called(&lanes, false), Some(0));
        assert_eq!(called(&lanes, true), Some(0));
        // What was put off since the last look may be on its way to where it waits.
        lanes.add("a.example");
        assert_eq!(called(&lanes, true), Some(1));
        assert_eq!(called(&lanes, true), Some(1));
        assert_eq!(called(&lanes, true), None, "nothing is left to look after");
        assert!(lanes.add("a.example"), "so somebody has to look again");
    }

    #[test]
    fn a_moment_of_rest_in_a_flood_is_not_its_end() {
        let lanes = GivingWay::default();
        let at = |ms| Timestamp::from_ms(1_000_000 + ms);
        assert!(!lanes.is_behind(BEHIND - 1, at(0)));
        assert!(lanes.is_behind(BEHIND, at(1)));
        assert!(lanes.is_behind(0, at(BEHIND_STILL_MS)));
        assert!(lanes.is_behind(BEHIND, at(BEHIND_STILL_MS)), "the flood goes on");
        assert!(lanes.is_behind(0, at(2 * BEHIND_STILL_MS - 1)));
        assert!(!lanes.is_behind(0, at(2 * BEHIND_STILL_MS)));
        assert!(lanes.is_behind(BEHIND, at(2 * BEHIND_STILL_MS)));
        assert!(!lanes.is_behind(0, at(0)), "the clock was set back");
    }

    #[test]
    fn many_are_called_by_and_by_and_no_more_are_watched_than_there_is_room_for() {
        let lanes = GivingWay::default();
        for number in 0..WATCHED_MAX + 10 {
            lanes.add(&format!("{number}.example"));
        }
        assert_eq!(lanes.0.lock().free.len(), WATCHED_MAX);
        assert_eq!(called(&lanes, true), Some(0));
        assert_eq!(called(&lanes, true), Some(CALLED_MAX));
        assert_eq!(lanes.0.lock().free.len(), WATCHED_MAX - CALLED_MAX);
    }
}
