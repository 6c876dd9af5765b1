//! The tables of the community, step by step.

use weir_db::Migration;

/// All steps, in order. A released step never changes.
pub(crate) const MIGRATIONS: &[Migration] = &[
    Migration { number: 1, name: "the first tables", sql: include_str!("schema/001.sql") },
    Migration { number: 2, name: "chat", sql: include_str!("schema/002.sql") },
    Migration { number: 3, name: "meetings are not logged", sql: include_str!("schema/003.sql") },
    Migration { number: 4, name: "pins by their posts", sql: include_str!("schema/004.sql") },
    Migration { number: 5, name: "fewer indexes", sql: include_str!("schema/005.sql") },
    Migration { number: 6, name: "who is told", sql: include_str!("schema/006.sql") },
    Migration { number: 7, name: "waits of a message", sql: include_str!("schema/007.sql") },
];
