//! From the first byte to a session: header, features, log-in, and a resource or a resumption.

use std::net::IpAddr;

use tokio::time::{Instant, timeout_at};

use super::transport::{Header, Received, Transport};
use super::unserved::Unserved;
use super::{Connection, features, flush, part, queue, receive, resume};
use crate::face::Xmpp;
use crate::limits;
use crate::log_in::{Authenticated, again};
use crate::router::NoRoom;
use crate::wire::{Condition, Element, Jid, Stanza, StanzaError, StreamCondition, StreamError, ns};

/// Why a stream ends before a session began; none where there is nothing to say.
pub(super) type Ended = Option<StreamError>;

/// A stream without a session.
pub(super) struct Stream<'x> {
    pub(super) xmpp: &'x Xmpp,
    pub(super) transport: Box<dyn Transport>,
    pub(super) peer: IpAddr,
    opened: bool,
    /// When it must have become a session.
    deadline: Instant,
}

/// What a log-in led to.
pub(super) enum Entered {
    /// The client wants TLS first.
    WantsTls,
    /// Somebody has logged in, and begins a new stream.
    Anew(Authenticated),
    /// Somebody has logged in, and goes on here.
    Here(Authenticated),
    /// A session has begun with it.
    Begun(Begun),
}

/// What a connection goes on with.
pub(super) enum Begun {
    New(Unserved),
    Resumed(resume::Taken),
}

/// Leads a connection to its session; none when it ended before.
pub(super) async fn negotiate(
    xmpp: &Xmpp,
    mut transport: Box<dyn Transport>,
    peer: IpAddr,
) -> Option<Connection> {
    let deadline = Instant::now() + limits::NEGOTIATION;
    loop {
        let mut stream = Stream { xmpp, transport, peer, opened: false, deadline };
        match stream.lead().await {
            Ok(Some(begun)) => {
                let mut transport = stream.transport;
                transport.set_element_bytes_max(limits::STANZA_BYTES_MAX);
                return Some(begun.connection(xmpp, transport));
            }
            Ok(None) => {
                let started = timeout_at(deadline, stream.transport.start_tls(xmpp.tls.clone()?));
                match started.await.unwrap_or_else(|slow| Err(slow.into())) {
                    Ok(encrypted) => transport = encrypted,
                    Err(error) => {
                        metrics::counter!("weir_xmpp_tls_failures_total").increment(1);
                        tracing::debug!(%peer, %error, "a TLS handshake failed");
                        return None;
                    }
                }
            }
            Err(error) => {
                if !stream.opened && error.is_some() {
                    // A stream error stands within a stream (RFC 6120 section 4.9.1.1).
                    stream.open(None);
                }
                part(stream.transport, error).await;
                return None;
            }
        }
    }
}

impl Begun {
    fn connection(self, xmpp: &Xmpp, transport: Box<dyn Transport>) -> Connection {
        match self {
            Self::New(session) => session.connection(transport),
            Self::Resumed(taken) => taken.connection(xmpp, transport),
        }
    }
}

