//! What the parts of this face lean on.

use std::collections::HashMap;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use weir_base::{Id, Random, Timestamp};
use weir_community::chat::address;
use weir_community::users::Door;
use weir_community::{Community, Env, Error as CommunityError};
use weir_db::{Class, Tx};
use weir_http::{Throttle, Tokens};
use weir_live::admission::Admission;
use weir_live::pace::Pace;

use crate::iq::external::Externals;
use crate::iq::{Tables, blocking, disco};
use crate::log_in::{LogIns, again};
use crate::message::lane::Lanes;
use crate::muc::Rooms;
use crate::profile;
use crate::pubsub::abroad::Abroad;
use crate::pubsub::interest::Interests;
use crate::push::Pushes;
use crate::roster::load::Rosters;
use crate::router::{Closed, Router, SHARDS, Session};
use crate::stream::ChatTls;
use crate::stream::resume::Detached;
use crate::wire::{Condition, Element, Jid, Stanza, StanzaError, StreamCondition};

/// Something to be done in the order of who caused it.
pub type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Takes what is for other domains.
pub type Remote = Box<dyn Fn(&Xmpp, Stanza) + Send + Sync>;

/// What the face is made with.
#[derive(Clone)]
pub struct Setup {
    /// The community.
    pub community: Community,
    /// For tests and development: passwords go without TLS too, and anybody may register.
    pub dev: bool,
    /// The certificate; without, nothing is encrypted and nobody can log in but in development.
    pub tls: Option<ChatTls>,
    /// How people come in.
    pub door: Door,
    /// Services elsewhere that apps need for calls.
    pub externals: Externals,
    /// Sessions at once.
    pub sessions_max: usize,
    /// When it is cancelled, sessions are told to come again.
    pub shutdown: CancellationToken,
}

/// The face; clones are the same.
#[derive(Clone)]
pub struct Xmpp(Arc<Inner>);

/// The parts of [`Xmpp`].
pub struct Inner {
    /// The community.
    pub community: Community,
    /// Who is where.
    pub router: Router,
    /// When it is cancelled, sessions are told to come again.
    pub shutdown: CancellationToken,
    /// Where those who arrive wait for their first data.
    pub admission: Admission,
    /// Their turns at the processor.
    pub pace: Pace,
    /// The certificate.
    pub tls: Option<ChatTls>,
    /// Logging in.
    pub log_ins: LogIns,
    pub(crate) lanes: Lanes,
    pub(crate) rosters: Rosters,
    pub(crate) blocks_changed: blocking::Changed,
    pub(crate) profiles_changed: profile::Changed,
    pub(crate) pushes: Pushes,
    pub(crate) detached: Detached,
    pub(crate) interests: Interests,
    pub(crate) abroad: Abroad,
    pub(crate) rooms: Rooms,
    pub(crate) tables: Tables,
    pub(crate) caps: disco::Caps,
    /// How often somebody from one place may try to join.
    pub(crate) registering: Throttle,
    domain: Box<str>,
    dev: bool,
    door: Door,
    externals: Externals,
    started_at: Timestamp,
    remote: OnceLock<Remote>,
    components: RwLock<HashMap<Box<str>, Arc<Remote>>>,
    /// Queries of the server's own that wait for their answers: by id, with who is asked.
    questions: Mutex<HashMap<Box<str>, Question>>,
}

struct Question {
    asked: Jid,
    answer: oneshot::Sender<Stanza>,
}

/// Queries of the server's own that wait at once; further ones are not asked.
const QUESTIONS_MAX: usize = 50_000;
/// Tries to join from one address at once.
const JOINING_BURST: i64 = 5;
/// After which time there is one more, in ms.
const JOINING_EVERY_MS: i64 = 10 * 60 * 1_000;
/// How long an answer is waited for.
const ANSWER: Duration = Duration::from_secs(30);

impl Deref for Xmpp {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.0
    }
}

/// Arrivals whose rosters are read at once.
const ARRIVALS_MAX: usize = 32;
/// Arrivals that wait behind those.
const ARRIVALS_WAITING_MAX: usize = 100_000;
/// Between the ends of two parts of the sessions at a shutdown: all in about two seconds.
const DRAIN_STEP: Duration = Duration::from_millis(2_000 / SHARDS as u64);
/// How often one part of the sessions is looked after: all are once a minute.
const BEAT: Duration = Duration::from_millis(60_000 / SHARDS as u64);
/// Sessions looked after at a time.
const BEAT_SLICE: usize = 256;

