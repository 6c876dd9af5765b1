//! The work behind the door: messages whose senders are who they say.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use weir_base::{Id, Timestamp};
use weir_community::accounts::{self, Sender};
use weir_community::federation::order::Version;
use weir_community::federation::{self, Deed, INBOUND, INBOUND_LATE, Incoming, Passable, Senders};
use weir_community::{Env, Error};
use weir_db::{Class, Tx};
use weir_jobs::{Claimed, Job, Outcome, Prepared, Queue, Registry, Retry};

use super::compact::{Compact, Damaged};
use super::look_up::LookUp;
use crate::ActivityPub;
use crate::away::unread;
use crate::deed::{self, Meaning};
use crate::read;
use crate::wire;

/// What was published so long before it came is late, in ms.
const LATE_MS: i64 = 60_000;

/// A message that the door let in.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Inbound {
    /// The sender's server.
    pub(crate) host: String,
    /// The sender.
    pub(crate) actor: String,
    /// The activity as it came.
    #[serde(rename = "compact", alias = "body")]
    pub(crate) body: Compact,
    /// When it was signed.
    pub(crate) signed_at: Timestamp,
    /// When it came to the door.
    pub(crate) arrived: Timestamp,
    /// The door's sequence number, where it is not this job's own id.
    pub(crate) seq: Option<Id>,
    /// Whether what it needs besides itself was looked up.
    #[serde(default)]
    pub(crate) looked_up: bool,
    /// What the body says, where the door read it a moment ago.
    #[serde(skip)]
    pub(crate) activity: Option<Arc<wire::Activity>>,
}

impl Job for Inbound {
    const KIND: &'static str = "inbound";
    const QUEUE: Queue = INBOUND;
    const RETRY: Retry = Retry::DEFAULT.attempts(8);

    fn lane(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.host)
    }
}

/// A message that the door let in and that may tell of something long ago.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Late(pub(crate) Inbound);

impl Job for Late {
    const KIND: &'static str = "inbound_late";
    const QUEUE: Queue = INBOUND_LATE;
    const RETRY: Retry = Inbound::RETRY;

    fn lane(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.0.host)
    }
}

/// Whether a message that came at `arrived` may tell of something long ago: only what gives its
/// time is known to be new.
pub(super) fn is_late(activity: &wire::Activity, arrived: Timestamp) -> bool {
    let of_post = match activity.object.embedded() {
        Some(wire::Object::Post(post)) => post.updated.or(post.published),
        _ => None,
    };
    let published = of_post.or(activity.published);
    published.is_none_or(|published| arrived.since_ms(published) > LATE_MS)
}

pub(super) fn register(registry: &mut Registry, face: &ActivityPub) {
    let env = face.community().env().clone();
    for queue in [INBOUND, INBOUND_LATE] {
        let feeds = env.feeds.clone();
        registry.favour(queue, move |host| feeds.is_followed_host(host));
    }
    let (one, other) = (face.clone(), face.clone());
    let prepare = move |jobs: Vec<Claimed<Inbound>>| {
        let face = one.clone();
        async move { face.prepare(jobs).await }
    };
    let here = env.clone();
    registry.unit(prepare, move |tx: &mut Tx, batch: &[Work]| run(tx, &here, batch));
    let prepare = move |jobs: Vec<Claimed<Late>>| {
        let face = other.clone();
        let jobs = jobs.into_iter().map(|claimed| claimed.map(|Late(inbound)| inbound)).collect();
        async move { face.prepare(jobs).await }
    };
    registry.unit(prepare, move |tx: &mut Tx, batch: &[Work]| run(tx, &env, batch));
}

/// What is done for a message.
#[derive(Debug)]
enum Work {
    Message(Box<Message>),
    /// It goes its own way, so that nothing else waits for what another server answers.
    LookUp(Box<LookUp>),
}

/// A message, read; and what is needed to pass it on, where that may be this server's part.
#[derive(Debug)]
struct Message {
    incoming: Incoming,
    passable: Option<Passable>,
}

