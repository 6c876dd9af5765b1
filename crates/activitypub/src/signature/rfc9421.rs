//! RFC 9421, HTTP Message Signatures: sign, and check.

use std::collections::HashSet;

use http::header::{CONTENT_TYPE, DATE};
use http::{HeaderMap, HeaderName, HeaderValue};
use sfv::{
    BareItem, Dictionary, InnerList, Item, KeyRef, ListEntry, ListSerializer, Parser, StringRef,
};
use weir_base::Timestamp;

use super::key::{KeyError, PrivateKey};
use super::request::{check_time, checked_key_id, from_seconds, text_field};
use super::{Algorithm, Checked, Claim, Form, Outgoing, Received, SignatureError, digest};

const INPUT: &str = "signature-input";
const SIGNATURE: &str = "signature";
/// The label under which this server signs.
const LABEL: &str = "sig1";
/// How many signatures of one request are looked at.
const SIGNATURES_MAX: usize = 4;
/// How many components a signature may cover.
const COVERED_MAX: usize = 32;

pub(super) fn claim(headers: &HeaderMap) -> Result<Claim, SignatureError> {
    let inputs = inputs(headers)?;
    let mut first_error = None;
    for (_, list) in inputs.iter().take(SIGNATURES_MAX) {
        match claim_of(list) {
            Ok(claim) => return Ok(claim),
            Err(error) => first_error = first_error.or(Some(error)),
        }
    }
    Err(first_error.unwrap_or(SignatureError::Missing))
}

/// Takes the first signature that is in order: a proxy or a newer peer may add some that mean
/// nothing here.
pub(super) fn check(
    request: &Received<'_>,
    body: &[u8],
    now: Timestamp,
) -> Result<Checked, SignatureError> {
    let inputs = inputs(request.headers)?;
    let signatures = dictionary(request.headers, SIGNATURE)?.ok_or(SignatureError::Missing)?;
    let mut first_error = None;
    for (label, list) in inputs.iter().take(SIGNATURES_MAX) {
        let signature = signatures.get(label.as_str());
        match check_one(request, body, now, list, signature) {
            Ok(checked) => return Ok(checked),
            Err(error) => first_error = first_error.or(Some(error)),
        }
    }
    Err(first_error.unwrap_or(SignatureError::Missing))
}

pub(super) fn sign(
    request: &Outgoing<'_>,
    key_id: &str,
    key: &PrivateKey,
    now: Timestamp,
) -> Result<HeaderMap, KeyError> {
    let mut lines = vec![
        ("@method", request.method.as_str().to_owned()),
        ("@target-uri", request.target_uri()),
    ];
    let mut headers = HeaderMap::new();
    headers.insert(DATE, value(now.http_date())?);
    if let Some((media_type, body)) = request.body {
        let digest = digest::content_of_body(body);
        lines.push(("content-type", media_type.to_owned()));
        lines.push(("content-digest", digest.clone()));
        headers.insert(HeaderName::from_static("content-digest"), value(digest)?);
        headers.insert(CONTENT_TYPE, value(media_type.to_owned())?);
    }
    let input = input(&lines, key_id, key, now)?;
    let base: String = lines.iter().map(|(name, value)| format!("\"{name}\": {value}\n")).collect();
    let base = format!("{base}\"@signature-params\": {input}");
    let mut signature = sfv::DictSerializer::new();
    let label = KeyRef::from_str(LABEL).map_err(|_| KeyError::Sign)?;
    signature.bare_item(label, key.sign(base.as_bytes())?.as_slice());
    let signature = signature.finish().ok_or(KeyError::Sign)?;
    headers.insert(HeaderName::from_static(INPUT), value(format!("{LABEL}={input}"))?);
    headers.insert(HeaderName::from_static(SIGNATURE), value(signature)?);
    Ok(headers)
}

