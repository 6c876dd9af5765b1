//! Passing on what people of other servers do beneath posts of this one (ActivityPub 7.1.2), and
//! what of that which others pass on to us is worth asking its origin for.
//!
//! An author elsewhere does not know who follows the person answered here; this server does. So
//! what a reply's server sends is passed on, as it came, to those followers' servers.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use weir_base::{Id, Timestamp};
use weir_db::{Class, Tx, params, texts};
use weir_jobs::{Delay, Job, Last, Queue, Retry};

use super::incoming::receive_of;
use super::{Deed, Incoming, Senders, receive};
use crate::accounts;
use crate::statuses::{self, Receipt, Status};
use crate::{Env, Error, relationships};

/// How far above a post its thread is looked at for people of this server.
const STEPS_MAX: i64 = 10;
/// People here in whose name one message is passed on.
const SPEAKERS_MAX: usize = 10;

/// What a message needs in order to be passed on.
#[derive(Debug, Clone)]
pub struct Passable {
    /// Its body as it came.
    pub body: String,
    /// Whether it carries a signature or proof of its own, by which others can believe it whoever
    /// hands it to them.
    pub proven: bool,
    /// For whom it is: `to` and `cc`.
    pub addressed: Vec<String>,
}

/// The job that passes a message on; the `activitypub` face registers for it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Forward {
    /// The people here to whose followers it goes, and in whose name.
    pub by: Vec<Id>,
    /// The message as it came.
    pub body: String,
    /// The server it came from, which has it.
    pub origin: String,
}

impl Job for Forward {
    const KIND: &'static str = "forward";
    const QUEUE: Queue = Queue::new("forward", Class::Outbound);

    fn lane(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.origin)
    }
}

/// As [`receive`], and has the message passed on where that is this server's part: once, when it
/// changed something here.
///
/// # Errors
/// The database's.
pub fn receive_and_forward(
    tx: &mut Tx,
    env: &Env,
    senders: &mut Senders,
    incoming: &Incoming,
    passable: &Passable,
) -> Result<Receipt, Error> {
    let uri = match &incoming.deed {
        Deed::Post(post) => &post.uri,
        Deed::Delete { uri } => uri,
        _ => return receive(tx, env, senders, incoming),
    };
    let before = statuses::by_uri(tx, uri)?;
    let mut speakers = match &before {
        Some(status) if matches!(incoming.deed, Deed::Delete { .. }) => {
            self::speakers(tx, senders, status, passable)?
        }
        _ => Vec::new(),
    };
    let receipt = match &incoming.deed {
        Deed::Post(_) => receive_of(tx, env, senders, incoming, before.as_ref())?,
        _ => receive(tx, env, senders, incoming)?,
    };
    match (&incoming.deed, receipt) {
        (Deed::Post(_), Receipt::New(id) | Receipt::Known(id)) => {
            let status = statuses::by_id(tx, id)?;
            if before.is_none_or(|before| shows(&before) != shows(&status)) {
                speakers = self::speakers(tx, senders, &status, passable)?;
            }
        }
        (_, Receipt::Known(_)) => {}
        _ => speakers.clear(),
    }
    forward(tx, env, speakers, incoming, passable)?;
    Ok(receipt)
}

/// Has the message about the new post `status` passed on, where that is this server's part.
pub(super) fn forward_new(
    tx: &mut Tx,
    env: &Env,
    senders: &mut Senders,
    incoming: &Incoming,
    passable: &Passable,
    status: &Status,
) -> Result<(), Error> {
    // Nobody has boosted it yet.
    if status.in_reply_to_id.is_none() {
        return Ok(());
    }
    let speakers = speakers(tx, senders, status, passable)?;
    forward(tx, env, speakers, incoming, passable)
}

/// Has the deletion of `status`, which still stands, passed on, where that is this server's part.
pub(super) fn forward_deletion(
    tx: &mut Tx,
    env: &Env,
    senders: &mut Senders,
    incoming: &Incoming,
    passable: &Passable,
    status: &Status,
    is_boosted_here: bool,
) -> Result<(), Error> {
    if status.in_reply_to_id.is_none() && !is_boosted_here {
        return Ok(());
    }
    let speakers = speakers(tx, senders, status, passable)?;
    forward(tx, env, speakers, incoming, passable)
}

