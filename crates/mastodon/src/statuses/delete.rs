//! `DELETE /api/v1/statuses/:id`

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use weir_community::statuses;
use weir_http::Query;

use crate::auth::{Person, WriteStatuses};
use crate::entities::{self, Status};
use crate::{At, Error, Face};

/// What becomes of the media.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Deletion {
    delete_media: bool,
}

/// Deletes one's own post, and gives back what it was, with its text, so that it can be written
/// anew.
pub async fn delete(
    State(face): State<Face>,
    person: Person<WriteStatuses>,
    At(id): At,
    Query(deletion): Query<Deletion>,
) -> Result<Json<Status>, Error> {
    let by = person.id;
    let deleted = face.write(move |tx, env| {
        let view = statuses::load_one(tx, env, Some(by), id)?;
        let mut status = entities::status(tx, env, Some(by), &view)?;
        status.text = Some(view.status.source.clone());
        statuses::delete(tx, env, by, id)?;
        if deletion.delete_media {
            for media in &view.media {
                weir_community::media::delete(tx, env, by, media.id)?;
            }
        }
        Ok(status)
    });
    Ok(Json(deleted.await?))
}
