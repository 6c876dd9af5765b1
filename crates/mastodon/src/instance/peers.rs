//! `GET /api/v1/instance/peers` and `GET /api/v1/peers/search`: other servers known here.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use weir_community::instance;
use weir_http::Query;

use crate::{Error, Face};

/// Servers told at once.
const PEERS_MAX: usize = 20_000;
/// Servers found at once.
const FOUND_MAX: usize = 10;

/// All of them.
pub async fn get(State(face): State<Face>) -> Result<Json<Vec<String>>, Error> {
    Ok(Json(face.read(|tx, _| instance::peers(tx, "", PEERS_MAX)).await?))
}

/// What is looked for.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Wanted {
    q: String,
}

/// Those whose names begin so.
pub async fn search(
    State(face): State<Face>,
    Query(wanted): Query<Wanted>,
) -> Result<Json<Vec<String>>, Error> {
    if wanted.q.trim().is_empty() {
        return Ok(Json(Vec::new()));
    }
    Ok(Json(face.read(move |tx, _| instance::peers(tx, &wanted.q, FOUND_MAX)).await?))
}
