//! Messages that say too little by themselves: something is asked of another server before they
//! are worked. They wait for its answer by themselves, so that no batch does.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use weir_community::{Env, Error};
use weir_db::{Class, Tx};
use weir_jobs::{Claimed, Failure, Job, Queue, Registry, Retry};

use super::work::Inbound;
use crate::ActivityPub;
use crate::resolver::RemoteError;
use crate::wire::{Uri, WireError};

/// Where they wait.
pub(super) const QUEUE: Queue = Queue::new("look_ups", Class::Inbound).newest_first();

/// An account that is fetched because of a message.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LookUp {
    /// The server that the message came from: its fairness key.
    pub(crate) host: String,
    /// The account.
    pub(crate) account: String,
    /// The message, where it is worked afterwards.
    pub(crate) then: Option<Inbound>,
}

impl Job for LookUp {
    const KIND: &'static str = "look_up";
    const QUEUE: Queue = QUEUE;
    const RETRY: Retry = Inbound::RETRY;

    fn lane(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.host)
    }
}

pub(super) fn register(registry: &mut Registry, face: &ActivityPub) {
    let face = face.clone();
    registry.task(move |claimed: Claimed<LookUp>| {
        let face = face.clone();
        async move { face.look_up(claimed.job).await }
    });
}

impl ActivityPub {
    async fn look_up(&self, job: LookUp) -> Result<(), Failure> {
        let LookUp { account, then, .. } = job;
        let account: Uri =
            account.parse().map_err(|error: WireError| Failure::Discard(error.to_string()))?;
        // The message came by itself: that the account could not be had lately does not end it.
        match self.reread_since(&account, self.now()).await {
            Ok(_) => {}
            Err(error) if error.is_doubt() => return Err(Failure::retry(error)),
            Err(error) => return Err(error.into()),
        }
        let Some(inbound) = then else { return Ok(()) };
        let write = move |tx: &mut Tx, env: &Env| {
            env.jobs.enqueue(tx, &inbound)?;
            Ok::<_, Error>(())
        };
        let written = self.community().write(Class::Inbound, write).await;
        written.map_err(|error| RemoteError::from(error).into())
    }
}
