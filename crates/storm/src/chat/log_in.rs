//! How somebody registers and logs in: RFC 6120 §4 to §7, XEP-0077.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use super::Mechanism;
use super::link::Link;
use super::scram::{self, Keys};
use super::wire::{attribute, name, text_of};

/// Where to go and how.
#[derive(Debug, Clone)]
pub(super) struct Door {
    pub(super) address: SocketAddr,
    pub(super) domain: String,
    pub(super) mechanism: Mechanism,
    pub(super) tls: bool,
    pub(super) password: String,
}

/// Somebody who is in, and how long that took.
pub(super) struct Arrived {
    pub(super) link: Link,
    pub(super) jid: String,
    /// Until a resource was bound.
    pub(super) bound: Duration,
    /// Until the roster was there and the own presence came back.
    pub(super) ready: Duration,
    pub(super) contacts: usize,
    /// Presence of others that came meanwhile.
    pub(super) presences: u64,
}

impl Door {
    /// Opens a stream and reads what is offered.
    async fn stream(&self, link: &mut Link) -> Result<String> {
        let open = format!(
            "<stream:stream xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams' \
             to='{}' version='1.0'>",
            self.domain
        );
        link.say(&open).await?;
        loop {
            let element = link.hear().await?;
            match name(&element) {
                "stream:stream" => {}
                "stream:features" => return Ok(element),
                _ => bail!("features were due, but this came: {element}"),
            }
        }
    }

    /// A stream that is encrypted where it has to be.
    async fn open(&self) -> Result<(Link, String)> {
        let mut link = Link::open(self.address).await?;
        let mut features = self.stream(&mut link).await?;
        if self.tls {
            link.say("<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>").await?;
            let answer = link.hear().await?;
            ensure!(name(&answer) == "proceed", "no TLS: {answer}");
            link = link.start_tls(&self.domain).await?;
            features = self.stream(&mut link).await?;
        }
        Ok((link, features))
    }

    /// Makes the account `user`, if it is not there.
    pub(super) async fn register(&self, user: &str) -> Result<()> {
        let (mut link, _) = self.open().await?;
        let wish = format!(
            "<iq type='set' id='r'><query xmlns='jabber:iq:register'><username>{user}</username>\
             <password>{}</password></query></iq>",
            self.password
        );
        link.say(&wish).await?;
        let answer = link.hear().await?;
        let done = attribute(&answer, "type") == Some("result") || answer.contains("<conflict");
        ensure!(done, "{user} could not register: {answer}");
        link.say("</stream:stream>").await
    }

    /// The keys of `user`, derived from what the server says first.
    pub(super) async fn keys(&self, user: &str) -> Result<Option<Keys>> {
        let Some(hash) = self.mechanism.hash() else { return Ok(None) };
        let (mut link, _) = self.open().await?;
        let first = format!("n,,{}", scram::first(user, "storm"));
        self.authenticate(&mut link, &first).await?;
        let server_first = decoded(&link.hear().await?)?;
        // Deriving takes long: nobody waits for us meanwhile, nor do those who ask beside us.
        link.say("</stream:stream>").await?;
        drop(link);
        let password = self.password.clone();
        let derive = move || Keys::derive(hash, &password, &server_first);
        Ok(Some(tokio::task::spawn_blocking(derive).await??))
    }

    async fn authenticate(&self, link: &mut Link, initial: &str) -> Result<()> {
        let auth = format!(
            "<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='{}'>{}</auth>",
            self.mechanism.name(),
            BASE64.encode(initial)
        );
        link.say(&auth).await
    }

    async fn prove(&self, link: &mut Link, user: &str, keys: Option<&Keys>) -> Result<()> {
        let Some(keys) = keys else {
            self.authenticate(link, &format!("\0{user}\0{}", self.password)).await?;
            let answer = link.hear().await?;
            ensure!(name(&answer) == "success", "{user} was not let in: {answer}");
            return Ok(());
        };
        let first = scram::first(user, &format!("{user}storm"));
        self.authenticate(link, &format!("n,,{first}")).await?;
        let challenge = link.hear().await?;
        let (last, proof) = keys.last(&first, &decoded(&challenge)?)?;
        let response = format!(
            "<response xmlns='urn:ietf:params:xml:ns:xmpp-sasl'>{}</response>",
            BASE64.encode(last)
        );
        link.say(&response).await?;
        let answer = link.hear().await?;
        ensure!(name(&answer) == "success", "{user} was not let in: {answer}");
        ensure!(decoded(&answer)? == proof, "the server does not know the password of {user}");
        Ok(())
    }

    /// Logs in: from the connection to the roster and the own presence, timed from `from`.
    pub(super) async fn log_in(
        &self,
        user: &str,
        keys: Option<&Keys>,
        from: Instant,
    ) -> Result<Arrived> {
        let (mut link, _) = self.open().await?;
        self.prove(&mut link, user, keys).await?;
        let features = self.stream(&mut link).await?;
        let bind = "<iq type='set' id='b'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'>\
            <resource>storm</resource></bind></iq>";
        link.say(bind).await?;
        let answer = link.hear().await?;
        let jid = text_of(&answer, "jid").with_context(|| format!("not bound: {answer}"))?;
        let jid = jid.to_owned();
        let bound = from.elapsed();
        // Servers of before RFC 6121 want it.
        if features.contains("xmpp-session") && !features.contains("<optional") {
            link.say(
                "<iq type='set' id='s'><session xmlns='urn:ietf:params:xml:ns:xmpp-session'/></iq>",
            )
            .await?;
        }
        let roster = "<iq type='get' id='o'><query xmlns='jabber:iq:roster'/></iq><presence/>";
        link.say(roster).await?;
        let mut arrived =
            Arrived { link, jid, bound, ready: Duration::ZERO, contacts: 0, presences: 0 };
        let (mut has_roster, mut is_seen) = (false, false);
        while !(has_roster && is_seen) {
            let element = arrived.link.hear().await?;
            match (name(&element), attribute(&element, "id")) {
                ("iq", Some("o")) => {
                    has_roster = true;
                    arrived.contacts = element.matches("<item").count();
                }
                ("presence", _) if attribute(&element, "from") == Some(&*arrived.jid) => {
                    is_seen = true;
                }
                ("presence", _) => arrived.presences += 1,
                _ => {}
            }
        }
        arrived.ready = from.elapsed();
        Ok(arrived)
    }
}

fn decoded(element: &str) -> Result<String> {
    let text = text_of(element, name(element)).unwrap_or_default();
    Ok(String::from_utf8(BASE64.decode(text.trim())?)?)
}
