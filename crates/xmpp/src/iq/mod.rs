//! Queries: who answers which.

pub mod blocking;
pub mod contact;
pub mod disco;
pub mod external;
pub mod last;
pub mod mam;
pub mod ping;
pub mod private;
pub mod time;
pub mod upload;
pub mod vcard;
pub mod vcard4;
pub mod version;

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use weir_base::Id;
use weir_community::chat::address::{self, Whom};
use weir_community::chat::blocks;

use crate::face::{Work, Xmpp};
use crate::log_in::Power;
use crate::router::Session;
use crate::wire::{Condition, Element, Jid, Stanza, StanzaError};

/// At what kind of address a query is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// The domain.
    Host,
    /// One's own account: its bare address, or none at all.
    Own,
    /// The bare address of anybody here; the handler decides what others may know.
    Account,
    /// The domain and all bare addresses.
    Anywhere,
}

/// A query on its way to its handler.
pub struct Asked {
    /// The face.
    pub xmpp: Xmpp,
    /// Who asks.
    pub from: Jid,
    /// The account that asks, where it is of here.
    pub account: Option<Id>,
    /// The session that asks, where it is of here.
    pub session: Option<Arc<Session>>,
    /// Who is asked; none means one's own account.
    pub to: Option<Jid>,
    /// Whether it is of type `set`.
    pub set: bool,
    /// Its id.
    pub id: String,
    /// What is asked.
    pub payload: Element,
}

impl Asked {
    /// Whose account is asked: a bare address.
    pub fn owner(&self) -> Jid {
        match &self.to {
            Some(to) if to.local().is_some() => to.bare(),
            _ => self.from.bare(),
        }
    }

    /// Whether it asks its own account.
    pub fn is_own(&self) -> bool {
        self.account.is_some() && self.owner().as_str() == self.from.bare_str()
    }

    /// The account that asks.
    ///
    /// # Errors
    /// `forbidden` for those of other servers.
    pub fn own_account(&self) -> Result<Id, StanzaError> {
        self.account.ok_or_else(|| StanzaError::new(Condition::Forbidden))
    }

    /// The account that asks, where it logged in by what gives this power.
    ///
    /// # Errors
    /// `forbidden` for those of other servers; `not-authorized` with what gives the power.
    pub fn own_account_with(&self, power: Power) -> Result<Id, StanzaError> {
        let account = self.own_account()?;
        let has = self.session.as_ref().map(|session| session.state().power);
        if has.is_some_and(|has| has >= power) {
            return Ok(account);
        }
        let text = match power {
            Power::Own => "an app's token is not enough for this: log in with the password",
            _ => "the app's token has to be good for admin:write, or log in with the password",
        };
        Err(StanzaError::new(Condition::NotAuthorized).text(text))
    }
}

/// What is answered: a payload for the result, or an error.
pub type Answer = Result<Option<Element>, StanzaError>;

/// An answer that is being made.
pub type Answering = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// Who answers a query.
pub struct Handler {
    /// The namespace of its payload.
    pub ns: &'static str,
    /// The name of its payload.
    pub name: &'static str,
    /// Where it is answered.
    pub at: At,
    /// Makes the answer.
    pub run: fn(Asked) -> Answering,
}

/// A line of the table: namespace, name, place, `async fn(Asked) -> Answer`.
macro_rules! iq {
    ($ns:expr, $name:literal, $at:expr, $run:path) => {
        $crate::iq::Handler { ns: $ns, name: $name, at: $at, run: |asked| Box::pin($run(asked)) }
    };
}
pub(crate) use iq;

/// A service at an address of its own below the domain.
pub struct Service {
    /// What stands before the domain: `conference`.
    pub label: &'static str,
    /// Takes every stanza for it, in the sender's order.
    pub receive: fn(Xmpp, Stanza) -> Work,
}

/// The tables of `lib.rs`, to look in.
pub(crate) struct Tables {
    handlers: HashMap<(&'static str, &'static str), &'static Handler>,
}

impl Tables {
    pub(crate) fn new() -> Self {
        let lines = crate::IQS.iter().map(|handler| ((handler.ns, handler.name), handler));
        Self { handlers: lines.collect() }
    }

