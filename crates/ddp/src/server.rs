//! A DDP server: its publications, its methods, and what all sessions share.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use metrics::{Counter, Gauge};
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use weir_base::{Clock, Id, Random};
use weir_live::admission::Admission;
use weir_live::pace::Pace;
use weir_live::socket::{SocketLimits, Sockets};

use crate::document::{Documents, Strategy};
use crate::limits::Limits;
use crate::observer::{Key, Observer, Runner, Source, Work};
use crate::session::Table;
use crate::transport::Pipes;
use crate::typed::Typed;
use crate::wire::Failure;

/// When those for whom there is no room are to come again, in seconds.
const RETRY_S: [u64; 2] = [5, 20];
/// Sessions that take all of [`Limits::parting`] to end; fewer take a share of it.
const PARTING_ALL: usize = 2_000;

/// A server. Clones are the same.
pub struct Server<A>(pub(crate) Arc<Inner<A>>);

impl<A> Clone for Server<A> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

pub(crate) struct Inner<A> {
    pub(crate) app: A,
    pub(crate) limits: Limits,
    pub(crate) documents: Documents,
    pub(crate) sockets: Sockets,
    /// Those who are handed initial data take turns.
    pub(crate) arrivals: Admission,
    /// Turns at the processor of those who arrive.
    pub(crate) pace: Pace,
    pub(crate) sessions: Mutex<Table>,
    pub(crate) pipes: Pipes,
    pub(crate) random: Random,
    pub(crate) shutdown: CancellationToken,
    pub(crate) meters: Meters,
    publications: HashMap<&'static str, Publication<A>>,
    always: Vec<&'static str>,
    methods: HashMap<&'static str, Method<A>>,
    observers: Arc<Mutex<HashMap<Key, Arc<Observer>>>>,
    admission: Admission,
    reads: Arc<Semaphore>,
    settle: Settle<A>,
    guard: Guard<A>,
    pub(crate) slow: Slow,
}

type Guard<A> = Box<dyn Fn(&A, Arc<str>) -> Work<'static, bool> + Send + Sync>;
type Settle<A> = Box<dyn Fn(&A) -> Work<'static, ()> + Send + Sync>;
type Opens<A> =
    Box<dyn Fn(&A, &Documents, Option<Id>, &[Value]) -> Result<Opening, Failure> + Send + Sync>;
type Calls<A> = Box<dyn Fn(Call<A>, Vec<Value>) -> Work<'static, Outcome> + Send + Sync>;

pub(crate) struct Meters {
    pub(crate) sessions: Gauge,
    pub(crate) resumed: Counter,
    pub(crate) not_resumed: Counter,
    pub(crate) refused: Counter,
    pub(crate) received: Counter,
    pub(crate) sent: Counter,
    pub(crate) slices: Counter,
    pub(crate) waiting_bytes: Gauge,
    observers: Gauge,
    documents: Gauge,
}

impl Meters {
    fn new() -> Self {
        Self {
            sessions: metrics::gauge!("weir_ddp_sessions"),
            resumed: metrics::counter!("weir_ddp_sessions_resumed_total"),
            not_resumed: metrics::counter!("weir_ddp_sessions_not_resumed_total"),
            refused: metrics::counter!("weir_ddp_refused_total"),
            received: metrics::counter!("weir_ddp_messages_received_total"),
            sent: metrics::counter!("weir_ddp_messages_sent_total"),
            slices: metrics::counter!("weir_ddp_slices_total"),
            waiting_bytes: metrics::gauge!("weir_ddp_waiting_bytes"),
            observers: metrics::gauge!("weir_ddp_observers"),
            documents: metrics::gauge!("weir_ddp_documents"),
        }
    }
}

struct Publication<A> {
    opens: Opens<A>,
}

struct Method<A> {
    calls: Calls<A>,
    writes: bool,
}

/// A subscription's query: which one it is, and how to begin it if nobody has.
pub struct Opening {
    params: Box<str>,
    own: bool,
    begin: Box<dyn FnOnce() -> Box<dyn Source> + Send>,
}

