//! How many messages of unknown senders wait, by lane and by network: ready, put off, or for their
//! next try. The database is asked now and then; what was taken since counts besides. So it is
//! never less than there is, but for what moves in the moment it is counted.

use std::collections::HashMap;

use weir_base::Timestamp;
use weir_db::{Class, Tx};
use weir_jobs::Jobs;

use super::unknown::QUEUE;
use crate::ActivityPub;

/// How long a count is good at least, in ms …
const COUNTED_MS: i64 = 200;
/// … and so many times as long as it took.
const COUNTED_TIMES: i64 = 20;

/// Counts of messages.
#[derive(Default)]
struct Tally {
    total: u64,
    lanes: HashMap<String, u64>,
    sources: HashMap<String, u64>,
}

/// The network in the name of a lane, which is a network and a server.
fn source_of(lane: &str) -> &str {
    lane.split(' ').next().unwrap_or_default()
}

impl Tally {
    fn add(&mut self, lane: &str, count: u64) {
        self.total += count;
        for (counts, name) in [(&mut self.lanes, lane), (&mut self.sources, source_of(lane))] {
            match counts.get_mut(name) {
                Some(known) => *known += count,
                None => drop(counts.insert(name.to_owned(), count)),
            }
        }
    }

    fn remove_one(&mut self, lane: &str) {
        self.total = self.total.saturating_sub(1);
        for (counts, name) in [(&mut self.lanes, lane), (&mut self.sources, source_of(lane))] {
            match counts.get_mut(name) {
                Some(count) if *count > 1 => *count -= 1,
                _ => drop(counts.remove(name)),
            }
        }
    }
}

/// See the module.
#[derive(Default)]
pub(super) struct Crowd {
    /// What was there at the last count.
    counted: Tally,
    /// What became durable before the count began that is under way, and after the last one.
    before: Tally,
    /// What became durable since the last count began.
    since: Tally,
    /// What is on its way to the disk.
    coming: Tally,
    began: Timestamp,
    again: Timestamp,
    is_counting: bool,
}

impl Crowd {
    fn of(&self, count: impl Fn(&Tally) -> u64) -> u64 {
        [&self.counted, &self.before, &self.since, &self.coming].into_iter().map(count).sum()
    }

    /// How many wait in all.
    pub(super) fn total(&self) -> u64 {
        self.of(|tally| tally.total)
    }

    /// How many wait in `lane`.
    pub(super) fn of_lane(&self, lane: &str) -> u64 {
        self.of(|tally| tally.lanes.get(lane).copied().unwrap_or(0))
    }

    /// How many wait of the network of `lane`.
    pub(super) fn of_source(&self, lane: &str) -> u64 {
        self.of(|tally| tally.sources.get(source_of(lane)).copied().unwrap_or(0))
    }

    /// One more is taken, and on its way to the disk.
    pub(super) fn comes(&mut self, lane: &str) {
        self.coming.add(lane, 1);
    }

    /// It arrived there, or did not.
    pub(super) fn came(&mut self, lane: &str, kept: bool) {
        self.coming.remove_one(lane);
        if kept {
            self.since.add(lane, 1);
        }
    }

    /// Whether it is time to count; then a count begins.
    fn begins(&mut self, now: Timestamp) -> bool {
        // A clock that was put back puts off no count for long.
        let due = now >= self.again || now < self.began;
        if self.is_counting || !due {
            return false;
        }
        (self.is_counting, self.began) = (true, now);
        self.before = std::mem::take(&mut self.since);
        true
    }

    /// The count is over: so many wait by lane, unless it failed.
    fn ends(&mut self, now: Timestamp, counted: Option<Vec<(String, u64)>>) {
        self.is_counting = false;
        let took_ms = now.since_ms(self.began).max(0);
        self.again = now.plus_ms((took_ms * COUNTED_TIMES).max(COUNTED_MS));
        let before = std::mem::take(&mut self.before);
        let Some(counted) = counted else {
            before.lanes.into_iter().for_each(|(lane, count)| self.since.add(&lane, count));
            return;
        };
        self.counted = Tally::default();
        counted.into_iter().for_each(|(lane, count)| self.counted.add(&lane, count));
        metrics::gauge!("weir_activitypub_unverified_waiting").set(self.counted.total as f64);
    }
}

/// What is ready to be looked at, by lane.
fn ready(jobs: &Jobs) -> Vec<(String, u64)> {
    let lanes = jobs.lanes(QUEUE.name, usize::MAX);
    lanes.into_iter().map(|one| (one.lane, one.depth)).collect()
}

impl ActivityPub {
    /// Counts the messages of unknown senders, where it is time for that and nobody does.
    pub(super) async fn count_unknown(&self) {
        if !self.inbox().full.lock().crowd.begins(self.now()) {
            return;
        }
        let read = move |tx: &mut Tx, env: &weir_community::Env| {
            let mut all = ready(&env.jobs);
            all.extend(env.jobs.waiting_again(tx, QUEUE)?);
            Ok(all)
        };
        let counted = self.community().read(Class::Inbound, read).await;
        if let Err(error) = &counted {
            tracing::debug!(%error, "messages of unknown senders were not counted");
        }
        self.inbox().full.lock().crowd.ends(self.now(), counted.ok());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LANE: &str = "192.0.2.1 a.example";

    #[test]
    fn what_comes_while_others_are_counted_counts_and_what_ended_does_not() {
        let mut crowd = Crowd::default();
        let now = Timestamp::from_ms(1_000_000);
        crowd.comes(LANE);
        crowd.comes(LANE);
        crowd.came(LANE, true);
        assert_eq!(crowd.of_lane(LANE), 2);
        assert!(crowd.begins(now) && !crowd.begins(now), "one counts at a time");
        crowd.came(LANE, true);
        crowd.comes("192.0.2.1 b.example");
        assert_eq!((crowd.of_lane(LANE), crowd.of_source(LANE), crowd.total()), (2, 3, 3));
        crowd.ends(now.plus_ms(100), Some(vec![(LANE.into(), 1)]));
        // What arrived beside the count may be in it: it counts twice until the next one.
        assert_eq!((crowd.of_lane(LANE), crowd.of_source(LANE)), (2, 3));
        assert!(!crowd.begins(now.plus_ms(2_000)), "what takes long is done seldom");
        assert!(crowd.begins(now.plus_ms(2_100)));
        crowd.came("192.0.2.1 b.example", false);
        crowd.ends(now.plus_ms(2_100), Some(Vec::new()));
        assert_eq!((crowd.of_lane(LANE), crowd.total()), (0, 0));
    }

    #[test]
    fn a_count_that_fails_forgets_nothing() {
        let mut crowd = Crowd::default();
        let now = Timestamp::from_ms(1_000_000);
        crowd.comes(LANE);
        crowd.came(LANE, true);
        assert!(crowd.begins(now));
        crowd.ends(now, None);
        assert_eq!((crowd.of_lane(LANE), crowd.total()), (1, 1));
    }
}
