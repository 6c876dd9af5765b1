//! What the community asks the network to do: the jobs and ports that a face registers for.

mod alone;
mod arriving;
mod audience;
pub mod chores;
mod forward;
mod incoming;
mod meet;
pub mod order;
pub mod outgoing;
mod patience;
mod plain;
mod replies;
mod wishes;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use weir_base::{Id, Timestamp};
use weir_db::{Class, Tx};
use weir_jobs::{Delay, Job, Last, Queue, Retry};

use crate::accounts::Account;
use crate::statuses::Visibility;
use crate::{Env, Error};

pub use alone::Alone;
pub use arriving::{Arriving, comes};
pub use audience::{Audience, Inbox, Reach, concerned, forget_inbox, reach, spoken_with};
pub use forward::{
    Absence, AskOrigin, Forward, Hearsay, PASSED_ON, PASSED_ON_MAX, Passable, absent_account,
    absent_post, concerns, receive_and_forward,
};
pub(crate) use incoming::boosted_at;
pub use incoming::{Answered, Deed, Incoming, Senders, Undone, receive};
pub use meet::{meet, meet_mentioned};
pub use patience::{
    BEHIND, FOLLOWS_MS, FOLLOWS_OTHERS_MS, INBOUND, INBOUND_LATE, ON_ITS_WAY, PATIENCE_MS,
    Patience, has_unworked_of, is_on_its_way, unworked,
};
use patience::{comes_ms, may_come};
pub use plain::receive_plain;
pub use replies::{Opened, REPLIES_PAGES_MAX, choose, opened, want_replies, wants_answers};
use wishes::Asked;
pub use wishes::Wishes;

/// Something that the followers, or those concerned, on other servers are to learn. What was
/// deleted is described whole, for its row is gone when the job runs.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Message {
    /// A new post.
    Create {
        /// Which.
        status: Id,
    },
    /// A post was edited.
    UpdateStatus {
        /// Which.
        status: Id,
    },
    /// People voted in the poll of a post, or it ended.
    CountVotes {
        /// Which post.
        status: Id,
    },
    /// A post was deleted.
    DeleteStatus {
        /// Its address on the network.
        uri: String,
        /// Who could see it.
        visibility: Visibility,
        /// Remote people it mentioned, and those who boosted it or whom it answered.
        concerned: Vec<Id>,
    },
    /// A boost.
    Boost {
        /// The boost's own row.
        status: Id,
    },
    /// A boost was taken back.
    Unboost {
        /// The boost's address.
        uri: String,
        /// What was boosted.
        of_uri: String,
        /// Its author.
        author: Id,
        /// Who could see the boost.
        visibility: Visibility,
        /// When it was made.
        at: Timestamp,
    },
    /// A favourite.
    Favourite {
        /// The favourite's id.
        id: Id,
        /// What is liked.
        status: Id,
    },
    /// A favourite was taken back.
    Unfavourite {
        /// The favourite's id.
        id: Id,
        /// What was liked, by its address.
        status_uri: String,
        /// Its author.
        author: Id,
    },
    /// A wish to follow.
    Follow {
        /// The follow's (or request's) id.
        id: Id,
        /// Whom.
        target: Id,
    },
    /// The wish is taken back, or the follow ended.
    Unfollow {
        /// The follow's id.
        id: Id,
        /// Whom.
        target: Id,
    },
    /// A follow of a remote account is accepted.
    AcceptFollow {
        /// The Follow's address; empty when it was not kept.
        uri: String,
        /// Who asked.
        follower: Id,
    },
    /// A follow of a remote account is refused or ended.
    RejectFollow {
        /// The Follow's address; empty when it was not kept.
        uri: String,
        /// Who asked.
        follower: Id,
    },
    /// A block.
    Block {
        /// The block's id.
        id: Id,
        /// Whom.
        target: Id,
    },
    /// A block was taken back.
    Unblock {
        /// The block's id.
        id: Id,
        /// Whom.
        target: Id,
    },
    /// A vote in a remote poll: one note for each choice.
    Vote {
        /// The poll.
        poll: Id,
        /// Options chosen, from 0.
        choices: Vec<usize>,
    },
    /// A post was pinned.
    Pin {
        /// Which.
        status: Id,
    },
    /// A post was unpinned.
    Unpin {
        /// Its address.
        status_uri: String,
    },
    /// The profile changed.
    UpdateActor,
    /// The account was deleted; `actor` is its address.
    DeleteActor {
        /// Its address.
        actor: String,
    },
    /// The person moved to another account.
    Move {
        /// Where to.
        target: Id,
    },
    /// A report is forwarded to the server of the reported.
    Flag {
        /// Which report.
        report: Id,
    },
}

/// The job by which the community asks; the `activitypub` face registers for it, writes the
/// activity once and a delivery job for each inbox.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Distribute {
    /// Who speaks.
    pub by: Id,
    /// What is said.
    pub message: Message,
}

