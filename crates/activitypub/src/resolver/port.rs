//! The community's port to other servers.

use weir_base::Id;
use weir_community::federation::{Found, PortFuture, Resolver};
use weir_community::statuses::{self, Fate};
use weir_community::{Error, accounts};
use weir_db::{Class, Tx};

use crate::ActivityPub;
use crate::wire::{Object, Uri};

impl Resolver for ActivityPub {
    fn account<'a>(&'a self, username: &'a str, domain: &'a str) -> PortFuture<'a, Id> {
        Box::pin(async move { Ok(self.named(username, domain).await?) })
    }

    fn renewed<'a>(&'a self, account: Id) -> PortFuture<'a, ()> {
        Box::pin(async move {
            let read = move |tx: &mut Tx, _: &_| accounts::by_id(tx, account);
            let known = self.community().read(Class::Interactive, read).await?;
            let uri: Result<Uri, _> = known.uri.parse();
            if let (false, Ok(uri)) = (known.is_local(), uri) {
                self.refresh(&uri).await?;
            }
            Ok(())
        })
    }

    fn address<'a>(&'a self, uri: &'a str) -> PortFuture<'a, Found> {
        Box::pin(self.found(uri))
    }
}

impl ActivityPub {
    async fn found(&self, text: &str) -> Result<Found, Error> {
        let uri: Uri = text.parse().map_err(|_| Error::NotFound("Record"))?;
        let name = text.to_owned();
        let known = move |tx: &mut Tx, _: &_| known(tx, &name);
        if let Some(found) = self.community().read(Class::Interactive, known).await? {
            return Ok(found);
        }
        if self.urls().is_own(&uri) {
            return Err(Error::NotFound("Record"));
        }
        let object = self.document_of_page(&uri).await?;
        let id = object.id().cloned().unwrap_or(uri);
        let found = match object {
            Object::Actor(actor) => Found::Account(self.take_in(&actor).await?),
            object => Found::Status(self.take_in_post(&id, object, 0).await?),
        };
        Ok(found)
    }
}

/// What stands at an address, by its id or the page people see.
fn known(tx: &mut Tx, text: &str) -> Result<Option<Found>, Error> {
    if let Some(account) = accounts::by_uri(tx, text)? {
        return Ok(Some(Found::Account(account.id)));
    }
    match statuses::fate(tx, text)? {
        Fate::Here(id) => Ok(Some(Found::Status(id))),
        // Whatever its server says now would not be taken in.
        Fate::Deleted => Err(Error::Gone("Record")),
        Fate::Unknown => Ok(None),
    }
}