fn forward(
    tx: &mut Tx,
    env: &Env,
    speakers: Vec<Id>,
    incoming: &Incoming,
    passable: &Passable,
) -> Result<(), Error> {
    if !speakers.is_empty() {
        let origin = super::host_of(&incoming.actor).unwrap_or_default().to_owned();
        let forward = Forward { by: speakers, body: passable.body.clone(), origin };
        env.jobs.enqueue(tx, &forward)?;
    }
    Ok(())
}

/// What an edit changes: a message that changes none of it is not passed on (again).
fn shows(status: &Status) -> (&str, &str, bool, Option<Timestamp>, &[Id]) {
    let Status { content, spoiler, sensitive, edited_at, media_ids, .. } = status;
    (content, spoiler, *sensitive, *edited_at, &media_ids.0)
}

/// The people here in whose name a message about `status` is passed on to their followers:
/// - who wrote what it answers, where everybody may see both;
/// - who boosted it, for their followers have it by that boost;
/// - who wrote something above it in the thread, where the message names their followers.
///
/// What not everybody may see is passed on by the last rule alone, and only where the message
/// proves itself, for nobody could ask its origin for it. What is of people whom staff silenced,
/// or whom the one here blocks, is not passed on.
fn speakers(
    tx: &mut Tx,
    senders: &mut Senders,
    status: &Status,
    passable: &Passable,
) -> Result<Vec<Id>, Error> {
    let by = senders.of_post(tx, status)?;
    if by.is_local() || by.silenced_at.is_some() || senders.policy(tx, &by.domain)?.silenced {
        return Ok(Vec::new());
    }
    let mut speakers: Vec<Id> = Vec::new();
    if status.visibility.is_open() {
        speakers = tx.column(
            "SELECT a.id FROM accounts a WHERE a.domain = '' AND a.id IN (
               SELECT account_id FROM statuses WHERE id = ?1 AND visibility <= 1
               UNION SELECT account_id FROM statuses WHERE boost_of_id = ?2 AND visibility <= 1)
             ORDER BY a.id LIMIT ?3",
            params![status.in_reply_to_id, status.id, SPEAKERS_MAX],
        )?;
    } else if !passable.proven {
        return Ok(Vec::new());
    }
    speakers.extend(named(tx, status, &passable.addressed)?);
    speakers.sort_unstable();
    speakers.dedup();
    speakers.truncate(SPEAKERS_MAX);
    let mut kept = Vec::with_capacity(speakers.len());
    for speaker in speakers {
        if !relationships::blocked(tx, speaker, by.id)? {
            kept.push(speaker);
        }
    }
    Ok(kept)
}

/// Those here who wrote something above `status` and whose followers are among `addressed`.
fn named(tx: &mut Tx, status: &Status, addressed: &[String]) -> Result<Vec<Id>, Error> {
    let Some(parent) = status.in_reply_to_id.filter(|_| !addressed.is_empty()) else {
        return Ok(Vec::new());
    };
    // The address of a local collection is its owner's with a suffix, and that has an index.
    let owners: Vec<&str> =
        addressed.iter().filter_map(|uri| uri.strip_suffix("/followers")).collect();
    if owners.is_empty() {
        return Ok(Vec::new());
    }
    let here: Vec<Id> = tx.column(
        "SELECT id FROM accounts WHERE domain = '' AND uri IN texts(?1)",
        &[texts(owners)],
    )?;
    if here.is_empty() {
        return Ok(here);
    }
    let above: Vec<Id> = tx.column(
        "WITH RECURSIVE above (parent, account, depth) AS (
           SELECT in_reply_to_id, account_id, 1 FROM statuses WHERE id = ?1
           UNION ALL SELECT s.in_reply_to_id, s.account_id, above.depth + 1
           FROM above JOIN statuses s ON s.id = above.parent WHERE above.depth < ?2)
         SELECT DISTINCT account FROM above",
        params![parent, STEPS_MAX],
    )?;
    Ok(here.into_iter().filter(|one| above.contains(one)).collect())
}