impl Job for Distribute {
    const KIND: &'static str = "distribute";
    const QUEUE: Queue = Queue::new("distribute", Class::Inbound);

    fn lane(&self) -> Cow<'_, str> {
        Cow::Owned(self.by.to_string())
    }
}

/// Asks for `message` of local account `by` to be sent, in the caller's transaction.
///
/// # Errors
/// The database's.
pub fn send(tx: &mut Tx, env: &Env, by: Id, message: Message) -> Result<(), Error> {
    env.jobs.enqueue(tx, &Distribute { by, message })?;
    Ok(())
}

/// Something that lies on another server and is wanted here.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Wanted {
    /// A post, and its author.
    Status {
        /// Its address.
        uri: String,
    },
    /// An account.
    Account {
        /// Its address.
        uri: String,
    },
    /// An account that a post mentions.
    Mention {
        /// The post.
        status: Id,
        /// The account's address.
        uri: String,
    },
    /// The pinned posts of an account.
    Featured {
        /// Whose.
        account: Id,
        /// Where they are listed.
        uri: String,
    },
    /// What answers a post, as the post's own server lists it.
    Replies {
        /// The post's address.
        uri: String,
        /// Posts between it and the one whose answers were wanted at first.
        level: u32,
    },
    /// An answer that such a list names.
    Reply {
        /// Its address.
        uri: String,
        /// What it must answer.
        to: String,
        /// As of the list.
        level: u32,
    },
}

impl Wanted {
    /// Its address.
    pub fn uri(&self) -> &str {
        match self {
            Self::Status { uri }
            | Self::Account { uri }
            | Self::Mention { uri, .. }
            | Self::Featured { uri, .. }
            | Self::Replies { uri, .. }
            | Self::Reply { uri, .. } => uri,
        }
    }

    fn key(&self) -> String {
        match self {
            Self::Status { uri } => format!("status {uri}"),
            Self::Account { uri } => format!("account {uri}"),
            Self::Mention { status, uri } => format!("mention {status} {uri}"),
            Self::Featured { account, .. } => format!("featured {account}"),
            Self::Replies { uri, .. } => format!("replies {uri}"),
            Self::Reply { uri, .. } => format!("reply {uri}"),
        }
    }
}

/// How many steps away from what came in by itself something is fetched at most: the parents of
/// a parent, and so on.
pub const DEPTH_MAX: u32 = 20;

/// Fetches at once. They wait for other servers and hold little meanwhile, so it is not what this
/// one has left of the processor that limits them.
const FETCHES_MAX: usize = 256;
/// What has to wait for its server's turn is planned for the end of a part of time so long, in ms.
const PLANNED_PER_MS: i64 = 10_000;

/// The job that fetches; the `activitypub` face registers for it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Fetch {
    /// What is wanted.
    pub wanted: Wanted,
    /// Steps away from what came in by itself.
    pub depth: u32,
    /// Whether it can wait while messages of its host do, among which it may be.
    #[serde(default)]
    pub patient: bool,
}

impl Fetch {
    /// By which it is asked for once, after `prefix`.
    fn key(&self, prefix: &str) -> String {
        let key = format!("{prefix}{}", self.wanted.key());
        // One that waits long keeps away none that somebody waits for; who comes second finds it
        // here.
        let key = if self.patient { format!("patient {key}") } else { key };
        if key.len() > 255 { format!("{:x}", order::hash(&key)) } else { key }
    }
}

impl Job for Fetch {
    const KIND: &'static str = "fetch";
    const QUEUE: Queue =
        Queue::new("fetch", Class::Housekeeping).newest_first().running_max(FETCHES_MAX);
    const RETRY: Retry =
        Retry { attempts_max: 4, delay: Delay::FixedMs(90_000), last: Last::Discard };

    fn lane(&self) -> Cow<'_, str> {
        name(host_of(self.wanted.uri()).unwrap_or_default())
    }
}

/// Asks for `wanted` to be fetched after the caller's transaction, once however often it is asked
/// while it waits. Beyond [`DEPTH_MAX`] steps nothing is fetched.
///
/// # Errors
/// The database's.
pub fn want(tx: &mut Tx, env: &Env, wanted: Wanted, depth: u32) -> Result<(), Error> {
    let fetch = Fetch { wanted, depth, patient: false };
    want_each(tx, env, [Wish { by: None, since: env.clock.now(), fetch }])
}

/// A fetch; whose post or boost names it, nobody's where that is nothing of another server; and
/// when that came to the door.
pub(crate) struct Wish<'w> {
    pub(crate) by: Option<&'w Account>,
    pub(crate) since: Timestamp,
    pub(crate) fetch: Fetch,
}

