//! The bounds of a server: nothing that clients cause grows beyond them.

use std::time::Duration;

use weir_base::KIB;

/// The bounds of a [`Server`](crate::Server).
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Sessions at once, those kept for a resumption too; the next one is refused.
    pub sessions_max: usize,
    /// Subscriptions of one session.
    pub subscriptions_max: usize,
    /// The parameters of one subscription, as JSON, in bytes; it is refused beyond.
    pub params_bytes_max: usize,
    /// Messages of one session that wait behind a method; no more are read meanwhile.
    pub waiting_max: usize,
    /// What these take together, in bytes; no more are read meanwhile.
    pub waiting_bytes_max: usize,
    /// Methods of one session at work at once.
    pub methods_max: usize,
    /// Messages of one session a second, on average; no more are read meanwhile.
    pub messages_per_s: u32,
    /// Messages of one session at once.
    pub messages_burst: u32,
    /// Different queries that are kept up to date at once; the next one is refused.
    pub observers_max: usize,
    /// Documents that all queries together hold; a new query is refused then.
    pub documents_held_max: usize,
    /// Documents of one query.
    pub documents_max: usize,
    /// Initial results read at once; more wait in line.
    pub reads_max: usize,
    /// Initial results that wait in line; the next one is told to come again.
    pub reads_waiting_max: usize,
    /// Arriving sessions whose initial data is handed out in turns; more wait in line.
    pub arrivals_max: usize,
    /// Initial data handed out in one turn, in bytes.
    pub slice_bytes: usize,
    /// What is sent without waiting for a turn, in bytes.
    pub small_bytes: usize,
    /// The longest message of a client, in bytes.
    pub message_bytes_max: usize,
    /// How long a client may take for `connect`.
    pub connect_deadline: Duration,
    /// Silence after which a client is asked whether it is there, and how long it may take to say.
    pub heartbeat: Duration,
    /// How long a message of a client may take from its first byte to its last.
    pub message_deadline: Duration,
    /// How long a client may take to accept each 64 KiB.
    pub write_deadline: Duration,
    /// How long a session is kept after its connection broke.
    pub grace: Duration,
    /// Over what time sessions are ended at a shutdown, at most.
    pub parting: Duration,
    /// Messages kept for a resumption.
    pub resume_messages_max: usize,
    /// Bytes kept for a resumption.
    pub resume_bytes_max: usize,
    /// How long a query that nobody asks for is kept up to date.
    pub linger: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            sessions_max: 50_000,
            subscriptions_max: 256,
            params_bytes_max: 4 * KIB,
            waiting_max: 128,
            waiting_bytes_max: 256 * KIB,
            methods_max: 16,
            messages_per_s: 100,
            messages_burst: 1_000,
            observers_max: 50_000,
            documents_held_max: 2_000_000,
            documents_max: 10_000,
            reads_max: 4,
            reads_waiting_max: 20_000,
            arrivals_max: 4,
            slice_bytes: 64 * KIB,
            small_bytes: 16 * KIB,
            message_bytes_max: 64 * KIB,
            connect_deadline: Duration::from_secs(10),
            heartbeat: Duration::from_secs(15),
            message_deadline: Duration::from_secs(20),
            write_deadline: Duration::from_secs(10),
            grace: Duration::from_secs(15),
            parting: Duration::from_secs(2),
            resume_messages_max: 100,
            resume_bytes_max: 256 * KIB,
            linger: Duration::from_secs(15),
        }
    }
}
