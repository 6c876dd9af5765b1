//! From the first byte to a session: header, features, log-in, and a resource or a resumption.

use std::sync::Arc;

use super::login::{self, Authenticated, Exchange, Failure, Step};
use super::transport::{Header, Received, Transport};
use super::{Connection, features, flush, part, queue, receive, resume};
use crate::face::Xmpp;
use crate::limits;
use crate::router::{NoRoom, Session};
use crate::wire::{Condition, Element, Jid, Stanza, StanzaError, StreamCondition, StreamError, ns};

/// Why a stream ends before a session began; none where there is nothing to say.
type Ended = Option<StreamError>;

struct Stream<'x> {
    xmpp: &'x Xmpp,
    transport: Box<dyn Transport>,
    opened: bool,
}

/// Leads a connection to its session; none when it ended before.
pub(super) async fn negotiate(xmpp: &Xmpp, transport: Box<dyn Transport>) -> Option<Connection> {
    let mut stream = Stream { xmpp, transport, opened: false };
    match stream.lead().await {
        Ok(session) => {
            let mut transport = stream.transport;
            transport.set_element_bytes_max(limits::STANZA_BYTES_MAX);
            Some(session.connection(xmpp, transport))
        }
        Err(error) => {
            if !stream.opened && error.is_some() {
                // A stream error stands within a stream (RFC 6120 section 4.9.1.1).
                stream.open(None);
            }
            part(stream.transport, error).await;
            None
        }
    }
}

/// What a connection goes on with.
enum Begun {
    New(Arc<Session>),
    Resumed(resume::Taken),
}

impl Begun {
    fn connection(self, xmpp: &Xmpp, transport: Box<dyn Transport>) -> Connection {
        match self {
            Self::New(session) => Connection::new(xmpp.clone(), transport, session, None),
            Self::Resumed(taken) => taken.connection(xmpp, transport),
        }
    }
}

impl Stream<'_> {
    async fn lead(&mut self) -> Result<Begun, Ended> {
        let who = self.stranger().await?;
        self.transport.restart();
        let header = self.header().await?;
        self.open(header.attr("from"));
        queue(&mut *self.transport, &features::to_people());
        loop {
            self.flush().await?;
            let element = self.element().await?;
            if element.is("resume", ns::SM) {
                match resume::resume(self.xmpp, &who, &element).await {
                    Ok(taken) => return Ok(Begun::Resumed(taken)),
                    Err(failed) => queue(&mut *self.transport, &failed),
                }
                continue;
            }
            if let Some(session) = self.bind(&who, element)? {
                return Ok(Begun::New(session));
            }
        }
    }

    /// Until somebody has logged in.
    async fn stranger(&mut self) -> Result<Authenticated, Ended> {
        let mut tries = 0;
        loop {
            let header = self.header().await?;
            self.open(header.attr("from"));
            let offered = features::to_strangers(self.xmpp, &*self.transport);
            queue(&mut *self.transport, &offered);
            self.flush().await?;
            loop {
                let element = self.element().await?;
                if element.is("auth", ns::SASL) {
                    match self.log_in(element).await? {
                        Ok(who) => return Ok(who),
                        Err(failure) => self.refuse(failure).await?,
                    }
                    tries += 1;
                    if tries >= limits::LOG_INS_MAX {
                        let text = "too many attempts: connect again";
                        return Err(Some(violation(text)));
                    }
                } else {
                    let text = "log in first";
                    let error = StreamError::new(StreamCondition::NotAuthorized).text(text);
                    return Err(Some(error));
                }
            }
        }
    }

    /// RFC 6120 section 6.4.
    async fn log_in(&mut self, auth: Element) -> Result<Result<Authenticated, Failure>, Ended> {
        let initial = match auth.text() {
            text if text.is_empty() => None,
            text => match login::decode(&text) {
                Ok(initial) => Some(initial),
                Err(failure) => return Ok(Err(failure)),
            },
        };
        let mechanism = auth.attr("mechanism").unwrap_or_default();
        let security = self.transport.security().clone();
        let (mut exchange, mut step) =
            Exchange::start(self.xmpp, &security, mechanism, initial).await;
        loop {
            match step {
                Step::Failed(failure) => return Ok(Err(failure)),
                Step::Done { who, extra } => {
                    let mut success = Element::new("success", ns::SASL);
                    if !extra.is_empty() {
                        success = success.with_text(login::encode(&extra));
                    }
                    queue(&mut *self.transport, &success);
                    self.flush().await?;
                    return Ok(Ok(who));
                }
                Step::Challenge(challenge) => {
                    let text =
                        if challenge.is_empty() { "".into() } else { login::encode(&challenge) };
                    let challenge = Element::new("challenge", ns::SASL).with_text(text);
                    queue(&mut *self.transport, &challenge);
                    self.flush().await?;
                }
            }
            let answer = self.element().await?;
            if answer.is("abort", ns::SASL) {
                let text = "As you wish.";
                return Ok(Err(Failure { condition: "aborted", text }));
            }
            if !answer.is("response", ns::SASL) {
                let text = "Go on with the log-in, or abort it.";
                return Ok(Err(Failure { condition: "malformed-request", text }));
            }
            match login::decode(&answer.text()) {
                Ok(message) => step = exchange.respond(self.xmpp, message).await,
                Err(failure) => return Ok(Err(failure)),
            }
        }
    }

    async fn refuse(&mut self, failure: Failure) -> Result<(), Ended> {
        metrics::counter!("weir_xmpp_log_ins_total", "outcome" => "wrong").increment(1);
        let text = Element::new("text", ns::SASL).with_text(failure.text);
        let failure = Element::new("failure", ns::SASL)
            .with_child(Element::new(failure.condition, ns::SASL))
            .with_child(text.with_attr("xml:lang", "en"));
        queue(&mut *self.transport, &failure);
        self.flush().await
    }

    /// RFC 6120 section 7: the session, or none where the client has to try again.
    fn bind(
        &mut self,
        who: &Authenticated,
        element: Element,
    ) -> Result<Option<Arc<Session>>, Ended> {
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
                let jid = Element::new("jid", ns::BIND).with_text(session.jid().to_string());
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

    fn open(&mut self, to: Option<&str>) {
        let to = to.and_then(|to| Jid::parse(to).ok());
        let id = self.xmpp.token(8);
        let to = to.as_ref().map(Jid::as_str);
        self.transport.open(&Header { from: self.xmpp.domain(), to, id: &id });
        self.opened = true;
    }

    async fn header(&mut self) -> Result<Element, Ended> {
        let header = loop {
            match receive(&mut *self.transport).await {
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

    async fn element(&mut self) -> Result<Element, Ended> {
        loop {
            match receive(&mut *self.transport).await {
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

    async fn flush(&mut self) -> Result<(), Ended> {
        flush(&mut *self.transport).await.map_err(|_| None)
    }
}

fn violation(text: &str) -> StreamError {
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
) -> Result<Arc<Session>, StanzaError> {
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
            metrics::counter!("weir_xmpp_log_ins_total", "outcome" => "good").increment(1);
            if let Some(replaced) = replaced {
                xmpp.spawn(crate::presence::left(xmpp, &replaced));
            }
            Ok(session)
        }
        Err(full @ NoRoom::Account) => {
            Err(StanzaError::new(Condition::ResourceConstraint).text(full.to_string()))
        }
        Err(full @ NoRoom::Server) => {
            Err(StanzaError::new(Condition::ResourceConstraint).text(full.to_string()))
        }
    }
}
