//! The port to other servers where there is no federation: only what is known here is found.

use weir_base::Id;
use weir_db::{Class, Tx};

use super::{Found, PortFuture, Resolver};
use crate::{Community, Error, accounts, statuses};

/// Finds what is known here and asks nobody.
pub struct Alone(pub Community);

impl Resolver for Alone {
    fn account<'a>(&'a self, username: &'a str, domain: &'a str) -> PortFuture<'a, Id> {
        let (username, domain) = (username.to_owned(), domain.to_owned());
        Box::pin(self.0.read(Class::Interactive, move |tx: &mut Tx, _| {
            let known = accounts::by_address(tx, &username, &domain)?;
            known.map(|account| account.id).ok_or(Error::NotFound("Account"))
        }))
    }

    fn renewed<'a>(&'a self, _: Id) -> PortFuture<'a, ()> {
        Box::pin(async { Ok(()) })
    }

    fn address<'a>(&'a self, uri: &'a str) -> PortFuture<'a, Found> {
        let uri = uri.to_owned();
        Box::pin(self.0.read(Class::Interactive, move |tx: &mut Tx, _| {
            if let Some(account) = accounts::by_uri(tx, &uri)? {
                return Ok(Found::Account(account.id));
            }
            let status = statuses::by_uri(tx, &uri)?;
            status.map(|status| Found::Status(status.id)).ok_or(Error::NotFound("Record"))
        }))
    }
}
