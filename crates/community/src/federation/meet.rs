//! Learning of people on other servers before a unit of work needs them.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::join_all;
use weir_db::Class;

use super::Resolver;
use crate::text::{self, Piece};
use crate::{Community, Error, accounts, hosts};

/// Unknown people one text may make us look for.
const PEOPLE_MAX: usize = 20;
/// How long a person waits for other servers.
const PATIENCE: Duration = Duration::from_secs(5);

/// Looks for the person with this address on their server, unless they are known here. Not finding
/// them is no fault.
///
/// # Errors
/// The database's.
pub async fn meet(
    community: &Community,
    resolver: &dyn Resolver,
    address: &str,
) -> Result<(), Error> {
    let Some((name, domain)) = accounts::parse_address(community.env(), address) else {
        return Ok(());
    };
    look_for(community, resolver, BTreeSet::from([(name, domain)])).await
}

/// Looks for those whom `text` mentions and who are not known here, all at once: at most 20, for
/// at most 5 s.
///
/// # Errors
/// The database's.
pub async fn meet_mentioned(
    community: &Community,
    resolver: &dyn Resolver,
    text: &str,
) -> Result<(), Error> {
    let mentioned = text::pieces(text).into_iter().filter_map(|piece| match piece {
        Piece::Mention { username, domain } => Some((username.to_owned(), hosts::name(domain))),
        _ => None,
    });
    look_for(community, resolver, mentioned.take(PEOPLE_MAX * 5).collect()).await
}

async fn look_for(
    community: &Community,
    resolver: &dyn Resolver,
    named: BTreeSet<(String, String)>,
) -> Result<(), Error> {
    let here = &community.env().site.domain;
    let remote = named.into_iter().filter(|(_, domain)| !domain.is_empty() && domain != here);
    let remote: Vec<(String, String)> = remote.collect();
    if remote.is_empty() {
        return Ok(());
    }
    let unknown = community.read(Class::Interactive, move |tx, _| {
        let mut unknown = Vec::new();
        for (name, domain) in &remote {
            if accounts::by_address(tx, name, domain)?.is_none() {
                unknown.push((name.clone(), domain.clone()));
            }
        }
        Ok(unknown)
    });
    let unknown = unknown.await?;
    let looks = unknown.iter().take(PEOPLE_MAX).map(async |(name, domain)| {
        let found = tokio::time::timeout(PATIENCE, resolver.account(name, domain)).await;
        if !matches!(found, Ok(Ok(_))) {
            tracing::debug!(name, domain, "a mentioned person was not found");
        }
    });
    join_all(looks).await;
    Ok(())
}
