//! Whether those who are here may still be, looked at again after what another node said of them
//! may have been missed. Of apps' tokens the community knows itself which are in use.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use weir_base::Id;
use weir_community::users;

use crate::face::Xmpp;
use crate::router::SHARDS;
use crate::wire::{Condition, StanzaError};

/// Accounts looked at in one query.
const CHUNK: usize = 500;
/// The wait before it is tried again, where the database or the line of arrivals did not let it.
const RETRY: Duration = Duration::from_secs(1);

/// Has everybody who is here looked at after each gap, until the shutdown: in the line of those who
/// arrive, so that nobody who is here waits for it.
pub(crate) fn follow(xmpp: &Xmpp) {
    let doubted = Arc::new(Notify::new());
    let doubts = doubted.clone();
    xmpp.env().streams.on_log_ins_changed(move |account| {
        // Of one account it is said what ends.
        if account.is_none() {
            doubts.notify_one();
        }
    });
    tokio::spawn(run(xmpp.clone(), doubted));
}

async fn run(xmpp: Xmpp, doubted: Arc<Notify>) {
    loop {
        tokio::select! {
            () = xmpp.shutdown.cancelled() => return,
            () = doubted.notified() => {}
        }
        for shard in 0..SHARDS {
            for accounts in xmpp.router.accounts_of_shard(shard).chunks(CHUNK) {
                while let Err(error) = look(&xmpp, accounts).await {
                    tracing::warn!(?error, "those who chat could not be looked at; they will be");
                    tokio::select! {
                        () = xmpp.shutdown.cancelled() => return,
                        () = tokio::time::sleep(RETRY) => {}
                    }
                }
            }
        }
    }
}

/// Ends the sessions of those of `accounts` who may not be here any more.
async fn look(xmpp: &Xmpp, accounts: &[Id]) -> Result<(), StanzaError> {
    let busy = |_| StanzaError::new(Condition::ResourceConstraint);
    let _place = xmpp.admission.enter().await.map_err(busy)?;
    let accounts = accounts.to_vec();
    let shut_out = xmpp.read(move |tx, _| users::shut_out(tx, &accounts)).await?;
    metrics::counter!("weir_xmpp_sessions_ended_late_total").increment(shut_out.len() as u64);
    shut_out.into_iter().for_each(|account| xmpp.end_sessions(account));
    Ok(())
}
