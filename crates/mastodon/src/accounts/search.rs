//! `GET /api/v1/accounts/search`: people by their names.

use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;
use weir_community::federation;
use weir_community::search::{self, PeopleSearch};
use weir_http::Query;

use crate::auth::{Person, ReadAccounts};
use crate::{Error, Face, Paging, entities};

/// What is looked for.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Wanted {
    q: String,
    following: bool,
    resolve: bool,
}

/// People whose names fit; with `resolve`, an address of another server is looked up there.
pub async fn get(
    State(face): State<Face>,
    person: Person<ReadAccounts>,
    Query(wanted): Query<Wanted>,
    paging: Paging,
) -> Result<Response, Error> {
    let (by, limit) = (person.id, paging.limit(40, 80));
    if wanted.resolve && paging.offset() == 0 {
        federation::meet(&face.community, &*face.resolver, &wanted.q).await?;
    }
    let search = PeopleSearch {
        query: wanted.q,
        following: wanted.following,
        limit,
        offset: paging.offset(),
    };
    let found = face.read(move |tx, env| {
        let found = search::people(tx, env, Some(by), &search)?;
        entities::accounts(tx, env, &found)
    });
    let found = found.await?;
    let more = found.len() >= limit;
    Ok(paging.answer_offset(&face, found, more))
}
