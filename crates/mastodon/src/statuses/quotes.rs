//! `GET /api/v1/statuses/:id/quotes`: posts here cannot be quoted.

use axum::Json;
use axum::extract::State;
use weir_community::statuses;

use crate::auth::{ReadStatuses, Reader};
use crate::{At, Error, Face};

/// Nothing quotes the post.
pub async fn get(
    State(face): State<Face>,
    reader: Reader<ReadStatuses>,
    At(id): At,
) -> Result<Json<[(); 0]>, Error> {
    let reader = reader.id;
    face.read(move |tx, _| statuses::visible_post(tx, reader, id)).await?;
    Ok(Json([]))
}
