//! Loads and faults for tests and benchmarks. It knows other servers only by what they speak,
//! and Weir's database only to fill it.

pub mod bulk;
pub mod fediverse;
pub mod fixture;
pub mod load;
