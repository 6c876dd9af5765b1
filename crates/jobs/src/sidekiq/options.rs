//! What can be set.

use std::time::Duration;

use weir_base::Secret;

use super::Times;

/// Where Redis is, and how it is used.
#[derive(Debug, Clone)]
pub struct Options {
    /// `redis://[[USER]:PASSWORD@]HOST[:PORT][/DATABASE]`, `rediss://…` for TLS by the
    /// certificates that the system trusts, or `unix:PATH`.
    pub url: Secret<String>,
    /// The queues that are worked, with their weights. Empty: those that the registered job types
    /// declare, the more urgent class with the greater weight.
    pub queues: Vec<(String, u32)>,
    /// In which order they are looked at.
    pub order: QueueOrder,
    /// A queue of Redis gets no more of our own jobs while it holds so many; the others wait in
    /// the database, where their fairness keys take turns.
    pub window: usize,
    /// Jobs that this process holds at once, at most.
    pub held_max: usize,
    /// How moments are written; both forms are read.
    pub times: Times,
    /// What Sidekiq Web shows beside the process.
    pub tag: String,
    /// A name for where this process runs on its machine, such as its data directory, of which
    /// there is one at a time. What an earlier process of that name held is put back at once when
    /// this one starts. Empty: only after [`lease`](Self::lease).
    pub place: String,
    /// A job that was held at so many deaths of processes, and ran alone at the last, goes to the
    /// dead set; one that was held at one less is tried alone. 0: deaths are not counted, for
    /// whoever kills processes from outside again and again.
    pub deaths_max: u32,
    /// How long a process may give no sign of life before others put back what it held.
    pub lease: Duration,
}

/// In which order queues are looked at when jobs are fetched.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum QueueOrder {
    /// By chance, a queue with twice the weight coming first twice as often: none starves.
    #[default]
    Weighted,
    /// A queue is only looked at when those before it are empty.
    Strict,
}

impl Options {
    /// The defaults, with Redis at `url`.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: Secret::new(url.into()),
            queues: Vec::new(),
            order: QueueOrder::default(),
            window: 2_000,
            held_max: 2_000,
            times: Times::default(),
            tag: "weir".into(),
            place: String::new(),
            deaths_max: 3,
            lease: Duration::from_secs(20),
        }
    }
}
