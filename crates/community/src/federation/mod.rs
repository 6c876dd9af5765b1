//! What the community asks the network to do: the jobs and ports that a face registers for.

mod alone;
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
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use weir_base::{Id, Timestamp};
use weir_db::{Class, Tx};
use weir_jobs::{Delay, Job, Last, Queue, Retry};

use crate::statuses::Visibility;
use crate::{Env, Error};

pub use alone::Alone;
pub use audience::{Audience, Inbox, Reach, concerned, forget_inbox, reach, spoken_with};
pub use forward::{
    Absence, AskOrigin, Forward, Hearsay, Passable, absent_account, absent_post, concerns,
    receive_and_forward,
};
pub(crate) use incoming::boosted_at;
pub use incoming::{Answered, Deed, Incoming, Senders, Undone, receive};
pub use meet::{meet, meet_mentioned};
use patience::may_come;
pub use patience::{
    BEHIND, INBOUND, INBOUND_LATE, ON_ITS_WAY, PATIENCE_MS, Patience, has_unworked_of, unworked,
};
pub use plain::receive_plain;
pub use replies::{Opened, REPLIES_PAGES_MAX, choose, opened, want_replies, wants_answers};
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
    /// A post was edited, or its poll changed.
    UpdateStatus {
        /// Which.
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
/// What may wait to be fetched of one server: half an hour's, as fast as one server is asked.
const WAITING_PER_HOST_MAX: u64 = 10_000;
/// Why a fetch waits that is one of many.
const TOO_MANY: &str = "its server has much fetched";

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
    /// By which it is asked for once.
    fn key(&self) -> String {
        let key = self.wanted.key();
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
        Cow::Borrowed(host_of(self.wanted.uri()).unwrap_or_default())
    }
}

/// Asks for `wanted` to be fetched after the caller's transaction, once however often it is asked
/// while it waits. Beyond [`DEPTH_MAX`] steps nothing is fetched.
///
/// # Errors
/// The database's.
pub fn want(tx: &mut Tx, env: &Env, wanted: Wanted, depth: u32) -> Result<(), Error> {
    want_each(tx, env, "", [Fetch { wanted, depth, patient: false }])
}

/// The same of several things, which `of`, the address of a post or a person, names: where that
/// and they lie on different servers, within [what its server may have fetched](Wishes). What is
/// patient is put off while messages of its server wait.
///
/// # Errors
/// The database's.
pub(crate) fn want_each(
    tx: &mut Tx,
    env: &Env,
    of: &str,
    fetches: impl IntoIterator<Item = Fetch>,
) -> Result<(), Error> {
    let wishes = fetches.into_iter().map(|fetch| Wish { of, fetch });
    want_all(tx, env, wishes)
}

/// A fetch, and the address of what names it; none where that is nothing of another server.
pub(crate) struct Wish<'w> {
    pub(crate) of: &'w str,
    pub(crate) fetch: Fetch,
}

impl Wish<'_> {
    /// How long it waits at least, in ms; none if it is not fetched at all.
    fn wait_ms(&self, env: &Env) -> Option<i64> {
        if self.fetch.depth > DEPTH_MAX {
            metrics::counter!("weir_community_fetches_too_deep_total").increment(1);
            return None;
        }
        let lane = self.fetch.lane();
        if env.jobs.depth_in(Fetch::QUEUE.name, &lane) >= WAITING_PER_HOST_MAX {
            metrics::counter!("weir_community_fetches_too_many_total").increment(1);
            return None;
        }
        match host_of(self.of).filter(|of| *of != lane) {
            Some(of) => env.wishes.wait_ms(of, env.clock.now()),
            None => Some(0),
        }
    }
}

/// The same of what several posts or people name.
///
/// # Errors
/// The database's.
pub(crate) fn want_all<'w>(
    tx: &mut Tx,
    env: &Env,
    wishes: impl IntoIterator<Item = Wish<'w>>,
) -> Result<(), Error> {
    let (mut ready, mut patient, mut many) = (Vec::new(), Vec::new(), Vec::new());
    let mut many_ms = 0;
    for wish in wishes {
        let Some(wait_ms) = wish.wait_ms(env) else { continue };
        let Wish { fetch, .. } = wish;
        let waits = fetch.patient && may_come(env, &fetch.lane());
        let keyed = (fetch.key(), fetch);
        if wait_ms > if waits { PATIENCE_MS } else { 0 } {
            many_ms = many_ms.max(wait_ms);
            many.push(keyed);
        } else if waits {
            patient.push(keyed);
        } else {
            ready.push(keyed);
        }
    }
    if !ready.is_empty() {
        env.jobs.enqueue_unique_each(tx, &ready)?;
    }
    if !many.is_empty() {
        env.jobs.put_off_unique_each(tx, many_ms, TOO_MANY, &many)?;
    }
    if !patient.is_empty() {
        env.jobs.put_off_unique_each(tx, PATIENCE_MS, ON_ITS_WAY, &patient)?;
        let patience = env.patience.clone();
        tx.after_commit(move || {
            patient.iter().for_each(|(_, fetch)| patience.waits(&fetch.lane()));
        });
    }
    Ok(())
}

/// The posts at `uris` came by themselves: nothing waits any more to fetch them.
///
/// # Errors
/// The database's.
pub(crate) fn came(tx: &mut Tx, env: &Env, uris: &[&str]) -> Result<(), Error> {
    let key = |uri: &&str| {
        let wanted = Wanted::Status { uri: (*uri).to_owned() };
        Fetch { wanted, depth: 0, patient: true }.key()
    };
    let keys: Vec<String> = uris.iter().map(key).collect();
    if !keys.is_empty() {
        env.jobs.take_back(tx, &keys)?;
    }
    Ok(())
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
