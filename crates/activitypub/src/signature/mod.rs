//! HTTP signatures in both forms: draft-cavage-http-signatures-12 and RFC 9421.
//!
//! All of it is pure: no time, network or store of its own. The door asks [`check`] for all that
//! can be told without a key (form, digest, date, what is covered), and the [`Checked`] it gives
//! knows which key it wants and, once that is known, whether the signature is its.
//!
//! What a signature must cover here, or it is refused:
//!
//! | | draft-cavage | RFC 9421 |
//! | --- | --- | --- |
//! | always | `(request-target)`, `host`, `date` or `(created)` | `@method`, target, `created` |
//! | unless GET or HEAD | `digest` or `content-digest` | `content-digest` |
//!
//! The target is `@target-uri`, or `@authority` (or `host`) with `@request-target` or `@path`; a
//! query must be covered by one of `@target-uri`, `@request-target` and `@query`.

mod base58;
mod cavage;
mod digest;
mod error;
pub mod key;
mod request;
mod rfc9421;
#[cfg(test)]
mod tests;

use http::{HeaderMap, HeaderValue};
use weir_base::Timestamp;

pub use error::SignatureError;
pub use request::{Outgoing, Received};

use key::{KeyError, PrivateKey, PublicKey};

/// The two forms of signature in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Form {
    /// draft-cavage-http-signatures-12: what every server speaks.
    Cavage,
    /// RFC 9421 with RFC 9530 digests.
    Rfc9421,
}

/// What a request says of its signature, before anything is checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The key it claims to be signed with: usually a URL.
    pub key_id: String,
    /// The form of its signature.
    pub form: Form,
}

/// How a signature was made. Older peers leave it to the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Algorithm {
    OfKey,
    RsaSha256,
    RsaSha512,
    RsaPssSha512,
    Ed25519,
}

/// A signed request of which everything is in order but the signature itself, which only its key
/// can tell. It stands alone: the request is not needed any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    /// What the request says of its signature.
    pub claim: Claim,
    /// When it was signed, to the second, by the signer's clock.
    pub signed_at: Timestamp,
    algorithm: Algorithm,
    /// What may have been signed: more than one where peers differ in what they put in.
    bases: Vec<Vec<u8>>,
    signature: Vec<u8>,
}

impl Checked {
    /// Whether the signature was made with this key.
    ///
    /// # Errors
    /// [`SignatureError::Invalid`] where it was not.
    pub fn verify(&self, key: &PublicKey) -> Result<Form, SignatureError> {
        let fits = |base: &Vec<u8>| key.verifies(self.algorithm, base, &self.signature);
        if self.bases.iter().any(fits) { Ok(self.claim.form) } else { Err(SignatureError::Invalid) }
    }

    /// The signature itself, whether it fits or not.
    pub fn signature(&self) -> &[u8] {
        &self.signature
    }
}

/// Which key and form a request claims. Reads as little as it can: a door uses it to find the
/// key's host before it does any work for it.
///
/// # Errors
/// There is no signature, or it cannot be read.
pub fn claim(headers: &HeaderMap) -> Result<Claim, SignatureError> {
    match form_of(headers)? {
        Form::Cavage => cavage::claim(headers),
        Form::Rfc9421 => rfc9421::claim(headers),
    }
}

/// Checks everything that can be told without the key, at the moment the request came in.
///
/// # Errors
/// The signature is missing, malformed, too old, made in the future or does not cover what it
/// must; or the body is not the one that was signed.
pub fn check(
    request: &Received<'_>,
    body: &[u8],
    now: Timestamp,
) -> Result<Checked, SignatureError> {
    match form_of(request.headers)? {
        Form::Cavage => cavage::check(request, body, now),
        Form::Rfc9421 => rfc9421::check(request, body, now),
    }
}

/// [`check`] and [`Checked::verify`] in one, where the key is known already.
///
/// # Errors
/// As both.
pub fn verify(
    request: &Received<'_>,
    body: &[u8],
    key: &PublicKey,
    now: Timestamp,
) -> Result<Form, SignatureError> {
    check(request, body, now)?.verify(key)
}

/// The headers that sign a request in this form, with its `Date`, digest and `Content-Type`.
/// `Host` is left to the client, which sends the URL's.
///
/// # Errors
/// The key's id is no plain text, or the key cannot sign.
pub fn sign(
    form: Form,
    request: &Outgoing<'_>,
    key_id: &str,
    key: &PrivateKey,
    now: Timestamp,
) -> Result<HeaderMap, KeyError> {
    match form {
        Form::Cavage => cavage::sign(request, key_id, key, now),
        Form::Rfc9421 => rfc9421::sign(request, key_id, key, now),
    }
}

fn form_of(headers: &HeaderMap) -> Result<Form, SignatureError> {
    if headers.contains_key("signature-input") {
        return Ok(Form::Rfc9421);
    }
    let of_scheme = |value: &HeaderValue| cavage::of_authorization(value).is_some();
    let authorized = headers.get(http::header::AUTHORIZATION).is_some_and(of_scheme);
    if authorized || headers.contains_key("signature") {
        return Ok(Form::Cavage);
    }
    Err(SignatureError::Missing)
}
