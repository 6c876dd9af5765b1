//! SCRAM (RFC 5802, RFC 7677) from the client's side. The keys are derived before the clock
//! starts, as clients keep them.

use std::num::NonZeroU32;

use anyhow::{Context as _, Result, ensure};
use aws_lc_rs::{digest, hmac, pbkdf2};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

/// Which hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hash {
    /// SHA-1
    Sha1,
    /// SHA-256
    Sha256,
}

/// What a client keeps instead of its password.
#[derive(Debug, Clone)]
pub struct Keys {
    hash: Hash,
    salt: String,
    iterations: u32,
    client_key: Vec<u8>,
    server_key: Vec<u8>,
}

impl Hash {
    fn hmac(self, key: &[u8], data: &[u8]) -> Vec<u8> {
        let algorithm = match self {
            Self::Sha1 => hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
            Self::Sha256 => hmac::HMAC_SHA256,
        };
        hmac::sign(&hmac::Key::new(algorithm, key), data).as_ref().to_vec()
    }

    fn digest(self, data: &[u8]) -> Vec<u8> {
        let algorithm = match self {
            Self::Sha1 => &digest::SHA1_FOR_LEGACY_USE_ONLY,
            Self::Sha256 => &digest::SHA256,
        };
        digest::digest(algorithm, data).as_ref().to_vec()
    }

    fn salted(self, password: &str, salt: &[u8], iterations: NonZeroU32) -> Vec<u8> {
        let (algorithm, length) = match self {
            Self::Sha1 => (pbkdf2::PBKDF2_HMAC_SHA1, 20),
            Self::Sha256 => (pbkdf2::PBKDF2_HMAC_SHA256, 32),
        };
        let mut salted = vec![0; length];
        pbkdf2::derive(algorithm, iterations, salt, password.as_bytes(), &mut salted);
        salted
    }
}

/// What is said first, without the header.
pub fn first(name: &str, nonce: &str) -> String {
    format!("n={name},r={nonce}")
}

/// The nonce, salt and iterations of the server's first message.
fn parts(server_first: &str) -> Result<(&str, &str, u32)> {
    let part = |key| server_first.split(',').find_map(|part| part.strip_prefix(key));
    let all = (part("r="), part("s="), part("i=").and_then(|count| count.parse().ok()));
    let (Some(nonce), Some(salt), Some(iterations)) = all else {
        anyhow::bail!("the server's first message of SCRAM lacks something: {server_first}");
    };
    Ok((nonce, salt, iterations))
}

impl Keys {
    /// Of `password`, for the salt in the server's first message.
    ///
    /// # Errors
    /// When that message is none.
    pub fn derive(hash: Hash, password: &str, server_first: &str) -> Result<Self> {
        let (_, salt, iterations) = parts(server_first)?;
        let count = NonZeroU32::new(iterations).context("SCRAM with no iterations")?;
        let salted = hash.salted(password, &BASE64.decode(salt)?, count);
        Ok(Self {
            hash,
            salt: salt.to_owned(),
            iterations,
            client_key: hash.hmac(&salted, b"Client Key"),
            server_key: hash.hmac(&salted, b"Server Key"),
        })
    }

    /// Whether the server's first message is about these.
    pub fn fit(&self, server_first: &str) -> bool {
        parts(server_first)
            .is_ok_and(|(_, salt, count)| salt == self.salt && count == self.iterations)
    }

    /// The client's last message, and what the server has to answer.
    ///
    /// # Errors
    /// When the server's first message is none, or about another salt.
    pub fn last(&self, client_first: &str, server_first: &str) -> Result<(String, String)> {
        let (nonce, _, _) = parts(server_first)?;
        ensure!(self.fit(server_first), "the server changed the salt");
        let without_proof = format!("c=biws,r={nonce}");
        let all = format!("{client_first},{server_first},{without_proof}");
        let stored_key = self.hash.digest(&self.client_key);
        let signature = self.hash.hmac(&stored_key, all.as_bytes());
        let proof: Vec<u8> =
            self.client_key.iter().zip(&signature).map(|(key, sign)| key ^ sign).collect();
        let server = self.hash.hmac(&self.server_key, all.as_bytes());
        let last = format!("{without_proof},p={}", BASE64.encode(proof));
        Ok((last, format!("v={}", BASE64.encode(server))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dialogue_of_rfc_5802() {
        let first = first("user", "fyko+d2lbbFgONRv9qkxdawL");
        let server = "r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096";
        let keys = Keys::derive(Hash::Sha1, "pencil", server).unwrap();
        let (last, answer) = keys.last(&first, server).unwrap();
        assert!(last.ends_with(",p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts="));
        assert_eq!(answer, "v=rmF9pqV8S7suAoZWja4dJRkFsKQ=");
    }
}
