//! What is told to those who are here.
//!
//! Use cases note a [`Change`] that is handed over after their commit, in commit order. One task
//! ([`run`]) reads what the changes are about, once for everybody, and publishes events to the
//! topics they touch; faces encode each event once and share the bytes. Nobody here is asked more
//! than what topic they listen to: whether a reader may see an event is decided per session by the
//! faces, with [`crate::statuses::may_see`].

mod anew;
mod audience;
mod doubts;
mod elsewhere;
mod hooks;
mod nodes;
mod reader;
mod readers;
mod touches;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use weir_base::{Clock, Id, Random, Timestamp};
use weir_db::{Class, Tx};
use weir_live::{Class as LiveClass, Hub, Limits, PresenceLimits, Shared};

use crate::statuses::{Status, Touched, View, Visibility};
use crate::{Community, Env, Error};

use anew::Anew;
use audience::{Awaited, Read, homes_here, public_topics};
use elsewhere::{Elsewhere, Whereabouts};
pub use hooks::Aspect;
use hooks::Persons;
pub use nodes::Nodes;
use nodes::{hear, hear_of, pass_on, tell_the_last};
pub use reader::ReaderSets;
pub use readers::{Reader, Readers};
pub use touches::{Noun, Touches};

/// Changes that may wait to be told; more are dropped and counted, and what is held in memory is
/// read anew.
const WAITING_MAX: usize = 20_000;
/// Changes told in one go.
const BATCH_MAX: usize = 256;
/// How often connections are looked after.
const BEAT: Duration = Duration::from_secs(15);
/// How often it is told who came and who left.
const PRESENCE_TICK: Duration = Duration::from_secs(1);
/// How long somebody who posts waits for those who listen.
const CATCH_UP: Duration = Duration::from_millis(250);
/// What an event counts for in outboxes and in the log besides its post, in bytes.
const EVENT_BYTES: usize = 512;
/// What happened longer ago is not told, unless it mentions the receiver.
const FRESH_MS: i64 = 10 * 60 * 1_000;

/// What a session can listen to.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
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
    /// Posts of an author, whoever may see them.
    Author(Id),
    /// What was answered.
    Answers,
    /// Everybody who is logged in: announcements.
    Everybody,
    /// Whether an account is here.
    Presence(Id),
    /// Rooms of chat, those that everybody may know among them.
    Rooms,
    /// A room of chat of this node, by its address.
    Room(String),
}

/// What is told.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Event {
    /// A new post or boost, without any reader's state.
    #[serde(skip)]
    Created(Arc<View>),
    /// A post was edited.
    #[serde(skip)]
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
    /// The account did something with a post (favourited, boosted, bookmarked, pinned, voted) or
    /// took it back.
    Marked(Id),
    /// The account muted a conversation, or does so no longer: what it did with posts of it may be
    /// another than before.
    ConversationMuted,
    /// A post was answered: this one.
    Answered(Id),
    /// The account's role or preferences changed.
    UserChanged,
    /// The account's markers moved.
    MarkersChanged,
    /// The account's lists, or who is in them, changed.
    ListsChanged,
    /// One of the account's conversations was read or is gone.
    ConversationsChanged,
    /// Notifications of the account are gone.
    NotificationsChanged,
    /// Staff hid somebody or showed them again, or somebody is gone: what is shown of them to
    /// whomever may be another than before.
    PeopleChanged,
    /// An older post came in, which is not told as new.
    CreatedLate(Id),
    /// The account's filters changed.
    FiltersChanged,
    /// Whom the account follows, blocks or mutes changed.
    BondsChanged,
    /// Somebody follows the account, asks to, or does so no longer: this one.
    FollowersChanged(Id),
    /// Notification requests were merged into the notifications.
    NotificationsMerged,
    /// The account's archive of chat has something new.
    ChatChanged,
    /// The account's contacts of chat changed.
    ContactsChanged,
    /// A room of chat came, changed what it is called or is about, or is gone.
    RoomsChanged,
    /// Something was said in a room of chat, or its people are others than before.
    RoomMoved,
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
    /// The account came or left.
    Moved,
    /// Something was missed on the way here: what is held in memory is to be read anew.
    Missed,
}

