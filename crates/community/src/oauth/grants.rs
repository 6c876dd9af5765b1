//! Authorization codes (RFC 6749, 4.1) with PKCE (RFC 7636).

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use weir_base::{Id, Secret};
use weir_db::{Tx, params};

use super::{App, Scopes, hash, tokens};
use crate::{Env, Error};

/// How long a code may be exchanged, in ms.
const CODE_LIFE_MS: i64 = 10 * 60 * 1_000;

/// What a person agreed to.
#[derive(Debug, Clone)]
pub struct NewGrant {
    /// For which app.
    pub app_id: Id,
    /// The person.
    pub account_id: Id,
    /// What it may do.
    pub scopes: Scopes,
    /// Where the code goes.
    pub redirect_uri: String,
    /// PKCE's challenge, method S256.
    pub challenge: Option<String>,
}

/// A token, as it is shown once.
#[derive(Debug, Clone)]
pub struct Authorization {
    /// The token itself.
    pub token: Secret<String>,
    /// What it may do.
    pub scopes: Scopes,
    /// When it was made.
    pub created_at: weir_base::Timestamp,
}

/// Makes a code for what a person agreed to.
///
/// # Errors
/// The database's.
pub fn grant(tx: &mut Tx, env: &Env, new: &NewGrant) -> Result<Secret<String>, Error> {
    let code = env.random.token(32);
    tx.run("DELETE FROM oauth_grants WHERE expires_at < ?1", params![env.clock.now()])?;
    tx.run(
        "INSERT INTO oauth_grants (code_hash, app_id, account_id, scopes, redirect_uri, challenge,
           expires_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        params![
            hash(&code),
            new.app_id,
            new.account_id,
            new.scopes.to_string(),
            new.redirect_uri,
            new.challenge,
            env.clock.now().plus_ms(CODE_LIFE_MS)
        ],
    )?;
    Ok(Secret::new(code))
}

/// Exchanges a code for a token; a code works once.
///
/// # Errors
/// [`Error::Unauthorized`] when the code is wrong, old, or not this app's.
pub fn exchange(
    tx: &mut Tx,
    env: &Env,
    app: &App,
    code: &str,
    redirect_uri: &str,
    verifier: Option<&str>,
) -> Result<Authorization, Error> {
    let invalid = Error::Unauthorized(
        "The provided authorization grant is invalid, expired, revoked, does not match the \
         redirection URI used in the authorization request, or was issued to another client.",
    );
    let found = tx.query_opt(
        "DELETE FROM oauth_grants WHERE code_hash = ?1 AND app_id = ?2
         RETURNING account_id, scopes, redirect_uri, challenge, expires_at",
        params![hash(code), app.id],
        |row| {
            Ok((
                row.get::<Id>(0)?,
                row.get::<String>(1)?,
                row.get::<String>(2)?,
                row.get::<Option<String>>(3)?,
                row.get::<weir_base::Timestamp>(4)?,
            ))
        },
    )?;
    let Some((account, scopes, redirect, challenge, expires_at)) = found else {
        return Err(invalid);
    };
    let proven = match (&challenge, verifier) {
        (None, _) => true,
        (Some(_), None) => false,
        (Some(challenge), Some(verifier)) => {
            *challenge == BASE64_URL_SAFE_NO_PAD.encode(digest(&SHA256, verifier.as_bytes()))
        }
    };
    if expires_at < env.clock.now() || redirect != redirect_uri || !proven {
        return Err(invalid);
    }
    let scopes = scopes.parse().unwrap_or_else(|_| Scopes::read());
    tokens::issue(tx, env, app.id, Some(account), &scopes)
}
