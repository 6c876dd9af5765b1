//! Whether log-ins by which something is open are still good, looked at again after what another
//! node said of them may have been missed.

use std::collections::HashSet;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use weir_base::Id;
use weir_db::Class;

use crate::{Community, Error, oauth};

/// Tokens looked at in one query.
const CHUNK: usize = 1_000;
/// The wait before it is tried again, where the database or the line of arrivals did not let it.
const RETRY: Duration = Duration::from_secs(1);

/// Looks at what is open after each gap, until `shutdown`: in the line of those who arrive, so that
/// nobody who is here waits for it.
pub(super) async fn settle(community: Community, shutdown: CancellationToken) {
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = community.env().streams.doubted.notified() => {}
        }
        community.env().streams.log_ins_changed_of(None);
        let mut after = Id::ZERO;
        loop {
            match look(&community, after).await {
                Ok(Some(last)) => after = last,
                Ok(None) => break,
                Err(error) => {
                    tracing::warn!(%error, "open log-ins could not be looked at; they will be");
                    tokio::select! {
                        () = shutdown.cancelled() => return,
                        () = tokio::time::sleep(RETRY) => {}
                    }
                }
            }
        }
    }
}

/// Ends what is open by the next tokens behind `after` that are good for nothing any more; gives
/// the last that was looked at, none where there are no more.
async fn look(community: &Community, after: Id) -> Result<Option<Id>, Error> {
    let env = community.env();
    let held = env.log_ins.held().behind(after, CHUNK);
    let Some((last, _)) = held.last().copied() else { return Ok(None) };
    let entered = env.streams.hub.admission().enter().await;
    let _place = entered.map_err(|busy| Error::TooMany { retry_after_s: busy.retry_after_s })?;
    let tokens: Vec<Id> = held.iter().map(|(token, _)| *token).collect();
    let read = community.read(Class::Live, move |tx, env| oauth::powerless(tx, env, &tokens));
    let powerless: HashSet<Id> = read.await?.into_iter().collect();
    let mut accounts: Vec<Id> = held
        .into_iter()
        .filter(|(token, _)| powerless.contains(token))
        .map(|(_, account)| account)
        .collect();
    accounts.sort_unstable();
    accounts.dedup();
    metrics::counter!("weir_community_log_ins_ended_late_total").increment(accounts.len() as u64);
    accounts.into_iter().for_each(|account| env.streams.shut_out(account));
    Ok(Some(last))
}