impl Opening {
    /// The same for everybody who asks with these parameters.
    pub fn shared<S: Source + 'static>(
        params: &impl Serialize,
        begin: impl FnOnce() -> S + Send + 'static,
    ) -> Self {
        let params = serde_json::to_string(params).unwrap_or_default().into();
        Self { params, own: false, begin: Box::new(move || Box::new(begin())) }
    }

    /// Another one for each person.
    pub fn own<S: Source + 'static>(
        params: &impl Serialize,
        begin: impl FnOnce() -> S + Send + 'static,
    ) -> Self {
        Self { own: true, ..Self::shared(params, begin) }
    }
}

/// A call of a method.
pub struct Call<A> {
    /// What the program works with.
    pub app: A,
    /// Who is logged in on this session.
    pub user: Option<Id>,
    /// The token of the log-in, where there is one.
    pub token: Option<Arc<str>>,
    /// Where the session comes from.
    pub client: Arc<Client>,
    /// From what ids are made on both sides alike.
    pub random_seed: Option<Value>,
    pub(crate) unblock: Option<tokio::sync::oneshot::Sender<()>>,
}

impl<A> Call<A> {
    /// Lets the session's next message be worked on before this call is done.
    pub fn unblock(&mut self) {
        if let Some(unblock) = self.unblock.take() {
            let _ = unblock.send(());
        }
    }

    /// Who is logged in.
    ///
    /// # Errors
    /// 403 when nobody is.
    pub fn person(&self) -> Result<Id, Failure> {
        self.user.ok_or_else(Failure::needs_login)
    }
}

/// Where a session comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Client {
    /// Its network address.
    pub address: std::net::IpAddr,
    /// Which program it says it is.
    pub agent: String,
}

/// What a method did.
pub type Outcome = Result<Answer, Failure>;

/// A method's answer.
#[derive(Debug, Default)]
pub struct Answer {
    pub(crate) value: Value,
    pub(crate) login: Option<Login>,
}

/// Who is logged in from now on.
#[derive(Debug, Clone)]
pub(crate) struct Login {
    pub(crate) user: Option<Id>,
    pub(crate) token: Option<Arc<str>>,
}

impl Answer {
    /// The result `value`.
    pub fn of(value: &impl Serialize) -> Self {
        Self { value: serde_json::to_value(value).unwrap_or_default(), login: None }
    }

    /// From now on the session is this person's.
    #[must_use]
    pub fn logged_in(mut self, user: Id, token: &str) -> Self {
        self.login = Some(Login { user: Some(user), token: Some(token.into()) });
        self
    }

    /// From now on the session is nobody's.
    #[must_use]
    pub fn logged_out(mut self) -> Self {
        self.login = Some(Login { user: None, token: None });
        self
    }
}