/// Makes on the snapshot on which events were read what those who get them would have to read.
type Prepare = fn(&mut Tx, &Env, &[Arc<Shared<Event>>]) -> Result<(), Error>;

/// What was read with a post that is told: attached to its event, once for all who get it.
pub struct ReadWith {
    /// The moment ([`Touches::now`]) before it was read.
    pub moment: u64,
    /// What people did with it: those who are here, or all.
    pub touched: Arc<Touched>,
}

/// What a use case did, for after its commit. Other nodes are told this, never rendered bytes: they
/// read the rows themselves.
#[derive(Debug, Clone, Serialize, Deserialize)]
enum Change {
    Created {
        id: Id,
        mentioned: Vec<Id>,
    },
    Edited {
        id: Id,
    },
    Deleted {
        id: Id,
        author: Id,
        mentioned: Vec<Id>,
        visibility: Visibility,
        local: bool,
        /// Its hashtags, with their names.
        tags: Vec<(Id, String)>,
    },
    To {
        topic: Topic,
        event: Event,
    },
    /// Log-ins of this account lost their power.
    AccessChanged(Id),
    /// Log-ins in a browser of this account ended.
    LogInsChanged(Id),
    /// This account has another role: what it has open comes back with it.
    RoleChanged(Id),
    /// Something of this account that chat shows is another than before.
    Person(Id, Aspect),
    /// Posts lost these hashtags; for other nodes alone.
    Untagged(Vec<Id>),
    /// What everybody sees of these is another than before; for other nodes alone.
    Touched(Vec<Noun>),
    /// Who is here; for other nodes alone.
    Whereabouts(Whereabouts),
    /// More was changed than could be told; for other nodes alone.
    Missed,
    /// Somebody waits until everything before this was told; of this node alone.
    #[serde(skip)]
    Settled(Settled),
}

/// Who waits.
#[derive(Debug, Clone)]
struct Settled(Arc<Mutex<Option<oneshot::Sender<()>>>>);

/// The hub of those who are here, and the way to it.
pub struct Streams {
    hub: Hub<Topic, Event>,
    sender: mpsc::Sender<Change>,
    receiver: Mutex<Option<mpsc::Receiver<Change>>>,
    prepare: RwLock<Vec<Prepare>>,
    access: RwLock<Vec<Box<dyn Fn(Id) + Send + Sync>>>,
    log_ins: RwLock<Vec<Box<dyn Fn(Option<Id>) + Send + Sync>>>,
    /// What another node said of log-ins may have been missed.
    doubted: Notify,
    bonds: RwLock<Vec<Box<dyn Fn(Option<Id>) + Send + Sync>>>,
    persons: Arc<Persons>,
    touches: Touches,
    readers: Readers,
    elsewhere: Elsewhere,
    /// There are other nodes, where people may be who are not here.
    among_others: Arc<AtomicBool>,
    /// A change could not be kept until it was told.
    overflowed: Arc<AtomicBool>,
    /// Nobody knows whether a commit stands.
    unsure: Arc<Notify>,
}

impl Streams {
    pub(crate) fn new(clock: Clock, random: Random) -> Self {
        let (sender, receiver) = mpsc::channel(WAITING_MAX);
        let elsewhere = Elsewhere::new(PresenceLimits::default(), clock.clone());
        let hub = Hub::with(Limits::default(), clock, random);
        let receiver = Mutex::new(Some(receiver));
        let (prepare, access, log_ins, bonds) = Default::default();
        let doubted = Notify::new();
        let (among_others, overflowed, unsure, persons) = Default::default();
        let (touches, readers) = (Touches::default(), Readers::default());
        let seen = readers.clone();
        hub.tap(move |topic, shared| seen.see(topic, shared));
        Self {
            hub,
            sender,
            receiver,
            prepare,
            access,
            log_ins,
            doubted,
            bonds,
            persons,
            touches,
            readers,
            elsewhere,
            among_others,
            overflowed,
            unsure,
        }
    }

