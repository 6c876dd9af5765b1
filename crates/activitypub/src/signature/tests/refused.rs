//! What is refused, and with which status.

use http::Method;
use http::header::AUTHORIZATION;
use weir_base::Timestamp;

use super::{BODY, FORMS, Message, NOW, delivery, fetch, keys};
use crate::signature::{Form, SignatureError, check, claim, verify};

const HOUR_MS: i64 = 60 * 60_000;

fn refusal(message: &Message, now: Timestamp) -> Option<SignatureError> {
    check(&message.received(), &message.body, now).err()
}

/// A delivery whose `Signature` (or `Signature-Input`) has one piece of text changed.
fn changed(form: Form, from: &str, to: &str) -> Message {
    let mut message = delivery(form, &keys()[0]);
    let header = if form == Form::Cavage { "signature" } else { "signature-input" };
    let text = message.get(header);
    assert!(text.contains(from), "{text}");
    message.set(header, &text.replace(from, to));
    message
}

#[test]
fn a_request_without_a_signature_is_refused() {
    let mut message = delivery(Form::Cavage, &keys()[0]);
    message.headers.remove("signature");
    assert_eq!(refusal(&message, NOW), Some(SignatureError::Missing));
    message.headers.insert(AUTHORIZATION, "Bearer abc".parse().unwrap());
    assert_eq!(claim(&message.headers), Err(SignatureError::Missing));
    assert_eq!(SignatureError::Missing.status(), 401);
}

#[test]
fn a_signature_may_stand_in_the_authorization_header() {
    let mut message = delivery(Form::Cavage, &keys()[0]);
    let text = message.headers.remove("signature").unwrap();
    let text = format!("Signature {}", text.to_str().unwrap());
    message.headers.insert(AUTHORIZATION, text.parse().unwrap());
    let public = keys()[0].public().unwrap();
    assert_eq!(verify(&message.received(), BODY, &public, NOW), Ok(Form::Cavage));
}

#[test]
fn a_signature_lives_for_half_a_day() {
    for form in FORMS {
        let message = delivery(form, &keys()[0]);
        assert_eq!(refusal(&message, NOW.plus_ms(12 * HOUR_MS)), None);
        let late = refusal(&message, NOW.plus_ms(12 * HOUR_MS + 1));
        assert_eq!(late, Some(SignatureError::TooOld));
        assert_eq!(refusal(&message, NOW.plus_ms(-HOUR_MS)), None);
        let early = refusal(&message, NOW.plus_ms(-HOUR_MS - 1));
        assert_eq!(early, Some(SignatureError::FromFuture));
    }
}

#[test]
fn an_expired_signature_is_refused() {
    let expires = NOW.as_ms() / 1_000 - 3_601;
    let cavage = changed(Form::Cavage, "algorithm=", &format!("expires={expires}.5,algorithm="));
    let rfc = changed(Form::Rfc9421, ";alg=", &format!(";expires={expires};alg="));
    for message in [cavage, rfc] {
        assert_eq!(refusal(&message, NOW), Some(SignatureError::TooOld));
    }
}

#[test]
fn what_must_be_covered_is_named() {
    for (from, missing) in [
        ("(request-target) ", "(request-target)"),
        (" host", "host"),
        (" date", "date"),
        (" digest", "digest"),
    ] {
        let message = changed(Form::Cavage, from, "");
        assert_eq!(refusal(&message, NOW), Some(SignatureError::NotCovered(missing)));
    }
    for (from, missing) in [
        ("\"@method\" ", "@method"),
        ("\"@target-uri\" ", "@target-uri"),
        (" \"content-digest\"", "content-digest"),
    ] {
        let message = changed(Form::Rfc9421, from, "");
        assert_eq!(refusal(&message, NOW), Some(SignatureError::NotCovered(missing)));
    }
    let message = changed(Form::Rfc9421, "\"@target-uri\"", "\"@path\"");
    assert_eq!(refusal(&message, NOW), Some(SignatureError::NotCovered("@authority")));
    let created = format!("created={};", NOW.as_ms() / 1_000);
    let message = changed(Form::Rfc9421, &created, "");
    let missing = SignatureError::NotCovered("the parameter created");
    assert_eq!(refusal(&message, NOW), Some(missing));
}

#[test]
fn a_fetch_needs_no_digest() {
    for form in FORMS {
        assert_eq!(refusal(&fetch(form, &keys()[0]), NOW), None);
    }
}

