//! Accounts of other servers.

use std::future::ready;
use std::pin::pin;

use futures_util::FutureExt;
use futures_util::future::{Either, select};
use weir_base::{Id, Timestamp};
use weir_community::accounts::{self, Account};
use weir_community::federation::order::Version;
use weir_community::hosts;
use weir_db::{Class, Tx};

use super::webfinger::Answer;
use super::{RemoteError, Sought};
use crate::ActivityPub;
use crate::read;
use crate::wire::{Actor, Object, Uri};

/// How old what is known of an account may be before it is asked for again, in ms: a day.
const STALE_MS: i64 = 24 * 60 * 60 * 1_000;

impl ActivityPub {
    /// The account known here with this actor id.
    pub(crate) async fn known_account(&self, uri: &str) -> Result<Option<Account>, RemoteError> {
        let uri = uri.to_owned();
        let read = move |tx: &mut Tx, _: &_| accounts::by_uri(tx, &uri);
        Ok(self.community().read(Class::Inbound, read).await?)
    }

    /// The account with this actor id, fetched when it is unknown or its profile is old.
    pub(crate) async fn account(&self, uri: &Uri) -> Result<Id, RemoteError> {
        let known = self.known_account(uri.as_str()).await?;
        if let Some(account) = &known {
            let age_ms = self.now().since_ms(account.fetched_at);
            if account.is_local() || age_ms < STALE_MS || account.deleted_at.is_some() {
                return Ok(account.id);
            }
        }
        match (self.refresh(uri).await, known) {
            (Ok(id), _) => Ok(id),
            // What is old is better than nothing.
            (Err(error), Some(account)) => {
                tracing::debug!(%error, "an account stays as it was known");
                Ok(account.id)
            }
            (Err(error), None) => Err(error),
        }
    }

    /// Fetches the account with this actor id, whatever is known of it.
    pub(crate) async fn refresh(&self, uri: &Uri) -> Result<Id, RemoteError> {
        self.refresh_since(uri, self.now()).await
    }

    /// The same, unless it was fetched since `since`.
    pub(crate) async fn refresh_since(
        &self,
        uri: &Uri,
        since: Timestamp,
    ) -> Result<Id, RemoteError> {
        let _alone = self.finder().budgets.alone(uri.as_str()).await;
        if let Some(known) = self.known_since(uri, since).await? {
            return Ok(known);
        }
        if let Some(error) = self.finder().budgets.failed(Sought::Account, uri.as_str()) {
            return Err(error);
        }
        let learnt = self.learn(uri).await;
        if let Err(error) = &learnt
            && !error.is_passing()
            && !error.is_doubt()
        {
            self.finder().budgets.note_failure(Sought::Account, uri.as_str(), error);
        }
        learnt
    }

    /// Fetches an account whatever is known of it, even that it failed lately.
    pub(crate) async fn reread_account(&self, uri: &Uri) -> Result<Id, RemoteError> {
        let _alone = self.finder().budgets.alone(uri.as_str()).await;
        self.learn(uri).await
    }

    /// The same, unless it was fetched since `since`.
    pub(crate) async fn reread_since(
        &self,
        uri: &Uri,
        since: Timestamp,
    ) -> Result<Id, RemoteError> {
        let _alone = self.finder().budgets.alone(uri.as_str()).await;
        match self.known_since(uri, since).await? {
            Some(known) => Ok(known),
            None => self.learn(uri).await,
        }
    }

    /// The account with this actor id, if it was fetched since `since`.
    async fn known_since(&self, uri: &Uri, since: Timestamp) -> Result<Option<Id>, RemoteError> {
        let known = self.known_account(uri.as_str()).await?;
        Ok(known.filter(|known| known.fetched_at >= since).map(|known| known.id))
    }

    async fn learn(&self, uri: &Uri) -> Result<Id, RemoteError> {
        let spelling = &self.finder().spelling;
        let Some(name) = spelling.name_in(uri) else {
            return self.take_in_at(uri, self.document(uri).await?).await;
        };
        let document = pin!(self.document(uri));
        let told = pin!(self.confirmed_webfinger(name, uri.authority()));
        let (object, told) = match select(document, told).await {
            Either::Left((object, told)) => (object, told.left_future()),
            Either::Right((told, document)) => (document.await, ready(told).right_future()),
        };
        match object {
            Ok(Object::Actor(actor)) if actor.username == name && actor.id.is_of_same_host(uri) => {
                self.take_in_as(&actor, told.await).await
            }
            Ok(object) => self.take_in_at(uri, object).await,
            Err(error) => {
                // So that what is not there is not asked for twice again and again.
                spelling.forget(uri);
                Err(error)
            }
        }
    }

    /// Writes down what was fetched at `uri`, if it is an account.
    async fn take_in_at(&self, uri: &Uri, object: Object) -> Result<Id, RemoteError> {
        match object {
            Object::Actor(actor) => self.take_in(&actor).await,
            Object::Tombstone(stone) if stone.id.is_of_same_host(uri) => {
                Err(RemoteError::Gone(uri.to_string()))
            }
            _ => Err(RemoteError::Unfit(uri.to_string(), "it is no account")),
        }
    }

    /// Writes a fetched account down.
    pub(super) async fn take_in(&self, actor: &Actor) -> Result<Id, RemoteError> {
        let told = self.confirmed_webfinger(&actor.username, actor.id.authority()).await;
        self.take_in_as(actor, told).await
    }

    /// The same; `told` is what WebFinger says of its name.
    async fn take_in_as(
        &self,
        actor: &Actor,
        told: Result<Answer, RemoteError>,
    ) -> Result<Id, RemoteError> {
        self.finder().spelling.note(&actor.id, &actor.username);
        let host = actor.id.authority();
        let domain = match told {
            Ok(answer) if answer.actor == actor.id => answer.domain,
            Ok(_) => {
                let why = "WebFinger leads to another account";
                return Err(RemoteError::Unfit(actor.id.to_string(), why));
            }
            Err(error) if error.is_passing() => return Err(error),
            // Its name is of a server that is not spoken with: it comes in by no other one.
            Err(error @ RemoteError::Refused(_)) => return Err(error),
            // A server without WebFinger still speaks for names at its own host.
            Err(_) => host.to_owned(),
        };
        let remote = read::account(actor, &domain).cleaned()?;
        // Signatures are dated in whole seconds: an Update sent in this second is not older than
        // what was just read.
        let at = Timestamp::from_ms(self.now().as_ms() / 1_000 * 1_000);
        let id = self
            .community()
            .write(Class::Inbound, move |tx, env| {
                let version = Version { at, seq: env.ids.next() };
                accounts::upsert(tx, env, &remote, version)
            })
            .await?;
        Ok(id)
    }

    /// The account that `username@domain` names.
    pub(super) async fn named(&self, username: &str, domain: &str) -> Result<Id, RemoteError> {
        let (name, at) = (username.to_owned(), hosts::name(domain));
        let read = move |tx: &mut Tx, _: &_| accounts::by_address(tx, &name, &at);
        let known = self.community().read(Class::Interactive, read).await?;
        if let Some(account) = known {
            let fresh = self.now().since_ms(account.fetched_at) < STALE_MS;
            if account.is_local() || fresh {
                return Ok(account.id);
            }
            let uri: Option<Uri> = account.uri.parse().ok();
            return match uri {
                Some(uri) => self.account(&uri).await,
                None => Ok(account.id),
            };
        }
        let answer = self.confirmed_webfinger(username, domain).await?;
        self.account(&answer.actor).await
    }
}
