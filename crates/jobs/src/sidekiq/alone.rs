//! Jobs that were held at all but one of the deaths that make poison: each is tried alone, before
//! the others.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;

use super::names;
use super::worker::{Core, Taken};

/// All of them together are tried for so long before the other jobs start.
const ALONE_MAX: Duration = Duration::from_secs(10);
/// The note of who runs alone goes after so many seconds: long after somebody read it.
const NOTE_S: u64 = 3_600;

/// Trials, one after the other.
pub(crate) struct Trials {
    due: Instant,
    /// Jobs of the same fetch that have not started.
    waiting: u64,
}

impl Trials {
    /// So many jobs were fetched and none has started. `due` is when this process tries no more.
    pub(crate) fn begin(waiting: usize, due: Option<Instant>) -> Self {
        Self { due: due.unwrap_or_else(|| Instant::now() + ALONE_MAX), waiting: waiting as u64 }
    }

    /// When no more is tried.
    pub(crate) fn due(&self) -> Instant {
        self.due
    }

    /// Starts a job by `start` when no other runs, and waits for its end; after a while it just
    /// starts.
    pub(crate) async fn attempt(&mut self, core: &Core, taken: &Arc<Taken>, start: impl FnOnce()) {
        let in_time = Instant::now() < self.due && self.until(core, self.waiting).await;
        let is_alone = in_time && note(core, taken).await;
        start();
        self.waiting = self.waiting.saturating_sub(1);
        if is_alone {
            self.until(core, self.waiting).await;
            let mut gone = redis::cmd("DEL");
            gone.arg(names::alone(&core.shared.identity));
            let gone: redis::RedisResult<()> = gone.query_async(&mut core.shared.redis()).await;
            if let Err(error) = gone {
                tracing::debug!(%error, "a note of a job that ran alone stays until it expires");
            }
        }
    }

    /// Waits until only `most` jobs are held that have not ended; false when it took too long.
    async fn until(&self, core: &Core, most: u64) -> bool {
        while core.running.load(Ordering::Relaxed) > most {
            tokio::select! {
                () = core.freed.notified() => {}
                () = tokio::time::sleep_until(self.due) => return false,
                () = core.stop.cancelled() => return false,
            }
        }
        Instant::now() < self.due
    }
}

/// Writes down that `taken` runs alone; false when Redis does not answer.
async fn note(core: &Core, taken: &Taken) -> bool {
    let mut set = redis::cmd("SET");
    set.arg(names::alone(&core.shared.identity)).arg(core.field(taken)).arg("EX").arg(NOTE_S);
    let set: redis::RedisResult<()> = set.query_async(&mut core.shared.redis()).await;
    set.is_ok()
}
