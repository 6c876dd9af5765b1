//! Services elsewhere that apps need for calls (XEP-0215): STUN and TURN, as configured. For TURN
//! each person gets a name and password that hold for a day, made of a secret which the TURN server
//! knows too (as its `use-auth-secret`).

use std::fmt;

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use weir_base::Secret;

use super::{Answer, Asked};
use crate::wire::{Condition, Element, StanzaError, ns};

/// How long a name and password hold, in s.
const LIFE_S: i64 = 86_400;

/// The configured services.
#[derive(Debug, Clone)]
pub struct Externals {
    /// The services, in the order of preference.
    pub services: Vec<External>,
    /// What is shared with the TURN servers; empty where they ask for nothing.
    pub secret: Secret<String>,
}

impl Default for Externals {
    fn default() -> Self {
        Self { services: Vec::new(), secret: Secret::new(String::new()) }
    }
}

/// A service elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct External {
    /// `stun`, `stuns`, `turn` or `turns`.
    pub kind: String,
    /// Where.
    pub host: String,
    /// At which port.
    pub port: u16,
    /// `udp` or `tcp`.
    pub transport: String,
}

impl fmt::Display for External {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, host, port, transport } = self;
        match host.contains(':') {
            true => write!(f, "{kind}:[{host}]:{port}?transport={transport}"),
            false => write!(f, "{kind}:{host}:{port}?transport={transport}"),
        }
    }
}

impl External {
    /// Reads `turn:turn.example.org:3478?transport=udp` (RFC 7064, RFC 7065).
    ///
    /// # Errors
    /// What is expected.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "expected an address like \"stun:HOST:PORT\" or \
                 \"turn:HOST:PORT?transport=udp\", found \"{text}\""
            )
        };
        let (kind, rest) = text.split_once(':').ok_or_else(wrong)?;
        let is_secure = kind.ends_with('s');
        if !matches!(kind, "stun" | "stuns" | "turn" | "turns") {
            return Err(wrong());
        }
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let transport = match query {
            "" if is_secure => "tcp",
            "" | "transport=udp" => "udp",
            "transport=tcp" => "tcp",
            _ => return Err(wrong()),
        };
        let (host, port) = match place.rsplit_once(':') {
            Some((host, port)) if !host.is_empty() && !host.ends_with(':') => {
                (host, port.parse().map_err(|_| wrong())?)
            }
            _ => (place, if is_secure { 5349 } else { 3478 }),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() || port == 0 || host.contains(char::is_whitespace) {
            return Err(wrong());
        }
        let (kind, host, transport) = (kind.to_owned(), host.to_owned(), transport.to_owned());
        Ok(Self { kind, host, port, transport })
    }

    fn element(&self, credentials: Option<&Credentials>) -> Element {
        let mut service = Element::new("service", ns::EXT_DISCO)
            .with_attr("type", self.kind.as_str())
            .with_attr("host", self.host.as_str())
            .with_attr("port", self.port.to_string())
            .with_attr("transport", self.transport.as_str());
        if let Some(given) = credentials.filter(|_| self.kind.starts_with("turn")) {
            service = service
                .with_attr("username", given.username.as_str())
                .with_attr("password", given.password.as_str())
                .with_attr("expires", given.expires.as_str())
                .with_attr("restricted", "true");
        }
        service
    }
}

struct Credentials {
    username: String,
    password: String,
    expires: String,
}

impl Credentials {
    fn of(asked: &Asked, secret: &str) -> Option<Self> {
        if secret.is_empty() {
            return None;
        }
        let until = asked.xmpp.env().clock.now().plus_ms(LIFE_S * 1_000);
        let name = asked.from.local().unwrap_or_default();
        let username = format!("{}:{name}", until.as_ms() / 1_000);
        // SHA-1 is what TURN servers take here; the secret is not weakened by it.
        let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, secret.as_bytes());
        let password = BASE64_STANDARD.encode(hmac::sign(&key, username.as_bytes()));
        Some(Self { username, password, expires: until.to_string() })
    }
}

/// `<services/>`
pub async fn services(asked: Asked) -> Answer {
    asked.own_account()?;
    let externals = asked.xmpp.externals();
    let wanted = asked.payload.attr("type");
    let credentials = Credentials::of(&asked, externals.secret.expose());
    let fits = |one: &&External| wanted.is_none_or(|wanted| one.kind == wanted);
    let services = externals.services.iter().filter(fits);
    let services = services.map(|one| one.element(credentials.as_ref())).collect::<Vec<_>>();
    let mut answer = Element::new("services", ns::EXT_DISCO);
    if let Some(wanted) = wanted {
        answer.set_attr("type", wanted);
    }
    Ok(Some(answer.with_children(services)))
}

/// `<credentials/>`
pub async fn credentials(asked: Asked) -> Answer {
    asked.own_account()?;
    let externals = asked.xmpp.externals();
    let credentials = Credentials::of(&asked, externals.secret.expose());
    let named = asked.payload.child("service", ns::EXT_DISCO);
    let is_named = |one: &&External| {
        named.is_some_and(|named| {
            let port = named.attr("port").and_then(|port| port.parse().ok());
            named.attr("host") == Some(&one.host)
                && named.attr("type") == Some(&one.kind)
                && port.is_none_or(|port: u16| port == one.port)
        })
    };
    let Some(service) = externals.services.iter().find(is_named) else {
        let text = "there is no such service: ask for all of them first";
        return Err(StanzaError::new(Condition::ItemNotFound).text(text));
    };
    let service = service.element(credentials.as_ref());
    Ok(Some(Element::new("credentials", ns::EXT_DISCO).with_child(service)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_are_read_as_they_are_written_everywhere() {
        let read = |text: &str| External::parse(text).unwrap();
        let turn = read("turn:turn.example.org:3000?transport=tcp");
        assert_eq!((turn.kind.as_str(), turn.port, turn.transport.as_str()), ("turn", 3000, "tcp"));
        assert_eq!(read("stun:stun.example.org").port, 3478);
        assert_eq!(read("turns:turn.example.org").port, 5349);
        assert_eq!(read(&turn.to_string()), turn);
        assert_eq!(read("stun:[2001:db8::1]:3478").host, "2001:db8::1");
        for wrong in ["", "turn", "http://turn", "turn:", "turn:host:x", "turn:h?transport=x"] {
            assert!(External::parse(wrong).is_err(), "{wrong}");
        }
    }
}
