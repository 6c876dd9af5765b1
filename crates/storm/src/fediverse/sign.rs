//! Requests that are ready to be sent.

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::RSA_PKCS1_SHA256;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use weir_base::Timestamp;

use super::{Fediverse, KeyError};

/// The media type of what is said.
const KIND: &str = "application/activity+json";

/// A request that is ready to be sent.
#[derive(Debug, Clone)]
pub struct SignedRequest {
    /// Its headers.
    pub headers: Vec<(&'static str, String)>,
    /// Its body.
    pub body: String,
}

impl Fediverse {
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
        self.sign_body(actor, activity.to_string(), host, path, at)
    }

    /// Signs what is written as it is, even if it is no activity.
    ///
    /// # Errors
    /// When the library cannot sign.
    pub fn sign_body(
        &self,
        actor: usize,
        body: String,
        host: &str,
        path: &str,
        at: Timestamp,
    ) -> Result<SignedRequest, KeyError> {
        let sum = BASE64_STANDARD.encode(digest(&SHA256, body.as_bytes()));
        let (date, sum) = (at.http_date(), format!("SHA-256={sum}"));
        let text = format!(
            "(request-target): post {path}\nhost: {host}\ndate: {date}\ndigest: {sum}\n\
             content-type: {KIND}"
        );
        let names = "(request-target) host date digest content-type";
        let signature = self.signature(actor, &text, names)?;
        let headers = vec![
            ("date", date),
            ("digest", sum),
            ("content-type", KIND.to_owned()),
            ("signature", signature),
        ];
        Ok(SignedRequest { headers, body })
    }

    /// The headers of a GET of `path` on `host`, for servers that answer nobody they do not know.
    ///
    /// # Errors
    /// When the library cannot sign.
    pub fn sign_get(
        &self,
        actor: usize,
        host: &str,
        path: &str,
        at: Timestamp,
    ) -> Result<Vec<(&'static str, String)>, KeyError> {
        let date = at.http_date();
        let text = format!("(request-target): get {path}\nhost: {host}\ndate: {date}");
        let signature = self.signature(actor, &text, "(request-target) host date")?;
        Ok(vec![("date", date), ("accept", KIND.to_owned()), ("signature", signature)])
    }

    fn signature(&self, actor: usize, text: &str, names: &str) -> Result<String, KeyError> {
        let pair = &self.pair(actor).0;
        let mut signature = vec![0; pair.public_modulus_len()];
        pair.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), text.as_bytes(), &mut signature)
            .map_err(|_| KeyError)?;
        Ok(format!(
            "keyId=\"{}#main-key\",algorithm=\"rsa-sha256\",headers=\"{names}\",signature=\"{}\"",
            self.actor_uri(actor),
            BASE64_STANDARD.encode(signature)
        ))
    }
}
