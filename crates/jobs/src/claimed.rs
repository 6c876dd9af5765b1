//! What a handler is given: the job, and what it can say and ask while it runs.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use weir_base::{Id, Timestamp};

use crate::running::Site;
use crate::sidekiq::jid;

/// A job that was taken from its queue to be run.
#[derive(Debug, Clone)]
pub struct Claimed<J> {
    /// Stays the same over all attempts: lets the other side of a task recognise a repeat.
    pub id: Id,
    /// Which attempt this is, from 1. A run cut off by a crash or a stop does not count.
    pub attempt: u32,
    /// When it was enqueued first.
    pub enqueued_at: Timestamp,
    /// The batch it belongs to, to which it may add jobs.
    pub batch: Option<Id>,
    /// The job.
    pub job: J,
    pub(crate) jid: Option<Arc<str>>,
    /// Where it runs, if it is a task.
    pub(crate) site: Option<Arc<Site>>,
}

impl<J> Claimed<J> {
    /// The job's name in Redis, 24 hexadecimal digits: what a Sidekiq that shares the Redis knows
    /// it by. Jobs of the database have one too, made from [`id`](Self::id).
    pub fn jid(&self) -> Arc<str> {
        self.jid.clone().unwrap_or_else(|| jid::of(self.id).into())
    }

    /// The same with its job in another form: for types that are handled alike.
    pub fn map<K>(self, form: impl FnOnce(J) -> K) -> Claimed<K> {
        let Self { id, attempt, enqueued_at, batch, job, jid, site } = self;
        Claimed { id, attempt, enqueued_at, batch, job: form(job), jid, site }
    }

    /// Is cancelled when the task is ([`Jobs::cancel_running`](crate::Jobs::cancel_running)). The
    /// handler itself is cut off at its next `await` and need not look; what it handed to other
    /// threads goes on until it looks here. A unit's never is.
    pub fn cancel_token(&self) -> CancellationToken {
        self.site.as_ref().map_or_else(CancellationToken::new, |it| it.token(self.id))
    }

    /// Whether the task was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.site.is_some() && self.cancel_token().is_cancelled()
    }

    /// Waits until the task is cancelled: for a part of it that runs in a task of its own.
    pub async fn cancelled(&self) {
        self.cancel_token().cancelled().await;
    }

    /// Whether the process is about to stop: a long task saves where it is, and waits to be cut
    /// off; it runs again at the next start, as the same attempt.
    pub fn is_stopping(&self) -> bool {
        self.site.as_ref().is_some_and(|site| site.stop.is_cancelled())
    }

    /// Tells how far the task is, `done` of `total` (0: not known), with a text of at most 200
    /// bytes: shown by [`Jobs::running`](crate::Jobs::running) while it runs, and forgotten then.
    /// Nothing is written; a unit's progress is not shown.
    pub fn progress(&self, done: u64, total: u64, text: &str) {
        if let Some(site) = &self.site {
            site.progress(self.id, done, total, text);
        }
    }
}
