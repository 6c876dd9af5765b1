//! `GET /api/v1/statuses/:id/reblogged_by` and `…/favourited_by`

use axum::extract::State;
use axum::response::Response;
use weir_base::Id;
use weir_community::relationships::Relation;
use weir_community::statuses;

use crate::accounts::related::accounts_page;
use crate::auth::{ReadStatuses, Reader};
use crate::{At, Error, Face, Paging};

/// Who boosted the post.
pub async fn reblogged_by(
    State(face): State<Face>,
    reader: Reader<ReadStatuses>,
    At(id): At,
    paging: Paging,
) -> Result<Response, Error> {
    list(&face, reader.id, id, Relation::Boosting, paging).await
}

/// Who favourited the post.
pub async fn favourited_by(
    State(face): State<Face>,
    reader: Reader<ReadStatuses>,
    At(id): At,
    paging: Paging,
) -> Result<Response, Error> {
    list(&face, reader.id, id, Relation::Favouriting, paging).await
}

async fn list(
    face: &Face,
    reader: Option<Id>,
    id: Id,
    relation: fn(Id) -> Relation,
    paging: Paging,
) -> Result<Response, Error> {
    let range = paging.accounts();
    let page = face.read(move |tx, env| {
        let post = statuses::visible_post(tx, reader, id)?;
        accounts_page(tx, env, reader, relation(post.id), range)
    });
    Ok(paging.answer(face, page.await?))
}
