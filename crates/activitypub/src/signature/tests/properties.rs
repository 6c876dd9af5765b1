//! What is signed verifies, and nothing else does.

use http::{HeaderValue, Method};
use proptest::prelude::*;

use super::{BODY, FORMS, KEY_ID, Message, NOW, delivery, fetch, keys};
use crate::signature::{Claim, Form, SignatureError, check, claim, verify};

fn accepted(message: &Message, key: usize) -> bool {
    let public = keys()[key].public().unwrap();
    verify(&message.received(), &message.body, &public, NOW).is_ok()
}

#[test]
fn what_is_signed_verifies_in_both_forms_with_both_kinds_of_key() {
    for form in FORMS {
        for (index, key) in keys().iter().enumerate() {
            for message in [delivery(form, key), fetch(form, key)] {
                let expected = Claim { key_id: KEY_ID.to_owned(), form };
                assert_eq!(claim(&message.headers).unwrap(), expected);
                let checked = check(&message.received(), &message.body, NOW).unwrap();
                assert_eq!((checked.signed_at, checked.claim.form), (NOW, form));
                assert!(accepted(&message, index));
                assert!(!accepted(&message, 1 - index), "another key");
            }
        }
    }
}

#[test]
fn a_signature_without_the_query_is_accepted_where_peers_leave_it_out() {
    for key in keys() {
        let mut message = fetch(Form::Cavage, key);
        message.target = "/ap/users/7/outbox".to_owned();
        let unsigned_target = fetch(Form::Cavage, key);
        // Signed for the path alone, asked for with a query.
        let url = url::Url::parse("https://b.example/ap/users/7/outbox").unwrap();
        let request = crate::signature::Outgoing { method: &Method::GET, url: &url, body: None };
        let headers = crate::signature::sign(Form::Cavage, &request, KEY_ID, key, NOW).unwrap();
        let mut with_query = unsigned_target.clone();
        with_query.headers = headers;
        with_query.set("host", "b.example");
        let public = key.public().unwrap();
        assert!(verify(&with_query.received(), b"", &public, NOW).is_ok());
        // But not the reverse: a signed query belongs there.
        message.headers = unsigned_target.headers;
        assert!(verify(&message.received(), b"", &public, NOW).is_err());
    }
}

#[test]
fn host_may_be_spelt_with_its_port_or_be_changed_by_a_proxy() {
    for form in FORMS {
        let mut message = delivery(form, &keys()[0]);
        message.set("host", "127.0.0.1:8080");
        assert!(accepted(&message, 0), "a proxy's own");
        message.headers.remove("host");
        assert!(accepted(&message, 0), "none over HTTP/2");
    }
}

#[test]
fn a_request_signed_for_another_host_is_refused() {
    for form in FORMS {
        let message = delivery(form, &keys()[0]);
        let mut received = message.received();
        received.authority = "c.example";
        let public = keys()[0].public().unwrap();
        let refused = verify(&received, BODY, &public, NOW);
        assert_eq!(refused, Err(SignatureError::Invalid));
    }
}

/// The fields whose every byte is signed, or is the signature, in a form.
fn covered(form: Form) -> &'static [&'static str] {
    match form {
        Form::Cavage => &["date", "digest", "content-type"],
        Form::Rfc9421 => &["content-digest", "content-type"],
    }
}

fn flip(bytes: &mut [u8], at: usize, to: u8) -> bool {
    let at = at % bytes.len();
    let before = bytes[at];
    bytes[at] = to;
    before != to
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn a_changed_byte_of_a_covered_field_is_refused(
        form in 0..2usize, key in 0..2usize, field: usize, at: usize, to in b' '..=b'~',
    ) {
        let mut message = delivery(FORMS[form], &keys()[key]);
        let names = covered(FORMS[form]);
        let name = names[field % names.len()];
        let mut bytes = message.headers[name].as_bytes().to_vec();
        prop_assume!(flip(&mut bytes, at, to));
        message.headers.insert(name, HeaderValue::from_bytes(&bytes).unwrap());
        prop_assert!(!accepted(&message, key), "{:?}", message.headers);
    }

    #[test]
    fn a_changed_byte_of_the_body_is_refused(
        form in 0..2usize, key in 0..2usize, at: usize, to: u8,
    ) {
        let mut message = delivery(FORMS[form], &keys()[key]);
        prop_assume!(flip(&mut message.body, at, to));
        let refused = check(&message.received(), &message.body, NOW);
        prop_assert_eq!(refused, Err(SignatureError::DigestDiffers));
    }

    #[test]
    fn a_changed_target_is_refused(
        form in 0..2usize, key in 0..2usize, at in 1usize.., to in b'a'..=b'z',
    ) {
        let mut message = delivery(FORMS[form], &keys()[key]);
        let mut bytes = message.target.into_bytes();
        let at = 1 + at % (bytes.len() - 1);
        prop_assume!(flip(&mut bytes, at, to));
        message.target = String::from_utf8(bytes).unwrap();
        prop_assert!(!accepted(&message, key));
    }

    #[test]
    fn a_changed_method_is_refused(form in 0..2usize, key in 0..2usize, put: bool) {
        let mut message = delivery(FORMS[form], &keys()[key]);
        message.method = if put { Method::PUT } else { Method::GET };
        prop_assert!(!accepted(&message, key));
    }

    #[test]
    fn a_changed_byte_of_the_signature_itself_is_refused(
        form in 0..2usize, key in 0..2usize, at: usize, to in b'0'..=b'z',
    ) {
        let mut message = delivery(FORMS[form], &keys()[key]);
        let text = message.get("signature");
        // The bytes between the last quote or colon and the one before it, without the padding
        // and the last character, whose low bits may be unused.
        let mark = if form == 0 { "signature=\"" } else { "=:" };
        let start = text.find(mark).unwrap() + mark.len();
        let end = text.trim_end_matches(['"', ':', '=']).len() - 1;
        let mut bytes = text.into_bytes();
        let at = start + at % (end - start);
        prop_assume!(bytes[at] != to);
        bytes[at] = to;
        message.headers.insert("signature", HeaderValue::from_bytes(&bytes).unwrap());
        prop_assert!(!accepted(&message, key));
    }

    #[test]
    fn any_bytes_in_the_headers_never_panic(
        signature in proptest::collection::vec(any::<u8>(), 0..200),
        input in proptest::collection::vec(b' '..=b'~', 0..200),
        digest in "[a-zA-Z0-9=:, -]{0,60}",
        with_input: bool,
    ) {
        let mut message = delivery(Form::Cavage, &keys()[1]);
        if let Ok(value) = HeaderValue::from_bytes(&signature) {
            message.headers.insert("signature", value);
        }
        if with_input {
            message.headers.insert("signature-input", HeaderValue::from_bytes(&input).unwrap());
        }
        message.set("digest", &digest);
        message.set("content-digest", &digest);
        let _ = claim(&message.headers);
        prop_assert!(!accepted(&message, 1));
    }
}
