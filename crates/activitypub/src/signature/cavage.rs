//! draft-cavage-http-signatures-12: sign, and check.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::{AUTHORIZATION, CONTENT_TYPE, DATE};
use http::{HeaderMap, HeaderName, HeaderValue};
use weir_base::Timestamp;

use super::key::{KeyError, PrivateKey};
use super::request::{check_time, checked_key_id, from_seconds, text_field};
use super::{Algorithm, Checked, Claim, Form, Outgoing, Received, SignatureError, digest};

const HEADER: &str = "signature";
/// How many parameters a signature may have.
const PARAMETERS_MAX: usize = 16;
/// How many headers a signature may cover.
const COVERED_MAX: usize = 32;

/// The parameters of a signature, as they stand there.
#[derive(Debug, Default)]
struct Parameters {
    key_id: Option<String>,
    algorithm: Option<String>,
    headers: Option<String>,
    signature: Option<String>,
    created: Option<String>,
    expires: Option<String>,
}

/// What stands behind `Authorization: Signature`, the other place where a signature may be.
pub(super) fn of_authorization(value: &HeaderValue) -> Option<&str> {
    let (scheme, rest) = value.to_str().ok()?.trim_start().split_once(' ')?;
    scheme.eq_ignore_ascii_case("signature").then_some(rest)
}

pub(super) fn claim(headers: &HeaderMap) -> Result<Claim, SignatureError> {
    claim_of(&parameters(headers)?)
}

pub(super) fn check(
    request: &Received<'_>,
    body: &[u8],
    now: Timestamp,
) -> Result<Checked, SignatureError> {
    let given = parameters(request.headers)?;
    let claim = claim_of(&given)?;
    let algorithm = algorithm(given.algorithm.as_deref())?;
    let listed = given.headers.as_deref().unwrap_or("date").to_ascii_lowercase();
    let covered: Vec<&str> = listed.split_ascii_whitespace().collect();
    if covered.len() > COVERED_MAX {
        return Err(malformed("it covers more than 32 headers"));
    }
    check_covered(request, &covered)?;
    let created = given.created.as_deref().map(seconds).transpose()?;
    let expires = given.expires.as_deref().map(seconds).transpose()?;
    let signed_at = match created.filter(|_| covered.contains(&"(created)")) {
        Some(created) => created,
        None => date(request)?,
    };
    check_time(signed_at, expires, now)?;
    if covered.contains(&"digest") {
        digest::check(request, body)?;
    }
    if covered.contains(&"content-digest") {
        digest::check_content(request, body)?;
    }
    let signature = given.signature.ok_or_else(|| malformed("it has no signature"))?;
    let signature = STANDARD.decode(signature.trim()).map_err(|_| malformed("it is not base64"))?;
    let mut bases = vec![base(request, &covered, &given.created, &given.expires, true)?];
    if request.query().is_some() {
        // GoToSocial and older servers leave the query out when they sign.
        bases.push(base(request, &covered, &given.created, &given.expires, false)?);
    }
    Ok(Checked { claim, signed_at, algorithm, bases, signature })
}

pub(super) fn sign(
    request: &Outgoing<'_>,
    key_id: &str,
    key: &PrivateKey,
    now: Timestamp,
) -> Result<HeaderMap, KeyError> {
    if key_id.contains(['"', '\\']) {
        return Err(KeyError::Id);
    }
    let date = now.http_date();
    let method = request.method.as_str().to_ascii_lowercase();
    let mut lines = vec![
        ("(request-target)", format!("{method} {}", request.target())),
        ("host", request.host()),
        ("date", date.clone()),
    ];
    let mut headers = HeaderMap::new();
    headers.insert(DATE, value(date)?);
    if let Some((media_type, body)) = request.body {
        let digest = digest::of_body(body);
        lines.push(("digest", digest.clone()));
        lines.push(("content-type", media_type.to_owned()));
        headers.insert(HeaderName::from_static("digest"), value(digest)?);
        headers.insert(CONTENT_TYPE, value(media_type.to_owned())?);
    }
    let base: Vec<String> = lines.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    let covered: Vec<&str> = lines.iter().map(|(name, _)| *name).collect();
    let signature = STANDARD.encode(key.sign(base.join("\n").as_bytes())?);
    let algorithm = match key {
        PrivateKey::Rsa(_) => "rsa-sha256",
        PrivateKey::Ed25519(_) => "hs2019",
    };
    let line = format!(
        "keyId=\"{key_id}\",algorithm=\"{algorithm}\",headers=\"{}\",signature=\"{signature}\"",
        covered.join(" ")
    );
    headers.insert(HeaderName::from_static(HEADER), value(line)?);
    Ok(headers)
}

