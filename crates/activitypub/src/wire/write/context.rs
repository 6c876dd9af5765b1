//! The `@context` of what is written: for readers that process JSON-LD.

use serde_json::{Value, json};

const ACTIVITYSTREAMS: &str = "https://www.w3.org/ns/activitystreams";

/// For what needs nothing but the vocabulary itself.
pub fn plain() -> Value {
    ACTIVITYSTREAMS.into()
}

/// For posts.
pub fn post() -> Value {
    json!([ACTIVITYSTREAMS, {
        "toot": "http://joinmastodon.org/ns#",
        "ostatus": "http://ostatus.org#",
        "sensitive": "as:sensitive",
        "Hashtag": "as:Hashtag",
        "Emoji": "toot:Emoji",
        "blurhash": "toot:blurhash",
        "focalPoint": { "@container": "@list", "@id": "toot:focalPoint" },
        "votersCount": "toot:votersCount",
        "conversation": "ostatus:conversation",
    }])
}

/// For accounts.
pub fn actor() -> Value {
    json!([ACTIVITYSTREAMS, "https://w3id.org/security/v1", {
        "toot": "http://joinmastodon.org/ns#",
        "schema": "http://schema.org#",
        "Hashtag": "as:Hashtag",
        "Emoji": "toot:Emoji",
        "PropertyValue": "schema:PropertyValue",
        "value": "schema:value",
        "manuallyApprovesFollowers": "as:manuallyApprovesFollowers",
        "alsoKnownAs": { "@id": "as:alsoKnownAs", "@type": "@id" },
        "movedTo": { "@id": "as:movedTo", "@type": "@id" },
        "featured": { "@id": "toot:featured", "@type": "@id" },
        "featuredTags": { "@id": "toot:featuredTags", "@type": "@id" },
        "discoverable": "toot:discoverable",
        "indexable": "toot:indexable",
        "memorial": "toot:memorial",
        "suspended": "toot:suspended",
        "implements": {
            "@id": "https://w3id.org/fep/844e#implements",
            "@type": "@id",
            "@container": "@list",
        },
        "Multikey": "https://w3id.org/security#Multikey",
        "assertionMethod": {
            "@id": "https://w3id.org/security#assertionMethod",
            "@type": "@id",
            "@container": "@set",
        },
        "publicKeyMultibase": {
            "@id": "https://w3id.org/security#publicKeyMultibase",
            "@type": "https://w3id.org/security#multibase",
        },
        "controller": { "@id": "https://w3id.org/security#controller", "@type": "@id" },
    }])
}

/// Puts the context before everything else.
pub fn with(context: Value, body: Value) -> Value {
    let Value::Object(body) = body else {
        return body;
    };
    let first = ("@context".to_owned(), context);
    std::iter::once(first).chain(body).collect::<serde_json::Map<_, _>>().into()
}
