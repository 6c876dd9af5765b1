//! `GET /api/v1/custom_emojis`: the emoji of this server.

use axum::Json;
use axum::extract::State;

use crate::entities::{self, CustomEmoji};
use crate::{Error, Face};

/// The emoji.
pub async fn get(State(face): State<Face>) -> Result<Json<Vec<CustomEmoji>>, Error> {
    Ok(Json(face.read(entities::local_emojis).await?))
}
