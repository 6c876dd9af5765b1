//! What came, what is held, and which answer belongs to which request.
//!
//! Requests are numbered, and worked and answered in that order, whatever connections they come
//! by. The last answers are kept: a client that lost one asks again by the same number.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::limits;
use crate::stream::Received;
use crate::wire::{Element, ns, write};

/// Requests under way at once: the one that is held, and one that says something.
const REQUESTS: u64 = 2;
/// What may wait to be worked before requests are left without an answer, in bytes.
const CAME_BYTES_MAX: usize = 64 * 1024;
/// What all kept answers may take, in bytes; more are not kept.
const KEPT_BYTES_MAX: usize = 32 * 1024 * 1024;

/// What one request asks for.
pub(super) struct Asked {
    /// A new stream within the session.
    pub(super) open: Option<Element>,
    pub(super) elements: Vec<Element>,
    /// The end of the session.
    pub(super) terminate: bool,
    /// How long the request is.
    pub(super) bytes: usize,
    pub(super) answer: oneshot::Sender<Bytes>,
}

/// With what a session begins.
pub(super) struct Begin {
    pub(super) sid: Box<str>,
    pub(super) rid: u64,
    /// How long a request is held.
    pub(super) wait: Duration,
    /// How many are.
    pub(super) hold: usize,
    /// How long the session lives without any.
    pub(super) inactivity: Duration,
    pub(super) open: Element,
    pub(super) answer: oneshot::Sender<Bytes>,
    pub(super) kept_bytes: Arc<AtomicUsize>,
}

/// What becomes of a request.
pub(super) enum Taken {
    /// It was answered before, with this.
    Again(Bytes),
    /// Its answer comes.
    Held,
    /// It cannot be.
    Refused(&'static str),
}

/// A session.
pub(super) struct Session {
    sid: Box<str>,
    wait: Duration,
    hold: usize,
    inactivity: Duration,
    kept_bytes: Arc<AtomicUsize>,
    bytes_max: AtomicUsize,
    state: Mutex<State>,
}

struct State {
    /// The number of the request that is worked next.
    next: u64,
    /// Requests that overtook others.
    early: BTreeMap<u64, Asked>,
    /// What the stream has not taken yet, with its share of the bytes.
    came: VecDeque<(Received, usize)>,
    came_bytes: usize,
    held: VecDeque<(u64, oneshot::Sender<Bytes>)>,
    answered: VecDeque<(u64, Kept)>,
    /// The first answer is yet to be given.
    is_new: bool,
    /// Why it is over.
    over: Option<&'static str>,
    /// The stream has something to say, and nobody asks.
    wants_to_say: bool,
    /// Since when no request is held.
    quiet_since: Option<Instant>,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

/// An answer that may be asked for again.
struct Kept {
    bytes: Bytes,
    all: Arc<AtomicUsize>,
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes.len(), Relaxed);
    }
}

/// An answer with this inside, and these attributes.
fn body(attributes: &str, inside: &[u8]) -> Bytes {
    let head =
        format!("<body xmlns='{}' xmlns:stream='{}'{attributes}>", ns::HTTP_BIND, ns::STREAM);
    [head.as_bytes(), inside, b"</body>"].concat().into()
}

fn ending(condition: &str) -> String {
    let mut attributes = String::from(" type='terminate'");
    if !condition.is_empty() {
        write::attribute("condition", condition, &mut attributes);
    }
    attributes
}

/// The answer that ends a session, or says that there is none.
pub(super) fn terminated(condition: &str) -> Bytes {
    body(&ending(condition), b"")
}

fn empty() -> Bytes {
    const EMPTY: &[u8] = b"<body xmlns='http://jabber.org/protocol/httpbind'/>";
    Bytes::from_static(EMPTY)
}