fn run(tx: &mut Tx, env: &Env, batch: &[Work]) -> Result<Vec<Outcome>, weir_db::Error> {
    if batch.len() == 1 {
        return alone(tx, env, batch);
    }
    // Without a savepoint, in which SQLite copies every page it changes: that one of them cannot be
    // worked is rare, and then the engine has them run one by one.
    match together(tx, env, batch) {
        Err(Error::Db(error)) => Err(error),
        Err(error) => Err(weir_db::Error::GivenUp(error.to_string())),
        Ok(()) => Ok(vec![Outcome::Done; batch.len()]),
    }
}

fn together(tx: &mut Tx, env: &Env, batch: &[Work]) -> Result<(), Error> {
    let (mut messages, mut look_ups) = (Vec::with_capacity(batch.len()), Vec::new());
    for work in batch {
        match work {
            Work::Message(one) => messages.push((&one.incoming, one.passable.as_ref())),
            Work::LookUp(one) => look_ups.push(&**one),
        }
    }
    for look_up in look_ups {
        env.jobs.enqueue(tx, look_up)?;
    }
    let mut senders = Senders::read(tx, messages.iter().map(|(incoming, _)| *incoming))?;
    let done = federation::receive_plain(tx, env, &mut senders, &messages)?;
    let left = messages.into_iter().zip(done).filter(|(_, done)| !done);
    for ((incoming, passable), _) in left {
        let senders = &mut senders;
        let receipt = match passable {
            Some(passable) => {
                federation::receive_and_forward(tx, env, senders, incoming, passable)?
            }
            None => federation::receive(tx, env, senders, incoming)?,
        };
        tracing::debug!(activity = incoming.activity, ?receipt, "worked");
    }
    Ok(())
}

/// One that cannot be worked never can be.
fn alone(tx: &mut Tx, env: &Env, work: &[Work]) -> Result<Vec<Outcome>, weir_db::Error> {
    match tx.savepoint(|tx| together(tx, env, work)) {
        Ok(()) => Ok(vec![Outcome::Done]),
        Err(Error::Db(error)) => Err(error),
        Err(error) => Ok(vec![Outcome::Discard(error.to_string())]),
    }
}

/// What parsing made of a message.
enum Parsed {
    Ready(Work),
    Nothing(String),
    Damaged(Damaged),
}

impl ActivityPub {
    async fn prepare(&self, jobs: Vec<Claimed<Inbound>>) -> Vec<Prepared<Work>> {
        let count = jobs.len();
        let again = |outcome: Outcome| -> Vec<Prepared<Work>> {
            (0..count).map(|_| Prepared::Not(outcome.clone())).collect()
        };
        let actors: Vec<String> = jobs.iter().map(|claimed| claimed.job.actor.clone()).collect();
        let read = move |tx: &mut Tx, _: &_| accounts::senders(tx, &actors);
        let known = match self.community().read_early(Class::Inbound, read).await {
            Ok(known) => known,
            Err(error) => return again(unread(&error)),
        };
        let urls = self.urls().clone();
        let parse = move || -> Vec<Parsed> {
            jobs.iter().map(|claimed| parse(claimed, &known, &urls)).collect()
        };
        let parsed = match beside(parse).await {
            Ok(parsed) => parsed,
            Err(outcome) => return again(outcome),
        };
        parsed.into_iter().map(prepared).collect()
    }
}

/// What `read` makes of a batch, on a thread for what takes long. A panic in it goes on: then the
/// engine has the messages of the batch read one by one, and only the one it comes from fails.
pub(super) async fn beside<T: Send + 'static>(
    read: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Outcome> {
    match tokio::task::spawn_blocking(read).await {
        Ok(made) => Ok(made),
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        // The runtime ends.
        Err(error) => Err(Outcome::retry(error)),
    }
}

fn prepared(parsed: Parsed) -> Prepared<Work> {
    match parsed {
        Parsed::Ready(work) => Prepared::Run(work),
        Parsed::Nothing(why) => {
            metrics::counter!("weir_activitypub_inbound_meaningless_total").increment(1);
            tracing::debug!(why, "nothing to do");
            Prepared::Not(Outcome::Done)
        }
        // It was let in: somebody is to see that it is lost, and why.
        Parsed::Damaged(damaged) => Prepared::Not(Outcome::Dead(damaged.to_string())),
    }
}