    /// Has `prepare` make its form of posts and attach it, before they are published: once for all
    /// who get them, on the snapshot they were read on. Only posts that somebody listens to.
    pub fn prepare_with(&self, prepare: Prepare) {
        self.prepare.write().push(prepare);
    }

    /// Where sessions are opened.
    pub fn hub(&self) -> &Hub<Topic, Event> {
        &self.hub
    }

    /// Before somebody posts: waits, for a quarter of a second at most, until those who listen were
    /// told of what was posted before. What is published faster than it can be told would only
    /// wait in front of everybody.
    pub async fn caught_up(&self) {
        let _ = tokio::time::timeout(CATCH_UP, self.hub.caught_up()).await;
    }

    /// Which posts and accounts have changed.
    pub fn touches(&self) -> &Touches {
        &self.touches
    }

    /// What is known of those who are here.
    pub fn readers(&self) -> &Readers {
        &self.readers
    }

    /// What everybody sees of a post or an account is another than before.
    pub fn touched(&self, tx: &mut Tx, what: Noun) {
        self.touches.after(tx, what);
    }

    /// `account` came into chat at this node, or left.
    pub fn chat_presence_changed(&self, account: Id) {
        self.touches.note([Noun::Chatting(account)]);
    }

    /// In room `jid` of this node something was said, or its people are others than before.
    pub fn room_moved(&self, jid: &str) {
        let topic = Topic::Room(jid.to_owned());
        if self.hub.listeners(&topic) > 0 {
            let class = LiveClass::State { key: 0 };
            self.hub.publish(&topic, Shared::classed(Event::RoomMoved, EVENT_BYTES, class));
        }
    }

    /// Whether `account` may be shown, and to whom, is another than before.
    pub(crate) fn people_changed(&self, tx: &mut Tx, account: Id) {
        self.touched(tx, Noun::Account(account));
        self.tell(tx, Topic::Everybody, Event::PeopleChanged);
    }

    /// Tells `account` an event that concerns only it, if it is here, or may be at another node.
    /// Looked at after the commit: who comes until then may have read what was before.
    pub fn tell_if_here(&self, tx: &mut Tx, account: Id, event: Event) {
        let (hub, among_others) = (self.hub.clone(), self.among_others.clone());
        let is_wanted = move || hub.is_here(account.0) || among_others.load(Ordering::Relaxed);
        self.after_if(tx, Change::To { topic: Topic::Own(account), event }, is_wanted);
    }

    /// `account` muted a conversation, or does so no longer.
    pub(crate) fn conversation_muted(&self, tx: &mut Tx, account: Id) {
        self.tell_if_here(tx, account, Event::ConversationMuted);
    }

    /// `account` did something with post `id`, or took it back.
    pub fn marked(&self, tx: &mut Tx, account: Id, id: Id) {
        self.tell_if_here(tx, account, Event::Marked(id));
    }

    /// Waits until everything that was committed before this call was told.
    pub async fn settled(&self) {
        let (done, settled) = oneshot::channel();
        let change = Change::Settled(Settled(Arc::new(Mutex::new(Some(done)))));
        if self.sender.send(change).await.is_ok() {
            let _ = settled.await;
        }
    }

    fn after(&self, tx: &mut Tx, change: Change) {
        self.after_if(tx, change, || true);
    }

    fn after_if(
        &self,
        tx: &mut Tx,
        change: Change,
        is_wanted: impl FnOnce() -> bool + Send + 'static,
    ) {
        let (sender, overflowed) = (self.sender.clone(), self.overflowed.clone());
        tx.after_commit(move || {
            if is_wanted() && sender.try_send(change).is_err() {
                overflowed.store(true, Ordering::Release);
                metrics::counter!("weir_community_changes_dropped_total").increment(1);
            }
        });
    }

    pub(crate) fn status_created(&self, tx: &mut Tx, status: &Status, mentioned: &[Id]) {
        self.after(tx, Change::Created { id: status.id, mentioned: mentioned.to_vec() });
    }

    /// A post was edited.
    pub fn status_edited(&self, tx: &mut Tx, id: Id) {
        self.touched(tx, Noun::Post(id));
        self.after(tx, Change::Edited { id });
    }

