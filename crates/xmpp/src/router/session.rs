//! A bound resource: what is known of it, and what waits for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};

use parking_lot::{Mutex, MutexGuard};
use tokio::task::JoinHandle;
use weir_base::Id;
use weir_community::oauth::Hold;
use weir_community::users::PasswordMark;

use super::out::{Kept, Out};
use super::peer::Peer;
use crate::limits;
use crate::log_in::{Authenticated, Power};
use crate::stream::sm::Sm;
use crate::wire::{Jid, Stanza, StreamCondition, write};

/// A connected resource of somebody of here.
pub struct Session {
    /// Whose.
    pub(crate) peer: Arc<Peer>,
    /// The account.
    pub account: Id,
    resource: Box<str>,
    state: Mutex<State>,
    // Written by the lane that makes its messages durable, read by its own task.
    in_flight: AtomicU32,
}

/// What changes about a session.
#[derive(Default)]
pub struct State {
    outbox: Vec<Out>,
    outbox_bytes: u32,
    waker: Option<Waker>,
    /// What stands behind the addresses of its presence; none while it is unavailable.
    pub presence: Option<Arc<[u8]>>,
    /// Its priority.
    pub priority: i8,
    /// What it may do about accounts.
    pub power: Power,
    /// Whether it asked for the roster and is told of changes.
    pub is_interested: bool,
    /// Whether it wants copies of what the other resources say and hear (XEP-0280).
    pub has_carbons: bool,
    /// Whether nobody looks at it (XEP-0352).
    pub is_inactive: bool,
    /// Whether it asked for the block list and is told of changes (XEP-0191).
    pub wants_blocks: bool,
    /// The password that it was opened by; none where it was by an app's token.
    pub password: Option<PasswordMark>,
    beat: bool,
    settled: bool,
    /// No connection serves it: it waits to be taken up (XEP-0198).
    pub is_detached: bool,
    closed: Option<Closed>,
    /// Changes under way whose answers go out before the end.
    answers_due: u8,
    /// What only some have.
    pub more: Option<Box<More>>,
}

/// What only some sessions have.
#[derive(Default)]
pub struct More {
    /// To whom it showed itself directly (RFC 6121 section 4.6).
    pub directed: Vec<Jid>,
    /// Presence that waits until somebody looks; the newest of each sender.
    pub held: Vec<Out>,
    /// Messages that waited and are being written, where the client acknowledges nothing.
    pub writing: Vec<Id>,
    /// Messages that waited and are there, on their way out of what waits.
    pub letting_go: Option<JoinHandle<()>>,
    /// Where others of the person were here when it began to take messages for it: what came
    /// before this moment it was not given.
    pub came_at: Id,
    /// Stream management (XEP-0198).
    pub sm: Option<Sm>,
    /// The app's token that it is open by is known to be in use.
    pub hold: Option<Arc<Hold>>,
}

/// Why a session is to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closed {
    /// By a stream error of this condition.
    With(StreamCondition),
    /// It is resumed by another connection: this one ends without the session ending.
    Resumed,
    /// It read too slowly, or nobody took it up for long, and something was not put into its
    /// outbox any more: who resumed it would not know what is missing.
    Slow,
}

/// What a connection finds when it looks after its session.
pub enum Found {
    /// Something to write.
    Out(Vec<Out>),
    /// All its messages are durable.
    Settled,
    /// Time to look after the connection.
    Beat,
    /// The end.
    Closed(Closed),
}

impl Session {
    pub(crate) fn new(peer: Arc<Peer>, account: Id, resource: &str) -> Arc<Self> {
        Arc::new(Self {
            peer,
            account,
            resource: resource.into(),
            state: Mutex::default(),
            in_flight: AtomicU32::new(0),
        })
    }

    /// The resource.
    pub fn resource(&self) -> &str {
        &self.resource
    }

