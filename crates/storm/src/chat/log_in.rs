//! How somebody registers and logs in: RFC 6120 §4 to §7, XEP-0077.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use super::link::Link;
use super::scram::{self, Keys};
use super::wire::{attribute, name, text_of};
use super::{Mechanism, fast};

/// Where to go and how.
#[derive(Debug, Clone)]
pub(super) struct Door {
    pub(super) address: SocketAddr,
    pub(super) domain: String,
    pub(super) mechanism: Mechanism,
    pub(super) tls: bool,
    pub(super) password: String,
}

/// By what somebody proves who it is.
pub(super) enum Credential {
    /// The password itself.
    Password,
    /// What is derived of it, and the name of the mechanism.
    Keys(Keys, &'static str),
    /// A token of an earlier log-in.
    Token(String),
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

    /// What `user` proves by who it is: keys are derived from what the server says first, a token
    /// is got by the password, and used once, as it has a place of its own from then on.
    pub(super) async fn credential(&self, user: &str) -> Result<Credential> {
        let (hash, mechanism) = match (self.mechanism, self.mechanism.scram()) {
            (Mechanism::Fast, _) => return self.token(user).await,
            (_, None) => return Ok(Credential::Password),
            (_, Some(scram)) => scram,
        };
        let (mut link, _) = self.open().await?;
        let first = format!("n,,{}", scram::first(user, "storm"));
        authenticate(&mut link, mechanism, &first).await?;
        let server_first = decoded(&link.hear().await?)?;
        // Deriving takes long: nobody waits for us meanwhile, nor do those who ask beside us.
        link.say("</stream:stream>").await?;
        drop(link);
        let password = self.password.clone();
        let derive = move || Keys::derive(hash, &password, &server_first);
        Ok(Credential::Keys(tokio::task::spawn_blocking(derive).await??, mechanism))
    }

    async fn token(&self, user: &str) -> Result<Credential> {
        let (mut link, _) = self.open().await?;
        let token = fast::token(&mut link, user, &self.password).await?;
        link.say("</stream:stream>").await?;
        let (mut link, _) = self.open().await?;
        fast::enter(&mut link, user, &token).await?;
        link.say("</stream:stream>").await?;
        Ok(Credential::Token(token))
    }

    async fn prove_by_keys(
        &self,
        link: &mut Link,
        user: &str,
        keys: &Keys,
        mechanism: &str,
    ) -> Result<()> {
        let first = scram::first(user, &format!("{user}storm"));
        authenticate(link, mechanism, &format!("n,,{first}")).await?;
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

    /// Proves who this is and takes a resource. The address.
    async fn enter(&self, link: &mut Link, user: &str, by: &Credential) -> Result<String> {
        match by {
            Credential::Token(token) => return fast::enter(link, user, token).await,
            Credential::Keys(keys, mechanism) => {
                self.prove_by_keys(link, user, keys, mechanism).await?;
            }
            Credential::Password => {
                authenticate(link, "PLAIN", &format!("\0{user}\0{}", self.password)).await?;
                let answer = link.hear().await?;
                ensure!(name(&answer) == "success", "{user} was not let in: {answer}");
            }
        }
        let features = self.stream(link).await?;
        let bind = "<iq type='set' id='b'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'>\
            <resource>storm</resource></bind></iq>";
        link.say(bind).await?;
        let answer = link.hear().await?;
        let jid = text_of(&answer, "jid").with_context(|| format!("not bound: {answer}"))?;
        // Servers of before RFC 6121 want it.
        if features.contains("xmpp-session") && !features.contains("<optional") {
            link.say(
                "<iq type='set' id='s'><session xmlns='urn:ietf:params:xml:ns:xmpp-session'/></iq>",
            )
            .await?;
        }
        Ok(jid.to_owned())
    }

    /// Logs in: from the connection to the roster and the own presence, timed from `from`.
    pub(super) async fn log_in(
        &self,
        user: &str,
        by: &Credential,
        from: Instant,
    ) -> Result<Arrived> {
        let (mut link, _) = self.open().await?;
        let jid = self.enter(&mut link, user, by).await?;
        let bound = from.elapsed();
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

async fn authenticate(link: &mut Link, mechanism: &str, initial: &str) -> Result<()> {
    let auth = format!(
        "<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='{mechanism}'>{}</auth>",
        BASE64.encode(initial)
    );
    link.say(&auth).await
}

fn decoded(element: &str) -> Result<String> {
    let text = text_of(element, name(element)).unwrap_or_default();
    Ok(String::from_utf8(BASE64.decode(text.trim())?)?)
}