impl Stream<'_> {
    /// To a session, or to TLS.
    async fn lead(&mut self) -> Result<Option<Begun>, Ended> {
        let who = match self.stranger().await? {
            Entered::WantsTls => return Ok(None),
            Entered::Begun(begun) => return Ok(Some(begun)),
            Entered::Here(who) => who,
            Entered::Anew(who) => {
                self.transport.restart();
                let header = self.header().await?;
                self.open(header.attr("from"));
                let offered = features::to_people(self.xmpp).await;
                queue(&mut *self.transport, &offered);
                who
            }
        };
        loop {
            self.flush().await?;
            let element = self.element().await?;
            if element.is("resume", ns::SM) {
                match resume::resume(self.xmpp, &who, &element).await {
                    Ok(taken) => return Ok(Some(Begun::Resumed(taken))),
                    Err(failed) => queue(&mut *self.transport, &failed),
                }
                continue;
            }
            if let Some(session) = self.bind(&who, element)? {
                return Ok(Some(Begun::New(session)));
            }
        }
    }

    /// RFC 6120 section 7: the session, or none where the client has to try again.
    fn bind(&mut self, who: &Authenticated, element: Element) -> Result<Option<Unserved>, Ended> {
        let refused = || {
            let text = "bind a resource first";
            Some(StreamError::new(StreamCondition::NotAuthorized).text(text))
        };
        let iq = Stanza::of(element).map_err(|_| refused())?;
        let Some(bind) = iq.element.child("bind", ns::BIND) else { return Err(refused()) };
        if iq.type_() != Some("set") {
            return Err(refused());
        }
        let wanted = bind.child("resource", ns::BIND).map(Element::text).unwrap_or_default();
        match bind_resource(self.xmpp, who, &wanted) {
            Ok(session) => {
                let jid =
                    Element::new("jid", ns::BIND).with_text(session.session().jid().to_string());
                let bound = Element::new("bind", ns::BIND).with_child(jid);
                self.transport.queue(&[iq.result(Some(bound)).text().as_bytes()]);
                Ok(Some(session))
            }
            Err(error) => {
                self.transport.queue(&[iq.error(&error).text().as_bytes()]);
                Ok(None)
            }
        }
    }

    pub(super) fn open(&mut self, to: Option<&str>) {
        let to = to.and_then(|to| Jid::parse(to).ok());
        let id = self.xmpp.token(8);
        let to = to.as_ref().map(Jid::as_str);
        self.transport.open(&Header { from: self.xmpp.domain(), to, id: &id });
        self.opened = true;
    }

    pub(super) async fn header(&mut self) -> Result<Element, Ended> {
        let header = loop {
            match self.received().await? {
                Received::Open(header) => break header,
                Received::Space => {}
                Received::Bad(error) => return Err(Some(error)),
                Received::Close | Received::Gone => return Err(None),
                Received::Element(_) => {
                    let text = "begin with the header of a stream";
                    let bad = StreamError::new(StreamCondition::BadFormat).text(text);
                    return Err(Some(bad));
                }
            }
        };
        self.opened = false;
        let is_stream = header.is("stream", ns::STREAM) || header.is("open", ns::FRAMING);
        if !is_stream {
            return Err(Some(StreamError::new(StreamCondition::InvalidNamespace)));
        }
        // A client of the time before version 1.0 leaves it out.
        if !header.attr("version").is_some_and(|version| version.starts_with("1.")) {
            let text = "this server speaks version 1.0 (RFC 6120)";
            let error = StreamError::new(StreamCondition::UnsupportedVersion).text(text);
            return Err(Some(error));
        }
        match header.attr("to").map(Jid::parse) {
            Some(Ok(to)) if to.as_str() == self.xmpp.domain() => Ok(header),
            None => {
                let text = "name the domain of your account in `to`";
                Err(Some(StreamError::new(StreamCondition::ImproperAddressing).text(text)))
            }
            Some(_) => {
                let text = format!("this server is {}", self.xmpp.domain());
                Err(Some(StreamError::new(StreamCondition::HostUnknown).text(text)))
            }
        }
    }

    pub(super) async fn element(&mut self) -> Result<Element, Ended> {
        loop {
            match self.received().await? {
                Received::Element(element) => return Ok(element),
                Received::Space => {}
                Received::Bad(error) => return Err(Some(error)),
                Received::Close | Received::Gone => return Err(None),
                Received::Open(_) => {
                    return Err(Some(StreamError::new(StreamCondition::BadFormat)));
                }
            }
        }
    }

    /// What comes next, in time.
    async fn received(&mut self) -> Result<Received, Ended> {
        let received = timeout_at(self.deadline, receive(&mut *self.transport)).await;
        received.map_err(|_| {
            metrics::counter!("weir_xmpp_slow_negotiations_total").increment(1);
            let text = format!("log in and bind within {} s", limits::NEGOTIATION.as_secs());
            Some(StreamError::new(StreamCondition::ConnectionTimeout).text(text))
        })
    }

    pub(super) async fn flush(&mut self) -> Result<(), Ended> {
        match timeout_at(self.deadline, flush(&mut *self.transport)).await {
            Ok(Ok(())) => Ok(()),
            _ => Err(None),
        }
    }
}

pub(super) fn violation(text: &str) -> StreamError {
    StreamError::new(StreamCondition::PolicyViolation).text(text)
}

/// Binds the resource that a client wants, or one made up where it wants none.
///
/// # Errors
/// What to tell the client.
pub(crate) fn bind_resource(
    xmpp: &Xmpp,
    who: &Authenticated,
    wanted: &str,
) -> Result<Unserved, StanzaError> {
    let bare = Jid::of(Some(&who.username), xmpp.domain(), None);
    let bare = bare.map_err(|_| StanzaError::new(Condition::InternalServerError))?;
    let made_up;
    let wanted = match wanted {
        "" => {
            made_up = xmpp.token(6);
            &made_up
        }
        wanted => wanted,
    };
    let bad = || StanzaError::new(Condition::BadRequest).text("take a shorter, printable resource");
    if wanted.len() > limits::RESOURCE_BYTES_MAX {
        return Err(bad());
    }
    let jid = bare.with_resource(wanted).map_err(|_| bad())?;
    let resource = jid.resource().unwrap_or(wanted);
    match xmpp.router.bind(bare.as_str(), who.account, resource) {
        Ok((session, replaced)) => {
            session.state().is_by(who);
            again::opened(xmpp, who);
            if let Some(replaced) = replaced {
                xmpp.spawn(crate::presence::left(xmpp, &replaced));
                // Where a connection serves it, that ends it.
                resume::end_detached(xmpp, &replaced);
            }
            Ok(Unserved::bound(xmpp, session))
        }
        Err(full @ NoRoom::Account) => {
            Err(StanzaError::new(Condition::ResourceConstraint).text(full.to_string()))
        }
        Err(full @ NoRoom::Server) => {
            Err(StanzaError::new(Condition::ResourceConstraint).text(full.to_string()))
        }
    }
}
