//! What is told to those who are here.
//!
//! Use cases note a [`Change`] that is handed over after their commit, in commit order. One task
//! ([`run`]) reads what the changes are about, once for everybody, and publishes events to the
//! topics they touch; faces encode each event once and share the bytes. Nobody here is asked more
//! than what topic they listen to: whether a reader may see an event is decided per session by the
//! faces, with [`crate::statuses::may_see`].

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use weir_base::{Id, Timestamp};
use weir_db::{Class, Tx};
use weir_live::{Hub, Limits, Shared};

use crate::statuses::{self, Status, View, Visibility};
use crate::{Community, Env, Error};

/// Changes that may wait to be told; more are dropped and counted, for streams tell what is now.
const WAITING_MAX: usize = 20_000;
/// Changes told in one go.
const BATCH_MAX: usize = 256;
/// What happened longer ago is not told, unless it mentions the receiver.
const FRESH_MS: i64 = 10 * 60 * 1_000;

/// What a session can listen to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Topic {
    /// The home timeline of an account.
    Home(Id),
    /// An account's notifications and whatever else concerns only it.
    Own(Id),
    /// An account's direct conversations.
    Direct(Id),
    /// Public posts of everybody.
    Public,
    /// Public posts written here.
    PublicLocal,
    /// Public posts written elsewhere.
    PublicRemote,
    /// Public posts with a hashtag, by its key.
    Tag(String),
    /// Those of them written here.
    TagLocal(String),
    /// Posts for a list.
    List(Id),
    /// Everybody who is logged in: announcements.
    Everybody,
}

/// What is told.
#[derive(Debug, Clone)]
pub enum Event {
    /// A new post or boost, without any reader's state.
    Created(Arc<View>),
    /// A post was edited.
    Edited(Arc<View>),
    /// A post or boost is gone.
    Deleted(Id),
    /// A notification came.
    Notification {
        /// Whose.
        account: Id,
        /// Which.
        id: Id,
    },
    /// A conversation has something new.
    Conversation {
        /// Whose.
        account: Id,
        /// The conversation's row.
        id: Id,
    },
    /// The account's filters changed.
    FiltersChanged,
    /// Whom the account follows, blocks or mutes changed.
    BondsChanged,
    /// Notification requests were merged into the notifications.
    NotificationsMerged,
    /// An announcement was published or changed.
    Announcement(Id),
    /// An announcement is gone.
    AnnouncementDeleted(Id),
    /// A reaction to an announcement changed.
    AnnouncementReaction {
        /// Which announcement.
        id: Id,
        /// The emoji.
        name: String,
    },
}

/// What a use case did, for after its commit.
#[derive(Debug, Clone)]
enum Change {
    Created { id: Id, mentioned: Vec<Id> },
    Edited { id: Id },
    Deleted { id: Id, author: Id, mentioned: Vec<Id>, visibility: Visibility },
    To { topic: Topic, event: Event },
}

/// The hub of those who are here, and the way to it.
pub struct Streams {
    hub: Hub<Topic, Event>,
    sender: mpsc::Sender<Change>,
    receiver: Mutex<Option<mpsc::Receiver<Change>>>,
}

impl Default for Streams {
    fn default() -> Self {
        let (sender, receiver) = mpsc::channel(WAITING_MAX);
        let hub = Hub::new(Limits::default());
        Self { hub, sender, receiver: Mutex::new(Some(receiver)) }
    }
}

impl Streams {
    /// Where sessions are opened.
    pub fn hub(&self) -> &Hub<Topic, Event> {
        &self.hub
    }

    fn after(&self, tx: &mut Tx, change: Change) {
        let sender = self.sender.clone();
        tx.after_commit(move || {
            if sender.try_send(change).is_err() {
                metrics::counter!("weir_community_changes_dropped_total").increment(1);
            }
        });
    }

    pub(crate) fn status_created(&self, tx: &mut Tx, status: &Status, mentioned: &[Id]) {
        self.after(tx, Change::Created { id: status.id, mentioned: mentioned.to_vec() });
    }

    /// A post was edited.
    pub fn status_edited(&self, tx: &mut Tx, id: Id) {
        self.after(tx, Change::Edited { id });
    }

    pub(crate) fn status_deleted(&self, tx: &mut Tx, status: &Status, mentioned: &[Id]) {
        let change = Change::Deleted {
            id: status.id,
            author: status.account_id,
            mentioned: mentioned.to_vec(),
            visibility: status.visibility,
        };
        self.after(tx, change);
    }

    /// Tells `event` to those who listen to `topic`, after the commit.
    pub fn tell(&self, tx: &mut Tx, topic: Topic, event: Event) {
        self.after(tx, Change::To { topic, event });
    }

    /// Whom `account` follows, blocks or mutes changed.
    pub fn bonds_changed(&self, tx: &mut Tx, account: Id) {
        self.tell(tx, Topic::Own(account), Event::BondsChanged);
    }
}

