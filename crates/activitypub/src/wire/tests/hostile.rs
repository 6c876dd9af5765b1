//! Bad input: refused or read as far as it goes, never a panic.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::json as bytes;
use crate::wire::{Object, parse_activity, parse_object, write};

const A: &str = "https://a.example/users/alice";

#[test]
fn lists_have_an_end() {
    let many: Vec<String> = (0..15_000).map(|n| format!("https://b.example/{n}")).collect();
    let create =
        json!({ "type": "Create", "actor": A, "object": "https://b.example/1", "to": many });
    assert_eq!(parse_activity(&bytes(create)).unwrap().to.len(), 2_000);
    let tags = (0..5_000).map(|n| json!({ "type": "Hashtag", "name": n.to_string() }));
    let note = json!({ "id": A, "type": "Note", "tag": tags.collect::<Vec<_>>() });
    let Object::Post(note) = parse_object(&bytes(note)).unwrap() else { panic!() };
    assert_eq!(note.tags.len(), 500);
}

#[test]
fn activities_inside_activities_end_at_the_depth() {
    let mut value = json!("https://b.example/1");
    for _ in 0..31 {
        value = json!({ "type": "Undo", "actor": A, "object": value });
    }
    assert!(parse_activity(&bytes(value.clone())).is_ok());
    let deeper = json!({ "type": "Undo", "actor": A, "object": [[value]] });
    assert!(parse_activity(&bytes(deeper)).is_err());
}

#[test]
fn what_is_no_web_address_is_left_out() {
    let person = json!({
        "id": A, "type": "Person", "preferredUsername": "alice", "inbox": format!("{A}/inbox"),
        "alsoKnownAs": ["acct:alice@b.example", "https://b.example/alice", 7, null, {}],
        "url": "javascript:alert(1)", "icon": { "type": "Image", "url": "data:image/png;base64,A" },
        "endpoints": "https://a.example/inbox", "image": [[[]]], "attachment": [7, "x", {}],
    });
    let Object::Actor(alice) = parse_object(&bytes(person)).unwrap() else { panic!() };
    assert_eq!(alice.also_known_as.len(), 1);
    assert!(alice.url.is_none() && alice.icon.is_none() && alice.image.is_none());
    assert!(alice.shared_inbox.is_none() && alice.fields.is_empty());
}

#[test]
fn numbers_out_of_range_do_not_count() {
    let note = json!({
        "id": A, "type": "Question", "votersCount": -3,
        "oneOf": [{ "name": "a", "replies": { "totalItems": 1e300 } }, { "replies": 7 }],
        "attachment": { "type": "Image", "url": A, "width": 99999999999_i64, "height": -1,
                        "focalPoint": [7, "x"] },
        "published": "never", "endTime": "x".repeat(1_000),
    });
    let Object::Post(post) = parse_object(&bytes(note)).unwrap() else { panic!() };
    let poll = post.poll.unwrap();
    assert_eq!((poll.voters_count, poll.options.len()), (None, 1));
    assert_eq!((post.attachments[0].width, post.attachments[0].focus), (None, None));
    assert!(post.published.is_none() && poll.ends_at.is_none());
}

/// Any JSON, with the names and types that mean something.
fn anything() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[ -~]{0,12}".prop_map(Value::from),
        prop::sample::select(vec![
            A,
            "as:Public",
            "Note",
            "Create",
            "Question",
            "Person",
            "Undo",
            "Announce",
            "Mention",
            "Emoji",
            "Document",
            "Collection",
            "Tombstone",
            "2024-05-01T10:00:00Z",
        ])
        .prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 60, 8, |inner| {
        let name = prop::sample::select(vec![
            "id",
            "type",
            "actor",
            "object",
            "to",
            "cc",
            "attributedTo",
            "content",
            "contentMap",
            "name",
            "summary",
            "tag",
            "attachment",
            "url",
            "href",
            "icon",
            "image",
            "oneOf",
            "anyOf",
            "closed",
            "endTime",
            "replies",
            "first",
            "items",
            "orderedItems",
            "publicKey",
            "publicKeyPem",
            "preferredUsername",
            "inbox",
            "endpoints",
            "focalPoint",
            "location",
            "source",
            "language",
            "published",
            "totalItems",
            "width",
            "mediaType",
            "implements",
        ]);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((name, inner), 0..8)
                .prop_map(|pairs| { pairs.into_iter().map(|(k, v)| (k.to_owned(), v)).collect() }),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn any_json_is_read_or_refused(value in anything()) {
        let text = bytes(value);
        let _ = parse_activity(&text);
        match parse_object(&text) {
            Ok(Object::Post(post)) => drop(write::post(&post)),
            Ok(Object::Actor(actor)) => drop(write::actor(&actor)),
            Ok(Object::Activity(activity)) => drop(write::activity(&activity)),
            Ok(Object::Collection(collection)) => drop(write::collection(&collection)),
            _ => {}
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(text in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse_activity(&text);
    }
}
