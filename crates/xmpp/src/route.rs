//! Where a stanza goes: to the server itself, to somebody of here, to a service, to elsewhere.

use std::sync::Arc;

use crate::face::{Work, Xmpp};
use crate::router::{Out, Session};
use crate::wire::{Condition, Jid, Kind, Stanza, StanzaError};
use crate::{iq, message, presence};

/// Whom an address means.
pub(crate) enum Place {
    /// The domain itself.
    Host,
    /// An account of here, or what would be one.
    Account,
    /// A service below the domain.
    Service(&'static iq::Service),
    /// A component or another server.
    Elsewhere,
}

impl Xmpp {
    /// Whom `jid` means.
    pub(crate) fn place(&self, jid: &Jid) -> Place {
        let domain = jid.domain();
        if domain == self.domain() {
            return if jid.local().is_some() { Place::Account } else { Place::Host };
        }
        let label = domain.strip_suffix(self.domain()).and_then(|label| label.strip_suffix('.'));
        let service =
            label.and_then(|label| crate::SERVICES.iter().find(|service| service.label == label));
        service.map_or(Place::Elsewhere, Place::Service)
    }

    /// Whether `domain` is served here: by us, or by a component.
    pub(crate) fn is_ours(&self, domain: &str) -> bool {
        let Ok(jid) = Jid::parse(domain) else { return false };
        !matches!(self.place(&jid), Place::Elsewhere) || self.component(jid.domain()).is_some()
    }

    /// Works a stanza of a session, whose `from` is set.
    pub(crate) fn dispatch(&self, session: &Arc<Session>, stanza: Stanza) -> Option<Work> {
        match stanza.kind {
            Kind::Message => message::sent(self, session, stanza),
            Kind::Presence => presence::sent(self, session, stanza),
            Kind::Iq => match &stanza.to {
                None => iq::answer(self, Some(session), stanza),
                Some(_) => self.route_of(Some(session), stanza),
            },
        }
    }

    /// Takes a stanza that another server or a component sent, once its `from` is proven. It is
    /// worked in the order of the sender when this is awaited before the next. Messages wait while
    /// too many do, those too that are not kept: they come in order.
    pub async fn receive_remote(&self, stanza: Stanza) {
        let (Some(from), Some(_)) = (&stanza.from, &stanza.to) else { return };
        if stanza.kind == Kind::Message {
            self.room_to_keep(from.bare_str()).await;
        }
        if let Some(work) = self.route(stanza) {
            work.await;
        }
    }

    /// Sends a stanza of a service or of the server itself to whomever it is for.
    pub fn send(&self, stanza: Stanza) {
        let work = self.route(stanza);
        self.spawn(work);
    }

    /// Sends a stanza to whomever it is for; what cannot be done at once is answered as work.
    pub fn route(&self, stanza: Stanza) -> Option<Work> {
        self.route_of(None, stanza)
    }

    fn route_of(&self, session: Option<&Arc<Session>>, stanza: Stanza) -> Option<Work> {
        let to = stanza.to.as_ref()?;
        match self.place(to) {
            Place::Host => match stanza.kind {
                Kind::Iq => iq::answer(self, session, stanza),
                Kind::Message => message::to_host(self, stanza),
                Kind::Presence => presence::to_host(self, stanza),
            },
            Place::Account => match stanza.kind {
                Kind::Iq => self.iq_to_account(session, stanza),
                Kind::Message => message::arrived(self, stanza),
                Kind::Presence => presence::arrived(self, stanza),
            },
            Place::Service(service) => Some((service.receive)(self.clone(), stanza)),
            Place::Elsewhere => self.route_elsewhere(stanza),
        }
    }

    fn route_elsewhere(&self, stanza: Stanza) -> Option<Work> {
        let domain = stanza.to.as_ref()?.domain();
        if let Some(component) = self.component(domain) {
            component(self, stanza);
        } else if let Some(remote) = self.remote() {
            remote(self, stanza);
        } else {
            let text = "this server speaks with no others";
            let error = StanzaError::new(Condition::RemoteServerNotFound).text(text);
            return self.bounce(&stanza, &error);
        }
        None
    }

    /// Tells the sender that its stanza was not served, where anybody may be told.
    pub fn bounce(&self, stanza: &Stanza, error: &StanzaError) -> Option<Work> {
        let is_answer = stanza.is_answer();
        let is_presence =
            stanza.kind == Kind::Presence && !matches!(stanza.type_(), Some("subscribe" | "probe"));
        if is_answer || is_presence || stanza.from.is_none() {
            return None;
        }
        self.route(stanza.error(error))
    }

    /// RFC 6121 sections 8.5.2 and 8.5.3, for iq.
    fn iq_to_account(&self, session: Option<&Arc<Session>>, iq: Stanza) -> Option<Work> {
        let to = iq.to.as_ref()?;
        let Some(resource) = to.resource() else { return iq::answer(self, session, iq) };
        let unavailable = StanzaError::new(Condition::ServiceUnavailable);
        let found = self.router.find(to.bare_str()).and_then(|peer| peer.session(resource));
        let Some(receiver) = found else { return self.bounce(&iq, &unavailable) };
        let from = iq.from.as_ref()?;
        if receiver.peer.blocks(from.as_str()) {
            return self.bounce(&iq, &unavailable);
        }
        // Who asks learns that the resource is there: only who sees its presence may.
        let is_request = !iq.is_answer();
        if is_request
            && from.bare_str() != to.bare_str()
            && matches!(self.place(from), Place::Account | Place::Elsewhere)
            && !self.shows_presence(to.bare_str(), from.bare_str())
            && !presence::is_directed(&receiver, from)
        {
            return self.bounce(&iq, &unavailable);
        }
        receiver.push(Out::Bytes(iq.bytes()));
        None
    }

    /// Answers a session of here directly, and anybody else by its address.
    pub(crate) fn reply(&self, session: Option<&Arc<Session>>, answer: Stanza) -> Option<Work> {
        match session {
            Some(session) => {
                session.push(Out::Bytes(answer.bytes()));
                None
            }
            None => self.route(answer),
        }
    }

    /// Whether the bare address `jid` is one of this domain.
    pub(crate) fn is_of_here(&self, jid: &str) -> bool {
        let local = jid.strip_suffix(self.domain());
        local.is_some_and(|local| local.ends_with('@'))
    }

    /// Whether the person at the bare address `whose` is here and shows its presence to `whom`.
    pub fn shows_presence(&self, whose: &str, whom: &str) -> bool {
        let Some(peer) = self.router.find(whose) else { return false };
        let here = peer.here();
        let contacts = here.as_ref().and_then(|here| here.contacts.as_ref());
        contacts.is_some_and(|contacts| contacts.from().iter().any(|peer| peer.jid() == whom))
    }
}
