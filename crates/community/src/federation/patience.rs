//! Fetches that can wait: what is wanted may be among the messages of its server that came in and
//! are not worked yet. They lie in the schedule for as long as they may wait, are called back when
//! nothing stands before them any more, and taken back when what they are of came by itself.

use std::collections::HashMap;

use parking_lot::Mutex;
use tokio::sync::Notify;
use weir_base::Timestamp;
use weir_db::Class;
use weir_jobs::Queue;

use super::arriving::{is_coming, sends};
use crate::Env;

/// Where messages wait that the door let in, each server's in a lane.
pub const INBOUND: Queue = Queue::new("inbound", Class::Inbound).newest_first();
/// Where those wait that come late, or do not say when they were written. They have a queue of
/// their own so that what is new never stands behind what is old and came after it, as after an
/// outage everything does.
pub const INBOUND_LATE: Queue = Queue::new("inbound_late", Class::Inbound).newest_first();

/// Messages that wait from which on what comes in is behind: some hundredths of a second of work.
pub const BEHIND: u64 = 100;

/// How long a patient fetch waits at most, in ms.
pub const PATIENCE_MS: i64 = 600_000;
/// How long one waits whose post did not come yet, in ms: so long after a message that names a post
/// this may come to the door as well.
pub const FOLLOWS_MS: i64 = 2_000;
/// The same where the server of the post sends others just now.
pub const FOLLOWS_OTHERS_MS: i64 = 10_000;
/// Why it does.
pub const ON_ITS_WAY: &str = "it may be among what came in";

/// Nothing may stand before a lane at so many looks running until it is called back. At the first
/// one a fetch may be on its way to where it waits, and would not be called.
const FREE_LOOKS: u32 = 2;
/// The same while what comes in is behind: servers that had nothing here for a moment send more.
const FREE_LOOKS_BEHIND: u32 = 10;
/// Lanes that are called back at once.
const CALLED_MAX: usize = 100;
/// Lanes that are watched at most. What is of others is not called back and waits for its time.
const WATCHED_MAX: usize = 20_000;

/// The lanes of which a fetch was put off.
#[derive(Default)]
pub struct Patience {
    /// At how many looks running nothing stood before them.
    free: Mutex<HashMap<String, u32>>,
    some: Notify,
}

impl Patience {
    /// A fetch of `lane` is being put off, and not in the schedule yet.
    pub fn put_off(&self, lane: &str) {
        self.watch(lane, |looks| *looks = 0);
    }

    /// A fetch of `lane` waits in the schedule.
    pub fn waits(&self, lane: &str) {
        self.watch(lane, |_| {});
    }

    fn watch(&self, lane: &str, again: impl FnOnce(&mut u32)) {
        let mut free = self.free.lock();
        if let Some(looks) = free.get_mut(lane) {
            again(looks);
        } else if free.len() < WATCHED_MAX {
            free.insert(lane.to_owned(), 0);
        }
        drop(free);
        self.some.notify_one();
    }

    /// Waits until there is a lane to look after. For one task.
    pub async fn any(&self) {
        while self.free.lock().is_empty() {
            self.some.notified().await;
        }
    }

    /// Those, some of them, before which nothing stood at enough looks running; they are watched no
    /// more.
    pub fn look(&self, is_free: impl Fn(&str) -> bool, is_behind: bool) -> Vec<String> {
        let enough = if is_behind { FREE_LOOKS_BEHIND } else { FREE_LOOKS };
        let mut lanes = self.free.lock();
        metrics::gauge!("weir_community_patient_lanes").set(lanes.len() as f64);
        let mut called = Vec::new();
        for (lane, looks) in lanes.iter_mut() {
            *looks = if is_free(lane) { looks.saturating_add(1) } else { 0 };
            if *looks >= enough && called.len() < CALLED_MAX {
                called.push(lane.clone());
            }
        }
        for lane in &called {
            lanes.remove(lane);
        }
        called
    }
}

