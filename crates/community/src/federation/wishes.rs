//! How much of third parties is fetched on the word of one server: what it sends names posts and
//! people that lie elsewhere, and costs it nothing. It is fetched at once while it is little, then
//! as fast as it may be, and beyond what that takes an hour for not at all.

use std::sync::Arc;
use std::time::Duration;

use moka::sync::Cache;
use parking_lot::Mutex;
use weir_base::Timestamp;

/// What is fetched at once for one server, and in what time, in ms, one more is.
const AT_ONCE: i64 = 1_000;
const EACH_MS: i64 = 50;
/// How long anything of it waits at most, in ms: 72,000 wait by then.
const WAIT_MS_MAX: i64 = 60 * 60 * 1_000;
/// Servers remembered, and for how long those that name nothing are.
const SERVERS_MAX: u64 = 20_000;
const SERVERS_LIFE: Duration = Duration::from_secs(2 * 60 * 60);

/// Until when what each server named takes, as fast as it may be fetched.
pub struct Wishes(Cache<String, Arc<Mutex<Timestamp>>>);

impl Default for Wishes {
    fn default() -> Self {
        Self(Cache::builder().max_capacity(SERVERS_MAX).time_to_idle(SERVERS_LIFE).build())
    }
}

impl Wishes {
    /// In how many ms one thing more may be fetched that `server` named; none if it may not.
    pub(super) fn wait_ms(&self, server: &str, now: Timestamp) -> Option<i64> {
        let taken = self.0.get_with_by_ref(server, || Arc::new(Mutex::new(now)));
        let mut taken = taken.lock();
        let ahead_ms = taken.since_ms(now);
        // Further ahead than anything may be: the clock was set back.
        let is_odd = ahead_ms > AT_ONCE * EACH_MS + WAIT_MS_MAX + EACH_MS;
        let ahead_ms = if is_odd { 0 } else { ahead_ms.max(0) };
        let wait_ms = (ahead_ms - (AT_ONCE - 1) * EACH_MS).max(0);
        if wait_ms > WAIT_MS_MAX {
            metrics::counter!("weir_community_fetches_too_many_total").increment(1);
            return None;
        }
        *taken = now.plus_ms(ahead_ms + EACH_MS);
        Some(wait_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_has_much_fetched_at_once_then_as_fast_as_it_may_and_no_more_than_an_hours() {
        let (wishes, now) = (Wishes::default(), Timestamp::from_ms(10_000_000));
        for _ in 0..AT_ONCE {
            assert_eq!(wishes.wait_ms("many.example", now), Some(0));
        }
        assert_eq!(wishes.wait_ms("many.example", now), Some(EACH_MS));
        assert_eq!(wishes.wait_ms("few.example", now), Some(0), "nobody else waits for it");
        let waiting = (0..100_000).filter(|_| wishes.wait_ms("many.example", now).is_some());
        assert_eq!(waiting.count() as i64, WAIT_MS_MAX / EACH_MS - 1);
        let later = now.plus_ms(2 * EACH_MS);
        let waiting = (0..10).filter_map(|_| wishes.wait_ms("many.example", later));
        assert_eq!(waiting.collect::<Vec<_>>(), [WAIT_MS_MAX - EACH_MS, WAIT_MS_MAX]);
    }

    #[test]
    fn a_clock_that_is_set_back_holds_up_nobody() {
        let (wishes, now) = (Wishes::default(), Timestamp::from_ms(100_000_000));
        assert_eq!(wishes.wait_ms("a.example", now), Some(0));
        assert_eq!(wishes.wait_ms("a.example", now.plus_ms(-20_000_000)), Some(0));
    }
}
