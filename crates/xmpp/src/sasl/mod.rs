//! SASL mechanisms (RFC 4422) as the server has them: pure steps from bytes to bytes. Whoever
//! drives them looks names, passwords and tokens up, and frames the bytes in XML.

mod binding;
mod ht;
mod oauth;
mod plain;
mod scram;

pub use binding::{Binding, Bindings, endpoint};
pub use ht::{Ht, answer as ht_answer, parse as parse_ht, proves as ht_proves};
pub use oauth::{Bearer, parse as parse_oauth, refusal as oauth_refusal};
pub use plain::{Plain, parse as parse_plain};
pub use scram::{ClientFirst, Waiting};

use weir_community::users::scram::Hash;

/// The longest message of a client, in bytes after base64.
pub const MESSAGE_BYTES_MAX: usize = 4 * 1_024;

/// A mechanism that clients may log in by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mechanism {
    /// A password that is proven, not sent (RFC 5802, RFC 7677).
    Scram {
        /// Its hash.
        hash: Hash,
        /// Whether it is bound to the TLS connection: `-PLUS`.
        plus: bool,
    },
    /// A password as it is (RFC 4616).
    Plain,
    /// An app's token (RFC 7628).
    OAuthBearer,
    /// Who one is, the TLS certificate says (RFC 4422, appendix A).
    External,
    /// A token of an earlier log-in (XEP-0484).
    Ht(Ht),
}

impl Mechanism {
    /// All, best first.
    pub const ALL: [Self; 12] = [
        Self::External,
        Self::Scram { hash: Hash::Sha512, plus: true },
        Self::Scram { hash: Hash::Sha256, plus: true },
        Self::Scram { hash: Hash::Sha1, plus: true },
        Self::Scram { hash: Hash::Sha512, plus: false },
        Self::Scram { hash: Hash::Sha256, plus: false },
        Self::Scram { hash: Hash::Sha1, plus: false },
        Self::Plain,
        Self::OAuthBearer,
        Self::Ht(Ht::Exporter),
        Self::Ht(Ht::Endpoint),
        Self::Ht(Ht::Unbound),
    ];

    /// Its registered name.
    pub fn name(self) -> &'static str {
        match self {
            Self::External => "EXTERNAL",
            Self::Scram { hash: Hash::Sha512, plus: true } => "SCRAM-SHA-512-PLUS",
            Self::Scram { hash: Hash::Sha256, plus: true } => "SCRAM-SHA-256-PLUS",
            Self::Scram { hash: Hash::Sha1, plus: true } => "SCRAM-SHA-1-PLUS",
            Self::Scram { hash: Hash::Sha512, plus: false } => "SCRAM-SHA-512",
            Self::Scram { hash: Hash::Sha256, plus: false } => "SCRAM-SHA-256",
            Self::Scram { hash: Hash::Sha1, plus: false } => "SCRAM-SHA-1",
            Self::Plain => "PLAIN",
            Self::OAuthBearer => "OAUTHBEARER",
            Self::Ht(Ht::Exporter) => "HT-SHA-256-EXPR",
            Self::Ht(Ht::Endpoint) => "HT-SHA-256-ENDP",
            Self::Ht(Ht::Unbound) => "HT-SHA-256-NONE",
        }
    }

    /// The mechanism of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mechanism| mechanism.name() == name)
    }
}

/// What a connection is offered: decided by how well it is protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offer {
    /// Whether nobody can listen: TLS, or a test on loopback.
    pub is_private: bool,
    /// By what log-ins can be bound to the connection.
    pub bindings: Bindings,
}

