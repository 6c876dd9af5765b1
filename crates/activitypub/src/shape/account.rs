//! Local accounts as actors.

use weir_community::accounts::{self, Account};
use weir_community::emojis::Emoji;
use weir_community::{Env, Error, media};
use weir_db::Tx;

use super::emoji;
use crate::wire::{Actor, ActorKind, Field, Key, KeyMaterial, Picture, Urls};

/// An account with everything its document needs.
#[derive(Debug, Clone)]
pub(crate) struct AccountShape {
    pub account: Account,
    emojis: Vec<Emoji>,
    moved_to: Option<String>,
}

impl AccountShape {
    /// Reads what the document of `account` needs.
    ///
    /// # Errors
    /// The database's.
    pub fn load(tx: &mut Tx, account: Account) -> Result<Self, Error> {
        let emojis = emoji::named(tx, texts(&account))?;
        let moved_to = match account.moved_to_id {
            Some(id) => accounts::by_ids(tx, &[id])?.pop().map(|account| account.uri),
            None => None,
        };
        Ok(Self { account, emojis, moved_to })
    }
}

fn texts(account: &Account) -> impl Iterator<Item = &str> {
    let fields = account.fields.0.iter().flat_map(|field| [&*field.name, &*field.value]);
    [&*account.display_name, &*account.note].into_iter().chain(fields)
}

/// The actor of a local account, with the public half of its key. Of a suspended one only what
/// lets others know it by is told.
pub(crate) fn actor(env: &Env, urls: &Urls, shape: &AccountShape, public_pem: &str) -> Actor {
    let account = &shape.account;
    let id = account.id;
    let uri = urls.actor(id);
    let kind = match account.kind.as_str() {
        "service" => ActorKind::Service,
        "group" => ActorKind::Group,
        "application" => ActorKind::Application,
        "organization" => ActorKind::Organization,
        _ => ActorKind::Person,
    };
    let key = Key {
        id: urls.key(id),
        owner: Some(uri.clone()),
        material: KeyMaterial::Pem(public_pem.to_owned()),
    };
    let bare = Actor {
        outbox: Some(urls.of_actor(id, "outbox")),
        followers: Some(urls.of_actor(id, "followers")),
        following: Some(urls.of_actor(id, "following")),
        shared_inbox: Some(urls.shared_inbox()),
        url: Some(urls.profile(&account.username)),
        keys: vec![key],
        manually_approves_followers: account.locked,
        understands_rfc9421: true,
        ..Actor::new(uri, kind, &account.username, urls.of_actor(id, "inbox"))
    };
    if account.suspended_at.is_some() {
        return Actor { suspended: true, ..bare };
    }
    let picture = |address: Option<String>, name: &str| {
        let url = address?.parse().ok()?;
        Some(Picture { url, media_type: None, name: said(name) })
    };
    let fields = account.fields.0.iter();
    Actor {
        name: Some(account.display_name.clone()).filter(|name| !name.is_empty()),
        summary: Some(account.note.clone()),
        featured: Some(urls.of_actor(id, "collections/featured")),
        featured_tags: Some(urls.of_actor(id, "collections/tags")),
        icon: picture(media::avatar_url(env, account), &account.avatar_description),
        image: picture(media::header_url(env, account), &account.header_description),
        discoverable: Some(account.discoverable),
        indexable: Some(account.indexable),
        memorial: account.memorial,
        published: Some(account.created_at),
        moved_to: shape.moved_to.as_ref().and_then(|uri| uri.parse().ok()),
        also_known_as: account.also_known_as.0.iter().filter_map(|uri| uri.parse().ok()).collect(),
        fields: fields
            .map(|field| Field { name: field.name.clone(), value: field.value.clone() })
            .collect(),
        tags: emoji::tags(env, &shape.emojis, texts(account)),
        ..bare
    }
}

fn said(text: &str) -> Option<String> {
    Some(text.to_owned()).filter(|text| !text.is_empty())
}
