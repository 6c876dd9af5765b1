//! Messages of senders that are not known yet, and keys that may have been renewed.
//!
//! They are judged together. One that wants a key which is not here is put off until that was
//! fetched; nothing that could be worked waits for it. While what comes in is behind they give way
//! to messages of those who are known: to get to know a sender costs as much as several of these.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;
use weir_base::Timestamp;
use weir_community::{Env, Error as CommunityError};
use weir_db::{Class, Error as DbError, Tx};
use weir_jobs::{Claimed, Delay, Failure, Job, Last, Outcome, Prepared, Queue, Registry, Retry};

use super::compact::{Compact, Damaged};
use super::meet::{End, Flight, Room, Wanted, no_room};
use super::work::{Inbound, Late, beside, is_late};
use crate::away::unread;
use crate::resolver::for_key;
use crate::signature::{self, Received, SignatureError};
use crate::wire::{self, Uri, WireError};
use crate::{ActivityPub, Signer};

/// Where they wait. Messages of those who are known go first.
pub(super) const QUEUE: Queue = Queue::new("unverified", Class::Outbound).newest_first();

/// The longest name of a lane, of ASCII.
const LANE_CHARACTERS_MAX: usize = 255;
/// What a message takes on the disk besides its texts, about, in bytes.
pub(super) const ROW_BYTES: usize = 256;

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
    #[serde(rename = "compact", alias = "body")]
    pub(crate) body: Compact,
    /// When it came to the door.
    pub(crate) arrived: Timestamp,
}

impl Unverified {
    /// Its fairness key: who claims to be many servers is still one source, and who comes from
    /// many sources still one server. A lane's name is cut at its end.
    pub(crate) fn lane_name(&self) -> String {
        format!("{} {}", self.source, self.host).chars().take(LANE_CHARACTERS_MAX).collect()
    }

    /// About what it takes on the disk, in bytes.
    pub(crate) fn len_bytes(&self) -> usize {
        let headers = self.headers.iter().map(|(name, value)| name.len() + value.len() + 8);
        let names = 2 * self.host.len() + self.key_id.len() + self.actor.len() + self.path.len();
        ROW_BYTES + names + headers.sum::<usize>() + self.body.len_bytes()
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
    let (judge, env) = (face.clone(), face.community().env().clone());
    let prepare = move |jobs: Vec<Claimed<Unverified>>| {
        let face = judge.clone();
        async move { face.verify(jobs).await }
    };
    let meeting = face.clone();
    registry.unit(prepare, move |tx: &mut Tx, batch: &[Step]| run(tx, &env, &meeting, batch));
    let fetcher = face.clone();
    registry.task(move |claimed: Claimed<RefetchKey>| {
        let face = fetcher.clone();
        async move {
            let RefetchKey { key_id, host } = claimed.job;
            for_key(&host, face.refetch(&key_id)).await.map_err(Failure::retry)?;
            face.key_owner(&key_id).await.map_err(Failure::retry)?;
            Ok(())
        }
    });
}

/// What is done for a message.
enum Step {
    /// It is its sender's: it goes where those of known senders go, under its own number.
    Take(Box<Inbound>),
    /// The same, and it may tell of something long ago.
    TakeLate(Box<Late>),
    /// It waits until its key was fetched, which is its own affair if it is the first.
    Meet(Box<Wanted>, Arc<Mutex<Option<Flight>>>, Handle),
}

fn run(
    tx: &mut Tx,
    env: &Env,
    face: &ActivityPub,
    batch: &[Step],
) -> Result<Vec<Outcome>, DbError> {
    let (mut taken, mut late, mut outcomes) = (Vec::new(), Vec::new(), Vec::new());
    for step in batch {
        outcomes.push(Outcome::Done);
        match step {
            Step::Take(one) => taken.push(Inbound::clone(one)),
            Step::TakeLate(one) => late.push(Late::clone(one)),
            Step::Meet(wanted, flight, on) => {
                if let Some(outcome) = outcomes.last_mut() {
                    *outcome = wanted.outcome(&env.jobs);
                }
                let (face, wanted, on) = (face.clone(), Wanted::clone(wanted), on.clone());
                // Taken once this is committed: it may have to run again before.
                let flight = flight.clone();
                tx.after_commit(move || {
                    let flight = flight.lock().take();
                    face.meet(wanted, flight, &on);
                });
            }
        }
    }
    env.jobs.enqueue_many(tx, &taken)?;
    env.jobs.enqueue_many(tx, &late)?;
    Ok(outcomes)
}

/// What a message tells of itself.
enum Judged {
    /// Its signature fits the key.
    Fits {
        signed_at: Timestamp,
        late: bool,
    },
    /// It does not, or no key is known; all else is in order.
    Open(Uri),
    Forged(SignatureError),
    Broken(WireError),
    /// Its body is not what was written.
    Damaged(Damaged),
}

impl ActivityPub {
    /// Finds out which messages are their senders'.
    async fn verify(&self, jobs: Vec<Claimed<Unverified>>) -> Vec<Prepared<Step>> {
        let count = jobs.len();
        let again = |outcome: Outcome| -> Vec<Prepared<Step>> {
            (0..count).map(|_| Prepared::Not(outcome.clone())).collect()
        };
        // Asked before the keys are read: what is fetched in between is not what is read.
        let jobs: Vec<(Claimed<Unverified>, bool)> = jobs
            .into_iter()
            .map(|claimed| {
                let Unverified { key_id, arrived, .. } = &claimed.job;
                let is_new = self.finder().was_renewed(key_id, *arrived);
                (claimed, is_new)
            })
            .collect();
        let keys: Vec<String> =
            jobs.iter().map(|(claimed, _)| claimed.job.key_id.clone()).collect();
        let known = match self.known_and_spoken_with(keys).await {
            Ok(known) => known,
            Err(error) => return again(unread(&error)),
        };
        let (face, on) = (self.clone(), Handle::current());
        let judge = move || -> Vec<Prepared<Step>> {
            let one = |(claimed, is_new): (Claimed<Unverified>, bool)| {
                let known = known.get(&claimed.job.key_id);
                let judged = match face.judge(&claimed.job, known) {
                    // The key is as new as the message.
                    Judged::Open(_) if known.is_some() && is_new => {
                        Judged::Forged(SignatureError::Invalid)
                    }
                    judged => judged,
                };
                match face.step(claimed, judged, known, &on) {
                    Ok(step) => Prepared::Run(step),
                    Err(outcome) => Prepared::Not(outcome),
                }
            };
            jobs.into_iter().map(one).collect()
        };
        beside(judge).await.unwrap_or_else(again)
    }

