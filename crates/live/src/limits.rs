//! The bounds of a hub.

use weir_base::MIB;

/// The bounds of a [`Hub`](crate::Hub): nothing that clients cause grows beyond them.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Sessions at once; the next one is refused.
    pub sessions_max: usize,
    /// Sessions at once of one identity; identity 0 (nobody in particular) is not counted.
    pub sessions_per_identity_max: usize,
    /// Subscriptions of one session.
    pub subscriptions_max: usize,
    /// Events that wait in one session's outbox; one more and the session is lost.
    pub outbox_events_max: usize,
    /// Bytes (as [`Shared::size_bytes`](crate::Shared::size_bytes) counts them) that wait in one
    /// session's outbox; an empty outbox takes any one event.
    pub outbox_bytes_max: usize,
    /// Arrivals that [`Hub::admission`](crate::Hub::admission) lets work at once.
    pub arrivals_max: usize,
    /// Arrivals that wait in line behind those; the next one is told to come again.
    pub arrivals_waiting_max: usize,
    /// What is kept for those who come back.
    pub log: LogLimits,
}

/// The bounds of what a hub keeps of its past, from which sessions
/// [resume](crate::Session::resume). The oldest goes first.
#[derive(Clone, Copy, Debug)]
pub struct LogLimits {
    /// Events; 0 keeps none.
    pub events_max: usize,
    /// Bytes, as [`Shared::held_bytes`](crate::Shared::held_bytes) counts them.
    pub bytes_max: usize,
    /// Different topics of these events.
    pub topics_max: usize,
    /// How old an event may be, in ms.
    pub age_ms_max: i64,
    /// Identities that left within that time and are awaited
    /// ([`Hub::is_awaited`](crate::Hub::is_awaited)).
    pub awaited_max: usize,
}

impl Default for Limits {
    /// Bounds for a machine of a few gigabytes; a program derives its own from its budget.
    fn default() -> Self {
        Self {
            sessions_max: 100_000,
            sessions_per_identity_max: 256,
            subscriptions_max: 256,
            outbox_events_max: 1_000,
            outbox_bytes_max: MIB,
            arrivals_max: 8,
            arrivals_waiting_max: 10_000,
            log: LogLimits::default(),
        }
    }
}

impl Default for LogLimits {
    fn default() -> Self {
        Self {
            events_max: 20_000,
            bytes_max: 32 * MIB,
            topics_max: 50_000,
            age_ms_max: 120_000,
            awaited_max: 20_000,
        }
    }
}