    /// The resource as it stands in an attribute.
    pub(crate) fn escaped_resource(&self) -> std::borrow::Cow<'_, str> {
        if !self.resource.contains(['<', '>', '&', '\'']) {
            return (&*self.resource).into();
        }
        let mut out = String::new();
        write::escape(&self.resource, &mut out);
        out.replace('\'', "&apos;").into()
    }

    /// The address without the resource.
    pub fn bare(&self) -> &str {
        self.peer.jid()
    }

    /// The whole address.
    pub fn jid(&self) -> Jid {
        // Both parts were normalised when they were bound.
        Jid::joined(self.peer.jid(), &self.resource)
    }

    /// What changes about it. Nothing else is locked meanwhile.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Whether it has sent presence.
    pub fn is_available(&self) -> bool {
        self.state.lock().presence.is_some()
    }

    /// Its priority, while it is available.
    pub fn priority(&self) -> Option<i8> {
        let state = self.state.lock();
        state.presence.as_ref().map(|_| state.priority)
    }

    /// Puts a stanza into its outbox. Whether it was taken.
    pub fn push(&self, out: Out) -> bool {
        let mut state = self.state.lock();
        let (taken, waker) = state.push(out);
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
        taken
    }

    /// Sends a stanza to it as it is.
    pub fn send(&self, stanza: &Stanza) -> bool {
        self.push(Out::Bytes(stanza.bytes()))
    }

    /// Ends it; what its connection does then depends on `why`.
    pub fn close(&self, why: Closed) {
        let mut state = self.state.lock();
        // Who takes it up does not keep it from being ended.
        if matches!(state.closed, None | Some(Closed::Resumed)) {
            state.closed = Some(why);
        }
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// A change is under way: should the session end by it, its answer goes out before.
    pub(crate) fn owe_answer(self: &Arc<Self>) -> Owed {
        let mut state = self.state.lock();
        state.answers_due = state.answers_due.saturating_add(1);
        Owed(self.clone())
    }

    /// Tells its connection that it is time to look after the peer.
    pub fn beat(&self) {
        let mut state = self.state.lock();
        state.beat = true;
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// One more of its messages is on its way to the disk.
    pub(crate) fn sent_off(&self) {
        self.in_flight.fetch_add(1, Relaxed);
    }

    /// One of its messages is durable and was passed on.
    pub(crate) fn settled(&self) {
        if self.in_flight.fetch_sub(1, Relaxed) != 1 {
            return;
        }
        let mut state = self.state.lock();
        state.settled = true;
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// How many of its messages are on their way to the disk.
    pub(crate) fn in_flight(&self) -> u32 {
        self.in_flight.load(Relaxed)
    }

    /// What there is to do for its connection.
    pub(crate) fn poll_found(&self, context: &Context<'_>) -> Poll<Found> {
        let mut state = self.state.lock();
        // What was said before an error goes out before it.
        let is_owed = |state: &State| state.answers_due > 0 || state.may_go() > 0;
        let says_first = matches!(state.closed, Some(Closed::With(_))) && is_owed(&state);
        if let Some(why) = state.closed.filter(|_| !says_first) {
            return Poll::Ready(Found::Closed(why));
        }
        let may_go = state.may_go();
        if may_go > 0 {
            return Poll::Ready(Found::Out(state.take(may_go)));
        }
        if std::mem::take(&mut state.settled) {
            return Poll::Ready(Found::Settled);
        }
        if std::mem::take(&mut state.beat) {
            return Poll::Ready(Found::Beat);
        }
        match &mut state.waker {
            Some(waker) => waker.clone_from(context.waker()),
            none => *none = Some(context.waker().clone()),
        }
        Poll::Pending
    }
}

/// An answer that goes out before the end of its session; to be dropped once it waits there.
pub(crate) struct Owed(Arc<Session>);

impl Drop for Owed {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.answers_due = state.answers_due.saturating_sub(1);
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl State {
    fn push(&mut self, out: Out) -> (bool, Option<Waker>) {
        if matches!(self.closed, Some(Closed::With(_))) && self.answers_due == 0 {
            return (false, None);
        }
        if self.closed == Some(Closed::Slow) {
            return (false, None);
        }
        if self.is_inactive && self.hold(&out) {
            return (true, None);
        }
        let size_bytes = out.size_bytes();
        if !self.has_room(size_bytes) {
            if out.is_passing() {
                return (false, None);
            }
            if !matches!(self.closed, Some(Closed::With(_))) {
                self.closed = Some(Closed::Slow);
            }
            metrics::counter!("weir_xmpp_slow_sessions_total").increment(1);
            return (false, self.waker.take());
        }
        let held = self.more.as_mut().map(|more| std::mem::take(&mut more.held));
        for held in held.into_iter().flatten() {
            self.outbox_bytes += held.size_bytes() as u32;
            self.outbox.push(held);
        }
        self.outbox_bytes += size_bytes as u32;
        if self.outbox.capacity() == 0 {
            self.outbox.reserve_exact(1);
        }
        self.outbox.push(out);
        (true, self.waker.take())
    }

    /// Whether so much more may wait.
    pub(crate) fn has_room(&self, size_bytes: usize) -> bool {
        let fits = self.outbox_bytes as usize + size_bytes <= limits::OUTBOX_BYTES_MAX
            && self.outbox.len() < limits::OUTBOX_STANZAS_MAX;
        self.outbox.is_empty() || fits
    }

    /// Keeps what can wait until somebody looks. Whether it waits.
    fn hold(&mut self, out: &Out) -> bool {
        let Out::Presence(from, _) = out else { return out.is_passing() };
        let more = self.more.get_or_insert_default();
        let same = |held: &Out| matches!(held, Out::Presence(is, _) if Arc::ptr_eq(is, from));
        more.held.retain(|held| !same(held));
        if more.held.len() >= limits::HELD_MAX {
            return false;
        }
        more.held.push(out.clone());
        true
    }

    /// Somebody looks again: what was held goes out.
    pub(crate) fn release_held(&mut self) {
        let held = self.more.as_mut().map(|more| std::mem::take(&mut more.held));
        for held in held.into_iter().flatten() {
            self.outbox_bytes += held.size_bytes() as u32;
            self.outbox.push(held);
        }
    }

    /// Whether it was given the message while another session of the person was.
    pub(crate) fn was_given(&self, message: Kept) -> bool {
        let is_taker = self.presence.is_some() && self.priority >= 0;
        let came_at = self.more.as_ref().map_or(Id::ZERO, |more| more.came_at);
        is_taker
            && self.closed != Some(Closed::Slow)
            && (!message.is_for_one || self.has_carbons && message.is_copied)
            && came_at < message.id
    }

    /// Kept messages that the client may not have: those that wait nowhere else, and those that
    /// wait until it has them.
    pub(crate) fn unread(&self) -> (Vec<Kept>, Vec<Id>) {
        let more = self.more.as_deref();
        let sm = more.and_then(|more| more.sm.as_ref());
        let outs = sm.into_iter().flat_map(Sm::unacked).chain(&self.outbox);
        let mut waited: Vec<Id> = more.map(|more| more.writing.clone()).unwrap_or_default();
        let mut only_here = Vec::new();
        for out in outs {
            match out {
                Out::Message(_, kept) => only_here.push(*kept),
                Out::Waited(_, id) => waited.push(*id),
                _ => {}
            }
        }
        (only_here, waited)
    }

    /// How much waits.
    pub(crate) fn outbox_len(&self) -> usize {
        self.outbox.len()
    }

    /// How many of those that wait may go out now: until as much as may waits to be acknowledged.
    fn may_go(&self) -> usize {
        let sm = self.more.as_ref().and_then(|more| more.sm.as_ref());
        match sm {
            Some(sm) => sm.room_for(self.outbox.iter().map(Out::size_bytes)),
            None => self.outbox.len(),
        }
    }

    /// The first of those that wait.
    fn take(&mut self, count: usize) -> Vec<Out> {
        if count == self.outbox.len() {
            return self.take_all();
        }
        let taken: Vec<Out> = self.outbox.drain(..count).collect();
        self.outbox_bytes -= taken.iter().map(|out| out.size_bytes() as u32).sum::<u32>();
        taken
    }

    /// All that waits.
    pub(crate) fn take_all(&mut self) -> Vec<Out> {
        self.outbox_bytes = 0;
        std::mem::take(&mut self.outbox)
    }

    /// Whether nobody can take it up any more: something is missing, or it was told to end.
    pub(crate) fn is_over(&self) -> bool {
        self.closed.is_some_and(|why| why != Closed::Resumed)
    }

    /// The end of a connection is not the end of its session: another takes it up.
    pub(crate) fn reopen(&mut self) {
        if !self.is_over() {
            self.closed = None;
        }
        self.is_detached = false;
        self.waker = None;
    }

    /// The app's token that it is open by, if by one.
    pub(crate) fn token(&self) -> Option<Id> {
        Some(self.more.as_ref()?.hold.as_ref()?.token())
    }

    /// Whoever logged in for it, anew where it is resumed: it may do what that lets it do.
    pub(crate) fn is_by(&mut self, who: &Authenticated) {
        (self.power, self.password) = (who.power, who.password);
        if who.hold.is_some() || self.more.is_some() {
            self.more().hold = who.hold.clone();
        }
    }

    /// What only some have.
    pub(crate) fn more(&mut self) -> &mut More {
        self.more.get_or_insert_default()
    }

    /// Stream management, where it is on.
    pub(crate) fn sm(&mut self) -> Option<&mut Sm> {
        self.more.as_mut()?.sm.as_mut()
    }
}