    /// Whose keys these are, as far as they are known; those whose names are of servers that are
    /// not spoken with as if they were suspended.
    async fn known_and_spoken_with(
        &self,
        keys: Vec<String>,
    ) -> Result<HashMap<String, Signer>, CommunityError> {
        let mut known = self.known_signers(keys).await?;
        for (key, signer) in &mut known {
            let key: Option<Uri> = key.parse().ok();
            let host = key.as_ref().map_or("", Uri::authority);
            signer.suspended |= self.is_barred(signer, host).await?;
        }
        Ok(known)
    }

    fn judge(&self, job: &Unverified, known: Option<&Signer>) -> Judged {
        let actor = match job.actor.parse() {
            Ok(actor) => actor,
            Err(error) => return Judged::Broken(error),
        };
        let body = match job.body.text() {
            Ok(body) => body,
            Err(damaged) => return Judged::Damaged(damaged),
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
        let checked = match signature::check(&received, body.as_bytes(), job.arrived) {
            Ok(checked) => checked,
            Err(error) => return Judged::Forged(error),
        };
        match known {
            Some(known) if checked.verify(&known.key).is_ok() => {
                let activity = wire::parse_activity(body.as_bytes()).ok();
                activity.iter().for_each(|activity| self.note_coming(activity, true));
                let late = activity.is_some_and(|activity| is_late(&activity, job.arrived));
                Judged::Fits { signed_at: checked.signed_at, late }
            }
            _ => Judged::Open(actor),
        }
    }

    /// What follows for one message.
    fn step(
        &self,
        claimed: Claimed<Unverified>,
        judged: Judged,
        known: Option<&Signer>,
        on: &Handle,
    ) -> Result<Step, Outcome> {
        let Claimed { id: seq, attempt, job, .. } = claimed;
        if known.is_some_and(|known| known.uri != job.actor) {
            dropped("no_key");
            return Err(Outcome::Discard(format!("{} has no key {}", job.actor, job.key_id)));
        }
        let (signed_at, late) = match judged {
            Judged::Fits { .. } if known.is_some_and(|known| known.suspended) => {
                dropped("suspended");
                return Err(Outcome::Done);
            }
            Judged::Fits { signed_at, late } => {
                self.heard_from(&job.host);
                (signed_at, late)
            }
            Judged::Broken(error) => return Err(Outcome::Discard(error.to_string())),
            Judged::Damaged(damaged) => return Err(Outcome::Dead(damaged.to_string())),
            Judged::Forged(error) => return Err(self.forged(&job, &error)),
            Judged::Open(actor) => {
                let wanted = Wanted {
                    message: seq,
                    source: job.source,
                    key_id: job.key_id,
                    actor,
                    since: job.arrived,
                    renewed: known.is_some(),
                };
                if let Some(end) = self.inbox().meetings.end(&wanted, self.now()) {
                    return Err(self.unmet(&wanted, end, attempt));
                }
                let flight = match self.room_for(&wanted) {
                    Room::First(flight) => Some(flight),
                    Room::Shared => None,
                    Room::None => return Err(no_room()),
                };
                return Ok(Step::Meet(Box::new(wanted), Arc::new(Mutex::new(flight)), on.clone()));
            }
        };
        let inbound = Inbound {
            host: job.host,
            actor: job.actor,
            body: job.body,
            signed_at,
            arrived: job.arrived,
            seq: Some(seq),
            looked_up: false,
            activity: None,
        };
        Ok(match late {
            true => Step::TakeLate(Box::new(Late(inbound))),
            false => Step::Take(Box::new(inbound)),
        })
    }

    /// What becomes of a message at its `attempt` whose key could not be had.
    fn unmet(&self, wanted: &Wanted, end: End, attempt: u32) -> Outcome {
        let (sources, now) = (&self.inbox().sources, self.now());
        let source = wanted.source.parse().ok();
        if let Some(source) = source.filter(|_| end.is_charged(attempt)) {
            sources.named_no_key(source, now);
        }
        let is_spent = source.is_some_and(|source| sources.is_spent(source, now));
        let outcome = end.outcome(now.since_ms(wanted.since).max(0), is_spent, now);
        match outcome {
            Outcome::Discard(_) => dropped("no_key"),
            Outcome::Retry { .. } => self.inbox().meetings.comes_again(wanted),
            _ => {}
        }
        outcome
    }

    fn forged(&self, job: &Unverified, error: &SignatureError) -> Outcome {
        dropped("forged");
        if let Ok(source) = job.source.parse() {
            self.inbox().sources.forged(source, self.now());
        }
        Outcome::Discard(error.to_string())
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
