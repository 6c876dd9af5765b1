//! Time-ordered 64-bit ids.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::{Clock, Random, Timestamp};

/// Bits below the milliseconds.
const UNIQUE_BITS: u32 = 16;

/// A time-ordered id: 48 bits of milliseconds since 1970 and 16 bits that make it unique.
///
/// Outside the process it is a decimal string, as the apps of the Mastodon API expect (they parse
/// it as an integer and sort by it).
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(pub i64);

impl Id {
    /// The greatest id there can be.
    pub const MAX: Id = Id(i64::MAX);
    /// An id below every real one.
    pub const ZERO: Id = Id(0);

    /// The smallest id of this moment: the bound to use when paging by time.
    pub fn first_at(at: Timestamp) -> Id {
        Id(at.as_ms().clamp(0, (1 << 47) - 1) << UNIQUE_BITS)
    }

    /// The moment in the id, to the millisecond.
    pub fn time(self) -> Timestamp {
        Timestamp::from_ms(self.0 >> UNIQUE_BITS)
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Id({})", self.0)
    }
}

/// The text is not a positive decimal number of at most 63 bits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not an id: an id is a positive decimal number")]
pub struct ParseIdError;

impl FromStr for Id {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(ParseIdError);
        }
        text.parse().map(Id).map_err(|_| ParseIdError)
    }
}

impl Serialize for Id {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Id;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an id: a positive decimal number, as a string or an integer")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Id, E> {
                text.parse().map_err(E::custom)
            }
            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Id, E> {
                i64::try_from(number).map(Id).map_err(|_| E::custom(ParseIdError))
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Id, E> {
                if number < 0 { Err(E::custom(ParseIdError)) } else { Ok(Id(number)) }
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// Makes ids that are unique in this process and never go backwards for [`next`](Self::next).
#[derive(Clone)]
pub struct IdGenerator {
    clock: Clock,
    random: Random,
    last: Arc<AtomicI64>,
}

impl IdGenerator {
    /// A generator that reads the time from `clock`.
    pub fn new(clock: Clock, random: Random) -> Self {
        Self { clock, random, last: Arc::new(AtomicI64::new(0)) }
    }

    /// An id of now, greater than every id this method gave before.
    ///
    /// The 16 low bits start at a random value in the lower half, so that two processes rarely
    /// meet.
    pub fn next(&self) -> Id {
        Id(self.first_of(1))
    }

    /// So many ids that follow each other, as [`next`](Self::next) would give them.
    pub fn next_many(&self, count: usize) -> impl Iterator<Item = Id> + use<> {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        let first = self.first_of(count.max(1));
        (0..count).map(move |at| Id(first + at))
    }

    fn first_of(&self, count: i64) -> i64 {
        let fresh = Id::first_at(self.clock.now()).0 | i64::from(self.random.u16() >> 1);
        let first = |last: i64| if fresh > last { fresh } else { last + 1 };
        let step = |last: i64| Some(first(last) + count - 1);
        match self.last.fetch_update(Ordering::Relaxed, Ordering::Relaxed, step) {
            Ok(last) | Err(last) => first(last),
        }
    }

    /// An id of the moment `at`, with random low bits: for what happened at another time than now.
    /// It may collide; the caller's insert says so, and asks again.
    pub fn at(&self, at: Timestamp) -> Id {
        Id(Id::first_at(at).0 | i64::from(self.random.u16()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_one_millisecond_are_unique_and_rise() {
        let ids = IdGenerator::new(Clock::manual(Timestamp::from_ms(1_000)), Random::seeded(1));
        let made: Vec<Id> = (0..40_000).map(|_| ids.next()).collect();
        assert!(made.windows(2).all(|pair| pair[0] < pair[1]));
    }

    #[test]
    fn many_at_once_are_no_others_ids() {
        let ids = IdGenerator::new(Clock::manual(Timestamp::from_ms(1_000)), Random::seeded(1));
        let mut made = vec![ids.next()];
        made.extend(ids.next_many(3));
        made.extend(ids.next_many(0));
        made.push(ids.next());
        assert_eq!(made.len(), 5);
        assert!(made.windows(2).all(|pair| pair[0] < pair[1]));
    }

    #[test]
    fn ids_do_not_fall_when_the_clock_does() {
        let clock = Clock::manual(Timestamp::from_ms(10_000));
        let ids = IdGenerator::new(clock.clone(), Random::seeded(1));
        let before = ids.next();
        clock.set(Timestamp::from_ms(5_000));
        assert!(ids.next() > before);
    }

    #[test]
    fn an_id_carries_its_time_and_survives_json() {
        let ids = IdGenerator::new(
            Clock::manual(Timestamp::from_ms(1_700_000_000_123)),
            Random::seeded(7),
        );
        let id = ids.next();
        assert_eq!(id.time(), Timestamp::from_ms(1_700_000_000_123));
        assert_eq!(id.to_string().parse(), Ok(id));
        assert!("-1".parse::<Id>().is_err());
        assert!("99999999999999999999".parse::<Id>().is_err());
    }
}
