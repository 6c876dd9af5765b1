//! Who waits for an answer goes first, also at the server: it gives all of its processes the same
//! turns, so while a unit of people's reads, statements of less urgent ones are not sent. Nor are
//! they for a moment after it, since what a person asks for may take several.
//!
//! Nobody is held for long: a unit that is held may have locks that others wait for, and where
//! people ask without a pause the others would never go on. Small units least of all: they cost
//! people little, and one that is held has a connection.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// So long a statement is held at most, …
const STATEMENT_HELD_MAX: Duration = Duration::from_millis(10);
/// … all of a unit's together for so long, and as long again as it has worked, …
const UNIT_HELD_FIRST: Duration = Duration::from_millis(4);
/// … and for so long in all.
const UNIT_HELD_MAX: Duration = Duration::from_millis(40);
/// After a unit of people's the next one may follow for so long.
const NEXT_WITHIN: Duration = Duration::from_micros(200);

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

/// For how long a unit is held.
pub(super) struct Hold {
    began: Instant,
    most: Duration,
    was: Duration,
}

impl Hold {
    /// Of a unit that begins now, and may be held or not.
    pub(super) fn new(may_be_held: bool) -> Self {
        let most = if may_be_held { UNIT_HELD_MAX } else { Duration::ZERO };
        Self { began: Instant::now(), most, was: Duration::ZERO }
    }

    /// For how long it was held so far.
    pub(super) const fn was(&self) -> Duration {
        self.was
    }

    /// It is not held any more.
    pub(super) const fn end(&mut self) {
        self.most = Duration::ZERO;
    }

    /// For how long it may still be held when it has worked for `worked`.
    fn left(&self, worked: Duration) -> Duration {
        self.most.min(UNIT_HELD_FIRST + worked).saturating_sub(self.was)
    }
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

    /// Waits until no unit of people's runs or may follow, within what is left of `hold`.
    pub(super) fn wait(&self, hold: &mut Hold) {
        if hold.most.is_zero() || !self.are_here.load(Ordering::Acquire) {
            return;
        }
        let left = hold.left(hold.began.elapsed().saturating_sub(hold.was));
        if !left.is_zero() {
            hold.was += self.wait_within(left);
        }
    }

    /// Waits for `left` at most; tells for how long it did.
    fn wait_within(&self, left: Duration) -> Duration {
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
        let mut hold = Hold::new(true);
        courtesy.wait(&mut hold);
        assert_eq!(hold.was(), Duration::ZERO, "nobody was here");
        let (one, other) = (courtesy.first(), courtesy.first());
        drop(one);
        courtesy.wait_within(Duration::from_millis(1));
        assert!(is_held(), "the other is not over");
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| {
                while is_held() {
                    courtesy.wait_within(Duration::from_secs(60));
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
        let mut hold = Hold::new(true);
        let mut times = 0;
        while !hold.left(Duration::from_secs(60)).is_zero() {
            let left = hold.left(Duration::from_secs(60));
            hold.was += courtesy.wait_within(left);
            times += 1;
        }
        assert!(times <= UNIT_HELD_MAX.as_millis() / STATEMENT_HELD_MAX.as_millis() + 1, "{times}");
    }

    #[test]
    fn a_unit_is_held_for_longer_when_it_has_worked_for_long() {
        let ms = Duration::from_millis;
        let mut hold = Hold::new(true);
        assert_eq!(hold.left(ms(0)), ms(4));
        hold.was = ms(4);
        assert_eq!(hold.left(ms(0)), ms(0));
        assert_eq!(hold.left(ms(3)), ms(3));
        assert_eq!(hold.left(ms(1_000)), ms(36));
        hold.end();
        assert_eq!(hold.left(ms(1_000)), ms(0));
        assert_eq!(Hold::new(false).left(ms(1_000)), ms(0), "people's own");
    }
}
