//! Whether those who are here may still be, looked at again after what another node said of them
//! may have been missed, or after they lost the power while they came: whether they may be logged
//! in, and still have the password or the app's token that they came by.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use weir_base::Id;
use weir_community::users::{self, PasswordMark};
use weir_community::{Env, oauth};
use weir_db::Tx;

use crate::face::Xmpp;
use crate::log_in::Authenticated;
use crate::router::{SHARDS, Session};
use crate::wire::{Condition, StanzaError, StreamCondition};

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
        let mut accounts = Vec::new();
        for shard in 0..SHARDS {
            accounts.extend(xmpp.router.accounts_of_shard(shard));
            if accounts.len() < CHUNK && shard + 1 < SHARDS {
                continue;
            }
            for some in accounts.chunks(CHUNK) {
                settle(&xmpp, some).await;
            }
            accounts.clear();
        }
    }
}

/// `who` has a session open from now on. Where log-ins lost their power since it was looked at
/// whether they may, that did not end this session yet: it is looked at again.
pub(crate) fn opened(xmpp: &Xmpp, who: &Authenticated) {
    if xmpp.env().log_ins.current() != who.generation {
        let (xmpp, account) = (xmpp.clone(), who.account);
        tokio::spawn(async move { settle(&xmpp, &[account]).await });
    }
}

/// [`look`], until it can be done.
async fn settle(xmpp: &Xmpp, accounts: &[Id]) {
    while let Err(error) = look(xmpp, accounts).await {
        tracing::warn!(?error, "those who chat could not be looked at; they will be");
        tokio::select! {
            () = xmpp.shutdown.cancelled() => return,
            () = tokio::time::sleep(RETRY) => {}
        }
    }
}

/// Ends the sessions of those of `accounts` who may not be here any more, and those that are open
/// by a password which is another meanwhile, or by an app's token which is revoked.
async fn look(xmpp: &Xmpp, accounts: &[Id]) -> Result<(), StanzaError> {
    let busy = |_| StanzaError::new(Condition::ResourceConstraint);
    let _place = xmpp.admission.enter().await.map_err(busy)?;
    let peers: Vec<_> = accounts.iter().filter_map(|one| xmpp.router.of_account(*one)).collect();
    let mut tokens = Vec::new();
    for peer in &peers {
        let here = peer.here();
        let sessions = here.iter().flat_map(|here| &here.sessions);
        tokens.extend(sessions.filter_map(|session| session.state().token()));
    }
    let asked = accounts.to_vec();
    let read = move |tx: &mut Tx, env: &Env| {
        let powerless = oauth::powerless(tx, env, &tokens)?;
        Ok((users::who_may_be_here(tx, &asked)?, powerless))
    };
    let (passwords, powerless) = xmpp.read(read).await?;
    let ended = peers.iter().map(|peer| {
        let now = peer.account().and_then(|account| passwords.get(&account));
        let is_over = |session: &Session| {
            let state = session.state();
            let is_another =
                |now: &PasswordMark| state.password.is_some_and(|before| before != *now);
            now.is_none_or(is_another) || state.token().is_some_and(|id| powerless.contains(&id))
        };
        xmpp.close_those(peer.jid(), StreamCondition::Reset, is_over)
    });
    let ended: usize = ended.sum();
    metrics::counter!("weir_xmpp_sessions_ended_late_total").increment(ended as u64);
    Ok(())
}
