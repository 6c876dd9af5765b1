//! Ids and links: `http(s)` URLs, kept as they were written.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::Ipv4Addr;
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
        if let Some(authority) = plain_authority(text) {
            return Ok(Self::of_parts(text, authority));
        }
        let authority = parsed_authority(text).ok_or_else(refused)?;
        Ok(Self { text: text.into(), authority: authority.into() })
    }
}

/// The authority of a URL as whatever is written in it: whose word it is.
fn parsed_authority(text: &str) -> Option<String> {
    let url = Url::parse(text).ok()?;
    let plain = url.username().is_empty() && url.password().is_none();
    let host = url.host_str().filter(|host| (1..=HOST_BYTES_MAX).contains(&host.len()))?;
    if !plain || !matches!(url.scheme(), "http" | "https") {
        return None;
    }
    Some(match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    })
}

/// The same where it is written as it is compared, as in nearly all messages, of which each holds a
/// dozen or more: a tenth of what it took to judge one was to parse these as URLs. None where more
/// has to be looked at.
fn plain_authority(text: &str) -> Option<&str> {
    let (rest, own_port) = match text.strip_prefix("https://") {
        Some(rest) => (rest, "443"),
        None => (text.strip_prefix("http://")?, "80"),
    };
    let authority = rest.find(['/', '?', '#']).map_or(rest, |end| &rest[..end]);
    let (host, port) = match authority.split_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (authority, None),
    };
    let is_port = |port: &str| {
        !port.starts_with(['0', '+']) && port != own_port && port.parse::<u16>().is_ok()
    };
    (is_plain_host(host) && port.is_none_or(is_port)).then_some(authority)
}

/// Whether this is a name in lower case that is not encoded, or an IPv4 address of four numbers.
fn is_plain_host(host: &str) -> bool {
    let is_label = |label: &str| {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        !label.is_empty() && !label.starts_with("xn--") && label.bytes().all(plain)
    };
    let last = host.rsplit('.').next().unwrap_or_default();
    if !last.starts_with(|first: char| first.is_ascii_lowercase()) {
        return host.parse::<Ipv4Addr>().is_ok();
    }
    host.len() <= HOST_BYTES_MAX && host.split('.').all(is_label)
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
    use proptest::prelude::*;

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

    #[test]
    fn what_is_written_plainly_is_not_parsed() {
        for (text, authority) in [
            ("https://a.example/users/alice", "a.example"),
            ("https://a-1.b2.example", "a-1.b2.example"),
            ("http://a.example:8080/?q#f", "a.example:8080"),
            ("http://127.80.0.1:4000/posts/1", "127.80.0.1:4000"),
        ] {
            assert_eq!(plain_authority(text), Some(authority));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4_096))]

        #[test]
        fn what_is_written_plainly_is_what_a_parser_reads(
            scheme in "https?://|HTTPS://|https:/|ftp://",
            host in "[a-z0-9]{1,3}(\\.[a-z0-9]{1,3}){0,3}|[a-zA-Z0-9.@%_é-]{0,12}|xn--[a-z0-9]{1,8}",
            port in "|:|:80|:443|:[0-9]{1,6}|:[0-9+-]{1,3}",
            rest in "|/|[/?#\\\\][a-z0-9@:./%?#]{0,12}",
        ) {
            let text = format!("{scheme}{host}{port}{rest}");
            if let Some(plain) = plain_authority(&text) {
                prop_assert_eq!(Some(plain.to_owned()), parsed_authority(&text), "{}", text);
            }
        }
    }
}
