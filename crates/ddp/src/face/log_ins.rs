//! Whether log-ins are still good, looked at for all who ask at about the same time in one unit of
//! work: after a gap in what the nodes tell each other every session asks.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use weir_community::{Community, Env, Error, accounts, oauth, users};
use weir_db::{Class, Tx};

use crate::methods::log_in::may_log_in;

/// Tokens looked at in one unit.
const CHUNK: usize = 100;
/// Sessions that have asked and are not in a unit yet; more wait before they ask.
const ASKED_MAX: usize = 1_000;
/// The wait before it is tried again, where the database or the line of arrivals did not let it.
const RETRY: Duration = Duration::from_secs(1);

type Asked = (Arc<str>, oneshot::Sender<bool>);

/// Where sessions ask. Clones are the same.
#[derive(Clone)]
pub(crate) struct LogIns(mpsc::Sender<Asked>);

impl LogIns {
    pub(crate) fn start(community: &Community, shutdown: CancellationToken) -> Self {
        let (ask, asked) = mpsc::channel(ASKED_MAX);
        tokio::spawn(run(community.clone(), asked, shutdown));
        Self(ask)
    }

    /// Whether `token` is good. What can't be read is tried again until it can.
    pub(crate) async fn is_good(&self, token: Arc<str>) -> bool {
        let (answer, answered) = oneshot::channel();
        // At a shutdown nobody answers, and nobody is sent away for that.
        let _ = self.0.send((token, answer)).await;
        answered.await.unwrap_or(true)
    }
}

async fn run(community: Community, mut asked: mpsc::Receiver<Asked>, shutdown: CancellationToken) {
    let mut chunk: Vec<Asked> = Vec::new();
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            count = asked.recv_many(&mut chunk, CHUNK), if chunk.is_empty() => {
                if count == 0 {
                    return;
                }
            }
            () = tokio::time::sleep(RETRY), if !chunk.is_empty() => {}
        }
        let tokens: Vec<Arc<str>> = chunk.iter().map(|(token, _)| token.clone()).collect();
        match look(&community, tokens).await {
            Ok(good) => {
                for ((_, answer), good) in chunk.drain(..).zip(good) {
                    let _ = answer.send(good);
                }
            }
            Err(error) => {
                tracing::warn!(%error, "log-ins could not be looked at; they will be again");
            }
        }
    }
}

async fn look(community: &Community, tokens: Vec<Arc<str>>) -> Result<Vec<bool>, Error> {
    let entered = community.env().streams.hub().admission().enter().await;
    let _place = entered.map_err(|busy| Error::TooMany { retry_after_s: busy.retry_after_s })?;
    metrics::counter!("weir_ddp_log_ins_checked_total").increment(tokens.len() as u64);
    let each = move |tx: &mut Tx, env: &Env| {
        tokens.iter().map(|token| is_good(tx, env, token)).collect::<Result<Vec<bool>, Error>>()
    };
    community.read(Class::Live, each).await
}

fn is_good(tx: &mut Tx, env: &Env, token: &str) -> Result<bool, Error> {
    if let Some((session, _)) = users::session(tx, env, token)? {
        let account = accounts::by_id(tx, session.account_id)?;
        let user = users::by_account(tx, session.account_id)?;
        return Ok(user.standing(&account) == users::Standing::Fine);
    }
    match oauth::bearer(tx, env, token) {
        Ok(bearer) => Ok(may_log_in(&bearer).is_some()),
        Err(Error::Db(error)) => Err(error.into()),
        Err(_) => Ok(false),
    }
}
