//! A session's connection: what comes in is worked in order, what waits goes out together.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::time::Sleep;
use weir_base::Id;
use weir_live::pace::Turns;

use super::begin;
use super::resume::{self, Hold};
use super::sm::{Sm, TooMuch};
use super::transport::{Received, Transport};
use super::{part, queue};
use crate::face::{Work, Xmpp};
use crate::limits;
use crate::message::{self, offline};
use crate::router::{Closed, Found, Out, Session};
use crate::wire::stanza::NoStanza;
use crate::wire::{Element, Stanza, StreamCondition, StreamError, ns};

/// Stanzas worked before others get their turn.
const STANZAS_AT_ONCE: usize = 32;

/// Beats after which a peer is told to go that has not ended what it began to say.
const UNFINISHED_BEATS_MAX: u8 = 2;

/// The connection of a bound session. It is a future that ends with the connection.
pub struct Connection {
    xmpp: Xmpp,
    transport: Option<Box<dyn Transport>>,
    session: Arc<Session>,
    /// What must be done before the next stanza is read.
    work: Option<Work>,
    /// A stanza that waits until the messages before it are durable.
    held: Option<Box<Stanza>>,
    deadline: Option<Pin<Box<Sleep>>>,
    hold: Option<Hold>,
    /// The last words.
    parting: Option<Work>,
    heard: bool,
    /// Messages that waited are being written, and are let go when they are.
    is_writing_waited: bool,
    quiet_beats: u8,
    /// Beats since which the peer has not ended what it began to say.
    unfinished_beats: u8,
    /// While the person arrives, its turns at the processor.
    turns: Option<Box<Turns>>,
}

/// Why a connection ends.
enum End {
    /// The client said so.
    Closed,
    /// It is gone, or writes take too long: the session may be resumed.
    Lost,
    /// It does not end what it began to say: it is told so, and the session may be resumed.
    Stalled,
    /// It read so slowly that something is missing: the session ends too.
    Slow,
    /// With this error; the session ends too.
    Error(StreamError),
    /// Another connection serves the session.
    Resumed,
}

impl Connection {
    pub(crate) fn new(
        xmpp: Xmpp,
        transport: Box<dyn Transport>,
        session: Arc<Session>,
        hold: Option<Hold>,
    ) -> Self {
        Self {
            turns: Some(Box::new(xmpp.pace.turns())),
            xmpp,
            transport: Some(transport),
            session,
            work: None,
            held: None,
            deadline: None,
            hold,
            parting: None,
            heard: true,
            is_writing_waited: false,
            quiet_beats: 0,
            unfinished_beats: 0,
        }
    }

    /// What there is to do, in a turn of those who arrive until others know that it is here.
    fn poll_in_turn(&mut self, context: &mut Context<'_>) -> Poll<End> {
        let Some(turns) = &mut self.turns else { return self.poll_end(context) };
        let _turn = ready!(turns.poll_turn(context));
        let end = self.poll_end(context);
        if self.work.is_none() && self.session.is_available() {
            self.turns = None;
        }
        end
    }

    fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<End> {
        loop {
            let mut moved = false;
            if let Some(work) = &mut self.work
                && work.as_mut().poll(context).is_ready()
            {
                self.work = None;
                moved = true;
            }
            for _ in 0..STANZAS_AT_ONCE {
                match self.poll_input(context) {
                    Ok(Poll::Ready(())) => moved = true,
                    Ok(Poll::Pending) => break,
                    Err(end) => return Poll::Ready(end),
                }
            }
            match self.poll_output(context) {
                Ok(output) => moved |= output.is_ready(),
                Err(end) => return Poll::Ready(end),
            }
            if !moved {
                return Poll::Pending;
            }
        }
    }

    /// One more stanza, unless what came before must be done first.
    fn poll_input(&mut self, context: &mut Context<'_>) -> Result<Poll<()>, End> {
        if self.work.is_some() {
            return Ok(Poll::Pending);
        }
        if self.held.is_some() {
            if self.session.in_flight() > 0 {
                return Ok(Poll::Pending);
            }
            if let Some(held) = self.held.take() {
                self.work = self.xmpp.dispatch(&self.session, *held);
            }
            return Ok(Poll::Ready(()));
        }
        if self.session.in_flight() >= u32::from(limits::IN_FLIGHT_MAX) {
            return Ok(Poll::Pending);
        }
        let Some(transport) = &mut self.transport else { return Err(End::Lost) };
        let Poll::Ready(received) = transport.poll_recv(context) else {
            return Ok(Poll::Pending);
        };
        self.heard = true;
        match received {
            Received::Element(element) => self.element(element)?,
            Received::Space => {}
            Received::Close => return Err(End::Closed),
            Received::Gone => return Err(End::Lost),
            Received::Bad(error) => return Err(End::Error(error)),
            Received::Open(_) => {
                return Err(End::Error(StreamError::new(StreamCondition::BadFormat)));
            }
        }
        Ok(Poll::Ready(()))
    }

