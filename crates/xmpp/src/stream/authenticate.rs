//! SASL in XML: as RFC 6120 section 6 has it, and as XEP-0388 has it.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use weir_community::users::ClientId;

use super::begin::{self, Wish};
use super::negotiate::{Ended, Entered, Stream, violation};
use super::{features, queue};
use crate::limits;
use crate::log_in::{Authenticated, Exchange, Step, client_id};
use crate::register::{self, Visitor};
use crate::sasl::{Failure, Mechanism};
use crate::wire::{Element, Jid, Stanza, StreamCondition, StreamError, ns};

/// The longest id of an app, in bytes.
const CLIENT_ID_BYTES_MAX: usize = 256;

/// The two ways in which SASL is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Profile {
    One,
    Two,
}

impl Profile {
    fn ns(self) -> &'static str {
        match self {
            Self::One => ns::SASL,
            Self::Two => ns::SASL2,
        }
    }
}

/// Somebody who has logged in, and what the mechanism still has to say.
type Proven = (Authenticated, Option<Vec<u8>>);

impl Stream<'_> {
    /// Until somebody has logged in, or wants TLS first.
    pub(super) async fn stranger(&mut self) -> Result<Entered, Ended> {
        let header = self.header().await?;
        let from = header.attr("from").map(str::to_owned);
        self.open(from.as_deref());
        let offered = features::to_strangers(self.xmpp, &*self.transport);
        queue(&mut *self.transport, &offered);
        self.flush().await?;
        let mut visitor = Visitor::default();
        let mut asked = 0;
        let mut tries = 0;
        while tries < limits::LOG_INS_MAX {
            let element = self.element().await?;
            if register::is_about(&element) && features::may_join(self.xmpp, &*self.transport) {
                asked += 1;
                if asked > limits::JOINING_MAX {
                    return Err(Some(violation("too many tries to join: connect again")));
                }
                self.join(&mut visitor, element).await?;
                continue;
            }
            tries += 1;
            if element.is("starttls", ns::TLS) {
                return self.wants_tls().await;
            }
            let entered = if element.is("auth", ns::SASL) {
                self.log_in(&element).await?
            } else if element.is("authenticate", ns::SASL2) {
                self.log_in_2(element, from.as_deref()).await?
            } else {
                let text = "log in first";
                let error = StreamError::new(StreamCondition::NotAuthorized).text(text);
                return Err(Some(error));
            };
            match entered {
                Ok(entered) => return Ok(entered),
                Err((profile, failure)) => self.refuse(profile, failure).await?,
            }
        }
        Err(Some(violation("too many attempts: connect again")))
    }

    /// XEP-0077: somebody wants to become one of those who can log in.
    async fn join(&mut self, visitor: &mut Visitor, element: Element) -> Result<(), Ended> {
        let bad = || Some(StreamError::new(StreamCondition::BadFormat));
        let iq = Stanza::of(element).map_err(|_| bad())?;
        let answer = register::answer(self.xmpp, self.peer, visitor, iq).await;
        self.transport.queue(&[answer.text().as_bytes()]);
        self.flush().await
    }

    /// RFC 6120 section 5.4.
    async fn wants_tls(&mut self) -> Result<Entered, Ended> {
        if !self.transport.can_start_tls() {
            queue(&mut *self.transport, &Element::new("failure", ns::TLS));
            return Err(None);
        }
        queue(&mut *self.transport, &Element::new("proceed", ns::TLS));
        self.flush().await?;
        Ok(Entered::WantsTls)
    }

    /// RFC 6120 section 6.4.
    async fn log_in(
        &mut self,
        auth: &Element,
    ) -> Result<Result<Entered, (Profile, Failure)>, Ended> {
        let initial = match auth.text() {
            text if text.is_empty() => None,
            text => Some(text),
        };
        let mechanism = auth.attr("mechanism").unwrap_or_default();
        let proven = self.exchange(Profile::One, mechanism, initial, None).await?;
        let (who, extra) = match proven {
            Ok(proven) => proven,
            Err(failure) => return Ok(Err((Profile::One, failure))),
        };
        let mut success = Element::new("success", ns::SASL);
        if let Some(extra) = extra {
            success = success.with_text(BASE64_STANDARD.encode(&extra));
        }
        queue(&mut *self.transport, &success);
        self.flush().await?;
        Ok(Ok(Entered::Anew(who)))
    }

    /// XEP-0388.
    async fn log_in_2(
        &mut self,
        asked: Element,
        from: Option<&str>,
    ) -> Result<Result<Entered, (Profile, Failure)>, Ended> {
        let initial = asked.child("initial-response", ns::SASL2).map(Element::text);
        let mechanism = asked.attr("mechanism").unwrap_or_default().to_owned();
        let agent = asked.child("user-agent", ns::SASL2).and_then(|agent| agent.attr("id"));
        let agent = agent.filter(|id| !id.is_empty() && id.len() <= CLIENT_ID_BYTES_MAX);
        let client = agent.map(client_id);
        let refuse = |failure| Ok(Err((Profile::Two, failure)));
        let is_token = matches!(Mechanism::parse(&mechanism), Some(Mechanism::Ht(_)));
        if is_token && !asked.has("fast", ns::FAST) {
            return refuse(Failure::malformed("A token goes with <fast/> (XEP-0484)."));
        }
        let wish = Wish::of(asked, &features::offer(self.xmpp, &*self.transport));
        let proven = self.exchange(Profile::Two, &mechanism, initial, client.clone()).await?;
        let (who, extra) = match proven {
            Ok(proven) => proven,
            Err(failure) => return refuse(failure),
        };
        // XEP-0388, 2.3: whoever a stream says it is from must be who logs in.
        let own = Jid::of(Some(&who.username), self.xmpp.domain(), None).ok();
        let said = from.and_then(|from| Jid::parse(from).ok());
        if said.is_some_and(|said| own.as_ref().is_none_or(|own| said.bare() != *own)) {
            return refuse(Failure::authzid());
        }
        let extra = extra.map(|extra| BASE64_STANDARD.encode(&extra));
        let begun = begin::begin(self.xmpp, who, client, wish, extra).await;
        let (success, entered) = match begun {
            Ok(begun) => begun,
            Err(failure) => return refuse(failure),
        };
        queue(&mut *self.transport, &success);
        // There is no new stream: what it offers comes at once.
        let offered = match &entered {
            Entered::Begun(_) => features::to_bound(self.xmpp).await,
            _ => features::to_people(self.xmpp).await,
        };
        queue(&mut *self.transport, &offered);
        self.flush().await?;
        Ok(Ok(entered))
    }

    /// The messages of one log-in.
    async fn exchange(
        &mut self,
        profile: Profile,
        mechanism: &str,
        initial: Option<String>,
        client: Option<ClientId>,
    ) -> Result<Result<Proven, Failure>, Ended> {
        let offer = features::offer(self.xmpp, &*self.transport);
        let mut exchange = match Exchange::new(offer, mechanism, self.peer, client) {
            Ok(exchange) => exchange,
            Err(failure) => return Ok(Err(failure)),
        };
        let mut message = match initial.map(|text| decode(profile, &text)).transpose() {
            Ok(message) => message,
            Err(failure) => return Ok(Err(failure)),
        };
        loop {
            match exchange.take(&self.xmpp.log_ins, message.as_deref()).await {
                Step::Done { who, extra } => return Ok(Ok((who, extra))),
                Step::Failed(failure) => return Ok(Err(failure)),
                Step::Challenge(challenge) => {
                    let text = BASE64_STANDARD.encode(&challenge);
                    let challenge = Element::new("challenge", profile.ns()).with_text(text);
                    queue(&mut *self.transport, &challenge);
                    self.flush().await?;
                }
            }
            let answer = self.element().await?;
            if answer.is("abort", profile.ns()) {
                return Ok(Err(Failure::new("aborted", "As you wish.")));
            }
            if !answer.is("response", profile.ns()) {
                return Ok(Err(Failure::malformed("Go on with the log-in, or abort it.")));
            }
            match decode(profile, &answer.text()) {
                Ok(answer) => message = Some(answer),
                Err(failure) => return Ok(Err(failure)),
            }
        }
    }

    async fn refuse(&mut self, profile: Profile, failure: Failure) -> Result<(), Ended> {
        let ns = profile.ns();
        let text = Element::new("text", ns).with_text(failure.text);
        let failure = Element::new("failure", ns)
            .with_child(Element::new(failure.condition, ns::SASL))
            .with_child(text.with_attr("xml:lang", "en"));
        queue(&mut *self.transport, &failure);
        self.flush().await
    }
}

/// The bytes of a message as it stands in XML; RFC 6120 writes `=` for one that is empty.
fn decode(profile: Profile, text: &str) -> Result<Vec<u8>, Failure> {
    if text == "=" && profile == Profile::One {
        return Ok(Vec::new());
    }
    let wrong = || Failure::new("incorrect-encoding", "Send base64 without spaces.");
    BASE64_STANDARD.decode(text.trim()).map_err(|_| wrong())
}