fn value(text: String) -> Result<HeaderValue, KeyError> {
    HeaderValue::try_from(text).map_err(|_| KeyError::Id)
}

fn malformed(why: &'static str) -> SignatureError {
    SignatureError::Malformed { header: HEADER, why }
}

fn claim_of(given: &Parameters) -> Result<Claim, SignatureError> {
    let key_id = checked_key_id(given.key_id.as_deref().unwrap_or(""), HEADER)?;
    Ok(Claim { key_id, form: Form::Cavage })
}

fn parameters(headers: &HeaderMap) -> Result<Parameters, SignatureError> {
    let text = match text_field(headers, HEADER)? {
        Some(text) => text,
        None => {
            let value = headers.get(AUTHORIZATION).and_then(of_authorization);
            value.ok_or(SignatureError::Missing)?.to_owned()
        }
    };
    parse(&text)
}

/// Reads `name="value",name=value,…`. Unknown names are skipped, repeated ones refused: which of
/// two would count must not depend on the reader.
fn parse(text: &str) -> Result<Parameters, SignatureError> {
    let mut given = Parameters::default();
    let mut rest = text.trim();
    for _ in 0..PARAMETERS_MAX {
        if rest.is_empty() {
            return Ok(given);
        }
        let (name, after) = rest.split_once('=').ok_or_else(|| malformed("a name has no value"))?;
        let (value, after) = read_value(after.trim_start())?;
        let slot = match name.trim() {
            "keyId" => Some(&mut given.key_id),
            "algorithm" => Some(&mut given.algorithm),
            "headers" => Some(&mut given.headers),
            "signature" => Some(&mut given.signature),
            "created" => Some(&mut given.created),
            "expires" => Some(&mut given.expires),
            _ => None,
        };
        if slot.is_some_and(|slot| slot.replace(value).is_some()) {
            return Err(malformed("a parameter is there twice"));
        }
        let after = after.trim_start();
        rest = match after.strip_prefix(',') {
            Some(next) => next.trim_start(),
            None if after.is_empty() => "",
            None => return Err(malformed("a comma is missing between parameters")),
        };
    }
    if rest.is_empty() { Ok(given) } else { Err(malformed("it has too many parameters")) }
}

/// A quoted or bare value, and what follows it.
fn read_value(text: &str) -> Result<(String, &str), SignatureError> {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find(',').unwrap_or(text.len());
        return Ok((text[..end].trim().to_owned(), &text[end..]));
    };
    let mut value = String::new();
    let mut rest = quoted;
    while let Some(at) = rest.find(['"', '\\']) {
        let (plain, after) = rest.split_at(at);
        value.push_str(plain);
        if let Some(after) = after.strip_prefix('"') {
            return Ok((value, after));
        }
        let mut escaped = after.chars();
        value.extend(escaped.by_ref().nth(1));
        rest = escaped.as_str();
    }
    Err(malformed("a quote is not closed"))
}