/// Tells changes until `shutdown`. Started once, by who opened the community.
pub async fn run(community: Community, shutdown: CancellationToken) {
    let Some(mut receiver) = community.env().streams.receiver.lock().take() else { return };
    let mut batch = Vec::new();
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            count = receiver.recv_many(&mut batch, BATCH_MAX) => {
                if count == 0 {
                    return;
                }
                let changes = std::mem::take(&mut batch);
                if let Err(error) = tell(&community, changes).await {
                    tracing::warn!(%error, "changes could not be told to those who are here");
                }
            }
        }
    }
}

async fn tell(community: &Community, changes: Vec<Change>) -> Result<(), Error> {
    let env = community.env();
    let wanted: Vec<Id> = changes
        .iter()
        .filter_map(|change| match change {
            Change::Created { id, .. } | Change::Edited { id } => Some(*id),
            _ => None,
        })
        .collect();
    let nobody = env.streams.hub.stats().sessions == 0;
    let views: Vec<(View, Vec<Id>)> = if wanted.is_empty() || nobody {
        Vec::new()
    } else {
        community.read(Class::Live, move |tx, env| with_lists(tx, env, &wanted)).await?
    };
    for change in changes {
        match change {
            Change::Created { id, mentioned } => {
                publish_status(env, &views, id, &mentioned, true);
            }
            Change::Edited { id } => publish_status(env, &views, id, &[], false),
            Change::Deleted { id, author, mentioned, visibility } => {
                let mut topics = audience(env, author, &mentioned);
                if visibility == Visibility::Public {
                    topics.extend([Topic::Public, Topic::PublicLocal, Topic::PublicRemote]);
                }
                env.streams.hub.publish_to(topics.into_iter(), Shared::new(Event::Deleted(id)));
            }
            Change::To { topic, event } => {
                env.streams.hub.publish(&topic, Shared::new(event));
            }
        }
    }
    Ok(())
}

/// The posts as everybody sees them, each with the lists its author stands in.
fn with_lists(tx: &mut Tx, env: &Env, wanted: &[Id]) -> Result<Vec<(View, Vec<Id>)>, Error> {
    let views = statuses::load_for_all(tx, env, wanted)?;
    let authors: Vec<Id> = views.iter().map(|view| view.account.id).collect();
    let lists: Vec<(Id, Id)> = tx.query(
        "SELECT account_id, list_id FROM list_accounts WHERE account_id IN ids(?1)",
        &[weir_db::ids(&authors)],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    let of = |author: Id| {
        lists.iter().filter(|(one, _)| *one == author).map(|(_, list)| *list).collect()
    };
    Ok(views
        .into_iter()
        .map(|view| {
            let lists = of(view.account.id);
            (view, lists)
        })
        .collect())
}

fn publish_status(env: &Env, views: &[(View, Vec<Id>)], id: Id, mentioned: &[Id], new: bool) {
    let Some((view, lists)) = views.iter().find(|(view, _)| view.status.id == id) else { return };
    let fresh = is_fresh(env.clock.now(), id.time());
    let own = mentioned.iter().filter(|account| env.streams.hub.is_here(account.0));
    let mut topics: Vec<Topic> = own.map(|account| Topic::Home(*account)).collect();
    if fresh || !new {
        topics = audience(env, view.account.id, mentioned);
        topics.extend(lists.iter().map(|list| Topic::List(*list)));
        topics.extend(public_topics(view));
        for tag in &view.post().tags {
            topics.extend(tag_followers(env, tag.id));
        }
    }
    if view.status.visibility == Visibility::Direct {
        topics.extend(mentioned.iter().map(|account| Topic::Direct(*account)));
        topics.push(Topic::Direct(view.account.id));
    }
    let view = Arc::new(view.clone());
    let event = if new { Event::Created(view) } else { Event::Edited(view) };
    env.streams.hub.publish_to(topics.into_iter(), Shared::new(event));
}

/// The home timelines of those who are here and follow `author`, are it or are mentioned.
fn audience(env: &Env, author: Id, mentioned: &[Id]) -> Vec<Topic> {
    let followers = env.feeds.local_followers(author);
    let all = followers.iter().chain(mentioned).chain(std::iter::once(&author));
    let here = all.filter(|account| env.streams.hub.is_here(account.0));
    let mut here: Vec<Id> = here.copied().collect();
    here.sort();
    here.dedup();
    here.into_iter().map(Topic::Home).collect()
}

fn tag_followers(env: &Env, tag: Id) -> Vec<Topic> {
    let followers = env.feeds.tag_followers(tag);
    followers.into_iter().filter(|id| env.streams.hub.is_here(id.0)).map(Topic::Home).collect()
}

fn public_topics(view: &View) -> Vec<Topic> {
    if view.status.visibility != Visibility::Public || view.boost.is_some() {
        return Vec::new();
    }
    let local = view.status.local;
    let mut topics = vec![Topic::Public];
    topics.push(if local { Topic::PublicLocal } else { Topic::PublicRemote });
    for tag in &view.tags {
        topics.push(Topic::Tag(tag.name.clone()));
        if local {
            topics.push(Topic::TagLocal(tag.name.clone()));
        }
    }
    topics
}

/// Whether something of `at` is still told as new.
pub fn is_fresh(now: Timestamp, at: Timestamp) -> bool {
    now.since_ms(at) <= FRESH_MS
}
