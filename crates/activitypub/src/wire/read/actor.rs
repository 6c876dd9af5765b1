//! Accounts.

use serde_json::Value;

use super::node::{flag, get, id, is, list_of, text, time, title, uri, uris};
use super::parts;
use crate::wire::{Actor, ActorKind, Field, Key, KeyMaterial, WireError};

/// The longest user name, in bytes: what Mastodon reads, too.
const USERNAME_BYTES_MAX: usize = 2_048;
/// How many other accounts are read: what Mastodon reads, too.
const ALIASES_MAX: usize = 256;
/// How many keys are read.
const KEYS_MAX: usize = 8;
/// How many fields are read: what Mastodon reads, too.
const FIELDS_MAX: usize = 50;
/// How many of what is implemented is looked at.
const IMPLEMENTS_MAX: usize = 100;

pub fn actor(kind: ActorKind, value: &Value) -> Result<Actor, WireError> {
    let username = text(value, "preferredUsername")
        .filter(|name| !name.is_empty() && name.len() <= USERNAME_BYTES_MAX)
        .ok_or(WireError::Missing("preferredUsername"))?;
    // Misskey has it on top, too.
    let shared = get(value, "endpoints").and_then(|endpoints| uri(endpoints, "sharedInbox"));
    Ok(Actor {
        id: id(value).ok_or(WireError::Missing("id"))?,
        kind,
        username,
        name: title(value, "name"),
        summary: title(value, "summary"),
        inbox: uri(value, "inbox").ok_or(WireError::Missing("inbox"))?,
        shared_inbox: shared.or_else(|| uri(value, "sharedInbox")),
        outbox: uri(value, "outbox"),
        followers: uri(value, "followers"),
        following: uri(value, "following"),
        featured: uri(value, "featured"),
        featured_tags: uri(value, "featuredTags"),
        url: uri(value, "url"),
        icon: get(value, "icon").and_then(parts::picture),
        image: get(value, "image").and_then(parts::picture),
        manually_approves_followers: flag(value, "manuallyApprovesFollowers").unwrap_or(false),
        discoverable: flag(value, "discoverable"),
        indexable: flag(value, "indexable"),
        memorial: flag(value, "memorial").unwrap_or(false),
        suspended: flag(value, "suspended").unwrap_or(false),
        published: time(value, "published"),
        updated: time(value, "updated"),
        moved_to: uri(value, "movedTo"),
        also_known_as: uris(value, "alsoKnownAs", ALIASES_MAX),
        keys: keys(value),
        fields: fields(value),
        tags: parts::tags(value),
        understands_rfc9421: understands_rfc9421(value),
    })
}

fn keys(value: &Value) -> Vec<Key> {
    let pem = list_of(value, "publicKey").iter().take(KEYS_MAX).filter_map(|key| {
        let material = KeyMaterial::Pem(text(key, "publicKeyPem")?);
        Some(Key { id: id(key)?, owner: uri(key, "owner"), material })
    });
    let multi = list_of(value, "assertionMethod").iter().take(KEYS_MAX).filter_map(|key| {
        let material = KeyMaterial::Multibase(text(key, "publicKeyMultibase")?);
        Some(Key { id: id(key)?, owner: uri(key, "controller"), material })
    });
    pem.chain(multi).collect()
}

fn fields(value: &Value) -> Vec<Field> {
    let listed = list_of(value, "attachment").iter().filter(|one| is(one, "PropertyValue"));
    listed
        .take(FIELDS_MAX)
        .filter_map(|one| Some(Field { name: text(one, "name")?, value: text(one, "value")? }))
        .collect()
}

/// Whether RFC 9421 is among what the account or its software implements (FEP-844e).
fn understands_rfc9421(value: &Value) -> bool {
    let of_software = get(value, "generator").unwrap_or(&Value::Null);
    [value, of_software].into_iter().any(|one| {
        let listed = list_of(one, "implements").iter().take(IMPLEMENTS_MAX);
        listed
            .filter_map(|one| one.as_str().or_else(|| get(one, "href")?.as_str()))
            .any(|href| href.to_ascii_lowercase().contains("rfc9421"))
    })
}
