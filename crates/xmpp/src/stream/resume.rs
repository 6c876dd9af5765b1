//! Sessions that can be taken up by another connection (XEP-0198 section 5).

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use weir_base::Id;

use super::sm::TooMuch;
use super::transport::Transport;
use super::unserved::Unserved;
use super::{Connection, pause, queue};
use crate::face::Xmpp;
use crate::limits;
use crate::log_in::{Authenticated, again};
use crate::message::offline;
use crate::router::{Closed, Out, Session};
use crate::wire::{Condition, Element, Jid, ns};

/// How long a connection that is taken over may take to let go.
const LET_GO: Duration = Duration::from_secs(5);
/// Sessions that are over and still known.
const OVER_MAX: usize = 10_000;

/// The sessions that can be resumed, by what the client knows them by.
#[derive(Default)]
pub(crate) struct Detached {
    by_id: Mutex<HashMap<Arc<str>, Entry>>,
    /// Those without a connection, in the order in which they end.
    waiting: Mutex<BTreeSet<(Instant, Arc<str>)>>,
    over: Over,
}

impl Detached {
    /// Sessions without a connection, and sessions that are over.
    pub(crate) fn held(&self) -> [u64; 2] {
        [self.waiting.lock().len() as u64, self.over.0.lock().len() as u64]
    }
}

/// Sessions that cannot be resumed any more, the newest at the end: how much of what their clients
/// sent was done, so that these do not send it again.
#[derive(Default)]
struct Over(Mutex<VecDeque<Ended>>);

struct Ended {
    id: Arc<str>,
    account: Id,
    h: u32,
}

impl Over {
    /// It is over, and no longer of `by_id`.
    fn remember(&self, id: Arc<str>, session: &Session) {
        // What is on its way to the disk may still be lost.
        let undone = session.in_flight();
        let received = session.state().sm().map(|sm| sm.received());
        let Some(received) = received else { return };
        let mut all = self.0.lock();
        if all.len() >= OVER_MAX {
            all.pop_front();
        }
        all.push_back(Ended { id, account: session.account, h: received.wrapping_sub(undone) });
    }

    /// What is told of the session by this id to who had it.
    fn h(&self, id: &str, account: Id) -> Option<u32> {
        let all = self.0.lock();
        let is = |ended: &&Ended| *ended.id == *id && ended.account == account;
        all.iter().rev().find(is).map(|ended| ended.h)
    }
}

struct Entry {
    session: Arc<Session>,
    /// Held by the connection that serves it.
    attached: Arc<Semaphore>,
    /// While no connection serves it: when it ends.
    until: Option<Instant>,
}

/// The right to serve a session that can be resumed.
pub struct Hold {
    id: Arc<str>,
    _permit: OwnedSemaphorePermit,
}

/// A session taken up by a new connection.
pub(crate) struct Taken {
    unserved: Unserved,
    /// What the client is to be told, unless it was already.
    answer: Option<Element>,
}

impl Taken {
    /// Under which address it is.
    pub(crate) fn jid(&self) -> Jid {
        self.unserved.session().jid()
    }

    /// What the client is to be told, by whoever tells it before the connection begins.
    pub(crate) fn take_answer(&mut self) -> Option<Element> {
        self.answer.take()
    }

    /// The new connection: it answers, and sends again what the client has not acknowledged.
    pub(crate) fn connection(self, xmpp: &Xmpp, mut transport: Box<dyn Transport>) -> Connection {
        if let Some(answer) = &self.answer {
            queue(&mut *transport, answer);
        }
        let session = self.unserved.session();
        let again: Vec<Out> = {
            let mut state = session.state();
            state.reopen();
            state.sm().map(|sm| sm.unacked().cloned().collect()).unwrap_or_default()
        };
        for out in &again {
            out.write(session, |parts| transport.queue(parts));
        }
        if !again.is_empty() {
            queue(&mut *transport, &Element::new("r", ns::SM));
        }
        // What found no room meanwhile waits where everything waits.
        let (peer, account) = (session.peer.clone(), session.account);
        let handing = offline::hand_over(xmpp.clone(), peer, account);
        xmpp.spawn(Some(Box::pin(handing)));
        self.unserved.connection(transport)
    }
}

/// A session can be resumed from now on, by the id answered.
pub(crate) fn register(xmpp: &Xmpp, session: &Arc<Session>) -> Option<Hold> {
    let id: Arc<str> = xmpp.token(16).into();
    let attached = Arc::new(Semaphore::new(1));
    let permit = attached.clone().try_acquire_owned().ok()?;
    let entry = Entry { session: session.clone(), attached, until: None };
    xmpp.detached.by_id.lock().insert(id.clone(), entry);
    Some(Hold { id, _permit: permit })
}

impl Hold {
    /// By what the client knows the session.
    pub(crate) fn id(&self) -> &Arc<str> {
        &self.id
    }

    /// The connection is gone; the session waits for another.
    pub(crate) fn let_go(self, xmpp: &Xmpp) {
        let until = Instant::now() + limits::RESUME;
        let session = {
            let mut by_id = xmpp.detached.by_id.lock();
            let Some(entry) = by_id.get_mut(&self.id) else { return };
            entry.until = Some(until);
            entry.session.clone()
        };
        xmpp.detached.waiting.lock().insert((until, self.id.clone()));
        let (is_over, has_unread) = {
            let mut state = session.state();
            state.is_detached = true;
            (state.is_over(), !state.unread().0.is_empty())
        };
        // It was told to end in just this moment.
        if is_over {
            end_detached(xmpp, &session);
            return;
        }
        // They were written to an app that had gone to sleep already.
        if has_unread {
            xmpp.pushes.wake_account(session.bare());
        }
    }

