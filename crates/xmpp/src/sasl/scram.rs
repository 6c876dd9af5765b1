//! SCRAM (RFC 5802): the server's side.

use aws_lc_rs::constant_time;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use weir_community::users::scram::{Hash, ScramKeys};

use super::{Binding, Failure, Offer};

/// The longest nonce of a client, in bytes.
const NONCE_BYTES_MAX: usize = 256;

/// The client's first message, understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientFirst {
    /// Whom to act as; empty: whose password it is.
    pub authzid: String,
    /// Whose password it is.
    pub name: String,
    hash: Hash,
    /// What `c=` must hold: the header, and the data of the binding.
    bound: Vec<u8>,
    bare: String,
    nonce: String,
}

/// A log-in that waits for the client's proof.
#[derive(Debug, Clone)]
pub struct Waiting {
    hash: Hash,
    bound: Vec<u8>,
    nonce: String,
    /// The two messages so far, with a comma behind each.
    said: String,
    keys: ScramKeys,
}

impl ClientFirst {
    /// Reads the first message. `plus` tells which variant was chosen of what was offered.
    ///
    /// # Errors
    /// [`Failure`] when it is not of the form, wants a binding that is not offered, or tells that
    /// somebody took the bindings out of the offer.
    pub fn parse(hash: Hash, plus: bool, offer: &Offer, message: &[u8]) -> Result<Self, Failure> {
        let wrong = || Failure::malformed("This is no first message of SCRAM.");
        let text = std::str::from_utf8(message).map_err(|_| wrong())?;
        let (flag, rest) = text.split_once(',').ok_or_else(wrong)?;
        let (authzid, bare) = rest.split_once(',').ok_or_else(wrong)?;
        let mut bound = format!("{flag},{authzid},").into_bytes();
        match flag.strip_prefix("p=") {
            Some(name) if plus => {
                let data = Binding::parse(name).and_then(|binding| offer.bindings.data(binding));
                bound.extend_from_slice(data.ok_or_else(|| {
                    Failure::malformed("Use one of the channel bindings that are offered.")
                })?);
            }
            None if plus => {
                return Err(Failure::malformed("A mechanism with -PLUS needs a channel binding."));
            }
            Some(_) => {
                return Err(Failure::malformed("A channel binding needs a mechanism with -PLUS."));
            }
            // The client could bind and believes that we can't: somebody changed the offer.
            None if flag == "y" && !offer.bindings.is_empty() => return Err(Failure::wrong()),
            None if matches!(flag, "y" | "n") => {}
            None => return Err(wrong()),
        }
        let authzid = match authzid.strip_prefix("a=") {
            Some(name) => gs2_name(name).ok_or_else(wrong)?,
            None if authzid.is_empty() => String::new(),
            None => return Err(wrong()),
        };
        let mut parts = bare.split(',');
        // A mandatory extension (`m=`) would stand in the place of the name.
        let name = parts.next().and_then(|part| part.strip_prefix("n=")).and_then(gs2_name);
        let nonce = parts.next().and_then(|part| part.strip_prefix("r="));
        let (name, nonce) = (name.ok_or_else(wrong)?, nonce.ok_or_else(wrong)?);
        let printable = nonce.bytes().all(|byte| matches!(byte, 0x21..=0x7e));
        if name.is_empty() || nonce.is_empty() || nonce.len() > NONCE_BYTES_MAX || !printable {
            return Err(wrong());
        }
        let (bare, nonce) = (bare.to_owned(), nonce.to_owned());
        Ok(Self { authzid, name, hash, bound, bare, nonce })
    }

    /// The challenge for somebody with `keys`; `nonce` is our part of it, printable and without
    /// commas. What was offered is protected by its hash (XEP-0474).
    pub fn challenge(self, keys: ScramKeys, nonce: &str, offer: &Offer) -> (Vec<u8>, Waiting) {
        let nonce = format!("{}{nonce}", self.nonce);
        let key = keys.key(self.hash);
        let salt = BASE64_STANDARD.encode(key.salt);
        let offered = self.hash.digest(offer.protected().as_bytes());
        let offered = BASE64_STANDARD.encode(offered);
        let first = format!("r={nonce},s={salt},i={},h={offered}", key.iterations);
        let said = format!("{},{first},", self.bare);
        (first.into_bytes(), Waiting { hash: self.hash, bound: self.bound, nonce, said, keys })
    }
}

impl Waiting {
    /// Checks the client's last message, and gives what proves the server.
    ///
    /// # Errors
    /// [`Failure`] when it is not of the form, or proves nothing.
    pub fn finish(&self, message: &[u8]) -> Result<Vec<u8>, Failure> {
        let wrong = || Failure::malformed("This is no last message of SCRAM.");
        let text = std::str::from_utf8(message).map_err(|_| wrong())?;
        let (without_proof, proof) = text.rsplit_once(",p=").ok_or_else(wrong)?;
        let mut parts = without_proof.split(',');
        let bound = parts.next().and_then(|part| part.strip_prefix("c=")).ok_or_else(wrong)?;
        let nonce = parts.next().and_then(|part| part.strip_prefix("r=")).ok_or_else(wrong)?;
        let bound = BASE64_STANDARD.decode(bound).map_err(|_| wrong())?;
        let proof = BASE64_STANDARD.decode(proof).map_err(|_| wrong())?;
        if proof.len() != self.hash.bytes() {
            return Err(wrong());
        }
        if bound != self.bound || nonce != self.nonce {
            return Err(Failure::wrong());
        }
        let key = self.keys.key(self.hash);
        let said = format!("{}{without_proof}", self.said);
        let signature = self.hash.hmac(key.stored, said.as_bytes());
        let client: Vec<u8> =
            proof.iter().zip(signature.as_ref()).map(|(one, other)| one ^ other).collect();
        let stored = self.hash.digest(&client);
        constant_time::verify_slices_are_equal(stored.as_ref(), key.stored)
            .map_err(|_| Failure::wrong())?;
        let server = self.hash.hmac(key.server, said.as_bytes());
        Ok(format!("v={}", BASE64_STANDARD.encode(server)).into_bytes())
    }
}

/// A name in which `,` and `=` are written `=2C` and `=3D` (RFC 5802, 5.1).
pub(super) fn gs2_name(text: &str) -> Option<String> {
    let mut parts = text.split('=');
    let mut name = parts.next()?.to_owned();
    for part in parts {
        let (written, rest) = part.split_at_checked(2)?;
        name.push(match written {
            "2C" => ',',
            "3D" => '=',
            _ => return None,
        });
        name.push_str(rest);
    }
    (!name.contains('\0')).then_some(name)
}

#[cfg(test)]
mod tests;
