//! `GET /api/v1/statuses/:id/history` and `…/source`

use axum::Json;
use axum::extract::State;
use weir_community::{Error as CommunityError, statuses};

use crate::auth::{Person, ReadStatuses, Reader};
use crate::entities::{self, StatusEdit, StatusSource};
use crate::{At, Error, Face};

/// The versions of a post, the first one first.
pub async fn history(
    State(face): State<Face>,
    reader: Reader<ReadStatuses>,
    At(id): At,
) -> Result<Json<Vec<StatusEdit>>, Error> {
    let reader = reader.id;
    let edits = face.read(move |tx, env| {
        let (view, versions) = statuses::history(tx, env, reader, id)?;
        entities::status_edits(tx, env, &view, &versions)
    });
    Ok(Json(edits.await?))
}

/// One's own post as it was written.
pub async fn source(
    State(face): State<Face>,
    person: Person<ReadStatuses>,
    At(id): At,
) -> Result<Json<StatusSource>, Error> {
    let by = person.id;
    let source = face.read(move |tx, _| {
        let status = statuses::visible_post(tx, Some(by), id)?;
        if status.account_id != by {
            return Err(CommunityError::Forbidden("This action is not allowed"));
        }
        Ok(StatusSource { id: status.id, text: status.source, spoiler_text: status.spoiler })
    });
    Ok(Json(source.await?))
}
