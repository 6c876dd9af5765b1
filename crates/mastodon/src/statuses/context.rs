//! `GET /api/v1/statuses/:id/context`: what stands around a post.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use weir_community::{federation, statuses};

use crate::auth::{ReadStatuses, Reader};
use crate::entities::{self, Status};
use crate::{At, Error, Face};

/// What stands around a post.
#[derive(Debug, Serialize)]
pub struct Context {
    ancestors: Vec<Status>,
    descendants: Vec<Status>,
}

/// What the post answers, and what answers it.
pub async fn get(
    State(face): State<Face>,
    reader: Reader<ReadStatuses>,
    At(id): At,
) -> Result<Json<Context>, Error> {
    let reader = reader.id;
    let context = face.read(move |tx, env| {
        let thread = statuses::thread(tx, env, reader, id)?;
        Ok(Context {
            ancestors: entities::statuses(tx, env, reader, &thread.ancestors)?,
            descendants: entities::statuses(tx, env, reader, &thread.descendants)?,
        })
    });
    let context = context.await?;
    if reader.is_some() && face.env().threads_opened.is_due(id) {
        face.write(move |tx, env| federation::opened(tx, env, id)).await?;
    }
    Ok(Json(context))
}
