//! A session: one task that hears its client, answers in order, and shows it what its
//! subscriptions' queries hold.
//!
//! A session outlives its connection for a moment: when the connection breaks, the task waits for
//! the client to come back with the session's id ([`Door`]), and goes on over the new connection.
//! Nothing piles up meanwhile, for what is to be shown is always the newest result.

mod hear;
mod hello;
mod ring;
mod say;
mod subs;
mod table;
mod waiting;

use std::future::Future as _;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::task::ready;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::Instant;
use weir_base::Id;
use weir_live::admission::{Permit, Slice};

use crate::observer::{Bell, Work};
use crate::server::{Client, Outcome, Server};
use crate::transport::{Said, Wire};
use crate::view::View;
use crate::wire;

pub(crate) use hello::welcome;
use ring::Ring;
use subs::Sub;
pub(crate) use table::Table;
use waiting::Waiting;

/// Where a session is reached: by its queries' bell, and by a client that comes back.
#[derive(Default)]
pub(crate) struct Door {
    pub(crate) bell: Arc<Bell>,
    back: Mutex<Option<Back>>,
    // Who is logged in; 0: nobody (yet).
    user: AtomicI64,
    // The log-in may have lost its power.
    doubted: AtomicBool,
    // The client waits for what it asked for first: its session works in turns.
    arrives: AtomicBool,
    // Its client was away, and its place is somebody else's now.
    gave_way: AtomicBool,
}

/// A client that came back on a new connection.
struct Back {
    wire: Box<Wire>,
    received: u64,
    // Gets the connection back if the session can't go on over it.
    refused: oneshot::Sender<Box<Wire>>,
}

impl Door {
    /// Has the session look whether its log-in is still good, if it is this person's or may be
    /// about to be.
    pub(crate) fn doubt(&self, user: Option<Id>) {
        let mine = self.user.load(Ordering::SeqCst);
        if user.is_some_and(|user| mine != user.0 && mine != Id::ZERO.0) {
            return;
        }
        self.doubted.store(true, Ordering::SeqCst);
        self.bell.wake();
    }

    /// Somebody else has its place from now on.
    fn give_way(&self) {
        self.gave_way.store(true, Ordering::SeqCst);
        self.bell.wake();
    }
}

/// Something a session waited for.
enum Done {
    Unblocked(u64),
    Method { id: String, number: u64, outcome: Outcome, writes: bool },
    Settled(String),
    Checked(Arc<str>, bool),
    Nothing,
}

pub(crate) struct Session<A> {
    server: Server<A>,
    id: String,
    door: Arc<Door>,
    client: Arc<Client>,
    user: Option<Id>,
    token: Option<Arc<str>>,
    wire: Option<Box<Wire>>,
    heartbeats: bool,
    view: View,
    subs: Vec<Sub>,
    next_token: u32,
    waiting: Waiting,
    working: FuturesUnordered<Work<'static, Done>>,
    methods: usize,
    // A log-in that was under way when log-ins lost their power is looked at again.
    doubts_next: bool,
    // The method that holds up those behind it.
    blocked_by: Option<u64>,
    next_method: u64,
    // Methods whose writes every query has heard of, and the client not yet.
    settled: Vec<String>,
    // Pongs: they pass by what waits and do not count for a resumption.
    answers: Vec<Bytes>,
    out: Vec<Bytes>,
    ring: Ring,
    allowance: Allowance,
    // When methods were called that may not be called often.
    slow_calls: Vec<Instant>,
    // A place among those who take turns.
    place: Option<Permit>,
    // When the client was last heard (or lost), and whether it was asked since.
    heard_at: Instant,
    asked: bool,
    // Its place among those without a connection.
    lost: Option<u64>,
    // When it ends because the server does.
    parts_at: Option<Instant>,
}

/// How many messages a client may send now.
struct Allowance {
    left: f64,
    at: Instant,
    per_s: f64,
    most: f64,
}

impl Allowance {
    fn new(per_s: u32, most: u32) -> Self {
        let (per_s, most) = (f64::from(per_s.max(1)), f64::from(most.max(1)));
        Self { left: most, at: Instant::now(), per_s, most }
    }

    fn spend(&mut self) {
        self.refill();
        self.left -= 1.0;
    }

    fn refill(&mut self) {
        let now = Instant::now();
        let gained = now.duration_since(self.at).as_secs_f64() * self.per_s;
        (self.left, self.at) = ((self.left + gained).min(self.most), now);
    }

    /// When the next message may come; none: at once.
    fn wait_until(&mut self) -> Option<Instant> {
        if self.left >= 1.0 {
            return None;
        }
        self.refill();
        let missing = 1.0 - self.left;
        (missing > 0.0).then(|| self.at + std::time::Duration::from_secs_f64(missing / self.per_s))
    }
}

