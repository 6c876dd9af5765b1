//! Ids and links: `http(s)` URLs, kept as they were written.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;
use std::sync::Arc;

use url::Url;

use super::WireError;

/// The collection of everybody.
pub const PUBLIC: &str = "https://www.w3.org/ns/activitystreams#Public";
/// The longest URL that is an id or a link, in bytes.
const BYTES_MAX: usize = 2 * 1024;
/// The longest name of a host, in bytes (RFC 1035, 2.3.4).
const HOST_BYTES_MAX: usize = 253;

/// An id or a link: an `http(s)` URL without control characters, compared as it was written.
/// Cheap to clone.
#[derive(Clone)]
pub struct Uri {
    text: Arc<str>,
    /// Host, and port where it is not the scheme's own, in lower case.
    authority: Arc<str>,
}

impl Uri {
    /// The collection of everybody.
    pub fn public() -> Self {
        Self { text: PUBLIC.into(), authority: "www.w3.org".into() }
    }

    /// From parts that are known to be proper.
    pub(super) fn of_parts(text: &str, authority: &str) -> Self {
        Self { text: text.into(), authority: authority.into() }
    }

    /// The URL as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Host, and port where it is not the scheme's own, in lower case: whose word this is.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// Whether both are of the same host: only then may one speak for the other.
    pub fn is_of_same_host(&self, other: &Uri) -> bool {
        self.authority == other.authority
    }

    /// Whether this is the collection of everybody.
    pub fn is_public(&self) -> bool {
        &*self.text == PUBLIC
    }

    /// The URL, parsed.
    pub fn to_url(&self) -> Option<Url> {
        Url::parse(&self.text).ok()
    }
}

impl FromStr for Uri {
    type Err = WireError;

    fn from_str(text: &str) -> Result<Self, WireError> {
        if matches!(text, "as:Public" | "Public") {
            return Ok(Self::public());
        }
        let refused = || WireError::Missing("an http(s) URL");
        if text.len() > BYTES_MAX || text.bytes().any(|byte| byte.is_ascii_control()) {
            return Err(refused());
        }
        let url = Url::parse(text).map_err(|_| refused())?;
        let plain = url.username().is_empty() && url.password().is_none();
        let host = url.host_str().filter(|host| (1..=HOST_BYTES_MAX).contains(&host.len()));
        let Some(host) = host.filter(|_| plain && matches!(url.scheme(), "http" | "https")) else {
            return Err(refused());
        };
        let authority = match url.port() {
            Some(port) => format!("{host}:{port}").into(),
            None => host.into(),
        };
        Ok(Self { text: text.into(), authority })
    }
}

impl fmt::Display for Uri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Uri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{}>", self.text)
    }
}

impl PartialEq for Uri {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl PartialEq<str> for Uri {
    fn eq(&self, other: &str) -> bool {
        &*self.text == other
    }
}

impl PartialEq<&str> for Uri {
    fn eq(&self, other: &&str) -> bool {
        &*self.text == *other
    }
}

impl Eq for Uri {}

impl Hash for Uri {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_http_urls_are_ids() {
        for bad in [
            "",
            "alice",
            "acct:alice@a.example",
            "did:key:z6Mk",
            "tag:a.example,2024:1",
            "javascript:alert(1)",
            "https://",
            "https://alice:secret@a.example/",
            "/users/alice",
            "https://a.example/\0",
            "https://a.example/users/\nalice",
        ] {
            assert!(bad.parse::<Uri>().is_err(), "{bad}");
        }
        assert!(format!("https://a.example/{}", "a".repeat(3000)).parse::<Uri>().is_err());
        assert!(format!("https://{}.example/", "a".repeat(250)).parse::<Uri>().is_err());
    }

    #[test]
    fn an_id_keeps_its_spelling_and_knows_its_host() {
        let uri: Uri = "https://A.Example:443/Users/Alice#main-key".parse().unwrap();
        assert_eq!(uri, "https://A.Example:443/Users/Alice#main-key");
        assert_eq!(uri.authority(), "a.example");
        let other: Uri = "http://a.example:8080/".parse().unwrap();
        assert_eq!(other.authority(), "a.example:8080");
        assert!(!uri.is_of_same_host(&other));
    }

    #[test]
    fn everybody_has_three_names() {
        for name in [PUBLIC, "as:Public", "Public"] {
            assert!(name.parse::<Uri>().unwrap().is_public(), "{name}");
        }
    }
}
