//! Passing on what people of other servers do beneath posts of this one (ActivityPub 7.1.2), and
//! what of that which others pass on to us is worth asking its origin for.
//!
//! An author elsewhere does not know who follows the person answered here; this server does. So
//! what a reply's server sends is passed on, as it came, to those followers' servers.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use weir_base::{Id, Timestamp};
use weir_db::{Class, ToValue, Tx, Value, params, texts};
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
/// Messages that may wait to be passed on; twice as many before a deletion has no room either. They
/// come as fast as messages do, and while these are behind hardly any goes on.
const WAITING_MAX: u64 = 50_000;
/// The same of those that came from one server.
const WAITING_OF_ONE_MAX: u64 = 5_000;
/// The longest message that is passed on, in bytes; most have a tenth of it.
const BYTES_MAX: usize = 64 * 1024;
/// Deliveries of such messages that may wait for their first try: while they do, the messages wait
/// as well, and what comes is not passed on; twice as many before a deletion is not.
pub const PASSED_ON_MAX: u64 = 250_000;
/// Where these wait, each server's in a lane.
pub const PASSED_ON: Queue = Queue::new("deliver_passed_on", Class::Outbound);

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

/// A message that may have to be passed on, and the post it is about.
pub(super) struct Passing<'p> {
    pub(super) incoming: &'p Incoming,
    pub(super) passable: &'p Passable,
    pub(super) status: &'p Status,
    /// Whether somebody here boosted it, or may have.
    pub(super) is_boosted_here: bool,
}

/// Has messages about posts that are new, changed, or go and still stand, passed on where that is
/// this server's part: by statements for all of them.
pub(super) fn forward_each(
    tx: &mut Tx,
    env: &Env,
    senders: &mut Senders,
    passing: &[Passing<'_>],
) -> Result<(), Error> {
    // Of what answers nothing, and nobody here boosted, nobody here tells others.
    let heard = |one: &&Passing| one.status.in_reply_to_id.is_some() || one.is_boosted_here;
    let passing: Vec<&Passing> = passing.iter().filter(heard).collect();
    let about: Vec<_> = passing.iter().map(|one| (one.status, one.passable)).collect();
    let speakers = speakers_each(tx, senders, &about)?;
    let forwards: Vec<Forward> = (passing.iter().zip(speakers))
        .filter_map(|(one, speakers)| passed_on(tx, env, speakers, one.incoming, one.passable))
        .collect();
    if !forwards.is_empty() {
        env.jobs.enqueue_many(tx, &forwards)?;
    }
    Ok(())
}

fn forward(
    tx: &mut Tx,
    env: &Env,
    speakers: Vec<Id>,
    incoming: &Incoming,
    passable: &Passable,
) -> Result<(), Error> {
    if let Some(forward) = passed_on(tx, env, speakers, incoming, passable) {
        env.jobs.enqueue(tx, &forward)?;
    }
    Ok(())
}

/// None where nobody passes it on, or too many wait already: it is not passed on then.
fn passed_on(
    tx: &mut Tx,
    env: &Env,
    by: Vec<Id>,
    incoming: &Incoming,
    passable: &Passable,
) -> Option<Forward> {
    let origin = super::host_of(&incoming.actor).unwrap_or_default();
    if by.is_empty() {
        return None;
    }
    let queue = Forward::QUEUE.name;
    // Who got the post through us is to hear that it is gone.
    let times = if matches!(incoming.deed, Deed::Delete { .. }) { 2 } else { 1 };
    if passable.body.len() > BYTES_MAX
        || env.jobs.depth(queue) >= times * WAITING_MAX
        || env.jobs.depth(PASSED_ON.name) >= times * PASSED_ON_MAX
        || env.jobs.depth_in(queue, origin) >= times * WAITING_OF_ONE_MAX
    {
        tx.after_commit(|| {
            metrics::counter!("weir_community_forwards_dropped_total").increment(1);
        });
        return None;
    }
    Some(Forward { by, body: passable.body.clone(), origin: origin.to_owned() })
}

/// What an edit changes: a message that changes none of it is not passed on (again).
pub(super) fn shows(status: &Status) -> (&str, &str, bool, Option<Timestamp>, &[Id]) {
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
    let mut found = speakers_each(tx, senders, &[(status, passable)])?;
    // There is one answer for each.
    Ok(found.pop().unwrap_or_default())
}

/// As [`speakers`], of many posts with the messages about them.
fn speakers_each(
    tx: &mut Tx,
    senders: &mut Senders,
    about: &[(&Status, &Passable)],
) -> Result<Vec<Vec<Id>>, Error> {
    let mut speakers: Vec<Vec<Id>> = vec![Vec::new(); about.len()];
    let mut passed_on = Vec::with_capacity(about.len());
    for (at, (status, passable)) in about.iter().enumerate() {
        let by = senders.of_post(tx, status)?;
        let silent =
            by.is_local() || by.silenced_at.is_some() || senders.policy(tx, &by.domain)?.silenced;
        if !silent && (status.visibility.is_open() || passable.proven) {
            passed_on.push(at);
        }
    }
    let open = passed_on.iter().filter(|at| about[**at].0.visibility.is_open());
    let open = open.map(|at| {
        let status = about[*at].0;
        [Value::Int(*at as i64), status.in_reply_to_id.to_value(), status.id.to_value()]
    });
    let sql = format!(
        "SELECT CAST(?1 AS BIGINT), a.id FROM accounts a WHERE a.domain = '' AND a.id IN (
           SELECT account_id FROM statuses WHERE id = ?2 AND visibility <= 1
           UNION SELECT account_id FROM statuses WHERE boost_of_id = ?3 AND visibility <= 1)
         ORDER BY a.id LIMIT {SPEAKERS_MAX}"
    );
    tx.query_each(&sql, open, |row| {
        let at: i64 = row.get(0)?;
        speakers[at as usize].push(row.get(1)?);
        Ok(())
    })?;
    for at in passed_on {
        let (status, passable) = about[at];
        let own = &mut speakers[at];
        own.extend(named(tx, status, &passable.addressed)?);
        own.sort_unstable();
        own.dedup();
        own.truncate(SPEAKERS_MAX);
    }
    let pairs = about.iter().zip(&speakers).flat_map(|((status, _), speakers)| {
        speakers.iter().map(|speaker| (*speaker, status.account_id))
    });
    let blocked = relationships::blocked_each(tx, &pairs.collect::<Vec<_>>())?;
    for ((status, _), speakers) in about.iter().zip(&mut speakers) {
        speakers.retain(|speaker| !blocked.contains(&(*speaker, status.account_id)));
    }
    Ok(speakers)
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
    /// So many wait at most: in all, …
    pub const WAITING_MAX: u64 = 20_000;
    /// … and of what one server says.
    pub const WAITING_OF_ONE_MAX: u64 = 500;

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
