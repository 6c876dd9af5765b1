//! The same thing in different forms.

use serde_json::json;

use super::json as bytes;
use crate::wire::{
    KeyMaterial, Object, ObjectRef, PUBLIC, WireError, is_media_type, parse_activity, parse_object,
};

const A: &str = "https://a.example/users/alice";

#[test]
fn everybody_has_one_name_after_reading() {
    for name in [PUBLIC, "as:Public", "Public"] {
        for to in [json!(name), json!([name]), json!([{ "id": name }])] {
            let like =
                json!({ "type": "Like", "actor": A, "object": "https://b.example/1", "to": to });
            let like = parse_activity(&bytes(like)).unwrap();
            assert!(like.is_public() && like.to.len() == 1);
            assert_eq!(like.to[0], PUBLIC);
        }
    }
}

#[test]
fn an_object_may_be_a_link_an_id_or_the_thing() {
    let forms = [
        json!("https://b.example/1"),
        json!(["https://b.example/1"]),
        json!({ "id": "https://b.example/1" }),
        json!({ "@id": "https://b.example/1" }),
    ];
    for form in forms {
        let like = json!({ "@type": "as:Like", "actor": { "id": A }, "object": form });
        let like = parse_activity(&bytes(like)).unwrap();
        assert_eq!(like.object, ObjectRef::Uri("https://b.example/1".parse().unwrap()));
        assert_eq!(like.actor, A);
    }
    let broken =
        json!({ "type": "Create", "actor": A, "object": { "type": "Note", "content": "x" } });
    let broken = parse_activity(&bytes(broken)).unwrap();
    let Some(Object::Unknown { id: None, kind }) = broken.object.embedded() else { panic!() };
    assert_eq!(kind, "Note");
}

#[test]
fn text_may_be_a_map_of_languages_or_a_value_object() {
    for (name, value) in [
        ("name", json!("Titel")),
        ("name", json!({ "@value": "Titel", "@language": "de" })),
        ("name", json!([{ "@value": "Titel" }])),
        ("nameMap", json!({ "de": "Titel" })),
    ] {
        let page = json!({ "id": "https://a.example/1", "type": ["Page", "Other"], name: value });
        let Object::Post(page) = parse_object(&bytes(page)).unwrap() else { panic!() };
        assert_eq!(page.name.as_deref(), Some("Titel"));
    }
}

#[test]
fn keys_may_be_several_and_of_both_forms() {
    let actor = json!({
        "id": A, "type": "Person", "preferredUsername": "alice", "inbox": format!("{A}/inbox"),
        "publicKey": [
            { "id": format!("{A}#main-key"), "owner": A, "publicKeyPem": "PEM" },
            { "id": format!("{A}#broken") },
            "https://a.example/key",
        ],
        "assertionMethod": [
            { "id": format!("{A}#ed"), "type": "Multikey", "controller": A,
              "publicKeyMultibase": "z6Mk" },
        ],
        "generator": { "type": "Application", "implements": [
            { "name": "RFC-9421", "href": "https://datatracker.ietf.org/doc/html/rfc9421" },
        ] },
    });
    let Object::Actor(actor) = parse_object(&bytes(actor)).unwrap() else { panic!() };
    let material: Vec<_> = actor.keys.iter().map(|key| key.material.clone()).collect();
    let expected = [KeyMaterial::Pem("PEM".to_owned()), KeyMaterial::Multibase("z6Mk".to_owned())];
    assert_eq!(material, expected);
    assert!(actor.understands_rfc9421);
}

#[test]
fn a_poll_may_be_closed_in_words() {
    for (closed, expected) in
        [(json!(true), true), (json!(false), false), (json!("2024-05-01T10:00:00Z"), true)]
    {
        let poll = json!({
            "id": "https://a.example/1", "type": "Question", "oneOf": { "name": "a" },
            "closed": closed, "votersCount": "12",
        });
        let Object::Post(post) = parse_object(&bytes(poll)).unwrap() else { panic!() };
        let poll = post.poll.unwrap();
        assert_eq!((poll.closed, poll.voters_count), (expected, Some(12)));
        assert_eq!(poll.options.len(), 1);
    }
}

#[test]
fn what_is_missing_is_named() {
    let missing = |value| parse_activity(&bytes(value)).unwrap_err();
    let like = json!({ "type": "Like", "object": "https://b.example/1" });
    assert_eq!(missing(like), WireError::Missing("actor"));
    assert_eq!(missing(json!({ "type": "Like", "actor": A })), WireError::Missing("object"));
    let like = json!({ "type": "Like", "actor": "alice", "object": "https://b.example/1" });
    assert_eq!(missing(like), WireError::Missing("actor"));
    assert_eq!(missing(json!([])), WireError::NotAnObject);
    assert_eq!(missing(json!({})), WireError::UnknownType(String::new()));
    assert_eq!(missing(json!({ "type": "Note", "id": A })), WireError::Missing("an activity"));
    let actor = json!({ "type": "Person", "id": A, "preferredUsername": "alice" });
    assert_eq!(parse_object(&bytes(actor)).unwrap_err(), WireError::Missing("inbox"));
}

#[test]
fn both_names_of_the_media_type_are_known() {
    assert!(is_media_type("application/activity+json") && is_media_type("application/ld+json"));
    assert!(!is_media_type("application/json") && !is_media_type("text/html"));
}