/// How many messages wait, as far as this process knows.
pub fn unworked(env: &Env) -> u64 {
    [INBOUND, INBOUND_LATE].iter().map(|queue| env.jobs.depth(queue.name)).sum()
}

/// Whether messages of `host` wait, as far as this process knows.
pub fn has_unworked_of(env: &Env, host: &str) -> bool {
    [INBOUND, INBOUND_LATE].iter().any(|queue| env.jobs.depth_in(queue.name, host) > 0)
}

/// Whether what is of `host` may come by itself: messages of it wait besides those that are worked
/// just now, or many of others do, among which it sends its own.
pub(super) fn may_come(env: &Env, host: &str) -> bool {
    let waits = |queue: &Queue| env.jobs.untaken_in(queue.name, host) > 0;
    [INBOUND, INBOUND_LATE].iter().any(waits) || unworked(env) >= BEHIND
}

/// For how long the post at `uri` of `host` is waited for where it may come, in ms; it is wanted by
/// a message that came at `since`.
pub(super) fn comes_ms(env: &Env, host: &str, uri: &str, since: Timestamp) -> i64 {
    if is_coming(env, uri) {
        return PATIENCE_MS;
    }
    let follows_ms = if sends(env, host) { FOLLOWS_OTHERS_MS } else { FOLLOWS_MS };
    // A clock that was set back would hold it up.
    let is_new = (0..follows_ms).contains(&env.clock.now().since_ms(since));
    if is_new { follows_ms } else { 0 }
}

/// Whether the post at `uri` is among the messages of `host` that wait, as far as is known.
pub fn is_on_its_way(env: &Env, host: &str, uri: &str) -> bool {
    has_unworked_of(env, host) && is_coming(env, uri)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn called(lanes: &Patience, is_free: bool) -> usize {
        lanes.look(|_| is_free, false).len()
    }

    #[test]
    fn who_waits_is_called_when_nothing_stood_before_it_at_two_looks_running() {
        let lanes = Patience::default();
        lanes.put_off("a.example");
        lanes.put_off("b.example");
        assert_eq!(called(&lanes, true), 0);
        assert_eq!(called(&lanes, false), 0);
        assert_eq!(called(&lanes, true), 0, "the look before found something");
        // One of the two waits anew.
        lanes.put_off("a.example");
        assert_eq!(lanes.look(|_| true, false), ["b.example"]);
        assert_eq!(lanes.look(|_| true, false), ["a.example"]);
        assert_eq!(called(&lanes, true), 0);
        // What lies in the schedule already has nobody wait longer.
        lanes.waits("a.example");
        assert_eq!(called(&lanes, true), 0);
        lanes.waits("a.example");
        assert_eq!(lanes.look(|_| true, false), ["a.example"]);
    }

    #[test]
    fn a_server_that_had_nothing_for_a_moment_in_a_flood_is_not_asked() {
        let lanes = Patience::default();
        lanes.put_off("a.example");
        for _ in 1..FREE_LOOKS_BEHIND {
            assert!(lanes.look(|_| true, true).is_empty());
        }
        assert_eq!(lanes.look(|_| true, true), ["a.example"]);
        lanes.put_off("a.example");
        assert!(lanes.look(|_| true, true).is_empty());
        assert_eq!(lanes.look(|_| true, false), ["a.example"], "the flood is over");
    }

    #[test]
    fn many_are_called_by_and_by_and_no_more_are_watched_than_there_is_room_for() {
        let lanes = Patience::default();
        for number in 0..WATCHED_MAX + 10 {
            lanes.put_off(&format!("{number}.example"));
        }
        assert_eq!(lanes.free.lock().len(), WATCHED_MAX);
        assert_eq!(called(&lanes, true), 0);
        assert_eq!(called(&lanes, true), CALLED_MAX);
        assert_eq!(lanes.free.lock().len(), WATCHED_MAX - CALLED_MAX);
    }
}