#[test]
fn a_body_that_is_not_the_signed_one_is_refused() {
    for form in FORMS {
        let mut message = delivery(form, &keys()[0]);
        message.body = b"other".to_vec();
        assert_eq!(refusal(&message, NOW), Some(SignatureError::DigestDiffers));
        assert_eq!(SignatureError::DigestDiffers.status(), 400);
    }
}

#[test]
fn digests_of_unknown_kinds_do_not_count() {
    let mut message = delivery(Form::Cavage, &keys()[0]);
    message.set("digest", "MD5=abc,unixsum=1");
    assert!(matches!(refusal(&message, NOW), Some(SignatureError::Unsupported(_))));
    message.set("digest", "SHA-256");
    assert!(matches!(refusal(&message, NOW), Some(SignatureError::Malformed { .. })));
    message.headers.remove("digest");
    assert_eq!(refusal(&message, NOW), Some(SignatureError::Absent("digest".to_owned())));
    // A second digest that does not fit spoils the first.
    let mut message = delivery(Form::Cavage, &keys()[0]);
    message.set("digest", &format!("{},SHA-512=AAAA", message.get("digest")));
    assert_eq!(refusal(&message, NOW), Some(SignatureError::DigestDiffers));
}

#[test]
fn dates_that_are_none_are_refused() {
    let mut message = delivery(Form::Cavage, &keys()[0]);
    message.set("date", "yesterday");
    let refused = refusal(&message, NOW).unwrap();
    assert!(matches!(refused, SignatureError::Malformed { header: "date", .. }));
    message.headers.remove("date");
    assert_eq!(refusal(&message, NOW), Some(SignatureError::Absent("date".to_owned())));
}

#[test]
fn algorithms_and_components_that_are_not_known_are_refused() {
    for message in [
        changed(Form::Cavage, "rsa-sha256", "hmac-sha256"),
        changed(Form::Cavage, "(request-target) ", "(request-target) (other) "),
        changed(Form::Rfc9421, "rsa-v1_5-sha256", "hmac-sha256"),
        changed(Form::Rfc9421, "(\"@method\"", "(\"@status\" \"@method\""),
        changed(Form::Rfc9421, "\"content-type\"", "\"content-type\";bs"),
    ] {
        let refused = refusal(&message, NOW).unwrap();
        assert!(matches!(refused, SignatureError::Unsupported(_)), "{refused}");
    }
    let message = changed(Form::Rfc9421, "\"content-type\"", "\"@method\"");
    assert!(matches!(refusal(&message, NOW), Some(SignatureError::Malformed { .. })), "twice");
    let message = changed(Form::Rfc9421, "\"content-type\"", "\"x-other\"");
    assert_eq!(refusal(&message, NOW), Some(SignatureError::Absent("x-other".to_owned())));
}

#[test]
fn a_signature_of_another_key_or_algorithm_is_refused() {
    let rsa = keys()[0].public().unwrap();
    let ed25519 = keys()[1].public().unwrap();
    let message = changed(Form::Cavage, "algorithm=\"rsa-sha256\",", "");
    assert_eq!(verify(&message.received(), BODY, &rsa, NOW), Ok(Form::Cavage));
    assert_eq!(verify(&message.received(), BODY, &ed25519, NOW), Err(SignatureError::Invalid));
    let message = changed(Form::Cavage, "rsa-sha256", "ed25519");
    assert_eq!(verify(&message.received(), BODY, &rsa, NOW), Err(SignatureError::Invalid));
    assert_eq!(SignatureError::Invalid.status(), 401);
}

#[test]
fn a_created_time_stands_for_the_date_where_it_is_covered() {
    let mut message = delivery(Form::Cavage, &keys()[0]);
    let created = NOW.as_ms() / 1_000 - 60;
    message.method = Method::POST;
    message.set(
        "signature",
        &format!(
            "keyId=\"k\",algorithm=\"hs2019\",created={created},\
             headers=\"(request-target) (created) host digest\",signature=\"AAAA\""
        ),
    );
    let checked = check(&message.received(), BODY, NOW).unwrap();
    assert_eq!(checked.signed_at, NOW.plus_ms(-60_000));
    // Not covered, it says nothing.
    let text = message.get("signature").replace("(created)", "date");
    message.set("signature", &text);
    assert_eq!(check(&message.received(), BODY, NOW).unwrap().signed_at, NOW);
}
