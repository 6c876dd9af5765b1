//! What people here sign with: made at the first need, outside any unit of work, for making an RSA
//! key takes a tenth of a second.

use tokio::sync::Mutex;
use weir_base::{Id, Secret};
use weir_community::{Community, Error, accounts};
use weir_db::{Class, Tx, params};

use crate::signature::key::{KeyError, PrivateKey};

/// Keys held ready; each is about 2 KiB.
const KEYS_MAX: u64 = 10_000;
/// How many keys can be made at once.
const MAKERS: usize = 4;

/// The keys of local accounts.
pub struct Keys {
    community: Community,
    ready: moka::sync::Cache<Id, Signing>,
    making: [Mutex<()>; MAKERS],
}

/// A key and its name.
#[derive(Debug, Clone)]
pub struct Signing {
    /// Whose it is.
    pub account: Id,
    /// Its address, by which others find its public half.
    pub key_id: String,
    /// The private half.
    pub key: PrivateKey,
    /// The public half, PEM.
    pub public_pem: String,
}

impl Keys {
    pub(crate) fn new(community: Community) -> Self {
        Self {
            community,
            ready: moka::sync::Cache::new(KEYS_MAX),
            making: std::array::from_fn(|_| Mutex::new(())),
        }
    }

    /// Keys in memory.
    pub(crate) fn held(&self) -> u64 {
        self.ready.entry_count()
    }

    /// The key of local account `id`, made if it has none yet; once, however many ask.
    ///
    /// # Errors
    /// The database's, or when no key can be made.
    pub async fn of_account(&self, id: Id) -> Result<Signing, Error> {
        if let Some(ready) = self.ready.get(&id) {
            return Ok(ready);
        }
        let _turn = self.making[id.0 as usize % MAKERS].lock().await;
        if let Some(ready) = self.ready.get(&id) {
            return Ok(ready);
        }
        let stored = self.community.read(Class::Inbound, move |tx, _| stored(tx, id)).await?;
        let stored = match stored {
            Some(stored) => stored,
            None => self.make(id).await?,
        };
        let signing = Signing {
            account: id,
            key: PrivateKey::from_pem(stored.private_pem.expose()).map_err(unusable)?,
            key_id: stored.key_id,
            public_pem: stored.public_pem,
        };
        self.ready.insert(id, signing.clone());
        Ok(signing)
    }

    /// The key of the server's own account.
    ///
    /// # Errors
    /// As [`of_account`](Self::of_account).
    pub async fn of_instance(&self) -> Result<Signing, Error> {
        let account = self.community.read(Class::Inbound, |tx, env| {
            accounts::by_address(tx, &accounts::instance_actor_name(env), "")
        });
        let id = match account.await? {
            Some(account) => account.id,
            None => {
                let made = self.community.write(Class::Inbound, accounts::instance_actor);
                made.await?.id
            }
        };
        self.of_account(id).await
    }

    async fn make(&self, id: Id) -> Result<Stored, Error> {
        let made = tokio::task::spawn_blocking(|| {
            let key = PrivateKey::generate_rsa()?;
            Ok((key.to_pem()?, key.public()?.to_pem()))
        });
        let made: Result<(Secret<String>, String), KeyError> =
            made.await.map_err(|error| Error::Upstream(error.to_string()))?;
        let (private_pem, public_pem) = made.map_err(unusable)?;
        metrics::counter!("weir_activitypub_keys_made_total").increment(1);
        let unit = move |tx: &mut Tx, env: &weir_community::Env| {
            let account = accounts::by_id(tx, id)?;
            let key_id = if account.kind == "application" {
                format!("{}/actor#main-key", env.site.base)
            } else {
                env.site.key_id(id)
            };
            tx.run(
                "INSERT INTO account_keys (key_id, account_id, algorithm, public_pem, private_pem)
                 VALUES (?1, ?2, 'rsa', ?3, ?4) ON CONFLICT DO NOTHING",
                params![key_id, id, public_pem, private_pem.expose()],
            )?;
            stored(tx, id)?.ok_or(Error::NotFound("Key"))
        };
        self.community.write(Class::Inbound, unit).await
    }
}

struct Stored {
    key_id: String,
    public_pem: String,
    private_pem: Secret<String>,
}

fn stored(tx: &mut Tx, account: Id) -> Result<Option<Stored>, Error> {
    Ok(tx.query_opt(
        "SELECT key_id, public_pem, private_pem FROM account_keys
         WHERE account_id = ?1 AND private_pem IS NOT NULL",
        params![account],
        |row| {
            let private_pem = Secret::new(row.get(2)?);
            Ok(Stored { key_id: row.get(0)?, public_pem: row.get(1)?, private_pem })
        },
    )?)
}

fn unusable(error: KeyError) -> Error {
    Error::Upstream(error.to_string())
}