impl Session {
    pub(super) fn new(begin: Begin) -> Arc<Self> {
        let Begin { sid, rid, wait, hold, inactivity, open, answer, kept_bytes } = begin;
        Arc::new(Self {
            sid,
            wait,
            hold,
            inactivity,
            kept_bytes,
            bytes_max: AtomicUsize::new(limits::STRANGER_BYTES_MAX as usize),
            state: Mutex::new(State {
                next: rid + 1,
                early: BTreeMap::new(),
                came: VecDeque::from([(Received::Open(open), 0)]),
                came_bytes: 0,
                held: VecDeque::from([(rid, answer)]),
                answered: VecDeque::new(),
                is_new: true,
                over: None,
                wants_to_say: false,
                quiet_since: None,
                reader: None,
                writer: None,
            }),
        })
    }

    pub(super) fn wait(&self) -> Duration {
        self.wait
    }

    /// How long an element may be.
    pub(super) fn bytes_max(&self) -> usize {
        self.bytes_max.load(Relaxed)
    }

    pub(super) fn set_bytes_max(&self, bytes: usize) {
        self.bytes_max.store(bytes, Relaxed);
    }

    /// A request has come.
    pub(super) fn take(&self, rid: u64, asked: Asked) -> Taken {
        let mut state = self.state.lock();
        if state.over.is_some() {
            return Taken::Refused("item-not-found");
        }
        state.quiet_since = None;
        if rid < state.next {
            if let Some((_, kept)) = state.answered.iter().find(|(number, _)| *number == rid) {
                return Taken::Again(kept.bytes.clone());
            }
            let held = state.held.iter_mut().find(|(number, _)| *number == rid);
            let Some((_, answer)) = held else { return Taken::Refused("item-not-found") };
            *answer = asked.answer;
        } else if rid >= state.next + REQUESTS {
            return self.refuse(state, "item-not-found");
        } else if (state.held.len() + state.early.len()) as u64 > REQUESTS {
            return self.refuse(state, "policy-violation");
        } else {
            state.early.insert(rid, asked);
            loop {
                let next = state.next;
                let Some(asked) = state.early.remove(&next) else { break };
                state.work(asked);
            }
        }
        self.settle(&mut state);
        state.wake();
        Taken::Held
    }

    fn refuse(&self, mut state: MutexGuard<'_, State>, why: &'static str) -> Taken {
        self.finish(&mut state, why);
        state.wake();
        Taken::Refused(why)
    }

    /// Who waited as long as a request is held gets an answer.
    pub(super) fn answer_in_time(&self, rid: u64) {
        let mut state = self.state.lock();
        if let Some(at) = state.held.iter().position(|(number, _)| *number == rid) {
            // Answers come in order: those before it are due as well.
            for _ in 0..=at {
                self.answer_next(&mut state, empty());
            }
        } else if let Some(asked) = state.early.remove(&rid) {
            let _ = asked.answer.send(terminated("item-not-found"));
        }
    }

    /// More requests wait than the client wants held: the first are answered, unless so much waits
    /// to be worked that the client has to wait too.
    fn settle(&self, state: &mut State) {
        while state.held.len() > self.hold
            && !state.wants_to_say
            && !state.is_new
            && state.came_bytes <= CAME_BYTES_MAX
        {
            self.answer_next(state, empty());
        }
    }

    fn answer_next(&self, state: &mut State, bytes: Bytes) {
        let Some((rid, answer)) = state.held.pop_front() else { return };
        let all = self.kept_bytes.fetch_add(bytes.len(), Relaxed) + bytes.len();
        let kept = Kept { bytes: bytes.clone(), all: self.kept_bytes.clone() };
        if all <= KEPT_BYTES_MAX {
            state.answered.push_back((rid, kept));
        }
        while state.answered.len() as u64 > REQUESTS {
            state.answered.pop_front();
        }
        // Who has gone asks again, and gets what is kept.
        let _ = answer.send(bytes);
        if state.held.is_empty() {
            state.quiet_since = Some(Instant::now());
        }
    }

    /// What the stream takes next.
    pub(super) fn poll_came(&self, context: &Context<'_>) -> Poll<Received> {
        let mut state = self.state.lock();
        if let Some((received, bytes)) = state.came.pop_front() {
            state.came_bytes -= bytes;
            self.settle(&mut state);
            return Poll::Ready(received);
        }
        if state.over.is_some() {
            return Poll::Ready(Received::Gone);
        }
        state.reader = Some(context.waker().clone());
        Poll::Pending
    }