/// The covered components and parameters, as they stand in `Signature-Input`.
fn input(
    lines: &[(&'static str, String)],
    key_id: &str,
    key: &PrivateKey,
    now: Timestamp,
) -> Result<String, KeyError> {
    let algorithm = match key {
        PrivateKey::Rsa(_) => "rsa-v1_5-sha256",
        PrivateKey::Ed25519(_) => "ed25519",
    };
    let text = |text| StringRef::from_str(text).map_err(|_| KeyError::Id);
    let name = |name| KeyRef::from_str(name).map_err(|_| KeyError::Sign);
    let created = sfv::Integer::try_from(now.as_ms() / 1_000).map_err(|_| KeyError::Sign)?;
    let mut list = ListSerializer::new();
    let mut inner = list.inner_list();
    for (component, _) in lines {
        let _ = inner.bare_item(text(component)?);
    }
    // Some verifiers write the parameters anew, in this order.
    let _ = inner
        .finish()
        .parameter(name("created")?, created)
        .parameter(name("alg")?, text(algorithm)?)
        .parameter(name("keyid")?, text(key_id)?);
    list.finish().ok_or(KeyError::Sign)
}

fn value(text: String) -> Result<HeaderValue, KeyError> {
    HeaderValue::try_from(text).map_err(|_| KeyError::Id)
}

fn malformed(header: &'static str, why: &'static str) -> SignatureError {
    SignatureError::Malformed { header, why }
}

fn dictionary(
    headers: &HeaderMap,
    header: &'static str,
) -> Result<Option<Dictionary>, SignatureError> {
    let Some(text) = text_field(headers, header)? else {
        return Ok(None);
    };
    let parsed = Parser::new(&text).parse::<Dictionary>();
    parsed.map(Some).map_err(|_| malformed(header, "it is not a structured field"))
}

/// All of `Signature-Input`: a list of components for each label.
fn inputs(headers: &HeaderMap) -> Result<Vec<(String, InnerList)>, SignatureError> {
    let dictionary = dictionary(headers, INPUT)?.ok_or(SignatureError::Missing)?;
    let mut inputs = Vec::new();
    for (label, entry) in dictionary {
        let ListEntry::InnerList(list) = entry else {
            return Err(malformed(INPUT, "an entry is not a list of components"));
        };
        inputs.push((label.as_str().to_owned(), list));
    }
    Ok(inputs)
}

fn claim_of(list: &InnerList) -> Result<Claim, SignatureError> {
    let key_id = text_parameter(list, "keyid")?.unwrap_or("");
    Ok(Claim { key_id: checked_key_id(key_id, INPUT)?, form: Form::Rfc9421 })
}

fn check_one(
    request: &Received<'_>,
    body: &[u8],
    now: Timestamp,
    list: &InnerList,
    signature: Option<&ListEntry>,
) -> Result<Checked, SignatureError> {
    let claim = claim_of(list)?;
    let algorithm = algorithm(text_parameter(list, "alg")?)?;
    let created = time_parameter(list, "created")?;
    let signed_at = created.ok_or(SignatureError::NotCovered("the parameter created"))?;
    check_time(signed_at, time_parameter(list, "expires")?, now)?;
    let covered = components(list)?;
    check_covered(request, &covered)?;
    if covered.contains(&"content-digest") {
        digest::check_content(request, body)?;
    }
    let Some(ListEntry::Item(Item { bare_item: BareItem::ByteSequence(signature), .. })) =
        signature
    else {
        return Err(malformed(SIGNATURE, "the signature of a label is not there, or not bytes"));
    };
    let bases = vec![base(request, &covered, list)?];
    Ok(Checked { claim, signed_at, algorithm, bases, signature: signature.clone() })
}

fn text_parameter<'a>(list: &'a InnerList, name: &str) -> Result<Option<&'a str>, SignatureError> {
    match list.params.get(name) {
        None => Ok(None),
        Some(BareItem::String(text)) => Ok(Some(text.as_str())),
        Some(_) => Err(malformed(INPUT, "keyid or alg is not a string")),
    }
}

fn time_parameter(list: &InnerList, name: &str) -> Result<Option<Timestamp>, SignatureError> {
    match list.params.get(name) {
        None => Ok(None),
        Some(BareItem::Integer(seconds)) => Ok(Some(from_seconds(i64::from(*seconds)))),
        Some(_) => Err(malformed(INPUT, "created or expires is not a whole number of seconds")),
    }
}

fn algorithm(name: Option<&str>) -> Result<Algorithm, SignatureError> {
    match name {
        None => Ok(Algorithm::OfKey),
        Some("rsa-v1_5-sha256") => Ok(Algorithm::RsaSha256),
        Some("rsa-pss-sha512") => Ok(Algorithm::RsaPssSha512),
        Some("ed25519") => Ok(Algorithm::Ed25519),
        Some(other) => {
            let shown: String = other.chars().take(40).collect();
            Err(SignatureError::Unsupported(format!("the algorithm {shown}")))
        }
    }
}

