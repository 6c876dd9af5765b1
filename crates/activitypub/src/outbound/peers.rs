//! What is remembered of the servers that are delivered to: the form of signatures each takes, and
//! since when it does not answer. Written down now and then, not with each delivery.

use weir_base::Timestamp;
use weir_community::{Community, Error, hosts};
use weir_db::{Class, Tx};

use crate::signature::Form;

/// Servers held in memory.
const PEERS_MAX: u64 = 50_000;
/// How long an unchanged state is not written again, in ms.
const WRITTEN_EVERY_MS: i64 = 10 * 60 * 1_000;

/// What is remembered.
pub struct Peers {
    community: Community,
    known: moka::sync::Cache<String, Peer>,
}

#[derive(Debug, Clone, Copy)]
struct Peer {
    form: Option<Form>,
    answers: Option<bool>,
    written_at: Timestamp,
}

/// What a delivery goes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// Whether nothing may be sent there.
    pub blocked: bool,
    /// The form of signature it is known to take.
    pub form: Option<Form>,
}

impl Peers {
    pub(super) fn new(community: Community) -> Self {
        Self { community, known: moka::sync::Cache::new(PEERS_MAX) }
    }

    /// On which terms the server `domain` is delivered to.
    ///
    /// # Errors
    /// The database's.
    pub async fn terms(&self, domain: &str, allowlist: bool) -> Result<Terms, Error> {
        let (name, known) = (domain.to_owned(), self.known.get(domain));
        let read = self.community.read(Class::Outbound, move |tx: &mut Tx, _| {
            let refused = hosts::policy(tx, &name)?.suspended
                || (allowlist && !hosts::is_allowed(tx, &name)?);
            let form = match known {
                Some(peer) => peer.form,
                None => hosts::by_domain(tx, &name)?.and_then(|host| of_word(&host.signature_form)),
            };
            Ok(Terms { blocked: refused, form })
        });
        let terms = read.await?;
        if known.is_none() {
            let peer = Peer { form: terms.form, answers: None, written_at: Timestamp::from_ms(0) };
            self.known.insert(domain.to_owned(), peer);
        }
        Ok(terms)
    }

    /// The form of signature to try first with the server `domain`.
    ///
    /// # Errors
    /// The database's.
    pub async fn form(&self, domain: &str) -> Result<Form, Error> {
        Ok(self.terms(domain, false).await?.form.unwrap_or(Form::Cavage))
    }

    /// The server takes this form, as a fetch showed; written down with the next delivery.
    pub fn note_form(&self, domain: &str, form: Form) {
        let answers = self.known.get(domain).and_then(|peer| peer.answers);
        let peer = Peer { form: Some(form), answers, written_at: Timestamp::from_ms(0) };
        self.known.insert(domain.to_owned(), peer);
    }

    /// The server took a delivery that was signed in this form.
    pub async fn delivered(&self, domain: &str, form: Form) {
        let now = self.community.env().clock.now();
        let peer = self.known.get(domain);
        let same = peer.is_some_and(|peer| {
            peer.answers == Some(true)
                && peer.form == Some(form)
                && now.since_ms(peer.written_at) < WRITTEN_EVERY_MS
        });
        if same {
            return;
        }
        let peer = Peer { form: Some(form), answers: Some(true), written_at: now };
        self.known.insert(domain.to_owned(), peer);
        let name = domain.to_owned();
        self.write(move |tx| hosts::delivered(tx, &name, word(form), now)).await;
    }

    /// The server did not take a delivery, for a reason that may pass.
    pub async fn failed(&self, domain: &str, why: &str) {
        let now = self.community.env().clock.now();
        let peer = self.known.get(domain);
        let form = peer.and_then(|peer| peer.form);
        let same = peer.is_some_and(|peer| {
            peer.answers == Some(false) && now.since_ms(peer.written_at) < WRITTEN_EVERY_MS
        });
        if same {
            return;
        }
        self.known.insert(domain.to_owned(), Peer { form, answers: Some(false), written_at: now });
        let (name, why): (String, String) = (domain.to_owned(), why.chars().take(500).collect());
        self.write(move |tx| hosts::delivery_failed(tx, &name, &why, now)).await;
    }

    async fn write(&self, mut unit: impl FnMut(&mut Tx) -> Result<(), Error> + Send + 'static) {
        let written = self.community.write(Class::Housekeeping, move |tx: &mut Tx, _| unit(tx));
        if let Err(error) = written.await {
            tracing::warn!(%error, "what is known of a server was not written down");
        }
    }
}

fn word(form: Form) -> &'static str {
    match form {
        Form::Cavage => "cavage",
        Form::Rfc9421 => "rfc9421",
    }
}

fn of_word(word: &str) -> Option<Form> {
    [Form::Cavage, Form::Rfc9421].into_iter().find(|form| self::word(*form) == word)
}
