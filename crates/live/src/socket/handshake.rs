//! The upgrade from HTTP (RFC 6455, section 4).

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::header::{
    CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_EXTENSIONS, SEC_WEBSOCKET_KEY,
    SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::{HeaderMap, HeaderName, HeaderValue};

use super::deflate;

/// What section 1.3 appends to a client's key.
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Why a request is no WebSocket handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HandshakeError {
    /// No `Upgrade: websocket` with `Connection: Upgrade`: an ordinary request.
    #[error("the request does not ask for a WebSocket: send Upgrade and Connection")]
    NoUpgrade,
    /// Another version than 13: answer 426 with `Sec-WebSocket-Version: 13` (section 4.4).
    #[error("only WebSocket version 13 is spoken here")]
    Version,
    /// No key, several, or one that is not 16 bytes in base64.
    #[error("Sec-WebSocket-Key is missing or not 16 bytes in base64")]
    Key,
}

/// A handshake that a server may accept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upgrade {
    accept: HeaderValue,
    /// The subprotocols the client offers, best first.
    pub protocols: Vec<String>,
    offers_deflate: bool,
    deflates: bool,
}

impl Upgrade {
    /// The headers of the 101 answer; `protocol` is the one chosen of those offered, if any.
    pub fn response_headers(&self, protocol: Option<&str>) -> HeaderMap {
        let mut headers = HeaderMap::with_capacity(4);
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(SEC_WEBSOCKET_ACCEPT, self.accept.clone());
        if let Some(protocol) = protocol.and_then(|name| HeaderValue::from_str(name).ok()) {
            headers.insert(SEC_WEBSOCKET_PROTOCOL, protocol);
        }
        if self.deflates {
            let agreed = HeaderValue::from_static(deflate::AGREED);
            headers.insert(SEC_WEBSOCKET_EXTENSIONS, agreed);
        }
        headers
    }

    /// Agrees on permessage-deflate where the client offers it in a form that is taken here, and
    /// tells whether it does: then the answer says so, and the socket has to be made
    /// [`deflating`](super::Socket::deflating).
    pub fn agree_to_deflate(&mut self) -> bool {
        self.deflates = self.offers_deflate;
        self.deflates
    }
}

/// The value of `Sec-WebSocket-Accept` for a client's key (section 4.2.2).
pub fn accept_key(key: &str) -> String {
    let mut digest = aws_lc_rs::digest::Context::new(&aws_lc_rs::digest::SHA1_FOR_LEGACY_USE_ONLY);
    digest.update(key.as_bytes());
    digest.update(GUID.as_bytes());
    BASE64_STANDARD.encode(digest.finish())
}

/// Checks a GET request's headers (section 4.2.1). Who may connect (origin, token) is the
/// caller's to decide.
pub fn upgrade_headers(headers: &HeaderMap) -> Result<Upgrade, HandshakeError> {
    if !lists(headers, UPGRADE, "websocket") || !lists(headers, CONNECTION, "upgrade") {
        return Err(HandshakeError::NoUpgrade);
    }
    if headers.get(SEC_WEBSOCKET_VERSION).is_none_or(|version| version != "13") {
        return Err(HandshakeError::Version);
    }
    let mut keys = headers.get_all(SEC_WEBSOCKET_KEY).iter();
    let (Some(key), None) = (keys.next(), keys.next()) else { return Err(HandshakeError::Key) };
    let key = key.to_str().map_err(|_| HandshakeError::Key)?.trim();
    if BASE64_STANDARD.decode(key).ok().is_none_or(|bytes| bytes.len() != 16) {
        return Err(HandshakeError::Key);
    }
    let accept = HeaderValue::try_from(accept_key(key)).map_err(|_| HandshakeError::Key)?;
    let protocols = words(headers, SEC_WEBSOCKET_PROTOCOL).map(str::to_owned).collect();
    let offers_deflate = deflate::is_offered(headers);
    Ok(Upgrade { accept, protocols, offers_deflate, deflates: false })
}

fn words(headers: &HeaderMap, name: HeaderName) -> impl Iterator<Item = &str> {
    let values = headers.get_all(name).into_iter();
    let lists = values.filter_map(|value| value.to_str().ok());
    lists.flat_map(|list| list.split(',')).map(str::trim).filter(|word| !word.is_empty())
}

fn lists(headers: &HeaderMap, name: HeaderName, wanted: &str) -> bool {
    words(headers, name).any(|word| word.eq_ignore_ascii_case(wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pairs = pairs
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        pairs.collect()
    }

    const GOOD: [(&str, &str); 4] = [
        ("upgrade", "WebSocket"),
        ("connection", "keep-alive, Upgrade"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ];

    #[test]
    fn the_accept_key_is_that_of_section_1_3() {
        assert_eq!(accept_key("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[test]
    fn a_handshake_is_accepted_with_the_subprotocol_that_was_chosen() {
        let mut request = headers(&GOOD);
        request.insert("sec-websocket-protocol", HeaderValue::from_static("token, chat"));
        let upgrade = upgrade_headers(&request).unwrap();
        assert_eq!(upgrade.protocols, ["token", "chat"]);
        let answer = upgrade.response_headers(Some("chat"));
        assert_eq!(answer["sec-websocket-accept"], "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        assert_eq!(answer["sec-websocket-protocol"], "chat");
        assert!(!upgrade.response_headers(None).contains_key("sec-websocket-protocol"));
    }

    #[test]
    fn what_is_no_handshake_is_refused_with_its_reason() {
        let without = |name: &str| {
            let mut request = headers(&GOOD);
            request.remove(name);
            upgrade_headers(&request)
        };
        assert_eq!(without("upgrade"), Err(HandshakeError::NoUpgrade));
        assert_eq!(without("connection"), Err(HandshakeError::NoUpgrade));
        assert_eq!(without("sec-websocket-version"), Err(HandshakeError::Version));
        assert_eq!(without("sec-websocket-key"), Err(HandshakeError::Key));
        for key in ["", "short", "dGhlIHNhbXBsZSBub25jZSE=", "????????????????????????"] {
            let mut request = headers(&GOOD);
            request.insert("sec-websocket-key", HeaderValue::from_static(key));
            assert_eq!(upgrade_headers(&request), Err(HandshakeError::Key), "{key}");
        }
    }
}
