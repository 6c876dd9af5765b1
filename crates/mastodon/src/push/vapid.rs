//! VAPID (RFC 8292): how this server names itself to push services.

use std::io::Write as _;
use std::path::Path;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as B64;
use weir_base::Timestamp;

/// How long a token is valid (RFC 8292, 2: at most 24 h), in s.
const TOKEN_LIFE_S: i64 = 12 * 60 * 60;
/// The file in the data directory.
const FILE: &str = "vapid.key";

/// The server's key pair for push services.
pub struct Vapid {
    pair: EcdsaKeyPair,
    subject: String,
}

/// The key could not be read or made.
#[derive(Debug, thiserror::Error)]
#[error(
    "the Web Push key {path}: {reason}; restore it from a backup, or remove it \
     (apps then have to subscribe again)"
)]
pub struct VapidError {
    path: String,
    reason: String,
}

impl Vapid {
    /// Reads the key from `data`, or makes it at the first start. `subject` is how push services
    /// reach the people who run the server: a `mailto:` or `https:` address.
    ///
    /// # Errors
    /// When the file cannot be read, written or understood.
    pub fn open(data: &Path, subject: String) -> Result<Self, VapidError> {
        let path = data.join(FILE);
        let fail = |reason: String| VapidError { path: path.display().to_string(), reason };
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let made = EcdsaKeyPair::generate_pkcs8(
                    &ECDSA_P256_SHA256_FIXED_SIGNING,
                    &SystemRandom::new(),
                )
                .map_err(|_| fail("no key could be made".into()))?;
                write_secret(&path, made.as_ref()).map_err(|error| fail(error.to_string()))?;
                made.as_ref().to_vec()
            }
            Err(error) => return Err(fail(error.to_string())),
        };
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &bytes)
            .map_err(|error| fail(error.to_string()))?;
        Ok(Self { pair, subject })
    }

    /// The public key as apps get it: an uncompressed point, URL-safe base64.
    pub fn public_key(&self) -> String {
        B64.encode(self.pair.public_key().as_ref())
    }

    /// The token for the push service at `origin` (scheme and authority), RFC 8292, 2.
    ///
    /// # Errors
    /// When the library cannot sign.
    pub fn token(&self, origin: &str, now: Timestamp) -> Result<String, VapidError> {
        let expires_s = now.as_ms() / 1_000 + TOKEN_LIFE_S;
        let claims = serde_json::json!({ "aud": origin, "exp": expires_s, "sub": self.subject });
        let head = B64.encode(br#"{"typ":"JWT","alg":"ES256"}"#);
        let signed = format!("{head}.{}", B64.encode(claims.to_string()));
        let signature = self.pair.sign(&SystemRandom::new(), signed.as_bytes());
        let signature = signature
            .map_err(|_| VapidError { path: FILE.into(), reason: "cannot sign".into() })?;
        Ok(format!("{signed}.{}", B64.encode(signature)))
    }
}

/// Writes a file that only its owner may read, on disk before it counts.
fn write_secret(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};

    use super::*;

    #[test]
    fn a_token_verifies_with_the_public_key_that_apps_get_and_the_key_is_kept() {
        let data = tempfile::tempdir().unwrap();
        let vapid = Vapid::open(data.path(), "mailto:staff@weir.test".into()).unwrap();
        let token = vapid.token("https://push.test", Timestamp::from_ms(0)).unwrap();
        let (signed, signature) = token.rsplit_once('.').unwrap();
        let claims = B64.decode(signed.split_once('.').unwrap().1).unwrap();
        let claims: serde_json::Value = serde_json::from_slice(&claims).unwrap();
        assert_eq!(claims["aud"], "https://push.test");
        assert_eq!(claims["exp"], TOKEN_LIFE_S);
        let key = B64.decode(vapid.public_key()).unwrap();
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, key)
            .verify(signed.as_bytes(), &B64.decode(signature).unwrap())
            .unwrap();
        let again = Vapid::open(data.path(), String::new()).unwrap();
        assert_eq!(again.public_key(), vapid.public_key());
    }
}
