//! Who left a moment ago and may come back.

use std::collections::{HashMap, VecDeque};

use metrics::Gauge;
use parking_lot::Mutex;
use weir_base::Timestamp;

/// Identities that left within the age of the log, a bounded number of them.
pub(crate) struct Awaited {
    age_ms_max: i64,
    count_max: usize,
    state: Mutex<State>,
    awaited: Gauge,
}

#[derive(Default)]
struct State {
    left_at: HashMap<i64, Timestamp>,
    order: VecDeque<(Timestamp, i64)>,
}

impl Awaited {
    pub(crate) fn new(age_ms_max: i64, count_max: usize) -> Self {
        let awaited = metrics::gauge!("weir_live_awaited");
        Self { age_ms_max, count_max, state: Mutex::default(), awaited }
    }

    /// `identity` has no session any more.
    pub(crate) fn left(&self, identity: i64, now: Timestamp) {
        if self.count_max == 0 {
            return;
        }
        let mut state = self.state.lock();
        state.left_at.insert(identity, now);
        state.order.push_back((now, identity));
        state.expire(now, self.age_ms_max, self.count_max);
        self.awaited.set(state.left_at.len() as f64);
    }

    pub(crate) fn contains(&self, identity: i64, now: Timestamp) -> bool {
        let state = self.state.lock();
        state.left_at.get(&identity).is_some_and(|at| now.since_ms(*at) <= self.age_ms_max)
    }

    pub(crate) fn is_empty(&self, now: Timestamp) -> bool {
        self.len(now) == 0
    }

    pub(crate) fn len(&self, now: Timestamp) -> usize {
        let mut state = self.state.lock();
        state.expire(now, self.age_ms_max, self.count_max);
        state.left_at.len()
    }

    pub(crate) fn all(&self, now: Timestamp) -> Vec<i64> {
        let mut state = self.state.lock();
        state.expire(now, self.age_ms_max, self.count_max);
        state.left_at.keys().copied().collect()
    }
}

impl State {
    fn expire(&mut self, now: Timestamp, age_ms_max: i64, count_max: usize) {
        while let Some((at, identity)) = self.order.front().copied() {
            if self.order.len() <= count_max && now.since_ms(at) <= age_ms_max {
                break;
            }
            self.order.pop_front();
            // Who left again since stands further back.
            if self.left_at.get(&identity) == Some(&at) {
                self.left_at.remove(&identity);
            }
        }
    }
}
