//! Signatures against published vectors, an independent implementation, and bad input.

mod corpus;
mod independent;
mod keys;
mod properties;
mod refused;
mod vectors;

use std::sync::OnceLock;

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use url::Url;
use weir_base::Timestamp;

use super::key::PrivateKey;
use super::{Form, Outgoing, Received, sign};

pub const BODY: &[u8] = br#"{"type":"Like"}"#;
pub const MEDIA_TYPE: &str = "application/activity+json";
pub const KEY_ID: &str = "https://a.example/users/alice#main-key";
pub const NOW: Timestamp = Timestamp::from_ms(1_714_557_600_000);
pub const FORMS: [Form; 2] = [Form::Cavage, Form::Rfc9421];

/// A key of each kind, made once.
pub fn keys() -> &'static [PrivateKey; 2] {
    static KEYS: OnceLock<[PrivateKey; 2]> = OnceLock::new();
    KEYS.get_or_init(|| {
        [PrivateKey::generate_rsa().unwrap(), PrivateKey::generate_ed25519().unwrap()]
    })
}

/// A request as a server gets it.
#[derive(Clone)]
pub struct Message {
    pub method: Method,
    pub target: String,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl Message {
    pub fn received(&self) -> Received<'_> {
        Received {
            method: &self.method,
            scheme: "https",
            authority: "b.example",
            path_and_query: &self.target,
            headers: &self.headers,
        }
    }

    pub fn set(&mut self, name: &'static str, value: &str) {
        let value = HeaderValue::try_from(value).unwrap();
        self.headers.insert(HeaderName::from_static(name), value);
    }

    pub fn get(&self, name: &str) -> String {
        self.headers[name].to_str().unwrap().to_owned()
    }
}

/// A delivery to `https://b.example/inbox` that alice signed.
pub fn delivery(form: Form, key: &PrivateKey) -> Message {
    signed(form, key, Method::POST, "/inbox", Some(BODY))
}

/// A fetch of a page of `https://b.example` that alice signed.
pub fn fetch(form: Form, key: &PrivateKey) -> Message {
    signed(form, key, Method::GET, "/ap/users/7/outbox?page=true", None)
}

fn signed(
    form: Form,
    key: &PrivateKey,
    method: Method,
    target: &str,
    body: Option<&[u8]>,
) -> Message {
    let url = Url::parse(&format!("https://b.example{target}")).unwrap();
    let body_of = body.map(|body| (MEDIA_TYPE, body));
    let request = Outgoing { method: &method, url: &url, body: body_of };
    let headers = sign(form, &request, KEY_ID, key, NOW).unwrap();
    let body = body.unwrap_or_default().to_vec();
    let mut message = Message { method, target: target.to_owned(), headers, body };
    message.set("host", "b.example");
    message
}
