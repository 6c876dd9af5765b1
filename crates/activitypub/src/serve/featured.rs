//! `GET /ap/users/ID/collections/featured`: the posts a person pinned that everybody may see.

use axum::extract::{Path, State};
use axum::response::Response;
use weir_community::statuses;
use weir_db::{Class, Tx};

use super::account::find_shown;
use super::answer::Refusal;
use super::page;
use super::reader::Reader;
use crate::ActivityPub;
use crate::shape;
use crate::wire::{Collection, Object, ObjectRef};

/// The collection.
pub async fn get(
    State(face): State<ActivityPub>,
    Path(account): Path<String>,
    reader: Reader,
) -> Result<Response, Refusal> {
    let of = find_shown(&face, &account).await?.id;
    let kept = reader.of_public(&face).await?;
    let read = face.community().read(Class::Interactive, move |tx: &mut Tx, env| {
        let views = statuses::pinned(tx, env, None, of)?;
        shape::loaded(tx, views)
    });
    let loaded = read.await?;
    let (env, urls) = (face.community().env(), face.urls());
    let posts = loaded.views.iter().filter_map(|view| shape::post(env, urls, &loaded, view));
    let items: Vec<ObjectRef> = posts.map(|post| Object::Post(Box::new(post)).into()).collect();
    let collection = Collection {
        id: Some(urls.of_actor(of, "collections/featured")),
        ordered: true,
        total_items: Some(items.len() as u64),
        items,
        ..Collection::default()
    };
    Ok(page::send(kept, &collection))
}
