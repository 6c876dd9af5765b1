//! `GET /ap/users/ID/collections/tags`: the hashtags a person shows on the profile.

use axum::extract::{Path, State};
use axum::response::Response;
use serde_json::json;
use weir_community::tags;
use weir_db::{Class, Tx};

use super::account::find_shown;
use super::answer::{self, Refusal};
use super::reader::Reader;
use crate::ActivityPub;

/// The collection.
pub async fn get(
    State(face): State<ActivityPub>,
    Path(account): Path<String>,
    reader: Reader,
) -> Result<Response, Refusal> {
    let account = find_shown(&face, &account).await?;
    let kept = reader.of_public(&face).await?;
    let of = account.id;
    let read =
        face.community().read(Class::Interactive, move |tx: &mut Tx, _| tags::featured(tx, of));
    let featured = read.await?;
    let profile = face.urls().profile(&account.username);
    let items: Vec<_> = featured
        .iter()
        .map(|featured| {
            let name = &featured.tag.name;
            json!({
                "type": "Hashtag",
                "href": format!("{profile}/tagged/{name}"),
                "name": format!("#{}", featured.tag.display),
            })
        })
        .collect();
    let document = json!({
        "@context": [
            "https://www.w3.org/ns/activitystreams",
            { "Hashtag": "as:Hashtag" },
        ],
        "id": face.urls().of_actor(of, "collections/tags").as_str(),
        "type": "Collection",
        "totalItems": items.len(),
        "items": items,
    });
    Ok(answer::activity(kept, &document))
}
