//! Whose a key is.

use weir_base::Id;
use weir_community::Error;
use weir_db::{Class, Tx, params};

use super::Finder;
use crate::signature::key::PublicKey;

/// The account that a signature is of.
#[derive(Debug, Clone)]
pub struct Signer {
    /// Which.
    pub account: Id,
    /// Its actor id.
    pub uri: String,
    /// Its server.
    pub domain: String,
    /// Whether it is suspended here.
    pub suspended: bool,
    /// Its key.
    pub key: PublicKey,
}

impl Finder {
    /// The remote account whose key this is, as far as it is known here.
    ///
    /// # Errors
    /// The database's.
    pub async fn known_signer(&self, key_id: &str) -> Result<Option<Signer>, Error> {
        let key_id = key_id.to_owned();
        let row = self.community.read(Class::Inbound, move |tx: &mut Tx, _| {
            Ok(tx.query_opt(
                "SELECT a.id, a.uri, a.domain,
                   CASE WHEN a.suspended_at IS NULL AND a.deleted_at IS NULL THEN 0 ELSE 1 END,
                   k.public_pem
                 FROM account_keys k JOIN accounts a ON a.id = k.account_id
                 WHERE k.key_id = ?1 AND a.domain <> ''",
                params![key_id],
                |row| {
                    let pem: String = row.get(4)?;
                    Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, pem))
                },
            )?)
        });
        let Some((account, uri, domain, suspended, pem)) = row.await? else { return Ok(None) };
        // A key that cannot be read is as good as none.
        let Ok(key) = PublicKey::from_pem(&pem) else { return Ok(None) };
        Ok(Some(Signer { account, uri, domain, suspended, key }))
    }
}
