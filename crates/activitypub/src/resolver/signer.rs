//! Whose a key is.

use std::collections::HashMap;
use std::time::Duration;

use moka::sync::Cache;
use weir_base::{Id, Timestamp};
use weir_community::{Community, Error};
use weir_db::{Class, Tx};

use super::RemoteError;
use crate::ActivityPub;
use crate::signature::key::PublicKey;
use crate::wire::Uri;

/// Keys whose last fetch is remembered, and how long none is fetched again.
const REFETCHED_MAX: u64 = 20_000;
const REFETCHED_LIFE: Duration = Duration::from_secs(300);

/// Keys that were asked for lately: when the newest fetch was begun that succeeded, if one did.
/// One that is on its way, or that failed, says nothing of the key.
pub(super) struct Refetched(Cache<String, Option<Timestamp>>);

impl Default for Refetched {
    fn default() -> Self {
        let cache = Cache::builder().max_capacity(REFETCHED_MAX).time_to_live(REFETCHED_LIFE);
        Self(cache.build())
    }
}

impl Refetched {
    /// Keys in memory.
    pub(super) fn held(&self) -> u64 {
        self.0.run_pending_tasks();
        self.0.entry_count()
    }

    /// Whether the key was fetched, as it was at `since` or later.
    pub(super) fn is_of(&self, key_id: &str, since: Timestamp) -> bool {
        self.had(key_id).is_some_and(|had| had >= since)
    }

    fn had(&self, key_id: &str) -> Option<Timestamp> {
        self.0.get(key_id)?
    }
}

/// The account that a signature is of.
#[derive(Debug, Clone)]
pub struct Signer {
    /// Which.
    pub account: Id,
    /// Its actor id.
    pub uri: String,
    /// Its server.
    pub domain: String,
    /// Whether it is suspended here, or gone.
    pub suspended: bool,
    /// Its key.
    pub key: PublicKey,
}

impl ActivityPub {
    /// The remote account whose key this is, fetched anew whatever is known (the key may have been
    /// changed); none when that cannot be had, or was fetched within the last five minutes.
    ///
    /// # Errors
    /// The database's.
    pub async fn refetch(&self, key_id: &str) -> Result<Option<Signer>, Error> {
        if self.was_asked_for(key_id) {
            return Ok(None);
        }
        match self.renew(key_id, self.now()).await {
            Ok(()) => self.known_signer(key_id).await,
            Err(RemoteError::Community(error @ Error::Db(_))) => Err(error),
            Err(error) => {
                tracing::debug!(%error, key_id, "a key was not fetched");
                Ok(None)
            }
        }
    }

    /// Fetches a key as it is now, unless that was done since `since`; once, however many ask.
    pub(crate) async fn renew(&self, key_id: &str, since: Timestamp) -> Result<(), RemoteError> {
        let refetched = &self.finder().refetched;
        // Not under its bare id: that may be its owner's, which is asked for below.
        let _alone = self.finder().budgets.alone(&format!("key {key_id}")).await;
        if refetched.is_of(key_id, since) {
            return Ok(());
        }
        let began = self.now();
        let had = refetched.had(key_id);
        refetched.0.insert(key_id.to_owned(), had);
        let mut fetched = Err(RemoteError::Unfit(key_id.to_owned(), "its id is no URL"));
        for actor in owners(key_id) {
            fetched = self.reread_account(&actor).await;
            if fetched.is_ok() {
                refetched.0.insert(key_id.to_owned(), Some(began));
                break;
            }
        }
        fetched.map(drop)
    }

    /// Whether the key was asked for within the last five minutes, or is being asked for.
    fn was_asked_for(&self, key_id: &str) -> bool {
        self.finder().refetched.0.contains_key(key_id)
    }

    /// Whether the key is known as it was within the last five minutes: what does not fit it is
    /// forged. While it is being asked for, or could not be had, that is not known.
    pub(crate) fn was_refetched(&self, key_id: &str) -> bool {
        let life_ms = REFETCHED_LIFE.as_millis() as i64;
        let had = self.finder().refetched.had(key_id);
        had.is_some_and(|had| self.now().since_ms(had).abs() < life_ms)
    }

    /// The remote account whose key this is, as far as it is known here.
    ///
    /// # Errors
    /// The database's.
    pub async fn known_signer(&self, key_id: &str) -> Result<Option<Signer>, Error> {
        Ok(self.known_signers(vec![key_id.to_owned()]).await?.remove(key_id))
    }

    /// The same of many keys, by key.
    pub(crate) async fn known_signers(
        &self,
        keys: Vec<String>,
    ) -> Result<HashMap<String, Signer>, Error> {
        known(self.community(), keys).await
    }
}

/// The remote accounts whose keys these are, as far as they are known here, by key.
pub(crate) async fn known(
    community: &Community,
    keys: Vec<String>,
) -> Result<HashMap<String, Signer>, Error> {
    let rows = community.read(Class::Inbound, move |tx: &mut Tx, _| {
        Ok(tx.query(
            "SELECT k.key_id, k.public_pem, a.id, a.uri, a.domain,
               CASE WHEN a.suspended_at IS NULL AND a.deleted_at IS NULL THEN 0 ELSE 1 END
             FROM account_keys k JOIN accounts a ON a.id = k.account_id
             WHERE k.key_id IN texts(?1) AND a.domain <> ''",
            &[weir_db::texts(&keys)],
            |row| {
                let (key_id, pem): (String, String) = (row.get(0)?, row.get(1)?);
                Ok((key_id, pem, (row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?)))
            },
        )?)
    });
    type Found = (String, String, (Id, String, String, bool));
    let rows: Vec<Found> = rows.await?;
    let one = |(key_id, pem, (account, uri, domain, suspended)): Found| {
        // A key that cannot be read is as good as none.
        let key = PublicKey::from_pem(&pem).ok()?;
        Some((key_id, Signer { account, uri, domain, suspended, key }))
    };
    Ok(rows.into_iter().filter_map(one).collect())
}

/// The actors whose key this may be: what stands before the fragment, or, where keys have a path
/// of their own (GoToSocial), before that.
fn owners(key_id: &str) -> Vec<Uri> {
    let whole = key_id.split('#').next().unwrap_or_default();
    let above = whole.strip_suffix("/main-key").or_else(|| whole.strip_suffix("/publickey"));
    above.into_iter().chain([whole]).filter_map(|uri| uri.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::owners;

    #[test]
    fn a_key_leads_to_its_actor() {
        let first = |key_id| owners(key_id).first().map(ToString::to_string);
        let alice = Some("https://a.example/users/alice".to_owned());
        assert_eq!(first("https://a.example/users/alice#main-key"), alice);
        assert_eq!(first("https://a.example/users/alice/main-key"), alice);
        assert_eq!(first("not a key"), None);
    }
}
