//! RFC 9421 against the `httpsig` crate: what it signs verifies here, and the reverse. It brings
//! no RSA that may come into the house, so with RSA it tells what is to be signed, and AWS-LC
//! signs and verifies that.

use httpsig::prelude::message_component::{HttpMessageComponent, HttpMessageComponentId};
use httpsig::prelude::{
    AlgorithmName, HttpSignatureBase, HttpSignatureHeaders, HttpSignatureParams, PublicKey,
    SecretKey,
};

use super::{BODY, Message, NOW, delivery, keys};
use crate::signature::key::PrivateKey;
use crate::signature::{Algorithm, Form, digest, rfc9421, verify};

/// The value of a component, told by the test itself.
fn line(message: &Message, name: &str) -> HttpMessageComponent {
    let value = match name {
        "@method" => message.method.to_string(),
        "@target-uri" => format!("https://b.example{}", message.target),
        "@authority" => "b.example".to_owned(),
        "@path" => message.target.clone(),
        field => message.get(field),
    };
    HttpMessageComponent::try_from(format!("\"{name}\": {value}").as_str()).unwrap()
}

fn lines(message: &Message, covered: &[&str]) -> Vec<HttpMessageComponent> {
    covered.iter().map(|name| line(message, name)).collect()
}

#[test]
fn what_is_signed_here_verifies_there() {
    for key in keys() {
        let message = delivery(Form::Rfc9421, key);
        let (signature, input) = (message.get("signature"), message.get("signature-input"));
        let parsed = HttpSignatureHeaders::try_parse(&signature, &input).unwrap();
        let headers = parsed.get("sig1").unwrap();
        let lines = lines(&message, &["@method", "@target-uri", "content-type", "content-digest"]);
        let base = HttpSignatureBase::try_new(&lines, headers.signature_params()).unwrap();
        let public = key.public().unwrap();
        match key {
            PrivateKey::Rsa(_) => {
                let (_, signature) = rfc9421::testing::raw(&message.received(), "sig1");
                assert!(public.verifies(Algorithm::RsaSha256, &base.as_bytes(), &signature));
            }
            PrivateKey::Ed25519(_) => {
                let theirs = PublicKey::from_pem(&AlgorithmName::Ed25519, &public.to_pem());
                base.verify_signature_headers(&theirs.unwrap(), headers).unwrap();
            }
        }
    }
}

#[test]
fn what_is_signed_there_verifies_here() {
    let covered = ["@method", "@authority", "@path", "content-digest"];
    let ids = covered.map(|name| HttpMessageComponentId::try_from(name).unwrap());
    let mut params = HttpSignatureParams::try_new(&ids).unwrap();
    params.set_created((NOW.as_ms() / 1_000) as u64).set_keyid("theirs");
    params.set_alg(&AlgorithmName::Ed25519).set_nonce("once");
    let key = &keys()[1];
    let mut message = delivery(Form::Rfc9421, key);
    message.headers.clear();
    message.set("host", "b.example");
    message.set("content-digest", &digest::content_of_body(BODY));
    let base = HttpSignatureBase::try_new(&lines(&message, &covered), &params).unwrap();
    let pem = key.to_pem().unwrap();
    let secret = SecretKey::from_pem(&AlgorithmName::Ed25519, pem.expose()).unwrap();
    let headers = base.build_signature_headers(&secret, Some("theirs")).unwrap();
    message.set("signature-input", &headers.signature_input_header_value());
    message.set("signature", &headers.signature_header_value());
    let public = key.public().unwrap();
    assert_eq!(verify(&message.received(), BODY, &public, NOW), Ok(Form::Rfc9421));
}
