//! The jobs that deliver: the first try, and all others.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use weir_base::Id;
use weir_community::Env;
use weir_community::federation::{self, host_of};
use weir_db::{Class, Tx};
use weir_jobs::{Claimed, Delay, Failure, Job, Last, Queue, Retry};

use super::send::{self, Tried};
use crate::ActivityPub;

/// The wait before the second try, where the other side names none; and the shortest, in ms.
const SECOND_TRY_AFTER_MS: i64 = 15_000;
/// The longest wait that the other side may ask for, in ms: a day. Who asks for years would have
/// what is new wait behind what nobody wants any more.
const ASKED_MAX_MS: i64 = 24 * 60 * 60 * 1_000;
/// Tries after the first, over about eight days.
const TRIES_MAX: u32 = 22;

/// The first try to deliver a payload to an inbox.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Deliver {
    /// The body.
    pub payload: Id,
    /// Where it goes.
    pub inbox: String,
    /// The server of those it is for.
    pub domain: String,
    /// Whether it is another server's message that is only passed on: who does not believe that
    /// is not asked again.
    #[serde(default)]
    pub passed_on: bool,
}

impl Job for Deliver {
    const KIND: &'static str = "deliver";
    const QUEUE: Queue = Queue::new("deliver", Class::Inbound);

    fn lane(&self) -> Cow<'_, str> {
        Cow::Borrowed(host_of(&self.inbox).unwrap_or_default())
    }
}

/// Further tries.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Redeliver(pub Deliver);

impl Job for Redeliver {
    const KIND: &'static str = "redeliver";
    const QUEUE: Queue = Queue::new("redeliver", Class::Outbound);
    const RETRY: Retry =
        Retry { attempts_max: TRIES_MAX, delay: Delay::Growing, last: Last::Discard };

    fn lane(&self) -> Cow<'_, str> {
        Cow::Owned(self.0.lane().into_owned())
    }
}

/// The wait that the other side asks for (`Retry-After`), within bounds.
fn asked(after_ms: Option<i64>) -> Option<i64> {
    after_ms.map(|ms| ms.clamp(SECOND_TRY_AFTER_MS, ASKED_MAX_MS))
}

/// Works a first try: what may work later is left to [`Redeliver`].
pub async fn first(face: ActivityPub, claim: Claimed<Deliver>) -> Result<(), Failure> {
    let Claimed { id, job, .. } = claim;
    let Tried::Later { reason, after_ms } = attempt(&face, &job).await? else { return Ok(()) };
    tracing::debug!(inbox = job.inbox, reason, "not delivered yet");
    let env = face.community().env();
    let at = env.clock.now().plus_ms(asked(after_ms).unwrap_or(SECOND_TRY_AFTER_MS));
    let again = Redeliver(job);
    let write = face.community().write(Class::Outbound, move |tx: &mut Tx, env| {
        // Under the first one's id, for that may run again after a crash.
        env.jobs.enqueue_unique(tx, &format!("redeliver {id}"), at, &again)?;
        Ok(())
    });
    write.await.map_err(Failure::retry)
}

/// Works a further try.
pub async fn again(face: ActivityPub, claim: Claimed<Redeliver>) -> Result<(), Failure> {
    let Claimed { attempt: number, job: Redeliver(job), .. } = claim;
    match attempt(&face, &job).await? {
        Tried::Taken | Tried::Refused(_) | Tried::Gone(_) => Ok(()),
        Tried::Later { reason, .. } if number >= TRIES_MAX => {
            count("given_up");
            face.outbound().payloads.ended(job.payload, job.inbox);
            Err(Failure::Discard(reason))
        }
        Tried::Later { reason, after_ms } => {
            Err(Failure::Retry { reason, after_ms: asked(after_ms) })
        }
    }
}

/// A try; what ended is settled.
async fn attempt(face: &ActivityPub, job: &Deliver) -> Result<Tried, Failure> {
    let payloads = &face.outbound().payloads;
    let Some(payload) = payloads.get(job.payload).await.map_err(Failure::retry)? else {
        count("forgotten");
        return Ok(Tried::Refused("its body is gone".to_owned()));
    };
    let tried = send::try_once(face, &payload, &job.inbox, &job.domain, job.passed_on).await;
    let tried = tried.map_err(Failure::retry)?;
    match &tried {
        Tried::Taken => count("taken"),
        Tried::Refused(reason) => {
            tracing::debug!(inbox = job.inbox, reason, "not delivered");
            count("refused");
        }
        Tried::Gone(reason) => {
            tracing::debug!(inbox = job.inbox, reason, "an inbox is forgotten");
            count("gone");
            let (domain, inbox) = (job.domain.clone(), job.inbox.clone());
            let forget =
                move |tx: &mut Tx, env: &Env| federation::forget_inbox(tx, env, &domain, &inbox);
            let written = face.community().write(Class::Outbound, forget).await;
            written.map_err(Failure::retry)?;
        }
        Tried::Later { .. } => {
            count("later");
            return Ok(tried);
        }
    }
    payloads.ended(job.payload, job.inbox.clone());
    Ok(tried)
}

fn count(outcome: &'static str) {
    metrics::counter!("weir_activitypub_deliveries_total", "outcome" => outcome).increment(1);
}
