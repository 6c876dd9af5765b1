//! How a host answers.

use std::time::Duration;

/// How a host answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Behaviour {
    /// At once.
    #[default]
    Fine,
    /// After so long.
    Slow(Duration),
    /// With this status, at once.
    Fails(u16),
    /// No connection is accepted.
    Refuses,
    /// Connections are accepted and nothing is ever answered.
    Hangs,
    /// Everything is gone (410).
    Gone,
    /// A byte a second.
    Drips,
}