/// Why a session's task goes on.
enum Event {
    Said(Result<Said, crate::transport::Gone>),
    Done(Done),
    Bell,
    Turn(Option<Slice>),
    Time,
    Shutdown,
}

impl<A: Clone + Send + Sync + 'static> Session<A> {
    fn new(server: &Server<A>, id: String, client: Arc<Client>, heartbeats: bool) -> Self {
        let limits = &server.0.limits;
        Self {
            id,
            door: Arc::default(),
            client,
            user: None,
            token: None,
            wire: None,
            heartbeats,
            view: View::default(),
            subs: Vec::new(),
            next_token: 0,
            waiting: Waiting::new(server.0.meters.waiting_bytes.clone()),
            working: FuturesUnordered::new(),
            methods: 0,
            doubts_next: false,
            blocked_by: None,
            next_method: 0,
            settled: Vec::new(),
            answers: Vec::new(),
            out: Vec::new(),
            ring: Ring::new(limits.resume_messages_max, limits.resume_bytes_max),
            allowance: Allowance::new(limits.messages_per_s, limits.messages_burst),
            slow_calls: Vec::new(),
            place: None,
            heard_at: Instant::now(),
            asked: false,
            lost: None,
            parts_at: None,
            server: server.clone(),
        }
    }

    /// Goes on until the client has left for good; while it arrives, in turns with the others
    /// who do, so that those who are here need not stand behind them.
    async fn run(self) {
        let (door, pace) = (self.door.clone(), self.server.0.pace.clone());
        let mut talk = pin!(self.talk());
        let mut turns = None;
        std::future::poll_fn(|context| {
            if !door.arrives.load(Ordering::Relaxed) {
                turns = None;
                return talk.as_mut().poll(context);
            }
            let turns = turns.get_or_insert_with(|| Box::new(pace.turns()));
            let _turn = ready!(turns.poll_turn(context));
            talk.as_mut().poll(context)
        })
        .await;
    }

    async fn talk(mut self) {
        self.server.0.meters.sessions.increment(1.0);
        self.open_always();
        let mut turn: Option<Work<'static, Option<Slice>>> = None;
        loop {
            if self.is_deaf() {
                // Its silence is ours until here.
                (self.heard_at, self.asked) = (Instant::now(), false);
            }
            self.hear_waiting();
            self.collect();
            if self.wire.is_none() && (self.parts_at.is_some() || !self.is_worth_keeping()) {
                break;
            }
            // What is little goes out at once; what is much waits for its turn.
            let much = self.wire.is_some() && !self.view.is_settled() && self.is_much();
            if !much {
                (turn, self.place) = (None, None);
                if self.say(None).await.is_err() {
                    self.lose();
                    continue;
                }
                if self.wire.is_some() && !self.view.is_settled() {
                    continue;
                }
            } else if turn.is_none() {
                let (arrivals, place) = (self.server.0.arrivals.clone(), self.place.take());
                turn = Some(Box::pin(async move {
                    let place = match place {
                        Some(place) => place,
                        None => arrivals.enter().await.ok()?,
                    };
                    Some(place.slice().await)
                }));
            }
            let arrives = self.wire.is_some() && self.view.is_awaited();
            if arrives && !self.door.arrives.swap(arrives, Ordering::Relaxed) {
                // What follows is done in turns already.
                tokio::task::yield_now().await;
            }
            self.door.arrives.store(arrives, Ordering::Relaxed);
            let until = self.wakes_at();
            match self.next(&mut turn, until).await {
                Event::Said(Ok(said)) => {
                    (self.heard_at, self.asked) = (Instant::now(), false);
                    match said {
                        Said::Nothing => {}
                        Said::Text(text) => {
                            if !self.hear(&text) {
                                break;
                            }
                        }
                        Said::Goodbye => self.lose(),
                    }
                }
                Event::Said(Err(_)) => self.lose(),
                Event::Done(done) => self.done(done),
                Event::Bell if self.door.gave_way.load(Ordering::SeqCst) => break,
                Event::Bell => {
                    if self.door.doubted.swap(false, Ordering::SeqCst) {
                        self.check_log_in();
                    }
                    if let Some(back) = { self.door.back.lock().take() }
                        && !self.take_back(back)
                    {
                        break;
                    }
                }
                Event::Turn(given) => {
                    turn = None;
                    let Some(slice) = given else { break };
                    if self.say(Some(slice)).await.is_err() {
                        self.lose();
                    }
                }
                Event::Time if self.wire.is_none() => break,
                Event::Time if self.parts_at.is_some_and(|at| at <= Instant::now()) => {
                    self.close(1012, "The server restarts: connect again").await;
                    break;
                }
                Event::Time if self.allowance.left < 1.0 => self.allowance.refill(),
                Event::Time => {
                    if std::mem::replace(&mut self.asked, true) {
                        self.close(3000, "No answer to a ping").await;
                        self.lose();
                        continue;
                    }
                    self.heard_at = Instant::now();
                    if self.say_uncounted(wire::ping()).await.is_err() {
                        self.lose();
                    }
                }
                Event::Shutdown if self.wire.is_none() => break,
                Event::Shutdown => self.parts_at = Some(Instant::now() + self.server.parting()),
            }
        }
        self.end();
    }

    /// Whether what is to be shown is so much that it is handed out in turns.
    fn is_much(&self) -> bool {
        self.view.waiting_bytes() > self.server.0.limits.small_bytes
    }

    fn wakes_at(&mut self) -> Option<Instant> {
        let limits = &self.server.0.limits;
        if self.wire.is_none() {
            return Some(self.heard_at + limits.grace);
        }
        let hears = self.heartbeats && !self.is_deaf();
        let heartbeat = hears.then_some(self.heard_at + limits.heartbeat);
        let allowed = self.allowance.wait_until();
        [heartbeat, allowed, self.parts_at].into_iter().flatten().min()
    }

    /// Whether nothing more is heard until what waits was worked on.
    fn is_deaf(&self) -> bool {
        self.wire.is_some() && self.waiting.is_full(&self.server.0.limits)
    }

    /// Whether there is something to come back for: a log-in, a subscription, or the result of a
    /// method, which may have been lost on its way.
    fn is_worth_keeping(&self) -> bool {
        self.user.is_some()
            || self.view.has_asked()
            || self.next_method > 0
            || self.door.back.lock().is_some()
    }

    async fn next(
        &mut self,
        turn: &mut Option<Work<'static, Option<Slice>>>,
        until: Option<Instant>,
    ) -> Event {
        let hears = !self.is_deaf() && self.allowance.left >= 1.0;
        let (shutdown, parts) = (self.server.0.shutdown.clone(), self.parts_at.is_some());
        let wire = self.wire.as_mut().filter(|_| hears);
        tokio::select! {
            biased;
            said = async { match wire {
                Some(wire) => wire.recv().await,
                None => std::future::pending().await,
            }} => Event::Said(said),
            Some(done) = self.working.next(), if !self.working.is_empty() => Event::Done(done),
            () = self.door.bell.heard() => Event::Bell,
            given = async { match turn {
                Some(turn) => turn.await,
                None => std::future::pending().await,
            }} => Event::Turn(given),
            () = shutdown.cancelled(), if !parts => Event::Shutdown,
            () = async { match until {
                Some(until) => tokio::time::sleep_until(until).await,
                None => std::future::pending().await,
            }} => Event::Time,
        }
    }

    /// The connection is gone: the session waits for its client.
    fn lose(&mut self) {
        self.wire = None;
        self.place = None;
        (self.heard_at, self.asked) = (Instant::now(), false);
        if self.lost.is_none() {
            self.lost = Some(self.server.0.sessions.lock().lose(&self.id));
        }
    }

    /// Goes on over the client's new connection; false where that can't be.
    fn take_back(&mut self, back: Back) -> bool {
        let lost = self.lost.take();
        let stands = lost.is_none_or(|lost| self.server.0.sessions.lock().find(lost));
        // What is kept for a resumption is compressed or not, as it was sent.
        let same = back.wire.is_deflating() == self.view.is_deflating();
        let again = (same && stands).then(|| self.ring.rewind(back.received)).flatten();
        let Some(again) = again else {
            self.server.0.meters.not_resumed.increment(1);
            let _ = back.refused.send(back.wire);
            return false;
        };
        self.server.0.meters.resumed.increment(1);
        self.wire = Some(back.wire);
        (self.heard_at, self.asked) = (Instant::now(), false);
        self.answers.clear();
        let later = std::mem::take(&mut self.out);
        self.out.push(wire::connected(&self.id));
        self.out.extend(again);
        self.out.extend(later);
        true
    }

    async fn close(&mut self, code: u16, reason: &str) {
        if let Some(wire) = &mut self.wire {
            wire.close(code, reason).await;
        }
    }

    fn end(mut self) {
        self.server.0.meters.sessions.decrement(1.0);
        self.server.0.sessions.lock().leave(&self.id, self.lost);
        for sub in self.subs.drain(..) {
            sub.leave(&self.door.bell);
        }
        // Somebody may just have come back: the connection begins a session of its own.
        if let Some(back) = self.door.back.lock().take() {
            let _ = back.refused.send(back.wire);
        }
    }
}
