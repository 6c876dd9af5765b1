//! Whether what comes to an inbox is signed by who says it (draft-cavage-http-signatures-12).

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::signature::{RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hyper::http::request::Parts;
use serde_json::Value;

use super::Fediverse;
use super::courier::Courier;

/// One in so many is looked at: each takes about an eighteenth of what it took to sign it.
const ONE_IN: u64 = 16;
/// How often a key is asked for, and how long after the last time: the server may just be ending.
const TRIES: u32 = 5;
const AGAIN_AFTER: Duration = Duration::from_secs(2);
/// Of how many that are wrong, or not known, it is told why.
const EXAMPLES: u64 = 3;
/// What has to be signed: else somebody could say it elsewhere, much later, or otherwise.
const COVERED: [&str; 4] = ["(request-target)", "host", "date", "digest"];

/// What was looked at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Signatures {
    /// Deliveries whose signature fits.
    pub verified: u64,
    /// Those whose does not, or is not that of who says it.
    pub wrong: u64,
    /// Those whose key could not be had.
    pub unknown: u64,
}

/// Looks at some of what is delivered, once it is told to.
#[derive(Default)]
pub(super) struct Verifier {
    looks: AtomicBool,
    came: AtomicU64,
    verified: AtomicU64,
    wrong: AtomicU64,
    unknown: AtomicU64,
    /// Public keys (DER) by their ids.
    keys: Mutex<HashMap<String, Vec<u8>>>,
}

impl Verifier {
    pub(super) fn begin(&self) {
        self.looks.store(true, Ordering::Relaxed);
    }

    pub(super) fn found(&self) -> Signatures {
        let [verified, wrong, unknown] =
            [&self.verified, &self.wrong, &self.unknown].map(|count| count.load(Ordering::Relaxed));
        Signatures { verified, wrong, unknown }
    }

    /// Whether what comes now is to be looked at.
    pub(super) fn is_next(&self) -> bool {
        let looks = self.looks.load(Ordering::Relaxed);
        looks && self.came.fetch_add(1, Ordering::Relaxed).is_multiple_of(ONE_IN)
    }

    /// Looks at a delivery to `host`, and counts it.
    pub(super) async fn look(
        &self,
        courier: &Courier,
        fediverse: &Fediverse,
        host: &str,
        head: &Parts,
        body: &[u8],
    ) {
        let read = header(head, "signature").and_then(Signature::of);
        let checked = match &read {
            Ok(signature) => match self.key_of(courier, fediverse, signature).await {
                Ok(key) => signature.check(&key, host, head, body),
                Err(error) => {
                    if self.unknown.fetch_add(1, Ordering::Relaxed) < EXAMPLES {
                        eprintln!("whether a delivery is signed rightly is not known: {error:#}");
                    }
                    return;
                }
            },
            Err(error) => Err(anyhow!("{error:#}")),
        };
        let Err(error) = checked else {
            self.verified.fetch_add(1, Ordering::Relaxed);
            return;
        };
        if self.wrong.fetch_add(1, Ordering::Relaxed) < EXAMPLES {
            eprintln!("a delivery to {host} is not signed rightly: {error:#}");
        }
    }

    /// The key that is named, from who has it.
    async fn key_of(
        &self,
        courier: &Courier,
        fediverse: &Fediverse,
        signature: &Signature<'_>,
    ) -> Result<Vec<u8>> {
        let known = self.keys.lock().ok().and_then(|keys| keys.get(signature.key_id).cloned());
        if let Some(key) = known {
            return Ok(key);
        }
        let owner = signature.owner();
        let mut document = courier.document_of(fediverse, owner).await;
        for _ in 1..TRIES {
            if document.is_ok() {
                break;
            }
            tokio::time::sleep(AGAIN_AFTER).await;
            document = courier.document_of(fediverse, owner).await;
        }
        let document = document?;
        let key = document["publicKey"]["publicKeyPem"].as_str();
        let key = der(key.with_context(|| format!("{owner} shows no key"))?)?;
        if let Ok(mut keys) = self.keys.lock() {
            keys.insert(signature.key_id.to_owned(), key.clone());
        }
        Ok(key)
    }
}

