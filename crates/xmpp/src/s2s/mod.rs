//! Other servers (RFC 6120; XEP-0220, XEP-0288): a lane for each pair of domains, so that one
//! neighbour's trouble stays its own.
//!
//! A server proves its domain by a certificate, or by dialback over TLS. What it sends is taken
//! only from the domains it has proven, for domains of here.

mod component;
mod dialback;
mod incoming;
mod lanes;
mod link;
mod outgoing;
mod questions;
mod resolve;
mod trust;

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Arc;

use parking_lot::Mutex;
use rustls::client::ResolvesClientCert;
use rustls::crypto::aws_lc_rs;
use rustls::server::NoServerSessionStorage;
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, ServerConfig, SignatureScheme};
use tokio_rustls::{TlsAcceptor, TlsConnector};
use weir_community::hosts;
use weir_fetch::Breaker;
use weir_http::Tls;

pub use component::serve as serve_components;
pub use incoming::serve;
pub use resolve::Finding;
pub use trust::Trust;

use crate::face::Xmpp;
use crate::wire::{Condition, Element, Stanza, ns, write};
use dialback::Keys;
use lanes::Lanes;
use questions::Questions;
use resolve::Finder;
use trust::Anybody;

/// How other servers are spoken with.
pub struct Setup {
    /// Our certificate.
    pub tls: Tls,
    /// Whom we believe to vouch for a domain.
    pub trust: Trust,
    /// How domains are found.
    pub finding: Finding,
    /// Whether only servers that staff allowed are spoken with.
    pub allowlist: bool,
    /// Whether only servers are spoken with whose certificate proves their domain; else dialback
    /// does too.
    pub certificates_only: bool,
    /// Whether TLS can be done without: for tests only.
    pub allow_plain: bool,
}

/// Speaks with other servers; clones are the same.
#[derive(Clone)]
pub struct Servers(Arc<Inner>);

/// The parts of [`Servers`].
pub struct Inner {
    xmpp: Xmpp,
    finder: Finder,
    trust: Trust,
    acceptor: TlsAcceptor,
    connector: TlsConnector,
    keys: Keys,
    lanes: Lanes,
    breakers: Mutex<HashMap<String, Breaker>>,
    questions: Questions,
    allowlist: bool,
    certificates_only: bool,
    allow_plain: bool,
}

impl Deref for Servers {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.0
    }
}

impl Servers {
    /// From now on `xmpp` speaks with other servers.
    ///
    /// # Errors
    /// When TLS refuses its settings.
    pub fn start(xmpp: &Xmpp, setup: Setup) -> Result<Self, rustls::Error> {
        let servers = Self(Arc::new(Inner {
            finder: Finder::new(setup.finding, xmpp.random().clone()),
            trust: setup.trust,
            acceptor: acceptor(&setup.tls)?,
            connector: connector(setup.tls)?,
            keys: Keys::new(xmpp.random()),
            lanes: Lanes::default(),
            breakers: Mutex::default(),
            questions: Questions::new(),
            allowlist: setup.allowlist,
            certificates_only: setup.certificates_only,
            allow_plain: setup.allow_plain,
            xmpp: xmpp.clone(),
        }));
        // The face holds this for good, as long as the process.
        let all = servers.clone();
        xmpp.set_remote(Box::new(move |_, stanza| all.send(stanza)));
        Ok(servers)
    }

    /// Whether staff lets us speak with `domain`; what cannot be asked now is no.
    async fn may_speak(&self, domain: &str) -> bool {
        // Chat writes what is not ASCII as it is read (RFC 7622, section 3.2).
        let (domain, allowlist) = (hosts::name(domain), self.allowlist);
        let asked = self.xmpp.read(move |tx, _| {
            let is_allowed = !allowlist || hosts::is_allowed(tx, &domain)?;
            Ok(is_allowed && !hosts::policy(tx, &domain)?.suspended)
        });
        asked.await.unwrap_or(false)
    }

    /// Works a stanza of another server, in its order.
    async fn receive(&self, stanza: Stanza) {
        metrics::counter!("weir_xmpp_remote_stanzas_total", "way" => "in").increment(1);
        self.xmpp.receive_remote(stanza).await;
    }
}

/// The opening tag of a stream between servers.
fn header(from: &str, to: Option<&str>, id: Option<&str>) -> String {
    let mut text = String::from("<?xml version='1.0'?><stream:stream");
    write::attribute("xmlns", ns::SERVER, &mut text);
    write::attribute("xmlns:stream", ns::STREAM, &mut text);
    write::attribute("xmlns:db", ns::DIALBACK, &mut text);
    write::attribute("from", from, &mut text);
    for (name, value) in [("to", to), ("id", id)] {
        if let Some(value) = value {
            write::attribute(name, value, &mut text);
        }
    }
    text.push_str(" version='1.0'>");
    text
}

/// An element of dialback with `inner`, which is XML. Its prefix matters to some, against all
/// rules.
fn dialback(name: &str, attributes: &[(&str, &str)], inner: &str) -> String {
    let mut out = format!("<db:{name}");
    for (name, value) in attributes {
        write::attribute(name, value, &mut out);
    }
    out.push_str(&format!(">{inner}</db:{name}>"));
    out
}

/// The domains that stand in an element.
fn domains(element: &Element) -> Option<(String, String)> {
    let domain = |name: &str| {
        let jid = crate::wire::Jid::parse(element.attr(name)?).ok()?;
        Some(jid.domain().to_owned())
    };
    Some((domain("from")?, domain("to")?))
}

/// The condition of an error for what cannot be delivered.
fn undelivered(is_unknown: bool) -> Condition {
    if is_unknown { Condition::RemoteServerNotFound } else { Condition::RemoteServerTimeout }
}

fn acceptor(tls: &Tls) -> Result<TlsAcceptor, rustls::Error> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(Anybody::new())
        .with_cert_resolver(tls.certificates());
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn connector(tls: Tls) -> Result<TlsConnector, rustls::Error> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Anybody::new())
        .with_client_cert_resolver(Arc::new(Own(tls)));
    Ok(TlsConnector::from(Arc::new(config)))
}

/// Shows our certificate to whoever asks for it.
struct Own(Tls);

impl std::fmt::Debug for Own {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Own")
    }
}

impl ResolvesClientCert for Own {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(self.0.current())
    }

    fn has_certs(&self) -> bool {
        true
    }
}
