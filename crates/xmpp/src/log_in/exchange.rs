//! One log-in, message by message.

use std::net::IpAddr;

use weir_community::users::ClientId;

use super::known::{Bearing, Known};
use super::{Authenticated, LogIns};
use crate::sasl::{
    ClientFirst, Failure, MESSAGE_BYTES_MAX, Mechanism, Offer, Waiting, oauth_refusal, parse_ht,
    parse_oauth, parse_plain,
};

/// A log-in under way.
pub struct Exchange {
    offer: Offer,
    mechanism: Mechanism,
    source: IpAddr,
    client: Option<ClientId>,
    state: State,
}

enum State {
    /// Nothing was said yet.
    Begun,
    /// SCRAM's proof is to come.
    Scram { waiting: Box<Waiting>, known: Known, name: String, authzid: String },
    /// The client is to take note of why its token is refused.
    Refused(Failure),
    /// There is nothing more to say.
    Over,
}

/// What comes next.
#[derive(Debug)]
pub enum Step {
    /// The client is to answer this.
    Challenge(Vec<u8>),
    /// Somebody is logged in; with what the mechanism still has to say.
    Done {
        /// Who.
        who: Authenticated,
        /// What goes with the success.
        extra: Option<Vec<u8>>,
    },
    /// Nobody is.
    Failed(Failure),
}

impl Exchange {
    /// Begins a log-in by `mechanism`, which has to be one of those offered.
    ///
    /// # Errors
    /// [`Failure`] when it is not.
    pub fn new(
        offer: Offer,
        mechanism: &str,
        source: IpAddr,
        client: Option<ClientId>,
    ) -> Result<Self, Failure> {
        let mechanism = Mechanism::parse(mechanism).filter(|chosen| offer.has(*chosen));
        let mechanism = mechanism.ok_or_else(Failure::mechanism)?;
        Ok(Self { offer, mechanism, source, client, state: State::Begun })
    }

    /// By what it is.
    pub fn mechanism(&self) -> Mechanism {
        self.mechanism
    }

    /// Takes what the client says; nothing where it said nothing with its beginning.
    pub async fn take(&mut self, log_ins: &LogIns, message: Option<&[u8]>) -> Step {
        let step = self.step(log_ins, message).await;
        match &step {
            Ok(Step::Done { .. }) => log_ins.count(self.mechanism, "good"),
            Err(failure) => log_ins.count(self.mechanism, failure.condition),
            Ok(_) => {}
        }
        step.unwrap_or_else(Step::Failed)
    }

    async fn step(&mut self, log_ins: &LogIns, message: Option<&[u8]>) -> Result<Step, Failure> {
        let Some(message) = message else {
            return match self.state {
                State::Begun => Ok(Step::Challenge(Vec::new())),
                _ => Err(Failure::malformed("There is no answer in this.")),
            };
        };
        if message.len() > MESSAGE_BYTES_MAX {
            return Err(Failure::malformed("This is too long."));
        }
        match std::mem::replace(&mut self.state, State::Over) {
            State::Begun => self.first(log_ins, message).await,
            State::Scram { waiting, known, name, authzid } => {
                let proven = waiting.finish(message);
                let extra = self.judge(log_ins, &name, proven)?;
                let user = self.judge(log_ins, &name, known.ok_or_else(Failure::wrong))?;
                Ok(Step::Done { who: log_ins.admit(&user, &authzid)?, extra: Some(extra) })
            }
            State::Refused(failure) => Err(failure),
            State::Over => Err(Failure::malformed("There is nothing more to say.")),
        }
    }

    async fn first(&mut self, log_ins: &LogIns, message: &[u8]) -> Result<Step, Failure> {
        match self.mechanism {
            Mechanism::Scram { hash, plus } => {
                let first = ClientFirst::parse(hash, plus, &self.offer, message)?;
                let name = log_ins.plain_name(&first.name);
                log_ins.may_try(&name, self.source)?;
                let known = log_ins.known(&name).await?;
                let (keys, authzid) = (log_ins.keys(&known, &name), first.authzid.clone());
                let (challenge, waiting) = first.challenge(keys, &log_ins.nonce(), &self.offer);
                let waiting = Box::new(waiting);
                self.state = State::Scram { waiting, known, name, authzid };
                Ok(Step::Challenge(challenge))
            }
            Mechanism::Plain => {
                let said = parse_plain(message)?;
                let name = log_ins.plain_name(&said.name);
                log_ins.may_try(&name, self.source)?;
                let known = log_ins.known(&name).await?;
                let right = log_ins.is_right(&known, &name, said.password.expose()).await?;
                let user = known.filter(|_| right).ok_or_else(Failure::wrong);
                let user = self.judge(log_ins, &name, user)?;
                Ok(Step::Done { who: log_ins.admit(&user, &said.authzid)?, extra: None })
            }
            Mechanism::OAuthBearer => self.bearer(log_ins, message).await,
            Mechanism::Ht(ht) => {
                let (name, proof) = parse_ht(message)?;
                let name = log_ins.plain_name(&name);
                log_ins.may_try(&name, self.source)?;
                let (said, bindings) = ((name.as_str(), &proof[..]), &self.offer.bindings);
                let client = self.client.as_ref();
                let found = log_ins.by_token(said, ht, bindings, client).await;
                let (who, answer) = self.judge(log_ins, "", found)?;
                Ok(Step::Done { who, extra: Some(answer) })
            }
            Mechanism::External => Err(Failure::mechanism()),
        }
    }

    async fn bearer(&mut self, log_ins: &LogIns, message: &[u8]) -> Result<Step, Failure> {
        log_ins.may_try("", self.source)?;
        let bearing = match parse_oauth(message)? {
            Some(said) => log_ins.bearing(&said.authzid, said.token.expose()).await?,
            None => Bearing::Unknown,
        };
        let (is_known, failure) = match bearing {
            Bearing::Good(who) => return Ok(Step::Done { who, extra: None }),
            Bearing::TooNarrow => (
                true,
                Failure::new("not-authorized", "The token must be good for read, write, follow."),
            ),
            Bearing::Unknown => (false, Failure::new("not-authorized", "The token is wrong.")),
        };
        log_ins.was_wrong("", self.source);
        self.state = State::Refused(failure);
        let (scopes, configuration) = log_ins.oauth_needs();
        Ok(Step::Challenge(oauth_refusal(is_known, &scopes, &configuration)))
    }

    /// Counts what was wrong because somebody did not know the secret.
    fn judge<T>(
        &self,
        log_ins: &LogIns,
        name: &str,
        found: Result<T, Failure>,
    ) -> Result<T, Failure> {
        if found.as_ref().is_err_and(|failure| *failure == Failure::wrong()) {
            log_ins.was_wrong(name, self.source);
        }
        found
    }
}
