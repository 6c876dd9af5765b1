//! What is asked, and what came back.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use url::Url;
use weir_base::Timestamp;

use crate::Error;

/// Gives the headers that sign one hop. It is asked again for each redirect, since method and
/// URL are part of what is signed. `Host` is sent as the URL has it: the host, and the port
/// where it is not the scheme's own.
pub type Signer = Arc<dyn Fn(&Method, &Url) -> HeaderMap + Send + Sync>;

/// One request.
#[derive(Clone)]
pub struct Request {
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) limit_bytes: Option<usize>,
    pub(crate) deadline: Option<Duration>,
    pub(crate) sign: Option<Signer>,
    pub(crate) stay_on_host: bool,
    pub(crate) urgent: bool,
    pub(crate) insists: bool,
}

impl Request {
    /// A request for `url`, with the limits of the [`Options`](crate::Options).
    pub fn new(url: Url) -> Self {
        Self {
            url,
            headers: HeaderMap::new(),
            limit_bytes: None,
            deadline: None,
            sign: None,
            stay_on_host: false,
            urgent: false,
            insists: false,
        }
    }

    /// Adds a header. `Authorization` and `Cookie` are not sent on to another host.
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.append(name, value);
        self
    }

    /// What forms of answer are understood.
    pub fn accept(mut self, types: &'static str) -> Self {
        self.headers.insert(ACCEPT, HeaderValue::from_static(types));
        self
    }

    /// What form the body has that is posted.
    pub fn content_type(mut self, of_body: &'static str) -> Self {
        self.headers.insert(CONTENT_TYPE, HeaderValue::from_static(of_body));
        self
    }

    /// How large the answer may be when unpacked, in bytes.
    pub fn limit_bytes(mut self, limit: usize) -> Self {
        self.limit_bytes = Some(limit);
        self
    }

    /// How long the request may take in all.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// Has each hop signed.
    pub fn sign(mut self, signer: Signer) -> Self {
        self.sign = Some(signer);
        self
    }

    /// Has no redirect to another host or port followed: [`Response::leads_to`] then names it.
    pub fn stay_on_host(mut self) -> Self {
        self.stay_on_host = true;
        self
    }

    /// Has it go also to a host that is left alone: [`Error::Open`](crate::Error::Open) is never
    /// its end, and how it ends does not change that pause. For who keeps account of hosts itself.
    pub fn insist(mut self) -> Self {
        self.insists = true;
        self
    }

    /// Has it wait for no look-up of a name but those of other urgent ones.
    pub fn urgent(mut self) -> Self {
        self.urgent = true;
        self
    }
}

/// An answer, whatever its status.
#[derive(Debug, Clone)]
pub struct Response {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// Where the answer came from, after redirects.
    pub final_url: Url,
    /// Where on another host it leads, if the request [stays](Request::stay_on_host) on its own.
    /// Checked as far as a redirect is; what stands there, and whether it is asked, is not.
    pub leads_to: Option<Url>,
    /// The body, unpacked; empty where it leads to another host.
    pub body: Bytes,
}

impl Response {
    /// The answer if it is a success (2xx), else the error that says what it was. `now` is what
    /// a date in `Retry-After` counts from.
    pub fn success(self, now: Timestamp) -> Result<Self, Error> {
        if self.status.is_success() {
            return Ok(self);
        }
        Err(Error::Status {
            host: crate::target::host_of(&self.final_url),
            status: self.status,
            retry_after_ms: retry_after_ms(&self.headers, now),
        })
    }

    /// The media type without its parameters, in lower case: `application/activity+json`.
    pub fn media_type(&self) -> String {
        media_type(&self.headers)
    }
}

/// A body that was written to a file.
#[derive(Debug, Clone)]
pub struct Saved {
    /// The headers.
    pub headers: HeaderMap,
    /// Where the answer came from, after redirects.
    pub final_url: Url,
    /// How large the file is, in bytes.
    pub bytes: u64,
}

impl Saved {
    /// The media type as the host gives it, without its parameters, in lower case.
    pub fn media_type(&self) -> String {
        media_type(&self.headers)
    }
}

fn media_type(headers: &HeaderMap) -> String {
    let text = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    text.split(';').next().unwrap_or("").trim().to_ascii_lowercase()
}

/// `Retry-After` (RFC 9110, 10.2.3) in milliseconds from `now`: it gives seconds or a date.
pub(crate) fn retry_after_ms(headers: &HeaderMap, now: Timestamp) -> Option<i64> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse::<u32>() {
        return Some(i64::from(seconds) * 1_000);
    }
    let at = Timestamp::parse_http_date(text).ok()?;
    Some(at.since_ms(now).max(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_read_as_seconds_and_as_a_date() {
        let mut headers = HeaderMap::new();
        let now = Timestamp::parse_http_date("Wed, 01 May 2024 10:00:00 GMT").unwrap();
        assert_eq!(retry_after_ms(&headers, now), None);
        headers.insert(RETRY_AFTER, HeaderValue::from_static("120"));
        assert_eq!(retry_after_ms(&headers, now), Some(120_000));
        headers.insert(RETRY_AFTER, HeaderValue::from_static("Wed, 01 May 2024 10:00:30 GMT"));
        assert_eq!(retry_after_ms(&headers, now), Some(30_000));
        headers.insert(RETRY_AFTER, HeaderValue::from_static("soon"));
        assert_eq!(retry_after_ms(&headers, now), None);
    }
}