    /// Says `out`, when somebody asks; with `id`, the stream's, where it is the first answer, and
    /// as the last one where there is a condition for the end. False when nobody will ever ask.
    pub(super) fn poll_say(
        &self,
        context: &Context<'_>,
        out: &[u8],
        created: &str,
        end: Option<&'static str>,
    ) -> Poll<bool> {
        let mut state = self.state.lock();
        if state.over.is_some() {
            return Poll::Ready(false);
        }
        let listens = |(_, answer): &(u64, oneshot::Sender<Bytes>)| !answer.is_closed();
        let Some(at) = state.held.iter().position(listens) else {
            state.wants_to_say = true;
            state.writer = Some(context.waker().clone());
            return Poll::Pending;
        };
        state.wants_to_say = false;
        for _ in 0..at {
            self.answer_next(&mut state, empty());
        }
        let mut attributes = String::new();
        if std::mem::take(&mut state.is_new) {
            attributes = self.created(created);
        }
        attributes.extend(end.map(ending));
        self.answer_next(&mut state, body(&attributes, out));
        if let Some(why) = end {
            self.finish(&mut state, why);
        }
        Poll::Ready(true)
    }

    /// XEP-0124, 7.2 and XEP-0206, 4.
    fn created(&self, stream: &str) -> String {
        let (wait, inactivity) = (self.wait.as_secs(), self.inactivity.as_secs());
        let (sid, hold) = (&self.sid, self.hold);
        format!(
            " sid='{sid}' wait='{wait}' inactivity='{inactivity}' requests='{REQUESTS}' \
             hold='{hold}' ver='1.11' polling='2' xmlns:xmpp='{}' xmpp:version='1.0' \
             xmpp:restartlogic='true'{stream}",
            ns::XBOSH
        )
    }

    /// It is over: whoever asks is told so.
    pub(super) fn end(&self, why: &'static str) {
        let mut state = self.state.lock();
        self.finish(&mut state, why);
        state.wake();
    }

    fn finish(&self, state: &mut State, why: &'static str) {
        state.over.get_or_insert(why);
        while !state.held.is_empty() {
            self.answer_next(state, terminated(why));
        }
        for (_, asked) in std::mem::take(&mut state.early) {
            let _ = asked.answer.send(terminated(why));
        }
    }

    /// Whether nobody has asked for so long that nobody is expected to.
    pub(super) fn is_abandoned(&self) -> bool {
        let mut state = self.state.lock();
        if state.held.iter().any(|(_, answer)| !answer.is_closed()) {
            return false;
        }
        state.quiet_since.get_or_insert_with(Instant::now).elapsed() >= self.inactivity
    }
}

impl State {
    /// The turn of a request has come.
    fn work(&mut self, asked: Asked) {
        let Asked { open, elements, terminate, bytes, answer } = asked;
        let opened = open.map(Received::Open);
        let said = elements.into_iter().map(Received::Element);
        let closed = terminate.then_some(Received::Close);
        let before = self.came.len();
        self.came.extend(opened.into_iter().chain(said).chain(closed).map(|one| (one, 0)));
        if self.came.len() == before {
            self.came.push_back((Received::Space, 0));
        }
        if let Some((_, share)) = self.came.back_mut() {
            *share = bytes;
            self.came_bytes += bytes;
        }
        self.held.push_back((self.next, answer));
        self.next += 1;
    }