/// A server in the making.
pub struct Builder<A> {
    limits: Limits,
    random: Random,
    clock: Clock,
    shutdown: CancellationToken,
    strategies: Vec<(&'static str, Strategy)>,
    publications: HashMap<&'static str, Publication<A>>,
    always: Vec<&'static str>,
    methods: HashMap<&'static str, Method<A>>,
    settle: Settle<A>,
    guard: Guard<A>,
    slow: Slow,
    described: Described,
}

/// What a server offers, with the types of it.
#[derive(Debug, Clone, Default)]
pub struct Described {
    /// Publications: names, and the TypeScript types of their parameters.
    pub publications: Vec<(&'static str, String)>,
    /// Methods: names, and the types of their parameters and results.
    pub methods: Vec<(&'static str, String, String)>,
    /// Collections: names, and the types of their documents.
    pub collections: Vec<(&'static str, String)>,
    /// Interfaces that these name: names and texts.
    pub interfaces: Vec<(String, String)>,
}

/// Methods that one connection may call only so often.
#[derive(Debug, Clone, Default)]
pub(crate) struct Slow {
    pub(crate) methods: Vec<&'static str>,
    pub(crate) most: usize,
    pub(crate) window: Duration,
}

impl<A: Clone + Send + Sync + 'static> Default for Builder<A> {
    fn default() -> Self {
        Self::new()
    }
}

impl<A: Clone + Send + Sync + 'static> Builder<A> {
    /// A server that offers nothing yet.
    pub fn new() -> Self {
        Self {
            limits: Limits::default(),
            random: Random::system(),
            clock: Clock::system(),
            shutdown: CancellationToken::new(),
            strategies: Vec::new(),
            publications: HashMap::new(),
            always: Vec::new(),
            methods: HashMap::new(),
            settle: Box::new(|_| Box::pin(async {})),
            guard: Box::new(|_, _| Box::pin(async { true })),
            slow: Slow::default(),
            described: Described::default(),
        }
    }

    /// Its bounds.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// When it is cancelled, sessions are told to come again.
    #[must_use]
    pub fn shutdown(mut self, shutdown: CancellationToken) -> Self {
        self.shutdown = shutdown;
        self
    }

    /// How the documents of a collection reach a client; merged unless said otherwise.
    #[must_use]
    pub fn strategy(mut self, collection: &'static str, strategy: Strategy) -> Self {
        self.strategies.push((collection, strategy));
        self
    }

    /// Waits, after a method's writes, until every query heard of them.
    #[must_use]
    pub fn settle(
        mut self,
        settle: impl Fn(&A) -> Work<'static, ()> + Send + Sync + 'static,
    ) -> Self {
        self.settle = Box::new(settle);
        self
    }

    /// Says whether the token of a log-in is still good: asked after [`Server::doubt_log_ins`].
    #[must_use]
    pub fn guard(
        mut self,
        guard: impl Fn(&A, Arc<str>) -> Work<'static, bool> + Send + Sync + 'static,
    ) -> Self {
        self.guard = Box::new(guard);
        self
    }

    /// Of these methods together, one connection may call `most` in each `window`.
    #[must_use]
    pub fn slow(mut self, methods: &[&'static str], most: usize, window: Duration) -> Self {
        self.slow = Slow { methods: methods.to_vec(), most, window };
        self
    }

    /// The documents of `collection` are of this type.
    #[must_use]
    pub fn collection<D: Typed>(mut self, collection: &'static str) -> Self {
        D::interfaces(&mut self.described.interfaces);
        self.described.collections.push((collection, D::name()));
        self
    }

    /// What it offers.
    pub fn described(&self) -> &Described {
        &self.described
    }

    /// A publication. Its first parameter is read as `P` (nothing as `null`); what `open` gives
    /// says which query answers.
    #[must_use]
    pub fn publication<P, F>(mut self, name: &'static str, open: F) -> Self
    where
        P: DeserializeOwned + Typed + 'static,
        F: Fn(&A, &Documents, Option<Id>, P) -> Result<Opening, Failure> + Send + Sync + 'static,
    {
        let opens: Opens<A> =
            Box::new(move |app, documents, user, params| open(app, documents, user, read(params)?));
        P::interfaces(&mut self.described.interfaces);
        self.described.publications.push((name, P::name()));
        self.publications.insert(name, Publication { opens });
        self
    }

    /// Every session has publication `name` without asking, and hears nothing of it but its
    /// documents.
    #[must_use]
    pub fn always(mut self, name: &'static str) -> Self {
        self.always.push(name);
        self
    }

    /// A method that may change something: `updated` follows what it changed.
    #[must_use]
    pub fn method<P, R, F>(
        self,
        name: &'static str,
        call: impl Fn(Call<A>, P) -> F + Send + Sync + 'static,
    ) -> Self
    where
        P: DeserializeOwned + Typed,
        R: Typed,
        F: Future<Output = Outcome> + Send + 'static,
    {
        self.add_method::<P, R, F>(name, true, call)
    }

    /// A method that only reads: `updated` follows at once.
    #[must_use]
    pub fn reading_method<P, R, F>(
        self,
        name: &'static str,
        call: impl Fn(Call<A>, P) -> F + Send + Sync + 'static,
    ) -> Self
    where
        P: DeserializeOwned + Typed,
        R: Typed,
        F: Future<Output = Outcome> + Send + 'static,
    {
        self.add_method::<P, R, F>(name, false, call)
    }

    fn add_method<P, R, F>(
        mut self,
        name: &'static str,
        writes: bool,
        call: impl Fn(Call<A>, P) -> F + Send + Sync + 'static,
    ) -> Self
    where
        P: DeserializeOwned + Typed,
        R: Typed,
        F: Future<Output = Outcome> + Send + 'static,
    {
        let calls: Calls<A> = Box::new(move |one, params| match read(&params) {
            Ok(params) => Box::pin(call(one, params)),
            Err(failure) => Box::pin(async { Err(failure) }),
        });
        let interfaces = &mut self.described.interfaces;
        P::interfaces(interfaces);
        R::interfaces(interfaces);
        self.described.methods.push((name, P::name(), R::name()));
        self.methods.insert(name, Method { calls, writes });
        self
    }

    /// The server, which works with what `app` makes.
    pub fn build(self, app: impl FnOnce(&Documents) -> A) -> Server<A> {
        let documents = Documents::new(&self.strategies);
        let limits = self.limits;
        let sockets = Sockets::new(SocketLimits {
            message_bytes_max: limits.message_bytes_max,
            message_deadline: limits.message_deadline,
            write_deadline: limits.write_deadline,
            ..SocketLimits::default()
        });
        let admission = Admission::new(
            limits.reads_max,
            limits.reads_waiting_max,
            self.clock.clone(),
            self.random.clone(),
        );
        // As many as there are sessions may stand in line: nobody who has one is sent away.
        let arrivals = Admission::new(
            limits.arrivals_max,
            limits.sessions_max,
            self.clock.clone(),
            self.random.clone(),
        );
        Server(Arc::new(Inner {
            app: app(&documents),
            limits,
            documents,
            slow: self.slow,
            sockets,
            arrivals,
            pace: Pace::half(),
            sessions: Mutex::default(),
            pipes: Pipes::default(),
            random: self.random,
            shutdown: self.shutdown,
            meters: Meters::new(),
            publications: self.publications,
            always: self.always,
            methods: self.methods,
            observers: Arc::default(),
            admission,
            reads: Arc::new(Semaphore::new(limits.reads_max)),
            settle: self.settle,
            guard: self.guard,
        }))
    }
}

/// The first parameter, or `null` where there is none.
fn read<P: DeserializeOwned>(params: &[Value]) -> Result<P, Failure> {
    let first = params.first().cloned().unwrap_or_default();
    serde_json::from_value(first)
        .map_err(|error| Failure::bad_params(format!("Match failed: {error}")))
}

impl<A: Clone + Send + Sync + 'static> Server<A> {
    /// What the program works with.
    pub fn app(&self) -> &A {
        &self.0.app
    }

    /// The documents of this server.
    pub fn documents(&self) -> &Documents {
        &self.0.documents
    }

    /// The query that answers a subscription: one that is under way, or a new one.
    pub(crate) fn observe(
        &self,
        name: &str,
        user: Option<Id>,
        params: &[Value],
    ) -> Result<Arc<Observer>, Failure> {
        let Some((&publication, known)) = self.0.publications.get_key_value(name) else {
            return Err(Failure::new(404, format!("Subscription '{}' not found", short(name))));
        };
        let opening = (known.opens)(&self.0.app, &self.0.documents, user, params)?;
        let reader = user.filter(|_| opening.own);
        let key = Key { publication, params: opening.params, reader };
        let mut observers = self.0.observers.lock();
        if let Some(observer) = observers.get(&key) {
            return Ok(observer.clone());
        }
        let held = self.0.documents.count();
        self.0.meters.documents.set(held as f64);
        if observers.len() >= self.0.limits.observers_max
            || held >= self.0.limits.documents_held_max
        {
            self.0.meters.refused.increment(1);
            return Err(Failure::new(503, "There are too many live queries now."));
        }
        let observer = Observer::start(key.clone(), (opening.begin)(), self.runner());
        observers.insert(key, observer.clone());
        self.0.meters.observers.set(observers.len() as f64);
        Ok(observer)
    }

    fn runner(&self) -> Runner {
        let (observers, gauge) = (self.0.observers.clone(), self.0.meters.observers.clone());
        Runner {
            admission: self.0.admission.clone(),
            reads: self.0.reads.clone(),
            linger: self.0.limits.linger,
            documents_max: self.0.limits.documents_max,
            forget: Box::new(move |observer, anyway| {
                let mut observers = observers.lock();
                // Sessions begin to listen while they hold this lock or the observer's own state:
                // one that found it here and has not listened yet holds it too.
                let unused = observer.is_alone() && Arc::strong_count(observer) <= 2;
                if !anyway && !unused {
                    return false;
                }
                let known = observers.get(&observer.key);
                if known.is_some_and(|known| Arc::ptr_eq(known, observer)) {
                    observers.remove(&observer.key);
                }
                gauge.set(observers.len() as f64);
                true
            }),
        }
    }

    pub(crate) fn always(&self) -> &[&'static str] {
        &self.0.always
    }

    /// Calls a method; tells whether it may change something.
    pub(crate) fn call(
        &self,
        name: &str,
        call: Call<A>,
        params: Vec<Value>,
    ) -> (Work<'static, Outcome>, bool) {
        match self.0.methods.get(name) {
            Some(method) => ((method.calls)(call, params), method.writes),
            None => {
                let failure = Failure::new(404, format!("Method '{}' not found", short(name)));
                (Box::pin(async { Err(failure) }), false)
            }
        }
    }

    pub(crate) fn settle(&self) -> Work<'static, ()> {
        (self.0.settle)(&self.0.app)
    }

    pub(crate) fn is_good(&self, token: &Arc<str>) -> Work<'static, bool> {
        (self.0.guard)(&self.0.app, token.clone())
    }