/// What somebody says that another did, which only that other's server can confirm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hearsay {
    /// Wrote a post.
    Create,
    /// Edited a post.
    Update,
    /// Deleted a post, or itself.
    Delete,
}

/// Whether it matters here what `actor`, as others say, did to `object` (which answers
/// `in_reply_to`): a new post in a thread that is known here or of somebody followed here, and
/// what is done to posts and accounts that are known here.
///
/// # Errors
/// The database's.
pub fn concerns(
    tx: &mut Tx,
    said: Hearsay,
    actor: &str,
    object: &str,
    in_reply_to: Option<&str>,
) -> Result<bool, Error> {
    let known = statuses::by_uri(tx, object)?;
    match said {
        Hearsay::Create if known.is_some() => Ok(false),
        Hearsay::Create => {
            if let Some(parent) = in_reply_to
                && statuses::by_uri(tx, parent)?.is_some()
            {
                return Ok(true);
            }
            match accounts::by_uri(tx, actor)? {
                Some(account) => statuses::is_followed(tx, account.id),
                None => Ok(false),
            }
        }
        Hearsay::Update => Ok(known.is_some_and(|status| !status.local)),
        Hearsay::Delete if object == actor => Ok(accounts::by_uri(tx, actor)?
            .is_some_and(|account| !account.is_local() && account.deleted_at.is_none())),
        Hearsay::Delete => Ok(known.is_some_and(|status| !status.local)),
    }
}

/// How sure an origin is that something is there no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Absence {
    /// It says so: 410, or a Tombstone.
    Gone,
    /// It says that there is no such thing (404), as servers also do to those who may not see it.
    Missing,
}

/// The origin of post `uri`, asked, does not have it. What everybody could see is deleted then;
/// what not everybody may see only where its origin says for sure that it is gone.
///
/// # Errors
/// The database's.
pub fn absent_post(tx: &mut Tx, env: &Env, uri: &str, absence: Absence) -> Result<(), Error> {
    let Some(status) = statuses::by_uri(tx, uri)?.filter(|status| !status.local) else {
        return Ok(());
    };
    if absence == Absence::Gone || status.visibility.is_open() {
        let host = super::host_of(uri).unwrap_or_default().to_owned();
        statuses::receive_delete(tx, env, &host, uri)?;
    }
    Ok(())
}

/// The origin of account `uri`, asked, does not have it: deleted here where it says for sure that
/// it is gone, for that is for ever.
///
/// # Errors
/// The database's.
pub fn absent_account(tx: &mut Tx, env: &Env, uri: &str, absence: Absence) -> Result<(), Error> {
    let known = accounts::by_uri(tx, uri)?;
    let known = known.filter(|known| !known.is_local() && known.deleted_at.is_none());
    if let (Some(account), Absence::Gone) = (known, absence) {
        accounts::delete_remote(tx, env, account.id)?;
    }
    Ok(())
}

/// The job that asks an origin about what somebody else said; the `activitypub` face registers
/// for it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AskOrigin {
    /// What was said.
    pub said: Hearsay,
    /// Who did it, as was said.
    pub actor: String,
    /// To what.
    pub object: String,
    /// What that answers, as was said.
    pub in_reply_to: Option<String>,
    /// The server that said so: its fairness key, so that who says much waits by itself.
    pub told_by: String,
}

impl AskOrigin {
    /// Where they wait.
    pub const QUEUE_NAME: &'static str = "ask_origin";

    /// What is the same when several say the same.
    pub fn key(&self) -> String {
        let whole = format!("ask {:?} {}", self.said, self.object);
        if whole.len() > 255 { format!("{:x}", super::order::hash(&whole)) } else { whole }
    }
}

impl Job for AskOrigin {
    const KIND: &'static str = "ask_origin";
    const QUEUE: Queue = Queue::new(Self::QUEUE_NAME, Class::Housekeeping).newest_first();
    const RETRY: Retry =
        Retry { attempts_max: 4, delay: Delay::FixedMs(90_000), last: Last::Discard };

    fn lane(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.told_by)
    }
}
