//! A fake fediverse: actors on many hosts with real keys, what they say, signed by them
//! (draft-cavage-http-signatures-12, rsa-sha256), and servers on loopback that answer for them.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `names` | what the hosts are called, and where they listen |
//! | `sign` | requests that are ready to be sent |
//! | `documents` | actors, collections and WebFinger, as their servers give them |
//! | `activities` | what actors say |
//! | `servers` | one listener a host; inboxes that count and keep the time |
//! | `behaviour` | how a host answers: well, slowly, with errors, not at all |
//! | `verify` | whether what comes is signed by who says it |
//! | `courier` | what the fake side sends by itself: the answer to a Follow |

pub mod activities;
mod behaviour;
mod courier;
mod documents;
mod names;
mod servers;
mod sign;
mod verify;

use aws_lc_rs::encoding::{AsDer as _, PublicKeyX509Der};
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{KeyPair as _, RsaKeyPair};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

pub use behaviour::Behaviour;
pub use courier::Courier;
pub use names::{Named, Names};
pub use servers::{Arrival, Arrivals, Found, Servers};
pub use sign::SignedRequest;
pub use verify::Signatures;

/// Different key pairs; actors share them, for making one takes a tenth of a second.
const KEYS: usize = 16;

/// The library could not make a key or sign.
#[derive(Debug, thiserror::Error)]
#[error("a key could not be made or used")]
pub struct KeyError;

/// Actors `aM` in turn on hosts `0..H`: `…/users/aM` is on host `M % H`.
pub struct Fediverse {
    names: Names,
    keys: Vec<(RsaKeyPair, String)>,
    actors: usize,
    hosts: usize,
    shared_inboxes: bool,
}

impl Fediverse {
    /// `actors` on `hosts` that nobody can reach: `https://hN.storm.test/users/aM`.
    ///
    /// # Errors
    /// When no key can be made.
    pub fn new(actors: usize, hosts: usize) -> Result<Self, KeyError> {
        Self::on(Names::Nowhere, actors, hosts)
    }

    /// `actors` on `hosts` that are called so. Takes a second for the keys.
    ///
    /// # Errors
    /// When no key can be made.
    pub fn on(names: Names, actors: usize, hosts: usize) -> Result<Self, KeyError> {
        let make = || {
            let pair = RsaKeyPair::generate(KeySize::Rsa2048).map_err(|_| KeyError)?;
            let der: PublicKeyX509Der<'_> = pair.public_key().as_der().map_err(|_| KeyError)?;
            let pem = pem(der.as_ref());
            Ok((pair, pem))
        };
        let count = KEYS.min(actors.max(1));
        let keys: Result<Vec<_>, KeyError> = std::thread::scope(|scope| {
            let makers: Vec<_> = (0..count).map(|_| scope.spawn(make)).collect();
            makers.into_iter().map(|maker| maker.join().unwrap_or(Err(KeyError))).collect()
        });
        Ok(Self { names, keys: keys?, actors, hosts: hosts.max(1), shared_inboxes: true })
    }

    /// The same without shared inboxes: every actor is sent to by itself.
    #[must_use]
    pub fn without_shared_inboxes(mut self) -> Self {
        self.shared_inboxes = false;
        self
    }

    /// How many actors there are.
    pub fn actors(&self) -> usize {
        self.actors
    }

    /// How many hosts there are.
    pub fn hosts(&self) -> usize {
        self.hosts
    }

    /// What the hosts are called.
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// The number of the host of an actor.
    pub fn host_of(&self, actor: usize) -> usize {
        actor % self.hosts
    }

    /// The host of an actor, with the port where it has one.
    pub fn host(&self, actor: usize) -> String {
        self.names.authority(self.host_of(actor))
    }

    /// The id of an actor.
    pub fn actor_uri(&self, actor: usize) -> String {
        format!("{}/users/a{actor}", self.names.origin(self.host_of(actor)))
    }

    /// The address of an actor: `aM@host`.
    pub fn address(&self, actor: usize) -> String {
        format!("a{actor}@{}", self.host(actor))
    }

    /// The public key of an actor, as PEM.
    pub fn public_pem(&self, actor: usize) -> &str {
        &self.pair(actor).1
    }

    /// The actor whose path on host `host` begins with `/users/aM`, and the rest of the path.
    pub fn actor_at<'p>(&self, host: usize, path: &'p str) -> Option<(usize, &'p str)> {
        let name = path.strip_prefix("/users/a")?;
        let end = name.find('/').unwrap_or(name.len());
        let actor: usize = name[..end].parse().ok()?;
        let here = actor < self.actors && self.host_of(actor) == host;
        here.then_some((actor, &name[end..]))
    }

    fn pair(&self, actor: usize) -> &(RsaKeyPair, String) {
        &self.keys[actor % self.keys.len()]
    }
}

fn pem(der: &[u8]) -> String {
    let text = BASE64_STANDARD.encode(der);
    let lines: Vec<&str> = text
        .as_bytes()
        .chunks(64)
        // Base64 is ASCII.
        .map(|line| std::str::from_utf8(line).unwrap_or_default())
        .collect();
    format!("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n", lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_actor_is_found_by_its_path_on_its_own_host_only() {
        let fediverse = Fediverse::on(Names::loopback(8000), 5, 3).unwrap();
        assert_eq!(fediverse.actor_uri(4), "http://127.80.0.2:8000/users/a4");
        assert_eq!(fediverse.actor_at(1, "/users/a4/inbox"), Some((4, "/inbox")));
        assert_eq!(fediverse.actor_at(1, "/users/a1"), Some((1, "")));
        assert_eq!(fediverse.actor_at(0, "/users/a4"), None);
        assert_eq!(fediverse.actor_at(2, "/users/a5"), None);
        assert_eq!(fediverse.actor_at(2, "/users/b2"), None);
    }
}
