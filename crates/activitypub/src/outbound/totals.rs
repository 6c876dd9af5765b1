//! How deliveries stand, and what the face holds in memory, as metrics.

use std::time::Duration;

use metrics::gauge;
use tokio::time::MissedTickBehavior;
use weir_community::federation::outgoing::{self, Totals};
use weir_db::Class;

use crate::ActivityPub;
use crate::face::Weak;

/// How often it is counted: with a million deliveries that wait a count takes a good part of a
/// second of a reader.
const COUNT_EVERY: Duration = Duration::from_secs(60);

impl ActivityPub {
    /// Counts what waits for other servers, and how those fare, as long as the face is there.
    pub(super) fn tell_totals(&self) {
        let weak = self.downgrade();
        self.inbox().door().spawn(count(weak));
    }
}

async fn count(face: Weak) {
    let mut ticks = tokio::time::interval(COUNT_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let Some(face) = face.upgrade() else { return };
        show_held(&face);
        match face.community().read(Class::Housekeeping, outgoing::totals).await {
            Ok(totals) => show(totals),
            Err(error) => tracing::warn!(%error, "what waits for other servers was not counted"),
        }
    }
}

/// All of these have limits of their own.
fn show_held(face: &ActivityPub) {
    let outbound = face.outbound();
    let own = [
        ("weir_activitypub_peers_held", outbound.peers.held() as u64),
        ("weir_activitypub_crowds_held", outbound.crowds.held()),
        ("weir_activitypub_payloads_held_bytes", outbound.payloads.held_bytes()),
        ("weir_activitypub_signing_keys_held", face.keys().held()),
    ];
    for (name, held) in own.into_iter().chain(face.finder().held()).chain(face.inbox().held()) {
        gauge!(name).set(held as f64);
    }
}

fn show(totals: Totals) {
    let Totals { waiting, failed, failing, dead, catching_up } = totals;
    gauge!("weir_activitypub_deliveries_waiting").set(waiting as f64);
    gauge!("weir_activitypub_deliveries_failed").set(failed as f64);
    for (state, count) in [("failing", failing), ("dead", dead), ("catching_up", catching_up)] {
        gauge!("weir_activitypub_hosts", "state" => state).set(count as f64);
    }
}