    /// The session is over.
    pub(crate) fn forget(self, xmpp: &Xmpp) {
        let entry = xmpp.detached.by_id.lock().remove(&self.id);
        if let Some(entry) = entry {
            xmpp.detached.over.remember(self.id.clone(), &entry.session);
        }
    }
}

/// Ends `session` at once if it waits to be taken up. Whether it did.
pub(crate) fn end_detached(xmpp: &Xmpp, session: &Arc<Session>) -> bool {
    let Some(id) = session.state().sm().and_then(|sm| sm.id.clone()) else { return false };
    let until = {
        let mut by_id = xmpp.detached.by_id.lock();
        let Some(until) = by_id.get(&id).and_then(|entry| entry.until) else { return false };
        by_id.remove(&id);
        until
    };
    xmpp.detached.waiting.lock().remove(&(until, id.clone()));
    xmpp.detached.over.remember(id, session);
    super::session::finish(xmpp, session);
    true
}

/// Ends the sessions that nobody took up in time.
pub(crate) fn expire(xmpp: &Xmpp) {
    let now = Instant::now();
    loop {
        let mut waiting = xmpp.detached.waiting.lock();
        if waiting.first().is_none_or(|(until, _)| *until > now) {
            return;
        }
        let Some((until, id)) = waiting.pop_first() else { return };
        drop(waiting);
        let mut by_id = xmpp.detached.by_id.lock();
        // It may have been taken up in this moment.
        if by_id.get(&id).is_none_or(|entry| entry.until != Some(until)) {
            continue;
        }
        let Some(entry) = by_id.remove(&id) else { continue };
        drop(by_id);
        xmpp.detached.over.remember(id, &entry.session);
        super::session::finish(xmpp, &entry.session);
    }
}

/// Ends all sessions that wait to be taken up: the process stops.
pub(crate) fn expire_all(xmpp: &Xmpp) {
    let waiting = std::mem::take(&mut *xmpp.detached.waiting.lock());
    for (_, id) in waiting {
        let mut by_id = xmpp.detached.by_id.lock();
        let is_waiting = by_id.get(&id).is_some_and(|entry| entry.until.is_some());
        let entry = if is_waiting { by_id.remove(&id) } else { None };
        drop(by_id);
        if let Some(entry) = entry {
            super::session::finish(xmpp, &entry.session);
        }
    }
}

/// `<resume/>`: takes the session up, whoever serves it now.
///
/// # Errors
/// `<failed/>`, to be told to the client, which may bind a resource then.
pub(crate) async fn resume(
    xmpp: &Xmpp,
    who: &Authenticated,
    asked: &Element,
) -> Result<Taken, Element> {
    let failed = |condition: Condition| {
        Element::new("failed", ns::SM).with_child(Element::new(condition.name(), ns::STANZA_ERRORS))
    };
    let id = asked.attr("previd").unwrap_or_default();
    let unknown = || {
        let h = xmpp.detached.over.h(id, who.account).map(|h| h.to_string());
        failed(Condition::ItemNotFound).with_attr_opt("h", h)
    };
    let h = asked.attr("h").and_then(|h| h.parse().ok());
    let h: u32 = h.ok_or_else(|| failed(Condition::BadRequest))?;
    let found = {
        let by_id = xmpp.detached.by_id.lock();
        // Somebody else's id is as good as none.
        let entry = by_id.get_key_value(id).filter(|(_, one)| one.session.account == who.account);
        entry.map(|(id, one)| (id.clone(), one.session.clone(), one.attached.clone()))
    };
    let (known, session, attached) = found.ok_or_else(unknown)?;
    session.close(Closed::Resumed);
    let permit = tokio::time::timeout(LET_GO, attached.acquire_owned()).await;
    let permit = permit.ok().and_then(Result::ok).ok_or_else(unknown)?;
    let until = {
        let mut by_id = xmpp.detached.by_id.lock();
        // It may have ended meanwhile.
        by_id.get_mut(&known).ok_or_else(unknown)?.until.take()
    };
    if let Some(until) = until {
        xmpp.detached.waiting.lock().remove(&(until, known.clone()));
    }
    let hold = Hold { id: known.clone(), _permit: permit };
    let unserved = Unserved::taken_up(xmpp, session.clone(), hold);
    // What is still on its way to the disk is counted once it is there.
    while session.in_flight() > 0 {
        pause().await;
    }
    if session.state().is_over() {
        unserved.end();
        return Err(unknown());
    }
    let acknowledged = {
        let mut state = session.state();
        // Who comes back looks, until it says that it does not.
        state.is_inactive = false;
        state.release_held();
        state.is_by(who);
        let sm = state.sm().ok_or_else(|| failed(Condition::ItemNotFound))?;
        sm.acknowledge(h).map(|done| (done, sm.received()))
    };
    match acknowledged {
        Ok((done, received)) => {
            again::opened(xmpp, who);
            offline::let_go(xmpp, &session, &done);
            metrics::counter!("weir_xmpp_resumptions_total").increment(1);
            let answer = Element::new("resumed", ns::SM)
                .with_attr("h", received.to_string())
                .with_attr("previd", &*known);
            Ok(Taken { unserved, answer: Some(answer) })
        }
        Err(TooMuch { .. }) => {
            unserved.end();
            let h = xmpp.detached.over.h(id, who.account).map(|h| h.to_string());
            Err(failed(Condition::UnexpectedRequest).with_attr_opt("h", h))
        }
    }
}