    /// Why nobody else may come now: in how many seconds they may come again, spread at random. As
    /// far as is known before somebody says whether they come back.
    pub(crate) fn busy(&self) -> Option<u64> {
        let room = self.0.sessions.lock().has_room(self.0.limits.sessions_max);
        if room && !self.0.shutdown.is_cancelled() {
            return None;
        }
        self.0.meters.refused.increment(1);
        Some(self.retry_s())
    }

    /// When those for whom there is no room are to come again, in seconds, spread at random.
    pub(crate) fn retry_s(&self) -> u64 {
        let [least, most] = RETRY_S;
        least + self.0.random.below(most - least + 1)
    }

    /// How long a session goes on while the server ends: each as long as chance has it, few people
    /// not long, so that not all come back in the same moment.
    pub(crate) fn parting(&self) -> Duration {
        let sessions = self.0.sessions.lock().len().min(PARTING_ALL);
        let spread = self.0.limits.parting * sessions as u32 / PARTING_ALL as u32;
        Duration::from_millis(self.0.random.below(spread.as_millis() as u64 + 1))
    }

    /// Some log-ins may have lost their power, of this person or of anybody: their sessions look
    /// whether their own has.
    pub fn doubt_log_ins(&self, user: Option<Id>) {
        self.0.doubt_log_ins(user);
    }

    /// [`doubt_log_ins`](Self::doubt_log_ins) for whoever must not keep the server alive.
    pub fn doubts(&self) -> impl Fn(Option<Id>) + Send + Sync + 'static {
        let server = Arc::downgrade(&self.0);
        move |user| {
            if let Some(server) = server.upgrade() {
                server.doubt_log_ins(user);
            }
        }
    }

    /// How many sessions there are, and how many queries.
    pub fn counts(&self) -> (usize, usize) {
        (self.0.sessions.lock().len(), self.0.observers.lock().len())
    }
}

impl<A> Inner<A> {
    fn doubt_log_ins(&self, user: Option<Id>) {
        self.sessions.lock().doors().for_each(|door| door.doubt(user));
    }
}

fn short(name: &str) -> String {
    name.chars().take(64).collect()
}
