//! Tests of several parts together.

mod schedules;
