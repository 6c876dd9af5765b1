//! What both forms need to know of a request, and what they share in reading it.

use http::{HeaderMap, Method};
use url::Url;
use weir_base::Timestamp;

use super::SignatureError;

/// How old a signature may be, in milliseconds: half a day, as Mastodon has it.
const AGE_MAX_MS: i64 = 12 * 60 * 60_000;
/// How far another clock may be ahead, in milliseconds.
const SKEW_MAX_MS: i64 = 60 * 60_000;
/// The longest signature header that is read, in bytes.
const HEADER_BYTES_MAX: usize = 16 * 1024;
/// The longest key id, in bytes.
const KEY_ID_BYTES_MAX: usize = 2 * 1024;

/// A request as it came in.
#[derive(Debug, Clone, Copy)]
pub struct Received<'a> {
    /// Its method.
    pub method: &'a Method,
    /// The scheme of this server's public URL: behind a proxy it is not the connection's.
    pub scheme: &'a str,
    /// Host, and port where it is not the scheme's own, of this server's public URL. A signature
    /// made for another host does not fit.
    pub authority: &'a str,
    /// Path and query as they came, undecoded.
    pub path_and_query: &'a str,
    /// Its headers.
    pub headers: &'a HeaderMap,
}

impl<'a> Received<'a> {
    pub(super) fn path(&self) -> &'a str {
        let path = self.path_and_query.split('?').next().unwrap_or("");
        if path.is_empty() { "/" } else { path }
    }

    pub(super) fn query(&self) -> Option<&'a str> {
        self.path_and_query.split_once('?').map(|(_, query)| query)
    }

    /// Path and query, the path never empty.
    pub(super) fn target(&self) -> String {
        match self.query() {
            Some(query) => format!("{}?{query}", self.path()),
            None => self.path().to_owned(),
        }
    }

    /// Whether it may have a body, whose digest must be signed then.
    pub(super) fn may_have_body(&self) -> bool {
        !matches!(*self.method, Method::GET | Method::HEAD)
    }

    /// The public authority in normal form (RFC 9421, 2.2.3): lower case, no default port.
    pub(super) fn authority(&self) -> String {
        normal_authority(self.scheme, self.authority)
    }

    /// `Host` as it was sent, where it means this server; else as the public URL has it (behind a
    /// proxy that changes it, and over HTTP/2, which has none).
    pub(super) fn host(&self) -> String {
        let sent = self.headers.get(http::header::HOST).and_then(|value| value.to_str().ok());
        let is_this = |host: &&str| normal_authority(self.scheme, host) == self.authority();
        sent.filter(is_this).map_or_else(|| self.authority(), str::to_owned)
    }

    /// All values of a field, trimmed and joined as both forms have it; none if it is absent.
    pub(super) fn field(&self, name: &str) -> Option<Vec<u8>> {
        field(self.headers, name)
    }
}

/// A request to be signed.
#[derive(Debug, Clone, Copy)]
pub struct Outgoing<'a> {
    /// Its method.
    pub method: &'a http::Method,
    /// Where it goes.
    pub url: &'a Url,
    /// Its media type and body, where it has one.
    pub body: Option<(&'a str, &'a [u8])>,
}

impl Outgoing<'_> {
    /// Path and query as they are sent.
    pub(super) fn target(&self) -> String {
        match self.url.query() {
            Some(query) => format!("{}?{query}", self.url.path()),
            None => self.url.path().to_owned(),
        }
    }

    /// `Host` as it is sent: with the port where it is not the scheme's own.
    pub(super) fn host(&self) -> String {
        let host = self.url.host_str().unwrap_or("");
        match self.url.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        }
    }

    /// The URL as it is asked for: without fragment.
    pub(super) fn target_uri(&self) -> String {
        format!("{}://{}{}", self.url.scheme(), self.host(), self.target())
    }
}

/// All values of a field, trimmed and joined by a comma and a space; none if it is absent.
pub(super) fn field(headers: &HeaderMap, name: &str) -> Option<Vec<u8>> {
    let mut values = headers.get_all(name).iter().map(|value| value.as_bytes().trim_ascii());
    let mut joined = values.next()?.to_vec();
    for value in values {
        joined.extend_from_slice(b", ");
        joined.extend_from_slice(value);
    }
    Some(joined)
}

/// A field that is read (and not only signed): text of bounded length.
pub(super) fn text_field(
    headers: &HeaderMap,
    header: &'static str,
) -> Result<Option<String>, SignatureError> {
    let Some(bytes) = field(headers, header) else {
        return Ok(None);
    };
    if bytes.len() > HEADER_BYTES_MAX {
        return Err(SignatureError::Malformed { header, why: "it is longer than 16 KiB" });
    }
    let why = "it is not text";
    String::from_utf8(bytes).map(Some).map_err(|_| SignatureError::Malformed { header, why })
}

/// Checks the length of a key id.
pub(super) fn checked_key_id(key_id: &str, header: &'static str) -> Result<String, SignatureError> {
    if key_id.is_empty() || key_id.len() > KEY_ID_BYTES_MAX {
        let why = "its key id is empty or longer than 2 KiB";
        return Err(SignatureError::Malformed { header, why });
    }
    Ok(key_id.to_owned())
}

/// Checks that a signature was made lately and has not expired.
pub(super) fn check_time(
    signed_at: Timestamp,
    expires: Option<Timestamp>,
    now: Timestamp,
) -> Result<(), SignatureError> {
    if now.since_ms(signed_at) > AGE_MAX_MS {
        return Err(SignatureError::TooOld);
    }
    if expires.is_some_and(|expires| now.since_ms(expires) > SKEW_MAX_MS) {
        return Err(SignatureError::TooOld);
    }
    if signed_at.since_ms(now) > SKEW_MAX_MS {
        return Err(SignatureError::FromFuture);
    }
    Ok(())
}

/// A moment in seconds since 1970.
pub(super) fn from_seconds(seconds: i64) -> Timestamp {
    Timestamp::from_ms(seconds.saturating_mul(1_000))
}

fn normal_authority(scheme: &str, authority: &str) -> String {
    let default = if scheme == "http" { ":80" } else { ":443" };
    let lower = authority.trim().to_ascii_lowercase();
    lower.strip_suffix(default).map_or_else(|| lower.clone(), str::to_owned)
}