impl Wish<'_> {
    /// How long it waits at least, in ms; none if it is not fetched at all.
    fn wait_ms(&self, asked: &mut Asked) -> Option<i64> {
        if self.fetch.depth > DEPTH_MAX {
            metrics::counter!("weir_community_fetches_too_deep_total").increment(1);
            return None;
        }
        let lane = self.fetch.lane();
        let Some(by) = self.by else { return Some(0) };
        let is_own = lane == by.domain || host_of(&by.uri).is_some_and(|of| name(of) == lane);
        asked.wait_ms(&by.domain, is_own).filter(|_| !lane.is_empty())
    }
}

/// The same of several things, each [as much as its server may have fetched](Wishes). What is
/// patient is put off while it may be among the messages that wait.
///
/// # Errors
/// The database's.
pub(crate) fn want_each<'w>(
    tx: &mut Tx,
    env: &Env,
    wishes: impl IntoIterator<Item = Wish<'w>>,
) -> Result<(), Error> {
    let now = env.clock.now();
    let mut asked = Asked::new(&env.wishes, now);
    let mut ready = Vec::new();
    let mut patient: BTreeMap<i64, Vec<(String, Fetch)>> = BTreeMap::new();
    let mut planned: BTreeMap<i64, Vec<(String, Fetch)>> = BTreeMap::new();
    for wish in wishes {
        let Some(wait_ms) = wish.wait_ms(&mut asked) else { continue };
        let Wish { by, since, fetch } = wish;
        let patience_ms = match fetch.patient && may_come(env, &fetch.lane()) {
            true => comes_ms(env, &fetch.lane(), fetch.wanted.uri(), since),
            false => 0,
        };
        // What is beyond its server's allowance is not called back, which would be before its turn.
        if wait_ms > 0 {
            let wait_ms =
                if patience_ms < PATIENCE_MS { wait_ms.max(patience_ms) } else { wait_ms };
            // Under a key of its server's: who wants the same has it fetched when they may.
            let of = by.map(|by| by.domain.as_str()).unwrap_or_default();
            let part = wait_ms.div_euclid(PLANNED_PER_MS);
            planned.entry(part).or_default().push((fetch.key(&format!("of {of} ")), fetch));
        } else if patience_ms > 0 {
            patient.entry(patience_ms).or_default().push((fetch.key(""), fetch));
        } else {
            ready.push((fetch.key(""), fetch));
        }
    }
    if !ready.is_empty() {
        env.jobs.enqueue_unique_each(tx, &ready)?;
    }
    for (after_ms, fetches) in &patient {
        env.jobs.put_off_unique_each(tx, *after_ms, ON_ITS_WAY, fetches)?;
    }
    for (part, fetches) in planned {
        env.jobs.plan_unique_each(tx, now.plus_ms((part + 1) * PLANNED_PER_MS), &fetches)?;
    }
    let patience = env.patience.clone();
    tx.after_commit(move || {
        asked.charge();
        patient.values().flatten().for_each(|(_, fetch)| patience.waits(&fetch.lane()));
    });
    Ok(())
}

/// The posts at `uris` came by themselves: nothing waits any more to fetch them.
///
/// # Errors
/// The database's.
pub(crate) fn came(tx: &mut Tx, env: &Env, uris: &[&str]) -> Result<(), Error> {
    let key = |uri: &&str| {
        let wanted = Wanted::Status { uri: (*uri).to_owned() };
        Fetch { wanted, depth: 0, patient: true }.key("")
    };
    let keys: Vec<String> = uris.iter().map(key).collect();
    if !keys.is_empty() {
        env.jobs.take_back(tx, &keys)?;
    }
    Ok(())
}

/// The name of a host, however it was written.
fn name(host: &str) -> Cow<'_, str> {
    match host.bytes().any(|byte| byte.is_ascii_uppercase()) {
        true => Cow::Owned(host.to_ascii_lowercase()),
        false => Cow::Borrowed(host),
    }
}

/// Host, and port if there is one, of a web address.
pub fn host_of(uri: &str) -> Option<&str> {
    let (scheme, rest) = uri.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let plain = matches!(scheme, "https" | "http") && !authority.contains('@');
    Some(authority).filter(|authority| plain && !authority.is_empty())
}

/// A future of a port.
pub type PortFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// The port by which the community learns of what lies on other servers. The `activitypub` face
/// implements it; tests may give their own.
pub trait Resolver: Send + Sync {
    /// The account behind `name@domain`, fetched when it is unknown or old.
    fn account<'a>(&'a self, username: &'a str, domain: &'a str) -> PortFuture<'a, Id>;
    /// Asks the server of remote account `account` for its profile as it is now; nothing is done
    /// for local ones.
    fn renewed<'a>(&'a self, account: Id) -> PortFuture<'a, ()>;
    /// The account or status behind an address, fetched when it is unknown.
    fn address<'a>(&'a self, uri: &'a str) -> PortFuture<'a, Found>;
}

/// A resolver in the hands of faces.
pub type SharedResolver = Arc<dyn Resolver>;

/// What an address leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// An account.
    Account(Id),
    /// A status.
    Status(Id),
}