    /// Takes what waits and writes it.
    fn poll_output(&mut self, context: &mut Context<'_>) -> Result<Poll<()>, End> {
        let mut moved = false;
        loop {
            let Some(transport) = &mut self.transport else { return Err(End::Lost) };
            if transport.waiting_bytes() >= limits::WRITE_BYTES {
                break;
            }
            let Poll::Ready(found) = self.session.poll_found(context) else { break };
            moved = true;
            match found {
                Found::Out(list) => self.write(list)?,
                Found::Settled => self.settled(),
                Found::Beat => self.beat()?,
                Found::Closed(Closed::Resumed) => return Err(End::Resumed),
                Found::Closed(Closed::Slow) => return Err(End::Slow),
                Found::Closed(Closed::With(condition)) => {
                    return Err(End::Error(StreamError::new(condition)));
                }
            }
        }
        let Some(transport) = &mut self.transport else { return Err(End::Lost) };
        if transport.waiting_bytes() == 0 {
            return Ok(if moved { Poll::Ready(()) } else { Poll::Pending });
        }
        match transport.poll_flush(context) {
            Poll::Ready(Ok(())) => {
                self.deadline = None;
                self.wrote_waited();
                Ok(Poll::Ready(()))
            }
            Poll::Ready(Err(_)) => Err(End::Lost),
            Poll::Pending => {
                let deadline = self
                    .deadline
                    .get_or_insert_with(|| Box::pin(tokio::time::sleep(limits::WRITE_DEADLINE)));
                if deadline.as_mut().poll(context).is_ready() {
                    metrics::counter!("weir_xmpp_slow_sessions_total").increment(1);
                    return Err(End::Lost);
                }
                // Only more room at the peer moves this on.
                Ok(Poll::Pending)
            }
        }
    }

    fn queue(&mut self, element: &Element) {
        if let Some(transport) = &mut self.transport {
            queue(&mut **transport, element);
        }
    }

    fn write(&mut self, list: Vec<Out>) -> Result<(), End> {
        let Some(transport) = &mut self.transport else { return Err(End::Lost) };
        for out in &list {
            out.write(&self.session, |parts| transport.queue(parts));
        }
        let mut state = self.session.state();
        let Some(sm) = state.sm() else {
            let waited: Vec<Id> = list.iter().filter_map(Out::waited).collect();
            if !waited.is_empty() {
                state.more().writing.extend(waited);
                self.is_writing_waited = true;
            }
            return Ok(());
        };
        let has_message = list.iter().any(|out| matches!(out, Out::Message(..) | Out::Waited(..)));
        let mut is_time = false;
        for out in list {
            is_time |= sm.send(out);
        }
        // Nothing else goes out then, and the client has to know.
        let is_full = sm.is_full();
        if is_time || is_full || (has_message && sm.wants_ack()) {
            transport.queue(&[b"<r xmlns='urn:xmpp:sm:3'/>"]);
        }
        Ok(())
    }

    /// All that waited is written. Who acknowledges nothing has it then, as far as anybody knows.
    fn wrote_waited(&mut self) {
        if std::mem::take(&mut self.is_writing_waited) {
            let written = std::mem::take(&mut self.session.state().more().writing);
            offline::let_go_of(&self.xmpp, &self.session, written);
        }
    }

    /// All messages that were on their way to the disk are there: the client that asked is told.
    fn settled(&mut self) {
        let owes = |sm: &mut Sm| std::mem::take(&mut sm.owes_answer);
        if self.session.state().sm().is_some_and(owes) {
            self.answer();
        }
    }

    /// Tells how many stanzas are done. They are worked in order: of those that came, the last are
    /// the messages that are not durable yet, and one that waits for them or is being worked.
    fn answer(&mut self) {
        let last = u32::from(self.held.is_some()) + u32::from(self.work.is_some());
        let undone = self.session.in_flight() + last;
        let received = self.session.state().sm().map(|sm| sm.received());
        let Some(received) = received else { return };
        let h = received.wrapping_sub(undone).to_string();
        self.queue(&Element::new("a", ns::SM).with_attr("h", h));
    }

