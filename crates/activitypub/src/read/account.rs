//! Accounts.

use weir_community::accounts::{Field, RemoteAccount, RemoteKey};
use weir_community::emojis::RemoteEmoji;

use crate::signature::key::PublicKey;
use crate::wire::{Actor, ActorKind, Key, KeyMaterial, Tag, Uri};

/// An account as `domain` names it.
pub(crate) fn account(actor: &Actor, domain: &str) -> RemoteAccount {
    let text = |uri: &Option<Uri>| uri.as_ref().map(ToString::to_string).unwrap_or_default();
    let picture = |picture: &Option<crate::wire::Picture>| {
        picture.as_ref().map(|picture| picture.url.to_string()).unwrap_or_default()
    };
    RemoteAccount {
        uri: actor.id.to_string(),
        username: actor.username.clone(),
        domain: domain.to_owned(),
        url: text(&actor.url),
        kind: kind(actor.kind).to_owned(),
        display_name: actor.name.clone().unwrap_or_default(),
        note: actor.summary.clone().unwrap_or_default(),
        fields: actor
            .fields
            .iter()
            .map(|field| Field {
                name: field.name.clone(),
                value: field.value.clone(),
                verified_at: None,
            })
            .collect(),
        avatar: picture(&actor.icon),
        header: picture(&actor.image),
        locked: actor.manually_approves_followers,
        discoverable: actor.discoverable.unwrap_or(false),
        indexable: actor.indexable.unwrap_or(false),
        memorial: actor.memorial,
        suspended: actor.suspended,
        also_known_as: actor.also_known_as.iter().map(ToString::to_string).collect(),
        moved_to: actor.moved_to.as_ref().map(ToString::to_string),
        inbox: actor.inbox.to_string(),
        shared_inbox: text(&actor.shared_inbox),
        outbox: text(&actor.outbox),
        followers_uri: text(&actor.followers),
        following_uri: text(&actor.following),
        featured_uri: text(&actor.featured),
        created_at: actor.published,
        keys: actor.keys.iter().filter_map(|key| self::key(actor, key)).collect(),
        emojis: emojis(&actor.tags),
    }
}

fn kind(kind: ActorKind) -> &'static str {
    match kind {
        ActorKind::Person => "person",
        ActorKind::Service => "service",
        ActorKind::Group => "group",
        ActorKind::Application => "application",
        ActorKind::Organization => "organization",
    }
}

/// A key that the actor may give: its own, at its own host, of a kind that is known here.
fn key(actor: &Actor, key: &Key) -> Option<RemoteKey> {
    let owned = key.owner.as_ref().is_none_or(|owner| *owner == actor.id);
    if !owned || !key.id.is_of_same_host(&actor.id) {
        return None;
    }
    let (public, algorithm) = match &key.material {
        KeyMaterial::Pem(pem) => (PublicKey::from_pem(pem).ok()?, "rsa"),
        KeyMaterial::Multibase(text) => (PublicKey::from_multibase(text).ok()?, "ed25519"),
    };
    let algorithm = if public.to_multibase().is_some() { "ed25519" } else { algorithm };
    Some(RemoteKey {
        key_id: key.id.to_string(),
        algorithm: algorithm.to_owned(),
        public_pem: public.to_pem(),
    })
}

/// The emoji among what a text names.
pub(super) fn emojis(tags: &[Tag]) -> Vec<RemoteEmoji> {
    tags.iter()
        .filter_map(|tag| match tag {
            Tag::Emoji { shortcode, url, id, updated, .. } => Some(RemoteEmoji {
                shortcode: shortcode.clone(),
                uri: id.as_ref().map(ToString::to_string).unwrap_or_default(),
                image_url: url.to_string(),
                updated_at: *updated,
            }),
            _ => None,
        })
        .collect()
}