/// The names of what is covered: each once (section 2), none with parameters, which would change
/// what its value is.
fn components(list: &InnerList) -> Result<Vec<&str>, SignatureError> {
    if list.items.len() > COVERED_MAX {
        return Err(malformed(INPUT, "it covers more than 32 components"));
    }
    let mut names = Vec::with_capacity(list.items.len());
    let mut seen = HashSet::new();
    for item in &list.items {
        let BareItem::String(name) = &item.bare_item else {
            return Err(malformed(INPUT, "a component is not a string"));
        };
        let name = name.as_str();
        if !item.params.is_empty() {
            let shown: String = name.chars().take(40).collect();
            return Err(SignatureError::Unsupported(format!("a parameter of {shown}")));
        }
        if !seen.insert(name) {
            return Err(malformed(INPUT, "a component is there twice"));
        }
        names.push(name);
    }
    Ok(names)
}

fn check_covered(request: &Received<'_>, covered: &[&str]) -> Result<(), SignatureError> {
    let has = |name| covered.contains(&name);
    if !has("@method") {
        return Err(SignatureError::NotCovered("@method"));
    }
    let whole = has("@target-uri");
    if !whole && !has("@request-target") && !has("@path") {
        return Err(SignatureError::NotCovered("@target-uri"));
    }
    if !whole && !has("@authority") && !has("host") {
        return Err(SignatureError::NotCovered("@authority"));
    }
    let query = request.query().is_some_and(|query| !query.is_empty());
    if query && !whole && !has("@request-target") && !has("@query") {
        return Err(SignatureError::NotCovered("@query"));
    }
    if request.may_have_body() && !has("content-digest") {
        return Err(SignatureError::NotCovered("content-digest"));
    }
    Ok(())
}

/// What is signed (section 2.5).
fn base(
    request: &Received<'_>,
    covered: &[&str],
    list: &InnerList,
) -> Result<Vec<u8>, SignatureError> {
    let mut base = Vec::new();
    for name in covered {
        base.extend_from_slice(format!("\"{name}\": ").as_bytes());
        base.extend_from_slice(&component(request, name)?);
        base.push(b'\n');
    }
    let mut parameters = ListSerializer::new();
    parameters.members([&ListEntry::InnerList(list.clone())]);
    let parameters = parameters.finish().unwrap_or_default();
    base.extend_from_slice(format!("\"@signature-params\": {parameters}").as_bytes());
    Ok(base)
}

/// The value of a component (sections 2.1 and 2.2).
fn component(request: &Received<'_>, name: &str) -> Result<Vec<u8>, SignatureError> {
    let authority = || request.authority();
    let value = match name {
        "@method" => request.method.as_str().to_owned(),
        "@scheme" => request.scheme.to_owned(),
        "@authority" => authority(),
        "@path" => request.path().to_owned(),
        "@query" => format!("?{}", request.query().unwrap_or("")),
        "@request-target" => request.target(),
        "@target-uri" => format!("{}://{}{}", request.scheme, authority(), request.target()),
        "host" => request.host(),
        other if other.starts_with('@') => {
            let shown: String = other.chars().take(40).collect();
            return Err(SignatureError::Unsupported(shown));
        }
        other => {
            let absent = || SignatureError::Absent(other.chars().take(80).collect());
            return request.field(other).ok_or_else(absent);
        }
    };
    Ok(value.into_bytes())
}

#[cfg(test)]
pub(super) mod testing {
    //! The parts a test of published vectors needs, which cover less than is asked for here.

    use super::*;

    /// What is signed under a label, and the signature.
    pub fn raw(request: &Received<'_>, label: &str) -> (Vec<u8>, Vec<u8>) {
        let inputs = inputs(request.headers).unwrap();
        let (_, list) = inputs.iter().find(|(of, _)| of == label).unwrap();
        let signatures = dictionary(request.headers, SIGNATURE).unwrap().unwrap();
        let Some(ListEntry::Item(item)) = signatures.get(label) else { panic!("{label}") };
        let signature = item.bare_item.as_byte_sequence().unwrap().to_vec();
        (base(request, &components(list).unwrap(), list).unwrap(), signature)
    }
}
