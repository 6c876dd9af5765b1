//! `GET /actor`: the server itself, which fetches. Always readable without a signature, or two
//! servers that require signatures could never read each other's key.

use axum::extract::State;
use axum::response::Response;
use weir_community::accounts;

use super::answer::{self, Kept, Refusal};
use super::page;
use crate::ActivityPub;
use crate::wire::{Actor, ActorKind, Collection, Key, KeyMaterial, write};

/// The document of the server's own account.
pub async fn get(State(face): State<ActivityPub>) -> Result<Response, Refusal> {
    document(&face).await
}

/// Sends it.
pub async fn document(face: &ActivityPub) -> Result<Response, Refusal> {
    let key = face.keys().of_instance().await?;
    let (env, urls) = (face.community().env(), face.urls());
    let id = urls.instance_actor();
    let name = accounts::instance_actor_name(env);
    let key = Key {
        id: urls.instance_key(),
        owner: Some(id.clone()),
        material: KeyMaterial::Pem(key.public_pem),
    };
    let actor = Actor {
        shared_inbox: Some(urls.shared_inbox()),
        outbox: Some(urls.at("actor/outbox")),
        url: Some(urls.at("about")),
        manually_approves_followers: true,
        keys: vec![key],
        understands_rfc9421: true,
        ..Actor::new(id, ActorKind::Application, &name, urls.at("actor/inbox"))
    };
    Ok(answer::activity(Kept::ByAll, &write::actor(&actor)))
}

/// `GET /actor/outbox`: the server itself says nothing in public.
pub async fn outbox(State(face): State<ActivityPub>) -> Response {
    let id = Some(face.urls().at("actor/outbox"));
    let empty = Collection { id, ordered: true, total_items: Some(0), ..Collection::default() };
    page::send(Kept::ByAll, &empty)
}
