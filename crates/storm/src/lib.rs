//! Loads and faults for tests and benchmarks.
