//! From another server: who it is, and then what it sends.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::Receiver;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsStream;
use weir_http::Network;

use super::lanes::{Pair, Waiting};
use super::link::{Broken, Io, Link};
use super::{Servers, dialback, domains, header};
use crate::wire::{
    Condition, Element, Frame, Jid, Stanza, StanzaError, StreamCondition, StreamError, ns,
};

/// Connections of other servers at once.
const CONNECTIONS_MAX: usize = 4_096;
/// Connections from one network at once.
const PER_SOURCE_MAX: u32 = 64;
/// How long a server may take to prove its first domain.
const NEGOTIATION: Duration = Duration::from_secs(60);
/// How long a stream may be silent.
const IDLE: Duration = Duration::from_secs(3_600);
/// The first byte of a connection that begins with TLS (RFC 8446, 5.1).
const TLS_HANDSHAKE: u8 = 22;
/// Pairs of domains that one connection may prove.
const PAIRS_MAX: usize = 256;

/// Takes other servers in on `listener` until the shutdown.
pub async fn serve(servers: Servers, listener: TcpListener) {
    let free = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let sources = Arc::new(Mutex::new(HashMap::new()));
    loop {
        let accepted = tokio::select! {
            biased;
            () = servers.xmpp.shutdown.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((io, peer)) => {
                let Some(place) = Place::enter(&free, &sources, peer) else {
                    let refused = metrics::counter!("weir_xmpp_remote_refused_total");
                    refused.increment(1);
                    continue;
                };
                tokio::spawn(hold(servers.clone(), io, peer, place));
            }
            Err(error) => {
                // Out of descriptors, mostly: some will be free in a moment.
                tracing::warn!(%error, "cannot accept a connection of another server");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

/// A place among the connections.
struct Place {
    source: IpAddr,
    sources: Arc<Mutex<HashMap<IpAddr, u32>>>,
    _permit: OwnedSemaphorePermit,
}

impl Place {
    fn enter(
        free: &Arc<Semaphore>,
        sources: &Arc<Mutex<HashMap<IpAddr, u32>>>,
        peer: SocketAddr,
    ) -> Option<Self> {
        let permit = free.clone().try_acquire_owned().ok()?;
        let source = Network::source_of(peer.ip().to_canonical());
        let mut counts = sources.lock();
        let count = counts.entry(source).or_default();
        if *count >= PER_SOURCE_MAX {
            return None;
        }
        *count += 1;
        Some(Self { source, sources: sources.clone(), _permit: permit })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut sources = self.sources.lock();
        if let Some(count) = sources.get_mut(&self.source) {
            *count -= 1;
            if *count == 0 {
                sources.remove(&self.source);
            }
        }
    }
}

async fn hold(servers: Servers, io: TcpStream, peer: SocketAddr, place: Place) {
    let _ = io.set_nodelay(true);
    let visitor = Visitor {
        id: servers.xmpp.token(16),
        link: Some(Link::new(Io::Plain(io))),
        servers,
        source: place.source,
        from: None,
        to: None,
        proven: HashSet::new(),
        wants_both_ways: false,
        lane: None,
        decisions: 0,
    };
    let count = metrics::gauge!("weir_xmpp_remote_streams");
    count.increment(1.0);
    if let Err(end) = visitor.serve().await {
        let why = match end {
            End::Broken(broken) => broken.to_string(),
            End::With(error) => error.condition.name().to_owned(),
        };
        tracing::debug!(%peer, why, "a stream of another server ended");
    }
    count.decrement(1.0);
}

/// Why a visitor's stream ends.
enum End {
    Broken(Broken),
    With(StreamError),
}

impl From<Broken> for End {
    fn from(broken: Broken) -> Self {
        match broken {
            Broken::Xml(error) => Self::With(error.into()),
            broken => Self::Broken(broken),
        }
    }
}

fn end(condition: StreamCondition, text: &str) -> End {
    End::With(StreamError::new(condition).text(text))
}

/// Another server that has come here.
struct Visitor {
    servers: Servers,
    /// From which network it came.
    source: IpAddr,
    /// Gone only while TLS begins.
    link: Option<Link>,
    /// The id of its stream.
    id: String,
    /// As which domain it came, and for which of ours.
    from: Option<String>,
    to: Option<String>,
    /// The pairs it has proven: its domain, and for which of ours.
    proven: HashSet<Pair>,
    wants_both_ways: bool,
    /// What goes back on this stream (XEP-0288).
    lane: Option<(Pair, Receiver<Waiting>)>,
    /// How often staff had decided about servers when it was last asked.
    decisions: u64,
}

impl Visitor {
    async fn serve(mut self) -> Result<(), End> {
        let ended = self.speak().await;
        if let Some((pair, mut receiver)) = self.lane.take() {
            let why = "that server is gone: try again";
            while !self.servers.close_lane(&pair, &receiver) {
                self.servers.bounce_all(&mut receiver, Vec::new(), false, why);
            }
        }
        let Some(mut link) = self.link else { return ended };
        match ended {
            Err(End::With(error)) => {
                link.end(Some(error.clone())).await;
                Err(End::With(error))
            }
            ended => {
                link.end(None).await;
                ended
            }
        }
    }

    fn link(&mut self) -> Result<&mut Link, End> {
        self.link.as_mut().ok_or(End::Broken(Broken::Closed))
    }

    async fn speak(&mut self) -> Result<(), End> {
        let begun = Instant::now();
        self.direct_tls().await?;
        loop {
            let until = match self.proven.is_empty() {
                true => begun + NEGOTIATION,
                false => Instant::now() + IDLE,
            };
            let stop = self.servers.xmpp.shutdown.clone();
            let frame = {
                let link = self.link.as_mut().ok_or(End::Broken(Broken::Closed))?;
                let lane = self.lane.as_mut();
                let back = async {
                    match lane {
                        Some((_, receiver)) => receiver.recv().await,
                        None => std::future::pending().await,
                    }
                };
                tokio::select! {
                    biased;
                    () = stop.cancelled() => {
                        return Err(StreamError::new(StreamCondition::SystemShutdown).into());
                    }
                    frame = timeout_at(until, link.next()) => Ok(frame),
                    waiting = back => Err(waiting),
                }
            };
            match frame {
                Ok(Ok(Ok(Frame::Open(header)))) => self.open(&header).await?,
                Ok(Ok(Ok(Frame::Element(element)))) => self.element(element).await?,
                Ok(Ok(Ok(Frame::Space))) => {}
                Ok(Ok(Ok(Frame::Close))) => return Ok(()),
                Ok(Ok(Err(broken))) => return Err(broken.into()),
                Ok(Err(_)) => {
                    let text = "nothing was said for too long";
                    return Err(end(StreamCondition::ConnectionTimeout, text));
                }
                Err(Some(waiting)) => self.link()?.send(&waiting.text).await?,
                Err(None) => self.lane = None,
            }
        }
    }

    /// Answers the header of a stream with ours, and what we offer.
    async fn open(&mut self, header_: &Element) -> Result<(), End> {
        let domain = |name: &str| {
            let jid = header_.attr(name).map(Jid::parse)?;
            jid.ok().map(|jid| jid.domain().to_owned())
        };
        let (from, to) = (domain("from"), domain("to"));
        let own = to.clone().unwrap_or_else(|| self.servers.xmpp.domain().to_owned());
        let text = header(&own, from.as_deref(), Some(&self.id));
        self.link()?.send(&text).await?;
        if !header_.is("stream", ns::STREAM) {
            return Err(StreamError::new(StreamCondition::InvalidNamespace).into());
        }
        if !self.servers.xmpp.is_ours(&own) {
            return Err(end(StreamCondition::HostUnknown, "this is not a domain of here"));
        }
        (self.from, self.to) = (from, Some(own));
        if header_.attr("version").is_some() {
            let features = self.features();
            self.link()?.put(&features).await?;
        }
        Ok(())
    }

    fn features(&self) -> Element {
        let features = Element::new("features", ns::STREAM);
        let is_encrypted = self.link.as_ref().is_some_and(Link::is_encrypted);
        if !is_encrypted {
            let starttls = Element::new("starttls", ns::TLS);
            let required = Element::new("required", ns::TLS);
            return match self.servers.allow_plain {
                true => features.with_child(starttls).with_child(dialback_feature()),
                false => features.with_child(starttls.with_child(required)),
            };
        }
        let mut features = features;
        let is_proven = |from: &String| self.is_certified(from);
        if self.proven.is_empty() && self.from.as_ref().is_some_and(is_proven) {
            let external = Element::new("mechanism", ns::SASL).with_text("EXTERNAL");
            features =
                features.with_child(Element::new("mechanisms", ns::SASL).with_child(external));
        }
        features.with_child(Element::new("bidi", ns::BIDI_FEATURE)).with_child(dialback_feature())
    }

    fn is_certified(&self, domain: &str) -> bool {
        let shown = self.link.as_ref().and_then(Link::certificates);
        self.servers.trust.proves(shown, domain)
    }

    async fn element(&mut self, element: Element) -> Result<(), End> {
        match (&*element.ns, &*element.name) {
            (ns::TLS, "starttls") => self.start_tls().await,
            (ns::SASL, "auth") => self.external(&element).await,
            (ns::DIALBACK, "result") => self.claim(&element).await,
            (ns::DIALBACK, "verify") => self.answer(&element).await,
            (ns::BIDI, "bidi") => {
                self.wants_both_ways = true;
                Ok(())
            }
            (ns::STREAM, "error") => {
                let condition = element.children().next();
                let condition = condition.map(|condition| condition.name.to_string());
                Err(End::Broken(Broken::Told(condition.unwrap_or_default())))
            }
            (ns::CLIENT, _) => self.stanza(element).await,
            _ => Err(StreamError::new(StreamCondition::UnsupportedStanzaType).into()),
        }
    }

    async fn start_tls(&mut self) -> Result<(), End> {
        let link = self.link()?;
        if link.is_encrypted() || self.wants_both_ways {
            return Err(end(StreamCondition::BadFormat, "TLS comes first, and once"));
        }
        let link = self.link()?;
        link.put(&Element::new("proceed", ns::TLS)).await?;
        let Some(link) = self.link.take() else { return Err(End::Broken(Broken::Closed)) };
        self.encrypt(link.into_plain()?).await
    }

    /// Where the first byte is that of TLS, it begins at once (XEP-0368): one port serves both.
    async fn direct_tls(&mut self) -> Result<(), End> {
        let Some(link) = self.link.take() else { return Err(End::Broken(Broken::Closed)) };
        let plain = link.into_plain()?;
        let mut first = [0];
        let stop = self.servers.xmpp.shutdown.clone();
        let seen = tokio::select! {
            () = stop.cancelled() => return Err(Broken::Closed.into()),
            seen = tokio::time::timeout(NEGOTIATION, plain.peek(&mut first)) => seen,
        };
        seen.map_err(|_| Broken::TimedOut)?.map_err(Broken::from)?;
        if first[0] == TLS_HANDSHAKE {
            return self.encrypt(plain).await;
        }
        self.link = Some(Link::new(Io::Plain(plain)));
        Ok(())
    }

    async fn encrypt(&mut self, plain: TcpStream) -> Result<(), End> {
        let accepting = self.servers.acceptor.accept(plain);
        let tls = tokio::time::timeout(NEGOTIATION, accepting).await;
        let tls = tls.map_err(|_| Broken::TimedOut)?.map_err(Broken::from)?;
        self.link = Some(Link::new(Io::Tls(Box::new(TlsStream::Server(tls)))));
        // What was proven in the clear is proven no more.
        self.proven.clear();
        self.id = self.servers.xmpp.token(16);
        Ok(())
    }

    /// Its certificate says who it is (XEP-0178).
    async fn external(&mut self, auth: &Element) -> Result<(), End> {
        let said = match auth.text().trim() {
            "" | "=" => self.from.clone(),
            text => {
                let bytes = BASE64_STANDARD.decode(text).ok();
                let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
                text.and_then(|text| Some(Jid::parse(&text).ok()?.domain().to_owned()))
            }
        };
        let is_external = auth.attr("mechanism") == Some("EXTERNAL");
        let is_encrypted = self.link()?.is_encrypted();
        let certified = said.filter(|said| {
            let same = self.from.as_ref().is_none_or(|from| from == said);
            is_external && is_encrypted && same && self.is_certified(said)
        });
        let Some(domain) = certified else {
            let failure = Element::new("failure", ns::SASL)
                .with_child(Element::new("not-authorized", ns::SASL));
            return Ok(self.link()?.put(&failure).await?);
        };
        let own = self.to.clone().unwrap_or_default();
        self.admit((domain, own)).await?;
        let link = self.link()?;
        link.put(&Element::new("success", ns::SASL)).await?;
        link.restart();
        Ok(())
    }

    /// It says that it is a domain (XEP-0220, 2.1): its certificate proves it, or the server that
    /// is found under that name.
    async fn claim(&mut self, result: &Element) -> Result<(), End> {
        if !self.link()?.is_encrypted() && !self.servers.allow_plain {
            return Err(end(StreamCondition::PolicyViolation, "begin with TLS"));
        }
        let Some((theirs, ours)) = domains(result) else {
            return Err(StreamError::new(StreamCondition::ImproperAddressing).into());
        };
        let servers = self.servers.clone();
        let refusal = if !servers.xmpp.is_ours(&ours) || servers.xmpp.is_ours(&theirs) {
            Some(Condition::ItemNotFound)
        } else if !servers.may_speak(&theirs).await {
            Some(Condition::PolicyViolation)
        } else {
            None
        };
        let verdict = match refusal {
            Some(condition) => Err(condition),
            None if self.is_certified(&theirs) => Ok(true),
            None if servers.certificates_only => {
                tracing::info!(domain = theirs, "a server has no certificate for its domain");
                Err(Condition::NotAuthorized)
            }
            None => {
                let asked = (&*self.id, &*result.text());
                let asked = servers.ask_whether(self.source, &ours, &theirs, asked).await;
                asked.map_err(|error| {
                    tracing::info!(domain = theirs, %error, "a server cannot prove who it is");
                    Condition::RemoteServerTimeout
                })
            }
        };
        let (kind, text) = match verdict {
            Ok(true) => ("valid", String::new()),
            Ok(false) => ("invalid", String::new()),
            Err(condition) => {
                let error = StanzaError::new(condition).element();
                let mut text = String::new();
                crate::wire::write::write(&error, ns::CLIENT, &mut text);
                ("error", text)
            }
        };
        let attributes = [("from", &*ours), ("to", &*theirs), ("type", kind)];
        let answer = dialback("result", &attributes, &text);
        self.link()?.send(&answer).await?;
        if kind == "valid" {
            self.admit((theirs, ours)).await?;
        }
        Ok(())
    }

    /// Another server asks whether a key is ours (XEP-0220, 2.2).
    async fn answer(&mut self, verify: &Element) -> Result<(), End> {
        let Some((theirs, ours)) = domains(verify) else {
            return Err(StreamError::new(StreamCondition::ImproperAddressing).into());
        };
        let id = verify.attr("id").unwrap_or_default();
        let is_ours = self.servers.xmpp.is_ours(&ours);
        let knows = is_ours && self.servers.keys.knows(&theirs, &ours, id, verify.text().trim());
        let kind = if knows { "valid" } else { "invalid" };
        let attributes = [("from", &*ours), ("to", &*theirs), ("id", id), ("type", kind)];
        let answer = dialback("verify", &attributes, "");
        Ok(self.link()?.send(&answer).await?)
    }

    /// The pair is proven: stanzas of that domain are taken, and if both want it ours go back.
    async fn admit(&mut self, pair: Pair) -> Result<(), End> {
        if !self.servers.may_speak(&pair.0).await {
            let text = "the staff of this server does not speak with yours";
            return Err(end(StreamCondition::PolicyViolation, text));
        }
        if self.proven.len() >= PAIRS_MAX {
            return Err(end(StreamCondition::PolicyViolation, "too many domains on one stream"));
        }
        self.decisions = self.servers.xmpp.env().host_decisions.count();
        self.link()?.trust();
        let (theirs, ours) = &pair;
        if self.wants_both_ways && self.lane.is_none() {
            let back = (ours.clone(), theirs.clone());
            self.lane = self.servers.adopt_lane(&back).map(|receiver| (back, receiver));
        }
        let connections = metrics::counter!(
            "weir_xmpp_remote_connections_total", "way" => "in", "outcome" => "good"
        );
        connections.increment(1);
        self.proven.insert(pair);
        Ok(())
    }

    /// What it sends, if it is of a domain that it has proven, for the domain it has proven it to.
    async fn stanza(&mut self, element: Element) -> Result<(), End> {
        let Some(pair) = domains(&element) else {
            let text = "stanzas between servers have a from and a to";
            return Err(end(StreamCondition::ImproperAddressing, text));
        };
        if !self.proven.contains(&pair) {
            let condition = match self.proven.is_empty() {
                true => StreamCondition::NotAuthorized,
                false => StreamCondition::InvalidFrom,
            };
            return Err(end(condition, "prove first that you are the domain in from"));
        }
        let decisions = self.servers.xmpp.env().host_decisions.count();
        if decisions != self.decisions {
            self.decisions = decisions;
            if !self.servers.may_speak(&pair.0).await {
                let text = "the staff of this server does not speak with yours";
                return Err(end(StreamCondition::PolicyViolation, text));
            }
        }
        match Stanza::of(element) {
            Ok(stanza) => {
                self.servers.receive(stanza).await;
                Ok(())
            }
            Err(_) => Err(StreamError::new(StreamCondition::UnsupportedStanzaType).into()),
        }
    }
}

impl From<StreamError> for End {
    fn from(error: StreamError) -> Self {
        Self::With(error)
    }
}

fn dialback_feature() -> Element {
    Element::new("dialback", ns::DIALBACK_FEATURE)
        .with_child(Element::new("errors", ns::DIALBACK_FEATURE))
}