    /// About once a minute: a quiet connection is tried, and one that stays dead ends by TCP.
    fn beat(&mut self) -> Result<(), End> {
        // An app that shows itself to nobody has arrived too.
        self.turns = None;
        offline::go_on(&self.xmpp, &self.session);
        if self.session.state().sm().is_some_and(Sm::is_overdue) {
            return Err(End::Lost);
        }
        if std::mem::take(&mut self.heard) {
            (self.quiet_beats, self.unfinished_beats) = (0, 0);
            return Ok(());
        }
        let is_reading =
            self.work.is_none() && self.held.is_none() && self.session.in_flight() == 0;
        let is_amid = self.transport.as_ref().is_some_and(|transport| transport.is_amid_element());
        self.unfinished_beats = match is_amid && is_reading {
            true => self.unfinished_beats.saturating_add(1),
            false => 0,
        };
        if self.unfinished_beats >= UNFINISHED_BEATS_MAX {
            return Err(End::Stalled);
        }
        self.quiet_beats = self.quiet_beats.saturating_add(1);
        let wants_ack = self.session.state().sm().is_some_and(Sm::wants_ack);
        if let Some(transport) = &mut self.transport {
            match wants_ack {
                true => transport.queue(&[b"<r xmlns='urn:xmpp:sm:3'/>"]),
                false => transport.keep_alive(),
            }
        }
        Ok(())
    }

    fn element(&mut self, element: Element) -> Result<(), End> {
        match &*element.ns {
            ns::CLIENT => {}
            ns::SM => return self.managed(&element),
            ns::CSI => {
                self.looked_at(&element);
                return Ok(());
            }
            _ => {
                let text = "only message, presence and iq stand in a stream";
                let condition = StreamCondition::UnsupportedStanzaType;
                return Err(End::Error(StreamError::new(condition).text(text)));
            }
        }
        if let Some(sm) = self.session.state().sm() {
            sm.receive();
        }
        let stanza = match Stanza::of(element) {
            Ok(stanza) => stanza,
            Err(NoStanza::Kind(_)) => {
                let condition = StreamCondition::UnsupportedStanzaType;
                return Err(End::Error(StreamError::new(condition)));
            }
            Err(NoStanza::Address(element)) => {
                if let Some(error) = Stanza::malformed(&element, &self.session.jid()) {
                    message::answer_in_order(&self.xmpp, &self.session, error);
                }
                return Ok(());
            }
        };
        let own = self.session.jid();
        if let Some(from) = &stanza.from
            && *from != own
            && from.as_str() != self.session.bare()
        {
            let text = "leave `from` out: the server sets it";
            let condition = StreamCondition::InvalidFrom;
            return Err(End::Error(StreamError::new(condition).text(text)));
        }
        let stanza = stanza.from(own);
        // Messages may be on their way to the disk together; all else waits for them.
        let together = message::goes_by_lane(&self.xmpp, &self.session, &stanza);
        if !together && self.session.in_flight() > 0 {
            self.held = Some(Box::new(stanza));
        } else {
            self.work = self.xmpp.dispatch(&self.session, stanza);
        }
        Ok(())
    }

    /// XEP-0198.
    fn managed(&mut self, element: &Element) -> Result<(), End> {
        match &*element.name {
            "enable" => {
                if self.session.state().sm().is_some() {
                    let failed = Element::new("failed", ns::SM)
                        .with_child(Element::new("unexpected-request", ns::STANZA_ERRORS));
                    self.queue(&failed);
                    return Ok(());
                }
                if matches!(element.attr("resume"), Some("true" | "1")) {
                    self.hold = resume::register(&self.xmpp, &self.session);
                }
                let enabled = begin::enabled(self.hold.as_ref());
                // What waits was not counted by the client's rules: it goes out before.
                let waiting = self.session.state().take_all();
                self.write(waiting)?;
                let id = self.hold.as_ref().map(|hold| hold.id().clone());
                self.session.state().more().sm = Some(Sm::new(id));
                self.queue(&enabled);
            }
            "r" => {
                let waits = self.session.in_flight() > 0;
                let is_on = self.session.state().sm().is_some_and(|sm| {
                    // What is not durable yet is not counted yet, and told once it is.
                    sm.owes_answer = waits;
                    true
                });
                if is_on {
                    self.answer();
                }
            }
            "a" => {
                let h = element.attr("h").and_then(|h| h.parse().ok());
                let bad = || End::Error(StreamError::new(StreamCondition::BadFormat));
                let h: u32 = h.ok_or_else(bad)?;
                let done = match self.session.state().sm() {
                    Some(sm) => sm.acknowledge(h),
                    None => Ok(Vec::new()),
                };
                match done {
                    Ok(done) => {
                        offline::let_go(&self.xmpp, &self.session, &done);
                    }
                    Err(TooMuch { h, sent }) => {
                        let text = format!("{h} acknowledged, {sent} sent");
                        let condition = StreamCondition::UndefinedCondition;
                        return Err(End::Error(StreamError::new(condition).text(text)));
                    }
                }
            }
            _ => {
                let failed = Element::new("failed", ns::SM)
                    .with_child(Element::new("unexpected-request", ns::STANZA_ERRORS));
                self.queue(&failed);
            }
        }
        Ok(())
    }