impl Xmpp {
    /// The face; its own work runs until the shutdown.
    pub fn start(setup: Setup) -> Self {
        let env = setup.community.env().clone();
        let domain: Box<str> = address::domain(&env).to_lowercase().into();
        let tokens = Tokens::new("xmpp", setup.community.clone());
        let log_ins = LogIns::new(setup.community.clone(), tokens, &domain, setup.dev);
        let (clock, random) = (env.clock.clone(), env.random.clone());
        let xmpp = Self(Arc::new(Inner {
            router: Router::new(setup.sessions_max),
            admission: Admission::new(ARRIVALS_MAX, ARRIVALS_WAITING_MAX, clock, random),
            pace: Pace::half(),
            profiles_changed: profile::Changed::default(),
            pushes: Pushes::default(),
            lanes: Lanes::new(setup.community.db().dialect()),
            detached: Detached::default(),
            interests: Interests::default(),
            abroad: Abroad::default(),
            rooms: Rooms::default(),
            rosters: Rosters::default(),
            blocks_changed: blocking::Changed::default(),
            tables: Tables::new(),
            caps: disco::Caps::default(),
            shutdown: setup.shutdown,
            tls: setup.tls,
            log_ins,
            registering: Throttle::new(
                "chat_sign_up",
                env.clock.clone(),
                !setup.dev,
                JOINING_BURST,
                JOINING_EVERY_MS,
            ),
            started_at: env.clock.now(),
            door: setup.door,
            externals: setup.externals,
            domain,
            dev: setup.dev,
            remote: OnceLock::new(),
            components: RwLock::default(),
            questions: Mutex::default(),
            community: setup.community,
        }));
        xmpp.lanes.start(&xmpp);
        crate::carrier::offer(&xmpp);
        tokio::spawn(crate::push::run(xmpp.clone()));
        tokio::spawn(xmpp.clone().beat());
        let weak = xmpp.downgrade();
        env.streams.on_access_changed(move |account| {
            if let Some(xmpp) = Self::upgrade(&weak) {
                xmpp.end_sessions(account);
            }
        });
        again::follow(&xmpp);
        let weak = xmpp.downgrade();
        env.streams.on_bonds_changed(move |account| {
            if let Some(xmpp) = Self::upgrade(&weak) {
                xmpp.blocks_changed.note(&xmpp.router, account);
            }
        });
        tokio::spawn(blocking::follow(xmpp.clone()));
        let (asked, told) = (xmpp.downgrade(), xmpp.downgrade());
        env.streams.on_person_changed(
            move |account, aspect| {
                let xmpp = Self::upgrade(&asked);
                xmpp.is_some_and(|xmpp| profile::concerns(&xmpp.router, account, aspect))
            },
            move |account, aspect| {
                if let Some(xmpp) = Self::upgrade(&told) {
                    xmpp.profiles_changed.note(&xmpp.router, account, aspect);
                }
            },
        );
        tokio::spawn(profile::follow(xmpp.clone()));
        xmpp
    }

    /// Ends the sessions of `account`, whose log-ins lost their power: who may come back does.
    pub(crate) fn end_sessions(&self, account: Id) {
        if let Some(peer) = self.router.of_account(account) {
            self.close_all(peer.jid(), StreamCondition::Reset);
        }
    }

    /// Ends all sessions of an account's address, by this condition. How many those were.
    pub(crate) fn close_all(&self, bare: &str, why: StreamCondition) -> usize {
        self.close_those(bare, why, |_| true)
    }

    /// Ends those sessions of an account's address which `is_meant` says, by this condition: those
    /// that no connection serves at once. How many those were.
    pub(crate) fn close_those(
        &self,
        bare: &str,
        why: StreamCondition,
        is_meant: impl Fn(&Session) -> bool,
    ) -> usize {
        let sessions = self.router.close_those(bare, why, is_meant);
        for session in &sessions {
            crate::stream::resume::end_detached(self, session);
        }
        sessions.len()
    }

    /// For those who must not keep it alive.
    pub(crate) fn downgrade(&self) -> Weak<Inner> {
        Arc::downgrade(&self.0)
    }

