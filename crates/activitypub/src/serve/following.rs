//! `GET /ap/users/ID/following`: whom a person follows; only their number where the person hides
//! them.

use axum::extract::{Path, Query, State};
use axum::response::Response;
use weir_community::relationships;

use super::account::find_shown;
use super::answer::Refusal;
use super::page::{ACCOUNTS_PER_PAGE, Paged, Paging};
use super::reader::Reader;
use crate::ActivityPub;
use crate::serve::people;

/// The collection, or a page of it.
pub async fn get(
    State(face): State<ActivityPub>,
    Path(account): Path<String>,
    Query(paging): Query<Paging>,
    reader: Reader,
) -> Result<Response, Refusal> {
    let account = find_shown(&face, &account).await?;
    let kept = reader.of_public(&face).await?;
    let of = account.id;
    let id = face.urls().of_actor(of, "following");
    let paged = Paged { id, total: account.following_count };
    let Some(before) = paging.before().filter(|_| !account.hide_collections) else {
        return Ok(paged.head(kept, face.urls(), !account.hide_collections));
    };
    let page = people::page(&face, move |tx| {
        relationships::following_ids(tx, of, before, ACCOUNTS_PER_PAGE)
    });
    let (items, next) = page.await?;
    Ok(paged.page(kept, face.urls(), before, items, next))
}