fn parse(claimed: &Claimed<Inbound>, known: &HashMap<String, Sender>, urls: &wire::Urls) -> Parsed {
    let job = &claimed.job;
    let look_up = |account: &str, goes_on: bool| {
        let seq = Some(job.seq.unwrap_or(claimed.id));
        let then = goes_on.then(|| Inbound { seq, looked_up: true, ..job.clone() });
        let (host, account) = (job.host.clone(), account.to_owned());
        Parsed::Ready(Work::LookUp(Box::new(LookUp { host, account, then })))
    };
    let Some(by) = known.get(&job.actor) else {
        // It is not known any more, though its key was when the message came.
        return match job.looked_up {
            true => Parsed::Nothing("the actor is not known".into()),
            false => look_up(&job.actor, true),
        };
    };
    let activity = match &job.activity {
        Some(activity) => activity.clone(),
        None => {
            let text = match job.body.text() {
                Ok(text) => text,
                Err(damaged) => return Parsed::Damaged(damaged),
            };
            match wire::parse_activity(text.as_bytes()) {
                Ok(activity) => Arc::new(activity),
                Err(error) => return Parsed::Nothing(error.to_string()),
            }
        }
    };
    let message = |deed: Deed| {
        let passable = match passable(&activity, &job.body, &deed, urls) {
            Ok(passable) => passable,
            Err(damaged) => return Parsed::Damaged(damaged),
        };
        let incoming = Incoming {
            actor: job.actor.clone(),
            activity: activity.id.as_ref().map(ToString::to_string).unwrap_or_default(),
            version: Version { at: job.signed_at, seq: job.seq.unwrap_or(claimed.id) },
            arrived: job.arrived,
            deed,
        };
        Parsed::Ready(Work::Message(Box::new(Message { incoming, passable })))
    };
    match deed::meaning(&activity, by, urls) {
        Meaning::Deed(deed) => message(deed),
        Meaning::Profile(actor) if actor.username == by.username => {
            match read::account(&actor, &by.domain).cleaned() {
                Ok(account) => message(Deed::Profile(Box::new(account))),
                Err(error) => Parsed::Nothing(error.to_string()),
            }
        }
        // The profile in the message is of another name: its server is asked.
        Meaning::Profile(actor) => look_up(actor.id.as_str(), false),
        // Of somebody here nothing is to be asked.
        Meaning::Move(target) if !job.looked_up && !urls.is_own(&target) => {
            look_up(target.as_str(), true)
        }
        Meaning::Move(target) => message(Deed::Move { target: target.to_string() }),
        Meaning::Nothing(why) => Parsed::Nothing(why.into()),
    }
}

/// What is needed to pass a message on: of posts that answer something, and of deletions, which do
/// not say what they are of.
fn passable(
    activity: &wire::Activity,
    body: &Compact,
    deed: &Deed,
    urls: &wire::Urls,
) -> Result<Option<Passable>, Damaged> {
    let addressed: Vec<String> = activity
        .to
        .iter()
        .chain(&activity.cc)
        .filter(|uri| urls.is_own(uri))
        .map(ToString::to_string)
        .collect();
    let wanted = match deed {
        Deed::Post(post) => post.in_reply_to.is_some() || activity.kind == wire::Kind::Update,
        Deed::Delete { .. } => true,
        _ => false,
    };
    if !wanted {
        return Ok(None);
    }
    let body = body.text()?;
    let proven = wire::is_proven(&body);
    Ok(Some(Passable { body, proven, addressed }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_while_messages_are_read_is_no_outcome_of_all_of_them() {
        assert_eq!(beside(|| 7).await, Ok(7));
        let read = || -> usize { panic!("one of them cannot be read") };
        let end = tokio::spawn(beside(read)).await;
        assert!(end.unwrap_err().is_panic());
    }
}