    /// A post that mentioned these and had these hashtags was deleted.
    pub(crate) fn status_deleted(
        &self,
        tx: &mut Tx,
        status: &Status,
        mentioned: Vec<Id>,
        tags: Vec<(Id, String)>,
    ) {
        self.touched(tx, Noun::Post(status.id));
        let change = Change::Deleted {
            id: status.id,
            author: status.account_id,
            mentioned,
            visibility: status.visibility,
            local: status.local,
            tags,
        };
        self.after(tx, change);
    }

    /// Posts lost these hashtags.
    pub(crate) fn untagged(&self, tx: &mut Tx, tags: &[Id]) {
        self.after(tx, Change::Untagged(tags.to_vec()));
    }

    /// Tells `event` to those who listen to `topic`, after the commit.
    pub fn tell(&self, tx: &mut Tx, topic: Topic, event: Event) {
        self.after(tx, Change::To { topic, event });
    }

    /// Log-ins of `account` lost their power: what it has open ends, and comes back where it may.
    pub(crate) fn access_changed(&self, tx: &mut Tx, account: Id) {
        self.after(tx, Change::AccessChanged(account));
    }

    /// `by` follows `account`, asks to, or does so no longer.
    pub(crate) fn followers_changed(&self, tx: &mut Tx, account: Id, by: Id) {
        self.tell_if_here(tx, account, Event::FollowersChanged(by));
    }

    /// Log-ins in a browser of `account` ended.
    pub(crate) fn log_ins_changed(&self, tx: &mut Tx, account: Id) {
        self.after(tx, Change::LogInsChanged(account));
    }

    /// Whom `account` follows, blocks or mutes changed.
    pub fn bonds_changed(&self, tx: &mut Tx, account: Id) {
        self.tell(tx, Topic::Own(account), Event::BondsChanged);
    }
}

/// Tells changes until `shutdown`. Started once, by who opened the community.
pub async fn run(community: Community, shutdown: CancellationToken) {
    run_among(community, None, shutdown).await;
}

/// [`run`], telling the other nodes what changes here and hearing what changes there. `shutdown` is
/// to come when nothing commits any more: what was committed before is told, then goodbye.
pub async fn run_among(community: Community, nodes: Option<Nodes>, shutdown: CancellationToken) {
    let Some(mut receiver) = community.env().streams.receiver.lock().take() else { return };
    let mut batch = Vec::new();
    let (bus, mut ear) = nodes.map(|nodes| (nodes.bus, nodes.ear)).unzip();
    let streams = &community.env().streams;
    tokio::spawn(doubts::settle(community.clone(), shutdown.clone()));
    let mut beat = std::pin::pin!(streams.hub.keep_beat(BEAT));
    let mut presence = tokio::time::interval(PRESENCE_TICK);
    presence.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut anew = Anew::new();
    loop {
        let done = tokio::select! {
            () = shutdown.cancelled() => break,
            () = &mut beat => return,
            _ = presence.tick() => {
                streams.tell_who_moved(bus.as_ref());
                Ok(false)
            }
            count = receiver.recv_many(&mut batch, BATCH_MAX) => {
                if count == 0 {
                    return;
                }
                let changes = std::mem::take(&mut batch);
                if let Some(bus) = &bus {
                    pass_on(bus, &changes);
                }
                let overflowed = streams.overflowed.swap(false, Ordering::Acquire);
                if overflowed {
                    bus.iter().for_each(|bus| pass_on(bus, &[Change::Missed]));
                }
                tell(&community, changes).await.map(|()| overflowed)
            }
            () = streams.unsure.notified() => {
                anew.doubted();
                Ok(false)
            }
            () = anew.due() => Ok(false),
            outward = streams.touches.outward(), if bus.is_some() => {
                let change = outward.into();
                bus.iter().for_each(|bus| pass_on(bus, std::slice::from_ref(&change)));
                Ok(false)
            }
            heard = hear(&mut ear) => hear_of(&community, heard).await,
        };
        let missed = done.unwrap_or_else(|error| {
            tracing::warn!(%error, "changes could not be told to those who are here");
            true
        });
        if missed {
            anew.missed();
        }
        anew.read(&community, bus.as_ref()).await;
    }
    if let Some(bus) = &bus {
        tell_the_last(streams, bus, &mut receiver, &anew).await;
    }
}