impl Offer {
    /// The mechanisms with which a session can begin, best first. Nothing is offered to be heard
    /// by others.
    pub fn mechanisms(&self) -> impl Iterator<Item = Mechanism> + '_ {
        Mechanism::ALL.into_iter().filter(|mechanism| match mechanism {
            Mechanism::Scram { plus: true, .. } => self.is_private && !self.bindings.is_empty(),
            Mechanism::Scram { plus: false, .. } | Mechanism::Plain | Mechanism::OAuthBearer => {
                self.is_private
            }
            Mechanism::External | Mechanism::Ht(_) => false,
        })
    }

    /// The mechanisms for tokens of earlier log-ins (XEP-0484), best first.
    pub fn token_mechanisms(&self) -> impl Iterator<Item = Mechanism> + '_ {
        Mechanism::ALL.into_iter().filter(|mechanism| match mechanism {
            Mechanism::Ht(Ht::Unbound) => self.is_private,
            Mechanism::Ht(Ht::Exporter) => self.bindings.has(Binding::Exporter),
            Mechanism::Ht(Ht::Endpoint) => self.bindings.has(Binding::Endpoint),
            _ => false,
        })
    }

    /// Whether `mechanism` is among those offered.
    pub fn has(&self, mechanism: Mechanism) -> bool {
        self.mechanisms().chain(self.token_mechanisms()).any(|offered| offered == mechanism)
    }

    /// The text whose hash protects what was offered against being changed on its way
    /// (XEP-0474, 6.1).
    pub(crate) fn protected(&self) -> String {
        let mut text = sorted(self.mechanisms().map(Mechanism::name));
        if !self.bindings.is_empty() {
            text.push('\u{1f}');
            text.push_str(&sorted(self.bindings.iter().map(Binding::name)));
        }
        text
    }
}

fn sorted<'n>(names: impl Iterator<Item = &'n str>) -> String {
    let mut names: Vec<&str> = names.collect();
    names.sort_unstable();
    names.join("\u{1e}")
}

/// Why a log-in failed: the conditions of RFC 6120, 6.5, and words for people.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{condition}: {text}")]
pub struct Failure {
    /// The condition, which is the name of its element.
    pub condition: &'static str,
    /// What to do.
    pub text: String,
}

impl Failure {
    /// A failure with words.
    pub fn new(condition: &'static str, text: impl Into<String>) -> Self {
        Self { condition, text: text.into() }
    }

    /// What is said whoever or whatever was wrong.
    pub fn wrong() -> Self {
        Self::new("not-authorized", "The name or the password is wrong.")
    }

    /// A message that is not what the mechanism says.
    pub fn malformed(what: &str) -> Self {
        Self::new("malformed-request", what)
    }

    /// A mechanism that was not offered.
    pub fn mechanism() -> Self {
        Self::new("invalid-mechanism", "Use one of the mechanisms that are offered.")
    }

    /// Somebody who wants to act as somebody else.
    pub fn authzid() -> Self {
        Self::new("invalid-authzid", "One can log in only as oneself.")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mechanism_has_a_name_of_its_own() {
        for mechanism in Mechanism::ALL {
            assert_eq!(Mechanism::parse(mechanism.name()), Some(mechanism));
        }
    }

    #[test]
    fn nothing_is_offered_where_others_may_listen() {
        let offer = Offer { is_private: false, bindings: Bindings::default() };
        assert_eq!(offer.mechanisms().chain(offer.token_mechanisms()).count(), 0);
    }

    #[test]
    fn what_needs_a_binding_is_offered_only_with_one() {
        let offer = Offer { is_private: true, bindings: Bindings::default() };
        let names: Vec<_> = offer.mechanisms().map(Mechanism::name).collect();
        let expected = ["SCRAM-SHA-512", "SCRAM-SHA-256", "SCRAM-SHA-1", "PLAIN", "OAUTHBEARER"];
        assert_eq!(names, expected);
        let tokens: Vec<_> = offer.token_mechanisms().map(Mechanism::name).collect();
        assert_eq!(tokens, ["HT-SHA-256-NONE"]);
    }

    #[test]
    fn a_certificate_alone_lets_no_person_in() {
        let bindings = Bindings::default().with(Binding::Exporter, b"x");
        let offer = Offer { is_private: true, bindings };
        assert!(!offer.has(Mechanism::External));
    }

    /// XEP-0474, 6.3.
    #[test]
    fn what_is_offered_is_hashed_as_specified() {
        let text = format!(
            "{}\u{1f}{}",
            sorted(["SCRAM-SHA-1-PLUS", "SCRAM-SHA-1"].into_iter()),
            sorted(["tls-server-end-point", "tls-exporter"].into_iter())
        );
        use base64::Engine as _;
        let hash = base64::prelude::BASE64_STANDARD.encode(Hash::Sha1.digest(text.as_bytes()));
        assert_eq!(hash, "G6k/rBLDqgOhRRaCuuatSDFkJ08=");
    }
}
