//! The ports to other servers when there is no federation: only what is known here is found, and
//! there is nobody to tell.

use weir_activitypub::{
    Deliver, DeliverRest, Inbound, Late, LookUp, PrunePayloads, Redeliver, RefetchKey, Unverified,
};
use weir_base::Id;
use weir_community::federation::{
    AskOrigin, Distribute, Fetch, Forward, Found, PortFuture, Resolver,
};
use weir_community::{Community, Error, accounts, statuses};
use weir_db::{Class, Tx};
use weir_jobs::{Claimed, Job, Outcome, Registry};

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

/// Handles what would go to other servers by dropping it.
pub fn register(registry: &mut Registry) {
    drop_all::<Distribute>(registry);
    drop_all::<Fetch>(registry);
    drop_all::<Deliver>(registry);
    drop_all::<DeliverRest>(registry);
    drop_all::<Redeliver>(registry);
    drop_all::<PrunePayloads>(registry);
    drop_all::<Inbound>(registry);
    drop_all::<Late>(registry);
    drop_all::<LookUp>(registry);
    drop_all::<Unverified>(registry);
    drop_all::<RefetchKey>(registry);
    drop_all::<AskOrigin>(registry);
    drop_all::<Forward>(registry);
}

fn drop_all<J: Job>(registry: &mut Registry) {
    registry.simple_unit(|_: &mut Tx, jobs: &[Claimed<J>]| Ok(vec![Outcome::Done; jobs.len()]));
}
