//! `GET /api/v1/directory`: people who want to be found.

use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;
use weir_community::accounts::{self, DirectoryPage};
use weir_http::Query;

use crate::auth::{AnyScope, Reader};
use crate::{Error, Face, Paging, entities};

/// Which of them.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Wanted {
    order: String,
    local: bool,
}

/// The people.
pub async fn get(
    State(face): State<Face>,
    _: Reader<AnyScope>,
    Query(wanted): Query<Wanted>,
    paging: Paging,
) -> Result<Response, Error> {
    let limit = paging.limit(40, 80);
    let newest = wanted.order == "new";
    let page = DirectoryPage { local: wanted.local, newest, offset: paging.offset(), limit };
    let found = face.read(move |tx, env| {
        let found = accounts::directory(tx, page)?;
        entities::accounts(tx, env, &found)
    });
    let found = found.await?;
    let more = found.len() >= limit;
    Ok(paging.answer_offset(&face, found, more))
}