/// Tells `changes`. Where the database cannot be read, all is told for which nothing has to be, and
/// the error given: who listens has missed the rest then.
async fn tell(community: &Community, changes: Vec<Change>) -> Result<(), Error> {
    let env = community.env();
    let (mut posts, mut authors) = (Vec::new(), Vec::new());
    for change in &changes {
        match change {
            Change::Created { id, .. } | Change::Edited { id } => posts.push(*id),
            Change::Deleted { author, .. } => authors.push(*author),
            _ => {}
        }
    }
    let nobody = !env.streams.hub.awaits_anybody();
    let moment = env.streams.touches.now();
    let (read, all_read) = match nobody || (posts.is_empty() && authors.is_empty()) {
        true => (Read::default(), Ok(())),
        false => {
            let read = move |tx: &mut Tx, env: &Env| Read::load(tx, env, &posts, &authors);
            match community.read(Class::Live, read).await {
                Ok(read) => (read, Ok(())),
                Err(error) => (Read::default(), Err(error)),
            }
        }
    };
    let (mut all, mut waiting, mut shut_out) = (Vec::new(), Vec::new(), Vec::new());
    let awaited = Awaited::new(env);
    for change in changes {
        if let Change::To { topic: Topic::Own(account), event: Event::BondsChanged } = &change {
            env.streams.bonds_changed_of(Some(*account));
        }
        match change {
            Change::Settled(settled) => waiting.push(settled),
            Change::AccessChanged(account) => shut_out.push(account),
            Change::LogInsChanged(account) => env.streams.log_ins_changed_of(Some(account)),
            Change::RoleChanged(account) => env.streams.role_changed_of(account),
            Change::Person(account, aspect) => env.streams.persons.heard(account, aspect),
            Change::Deleted { .. } if nobody => {}
            change => all.extend(told(env, &awaited, &read, change)),
        }
    }
    prepare(community, &all, moment).await;
    for Told { topics, event } in all {
        env.streams.hub.publish_to(topics.into_iter(), event);
    }
    shut_out.into_iter().for_each(|account| env.streams.shut_out(account));
    for done in waiting.into_iter().filter_map(|Settled(waits)| waits.lock().take()) {
        let _ = done.send(());
    }
    all_read
}

/// An event and where it goes.
struct Told {
    topics: Vec<Topic>,
    event: Arc<Shared<Event>>,
}

fn told(env: &Env, awaited: &Awaited<'_>, read: &Read, change: Change) -> Vec<Told> {
    let told = match change {
        Change::Created { id, mentioned } => {
            return told_status(env, awaited, read, id, &mentioned, true);
        }
        Change::Edited { id } => return told_status(env, awaited, read, id, &[], false),
        Change::Settled(_)
        | Change::AccessChanged(_)
        | Change::LogInsChanged(_)
        | Change::RoleChanged(_)
        | Change::Person(..)
        | Change::Untagged(_)
        | Change::Touched(_)
        | Change::Whereabouts(_)
        | Change::Missed => return Vec::new(),
        Change::Deleted { id, author, mentioned, visibility, local, tags } => {
            let of_tags = tags.iter().map(|(tag, _)| *tag);
            let mut topics = homes_here(env, awaited, author, &mentioned, of_tags);
            topics.extend(read.lists_of(author));
            if visibility == Visibility::Public {
                topics.extend([Topic::Public, Topic::PublicLocal, Topic::PublicRemote]);
                let names = tags.into_iter().map(|(_, name)| name);
                topics.extend(audience::tag_topics(names, local));
            }
            Told { topics, event: Shared::sized(Event::Deleted(id), EVENT_BYTES) }
        }
        Change::To { topic, event } => {
            Told { topics: vec![topic], event: Shared::sized(event, EVENT_BYTES) }
        }
    };
    vec![told]
}