    pub(crate) fn find(&self, payload: &Element) -> Option<&'static Handler> {
        self.handlers.get(&(&*payload.ns, &*payload.name)).copied()
    }
}

/// Answers the query `iq`, which is for the domain or for an account of here (of which `to` tells
/// the bare address, or none for one's own).
pub(crate) fn answer(xmpp: &Xmpp, session: Option<&Arc<Session>>, mut iq: Stanza) -> Option<Work> {
    let is_request = matches!(iq.type_(), Some("get" | "set"));
    if !is_request {
        // Answers to what the server asked itself end here.
        let is_known = matches!(iq.type_(), Some("result" | "error"));
        let bad = StanzaError::new(Condition::BadRequest).text("an iq has one of four types");
        if !is_known {
            return xmpp.reply(session, iq.error(&bad));
        }
        xmpp.answered(iq);
        return None;
    }
    let refuse = |error: StanzaError| xmpp.reply(session, iq.error(&error));
    if iq.id().is_none() || iq.element.children().count() != 1 {
        let text = "a get or set has an id and one element inside";
        return refuse(StanzaError::new(Condition::BadRequest).text(text));
    }
    let unavailable = || StanzaError::new(Condition::ServiceUnavailable);
    let Some(payload) = iq.element.children().next() else { return refuse(unavailable()) };
    let Some(handler) = xmpp.tables.find(payload) else { return refuse(unavailable()) };
    let to_account = iq.to.as_ref().is_none_or(|to| to.local().is_some());
    let from = iq.from.clone()?;
    let is_own =
        session.is_some() && iq.to.as_ref().is_none_or(|to| to.as_str() == from.bare_str());
    let fits = match handler.at {
        At::Host => !to_account,
        At::Own => is_own,
        At::Account => to_account,
        At::Anywhere => true,
    };
    if !fits {
        return refuse(unavailable());
    }
    let payload =
        std::mem::take(&mut iq.element.nodes).into_iter().find_map(|node| match node {
            crate::wire::Node::Element(payload) => Some(payload),
            crate::wire::Node::Text(_) => None,
        })?;
    let is_set = iq.type_() == Some("set");
    // Who deletes the account, or changes its password, ends its sessions by it.
    let owed = session.filter(|_| is_set).map(Session::owe_answer);
    let asked = Asked {
        xmpp: xmpp.clone(),
        from,
        account: session.map(|session| session.account),
        session: session.cloned(),
        to: iq.to.clone(),
        set: is_set,
        id: iq.id().unwrap_or_default().to_owned(),
        payload,
    };
    let (xmpp, session) = (xmpp.clone(), session.cloned());
    let of_another = (to_account && !is_own).then(|| (asked.owner(), asked.from.clone()));
    let answering = (handler.run)(asked);
    Some(Box::pin(async move {
        let may = match &of_another {
            Some((owner, from)) => hears(&xmpp, owner, from).await,
            None => Ok(()),
        };
        let answered = match may {
            Ok(()) => answering.await,
            Err(error) => Err(error),
        };
        let answer = match answered {
            Ok(payload) => iq.result(payload),
            Err(error) => iq.error(&error),
        };
        let work = xmpp.reply(session.as_ref(), answer);
        drop(owed);
        xmpp.spawn(work);
    }))
}

/// Whether the account `owner` hears `from`: whom somebody blocks is answered as if there were
/// nobody (XEP-0191 section 3.3).
async fn hears(xmpp: &Xmpp, owner: &Jid, from: &Jid) -> Result<(), StanzaError> {
    let known = xmpp.router.find(owner.as_str()).and_then(|peer| {
        let here = peer.here();
        // Blocks are read with the contacts.
        here.as_ref().filter(|here| here.contacts.is_some()).map(|here| here.blocks(from.as_str()))
    });
    let is_blocked = match known {
        Some(known) => known,
        None => {
            let (owner, from) = (owner.clone(), from.clone());
            let read = xmpp.read(move |tx, env| match address::whom(tx, env, owner.as_str())? {
                Whom::Here(account) => blocks::blocks(tx, env, account, from.as_str()),
                Whom::Nobody | Whom::Elsewhere => Ok(false),
            });
            read.await?
        }
    };
    if is_blocked { Err(StanzaError::new(Condition::ServiceUnavailable)) } else { Ok(()) }
}
