//! Which URLs may be fetched, and where a redirect leads.

use http::header::LOCATION;
use http::{HeaderMap, Method, StatusCode};
use url::{Host, Url};

use crate::address::is_public;
use crate::{Error, Options};

/// The longest URL that is fetched, in bytes.
const URL_BYTES_MAX: usize = 8 * 1024;
/// How much of a URL an error repeats, in characters.
const URL_SHOWN_CHARS: usize = 200;

/// The host and port by which places and breakers go: `example.com:443`.
pub(crate) fn host_of(url: &Url) -> String {
    let host = url.host_str().unwrap_or("").trim_end_matches('.');
    format!("{host}:{}", url.port_or_known_default().unwrap_or(0))
}

/// Checks what can be told from a URL alone. Names are checked once more when they are resolved.
pub(crate) fn check(url: &Url, options: &Options) -> Result<(), Error> {
    let refuse = |why| Err(Error::Url { url: shown(url), why });
    if url.as_str().len() > URL_BYTES_MAX {
        return refuse("it is longer than 8 KiB");
    }
    match url.scheme() {
        "https" => {}
        "http" if options.allow_http => {}
        "http" => return refuse("plain http is not used; ask for https"),
        _ => return refuse("only https is fetched"),
    }
    if !url.username().is_empty() || url.password().is_some() {
        return refuse("it carries a user name or password; remove it");
    }
    let Some(host) = url.host() else {
        return refuse("it names no host");
    };
    if options.allow_private {
        return Ok(());
    }
    let given = matches!(host, Host::Domain(name) if options.resolve.contains_key(name));
    if !given && !matches!(url.port_or_known_default(), Some(80 | 443)) {
        return refuse("only the ports 80 and 443 are fetched");
    }
    let public = match host {
        Host::Domain(_) => true,
        Host::Ipv4(address) => is_public(address.into()),
        Host::Ipv6(address) => is_public(address.into()),
    };
    if public { Ok(()) } else { Err(Error::Private { host: host_of(url) }) }
}

/// Where an answer leads, if it is a redirect that is followed for this method: a GET follows
/// all forms, a POST only those that keep it a POST (307, 308).
pub(crate) fn next_hop(
    method: &Method,
    from: &Url,
    status: StatusCode,
    headers: &HeaderMap,
) -> Result<Option<Url>, Error> {
    let follows = match status.as_u16() {
        301..=303 => method == Method::GET,
        307 | 308 => true,
        _ => false,
    };
    let Some(location) = headers.get(LOCATION).filter(|_| follows) else {
        return Ok(None);
    };
    let refuse = |why| Err(Error::Url { url: shown(from), why });
    // Sent as raw UTF-8 by some servers; the URL's parser encodes it.
    let Ok(text) = std::str::from_utf8(location.as_bytes()) else {
        return refuse("it redirects to something that is not text");
    };
    let Ok(mut to) = from.join(text) else {
        return refuse("it redirects to something that is not a URL");
    };
    if from.scheme() == "https" && to.scheme() == "http" {
        return refuse("it redirects from https to plain http");
    }
    to.set_fragment(None);
    Ok(Some(to))
}

fn shown(url: &Url) -> String {
    let mut clean = url.clone();
    // Neither can fail in a way that matters here: a URL without a host has no password.
    let _ = clean.set_password(None);
    let _ = clean.set_username("");
    clean.as_str().chars().take(URL_SHOWN_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    fn hop(method: Method, from: &str, status: u16, to: &str) -> Result<Option<Url>, Error> {
        let mut headers = HeaderMap::new();
        headers.insert(LOCATION, HeaderValue::from_bytes(to.as_bytes()).unwrap());
        next_hop(&method, &url(from), StatusCode::from_u16(status).unwrap(), &headers)
    }

    #[test]
    fn production_fetches_only_https_on_its_usual_ports() {
        let options = Options::default();
        for good in ["https://example.com/a?b", "https://example.com:443/", "https://1.1.1.1/"] {
            assert!(check(&url(good), &options).is_ok(), "{good}");
        }
        for bad in [
            "http://example.com/",
            "ftp://example.com/",
            "file:///etc/passwd",
            "data:text/plain,hi",
            "https://example.com:8443/",
            "https://alice@example.com/",
            "https://alice:secret@example.com/",
        ] {
            let error = check(&url(bad), &options).unwrap_err();
            assert!(matches!(error, Error::Url { .. }), "{bad}: {error}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }

    #[test]
    fn addresses_in_every_spelling_are_checked() {
        let options = Options::default();
        for bad in [
            "https://127.0.0.1/",
            "https://2130706433/",
            "https://0x7f.1/",
            "https://0177.0.0.1/",
            "https://127.1/",
            "https://169.254.169.254/latest/meta-data",
            "https://[::1]/",
            "https://[::ffff:10.0.0.1]/",
            "https://[64:ff9b::7f00:1]/",
            "https://１２７.0.0.1/",
        ] {
            let error = check(&url(bad), &options).unwrap_err();
            assert!(matches!(error, Error::Private { .. }), "{bad}: {error}");
        }
    }

    #[test]
    fn development_fetches_any_port_and_address() {
        let options = Options { allow_private: true, allow_http: true, ..Options::default() };
        assert!(check(&url("http://127.0.0.2:8001/users/1"), &options).is_ok());
        assert!(check(&url("gopher://127.0.0.2/"), &options).is_err());
    }

    #[test]
    fn a_redirect_resolves_against_where_it_came_from() {
        let to = hop(Method::GET, "https://a.example/x/y", 302, "../z#part").unwrap();
        assert_eq!(to, Some(url("https://a.example/z")));
        let to = hop(Method::GET, "http://a.example/x", 301, "https://b.example/").unwrap();
        assert_eq!(to, Some(url("https://b.example/")));
        assert_eq!(hop(Method::GET, "https://a.example/", 304, "/other").unwrap(), None);
    }

    #[test]
    fn a_redirect_never_leaves_https() {
        assert!(hop(Method::GET, "https://a.example/x", 301, "http://a.example/x").is_err());
    }

    #[test]
    fn a_post_follows_only_what_keeps_it_a_post() {
        assert_eq!(hop(Method::POST, "https://a.example/x", 302, "/y").unwrap(), None);
        let to = hop(Method::POST, "https://a.example/x", 308, "/y").unwrap();
        assert_eq!(to, Some(url("https://a.example/y")));
    }
}
