//! `GET /api/v1/statuses/:id` and `GET /api/v1/statuses`

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use weir_base::Id;
use weir_community::statuses;
use weir_http::Query;

use crate::auth::{ReadStatuses, Reader};
use crate::entities::{self, Status};
use crate::{At, Error, Face};

/// Posts one request may ask for.
const MANY_MAX: usize = 40;

/// One post.
pub async fn one(
    State(face): State<Face>,
    reader: Reader<ReadStatuses>,
    At(id): At,
) -> Result<Json<Status>, Error> {
    let reader = reader.id;
    let status = face.read(move |tx, env| {
        let view = statuses::load_one(tx, env, reader, id)?;
        entities::status(tx, env, reader, &view)
    });
    Ok(Json(status.await?))
}

/// Which.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Which {
    id: Vec<Id>,
}

/// Several posts; those that are not there for the reader are left out.
pub async fn many(
    State(face): State<Face>,
    reader: Reader<ReadStatuses>,
    Query(Which { mut id }): Query<Which>,
) -> Result<Json<Vec<Status>>, Error> {
    id.truncate(MANY_MAX);
    let reader = reader.id;
    let found = face.read(move |tx, env| {
        let views = statuses::load(tx, env, reader, &id)?;
        entities::statuses(tx, env, reader, &views)
    });
    Ok(Json(found.await?))
}

/// `GET /api/v1/statuses/:id/card`: the preview of what a post links to; no longer in use.
pub async fn card(
    State(face): State<Face>,
    reader: Reader<ReadStatuses>,
    At(id): At,
) -> Result<Json<serde_json::Value>, Error> {
    let reader = reader.id;
    let view = face.read(move |tx, env| statuses::load_one(tx, env, reader, id)).await?;
    let card = view.post().card.as_ref().map(|card| entities::PreviewCard::of(face.env(), card));
    Ok(Json(match card {
        Some(card) => serde_json::json!(card),
        None => serde_json::json!({}),
    }))
}