fn algorithm(name: Option<&str>) -> Result<Algorithm, SignatureError> {
    match name.map(str::to_ascii_lowercase).as_deref() {
        None | Some("hs2019") => Ok(Algorithm::OfKey),
        Some("rsa-sha256") => Ok(Algorithm::RsaSha256),
        Some("rsa-sha512") => Ok(Algorithm::RsaSha512),
        Some("ed25519" | "ed25519-sha512") => Ok(Algorithm::Ed25519),
        Some(other) => {
            let shown: String = other.chars().take(40).collect();
            Err(SignatureError::Unsupported(format!("the algorithm {shown}")))
        }
    }
}

fn check_covered(request: &Received<'_>, covered: &[&str]) -> Result<(), SignatureError> {
    let has = |name| covered.contains(&name);
    if !has("(request-target)") {
        return Err(SignatureError::NotCovered("(request-target)"));
    }
    if !has("host") {
        return Err(SignatureError::NotCovered("host"));
    }
    if !has("date") && !has("(created)") {
        return Err(SignatureError::NotCovered("date"));
    }
    if request.may_have_body() && !has("digest") && !has("content-digest") {
        return Err(SignatureError::NotCovered("digest"));
    }
    Ok(())
}

/// `Date` as it must be for a signature.
fn date(request: &Received<'_>) -> Result<Timestamp, SignatureError> {
    let text = text_field(request.headers, "date")?
        .ok_or_else(|| SignatureError::Absent("date".to_owned()))?;
    let why = "it is not an HTTP date";
    Timestamp::parse_http_date(&text).map_err(|_| SignatureError::Malformed { header: "date", why })
}

/// Seconds since 1970; a fraction is allowed (`expires` may have one) and dropped.
fn seconds(text: &str) -> Result<Timestamp, SignatureError> {
    let whole = text.split('.').next().unwrap_or("");
    whole.parse().map(from_seconds).map_err(|_| malformed("a time is not a number of seconds"))
}

/// What is signed: a line for each thing covered (section 2.3).
fn base(
    request: &Received<'_>,
    covered: &[&str],
    created: &Option<String>,
    expires: &Option<String>,
    with_query: bool,
) -> Result<Vec<u8>, SignatureError> {
    let mut base = Vec::new();
    let parameter = |name: &str, given: &Option<String>| match given {
        Some(value) => Ok(value.clone().into_bytes()),
        None => Err(SignatureError::Absent(name.to_owned())),
    };
    for (index, name) in covered.iter().enumerate() {
        let value = match *name {
            "(request-target)" => {
                let method = request.method.as_str().to_ascii_lowercase();
                let target = if with_query { request.target() } else { request.path().to_owned() };
                format!("{method} {target}").into_bytes()
            }
            "(created)" => parameter(name, created)?,
            "(expires)" => parameter(name, expires)?,
            "host" => request.host().into_bytes(),
            other if other.starts_with('(') => {
                let shown: String = other.chars().take(40).collect();
                return Err(SignatureError::Unsupported(shown));
            }
            other => {
                let absent = || SignatureError::Absent(other.chars().take(80).collect());
                request.field(other).ok_or_else(absent)?
            }
        };
        if index > 0 {
            base.push(b'\n');
        }
        base.extend_from_slice(name.as_bytes());
        base.extend_from_slice(b": ");
        base.extend_from_slice(&value);
    }
    Ok(base)
}

#[cfg(test)]
pub(super) mod testing {
    //! The parts a test of published vectors needs, whose keys are too short for use.

    use super::*;

    /// What is signed, and the signature, without a look at what is covered and when.
    pub fn raw(request: &Received<'_>) -> (Vec<u8>, Vec<u8>) {
        let given = parameters(request.headers).unwrap();
        let listed = given.headers.as_deref().unwrap_or("date").to_owned();
        let covered: Vec<&str> = listed.split(' ').collect();
        let base = base(request, &covered, &given.created, &given.expires, true).unwrap();
        (base, STANDARD.decode(given.signature.unwrap()).unwrap())
    }
}
