//! To another server: found, encrypted, proven, and then what waits for it.

use std::net::IpAddr;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::sync::mpsc::Receiver;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsStream;
use weir_community::hosts;

use super::lanes::{Pair, Waiting};
use super::link::{Broken, Io, Link};
use super::resolve::{NotFound, Place};
use super::{Servers, dialback, domains, header};
use crate::wire::{Element, Frame, Stanza, ns, write};

/// How long a connection to one place may take.
const CONNECT: Duration = Duration::from_secs(10);
/// How long it may take until we have proven who we are.
const NEGOTIATION: Duration = Duration::from_secs(40);
/// How long a server may take to say whether a key is its own.
const QUESTION: Duration = Duration::from_secs(15);
/// How long a stream stays open when nothing is to be sent.
const IDLE: Duration = Duration::from_secs(600);
/// Written at once, in bytes, about.
const WRITE_BYTES: usize = 64 * 1024;

/// Why a server is not reached.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unreached {
    #[error(transparent)]
    NotFound(#[from] NotFound),
    #[error(transparent)]
    Broken(#[from] Broken),
    #[error("the staff of this server does not speak with that one")]
    Forbidden,
}

/// A stream on which we are known.
struct Known {
    link: Link,
    /// Whether the other side sends on it too.
    is_mutual: bool,
}

/// What a stream offers, and its id.
struct Opened {
    id: String,
    features: Element,
}

impl Servers {
    /// Sends what comes into a lane, until nothing has for a while.
    pub(super) async fn run_lane(self, pair: Pair, mut receiver: Receiver<Waiting>) {
        let mut unsent = Vec::new();
        let mut is_retry = false;
        loop {
            if unsent.is_empty() {
                match timeout(IDLE, receiver.recv()).await {
                    Ok(Some(waiting)) => unsent.push(waiting),
                    Ok(None) => return,
                    Err(_) if self.close_lane(&pair, &receiver) => return,
                    Err(_) => continue,
                }
            }
            let (is_unknown, why) = match self.reach(&pair).await {
                Ok(known) => {
                    let Err(broken) = self.pump(&pair, known, &mut receiver, &mut unsent).await;
                    tracing::debug!(?pair, %broken, "a stream to another server ended");
                    // What was on its way when it broke gets one more connection.
                    is_retry = !unsent.is_empty() && !is_retry;
                    if unsent.is_empty() || is_retry {
                        continue;
                    }
                    (false, broken.to_string())
                }
                Err((is_unknown, why)) => (is_unknown, why),
            };
            self.bounce_all(&mut receiver, std::mem::take(&mut unsent), is_unknown, &why);
            if self.close_lane(&pair, &receiver) {
                return;
            }
        }
    }

    /// A stream to the other domain of `pair`, or whether it is unknown and why there is none.
    async fn reach(&self, pair: &Pair) -> Result<Known, (bool, String)> {
        let (from, to) = pair;
        let entry = self.enter(to).map_err(|wait_ms| {
            (false, format!("that server does not answer: try again in {} s", wait_ms / 1_000))
        })?;
        let reached = match timeout(NEGOTIATION, self.connect(from, to)).await {
            Ok(reached) => reached,
            Err(_) => Err(Broken::TimedOut.into()),
        };
        self.left(to, entry, reached.is_ok());
        let outcome = if reached.is_ok() { "good" } else { "failed" };
        let name = "weir_xmpp_remote_connections_total";
        metrics::counter!(name, "way" => "out", "outcome" => outcome).increment(1);
        reached.map_err(|error| {
            tracing::info!(from, to, %error, "another server is not reached");
            let is_unknown = matches!(error, Unreached::NotFound(_) | Unreached::Forbidden);
            (is_unknown, error.to_string())
        })
    }

    async fn connect(&self, from: &str, to: &str) -> Result<Known, Unreached> {
        if !self.may_speak(to).await {
            return Err(Unreached::Forbidden);
        }
        let mut link = self.link_to(to).await?;
        loop {
            let opened = self.open(&mut link, from, to).await?;
            if !link.is_encrypted() && opened.features.has("starttls", ns::TLS) {
                link = self.start_tls(link, to).await?;
                continue;
            }
            if !link.is_encrypted() && !self.allow_plain {
                return Err(Broken::Refused("the server does not offer TLS").into());
            }
            return Ok(self.prove(link, from, to, opened).await?);
        }
    }

    /// A connection to the first place of the domain that takes one.
    async fn link_to(&self, to: &str) -> Result<Link, Unreached> {
        let mut failed = Unreached::NotFound(NotFound::Unknown);
        for place in self.finder.places(to).await? {
            match timeout(CONNECT, self.link_to_place(place, to)).await {
                Ok(Ok(link)) => return Ok(link),
                Ok(Err(broken)) => failed = broken.into(),
                Err(_) => failed = Broken::TimedOut.into(),
            }
        }
        Err(failed)
    }

    async fn link_to_place(&self, place: Place, to: &str) -> Result<Link, Broken> {
        let io = TcpStream::connect(place.address).await?;
        io.set_nodelay(true)?;
        if place.is_direct_tls { self.encrypt(io, to).await } else { Ok(Link::new(Io::Plain(io))) }
    }

    /// RFC 6120, section 5.4.
    async fn start_tls(&self, mut link: Link, to: &str) -> Result<Link, Broken> {
        link.put(&Element::new("starttls", ns::TLS)).await?;
        if !link.element().await?.is("proceed", ns::TLS) {
            return Err(Broken::Refused("the server takes back that it offers TLS"));
        }
        self.encrypt(link.into_plain()?, to).await
    }

    async fn encrypt(&self, plain: TcpStream, to: &str) -> Result<Link, Broken> {
        let name = ServerName::try_from(hosts::name(to));
        let name = name.map_err(|_| Broken::Refused("the domain cannot stand in TLS"))?;
        let tls = self.connector.connect(name, plain).await?;
        Ok(Link::new(Io::Tls(Box::new(TlsStream::Client(tls)))))
    }

    /// Opens a stream, and reads what it offers.
    async fn open(&self, link: &mut Link, from: &str, to: &str) -> Result<Opened, Broken> {
        link.send(&header(from, Some(to), None)).await?;
        let opened = link.header().await?;
        let id = opened.attr("id").unwrap_or_default().to_owned();
        let features = match opened.attr("version") {
            Some(_) => link.element().await?,
            None => Element::new("features", ns::STREAM),
        };
        Ok(Opened { id, features })
    }

    /// Proves to be `from`: by our certificate where that is believed, else by dialback.
    async fn prove(
        &self,
        mut link: Link,
        from: &str,
        to: &str,
        opened: Opened,
    ) -> Result<Known, Broken> {
        let mut opened = opened;
        // What is sent there is for that domain alone if its certificate says so; else it is as
        // safe as the name system, which dialback leans on too.
        let is_proven = self.trust.proves(link.certificates(), to);
        if self.certificates_only && !is_proven {
            return Err(Broken::Refused(
                "its certificate does not prove its domain, as ours wants",
            ));
        }
        let is_mutual = opened.features.has("bidi", ns::BIDI_FEATURE) && is_proven;
        if is_mutual {
            link.put(&Element::new("bidi", ns::BIDI)).await?;
        }
        let mechanisms = opened.features.child("mechanisms", ns::SASL);
        let takes_certificate = mechanisms.is_some_and(|mechanisms| {
            mechanisms.children().any(|mechanism| mechanism.text() == "EXTERNAL")
        });
        if takes_certificate {
            let message = BASE64_STANDARD.encode(from);
            let auth = Element::new("auth", ns::SASL).with_attr("mechanism", "EXTERNAL");
            link.put(&auth.with_text(message)).await?;
            if link.element().await?.is("success", ns::SASL) {
                link.restart();
                self.open(&mut link, from, to).await?;
                link.trust();
                return Ok(Known { link, is_mutual });
            }
        }
        let id = std::mem::take(&mut opened.id);
        let key = self.keys.make(to, from, &id);
        link.send(&dialback("result", &[("from", from), ("to", to)], &key)).await?;
        loop {
            let answer = link.element().await?;
            if !answer.is("result", ns::DIALBACK) {
                continue;
            }
            return match answer.attr("type") {
                Some("valid") => {
                    link.trust();
                    Ok(Known { link, is_mutual })
                }
                _ => Err(Broken::Refused("that server does not believe who we are")),
            };
        }
    }

    /// Sends what waits on a stream, and takes what comes on it, until it ends.
    async fn pump(
        &self,
        pair: &Pair,
        mut known: Known,
        receiver: &mut Receiver<Waiting>,
        unsent: &mut Vec<Waiting>,
    ) -> Result<std::convert::Infallible, Broken> {
        let mut heard = Instant::now();
        loop {
            if !unsent.is_empty() {
                send_all(&mut known.link, receiver, unsent).await?;
                heard = Instant::now();
            }
            tokio::select! {
                biased;
                () = self.xmpp.shutdown.cancelled() => {
                    known.link.end(None).await;
                    return Err(Broken::Closed);
                }
                frame = known.link.next() => match frame? {
                    Frame::Element(element) if known.is_mutual => {
                        heard = Instant::now();
                        self.take_mutual(pair, element).await?;
                    }
                    Frame::Element(element) if element.is("error", ns::STREAM) => {
                        return Err(Broken::Told(first_name(&element)));
                    }
                    Frame::Close => {
                        known.link.end(None).await;
                        return Err(Broken::Closed);
                    }
                    _ => {}
                },
                waiting = receiver.recv() => match waiting {
                    Some(waiting) => unsent.push(waiting),
                    None => return Err(Broken::Closed),
                },
                () = tokio::time::sleep_until(heard + IDLE) => {
                    known.link.end(None).await;
                    return Err(Broken::Closed);
                }
            }
        }
    }

    /// A stanza that the other server sends on our stream (XEP-0288): of its domain, for ours.
    async fn take_mutual(&self, (own, other): &Pair, element: Element) -> Result<(), Broken> {
        if element.is("error", ns::STREAM) {
            return Err(Broken::Told(first_name(&element)));
        }
        if element.ns != ns::CLIENT {
            return Ok(());
        }
        let is_theirs = domains(&element).is_some_and(|(from, to)| from == *other && to == *own);
        match Stanza::of(element) {
            Ok(stanza) if is_theirs => {
                self.receive(stanza).await;
                Ok(())
            }
            _ => Err(Broken::Refused("the server sent for domains that it has not proven")),
        }
    }

    /// Asks the server of `domain` whether the key that somebody at `source` gave in its name, for
    /// the stream of this id, is its own (XEP-0220, 2.3).
    pub(super) async fn ask_whether(
        &self,
        source: IpAddr,
        own: &str,
        domain: &str,
        asked: (&str, &str),
    ) -> Result<bool, Unreached> {
        let _turn = self.questions.turn(source, domain).await.ok_or(Broken::TimedOut)?;
        let silent = |_| Broken::Refused("that server has not answered for a while");
        let entry = self.enter(domain).map_err(silent)?;
        let answer = match timeout(QUESTION, self.ask(own, domain, asked)).await {
            Ok(answer) => answer,
            Err(_) => Err(Broken::TimedOut.into()),
        };
        self.left(domain, entry, answer.is_ok());
        answer
    }

    async fn ask(
        &self,
        own: &str,
        domain: &str,
        (id, key): (&str, &str),
    ) -> Result<bool, Unreached> {
        let mut link = self.link_to(domain).await?;
        loop {
            let opened = self.open(&mut link, own, domain).await?;
            if link.is_encrypted() || !opened.features.has("starttls", ns::TLS) {
                break;
            }
            link = self.start_tls(link, domain).await?;
        }
        if !link.is_encrypted() && !self.allow_plain {
            return Err(Broken::Refused("the server does not offer TLS").into());
        }
        let asked = [("from", own), ("to", domain), ("id", id)];
        let mut inner = String::new();
        write::escape(key, &mut inner);
        link.send(&dialback("verify", &asked, &inner)).await?;
        loop {
            let answer = link.element().await?;
            if answer.is("verify", ns::DIALBACK) && answer.attr("id") == Some(id) {
                link.end(None).await;
                return Ok(answer.attr("type") == Some("valid"));
            }
        }
    }
}

/// Writes what waits, as much as goes in one write; what was not written stays in `unsent`.
async fn send_all(
    link: &mut Link,
    receiver: &mut Receiver<Waiting>,
    unsent: &mut Vec<Waiting>,
) -> Result<(), Broken> {
    let mut text: String = unsent.iter().map(|waiting| waiting.text.as_str()).collect();
    while text.len() < WRITE_BYTES
        && let Ok(waiting) = receiver.try_recv()
    {
        text.push_str(&waiting.text);
        unsent.push(waiting);
    }
    link.send(&text).await?;
    let count = unsent.len() as u64;
    metrics::counter!("weir_xmpp_remote_stanzas_total", "way" => "out").increment(count);
    unsent.clear();
    Ok(())
}

fn first_name(element: &Element) -> String {
    element.children().next().map(|child| child.name.to_string()).unwrap_or_default()
}
