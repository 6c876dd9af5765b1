//! A fake fediverse: actors on many hosts with real keys, and activities signed by them
//! (draft-cavage-http-signatures-12, rsa-sha256), made before the clock starts.

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::encoding::{AsDer as _, PublicKeyX509Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use weir_base::Timestamp;

/// Different key pairs; actors share them, for making one takes a tenth of a second.
const KEYS: usize = 16;

/// The library could not make a key or sign.
#[derive(Debug, thiserror::Error)]
#[error("a key could not be made or used")]
pub struct KeyError;

/// Actors `https://hN.storm.test/users/aM`.
pub struct Fediverse {
    keys: Vec<(RsaKeyPair, String)>,
    actors: usize,
    hosts: usize,
}

/// A request that is ready to be sent.
#[derive(Debug, Clone)]
pub struct SignedRequest {
    /// Its headers.
    pub headers: Vec<(&'static str, String)>,
    /// Its body.
    pub body: String,
}

impl Fediverse {
    /// `actors` on `hosts`.
    ///
    /// # Errors
    /// When no key can be made.
    pub fn new(actors: usize, hosts: usize) -> Result<Self, KeyError> {
        let make = |_| {
            let pair = RsaKeyPair::generate(KeySize::Rsa2048).map_err(|_| KeyError)?;
            let der: PublicKeyX509Der<'_> = pair.public_key().as_der().map_err(|_| KeyError)?;
            let pem = pem(der.as_ref());
            Ok((pair, pem))
        };
        let keys = (0..KEYS.min(actors)).map(make).collect::<Result<_, _>>()?;
        Ok(Self { keys, actors, hosts })
    }

    /// How many actors there are.
    pub fn actors(&self) -> usize {
        self.actors
    }

    /// The host of an actor.
    pub fn host(&self, actor: usize) -> String {
        format!("h{}.storm.test", actor % self.hosts)
    }

    /// The id of an actor.
    pub fn actor_uri(&self, actor: usize) -> String {
        format!("https://{}/users/a{actor}", self.host(actor))
    }

    /// The public key of an actor, as PEM.
    pub fn public_pem(&self, actor: usize) -> &str {
        &self.keys[actor % self.keys.len()].1
    }

    /// A public note as Mastodon sends it.
    pub fn create(&self, actor: usize, number: u64, at: Timestamp) -> serde_json::Value {
        let by = self.actor_uri(actor);
        let note = format!("{by}/statuses/{number}");
        let public = "https://www.w3.org/ns/activitystreams#Public";
        serde_json::json!({
            "@context": "https://www.w3.org/ns/activitystreams",
            "id": format!("{note}/activity"),
            "type": "Create",
            "actor": by,
            "published": at.to_string(),
            "to": [public],
            "cc": [format!("{by}/followers")],
            "object": {
                "id": note,
                "type": "Note",
                "attributedTo": by,
                "content": format!("<p>Note {number} of a flood that a weir should hold, with a \
                                    <a href=\"https://storm.test/\">link</a> in it.</p>"),
                "published": at.to_string(),
                "url": format!("{note}.html"),
                "to": [public],
                "cc": [format!("{by}/followers")],
                "sensitive": false,
                "tag": [],
                "attachment": []
            }
        })
    }

    /// Signs `activity` by its actor for a POST to `path` on `host`.
    ///
    /// # Errors
    /// When the library cannot sign.
    pub fn sign(
        &self,
        actor: usize,
        activity: &serde_json::Value,
        host: &str,
        path: &str,
        at: Timestamp,
    ) -> Result<SignedRequest, KeyError> {
        let body = activity.to_string();
        let sum = BASE64_STANDARD.encode(digest(&SHA256, body.as_bytes()));
        let (date, sum) = (at.http_date(), format!("SHA-256={sum}"));
        let kind = "application/activity+json";
        let text = format!(
            "(request-target): post {path}\nhost: {host}\ndate: {date}\ndigest: {sum}\n\
             content-type: {kind}"
        );
        let pair = &self.keys[actor % self.keys.len()].0;
        let mut signature = vec![0; pair.public_modulus_len()];
        pair.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), text.as_bytes(), &mut signature)
            .map_err(|_| KeyError)?;
        let header = format!(
            "keyId=\"{}#main-key\",algorithm=\"rsa-sha256\",\
             headers=\"(request-target) host date digest content-type\",signature=\"{}\"",
            self.actor_uri(actor),
            BASE64_STANDARD.encode(signature)
        );
        let headers = vec![
            ("date", date),
            ("digest", sum),
            ("content-type", kind.to_owned()),
            ("signature", header),
        ];
        Ok(SignedRequest { headers, body })
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