    /// XEP-0352.
    fn looked_at(&mut self, element: &Element) {
        let mut state = self.session.state();
        state.is_inactive = element.name == "inactive";
        if !state.is_inactive {
            state.release_held();
        }
    }

    fn ended(&mut self, end: End) -> Option<Work> {
        let transport = self.transport.take()?;
        let xmpp = self.xmpp.clone();
        let hold = self.hold.take();
        // What was begun is done, and counted once it is; what waited was not, and the client sends
        // it again.
        xmpp.spawn(self.work.take().map(|work| to_its_end(work, &self.session)));
        if self.held.take().is_some()
            && let Some(sm) = self.session.state().sm()
        {
            sm.take_back();
        }
        match end {
            End::Resumed => {
                drop(hold);
                Some(Box::pin(part(transport, Some(StreamCondition::Conflict.into()))))
            }
            End::Lost => {
                if let Some(hold) = hold {
                    hold.let_go(&xmpp);
                    return None;
                }
                finish(&xmpp, &self.session);
                None
            }
            End::Stalled => {
                match hold {
                    Some(hold) => hold.let_go(&xmpp),
                    None => finish(&xmpp, &self.session),
                }
                Some(Box::pin(part(transport, Some(StreamCondition::ConnectionTimeout.into()))))
            }
            End::Slow => {
                hold.into_iter().for_each(|hold| hold.forget(&xmpp));
                finish(&xmpp, &self.session);
                None
            }
            End::Closed => {
                hold.into_iter().for_each(|hold| hold.forget(&xmpp));
                finish(&xmpp, &self.session);
                let let_go = offline::is_let_go(self.session.clone());
                Some(Box::pin(async {
                    let_go.await;
                    part(transport, None).await;
                }))
            }
            End::Error(error) => {
                hold.into_iter().for_each(|hold| hold.forget(&xmpp));
                finish(&xmpp, &self.session);
                Some(Box::pin(part(transport, Some(error))))
            }
        }
    }
}

impl Future for Connection {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        if this.parting.is_none() {
            let Poll::Ready(end) = this.poll_in_turn(context) else { return Poll::Pending };
            match this.ended(end) {
                Some(parting) => this.parting = Some(parting),
                None => return Poll::Ready(()),
            }
        }
        match &mut this.parting {
            Some(parting) => parting.as_mut().poll(context),
            None => Poll::Ready(()),
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // The process stops, or the task was ended: the session does not outlive it unheard.
        if self.transport.is_some() {
            self.hold.take().into_iter().for_each(|hold| hold.forget(&self.xmpp));
            finish(&self.xmpp, &self.session);
        }
    }
}

/// Work that a session waits for when it is taken up again.
fn to_its_end(work: Work, session: &Arc<Session>) -> Work {
    let under_way = UnderWay::new(session);
    Box::pin(async move {
        work.await;
        drop(under_way);
    })
}

/// A stanza of a session that is not done yet.
struct UnderWay(Arc<Session>);

impl UnderWay {
    fn new(session: &Arc<Session>) -> Self {
        session.sent_off();
        Self(session.clone())
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.settled();
    }
}

/// The end of a session: others learn that it left, and the kept messages which its client has not
/// acknowledged wait for the account again, unless another of its resources got them.
pub(crate) fn finish(xmpp: &Xmpp, session: &Arc<Session>) {
    // Before it is forgotten whose contacts those are.
    xmpp.spawn(crate::presence::left(xmpp, session));
    xmpp.router.unbind(session);
    let (unread, waited) = session.state().unread();
    xmpp.spawn(offline::return_unread(xmpp, session, unread));
    xmpp.spawn(offline::give_up(xmpp, session, &waited));
}
