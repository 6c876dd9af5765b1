//! Digests of bodies: `Digest` (RFC 3230, what draft-cavage signs) and `Content-Digest`
//! (RFC 9530, what RFC 9421 signs).

use aws_lc_rs::digest::{Algorithm, SHA256, SHA512, digest};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sfv::{Dictionary, ListEntry, Parser};

use super::{Received, SignatureError};
use crate::signature::request::text_field;

/// How many digests one header may hold.
const DIGESTS_MAX: usize = 8;

/// `Digest` of a body.
pub(super) fn of_body(body: &[u8]) -> String {
    format!("SHA-256={}", STANDARD.encode(digest(&SHA256, body)))
}

/// `Content-Digest` of a body.
pub(super) fn content_of_body(body: &[u8]) -> String {
    format!("sha-256=:{}:", STANDARD.encode(digest(&SHA256, body)))
}

/// Checks `Digest`: at least one known digest, and all known ones fit.
pub(super) fn check(request: &Received<'_>, body: &[u8]) -> Result<(), SignatureError> {
    let header = "digest";
    let Some(text) = text_field(request.headers, header)? else {
        return Err(SignatureError::Absent(header.to_owned()));
    };
    let mut known = 0;
    for part in text.split(',').take(DIGESTS_MAX) {
        // The value may end in `=` itself; the name cannot hold one.
        let Some((name, value)) = part.trim().split_once('=') else {
            return Err(SignatureError::Malformed { header, why: "it is not name=value" });
        };
        let Some(algorithm) = algorithm(name.trim()) else {
            continue;
        };
        known += 1;
        let why = "a digest is not base64";
        let value =
            STANDARD.decode(value.trim()).map_err(|_| SignatureError::Malformed { header, why })?;
        compare(algorithm, body, &value)?;
    }
    some_known(known, header)
}

/// Checks `Content-Digest`: at least one known digest, and all known ones fit.
pub(super) fn check_content(request: &Received<'_>, body: &[u8]) -> Result<(), SignatureError> {
    let header = "content-digest";
    let Some(text) = text_field(request.headers, header)? else {
        return Err(SignatureError::Absent(header.to_owned()));
    };
    let why = "it is not a structured field";
    let list: Dictionary =
        Parser::new(&text).parse().map_err(|_| SignatureError::Malformed { header, why })?;
    let mut known = 0;
    for (name, entry) in list.iter().take(DIGESTS_MAX) {
        let Some(algorithm) = algorithm(name.as_str()) else {
            continue;
        };
        known += 1;
        let ListEntry::Item(item) = entry else {
            return Err(SignatureError::Malformed { header, why: "a digest is not bytes" });
        };
        let Some(value) = item.bare_item.as_byte_sequence() else {
            return Err(SignatureError::Malformed { header, why: "a digest is not bytes" });
        };
        compare(algorithm, body, value)?;
    }
    some_known(known, header)
}

fn algorithm(name: &str) -> Option<&'static Algorithm> {
    if name.eq_ignore_ascii_case("sha-256") {
        Some(&SHA256)
    } else if name.eq_ignore_ascii_case("sha-512") {
        Some(&SHA512)
    } else {
        None
    }
}

fn compare(algorithm: &'static Algorithm, body: &[u8], value: &[u8]) -> Result<(), SignatureError> {
    let fits = digest(algorithm, body).as_ref() == value;
    if fits { Ok(()) } else { Err(SignatureError::DigestDiffers) }
}

fn some_known(known: usize, header: &'static str) -> Result<(), SignatureError> {
    if known > 0 {
        return Ok(());
    }
    Err(SignatureError::Unsupported(format!("a {header} without SHA-256 and SHA-512")))
}
