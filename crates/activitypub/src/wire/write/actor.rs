//! Accounts.

use serde_json::{Value, json};

use super::Json;
use super::parts::{picture, tag};
use crate::wire::{Actor, Key, KeyMaterial};

/// What stands for RFC 9421 among what is implemented (FEP-844e).
const RFC9421: &str = "https://datatracker.ietf.org/doc/html/rfc9421";

pub fn body(of: &Actor) -> Value {
    let mut json = Json::new(of.kind.name());
    json.set("id", of.id.as_str());
    json.set("preferredUsername", of.username.as_str());
    json.text("name", &of.name);
    json.text("summary", &of.summary);
    json.set("inbox", of.inbox.as_str());
    json.uri("outbox", &of.outbox);
    json.uri("followers", &of.followers);
    json.uri("following", &of.following);
    json.uri("featured", &of.featured);
    json.uri("featuredTags", &of.featured_tags);
    if let Some(shared) = &of.shared_inbox {
        json.set("endpoints", json!({ "sharedInbox": shared.as_str() }));
    }
    json.uri("url", &of.url);
    for (name, of) in [("icon", &of.icon), ("image", &of.image)] {
        if let Some(of) = of {
            json.set(name, picture(of));
        }
    }
    json.set("manuallyApprovesFollowers", of.manually_approves_followers);
    for (name, flag) in [("discoverable", of.discoverable), ("indexable", of.indexable)] {
        if let Some(flag) = flag {
            json.set(name, flag);
        }
    }
    for (name, flag) in [("memorial", of.memorial), ("suspended", of.suspended)] {
        if flag {
            json.set(name, true);
        }
    }
    json.time("published", of.published);
    json.time("updated", of.updated);
    json.uri("movedTo", &of.moved_to);
    json.uris("alsoKnownAs", &of.also_known_as);
    set_keys(&mut json, &of.keys);
    let fields = of
        .fields
        .iter()
        .map(|field| json!({ "type": "PropertyValue", "name": field.name, "value": field.value }));
    json.list("attachment", fields.collect());
    json.list("tag", of.tags.iter().map(tag).collect());
    if of.understands_rfc9421 {
        let rfc = json!({ "name": "RFC 9421: HTTP Message Signatures", "href": RFC9421 });
        json.set("implements", vec![rfc]);
    }
    json.finish()
}

/// A single key in PEM form stands under `publicKey` without a list, as everybody reads it.
fn set_keys(json: &mut Json, keys: &[Key]) {
    let owner = |key: &Key| key.owner.as_ref().map(|owner| owner.as_str().to_owned());
    let pem: Vec<Value> = keys
        .iter()
        .filter_map(|key| match &key.material {
            KeyMaterial::Pem(pem) => Some(json!({
                "id": key.id.as_str(), "owner": owner(key), "publicKeyPem": pem,
            })),
            KeyMaterial::Multibase(_) => None,
        })
        .collect();
    match pem.as_slice() {
        [one] => json.set("publicKey", one.clone()),
        _ => json.list("publicKey", pem),
    }
    let multi = keys.iter().filter_map(|key| match &key.material {
        KeyMaterial::Multibase(text) => Some(json!({
            "type": "Multikey",
            "id": key.id.as_str(),
            "controller": owner(key),
            "publicKeyMultibase": text,
        })),
        KeyMaterial::Pem(_) => None,
    });
    json.list("assertionMethod", multi.collect());
}