    /// The face again, while it is there.
    pub(crate) fn upgrade(weak: &Weak<Inner>) -> Option<Self> {
        weak.upgrade().map(Self)
    }

    /// The domain of the people here.
    pub fn domain(&self) -> &str {
        &self.0.domain
    }

    /// Whether this is for tests and development.
    pub fn is_dev(&self) -> bool {
        self.0.dev
    }

    /// How people come in.
    pub fn door(&self) -> Door {
        self.0.door
    }

    /// Services elsewhere that apps need for calls.
    pub fn externals(&self) -> &Externals {
        &self.0.externals
    }

    /// When the server began.
    pub fn started_at(&self) -> Timestamp {
        self.0.started_at
    }

    /// What use cases lean on besides the transaction.
    pub fn env(&self) -> &Arc<Env> {
        self.community.env()
    }

    /// The random source.
    pub fn random(&self) -> &Random {
        &self.community.env().random
    }

    /// A name that nobody guesses, of so many random bytes.
    pub fn token(&self, bytes: usize) -> String {
        let mut raw = vec![0; bytes];
        self.random().fill(&mut raw);
        raw.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// An id for a message that is to be kept.
    pub(crate) fn new_id(&self) -> Id {
        self.env().ids.next()
    }

    /// Runs `unit` on one consistent snapshot, for somebody who waits.
    ///
    /// # Errors
    /// What the unit returns, as a stanza's error.
    pub async fn read<T, F>(&self, unit: F) -> Result<T, StanzaError>
    where
        F: FnMut(&mut Tx, &Env) -> Result<T, CommunityError> + Send + 'static,
        T: Send + 'static,
    {
        self.community.read(Class::Interactive, unit).await.map_err(fault)
    }

    /// Runs `unit` in a transaction, for somebody who waits. It may run again.
    ///
    /// # Errors
    /// What the unit returns, as a stanza's error.
    pub async fn write<T, F>(&self, unit: F) -> Result<T, StanzaError>
    where
        F: FnMut(&mut Tx, &Env) -> Result<T, CommunityError> + Send + 'static,
        T: Send + 'static,
    {
        self.community.write(Class::Interactive, unit).await.map_err(fault)
    }

    /// Who takes what is for other servers; to be set once.
    pub fn set_remote(&self, remote: Remote) {
        let _ = self.remote.set(remote);
    }

    pub(crate) fn remote(&self) -> Option<&Remote> {
        self.remote.get()
    }

    /// A component takes what is for `domain` from now on; false while another one does.
    pub fn add_component(&self, domain: &str, receive: Remote) -> bool {
        let mut components = self.components.write();
        match components.contains_key(domain) {
            true => false,
            false => components.insert(domain.into(), Arc::new(receive)).is_none(),
        }
    }

    /// The component of `domain` is gone.
    pub fn remove_component(&self, domain: &str) {
        self.components.write().remove(domain);
    }

    pub(crate) fn component(&self, domain: &str) -> Option<Arc<Remote>> {
        let components = self.components.read();
        if components.is_empty() { None } else { components.get(domain).cloned() }
    }

    /// The domains of the components that are connected.
    pub fn component_domains(&self) -> Vec<Box<str>> {
        self.components.read().keys().cloned().collect()
    }

    /// Asks `to`, in the name of `from`, and answers with the payload of its result; none when it
    /// refuses or says nothing.
    pub async fn ask(&self, from: Jid, to: Jid, payload: Element) -> Option<Element> {
        let answer = self.request("get", from, to, payload).await?;
        let is_result = answer.type_() == Some("result");
        answer.element.into_children().next().filter(|_| is_result)
    }

    /// Asks `to` for something, or to do something, in the name of `from`. The answer; none when
    /// nothing comes.
    pub(crate) async fn request(
        &self,
        kind: &'static str,
        from: Jid,
        to: Jid,
        payload: Element,
    ) -> Option<Stanza> {
        let id = self.token(8);
        let (answer, answered) = oneshot::channel();
        {
            let mut questions = self.questions.lock();
            if questions.len() >= QUESTIONS_MAX {
                return None;
            }
            questions.insert(id.as_str().into(), Question { asked: to.clone(), answer });
        }
        self.send(Stanza::iq(kind, id.clone(), Some(payload)).from(from).to(to));
        let answered = tokio::time::timeout(ANSWER, answered).await;
        self.questions.lock().remove(id.as_str());
        answered.ok()?.ok()
    }

    /// An answer has come, perhaps to a query of the server's own.
    pub(crate) fn answered(&self, answer: Stanza) {
        let (Some(id), Some(from)) = (answer.id(), &answer.from) else { return };
        let mut questions = self.questions.lock();
        let fits = questions.get(id).is_some_and(|question| question.asked == *from);
        let Some(question) = fits.then(|| questions.remove(id)).flatten() else { return };
        drop(questions);
        let _ = question.answer.send(answer);
    }

    /// Does `work` beside whoever caused it.
    pub(crate) fn spawn(&self, work: Option<Work>) -> Option<JoinHandle<()>> {
        // Without a runtime the process is about to end.
        Some(tokio::runtime::Handle::try_current().ok()?.spawn(work?))
    }

    /// At the shutdown: ends the sessions, a part at a time, so that not everybody comes back in
    /// the same moment.
    async fn drain(self) {
        for shard in 0..SHARDS {
            let end = Closed::With(StreamCondition::SystemShutdown);
            if self.router.each_of_shard(shard, |session| session.close(end)) > 0 {
                tokio::time::sleep(DRAIN_STEP).await;
            }
        }
        crate::stream::resume::expire_all(&self);
    }

    /// What is held in memory of what came from outside, as metrics.
    fn tell_held(&self) {
        let [detached, over] = self.detached.held();
        let [messages, bytes] = self.lanes.held();
        let questions = self.questions.lock().len() as u64;
        for (name, held) in [
            ("weir_xmpp_abroad_held", self.abroad.held()),
            ("weir_xmpp_interests_held", self.interests.held()),
            ("weir_xmpp_passwords_held", self.log_ins.passwords_held()),
            ("weir_xmpp_messages_held", messages),
            ("weir_xmpp_messages_held_bytes", bytes),
            ("weir_xmpp_detached_held", detached),
            ("weir_xmpp_over_held", over),
            ("weir_xmpp_pushes_held", self.pushes.held()),
            ("weir_xmpp_questions_held", questions),
        ] {
            metrics::gauge!(name).set(held as f64);
        }
    }

    /// Looks after all sessions in turn, and after those that wait to be resumed.
    async fn beat(self) {
        let mut ticks = tokio::time::interval(BEAT);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut shard = 0;
        loop {
            tokio::select! {
                () = self.shutdown.cancelled() => return self.drain().await,
                _ = ticks.tick() => {}
            }
            let mut here = Vec::new();
            self.router.each_of_shard(shard, |session| here.push(session.clone()));
            for some in here.chunks(BEAT_SLICE) {
                some.iter().for_each(|session| session.beat());
                // Of two million, four thousand are looked after at a time: whoever does something
                // now need not stand behind all of them.
                tokio::task::yield_now().await;
            }
            shard = (shard + 1) % SHARDS;
            if shard == 0 {
                self.tell_held();
            }
            crate::stream::resume::expire(&self);
            self.rosters.tidy();
        }
    }
}

/// The one place where a fault of a use case gets its condition.
pub fn fault(error: CommunityError) -> StanzaError {
    let (condition, text) = match error {
        CommunityError::NotFound(_) | CommunityError::Gone(_) => {
            (Condition::ItemNotFound, error.to_string())
        }
        CommunityError::Forbidden(_) => (Condition::Forbidden, error.to_string()),
        CommunityError::Unauthorized(_) => (Condition::NotAuthorized, error.to_string()),
        CommunityError::Conflict(_) => (Condition::Conflict, error.to_string()),
        CommunityError::TooMany { .. } => (Condition::ResourceConstraint, error.to_string()),
        CommunityError::Invalid(_) => (Condition::NotAcceptable, error.to_string()),
        CommunityError::Upstream(_) => (Condition::RemoteServerTimeout, error.to_string()),
        CommunityError::Db(error) if error.is_passing() => {
            tracing::warn!(%error, "a stanza could not be served");
            let text = "there is a temporary problem: try again in a moment";
            return StanzaError::new(Condition::ResourceConstraint).text(text);
        }
        CommunityError::Db(error) => {
            tracing::error!(%error, "a stanza failed; this is a defect in Weir");
            (Condition::InternalServerError, "this is a defect of the server".to_owned())
        }
    };
    StanzaError::new(condition).text(text)
}
