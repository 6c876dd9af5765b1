//! RFC 9421 against the `httpsig` crate: what it signs verifies here, and the reverse.

use httpsig::prelude::message_component::{HttpMessageComponent, HttpMessageComponentId};
use httpsig::prelude::{
    AlgorithmName, HttpSignatureBase, HttpSignatureHeaders, HttpSignatureParams, PublicKey,
    SecretKey,
};

use super::{BODY, Message, NOW, delivery, keys};
use crate::signature::key::PrivateKey;
use crate::signature::{Form, digest, verify};

fn algorithm(key: &PrivateKey) -> AlgorithmName {
    match key {
        PrivateKey::Rsa(_) => AlgorithmName::RsaV1_5Sha256,
        PrivateKey::Ed25519(_) => AlgorithmName::Ed25519,
    }
}

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

#[test]
fn what_is_signed_here_verifies_there() {
    for key in keys() {
        let message = delivery(Form::Rfc9421, key);
        let (signature, input) = (message.get("signature"), message.get("signature-input"));
        let parsed = HttpSignatureHeaders::try_parse(&signature, &input).unwrap();
        let headers = parsed.get("sig1").unwrap();
        let covered = ["@method", "@target-uri", "content-type", "content-digest"];
        let lines: Vec<_> = covered.iter().map(|name| line(&message, name)).collect();
        let base = HttpSignatureBase::try_new(&lines, headers.signature_params()).unwrap();
        let pem = key.public().unwrap().to_pem();
        let public = PublicKey::from_pem(&algorithm(key), &pem).unwrap();
        base.verify_signature_headers(&public, headers).unwrap();
    }
}

#[test]
fn what_is_signed_there_verifies_here() {
    for key in keys() {
        let mut message = delivery(Form::Rfc9421, key);
        message.headers.clear();
        message.set("host", "b.example");
        message.set("content-digest", &digest::content_of_body(BODY));
        let covered = ["@method", "@authority", "@path", "content-digest"];
        let ids: Vec<_> =
            covered.iter().map(|name| HttpMessageComponentId::try_from(*name).unwrap()).collect();
        let mut params = HttpSignatureParams::try_new(&ids).unwrap();
        params.set_created((NOW.as_ms() / 1_000) as u64).set_keyid("theirs");
        params.set_alg(&algorithm(key)).set_nonce("once");
        let lines: Vec<_> = covered.iter().map(|name| line(&message, name)).collect();
        let base = HttpSignatureBase::try_new(&lines, &params).unwrap();
        let pem = key.to_pem().unwrap();
        let secret = SecretKey::from_pem(&algorithm(key), pem.expose()).unwrap();
        let headers = base.build_signature_headers(&secret, Some("theirs")).unwrap();
        message.set("signature-input", &headers.signature_input_header_value());
        message.set("signature", &headers.signature_header_value());
        let public = key.public().unwrap();
        let form = verify(&message.received(), BODY, &public, NOW).unwrap();
        assert_eq!(form, Form::Rfc9421);
    }
}
