//! Messages of senders that are not known yet, and keys that may have been renewed.

use std::borrow::Cow;

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use serde::{Deserialize, Serialize};
use weir_base::{Id, Timestamp};
use weir_community::{Env, Error};
use weir_db::{Class, Tx};
use weir_jobs::{Claimed, Delay, Failure, Job, Last, Queue, Registry, Retry};

use super::work::{Inbound, Late, is_late};
use crate::ActivityPub;
use crate::resolver::RemoteError;
use crate::signature::{self, Received, SignatureError};
use crate::wire::{self, Uri};

/// Where they wait.
pub(super) const QUEUE: Queue = Queue::new("unverified", Class::Inbound).newest_first();

/// A message whose signature could not be verified yet.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Unverified {
    /// The server it claims to come from.
    pub(crate) host: String,
    /// The network it came from.
    pub(crate) source: String,
    /// The key it claims to be signed with.
    pub(crate) key_id: String,
    /// The actor it claims to be of.
    pub(crate) actor: String,
    /// The path it was sent to.
    pub(crate) path: String,
    /// Its headers.
    pub(crate) headers: Vec<(String, String)>,
    /// Its body.
    pub(crate) body: String,
    /// When it came to the door.
    pub(crate) arrived: Timestamp,
}

impl Unverified {
    /// Its fairness key: who claims to be many servers is still one source, and who comes from
    /// many sources still one server.
    pub(crate) fn lane_name(&self) -> String {
        format!("{} {}", self.host, self.source)
    }
}

impl Job for Unverified {
    const KIND: &'static str = "unverified";
    const QUEUE: Queue = QUEUE;
    /// It was answered with 202, and its server may be away or busy: about three hours.
    const RETRY: Retry = Retry { attempts_max: 10, delay: Delay::Growing, last: Last::Discard };

    fn lane(&self) -> Cow<'_, str> {
        Cow::Owned(self.lane_name())
    }
}

/// Fetches a key again that did not fit.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RefetchKey {
    /// The key.
    pub(crate) key_id: String,
    /// Its server.
    pub(crate) host: String,
}

impl Job for RefetchKey {
    const KIND: &'static str = "refetch_key";
    const QUEUE: Queue = Queue::new("keys", Class::Housekeeping);
    const RETRY: Retry = Retry { attempts_max: 3, delay: Delay::Growing, last: Last::Discard };

    fn lane(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.host)
    }
}

pub(super) fn register(registry: &mut Registry, face: &ActivityPub) {
    let verifier = face.clone();
    registry.task(move |claimed: Claimed<Unverified>| {
        let face = verifier.clone();
        async move { face.verify(claimed.id, claimed.job).await }
    });
    let fetcher = face.clone();
    registry.task(move |claimed: Claimed<RefetchKey>| {
        let face = fetcher.clone();
        async move {
            let key_id = claimed.job.key_id;
            face.refetch(&key_id).await.map_err(Failure::retry)?;
            face.key_owner(&key_id, true).await.map_err(Failure::retry)?;
            Ok(())
        }
    });
}

impl ActivityPub {
    /// Finds out whether the message is its sender's; if so it goes where those of known senders
    /// go, under its own number.
    async fn verify(&self, seq: Id, job: Unverified) -> Result<(), Failure> {
        let actor: Uri = job
            .actor
            .parse()
            .map_err(|error: crate::wire::WireError| Failure::Discard(error.to_string()))?;
        let mut known = self.key_owner(&job.key_id, false).await.map_err(RemoteError::from)?;
        if known.is_none() {
            // Of all that waits for the same actor one message has it fetched.
            self.refresh_since(&actor, job.arrived).await.inspect_err(|error| {
                if !error.is_passing() {
                    dropped("unknown");
                }
            })?;
            known = self.key_owner(&job.key_id, true).await.map_err(RemoteError::from)?;
        }
        let Some(mut known) = known.filter(|known| known.uri == job.actor) else {
            dropped("no_key");
            return Err(Failure::Discard(format!("{} has no key {}", job.actor, job.key_id)));
        };
        let headers = headers(&job.headers);
        let (scheme, authority) = self.urls().origin();
        let received = Received {
            method: &Method::POST,
            scheme,
            authority,
            path_and_query: &job.path,
            headers: &headers,
        };
        let forged = |error: SignatureError| {
            dropped("forged");
            if let Ok(source) = job.source.parse() {
                self.inbox().sources.forged(source, self.now());
            }
            Failure::Discard(error.to_string())
        };
        let checked = signature::check(&received, job.body.as_bytes(), job.arrived);
        let checked = checked.map_err(forged)?;
        if checked.verify(&known.key).is_err() {
            // It may have been renewed over there before this was signed.
            self.renew(&job.key_id, job.arrived).await.inspect_err(|error| {
                if !error.is_passing() {
                    dropped("no_key");
                }
            })?;
            let fresh = self.key_owner(&job.key_id, true).await.map_err(RemoteError::from)?;
            known = fresh.unwrap_or(known);
            checked.verify(&known.key).map_err(forged)?;
        }
        if known.suspended {
            dropped("suspended");
            return Ok(());
        }
        let inbound = Inbound {
            host: job.host,
            actor: job.actor,
            body: job.body,
            signed_at: checked.signed_at,
            arrived: job.arrived,
            seq: Some(seq),
            looked_up: false,
        };
        let late = wire::parse_activity(inbound.body.as_bytes())
            .is_ok_and(|activity| is_late(&activity, inbound.arrived));
        let write = move |tx: &mut Tx, env: &Env| {
            match late {
                true => env.jobs.enqueue(tx, &Late(inbound.clone()))?,
                false => env.jobs.enqueue(tx, &inbound)?,
            };
            Ok::<_, Error>(())
        };
        self.community().write(Class::Inbound, write).await.map_err(Failure::retry)
    }
}

fn dropped(why: &'static str) {
    metrics::counter!("weir_activitypub_unverified_dropped_total", "why" => why).increment(1);
}

fn headers(pairs: &[(String, String)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        let name = HeaderName::from_bytes(name.as_bytes());
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_str(value)) {
            headers.append(name, value);
        }
    }
    headers
}