    fn wake(&mut self) {
        for waker in [self.reader.take(), self.writer.take()].into_iter().flatten() {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session() -> (Arc<Session>, oneshot::Receiver<Bytes>) {
        let (answer, answered) = oneshot::channel();
        let session = Session::new(Begin {
            sid: "s".into(),
            rid: 10,
            wait: Duration::from_secs(60),
            hold: 1,
            inactivity: Duration::from_secs(30),
            open: Element::new("open", ns::FRAMING),
            answer,
            kept_bytes: Arc::default(),
        });
        (session, answered)
    }

    fn ask(session: &Session, rid: u64, name: &'static str) -> (Taken, oneshot::Receiver<Bytes>) {
        let (answer, answered) = oneshot::channel();
        let elements = vec![Element::new(name, ns::CLIENT)];
        let asked = Asked { open: None, elements, terminate: false, bytes: 10, answer };
        (session.take(rid, asked), answered)
    }

    fn say(session: &Session, text: &str) -> bool {
        let context = Context::from_waker(Waker::noop());
        session.poll_say(&context, text.as_bytes(), "", None) == Poll::Ready(true)
    }

    fn came(session: &Session) -> Vec<String> {
        let context = Context::from_waker(Waker::noop());
        let mut names = Vec::new();
        while let Poll::Ready(received) = session.poll_came(&context) {
            if let Received::Element(element) = received {
                names.push(element.name.to_string());
            }
        }
        names
    }

    fn text(answered: &mut oneshot::Receiver<Bytes>) -> String {
        let bytes = answered.try_recv().map(|bytes| bytes.to_vec()).unwrap_or_default();
        String::from_utf8(bytes).unwrap_or_default()
    }

    #[test]
    fn requests_are_worked_in_the_order_of_their_numbers() {
        let (session, _first) = session();
        let _late = ask(&session, 12, "b");
        assert!(came(&session).is_empty());
        let _next = ask(&session, 11, "a");
        assert_eq!(came(&session), ["a", "b"]);
    }

    #[test]
    fn one_request_is_held_and_the_one_before_is_answered() {
        let (session, mut first) = session();
        assert!(say(&session, "<hello/>"));
        assert!(text(&mut first).contains("sid='s'"));
        let (_, mut second) = ask(&session, 11, "a");
        assert_eq!(text(&mut second), "");
        let (_, mut third) = ask(&session, 12, "b");
        assert_eq!(text(&mut second), "<body xmlns='http://jabber.org/protocol/httpbind'/>");
        assert!(say(&session, "<news/>"));
        assert!(text(&mut third).contains("<news/></body>"));
        assert!(!say(&session, "<more/>"), "nobody asks");
    }

    #[test]
    fn a_lost_answer_is_given_again_and_what_was_said_is_not_worked_twice() {
        let (session, first) = session();
        say(&session, "<hello/>");
        drop(first);
        let (taken, _) = ask(&session, 10, "x");
        let Taken::Again(bytes) = taken else { panic!("it was answered") };
        assert!(String::from_utf8_lossy(&bytes).contains("<hello/>"));
        assert!(came(&session).is_empty());
    }

    #[test]
    fn what_is_said_waits_for_a_request_that_somebody_listens_to() {
        let (session, first) = session();
        drop(first);
        assert!(!say(&session, "<hello/>"));
        let (_, mut again) = ask(&session, 10, "x");
        assert!(say(&session, "<hello/>"));
        assert!(text(&mut again).contains("<hello/>"));
    }

    #[test]
    fn numbers_far_ahead_end_the_session() {
        let (session, mut first) = session();
        let (taken, _) = ask(&session, 13, "a");
        assert!(matches!(taken, Taken::Refused("item-not-found")));
        assert!(text(&mut first).contains("type='terminate'"));
        let (taken, _) = ask(&session, 11, "a");
        assert!(matches!(taken, Taken::Refused("item-not-found")));
    }

    #[test]
    fn who_says_more_than_is_worked_gets_no_answer() {
        let (session, _first) = session();
        say(&session, "<hello/>");
        let (answer, mut second) = oneshot::channel();
        let elements = vec![Element::new("long", ns::CLIENT)];
        let bytes = CAME_BYTES_MAX + 1;
        session.take(11, Asked { open: None, elements, terminate: false, bytes, answer });
        let (_, _third) = ask(&session, 12, "a");
        assert_eq!(text(&mut second), "");
        came(&session);
        assert_ne!(text(&mut second), "");
    }
}
