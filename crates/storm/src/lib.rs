//! Loads and faults for tests and benchmarks.

pub mod fixture;