/// Has the faces make their forms of the posts that somebody listens to.
async fn prepare(community: &Community, told: &[Told], moment: u64) {
    let streams = &community.env().streams;
    let heard = |one: &&Told| {
        matches!(one.event.event, Event::Created(_) | Event::Edited(_))
            && one.topics.iter().any(|topic| streams.hub.listeners(topic) > 0)
    };
    let events: Vec<_> = told.iter().filter(heard).map(|one| one.event.clone()).collect();
    if events.is_empty() {
        return;
    }
    let prepare = streams.prepare.read().clone();
    let made = community.read(Class::Live, move |tx, env| {
        read_with(tx, env, &events, moment)?;
        prepare.iter().try_for_each(|prepare| prepare(tx, env, &events))
    });
    if let Err(error) = made.await {
        // Whoever gets them makes them then.
        tracing::warn!(%error, "posts could not be prepared for those who are here");
    }
}

/// Attaches to the posts of `events` what people did with them.
fn read_with(
    tx: &mut Tx,
    env: &Env,
    events: &[Arc<Shared<Event>>],
    moment: u64,
) -> Result<(), Error> {
    for shared in events {
        if let Event::Created(view) | Event::Edited(view) = &shared.event {
            let among = people_to_ask(env, view);
            let touched = Arc::new(Touched::load(tx, view, among.as_deref())?);
            shared.attach(ReadWith { moment, touched });
        }
    }
    Ok(())
}

/// Those who are here, where they are fewer than those who did something with the post.
fn people_to_ask(env: &Env, view: &View) -> Option<Vec<Id>> {
    let post = view.post();
    let votes = post.poll.as_ref().map_or(0, |poll| poll.tallies.iter().sum());
    let marks = post.status.favourites_count + post.status.boosts_count + votes;
    let hub = env.streams.hub();
    let few = i64::try_from(hub.stats().identities).unwrap_or(i64::MAX) < marks;
    few.then(|| hub.awaited().into_iter().map(Id).collect())
}

fn told_status(
    env: &Env,
    awaited: &Awaited<'_>,
    read: &Read,
    id: Id,
    mentioned: &[Id],
    new: bool,
) -> Vec<Told> {
    let Some(view) = read.views.iter().find(|view| view.status.id == id) else {
        return Vec::new();
    };
    let small = |topics, event| Told { topics, event: Shared::sized(event, EVENT_BYTES) };
    let mut told = Vec::new();
    let tags = view.post().tags.iter().map(|tag| tag.id);
    let mut topics = homes_here(env, awaited, view.account.id, mentioned, tags);
    topics.extend(read.lists_of(view.account.id));
    topics.extend(public_topics(view));
    topics.push(Topic::Author(view.account.id));
    if new && !is_fresh(env.clock.now(), id.time()) {
        told.push(small(topics, Event::CreatedLate(id)));
        let own = mentioned.iter().filter(|account| env.streams.hub.is_awaited(account.0));
        topics = own.map(|account| Topic::Home(*account)).collect();
    }
    if view.status.visibility == Visibility::Direct {
        topics.extend(mentioned.iter().map(|account| Topic::Direct(*account)));
        topics.push(Topic::Direct(view.account.id));
    }
    if let Some(parent) = view.status.in_reply_to_id.filter(|_| new) {
        told.push(small(vec![Topic::Answers], Event::Answered(parent)));
    }
    let post = view.post();
    let size_bytes = EVENT_BYTES + 2 * (post.status.content.len() + post.status.spoiler.len());
    // As it is, and once more for what is made of it for those who listen.
    let held_bytes = EVENT_BYTES + 2 * view.held_bytes();
    let view = Arc::new(view.clone());
    let event = if new { Event::Created(view) } else { Event::Edited(view) };
    told.push(Told { topics, event: Shared::holding(event, size_bytes, held_bytes) });
    told
}

/// Whether something of `at` is still told as new.
pub fn is_fresh(now: Timestamp, at: Timestamp) -> bool {
    now.since_ms(at) <= FRESH_MS
}
