//! Who waits for an answer goes first, also at the server: it gives all of its processes the same
//! turns, so while a unit of people's reads, statements of less urgent ones are not sent. Nor are
//! they for a moment after it, since what a person asks for may take several.
//!
//! Nobody is held for long: a unit that is held may have locks that others wait for, and where
//! people ask without a pause the others would never go on.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// So long a statement is held at most, …
const STATEMENT_HELD_MAX: Duration = Duration::from_millis(10);
/// … and all of one unit's together.
pub(super) const UNIT_HELD_MAX: Duration = Duration::from_millis(40);
/// After a unit of people's the next one may follow for so long.
const NEXT_WITHIN: Duration = Duration::from_millis(2);

/// See the module.
pub(super) struct Courtesy {
    /// Whether anybody has to look at `people`: what most of the time nobody has.
    are_here: AtomicBool,
    people: Mutex<People>,
    over: Condvar,
    held_seconds: metrics::Histogram,
}

#[derive(Default)]
struct People {
    /// Units of theirs that run.
    running: usize,
    /// Until when others follow, after the last of them.
    until: Option<Instant>,
}

/// A unit of people's runs until this is dropped.
pub(super) struct First<'c>(&'c Courtesy);

impl Default for Courtesy {
    fn default() -> Self {
        Self {
            are_here: AtomicBool::new(false),
            people: Mutex::default(),
            over: Condvar::new(),
            held_seconds: metrics::histogram!("weir_db_held_seconds"),
        }
    }
}

impl Courtesy {
    /// A unit of people's begins.
    pub(super) fn first(&self) -> First<'_> {
        self.people.lock().running += 1;
        self.are_here.store(true, Ordering::Release);
        First(self)
    }

    /// Waits until no unit of people's runs or may follow, within what is `left` of the time for
    /// which a unit is held; tells for how long.
    pub(super) fn wait(&self, left: Duration) -> Duration {
        if left.is_zero() || !self.are_here.load(Ordering::Acquire) {
            return Duration::ZERO;
        }
        let began = Instant::now();
        let until = began + left.min(STATEMENT_HELD_MAX);
        let mut people = self.people.lock();
        loop {
            let now = Instant::now();
            let over_at = if people.running > 0 { None } else { Some(people.until.unwrap_or(now)) };
            if over_at.is_some_and(|at| at <= now) {
                self.are_here.store(false, Ordering::Release);
                break;
            }
            if now >= until {
                break;
            }
            self.over.wait_until(&mut people, over_at.map_or(until, |at| at.min(until)));
        }
        drop(people);
        let held = began.elapsed();
        self.held_seconds.record(held.as_secs_f64());
        held
    }
}

impl Drop for First<'_> {
    fn drop(&mut self) {
        let mut people = self.0.people.lock();
        people.running -= 1;
        if people.running == 0 {
            people.until = Some(Instant::now() + NEXT_WITHIN);
            self.0.over.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_held_goes_on_when_the_last_unit_of_peoples_is_over() {
        let courtesy = Courtesy::default();
        let is_held = || courtesy.are_here.load(Ordering::Acquire);
        assert_eq!(courtesy.wait(UNIT_HELD_MAX), Duration::ZERO, "nobody was here");
        let (one, other) = (courtesy.first(), courtesy.first());
        drop(one);
        courtesy.wait(Duration::from_millis(1));
        assert!(is_held(), "the other is not over");
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| {
                while is_held() {
                    courtesy.wait(Duration::from_secs(60));
                }
            });
            drop(other);
            waits.join().unwrap();
        });
    }

    #[test]
    fn nobody_is_held_for_longer_than_a_unit_may_be() {
        let courtesy = Courtesy::default();
        let _people = courtesy.first();
        let mut left = UNIT_HELD_MAX;
        let mut times = 0;
        while !left.is_zero() {
            left = left.saturating_sub(courtesy.wait(left));
            times += 1;
        }
        assert!(times <= UNIT_HELD_MAX.as_millis() / STATEMENT_HELD_MAX.as_millis() + 1, "{times}");
    }
}
