//! Maps and sets by ids.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

use weir_base::Id;

/// Hashes ids, which are given here and differ in their low and middle bits: a home timeline looks
/// thousands of them up.
#[derive(Default, Clone)]
pub(super) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, number: u64) {
        // The golden ratio of 2^64; the product's upper half depends on all of the number.
        let product = u128::from(self.0 ^ number) * 0x9e37_79b9_7f4a_7c15;
        self.0 = (product as u64) ^ (product >> 64) as u64;
    }

    fn write_i64(&mut self, number: i64) {
        self.write_u64(number as u64);
    }

    fn write_isize(&mut self, number: isize) {
        self.write_u64(number as u64 ^ 0x5bd1_e995);
    }
}

/// By an id, or by what holds one.
pub(super) type Map<K, V> = HashMap<K, V, BuildHasherDefault<IdHasher>>;
/// Some ids.
pub(super) type Ids = HashSet<Id, BuildHasherDefault<IdHasher>>;