/// What a `Signature` header says.
struct Signature<'h> {
    key_id: &'h str,
    covered: Vec<&'h str>,
    bytes: Vec<u8>,
}

impl<'h> Signature<'h> {
    fn of(header: &'h str) -> Result<Self> {
        let parameter = |name: &str| {
            let mut parts = header.split(',').filter_map(|part| part.trim().split_once('='));
            let found = parts.find(|(own, _)| *own == name).map(|(_, value)| value);
            found.map(|value| value.trim_matches('"')).with_context(|| format!("no {name}"))
        };
        let covered: Vec<&str> = parameter("headers")?.split(' ').collect();
        let open = COVERED.iter().find(|name| !covered.contains(name));
        if let Some(open) = open {
            bail!("{open} is not signed");
        }
        let bytes = BASE64_STANDARD.decode(parameter("signature")?)?;
        Ok(Self { key_id: parameter("keyId")?, covered, bytes })
    }

    /// Whose key it names.
    fn owner(&self) -> &'h str {
        self.key_id.split('#').next().unwrap_or_default()
    }

    /// Whether `key` signed what came to `host`, and is that of who says it.
    fn check(&self, key: &[u8], host: &str, head: &Parts, body: &[u8]) -> Result<()> {
        let signed = self.text(host, head, body)?;
        let key = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, key);
        let fits = key.verify(signed.as_bytes(), &self.bytes);
        fits.ok().with_context(|| format!("the key {} did not sign this", self.key_id))?;
        let said: Value = serde_json::from_slice(body).context("it is no JSON")?;
        let (by, owner) = (said["actor"].as_str().unwrap_or_default(), self.owner());
        // What others said is passed on by somebody of the server (ActivityPub, 7.1.2).
        let author = origin(by).context("nobody says it")?;
        let is_own = Some(author) == origin(owner);
        ensure!(!is_own || by == owner, "{by} says it, signed by {owner}");
        Ok(())
    }

    /// What was signed, if it is what came to `host`.
    fn text(&self, host: &str, head: &Parts, body: &[u8]) -> Result<String> {
        let sum = format!("SHA-256={}", BASE64_STANDARD.encode(digest(&SHA256, body)));
        ensure!(header(head, "digest")? == sum, "the digest is not that of what came");
        // Clients leave out the usual port.
        let bare = |host: &'_ str| host.strip_suffix(":80").unwrap_or(host).to_owned();
        let named = header(head, "host")?;
        ensure!(bare(named) == bare(host), "it is for {named}");
        let mut lines = Vec::with_capacity(self.covered.len());
        for name in &self.covered {
            let value = match *name {
                "(request-target)" => {
                    format!("{} {}", head.method.as_str().to_lowercase(), head.uri.path())
                }
                name => header(head, name)?.to_owned(),
            };
            lines.push(format!("{name}: {value}"));
        }
        Ok(lines.join("\n"))
    }
}

fn header<'h>(head: &'h Parts, name: &str) -> Result<&'h str> {
    let value = head.headers.get(name).with_context(|| format!("there is no {name}"))?;
    Ok(value.to_str()?)
}

fn origin(uri: &str) -> Option<url::Origin> {
    url::Url::parse(uri).ok().map(|url| url.origin())
}

