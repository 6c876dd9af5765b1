//! What memory holds is read anew after something of it may have been missed.

use std::time::Duration;

use tokio::time::Instant;
use weir_live::bus::Bus;

use super::Change;
use super::nodes::{pass_on, read_anew};
use crate::Community;

/// The wait before what was missed is read anew once more, where that failed; and after a commit in
/// doubt, which the database may still be about to do.
const RETRY: Duration = Duration::from_secs(1);

/// Whether there is something to be read anew, and when that may be tried.
pub(super) struct Anew {
    missed: bool,
    /// The other nodes have missed it too.
    by_all: bool,
    at: Instant,
}

impl Anew {
    pub(super) fn new() -> Self {
        Self { missed: false, by_all: false, at: Instant::now() }
    }

    /// Something was missed.
    pub(super) fn missed(&mut self) {
        self.missed = true;
    }

    /// Nobody knows whether a commit stands, here or on another node.
    pub(super) fn doubted(&mut self) {
        self.missed = true;
        self.by_all = true;
        self.at = Instant::now() + RETRY;
    }

    /// Whether the other nodes have to hear of it yet.
    pub(super) fn is_untold(&self) -> bool {
        self.by_all
    }

    /// Waits until it may be tried.
    pub(super) async fn due(&self) {
        match self.missed {
            true => tokio::time::sleep_until(self.at).await,
            false => std::future::pending().await,
        }
    }

    /// Reads anew, if there is something and it may be tried.
    pub(super) async fn read(&mut self, community: &Community, bus: Option<&Bus>) {
        if !self.missed || Instant::now() < self.at {
            return;
        }
        if std::mem::take(&mut self.by_all)
            && let Some(bus) = bus
        {
            pass_on(bus, &[Change::Missed]);
        }
        match read_anew(community).await {
            Ok(()) => self.missed = false,
            Err(error) => {
                tracing::warn!(%error, "what was missed could not be read anew; it will be");
                self.at = Instant::now() + RETRY;
            }
        }
    }
}