/// What a PEM holds.
fn der(pem: &str) -> Result<Vec<u8>> {
    let lines: String = pem.lines().filter(|line| !line.starts_with("-----")).collect();
    BASE64_STANDARD.decode(lines).context("the key is no PEM")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use hyper::Request;
    use weir_base::Timestamp;

    use super::*;
    use crate::fediverse::{Found, Names, Servers};

    async fn place() -> (Arc<Fediverse>, Servers) {
        let names = Names::on_a_free_port(2).unwrap();
        let fediverse = Arc::new(Fediverse::on(names, 2, 2).unwrap());
        let nothing = |_: usize, _: &str| Found::Nothing;
        let courier = Some(Courier::new().unwrap());
        let servers = Servers::start(fediverse.clone(), nothing, courier).await.unwrap();
        (fediverse, servers)
    }

    /// What actor 1 tells `host`, with `change` made to its headers.
    fn head(
        fediverse: &Fediverse,
        host: &str,
        body: &str,
        change: impl Fn(&str, String) -> String,
    ) -> Parts {
        let at = Timestamp::from_ms(1_700_000_000_000);
        let signed = fediverse.sign_body(1, body.to_owned(), host, "/inbox", at).unwrap();
        let request = Request::post("/inbox").header("host", host);
        let headers = signed.headers.into_iter();
        let request = headers
            .fold(request, |request, (name, value)| request.header(name, change(name, value)));
        request.body(()).unwrap().into_parts().0
    }

    #[tokio::test]
    async fn only_what_the_key_of_its_sender_signed_fits() {
        let (fediverse, _servers) = place().await;
        let (courier, verifier) = (Courier::new().unwrap(), Verifier::default());
        let by = |actor: usize| fediverse.about(actor, "Like", 1, "nothing".into()).to_string();
        let why = async |head: Parts, body: &str| {
            let signature = match Signature::of(header(&head, "signature").unwrap()) {
                Ok(signature) => signature,
                Err(error) => return error.to_string(),
            };
            let key = verifier.key_of(&courier, &fediverse, &signature).await.unwrap();
            let checked = signature.check(&key, "here", &head, body.as_bytes());
            checked.err().map(|error| error.to_string()).unwrap_or_default()
        };
        let (own, same) = (by(1), |_: &str, value: String| value);
        assert_eq!(why(head(&fediverse, "here", &own, same), &own).await, "");
        let usual = head(&fediverse, "here:80", &own, same);
        assert_eq!(why(usual, &own).await, "");
        let other = why(head(&fediverse, "here", &own, same), "{}").await;
        assert_eq!(other, "the digest is not that of what came");
        assert_eq!(why(head(&fediverse, "there", &own, same), &own).await, "it is for there");
        let later = |name: &str, value: String| match name {
            "date" => Timestamp::from_ms(1_700_000_001_000).http_date(),
            _ => value,
        };
        let key = format!("{}#main-key", fediverse.actor_uri(1));
        let not_signed = |key: &str| format!("the key {key} did not sign this");
        assert_eq!(why(head(&fediverse, "here", &own, later), &own).await, not_signed(&key));
        let first = format!("{}#main-key", fediverse.actor_uri(0));
        let anothers = |_: &str, value: String| value.replace(&key, &first);
        assert_eq!(why(head(&fediverse, "here", &own, anothers), &own).await, not_signed(&first));
        let undated = |_: &str, value: String| value.replace(" date ", " ");
        assert_eq!(why(head(&fediverse, "here", &own, undated), &own).await, "date is not signed");
        let passed_on = by(0);
        assert_eq!(why(head(&fediverse, "here", &passed_on, same), &passed_on).await, "");
        let nobody = "{}";
        let unsaid = why(head(&fediverse, "here", nobody, same), nobody).await;
        assert_eq!(unsaid, "nobody says it");
        let neighbour = format!("{}/users/a3", fediverse.names().origin(1));
        let neighbours = own.replace(&fediverse.actor_uri(1), &neighbour);
        let why = why(head(&fediverse, "here", &neighbours, same), &neighbours).await;
        assert!(why.starts_with(&format!("{neighbour} says it")), "{why}");
    }

    #[tokio::test]
    async fn nothing_is_looked_at_before_it_is_said_so_and_then_one_in_a_few_is() {
        let verifier = Verifier::default();
        assert!((0..100).all(|_| !verifier.is_next()));
        verifier.begin();
        assert_eq!((0..80).filter(|_| verifier.is_next()).count(), 80 / ONE_IN as usize);
        let (fediverse, servers) = place().await;
        servers.verify();
        let courier = Courier::new().unwrap();
        let follow = fediverse.about(0, "Like", 1, "nothing".into());
        let to = fediverse.actor_uri(1);
        assert_eq!(courier.tell(&fediverse, 0, &to, &follow).await.unwrap(), 202);
        while servers.signatures() == Signatures::default() {
            tokio::task::yield_now().await;
        }
        assert_eq!(servers.signatures(), Signatures { verified: 1, wrong: 0, unknown: 0 });
    }
}
